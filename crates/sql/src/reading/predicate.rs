//! The matches oracle: the text of a WHERE clause, compiled once and asked millions of times.
//!
//! # Algorithm
//! A predicate is lowered to an expression over its own list of columns. Bound to the columns of a
//! table it also becomes, where it is a conjunction of comparisons of a column with an integer, a
//! list of ranges that is tested without evaluating expressions. A value that is not an integer
//! sends the row to the expression.
//!
//! # Cost
//! A range test is a handful of nanoseconds; the expression a few tens per operator.

use std::borrow::Cow;

use sqlparser::ast::Ident;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::eval::{Env, truth};
use crate::reading::expr::{Class, Cmp, Expr, Slot};
use crate::reading::lower::{Lowerer, Names};
use crate::reading::names;
use crate::reading::parse;
use crate::row::Row;
use crate::value::Value;

/// The condition of a WHERE clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    text: String,
    dialect: Dialect,
    columns: Columns,
    expr: Expr,
}

impl Predicate {
    /// Reads the text of a WHERE clause, such as `v >= 0 AND v <= 10`.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Predicate, SqlError> {
        let tree = parse::parse_expr(text, dialect)?;
        let mut columns = Columns::new(dialect);
        let expr = Lowerer { dialect, names: &mut columns }.expr(&tree)?.expr;
        Ok(Predicate { text: text.to_string(), dialect, columns, expr })
    }

    /// The text that was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The dialect of the text.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The columns that the predicate names, each once, in the order of their first use.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.names()
    }

    /// True if the condition is true of the row (and not false or unknown).
    pub fn matches(&self, row: &impl Row) -> Result<bool, SqlError> {
        let values = self.columns.values(row)?;
        let env = RowEnv { dialect: self.dialect, row: &values };
        let truth = truth(&self.expr, &env).map_err(|error| error.in_dialect(self.dialect))?;
        Ok(truth == Some(true))
    }

    /// The range that an integer in this column must be in for a row to match, whatever else is
    /// asked.
    pub fn bounds(&self, column: &str) -> Option<(i64, i64)> {
        let named = |ident: &Ident| {
            ident.value == column || (ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case(column))
        };
        // One column may be written in several ways.
        let is_named = |range: &Range| self.columns.idents.get(range.column).is_some_and(named);
        let found = bounds(&self.expr).into_iter().filter(is_named).map(|range| (range.low, range.high));
        found.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))
    }

    /// Whether the condition is true of a row of which only some columns are known, where these
    /// decide it: a conjunction is not true if one part is not, whatever the others are.
    pub fn decide(&self, row: &impl Row) -> Option<bool> {
        let env = PartialEnv { dialect: self.dialect, row: self.columns.known(row) };
        decide(&self.expr, &env)
    }

    /// The one column that the condition is about, and the range of integers for which it is true,
    /// if it is just that.
    pub fn range(&self) -> Option<(&str, i64, i64)> {
        match ranges(&self.expr)?.as_slice() {
            [range] => Some((self.columns.idents.get(range.column)?.value.as_str(), range.low, range.high)),
            _ => None,
        }
    }

    /// The predicate over rows that are slices with these columns.
    pub fn bind<N: AsRef<str>>(&self, columns: &[N]) -> Result<BoundPredicate, SqlError> {
        let positions = self.columns.positions(columns)?;
        let mut expr = self.expr.clone();
        remap(&mut expr, &positions);
        Ok(BoundPredicate { ranges: ranges(&expr), bounds: bounds(&expr), expr, dialect: self.dialect })
    }
}

impl Predicate {
    pub(crate) fn expr(&self) -> &Expr {
        &self.expr
    }

    pub(crate) fn expr_mut(&mut self) -> &mut Expr {
        &mut self.expr
    }

    pub(crate) fn replace_text(&mut self, text: &str) {
        self.text.clear();
        self.text.push_str(text);
    }

    /// The name of a column that is the same for all spellings that find the same column.
    pub(crate) fn column_key(&self, index: u16) -> String {
        match self.columns.idents.get(usize::from(index)) {
            Some(ident) if ident.quote_style.is_some() && self.dialect.is_strict() => ident.value.clone(),
            Some(ident) => ident.value.to_ascii_lowercase(),
            None => String::new(),
        }
    }
}

/// A predicate over rows of one shape.
#[derive(Clone, Debug)]
pub struct BoundPredicate {
    expr: Expr,
    /// The whole predicate as ranges of integers, if it is that.
    ranges: Option<Vec<Range>>,
    /// Ranges that a matching row's integers must be in, whatever else the predicate asks.
    bounds: Vec<Range>,
    dialect: Dialect,
}

/// The condition `low <= row[column] <= high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    column: usize,
    low: i64,
    high: i64,
}

impl BoundPredicate {
    /// True if the condition is true of the row (and not false or unknown).
    #[inline]
    pub fn matches(&self, row: &[Value]) -> Result<bool, SqlError> {
        if let Some(ranges) = &self.ranges
            && let Some(answer) = in_ranges(ranges, row)
        {
            return Ok(answer);
        }
        self.matches_slowly(row)
    }

    /// The range that an integer in this column must be in for the row to match.
    pub fn bounds(&self, column: usize) -> Option<(i64, i64)> {
        let range = self.bounds.iter().find(|range| range.column == column)?;
        Some((range.low, range.high))
    }

    fn matches_slowly(&self, row: &[Value]) -> Result<bool, SqlError> {
        let env = RowEnv { dialect: self.dialect, row };
        let truth = truth(&self.expr, &env).map_err(|error| error.in_dialect(self.dialect))?;
        Ok(truth == Some(true))
    }
}

/// Whether all ranges hold; `None` if a value is not an integer.
#[inline]
fn in_ranges(ranges: &[Range], row: &[Value]) -> Option<bool> {
    let mut inside = true;
    for range in ranges {
        match row.get(range.column) {
            Some(Value::Int(value)) => inside &= range.low <= *value && *value <= range.high,
            _ => return None,
        }
    }
    Some(inside)
}

/// The ranges that a conjunction of comparisons with integers means, one per column.
fn ranges(expr: &Expr) -> Option<Vec<Range>> {
    conjuncts(expr).into_iter().map(range).collect::<Option<Vec<_>>>().map(merged)
}

/// The ranges among the parts of a conjunction.
fn bounds(expr: &Expr) -> Vec<Range> {
    merged(conjuncts(expr).into_iter().filter_map(range).collect())
}

fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    let (mut parts, mut pending) = (Vec::new(), vec![expr]);
    while let Some(part) = pending.pop() {
        match part {
            Expr::And(inner) => pending.extend(inner),
            other => parts.push(other),
        }
    }
    parts
}

/// One range per column.
fn merged(all: Vec<(usize, i64, i64)>) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for (column, low, high) in all {
        match ranges.iter_mut().find(|range| range.column == column) {
            Some(range) => (range.low, range.high) = (range.low.max(low), range.high.min(high)),
            None => ranges.push(Range { column, low, high }),
        }
    }
    ranges
}

fn range(expr: &Expr) -> Option<(usize, i64, i64)> {
    let Expr::Compare(op, left, right) = expr else { return None };
    let (op, slot, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(slot), Expr::Literal(Value::Int(value))) => (*op, slot, *value),
        (Expr::Literal(Value::Int(value)), Expr::Column(slot)) => (op.flipped(), slot, *value),
        _ => return None,
    };
    let (low, high) = match op {
        Cmp::Eq => (value, value),
        Cmp::Le => (i64::MIN, value),
        Cmp::Ge => (value, i64::MAX),
        Cmp::Lt => (i64::MIN, value.checked_sub(1)?),
        Cmp::Gt => (value.checked_add(1)?, i64::MAX),
        Cmp::Ne => return None,
    };
    Some((usize::from(slot.index), low, high))
}

/// Evaluation on one row, without parameters.
pub(crate) struct RowEnv<'a> {
    pub dialect: Dialect,
    pub row: &'a [Value],
}

impl Env for RowEnv<'_> {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    #[inline]
    fn column(&self, slot: Slot) -> Result<Cow<'_, Value>, SqlError> {
        cell(self.row, slot)
    }

    fn param(&self, index: usize) -> Result<&Value, SqlError> {
        Err(SqlError::MissingParameter(index + 1))
    }
}

/// Whether an expression is true; nothing when that depends on what is not known.
fn decide(expr: &Expr, env: &PartialEnv) -> Option<bool> {
    let all = |parts: &[Expr], found: bool| {
        let told: Vec<_> = parts.iter().map(|part| decide(part, env)).collect();
        match told.contains(&Some(found)) {
            true => Some(found),
            false => told.iter().all(Option::is_some).then_some(!found),
        }
    };
    match expr {
        Expr::And(parts) => all(parts, false),
        Expr::Or(parts) => all(parts, true),
        other => truth(other, env).ok().map(|truth| truth == Some(true)),
    }
}

/// Evaluation on a row of which only some columns are known.
struct PartialEnv {
    dialect: Dialect,
    row: Vec<Option<Value>>,
}

impl Env for PartialEnv {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn column(&self, slot: Slot) -> Result<Cow<'_, Value>, SqlError> {
        let known = self.row.get(usize::from(slot.index)).and_then(Option::as_ref);
        known.map(Cow::Borrowed).ok_or_else(|| SqlError::UnknownColumn(format!("number {}", slot.index + 1)))
    }

    fn param(&self, index: usize) -> Result<&Value, SqlError> {
        Err(SqlError::MissingParameter(index + 1))
    }
}

/// Evaluation on one row, with parameters.
pub(crate) struct ParamEnv<'a> {
    pub dialect: Dialect,
    pub row: &'a [Value],
    pub params: &'a [Value],
}

impl Env for ParamEnv<'_> {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn column(&self, slot: Slot) -> Result<Cow<'_, Value>, SqlError> {
        cell(self.row, slot)
    }

    fn param(&self, index: usize) -> Result<&Value, SqlError> {
        self.params.get(index).ok_or(SqlError::MissingParameter(index + 1))
    }
}

/// The value at a slot of a row.
#[inline]
pub(crate) fn cell(row: &[Value], slot: Slot) -> Result<Cow<'_, Value>, SqlError> {
    match row.get(usize::from(slot.index)) {
        Some(value) => Ok(Cow::Borrowed(value)),
        None => Err(SqlError::UnknownColumn(format!("number {}", slot.index + 1))),
    }
}

/// The columns that a text names, as it names them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Columns {
    dialect: Dialect,
    idents: Vec<Ident>,
}

impl Columns {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Columns { dialect, idents: Vec::new() }
    }

    /// The values of the columns in a row.
    pub(crate) fn values(&self, row: &impl Row) -> Result<Vec<Value>, SqlError> {
        let value = |ident: &Ident| {
            Self::find(ident, row).ok_or_else(|| SqlError::UnknownColumn(ident.value.clone()))
        };
        self.idents.iter().map(value).collect()
    }

    /// The values of the columns, as far as the row has them.
    fn known(&self, row: &impl Row) -> Vec<Option<Value>> {
        self.idents.iter().map(|ident| Self::find(ident, row)).collect()
    }

    fn find(ident: &Ident, row: &impl Row) -> Option<Value> {
        let folded = || row.column(&ident.value.to_ascii_lowercase());
        let found =
            row.column(&ident.value).or_else(|| if ident.quote_style.is_none() { folded() } else { None });
        found.map(Cow::into_owned)
    }

    /// Where the columns stand among those of a table.
    pub(crate) fn positions<N: AsRef<str>>(&self, columns: &[N]) -> Result<Vec<u16>, SqlError> {
        let position = |ident: &Ident| {
            let found = names::find(ident, columns.iter().map(AsRef::as_ref), self.dialect)?;
            let found = found.ok_or_else(|| SqlError::UnknownColumn(ident.value.clone()))?;
            u16::try_from(found).map_err(|_| SqlError::unsupported("a table with this many columns"))
        };
        self.idents.iter().map(position).collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.idents.iter().map(|ident| ident.value.as_str())
    }

    pub(crate) fn name(&self, index: u16) -> &str {
        self.idents.get(usize::from(index)).map_or("", |ident| ident.value.as_str())
    }
}

impl Names for Columns {
    /// A table's name before the column is read over: a predicate is about one table.
    fn column(&mut self, _: Option<&Ident>, column: &Ident) -> Result<(Slot, Class), SqlError> {
        let known = self.idents.iter().position(|ident| {
            ident.value == column.value && ident.quote_style.is_some() == column.quote_style.is_some()
        });
        let index = known.unwrap_or_else(|| {
            self.idents.push(column.clone());
            self.idents.len() - 1
        });
        let index = u16::try_from(index).map_err(|_| SqlError::unsupported("this many columns"))?;
        Ok((Slot { depth: 0, index }, Class::Unknown))
    }
}

/// Moves the columns of an expression to other positions.
pub(crate) fn remap(expr: &mut Expr, positions: &[u16]) {
    expr.each_mut(&mut |part| {
        if let Expr::Column(slot) = part
            && let Some(position) = positions.get(usize::from(slot.index))
        {
            slot.index = *position;
        }
    });
}
