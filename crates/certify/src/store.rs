//! The store that a replay runs on: what every object holds, and the rows of each table by the
//! columns that predicates speak of.
//!
//! # Algorithm
//! Enne keeps an index of the column that predicates ask about (section 6). Here every column of a
//! table's conditions has one, by its integers; a predicate looks into the range that it leaves of
//! one column. What is no integer is looked at always, NULL never.
//!
//! # Invariants
//! The index gives a superset of the rows that match; each is then asked.
//!
//! # Cost
//! A change: the columns of its table × log. A predicate: log, and the rows in its range.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use margay_history::{History, NameId, ObjectId, Op, OpKind, PredicateId, TableId};
use margay_sql::{BoundPredicate, Value as SqlValue};
use margay_verdict::cell::fold;
use margay_verdict::state::{ObjectView, check, effects, plain_effects};
use margay_verdict::{Cell, Effect, Fault, Outside, Predicates, State};

use crate::matches::{LOOK, column, condition_columns};

/// What every object holds, with indexes.
#[derive(Clone, Debug)]
pub(crate) struct Store<'p> {
    predicates: &'p Predicates<'p>,
    pub state: State<'p>,
    tables: HashMap<TableId, Indexed>,
    /// The conditions over the columns of their tables; none for those that an index cannot serve.
    bound: Vec<Option<BoundPredicate>>,
    names: HashMap<&'p str, NameId>,
}

/// The rows of one table.
#[derive(Clone, Debug)]
struct Indexed {
    columns: Vec<String>,
    indexes: Vec<Index>,
    /// The columns' values by object; none for what is absent.
    rows: HashMap<ObjectId, Vec<SqlValue>>,
}

/// The rows of a table by one column.
#[derive(Clone, Default, Debug)]
struct Index {
    integers: BTreeMap<i64, Vec<ObjectId>>,
    others: Vec<ObjectId>,
}

impl ObjectView for Store<'_> {
    fn look(&self, object: ObjectId) -> Cow<'_, Cell> {
        self.state.look(object)
    }

    fn matching(
        &self,
        predicates: &Predicates<'_>,
        predicate: PredicateId,
    ) -> Result<Vec<ObjectId>, Outside> {
        let table = predicates.table_of(predicate);
        match (self.tables.get(&table), &self.bound[predicate.index()]) {
            (Some(indexed), Some(bound)) => self.search(indexed, bound, predicate),
            _ => self.state.matching(predicate),
        }
    }
}

impl<'p> Store<'p> {
    /// The initial state.
    pub fn new(predicates: &'p Predicates<'p>) -> Self {
        let history = predicates.history();
        let tables = condition_columns(predicates).into_iter().map(|(table, columns)| {
            let indexes = vec![Index::default(); columns.len()];
            (table, Indexed { columns, indexes, rows: HashMap::new() })
        });
        let tables: HashMap<TableId, Indexed> = tables.collect();
        let bind = |i: usize| {
            let table = tables.get(&predicates.table_of(PredicateId::at(i)))?;
            predicates.condition(PredicateId::at(i))?.bind(&table.columns).ok()
        };
        let bound = (0..predicates.count()).map(bind).collect();
        let names = (0..history.values().name_count()).map(NameId::at).map(|id| (history.name(id), id));
        let state = State::initial(predicates);
        let mut store = Self { predicates, state, tables, bound, names: names.collect() };
        history.initial_values().iter().for_each(|&(object, _)| store.index(object));
        store
    }

    fn history(&self) -> &'p History {
        self.predicates.history()
    }

    fn search(
        &self,
        table: &Indexed,
        bound: &BoundPredicate,
        predicate: PredicateId,
    ) -> Result<Vec<ObjectId>, Outside> {
        let mut found = Vec::new();
        table.candidates(bound, |object, row| {
            let known = !row.contains(&LOOK);
            let matches = match known.then(|| bound.matches(row)) {
                Some(Ok(matches)) => matches,
                _ => self.predicates.matches(predicate, object, self.state.cell(object))?,
            };
            if matches {
                found.push(object);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Changes one object.
    pub fn change(&mut self, object: ObjectId, effect: &Effect) {
        self.state.change(object, effect);
        self.index(object);
    }

    /// Makes one object hold this.
    pub fn put(&mut self, object: ObjectId, cell: Cell) {
        self.state.put(object, cell);
        self.index(object);
    }

    /// Puts an object where its columns now belong.
    fn index(&mut self, object: ObjectId) {
        let history = self.history();
        let Some(table) = history.object(object).table.and_then(|table| self.tables.get_mut(&table)) else {
            return;
        };
        let cell = self.state.cell(object);
        let values = |name: &String| column(history, object, cell, name, &self.names);
        let row = (!cell.is_absent()).then(|| table.columns.iter().map(values).collect());
        table.put(object, row);
    }
}

impl Indexed {
    fn put(&mut self, object: ObjectId, row: Option<Vec<SqlValue>>) {
        let old = match &row {
            Some(row) => self.rows.insert(object, row.clone()),
            None => self.rows.remove(&object),
        };
        for (i, index) in self.indexes.iter_mut().enumerate() {
            let (old, new) = (old.as_ref().map(|row| &row[i]), row.as_ref().map(|row| &row[i]));
            if old != new {
                old.into_iter().for_each(|value| index.remove(object, value));
                new.into_iter().for_each(|value| index.add(object, value));
            }
        }
    }

    /// The rows in the range of the first column that the predicate bounds, or all.
    fn candidates(
        &self,
        bound: &BoundPredicate,
        mut into: impl FnMut(ObjectId, &[SqlValue]) -> Result<(), Outside>,
    ) -> Result<(), Outside> {
        let range = (0..self.columns.len()).find_map(|i| Some((i, bound.bounds(i)?)));
        match range {
            Some((_, (low, high))) if low > high => Ok(()),
            Some((i, (low, high))) => {
                let inside = self.indexes[i].integers.range(low..=high).flat_map(|entry| entry.1);
                let mut all = inside.chain(&self.indexes[i].others);
                all.try_for_each(|&object| into(object, &self.rows[&object]))
            }
            None => self.rows.iter().try_for_each(|(&object, row)| into(object, row)),
        }
    }
}

impl Index {
    fn place(&mut self, value: &SqlValue) -> Option<&mut Vec<ObjectId>> {
        match value {
            SqlValue::Int(number) => Some(self.integers.entry(*number).or_default()),
            SqlValue::Null => None,
            _ => Some(&mut self.others),
        }
    }

    fn add(&mut self, object: ObjectId, value: &SqlValue) {
        if let Some(place) = self.place(value) {
            place.push(object);
        }
    }

    fn remove(&mut self, object: ObjectId, value: &SqlValue) {
        let Some(place) = self.place(value) else { return };
        if let Some(at) = place.iter().position(|&other| other == object) {
            place.swap_remove(at);
        }
        if let SqlValue::Int(number) = value
            && place.is_empty()
        {
            self.integers.remove(number);
        }
    }
}

/// A transaction's view of a store that stands still: the store, and on top of it what the
/// transaction itself did.
///
/// Mostly that is little: then a list is looked through sooner than a table is made.
pub(crate) struct Own<'s, 'p> {
    store: &'s Store<'p>,
    /// In program order.
    own: Vec<(ObjectId, Effect)>,
    /// The objects, where there are more than a few.
    many: HashSet<ObjectId>,
}

/// Up to so many effects are looked through.
const MAX_SCANNED_EFFECTS: usize = 16;

impl ObjectView for Own<'_, '_> {
    fn look(&self, object: ObjectId) -> Cow<'_, Cell> {
        let base = self.store.look(object);
        if !self.wrote(object) {
            return base;
        }
        let history = self.store.history();
        let own = self.own.iter().filter(|own| own.0 == object);
        Cow::Owned(own.fold(base.into_owned(), |cell, own| fold(history, cell, &own.1)))
    }

    fn matching(
        &self,
        predicates: &Predicates<'_>,
        predicate: PredicateId,
    ) -> Result<Vec<ObjectId>, Outside> {
        let mut found = self.store.matching(predicates, predicate)?;
        if self.own.is_empty() {
            return Ok(found);
        }
        found.retain(|object| !self.wrote(*object));
        let table = Some(predicates.table_of(predicate));
        let mut own: Vec<ObjectId> = self.own.iter().map(|own| own.0).collect();
        own.sort_unstable();
        own.dedup();
        for object in own.into_iter().filter(|&o| predicates.history().object(o).table == table) {
            if predicates.matches(predicate, object, &self.look(object))? {
                found.push(object);
            }
        }
        Ok(found)
    }
}

impl<'s, 'p> Own<'s, 'p> {
    pub fn new(store: &'s Store<'p>) -> Self {
        Self { store, own: Vec::new(), many: HashSet::new() }
    }

    /// Observes, then remembers what the operation does.
    pub fn run(&mut self, op: &Op<'_>) -> Result<(), Fault> {
        check(self.store.predicates, op, self)?;
        let known = self.own.len();
        match op.kind {
            OpKind::Write | OpKind::Append => self.own.extend(plain_effects(self.store.history(), op)),
            OpKind::Update => self.own.extend(effects(self.store.predicates, op, self)?),
            _ => return Ok(()),
        }
        if self.own.len() > MAX_SCANNED_EFFECTS {
            let new = if self.many.is_empty() { &self.own[..] } else { &self.own[known..] };
            self.many.extend(new.iter().map(|own| own.0));
        }
        Ok(())
    }

    pub fn wrote(&self, object: ObjectId) -> bool {
        if self.many.is_empty() {
            self.own.iter().any(|own| own.0 == object)
        } else {
            self.many.contains(&object)
        }
    }

    /// What the transaction did, in order.
    pub fn into_effects(self) -> Vec<(ObjectId, Effect)> {
        self.own
    }
}
