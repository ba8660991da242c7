//! The names that a statement's expressions see.

use std::sync::Arc;

use sqlparser::ast::{self, Ident};

use crate::error::SqlError;
use crate::reading::cast::Type;
use crate::reading::database::Catalog;
use crate::reading::expr::{Class, Expr, Slot};
use crate::reading::lower::{Lowerer, Names, Typed};
use crate::reading::names::{self, Fit};
use crate::reading::plan::Select;
use crate::reading::query;

/// The columns of one source.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable {
    pub alias: Ident,
    /// Names with what is known of their types.
    pub columns: Vec<(String, Class, Option<Type>)>,
    pub offset: usize,
}

/// The sources of one query, within those of the queries around it.
#[derive(Clone)]
pub(crate) struct Scope<'a> {
    pub catalog: &'a Catalog<'a>,
    pub tables: Vec<ScopeTable>,
    pub outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    pub fn new(catalog: &'a Catalog<'a>, outer: Option<&'a Scope<'a>>) -> Self {
        Scope { catalog, tables: Vec::new(), outer }
    }

    /// A lowerer of expressions in this scope.
    pub fn lowerer<'s>(&'s mut self) -> Lowerer<'s> {
        Lowerer { dialect: self.catalog.dialect, names: self }
    }

    /// Lowers one expression.
    pub fn expr(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        self.lowerer().expr(expr)
    }

    /// The declared type of a column of the joined row.
    pub fn column_type(&self, index: usize) -> Option<Type> {
        let table = self.tables.iter().rev().find(|table| table.offset <= index)?;
        table.columns.get(index - table.offset)?.2
    }

    /// Finds a column, here or further out.
    pub fn find(&self, table: Option<&Ident>, column: &Ident) -> Result<(Slot, Class), SqlError> {
        let mut scope = Some(self);
        let mut depth = 0u16;
        while let Some(here) = scope {
            if let Some((index, class)) = here.find_here(table, column)? {
                let index = u16::try_from(index).map_err(|_| SqlError::unsupported("this many columns"))?;
                return Ok((Slot { depth, index }, class));
            }
            scope = here.outer;
            depth += 1;
        }
        let name = table.map_or(column.value.clone(), |table| format!("{}.{}", table.value, column.value));
        Err(SqlError::UnknownColumn(name))
    }

    fn find_here(&self, table: Option<&Ident>, column: &Ident) -> Result<Option<(usize, Class)>, SqlError> {
        let dialect = self.catalog.dialect;
        let mut found = None;
        for source in &self.tables {
            let named =
                table.is_none_or(|table| names::fit(table, &source.alias.value, dialect) != Fit::None);
            if !named {
                continue;
            }
            let names = source.columns.iter().map(|(name, ..)| name.as_str());
            if let Some(index) = names::find(column, names, dialect)? {
                if found.is_some() {
                    return Err(SqlError::AmbiguousColumn(column.value.clone()));
                }
                found = Some((source.offset + index, source.columns[index].1));
            }
        }
        Ok(found)
    }
}

impl Names for Scope<'_> {
    fn column(&mut self, table: Option<&Ident>, column: &Ident) -> Result<(Slot, Class), SqlError> {
        self.find(table, column)
    }

    fn subquery(&mut self, query: &ast::Query) -> Result<Arc<Select>, SqlError> {
        Ok(Arc::new(query::lower(query, self.catalog, Some(self))?))
    }

    /// Where a name is a column too, MySQL means the variable, and PostgreSQL refuses. A text
    /// variable of a dialect with static types is text, unlike a parameter, which takes the type of
    /// what it meets.
    fn variable(&self, record: Option<&Ident>, name: &Ident) -> Result<Option<Typed>, SqlError> {
        let Some(found) = self.catalog.variable(record, name) else { return Ok(None) };
        let dialect = self.catalog.dialect;
        let column_too = !matches!(self.find(record, name), Err(SqlError::UnknownColumn(_)));
        if dialect.is_strict() && column_too {
            return Err(SqlError::AmbiguousColumn(name.value.clone()));
        }
        let value = Expr::Param(found.slot);
        Ok(Some(match found.class {
            Class::Text if dialect.is_strict() => {
                Typed::new(Expr::Cast(Box::new(value), Type::Text(None)), Class::Text)
            }
            class => Typed::new(value, class),
        }))
    }

    fn param_class(&self, index: usize) -> Class {
        self.catalog.param_class(index)
    }
}
