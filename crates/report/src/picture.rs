//! The picture of one anomaly, as data: transactions, their operations, the cycles, the versions of
//! the objects involved.

use serde::{Deserialize, Serialize};

/// Everything that a drawing needs. Transactions are named by the recorder's labels, operations by
/// their place in their transaction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Picture {
    /// The unit of intervals: `ns`, `us`, `ms`, `s` or `index`; nothing where there is no time.
    pub unit: Option<String>,
    /// What has to be added to every `at` to get the clock's own number; 0 unless those are too
    /// large for most readers of JSON.
    #[serde(default)]
    pub origin: i64,
    /// The transactions, by session and in its order.
    pub transactions: Vec<Txn>,
    /// The cycles; none where the operations themselves are impossible.
    pub cycles: Vec<Cycle>,
    /// The operations that cannot be explained, or that a mechanism forbids.
    pub blamed: Vec<Place>,
    /// The versions of the objects involved.
    pub objects: Vec<Object>,
    /// What was left out, in words.
    pub left_out: Vec<String>,
}

/// A place in the history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The transaction.
    pub txn: u64,
    /// The operation's index in it.
    pub op: u32,
}

/// A transaction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Txn {
    /// Its label.
    pub txn: u64,
    /// Its session's label.
    pub session: u64,
    /// `committed`, `aborted` or `unknown`.
    pub outcome: String,
    /// Whether it belongs to the minimal slice; otherwise it is only near.
    pub slice: bool,
    /// Its operations.
    pub ops: Vec<Op>,
    /// How many operations were left out.
    pub left_out: usize,
}

/// An operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Op {
    /// Its index in its transaction.
    pub op: u32,
    /// `begin`, `read`, `write`, …
    pub kind: String,
    /// What it did, in words.
    pub text: String,
    /// The objects that it touched.
    pub objects: Vec<String>,
    /// Its interval.
    pub at: Option<[i64; 2]>,
}

/// Dependencies in a circle.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cycle {
    /// Each ends where the next begins, and the last where the first begins; unless `open`.
    pub edges: Vec<Edge>,
    /// Whether the edges form a chain instead: a pattern that a certifier must refuse before the
    /// circle closes.
    #[serde(default)]
    pub open: bool,
}

/// One transaction must come before another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Edge {
    /// The earlier transaction.
    pub from: u64,
    /// The later one.
    pub to: u64,
    /// `wr`, `ww`, `rw`, `session`, `real-time`, `recorded` or `visible`.
    pub kind: String,
    /// A few words for an arrow.
    pub label: String,
    /// The whole reason, a sentence.
    pub reason: String,
    /// The object that it is about.
    pub object: Option<String>,
    /// The operation of `from` that it rests on.
    pub from_op: Option<u32>,
    /// The operation of `to` that it rests on.
    pub to_op: Option<u32>,
}

/// An object with its versions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Where the order comes from, in words.
    pub order: String,
    /// The versions, oldest first as far as is known.
    pub versions: Vec<Version>,
    /// How many were left out.
    pub left_out: usize,
}

/// A version of an object.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Version {
    /// Who made it; nobody made the initial one.
    pub by: Option<u64>,
    /// `committed`, `aborted` or `unknown`.
    pub outcome: String,
    /// What the writer made of the object.
    pub value: String,
    /// When its writer ended, if known.
    pub at: Option<i64>,
    /// Transactions that saw it.
    pub readers: Vec<u64>,
}
