//! The dependencies that one choice of version orders and reads-from gives, and which cycles of
//! them a level forbids.
//!
//! # Mathematics
//! `a ww b`: b's version of an object is later than a's. `a wr b`: b saw a's version. `a rw b`: a
//! saw a version that is earlier than b's; over an item, or over a predicate only. To these come
//! session order and real time as far as the question counts them.
//!
//! - read-committed: ww ∪ wr is acyclic.
//! - repeatable-read: ww ∪ wr ∪ rw over items is acyclic.
//! - serializable levels: ww ∪ wr ∪ rw is acyclic.
//! - parallel-snapshot: no (ww ∪ wr)+ ; rw? leads from a transaction to itself.
//! - snapshot levels: ww and wr put the commit of one before the begin of the other, rw the begin
//!   of one before the commit of the other; these points can be put in order.
//! - prefix: as the snapshot levels, but ww puts only the commits in order.
//! - be-read-committed, read-atomic, causal: if t3 saw t1's version of an object, t2 wrote it too
//!   and is visible to t3, then t2 comes before t1; this with ww ∪ wr is acyclic, so that it is
//!   part of some total commit order. Visible: t3 read from it in an earlier operation; t3 reads
//!   from it or comes after it in its session; it leads to t3 by any number of such steps.

use margay_history::{ObjectId, OpId, TxnId, Version};
use margay_levels::Level;
use margay_verdict::{Point, Stamp};

use crate::cycle::recorded;
use crate::model::Model;

/// Sets of transactions as bits, one row per transaction.
pub type Matrix = Vec<u64>;

/// One external read and what it is taken to have seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    /// The read.
    pub op: OpId,
    /// Its transaction.
    pub reader: TxnId,
    /// The object.
    pub object: ObjectId,
    /// The version.
    pub version: Version,
    /// Whether it read the object itself, not only through a predicate.
    pub item: bool,
}

/// The dependencies of one choice.
#[derive(Clone)]
pub struct Graph {
    /// The transactions; bit and row `i` stand for the `i`-th.
    pub txns: Vec<TxnId>,
    /// Session order and real time, as far as they count.
    pub order: Matrix,
    /// What timestamps say, at the serializable and the snapshot levels.
    pub recorded: Vec<(Stamp, TxnId, TxnId)>,
    /// Session order.
    pub session: Matrix,
    /// Write dependencies.
    pub ww: Matrix,
    /// Read dependencies.
    pub wr: Matrix,
    /// Anti-dependencies over items.
    pub rw: Matrix,
    /// Anti-dependencies over predicates only.
    pub rwp: Matrix,
    /// What external reads saw.
    pub seen: Vec<Seen>,
    /// The version orders.
    pub orders: Vec<(ObjectId, Vec<TxnId>)>,
}

impl Graph {
    /// The graph without dependencies. At most 64 transactions.
    pub fn new(model: &Model<'_>, txns: &[TxnId]) -> Self {
        let matrix = |test: &dyn Fn(TxnId, TxnId) -> bool| -> Matrix {
            let row = |&a: &TxnId| {
                let bits = txns.iter().enumerate().filter(|&(_, &b)| a != b && test(a, b));
                bits.fold(0, |row, (i, _)| row | 1 << i)
            };
            txns.iter().map(row).collect()
        };
        let none = vec![0; txns.len()];
        let history = model.history;
        Self {
            txns: txns.to_vec(),
            order: matrix(&|a, b| model.precedes(a, b)),
            recorded: recorded(model, txns),
            session: matrix(&|a, b| a < b && history.session_of(a) == history.session_of(b)),
            ww: none.clone(),
            wr: none.clone(),
            rw: none.clone(),
            rwp: none,
            seen: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// The row of a transaction.
    pub fn row(&self, txn: TxnId) -> usize {
        self.txns.iter().position(|&t| t == txn).unwrap_or(0)
    }

    /// Adds the version order of an object.
    pub fn add_order(&mut self, object: ObjectId, order: &[TxnId]) {
        for (i, &a) in order.iter().enumerate() {
            for &b in &order[i + 1..] {
                let (a, b) = (self.row(a), self.row(b));
                self.ww[a] |= 1 << b;
            }
        }
        self.orders.push((object, order.to_vec()));
    }

    /// Adds what a read saw of an object whose version order was added before.
    pub fn add_seen(&mut self, seen: Seen) {
        let reader = self.row(seen.reader);
        if let Version::Of(writer) = seen.version {
            let writer = self.row(writer);
            self.wr[writer] |= 1 << reader;
        }
        for later in self.later(seen.object, seen.version) {
            if later != seen.reader {
                let later = self.row(later);
                let rw = if seen.item { &mut self.rw } else { &mut self.rwp };
                rw[reader] |= 1 << later;
            }
        }
        self.seen.push(seen);
    }

    /// The writers of an object, oldest version first.
    pub fn writers(&self, object: ObjectId) -> &[TxnId] {
        self.orders.iter().find(|o| o.0 == object).map_or(&[], |o| &o.1)
    }

    /// The writers of the versions after one.
    pub fn later(&self, object: ObjectId, version: Version) -> Vec<TxnId> {
        let order = self.writers(object);
        let from = match version {
            Version::Initial => 0,
            Version::Of(txn) => order.iter().position(|&t| t == txn).map_or(order.len(), |i| i + 1),
        };
        order[from..].to_vec()
    }

    /// Whether the level allows these dependencies.
    pub fn is_legal(&self, level: Level) -> bool {
        let base = union(&[&self.order, &self.ww, &self.wr]);
        match level {
            Level::ReadUncommitted => is_acyclic(&union(&[&self.order, &self.ww])),
            Level::ReadCommitted => is_acyclic(&base),
            Level::RepeatableRead => is_acyclic(&union(&[&base, &self.rw])),
            Level::ParallelSnapshot => {
                let closed = closure(&base);
                let rw = union(&[&self.rw, &self.rwp]);
                is_irreflexive(&closed) && is_irreflexive(&compose(&closed, &rw))
            }
            Level::BeReadCommitted | Level::ReadAtomic | Level::Causal => {
                self.visible(level).is_some_and(|visible| is_acyclic(&union(&[&base, &visible])))
            }
            Level::Prefix
            | Level::SnapshotIsolation
            | Level::StrongSessionSnapshotIsolation
            | Level::StrictSnapshotIsolation => is_acyclic(&self.points(level)),
            Level::Serializable | Level::StrongSessionSerializable | Level::StrictSerializable => {
                is_acyclic(&union(&[&base, &self.rw, &self.rwp, &self.serialized()]))
            }
        }
    }

    /// Serialization timestamps as edges.
    fn serialized(&self) -> Matrix {
        let mut matrix = vec![0; self.txns.len()];
        for &(_, from, to) in self.recorded.iter().filter(|r| r.0 == Stamp::Serialization) {
            matrix[self.row(from)] |= 1 << self.row(to);
        }
        matrix
    }

    /// Begin and commit points in an order that the dependencies allow.
    pub fn point_order(&self, level: Level) -> Vec<Point> {
        let all = closure(&self.points(level));
        let mut rows: Vec<usize> = (0..all.len()).collect();
        rows.sort_by_key(|&i| std::cmp::Reverse(all[i].count_ones()));
        let point = |i: usize| {
            let txn = self.txns[i / 2];
            if i.is_multiple_of(2) { Point::Begin(txn) } else { Point::Commit(txn) }
        };
        rows.into_iter().map(point).collect()
    }

    /// Begin points are the even rows, commit points the odd ones.
    fn points(&self, level: Level) -> Matrix {
        let n = self.txns.len();
        let spread = |row: u64, odd: usize| {
            (0..n).filter(|i| row >> i & 1 == 1).fold(0, |r, i| r | 1 << (2 * i + odd))
        };
        let mut points = vec![0; 2 * n];
        for i in 0..n {
            let to_commit = if level == Level::Prefix { self.ww[i] } else { 0 };
            let to_begin = self.order[i] | self.wr[i] | if level == Level::Prefix { 0 } else { self.ww[i] };
            points[2 * i] = 1 << (2 * i + 1) | spread(self.rw[i] | self.rwp[i], 1);
            points[2 * i + 1] = spread(to_begin, 0) | spread(to_commit, 1);
        }
        for &(stamp, from, to) in &self.recorded {
            let (from, to) = (2 * self.row(from), 2 * self.row(to));
            match stamp {
                Stamp::Serialization => {}
                Stamp::Commit => points[from + 1] |= 1 << (to + 1),
                Stamp::Inside => points[from + 1] |= 1 << to,
                Stamp::Outside => points[from] |= 1 << (to + 1),
            }
        }
        points
    }

    /// What Biswas and Enea's axiom of the level adds; nothing when it puts something before the
    /// initial version.
    fn visible(&self, level: Level) -> Option<Matrix> {
        let direct = union(&[&self.session, &self.wr]);
        let causal = closure(&direct);
        let mut added = vec![0; self.txns.len()];
        for seen in &self.seen {
            let reader = self.row(seen.reader);
            for &other in self.writers(seen.object) {
                if other == seen.reader || Version::Of(other) == seen.version {
                    continue;
                }
                let row = self.row(other);
                let sees = match level {
                    Level::BeReadCommitted => self.read_before(seen, other),
                    Level::ReadAtomic => direct[row] >> reader & 1 == 1,
                    _ => causal[row] >> reader & 1 == 1,
                };
                match seen.version {
                    _ if !sees => {}
                    Version::Initial => return None,
                    Version::Of(writer) => added[row] |= 1 << self.row(writer),
                }
            }
        }
        Some(added)
    }

    /// Whether the reader saw a version of `other` in an earlier operation.
    fn read_before(&self, seen: &Seen, other: TxnId) -> bool {
        let earlier = |s: &Seen| s.reader == seen.reader && s.op < seen.op && s.version == Version::Of(other);
        self.seen.iter().any(earlier)
    }

    /// A total order that contains session order and real time, ww, wr and what the level's axiom
    /// adds.
    pub fn commit_order(&self, level: Level) -> Vec<TxnId> {
        let visible = self.visible(level).unwrap_or_default();
        let all = closure(&union(&[&self.order, &self.ww, &self.wr, &visible]));
        let mut rows: Vec<usize> = (0..self.txns.len()).collect();
        rows.sort_by_key(|&i| std::cmp::Reverse(all[i].count_ones()));
        rows.into_iter().map(|i| self.txns[i]).collect()
    }
}

/// The union of relations.
pub fn union(all: &[&Matrix]) -> Matrix {
    let mut sum = all[0].clone();
    for matrix in &all[1..] {
        sum.iter_mut().zip(matrix.iter()).for_each(|(row, more)| *row |= more);
    }
    sum
}

/// The transitive closure.
pub fn closure(matrix: &Matrix) -> Matrix {
    let mut closed = matrix.clone();
    for k in 0..closed.len() {
        let through = closed[k];
        for row in &mut closed {
            if *row >> k & 1 == 1 {
                *row |= through;
            }
        }
    }
    closed
}

fn compose(a: &Matrix, b: &Matrix) -> Matrix {
    a.iter().map(|&row| (0..b.len()).filter(|i| row >> i & 1 == 1).fold(0, |sum, i| sum | b[i])).collect()
}

fn is_irreflexive(matrix: &Matrix) -> bool {
    matrix.iter().enumerate().all(|(i, row)| row >> i & 1 == 0)
}

fn is_acyclic(matrix: &Matrix) -> bool {
    is_irreflexive(&closure(matrix))
}
