//! What is known of each version of an object without an order of versions.
//!
//! # Algorithm
//! The writes of one transaction are folded over what is known of the value before them, which is
//! nothing at first: a value that replaces is known whole, appended elements end some list, and a
//! row that is written in part has these columns. Where every column that anybody ever wrote is
//! known, the row is known whole.
//!
//! # Invariants
//! - Whatever the version before was, the version has its shape.

use hashbrown::HashSet;
use margay_history::{Access, NameId, ObjectId, Op, OpKind, Value, ValueId, Version};
use margay_verdict::cell::fold;
use margay_verdict::state::plain_effect;
use margay_verdict::{Cell, Effect, Field};

use super::Candidates;
use crate::lists::{Accesses, may_commit};

/// What is known of a value whose base is not.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Everything.
    Exact(Cell),
    /// Some list, and then these elements.
    Ends(Vec<ValueId>),
    /// Some row with these columns; `None` for one that was computed and not seen.
    Columns(Vec<(NameId, Option<ValueId>)>),
}

impl Candidates<'_> {
    /// The versions that transactions which may have committed left of an object, the initial one
    /// first.
    pub(super) fn versions(&self, object: ObjectId, accesses: &Accesses) -> Vec<(Version, Shape)> {
        let history = self.history();
        let mut versions = vec![(Version::Initial, Shape::Exact(Cell::Value(history.initial(object))))];
        for own in accesses.chunk_by(|a, b| history.txn_of(a.0) == history.txn_of(b.0)) {
            let txn = history.txn_of(own[0].0);
            if may_commit(history, txn)
                && let Some(shape) = self.shape(object, own)
            {
                versions.push((Version::Of(txn), shape));
            }
        }
        versions
    }

    /// A row of which every column that anybody ever wrote is known is known whole. Returns the
    /// versions of these.
    pub(super) fn complete(&self, versions: &mut [(Version, Shape)]) -> HashSet<Version> {
        let history = self.history();
        let opaque = |shape: &Shape| matches!(shape, Shape::Columns(columns) if columns.is_empty());
        let mut completed = HashSet::new();
        if versions.iter().any(|(_, shape)| opaque(shape)) {
            return completed;
        }
        let mut universe: Vec<NameId> = Vec::new();
        for (_, shape) in versions.iter() {
            match shape {
                Shape::Columns(columns) => universe.extend(columns.iter().map(|c| c.0)),
                Shape::Exact(Cell::Value(value)) => {
                    if let Value::Row(columns) = history.value(*value) {
                        universe.extend(columns.iter().map(|c| c.0));
                    }
                }
                Shape::Exact(Cell::Row(columns)) => universe.extend(columns.iter().map(|c| c.0)),
                _ => {}
            }
        }
        universe.sort_unstable();
        universe.dedup();
        for (version, shape) in versions {
            let Shape::Columns(columns) = shape else { continue };
            let known = |&name: &NameId| {
                let column = columns.iter().find(|c| c.0 == name)?;
                Some((name, Field::Value(column.1?)))
            };
            if let Some(fields) = universe.iter().map(known).collect::<Option<Vec<_>>>() {
                *shape = Shape::Exact(Cell::Row(fields));
                completed.insert(*version);
            }
        }
        completed
    }

    /// What is known after one transaction's accesses of an object; nothing if it does not write
    /// it.
    pub(super) fn shape(&self, object: ObjectId, own: &Accesses) -> Option<Shape> {
        own.iter().fold(None, |shape, &(op, value)| {
            let op = self.history().op(op);
            match op.kind {
                OpKind::Write | OpKind::Append => Some(self.written(shape, &op, Access { object, value })),
                OpKind::Update => Some(self.updated(shape, &op, Access { object, value })),
                _ => shape,
            }
        })
    }

    fn written(&self, shape: Option<Shape>, op: &Op<'_>, access: Access) -> Shape {
        let history = self.history();
        match (plain_effect(history, op.kind, &access), shape) {
            (effect, Some(Shape::Exact(cell))) => Shape::Exact(fold(history, cell, &effect)),
            (Effect::Append(element), Some(Shape::Ends(mut elements))) => {
                elements.push(element);
                Shape::Ends(elements)
            }
            (Effect::Append(element), _) => Shape::Ends(vec![element]),
            (Effect::Merge(row), shape) => match history.value(row) {
                Value::Row(columns) => {
                    with_columns(shape, columns.iter().map(|&(name, value)| (name, Some(value))))
                }
                _ => Shape::Exact(Cell::Value(row)),
            },
            (effect, _) => Shape::Exact(fold(history, Cell::ABSENT, &effect)),
        }
    }

    /// Of the columns that are set those that the client saw are known.
    fn updated(&self, shape: Option<Shape>, op: &Op<'_>, access: Access) -> Shape {
        let (history, Access { object, value }) = (self.history(), access);
        let Some(set) = history.update(op.id).and_then(|update| update.set.as_deref()) else {
            return Shape::Exact(Cell::ABSENT);
        };
        if !matches!(history.value(value), Value::Row(_)) {
            return Shape::Exact(Cell::Value(value));
        }
        if let Some(Shape::Exact(cell)) = &shape {
            return self.as_shown(self.computed(set, object, cell), value);
        }
        match self.predicates.assignments(set) {
            Ok(assignments) => {
                let targets = assignments.targets().map(|target| self.predicates.target(target));
                let known = |name| history.values().column(value, name).filter(|&v| v != ValueId::UNKNOWN);
                with_columns(shape, targets.map(|name| (name, known(name))))
            }
            Err(_) => Shape::Columns(Vec::new()),
        }
    }

    /// The same row, with the values that the client saw in place of equal ones that were computed.
    fn as_shown(&self, shape: Shape, shown: ValueId) -> Shape {
        let history = self.history();
        let Shape::Exact(Cell::Row(fields)) = shape else { return shape };
        let seen = |(name, field): (NameId, Field)| {
            let value = history.values().column(shown, name).filter(|&value| field.is(history, value));
            (name, value.map_or(field, Field::Value))
        };
        Shape::Exact(Cell::Row(fields.into_iter().map(seen).collect()))
    }

    /// What an update made of a row that is known whole; anything, if that cannot be computed.
    pub(super) fn computed(&self, set: &str, object: ObjectId, cell: &Cell) -> Shape {
        match self.predicates.assign(Some(set), object, cell) {
            Ok(effect) => Shape::Exact(fold(self.history(), cell.clone(), &effect)),
            Err(_) => Shape::Columns(Vec::new()),
        }
    }
}

fn with_columns(shape: Option<Shape>, new: impl Iterator<Item = (NameId, Option<ValueId>)>) -> Shape {
    let mut columns = match shape {
        Some(Shape::Columns(columns)) => columns,
        _ => Vec::new(),
    };
    for (name, value) in new {
        match columns.iter_mut().find(|c| c.0 == name) {
            Some(column) => column.1 = value,
            None => columns.push((name, value)),
        }
    }
    Shape::Columns(columns)
}
