//! What a database tells of its transactions while they run, for whoever recovers evidence from it
//! afterwards.
//!
//! A recording knows transactions by its own labels, a database's log by names of its own. A
//! testimony brings the two together, and keeps what only the running transaction can be asked:
//! what it sees.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Obj;

/// What was told of one transaction. Nothing is told of those that certainly did not commit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Testimony {
    /// What the recording calls it.
    pub txn: u64,
    /// What the database calls it, if it has a name there: who only reads often has none.
    pub id: Option<String>,
    /// The snapshot of the whole transaction, in the database's words.
    pub view: Option<String>,
    /// The snapshots of single operations, by their numbers: `begin` is operation 0.
    pub views: Vec<(u32, String)>,
    /// What shadow transactions with the same snapshot saw.
    pub shadows: Vec<Shadow>,
}

/// Whose version of a row a shadow of an operation saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shadow {
    /// The number of the operation.
    pub op: u32,
    /// The table.
    pub table: &'static str,
    /// The row.
    pub key: i64,
    /// The transaction that wrote it, as the database calls it.
    pub writer: String,
}

/// What a database knows of the transactions that committed, by their labels; 0 is the initial
/// state.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DatabaseEvidence {
    /// Neighbouring versions of an object: by whom, and by whom the next.
    pub successions: Vec<(Obj, u64, u64)>,
    /// Commit timestamps.
    pub commits: Vec<(u64, i64)>,
    /// Snapshot timestamps, where the protocol has snapshots.
    pub snapshots: Vec<(u64, i64)>,
    /// Whether commit timestamps are the serialization order.
    pub serial: bool,
    /// Whether transactions have snapshots.
    pub views: bool,
}

/// Where connections leave their testimonies.
#[derive(Default, Debug)]
pub struct Witness {
    heard: Mutex<Vec<Testimony>>,
    shadows: AtomicU32,
}

impl Witness {
    /// From now on every so-manieth read has a shadow, where the database can make one; 0 for none.
    pub fn shadow_every(&self, reads: u32) {
        self.shadows.store(reads, Ordering::Relaxed);
    }

    /// How many reads there are for each that has a shadow.
    #[must_use]
    pub fn shadows(&self) -> u32 {
        self.shadows.load(Ordering::Relaxed)
    }

    /// Takes a testimony down.
    pub fn hear(&self, testimony: Testimony) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(testimony);
    }

    /// All testimonies so far, which are forgotten here.
    pub fn take(&self) -> Vec<Testimony> {
        std::mem::take(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
