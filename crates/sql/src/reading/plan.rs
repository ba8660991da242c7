//! Statements after lowering: names are slots, tables are numbers.

use std::sync::Arc;

use crate::dialect::Dialect;
use crate::reading::expr::{Class, Cmp, Expr};

/// The number of a table in its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) u32);

/// A row lock that a SELECT asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// `FOR SHARE`, `LOCK IN SHARE MODE`
    Share,
    /// `FOR UPDATE`
    Update,
}

/// A SELECT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub sources: Vec<Source>,
    pub group: Option<Group>,
    pub outputs: Vec<Output>,
    pub distinct: bool,
    pub order: Vec<Order>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    pub lock: Option<Lock>,
    /// Conditions that name no source at all.
    pub constant: Vec<Expr>,
}

/// One output column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Output {
    pub name: String,
    pub expr: Expr,
    pub class: Class,
}

/// A sort key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub by: OrderBy,
    pub descending: bool,
    pub nulls_first: bool,
}

/// What is sorted by: an output column, or an expression over the same row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OrderBy {
    Output(usize),
    Expr(Expr),
}

/// One table of a FROM clause, in the order of the joins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub rows: SourceRows,
    /// Where its columns begin in the joined row.
    pub offset: usize,
    pub width: usize,
    /// True for the right side of a LEFT JOIN.
    pub left: bool,
    /// The join condition.
    pub on: Vec<Expr>,
    /// Parts of the WHERE clause that can be decided once this source is joined.
    pub filters: Vec<Expr>,
    pub access: Access,
}

/// Where a source's rows come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SourceRows {
    Table(TableId, Arc<Asked>),
    Derived(Arc<Select>),
}

/// How the rows of a table are found: by values for the leading columns of its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    pub prefix: Vec<Expr>,
    /// The prefix is the whole key.
    pub whole: bool,
    /// The conditions say no more than that the key is the prefix.
    pub decides: bool,
    /// Comparisons of further columns with values that can be had before the source is joined.
    pub lookups: Vec<Lookup>,
}

/// A comparison of a column with a value, as a way to find rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lookup {
    pub column: usize,
    pub cmp: Cmp,
    pub value: Expr,
}

/// The condition that a statement asks of one table alone, over that table's columns.
#[derive(Debug)]
pub(crate) struct Asked {
    pub condition: Vec<Expr>,
    /// False if the statement asks for less than the rows that satisfy the condition.
    pub exact: bool,
}

impl PartialEq for Asked {
    /// Conditions follow from the rest of the source.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// GROUP BY: the keys, and then the aggregates, make the row that outputs and HAVING see.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
}

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    Count,
    Sum,
    Avg,
    Min,
    Max,
}

/// A call of an aggregate function; without an argument it is `COUNT(*)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub kind: AggregateKind,
    pub arg: Option<Expr>,
    pub distinct: bool,
    /// The class of the result, where it is converted.
    pub class: Class,
    /// The value goes into a larger expression, so that hidden digits would matter.
    pub nested: bool,
}

/// An INSERT.
#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub table: TableId,
    /// The columns given, in the order of the rows' values.
    pub columns: Vec<usize>,
    /// For each column of the table, which of the values it gets.
    pub given: Vec<Option<usize>>,
    pub rows: InsertRows,
    pub conflict: Option<Conflict>,
    pub returning: Option<Vec<Output>>,
}

#[derive(Clone, Debug)]
pub(crate) enum InsertRows {
    /// `None` stands for DEFAULT.
    Values(Vec<Vec<Option<Expr>>>),
    Select(Arc<Select>),
}

/// ON CONFLICT and ON DUPLICATE KEY.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    /// The key that is meant: the primary key (`Some(None)`), a UNIQUE constraint, or any (`None`).
    pub target: Option<Option<usize>>,
    /// The assignments over the old row followed by the proposed one; `None` is DO NOTHING.
    pub update: Option<DoUpdate>,
}

/// The assignments of DO UPDATE, and its condition.
pub(crate) type DoUpdate = (Vec<(usize, Expr)>, Option<Expr>);

/// An UPDATE.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub source: Source,
    pub table: TableId,
    pub sets: Vec<(usize, Expr)>,
    pub returning: Option<Vec<Output>>,
}

/// A DELETE.
#[derive(Clone, Debug)]
pub(crate) struct Delete {
    pub source: Source,
    pub table: TableId,
    pub returning: Option<Vec<Output>>,
}

/// True if a value of this expression is a literal or parameter.
pub(crate) fn is_flexible(expr: &Expr) -> bool {
    matches!(expr, Expr::Untyped(_) | Expr::Param(_))
}

/// The class of a source column's values as an output of a subquery: a text literal is text by
/// then.
pub(crate) fn settled(class: Class, dialect: Dialect) -> Class {
    match class {
        Class::Literal if dialect.is_strict() => Class::Text,
        other => other,
    }
}
