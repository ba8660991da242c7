//! Begin and commit points: the one mechanism behind all levels of this engine.
//!
//! A level is a rule for the graph of points. In the serializable family begin and commit are one
//! point; in the snapshot family they are two, `begin → commit`, and dependencies join them like
//! this: wr, ww, session and real-time order from commit to begin, rw from begin to commit. The
//! level holds when some choice of versions makes that graph acyclic. At `prefix` writers of one
//! object may overlap: ww goes from commit to commit. `repeatable-read` is `serializable` without
//! the rw edges of what a predicate left out.

use margay_levels::Level;

/// How transactions become points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Points {
    /// Begin and commit are two points.
    pub split: bool,
    /// Two writers of one object may overlap.
    pub overlap: bool,
    /// Anti-dependencies are no edges, but where they hold what an operation saw of one row
    /// together ([`crate::weak`]).
    pub weak: bool,
}

/// The points of a level.
pub(crate) fn of(level: Level) -> Points {
    match level {
        Level::RepeatableRead
        | Level::Serializable
        | Level::StrongSessionSerializable
        | Level::StrictSerializable => Points { split: false, overlap: false, weak: false },
        Level::SnapshotIsolation | Level::StrongSessionSnapshotIsolation | Level::StrictSnapshotIsolation => {
            Points { split: true, overlap: false, weak: false }
        }
        Level::Prefix => Points { split: true, overlap: true, weak: false },
        Level::ParallelSnapshot
        | Level::Causal
        | Level::ReadAtomic
        | Level::BeReadCommitted
        | Level::ReadCommitted
        | Level::ReadUncommitted => Points { split: false, overlap: false, weak: true },
    }
}

impl Points {
    /// The begin point of a transaction.
    pub fn begin(self, txn: u32) -> u32 {
        if self.split { 2 * txn } else { txn }
    }

    /// The commit point of a transaction.
    pub fn commit(self, txn: u32) -> u32 {
        if self.split { 2 * txn + 1 } else { txn }
    }

    /// The point that comes after the commits of all who wrote an earlier version of the same
    /// object.
    pub fn after_earlier(self, txn: u32) -> u32 {
        if self.overlap { self.commit(txn) } else { self.begin(txn) }
    }

    /// Whether a writer keeps others from its objects between its begin and its commit.
    pub fn exclusive(self) -> bool {
        self.split && !self.overlap
    }

    /// The transaction of a point.
    pub fn txn(self, point: u32) -> u32 {
        if self.split { point / 2 } else { point }
    }

    /// How many points `txns` transactions have.
    pub fn count(self, txns: usize) -> usize {
        if self.split { 2 * txns } else { txns }
    }
}
