//! What a statement gave, what it read and what it wrote.

use std::sync::Arc;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::eval::truth;
use crate::reading::plan::{Asked, Lock, TableId};
use crate::reading::predicate::ParamEnv;
use crate::reading::store::{Key, Record};
use crate::value::Value;

/// The result of a statement.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The names of the result's columns.
    pub columns: Arc<[String]>,
    /// The result's rows.
    pub rows: Vec<Vec<Value>>,
    /// For each row its place in the ORDER BY; rows of equal rank may come in any order.
    pub ranks: Vec<u32>,
    /// The rows that an INSERT, UPDATE or DELETE met.
    pub matched: u64,
    /// The rows among them that it changed.
    pub changed: u64,
    /// What was read.
    pub reads: Reads,
    /// What was written, each row once.
    pub writes: Vec<Write>,
}

/// What a statement read.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// The rows that were asked for by key, found or not, and the rows that satisfied a predicate.
    pub rows: Vec<RowRead>,
    /// The predicates that were asked of whole tables.
    pub predicates: Vec<PredicateRead>,
    /// The lock that was asked for.
    pub lock: Option<Lock>,
}

/// A row that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRead {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// The stamp of the version that was seen, or `None` if the row never existed.
    pub stamp: Option<u64>,
    /// False if that version was the row's absence.
    pub present: bool,
}

/// A predicate that was asked of a table.
#[derive(Clone, Debug)]
pub struct PredicateRead {
    /// The table.
    pub table: TableId,
    pub(crate) asked: Arc<Asked>,
    pub(crate) params: Arc<[Value]>,
    pub(crate) dialect: Dialect,
}

impl PredicateRead {
    /// True if the statement reads every row that matches; otherwise it may read fewer of them.
    pub fn is_exact(&self) -> bool {
        self.asked.exact
    }

    /// True if the statement could read this row of the table.
    pub fn matches(&self, row: &[Value]) -> Result<bool, SqlError> {
        let env = ParamEnv { dialect: self.dialect, row, params: &self.params };
        for part in &self.asked.condition {
            if truth(part, &env)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A row that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// Its values before, or `None` if it was absent.
    pub before: Option<Record>,
    /// Its values after, or `None` if it is absent now.
    pub after: Option<Record>,
    /// It was deleted on the way and came back: a row of the same key, but another one.
    pub replaced: bool,
}

impl Write {
    /// Notes a later write of the same row.
    pub fn follow(&mut self, later: &Write) {
        self.replaced |= later.replaced || self.after.is_none() && later.after.is_some();
        self.after.clone_from(&later.after);
    }
}
