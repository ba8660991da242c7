//! Tables: columns, keys and constraints.

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::cast::Type;
use crate::reading::expr::Expr;
use crate::reading::names;

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: Type,
    /// True if NULL is refused.
    pub not_null: bool,
    /// True if the database numbers the rows that do not give it.
    pub auto: bool,
    /// What it is where an INSERT does not give it.
    pub(crate) default: Option<Expr>,
}

/// A table's shape.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The table's name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The positions of the primary key's columns; empty if the table has none.
    pub key: Vec<usize>,
    /// The positions of the columns of every further UNIQUE constraint.
    pub uniques: Vec<Vec<usize>>,
    /// The CHECK constraints, with their texts.
    pub(crate) checks: Vec<(String, Expr)>,
}

impl Schema {
    /// The position of a column.
    pub(crate) fn position(
        &self,
        ident: &sqlparser::ast::Ident,
        dialect: Dialect,
    ) -> Result<usize, SqlError> {
        names::find(ident, self.columns.iter().map(|column| column.name.as_str()), dialect)?
            .ok_or_else(|| SqlError::UnknownColumn(ident.value.clone()))
    }

    /// The type of a column, by name.
    pub fn column_type(&self, name: &str) -> Option<Type> {
        self.columns
            .iter()
            .find(|column| column.name.eq_ignore_ascii_case(name))
            .map(|column| column.data_type)
    }
}
