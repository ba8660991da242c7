//! Evidence: what is known beyond what clients saw.

use crate::ids::{ObjectId, OpId, TxnId};

/// What made a version of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// The initial state.
    Initial,
    /// The last write of this transaction.
    Of(TxnId),
}

/// Versions of one object in the order in which they were installed. Several partial orders may be given for one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionOrder {
    /// The object.
    pub object: ObjectId,
    /// Its versions, oldest first.
    pub versions: Vec<Version>,
}

/// Which versions one operation saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionSet {
    /// The operation: a read, a scan or a predicate update.
    pub op: OpId,
    /// The objects it looked at, and the version of each.
    pub versions: Vec<(ObjectId, Version)>,
}

/// All evidence of a history. Evidence narrows what may have happened; it never widens it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// Version orders, whole or partial.
    pub version_orders: Vec<VersionOrder>,
    /// Version sets, by operation.
    pub version_sets: Vec<VersionSet>,
    /// Snapshot timestamps, by transaction: it sees what committed at or before this time.
    pub snapshots: Vec<(TxnId, i64)>,
    /// Commit timestamps, by transaction.
    pub commits: Vec<(TxnId, i64)>,
    /// Places in the serialization order, by transaction.
    pub serializations: Vec<(TxnId, i64)>,
}

impl Evidence {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The version set of `op`, if given.
    #[must_use]
    pub fn version_set(&self, op: OpId) -> Option<&VersionSet> {
        self.version_sets.binary_search_by_key(&op, |set| set.op).ok().map(|found| &self.version_sets[found])
    }

    /// The snapshot timestamp of `txn`, if given.
    #[must_use]
    pub fn snapshot(&self, txn: TxnId) -> Option<i64> {
        stamp(&self.snapshots, txn)
    }

    /// The commit timestamp of `txn`, if given.
    #[must_use]
    pub fn commit(&self, txn: TxnId) -> Option<i64> {
        stamp(&self.commits, txn)
    }

    /// The place of `txn` in the serialization order, if given.
    #[must_use]
    pub fn serialization(&self, txn: TxnId) -> Option<i64> {
        stamp(&self.serializations, txn)
    }
}

fn stamp(column: &[(TxnId, i64)], txn: TxnId) -> Option<i64> {
    column.binary_search_by_key(&txn, |&(t, _)| t).ok().map(|found| column[found].1)
}
