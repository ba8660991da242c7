//! Initial states that a log does not have.
//!
//! Some tools load a database before they record, and keep what they loaded to themselves. Then a
//! value that is read and that no transaction of the log wrote is the one that was loaded. One
//! object has one initial value: if reads show several such values, the one that a committed
//! transaction read first is it, and the others stay values that nobody wrote.

use hashbrown::{HashMap, HashSet};
use margay_history::{HistoryBuilder, Invalid, ObjectId, Outcome, ValueId};

/// What is read and written of the objects of a log.
#[derive(Default)]
pub(crate) struct Unwritten {
    written: HashSet<(ObjectId, ValueId)>,
    /// Reads in their order; whether the reader committed.
    read: Vec<(ObjectId, ValueId, bool)>,
    assumed: usize,
}

impl Unwritten {
    pub fn write(&mut self, object: ObjectId, value: ValueId) {
        self.written.insert((object, value));
    }

    pub fn read(&mut self, object: ObjectId, value: ValueId, outcome: Outcome) {
        if value != ValueId::NULL && value != ValueId::UNKNOWN {
            self.read.push((object, value, outcome == Outcome::Committed));
        }
    }

    /// Gives objects the initial values that reads show.
    pub fn initialise(&mut self, builder: &mut HistoryBuilder) -> Result<(), Invalid> {
        let mut initial: HashMap<ObjectId, (ValueId, bool)> = HashMap::new();
        let mut order = Vec::new();
        for &(object, value, committed) in &self.read {
            if self.written.contains(&(object, value)) {
                continue;
            }
            let known = initial.entry(object).or_insert_with(|| {
                order.push(object);
                (value, committed)
            });
            if committed && !known.1 {
                *known = (value, true);
            }
        }
        self.assumed = order.len();
        order.into_iter().try_for_each(|object| builder.initial(object, initial[&object].0))
    }

    /// What to say of it, if anything was assumed.
    pub fn warning(&self) -> Option<String> {
        let count = self.assumed;
        (count > 0).then(|| {
            format!(
                "the log has no initial state: values of {count} objects that were read and that no transaction wrote are taken for it"
            )
        })
    }
}
