//! A database that is watched while clients run on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use margay_client::{Database, Testimony, Witness};
use margay_drivers::{Around, Wrapped};
use margay_history::History;

use crate::certificate::{Recovered, assemble};
use crate::feed::Feed;
use crate::log::Commit;
use crate::mvcc::Mvcc;
use crate::mysql::Binlog;
use crate::postgres::{Plugin, Slot};
use crate::source::{Reader, Source};
use crate::{cockroach, simulated, tidb};

/// A database whose log is read from its preparation to its cleaning up, and whose connections
/// testify.
pub struct Watched {
    wrapped: Wrapped<Log>,
    witness: Arc<Witness>,
    dbms: &'static RecoverableDatabase,
}

/// Opens the log of the server at an address; the plugin is PostgreSQL's.
type Open = fn(&str, Plugin) -> Result<Box<dyn Source>, String>;

/// A database that evidence can be recovered from.
struct RecoverableDatabase {
    name: &'static str,
    /// How its log is opened; a simulated one has none, and tells in the end.
    open: Option<Open>,
    /// What a log and testimonies say of a history.
    assemble: fn(&History, &[Commit], Vec<Testimony>) -> Recovered,
}

const KNOWN: [RecoverableDatabase; 6] = [
    RecoverableDatabase {
        name: "postgresql",
        open: Some(|url, plugin| Ok(Box::new(Slot::open(url, plugin)?))),
        assemble: |history, log, told| assemble(history, log, &told),
    },
    RecoverableDatabase {
        name: "mariadb",
        open: Some(|url, _| Ok(Box::new(Binlog::open(url)?))),
        assemble: |history, log, told| assemble(history, log, &told),
    },
    RecoverableDatabase {
        name: "mysql",
        open: Some(|url, _| Ok(Box::new(Binlog::open(url)?))),
        assemble: |history, log, told| assemble(history, log, &told),
    },
    RecoverableDatabase {
        name: "cockroachdb",
        open: Some(|url, _| Ok(Box::new(Feed::open(url)?))),
        assemble: cockroach::assemble_stamped,
    },
    RecoverableDatabase {
        name: "tidb",
        open: Some(|url, _| Ok(Box::new(Mvcc::open(url)?))),
        assemble: tidb::assemble_stamped,
    },
    RecoverableDatabase {
        name: "simdb",
        open: None,
        assemble: |history, log, told| assemble(history, log, &told),
    },
];

/// The log of a database, around it.
struct Log {
    open: Option<Open>,
    plugin: Plugin,
    state: Mutex<State>,
}

/// How far the log has been read.
enum State {
    NotYet,
    Reading(Reader),
    Done(Result<Vec<Commit>, String>),
}

impl Log {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Around for Log {
    fn prepared(&self, database: &dyn Database) -> Result<(), String> {
        let Some(open) = self.open else { return Ok(()) };
        let address =
            database.address().ok_or("the server has no address that its log could be read from")?;
        *self.state() = State::Reading(Reader::start(open(&address, self.plugin)?));
        Ok(())
    }

    fn ending(&self) {
        let mut state = self.state();
        if let State::Reading(reader) = std::mem::replace(&mut *state, State::NotYet) {
            *state = State::Done(reader.finish());
        }
    }
}

impl Watched {
    /// Watches a database.
    ///
    /// # Errors
    /// When there is nothing to recover from such a database.
    pub fn new(database: Box<dyn Database>) -> Result<Self, String> {
        let (name, _) = database.identity();
        let known = KNOWN.iter().find(|known| known.name == name);
        match (known, database.witness()) {
            (Some(dbms), Some(witness)) => {
                let around = Log { open: dbms.open, plugin: Plugin::Auto, state: Mutex::new(State::NotYet) };
                Ok(Self { wrapped: Wrapped { database, around }, witness, dbms })
            }
            _ => Err(format!("no certificate can be recovered from {name}")),
        }
    }

    /// Lets a shadow transaction look at what every so-manieth read returned, where the database
    /// can do that: PostgreSQL from REPEATABLE READ up. What it sees is held against what is
    /// recovered.
    #[must_use]
    pub fn with_shadows(self, every: u32) -> Self {
        self.witness.shadow_every(every);
        self
    }

    /// Reads PostgreSQL's log with a plugin of our choice. Other databases have none.
    #[must_use]
    pub fn with_plugin(mut self, plugin: Plugin) -> Self {
        self.wrapped.around.plugin = plugin;
        self
    }

    /// The database to run clients on.
    #[must_use]
    pub fn database(&self) -> &dyn Database {
        &self.wrapped
    }

    /// The evidence about what clients recorded, after the run.
    ///
    /// # Errors
    /// When the log could not be read.
    pub fn recover(&self, history: &History) -> Result<Recovered, String> {
        let told = self.witness.take();
        if self.dbms.open.is_none() {
            let known = self.wrapped.database.told().ok_or("the database tells nothing")?;
            return Ok(simulated::assemble(history, &known, &told));
        }
        match std::mem::replace(&mut *self.wrapped.around.state(), State::NotYet) {
            State::Done(log) => Ok((self.dbms.assemble)(history, &log?, told)),
            State::Reading(_) | State::NotYet => Err("the run is not over".to_owned()),
        }
    }
}
