//! What is remembered of all objects, in shards.
//!
//! # Invariants
//! An object is in one shard, by its number.

use margay_history::{ObjectId, ValueId};
use margay_mechanisms::Searches;

use crate::record::Record;
use crate::shard::{self, Shard};

#[derive(Debug)]
pub(crate) struct Store {
    pub shards: Vec<Shard>,
}

impl Default for Store {
    fn default() -> Self {
        Self { shards: vec![Shard::new(0, 1)] }
    }
}

impl Store {
    /// Shares the objects out among so many shards.
    pub fn split(&mut self, count: usize, searches: &Searches) {
        let shards = (0..count as u32).map(|place| Shard::new(place, count as u32)).collect();
        for shard in std::mem::replace(&mut self.shards, shards) {
            for (object, record) in shard.into_records() {
                *self.shard(object).record(object, searches) = record;
            }
        }
        self.shards.iter_mut().for_each(|shard| shard.enroll(searches));
    }

    /// Sets the initial value of an object.
    pub fn initial(&mut self, object: ObjectId, value: ValueId, searches: &Searches) {
        let shard = self.shard(object);
        shard.record(object, searches).versions = Record::of(value).versions;
        shard.enroll(searches);
        // They are made again when the next search asks for them.
        shard.drop_indices();
    }

    fn shard(&mut self, object: ObjectId) -> &mut Shard {
        let place = shard::place(object, self.shards.len() as u32) as usize;
        &mut self.shards[place]
    }

    /// What is known of an object.
    pub fn get(&self, object: ObjectId) -> &Record {
        self.shards[shard::place(object, self.shards.len() as u32) as usize].get(object)
    }

    /// How many entries the indices have.
    pub fn indexed(&self) -> usize {
        self.shards.iter().map(Shard::indexed).sum()
    }

    /// How many versions, readers and locks there are.
    pub fn len(&self) -> (usize, usize, usize) {
        let tables = self.shards.iter().flat_map(|shard| shard.tables.values());
        let of_tables = tables.fold((0, 0, 0), |sum, table| {
            (sum.0, sum.1 + table.searchers.len(), sum.2 + table.regions.len())
        });
        self.shards.iter().flat_map(Shard::records).fold(of_tables, |sum, record| {
            (sum.0 + record.versions.len(), sum.1 + record.readers.len(), sum.2 + record.held.len())
        })
    }
}
