//! What is remembered of all objects, in shards, and of tables.
//!
//! # Invariants
//! An object is in one shard, by its number. What belongs to several objects (the rows of a table, who
//! searched it, and writes that nobody saw) stays as it is while shards are at work, and is brought up to
//! date between.

use hashbrown::HashMap;
use margay_history::{ObjectId, OpId, PredicateId, TableId, TxnId, ValueId, Values};
use margay_mechanisms::{Fact, Searches, World};

use crate::log::{Entry, Log};
use crate::record::{Held, Record};
use crate::rows::Rows;
use crate::searched::Searchers;
use crate::shard::{self, Shard};

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
    objects: Rows,
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

#[derive(Debug)]
pub(crate) struct Store {
    pub shards: Vec<Shard>,
    pub tables: Tables,
    /// Unseen writes that may have touched anything.
    pub everywhere: Log,
    absent: Record,
}

impl Default for Store {
    fn default() -> Self {
        let absent = Record::of(ValueId::NULL);
        let shards = vec![Shard::new(0, 1)];
        Self { shards, tables: Tables::new(), everywhere: Log::default(), absent }
    }
}

impl Store {
    /// Shares the objects out among so many shards.
    pub fn split(&mut self, count: usize) {
        let shards = (0..count as u32).map(|place| Shard::new(place, count as u32)).collect();
        for shard in std::mem::replace(&mut self.shards, shards) {
            for (object, record) in shard.into_records() {
                let place = self.place(object);
                self.shards[place].insert(object, record);
            }
        }
    }

    /// Sets the initial value of an object.
    pub fn initial(&mut self, object: ObjectId, value: ValueId, searches: &Searches) {
        self.record(object, searches).versions = Record::of(value).versions;
        self.enroll(searches);
        // They are made again when the next search asks for them.
        self.shards.iter_mut().for_each(Shard::drop_indices);
    }

    fn place(&self, object: ObjectId) -> usize {
        shard::place(object, self.shards.len() as u32) as usize
    }

    fn record(&mut self, object: ObjectId, searches: &Searches) -> &mut Record {
        let place = self.place(object);
        self.shards[place].record(object, searches)
    }

    /// What is known of an object; nothing but that it was absent initially, if it was never touched.
    pub fn get(&self, object: ObjectId) -> &Record {
        self.shards[self.place(object)].get(object).unwrap_or(&self.absent)
    }

    /// What is known of a table.
    pub fn table(&mut self, table: TableId) -> &mut Table {
        self.tables.entry(table).or_default()
    }

    /// Tells the tables of the rows that came since the last time, in their order.
    pub fn enroll(&mut self, searches: &Searches) {
        let mut new: Vec<ObjectId> = self.shards.iter_mut().flat_map(Shard::take_new).collect();
        new.sort_unstable();
        for &object in &new {
            if let Some(table) = searches.table_of(object) {
                self.table(table).objects.push(object);
            }
        }
    }

    /// The known rows of which a version may match a condition, for which [`Store::prepare`] was called.
    pub fn may_match(&self, predicate: PredicateId, searches: &Searches) -> Vec<ObjectId> {
        let Some(table) = searches.searched(predicate) else { return Vec::new() };
        let Some((column, range)) = searches.compared(predicate) else {
            let rows = self.tables.get(&table);
            return rows.into_iter().flat_map(|rows| rows.objects.within(searches.span(predicate))).collect();
        };
        let shards = self.shards.iter();
        let mut all: Vec<ObjectId> = shards.flat_map(|shard| shard.within((table, column), range)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Puts the rows of the table that a condition searches in the order that it asks for.
    pub fn prepare(&mut self, predicate: PredicateId, searches: &Searches, values: &Values) {
        let Some(table) = searches.searched(predicate) else { return };
        if let Some((column, _)) = searches.compared(predicate) {
            self.shards.iter_mut().for_each(|shard| shard.index((table, column), searches, values));
        } else if let Some(table) = self.tables.get_mut(&table) {
            table.objects.sort(searches, values);
        }
    }

    /// Notes a write of which nobody saw what it changed in a table; without one, anywhere.
    pub fn note(&mut self, table: Option<TableId>, entry: Entry, horizon: i64) {
        match table {
            Some(table) => self.table(table).unseen.push(entry, horizon),
            None => self.everywhere.push(entry, horizon),
        }
    }

    /// Whether everything that was written was seen.
    pub fn saw_all(&self) -> bool {
        self.everywhere.len() == 0 && self.tables.values().all(|table| table.unseen.len() == 0)
    }

    /// Adds to an object what unseen writes may have made of it.
    pub fn catch_up(&mut self, object: ObjectId, horizon: i64, searches: &Searches, values: &Values) {
        let place = self.place(object);
        let Self { shards, tables, everywhere, .. } = self;
        shards[place].catch_up(object, tables, everywhere, (horizon, World { values, searches }));
        self.enroll(searches);
    }

    /// How many entries the indices have.
    pub fn indexed(&self) -> usize {
        self.shards.iter().map(Shard::indexed).sum()
    }

    /// How many versions, readers and locks there are.
    pub fn len(&self) -> (usize, usize, usize) {
        let of_tables = self.tables.values().fold((0, 0, 0), |sum, table| {
            (sum.0, sum.1 + table.searchers.len(), sum.2 + table.regions.len())
        });
        self.shards.iter().flat_map(Shard::records).fold(of_tables, |sum, record| {
            (sum.0 + record.versions.len(), sum.1 + record.readers.len(), sum.2 + record.held.len())
        })
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
