//! What the ids of a history stand for, or those of one that is being built.

use crate::builder::HistoryBuilder;
use crate::history::History;
use crate::ids::{NameId, ObjectId, TableId, ValueId};
use crate::object::{Object, Objects};
use crate::table::Table;
use crate::value::{Value, Values};

/// What ids stand for.
#[derive(Clone, Copy, Debug)]
pub struct Names<'h> {
    /// The tables, by their ids.
    pub tables: &'h [Table],
    values: &'h Values,
    objects: &'h Objects,
}

impl History {
    /// What its ids stand for.
    #[must_use]
    pub fn names(&self) -> Names<'_> {
        Names { tables: &self.tables, values: &self.values, objects: &self.objects }
    }
}

impl HistoryBuilder {
    /// What the ids so far stand for.
    #[must_use]
    pub fn names(&self) -> Names<'_> {
        Names { tables: &self.tables, values: &self.values, objects: &self.objects }
    }
}

impl<'h> Names<'h> {
    /// A table.
    #[must_use]
    pub fn table(self, id: TableId) -> &'h Table {
        &self.tables[id.index()]
    }

    /// An object.
    #[must_use]
    pub fn object(self, id: ObjectId) -> Object {
        self.objects.get(id)
    }

    /// A value.
    #[must_use]
    pub fn value(self, id: ValueId) -> Value<'h> {
        self.values.get(id)
    }

    /// The name of a column.
    #[must_use]
    pub fn name(self, id: NameId) -> &'h str {
        self.values.name(id)
    }

    /// How many objects there are.
    #[must_use]
    pub fn object_count(self) -> usize {
        self.objects.len()
    }

    /// How many objects and values there are.
    #[must_use]
    pub fn count(self) -> usize {
        self.objects.len() + self.values.len()
    }
}
