//! Programs: transactions in SQL that read, decide, and write.
//!
//! What a client is about to do is drawn beforehand, as a [`Procedure`] with all its arguments;
//! only what it decides on the way depends on what the database answers. So the same seed gives the
//! same procedures on any database, and a procedure that was refused can be run again.

use std::fmt::Debug;

use margay_client::{Answer, Cell, Schema};

/// A workload that speaks SQL.
pub trait Program: Debug + Send + Sync {
    /// Its tables, with the rows they begin with.
    fn schema(&self) -> Schema;

    /// What client number `client` of `clients` does.
    fn client(&self, seed: u64, client: u32, clients: u32) -> Box<dyn Script>;
}

/// One client's procedures, one after the other.
pub trait Script {
    /// Draws the next.
    fn next(&mut self) -> Box<dyn Procedure>;
}

/// A transaction to come.
pub trait Procedure: Debug {
    /// Runs it, between a begin and the end that it answers with.
    ///
    /// # Errors
    /// [`Stop`] when a statement says so.
    fn run(&self, session: &mut dyn Session) -> Result<End, Stop>;
}

/// How a procedure wants to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With a commit.
    Commit,
    /// With a rollback: what it read forbids to go on.
    Rollback,
}

/// The transaction is over: the database refused a statement, or did not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop;

/// What a procedure talks to: an open transaction.
pub trait Session {
    /// Executes a statement, whose parameters are `$1`, `$2`, … in the text. The texts are those
    /// that PostgreSQL, MySQL and SQLite all understand once their parameters are written their
    /// way.
    ///
    /// # Errors
    /// [`Stop`] when there is no answer. The procedure passes it on.
    fn sql(&mut self, text: &'static str, params: &[Cell]) -> Result<Answer, Stop>;

    /// Which database it is, by the name that profiles know it by: for what there is no common text
    /// for.
    fn dbms(&self) -> &str;
}

/// Executes a statement whose parameters are whole numbers.
///
/// # Errors
/// As [`Session::sql`].
pub fn with_ints(session: &mut dyn Session, text: &'static str, ints: &[i64]) -> Result<Answer, Stop> {
    let params: Vec<Cell> = ints.iter().copied().map(Cell::Int).collect();
    session.sql(text, &params)
}
