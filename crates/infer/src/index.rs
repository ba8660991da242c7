//! Who wrote what: writers by object and value, appenders by object and element.
//!
//! # Cost
//! One pass over the history, a table of the values written to registers, and one hash entry for
//! each element appended.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, Value, ValueId};
use margay_verdict::Budget;
use margay_verdict::last_writes::{LastWrite, LastWriter, LastWrites};

use crate::case::Stop;

/// How an object is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// By nobody.
    Unwritten,
    /// Whole.
    Register,
    /// By appends only.
    List,
}

/// Who appended an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Append {
    pub(crate) txn: TxnId,
    /// Its place among what the transaction appended to the object.
    pub(crate) place: u32,
}

/// Who wrote what.
pub(crate) struct Index {
    pub(crate) uses: Vec<Use>,
    /// What those that may have committed leave in registers.
    finals: LastWrites,
    appends: HashMap<u64, Append>,
    /// How much a transaction appended to a list.
    counts: HashMap<u64, u32>,
    /// Who may have committed and writes what, by transaction; for a list as often as it appends.
    pub(crate) writers: Vec<(ObjectId, TxnId)>,
    /// What those leave in registers, if there are scans to ask for it.
    pub(crate) last_writes: Vec<LastWrite>,
}

/// Absent and the empty list are one value.
pub(crate) fn plain(history: &History, value: ValueId) -> ValueId {
    match value.small_int() {
        None if matches!(history.value(value), Value::List([])) => ValueId::NULL,
        _ => value,
    }
}

/// The elements that a list has at first.
pub(crate) fn initial_items(history: &History, object: ObjectId) -> &[ValueId] {
    match history.value(history.initial(object)) {
        Value::List(items) => items,
        _ => &[],
    }
}

fn key(object: ObjectId, other: u32) -> u64 {
    u64::from(object.0) << 32 | u64::from(other)
}

impl Index {
    /// # Errors
    /// What of the history is outside the engine's fragment, or the limit that was reached.
    pub(crate) fn new(history: &History, budget: &Budget) -> Result<Self, Stop> {
        let mut index = Self {
            uses: vec![Use::Unwritten; history.object_count()],
            finals: LastWrites::of(0, &[]),
            appends: HashMap::new(),
            counts: HashMap::new(),
            writers: Vec::new(),
            last_writes: Vec::new(),
        };
        let writes = history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind == OpKind::Write);
        let mut finals: Vec<LastWrite> = Vec::with_capacity(writes.map(|op| op.accesses.len()).sum());
        index.writers.reserve(finals.capacity());
        for txn in history.txns() {
            budget.poll()?;
            let start = finals.len();
            index.add(history, txn, &mut finals)?;
            index.writers.extend(finals[start..].iter().map(|write| (write.0, txn)));
        }
        if history.has_kind(OpKind::Scan) {
            index.last_writes.clone_from(&finals);
        }
        finals.iter_mut().for_each(|write| write.1 = plain(history, write.1));
        index.finals = LastWrites::of(history.object_count(), &finals);
        Ok(index)
    }

    /// Adds what a transaction writes; to `finals` what it writes last to each register.
    fn add(&mut self, history: &History, txn: TxnId, finals: &mut Vec<LastWrite>) -> Result<(), String> {
        let start = finals.len();
        let lives = history.outcome(txn) != Outcome::Aborted;
        for op in history.ops(txn).filter(|op| op.kind.writes()) {
            for access in op.accesses {
                self.settle(history, access.object, op.kind)?;
                if op.kind == OpKind::Append {
                    self.append(history, txn, access.object, access.value)?;
                    if lives {
                        self.writers.push((access.object, txn));
                    }
                } else if lives {
                    finals.push((access.object, access.value, txn));
                }
            }
        }
        keep_last(finals, start);
        Ok(())
    }

    fn settle(&mut self, history: &History, object: ObjectId, kind: OpKind) -> Result<(), String> {
        let wanted = if kind == OpKind::Append { Use::List } else { Use::Register };
        let found = &mut self.uses[object.index()];
        if *found == Use::Unwritten {
            *found = wanted;
            let initial = history.initial(object);
            let list = initial == ValueId::NULL || matches!(history.value(initial), Value::List(_));
            if wanted == Use::List && !list {
                return Err(format!("{} is appended to, and no list at first", history.show_object(object)));
            }
        }
        match *found == wanted {
            true => Ok(()),
            false => Err(format!("{} is both written and appended to", history.show_object(object))),
        }
    }

    fn append(
        &mut self,
        history: &History,
        txn: TxnId,
        object: ObjectId,
        element: ValueId,
    ) -> Result<(), String> {
        let count = self.counts.entry(key(object, txn.0)).or_default();
        let append = Append { txn, place: *count };
        *count += 1;
        if initial_items(history, object).contains(&element) {
            return Err(format!(
                "{} is appended to {}, which has it at first",
                history.show_value(element),
                history.show_object(object)
            ));
        }
        match self.appends.insert(key(object, element.0), append) {
            None => Ok(()),
            Some(_) => Err(format!(
                "{} is appended twice to {}",
                history.show_value(element),
                history.show_object(object)
            )),
        }
    }

    /// Forgets who wrote what, once every read has been looked up.
    pub(crate) fn forget_writers(&mut self) {
        self.finals = LastWrites::of(0, &[]);
        self.writers = Vec::new();
    }

    /// Who left `value` in a register.
    pub(crate) fn last_writer(&self, history: &History, object: ObjectId, value: ValueId) -> LastWriter {
        self.finals.writer(object, plain(history, value))
    }

    /// Who appended an element.
    pub(crate) fn appender(&self, object: ObjectId, element: ValueId) -> Option<Append> {
        self.appends.get(&key(object, element.0)).copied()
    }

    /// How much a transaction appended to a list.
    pub(crate) fn appended(&self, object: ObjectId, txn: TxnId) -> u32 {
        self.counts.get(&key(object, txn.0)).copied().unwrap_or(0)
    }
}

/// Of the writes since `start`, keeps the last of each object, sorted by object.
fn keep_last(writes: &mut Vec<LastWrite>, start: usize) {
    let own = &mut writes[start..];
    if own.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    own.reverse();
    own.sort_by_key(|write| write.0);
    let mut kept = start;
    for place in start..writes.len() {
        if kept == start || writes[kept - 1].0 != writes[place].0 {
            writes[kept] = writes[place];
            kept += 1;
        }
    }
    writes.truncate(kept);
}
