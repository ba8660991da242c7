//! Conversion of a value to the type of the column that stores it.

use crate::decimal::Decimal;
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::arith::decimal_overflow;
use crate::reading::cast::{Type, cast, check_range, text_of};
use crate::value::Value;

/// The value as the column stores it. `flexible`: it came from a literal or a parameter, so that
/// text may stand for any type where types are static.
pub(crate) fn store(value: Value, to: Type, flexible: bool, dialect: Dialect) -> Result<Value, SqlError> {
    if value.is_null() {
        return Ok(value);
    }
    // The common case: an integer of the widest type, or text without a limit, is stored as it is.
    if let (Value::Int(_), Type::Int(64)) | (Value::Text(_), Type::Text(None)) = (&value, to) {
        return Ok(value);
    }
    // A text has no more characters than bytes.
    if let (Value::Text(text), Type::Text(Some(length))) = (&value, to)
        && text.len() <= length as usize
    {
        return Ok(value);
    }
    if let (Value::Int(number), Type::Int(bits), true) = (&value, to, dialect != Dialect::Sqlite) {
        return check_range(*number, bits).map(|()| value);
    }
    match dialect {
        Dialect::Sqlite => store_sqlite(value, to),
        Dialect::MySql | Dialect::TiDb => store_mysql(value, to),
        Dialect::Generic | Dialect::Postgres | Dialect::Cockroach => {
            store_strict(value, to, flexible, dialect)
        }
    }
}

fn refused(value: &Value, to: Type) -> SqlError {
    SqlError::Type(format!("{value} does not fit a column of type {to:?}"))
}

/// PostgreSQL's assignment casts.
fn store_strict(value: Value, to: Type, flexible: bool, dialect: Dialect) -> Result<Value, SqlError> {
    let fits = match (&value, to) {
        (Value::Text(_), Type::Text(_)) => true,
        (Value::Text(_), _) => flexible,
        (Value::Int(_) | Value::Decimal(_) | Value::Float(_), Type::Int(_)) => true,
        (Value::Int(_) | Value::Decimal(_), Type::Decimal(_)) => true,
        (Value::Int(_) | Value::Decimal(_) | Value::Float(_), Type::Float) => true,
        (Value::Bool(_), Type::Bool) | (Value::Bytes(_), Type::Bytes) => true,
        (Value::Date(_) | Value::Timestamp(_), Type::Date | Type::Timestamp) => true,
        (Value::Bytes(_), Type::Text(_)) => false,
        (_, Type::Text(_)) => true,
        _ => false,
    };
    if !fits {
        return Err(refused(&value, to));
    }
    match to {
        Type::Text(length) => bounded_text(text_of(&value, dialect)?, length),
        _ => cast(&value, to, dialect),
    }
}

fn bounded_text(text: String, length: Option<u32>) -> Result<Value, SqlError> {
    match length {
        Some(length) if text.chars().count() > length as usize => {
            Err(SqlError::Overflow(format!("a text longer than {length} characters")))
        }
        _ => Ok(Value::text(text)),
    }
}

/// SQLite's column affinity, where it does not have to read text as numbers or print doubles; short
/// decimals it reads as everybody does.
fn store_sqlite(value: Value, to: Type) -> Result<Value, SqlError> {
    match (&value, to) {
        (Value::Bool(truth), _) => store_sqlite(Value::Int(i64::from(*truth)), to),
        (Value::Int(_), Type::Int(_) | Type::Bool | Type::Decimal(_)) => Ok(value),
        (Value::Int(number), Type::Float) => Ok(Value::Float(*number as f64)),
        (Value::Float(_), Type::Float) => Ok(value),
        (Value::Float(number), Type::Int(_) | Type::Bool | Type::Decimal(_)) => {
            let whole = number.fract() == 0.0 && number.abs() < 9.0e18;
            Ok(if whole { Value::Int(*number as i64) } else { value })
        }
        (Value::Text(_), Type::Text(_)) | (Value::Bytes(_), Type::Bytes) => Ok(value),
        (Value::Int(number), Type::Text(_)) => Ok(Value::text(number.to_string())),
        (Value::Text(text), Type::Decimal(_)) if is_short_decimal(text) => {
            store_sqlite(Value::Float(text.parse().unwrap_or_default()), to)
        }
        // The affinity of DATE and DATETIME is numeric: text that is no number stays text.
        (Value::Text(text), Type::Date | Type::Timestamp) if Value::timestamp(text).is_some() => Ok(value),
        _ => Err(SqlError::unsupported(format!("{value} in a column of type {to:?}"))),
    }
}

/// A decimal whose digits a double keeps.
fn is_short_decimal(text: &str) -> bool {
    !text.contains(['e', 'E'])
        && text.bytes().filter(u8::is_ascii_digit).count() <= 15
        && text.parse::<Decimal>().is_ok()
}

/// MySQL in strict mode.
fn store_mysql(value: Value, to: Type) -> Result<Value, SqlError> {
    let dialect = Dialect::MySql;
    match (&value, to) {
        (Value::Bool(truth), _) => store_mysql(Value::Int(i64::from(*truth)), to),
        (Value::Int(number), Type::Int(bits)) => check_range(*number, bits).map(|()| value),
        (Value::Int(number), Type::Bool) => check_range(*number, 8).map(|()| value),
        (Value::Decimal(number), Type::Int(_) | Type::Bool) => {
            let whole =
                number.rescale(0).and_then(|whole| whole.to_integer()).ok_or_else(decimal_overflow)?;
            store_mysql(Value::Int(whole), to)
        }
        (Value::Text(text), Type::Int(_)) => match text.parse() {
            Ok(number) => store_mysql(Value::Int(number), to),
            Err(_) => Err(SqlError::unsupported(format!("{value} in an integer column"))),
        },
        (Value::Int(_) | Value::Decimal(_), Type::Decimal(_)) => cast(&value, to, dialect),
        (Value::Text(text), Type::Decimal(_)) => match text.parse() {
            Ok(number) => cast(&Value::Decimal(number), to, dialect),
            Err(_) => Err(SqlError::unsupported(format!("{value} in a decimal column"))),
        },
        (Value::Int(_) | Value::Decimal(_) | Value::Float(_), Type::Float) => cast(&value, to, dialect),
        (Value::Text(_) | Value::Int(_) | Value::Decimal(_), Type::Text(length)) => {
            bounded_text(text_of(&value, dialect)?, length)
        }
        (Value::Date(_) | Value::Timestamp(_) | Value::Text(_), Type::Date | Type::Timestamp) => {
            whole_seconds(cast(&value, to, dialect)?)
        }
        (Value::Bytes(_), Type::Bytes) => Ok(value),
        _ => Err(SqlError::unsupported(format!("{value} in a column of type {to:?}"))),
    }
}

/// A DATETIME without a declared precision rounds fractions of seconds away.
fn whole_seconds(value: Value) -> Result<Value, SqlError> {
    match value {
        Value::Timestamp(micros) if micros % 1_000_000 != 0 => {
            Err(SqlError::unsupported("fractions of seconds in a DATETIME"))
        }
        other => Ok(other),
    }
}
