//! Transactions of unknown outcome: who of them may write an object.
//!
//! # Problem
//! Such a transaction may take effect at any later moment, or never, so it stays possible to the end of the history.
//! Looking at all of them at every step would cost the square of the history.
//!
//! # Design
//! They are looked up by what they may write. The search asks when a committed transaction finds an object in its
//! way, and tries all of them only when nothing else is left.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpKind, TableId, TxnId};

/// Places of the calendar, by what the transactions there may write.
#[derive(Default)]
pub(crate) struct Unknowns {
    all: Vec<u32>,
    by_object: HashMap<ObjectId, Vec<u32>>,
    /// Conditions may concern any row of their table.
    by_table: HashMap<TableId, Vec<u32>>,
    /// SQL statements may write anything.
    anywhere: Vec<u32>,
}

impl Unknowns {
    /// Adds the transaction at a place.
    pub fn add(&mut self, history: &History, place: u32, txn: TxnId) {
        self.all.push(place);
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

    /// All of them, by their start.
    pub fn all(&self) -> &[u32] {
        &self.all
    }

    /// Those that may write an object.
    pub fn writing(&self, history: &History, object: ObjectId) -> impl Iterator<Item = u32> + '_ {
        let own = self.by_object.get(&object);
        let table = history.object(object).table.and_then(|table| self.by_table.get(&table));
        own.into_iter().chain(table).flatten().chain(&self.anywhere).copied()
    }
}

fn enter(places: &mut Vec<u32>, place: u32) {
    if places.last() != Some(&place) {
        places.push(place);
    }
}
