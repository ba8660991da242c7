//! Which versions an operation can have seen.
//!
//! # Design
//! A version's value may depend on the version before it (appends, partial rows), so what is known
//! of it without a version order is a [`Shape`]. A version is a candidate unless its shape excludes
//! what the client saw. So there may be too many candidates, never too few: a refutation that
//! stands with too many stands.
//!
//! # Cost
//! One pass over the history for the objects that are asked for; a read then looks only at the
//! versions that end in the value that it saw, but for rows and for objects that a predicate left
//! out, where it looks at all.

mod columns;
mod shapes;

use std::borrow::Cow;
use std::cell::RefCell;

use hashbrown::{HashMap, HashSet};
use margay_history::{
    History, NameId, ObjectId, Op, OpId, OpKind, Outcome, PredicateId, TxnId, Value, ValueId, Version,
};
use margay_sql::{Row, Value as SqlValue};
use margay_verdict::cell::{fold, key_column, observed_matches};
use margay_verdict::{Cell, Field, Lookup, Predicates};

use shapes::Shape;

use super::lists::{Accesses, accesses, may_commit};
use super::{Rejected, reject};

/// One object's accesses and versions.
struct Object {
    accesses: Vec<(OpId, ValueId)>,
    /// The versions of the transactions that may have committed, the initial one first.
    versions: Vec<(Version, Shape)>,
    /// Those that are known whole only because they set every column that anybody sets.
    completed: HashSet<Version>,
    by_key: HashMap<ValueId, Vec<usize>>,
    /// Those without a key.
    rest: Vec<usize>,
}

/// What an operation can have seen of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PossibleSight {
    /// One of these versions.
    External(Vec<Version>),
    /// Its own transaction's writes; whether they allow it.
    Internal(bool),
    /// It does not look at the object, or the client did not see what it saw.
    Blind,
}

/// What a column of an object can hold.
type Possible = HashMap<(ObjectId, NameId), Option<HashSet<ValueId>>>;

/// The candidates of some objects.
pub(super) struct Candidates<'p> {
    predicates: &'p Predicates<'p>,
    objects: HashMap<ObjectId, Object>,
    /// Tables to which statements may have written that nobody saw the effects of.
    opaque: Vec<bool>,
    /// What a column can hold in any version; `None` when that cannot be told.
    possible: RefCell<Possible>,
}

impl<'p> Candidates<'p> {
    /// For the objects that `wanted` admits.
    pub(super) fn new(predicates: &'p Predicates<'p>, wanted: impl Fn(ObjectId) -> bool) -> Self {
        let history = predicates.history();
        let mut all = accesses(history, &wanted);
        for object in history.objects().filter(|&o| wanted(o)) {
            all.entry(object).or_default();
        }
        let opaque = opaque_tables(predicates);
        let mut candidates =
            Self { predicates, objects: HashMap::new(), opaque, possible: RefCell::default() };
        for (object, accesses) in all {
            if predicates.budget().poll().is_err() {
                break;
            }
            let mut versions = candidates.versions(object, &accesses);
            let completed = candidates.complete(&mut versions);
            candidates.objects.insert(object, Object::new(history, accesses, versions, completed));
        }
        candidates
    }

    fn history(&self) -> &'p History {
        self.predicates.history()
    }

    /// The accesses of an object that was asked for.
    pub(super) fn accesses(&self, object: ObjectId) -> &Accesses {
        self.objects.get(&object).map_or(&[], |object| &object.accesses)
    }

    /// Whether a transaction that may have committed writes the object.
    pub(super) fn writes(&self, txn: TxnId, object: ObjectId) -> bool {
        self.objects.get(&object).is_some_and(|o| o.versions.iter().any(|v| v.0 == Version::Of(txn)))
    }

    /// Whether all writers of the object are known.
    pub(super) fn known(&self, object: ObjectId) -> Result<(), Rejected> {
        match self.history().object(object).table {
            Some(table) if self.opaque[table.index()] => reject(format!(
                "statements whose effects were not recorded may have written {}",
                self.history().show_object(object)
            )),
            _ => Ok(()),
        }
    }

    /// What the operation can have seen of the object.
    pub(super) fn sight(&self, op: OpId, object: ObjectId) -> Result<PossibleSight, Rejected> {
        self.known(object)?;
        let history = self.history();
        let Some(known) = self.objects.get(&object) else { return Ok(PossibleSight::Blind) };
        let recorded = history.evidence().version_set(op);
        let recorded = recorded.and_then(|set| set.versions.iter().find(|v| v.0 == object)).map(|v| v.1);
        let op = history.op(op);
        let look = self.look(&op, object);
        if look.is_none() && recorded.is_none() {
            return Ok(PossibleSight::Blind);
        }
        if op.shows_twice() == Some(object) {
            return Ok(PossibleSight::External(Vec::new()));
        }
        let me = Version::Of(history.txn_of(op.id));
        if let Some(shape) = self.own(known, object, op.id) {
            let shown = look.is_none_or(|look| self.explains(object, &look, &shape));
            return Ok(PossibleSight::Internal(shown && recorded.is_none_or(|recorded| recorded == me)));
        }
        let fits = |&i: &usize| {
            let (version, shape) = &known.versions[i];
            *version != me
                && recorded.is_none_or(|recorded| recorded == *version)
                && look.as_ref().is_none_or(|look| self.explains(object, look, shape))
        };
        let found = known.find(history, look.as_ref()).into_iter().filter(fits);
        Ok(PossibleSight::External(found.map(|i| known.versions[i].0).collect()))
    }

    /// The versions before its transaction's own of which a read or a scan shows something beside
    /// the own writes; `None` if it shows nothing of it.
    pub(super) fn sight_before_own(
        &self,
        op: OpId,
        object: ObjectId,
    ) -> Result<Option<Vec<Version>>, Rejected> {
        self.known(object)?;
        let history = self.history();
        let op = history.op(op);
        let Some(known) = self.objects.get(&object) else { return Ok(None) };
        let reads = matches!(op.kind, OpKind::Read | OpKind::Scan);
        let look = self.look(&op, object).filter(|look| reads && look.returned);
        let (Some(look), Some(own)) = (look, self.own(known, object, op.id)) else { return Ok(None) };
        let Some(left) = look.values.iter().find_map(|&value| self.left_by_own(object, value, &own)) else {
            return Ok(None);
        };
        let me = Version::Of(history.txn_of(op.id));
        let fits = |(version, shape): &&(Version, Shape)| *version != me && self.had(object, &left, shape);
        Ok(Some(known.versions.iter().filter(fits).map(|v| v.0).collect()))
    }

    /// What of a value that was seen own writes of this shape did not make; nothing if they made
    /// all of it.
    fn left_by_own(&self, object: ObjectId, seen: ValueId, own: &Shape) -> Option<Left<'p>> {
        let history = self.history();
        match (own, history.value(seen)) {
            (Shape::Ends(elements), Value::List(items)) => {
                items.strip_suffix(elements.as_slice()).map(Left::Elements)
            }
            (Shape::Columns(set), Value::Row(columns)) if !set.is_empty() => {
                let other = |&&(name, value): &&(NameId, ValueId)| {
                    let key = key_column(history, object, history.name(name)).is_some();
                    value != ValueId::UNKNOWN && !key && set.iter().all(|own| own.0 != name)
                };
                let left: Vec<_> = columns.iter().filter(other).copied().collect();
                (!left.is_empty()).then_some(Left::Columns(left))
            }
            _ => None,
        }
    }

    /// Whether a version of this shape may have had what is left.
    fn had(&self, object: ObjectId, left: &Left<'_>, shape: &Shape) -> bool {
        match (left, shape) {
            (Left::Elements(items), Shape::Exact(cell)) => {
                cell.elements(self.history()).unwrap_or_default() == *items
            }
            (Left::Elements(items), Shape::Ends(elements)) => items.ends_with(elements),
            (Left::Elements(items), Shape::Columns(_)) => items.is_empty(),
            (Left::Columns(columns), Shape::Exact(cell)) if !cell.is_row(self.history()) => {
                columns.iter().all(|column| column.1 == ValueId::NULL)
            }
            (Left::Columns(columns), Shape::Ends(_)) => {
                columns.iter().all(|column| column.1 == ValueId::NULL)
            }
            (Left::Columns(columns), _) => {
                columns.iter().all(|&(name, value)| self.may_have(object, name, value, shape))
            }
        }
    }

    /// What the operation's own transaction had made of the object before it.
    fn own(&self, known: &Object, object: ObjectId, op: OpId) -> Option<Shape> {
        let own = self.history().op_range(self.history().txn_of(op));
        let start = known.accesses.partition_point(|a| a.0.0 < own.start);
        let end = known.accesses.partition_point(|a| a.0 < op);
        self.shape(object, &known.accesses[start..end])
    }

    /// What the client recorded of the object.
    fn look(&self, op: &Op<'p>, object: ObjectId) -> Option<Look<'p>> {
        let history = self.history();
        let values = op.accesses.iter().filter(|a| a.object == object).map(|a| a.value);
        let in_table = |predicate: PredicateId| {
            Some(self.predicates.table_of(predicate)) == history.object(object).table
        };
        match op.kind {
            OpKind::Read => {
                let values: Vec<_> = values.filter(|&v| v != ValueId::UNKNOWN).collect();
                (!values.is_empty()).then_some(Look {
                    values,
                    predicate: None,
                    returned: true,
                    set: Vec::new(),
                    assigned: None,
                })
            }
            OpKind::Scan => {
                let scan = history.scan(op.id).filter(|scan| scan.observed && in_table(scan.predicate))?;
                let values: Vec<_> = values.collect();
                let returned = !values.is_empty();
                let predicate = Some(scan.predicate);
                Some(Look { values, predicate, returned, set: Vec::new(), assigned: None })
            }
            OpKind::Update => {
                let update = history.update(op.id).filter(|u| u.observed && in_table(u.predicate))?;
                let values: Vec<_> = values.collect();
                let returned = !values.is_empty();
                let set = self.targets(update.set.as_deref());
                // The new values show the old ones only in the columns that are not set.
                let values = if set.is_none() { Vec::new() } else { values };
                Some(Look {
                    values,
                    predicate: Some(update.predicate),
                    returned,
                    assigned: update.set.as_deref().filter(|_| set.is_some()),
                    set: set.unwrap_or_default(),
                })
            }
            // Who was told that nothing matches saw nothing of the object.
            OpKind::Sql => {
                let asked = self.predicates.summary(op.id).filter(|asked| in_table(asked.predicate))?;
                self.predicates.counts_nothing(op.id).then_some(Look {
                    values: Vec::new(),
                    predicate: Some(asked.predicate),
                    returned: false,
                    set: Vec::new(),
                    assigned: None,
                })
            }
            _ => None,
        }
    }

    /// All that an object can have held when the operation looked at it; `None` if that is not
    /// known.
    pub(super) fn possible_cells(&self, op: OpId, object: ObjectId) -> Option<Vec<Cell>> {
        let known = self.objects.get(&object)?;
        let exact = |shape: &Shape| match shape {
            Shape::Exact(cell) => Some(cell.clone()),
            _ => None,
        };
        if let Some(own) = self.own(known, object, op) {
            return Some(vec![exact(&own)?]);
        }
        let seen = self.sight(op, object).ok()?;
        let me = Version::Of(self.history().txn_of(op));
        let possible = known.versions.iter().filter(|(version, _)| match &seen {
            PossibleSight::External(versions) => versions.contains(version),
            _ => *version != me,
        });
        possible.map(|(_, shape)| exact(shape)).collect()
    }

    /// The columns that an update sets; `None` when the new values show nothing of the old ones.
    fn targets(&self, set: Option<&str>) -> Option<Vec<NameId>> {
        let assignments = self.predicates.assignments(set?).ok()?;
        Some(assignments.targets().map(|target| self.predicates.target(target)).collect())
    }

    /// Whether a version of this shape may be what was seen.
    fn explains(&self, object: ObjectId, look: &Look<'_>, shape: &Shape) -> bool {
        if look.values.iter().any(|&value| !self.may_be(object, value, shape, &look.set)) {
            return false;
        }
        if let (Some(set), Shape::Exact(cell), [shown]) = (look.assigned, shape, look.values.as_slice()) {
            let made = self
                .predicates
                .assign(Some(set), object, cell)
                .map(|e| fold(self.history(), cell.clone(), &e));
            if made.is_ok_and(|made| !observed_matches(self.history(), object, *shown, &made)) {
                return false;
            }
        }
        let Some(predicate) = look.predicate else { return true };
        let row = ShapeRow { all: self, object, shape, look };
        let matches = match shape {
            Shape::Exact(cell) => self.predicates.matches(predicate, object, cell).ok(),
            _ => self.predicates.holds(predicate, &row).ok(),
        };
        matches.is_none_or(|matches| matches == look.returned)
    }

    fn may_be(&self, object: ObjectId, observed: ValueId, shape: &Shape, set: &[NameId]) -> bool {
        let history = self.history();
        match (shape, history.value(observed)) {
            (_, Value::Unknown) => true,
            // What an update made of a value that is no row shows nothing of it.
            (_, Value::Row(columns)) if !set.is_empty() => {
                columns.iter().all(|&(n, v)| set.contains(&n) || self.may_have(object, n, v, shape))
            }
            _ if !set.is_empty() => true,
            (Shape::Exact(cell), _) => observed_matches(history, object, observed, cell),
            (Shape::Ends(elements), Value::List(items)) => items.ends_with(elements),
            (Shape::Columns(_), Value::Row(columns)) => {
                columns.iter().all(|&(name, value)| self.may_have(object, name, value, shape))
            }
            _ => false,
        }
    }

    fn may_have(&self, object: ObjectId, name: NameId, value: ValueId, shape: &Shape) -> bool {
        let history = self.history();
        if value == ValueId::UNKNOWN {
            return true;
        }
        match shape {
            Shape::Exact(cell) => match cell.column(history, name) {
                Some(field) => field.is(history, value),
                None => {
                    cell.is_row(history)
                        && key_column(history, object, history.name(name)).unwrap_or(ValueId::NULL) == value
                }
            },
            Shape::Columns(columns) => match columns.iter().find(|c| c.0 == name) {
                Some((_, known)) => known.is_none_or(|known| known == value),
                None => self.can_hold(object, name, value),
            },
            Shape::Ends(_) => false,
        }
    }

    /// Whether a column may hold a value in some version that leaves it alone.
    fn can_hold(&self, object: ObjectId, name: NameId, value: ValueId) -> bool {
        let key = || key_column(self.history(), object, self.history().name(name));
        self.with_possible(object, name, |possible| {
            possible.is_none_or(|possible| possible.contains(&value) || key() == Some(value))
        })
    }

    /// What a column holds in every version that leaves it alone, if there is but one thing it can.
    fn only_value(&self, object: ObjectId, name: NameId) -> Option<ValueId> {
        self.with_possible(object, name, |possible| {
            possible
                .filter(|possible| possible.len() == 1)
                .and_then(|possible| possible.iter().next().copied())
        })
    }

    fn with_possible<T>(
        &self,
        object: ObjectId,
        name: NameId,
        ask: impl FnOnce(Option<&HashSet<ValueId>>) -> T,
    ) -> T {
        let mut cache = self.possible.borrow_mut();
        ask(cache.entry((object, name)).or_insert_with(|| self.column_values(object, name)).as_ref())
    }

    /// What was there initially and what transactions that may have committed wrote; NULL where the
    /// row is, or was, absent.
    fn column_values(&self, object: ObjectId, name: NameId) -> Option<HashSet<ValueId>> {
        let history = self.history();
        let of = |row: ValueId| match history.value(row) {
            Value::Row(_) => Some(history.values().column(row, name)),
            Value::Null => Some(Some(ValueId::NULL)),
            _ => None,
        };
        let mut all = HashSet::from([of(history.initial(object))?.unwrap_or(ValueId::NULL)]);
        for &(op, value) in &self.objects.get(&object)?.accesses {
            let op = history.op(op);
            if !op.kind.writes() || !may_commit(history, history.txn_of(op.id)) {
                continue;
            }
            match op.kind {
                OpKind::Write => all.extend(of(value)?),
                OpKind::Update => match history.update(op.id)?.set.as_deref() {
                    None => _ = all.insert(ValueId::NULL),
                    Some(set) if self.targets(Some(set))?.contains(&name) => _ = all.insert(of(value)??),
                    Some(_) => {}
                },
                _ => return None,
            }
        }
        (!all.contains(&ValueId::UNKNOWN)).then_some(all)
    }

    /// Whether the row that was returned certainly does not match, whatever else it holds.
    pub(super) fn mismatches(&self, op: &Op<'p>, object: ObjectId) -> bool {
        let Some(look) = self.look(op, object).filter(|look| look.returned && op.kind == OpKind::Scan) else {
            return false;
        };
        // What is absent matches nothing.
        if look.values.contains(&ValueId::NULL) {
            return true;
        }
        let any = Shape::Columns(Vec::new());
        let row = ShapeRow { all: self, object, shape: &any, look: &look };
        look.predicate.is_some_and(|predicate| self.predicates.holds(predicate, &row) == Ok(false))
    }
}

/// What of an observation is not of the transaction's own making.
enum Left<'h> {
    /// The elements before its own.
    Elements(&'h [ValueId]),
    /// Columns that it has not written.
    Columns(Vec<(NameId, ValueId)>),
}

/// What the client recorded of one object in one operation.
struct Look<'h> {
    values: Vec<ValueId>,
    predicate: Option<PredicateId>,
    returned: bool,
    /// The columns that an update sets: in these the values are new.
    set: Vec<NameId>,
    /// The text of the assignments of an update whose new values are in `values`.
    assigned: Option<&'h str>,
}

/// A row of which some columns are known: those of the shape, and those that the client saw. Asking
/// for another is an error, and leaves the condition open.
struct ShapeRow<'a, 'p> {
    all: &'a Candidates<'p>,
    object: ObjectId,
    shape: &'a Shape,
    look: &'a Look<'a>,
}

impl Row for ShapeRow<'_, '_> {
    fn column(&self, name: &str) -> Option<Cow<'_, SqlValue>> {
        let history = self.all.history();
        let sql = |id| Field::Value(id).to_sql(history).map(|v| Cow::Owned(v.into_owned()));
        if let Some(key) = key_column(history, self.object, name) {
            return sql(key);
        }
        let Lookup::Column(name) = self.all.predicates.resolve(name) else { return None };
        let shape = match self.shape {
            Shape::Columns(columns) => columns.iter().find(|c| c.0 == name).and_then(|c| c.1),
            _ => None,
        };
        let seen = || {
            let shown = self.look.values.iter().filter(|_| !self.look.set.contains(&name));
            shown.filter_map(|&v| history.values().column(v, name)).find(|&v| v != ValueId::UNKNOWN)
        };
        let closed = || match self.shape {
            Shape::Columns(columns) if columns.iter().all(|c| c.0 != name) => {
                self.all.only_value(self.object, name)
            }
            _ => None,
        };
        sql(shape.or_else(seen).or_else(closed)?)
    }
}

impl Object {
    fn new(
        history: &History,
        accesses: Vec<(OpId, ValueId)>,
        versions: Vec<(Version, Shape)>,
        completed: HashSet<Version>,
    ) -> Self {
        let mut object = Object { accesses, versions, completed, by_key: HashMap::new(), rest: Vec::new() };
        for (i, (_, shape)) in object.versions.iter().enumerate() {
            match key(history, shape) {
                Some(key) => object.by_key.entry(key).or_default().push(i),
                None => object.rest.push(i),
            }
        }
        object
    }

    /// A superset of the versions that explain what was seen.
    fn find(&self, history: &History, look: Option<&Look<'_>>) -> Vec<usize> {
        let sought =
            look.filter(|look| look.returned && look.set.is_empty()).and_then(|look| look.values.first());
        match sought.and_then(|&value| value_key(history, value)) {
            Some(key) => self.by_key.get(&key).into_iter().flatten().chain(&self.rest).copied().collect(),
            None => (0..self.versions.len()).collect(),
        }
    }
}

/// What a shape is found by: a list by its last element, a scalar by itself, a row by nothing.
fn key(history: &History, shape: &Shape) -> Option<ValueId> {
    match shape {
        Shape::Exact(Cell::Value(id)) => value_key(history, *id),
        Shape::Exact(Cell::List(items)) | Shape::Ends(items) => items.last().copied(),
        _ => None,
    }
}

fn value_key(history: &History, id: ValueId) -> Option<ValueId> {
    match history.value(id) {
        Value::List(items) => Some(items.last().copied().unwrap_or(ValueId::NULL)),
        Value::Row(_) | Value::Unknown => None,
        _ => Some(id),
    }
}

/// A statement outside the fragment, or one whose effects nobody saw, may have written any row of
/// its table.
fn opaque_tables(predicates: &Predicates<'_>) -> Vec<bool> {
    let history = predicates.history();
    let mut opaque = vec![false; history.tables().len()];
    if !history.has_kind(OpKind::Sql) && !history.has_kind(OpKind::Update) {
        return opaque;
    }
    let live = history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted);
    for op in live.flat_map(|txn| history.ops(txn)) {
        match op.kind {
            OpKind::Sql if predicates.summary(op.id).is_some() => {}
            OpKind::Sql => opaque.fill(true),
            OpKind::Update => {
                let Some(update) = history.update(op.id) else { continue };
                let set = update.set.as_deref();
                if !update.observed || set.is_some_and(|set| predicates.assignments(set).is_err()) {
                    opaque[history.predicate(update.predicate).table.index()] = true;
                }
            }
            _ => {}
        }
    }
    opaque
}
