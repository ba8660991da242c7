//! What a shard remembers of a table.
//!
//! # Invariants
//! Rows and locks of writes are those of the shard's own objects. Searches, what they locked, and
//! writes that nobody saw are in every shard: each meets them with its own rows.

use hashbrown::HashMap;
use margay_history::{ObjectId, OpId, PredicateId, TableId, TxnId};
use margay_mechanisms::{Fact, World};

use crate::log::Log;
use crate::record::Held;
use crate::rows::Rows;
use crate::searched::Searchers;
use crate::shard::Shard;

/// The lock of a search that has ended: nobody else makes a row match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub txn: TxnId,
    pub op: OpId,
    pub by: i64,
    pub until: i64,
    pub predicate: PredicateId,
    /// Whether it is the search of an update.
    pub update: bool,
}

/// The rows of a table that are known, and who searched it.
#[derive(Default, Debug)]
pub(crate) struct Table {
    pub objects: Rows,
    pub regions: Vec<Region>,
    /// Locks of writes, where searches lock what they searched.
    pub entries: Entries,
    /// Searches that a row may still come to match.
    pub searchers: Searchers,
    pub unseen: Log,
}

/// Locks of writes, until the horizon has passed them.
#[derive(Default, Debug)]
pub(crate) struct Entries {
    all: Vec<(ObjectId, Held)>,
    /// How many were left when they were last looked through.
    left: usize,
}

impl Entries {
    pub fn push(&mut self, object: ObjectId, lock: Held, horizon: i64) {
        if self.all.len() > 2 * self.left + 16 {
            self.all.retain(|(_, old)| old.until >= horizon);
            self.left = self.all.len();
        }
        self.all.push((object, lock));
    }

    pub fn iter(&self) -> impl Iterator<Item = &(ObjectId, Held)> {
        self.all.iter()
    }
}

pub(crate) type Tables = HashMap<TableId, Table>;

impl Shard {
    /// The known rows of which a version may match a condition, for which [`Shard::prepare`] was
    /// called, in the order of their numbers.
    pub fn may_match(&self, predicate: PredicateId, world: World<'_>) -> Vec<ObjectId> {
        let searches = world.searches;
        let Some(table) = searches.searched(predicate) else { return Vec::new() };
        if let Some((column, range)) = searches.compared(predicate) {
            return self.within((table, column), range, world);
        }
        let rows = self.tables.get(&table);
        let span = searches.span(predicate);
        let mut all: Vec<ObjectId> = rows.into_iter().flat_map(|rows| rows.objects.within(span)).collect();
        all.sort_unstable();
        all
    }

    /// Puts the rows of the table that a condition searches in the order that it asks for.
    pub fn prepare(&mut self, predicate: PredicateId, World { values, searches }: World<'_>) {
        let Some(table) = searches.searched(predicate) else { return };
        if let Some((column, _)) = searches.compared(predicate) {
            self.index((table, column), searches, values);
        } else if let Some(table) = self.tables.get_mut(&table) {
            table.objects.sort(searches, values);
        }
    }

    /// What others than `me` may have deleted of an object without that anybody saw it.
    pub fn deletions<'a>(
        &'a self,
        of: (ObjectId, TxnId),
        world: World<'a>,
    ) -> impl Iterator<Item = &'a Fact> {
        deletions(&self.tables, &self.everywhere, of, world)
    }
}

/// What others than `me` may have deleted of an object without that anybody saw it.
pub(crate) fn deletions<'a>(
    tables: &'a Tables,
    everywhere: &'a Log,
    (object, me): (ObjectId, TxnId),
    world: World<'a>,
) -> impl Iterator<Item = &'a Fact> {
    let table = world.searches.table_of(object).and_then(|table| tables.get(&table));
    let logs = table.map(|table| &table.unseen).into_iter().chain([everywhere]);
    logs.flat_map(move |log| log.deletions((object, me), world.searches, world.values))
}
