//! Guards against clauses that lowering would read over.
//!
//! The parser's nodes have dozens of fields, most for other databases. Lowering blanks the ones it
//! understands, and the rest must equal the same node of the plainest statement.

use sqlparser::ast::{self, Statement};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::lower::outside;
use crate::reading::parse;

fn plain(text: &str, dialect: Dialect) -> Result<Statement, SqlError> {
    let tokens = parse::tokenize(text, dialect)?;
    parse::run(tokens, dialect, sqlparser::parser::Parser::parse_statement)
}

fn leftover<T: PartialEq + ToString>(rest: &T, plain: &T, at: &impl ast::Spanned) -> Result<(), SqlError> {
    if rest == plain {
        return Ok(());
    }
    let text: String = rest.to_string().chars().take(80).collect();
    Err(outside(&format!("a clause of {text}"), at))
}

/// A query: its body, ORDER BY, LIMIT and locks are understood.
pub(crate) fn query(query: &ast::Query, dialect: Dialect) -> Result<(), SqlError> {
    let blank = |mut query: ast::Query| {
        query.body = Box::new(ast::SetExpr::Values(ast::Values {
            explicit_row: false,
            value_keyword: false,
            rows: Vec::new(),
        }));
        query.order_by = None;
        query.limit_clause = None;
        query.locks = Vec::new();
        query
    };
    let Statement::Query(plain) = plain("SELECT 1", dialect)? else { return Ok(()) };
    leftover(&blank(query.clone()), &blank(*plain), query)
}

/// A SELECT: its list, FROM, WHERE, GROUP BY, HAVING and DISTINCT are understood.
pub(crate) fn select(select: &ast::Select, dialect: Dialect) -> Result<(), SqlError> {
    let blank = |mut select: ast::Select| {
        select.distinct = None;
        select.projection = Vec::new();
        select.from = Vec::new();
        select.selection = None;
        select.group_by = ast::GroupByExpr::Expressions(Vec::new(), Vec::new());
        select.having = None;
        select
    };
    let Statement::Query(plain) = plain("SELECT 1", dialect)? else { return Ok(()) };
    let ast::SetExpr::Select(plain) = *plain.body else { return Ok(()) };
    leftover(&blank(select.clone()), &blank(*plain), select)
}

/// An INSERT: its table, columns, source, conflict clause and RETURNING are understood.
pub(crate) fn insert(insert: &ast::Insert, dialect: Dialect) -> Result<(), SqlError> {
    let blank = |mut insert: ast::Insert| {
        insert.table = ast::TableObject::TableName(ast::ObjectName(Vec::new()));
        insert.columns = Vec::new();
        insert.source = None;
        insert.on = None;
        insert.returning = None;
        insert.into = true;
        insert
    };
    let Statement::Insert(plain) = plain("INSERT INTO t VALUES (1)", dialect)? else { return Ok(()) };
    leftover(&blank(insert.clone()), &blank(plain), insert)
}

/// An UPDATE: its table, assignments, WHERE and RETURNING are understood.
pub(crate) fn update(update: &ast::Update, dialect: Dialect) -> Result<(), SqlError> {
    let Statement::Update(plain) = plain("UPDATE t SET a = 1", dialect)? else { return Ok(()) };
    let blank = |mut update: ast::Update| {
        update.table = plain.table.clone();
        update.assignments = Vec::new();
        update.selection = None;
        update.returning = None;
        update
    };
    leftover(&blank(update.clone()), &blank(plain.clone()), update)
}

/// A DELETE: its table, WHERE and RETURNING are understood.
pub(crate) fn delete(delete: &ast::Delete, dialect: Dialect) -> Result<(), SqlError> {
    let Statement::Delete(plain) = plain("DELETE FROM t", dialect)? else { return Ok(()) };
    let blank = |mut delete: ast::Delete| {
        delete.from = plain.from.clone();
        delete.selection = None;
        delete.returning = None;
        delete
    };
    leftover(&blank(delete.clone()), &blank(plain.clone()), delete)
}

/// A CREATE TABLE: its name, columns and constraints are understood. MySQL's storage options mean
/// nothing.
pub(crate) fn create_table(create: &ast::CreateTable, dialect: Dialect) -> Result<(), SqlError> {
    let blank = |mut create: ast::CreateTable| {
        create.name = ast::ObjectName(Vec::new());
        create.columns = Vec::new();
        create.constraints = Vec::new();
        create.if_not_exists = false;
        if engine_only(&create.table_options) {
            create.table_options = ast::CreateTableOptions::None;
        }
        create
    };
    let Statement::CreateTable(plain) = plain("CREATE TABLE t (c INT)", dialect)? else { return Ok(()) };
    leftover(&blank(create.clone()), &blank(plain), create)
}

fn engine_only(options: &ast::CreateTableOptions) -> bool {
    let text = options.to_string().to_ascii_uppercase().replace(' ', "");
    matches!(text.as_str(), "" | "ENGINE=INNODB")
}

/// A table of a FROM clause: its name and alias are understood.
pub(crate) fn table_factor(
    factor: &ast::TableFactor,
) -> Result<(&ast::ObjectName, Option<&ast::TableAlias>), SqlError> {
    match factor {
        ast::TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
            Ok((name, alias.as_ref()))
        }
        other => Err(outside(&format!("the table {other}"), other)),
    }
}
