//! Evaluation of scalar expressions, in three-valued logic.

use std::borrow::Cow;

use crate::compare::{check_order, compare, number_prefix};
use crate::decimal::Decimal;
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::arith;
use crate::reading::cast::{cast, coerce_like, text_of};
use crate::reading::expr::{Class, Cmp, Expr, Like, Slot};
use crate::reading::functions;
use crate::reading::like::like;
use crate::reading::plan::Select;
use crate::value::Value;

/// True, false, or unknown.
pub(crate) type Truth = Option<bool>;

/// What an expression is evaluated in: rows and parameters.
pub(crate) trait Env {
    /// The dialect whose rules hold.
    fn dialect(&self) -> Dialect;
    /// The value of a column.
    fn column(&self, slot: Slot) -> Result<Cow<'_, Value>, SqlError>;
    /// The value of a parameter, counted from zero.
    fn param(&self, index: usize) -> Result<&Value, SqlError>;
    /// The time of the transaction, in microseconds since 1970.
    fn now(&self) -> Result<i64, SqlError> {
        Err(SqlError::unsupported("the current time, which is not known"))
    }
    /// True in MySQL's writes: strict mode makes an error of what is NULL in a query.
    fn zero_division_fails(&self) -> bool {
        false
    }
    /// The rows of a subquery, which sees the row at hand as its outer one.
    fn select(&self, _: &Select) -> Result<Vec<Vec<Value>>, SqlError> {
        Err(SqlError::unsupported("a subquery"))
    }
}

/// The value of an expression.
pub(crate) fn eval<'a, E: Env>(expr: &'a Expr, env: &'a E) -> Result<Cow<'a, Value>, SqlError> {
    let dialect = env.dialect();
    Ok(Cow::Owned(match expr {
        Expr::Literal(value) | Expr::Untyped(value) => return Ok(Cow::Borrowed(value)),
        Expr::Param(index) => return env.param(*index).map(Cow::Borrowed),
        Expr::Column(slot) => return env.column(*slot),
        Expr::Now(to) => cast(&Value::Timestamp(env.now()?), *to, dialect)?,
        Expr::Negate(inner) => arith::negate(&*eval(inner, env)?, dialect)?,
        Expr::Arith(op, left, right) => {
            let (left, right) = (eval(left, env)?, eval(right, env)?);
            quotient(arith::arithmetic(*op, &left, &right, dialect)?, &left, &right, env)?
        }
        Expr::OutputDivide(left, right) => {
            let (left, right) = (eval(left, env)?, eval(right, env)?);
            quotient(arith::divide_for_output(&left, &right, dialect)?, &left, &right, env)?
        }
        Expr::Concat(left, right) => {
            functions::concatenate(&*eval(left, env)?, &*eval(right, env)?, dialect)?
        }
        Expr::Case(branches, otherwise) => return eval_case(branches, otherwise, env),
        Expr::Coalesce(options) => return eval_coalesce(options, env),
        Expr::Promote(inner, class) => promote(&*eval(inner, env)?, *class, dialect)?,
        Expr::Cast(inner, to) => cast(&*eval(inner, env)?, *to, dialect)?,
        Expr::Call(function, args) => {
            let args: Vec<Value> =
                args.iter().map(|arg| Ok(eval(arg, env)?.into_owned())).collect::<Result<_, SqlError>>()?;
            functions::call(*function, &args, dialect)?
        }
        Expr::Subquery(select) => scalar(env.select(select)?)?,
        _ => truth_value(truth(expr, env)?, dialect),
    }))
}

/// The result of an operator. Of operands that are not NULL, only a division by zero makes NULL.
fn quotient<E: Env>(result: Value, left: &Value, right: &Value, env: &E) -> Result<Value, SqlError> {
    if result.is_null() && !left.is_null() && !right.is_null() && env.zero_division_fails() {
        return Err(SqlError::DivisionByZero);
    }
    Ok(result)
}

/// A truth value as a value of the dialect.
pub(crate) fn truth_value(truth: Truth, dialect: Dialect) -> Value {
    match truth {
        None => Value::Null,
        Some(truth) if dialect.is_strict() => Value::Bool(truth),
        Some(truth) => Value::Int(i64::from(truth)),
    }
}

/// The truth of an expression.
pub(crate) fn truth<E: Env>(expr: &Expr, env: &E) -> Result<Truth, SqlError> {
    match expr {
        Expr::Compare(op, left, right) => compare_exprs(*op, left, right, env),
        Expr::And(parts) => all(parts, env),
        Expr::Or(parts) => any(parts, env),
        Expr::Not(inner) => Ok(truth(inner, env)?.map(|truth| !truth)),
        Expr::IsNull(inner, negated) => Ok(Some(eval(inner, env)?.is_null() != *negated)),
        Expr::IsTruth(inner, wanted, negated) => Ok(Some((truth(inner, env)? == *wanted) != *negated)),
        Expr::Same(left, right, negated) => Ok(Some(same(left, right, env)? != *negated)),
        Expr::In(inner, list, negated) => Ok(member(inner, list, env)?.map(|truth| truth != *negated)),
        Expr::Like(test) => eval_like(test, env),
        Expr::Exists(select, negated) => Ok(Some(env.select(select)?.is_empty() == *negated)),
        Expr::InSelect(inner, select, negated) => {
            let values: Vec<Expr> = env
                .select(select)?
                .into_iter()
                .filter_map(|row| row.into_iter().next())
                .map(Expr::Literal)
                .collect();
            Ok(member(inner, &values, env)?.map(|truth| truth != *negated))
        }
        other => truth_of_value(&*eval(other, env)?, env.dialect()),
    }
}

/// The truth of a value in a condition.
pub(crate) fn truth_of_value(value: &Value, dialect: Dialect) -> Result<Truth, SqlError> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(truth) => Ok(Some(*truth)),
        other if dialect.is_strict() => {
            Err(SqlError::Type(format!("a condition of type {}", other.type_name())))
        }
        Value::Int(number) => Ok(Some(*number != 0)),
        Value::Float(number) => Ok(Some(*number != 0.0)),
        Value::Decimal(number) => Ok(Some(!number.is_zero())),
        Value::Text(text) => Ok(Some(number_prefix(text) != 0.0)),
        other => Err(SqlError::Type(format!("a condition of type {}", other.type_name()))),
    }
}

fn all<E: Env>(parts: &[Expr], env: &E) -> Result<Truth, SqlError> {
    let mut result = Some(true);
    for part in parts {
        match truth(part, env)? {
            Some(false) => return Ok(Some(false)),
            None => result = None,
            Some(true) => {}
        }
    }
    Ok(result)
}

fn any<E: Env>(parts: &[Expr], env: &E) -> Result<Truth, SqlError> {
    let mut result = Some(false);
    for part in parts {
        match truth(part, env)? {
            Some(true) => return Ok(Some(true)),
            None => result = None,
            Some(false) => {}
        }
    }
    Ok(result)
}

fn compare_exprs<E: Env>(op: Cmp, left: &Expr, right: &Expr, env: &E) -> Result<Truth, SqlError> {
    let (a, b) = (eval(left, env)?, eval(right, env)?);
    if op.asks_order() {
        check_order(&a, &b, env.dialect())?;
    }
    Ok(compare_operands(left, &a, right, &b, env.dialect())?.map(|order| op.accepts(order)))
}

/// Compares evaluated operands; a literal or parameter text takes the other side's type where
/// literals do.
fn compare_operands(
    left: &Expr,
    a: &Value,
    right: &Expr,
    b: &Value,
    dialect: Dialect,
) -> Result<Option<std::cmp::Ordering>, SqlError> {
    let flexible = |expr: &Expr| matches!(expr, Expr::Untyped(_) | Expr::Param(_));
    match (a, b) {
        (Value::Text(_), Value::Text(_)) => compare(a, b, dialect),
        (Value::Text(_), _) if dialect.is_strict() && flexible(left) => {
            compare(&coerce_like(a, b, dialect)?, b, dialect)
        }
        (_, Value::Text(_)) if dialect.is_strict() && flexible(right) => {
            compare(a, &coerce_like(b, a, dialect)?, dialect)
        }
        _ => compare(a, b, dialect),
    }
}

/// `IS NOT DISTINCT FROM`.
fn same<E: Env>(left: &Expr, right: &Expr, env: &E) -> Result<bool, SqlError> {
    let (a, b) = (eval(left, env)?, eval(right, env)?);
    match compare_operands(left, &a, right, &b, env.dialect())? {
        Some(order) => Ok(order.is_eq()),
        None => Ok(a.is_null() && b.is_null()),
    }
}

fn member<E: Env>(inner: &Expr, list: &[Expr], env: &E) -> Result<Truth, SqlError> {
    let value = eval(inner, env)?;
    let mut result = Some(false);
    for element in list {
        let candidate = eval(element, env)?;
        match compare_operands(inner, &value, element, &candidate, env.dialect())? {
            Some(order) if order.is_eq() => return Ok(Some(true)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn eval_like<E: Env>(test: &Like, env: &E) -> Result<Truth, SqlError> {
    let (text, pattern) = (eval(&test.text, env)?, eval(&test.pattern, env)?);
    if text.is_null() || pattern.is_null() {
        return Ok(None);
    }
    let dialect = env.dialect();
    let (text, pattern) = (like_text(&text, dialect)?, like_text(&pattern, dialect)?);
    let matched = like(&text, &pattern, test.escape, test.ignore_case, dialect)?;
    Ok(Some(matched != test.negated))
}

/// An operand of LIKE: text, or what the dialects without static types make text of.
fn like_text(value: &Value, dialect: Dialect) -> Result<Cow<'_, str>, SqlError> {
    match value {
        Value::Text(text) => Ok(Cow::Borrowed(text)),
        other if dialect.is_strict() => Err(SqlError::Type(format!("LIKE on {}", other.type_name()))),
        other => text_of(other, dialect).map(Cow::Owned),
    }
}

fn eval_case<'a, E: Env>(
    branches: &'a [(Expr, Expr)],
    otherwise: &'a Expr,
    env: &'a E,
) -> Result<Cow<'a, Value>, SqlError> {
    for (condition, result) in branches {
        if truth(condition, env)? == Some(true) {
            return eval(result, env);
        }
    }
    eval(otherwise, env)
}

fn eval_coalesce<'a, E: Env>(options: &'a [Expr], env: &'a E) -> Result<Cow<'a, Value>, SqlError> {
    for option in options {
        let value = eval(option, env)?;
        if !value.is_null() {
            return Ok(value);
        }
    }
    Ok(Cow::Owned(Value::Null))
}

/// The value of a scalar subquery. SQLite takes the first of several rows, which may be any.
fn scalar(rows: Vec<Vec<Value>>) -> Result<Value, SqlError> {
    match rows.len() {
        0 => Ok(Value::Null),
        1 => Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).unwrap_or_default()),
        _ => Err(SqlError::SubqueryRows),
    }
}

fn promote(value: &Value, class: Class, dialect: Dialect) -> Result<Value, SqlError> {
    Ok(match (value, class) {
        (Value::Int(number), Class::Decimal) => Value::Decimal(Decimal::from(*number)),
        (Value::Int(number), Class::Float) => Value::Float(*number as f64),
        (Value::Decimal(number), Class::Float) => Value::Float(number.to_f64()),
        (Value::Date(days), Class::Timestamp) => Value::Timestamp(crate::calendar::midnight(*days)),
        (Value::Text(_), Class::Int) => coerce_like(value, &Value::Int(0), dialect)?,
        (Value::Text(_), Class::Decimal) => coerce_like(value, &Value::Decimal(Decimal::from(0)), dialect)?,
        (Value::Text(_), Class::Float) => coerce_like(value, &Value::Float(0.0), dialect)?,
        (Value::Text(_), Class::Date) => coerce_like(value, &Value::Date(0), dialect)?,
        (Value::Text(_), Class::Timestamp) => coerce_like(value, &Value::Timestamp(0), dialect)?,
        (other, _) => other.clone(),
    })
}
