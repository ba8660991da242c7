//! Small pieces of parsed statements.

use sqlparser::ast::{
    AssignmentTarget, BinaryOperator, CastKind, Expr, ObjectName, TableFactor, TableWithJoins, UnaryOperator,
    Value,
};

use crate::class::Class;
use crate::fill::place;

/// A value that does not depend on rows: a parameter or a literal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    Param(usize),
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
    /// An operand of a class, cast to a type of the class.
    Cast(Box<Operand>, Class),
    /// Something that is computed.
    Unknown,
}

/// The operand that an expression is.
pub(crate) fn operand(expr: &Expr) -> Option<Operand> {
    match expr {
        Expr::Nested(inner) => operand(inner),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None } => {
            let class = Class::of_cast(&data_type.to_string())?;
            Some(Operand::Cast(Box::new(operand(expr)?), class))
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match operand(expr)? {
            Operand::Int(int) => int.checked_neg().map(Operand::Int),
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => place(name).map(Operand::Param),
            Value::Number(digits, _) => digits.parse().ok().map(Operand::Int),
            Value::SingleQuotedString(text) => Some(Operand::Text(text.clone())),
            Value::Null => Some(Operand::Null),
            Value::Boolean(bool) => Some(Operand::Bool(*bool)),
            _ => None,
        },
        _ => None,
    }
}

/// The name of the column that an expression is, whatever table stands before it.
pub(crate) fn column(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.as_str()),
        _ => None,
    }
}

/// The parts of a conjunction.
pub(crate) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    let (mut parts, mut pending) = (Vec::new(), vec![expr]);
    while let Some(part) = pending.pop() {
        match part {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => pending.extend([right.as_ref(), left]),
            Expr::Nested(inner) => pending.push(inner),
            other => parts.push(other),
        }
    }
    parts
}

/// `column = operand`, either way round.
pub(crate) fn equality(expr: &Expr) -> Option<(&str, Operand)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr else { return None };
    let sides = |a, b| Some((column(a)?, operand(b)?));
    sides(left, right).or_else(|| sides(right, left))
}

/// The last part of a table's name.
pub(crate) fn last(name: &ObjectName) -> Option<&str> {
    name.0.last()?.as_ident().map(|ident| ident.value.as_str())
}

/// The name of the table, if a FROM names one and joins none.
pub(crate) fn only_table(from: &TableWithJoins) -> Option<&str> {
    match &from.relation {
        TableFactor::Table { name, .. } if from.joins.is_empty() => last(name),
        _ => None,
    }
}

/// The column that an assignment sets.
pub(crate) fn target(target: &AssignmentTarget) -> Option<&str> {
    match target {
        AssignmentTarget::ColumnName(name) => last(name),
        AssignmentTarget::Tuple(_) => None,
    }
}
