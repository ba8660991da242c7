//! Objects of which nobody knows what they held at first.
//!
//! # Problem
//! A window of a longer history begins with a state that earlier transactions left in an order
//! which nobody knows.
//!
//! # Design
//! Such an object holds *anything*, [`ValueId::UNKNOWN`], until a transaction reads it; then it
//! holds what was read. An append to anything makes a list whose first element stands for any
//! beginning; a partial write makes a row in which all other columns are anything.
//!
//! # Invariants
//! Where all is known, operations mean what [`margay_verdict::state`] says. Every state that is
//! possible is allowed. What a read tells is learned if it says what the object holds; all other
//! observations of an open object, such as a scan that leaves it out, are allowed without learning
//! from them. So an empty set of configurations stays a proof.

use margay_history::{History, NameId, ObjectId, Op, OpKind, PredicateId, Value, ValueId};
use margay_verdict::cell::{Field, fold, key_column, observed_matches};
use margay_verdict::state::{check, effects, plain_effects};
use margay_verdict::{Cell, Effect, Fault, Outside, Predicates};

use super::Few;
use crate::{Rejected, reject};

/// Holds anything.
const ANYTHING: Cell = Cell::Value(ValueId::UNKNOWN);

/// Whether a part of what an object holds is not known.
fn is_open(history: &History, cell: &Cell) -> bool {
    match cell {
        Cell::Value(id) => match history.value(*id) {
            Value::Unknown => true,
            Value::Row(columns) => columns.iter().any(|column| column.1 == ValueId::UNKNOWN),
            Value::List(items) => items.contains(&ValueId::UNKNOWN),
            _ => false,
        },
        Cell::List(items) => items.contains(&ValueId::UNKNOWN),
        Cell::Row(columns) => columns.iter().any(|column| column.1 == Field::Value(ValueId::UNKNOWN)),
        Cell::Made(_) => false,
    }
}

/// A transaction on its way over a few objects of which some are open.
pub(super) struct Run<'a, 'p> {
    pub predicates: &'a Predicates<'p>,
    pub view: Few<'a>,
    /// By place: whether the transaction wrote it.
    pub written: Vec<bool>,
    /// By place: what it held before the transaction, if that was learned.
    pub learned: Vec<Option<Cell>>,
}

impl Run<'_, '_> {
    /// Whether an object is open.
    pub fn is_open(&self) -> bool {
        self.view.cells.iter().any(|cell| is_open(self.predicates.history(), cell))
    }

    /// Runs an operation on objects that are all known; answers whether the client can have seen
    /// what it saw.
    pub fn closed(&mut self, op: &Op<'_>) -> Result<bool, Rejected> {
        match check(self.predicates, op, &self.view) {
            Ok(()) => {}
            Err(Fault::Mismatch(_)) => return Ok(false),
            Err(Fault::Outside(outside)) => return Err(outside.into()),
        }
        let history = self.predicates.history();
        for (object, effect) in effects(self.predicates, op, &self.view)? {
            self.change(object, |cell| fold(history, cell, &effect));
        }
        Ok(true)
    }

    /// The same, if some are open.
    pub fn op(&mut self, op: &Op<'_>) -> Result<bool, Rejected> {
        let history = self.predicates.history();
        match op.kind {
            OpKind::Read => Ok(op.accesses.iter().all(|access| self.saw(access.object, access.value))),
            OpKind::Write | OpKind::Append => {
                for (object, effect) in plain_effects(history, op) {
                    self.change(object, |cell| folded(history, object, cell, &effect));
                }
                Ok(true)
            }
            OpKind::Scan => match history.scan(op.id).filter(|scan| scan.observed) {
                Some(scan) => self.scan(op, scan.predicate),
                None => Ok(true),
            },
            OpKind::Update => match history.update(op.id) {
                Some(update) => self.update(op, update.predicate, update.set.as_deref(), update.observed),
                None => Ok(true),
            },
            // A summary is about all rows; if one is open, it tells nothing.
            _ => Ok(true),
        }
    }

    fn place(&self, object: ObjectId) -> Option<usize> {
        self.view.objects.binary_search(&object).ok()
    }

    fn change(&mut self, object: ObjectId, change: impl FnOnce(Cell) -> Cell) {
        let Some(at) = self.place(object) else { return };
        self.view.cells[at] = change(std::mem::replace(&mut self.view.cells[at], Cell::ABSENT));
        self.written[at] = true;
    }

    /// Whether this may have been read; if it says what an open object holds, that is learned.
    fn saw(&mut self, object: ObjectId, value: ValueId) -> bool {
        let Some(at) = self.place(object) else { return true };
        let history = self.predicates.history();
        let Some(cell) = observed(history, object, value, &self.view.cells[at]) else { return false };
        if cell != self.view.cells[at] {
            if !self.written[at] {
                self.learned[at] = Some(cell.clone());
            }
            self.view.cells[at] = cell;
        }
        true
    }

    fn rows(&self, predicate: PredicateId) -> Vec<ObjectId> {
        let table = Some(self.predicates.table_of(predicate));
        let of_table = |object: &ObjectId| self.predicates.history().object(*object).table == table;
        self.view.objects.iter().copied().filter(of_table).collect()
    }

    fn scan(&mut self, op: &Op<'_>, predicate: PredicateId) -> Result<bool, Rejected> {
        if op.shows_twice().is_some() {
            return Ok(false);
        }
        for object in self.rows(predicate) {
            let shown = shown(op, object);
            let matches = self.matches(predicate, object)?;
            if matches.is_some_and(|matches| matches != shown.is_some())
                || shown.is_some_and(|value| !self.saw(object, value))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn update(
        &mut self,
        op: &Op<'_>,
        predicate: PredicateId,
        set: Option<&str>,
        is_observed: bool,
    ) -> Result<bool, Rejected> {
        if is_observed && op.shows_twice().is_some() {
            return Ok(false);
        }
        let history = self.predicates.history();
        for object in self.rows(predicate) {
            let shown = shown(op, object);
            let matches = self.matches(predicate, object)?;
            if matches.is_none() && !is_observed {
                return reject(
                    "an update whose affected rows were not recorded, of a row that may have held anything",
                );
            }
            if matches.is_some_and(|matches| is_observed && matches != shown.is_some()) {
                return Ok(false);
            }
            if !matches.unwrap_or(shown.is_some()) {
                continue;
            }
            let Some(at) = self.place(object) else { continue };
            let after = self.assigned(set, object, &self.view.cells[at])?;
            match observed(history, object, shown.unwrap_or(ValueId::UNKNOWN), &after) {
                Some(after) => self.change(object, |_| after),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether a row matches; nothing if that depends on what is not known.
    fn matches(&self, predicate: PredicateId, object: ObjectId) -> Result<Option<bool>, Outside> {
        let history = self.predicates.history();
        let Some(at) = self.place(object) else { return Ok(None) };
        let cell = &self.view.cells[at];
        let condition = self.predicates.condition(predicate).filter(|_| is_open(history, cell));
        let mut columns = condition.iter().flat_map(|condition| condition.columns());
        if *cell == ANYTHING || columns.any(|name| !self.is_known(object, cell, name)) {
            return Ok(None);
        }
        self.predicates.matches(predicate, object, cell).map(Some)
    }

    fn is_known(&self, object: ObjectId, cell: &Cell, name: &str) -> bool {
        let history = self.predicates.history();
        let field = self.predicates.column(name).and_then(|name| cell.column(history, name));
        key_column(history, object, name).is_some()
            || field.is_some_and(|field| field != Field::Value(ValueId::UNKNOWN))
    }

    /// What an update makes of a row that matches; anything if that cannot be told.
    fn assigned(&self, set: Option<&str>, object: ObjectId, cell: &Cell) -> Result<Cell, Outside> {
        let history = self.predicates.history();
        let Some(text) = set else { return Ok(Cell::ABSENT) };
        let assignments = self.predicates.assignments(text)?;
        let known = !is_open(history, cell)
            || *cell != ANYTHING && assignments.columns().all(|name| self.is_known(object, cell, name));
        if known {
            return Ok(fold(history, cell.clone(), &self.predicates.assign(set, object, cell)?));
        }
        Ok(ANYTHING)
    }
}

/// What an operation shows of a row.
fn shown(op: &Op<'_>, object: ObjectId) -> Option<ValueId> {
    op.accesses.iter().find(|access| access.object == object).map(|access| access.value)
}

/// What an object holds if this was read of it; nothing if it cannot have been.
fn observed(history: &History, object: ObjectId, value: ValueId, cell: &Cell) -> Option<Cell> {
    if !is_open(history, cell) || value == ValueId::UNKNOWN {
        return observed_matches(history, object, value, cell).then(|| cell.clone());
    }
    match (cell, history.value(value)) {
        (_, Value::Row(columns)) => row_observed(history, object, columns, cell),
        (Cell::Value(ValueId::UNKNOWN), _) => Some(Cell::Value(value)),
        (Cell::List(items), Value::List(seen)) => list_observed(items, seen).then_some(Cell::Value(value)),
        (Cell::Value(id), _) if matches!(history.value(*id), Value::List(_)) => Some(cell.clone()),
        _ => None,
    }
}

/// Whether a list that begins with anything may be the one that was read.
fn list_observed(items: &[ValueId], seen: &[ValueId]) -> bool {
    match items {
        [ValueId::UNKNOWN, appended @ ..] if !appended.contains(&ValueId::UNKNOWN) => {
            seen.ends_with(appended) || seen.contains(&ValueId::UNKNOWN)
        }
        _ => true,
    }
}

fn row_observed(
    history: &History,
    object: ObjectId,
    columns: &[(NameId, ValueId)],
    cell: &Cell,
) -> Option<Cell> {
    let row = if *cell == ANYTHING { any_row(history, object) } else { cell.clone() };
    let mut learned = Vec::new();
    for &(name, value) in columns.iter().filter(|column| column.1 != ValueId::UNKNOWN) {
        match row.column(history, name) {
            Some(Field::Value(ValueId::UNKNOWN)) => learned.push((name, Field::Value(value))),
            Some(field) if field.is(history, value) => {}
            None if key_column(history, object, history.name(name)).unwrap_or(ValueId::NULL) == value => {}
            _ => return None,
        }
    }
    row.is_row(history).then(|| fold(history, row, &Effect::Set(learned)))
}

/// A row that is there, with anything in its columns.
fn any_row(history: &History, object: ObjectId) -> Cell {
    let names = (0..history.values().name_count()).map(NameId::at);
    let of_key = |name: &NameId| key_column(history, object, history.name(*name)).is_some();
    Cell::Row(names.filter(|name| !of_key(name)).map(|name| (name, Field::Value(ValueId::UNKNOWN))).collect())
}

/// The cell after an effect that depends on nothing.
fn folded(history: &History, object: ObjectId, cell: Cell, effect: &Effect) -> Cell {
    match effect {
        Effect::Append(element) if cell == ANYTHING => Cell::List(vec![ValueId::UNKNOWN, *element]),
        Effect::Merge(row) if cell == ANYTHING && matches!(history.value(*row), Value::Row(_)) => {
            fold(history, any_row(history, object), effect)
        }
        _ => fold(history, cell, effect),
    }
}
