//! Lowering of INSERT, UPDATE and DELETE.

use std::sync::Arc;

use sqlparser::ast::{self, Ident};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::assign::target;
use crate::reading::database::Catalog;
use crate::reading::exact;
use crate::reading::expr::{Class, Expr, Slot};
use crate::reading::from;
use crate::reading::lower::{Lowerer, Names, Typed, outside};
use crate::reading::plan::{Conflict, Delete, DoUpdate, Insert, InsertRows, Select, Update};
use crate::reading::query;
use crate::reading::schema::Schema;
use crate::reading::scope::{Scope, ScopeTable};

/// Lowers an INSERT.
pub(crate) fn insert(insert: &ast::Insert, catalog: &Catalog) -> Result<Insert, SqlError> {
    exact::insert(insert, catalog.dialect)?;
    let ast::TableObject::TableName(name) = &insert.table else {
        return Err(outside(&format!("INSERT INTO {}", insert.table), insert));
    };
    let name = query::single(name)?;
    let table = catalog.table(name)?;
    let schema = catalog.schema(table);
    let columns = insert_columns(insert, schema, catalog.dialect)?;
    let rows = match &insert.source {
        Some(source) => insert_rows(source, columns.len(), catalog)?,
        None => return Err(outside("INSERT without VALUES or SELECT", insert)),
    };
    let mut scope = Scope::new(catalog, None);
    scope.tables.push(from::scope_table(schema, name.clone(), 0, &scope));
    let conflict = match &insert.on {
        None => None,
        // MariaDB finds the target's columns ambiguous beside those of the SELECT.
        Some(_) if matches!(rows, InsertRows::Select(_)) && catalog.dialect.is_mysql() => {
            return Err(outside("INSERT … SELECT with ON DUPLICATE KEY", insert));
        }
        Some(on) => Some(conflict(on, schema, &scope)?),
    };
    let returning = query::returning(insert.returning.as_ref(), &mut scope)?;
    let given = (0..schema.columns.len()).map(|column| columns.iter().position(|given| *given == column));
    Ok(Insert { table, given: given.collect(), columns, rows, conflict, returning })
}

fn insert_columns(insert: &ast::Insert, schema: &Schema, dialect: Dialect) -> Result<Vec<usize>, SqlError> {
    if insert.columns.is_empty() {
        return Ok((0..schema.columns.len()).collect());
    }
    let position = |name: &ast::ObjectName| schema.position(query::single(name)?, dialect);
    let columns: Vec<usize> = insert.columns.iter().map(position).collect::<Result<_, _>>()?;
    let repeated = columns.iter().enumerate().any(|(i, column)| columns[..i].contains(column));
    if repeated { Err(outside("a column that is given twice", insert)) } else { Ok(columns) }
}

fn insert_rows(source: &ast::Query, width: usize, catalog: &Catalog) -> Result<InsertRows, SqlError> {
    let ast::SetExpr::Values(values) = source.body.as_ref() else {
        let select = query::lower(source, catalog, None)?;
        if select.outputs.len() != width {
            return Err(SqlError::Type(format!("{} columns for {width}", select.outputs.len())));
        }
        return Ok(InsertRows::Select(Arc::new(select)));
    };
    exact::query(source, catalog.dialect)?;
    if source.order_by.is_some() || source.limit_clause.is_some() || !source.locks.is_empty() {
        return Err(outside("a clause after VALUES", source));
    }
    let mut scope = Scope::new(catalog, None);
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        let row: &Vec<ast::Expr> = row;
        // PostgreSQL and SQLite differ about rows that are too short: neither is guessed at.
        if row.len() != width {
            return Err(SqlError::Type(format!("{} values for {width} columns", row.len())));
        }
        let cell = |expr: &ast::Expr| match expr {
            ast::Expr::Identifier(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") =>
            {
                Ok(None)
            }
            other => scope.lowerer().output(other).map(|typed| Some(typed.expr)),
        };
        rows.push(row.iter().map(cell).collect::<Result<_, SqlError>>()?);
    }
    Ok(InsertRows::Values(rows))
}

fn conflict(on: &ast::OnInsert, schema: &Schema, scope: &Scope) -> Result<Conflict, SqlError> {
    let dialect = scope.catalog.dialect;
    match on {
        ast::OnInsert::DuplicateKeyUpdate(assignments) if dialect.is_mysql() => {
            let update = Some((conflict_sets(assignments, schema, scope)?, None));
            Ok(Conflict { target: None, update })
        }
        ast::OnInsert::OnConflict(clause) if !dialect.is_mysql() => {
            let target = match &clause.conflict_target {
                None => None,
                Some(ast::ConflictTarget::Columns(columns)) => Some(conflict_key(columns, schema, dialect)?),
                Some(other) => return Err(SqlError::unsupported(format!("ON CONFLICT {other}"))),
            };
            let update = match &clause.action {
                ast::OnConflictAction::DoNothing => None,
                ast::OnConflictAction::DoUpdate(_) if target.is_none() && dialect.is_strict() => {
                    return Err(SqlError::Type("ON CONFLICT DO UPDATE needs its columns".into()));
                }
                ast::OnConflictAction::DoUpdate(update) => Some(do_update(update, schema, scope)?),
            };
            Ok(Conflict { target, update })
        }
        other => Err(SqlError::unsupported(other.to_string().trim().to_string())),
    }
}

/// The constraint that a conflict target names by its columns, in any order.
fn conflict_key(columns: &[Ident], schema: &Schema, dialect: Dialect) -> Result<Option<usize>, SqlError> {
    let mut wanted: Vec<usize> =
        columns.iter().map(|ident| schema.position(ident, dialect)).collect::<Result<_, _>>()?;
    wanted.sort_unstable();
    let is_wanted = |key: &[usize]| {
        let mut key = key.to_vec();
        key.sort_unstable();
        key == wanted
    };
    if is_wanted(&schema.key) {
        return Ok(None);
    }
    match schema.uniques.iter().position(|unique| is_wanted(unique)) {
        Some(constraint) => Ok(Some(constraint)),
        None => Err(SqlError::Type("ON CONFLICT names the columns of no key".into())),
    }
}

fn do_update(update: &ast::DoUpdate, schema: &Schema, scope: &Scope) -> Result<DoUpdate, SqlError> {
    let sets = conflict_sets(&update.assignments, schema, scope)?;
    let mut names = ConflictScope::new(schema, scope);
    let condition = match &update.selection {
        Some(condition) => {
            Some(Lowerer { dialect: scope.catalog.dialect, names: &mut names }.expr(condition)?.expr)
        }
        None => None,
    };
    Ok((sets, condition))
}

fn conflict_sets(
    assignments: &[ast::Assignment],
    schema: &Schema,
    scope: &Scope,
) -> Result<Vec<(usize, Expr)>, SqlError> {
    let mut names = ConflictScope::new(schema, scope);
    sets(assignments, schema, scope.catalog.dialect, &mut names)
}

fn sets(
    assignments: &[ast::Assignment],
    schema: &Schema,
    dialect: Dialect,
    names: &mut dyn Names,
) -> Result<Vec<(usize, Expr)>, SqlError> {
    let mut sets: Vec<(usize, Expr)> = Vec::new();
    for assignment in assignments {
        let column = schema.position(&target(assignment)?, dialect)?;
        if sets.iter().any(|(set, _)| *set == column) {
            return Err(outside("a column that is set twice", &assignment.value));
        }
        let expr = Lowerer { dialect, names: &mut *names }.output(&assignment.value)?.expr;
        // SQLite's and MySQL's subqueries see the rows that the same statement has updated before.
        if !dialect.is_strict() && expr.has_subquery() {
            return Err(outside("a subquery in SET", &assignment.value));
        }
        // MySQL's assignments see those to their left, but not where it runs the update over a
        // join.
        let (used, _) = expr.uses();
        if dialect.is_mysql() && sets.iter().any(|(set, _)| used.contains(set)) {
            return Err(outside("a column that is used after it was set", &assignment.value));
        }
        sets.push((column, expr));
    }
    Ok(sets)
}

/// The names of DO UPDATE: the row that is there, then the row that was proposed (`excluded`).
struct ConflictScope<'a> {
    both: Scope<'a>,
    old: Scope<'a>,
    width: usize,
}

impl<'a> ConflictScope<'a> {
    fn new(schema: &Schema, scope: &Scope<'a>) -> Self {
        let width = schema.columns.len();
        let columns = scope.tables[0].columns.clone();
        let mut both = scope.clone();
        both.tables.push(ScopeTable { alias: Ident::new("excluded"), columns, offset: width });
        ConflictScope { both, old: scope.clone(), width }
    }
}

impl Names for ConflictScope<'_> {
    /// A bare column is ambiguous in PostgreSQL; the others mean the row that is there.
    fn column(&mut self, table: Option<&Ident>, column: &Ident) -> Result<(Slot, Class), SqlError> {
        let bare = table.is_none() && !self.both.catalog.dialect.is_strict();
        if bare { self.old.find(None, column) } else { self.both.find(table, column) }
    }

    fn subquery(&mut self, query: &ast::Query) -> Result<Arc<Select>, SqlError> {
        self.both.subquery(query)
    }

    /// MySQL's `VALUES(column)` is the proposed value.
    fn replace(&mut self, expr: &ast::Expr) -> Result<Option<Typed>, SqlError> {
        let ast::Expr::Function(call) = expr else { return Ok(None) };
        match crate::reading::calls::simple_call(call) {
            Some((name, args)) if name == "values" && self.both.catalog.dialect.is_mysql() => {
                let [ast::Expr::Identifier(column)] = args.as_slice() else { return Ok(None) };
                let (slot, class) = self.old.find(None, column)?;
                let slot = Slot { index: slot.index + self.width as u16, ..slot };
                Ok(Some(Typed::new(Expr::Column(slot), class)))
            }
            _ => Ok(None),
        }
    }

    fn param_class(&self, index: usize) -> Class {
        self.both.param_class(index)
    }
}

/// Lowers an UPDATE.
pub(crate) fn update(update: &ast::Update, catalog: &Catalog) -> Result<Update, SqlError> {
    exact::update(update, catalog.dialect)?;
    let mut scope = Scope::new(catalog, None);
    let (table, source) = from::single(&update.table, update.selection.as_ref(), &mut scope)?;
    let schema = catalog.schema(table);
    let sets = sets(&update.assignments, schema, catalog.dialect, &mut scope)?;
    let returning = query::returning(update.returning.as_ref(), &mut scope)?;
    Ok(Update { source, table, sets, returning })
}

/// Lowers a DELETE.
pub(crate) fn delete(delete: &ast::Delete, catalog: &Catalog) -> Result<Delete, SqlError> {
    exact::delete(delete, catalog.dialect)?;
    let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) = &delete.from;
    let [table] = tables.as_slice() else { return Err(outside("DELETE FROM several tables", delete)) };
    let mut scope = Scope::new(catalog, None);
    let (table, source) = from::single(table, delete.selection.as_ref(), &mut scope)?;
    let returning = query::returning(delete.returning.as_ref(), &mut scope)?;
    Ok(Delete { source, table, returning })
}
