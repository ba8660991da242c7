//! A database in memory: tables with versions, transactions on snapshots of them, and statements.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use sqlparser::ast::Ident;
use sqlparser::tokenizer::TokenWithSpan;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::call;
use crate::reading::change;
use crate::reading::expr::Class;
use crate::reading::names::{self, Fit};
use crate::reading::outcome::{Outcome, Write};
use crate::reading::plan::TableId;
use crate::reading::procedure::{Procedural, Variable};
use crate::reading::run::{self, Context};
use crate::reading::schema::Schema;
use crate::reading::statement::{Plan, Statement};
use crate::reading::stop::Stop;
use crate::reading::store::{PENDING, Record, StatementView, Table};
use crate::value::Value;

/// What lowering knows of a database.
#[derive(Clone, Copy)]
pub(crate) struct Catalog<'a> {
    pub dialect: Dialect,
    pub tables: &'a [Table],
    pub names: &'a HashMap<String, TableId>,
    /// The classes of the parameters that stand for literals of the text.
    pub classes: &'a [Class],
    /// The tokens of the procedures after their names.
    pub procedures: &'a HashMap<String, Arc<[TokenWithSpan]>>,
    /// The variables of the procedure that the text stands in; later ones hide earlier ones.
    pub variables: &'a [Variable],
    /// How many procedures the text stands in.
    pub depth: u8,
}

impl<'a> Catalog<'a> {
    /// The table that a name means.
    pub fn table(&self, name: &Ident) -> Result<TableId, SqlError> {
        let mut best = (Fit::None, None);
        for (known, id) in self.names {
            let fit = names::fit(name, known, self.dialect);
            if fit > best.0 {
                best = (fit, Some(*id));
            }
        }
        best.1.ok_or_else(|| SqlError::UnknownTable(name.value.clone()))
    }

    pub fn schema(&self, id: TableId) -> &'a Schema {
        &self.tables[id.0 as usize].schema
    }

    /// The variable that a name means, or a field of a record.
    pub fn variable(&self, record: Option<&Ident>, name: &Ident) -> Option<&'a Variable> {
        let means = |ident: &Ident, known: &str| names::fit(ident, known, self.dialect) != Fit::None;
        self.variables.iter().rev().find(|variable| match (record, &variable.record) {
            (None, None) => means(name, &variable.name),
            (Some(record), Some(known)) => means(record, known) && means(name, &variable.name),
            _ => false,
        })
    }

    /// The class of a parameter.
    pub fn param_class(&self, index: usize) -> Class {
        self.classes.get(index).copied().unwrap_or(Class::Unknown)
    }
}

/// A database in memory.
///
/// Commits get increasing stamps; a transaction sees what was committed up to its snapshot, and its
/// own writes. Which snapshots may be taken and which commits must fail is for the caller to
/// decide: the store has no isolation level of its own. Uniqueness is checked against what the
/// transaction sees.
#[derive(Clone, Debug)]
pub struct Database {
    dialect: Dialect,
    pub(crate) tables: Vec<Table>,
    pub(crate) names: HashMap<String, TableId>,
    procedures: HashMap<String, Arc<[TokenWithSpan]>>,
    clock: u64,
    transactions: u64,
    /// Grows with every change of the schema; statements of an older one are refused.
    generation: u64,
    /// Whether columns that rows are looked up by get an index.
    pub(crate) indexed: bool,
    /// Whether statements that would number rows are refused.
    pub(crate) unnumbered: bool,
    stop: Stop,
}

/// A transaction on a [`Database`].
#[derive(Debug)]
pub struct Transaction {
    number: u64,
    /// The last commit that it sees.
    pub snapshot: u64,
    /// What NOW() is, in microseconds since 1970; without it statements that ask are refused.
    pub now: Option<i64>,
    /// The rows that it wrote, by their numbers.
    writes: Vec<(TableId, u32)>,
    /// How many statements the call at work may still execute.
    pub(crate) steps: Option<u64>,
}

impl Transaction {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Database {
    /// An empty database.
    pub fn new(dialect: Dialect) -> Self {
        Database {
            dialect,
            tables: Vec::new(),
            names: HashMap::new(),
            procedures: HashMap::new(),
            clock: 0,
            transactions: 0,
            generation: 0,
            indexed: false,
            unnumbered: false,
            stop: Stop::default(),
        }
    }

    /// Has statements end with [`SqlError::Stopped`] once `over` is true. It is asked for every row
    /// that they look at.
    pub fn stop_when(&mut self, over: impl Fn() -> bool + Send + Sync + 'static) {
        self.stop = Stop::when(over);
    }

    pub(crate) fn set_clock(&mut self, stamp: u64) {
        self.clock = stamp;
    }

    /// Makes the indexes that a statement missed.
    fn make_indexes(&mut self, wanted: Vec<(TableId, usize)>) {
        for (table, column) in wanted {
            self.tables[table.0 as usize].index(column);
        }
    }

    /// The dialect of its statements.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The stamp of the last commit.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<TableId> {
        self.names.get(name).copied()
    }

    /// The shape of a table.
    pub fn schema(&self, table: TableId) -> &Schema {
        &self.tables[table.0 as usize].schema
    }

    /// The committed versions of a row, oldest first: when, and what (`None` is its absence).
    pub fn versions(&self, table: TableId, key: &[Value]) -> Vec<(u64, Option<Record>)> {
        let table = &self.tables[table.0 as usize];
        let versions = table.versions_of(key);
        let committed = versions.iter().filter(|version| version.stamp & PENDING == 0);
        committed.map(|version| (version.stamp, version.row.clone())).collect()
    }

    /// Prepares a statement: parses it and resolves its names.
    pub fn prepare(&self, text: &str) -> Result<Statement, SqlError> {
        let statement = Statement::prepare(text, &self.catalog(&[]), self.generation);
        statement.map_err(|error| error.in_dialect(self.dialect))
    }

    pub(crate) fn catalog<'a>(&'a self, classes: &'a [Class]) -> Catalog<'a> {
        Catalog {
            dialect: self.dialect,
            tables: &self.tables,
            names: &self.names,
            classes,
            procedures: &self.procedures,
            variables: &[],
            depth: 0,
        }
    }

    /// What a transaction evaluates in.
    pub(crate) fn context<'a>(
        &'a self,
        transaction: &Transaction,
        params: &'a [Value],
        writes: bool,
    ) -> Context<'a> {
        Context {
            dialect: self.dialect,
            tables: &self.tables,
            view: StatementView { at: transaction.snapshot, own: transaction.number },
            params,
            now: transaction.now,
            writes,
            reads: RefCell::default(),
            shared: RefCell::default(),
            unnumbered: self.unnumbered,
            wanted: self.indexed.then(RefCell::default),
            stop: &self.stop,
        }
    }

    /// Takes writes of a transaction back, the last one first.
    pub(crate) fn undo(&mut self, transaction: &Transaction, writes: &[Write]) {
        for write in writes.iter().rev() {
            self.tables[write.table.0 as usize].write(&write.key, write.before.clone(), transaction.number);
        }
    }

    /// Makes a transaction write what another execution of it wrote. Nothing is checked.
    pub fn rewrite(&mut self, transaction: &mut Transaction, writes: &[Write]) {
        for write in writes {
            let table = &mut self.tables[write.table.0 as usize];
            let row = table.write(&write.key, write.after.clone(), transaction.number);
            transaction.writes.push((write.table, row));
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Begins a transaction that sees everything committed so far.
    pub fn begin(&mut self) -> Transaction {
        self.transactions += 1;
        Transaction {
            number: self.transactions | PENDING,
            snapshot: self.clock,
            now: None,
            writes: Vec::new(),
            steps: None,
        }
    }

    /// Executes a statement in a transaction. A statement that fails changes nothing, except that
    /// in MySQL a CALL that fails keeps what the statements before the failing one wrote.
    pub fn execute(
        &mut self,
        transaction: &mut Transaction,
        statement: &Statement,
        params: &[Value],
    ) -> Result<Outcome, SqlError> {
        self.try_execute(transaction, statement, params).map_err(|error| error.in_dialect(self.dialect))
    }

    pub(crate) fn try_execute(
        &mut self,
        transaction: &mut Transaction,
        statement: &Statement,
        params: &[Value],
    ) -> Result<Outcome, SqlError> {
        if statement.generation() != self.generation {
            return Err(SqlError::unsupported("a statement prepared before the schema changed"));
        }
        if let Some(call) = statement.call() {
            return call::execute(self, transaction, statement, call, params);
        }
        let context = self.context(transaction, params, statement.is_write());
        let (table, mut changed) = match statement.plan() {
            Plan::Select(select) => {
                let rows = run::run(select, &context, None)?;
                let columns = statement.columns().clone();
                let reads = context.reads.take();
                let wanted = context.wanted.map(RefCell::into_inner).unwrap_or_default();
                self.make_indexes(wanted);
                return Ok(Outcome {
                    columns,
                    rows: rows.rows,
                    ranks: rows.ranks,
                    reads,
                    ..Outcome::default()
                });
            }
            Plan::Insert(insert) => (insert.table, change::insert(insert, &context)?),
            Plan::Update(update) => (update.table, change::update(update, &context)?),
            Plan::Delete(delete) => (delete.table, change::delete(delete, &context)?),
            Plan::Control(control) => {
                return Err(SqlError::unsupported(format!("{control:?} as a statement on rows")));
            }
            other => return self.define(other.clone()),
        };
        let wanted = context.wanted.map(RefCell::into_inner).unwrap_or_default();
        self.make_indexes(wanted);
        let table = &mut self.tables[table.0 as usize];
        table.last_number = changed.last_number;
        for write in &changed.outcome.writes {
            let row = table.write(&write.key, write.after.clone(), transaction.number);
            transaction.writes.push((write.table, row));
        }
        changed.outcome.columns = statement.columns().clone();
        Ok(changed.outcome)
    }

    /// Prepares and executes a statement in a transaction of its own.
    pub fn run(&mut self, text: &str, params: &[Value]) -> Result<Outcome, SqlError> {
        let statement = self.prepare(text)?;
        let mut transaction = self.begin();
        match self.execute(&mut transaction, &statement, params) {
            Ok(outcome) => {
                self.commit(transaction);
                Ok(outcome)
            }
            Err(error) => {
                self.rollback(transaction);
                Err(error)
            }
        }
    }

    /// Commits, and gives the commit's stamp.
    pub fn commit(&mut self, transaction: Transaction) -> u64 {
        self.clock += 1;
        let stamp = self.clock;
        self.settle(transaction, Some(stamp));
        stamp
    }

    /// Undoes everything that the transaction wrote.
    pub fn rollback(&mut self, transaction: Transaction) {
        self.settle(transaction, None);
    }

    fn settle(&mut self, transaction: Transaction, stamp: Option<u64>) {
        for (table, row) in transaction.writes {
            self.tables[table.0 as usize].settle(row, transaction.number, stamp);
        }
    }

    /// Executes a statement that changes the schema.
    fn define(&mut self, plan: Plan) -> Result<Outcome, SqlError> {
        match plan {
            Plan::CreateTable(schema, if_not_exists) => {
                if self.names.contains_key(&schema.name) {
                    return if if_not_exists {
                        Ok(Outcome::default())
                    } else {
                        Err(SqlError::TableExists(schema.name))
                    };
                }
                let id = TableId(u32::try_from(self.tables.len()).unwrap_or(u32::MAX));
                self.names.insert(schema.name.clone(), id);
                self.tables.push(Table::new(*schema, self.dialect));
            }
            Plan::CreateIndex(table, columns, true) => self.add_unique(table, columns)?,
            Plan::DropTables(tables) => {
                self.names.retain(|_, id| !tables.contains(id));
                for table in tables {
                    let table = &mut self.tables[table.0 as usize];
                    *table = Table::new(Schema::clone(&table.schema), self.dialect);
                }
            }
            Plan::Procedural(Procedural::Create(name, tokens, replace)) => {
                // MySQL has no OR REPLACE, MariaDB has.
                if self.procedures.contains_key(&name) && !replace {
                    return Err(SqlError::Procedure(format!("a procedure is called {name} already")));
                }
                self.procedures.insert(name, tokens);
            }
            Plan::Procedural(Procedural::Drop(name, if_exists)) => {
                if self.procedures.remove(&name).is_none() && !if_exists {
                    return Err(SqlError::UnknownProcedure(name));
                }
            }
            _ => return Ok(Outcome::default()),
        }
        self.generation += 1;
        Ok(Outcome::default())
    }

    fn add_unique(&mut self, table: TableId, columns: Vec<usize>) -> Result<(), SqlError> {
        let mut extended = self.tables[table.0 as usize].clone();
        extended.add_unique(columns);
        let constraint = extended.schema.uniques.len() - 1;
        let view = StatementView { at: self.clock, own: 0 };
        for (_, _, row) in extended.scan(&[], view) {
            let Some(values) = extended.unique_values(constraint, row) else { continue };
            if extended.unique_rows(constraint, &values, view).count() > 1 {
                return Err(SqlError::Constraint(format!("a key of {} twice", extended.schema.name)));
            }
        }
        self.tables[table.0 as usize] = extended;
        Ok(())
    }

    /// Stores committed rows at once, as the initial state or a batch. Each row gives all columns.
    pub fn load(
        &mut self,
        table: TableId,
        rows: impl IntoIterator<Item = Vec<Value>>,
    ) -> Result<(), SqlError> {
        let mut transaction = self.begin();
        let store = &mut self.tables[table.0 as usize];
        for row in rows {
            if row.len() != store.schema.columns.len() {
                return Err(SqlError::Type(format!(
                    "{} values for a row of {}",
                    row.len(),
                    store.schema.name
                )));
            }
            let key = if store.schema.key.is_empty() {
                store.last_number += 1;
                Arc::from([Value::Int(store.last_number)])
            } else {
                store.key_of(&row)
            };
            let row = store.write(&key, Some(Arc::from(row)), transaction.number);
            transaction.writes.push((table, row));
        }
        self.commit(transaction);
        Ok(())
    }
}
