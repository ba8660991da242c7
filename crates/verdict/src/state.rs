//! What operations mean: a state maps objects to values, an operation observes it and changes it.
//!
//! # Design
//! An operation is given an [`ObjectView`]: what it sees of each object. [`check`] says whether the
//! client can have seen what it recorded, [`effects`] what the operation does. A [`State`] is the
//! view of a serial replay and changes in place; an [`Overlay`] is a transaction's view of a state
//! that stands still, with its own effects on top.
//!
//! # Cost
//! A read of a value that the history has compares two ids. A scan looks at every object of its
//! table.

use std::borrow::Cow;
use std::fmt;

use hashbrown::HashMap;
use margay_history::{Access, History, ObjectId, Op, OpId, OpKind, PredicateId, ValueId};

use crate::cell::{Cell, Effect, fold, observed_matches};
use crate::predicates::{Outside, Predicates, statement_outside};
use crate::summaries::{Asked, show_answer};

/// What a client saw cannot be what was there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The operation.
    pub op: OpId,
    /// The object; any object of its table for a summary, which is about all of them.
    pub object: ObjectId,
    /// What was there.
    pub expected: String,
    /// What the client saw.
    pub observed: String,
}

/// Why an operation cannot be explained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It saw something else.
    Mismatch(Mismatch),
    /// It has no meaning here.
    Outside(Outside),
}

impl From<Outside> for Fault {
    fn from(outside: Outside) -> Self {
        Fault::Outside(outside)
    }
}

impl Fault {
    /// The fault as a sentence without a full stop.
    #[must_use]
    pub fn show(&self, history: &History) -> String {
        match self {
            Fault::Outside(outside) => format!("outside the fragment: {outside}"),
            Fault::Mismatch(m) if history.op(m.op).kind == OpKind::Sql => format!(
                "{} was told {} where {} comes out",
                history.show_txn(history.txn_of(m.op)),
                m.observed,
                m.expected
            ),
            Fault::Mismatch(m) => format!(
                "{} saw {} = {} where {} was",
                history.show_txn(history.txn_of(m.op)),
                history.show_object(m.object),
                m.observed,
                m.expected
            ),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "saw {} where {} was", self.observed, self.expected)
    }
}

/// What an operation sees of each object.
pub trait ObjectView {
    /// The object's value.
    fn look(&self, object: ObjectId) -> Cow<'_, Cell>;

    /// The objects that are there and match. A view with an index need not look at all of them.
    ///
    /// # Errors
    /// When the predicate is outside the fragment.
    fn matching(&self, predicates: &Predicates<'_>, predicate: PredicateId) -> Result<Vec<ObjectId>, Outside>
    where
        Self: Sized,
    {
        matching(predicates, predicate, self)
    }
}

/// The objects that are there and match.
///
/// # Errors
/// When the predicate is outside the fragment.
pub fn matching(
    predicates: &Predicates<'_>,
    predicate: PredicateId,
    view: &impl ObjectView,
) -> Result<Vec<ObjectId>, Outside> {
    let mut found = Vec::new();
    for &object in predicates.domain(predicate) {
        if predicates.matches(predicate, object, &view.look(object))? {
            found.push(object);
        }
    }
    Ok(found)
}

/// What the operation does to each object that it changes, in order.
///
/// # Errors
/// When it has no meaning here.
pub fn effects(
    predicates: &Predicates<'_>,
    op: &Op<'_>,
    view: &impl ObjectView,
) -> Result<Vec<(ObjectId, Effect)>, Outside> {
    let history = predicates.history();
    match op.kind {
        OpKind::Write | OpKind::Append => Ok(plain_effects(history, op).collect()),
        OpKind::Update => {
            let Some(update) = history.update(op.id) else { return Ok(Vec::new()) };
            let matched = view.matching(predicates, update.predicate)?;
            let assign =
                |object| Ok((object, predicates.assign(update.set.as_deref(), object, &view.look(object))?));
            matched.into_iter().map(assign).collect()
        }
        OpKind::Sql if predicates.summary(op.id).is_none() => Err(statement_outside(history, op)),
        _ => Ok(Vec::new()),
    }
}

/// The effects of a write or an append, which depend on nothing.
pub fn plain_effects<'a>(
    history: &'a History,
    op: &Op<'a>,
) -> impl Iterator<Item = (ObjectId, Effect)> + use<'a> {
    let kind = op.kind;
    op.accesses.iter().map(move |access| (access.object, plain_effect(history, kind, access)))
}

/// What a write or an append does to one object.
#[must_use]
pub fn plain_effect(history: &History, kind: OpKind, access: &Access) -> Effect {
    match kind {
        OpKind::Append => Effect::Append(access.value),
        _ if history.object(access.object).table.is_some() => Effect::Merge(access.value),
        _ => Effect::Put(access.value),
    }
}

/// Whether the client can have seen what it recorded of this operation, given what was there.
///
/// # Errors
/// What it cannot have seen, or why that cannot be told.
pub fn check(predicates: &Predicates<'_>, op: &Op<'_>, view: &impl ObjectView) -> Result<(), Fault> {
    let history = predicates.history();
    match op.kind {
        OpKind::Read => op.accesses.iter().try_for_each(|a| compare(history, op.id, a, &view.look(a.object))),
        OpKind::Scan => match history.scan(op.id) {
            Some(scan) if scan.observed => {
                let matched = view.matching(predicates, scan.predicate)?;
                same_objects(history, op, &matched, view)?;
                op.accesses.iter().try_for_each(|a| compare(history, op.id, a, &view.look(a.object)))
            }
            _ => Ok(()),
        },
        OpKind::Update => match history.update(op.id) {
            Some(update) if update.observed => {
                let effects = effects(predicates, op, view)?;
                let changed: Vec<_> = effects.iter().map(|e| e.0).collect();
                same_objects(history, op, &changed, view)?;
                let new = |object: ObjectId| {
                    let own = effects.iter().find(|e| e.0 == object).map(|e| &e.1);
                    own.map(|effect| fold(history, view.look(object).into_owned(), effect))
                };
                op.accesses.iter().try_for_each(|a| match new(a.object) {
                    Some(cell) => compare(history, op.id, a, &cell),
                    None => Ok(()),
                })
            }
            _ => Ok(()),
        },
        OpKind::Sql => match predicates.summary(op.id) {
            Some(asked) => check_summary(predicates, op, asked, view),
            None => Err(statement_outside(history, op).into()),
        },
        _ => Ok(()),
    }
}

/// The answer of a summary is computed from what matches.
fn check_summary(
    predicates: &Predicates<'_>,
    op: &Op<'_>,
    asked: &Asked,
    view: &impl ObjectView,
) -> Result<(), Fault> {
    if !predicates.is_answered(op.id) {
        return Ok(());
    }
    let mut all = Vec::new();
    for object in view.matching(predicates, asked.predicate)? {
        all.extend(predicates.contribution(asked, object, &view.look(object))?);
    }
    let given = predicates.summed(asked, &all)?;
    match predicates.is_told(op.id, &given) {
        true => Ok(()),
        false => Err(Fault::Mismatch(Mismatch {
            op: op.id,
            object: predicates.domain(asked.predicate).first().copied().unwrap_or(ObjectId(0)),
            expected: show_answer(&given),
            observed: predicates.told(op.id),
        })),
    }
}

fn compare(history: &History, op: OpId, access: &Access, cell: &Cell) -> Result<(), Fault> {
    match observed_matches(history, access.object, access.value, cell) {
        true => Ok(()),
        false => Err(mismatch(history, op, access.object, cell.show(history), access.value)),
    }
}

fn mismatch(history: &History, op: OpId, object: ObjectId, expected: String, observed: ValueId) -> Fault {
    Fault::Mismatch(Mismatch { op, object, expected, observed: history.show_value(observed) })
}

/// The rows that the client saw are exactly those that matched.
fn same_objects(
    history: &History,
    op: &Op<'_>,
    matched: &[ObjectId],
    view: &impl ObjectView,
) -> Result<(), Fault> {
    if let Some(object) = op.shows_twice() {
        let expected = "one row of it".to_owned();
        return Err(Fault::Mismatch(Mismatch {
            op: op.id,
            object,
            expected,
            observed: "two rows".to_owned(),
        }));
    }
    let mut seen: Vec<ObjectId> = op.accesses.iter().map(|a| a.object).collect();
    seen.sort_unstable();
    let mut matched = matched.to_vec();
    matched.sort_unstable();
    let fault = |object, observed: &str| {
        let expected = view.look(object).show(history);
        Fault::Mismatch(Mismatch { op: op.id, object, expected, observed: observed.to_string() })
    };
    if let Some(&extra) = seen.iter().find(|o| matched.binary_search(o).is_err()) {
        return Err(fault(extra, "a matching row"));
    }
    match matched.iter().find(|o| seen.binary_search(o).is_err()) {
        Some(&missing) => Err(fault(missing, "no matching row")),
        None => Ok(()),
    }
}

/// What every object holds at one point of a serial execution.
#[derive(Clone, Debug)]
pub struct State<'p> {
    predicates: &'p Predicates<'p>,
    cells: Vec<Cell>,
}

impl ObjectView for State<'_> {
    fn look(&self, object: ObjectId) -> Cow<'_, Cell> {
        Cow::Borrowed(&self.cells[object.index()])
    }
}

impl<'p> State<'p> {
    /// The initial state.
    #[must_use]
    pub fn initial(predicates: &'p Predicates<'p>) -> Self {
        let history = predicates.history();
        let mut cells = vec![Cell::ABSENT; history.object_count()];
        for &(object, value) in history.initial_values() {
            cells[object.index()] = Cell::Value(value);
        }
        Self { predicates, cells }
    }

    /// What an object holds.
    #[must_use]
    pub fn cell(&self, object: ObjectId) -> &Cell {
        &self.cells[object.index()]
    }

    /// What every object holds, by its id.
    #[must_use]
    pub fn into_cells(self) -> Vec<Cell> {
        self.cells
    }

    /// The objects that are there and match.
    ///
    /// # Errors
    /// When the predicate is outside the fragment.
    pub fn matching(&self, predicate: PredicateId) -> Result<Vec<ObjectId>, Outside> {
        matching(self.predicates, predicate, self)
    }

    /// Whether the client can have seen what it recorded of this operation in this state.
    ///
    /// # Errors
    /// What it cannot have seen, or why that cannot be told.
    pub fn observe(&self, op: &Op<'_>) -> Result<(), Fault> {
        check(self.predicates, op, self)
    }

    /// Changes the state as the operation does.
    ///
    /// # Errors
    /// When it has no meaning here.
    pub fn apply(&mut self, op: &Op<'_>) -> Result<(), Outside> {
        match op.kind {
            OpKind::Write | OpKind::Append => {
                let history = self.predicates.history();
                for (object, effect) in plain_effects(history, op) {
                    self.change(object, &effect);
                }
            }
            _ => {
                for (object, effect) in effects(self.predicates, op, self)? {
                    self.change(object, &effect);
                }
            }
        }
        Ok(())
    }

    /// Observes, then applies.
    ///
    /// # Errors
    /// As [`State::observe`] and [`State::apply`].
    pub fn run(&mut self, op: &Op<'_>) -> Result<(), Fault> {
        self.observe(op)?;
        Ok(self.apply(op)?)
    }

    /// Makes an object hold this.
    pub fn put(&mut self, object: ObjectId, cell: Cell) {
        self.cells[object.index()] = cell;
    }

    /// Changes one object.
    pub fn change(&mut self, object: ObjectId, effect: &Effect) {
        let cell = &mut self.cells[object.index()];
        *cell = fold(self.predicates.history(), std::mem::replace(cell, Cell::ABSENT), effect);
    }
}

/// A transaction's view of a state that stands still: the state, and on top of it what the
/// transaction itself did.
#[derive(Clone, Debug)]
pub struct Overlay<'s, 'p> {
    base: &'s State<'p>,
    own: HashMap<ObjectId, Vec<Effect>>,
}

impl ObjectView for Overlay<'_, '_> {
    fn look(&self, object: ObjectId) -> Cow<'_, Cell> {
        let base = self.base.look(object);
        match self.own.get(&object) {
            None => base,
            Some(own) => {
                let history = self.base.predicates.history();
                Cow::Owned(own.iter().fold(base.into_owned(), |cell, effect| fold(history, cell, effect)))
            }
        }
    }
}

impl<'s, 'p> Overlay<'s, 'p> {
    /// The view of a transaction that has done nothing yet.
    #[must_use]
    pub fn new(base: &'s State<'p>) -> Self {
        Self { base, own: HashMap::new() }
    }

    /// Observes, then remembers what the operation does.
    ///
    /// # Errors
    /// What it cannot have seen, or why that cannot be told.
    pub fn run(&mut self, op: &Op<'_>) -> Result<(), Fault> {
        check(self.base.predicates, op, self)?;
        self.apply(effects(self.base.predicates, op, self)?);
        Ok(())
    }

    /// Remembers what an operation does.
    pub fn apply(&mut self, effects: Vec<(ObjectId, Effect)>) {
        for (object, effect) in effects {
            self.own.entry(object).or_default().push(effect);
        }
    }

    /// Whether the transaction changed an object so far.
    #[must_use]
    pub fn wrote(&self, object: ObjectId) -> bool {
        self.own.contains_key(&object)
    }

    /// What the transaction did, object by object, each in order.
    #[must_use]
    pub fn into_effects(self) -> Vec<(ObjectId, Vec<Effect>)> {
        let mut all: Vec<_> = self.own.into_iter().collect();
        all.sort_unstable_by_key(|e| e.0);
        all
    }
}
