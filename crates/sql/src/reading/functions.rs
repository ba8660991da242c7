//! The scalar functions.

use crate::compare::{compare, order};
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::arith::{self, Arith, decimal_overflow};
use crate::reading::cast::text_of;
use crate::value::Value;

/// A scalar function whose arguments are all evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Abs,
    Ceil,
    Concat,
    Floor,
    Greatest,
    Least,
    Length,
    Bytes,
    Lower,
    Ltrim,
    Mod,
    Nullif,
    Replace,
    Round,
    Rtrim,
    Sign,
    Substr,
    Trim,
    Upper,
}

impl Scalar {
    /// The function of this name in the dialect, with the numbers of arguments that it takes.
    pub(crate) fn named(name: &str, dialect: Dialect) -> Option<(Scalar, std::ops::RangeInclusive<usize>)> {
        let sqlite = dialect == Dialect::Sqlite;
        let mysql = dialect.is_mysql();
        Some(match name {
            "abs" => (Scalar::Abs, 1..=1),
            "ceil" | "ceiling" if !sqlite => (Scalar::Ceil, 1..=1),
            "floor" if !sqlite => (Scalar::Floor, 1..=1),
            "concat" if !sqlite => (Scalar::Concat, 1..=32),
            "greatest" if !sqlite => (Scalar::Greatest, 2..=32),
            "least" if !sqlite => (Scalar::Least, 2..=32),
            "max" if sqlite => (Scalar::Greatest, 2..=32),
            "min" if sqlite => (Scalar::Least, 2..=32),
            "length" if mysql => (Scalar::Bytes, 1..=1),
            "length" => (Scalar::Length, 1..=1),
            "char_length" | "character_length" if !sqlite => (Scalar::Length, 1..=1),
            "octet_length" => (Scalar::Bytes, 1..=1),
            "lower" => (Scalar::Lower, 1..=1),
            "upper" => (Scalar::Upper, 1..=1),
            "ltrim" => (Scalar::Ltrim, 1..=1),
            "rtrim" => (Scalar::Rtrim, 1..=1),
            "trim" => (Scalar::Trim, 1..=1),
            "mod" if !sqlite => (Scalar::Mod, 2..=2),
            "nullif" => (Scalar::Nullif, 2..=2),
            "replace" => (Scalar::Replace, 3..=3),
            "round" => (Scalar::Round, 1..=2),
            "sign" => (Scalar::Sign, 1..=1),
            "substr" | "substring" => (Scalar::Substr, 2..=3),
            _ => return None,
        })
    }
}

/// Applies a function to its arguments.
pub(crate) fn call(function: Scalar, args: &[Value], dialect: Dialect) -> Result<Value, SqlError> {
    match function {
        Scalar::Nullif => return nullif(args, dialect),
        Scalar::Concat => return concat(args, dialect),
        Scalar::Greatest | Scalar::Least => return extreme(function, args, dialect),
        _ => {}
    }
    if args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    match function {
        Scalar::Abs => abs(&args[0], dialect),
        Scalar::Ceil | Scalar::Floor => floor_or_ceil(function, &args[0], dialect),
        Scalar::Mod => arith::arithmetic(Arith::Rem, &args[0], &args[1], dialect),
        Scalar::Round => round(args, dialect),
        Scalar::Sign => sign(&args[0], dialect),
        _ => on_text(function, args, dialect),
    }
}

fn on_text(function: Scalar, args: &[Value], dialect: Dialect) -> Result<Value, SqlError> {
    let text = argument_text(&args[0], dialect)?;
    let trimmed = |text: &str| Ok(Value::text(text));
    match function {
        Scalar::Length => Ok(Value::Int(text.chars().count() as i64)),
        Scalar::Bytes => Ok(Value::Int(text.len() as i64)),
        Scalar::Lower => fold(&text, str::to_ascii_lowercase, dialect),
        Scalar::Upper => fold(&text, str::to_ascii_uppercase, dialect),
        Scalar::Ltrim => trimmed(text.trim_start_matches(' ')),
        Scalar::Rtrim => trimmed(text.trim_end_matches(' ')),
        Scalar::Trim => trimmed(text.trim_matches(' ')),
        Scalar::Substr => substr(&text, &args[1..], dialect),
        Scalar::Replace => replace(&text, &args[1..], dialect),
        other => Err(SqlError::unsupported(format!("{other:?} on text"))),
    }
}

/// PostgreSQL wants text where the others convert.
fn argument_text(value: &Value, dialect: Dialect) -> Result<String, SqlError> {
    match value {
        Value::Text(text) => Ok(text.to_string()),
        other if dialect.is_strict() => {
            Err(SqlError::Type(format!("a text function was given a value of type {}", other.type_name())))
        }
        other => text_of(other, dialect),
    }
}

/// SQLite folds ASCII only; the others fold by locale, so that text beyond ASCII is left to them.
fn fold(text: &str, to: impl Fn(&str) -> String, dialect: Dialect) -> Result<Value, SqlError> {
    if dialect != Dialect::Sqlite && !text.is_ascii() {
        return Err(SqlError::unsupported("the case of text beyond ASCII"));
    }
    Ok(Value::text(to(text)))
}

fn substr(text: &str, args: &[Value], dialect: Dialect) -> Result<Value, SqlError> {
    let integer = |value: &Value| match value {
        Value::Int(number) => Ok(*number),
        other => Err(SqlError::Type(format!("a position of type {}", other.type_name()))),
    };
    let start = integer(&args[0])?;
    let length = args.get(1).map(integer).transpose()?;
    let negative = length.is_some_and(|length| length < 0);
    if negative && dialect.is_strict() {
        return Err(SqlError::Type("a negative substring length".into()));
    }
    // Counting from the end, or from 0, is where the dialects part.
    if negative || start < 1 && !dialect.is_strict() {
        return Err(SqlError::unsupported("SUBSTR with a position below one or a negative length"));
    }
    let end = length.map_or(i64::MAX, |length| start.saturating_add(length));
    let from = usize::try_from(start.max(1) - 1).unwrap_or(usize::MAX);
    let count = usize::try_from(end.saturating_sub(start.max(1)).max(0)).unwrap_or(usize::MAX);
    Ok(Value::text(text.chars().skip(from).take(count).collect::<String>()))
}

fn replace(text: &str, args: &[Value], dialect: Dialect) -> Result<Value, SqlError> {
    let from = argument_text(&args[0], dialect)?;
    let to = argument_text(&args[1], dialect)?;
    if from.is_empty() {
        return Ok(Value::text(text));
    }
    Ok(Value::text(text.replace(&from, &to)))
}

/// `||` and CONCAT as MySQL reads it: NULL if an operand is.
pub(crate) fn concatenate(left: &Value, right: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    Ok(Value::text(text_of(left, dialect)? + &text_of(right, dialect)?))
}

/// PostgreSQL's CONCAT skips NULLs, MySQL's gives NULL.
fn concat(args: &[Value], dialect: Dialect) -> Result<Value, SqlError> {
    if dialect.is_mysql() && args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    if args.iter().any(|arg| matches!(arg, Value::Bool(_))) {
        return Err(SqlError::unsupported("CONCAT of a boolean"));
    }
    let present = args.iter().filter(|arg| !arg.is_null());
    present.map(|arg| text_of(arg, dialect)).collect::<Result<String, _>>().map(Value::text)
}

fn nullif(args: &[Value], dialect: Dialect) -> Result<Value, SqlError> {
    let equal = compare(&args[0], &args[1], dialect)?.is_some_and(std::cmp::Ordering::is_eq);
    Ok(if equal { Value::Null } else { args[0].clone() })
}

/// PostgreSQL's GREATEST and LEAST skip NULLs, the others give NULL.
fn extreme(function: Scalar, args: &[Value], dialect: Dialect) -> Result<Value, SqlError> {
    if !dialect.is_strict() && args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    let mut best = Value::Null;
    for arg in args {
        let better = match order(arg, &best, dialect)? {
            None => best.is_null(),
            Some(order) => {
                if function == Scalar::Least {
                    order.is_lt()
                } else {
                    order.is_gt()
                }
            }
        };
        if better {
            best = arg.clone();
        }
    }
    Ok(best)
}

fn abs(value: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    match value {
        Value::Int(i64::MIN) => Err(arith::integer_overflow()),
        Value::Int(number) => Ok(Value::Int(number.abs())),
        Value::Float(number) => Ok(Value::Float(number.abs())),
        Value::Decimal(number) if number.mantissa() < 0 => arith::negate(value, dialect),
        Value::Decimal(_) => Ok(value.clone()),
        other => Err(SqlError::Type(format!("ABS of {}", other.type_name()))),
    }
}

fn sign(value: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    match value {
        Value::Int(number) if dialect.is_strict() => Ok(Value::Float(number.signum() as f64)),
        Value::Int(number) => Ok(Value::Int(number.signum())),
        other => Err(SqlError::unsupported(format!("SIGN of {}", other.type_name()))),
    }
}

fn floor_or_ceil(function: Scalar, value: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    match value {
        // PostgreSQL takes the function of doubles for an integer argument.
        Value::Int(number) if dialect.is_strict() => Ok(Value::Float(*number as f64)),
        Value::Int(_) => Ok(value.clone()),
        Value::Decimal(number) if dialect.is_strict() => {
            let below = match function {
                Scalar::Floor => number.floor(),
                _ => number.checked_neg().and_then(|n| n.floor()).and_then(|n| n.checked_neg()),
            };
            below.map(Value::Decimal).ok_or_else(decimal_overflow)
        }
        Value::Float(number) if function == Scalar::Floor => Ok(Value::Float(number.floor())),
        Value::Float(number) => Ok(Value::Float(number.ceil())),
        other => Err(SqlError::unsupported(format!("{function:?} of {}", other.type_name()))),
    }
}

fn round(args: &[Value], dialect: Dialect) -> Result<Value, SqlError> {
    let digits = match args.get(1) {
        None => 0,
        Some(Value::Int(digits)) => *digits,
        Some(other) => return Err(SqlError::Type(format!("ROUND to {} digits", other.type_name()))),
    };
    match &args[0] {
        Value::Decimal(number) if digits >= 0 => {
            let digits = u32::try_from(digits).unwrap_or(u32::MAX);
            // MySQL never adds digits, PostgreSQL does.
            let digits = if dialect.is_mysql() { digits.min(number.scale()) } else { digits };
            number.rescale(digits).map(Value::Decimal).ok_or_else(decimal_overflow)
        }
        Value::Int(_) if digits >= 0 && dialect.is_mysql() => Ok(args[0].clone()),
        Value::Int(number) if args.len() == 1 => Ok(Value::Float(*number as f64)),
        Value::Float(number) if args.len() == 1 && dialect == Dialect::Sqlite => {
            Ok(Value::Float(number.round()))
        }
        Value::Float(number) if args.len() == 1 && dialect.is_strict() => {
            Ok(Value::Float(number.round_ties_even()))
        }
        other => Err(SqlError::unsupported(format!("ROUND({other}, {digits})"))),
    }
}
