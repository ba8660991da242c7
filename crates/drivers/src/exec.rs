//! Any database, in any language: a driver is a program that speaks JSON lines over its pipes.
//!
//! docs/EXEC.md is the specification. Margay starts the command once for each client, sends one
//! object per line to its standard input, and waits for one object per line on its standard output.
//!
//! # Invariants
//! - A request is sent when the one before it has been answered.
//! - A program that ends or stays silent is a lost connection: an unanswered commit is in doubt.
//! - What breaks the protocol ends the run with an error. No verdict rests on a driver that says
//!   what it should not: the first such answer is remembered, and every later request fails with
//!   it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use margay_client::sql::SqlStored;
use margay_client::{Database, Stored};
use margay_levels::Level;

use crate::around::{Around, Wrapped};
use crate::without_secrets;

mod check;
mod hello;
mod keys;
mod process;
mod statements;

pub use check::{CheckStep, check};
use hello::{Hello, Speaks};
use process::Process;

/// How long a driver may think about an answer, unless the run says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command that starts a driver.
#[derive(Debug)]
struct Driver {
    command: String,
    patience: Duration,
    /// How it broke the protocol, if it did.
    broken: Mutex<Option<String>>,
}

impl Driver {
    fn new(command: &str, patience: Option<Duration>) -> Self {
        let patience = patience.unwrap_or(PATIENCE);
        Self { command: command.to_owned(), patience, broken: Mutex::new(None) }
    }

    /// Starts a process, which says what it is. Nobody waits for a statement meanwhile, so it may
    /// take its time.
    fn start(&self) -> Result<(Process, Hello), String> {
        let mut process = Process::start(&self.command)?;
        let told = process.ask(self, &serde_json::json!({"op": "hello", "protocol": 1}));
        let shown = without_secrets(&self.command);
        let told = told.map_err(|trouble| format!("`{shown}`: {trouble}"))?;
        let hello = Hello::read(told).map_err(|why| format!("`{shown}` answered to hello: {why}"))?;
        process.patience = self.patience;
        Ok((process, hello))
    }

    /// Remembers that the protocol was broken; answers how.
    fn break_with(&self, why: String) -> String {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert(why).clone()
    }

    fn broken(&self) -> Option<String> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the driver, or whoever runs Margay, says that the database promises.
struct Promises {
    /// At every level.
    all: Option<Level>,
    /// At the driver's levels, by their names.
    each: Vec<(&'static str, Option<Level>)>,
}

impl Around for Promises {
    fn promise(&self, database: &dyn Database, own_name: &str) -> Option<Level> {
        let told = || self.each.iter().find(|(name, _)| *name == own_name).and_then(|(_, level)| *level);
        self.all.or_else(told).or_else(|| database.promise(own_name))
    }
}

/// Opens the database of a driver.
pub(crate) fn open(
    command: &str,
    promises: Option<Level>,
    patience: Option<Duration>,
) -> Result<Box<dyn Database>, String> {
    let driver = Driver::new(command, patience);
    let (first, hello) = driver.start()?;
    let around = Promises { all: promises, each: hello.levels.clone() };
    let database: Box<dyn Database> = match hello.speaks {
        Speaks::Keys { .. } => Box::new(Stored::new(keys::Keys::new(driver, hello, first))),
        Speaks::Sql(_) => {
            Box::new(SqlStored(statements::Statements { driver, hello, _first: Mutex::new(first) }))
        }
    };
    let wrapped = Wrapped { database, around };
    match wrapped.levels().iter().find(|level| wrapped.promise(level).is_none()) {
        Some(level) => Err(format!(
            "nobody says what `{}` promises at {level}: say --promises LEVEL, or let the driver's answer to \
             hello say it (docs/EXEC.md)",
            without_secrets(command)
        )),
        None => Ok(Box::new(wrapped)),
    }
}
