//! What was read of plain registers, and from whom.
//!
//! # Problem
//! To explain a commit order, [`super::execution`] computes the value of every version of every
//! object. Where objects are only read and written whole, and every value has one writer, a read
//! names its source by itself.
//!
//! # Algorithm
//! The last writes of the committed transactions are indexed by value. A transaction's operations
//! are gone through in order: after its own write it must see that, and before it the one version
//! that holds what it saw.
//!
//! # Invariants
//! What [`Registers::reads`] returns is what [`super::execution`] would find. Whatever is not
//! plain, or does not fit, is `None`: that is for [`super::execution`] to decide.
//!
//! # Cost
//! Linear.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpKind, TxnId, Value, ValueId};
use margay_verdict::last_writes::{LastWriter, LastWrites};

use super::axioms::Read;

/// The registers of a history.
pub(super) struct Registers<'h> {
    history: &'h History,
    last: LastWrites,
    /// What the present transaction has written so far.
    own: HashMap<ObjectId, ValueId>,
}

/// A larger table is not kept for the next transaction: clearing it costs its capacity.
const KEPT: usize = 256;

impl<'h> Registers<'h> {
    /// With the versions of the transactions that are taken to have committed.
    pub(super) fn of(history: &'h History, committed: impl Fn(TxnId) -> bool) -> Option<Self> {
        let is_plain = history.tables().is_empty()
            && history.evidence().is_empty()
            && ![OpKind::Scan, OpKind::Update, OpKind::Sql].iter().any(|&kind| history.has_kind(kind));
        if !is_plain {
            return None;
        }
        let mut writes = Vec::new();
        let mut own: Vec<(ObjectId, ValueId)> = Vec::new();
        for txn in history.txns().filter(|&txn| committed(txn)) {
            own.clear();
            for op in history.ops(txn).filter(|op| op.kind.writes()) {
                if op.kind == OpKind::Append || op.accesses.iter().any(|a| !is_scalar(history, a.value)) {
                    return None;
                }
                own.extend(op.accesses.iter().map(|access| (access.object, access.value)));
            }
            // The last write of each object counts.
            own.reverse();
            own.sort_by_key(|write| write.0);
            own.dedup_by_key(|write| write.0);
            writes.extend(own.iter().map(|&(object, value)| (object, value, txn)));
        }
        let last = LastWrites::of(history.object_count(), &writes);
        Some(Self { history, last, own: HashMap::new() })
    }

    /// Adds what a transaction read before its own writes.
    pub(super) fn reads(&mut self, txn: TxnId, into: &mut Vec<Read>) -> Option<()> {
        if self.own.capacity() > KEPT {
            self.own = HashMap::new();
        }
        self.own.clear();
        for op in self.history.ops(txn) {
            for access in op.accesses.iter().filter(|access| access.value != ValueId::UNKNOWN) {
                if op.kind.writes() {
                    self.own.insert(access.object, access.value);
                    continue;
                }
                match self.own.get(&access.object) {
                    Some(&own) if own == access.value => {}
                    Some(_) => return None,
                    None => {
                        let source = self.source(txn, access.object, access.value)?;
                        into.push(Read { op: op.id, object: access.object, source });
                    }
                }
            }
        }
        Some(())
    }

    /// Who wrote what was read, if only one version can be it; `Some(None)` for the initial one.
    fn source(&self, txn: TxnId, object: ObjectId, value: ValueId) -> Option<Option<TxnId>> {
        if !is_scalar(self.history, value) {
            return None;
        }
        match (self.history.initial(object) == value, self.last.writer(object, value)) {
            (true, LastWriter::None) => Some(None),
            (false, LastWriter::One(writer)) if writer != txn => Some(Some(writer)),
            _ => None,
        }
    }
}

/// Whether a value is equal to no other one: an absent list is an empty one, and a row shows some
/// of its columns.
fn is_scalar(history: &History, value: ValueId) -> bool {
    value.small_int().is_some() || !matches!(history.value(value), Value::List(_) | Value::Row(_))
}
