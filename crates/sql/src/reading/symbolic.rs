//! Statements over rows that are not known: which rows they find, show and write, as terms.
//!
//! # Problem
//! A statement, and for each row of its tables terms for whether it is there and what it holds:
//! what does the statement give, for all values of the unknowns?
//!
//! # Algorithm
//! The keys that a table can have are known; only what stands behind them is not. So every row is
//! looked at, and a condition becomes the term under which the row is found. Inner joins,
//! aggregates without groups, UPDATE, DELETE, and INSERT of values with known keys have terms; what
//! has none is refused by name.
//!
//! # Invariants
//! - Under any values of the unknowns under which the interpreter does not fail, the terms have the
//!   values of the interpreter's outcome.
//! - Where [`Answer::fails`] is true the interpreter fails. It may fail for more, such as a number
//!   that is too large halfway.

use crate::error::SqlError;
use crate::reading::database::Database;
use crate::reading::expr::Expr;
use crate::reading::plan::{Delete, Source, SourceRows, TableId, Update};
use crate::reading::statement::{Plan, Statement};
use crate::reading::store::Key;
use crate::reading::symbolic_expr::{Cell, Kind, Symbols, outside};
use crate::term::{Term, Terms};
use crate::value::Value;

/// A row that need not be known.
#[derive(Clone, Debug, PartialEq)]
pub struct SymbolicRow {
    /// Whether it is there.
    pub present: Term,
    /// Its columns, where it is.
    pub cells: Vec<Cell>,
}

/// The rows that a statement sees.
pub trait SymbolicView {
    /// The keys that a table can have.
    fn keys(&self, table: TableId) -> Vec<Key>;
    /// What stands behind a key.
    fn row(&mut self, terms: &mut Terms, table: TableId, key: &Key) -> SymbolicRow;
}

/// A row of a result.
#[derive(Clone, Debug)]
pub struct ShownRow {
    /// Whether it is in the result.
    pub when: Term,
    /// Its columns.
    pub cells: Vec<Cell>,
    /// What it is sorted by.
    pub keys: Vec<Cell>,
}

/// A row that a statement may write.
#[derive(Clone, Debug)]
pub struct SymbolicWrite {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// Whether it is written.
    pub when: Term,
    /// What it is then.
    pub after: SymbolicRow,
}

/// What a statement gives.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whether it fails.
    pub fails: Term,
    /// The rows of the result.
    pub rows: Vec<ShownRow>,
    /// For each sort key: whether it descends, and whether NULL comes first.
    pub order: Vec<(bool, bool)>,
    /// How many rows it met, and how many it changed.
    pub matched: Term,
    /// How many it changed.
    pub changed: Term,
    /// The rows that it read, and where they are there.
    pub reads: Vec<(TableId, Key, Term)>,
    /// The rows that it may write.
    pub writes: Vec<SymbolicWrite>,
    /// Whether it locks the rows that it finds.
    pub locks: bool,
}

impl Answer {
    pub(crate) fn new(terms: &mut Terms) -> Self {
        let zero = terms.int(0);
        Answer {
            fails: Term::FALSE,
            rows: Vec::new(),
            order: Vec::new(),
            matched: zero,
            changed: zero,
            reads: Vec::new(),
            writes: Vec::new(),
            locks: false,
        }
    }
}

impl SymbolicRow {
    /// No row.
    #[must_use]
    pub fn absent(width: usize, terms: &mut Terms) -> Self {
        SymbolicRow { present: Term::FALSE, cells: vec![Cell::null(terms); width] }
    }

    /// One row or the other.
    ///
    /// # Errors
    /// When a column has values of several types.
    pub fn either(
        condition: Term,
        then: &Self,
        otherwise: &Self,
        terms: &mut Terms,
    ) -> Result<Self, SqlError> {
        let present = terms.if_truth(condition, then.present, otherwise.present);
        let cells = then.cells.iter().zip(&otherwise.cells).map(|(&a, &b)| {
            Cell::either(condition, a, b, terms).ok_or_else(|| outside("a column of several types"))
        });
        Ok(SymbolicRow { present, cells: cells.collect::<Result<_, _>>()? })
    }

    /// Whether two rows are the same: both absent, or present with the same columns.
    pub fn same(a: &Self, b: &Self, terms: &mut Terms) -> Term {
        let (not_a, not_b) = (terms.not(a.present), terms.not(b.present));
        let neither = terms.and(&[not_a, not_b]);
        let mut parts = vec![a.present, b.present];
        parts.extend(a.cells.iter().zip(&b.cells).map(|(&a, &b)| Cell::same(a, b, terms)));
        let both = terms.and(&parts);
        terms.or(&[neither, both])
    }
}

impl Database {
    /// The rows that a statement can write: tables, with the key where it names one.
    ///
    /// # Errors
    /// When its rows have no terms.
    pub fn targets(
        &self,
        statement: &Statement,
        params: &[Value],
    ) -> Result<Vec<(TableId, Option<Key>)>, SqlError> {
        let mut terms = Terms::new();
        let mut run = Run { database: self, params, terms: &mut terms };
        match statement.plan() {
            Plan::Select(_) => Ok(Vec::new()),
            Plan::Insert(insert) => {
                let rows = run.given(insert)?;
                let table = insert.table;
                rows.iter().map(|(row, _)| Ok((table, Some(run.key(self.schema(table), row)?)))).collect()
            }
            Plan::Update(Update { source, table, .. }) | Plan::Delete(Delete { source, table, .. }) => {
                let key = run.prefix(source, &[])?.and_then(|prefix| run.whole_key(*table, &prefix));
                Ok(vec![(*table, key)])
            }
            other => Err(refused(other)),
        }
    }

    /// Executes a statement on rows that are not known.
    ///
    /// # Errors
    /// When something in it has no terms.
    pub fn symbolic(
        &self,
        statement: &Statement,
        params: &[Value],
        view: &mut dyn SymbolicView,
        terms: &mut Terms,
    ) -> Result<Answer, SqlError> {
        let mut run = Run { database: self, params, terms };
        match statement.plan() {
            Plan::Select(select) => run.select(select, view),
            Plan::Insert(insert) => run.insert(insert, view),
            Plan::Update(update) => run.update(update, view),
            Plan::Delete(delete) => run.delete(delete, view),
            other => Err(refused(other)),
        }
    }

    /// A row of known values.
    ///
    /// # Errors
    /// When a value is of another type than its column.
    pub fn symbolic_row(
        &self,
        table: TableId,
        row: Option<&[Value]>,
        terms: &mut Terms,
    ) -> Result<SymbolicRow, SqlError> {
        let columns = &self.schema(table).columns;
        let Some(row) = row else { return Ok(SymbolicRow::absent(columns.len(), terms)) };
        let dialect = self.dialect();
        let mut symbols = Symbols { terms, dialect, row: &[], params: &[] };
        let cells =
            row.iter().zip(columns).map(|(v, c)| symbols.of_column(v, Kind::of(c.data_type, dialect)));
        Ok(SymbolicRow { present: Term::TRUE, cells: cells.collect::<Result<_, _>>()? })
    }
}

fn refused(plan: &Plan) -> SqlError {
    let what = match plan {
        Plan::Procedural(_) => "a stored procedure",
        _ => "a statement that is no query and no change of rows",
    };
    outside(what)
}

/// The execution of one statement.
pub(crate) struct Run<'a> {
    pub database: &'a Database,
    pub params: &'a [Value],
    pub terms: &'a mut Terms,
}

/// A joined row: where it is found, and its columns.
pub(crate) struct Joined {
    pub when: Term,
    pub cells: Vec<Cell>,
}

impl Run<'_> {
    pub(crate) fn symbols<'b>(&'b mut self, row: &'b [Cell]) -> Symbols<'b> {
        Symbols { terms: self.terms, dialect: self.database.dialect(), row, params: self.params }
    }

    /// Where all conditions are true.
    pub(crate) fn hold(&mut self, conditions: &[Expr], row: &[Cell]) -> Result<Term, SqlError> {
        let mut parts = Vec::new();
        for condition in conditions {
            let truth = self.symbols(row).truth(condition)?.is_true;
            if truth == Term::FALSE {
                return Ok(Term::FALSE);
            }
            parts.push(truth);
        }
        Ok(self.terms.and(&parts))
    }

    /// The values of the key's leading columns that a source asks for; `None` where it does not
    /// name the whole key.
    fn prefix(&mut self, source: &Source, row: &[Cell]) -> Result<Option<Vec<Cell>>, SqlError> {
        if !source.access.whole {
            return Ok(None);
        }
        source
            .access
            .prefix
            .iter()
            .map(|expr| self.symbols(row).cell(expr))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The key that known values are.
    fn whole_key(&self, table: TableId, prefix: &[Cell]) -> Option<Key> {
        let schema = self.database.schema(table);
        let part = |(cell, &column): (&Cell, &usize)| {
            let value = cell.value(self.terms)?;
            crate::reading::run::key_form(&value, schema.columns[column].data_type, self.database.dialect())
        };
        (prefix.len() == schema.key.len())
            .then(|| prefix.iter().zip(&schema.key).map(part).collect::<Option<Vec<Value>>>())?
            .map(Key::from)
    }

    /// Whether a row's key is this one.
    fn has_key(&mut self, table: TableId, row: &SymbolicRow, prefix: &[Cell]) -> Result<Term, SqlError> {
        let key = &self.database.schema(table).key;
        let mut parts = Vec::new();
        for (&column, &asked) in key.iter().zip(prefix) {
            let held = row.cells[column];
            let known = asked.kind == Kind::Null || asked.kind == held.kind && held.kind != Kind::Other;
            let collated = held.kind == Kind::Text && !self.database.dialect().compares_exactly();
            if !known || collated {
                return Err(outside("a key of another type, or in MySQL's collation,"));
            }
            parts.push(self.terms.not(asked.null));
            parts.push(Cell::same(held, asked, self.terms));
        }
        Ok(self.terms.and(&parts))
    }

    /// The rows of a source, each with where it is found after `before`; what it reads is noted.
    pub(crate) fn found(
        &mut self,
        source: &Source,
        before: &Joined,
        view: &mut dyn SymbolicView,
        reads: &mut Vec<(TableId, Key, Term)>,
    ) -> Result<Vec<(Key, Term, SymbolicRow)>, SqlError> {
        let SourceRows::Table(table, _) = &source.rows else { return Err(outside("a subquery")) };
        if source.left {
            return Err(outside("a LEFT JOIN"));
        }
        let alone = before.cells.is_empty();
        let prefix = self.prefix(source, &before.cells)?;
        let named = prefix.as_ref().and_then(|prefix| self.whole_key(*table, prefix));
        let is_named = named.is_some();
        let keys = named.map_or_else(|| view.keys(*table), |key| vec![key]);
        let mut found = Vec::new();
        for key in keys {
            let row = view.row(self.terms, *table, &key);
            let mut reached = vec![before.when, row.present];
            if self.terms.and(&reached) == Term::FALSE {
                continue;
            }
            if let (Some(prefix), false) = (&prefix, is_named) {
                reached.push(self.has_key(*table, &row, prefix)?);
            }
            let reached = self.terms.and(&reached);
            let joined: Vec<Cell> = before.cells.iter().chain(&row.cells).copied().collect();
            let mut accepted = self.hold(&source.on, &joined)?;
            if alone {
                let filters = self.hold(&source.filters, &joined)?;
                accepted = self.terms.and(&[accepted, filters]);
            }
            let when = self.terms.and(&[reached, accepted]);
            reads.push((*table, key.clone(), if prefix.is_some() { reached } else { when }));
            if when != Term::FALSE {
                found.push((key, when, row));
            }
        }
        Ok(found)
    }
}
