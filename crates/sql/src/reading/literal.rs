//! Literals and parameters.

use std::sync::Arc;

use sqlparser::ast;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::cast::{Type, cast};
use crate::reading::expr::{Class, Expr};
use crate::reading::lower::{Typed, outside};
use crate::value::Value;

/// The most parameters that a statement may have.
const MAX_PARAMETERS: usize = 65_535;

/// A literal or a parameter.
pub(crate) fn lower(value: &ast::ValueWithSpan, dialect: Dialect) -> Result<Typed, SqlError> {
    let typed = |value: Value| Ok(Typed::new(Expr::Literal(value.clone()), Class::of(&value)));
    match &value.value {
        ast::Value::Null => typed(Value::Null),
        ast::Value::Boolean(truth) if dialect.is_strict() => typed(Value::Bool(*truth)),
        ast::Value::Boolean(truth) => typed(Value::Int(i64::from(*truth))),
        ast::Value::Number(digits, false) => number(digits, dialect),
        ast::Value::SingleQuotedString(text) => Ok(text_literal(text, dialect)),
        ast::Value::EscapedStringLiteral(text) if dialect.is_strict() => Ok(text_literal(text, dialect)),
        ast::Value::DollarQuotedString(text) if dialect.is_strict() => Ok(text_literal(&text.value, dialect)),
        ast::Value::DoubleQuotedString(text) if dialect.is_mysql() => Ok(text_literal(text, dialect)),
        ast::Value::HexStringLiteral(digits) if dialect == Dialect::Generic => match unhex(digits) {
            Some(bytes) => typed(Value::Bytes(Arc::from(bytes))),
            None => Err(SqlError::Type(format!("X'{digits}' is no bytes"))),
        },
        ast::Value::Placeholder(name) => match parameter(name) {
            Some(index) => Ok(Typed::new(Expr::Param(index), Class::Unknown)),
            None => Err(outside(&format!("the parameter {name}"), value)),
        },
        other => Err(outside(&format!("the literal {other}"), value)),
    }
}

fn text_literal(text: &str, dialect: Dialect) -> Typed {
    let value = Value::text(text);
    if dialect.is_strict() {
        return Typed::new(Expr::Untyped(value), Class::Literal);
    }
    Typed::new(Expr::Literal(value), Class::Text)
}

/// The zero-based index of `$1` or `?1`.
fn parameter(name: &str) -> Option<usize> {
    let number: usize = name.strip_prefix(['$', '?'])?.parse().ok()?;
    (1..=MAX_PARAMETERS).contains(&number).then(|| number - 1)
}

/// A number, perhaps with a minus sign.
pub(crate) fn number(digits: &str, dialect: Dialect) -> Result<Typed, SqlError> {
    let value =
        number_value(digits, dialect).ok_or_else(|| SqlError::unsupported(format!("the number {digits}")))?;
    let class = Class::of(&value);
    Ok(Typed::new(Expr::Literal(value), class))
}

/// The value of a number, or `None` if it has none here.
pub(crate) fn number_value(digits: &str, dialect: Dialect) -> Option<Value> {
    if let Ok(number) = digits.parse::<i64>() {
        return Some(Value::Int(number));
    }
    let exponent = digits.contains(['e', 'E']);
    let whole = !exponent && !digits.contains('.');
    match dialect {
        Dialect::Sqlite => digits.parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Float),
        Dialect::MySql | Dialect::TiDb if exponent => {
            digits.parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Float)
        }
        // Beyond 63 bits MySQL's literals are unsigned integers, which this crate does not have.
        Dialect::MySql | Dialect::TiDb if whole => None,
        _ => digits.parse().ok().map(Value::Decimal),
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// `DATE '…'` and `TIMESTAMP '…'`.
pub(crate) fn lower_typed(typed: &ast::TypedString, dialect: Dialect) -> Result<Typed, SqlError> {
    let to = Type::lower(&typed.data_type, dialect)?;
    let (Type::Date | Type::Timestamp, ast::Value::SingleQuotedString(text)) = (to, &typed.value.value)
    else {
        return Err(outside(&format!("the literal {typed}"), &typed.value));
    };
    let value = cast(&Value::text(text), to, dialect)?;
    let class = Class::of(&value);
    Ok(Typed::new(Expr::Literal(value), class))
}
