//! Arithmetic: checked integers, exact decimals, doubles, and each dialect's division.

use crate::decimal::Decimal;
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::value::Value;

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arith {
    Add,
    Sub,
    Mul,
    /// `/`
    Div,
    /// MySQL's `DIV`: the quotient as an integer.
    IntDiv,
    /// `%` and `MOD`
    Rem,
}

/// Applies an operator. A NULL operand makes the result NULL.
pub(crate) fn arithmetic(
    op: Arith,
    left: &Value,
    right: &Value,
    dialect: Dialect,
) -> Result<Value, SqlError> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    if let (Value::Bool(_), _) | (_, Value::Bool(_)) = (left, right)
        && !dialect.is_strict()
    {
        return arithmetic(op, &as_number(left), &as_number(right), dialect);
    }
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => integers(op, *a, *b, dialect),
        (Value::Float(a), Value::Float(b)) => floats(op, *a, *b, dialect),
        (Value::Int(a), Value::Float(b)) => floats(op, *a as f64, *b, dialect),
        (Value::Float(a), Value::Int(b)) => floats(op, *a, *b as f64, dialect),
        (Value::Decimal(a), Value::Float(b)) => floats(op, a.to_f64(), *b, dialect),
        (Value::Float(a), Value::Decimal(b)) => floats(op, *a, b.to_f64(), dialect),
        (Value::Decimal(a), Value::Decimal(b)) => decimals(op, *a, *b, dialect),
        (Value::Int(a), Value::Decimal(b)) => decimals(op, Decimal::from(*a), *b, dialect),
        (Value::Decimal(a), Value::Int(b)) => decimals(op, *a, Decimal::from(*b), dialect),
        _ => Err(SqlError::Type(format!("arithmetic on {} and {}", left.type_name(), right.type_name()))),
    }
}

/// The negated value.
pub(crate) fn negate(value: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(i64::MIN) if dialect == Dialect::Sqlite => Ok(Value::Float(9_223_372_036_854_775_808.0)),
        Value::Int(a) => a.checked_neg().map(Value::Int).ok_or_else(integer_overflow),
        Value::Float(a) => Ok(Value::Float(-a)),
        Value::Decimal(a) => a.checked_neg().map(Value::Decimal).ok_or_else(decimal_overflow),
        Value::Bool(_) if !dialect.is_strict() => negate(&as_number(value), dialect),
        _ => Err(SqlError::Type(format!("arithmetic on {}", value.type_name()))),
    }
}

fn as_number(value: &Value) -> Value {
    match value {
        Value::Bool(truth) => Value::Int(i64::from(*truth)),
        other => other.clone(),
    }
}

fn integers(op: Arith, a: i64, b: i64, dialect: Dialect) -> Result<Value, SqlError> {
    if op == Arith::Div && dialect.is_mysql() {
        return decimals(op, Decimal::from(a), Decimal::from(b), dialect);
    }
    if b == 0 && matches!(op, Arith::Div | Arith::IntDiv | Arith::Rem) {
        return by_zero(dialect);
    }
    if op == Arith::Div && dialect == Dialect::Cockroach {
        return Err(SqlError::unsupported("CockroachDB's quotient of two integers"));
    }
    let result = match op {
        Arith::Add => a.checked_add(b),
        Arith::Sub => a.checked_sub(b),
        Arith::Mul => a.checked_mul(b),
        Arith::Div | Arith::IntDiv => a.checked_div(b),
        // The remainder by -1 is 0 even where the quotient overflows.
        Arith::Rem => Some(a.wrapping_rem(b)),
    };
    match result {
        Some(result) => Ok(Value::Int(result)),
        // SQLite falls back to doubles where the integers overflow.
        None if dialect == Dialect::Sqlite => floats(op, a as f64, b as f64, dialect),
        None => Err(integer_overflow()),
    }
}

fn floats(op: Arith, a: f64, b: f64, dialect: Dialect) -> Result<Value, SqlError> {
    if b == 0.0 && matches!(op, Arith::Div | Arith::IntDiv | Arith::Rem) {
        return by_zero(dialect);
    }
    let result = match op {
        Arith::Add => a + b,
        Arith::Sub => a - b,
        Arith::Mul => a * b,
        Arith::Div => a / b,
        Arith::IntDiv | Arith::Rem => {
            return Err(SqlError::unsupported("the remainder or integer quotient of floats"));
        }
    };
    if result.is_finite() || dialect == Dialect::Sqlite && !result.is_nan() {
        return Ok(Value::Float(result));
    }
    Err(SqlError::Overflow("a float".into()))
}

fn decimals(op: Arith, a: Decimal, b: Decimal, dialect: Dialect) -> Result<Value, SqlError> {
    if b.is_zero() && matches!(op, Arith::Div | Arith::IntDiv | Arith::Rem) {
        return by_zero(dialect);
    }
    let result = match op {
        Arith::Add => a.checked_add(b),
        Arith::Sub => a.checked_sub(b),
        Arith::Mul => a.checked_mul(b),
        Arith::Rem => a.checked_rem(b),
        Arith::Div => return divide(a, b, dialect),
        Arith::IntDiv => {
            let quotient = a.checked_sub(a.checked_rem(b).ok_or_else(decimal_overflow)?);
            let (quotient, _) =
                quotient.and_then(|whole| whole.checked_div(b, 0)).ok_or_else(decimal_overflow)?;
            return quotient.to_integer().map(Value::Int).ok_or_else(integer_overflow);
        }
    };
    result.map(Value::Decimal).ok_or_else(decimal_overflow)
}

/// The quotient of decimals. MySQL keeps hidden digits of an inexact quotient while it computes on,
/// so that only an exact quotient is given a value here; [`divide_for_output`] gives the rounded
/// one.
fn divide(a: Decimal, b: Decimal, dialect: Dialect) -> Result<Value, SqlError> {
    if !dialect.is_mysql() {
        let quotient = a.checked_div(b, a.postgres_div_scale(b)).ok_or_else(decimal_overflow)?;
        return Ok(Value::Decimal(quotient.0));
    }
    match a.checked_div(b, a.scale() + 4).ok_or_else(decimal_overflow)? {
        (quotient, true) => Ok(Value::Decimal(quotient)),
        (_, false) => Err(SqlError::unsupported("an inexact quotient inside an expression")),
    }
}

/// MySQL's `/` as the outermost operator of an output expression: rounded to four more digits.
pub(crate) fn divide_for_output(left: &Value, right: &Value, dialect: Dialect) -> Result<Value, SqlError> {
    let exact = |value: &Value| match value {
        Value::Int(a) => Some(Decimal::from(*a)),
        Value::Decimal(a) => Some(*a),
        _ => None,
    };
    match (exact(left), exact(right)) {
        (Some(a), Some(b)) if dialect.is_mysql() && !b.is_zero() => {
            let (quotient, _) = a.checked_div(b, a.scale() + 4).ok_or_else(decimal_overflow)?;
            Ok(Value::Decimal(quotient))
        }
        _ => arithmetic(Arith::Div, left, right, dialect),
    }
}

fn by_zero(dialect: Dialect) -> Result<Value, SqlError> {
    if dialect.is_strict() { Err(SqlError::DivisionByZero) } else { Ok(Value::Null) }
}

pub(crate) fn integer_overflow() -> SqlError {
    SqlError::Overflow("an integer".into())
}

pub(crate) fn decimal_overflow() -> SqlError {
    SqlError::Overflow("a decimal".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(op: Arith, a: i64, b: i64, dialect: Dialect) -> String {
        arithmetic(op, &Value::Int(a), &Value::Int(b), dialect)
            .map_or_else(|e| e.to_string(), |v| v.to_string())
    }

    #[test]
    fn division_by_dialect() {
        assert_eq!(show(Arith::Div, -7, 2, Dialect::Postgres), "-3");
        assert_eq!(show(Arith::Div, -7, 2, Dialect::Sqlite), "-3");
        assert_eq!(show(Arith::Div, -7, 2, Dialect::MySql), "-3.5000");
        assert_eq!(show(Arith::IntDiv, -7, 2, Dialect::MySql), "-3");
        assert_eq!(show(Arith::Div, 1, 0, Dialect::Postgres), "division by zero");
        assert_eq!(show(Arith::Rem, 1, 0, Dialect::Sqlite), "NULL");
        assert!(show(Arith::Div, 1, 3, Dialect::MySql).contains("inexact"));
        assert_eq!(show(Arith::Rem, i64::MIN, -1, Dialect::Generic), "0");
    }

    #[test]
    fn overflow_is_an_error_but_not_in_sqlite() {
        assert_eq!(show(Arith::Add, i64::MAX, 1, Dialect::Generic), "an integer is out of range");
        assert_eq!(show(Arith::Add, i64::MAX, 1, Dialect::Sqlite), "9.223372036854776e18");
        assert_eq!(show(Arith::Div, i64::MIN, -1, Dialect::Sqlite), "9.223372036854776e18");
    }
}
