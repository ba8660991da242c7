//! The data that proves a verdict.
//!
//! # Design
//! `holds` is proved by showing one way in which it can have happened: an order, begin and commit
//! points, or version orders. `violated` is proved by a [`Finding`]: either a few operations that
//! cannot be explained whatever the order, or a *refutation*.
//!
//! A refutation is a set of [`Lemma`]s. A lemma is a cycle of dependencies that the level forbids;
//! each edge says why it is there, and some reasons hold only under an assumption: that a read saw
//! one writer and not another, that one version came before another, that an unknown transaction
//! committed. So a lemma says: *these assumptions cannot all be true*. One lemma without open
//! assumptions is the plain cycle that people know. Where search was needed there are several, and
//! together with what must be true anyway (every read saw some writer, of two versions one came
//! first) they have no model.
//!
//! # Mathematics
//! The atoms are `Committed(t)` for transactions of unknown outcome, `Saw(op, object, version)` for
//! external reads, and `Before(object, a, b)` for two writers of one object. Where rows are written
//! in part, one read may show the columns of several writers: there
//! `Saw(op, object, column, version)` says who was the last to write that column, or to remove the
//! row, when it was read. The axioms, which audit derives from the history itself:
//! 1. a committed transaction's external read saw at least one of its candidate versions, and a
//!    version that was seen committed;
//! 2. of two committed writers of an object, one is before the other, never both ways; the initial
//!    version is before all;
//! 3. what evidence says, and what a list says of the order of its elements.
//!
//! Transitivity of `Before` needs no axiom: a cycle of ww edges is a lemma at every level.
//!
//! A scan (and the read half of a predicate update) reads *every* object of its table: the rows
//! that it returned as items, all others through the predicate. Which version of an unreturned
//! object it saw is a choice among those that do not match (absent ones included). An
//! anti-dependency from an unreturned object is a predicate anti-dependency, which
//! `repeatable-read` does not count.
//!
//! At `be-read-committed`, `read-atomic` and `causal` the commit order is total and contains every
//! version order, so ww edges may stand in a lemma too. That a reader saw an older version (the
//! initial one in particular) than one that is visible to it is a lemma of one [`Reason::AntiRead`]
//! edge to the visible writer, and the path that makes it visible back to the reader.

use margay_history::{NameId, ObjectId, OpId, TxnId, Version};
use margay_levels::Anomaly;

use crate::execution::{Execution, Invariant, Reading, Unexplained};
use crate::mechanism::Mechanisms;

/// What proves a verdict.
#[derive(Clone, PartialEq, Debug)]
pub enum Certificate {
    /// `holds`: for the serializable levels a serial order, replayed by audit; for
    /// `be-read-committed`, `read-atomic` and `causal` the commit order of their axioms.
    Order(Order),
    /// `holds`, for the snapshot levels and `prefix`: begin and commit points in order.
    Points(Vec<Point>),
    /// `holds`, for the levels defined by dependency graphs: version orders and what each read saw.
    Versions(Versions),
    /// `holds`, for the serializable levels of a history with commit timestamps: what proves the
    /// level, and what proves the question that it includes ([`crate::Question::included`]). Where
    /// one certificate proves both, it stands alone.
    Both(Box<[Certificate; 2]>),
    /// `violated`: these operations cannot be explained, whatever the order.
    Operations {
        /// Which anomaly they are.
        anomaly: Anomaly,
        /// The operations, the one that cannot be explained first.
        ops: Vec<OpId>,
    },
    /// `violated`: lemmas that leave no possibility.
    Refutation(Vec<Lemma>),
    /// `violated`, at the serializable and snapshot levels with real time: what was seen of these
    /// objects has no order; audit tries all.
    DeadEnd(DeadEnd),
    /// `violated`, in the sense of a mechanism: the intervals prove that a database with these
    /// mechanisms did not do this.
    Intervals(Breach),
    /// `holds`, for histories of SQL statements: the order, and what each statement saw; audit
    /// executes it.
    Execution(Execution),
    /// `violated`, for histories of SQL statements: no execution gives what was observed; audit
    /// tries them all.
    Unexplained(Unexplained),
    /// `violated`, for histories of SQL statements: a result lies outside of what rows can ever be;
    /// audit checks that they cannot be anything else.
    Invariant(Invariant),
}

impl Certificate {
    /// The word of the answer that a certificate of this kind proves.
    #[must_use]
    pub fn proves(&self) -> &'static str {
        match self {
            Certificate::Order(_)
            | Certificate::Points(_)
            | Certificate::Versions(_)
            | Certificate::Both(_)
            | Certificate::Execution(_) => "holds",
            Certificate::Operations { .. }
            | Certificate::Refutation(_)
            | Certificate::DeadEnd(_)
            | Certificate::Intervals(_)
            | Certificate::Unexplained(_)
            | Certificate::Invariant(_) => "violated",
        }
    }
}

impl Certificate {
    /// What `read-committed` lets a statement see here. Where statements are no more than
    /// operations on rows, each row is seen by itself.
    #[must_use]
    pub fn reading(&self) -> Reading {
        match self {
            Certificate::Execution(execution) => execution.reading,
            Certificate::Both(both) => both[0].reading(),
            Certificate::Unexplained(unexplained) => unexplained.reading,
            _ => Reading::Item,
        }
    }

    /// How far the audit is a second opinion. Where it is not, the audit does once more what the
    /// engine did, with the same code.
    #[must_use]
    pub fn checked(&self) -> Checked {
        match self {
            Certificate::Unexplained(_) => Checked::Reexecuted,
            _ => Checked::Independently,
        }
    }

    /// The breach of a mechanism, if it is one: that says nothing of the level's definition.
    #[must_use]
    pub fn breach(&self) -> Option<&Breach> {
        match self {
            Certificate::Intervals(breach) => Some(breach),
            _ => None,
        }
    }
}

/// How far the audit of a certificate is a second opinion; `docs/CERTIFICATES.md` says which code
/// has to be right for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Checked {
    /// The audit has code of its own for what it decides.
    Independently,
    /// The audit executes statements and tries possibilities with the code that the engine has.
    Reexecuted,
}

impl Checked {
    /// The word in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Checked::Independently => "independently",
            Checked::Reexecuted => "re-executed",
        }
    }
}

/// A few objects whose transactions have no order in real time.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DeadEnd {
    /// The objects: what was seen of them alone is enough.
    pub objects: Vec<ObjectId>,
    /// The committed transactions that touch them, from the last moment at which there was only one
    /// possibility, and those that overlap them; by the end of the last one there is none.
    pub txns: Vec<TxnId>,
}

/// A mechanism that was not at work, by the intervals alone.
///
/// It says nothing of what the level's definition forbids: a dirty write that left no trace is a
/// breach of mutual exclusion and still a possible history. What it says is that the database does
/// not keep its level in the way that its profile describes; the mechanisms stand here so that
/// everybody can compare them.
#[derive(Clone, PartialEq, Debug)]
pub struct Breach {
    /// The profile that has them, by name: `postgresql/repeatable-read`. Where none is named, the
    /// mechanisms speak for themselves.
    pub profile: Option<String>,
    /// The mechanisms that the database is said to have.
    pub mechanisms: Mechanisms,
    /// Where one of them was not at work.
    pub broken: Broken,
}

/// Which mechanism, and where.
#[derive(Clone, PartialEq, Debug)]
pub enum Broken {
    /// Consistent read: this operation, together with those that share its snapshot, saw what no
    /// point in time shows; or it did not see its own transaction's write.
    Read {
        /// The read or scan.
        op: OpId,
    },
    /// Mutual exclusion: both operations locked the object, and each transaction still held its
    /// lock when the other had got its own.
    Locks {
        /// The object.
        object: ObjectId,
        /// The two operations.
        ops: [OpId; 2],
    },
    /// First updater wins: both transactions wrote the object and committed, each after the other
    /// had taken its snapshot.
    Updates {
        /// The object.
        object: ObjectId,
        /// The two transactions.
        txns: [TxnId; 2],
    },
    /// Serialization certifier: a cycle of dependencies, each of them certain by the intervals; or
    /// the two rw edges of a dangerous structure. Of a [`Reason::AntiRead`] the version is one that
    /// may have been seen.
    Dependencies(Vec<Edge>),
}

impl Broken {
    /// The anomaly: the mechanism's name.
    #[must_use]
    pub fn anomaly(&self) -> Anomaly {
        match self {
            Broken::Read { .. } => Anomaly::ConsistentRead,
            Broken::Locks { .. } => Anomaly::MutualExclusion,
            Broken::Updates { .. } => Anomaly::FirstUpdaterWins,
            Broken::Dependencies(_) => Anomaly::SerializationCertifier,
        }
    }
}

/// The anomalies that [`Certificate::Operations`] can show with one operation, the most telling
/// first. One operation may be wrong in several ways; audit has the last word on which.
pub const LOCAL_ANOMALIES: [Anomaly; 9] = [
    Anomaly::GarbageRead,
    Anomaly::DuplicateElements,
    Anomaly::Internal,
    Anomaly::FutureRead,
    Anomaly::G1a,
    Anomaly::G1b,
    Anomaly::IncompatibleOrder,
    Anomaly::PredicateReadMiss,
    Anomaly::ResultMismatch,
];

/// A total order of the transactions that committed: all committed ones, and those of unknown
/// outcome that are taken to have.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Order {
    /// The transactions, first to last.
    pub txns: Vec<TxnId>,
    /// What external reads saw, where values alone do not tell (not needed for the serializable
    /// levels: the replay tells).
    pub reads: Vec<ReadFrom>,
}

/// A begin or a commit point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Point {
    /// The transaction takes its snapshot.
    Begin(TxnId),
    /// The transaction's writes become visible.
    Commit(TxnId),
}

/// Which version of an object an operation saw.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadFrom {
    /// The read or scan.
    pub op: OpId,
    /// The object.
    pub object: ObjectId,
    /// The version.
    pub version: Version,
}

/// Version orders and what reads saw.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Versions {
    /// The transactions of unknown outcome that are taken to have committed.
    pub committed: Vec<TxnId>,
    /// For each object that a committed transaction writes: its writers, oldest first. An object
    /// with one writer may be left out.
    pub orders: Vec<(ObjectId, Vec<TxnId>)>,
    /// What external reads saw, where values alone do not tell; for scans every object of the table
    /// whose version matters. What is not here is the only version that fits; of an object that a
    /// scan left out the initial version, if that does not match; of a row that a predicate update
    /// changed the version before its own.
    pub reads: Vec<ReadFrom>,
}

/// One anomaly with its proof.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// What it is.
    pub anomaly: Anomaly,
    /// The transactions that show it: the minimal slice.
    pub txns: Vec<TxnId>,
    /// What proves it.
    pub certificate: Certificate,
}

/// A cycle that the level forbids, under the assumptions of its edges.
/// `edges[i].to == edges[i + 1].from`, and around.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lemma {
    /// The edges, in order.
    pub edges: Vec<Edge>,
}

/// `from` comes before `to`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Edge {
    /// The earlier transaction.
    pub from: TxnId,
    /// The later transaction.
    pub to: TxnId,
    /// Why.
    pub reason: Reason,
}

/// Why one transaction comes before another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// They follow each other in one session.
    Session,
    /// The first had ended before the second began.
    RealTime,
    /// Timestamps of the evidence say so.
    Recorded(Stamp),
    /// wr: operation `op` of `to` saw `from`'s version of `object`. Assumes
    /// `Saw(op, object, from)`.
    Read {
        /// The read or scan, in `to`.
        op: OpId,
        /// The object.
        object: ObjectId,
    },
    /// ww: `from`'s version of `object` is before `to`'s. Assumes `Before(object, from, to)`.
    Write {
        /// The object.
        object: ObjectId,
    },
    /// rw: operation `op` of `from` saw `version` of `object`, and `to` wrote a later one. Assumes
    /// `Saw(op, object, version)` and `Before(object, version, to)`.
    AntiRead {
        /// The read or scan, in `from`.
        op: OpId,
        /// The object.
        object: ObjectId,
        /// The version that it saw.
        version: Version,
    },
    /// wr by one column: operation `op` of `to` saw what `from` made of `column` of `object`.
    /// Assumes `Saw(op, object, column, from)`. At the serializable and the snapshot levels,
    /// `prefix`, `repeatable-read` and `read-committed`.
    ReadColumn {
        /// The read or scan, in `to`.
        op: OpId,
        /// The object.
        object: ObjectId,
        /// The column.
        column: NameId,
    },
    /// rw by one column: operation `op` of `from` saw what `version` had made of `column` of
    /// `object`, and `to` wrote that column in a later version, or removed the row. Assumes
    /// `Saw(op, object, column, version)` and `Before(object, version, to)`. At the serializable
    /// and the snapshot levels, `prefix` and `repeatable-read`.
    AntiReadColumn {
        /// The read or scan, in `from`.
        op: OpId,
        /// The object.
        object: ObjectId,
        /// The column.
        column: NameId,
        /// The version that it saw.
        version: Version,
    },
    /// Commit order by an axiom of Biswas and Enea: operation `op` reads `object` from `to`, `from`
    /// writes it too, and `from` is visible to the reader through `path`, so `from` comes before
    /// `to`. Assumes `Saw(op, object, to)` and what the path assumes.
    Visible {
        /// The read.
        op: OpId,
        /// The object.
        object: ObjectId,
        /// From `from` to the reader's transaction: [`Reason::Session`] and [`Reason::Read`] edges
        /// as the level allows.
        path: Vec<Edge>,
    },
}

impl Reason {
    /// The object that it is about.
    #[must_use]
    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Reason::Read { object, .. }
            | Reason::Write { object }
            | Reason::AntiRead { object, .. }
            | Reason::ReadColumn { object, .. }
            | Reason::AntiReadColumn { object, .. }
            | Reason::Visible { object, .. } => Some(*object),
            Reason::Session | Reason::RealTime | Reason::Recorded(_) => None,
        }
    }

    /// Whether it is an anti-dependency: rw.
    #[must_use]
    pub fn is_anti(&self) -> bool {
        matches!(self, Reason::AntiRead { .. } | Reason::AntiReadColumn { .. })
    }

    /// Whether it is a read dependency: wr.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self, Reason::Read { .. } | Reason::ReadColumn { .. })
    }

    /// Whether it is about one column.
    #[must_use]
    pub fn is_of_column(&self) -> bool {
        matches!(self, Reason::ReadColumn { .. } | Reason::AntiReadColumn { .. })
    }
}

/// Which timestamps put one transaction before another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stamp {
    /// Their serialization timestamps; at the serializable levels.
    Serialization,
    /// Their commit timestamps: `from` commits before `to` commits; at the snapshot levels.
    Commit,
    /// `from`'s commit is at or before `to`'s snapshot: `from` commits before `to` begins; at the
    /// snapshot levels.
    Inside,
    /// `to`'s commit is after `from`'s snapshot: `from` begins before `to` commits; at the snapshot
    /// levels.
    Outside,
}
