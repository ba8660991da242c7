//! A database of the server, as the relay's connections and the collector share it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use crate::level::OwnLevel;
use crate::relay::lock;
use crate::transaction::Transaction;

/// A database that is recorded.
#[derive(Debug)]
pub(crate) struct Database {
    pub name: String,
    /// Whether its schema was changed since it was read.
    stale: AtomicBool,
    pub about: Mutex<About>,
}

/// What is known of a database.
#[derive(Default, Debug)]
pub(crate) struct About {
    /// The level of sessions that ask for none.
    pub level: Option<OwnLevel>,
    /// Whether a lock that did not come in time ends its transaction (MySQL).
    pub timeouts_end: bool,
    /// Connections that are open, whether or not the server has accepted them.
    pub open: usize,
    /// Sessions that the server has accepted.
    pub accepted: u64,
    /// Their process numbers on the server.
    pub backends: BTreeSet<u32>,
    /// Why what was recorded is not all that may have been written.
    pub concerns: Vec<String>,
    /// Whether a change of the schema was not read.
    pub unread: bool,
}

impl Database {
    /// A database with one connection.
    pub fn new(name: String, level: Option<OwnLevel>, open: usize) -> Arc<Self> {
        let about = Mutex::new(About { level, open, ..About::default() });
        Arc::new(Self { name, stale: AtomicBool::new(false), about })
    }

    /// Its schema was changed.
    pub fn changed(&self) {
        self.stale.store(true, Ordering::Release);
    }

    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Its schema is about to be read. Says whether it was changed before.
    pub fn settle(&self) -> bool {
        self.stale.swap(false, Ordering::AcqRel)
    }

    pub fn left(&self) {
        lock(&self.about).open -= 1;
    }
}

/// What connections have to tell the collector.
pub(crate) enum Message {
    /// A transaction has ended.
    Ended(Arc<Database>, Transaction),
    /// The first connection to a database is about to be made.
    Open(String, Sender<Result<Arc<Database>, String>>),
    /// A statement waits for the schema to be read.
    Cut(Arc<Database>, Sender<()>),
    /// A statement waits for Margay to leave the databases that it names.
    Leave(String, Sender<()>),
}
