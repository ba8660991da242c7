//! Databases that clients can be let loose on, one module each.
//!
//! A driver translates: statements of a workload ([`Ask`]) into calls, and what the database says into answers or [`Trouble`]. It records nothing, retries
//! nothing and decides nothing about isolation. `docs/DRIVERS.md` shows how to add one.
//!
//! # Invariants
//! - A driver says [`Trouble::Refused`] only when the transaction is certainly gone, and an unanswered COMMIT is [`Trouble::Lost`], never less.
//! - What a database promises comes from its profile in `margay_levels`, chosen by the version that the database itself tells.

mod mysql;
mod postgres;
mod sim;
mod sql;
mod sqlite;
mod target;

use margay_levels::Level;
use margay_levels::profile::Profile;
pub use margay_simdb::{Ask, Change, Cond, Obj, Row, Space, Start, Value};
pub use target::{Setting, Target, open};

/// A database that is ready to be connected to.
pub trait Database: Send + Sync {
    /// The name that profiles know it by, and its version.
    fn identity(&self) -> (String, String);

    /// The levels that it can be asked for, in its own words.
    ///
    /// The first is the one that is taken when nobody asks.
    fn levels(&self) -> Vec<&'static str>;

    /// What it promises at one of its own levels.
    fn promise(&self, own_name: &str) -> Option<Level> {
        let (dbms, version) = self.identity();
        let profile = Profile::find(&dbms, Some(&version), Some(own_name))?;
        profile.promises.first().copied()
    }

    /// Makes the objects with their initial values, instead of those of an earlier run.
    ///
    /// # Errors
    /// What the database says.
    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String>;

    /// Connects client number `client`, for transactions at this level.
    ///
    /// # Errors
    /// What the database says.
    fn connect(&self, client: usize, own_name: &str) -> Result<Box<dyn Connection>, String>;

    /// Removes what [`Database::prepare`] made. What cannot be removed stays.
    fn clean_up(&self) {}
}

/// One client's connection, in at most one transaction at a time. It stays on its thread.
pub trait Connection {
    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when there is no transaction after all.
    fn begin(&mut self) -> Result<(), Trouble>;

    /// Executes a statement. `rows` is empty before; afterwards it holds what a read or scan saw, and `(object, absent)` for a delete that
    /// found nothing to delete: that is no write.
    ///
    /// # Errors
    /// When there is no answer. The transaction is gone then.
    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble>;

    /// Commits.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when the transaction certainly has not committed; [`Trouble::Lost`] when nobody knows.
    fn commit(&mut self) -> Result<(), Trouble>;

    /// Rolls back.
    ///
    /// # Errors
    /// [`Trouble::Lost`] when there is no answer; the transaction is gone all the same.
    fn rollback(&mut self) -> Result<(), Trouble>;
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The database has aborted the transaction, as it may; the connection goes on.
    Refused(String),
    /// The connection is gone. If this answers a commit, nobody knows whether it happened.
    Lost(String),
    /// Something that no run can go on with: a statement that the database does not understand, a missing table.
    Failed(String),
}
