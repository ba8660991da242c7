//! Keys and values as programs have them, without interned ids.

use margay_history::{HistoryBuilder, ObjectId, ValueId};

/// A value that a client read or wrote.
///
/// Most values come from `Into`: `1`, `"text"`, `true`, `vec![1, 2]`, `None::<i64>` for absent.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Datum {
    /// The object is absent, or the value is NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Datum>),
    /// A row: columns by name.
    Row(Vec<(String, Datum)>),
}

impl Datum {
    /// A row of columns.
    pub fn row<N: Into<String>, V: Into<Datum>>(columns: impl IntoIterator<Item = (N, V)>) -> Self {
        Datum::Row(columns.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    pub(crate) fn intern(&self, builder: &mut HistoryBuilder) -> ValueId {
        match self {
            Datum::Null => ValueId::NULL,
            Datum::Bool(truth) => builder.values().bool(*truth),
            Datum::Int(number) => builder.values().int(*number),
            Datum::UInt(number) => builder.values().uint(*number),
            Datum::Float(number) => builder.values().float(*number),
            Datum::Text(text) => builder.values().text(text),
            Datum::List(items) => {
                let items: Vec<ValueId> = items.iter().map(|item| item.intern(builder)).collect();
                builder.values().list(&items)
            }
            Datum::Row(columns) => {
                let column = |(name, value): &(String, Datum)| {
                    let value = value.intern(builder);
                    (builder.values().intern_name(name), value)
                };
                let columns: Vec<_> = columns.iter().map(column).collect();
                builder.values().row(&columns)
            }
        }
    }

    /// How deep lists and rows are nested, and whether a row names a column twice.
    pub(crate) fn fault(&self, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return Some(format!("values are nested more than {MAX_DEPTH} deep"));
        }
        match self {
            Datum::List(items) => items.iter().find_map(|item| item.fault(depth + 1)),
            Datum::Row(columns) => {
                let twice = columns
                    .iter()
                    .enumerate()
                    .find(|(at, (name, _))| columns[..*at].iter().any(|(earlier, _)| earlier == name));
                let twice = twice.map(|(_, (name, _))| format!("a row has the column {name:?} twice"));
                twice.or_else(|| columns.iter().find_map(|(_, value)| value.fault(depth + 1)))
            }
            _ => None,
        }
    }
}

/// Deeper values are refused: reading and writing them is recursive.
const MAX_DEPTH: usize = 64;

macro_rules! from_int {
    ($($of:ty),*) => {
        $(impl From<$of> for Datum {
            fn from(number: $of) -> Self {
                Datum::Int(number.into())
            }
        })*
    };
}

from_int!(i8, i16, i32, i64, u8, u16, u32);

impl From<u64> for Datum {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Datum::UInt(number), Datum::Int)
    }
}

impl From<usize> for Datum {
    fn from(number: usize) -> Self {
        (number as u64).into()
    }
}

impl From<f64> for Datum {
    fn from(number: f64) -> Self {
        Datum::Float(number)
    }
}

impl From<bool> for Datum {
    fn from(truth: bool) -> Self {
        Datum::Bool(truth)
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Datum::Text(text.to_owned())
    }
}

impl From<String> for Datum {
    fn from(text: String) -> Self {
        Datum::Text(text)
    }
}

impl<T: Into<Datum>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Self {
        value.map_or(Datum::Null, Into::into)
    }
}

impl<T: Into<Datum>> From<Vec<T>> for Datum {
    fn from(items: Vec<T>) -> Self {
        Datum::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Clone + Into<Datum>> From<&[T]> for Datum {
    fn from(items: &[T]) -> Self {
        Datum::List(items.iter().cloned().map(Into::into).collect())
    }
}

/// The name of an object: a key (`"x"`, `7`), or a table and a key (`("accounts", 7)`).
#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    pub(crate) table: Option<String>,
    pub(crate) key: Datum,
}

impl Key {
    pub(crate) fn intern(&self, builder: &mut HistoryBuilder) -> ObjectId {
        let table = self.table.as_deref().map(|name| builder.table(name));
        let key = self.key.intern(builder);
        builder.object(table, key)
    }
}

impl<T: Into<Datum>> From<T> for Key {
    fn from(key: T) -> Self {
        Key { table: None, key: key.into() }
    }
}

impl<T: Into<Datum>> From<(&str, T)> for Key {
    fn from((table, key): (&str, T)) -> Self {
        Key { table: Some(table.to_owned()), key: key.into() }
    }
}
