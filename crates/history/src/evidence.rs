//! Evidence: what is known beyond what clients saw.

use hashbrown::{HashMap, HashSet};

use crate::error::Invalid;
use crate::history::{History, Op, OpKind};
use crate::ids::{ObjectId, OpId, TxnId};

/// What made a version of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// The initial state.
    Initial,
    /// The last write of this transaction.
    Of(TxnId),
}

/// Versions of one object in the order in which they were installed. Several partial orders may be
/// given for one object.
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

impl History {
    /// The same history with more version orders in its evidence.
    ///
    /// # Errors
    /// When an order names a version that was not written, or one twice, or the initial one late.
    pub fn with_version_orders(mut self, orders: Vec<VersionOrder>) -> Result<Self, Invalid> {
        for order in &orders {
            let fine = check_order(&self, order.object, &order.versions);
            fine.map_err(|what| Invalid { what, place: 0 })?;
        }
        self.evidence.version_orders.extend(orders);
        Ok(self)
    }
}

fn stamp(column: &[(TxnId, i64)], txn: TxnId) -> Option<i64> {
    column.binary_search_by_key(&txn, |&(t, _)| t).ok().map(|found| column[found].1)
}

/// A version must have been written by the transaction that it is said to be of.
pub(crate) fn check_version(history: &History, object: ObjectId, version: Version) -> Result<(), String> {
    let Version::Of(txn) = version else { return Ok(()) };
    let wrote = |op: Op<'_>| {
        op.kind == OpKind::Sql || op.kind.writes() && op.accesses.iter().any(|a| a.object == object)
    };
    match history.ops(txn).any(wrote) {
        true => Ok(()),
        false => Err(format!(
            "evidence about a version of {} by transaction {}, which does not write it",
            history.show_object(object),
            history.txn_label(txn)
        )),
    }
}

/// A version order names each version once, and the initial one first.
pub(crate) fn check_order(history: &History, object: ObjectId, versions: &[Version]) -> Result<(), String> {
    let mut seen = HashSet::new();
    for &version in versions {
        if !seen.insert(version) {
            return Err("a version order names one version twice".to_string());
        }
        check_version(history, object, version)?;
    }
    match versions.iter().skip(1).any(|&v| v == Version::Initial) {
        true => Err("the initial version comes first in a version order".to_string()),
        false => Ok(()),
    }
}

/// An operation sees one version of an object.
pub(crate) fn check_set(history: &History, versions: &[(ObjectId, Version)]) -> Result<(), String> {
    let mut seen = HashMap::with_capacity(versions.len());
    for &(object, version) in versions {
        if seen.insert(object, version).is_some_and(|other| other != version) {
            return Err(format!("a version set names two versions of {}", history.show_object(object)));
        }
    }
    Ok(())
}

/// Only some operations see versions.
pub(crate) fn check_sees(history: &History, op: OpId) -> Result<(), String> {
    let kind = history.op(op).kind;
    match kind {
        OpKind::Read | OpKind::Scan | OpKind::Update | OpKind::Sql => Ok(()),
        _ => Err(format!(
            "operation {} of transaction {} is a {}, which sees no versions",
            history.op_index(op),
            history.txn_label(history.txn_of(op)),
            kind.name()
        )),
    }
}
