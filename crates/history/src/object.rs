//! Objects and their interner.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::ids::{ObjectId, TableId, ValueId};

/// An object: a key of a key-value store, or a row of a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Object {
    /// The table, for a row.
    pub table: Option<TableId>,
    /// The key: a scalar, or a list for a key of several columns.
    pub key: ValueId,
}

impl Object {
    /// The object as one number, which is quick to hash.
    fn code(self) -> u64 {
        let table = self.table.map_or(0, |table| u64::from(table.0) + 1);
        table << 32 | u64::from(self.key.0)
    }
}

/// The table of interned objects.
#[derive(Clone, Default, Debug)]
pub struct Objects {
    all: Vec<Object>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Objects {
    /// What `id` stands for.
    #[inline]
    #[must_use]
    pub fn get(&self, id: ObjectId) -> Object {
        self.all[id.index()]
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The id of `object`.
    pub fn intern(&mut self, object: Object) -> ObjectId {
        let hash = self.hasher.hash_one(object.code());
        if let Some(&found) = self.index.find(hash, |&i| self.all[i as usize] == object) {
            return ObjectId(found);
        }
        let id = ObjectId::at(self.all.len());
        self.all.push(object);
        let (all, hasher) = (&self.all, &self.hasher);
        self.index.insert_unique(hash, id.0, |&i| hasher.hash_one(all[i as usize].code()));
        id
    }

    pub(crate) fn finish(&mut self) {
        self.index = HashTable::new();
        self.all.shrink_to_fit();
    }

    /// The same objects with the same ids, ready to intern more.
    pub(crate) fn reopened(&self) -> Self {
        let mut objects = Self { hasher: self.hasher.clone(), ..Self::default() };
        self.all.iter().for_each(|&object| {
            objects.intern(object);
        });
        objects
    }

    pub(crate) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Object>()
    }
}
