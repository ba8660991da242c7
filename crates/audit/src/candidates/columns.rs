//! Which versions of one column an operation can have seen, where rows are written in part.
//!
//! # Mathematics
//! A version *writes* a column if it sets it, if it removes the row, if it replaces the row whole,
//! or if none of its columns is known. Setting every column that anybody sets is not replacing: a
//! column that nobody sets then has the writers that it has for engines, those who removed the row.
//! In any state a column then has a last writer, and the value that it holds is that writer's: NULL
//! where the row was removed. So every operation that looks at an object of others saw, in each
//! column that its own transaction has not written, one of the versions that write it.
//!
//! A row that is absent was removed by the last writer of each of its columns; if the last writer
//! of a column did anything else, the row is there.

use hashbrown::HashSet;
use margay_history::{NameId, ObjectId, Op, OpId, TxnId, Value, ValueId, Version};
use margay_verdict::cell::key_column;
use margay_verdict::{Cell, Field};

use super::{Candidates, Look, Object, Shape, ShapeRow};
use crate::Rejected;

/// What a version made of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    /// The row is gone.
    Absent,
    /// This value.
    Value(ValueId),
    /// Something that was computed and not seen, or something in a value that is no row.
    Unknown,
}

impl<'p> Candidates<'p> {
    /// The versions of `column` that an operation can have seen; `None` if it does not look at the
    /// object, or its own transaction had written the column.
    pub(crate) fn column_sight(
        &self,
        op: OpId,
        object: ObjectId,
        column: NameId,
    ) -> Result<Option<Vec<Version>>, Rejected> {
        self.known(object)?;
        let history = self.history();
        let Some(known) = self.objects.get(&object) else { return Ok(None) };
        let op = history.op(op);
        let own = self.own(known, object, op.id);
        let (Some(look), false) = (self.look(&op, object), self.is_own(object, own.as_ref(), column)) else {
            return Ok(None);
        };
        let me = Version::Of(history.txn_of(op.id));
        let sight = ColumnSight { all: self, object, column, look: &look, own: own.as_ref() };
        let fits = |(version, shape): &&(Version, Shape)| {
            *version != me
                && self.made(known, *version, shape, column).is_some_and(|content| sight.explains(content))
        };
        Ok(Some(known.versions.iter().filter(fits).map(|v| v.0).collect()))
    }

    /// Whether a transaction that may have committed writes the column.
    pub(crate) fn writes_column(&self, txn: TxnId, object: ObjectId, column: NameId) -> bool {
        let Some(known) = self.objects.get(&object) else { return false };
        let own = known.versions.iter().find(|(version, _)| *version == Version::Of(txn));
        own.is_some_and(|(version, shape)| self.made(known, *version, shape, column).is_some())
    }

    /// The columns that a transaction's version sets, of those that some value has: nobody can have
    /// seen what only an assignment names.
    pub(crate) fn written_columns(&self, txn: TxnId, object: ObjectId) -> Vec<NameId> {
        let Some(known) = self.objects.get(&object) else { return Vec::new() };
        let columns = known.versions.iter().flat_map(|(_, shape)| self.columns_of(shape));
        let has_name = |column: &NameId| column.index() < self.history().values().name_count();
        let all: HashSet<NameId> = columns.filter(has_name).collect();
        all.into_iter().filter(|&column| self.writes_column(txn, object, column)).collect()
    }

    /// Whether of some column that the operation shows or asks about no version can be what it saw.
    pub(crate) fn unexplained_column(&self, op: &Op<'p>, object: ObjectId) -> Result<bool, Rejected> {
        let Some(look) = self.look(op, object) else { return Ok(false) };
        let history = self.history();
        let shown = look.values.iter().flat_map(|&value| match history.value(value) {
            Value::Row(columns) => columns.iter().map(|c| c.0).collect(),
            _ => Vec::new(),
        });
        let condition = look.predicate.and_then(|predicate| self.predicates.condition(predicate));
        let asked =
            condition.into_iter().flat_map(|c| c.columns()).filter_map(|name| self.predicates.column(name));
        for column in shown.chain(asked) {
            if self.column_sight(op.id, object, column)?.is_some_and(|versions| versions.is_empty()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn columns_of(&self, shape: &Shape) -> Vec<NameId> {
        match shape {
            Shape::Columns(columns) => columns.iter().map(|c| c.0).collect(),
            Shape::Exact(Cell::Row(columns)) => columns.iter().map(|c| c.0).collect(),
            Shape::Exact(Cell::Value(value)) => match self.history().value(*value) {
                Value::Row(columns) => columns.iter().map(|c| c.0).collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Whether the column is part of the key, or the transaction had written it.
    fn is_own(&self, object: ObjectId, own: Option<&Shape>, column: NameId) -> bool {
        key_column(self.history(), object, self.history().name(column)).is_some()
            || own.is_some_and(|shape| self.content(shape, column).is_some())
    }

    /// What a version of an object made of the column, if it wrote it.
    fn made(&self, known: &Object, version: Version, shape: &Shape, column: NameId) -> Option<Content> {
        let left = known.completed.contains(&version) && !self.columns_of(shape).contains(&column);
        if left { None } else { self.content(shape, column) }
    }

    /// What a version of this shape made of the column, if it wrote it.
    fn content(&self, shape: &Shape, column: NameId) -> Option<Content> {
        let history = self.history();
        match shape {
            Shape::Columns(columns) if columns.is_empty() => Some(Content::Unknown),
            Shape::Columns(columns) => {
                let (_, value) = columns.iter().find(|c| c.0 == column)?;
                Some(value.filter(|&v| v != ValueId::UNKNOWN).map_or(Content::Unknown, Content::Value))
            }
            Shape::Exact(cell) if cell.is_absent() => Some(Content::Absent),
            Shape::Exact(cell) if cell.is_row(history) => Some(match cell.column(history, column) {
                Some(Field::Value(ValueId::UNKNOWN) | Field::Made(_)) => Content::Unknown,
                Some(Field::Value(value)) => Content::Value(value),
                None => Content::Value(ValueId::NULL),
            }),
            _ => Some(Content::Unknown),
        }
    }
}

/// One look at one column.
struct ColumnSight<'a, 'p> {
    all: &'a Candidates<'p>,
    object: ObjectId,
    column: NameId,
    look: &'a Look<'p>,
    own: Option<&'a Shape>,
}

impl ColumnSight<'_, '_> {
    /// Whether the operation can have seen this. What cannot be told may be.
    fn explains(&self, content: Content) -> bool {
        let value = match content {
            Content::Unknown => return true,
            Content::Absent => ValueId::NULL,
            Content::Value(value) => value,
        };
        self.is_shown(content, value) && self.fits_condition(content, value) && self.fits_set(value)
    }

    fn is_shown(&self, content: Content, value: ValueId) -> bool {
        let history = self.all.history();
        self.look.values.iter().all(|&shown| match history.value(shown) {
            Value::Null if self.look.set.is_empty() => content == Content::Absent || self.own.is_some(),
            Value::Row(_) if !self.look.set.contains(&self.column) => {
                let seen = history.values().column(shown, self.column);
                seen.is_none_or(|seen| seen == ValueId::UNKNOWN || seen == value)
            }
            _ => true,
        })
    }

    fn fits_condition(&self, content: Content, value: ValueId) -> bool {
        let Some(predicate) = self.look.predicate else { return true };
        // Unless the transaction has written to the row itself, it may not be there at all.
        if content == Content::Absent && !self.look.returned && self.own.is_none() {
            return true;
        }
        let shape = self.row(value);
        let row = ShapeRow { all: self.all, object: self.object, shape: &shape, look: self.look };
        let matches = self.all.predicates.holds(predicate, &row).ok();
        matches.is_none_or(|matches| matches == self.look.returned)
    }

    /// Whether the assignments make of it what was shown.
    fn fits_set(&self, value: ValueId) -> bool {
        let (Some(set), [shown]) = (self.look.assigned, self.look.values.as_slice()) else { return true };
        let history = self.all.history();
        let shape = self.row(value);
        let row = ShapeRow { all: self.all, object: self.object, shape: &shape, look: self.look };
        let Ok(assignments) = self.all.predicates.assignments(set) else { return true };
        let Ok(made) = assignments.apply(&row) else { return true };
        made.into_iter().all(|(target, made)| {
            let seen = self.all.predicates.column(target).and_then(|n| history.values().column(*shown, n));
            seen.is_none_or(|seen| seen == ValueId::UNKNOWN || Field::Made(made).is(history, seen))
        })
    }

    /// What is known of the row with this value in the column: that, and what the transaction had
    /// written itself.
    fn row(&self, value: ValueId) -> Shape {
        let own = match self.own {
            Some(Shape::Columns(columns)) => columns.as_slice(),
            _ => &[],
        };
        Shape::Columns(own.iter().copied().chain([(self.column, Some(value))]).collect())
    }
}
