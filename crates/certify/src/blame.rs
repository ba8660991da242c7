//! From a mismatch under recorded timestamps to lemmas that audit can check.
//!
//! # Algorithm
//! The timestamps put a reader behind the writer `w` of what was there. Whatever else it saw was
//! written by someone before `w` or behind the reader, by the same timestamps:
//! - behind: that it saw it is a wr edge against the recorded order;
//! - before: that it did not see `w`'s is an rw edge against the recorded order (or else versions
//!   are ordered against it, a ww edge).
//!
//! So every version but the one that was there gives a cycle, and audit knows that the one that was
//! there is not what was seen.
//!
//! # Invariants
//! Nothing here is believed: the engine asks audit before it says `violated`.

use margay_history::{History, ObjectId, OpId, Outcome, TxnId, Version};
use margay_verdict::{Edge, Lemma, Reason, Stamp};

/// An object with more versions than this is not blamed for anything.
const MAX_VERSIONS: usize = 4096;

/// The recorded order that a replay followed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recorded {
    /// Serialization timestamps.
    Serial,
    /// Snapshot and commit timestamps.
    Snapshot,
}

/// A misfit: `op` of `reader` saw something else of `object` than `version`, which was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misfit {
    pub op: OpId,
    pub reader: TxnId,
    pub object: ObjectId,
    pub version: Version,
}

impl Recorded {
    /// Whether the reader comes before the writer, as an edge.
    fn unseen(self, history: &History, reader: TxnId, writer: TxnId) -> Option<Stamp> {
        let evidence = history.evidence();
        let (read, wrote, stamp) = match self {
            Recorded::Serial => {
                (evidence.serialization(reader), evidence.serialization(writer), Stamp::Serialization)
            }
            Recorded::Snapshot => (evidence.snapshot(reader), evidence.commit(writer), Stamp::Outside),
        };
        (read? < wrote?).then_some(stamp)
    }

    fn seen_stamp(self) -> Stamp {
        match self {
            Recorded::Serial => Stamp::Serialization,
            Recorded::Snapshot => Stamp::Inside,
        }
    }

    fn written_stamp(self) -> Stamp {
        match self {
            Recorded::Serial => Stamp::Serialization,
            Recorded::Snapshot => Stamp::Commit,
        }
    }
}

fn edge(from: TxnId, to: TxnId, reason: Reason) -> Edge {
    Edge { from, to, reason }
}

/// The lemmas that refute whatever the operation can have seen.
pub(crate) fn lemmas(history: &History, recorded: Recorded, misfit: &Misfit) -> Vec<Lemma> {
    let &Misfit { op, reader, object, version } = misfit;
    let mut versions: Vec<Version> = vec![Version::Initial];
    versions.extend(writers(history, object).into_iter().filter(|&t| t != reader).map(Version::Of));
    if versions.len() > MAX_VERSIONS {
        return Vec::new();
    }
    let mut lemmas = Vec::new();
    for seen in versions.into_iter().filter(|&seen| seen != version) {
        if let Version::Of(writer) = seen
            && let Some(stamp) = recorded.unseen(history, reader, writer)
        {
            let edges = vec![
                edge(writer, reader, Reason::Read { op, object }),
                edge(reader, writer, Reason::Recorded(stamp)),
            ];
            lemmas.push(Lemma { edges });
        } else if let Version::Of(there) = version {
            stale(recorded, misfit, seen, there, &mut lemmas);
        }
    }
    lemmas
}

/// The operation saw an older version than the one of `there`.
fn stale(recorded: Recorded, misfit: &Misfit, seen: Version, there: TxnId, lemmas: &mut Vec<Lemma>) {
    let &Misfit { op, reader, object, .. } = misfit;
    let edges = vec![
        edge(reader, there, Reason::AntiRead { op, object, version: seen }),
        edge(there, reader, Reason::Recorded(recorded.seen_stamp())),
    ];
    lemmas.push(Lemma { edges });
    if let Version::Of(older) = seen {
        let edges = vec![
            edge(there, older, Reason::Write { object }),
            edge(older, there, Reason::Recorded(recorded.written_stamp())),
        ];
        lemmas.push(Lemma { edges });
    }
}

/// Everyone who may have written the object.
fn writers(history: &History, object: ObjectId) -> Vec<TxnId> {
    let writes = |&txn: &TxnId| {
        let mut ops = history.ops(txn).filter(|op| op.kind.writes());
        ops.any(|op| op.accesses.iter().any(|a| a.object == object))
    };
    history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted).filter(writes).collect()
}

/// Two orders that contradict each other: `first` is before `second` for a reason, and the
/// timestamps say otherwise.
pub(crate) fn against(first: TxnId, second: TxnId, reason: Reason, stamp: Stamp) -> Vec<Lemma> {
    vec![Lemma { edges: vec![edge(first, second, reason), edge(second, first, Reason::Recorded(stamp))] }]
}
