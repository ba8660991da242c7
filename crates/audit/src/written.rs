//! What was ever written to an object, by anyone, whatever became of it.
//!
//! A value that nobody wrote and that was not there initially cannot be read at any level.

use hashbrown::HashSet;
use margay_history::{Access, History, NameId, ObjectId, Op, OpKind, TxnId, Value, ValueId};
use margay_verdict::Predicates;
use margay_verdict::cell::key_column;

use super::{Rejected, reject};

/// A piece of what an object may hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Piece {
    /// A scalar, or absence.
    Whole(ValueId),
    /// An element of a list.
    Element(ValueId),
    /// A column with this value.
    Column(NameId, ValueId),
    /// A column with any value: an update computed it, and nobody saw the result.
    Computed(NameId),
}

/// Everything that was written to some objects.
pub(super) struct Written<'p> {
    predicates: &'p Predicates<'p>,
    pieces: HashSet<(ObjectId, Piece)>,
    /// Tables to which statements may have written that nobody saw the effects of.
    opaque: Vec<bool>,
}

impl<'p> Written<'p> {
    /// To all objects.
    pub(super) fn of_history(predicates: &'p Predicates<'p>) -> Self {
        Self::of(predicates, predicates.history().txns(), |_| true)
    }

    /// To the objects that `wanted` admits, by `txns`, and initially.
    pub(super) fn of(
        predicates: &'p Predicates<'p>,
        txns: impl Iterator<Item = TxnId>,
        wanted: impl Fn(ObjectId) -> bool,
    ) -> Self {
        let history = predicates.history();
        let opaque = vec![false; history.tables().len()];
        let mut written = Self { predicates, pieces: HashSet::new(), opaque };
        for object in history.objects().filter(|&o| wanted(o)) {
            written.add(object, history.initial(object));
        }
        for op in txns.flat_map(|txn| history.ops(txn)) {
            written.add_op(&op, &wanted);
        }
        written
    }

    fn history(&self) -> &'p History {
        self.predicates.history()
    }

    fn add_op(&mut self, op: &Op<'_>, wanted: &impl Fn(ObjectId) -> bool) {
        let history = self.history();
        match op.kind {
            OpKind::Sql if self.predicates.summary(op.id).is_some() => {}
            OpKind::Sql => self.opaque.fill(true),
            OpKind::Update => {
                let Some(update) = history.update(op.id) else { return };
                if !update.observed {
                    let table = history.predicate(update.predicate).table;
                    self.opaque[table.index()] = true;
                }
                for access in op.accesses.iter().filter(|a| wanted(a.object)) {
                    self.add(access.object, access.value);
                    self.add_computed(access, update.set.as_deref());
                }
            }
            OpKind::Write => {
                op.accesses.iter().filter(|a| wanted(a.object)).for_each(|a| self.add(a.object, a.value));
            }
            OpKind::Append => {
                let wanted = op.accesses.iter().filter(|a| wanted(a.object));
                self.pieces.extend(wanted.map(|a| (a.object, Piece::Element(a.value))));
            }
            _ => {}
        }
    }

    fn add(&mut self, object: ObjectId, value: ValueId) {
        match self.history().value(value) {
            // An absent list and an empty one are the same.
            Value::List([]) => _ = self.pieces.insert((object, Piece::Whole(ValueId::NULL))),
            Value::List(items) => {
                self.pieces.extend(items.iter().map(|&item| (object, Piece::Element(item))));
            }
            Value::Row(columns) => {
                self.pieces.extend(columns.iter().map(|&(name, value)| (object, Piece::Column(name, value))));
            }
            _ => {
                self.pieces.insert((object, Piece::Whole(value)));
            }
        }
    }

    /// Columns that are set and not shown may have any value; if the text says nothing here, so may
    /// the whole table.
    fn add_computed(&mut self, access: &Access, set: Option<&str>) {
        let Some(set) = set else { return };
        let history = self.history();
        let Ok(assignments) = self.predicates.assignments(set) else {
            if let Some(table) = history.object(access.object).table {
                self.opaque[table.index()] = true;
            }
            return;
        };
        for target in assignments.targets() {
            let name = self.predicates.target(target);
            if history.values().column(access.value, name).is_none_or(|shown| shown == ValueId::UNKNOWN) {
                self.pieces.insert((access.object, Piece::Computed(name)));
            }
        }
    }

    /// A piece of `observed` that nobody wrote to `object`.
    pub(super) fn missing(&self, object: ObjectId, observed: ValueId) -> Option<ValueId> {
        let history = self.history();
        if history.object(object).table.is_some_and(|table| self.opaque[table.index()]) {
            return None;
        }
        let has = |piece| self.pieces.contains(&(object, piece));
        match history.value(observed) {
            Value::Unknown => None,
            Value::List(items) => items.iter().copied().find(|&item| !has(Piece::Element(item))),
            Value::Row(columns) => {
                let known = |name, value| {
                    value == ValueId::NULL
                        || value == ValueId::UNKNOWN
                        || has(Piece::Column(name, value))
                        || has(Piece::Computed(name))
                        || key_column(history, object, history.name(name)) == Some(value)
                };
                columns.iter().find(|&&(name, value)| !known(name, value)).map(|c| c.1)
            }
            // An update may have computed a scalar; then the table's values are not ours to judge.
            _ => (!has(Piece::Whole(observed)) && !self.computes(object)).then_some(observed),
        }
    }

    fn computes(&self, object: ObjectId) -> bool {
        let computed = |&(o, piece): &(ObjectId, Piece)| o == object && matches!(piece, Piece::Computed(_));
        self.history().object(object).table.is_some() && self.pieces.iter().any(computed)
    }

    /// Whether every read of a committed transaction saw only what somebody wrote.
    pub(super) fn covers(&self, committed: &[bool]) -> Result<(), Rejected> {
        let history = self.history();
        for txn in history.txns().filter(|t| committed[t.index()]) {
            for op in history.ops(txn).filter(|op| matches!(op.kind, OpKind::Read | OpKind::Scan)) {
                for access in op.accesses {
                    if let Some(value) = self.missing(access.object, access.value) {
                        return reject(format!(
                            "{} saw {} in {}, which nobody wrote",
                            history.show_txn(txn),
                            history.show_value(value),
                            history.show_object(access.object)
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}
