//! What a database tells of its transactions while they run, for whoever recovers evidence from it afterwards.
//!
//! A recording knows transactions by its own labels, a database's log by names of its own. A testimony brings the two together, and keeps what only the
//! running transaction can be asked: what it sees.

use std::sync::{Mutex, PoisonError};

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
}

/// Where connections leave their testimonies.
#[derive(Default, Debug)]
pub struct Witness(Mutex<Vec<Testimony>>);

impl Witness {
    /// Takes a testimony down.
    pub fn hear(&self, testimony: Testimony) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(testimony);
    }

    /// All testimonies so far, which are forgotten here.
    pub fn take(&self) -> Vec<Testimony> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
