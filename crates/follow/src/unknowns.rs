//! Transactions of unknown outcome: who of them may write an object.
//!
//! # Problem
//! Such a transaction may take effect at any later moment, or never, so it stays possible to the
//! end of the history. Looking at all of them at every step would cost the square of the history.
//!
//! # Design
//! Few of them are open at a time: one no longer is once a later one of its session has taken
//! effect. The calendar keeps the open ones in a list. Here is what each of them may write, so that
//! the search tries those only that may write what is in somebody's way.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpKind, TableId, TxnId};

/// How many of those that may write an object a dead end looks at: the history may be long.
const LATELY: usize = 256;

/// Places of the calendar, by what the transactions there may write.
#[derive(Default)]
pub(crate) struct Unknowns {
    by_object: HashMap<ObjectId, Vec<u32>>,
    /// Conditions may concern any row of their table.
    by_table: HashMap<TableId, Vec<u32>>,
    /// SQL statements may write anything.
    anywhere: Vec<u32>,
}

impl Unknowns {
    /// Adds the transaction at a place, the earlier places first.
    pub fn add(&mut self, history: &History, place: u32, txn: TxnId) {
        for op in history.ops(txn) {
            match op.kind {
                OpKind::Write | OpKind::Append => {
                    op.accesses
                        .iter()
                        .for_each(|a| enter(self.by_object.entry(a.object).or_default(), place));
                }
                OpKind::Update => {
                    if let Some(update) = history.update(op.id) {
                        let table = history.predicate(update.predicate).table;
                        enter(self.by_table.entry(table).or_default(), place);
                    }
                }
                OpKind::Sql => enter(&mut self.anywhere, place),
                _ => {}
            }
        }
    }

    /// Whether one may write an object.
    pub fn may_write(&self, history: &History, place: u32, object: ObjectId) -> bool {
        self.lists(history, object).iter().any(|all| all.binary_search(&place).is_ok())
    }

    /// Those before a place that may write an object, as far as they are worth a look.
    pub fn lately_writing(
        &self,
        history: &History,
        object: ObjectId,
        place: u32,
    ) -> impl Iterator<Item = u32> + '_ {
        let lately = move |all: &'_ [u32]| {
            let until = all.partition_point(|&other| other < place);
            until.saturating_sub(LATELY)..until
        };
        self.lists(history, object).into_iter().flat_map(move |all| &all[lately(all)]).copied()
    }

    /// Lists of those that may write an object, each by start.
    fn lists(&self, history: &History, object: ObjectId) -> [&[u32]; 3] {
        let own = self.by_object.get(&object);
        let table = history.object(object).table.and_then(|table| self.by_table.get(&table));
        [own.map_or(&[][..], Vec::as_slice), table.map_or(&[][..], Vec::as_slice), &self.anywhere]
    }
}

fn enter(places: &mut Vec<u32>, place: u32) {
    if places.last() != Some(&place) {
        places.push(place);
    }
}
