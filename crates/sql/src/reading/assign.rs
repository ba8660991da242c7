//! The assignments of an UPDATE, on one row: `v = 20, w = v + 1`.

use sqlparser::ast::{self, AssignmentTarget, Ident};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::eval::eval;
use crate::reading::expr::Expr;
use crate::reading::lower::{Lowerer, outside};
use crate::reading::names;
use crate::reading::parse;
use crate::reading::predicate::{Columns, RowEnv, remap};
use crate::row::Row;
use crate::value::Value;

/// What an UPDATE sets.
///
/// Every expression sees the row before the update, except in MySQL, where an assignment sees those
/// to its left; there an assignment that uses a column set before it is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignments {
    dialect: Dialect,
    columns: Columns,
    sets: Vec<(Ident, Expr)>,
}

impl Assignments {
    /// Reads the text after SET.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Assignments, SqlError> {
        let mut columns = Columns::new(dialect);
        let mut sets: Vec<(Ident, Expr)> = Vec::new();
        for assignment in parse::parse_assignments(text, dialect)? {
            let target = target(&assignment)?;
            let expr = Lowerer { dialect, names: &mut columns }.output(&assignment.value)?.expr;
            if sets.iter().any(|(set, _)| set.value.eq_ignore_ascii_case(&target.value)) {
                return Err(outside("a column that is set twice", &assignment.value));
            }
            if dialect.is_mysql() {
                refuse_reuse(&expr, &columns, &sets)?;
            }
            sets.push((target, expr));
        }
        Ok(Assignments { dialect, columns, sets })
    }

    /// The columns that are set, in the text's order.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.sets.iter().map(|(target, _)| target.value.as_str())
    }

    /// The columns whose values the new ones are computed from.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.names()
    }

    /// The new values of the columns that are set, in the order of [`Assignments::targets`].
    pub fn apply(&self, row: &impl Row) -> Result<Vec<(&str, Value)>, SqlError> {
        let values = self.columns.values(row)?;
        let env = RowEnv { dialect: self.dialect, row: &values };
        let mut new = Vec::with_capacity(self.sets.len());
        for (target, expr) in &self.sets {
            new.push((
                target.value.as_str(),
                eval(expr, &env).map_err(|error| error.in_dialect(self.dialect))?.into_owned(),
            ));
        }
        Ok(new)
    }

    pub(crate) fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.sets.iter_mut().map(|(_, expr)| expr)
    }

    /// The assignments over rows that are slices with these columns.
    pub fn bind<N: AsRef<str>>(&self, columns: &[N]) -> Result<BoundAssignments, SqlError> {
        let positions = self.columns.positions(columns)?;
        let mut sets = Vec::with_capacity(self.sets.len());
        for (target, expr) in &self.sets {
            let at = names::find(target, columns.iter().map(AsRef::as_ref), self.dialect)?;
            let at = at.ok_or_else(|| SqlError::UnknownColumn(target.value.clone()))?;
            let mut expr = expr.clone();
            remap(&mut expr, &positions);
            sets.push((at, expr));
        }
        Ok(BoundAssignments { dialect: self.dialect, sets })
    }
}

/// Assignments over rows of one shape.
#[derive(Clone, Debug)]
pub struct BoundAssignments {
    dialect: Dialect,
    sets: Vec<(usize, Expr)>,
}

impl BoundAssignments {
    /// The row after the update.
    pub fn apply(&self, row: &[Value]) -> Result<Vec<Value>, SqlError> {
        let env = RowEnv { dialect: self.dialect, row };
        let mut new = row.to_vec();
        for (at, expr) in &self.sets {
            let value = eval(expr, &env).map_err(|error| error.in_dialect(self.dialect))?.into_owned();
            match new.get_mut(*at) {
                Some(cell) => *cell = value,
                None => return Err(SqlError::UnknownColumn(format!("number {}", at + 1))),
            }
        }
        Ok(new)
    }
}

/// The column that an assignment sets.
pub(crate) fn target(assignment: &ast::Assignment) -> Result<Ident, SqlError> {
    match &assignment.target {
        AssignmentTarget::ColumnName(name) => match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(column)] => Ok(column.clone()),
            _ => Err(outside(&format!("the assignment to {name}"), &assignment.value)),
        },
        AssignmentTarget::Tuple(_) => Err(outside("the assignment to several columns", &assignment.value)),
    }
}

/// MySQL evaluates assignments from left to right.
fn refuse_reuse(expr: &Expr, columns: &Columns, sets: &[(Ident, Expr)]) -> Result<(), SqlError> {
    let mut reused = None;
    expr.clone().each_mut(&mut |part| {
        if let Expr::Column(slot) = part {
            let name = columns.name(slot.index);
            if sets.iter().any(|(set, _)| set.value.eq_ignore_ascii_case(name)) {
                reused = Some(name.to_string());
            }
        }
    });
    match reused {
        Some(name) => Err(SqlError::unsupported(format!("{name} used after it was set"))),
        None => Ok(()),
    }
}
