//! Lowering of FROM and WHERE: the sources in the order of the joins, each with the conditions that
//! can be decided once it is joined, and the way its rows are found.

use std::sync::Arc;

use sqlparser::ast;

use crate::error::SqlError;
use crate::reading::exact;
use crate::reading::expr::{Class, Cmp, Expr};
use crate::reading::lower::outside;
use crate::reading::plan::{Access, Asked, Lookup, Source, SourceRows, TableId};
use crate::reading::query;
use crate::reading::schema::Schema;
use crate::reading::scope::{Scope, ScopeTable};

/// The sources of a SELECT, and the conditions that name none of them.
pub(crate) fn lower(select: &ast::Select, scope: &mut Scope) -> Result<(Vec<Source>, Vec<Expr>), SqlError> {
    let mut sources = Vec::new();
    for item in &select.from {
        add(&item.relation, None, scope, &mut sources)?;
        for join in &item.joins {
            add(&join.relation, Some(join), scope, &mut sources)?;
        }
    }
    let condition = select.selection.as_ref().map(|condition| scope.expr(condition)).transpose()?;
    let mut constant = Vec::new();
    for part in conjuncts(condition.map(|typed| typed.expr)) {
        place(part, &mut sources, &mut constant);
    }
    sources.iter_mut().for_each(|source| finish(source, scope));
    Ok((sources, constant))
}

/// One table with its WHERE, for UPDATE and DELETE.
pub(crate) fn single(
    table: &ast::TableWithJoins,
    selection: Option<&ast::Expr>,
    scope: &mut Scope,
) -> Result<(TableId, Source), SqlError> {
    if !table.joins.is_empty() {
        return Err(outside("a write to joined tables", table));
    }
    let mut sources = Vec::new();
    add(&table.relation, None, scope, &mut sources)?;
    let condition = selection.map(|condition| scope.expr(condition)).transpose()?;
    let mut source = sources.remove(0);
    source.filters = conjuncts(condition.map(|typed| typed.expr));
    finish(&mut source, scope);
    match source.rows {
        SourceRows::Table(id, _) => Ok((id, source)),
        SourceRows::Derived(_) => Err(outside("a write to a subquery", table)),
    }
}

fn add(
    factor: &ast::TableFactor,
    join: Option<&ast::Join>,
    scope: &mut Scope,
    sources: &mut Vec<Source>,
) -> Result<(), SqlError> {
    let offset = scope.tables.last().map_or(0, |table| table.offset + table.columns.len());
    let (rows, table) = match factor {
        ast::TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
            if alias.columns.is_empty() =>
        {
            let select = query::derived(subquery, scope.catalog, scope.outer)?;
            let columns =
                select.outputs.iter().map(|output| (output.name.clone(), output.class, None)).collect();
            let table = ScopeTable { alias: alias.name.clone(), columns, offset };
            (SourceRows::Derived(select), table)
        }
        other => table_source(other, offset, scope)?,
    };
    let repeated =
        scope.tables.iter().any(|known| known.alias.value.eq_ignore_ascii_case(&table.alias.value));
    if repeated {
        return Err(outside("two tables of the same name", factor));
    }
    let width = table.columns.len();
    scope.tables.push(table);
    let (left, on) = match join {
        None => (false, None),
        Some(join) => condition(join, scope)?,
    };
    let access = Access { prefix: Vec::new(), whole: false, decides: false, lookups: Vec::new() };
    sources.push(Source { rows, offset, width, left, on: conjuncts(on), filters: Vec::new(), access });
    Ok(())
}

fn table_source(
    factor: &ast::TableFactor,
    offset: usize,
    scope: &Scope,
) -> Result<(SourceRows, ScopeTable), SqlError> {
    let (name, alias) = exact::table_factor(factor)?;
    let name = query::single(name)?;
    if alias.is_some_and(|alias| !alias.columns.is_empty() || alias.at.is_some()) {
        return Err(outside("column names in a table's alias", factor));
    }
    let id = scope.catalog.table(name)?;
    let schema = scope.catalog.schema(id);
    let table = scope_table(schema, alias.map_or(name, |alias| &alias.name).clone(), offset, scope);
    let asked = Arc::new(Asked { condition: Vec::new(), exact: true });
    Ok((SourceRows::Table(id, asked), table))
}

/// A table's columns in scope.
pub(crate) fn scope_table(schema: &Schema, alias: ast::Ident, offset: usize, scope: &Scope) -> ScopeTable {
    let dialect = scope.catalog.dialect;
    let columns = schema.columns.iter().map(|column| {
        // SQLite's columns hold what they are given: their values know their types.
        let class = match dialect {
            crate::dialect::Dialect::Sqlite => Class::Unknown,
            _ => Class::of_type(column.data_type, dialect),
        };
        (column.name.clone(), class, Some(column.data_type))
    });
    ScopeTable { alias, columns: columns.collect(), offset }
}

/// Whether a join is a left one, and its condition.
fn condition(join: &ast::Join, scope: &mut Scope) -> Result<(bool, Option<Expr>), SqlError> {
    use ast::JoinOperator as J;
    let (left, constraint) = match &join.join_operator {
        J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => (false, constraint),
        J::Left(constraint) | J::LeftOuter(constraint) => (true, constraint),
        _ => return Err(outside(&format!("the join {join}"), join)),
    };
    if join.global {
        return Err(outside("GLOBAL JOIN", join));
    }
    match constraint {
        ast::JoinConstraint::On(expr) => Ok((left, Some(scope.expr(expr)?.expr))),
        ast::JoinConstraint::None if !left => Ok((false, None)),
        _ => Err(outside(&format!("the join {join}"), join)),
    }
}

/// The parts of a conjunction.
fn conjuncts(condition: Option<Expr>) -> Vec<Expr> {
    match condition {
        None => Vec::new(),
        Some(Expr::And(parts)) => parts.into_iter().flat_map(|part| conjuncts(Some(part))).collect(),
        Some(other) => vec![other],
    }
}

/// Puts a condition at the first source after which it can be decided.
fn place(part: Expr, sources: &mut [Source], constant: &mut Vec<Expr>) {
    let (columns, _) = part.uses();
    // A subquery may use any column of the row around it.
    let last = if part.has_subquery() { Some(usize::MAX) } else { columns.into_iter().max() };
    let at = match last {
        None => None,
        Some(usize::MAX) => sources.len().checked_sub(1),
        Some(last) => sources.iter().position(|source| last < source.offset + source.width),
    };
    match at {
        Some(at) => sources[at].filters.push(part),
        None => constant.push(part),
    }
}

/// Finds the way to a source's rows, and the condition that is asked of it alone.
fn finish(source: &mut Source, scope: &Scope) {
    let SourceRows::Table(id, asked) = &mut source.rows else { return };
    let schema = scope.catalog.schema(*id);
    let usable: Vec<&Expr> = if source.left {
        source.on.iter().collect()
    } else {
        source.on.iter().chain(&source.filters).collect()
    };
    let mut prefix = Vec::new();
    for &column in &schema.key {
        match usable.iter().find_map(|part| key_value(part, source.offset + column, source.offset)) {
            Some(value) => prefix.push(value),
            None => break,
        }
    }
    let whole = !schema.key.is_empty() && prefix.len() == schema.key.len();
    // Each equality finds one column, so that as many conditions as columns are those equalities.
    let decides = whole && usable.len() == schema.key.len() && !source.left;
    let further = (0..schema.columns.len()).filter(|column| !schema.key[..prefix.len()].contains(column));
    let lookups = further.flat_map(|column| lookups(&usable, column, source.offset)).collect();
    source.access = Access { prefix, whole, decides, lookups };
    let (mut condition, mut exact) = (Vec::new(), true);
    for part in usable {
        match local(part, source.offset, source.width) {
            Some(part) => condition.push(part),
            None => exact = false,
        }
    }
    *asked = Arc::new(Asked { condition, exact });
}

/// The comparisons of a column that can be used to find rows.
fn lookups(usable: &[&Expr], column: usize, offset: usize) -> Vec<Lookup> {
    let lookup = |part: &&Expr| {
        let (cmp, value) = compared(part, offset + column, offset)?;
        (cmp != Cmp::Ne).then_some(Lookup { column, cmp, value })
    };
    usable.iter().filter_map(lookup).collect()
}

/// The other side of `column = value`, if it can be had before the source is joined.
fn key_value(part: &Expr, column: usize, offset: usize) -> Option<Expr> {
    match compared(part, column, offset) {
        Some((Cmp::Eq, value)) => Some(value),
        _ => None,
    }
}

/// The comparison of a column with a value that can be had before the source is joined; the column
/// stands left.
fn compared(part: &Expr, column: usize, offset: usize) -> Option<(Cmp, Expr)> {
    let Expr::Compare(cmp, left, right) = part else { return None };
    let is_column = |expr: &Expr| match expr {
        Expr::Column(slot) => slot.depth == 0 && usize::from(slot.index) == column,
        _ => false,
    };
    let (cmp, value) = if is_column(left) {
        (*cmp, right)
    } else if is_column(right) {
        (flipped(*cmp), left)
    } else {
        return None;
    };
    let (columns, _) = value.uses();
    let early = columns.iter().all(|&used| used < offset) && !value.has_subquery();
    early.then(|| (cmp, value.as_ref().clone()))
}

/// The comparison with its sides exchanged.
fn flipped(cmp: Cmp) -> Cmp {
    match cmp {
        Cmp::Lt => Cmp::Gt,
        Cmp::Le => Cmp::Ge,
        Cmp::Gt => Cmp::Lt,
        Cmp::Ge => Cmp::Le,
        same => same,
    }
}

/// The condition over the table's own columns, if it uses no others.
fn local(part: &Expr, offset: usize, width: usize) -> Option<Expr> {
    let (columns, more) = part.uses();
    if more || columns.iter().any(|used| !(offset..offset + width).contains(used)) {
        return None;
    }
    let mut part = part.clone();
    part.each_mut(&mut |inner| {
        if let Expr::Column(slot) = inner {
            slot.index -= offset as u16;
        }
    });
    Some(part)
}
