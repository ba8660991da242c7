//! What clients record, operation by operation, so that nothing has to be kept.

use crate::statement::{Executed, Schema};
use crate::value::{Change, Cond, Obj, Value};

mod builder;
mod json;

pub use builder::BuilderSink;
pub use json::JsonSink;

/// What a history says first.
#[derive(Clone, Debug)]
pub struct Start {
    /// The database's name.
    pub dbms: String,
    /// The level that it was asked for.
    pub level: String,
    /// How far clocks are apart at most.
    pub skew: i64,
    /// Whether table `t` is used.
    pub table: bool,
    /// Initial values.
    pub initial: Vec<(Obj, Value)>,
    /// The tables of a program in SQL.
    pub schema: Schema,
}

/// An operation, as its client recorded it.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The session: the client's number.
    pub session: u64,
    /// The transaction's label.
    pub txn: u64,
    /// When the client called, on its clock.
    pub before: i64,
    /// When it had the answer.
    pub after: i64,
    /// What it was.
    pub action: Action<'a>,
}

/// What an operation was.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// BEGIN.
    Begin,
    /// A read and what it saw.
    Read(Obj, &'a Value),
    /// A write.
    Write(Obj, Change),
    /// A predicate read and the rows it saw.
    Scan(Cond, &'a [(Obj, Value)]),
    /// Number and sum of the rows that match.
    Aggregate(Cond, u64, Option<i64>),
    /// A predicate update or delete, and what it made of its rows.
    Update(Cond, Option<i64>, &'a [(Obj, Value)]),
    /// A SQL statement and its answer.
    Sql(Executed<'a>),
    /// COMMIT, acknowledged.
    Commit,
    /// ROLLBACK, or an error.
    Abort,
    /// No answer.
    Unknown,
}

/// A piece of evidence. Writer 0 is the initial state.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// Two neighbouring versions of an object.
    VersionOrder(Obj, [u64; 2]),
    /// The versions that operation number `.1` of a transaction looked at.
    VersionSet(u64, u32, &'a [(Obj, u64)]),
    /// A snapshot timestamp.
    Snapshot(u64, i64),
    /// A commit timestamp.
    Commit(u64, i64),
    /// A place in the serialization order.
    Serialization(u64, i64),
}

/// Takes what clients record. Operations of one session come in order; evidence may come before
/// what it speaks of.
pub trait Sink {
    /// Why it cannot take more.
    type Error;

    /// The beginning.
    ///
    /// # Errors
    /// When the sink cannot take it.
    fn start(&mut self, start: &Start) -> Result<(), Self::Error>;

    /// An operation.
    ///
    /// # Errors
    /// When the sink cannot take it.
    fn op(&mut self, op: Recorded<'_>) -> Result<(), Self::Error>;

    /// A piece of evidence.
    ///
    /// # Errors
    /// When the sink cannot take it.
    fn note(&mut self, note: Note<'_>) -> Result<(), Self::Error>;
}
