//! A database that is watched while clients run on it.

use std::sync::{Arc, Mutex, PoisonError};

use margay_drivers::{Connection, Database, Schema, Start, Witness};
use margay_history::History;
use margay_levels::Level;

use crate::certificate::{Recovered, assemble};
use crate::log::Commit;
use crate::mysql::Binlog;
use crate::postgres::Slot;
use crate::source::{Reader, Source};

/// Another database, whose log is read from its preparation to its cleaning up, and whose connections testify.
pub struct Watched {
    database: Box<dyn Database>,
    witness: Arc<Witness>,
    state: Mutex<State>,
}

/// How far the log has been read.
enum State {
    NotYet,
    Reading(Reader),
    Done(Result<Vec<Commit>, String>),
}

impl Watched {
    /// Watches a database.
    ///
    /// # Errors
    /// When there is nothing to recover from such a database.
    pub fn new(database: Box<dyn Database>) -> Result<Self, String> {
        let (dbms, _) = database.identity();
        match (database.witness(), database.address()) {
            (Some(witness), Some(_)) if source_of(&dbms).is_some() => {
                Ok(Self { database, witness, state: Mutex::new(State::NotYet) })
            }
            _ => Err(format!("no certificate can be recovered from {dbms}")),
        }
    }

    /// The evidence about what clients recorded, after the run.
    ///
    /// # Errors
    /// When the log could not be read.
    pub fn recover(&self, history: &History) -> Result<Recovered, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::NotYet) {
            State::Done(log) => Ok(assemble(history, &log?, &self.witness.take())),
            State::Reading(_) | State::NotYet => Err("the run is not over".to_owned()),
        }
    }

    fn begin(&self) -> Result<(), String> {
        let (dbms, _) = self.database.identity();
        let (Some(open), Some(address)) = (source_of(&dbms), self.database.address()) else {
            return Err(format!("no certificate can be recovered from {dbms}"));
        };
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) =
            State::Reading(Reader::start(open(&address)?));
        Ok(())
    }

    fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Reading(reader) = std::mem::replace(&mut *state, State::NotYet) {
            *state = State::Done(reader.finish());
        }
    }
}

type Open = fn(&str) -> Result<Box<dyn Source>, String>;

/// How the log of a database is opened.
fn source_of(dbms: &str) -> Option<Open> {
    match dbms {
        "postgresql" => Some(|url| Ok(Box::new(Slot::open(url)?))),
        "mariadb" | "mysql" => Some(|url| Ok(Box::new(Binlog::open(url)?))),
        _ => None,
    }
}

impl Database for Watched {
    fn identity(&self) -> (String, String) {
        self.database.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.database.levels()
    }

    fn promise(&self, own_name: &str) -> Option<Level> {
        self.database.promise(own_name)
    }

    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String> {
        self.database.prepare(own_name, start)?;
        self.begin()
    }

    fn connect(&self, client: usize, own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        self.database.connect(client, own_name)
    }

    fn prepare_sql(&self, own_name: &str, schema: &Schema) -> Result<(), String> {
        self.database.prepare_sql(own_name, schema)?;
        self.begin()
    }

    fn clean_up_sql(&self, schema: &Schema) {
        self.end();
        self.database.clean_up_sql(schema);
    }

    fn clean_up(&self) {
        self.end();
        self.database.clean_up();
    }
}
