//! Databases and their connections, as clients see them.
//!
//! A driver translates: statements of a workload ([`Ask`]) into calls, and what the database says
//! into answers or [`Trouble`]. It records nothing, retries nothing and decides nothing about
//! isolation.
//!
//! # Invariants
//! - A driver says [`Trouble::Refused`] only when the transaction is certainly gone, and an
//!   unanswered COMMIT is [`Trouble::Lost`], never less.

use std::fmt;
use std::sync::Arc;

use margay_levels::Level;
use margay_levels::profile::Profile;

use crate::{Answer, Ask, Cell, DatabaseEvidence, Harm, Obj, Schema, Start, Value, Witness};

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

    /// Whether it appends to a list, and changes the rows that match a condition, by a read and a
    /// write of the same transaction. Where updates may get lost, others come in between, and that
    /// is no append.
    fn reads_to_change(&self) -> bool {
        false
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
    fn connect(&self, client: usize, own_name: &str) -> Result<Box<dyn Connection + '_>, String>;

    /// Makes connections testify from now on; none if the database has nothing to tell.
    fn witness(&self) -> Option<Arc<Witness>> {
        None
    }

    /// Where the database's server listens, as an address that connections can be made to.
    fn address(&self) -> Option<String> {
        None
    }

    /// What the database itself tells of its transactions in the end: only simulated ones know.
    fn told(&self) -> Option<DatabaseEvidence> {
        None
    }

    /// Does harm to the database's server, if it was started for this run.
    ///
    /// # Errors
    /// When it is not ours to harm, or does not come back.
    fn inflict(&self, _harm: Harm) -> Result<(), String> {
        Err("only a server that was started for the run can be harmed".to_owned())
    }

    /// Makes the tables of a program in SQL with their rows, instead of those of an earlier run.
    ///
    /// # Errors
    /// What the database says; that it does not understand SQL, for instance.
    fn prepare_sql(&self, _own_name: &str, _schema: &Schema) -> Result<(), String> {
        Err(no_sql(&self.identity().0))
    }

    /// Removes what [`Database::prepare_sql`] made. What cannot be removed stays.
    fn clean_up_sql(&self, _schema: &Schema) {}

    /// Removes what [`Database::prepare`] made. What cannot be removed stays.
    fn clean_up(&self) {}
}

/// One client's connection, in at most one transaction at a time. It stays on its thread.
pub trait Connection {
    /// What follows belongs to the transaction that the recording calls so.
    fn enter(&mut self, _label: u64) {}

    /// Waits until the next call may be made, and answers whether it has waited. The clock is read
    /// afterwards.
    fn wait_for_turn(&mut self) -> bool {
        false
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when there is no transaction after all.
    fn begin(&mut self) -> Result<(), Trouble>;

    /// Begins a transaction that will only read, which some databases want to know beforehand.
    ///
    /// # Errors
    /// As [`Connection::begin`].
    fn begin_reading(&mut self) -> Result<(), Trouble> {
        self.begin()
    }

    /// Executes a statement. `rows` is empty before; afterwards it holds what a read or scan saw,
    /// and `(object, absent)` for a delete that found nothing to delete: that is no write.
    ///
    /// # Errors
    /// When there is no answer. The transaction is gone then.
    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble>;

    /// Whether a delete that found nothing has seen what a read would have seen. MySQL's looks at
    /// what is committed now, whatever the transaction's snapshot is, and takes none; PostgreSQL's,
    /// at READ COMMITTED, looks at rows of its snapshot as they are now, and does not see those
    /// that have taken their places.
    fn deletes_read(&self) -> bool {
        true
    }

    /// Executes a SQL statement, whose parameters are `$1`, `$2`, … in the text.
    ///
    /// # Errors
    /// When there is no answer. The transaction is gone then.
    fn sql(&mut self, _text: &str, _params: &[Cell]) -> Result<Answer, Trouble> {
        Err(Trouble::Failed(no_sql("this database")))
    }

    /// Commits.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when the transaction certainly has not committed; [`Trouble::Lost`]
    /// when nobody knows.
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
    /// Something that no run can go on with: a statement that the database does not understand, a
    /// missing table.
    Failed(String),
}

impl Trouble {
    /// What it is as the answer to a commit: only a refusal says that it did not happen. After
    /// anything else, an error of the disk say, it can only be told by looking.
    #[must_use]
    pub fn at_commit(self) -> Self {
        match self {
            Trouble::Failed(why) => Trouble::Lost(why),
            other => other,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Trouble::Refused(why) | Trouble::Lost(why) | Trouble::Failed(why)) = self;
        f.write_str(why)
    }
}

fn no_sql(who: &str) -> String {
    format!("{who} does not understand SQL, which this workload speaks")
}
