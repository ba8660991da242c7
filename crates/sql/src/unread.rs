//! What stands for [`reading`](crate) in a build without the feature `parser`: no text is read.
//!
//! # Invariants
//! There are no values of these types, because nothing but reading a text makes one. So whoever
//! asks for a condition, an assignment or a summary gets [`SqlError::NoParser`], and nothing is
//! ever evaluated.

use std::convert::Infallible;
use std::iter::Empty;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::row::{Row, SummaryKind};
use crate::value::Value;

/// The condition of a WHERE clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate(Infallible);

impl Predicate {
    /// Reads no text.
    pub fn parse(_: &str, _: Dialect) -> Result<Predicate, SqlError> {
        Err(SqlError::NoParser)
    }

    /// The text that was read.
    pub fn text(&self) -> &str {
        match self.0 {}
    }

    /// The columns that the predicate names.
    pub fn columns(&self) -> Empty<&str> {
        match self.0 {}
    }

    /// True if the condition is true of the row.
    pub fn matches(&self, _: &impl Row) -> Result<bool, SqlError> {
        match self.0 {}
    }

    /// The range that an integer in this column must be in for a row to match.
    pub fn bounds(&self, _: &str) -> Option<(i64, i64)> {
        match self.0 {}
    }

    /// Whether every row of which another predicate is true satisfies this one.
    pub fn contains(&self, _: &Predicate) -> bool {
        match self.0 {}
    }

    /// Whether the condition is true of a row of which only some columns are known.
    pub fn decide(&self, _: &impl Row) -> Option<bool> {
        match self.0 {}
    }

    /// The one column that the condition is about, and its range.
    pub fn range(&self) -> Option<(&str, i64, i64)> {
        match self.0 {}
    }

    /// The predicate over rows that are slices with these columns.
    pub fn bind<N: AsRef<str>>(&self, _: &[N]) -> Result<BoundPredicate, SqlError> {
        match self.0 {}
    }
}

/// A predicate over rows of one shape.
#[derive(Clone, Debug)]
pub struct BoundPredicate(Infallible);

impl BoundPredicate {
    /// True if the condition is true of the row.
    pub fn matches(&self, _: &[Value]) -> Result<bool, SqlError> {
        match self.0 {}
    }

    /// The range that an integer in this column must be in for the row to match.
    pub fn bounds(&self, _: usize) -> Option<(i64, i64)> {
        match self.0 {}
    }
}

/// What an UPDATE sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignments(Infallible);

impl Assignments {
    /// Reads no text.
    pub fn parse(_: &str, _: Dialect) -> Result<Assignments, SqlError> {
        Err(SqlError::NoParser)
    }

    /// The columns that are set.
    pub fn targets(&self) -> Empty<&str> {
        match self.0 {}
    }

    /// The columns whose values the new ones are computed from.
    pub fn columns(&self) -> Empty<&str> {
        match self.0 {}
    }

    /// The new values of the columns that are set.
    pub fn apply(&self, _: &impl Row) -> Result<Vec<(&str, Value)>, SqlError> {
        match self.0 {}
    }
}

/// A SELECT of aggregates over the rows of one table that satisfy a condition.
#[derive(Clone, Debug)]
pub struct Summary(Infallible);

impl Summary {
    /// Reads no text.
    pub fn parse(_: &str, _: &[Value], _: Dialect) -> Result<Summary, SqlError> {
        Err(SqlError::NoParser)
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        match self.0 {}
    }

    /// The text of the condition.
    pub fn condition(&self) -> Option<&str> {
        match self.0 {}
    }

    /// The outputs: what each is, and the column that it is about.
    pub fn outputs(&self) -> Empty<(SummaryKind, Option<&str>)> {
        match self.0 {}
    }

    /// Whether each output counts or adds equal values once.
    pub fn distinct(&self) -> Empty<bool> {
        match self.0 {}
    }

    /// What comes out of these rows.
    pub fn of_rows<'v>(&self, _: impl Iterator<Item = &'v [Value]>) -> Result<Vec<Value>, SqlError> {
        match self.0 {}
    }
}

/// Parses no texts.
#[derive(Debug)]
pub struct Shapes;

impl Shapes {
    /// Nothing parsed, ever.
    pub fn new(_: Dialect) -> Self {
        Shapes
    }

    /// As [`Predicate::parse`].
    pub fn predicate(&mut self, text: &str) -> Result<Predicate, SqlError> {
        Predicate::parse(text, Dialect::Generic)
    }

    /// As [`Assignments::parse`].
    pub fn assignments(&mut self, text: &str) -> Result<Assignments, SqlError> {
        Assignments::parse(text, Dialect::Generic)
    }
}
