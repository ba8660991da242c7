//! What went wrong on purpose, and whether anyone could see it.

use crate::fault::Fault;

/// One time that a fault fired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Firing {
    /// The fault.
    pub fault: Fault,
    /// The transaction in which it fired; 0 when in none.
    pub txn: u64,
    /// The true time, in nanoseconds.
    pub time: i64,
    /// Whether it changed what a client could see: an answer of a transaction that committed in
    /// fact came out of it, or a transaction committed that a check should have stopped. Seen is
    /// not yet forbidden: a visible fault need not break a level.
    pub visible: bool,
}

/// What happened in a simulation.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report {
    /// Transactions that were begun.
    pub transactions: u64,
    /// Operations that were recorded, begins and ends included.
    pub operations: u64,
    /// Transactions that committed in fact, whatever their clients know.
    pub committed: u64,
    /// Transactions that the database aborted: deadlock victims, conflicts, failed validations.
    pub refused: u64,
    /// Transactions whose clients never learned how they ended.
    pub unknown: u64,
    /// Every firing, in order.
    pub firings: Vec<Firing>,
}

impl Report {
    /// How often a fault fired, and how often that became visible.
    #[must_use]
    pub fn count(&self, fault: Fault) -> (usize, usize) {
        let of = || self.firings.iter().filter(|f| f.fault == fault);
        (of().count(), of().filter(|f| f.visible).count())
    }
}
