//! The values of columns and expressions.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::calendar;
use crate::compare;
use crate::decimal::Decimal;
use crate::dialect::Dialect;

/// A value of a column, a parameter or an expression.
///
/// `==`, `Hash` and `Ord` are structural and total: they tell values apart as data. SQL's own
/// comparison, with its NULLs and conversions, is [`Value::sql_eq`] and [`Value::sql_cmp`].
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// The absent value.
    #[default]
    Null,
    /// A truth value of a dialect that has them.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// An exact decimal number.
    Decimal(Decimal),
    /// A double.
    Float(f64),
    /// Text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A date: days since 1970-01-01.
    Date(i32),
    /// A timestamp without time zone: microseconds since 1970-01-01 00:00:00.
    Timestamp(i64),
}

impl Value {
    /// A text value.
    pub fn text(text: impl AsRef<str>) -> Self {
        Value::Text(Arc::from(text.as_ref()))
    }

    /// A date from text such as `2024-02-29`.
    pub fn date(text: &str) -> Option<Self> {
        calendar::parse_date(text).map(Value::Date)
    }

    /// A timestamp from text such as `2024-02-29 12:00:00`.
    pub fn timestamp(text: &str) -> Option<Self> {
        calendar::parse_timestamp(text).map(Value::Timestamp)
    }

    /// True for NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// SQL's `=`: `None` where it is unknown, or where the types cannot be compared.
    pub fn sql_eq(&self, other: &Value, dialect: Dialect) -> Option<bool> {
        compare::compare(self, other, dialect).ok().flatten().map(Ordering::is_eq)
    }

    /// SQL's comparison: `None` where it is unknown, where the types cannot be compared, or where
    /// the order of two texts depends on the database's collation.
    pub fn sql_cmp(&self, other: &Value, dialect: Dialect) -> Option<Ordering> {
        compare::order(self, other, dialect).ok().flatten()
    }

    /// The order of `ORDER BY … ASC`: total, with NULL where the dialect puts it. Texts whose order
    /// depends on the database's collation are ordered by code point.
    pub fn order(&self, other: &Value, dialect: Dialect) -> Ordering {
        match (self.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if dialect.nulls_first() => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) => other.order(self, dialect).reverse(),
            (false, false) => self.sql_cmp(other, dialect).unwrap_or_else(|| self.cmp(other)),
        }
    }

    /// The value's representative among those that GROUP BY, DISTINCT and keys hold equal to it.
    /// Texts that only some collations of the dialect hold equal have one representative; see
    /// [`Dialect::knows_equals_of`].
    pub fn group_key(&self, dialect: Dialect) -> Value {
        match self {
            Value::Bool(truth) if !dialect.is_strict() => Value::Int(i64::from(*truth)),
            Value::Decimal(number) => number.to_integer().map_or(Value::Decimal(*number), Value::Int),
            Value::Float(number) => float_key(*number),
            Value::Text(text) if dialect.ignores_case() => {
                Value::text(text.trim_end_matches(' ').to_ascii_uppercase())
            }
            Value::Text(text) if !dialect.compares_exactly() => Value::text(text.trim_end_matches(' ')),
            other => other.clone(),
        }
    }

    /// The structural order.
    fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    /// The name of the value's type, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Decimal(_) => "decimal",
            Value::Float(_) => "float",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Date(_) => "date",
            Value::Timestamp(_) => "timestamp",
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Decimal(_) => 3,
            Value::Float(_) => 4,
            Value::Text(_) => 5,
            Value::Bytes(_) => 6,
            Value::Date(_) => 7,
            Value::Timestamp(_) => 8,
        }
    }
}

/// An integral double groups with the integer, and other doubles with the decimal that they print
/// as.
fn float_key(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9.0e15 {
        return Value::Int(number as i64);
    }
    Value::Float(number)
}

impl Ord for Value {
    /// Most keys are integers.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            _ => self.compare(other),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::Null => {}
            Value::Bool(truth) => truth.hash(state),
            Value::Int(number) => number.hash(state),
            Value::Decimal(number) => number.hash(state),
            Value::Float(number) => number.to_bits().hash(state),
            Value::Text(text) => text.hash(state),
            Value::Bytes(bytes) => bytes.hash(state),
            Value::Date(days) => days.hash(state),
            Value::Timestamp(micros) => micros.hash(state),
        }
    }
}

/// Writes the value as a literal that every dialect but SQLite's (for dates) reads back.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Bool(true) => f.write_str("TRUE"),
            Value::Bool(false) => f.write_str("FALSE"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Decimal(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number:e}"),
            Value::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Value::Bytes(bytes) => {
                f.write_str("X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_str("'")
            }
            Value::Date(days) => write!(f, "DATE '{}'", calendar::show_date(*days)),
            Value::Timestamp(micros) => write!(f, "TIMESTAMP '{}'", calendar::show_timestamp(*micros)),
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Float(number)
    }
}

impl From<Decimal> for Value {
    fn from(number: Decimal) -> Self {
        Value::Decimal(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::text(text)
    }
}
