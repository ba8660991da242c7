//! Whether a value is what a client observed.
//!
//! Clients record results in the types of their protocol: a decimal may come as text, a truth value
//! as a number. Values are equal here when they stand for the same SQL value; bytes are not
//! compared, because every protocol writes them differently.

use margay_history::{History, Value, ValueId};
use margay_sql::{Decimal, Value as SqlValue};

/// Whether an observed tuple is this row.
#[must_use]
pub fn same_row(history: &History, observed: ValueId, row: &[SqlValue]) -> bool {
    match history.value(observed) {
        Value::Unknown => true,
        Value::List(cells) => {
            cells.len() == row.len()
                && cells.iter().zip(row).all(|(&cell, value)| same(history.value(cell), value))
        }
        _ => false,
    }
}

/// Whether an observed value is this one.
#[must_use]
pub fn same_value(history: &History, observed: ValueId, value: &SqlValue) -> bool {
    same(history.value(observed), value)
}

/// Whether an observed value is this one.
#[must_use]
pub fn same(observed: Value<'_>, value: &SqlValue) -> bool {
    match (observed, value) {
        (Value::Unknown, _) | (_, SqlValue::Bytes(_)) => true,
        (Value::Null, _) | (_, SqlValue::Null) => matches!((observed, value), (Value::Null, SqlValue::Null)),
        (Value::Int(a), SqlValue::Int(b)) => a == *b,
        (Value::Bool(a), SqlValue::Bool(b)) => a == *b,
        (Value::Bool(a), _) => number(value) == Some(Number::Exact(i64::from(a).into())),
        (Value::Text(a), SqlValue::Text(b)) => *a == **b,
        (Value::Text(text), SqlValue::Bool(b)) => truth(text) == Some(*b),
        (Value::Text(text), SqlValue::Date(_)) => SqlValue::date(text).as_ref() == Some(value),
        (Value::Text(text), SqlValue::Timestamp(_)) => SqlValue::timestamp(text).as_ref() == Some(value),
        (Value::Int(a), SqlValue::Bool(b)) => a == i64::from(*b),
        (observed, value) => match (observed_number(observed), number(value)) {
            (Some(a), Some(b)) => same_number(a, b),
            _ => false,
        },
    }
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "t" | "true" | "TRUE" | "1" => Some(true),
        "f" | "false" | "FALSE" | "0" => Some(false),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Number {
    Exact(Decimal),
    Double(f64),
}

fn number(value: &SqlValue) -> Option<Number> {
    match value {
        SqlValue::Int(number) => Some(Number::Exact((*number).into())),
        SqlValue::Decimal(number) => Some(Number::Exact(*number)),
        SqlValue::Float(number) => Some(Number::Double(*number)),
        _ => None,
    }
}

fn observed_number(value: Value<'_>) -> Option<Number> {
    match value {
        Value::Int(number) => Some(Number::Exact(number.into())),
        Value::UInt(number) => number.to_string().parse().ok().map(Number::Exact),
        Value::Float(number) => Some(Number::Double(number)),
        Value::Text(text) => match text.parse::<Decimal>() {
            Ok(number) => Some(Number::Exact(number)),
            Err(_) => text.parse().ok().map(Number::Double),
        },
        _ => None,
    }
}

/// A double stands for every decimal that is nearest to it.
fn same_number(a: Number, b: Number) -> bool {
    match (a, b) {
        (Number::Exact(a), Number::Exact(b)) => a == b,
        (Number::Double(a), Number::Double(b)) => a == b,
        (Number::Exact(a), Number::Double(b)) | (Number::Double(b), Number::Exact(a)) => {
            a.to_f64() == b || a.to_string().parse() == Ok(b)
        }
    }
}
