//! Lowering of queries.

use std::sync::Arc;

use sqlparser::ast::{self, Ident};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::database::Catalog;
use crate::reading::exact;
use crate::reading::expr::Expr;
use crate::reading::from;
use crate::reading::group::{GroupScope, has_aggregate};
use crate::reading::lower::{Lowerer, Typed, outside};
use crate::reading::plan::{Group, Lock, Order, OrderBy, Output, Select, settled};
use crate::reading::scope::Scope;

/// Lowers a query that stands inside `outer`.
pub(crate) fn lower(
    query: &ast::Query,
    catalog: &Catalog,
    outer: Option<&Scope>,
) -> Result<Select, SqlError> {
    exact::query(query, catalog.dialect)?;
    let ast::SetExpr::Select(select) = query.body.as_ref() else {
        return Err(outside(&format!("the query {}", query.body), query));
    };
    exact::select(select, catalog.dialect)?;
    let mut scope = Scope::new(catalog, outer);
    let (sources, constant) = from::lower(select, &mut scope)?;
    let order_by = order_expressions(query)?;
    let grouping = grouping(select)?;
    let projected = select.projection.iter().any(item_aggregates);
    let grouped = grouping.is_some() || select.having.is_some() || projected;
    let ordered_by_aggregate = order_by.iter().any(|item| has_aggregate(&item.expr));
    let (outputs, order, group) = if grouped || ordered_by_aggregate {
        grouped_outputs(select, grouping.unwrap_or_default(), order_by, &mut scope)?
    } else {
        let outputs = outputs(&select.projection, &scope.tables.clone(), &mut scope.lowerer())?;
        let order = order(order_by, &outputs, &mut scope.lowerer())?;
        (outputs, order, None)
    };
    let distinct = distinct(select)?;
    let hidden_order = order.iter().any(|order| matches!(order.by, OrderBy::Expr(_)));
    if distinct && hidden_order {
        return Err(outside("SELECT DISTINCT ordered by what it does not show", query));
    }
    let (limit, offset) = limits(query, &mut scope)?;
    let lock = lock(query)?;
    Ok(Select { sources, group, outputs, distinct, order, limit, offset, lock, constant })
}

fn distinct(select: &ast::Select) -> Result<bool, SqlError> {
    match &select.distinct {
        None | Some(ast::Distinct::All) => Ok(false),
        Some(ast::Distinct::Distinct) => Ok(true),
        Some(other) => Err(outside(&other.to_string(), select)),
    }
}

fn grouping(select: &ast::Select) -> Result<Option<Vec<ast::Expr>>, SqlError> {
    match &select.group_by {
        ast::GroupByExpr::Expressions(list, modifiers) if modifiers.is_empty() => {
            Ok((!list.is_empty()).then(|| list.clone()))
        }
        other => Err(outside(&other.to_string(), select)),
    }
}

fn item_aggregates(item: &ast::SelectItem) -> bool {
    match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => {
            has_aggregate(expr)
        }
        _ => false,
    }
}

type Outputs = (Vec<Output>, Vec<Order>, Option<Group>);

fn grouped_outputs(
    select: &ast::Select,
    grouping: Vec<ast::Expr>,
    order_by: &[ast::OrderByExpr],
    scope: &mut Scope,
) -> Result<Outputs, SqlError> {
    let mut keys = Vec::new();
    for key in &grouping {
        keys.push(group_key(key, select, scope)?);
    }
    let dialect = scope.catalog.dialect;
    let mut group = GroupScope { input: scope, keys, aggregates: Vec::new(), outermost: false };
    let mut outputs = Vec::new();
    for item in &select.projection {
        let (expr, name) = match item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, None),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            other => return Err(outside(&format!("{other} with GROUP BY"), other)),
        };
        group.outermost = matches!(expr, ast::Expr::Function(_));
        let typed = Lowerer { dialect, names: &mut group }.output(expr)?;
        group.outermost = false;
        outputs.push(output(typed, name, expr, dialect));
    }
    let order = order(order_by, &outputs, &mut Lowerer { dialect, names: &mut group })?;
    let having = match &select.having {
        Some(having) => Some(Lowerer { dialect, names: &mut group }.expr(having)?.expr),
        None => None,
    };
    let keys = group.keys.into_iter().map(|key| key.expr).collect();
    let plan = Group { keys, aggregates: group.aggregates, having };
    Ok((outputs, order, Some(plan)))
}

/// A GROUP BY item: an expression over the sources, a position, or else an output's alias.
fn group_key(key: &ast::Expr, select: &ast::Select, scope: &mut Scope) -> Result<Typed, SqlError> {
    let item = |expr: &ast::Expr| match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => {
                digits.parse::<usize>().ok().and_then(|n| select.projection.get(n.checked_sub(1)?))
            }
            _ => None,
        },
        ast::Expr::Identifier(ident) => select.projection.iter().find(
            |item| matches!(item, ast::SelectItem::ExprWithAlias { alias, .. } if same_name(alias, ident)),
        ),
        _ => None,
    };
    let positional = matches!(key, ast::Expr::Value(_));
    if !positional {
        match scope.expr(key) {
            Err(SqlError::UnknownColumn(name)) if item(key).is_none() => {
                return Err(SqlError::UnknownColumn(name));
            }
            Err(SqlError::UnknownColumn(_)) => {}
            other => return other,
        }
    }
    match item(key) {
        Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) => {
            scope.expr(expr)
        }
        _ => Err(outside("this GROUP BY item", key)),
    }
}

fn same_name(a: &Ident, b: &Ident) -> bool {
    a.value.eq_ignore_ascii_case(&b.value)
}

/// The outputs of a list without aggregates; wildcards become the columns that they stand for.
pub(crate) fn outputs(
    items: &[ast::SelectItem],
    tables: &[crate::reading::scope::ScopeTable],
    lowerer: &mut Lowerer,
) -> Result<Vec<Output>, SqlError> {
    let mut outputs = Vec::new();
    for item in items {
        match item {
            ast::SelectItem::UnnamedExpr(expr) => {
                let typed = lowerer.output(expr)?;
                outputs.push(output(typed, None, expr, lowerer.dialect));
            }
            ast::SelectItem::ExprWithAlias { expr, alias } => {
                let typed = lowerer.output(expr)?;
                outputs.push(output(typed, Some(alias), expr, lowerer.dialect));
            }
            ast::SelectItem::Wildcard(options) if *options == ast::WildcardAdditionalOptions::default() => {
                tables.iter().for_each(|table| outputs.extend(columns_of(table)));
            }
            ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) if *options == ast::WildcardAdditionalOptions::default() => {
                let alias = single(name)?;
                let table = tables.iter().find(|table| same_name(&table.alias, alias));
                let table = table.ok_or_else(|| SqlError::UnknownTable(alias.value.clone()))?;
                outputs.extend(columns_of(table));
            }
            other => return Err(outside(&format!("the output {other}"), other)),
        }
    }
    Ok(outputs)
}

fn columns_of(table: &crate::reading::scope::ScopeTable) -> impl Iterator<Item = Output> {
    table.columns.iter().enumerate().map(|(index, (name, class, _))| Output {
        name: name.clone(),
        expr: Expr::Column(crate::reading::expr::Slot { depth: 0, index: (table.offset + index) as u16 }),
        class: *class,
    })
}

fn output(typed: Typed, alias: Option<&Ident>, expr: &ast::Expr, dialect: Dialect) -> Output {
    let name = match (alias, expr) {
        (Some(alias), _) => alias.value.clone(),
        (None, ast::Expr::Identifier(column)) => column.value.clone(),
        (None, ast::Expr::CompoundIdentifier(parts)) => {
            parts.last().map_or(String::new(), |part| part.value.clone())
        }
        (None, other) => other.to_string(),
    };
    Output { name, expr: typed.expr, class: settled(typed.class, dialect) }
}

/// A name of one part.
pub(crate) fn single(name: &ast::ObjectName) -> Result<&Ident, SqlError> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] => Ok(ident),
        _ => Err(SqlError::unsupported(format!("the name {name}"))),
    }
}

fn order_expressions(query: &ast::Query) -> Result<&[ast::OrderByExpr], SqlError> {
    match &query.order_by {
        None => Ok(&[]),
        Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(list), interpolate: None }) => Ok(list),
        Some(other) => Err(outside(&other.to_string(), query)),
    }
}

fn order(
    items: &[ast::OrderByExpr],
    outputs: &[Output],
    lowerer: &mut Lowerer,
) -> Result<Vec<Order>, SqlError> {
    let mut order = Vec::new();
    for item in items {
        let descending = match &item.options.sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(other) => return Err(outside(&format!("ORDER BY {other:?}"), &item.expr)),
        };
        let nulls_first = item.options.nulls_first.unwrap_or(lowerer.dialect.nulls_first() != descending);
        let by = order_by(&item.expr, outputs, lowerer)?;
        order.push(Order { by, descending, nulls_first });
    }
    Ok(order)
}

/// A sort item: a position, an output's name, or an expression over the sources.
fn order_by(expr: &ast::Expr, outputs: &[Output], lowerer: &mut Lowerer) -> Result<OrderBy, SqlError> {
    match expr {
        ast::Expr::Value(value) => {
            let position = match &value.value {
                ast::Value::Number(digits, _) => digits.parse::<usize>().ok(),
                _ => None,
            };
            match position {
                Some(n) if (1..=outputs.len()).contains(&n) => Ok(OrderBy::Output(n - 1)),
                _ => Err(outside("ORDER BY a constant", expr)),
            }
        }
        ast::Expr::Identifier(ident) => {
            let mut named =
                (0..outputs.len()).filter(|&i| outputs[i].name.eq_ignore_ascii_case(&ident.value));
            match (named.next(), named.next()) {
                (Some(index), None) => Ok(OrderBy::Output(index)),
                (Some(_), Some(_)) => Err(SqlError::AmbiguousColumn(ident.value.clone())),
                (None, _) => lowered_order(expr, outputs, lowerer),
            }
        }
        _ => lowered_order(expr, outputs, lowerer),
    }
}

fn lowered_order(expr: &ast::Expr, outputs: &[Output], lowerer: &mut Lowerer) -> Result<OrderBy, SqlError> {
    let lowered = lowerer.expr(expr)?.expr;
    match outputs.iter().position(|output| output.expr == lowered) {
        Some(index) => Ok(OrderBy::Output(index)),
        None => Ok(OrderBy::Expr(lowered)),
    }
}

type Limits = (Option<Expr>, Option<Expr>);

fn limits(query: &ast::Query, scope: &mut Scope) -> Result<Limits, SqlError> {
    let mut constant = |expr: &ast::Expr| {
        let lowered = scope.expr(expr)?;
        match lowered.expr {
            Expr::Literal(_) | Expr::Param(_) => Ok(lowered.expr),
            _ => Err(outside("a LIMIT that is computed", expr)),
        }
    };
    match &query.limit_clause {
        None => Ok((None, None)),
        Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => Ok((
            limit.as_ref().map(&mut constant).transpose()?,
            offset.as_ref().map(|offset| constant(&offset.value)).transpose()?,
        )),
        Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => {
            Ok((Some(constant(limit)?), Some(constant(offset)?)))
        }
        Some(other) => Err(outside(&other.to_string(), query)),
    }
}

fn lock(query: &ast::Query) -> Result<Option<Lock>, SqlError> {
    match query.locks.as_slice() {
        [] => Ok(None),
        [ast::LockClause { lock_type, of: None, nonblock: None | Some(ast::NonBlock::Nowait) }] => {
            Ok(Some(match lock_type {
                ast::LockType::Share => Lock::Share,
                ast::LockType::Update => Lock::Update,
            }))
        }
        [other, ..] => Err(outside(&other.to_string(), query)),
    }
}

/// The outputs of RETURNING.
pub(crate) fn returning(
    items: Option<&Vec<ast::SelectItem>>,
    scope: &mut Scope,
) -> Result<Option<Vec<Output>>, SqlError> {
    let Some(items) = items else { return Ok(None) };
    let tables = scope.tables.clone();
    let outputs = outputs(items, &tables, &mut scope.lowerer())?;
    if outputs.iter().any(|output| output.expr.has_subquery()) {
        return Err(SqlError::unsupported("a subquery in RETURNING"));
    }
    Ok(Some(outputs))
}

/// A subquery as a shared plan.
pub(crate) fn derived(
    query: &ast::Query,
    catalog: &Catalog,
    outer: Option<&Scope>,
) -> Result<Arc<Select>, SqlError> {
    lower(query, catalog, outer).map(Arc::new)
}
