//! Rows that are written in part: each column is an item of its own.
//!
//! # Problem
//! A write that sets some columns of a row leaves the others as they were, so what a read shows of
//! a row may come from several transactions.
//!
//! # Algorithm
//! The columns of such an object become items with versions of their own: a transaction writes a
//! column when it sets it or removes the row. A read of the row reads the columns that it shows; a
//! scan reads the columns that its condition asks for. The object itself stays an item too: its
//! versions are all its writers, so that the write conflicts of the snapshot levels and the
//! evidence are about rows, and reads of it tell whether the row is there.
//!
//! # Invariants
//! In any state the value of a column is that of its last version here, and a row is absent exactly
//! if the last version of the object removed it; so an order satisfies the reads made here if it
//! satisfies the history, and the other way round unless something was left out ([`Draft::loose`]).
//!
//! # Differs from the paper
//! [Vbox §4.1] knows rows only as wholes.
//!
//! # When something is left out
//! A condition that depends on two or more columns that are not known, or on whether a row with
//! nothing in a column is there at all, makes no read.
//!
//! [`Draft::loose`]: crate::problem::Draft::loose

use std::cell::OnceCell;

use hashbrown::{HashMap, HashSet};
use margay_history::{History, NameId, ObjectId, Op, OpKind, TxnId, Value, ValueId, Version};
use margay_verdict::Predicates;
use margay_verdict::cell::key_column;

use crate::problem::Item;

/// What a version made of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// The row is gone.
    Absent,
    /// This value; NULL included.
    Value(ValueId),
}

impl Content {
    /// The value that a client sees.
    pub fn value(self) -> ValueId {
        match self {
            Content::Absent => ValueId::NULL,
            Content::Value(value) => value,
        }
    }
}

/// What a transaction has made of a row so far.
#[derive(Clone, Default, Debug)]
pub(crate) struct Own {
    /// It removed the row, so that columns it has not set since are NULL.
    pub removed: bool,
    /// It has written to the row since, so the row is there.
    pub there: bool,
    pub columns: Vec<(NameId, ValueId)>,
}

impl Own {
    fn remove(&mut self) {
        *self = Own { removed: true, there: false, columns: Vec::new() };
    }

    fn set(&mut self, name: NameId, value: ValueId) {
        self.there = true;
        match self.columns.iter_mut().find(|c| c.0 == name) {
            Some(column) => column.1 = value,
            None => self.columns.push((name, value)),
        }
    }

    /// What the transaction sees in a column that it has written.
    pub fn content(&self, name: NameId) -> Option<Content> {
        match self.columns.iter().find(|c| c.0 == name) {
            Some(&(_, value)) => Some(Content::Value(value)),
            None if self.removed && self.there => Some(Content::Value(ValueId::NULL)),
            None => self.removed.then_some(Content::Absent),
        }
    }
}

/// The objects whose rows are written in part.
#[derive(Default)]
pub(crate) struct Parts<'h> {
    predicates: Option<&'h Predicates<'h>>,
    objects: HashMap<ObjectId, Vec<NameId>>,
    items: HashMap<(ObjectId, NameId), Item>,
    /// The items that are columns, in the order of their numbers.
    pub columns: Vec<(ObjectId, NameId)>,
    /// By column: who wrote what, the initial version first.
    versions: Vec<Vec<(Version, Content)>>,
    /// The same by value: made when a read asks for it.
    by_value: Vec<OnceCell<Vec<(ValueId, Version)>>>,
    /// By object: whether the row is there, the initial version first.
    rows: HashMap<ObjectId, Vec<(Version, bool)>>,
}

impl<'h> Parts<'h> {
    /// The columns of these objects.
    ///
    /// # Errors
    /// What of their writes is outside the fragment.
    pub fn of(
        predicates: &'h Predicates<'h>,
        objects: &HashSet<ObjectId>,
        may_commit: impl Fn(TxnId) -> bool,
    ) -> Result<Self, String> {
        let (mut parts, history) = (Self::default(), predicates.history());
        if objects.is_empty() {
            return Ok(parts);
        }
        parts.find_columns(predicates, objects);
        parts.predicates = Some(predicates);
        parts.number(history);
        for txn in history.txns().filter(|&txn| may_commit(txn)) {
            parts.add(history, txn)?;
        }
        parts.by_value.resize_with(parts.versions.len(), OnceCell::new);
        Ok(parts)
    }

    fn find_columns(&mut self, predicates: &Predicates<'_>, objects: &HashSet<ObjectId>) {
        let history = predicates.history();
        let mut found: HashMap<ObjectId, HashSet<NameId>> =
            objects.iter().map(|&o| (o, HashSet::new())).collect();
        let mut shown = |object: ObjectId, value: ValueId| {
            if let (Some(columns), Value::Row(row)) = (found.get_mut(&object), history.value(value)) {
                columns.extend(row.iter().map(|c| c.0));
            }
        };
        history.initial_values().iter().for_each(|&(object, value)| shown(object, value));
        for op in history.txns().flat_map(|txn| history.ops(txn)) {
            op.accesses.iter().for_each(|access| shown(access.object, access.value));
        }
        let asked = asked_columns(predicates);
        for (object, columns) in &mut found {
            let table = history.object(*object).table;
            columns.extend(asked.iter().filter(|(t, _)| Some(*t) == table).map(|&(_, name)| name));
            columns.retain(|&name| key_column(history, *object, history.name(name)).is_none());
        }
        let sorted = |columns: HashSet<NameId>| {
            let mut columns: Vec<NameId> = columns.into_iter().collect();
            columns.sort_unstable();
            columns
        };
        self.objects = found.into_iter().map(|(object, columns)| (object, sorted(columns))).collect();
    }

    fn number(&mut self, history: &History) {
        let mut objects: Vec<ObjectId> = self.objects.keys().copied().collect();
        objects.sort_unstable();
        for object in objects {
            let initial = history.initial(object);
            let there = initial != ValueId::NULL;
            self.rows.insert(object, vec![(Version::Initial, there)]);
            for &name in &self.objects[&object] {
                let item = Item((history.object_count() + self.columns.len()) as u32);
                self.items.insert((object, name), item);
                self.columns.push((object, name));
                let value = history.values().column(initial, name).unwrap_or(ValueId::NULL);
                let content = if there { Content::Value(value) } else { Content::Absent };
                self.versions.push(vec![(Version::Initial, content)]);
            }
        }
    }

    fn add(&mut self, history: &History, txn: TxnId) -> Result<(), String> {
        let mut all: Vec<(ObjectId, Own)> = Vec::new();
        for op in history.ops(txn) {
            self.apply(&op, &mut all)?;
        }
        for (object, own) in all {
            self.rows.entry(object).or_default().push((Version::Of(txn), own.there));
            for &name in &self.objects[&object] {
                if let (Some(content), Some(item)) = (own.content(name), self.items.get(&(object, name))) {
                    let place = item.index() - history.object_count();
                    self.versions[place].push((Version::Of(txn), content));
                }
            }
        }
        Ok(())
    }

    /// What an operation does to the rows of these objects.
    ///
    /// # Errors
    /// What of it is outside the fragment.
    pub fn apply(&self, op: &Op<'_>, own: &mut Vec<(ObjectId, Own)>) -> Result<(), String> {
        let Some(predicates) = self.predicates.filter(|_| op.kind.writes()) else { return Ok(()) };
        let history = predicates.history();
        for access in op.accesses.iter().filter(|access| self.has(access.object)) {
            let place = match own.iter().position(|(object, _)| *object == access.object) {
                Some(place) => place,
                None => {
                    own.push((access.object, Own::default()));
                    own.len() - 1
                }
            };
            let own = &mut own[place].1;
            match (set_of(history, op), history.value(access.value)) {
                (Some(None), _) | (None, Value::Null) => own.remove(),
                (None, Value::Row(columns)) if columns.iter().all(|c| self.is_plain(access.object, *c)) => {
                    own.there = true;
                    columns.iter().for_each(|&(name, value)| own.set(name, value));
                }
                (Some(Some(set)), Value::Row(_)) => update(predicates, set, access.value, own)?,
                _ => return Err(format!("{} is written in part", history.show_object(access.object))),
            }
        }
        Ok(())
    }

    /// Whether a written column has a known value, and that of the key if it is part of the key.
    fn is_plain(&self, object: ObjectId, (name, value): (NameId, ValueId)) -> bool {
        let Some(history) = self.predicates.map(Predicates::history) else { return true };
        let key = key_column(history, object, history.name(name));
        value != ValueId::UNKNOWN && key.is_none_or(|key| key == value)
    }

    /// Whether the object's rows are written in part.
    pub fn has(&self, object: ObjectId) -> bool {
        self.objects.contains_key(&object)
    }

    /// The item of a column, with the versions of it.
    pub fn column(
        &self,
        history: &History,
        object: ObjectId,
        name: NameId,
    ) -> Option<(Item, &[(Version, Content)])> {
        let item = *self.items.get(&(object, name))?;
        Some((item, &self.versions[item.index() - history.object_count()]))
    }

    /// The versions of a column in which a client sees `value`, the initial one first.
    pub fn showing(&self, history: &History, column: Item, value: ValueId) -> &[(ValueId, Version)] {
        let place = column.index() - history.object_count();
        let sorted = self.by_value[place].get_or_init(|| {
            let shown = |made: &(Version, Content)| (made.1.value(), made.0);
            let mut all: Vec<_> = self.versions[place].iter().map(shown).collect();
            all.sort_unstable();
            all
        });
        let start = sorted.partition_point(|version| version.0 < value);
        let end = sorted.partition_point(|version| version.0 <= value);
        &sorted[start..end]
    }

    /// Who made what of a column, the initial version first.
    pub fn made(&self, history: &History, column: Item) -> &[(Version, Content)] {
        &self.versions[column.index() - history.object_count()]
    }

    /// The object that an item is or belongs to.
    pub fn object(&self, history: &History, item: Item) -> ObjectId {
        match item.index().checked_sub(history.object_count()) {
            None => ObjectId(item.0),
            Some(column) => self.columns[column].0,
        }
    }

    /// The versions of an object, with whether the row is there.
    pub fn rows(&self, object: ObjectId) -> &[(Version, bool)] {
        self.rows.get(&object).map_or(&[], Vec::as_slice)
    }

    /// What a transaction writes, as items.
    pub fn written(&self, own: &[(ObjectId, Own)]) -> impl Iterator<Item = Item> {
        own.iter().flat_map(|(object, own)| {
            let names = self.objects[object].iter().filter(|&&name| own.content(name).is_some());
            let columns = names.filter_map(|&name| self.items.get(&(*object, name)).copied());
            columns.chain([Item::from(*object)])
        })
    }
}

/// The assignments of a predicate update; `Some(None)` for a delete.
fn set_of<'h>(history: &'h History, op: &Op<'_>) -> Option<Option<&'h str>> {
    (op.kind == OpKind::Update).then(|| history.update(op.id).and_then(|update| update.set.as_deref()))
}

/// The columns that an update sets take the values that the client saw.
fn update(predicates: &Predicates<'_>, set: &str, shown: ValueId, own: &mut Own) -> Result<(), String> {
    let history = predicates.history();
    let assignments = predicates.assignments(set).map_err(|outside| outside.0)?;
    for target in assignments.targets() {
        let name = predicates.column(target);
        let value = name.and_then(|name| history.values().column(shown, name));
        match (name, value.filter(|&value| value != ValueId::UNKNOWN)) {
            (Some(name), Some(value)) => own.set(name, value),
            _ => return Err(format!("an update that does not show what it made of column {target}")),
        }
    }
    Ok(())
}

/// The columns that conditions and assignments ask for, by table.
fn asked_columns(predicates: &Predicates<'_>) -> Vec<(margay_history::TableId, NameId)> {
    let history = predicates.history();
    let mut all = Vec::new();
    for (place, predicate) in history.predicates().iter().enumerate() {
        let id = margay_history::PredicateId::at(place);
        let names = predicates.condition(id).into_iter().flat_map(|condition| condition.columns());
        all.extend(names.filter_map(|name| Some((predicate.table, predicates.column(name)?))));
    }
    for op in history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind == OpKind::Update) {
        let Some(update) = history.update(op.id) else { continue };
        let table = history.predicate(update.predicate).table;
        let Some(Ok(assignments)) = update.set.as_deref().map(|set| predicates.assignments(set)) else {
            continue;
        };
        let names = assignments.columns().chain(assignments.targets());
        all.extend(names.filter_map(|name| Some((table, predicates.column(name)?))));
    }
    all.sort_unstable();
    all.dedup();
    all
}
