//! Evidence in the recorder's own labels, and what it is about once the whole history is known.

use hashbrown::HashMap;

use crate::error::Invalid;
use crate::evidence::{
    Evidence, Version, VersionOrder, VersionSet, check_order, check_sees, check_set, check_version,
};
use crate::history::History;
use crate::ids::{ObjectId, OpId, TxnId};

/// Evidence in the recorder's labels, resolved when all transactions are known. `None` is the
/// initial version.
#[derive(Debug)]
pub(crate) enum Draft {
    VersionOrder(ObjectId, Vec<Option<u64>>),
    VersionSet(u64, u32, Vec<(ObjectId, Option<u64>)>),
    Snapshot(u64, i64),
    Commit(u64, i64),
    Serialization(u64, i64),
}

/// Turns drafts into evidence about a history that is complete but for it.
pub(crate) struct Resolver<'a> {
    pub(crate) history: &'a History,
    /// The id of each transaction, by the order in which they arrived.
    pub(crate) new_txns: &'a [TxnId],
    /// The transactions by label, in the order in which they arrived.
    pub(crate) txn_index: &'a HashMap<u64, u32>,
}

impl Resolver<'_> {
    /// The evidence, sorted.
    ///
    /// # Errors
    /// When it names a transaction, operation or version that is not there, or says twice what can
    /// be said once.
    pub(crate) fn resolve(&self, drafts: Vec<(u64, Draft)>) -> Result<Evidence, Invalid> {
        let mut all = Evidence::default();
        let mut places: HashMap<(u8, u32), u64> = HashMap::new();
        for (place, draft) in drafts {
            let once = self.add(&mut all, draft).map_err(|what| Invalid { what, place })?;
            if let Some(once) = once
                && places.insert(once, place).is_some()
            {
                return Err(Invalid { what: "this evidence was given before".to_string(), place });
            }
        }
        all.version_orders.sort_by_key(|order| order.object);
        all.version_sets.sort_by_key(|set| set.op);
        all.snapshots.sort_unstable();
        all.commits.sort_unstable();
        all.serializations.sort_unstable();
        Ok(all)
    }

    /// Adds one piece; answers what of it may be given only once.
    fn add(&self, all: &mut Evidence, draft: Draft) -> Result<Option<(u8, u32)>, String> {
        Ok(match draft {
            Draft::VersionOrder(object, labels) => {
                let versions = self.versions(object, &labels)?;
                all.version_orders.push(VersionOrder { object, versions });
                None
            }
            Draft::VersionSet(txn, op, versions) => {
                let op = self.op(txn, op)?;
                let version = |&(object, txn)| Ok((object, self.version(object, txn)?));
                let versions = versions.iter().map(version).collect::<Result<Vec<_>, String>>()?;
                check_set(self.history, &versions)?;
                all.version_sets.push(VersionSet { op, versions });
                Some((0, op.0))
            }
            Draft::Snapshot(txn, ts) => self.stamp(&mut all.snapshots, 1, txn, ts)?,
            Draft::Commit(txn, ts) => self.stamp(&mut all.commits, 2, txn, ts)?,
            Draft::Serialization(txn, ts) => self.stamp(&mut all.serializations, 3, txn, ts)?,
        })
    }

    fn stamp(
        &self,
        column: &mut Vec<(TxnId, i64)>,
        kind: u8,
        label: u64,
        ts: i64,
    ) -> Result<Option<(u8, u32)>, String> {
        let txn = self.txn(label)?;
        column.push((txn, ts));
        Ok(Some((kind, txn.0)))
    }

    fn txn(&self, label: u64) -> Result<TxnId, String> {
        match self.txn_index.get(&label) {
            Some(&old) => Ok(self.new_txns[old as usize]),
            None => Err(format!("evidence about transaction {label}, which is not in the history")),
        }
    }

    fn op(&self, label: u64, index: u32) -> Result<OpId, String> {
        let range = self.history.op_range(self.txn(label)?);
        let op = OpId(range.start.saturating_add(index));
        if !range.contains(&op.0) {
            return Err(format!("transaction {label} has no operation {index}"));
        }
        check_sees(self.history, op)?;
        Ok(op)
    }

    fn versions(&self, object: ObjectId, labels: &[Option<u64>]) -> Result<Vec<Version>, String> {
        let versions: Vec<_> = labels.iter().map(|&label| self.label(label)).collect::<Result<_, _>>()?;
        check_order(self.history, object, &versions)?;
        Ok(versions)
    }

    fn version(&self, object: ObjectId, label: Option<u64>) -> Result<Version, String> {
        let version = self.label(label)?;
        check_version(self.history, object, version)?;
        Ok(version)
    }

    fn label(&self, label: Option<u64>) -> Result<Version, String> {
        label.map_or(Ok(Version::Initial), |label| self.txn(label).map(Version::Of))
    }
}
