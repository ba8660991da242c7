//! What an object holds, what a write does to it, and whether a read may have seen it.

use std::borrow::Cow;

use margay_history::{History, NameId, ObjectId, Value, ValueId, Values};
use margay_sql::{Dialect, Value as SqlValue};

/// What an object holds.
///
/// A value that the history already has stays an id, so plain key-value states cost nothing; only
/// what operations build up (appended lists, merged rows, computed columns) is owned.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// A value of the history; [`ValueId::NULL`] is absent.
    Value(ValueId),
    /// A list that grew by appends.
    List(Vec<ValueId>),
    /// A row that grew by partial writes, by column.
    Row(Vec<(NameId, Field)>),
    /// A computed value that is no row.
    Made(Box<SqlValue>),
}

/// What a column of a built row holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Field {
    /// A value of the history.
    Value(ValueId),
    /// A computed value.
    Made(SqlValue),
}

/// What one operation does to one object.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Replaces the value; [`ValueId::NULL`] deletes.
    Put(ValueId),
    /// Writes the columns of a row and leaves the others; creates the row where it is absent.
    Merge(ValueId),
    /// Appends one element.
    Append(ValueId),
    /// Writes computed columns.
    Set(Vec<(NameId, Field)>),
    /// Replaces the value by a computed one.
    Make(SqlValue),
}

impl Cell {
    /// Nothing there.
    pub const ABSENT: Cell = Cell::Value(ValueId::NULL);

    /// Whether nothing is there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        *self == Cell::ABSENT
    }

    /// The elements, if it is a list; an absent list is empty.
    #[must_use]
    pub fn elements<'a>(&'a self, history: &'a History) -> Option<&'a [ValueId]> {
        match self {
            Cell::List(items) => Some(items),
            Cell::Value(id) => match history.value(*id) {
                Value::List(items) => Some(items),
                Value::Null => Some(&[]),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether it is a row.
    #[must_use]
    pub fn is_row(&self, history: &History) -> bool {
        match self {
            Cell::Row(_) => true,
            Cell::Value(id) => matches!(history.value(*id), Value::Row(_)),
            _ => false,
        }
    }

    /// The column `name`, if it is a row that has it.
    #[must_use]
    pub fn column(&self, history: &History, name: NameId) -> Option<Field> {
        match self {
            Cell::Row(columns) => {
                columns.binary_search_by_key(&name, |c| c.0).ok().map(|found| columns[found].1.clone())
            }
            Cell::Value(id) => history.values().column(*id, name).map(Field::Value),
            _ => None,
        }
    }

    /// The cell for people.
    #[must_use]
    pub fn show(&self, history: &History) -> String {
        match self {
            Cell::Value(id) => history.show_value(*id),
            Cell::List(items) => {
                let items: Vec<_> = items.iter().map(|&v| history.show_value(v)).collect();
                format!("[{}]", items.join(" "))
            }
            Cell::Row(columns) => {
                let name = |n: NameId| known_name(history, n).unwrap_or("(another column)");
                let columns: Vec<_> =
                    columns.iter().map(|(n, f)| format!("{}: {}", name(*n), f.show(history))).collect();
                format!("{{{}}}", columns.join(", "))
            }
            Cell::Made(value) => value.to_string(),
        }
    }
}

impl Field {
    fn show(&self, history: &History) -> String {
        match self {
            Field::Value(id) => history.show_value(*id),
            Field::Made(value) => value.to_string(),
        }
    }

    /// The field as SQL sees it; `None` for what SQL has no scalar for.
    #[must_use]
    pub fn to_sql<'a>(&'a self, history: &History) -> Option<Cow<'a, SqlValue>> {
        match self {
            Field::Value(id) => to_sql(history, *id).map(Cow::Owned),
            Field::Made(value) => Some(Cow::Borrowed(value)),
        }
    }

    /// Whether a client that saw `observed` may have seen this field.
    #[must_use]
    pub fn is(&self, history: &History, observed: ValueId) -> bool {
        match self {
            Field::Value(id) => *id == observed,
            Field::Made(made) => to_sql(history, observed).is_some_and(|observed| same_sql(made, &observed)),
        }
    }
}

/// A name that the history knows; computed rows may have columns that it does not.
pub(crate) fn known_name(history: &History, name: NameId) -> Option<&str> {
    (name.index() < history.values().name_count()).then(|| history.name(name))
}

fn same_sql(a: &SqlValue, b: &SqlValue) -> bool {
    match (a.is_null(), b.is_null()) {
        (false, false) => a.sql_eq(b, Dialect::Generic) == Some(true),
        (a, b) => a == b,
    }
}

/// A scalar of the history as SQL sees it.
#[must_use]
pub fn to_sql(history: &History, id: ValueId) -> Option<SqlValue> {
    scalar(history.values(), id)
}

/// A scalar as SQL sees it.
#[must_use]
pub fn scalar(values: &Values, id: ValueId) -> Option<SqlValue> {
    Some(match values.get(id) {
        Value::Null => SqlValue::Null,
        Value::Bool(b) => SqlValue::Bool(b),
        Value::Int(i) => SqlValue::Int(i),
        Value::UInt(u) => SqlValue::Decimal(u.to_string().parse().ok()?),
        Value::Float(f) => SqlValue::Float(f),
        Value::Text(text) => SqlValue::text(text),
        Value::Unknown | Value::List(_) | Value::Row(_) => return None,
    })
}

/// The cell after an effect.
#[must_use]
pub fn fold(history: &History, cell: Cell, effect: &Effect) -> Cell {
    match effect {
        Effect::Put(id) => Cell::Value(*id),
        Effect::Append(element) => append(history, cell, *element),
        Effect::Merge(row) => merge(history, cell, *row),
        Effect::Set(columns) => set(history, cell, columns),
        Effect::Make(value) => Cell::Made(Box::new(value.clone())),
    }
}

/// Appending to what is no list starts a new one.
fn append(history: &History, cell: Cell, element: ValueId) -> Cell {
    match cell {
        Cell::List(mut items) => {
            items.push(element);
            Cell::List(items)
        }
        other => {
            let mut items = other.elements(history).unwrap_or(&[]).to_vec();
            items.push(element);
            Cell::List(items)
        }
    }
}

fn merge(history: &History, cell: Cell, row: ValueId) -> Cell {
    let Value::Row(new) = history.value(row) else { return Cell::Value(row) };
    let covers = |old: &[(NameId, ValueId)]| {
        old.iter().all(|(name, _)| new.binary_search_by_key(name, |c| c.0).is_ok())
    };
    match &cell {
        Cell::Value(id) => match history.value(*id) {
            Value::Row(old) if !covers(old) => {}
            _ => return Cell::Value(row),
        },
        Cell::Row(_) => {}
        Cell::List(_) | Cell::Made(_) => return Cell::Value(row),
    }
    let new: Vec<_> = new.iter().map(|&(name, value)| (name, Field::Value(value))).collect();
    set(history, cell, &new)
}

fn set(history: &History, cell: Cell, new: &[(NameId, Field)]) -> Cell {
    let mut columns = match cell {
        Cell::Row(columns) => columns,
        Cell::Value(id) => match history.value(id) {
            Value::Row(old) => old.iter().map(|&(name, value)| (name, Field::Value(value))).collect(),
            _ => Vec::new(),
        },
        Cell::List(_) | Cell::Made(_) => Vec::new(),
    };
    for (name, field) in new {
        match columns.binary_search_by_key(name, |c| c.0) {
            Ok(found) => columns[found].1 = field.clone(),
            Err(place) => columns.insert(place, (*name, field.clone())),
        }
    }
    Cell::Row(columns)
}

/// The value that the key of `object` gives to the column `name`, if that is a key column.
#[must_use]
pub fn key_column(history: &History, object: ObjectId, name: &str) -> Option<ValueId> {
    let object = history.object(object);
    let key = &history.table(object.table?).key;
    let place = key.iter().position(|column| column == name)?;
    match history.value(object.key) {
        Value::List(items) if key.len() > 1 => items.get(place).copied(),
        _ if key.len() == 1 => Some(object.key),
        _ => None,
    }
}

/// Whether a client that saw `observed` of `object` may have seen `cell`.
///
/// What was not observed fits everything. Of a row only the observed columns count; one that the
/// cell does not have is NULL, or the key's. An absent list and an empty one are the same.
#[must_use]
pub fn observed_matches(history: &History, object: ObjectId, observed: ValueId, cell: &Cell) -> bool {
    if observed == ValueId::UNKNOWN || *cell == Cell::Value(observed) {
        return true;
    }
    match history.value(observed) {
        Value::Null => matches!(cell.elements(history), Some([])),
        Value::List(items) => cell.elements(history) == Some(items),
        Value::Row(columns) => {
            cell.is_row(history) && columns.iter().all(|&(n, v)| column_is(history, object, cell, n, v))
        }
        _ => match cell {
            Cell::Made(made) => Field::Made((**made).clone()).is(history, observed),
            _ => false,
        },
    }
}

fn column_is(history: &History, object: ObjectId, cell: &Cell, name: NameId, observed: ValueId) -> bool {
    if observed == ValueId::UNKNOWN {
        return true;
    }
    match cell.column(history, name) {
        Some(field) => field.is(history, observed),
        None => key_column(history, object, history.name(name)).unwrap_or(ValueId::NULL) == observed,
    }
}
