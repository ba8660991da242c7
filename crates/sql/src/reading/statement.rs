//! Statements: parsed, lowered and ready to be executed with parameters.

use std::sync::Arc;

use sqlparser::ast;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;
use crate::reading::control::{self, Control};
use crate::reading::database::Catalog;
use crate::reading::ddl;
use crate::reading::lower::outside;
use crate::reading::parse;
use crate::reading::plan::{Delete, Insert, Select, TableId, Update};
use crate::reading::procedure::{self, Call, Procedural};
use crate::reading::query;
use crate::reading::schema::Schema;
use crate::reading::write;

/// A prepared statement of one database.
#[derive(Clone, Debug)]
pub struct Statement {
    plan: Arc<Plan>,
    columns: Arc<[String]>,
    generation: u64,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Select(Arc<Select>),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    CreateTable(Box<Schema>, bool),
    /// The table, the columns, and whether the index is unique.
    CreateIndex(TableId, Vec<usize>, bool),
    DropTables(Vec<TableId>),
    Control(Control),
    Procedural(Procedural),
}

impl Statement {
    /// What the statement says about transactions, if that is all it does.
    pub fn control(&self) -> Option<&Control> {
        match &*self.plan {
            Plan::Control(control) => Some(control),
            _ => None,
        }
    }

    /// True if the statement can write rows.
    pub fn is_write(&self) -> bool {
        matches!(&*self.plan, Plan::Insert(_) | Plan::Update(_) | Plan::Delete(_)) || self.call().is_some()
    }

    /// True if the statement is a DELETE.
    pub fn is_delete(&self) -> bool {
        matches!(&*self.plan, Plan::Delete(_))
    }

    /// True if the statement is an INSERT.
    pub fn is_insert(&self) -> bool {
        matches!(&*self.plan, Plan::Insert(_))
    }

    /// The call that the statement is.
    pub(crate) fn call(&self) -> Option<&Arc<Call>> {
        match &*self.plan {
            Plan::Procedural(Procedural::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// The statement that a call is.
    pub(crate) fn of_call(call: Arc<Call>, generation: u64) -> Statement {
        let columns = procedure::outs(&call.procedure);
        let plan = Arc::new(Plan::Procedural(Procedural::Call(call)));
        Statement { plan, columns, generation }
    }

    /// The names of the result's columns.
    pub fn columns(&self) -> &Arc<[String]> {
        &self.columns
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    fn new(plan: Plan, generation: u64) -> Self {
        let outputs = match &plan {
            Plan::Select(select) => Some(&select.outputs),
            Plan::Insert(insert) => insert.returning.as_ref(),
            Plan::Update(update) => update.returning.as_ref(),
            Plan::Delete(delete) => delete.returning.as_ref(),
            _ => None,
        };
        let columns = outputs.into_iter().flatten().map(|output| output.name.clone()).collect();
        Statement { plan: Arc::new(plan), columns, generation }
    }

    pub(crate) fn prepare(text: &str, catalog: &Catalog, generation: u64) -> Result<Statement, SqlError> {
        let tokens = parse::tokenize(text, catalog.dialect)?;
        match procedure::procedural(&tokens, catalog, generation)? {
            Some(Procedural::Call(call)) => Ok(Statement::of_call(call, generation)),
            Some(other) => Ok(Statement::new(Plan::Procedural(other), generation)),
            None => Statement::of_tokens(tokens, catalog, generation),
        }
    }

    /// Prepares a statement on rows, on the schema or about transactions.
    pub(crate) fn of_tokens(
        mut tokens: Vec<TokenWithSpan>,
        catalog: &Catalog,
        generation: u64,
    ) -> Result<Statement, SqlError> {
        if let Some(control) = control::control(&tokens)? {
            return Ok(Statement::new(Plan::Control(control), generation));
        }
        control::rewrite_locks(&mut tokens);
        while let Some(Token::SemiColon | Token::Whitespace(_) | Token::EOF) =
            tokens.last().map(|token| &token.token)
        {
            tokens.pop();
        }
        let tree = parse::run(tokens, catalog.dialect, Parser::parse_statement)?;
        Ok(Statement::new(lower(&tree, catalog)?, generation))
    }
}

fn lower(tree: &ast::Statement, catalog: &Catalog) -> Result<Plan, SqlError> {
    match tree {
        ast::Statement::Query(query) => Ok(Plan::Select(Arc::new(query::lower(query, catalog, None)?))),
        ast::Statement::Insert(insert) => write::insert(insert, catalog).map(Plan::Insert),
        ast::Statement::Update(update) => write::update(update, catalog).map(Plan::Update),
        ast::Statement::Delete(delete) => write::delete(delete, catalog).map(Plan::Delete),
        ast::Statement::CreateTable(create) => {
            let schema = ddl::create_table(create, catalog)?;
            Ok(Plan::CreateTable(Box::new(schema), create.if_not_exists))
        }
        ast::Statement::CreateIndex(index) => create_index(index, catalog),
        ast::Statement::Drop {
            object_type: ast::ObjectType::Table,
            if_exists,
            names,
            cascade: false,
            ..
        } => drop_tables(names, *if_exists, catalog),
        other => {
            let text: String = other.to_string().chars().take(60).collect();
            Err(outside(&format!("the statement {text}"), other))
        }
    }
}

fn create_index(index: &ast::CreateIndex, catalog: &Catalog) -> Result<Plan, SqlError> {
    let table = catalog.table(query::single(&index.table_name)?)?;
    if index.unique && (index.predicate.is_some() || index.nulls_distinct.is_some()) {
        return Err(SqlError::unsupported("a partial UNIQUE index"));
    }
    let columns = ddl::index_columns(&index.columns, catalog.schema(table), catalog.dialect)?;
    Ok(Plan::CreateIndex(table, columns, index.unique))
}

fn drop_tables(names: &[ast::ObjectName], if_exists: bool, catalog: &Catalog) -> Result<Plan, SqlError> {
    let mut tables = Vec::new();
    for name in names {
        match catalog.table(query::single(name)?) {
            Ok(table) => tables.push(table),
            Err(_) if if_exists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Plan::DropTables(tables))
}
