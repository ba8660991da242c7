//! Writes that reads cannot tell apart.
//!
//! # Problem
//! Inference looks a read's writer up by value. Two writes of one value to one object
//! (`duplicate-write`), and a write of what the object had at first (`unobservable-write`), leave
//! open what a read of that value saw. That is no violation, and it is told apart from them: who
//! records a history can avoid it.
//!
//! # Algorithm
//! A first pass finds the values that may be ambiguous, which mostly are none; a second one who
//! wrote and read those.
//!
//! # Cost
//! Linear; one entry for each value that may be ambiguous.

use hashbrown::{HashMap, HashSet};
use margay_history::{Access, History, ObjectId, Op, OpKind, Outcome, TxnId, ValueId};
use margay_levels::Anomaly;
use margay_verdict::last_writes::{LastWrite, LastWriter, LastWrites};

use crate::index::plain;

/// A value of an object that was read, and that several versions have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ambiguity {
    /// [`Anomaly::DuplicateWrite`] or [`Anomaly::UnobservableWrite`].
    pub anomaly: Anomaly,
    /// The object.
    pub object: ObjectId,
    /// The value.
    pub value: ValueId,
    /// Who wrote it; the first of them.
    pub txns: Vec<TxnId>,
    /// How many did.
    pub count: usize,
}

/// How many writers are named.
const NAMED: usize = 3;

/// The ambiguities of a history, by object and value.
#[must_use]
pub fn ambiguities(history: &History) -> Vec<Ambiguity> {
    let suspects = suspects(history);
    if suspects.is_empty() {
        return Vec::new();
    }
    let mut writers: HashMap<(ObjectId, ValueId), (Vec<TxnId>, usize)> = HashMap::new();
    let mut read = HashSet::new();
    for (txn, op) in live(history) {
        for access in op.accesses {
            let key = key(history, access);
            if !suspects.contains(&key) {
                continue;
            }
            match op.kind {
                OpKind::Write => {
                    let (txns, count) = writers.entry(key).or_default();
                    if txns.last() != Some(&txn) {
                        *count += 1;
                        if txns.len() < NAMED {
                            txns.push(txn);
                        }
                    }
                }
                OpKind::Read | OpKind::Scan => _ = read.insert(key),
                _ => {}
            }
        }
    }
    let mut found: Vec<Ambiguity> = writers
        .into_iter()
        .filter(|(key, _)| read.contains(key))
        .filter_map(|of| ambiguity(history, of))
        .collect();
    found.sort_unstable_by_key(|found| (found.object, found.value));
    found
}

/// The operations of transactions that may have committed.
fn live(history: &History) -> impl Iterator<Item = (TxnId, Op<'_>)> {
    let live = history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted);
    live.flat_map(|txn| history.ops(txn).map(move |op| (txn, op)))
}

fn key(history: &History, access: &Access) -> (ObjectId, ValueId) {
    (access.object, plain(history, access.value))
}

/// The values that were written to an object more than once, or were there at first. A transaction
/// may count twice.
fn suspects(history: &History) -> HashSet<(ObjectId, ValueId)> {
    let mut writes: Vec<LastWrite> = Vec::new();
    for (txn, op) in live(history).filter(|(_, op)| op.kind == OpKind::Write) {
        writes.extend(op.accesses.iter().map(|access| {
            let (object, value) = key(history, access);
            (object, value, txn)
        }));
    }
    let last = LastWrites::of(history.object_count(), &writes);
    let suspect = |&&(object, value, _): &&LastWrite| {
        last.writer(object, value) == LastWriter::Several || plain(history, history.initial(object)) == value
    };
    writes.iter().filter(suspect).map(|&(object, value, _)| (object, value)).collect()
}

fn ambiguity(
    history: &History,
    ((object, value), (txns, count)): ((ObjectId, ValueId), (Vec<TxnId>, usize)),
) -> Option<Ambiguity> {
    let initial = plain(history, history.initial(object)) == value;
    let anomaly = match count {
        _ if initial => Anomaly::UnobservableWrite,
        0 | 1 => return None,
        _ => Anomaly::DuplicateWrite,
    };
    Some(Ambiguity { anomaly, object, value, txns, count })
}

impl Ambiguity {
    /// In words: `duplicate-write: T1, T2 wrote x = 1, so a read of it may be of any`.
    #[must_use]
    pub fn show(&self, history: &History) -> String {
        let mut names: Vec<String> = self.txns.iter().map(|&txn| history.show_txn(txn)).collect();
        if self.count > self.txns.len() {
            names.push(format!("{} others", self.count - self.txns.len()));
        }
        let what = format!("{} = {}", history.show_object(self.object), history.show_value(self.value));
        let why = match self.anomaly {
            Anomaly::UnobservableWrite => "as it was at first, so a read of it may be of that or of theirs",
            _ => "so a read of it may be of any of theirs",
        };
        format!("{}: {} wrote {what}, {why}", self.anomaly, names.join(", "))
    }
}
