//! Types of columns, and conversions to them.

use sqlparser::ast::{CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

use crate::calendar;
use crate::compare::number_prefix;
use crate::decimal::Decimal;
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::possible::Numbers;
use crate::reading::arith::{decimal_overflow, integer_overflow};
use crate::value::Value;

/// The type of a column or of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Truth values; integers 0 and 1 in MySQL and SQLite.
    Bool,
    /// Integers of so many bits: 16, 32 or 64 (and MySQL's 8 and 24).
    Int(u32),
    /// Exact decimals, with precision and scale if declared.
    Decimal(Option<(u32, u32)>),
    /// Doubles.
    Float,
    /// Text, with its largest length in characters if declared.
    Text(Option<u32>),
    /// Bytes.
    Bytes,
    /// Dates.
    Date,
    /// Timestamps without time zone.
    Timestamp,
}

impl Type {
    /// The type that a declaration means.
    pub(crate) fn lower(data_type: &DataType, dialect: Dialect) -> Result<Type, SqlError> {
        use DataType as D;
        Ok(match data_type {
            D::Bool | D::Boolean => Type::Bool,
            D::TinyInt(_) if !dialect.is_postgres() => Type::Int(8),
            D::SmallInt(_) | D::Int2(_) => Type::Int(16),
            D::MediumInt(_) if !dialect.is_postgres() => Type::Int(24),
            D::Int(_) | D::Integer(_) | D::Int4(_) => Type::Int(32),
            D::BigInt(_) | D::Int8(_) | D::Signed | D::SignedInteger => Type::Int(64),
            D::Numeric(info) | D::Decimal(info) | D::Dec(info) => decimal_type(*info, dialect)?,
            D::Double(ExactNumberInfo::None) | D::DoublePrecision | D::Float8 => Type::Float,
            D::Real if dialect == Dialect::Sqlite => Type::Float,
            D::Float(ExactNumberInfo::None) if !dialect.is_mysql() => Type::Float,
            D::Text | D::TinyText | D::MediumText | D::LongText => Type::Text(None),
            D::Varchar(length) | D::CharacterVarying(length) | D::CharVarying(length) => {
                Type::Text(character_length(length)?)
            }
            // A CHAR is padded in PostgreSQL; only one character long it is the same as a VARCHAR.
            D::Char(length) | D::Character(length) => char_type(length, dialect)?,
            D::Bytea | D::Blob(_) => Type::Bytes,
            D::Date => Type::Date,
            D::Datetime(_) | D::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                Type::Timestamp
            }
            other => return Err(SqlError::unsupported(format!("the type {other}"))),
        })
    }

    /// Whether a column of this type stores these numbers as they are, if it stores them.
    pub(crate) fn keeps(self, numbers: Numbers, dialect: Dialect) -> bool {
        match self {
            Type::Int(_) => numbers.scale == 0,
            Type::Decimal(Some((_, scale))) => dialect != Dialect::Sqlite && numbers.scale <= scale,
            _ => false,
        }
    }
}

fn decimal_type(info: ExactNumberInfo, dialect: Dialect) -> Result<Type, SqlError> {
    let sized = |precision: u64, scale: i64| {
        let scale = u32::try_from(scale).ok()?;
        let precision = u32::try_from(precision).ok()?;
        (precision <= 37 && scale <= precision).then_some(Type::Decimal(Some((precision, scale))))
    };
    let wrong = || SqlError::unsupported(format!("the type NUMERIC{info}"));
    match info {
        ExactNumberInfo::None if dialect.is_mysql() => Ok(Type::Decimal(Some((10, 0)))),
        ExactNumberInfo::None => Ok(Type::Decimal(None)),
        ExactNumberInfo::Precision(precision) => sized(precision, 0).ok_or_else(wrong),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => sized(precision, scale).ok_or_else(wrong),
    }
}

fn character_length(length: &Option<CharacterLength>) -> Result<Option<u32>, SqlError> {
    match length {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => {
            u32::try_from(*length).map(Some).map_err(|_| SqlError::unsupported("a text type this long"))
        }
        Some(CharacterLength::Max) => Err(SqlError::unsupported("VARCHAR(MAX)")),
    }
}

fn char_type(length: &Option<CharacterLength>, dialect: Dialect) -> Result<Type, SqlError> {
    let length = character_length(length)?.unwrap_or(1);
    if dialect.is_strict() && length > 1 {
        return Err(SqlError::unsupported("CHAR(n): it is padded with spaces"));
    }
    Ok(Type::Text(Some(length)))
}

/// `CAST(value AS to)`.
pub(crate) fn cast(value: &Value, to: Type, dialect: Dialect) -> Result<Value, SqlError> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    match to {
        Type::Bool => cast_bool(value, dialect),
        Type::Int(bits) => cast_int(value, bits, dialect),
        Type::Decimal(size) if dialect != Dialect::Sqlite => cast_decimal(value, size, dialect),
        Type::Decimal(_) => Err(SqlError::unsupported("a cast to NUMERIC in SQLite")),
        Type::Float => cast_float(value, dialect),
        Type::Text(length) => cast_text(value, length, dialect),
        Type::Date | Type::Timestamp => cast_time(value, to, dialect),
        Type::Bytes => match value {
            Value::Bytes(_) => Ok(value.clone()),
            _ => Err(no_cast(value, "bytes")),
        },
    }
}

fn no_cast(value: &Value, to: &str) -> SqlError {
    SqlError::Type(format!("{value} has no conversion to {to}"))
}

fn cast_bool(value: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::Int(number) if dialect.is_strict() => Ok(Value::Bool(*number != 0)),
        Value::Int(_) => Ok(value.clone()),
        _ => Err(no_cast(value, "boolean")),
    }
}

fn cast_int(value: &Value, bits: u32, dialect: Dialect) -> Result<Value, SqlError> {
    let number = match value {
        Value::Int(number) => *number,
        Value::Bool(truth) => i64::from(*truth),
        Value::Decimal(number) => {
            number.rescale(0).and_then(Decimal::to_integer).ok_or_else(integer_overflow)?
        }
        Value::Float(number) => int_of_float(*number, dialect)?,
        Value::Text(text) if dialect.is_strict() => {
            text.trim().parse().map_err(|_| no_cast(value, "an integer"))?
        }
        Value::Text(text) => int_prefix(text).ok_or_else(|| no_cast(value, "an integer"))?,
        _ => return Err(no_cast(value, "an integer")),
    };
    // SQLite's CAST to any integer type keeps all 64 bits.
    if bits < 64 && dialect != Dialect::Sqlite {
        check_range(number, bits)?;
    }
    Ok(Value::Int(number))
}

/// An integer must fit the width of its type.
pub(crate) fn check_range(number: i64, bits: u32) -> Result<(), SqlError> {
    let limit = 1i64.checked_shl(bits - 1).unwrap_or(i64::MAX);
    let fits = bits >= 64 || (-limit..limit).contains(&number);
    if fits { Ok(()) } else { Err(integer_overflow()) }
}

/// PostgreSQL rounds halves to even, SQLite truncates.
fn int_of_float(number: f64, dialect: Dialect) -> Result<i64, SqlError> {
    let whole = match dialect {
        Dialect::Sqlite => number.trunc(),
        Dialect::MySql | Dialect::TiDb => number.round(),
        Dialect::Generic | Dialect::Postgres | Dialect::Cockroach => number.round_ties_even(),
    };
    if whole.abs() < 9.2e18 { Ok(whole as i64) } else { Err(integer_overflow()) }
}

/// The integer that a text begins with, 0 if with none.
fn int_prefix(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { Some(0) } else { text[..sign + digits].parse().ok() }
}

fn cast_decimal(value: &Value, size: Option<(u32, u32)>, dialect: Dialect) -> Result<Value, SqlError> {
    let number = match value {
        Value::Int(number) => Decimal::from(*number),
        Value::Decimal(number) => *number,
        Value::Text(text) if dialect.is_strict() => {
            text.trim().parse().map_err(|_| no_cast(value, "a decimal"))?
        }
        Value::Bool(truth) if !dialect.is_strict() => Decimal::from(i64::from(*truth)),
        _ => return Err(no_cast(value, "a decimal")),
    };
    let Some((precision, scale)) = size else { return Ok(Value::Decimal(number)) };
    let rounded = number.rescale(scale).ok_or_else(decimal_overflow)?;
    if rounded.mantissa().unsigned_abs() >= 10u128.pow(precision) {
        return Err(decimal_overflow());
    }
    Ok(Value::Decimal(rounded))
}

fn cast_float(value: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    match value {
        Value::Float(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Float(*number as f64)),
        Value::Decimal(number) => Ok(Value::Float(number.to_f64())),
        Value::Text(text) if dialect.is_strict() => {
            text.trim().parse().map(Value::Float).map_err(|_| no_cast(value, "a float"))
        }
        Value::Text(text) => Ok(Value::Float(number_prefix(text))),
        _ => Err(no_cast(value, "a float")),
    }
}

fn cast_text(value: &Value, length: Option<u32>, dialect: Dialect) -> Result<Value, SqlError> {
    let text = text_of(value, dialect)?;
    match length {
        // SQLite ignores the length of a text type.
        Some(length) if dialect != Dialect::Sqlite => {
            Ok(Value::text(text.chars().take(length as usize).collect::<String>()))
        }
        _ => Ok(Value::text(text)),
    }
}

/// The text that a value is shown as. How databases print doubles differs, so that they have none
/// here.
pub(crate) fn text_of(value: &Value, dialect: Dialect) -> Result<String, SqlError> {
    match value {
        Value::Text(text) => Ok(text.to_string()),
        Value::Int(number) => Ok(number.to_string()),
        Value::Decimal(number) => Ok(number.to_string()),
        Value::Bool(truth) if dialect.is_strict() => Ok(truth.to_string()),
        Value::Bool(truth) => Ok(i64::from(*truth).to_string()),
        Value::Date(days) => Ok(calendar::show_date(*days)),
        Value::Timestamp(micros) => Ok(calendar::show_timestamp(*micros)),
        Value::Float(_) => Err(SqlError::unsupported("the text of a float")),
        Value::Null | Value::Bytes(_) => Err(no_cast(value, "text")),
    }
}

fn cast_time(value: &Value, to: Type, dialect: Dialect) -> Result<Value, SqlError> {
    if dialect == Dialect::Sqlite {
        return Err(SqlError::unsupported("a date or timestamp in SQLite"));
    }
    let micros = match value {
        Value::Date(days) => calendar::midnight(*days),
        Value::Timestamp(micros) => *micros,
        Value::Text(text) => {
            calendar::parse_timestamp(text.trim()).ok_or_else(|| no_cast(value, "a timestamp"))?
        }
        _ => return Err(no_cast(value, "a timestamp")),
    };
    Ok(if to == Type::Date { Value::Date(calendar::date_of(micros)) } else { Value::Timestamp(micros) })
}

/// Converts a text literal to the type of the value that it meets, as PostgreSQL types its
/// literals.
pub(crate) fn coerce_like(text: &Value, other: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    let to = match other {
        Value::Int(_) => Type::Int(64),
        Value::Decimal(_) => Type::Decimal(None),
        Value::Float(_) => Type::Float,
        Value::Date(_) => Type::Date,
        Value::Timestamp(_) => Type::Timestamp,
        _ => return Ok(text.clone()),
    };
    cast(text, to, dialect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_text_begins_with() {
        assert_eq!(int_prefix("-7.9"), Some(-7));
    }

    #[test]
    fn ranges() {
        assert!(cast(&Value::Int(40_000), Type::Int(16), Dialect::Postgres).is_err());
        assert!(cast(&Value::Int(i64::MIN), Type::Int(64), Dialect::Postgres).is_ok());
        let half = cast(&Value::Float(2.5), Type::Int(32), Dialect::Postgres).unwrap();
        assert_eq!(half, Value::Int(2));
        let cut = cast(&Value::text("abc"), Type::Text(Some(2)), Dialect::Postgres).unwrap();
        assert_eq!(cut, Value::text("ab"));
    }
}
