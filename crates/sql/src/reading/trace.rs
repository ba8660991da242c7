//! Lowering of a traced statement, with its result, to reads and writes of rows and to regions.
//!
//! A verifier that sees only what clients saw does not have the database's state: it knows the
//! statement, its parameters, and the rows that came back. From the table's key that is enough to
//! say which rows were read or written in the common case, equality on the key; elsewhere the
//! predicate's region stands for the rows.
//!
//! # Invariants
//! - An item that is reported was read or written by the statement, if the statement succeeded.
//! - Every row that the statement read or wrote is an item, or lies in a region of its table.

use std::sync::Arc;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::database::Database;
use crate::reading::eval::eval;
use crate::reading::expr::{Expr, Slot};
use crate::reading::outcome::PredicateRead;
use crate::reading::plan::{
    Asked, Insert, InsertRows, Output, Select, Source, SourceRows, TableId, is_flexible,
};
use crate::reading::predicate::ParamEnv;
use crate::reading::region::Region;
use crate::reading::run::key_form;
use crate::reading::schema::Schema;
use crate::reading::statement::{Plan, Statement};
use crate::reading::store::Key;
use crate::value::Value;

/// What a traced statement read and wrote.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// The rows that were read.
    pub reads: Vec<ItemRead>,
    /// The rows that were written.
    pub writes: Vec<ItemWrite>,
    /// The regions that were read or written beyond these rows.
    pub regions: Vec<TracedRegion>,
}

/// A row that a traced statement read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRead {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// Whether the row was there; `None` if the result does not tell.
    pub present: Option<bool>,
    /// The columns whose values the result shows.
    pub values: Vec<(usize, Value)>,
}

/// A row that a traced statement wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemWrite {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// The columns that were set; `None` where the value depends on the row before.
    pub values: Vec<(usize, Option<Value>)>,
    /// True if the row was deleted.
    pub deleted: bool,
    /// False if it is not known that the row was there to be written.
    pub certain: bool,
}

/// A region of a table that a traced statement read or wrote.
#[derive(Clone, Debug)]
pub struct TracedRegion {
    /// The table.
    pub table: TableId,
    /// The rows that can be meant.
    pub region: Region,
    /// True if rows of the region may have been written.
    pub written: bool,
}

impl Database {
    /// Lowers a statement that a client executed, with the rows it got (`None` if they were not
    /// recorded) and the number of rows it was told of.
    pub fn trace(
        &self,
        statement: &Statement,
        params: &[Value],
        rows: Option<&[Vec<Value>]>,
        count: Option<u64>,
    ) -> Result<Traced, SqlError> {
        let tracer = Tracer { database: self, params, dialect: self.dialect() };
        let mut traced = Traced::default();
        match statement.plan() {
            Plan::Select(select) => tracer.select(select, rows, &mut traced)?,
            Plan::Insert(insert) => tracer.insert(insert, &mut traced)?,
            Plan::Update(update) => {
                let sets = tracer.sets(&update.sets, self.schema(update.table))?;
                tracer.write(&update.source, update.table, sets, false, count, &mut traced)?;
            }
            Plan::Delete(delete) => {
                tracer.write(&delete.source, delete.table, Vec::new(), true, count, &mut traced)?;
            }
            Plan::Procedural(_) if statement.call().is_some() => {
                return Err(SqlError::unsupported("a CALL whose rows are not known"));
            }
            _ => {}
        }
        Ok(traced)
    }
}

impl PredicateRead {
    /// The region of the table that was asked for.
    pub fn region(&self, schema: &Schema) -> Region {
        region(&self.asked, schema, &self.params, self.dialect)
    }
}

/// The region of a condition with its parameters filled in.
fn region(asked: &Asked, schema: &Schema, params: &[Value], dialect: Dialect) -> Region {
    let mut condition = Expr::And(asked.condition.clone());
    condition.each_mut(&mut |part| {
        if let Expr::Param(index) = part
            && let Some(value) = params.get(*index)
        {
            *part = match value {
                Value::Text(_) if dialect.is_strict() => Expr::Untyped(value.clone()),
                _ => Expr::Literal(value.clone()),
            };
        }
    });
    let name =
        |column: u16| schema.columns.get(usize::from(column)).map_or(String::new(), |c| c.name.clone());
    let region = Region::of(&condition, dialect, &name, &|name| schema.column_type(name));
    if asked.exact { region } else { region.inexact() }
}

struct Tracer<'a> {
    database: &'a Database,
    params: &'a [Value],
    dialect: Dialect,
}

impl Tracer<'_> {
    fn select(
        &self,
        select: &Select,
        rows: Option<&[Vec<Value>]>,
        traced: &mut Traced,
    ) -> Result<(), SqlError> {
        if let ([source], None, false) = (select.sources.as_slice(), &select.group, has_subquery(select))
            && let SourceRows::Table(id, asked) = &source.rows
        {
            return self.single(select, source, *id, asked, rows, traced);
        }
        self.regions(select, traced);
        Ok(())
    }

    /// Everything that a query with joins, groups or subqueries can have read.
    fn regions(&self, select: &Select, traced: &mut Traced) {
        for source in &select.sources {
            match &source.rows {
                SourceRows::Table(id, asked) => {
                    let schema = self.database.schema(*id);
                    let region = region(asked, schema, self.params, self.dialect);
                    traced.regions.push(TracedRegion { table: *id, region, written: false });
                }
                SourceRows::Derived(inner) => self.regions(inner, traced),
            }
            source.on.iter().chain(&source.filters).for_each(|part| self.subqueries(part, traced));
        }
        select.constant.iter().for_each(|part| self.subqueries(part, traced));
        select.outputs.iter().for_each(|output| self.subqueries(&output.expr, traced));
    }

    fn subqueries(&self, expr: &Expr, traced: &mut Traced) {
        expr.clone().each_mut(&mut |part| match part {
            Expr::Exists(select, _) | Expr::Subquery(select) | Expr::InSelect(_, select, _) => {
                self.regions(select, traced);
            }
            _ => {}
        });
    }

    fn single(
        &self,
        select: &Select,
        source: &Source,
        id: TableId,
        asked: &Arc<Asked>,
        rows: Option<&[Vec<Value>]>,
        traced: &mut Traced,
    ) -> Result<(), SqlError> {
        let schema = self.database.schema(id);
        let shown = shown_columns(&select.outputs);
        if let Some(key) = self.key(source, schema)? {
            let only_key = source.filters.len() == schema.key.len() && select.limit.is_none();
            let present = match rows {
                Some([]) if only_key => Some(false),
                Some([]) | None => None,
                Some(_) => Some(true),
            };
            let values = rows.and_then(<[_]>::first).map_or(Vec::new(), |row| values(&shown, row));
            traced.reads.push(ItemRead { table: id, key, present, values });
            return Ok(());
        }
        let region = region(asked, schema, self.params, self.dialect);
        traced.regions.push(TracedRegion { table: id, region, written: false });
        for row in rows.unwrap_or_default() {
            let values = values(&shown, row);
            let cell =
                |column: &usize| values.iter().find(|(shown, _)| shown == column).map(|(_, value)| value);
            let cells: Option<Vec<&Value>> = schema.key.iter().map(cell).collect();
            let Some(cells) = cells.filter(|cells| !cells.is_empty()) else { continue };
            let key: Key = cells.into_iter().map(|value| value.group_key(self.dialect)).collect();
            traced.reads.push(ItemRead { table: id, key, present: Some(true), values });
        }
        Ok(())
    }

    /// The key that a source's conditions fix.
    fn key(&self, source: &Source, schema: &Schema) -> Result<Option<Key>, SqlError> {
        if !source.access.whole {
            return Ok(None);
        }
        let env = ParamEnv { dialect: self.dialect, row: &[], params: self.params };
        let mut key = Vec::with_capacity(schema.key.len());
        for (expr, &column) in source.access.prefix.iter().zip(&schema.key) {
            let value = eval(expr, &env)?;
            match key_form(&value, schema.columns[column].data_type, self.dialect) {
                Some(value) => key.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(Arc::from(key)))
    }

    fn sets(&self, sets: &[(usize, Expr)], schema: &Schema) -> Result<Vec<(usize, Option<Value>)>, SqlError> {
        let env = ParamEnv { dialect: self.dialect, row: &[], params: self.params };
        let value = |(column, expr): &(usize, Expr)| {
            let (used, more) = expr.uses();
            if more || !used.is_empty() {
                return Ok((*column, None));
            }
            let to = schema.columns[*column].data_type;
            let value = crate::reading::coerce::store(
                eval(expr, &env)?.into_owned(),
                to,
                is_flexible(expr),
                self.dialect,
            )?;
            Ok((*column, Some(value)))
        };
        sets.iter().map(value).collect()
    }

    fn write(
        &self,
        source: &Source,
        table: TableId,
        sets: Vec<(usize, Option<Value>)>,
        deleted: bool,
        count: Option<u64>,
        traced: &mut Traced,
    ) -> Result<(), SqlError> {
        source.filters.iter().for_each(|part| self.subqueries(part, traced));
        let schema = self.database.schema(table);
        let moves = sets.iter().any(|(column, _)| schema.key.contains(column));
        match self.key(source, schema)? {
            Some(key) if !moves => {
                if count == Some(0) && !self.dialect.is_mysql() {
                    traced.reads.push(ItemRead { table, key, present: None, values: Vec::new() });
                    return Ok(());
                }
                let certain = count.is_some_and(|count| count > 0);
                traced.writes.push(ItemWrite { table, key, values: sets, deleted, certain });
            }
            _ => {
                let SourceRows::Table(_, asked) = &source.rows else { return Ok(()) };
                let region = if moves {
                    Region::everything().inexact()
                } else {
                    region(asked, schema, self.params, self.dialect)
                };
                traced.regions.push(TracedRegion { table, region, written: true });
            }
        }
        Ok(())
    }

    fn insert(&self, insert: &Insert, traced: &mut Traced) -> Result<(), SqlError> {
        let schema = self.database.schema(insert.table);
        let anywhere =
            TracedRegion { table: insert.table, region: Region::everything().inexact(), written: true };
        let InsertRows::Values(rows) = &insert.rows else {
            if let InsertRows::Select(select) = &insert.rows {
                self.regions(select, traced);
            }
            traced.regions.push(anywhere);
            return Ok(());
        };
        for row in rows {
            match self.inserted(insert, row, schema)? {
                Some(write) => traced.writes.push(write),
                None => traced.regions.push(anywhere.clone()),
            }
        }
        Ok(())
    }

    /// The row that an INSERT gives, if it gives the key.
    fn inserted(
        &self,
        insert: &Insert,
        row: &[Option<Expr>],
        schema: &Schema,
    ) -> Result<Option<ItemWrite>, SqlError> {
        let given: Vec<(usize, Expr)> = insert
            .columns
            .iter()
            .zip(row)
            .filter_map(|(&column, cell)| Some((column, cell.clone()?)))
            .collect();
        let values = self.sets(&given, schema)?;
        let mut key = Vec::with_capacity(schema.key.len());
        for column in &schema.key {
            match values.iter().find(|(given, _)| given == column) {
                Some((_, Some(value))) if !value.is_null() => key.push(value.group_key(self.dialect)),
                _ => return Ok(None),
            }
        }
        if key.is_empty() {
            return Ok(None);
        }
        let certain = insert.conflict.is_none();
        // What ON CONFLICT makes of the row depends on the row that is there.
        let values = if certain { values } else { Vec::new() };
        Ok(Some(ItemWrite { table: insert.table, key: Arc::from(key), values, deleted: false, certain }))
    }
}

fn has_subquery(select: &Select) -> bool {
    let filters = select.sources.iter().flat_map(|source| source.on.iter().chain(&source.filters));
    let outputs = select.outputs.iter().map(|output| &output.expr);
    filters.chain(&select.constant).chain(outputs).any(Expr::has_subquery)
}

/// For each output the table's column that it shows, if it is one.
fn shown_columns(outputs: &[Output]) -> Vec<Option<usize>> {
    let column = |output: &Output| match output.expr {
        Expr::Column(Slot { depth: 0, index }) => Some(usize::from(index)),
        _ => None,
    };
    outputs.iter().map(column).collect()
}

fn values(shown: &[Option<usize>], row: &[Value]) -> Vec<(usize, Value)> {
    shown.iter().zip(row).filter_map(|(column, value)| Some(((*column)?, value.clone()))).collect()
}
