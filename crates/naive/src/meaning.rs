//! What operations mean on values.
//!
//! # Design
//! A state gives each object a value; all values, those that arise while replaying included, are
//! interned in one table, so that a state is a vector of ids and equal ids mean equal values. Rows
//! are kept without their NULL columns, for a column that a row lacks is NULL.
//!
//! # Differs from the audit
//! On purpose this is a second reading of the same rules, written without a look at the audit's:
//! each certificate of this engine is checked by the other.

use std::borrow::Cow;
use std::cell::RefCell;

use hashbrown::HashMap;
use margay_history::{
    History, HistoryBuilder, NameId, ObjectId, OpId, OpKind, PredicateId, TableId, Value, ValueId,
};
use margay_sql::{Assignments, Dialect, Predicate, Row};

/// Something that this engine does not evaluate, named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outside(pub String);

/// The meaning of one history's operations.
pub struct Meaning<'a> {
    history: &'a History,
    /// Holds the values; nothing is ever built.
    values: RefCell<HistoryBuilder>,
    predicates: Vec<Result<Predicate, String>>,
    assignments: HashMap<OpId, Result<Assignments, String>>,
    /// The objects of each table.
    tables: Vec<Vec<ObjectId>>,
    matches: RefCell<HashMap<(PredicateId, ObjectId, ValueId), bool>>,
    assigned: RefCell<HashMap<(OpId, ObjectId, ValueId), ValueId>>,
}

impl<'a> Meaning<'a> {
    /// The meaning of `history`.
    #[must_use]
    pub fn new(history: &'a History) -> Self {
        let text = |error: margay_sql::SqlError| error.to_string();
        let dialect = dialect(history);
        let parse = |p: &margay_history::Predicate| Predicate::parse(&p.text, dialect).map_err(text);
        let mut assignments = HashMap::new();
        for op in history.txns().flat_map(|txn| history.ops(txn)) {
            if let Some(set) = history.update(op.id).and_then(|update| update.set.as_deref()) {
                assignments.insert(op.id, Assignments::parse(set, dialect).map_err(text));
            }
        }
        let mut tables = vec![Vec::new(); history.tables().len()];
        for object in history.objects() {
            if let Some(table) = history.object(object).table {
                tables[table.index()].push(object);
            }
        }
        Self {
            history,
            values: RefCell::new(HistoryBuilder::like(history)),
            predicates: history.predicates().iter().map(parse).collect(),
            assignments,
            tables,
            matches: RefCell::default(),
            assigned: RefCell::default(),
        }
    }

    /// The objects of a table.
    #[must_use]
    pub fn objects(&self, table: TableId) -> &[ObjectId] {
        &self.tables[table.index()]
    }

    /// The initial value of an object.
    #[must_use]
    pub fn initial(&self, object: ObjectId) -> ValueId {
        self.normal(self.history.initial(object))
    }

    /// What a write or append of `value` makes of an object with value `base`: NULL deletes, a row
    /// of a table merges into the row that is there, an append lengthens the list, everything else
    /// replaces.
    #[must_use]
    pub fn write(&self, kind: OpKind, object: ObjectId, base: ValueId, value: ValueId) -> ValueId {
        if kind == OpKind::Append {
            let mut items = self.items(base).unwrap_or_default();
            items.push(value);
            return self.values.borrow_mut().values().list(&items);
        }
        let merges = self.history.object(object).table.is_some();
        match (self.columns(base), self.columns(value)) {
            (Some(old), Some(new)) if merges => self.row(&[old, new].concat()),
            _ => self.normal(value),
        }
    }

    fn items(&self, value: ValueId) -> Option<Vec<ValueId>> {
        match self.values.borrow_mut().values().get(value) {
            Value::List(items) => Some(items.to_vec()),
            _ => None,
        }
    }

    fn columns(&self, value: ValueId) -> Option<Vec<(NameId, ValueId)>> {
        match self.values.borrow_mut().values().get(value) {
            Value::Row(columns) => Some(columns.to_vec()),
            _ => None,
        }
    }

    /// A row without its NULLs; of a column named twice the last counts.
    fn row(&self, columns: &[(NameId, ValueId)]) -> ValueId {
        let mut borrow = self.values.borrow_mut();
        let values = borrow.values();
        let whole = values.row(columns);
        let Value::Row(columns) = values.get(whole) else { return whole };
        let kept: Vec<_> = columns.iter().copied().filter(|&(_, v)| v != ValueId::NULL).collect();
        values.row(&kept)
    }

    fn normal(&self, value: ValueId) -> ValueId {
        self.columns(value).map_or(value, |columns| self.row(&columns))
    }

    /// Whether an observation of an object is what `state` shows.
    #[must_use]
    pub fn agrees(&self, object: ObjectId, seen: ValueId, state: ValueId) -> bool {
        if seen == ValueId::UNKNOWN || seen == state {
            return true;
        }
        if let (Some(seen), Some(_)) = (self.columns(seen), self.columns(state)) {
            let same =
                |&(name, value)| value == ValueId::UNKNOWN || self.column(object, state, name) == value;
            return seen.iter().all(same);
        }
        let empty = |value| value == ValueId::NULL || self.items(value).is_some_and(|items| items.is_empty());
        empty(seen) && empty(state)
    }

    /// A column of a row; columns of the table's key have the values of the key, missing ones are
    /// NULL.
    fn column(&self, object: ObjectId, row: ValueId, name: NameId) -> ValueId {
        let mut borrow = self.values.borrow_mut();
        let values = borrow.values();
        if let Some(value) = values.column(row, name) {
            return value;
        }
        let name = values.name(name).to_string();
        self.key_column(object, &name).unwrap_or(ValueId::NULL)
    }

    fn key_column(&self, object: ObjectId, name: &str) -> Option<ValueId> {
        let object = self.history.object(object);
        let key = &self.history.table(object.table?).key;
        let at = key.iter().position(|k| k == name)?;
        match self.history.value(object.key) {
            Value::List(parts) if key.len() > 1 => parts.get(at).copied(),
            _ => Some(object.key),
        }
    }

    /// The columns that a write merges into a row; nothing if it replaces what is there.
    #[must_use]
    pub fn merged_columns(&self, object: ObjectId, value: ValueId) -> Option<Vec<NameId>> {
        self.history.object(object).table?;
        self.columns(value).map(|columns| columns.iter().map(|column| column.0).collect())
    }

    /// The columns that a predicate update sets; nothing if it replaces what is there.
    #[must_use]
    pub fn assigned_columns(&self, op: OpId) -> Option<Vec<NameId>> {
        let parsed = self.assignments.get(&op)?.as_ref().ok()?;
        let name = |target: &str| {
            let folded = if self.folds(target) { target.to_ascii_lowercase() } else { target.to_string() };
            self.values.borrow_mut().values().intern_name(&folded)
        };
        Some(parsed.targets().map(name).collect())
    }

    /// Whether an observation shows a column that is not among `own` and not part of the key.
    #[must_use]
    pub fn shows_other_column(&self, object: ObjectId, seen: ValueId, own: &[NameId]) -> bool {
        let Some(columns) = self.columns(seen) else { return false };
        columns.iter().any(|&(name, value)| {
            let text = self.values.borrow_mut().values().name(name).to_string();
            value != ValueId::UNKNOWN && !own.contains(&name) && self.key_column(object, &text).is_none()
        })
    }

    /// Whether an object with this value matches a predicate. What is absent never does.
    ///
    /// # Errors
    /// When the predicate is outside the fragment that can be evaluated.
    pub fn matches(&self, predicate: PredicateId, object: ObjectId, state: ValueId) -> Result<bool, Outside> {
        if state == ValueId::NULL {
            return Ok(false);
        }
        let key = (predicate, object, state);
        if let Some(&known) = self.matches.borrow().get(&key) {
            return Ok(known);
        }
        let parsed = self.predicates[predicate.index()].as_ref();
        let parsed = parsed.map_err(|error| self.outside_predicate(predicate, error))?;
        let row = RowOf { meaning: self, object, state };
        let answer =
            parsed.matches(&row).map_err(|error| self.outside_predicate(predicate, &error.to_string()))?;
        self.matches.borrow_mut().insert(key, answer);
        Ok(answer)
    }

    fn outside_predicate(&self, predicate: PredicateId, error: &str) -> Outside {
        Outside(format!("the predicate `{}`: {error}", self.history.predicate(predicate).text))
    }

    fn outside_assignments(&self, op: OpId, error: &str) -> Outside {
        let set = self.history.update(op).and_then(|update| update.set.as_deref()).unwrap_or_default();
        Outside(format!("the assignments `{set}`: {error}"))
    }

    /// Whether every text can be read.
    ///
    /// # Errors
    /// The first one that is outside the fragment.
    pub fn is_read(&self) -> Result<(), Outside> {
        for (place, parsed) in self.predicates.iter().enumerate() {
            parsed.as_ref().map_err(|error| self.outside_predicate(PredicateId::at(place), error))?;
        }
        let unread = self.assignments.iter().filter_map(|(&op, parsed)| Some((op, parsed.as_ref().err()?)));
        match unread.min_by_key(|unread| unread.0) {
            Some((op, error)) => Err(self.outside_assignments(op, error)),
            None => Ok(()),
        }
    }

    /// What a predicate update writes, like a write of the columns that it sets, when it sees this
    /// value; NULL when it deletes.
    ///
    /// # Errors
    /// When the assignments are outside the fragment that can be evaluated.
    pub fn assign(&self, op: OpId, object: ObjectId, state: ValueId) -> Result<ValueId, Outside> {
        let Some(parsed) = self.assignments.get(&op) else { return Ok(ValueId::NULL) };
        if let Some(&known) = self.assigned.borrow().get(&(op, object, state)) {
            return Ok(known);
        }
        let new =
            self.evaluate(parsed, object, state).map_err(|error| self.outside_assignments(op, &error))?;
        self.assigned.borrow_mut().insert((op, object, state), new);
        Ok(new)
    }

    fn evaluate(
        &self,
        parsed: &Result<Assignments, String>,
        object: ObjectId,
        state: ValueId,
    ) -> Result<ValueId, String> {
        let parsed = parsed.as_ref().map_err(Clone::clone)?;
        if let Some(key) = parsed.targets().find(|target| self.key_column(object, target).is_some()) {
            return Err(format!("an update of the key column {key}"));
        }
        let row = RowOf { meaning: self, object, state };
        let new = parsed.apply(&row).map_err(|error| error.to_string())?;
        if self.columns(state).is_none() {
            return match &new[..] {
                [(name, value)] if *name == VALUE => self.intern(value),
                _ => Err("an assignment to a column of what is not a row".to_string()),
            };
        }
        let mut columns = Vec::new();
        for (name, value) in &new {
            let value = self.intern(value)?;
            let name = if self.folds(name) { &name.to_ascii_lowercase() } else { *name };
            columns.push((self.values.borrow_mut().values().intern_name(name), value));
        }
        Ok(self.values.borrow_mut().values().row(&columns))
    }

    /// Whether the history knows a column only by its name in lower case, to which SQL folds names.
    fn folds(&self, name: &str) -> bool {
        let values = self.history.values();
        values.find_name(name).is_none() && values.find_name(&name.to_ascii_lowercase()).is_some()
    }

    fn intern(&self, value: &margay_sql::Value) -> Result<ValueId, String> {
        let mut borrow = self.values.borrow_mut();
        let values = borrow.values();
        match value {
            margay_sql::Value::Null => Ok(ValueId::NULL),
            margay_sql::Value::Bool(b) => Ok(values.bool(*b)),
            margay_sql::Value::Int(i) => Ok(values.int(*i)),
            margay_sql::Value::Float(f) => Ok(values.float(*f)),
            margay_sql::Value::Text(text) => Ok(values.text(text)),
            margay_sql::Value::Decimal(d) if d.to_integer().is_some() => {
                Ok(values.int(d.to_integer().unwrap_or(0)))
            }
            other => Err(format!("a value of type {}", other.type_name())),
        }
    }

    fn sql(&self, value: ValueId) -> Option<margay_sql::Value> {
        Some(match self.values.borrow_mut().values().get(value) {
            Value::Null => margay_sql::Value::Null,
            Value::Bool(b) => margay_sql::Value::Bool(b),
            Value::Int(i) => margay_sql::Value::Int(i),
            Value::Float(f) => margay_sql::Value::Float(f),
            Value::Text(text) => margay_sql::Value::text(text),
            Value::Unknown | Value::UInt(_) | Value::List(_) | Value::Row(_) => return None,
        })
    }
}

/// The column of values that are no rows.
const VALUE: &str = "value";

/// The rules of the database that the history was recorded from.
fn dialect(history: &History) -> Dialect {
    Dialect::of_dbms(history.header().dbms.as_deref())
}

/// An object's value as a row of named columns.
struct RowOf<'a, 'h> {
    meaning: &'a Meaning<'h>,
    object: ObjectId,
    state: ValueId,
}

impl Row for RowOf<'_, '_> {
    fn column(&self, name: &str) -> Option<Cow<'_, margay_sql::Value>> {
        if let Some(key) = self.meaning.key_column(self.object, name) {
            return self.meaning.sql(key).map(Cow::Owned);
        }
        // Rows need not have the columns of the key, which may be written otherwise too.
        let folded = name.to_ascii_lowercase();
        if folded != name && self.meaning.key_column(self.object, &folded).is_some() {
            return None;
        }
        let value = match self.meaning.columns(self.state) {
            Some(_) if self.meaning.folds(name) => return None,
            Some(columns) => {
                let named = |&&(id, _): &&(NameId, ValueId)| {
                    let mut borrow = self.meaning.values.borrow_mut();
                    borrow.values().name(id) == name
                };
                columns.iter().find(named).map_or(ValueId::NULL, |&(_, value)| value)
            }
            None if name == VALUE => self.state,
            None => ValueId::NULL,
        };
        self.meaning.sql(value).map(Cow::Owned)
    }
}
