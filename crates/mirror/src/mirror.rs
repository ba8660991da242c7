//! The streaming core: operations in, violations out.
//!
//! # Algorithm
//! Operations come in the order of their `before`. A transaction is collected until its end. Then its versions and locks are put into the store, where they meet those of
//! others; and when the stream has passed the end's interval, so that every version that the transaction may have seen has come, it is
//! judged (`judge`). What is older than every transaction that is not judged yet is forgotten.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;

use hashbrown::HashMap;
use margay_history::{Access, Interval, ObjectId, OpId, OpKind, TxnId, ValueId, Values, Version};
use margay_levels::profile::Granularity;
use margay_verdict::mechanism::{Fact, Mechanisms, View, common};
use margay_verdict::{Breach, Broken, Edge};

use crate::graph::Graph;
use crate::store::{Held, Store};
use crate::txn::{Taken, Txn};

#[path = "judge.rs"]
mod judge;

/// One operation of the stream. Transactions, operations and objects are named by numbers of the caller's choice.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// The transaction.
    pub txn: TxnId,
    /// The operation.
    pub op: OpId,
    /// Its kind.
    pub kind: OpKind,
    /// Its interval on the client's clock.
    pub at: Interval,
    /// What it saw, wrote or appended; of a predicate update the rows as they became.
    pub accesses: &'a [Access],
}

/// What is certain to be wrong.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// The transactions that show it.
    pub txns: Vec<TxnId>,
    /// Which mechanism was not at work, and where.
    pub breach: Breach,
}

/// Why an operation cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It was called before the one that was fed last.
    OutOfOrder {
        /// When it was called.
        before: i64,
        /// When the last one was.
        last: i64,
    },
    /// It is not known what operations of this kind write.
    Outside(OpKind),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::OutOfOrder { before, last } => {
                write!(f, "an operation called at {before} comes after one called at {last}")
            }
            Unfit::Outside(kind) => write!(f, "it is not known what a {} operation writes", kind.name()),
        }
    }
}

impl std::error::Error for Unfit {}

/// How much is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Size {
    /// Transactions that are running or not judged yet.
    pub transactions: usize,
    /// Versions of all objects.
    pub versions: usize,
    /// Reads that a later version may overwrite.
    pub readers: usize,
    /// Locks.
    pub locks: usize,
    /// Transactions of the certifier's graph.
    pub nodes: usize,
    /// Dependencies of the certifier's graph.
    pub edges: usize,
}

/// What was deduced, as far as it was looked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// Operations fed.
    pub operations: u64,
    /// Committed transactions judged.
    pub judged: u64,
    /// Reads of others' versions judged.
    pub reads: u64,
    /// Reads that only one version explains.
    pub certain_reads: u64,
    /// Pairs of versions of one object whose order is certain by time.
    pub ordered_by_time: u64,
    /// Pairs whose order only the mechanisms tell.
    pub ordered_by_mechanism: u64,
    /// Pairs whose order is open.
    pub unordered: u64,
    /// Violations found.
    pub violations: u64,
}

/// Verifies a stream of operations.
#[derive(Debug)]
pub struct Mirror {
    mechanisms: Mechanisms,
    skew: i64,
    open: HashMap<TxnId, Txn>,
    /// Ended transactions by the time that the stream must pass, and their order of arrival.
    ended: BinaryHeap<Reverse<(i64, TxnId)>>,
    waiting: HashMap<TxnId, Txn>,
    /// When the transactions that are not judged yet began.
    starts: BTreeMap<i64, usize>,
    now: i64,
    last: i64,
    store: Store,
    graph: Graph,
    found: VecDeque<Violation>,
    statistics: Statistics,
}

/// The object that stands for the whole database in the lock table.
const DATABASE: ObjectId = ObjectId(u32::MAX);

/// After so many transactions the graph is tidied.
const ROUND: u64 = 32;

impl Mirror {
    /// A mirror of a database with these mechanisms, whose clients' clocks are at most `skew` apart.
    #[must_use]
    pub fn new(mechanisms: Mechanisms, skew: i64) -> Self {
        Self {
            mechanisms,
            skew,
            open: HashMap::new(),
            ended: BinaryHeap::new(),
            waiting: HashMap::new(),
            starts: BTreeMap::new(),
            now: i64::MIN,
            last: i64::MIN,
            store: Store::default(),
            graph: Graph::default(),
            found: VecDeque::new(),
            statistics: Statistics::default(),
        }
    }

    /// Sets the initial value of an object, before its first operation. Objects are absent otherwise.
    pub fn initial(&mut self, object: ObjectId, value: ValueId) {
        self.store.initial(object, value);
    }

    /// Takes the next operation, in the order of `before`.
    ///
    /// # Errors
    /// When it is out of order, or a SQL statement, of which it is not known what it writes. It is not taken then.
    pub fn feed(&mut self, trace: Trace<'_>, values: &Values) -> Result<(), Unfit> {
        if trace.at.before < self.last {
            return Err(Unfit::OutOfOrder { before: trace.at.before, last: self.last });
        }
        if trace.kind == OpKind::Sql {
            return Err(Unfit::Outside(trace.kind));
        }
        self.statistics.operations += 1;
        let at = common(trace.at, self.skew);
        (self.last, self.now) = (trace.at.before, at.before);
        self.settle(values);
        let txn = match self.open.entry(trace.txn) {
            hashbrown::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            hashbrown::hash_map::Entry::Vacant(entry) => {
                *self.starts.entry(at.before).or_default() += 1;
                entry.insert(Txn::default())
            }
        };
        txn.push(&trace, at, values);
        if trace.kind.outcome().is_some()
            && let Some(ended) = self.open.remove(&trace.txn)
        {
            self.end(trace.txn, ended);
        }
        Ok(())
    }

    /// The stream is over: transactions that have not ended have an unknown outcome.
    pub fn finish(&mut self, values: &Values) {
        let mut open: Vec<(TxnId, Txn)> = self.open.drain().collect();
        open.sort_unstable_by_key(|(txn, _)| *txn);
        open.into_iter().for_each(|(txn, unknown)| self.end(txn, unknown));
        self.now = i64::MAX;
        self.settle(values);
    }

    /// The next violation that was found and not asked for yet.
    pub fn next_violation(&mut self) -> Option<Violation> {
        self.found.pop_front()
    }

    /// What was deduced so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// How much is remembered now.
    #[must_use]
    pub fn size(&self) -> Size {
        let (versions, readers, locks) = self.store.len();
        let (nodes, edges) = self.graph.len();
        let transactions = self.open.len() + self.waiting.len();
        Size { transactions, versions, readers, locks, nodes, edges }
    }

    /// Whatever is not judged yet began at this time or later.
    fn horizon(&self) -> i64 {
        self.starts.keys().next().map_or(self.now, |&start| start.min(self.now))
    }

    fn forget_start(&mut self, start: i64) {
        if let Some(count) = self.starts.get_mut(&start) {
            *count -= 1;
            if *count == 0 {
                self.starts.remove(&start);
            }
        }
    }

    /// A transaction has ended: its locks and versions meet those of others.
    fn end(&mut self, txn: TxnId, ended: Txn) {
        self.hold(txn, &ended);
        if ended.course.aborted() {
            return self.forget_start(ended.course.start());
        }
        let horizon = self.horizon();
        for (&object, written) in &ended.writes {
            let fact = written.clone().fact(&ended.course, &self.mechanisms);
            let record = self.store.record(object);
            let clash = record.versions.iter().find(|(_, other)| clash(&fact, other)).map(|(v, _)| *v);
            record.versions.push((Version::Of(txn), fact));
            record.tidy(horizon, |reader| self.graph.contains(reader));
            if let Some(Version::Of(other)) = clash {
                self.report(vec![other, txn], Broken::Updates { object, txns: [other, txn] });
            }
        }
        if !ended.course.committed() {
            return self.forget_start(ended.course.start());
        }
        self.graph.insert(txn, ended.course);
        self.ended.push(Reverse((ended.answered, txn)));
        self.waiting.insert(txn, ended);
    }

    /// Holds the locks of a transaction that has ended against those of others.
    fn hold(&mut self, txn: TxnId, ended: &Txn) {
        let Some(granularity) = self.mechanisms.write_locks else { return };
        let (reads, until) = (ended.course.locks_reads(&self.mechanisms), ended.course.held_until());
        let horizon = self.horizon();
        let counts = |taken: &&Taken| taken.exclusive || reads;
        for taken in ended.taken.iter().filter(counts) {
            let key = if granularity == Granularity::Database { DATABASE } else { taken.object };
            let lock = Held { txn, op: taken.op, by: taken.by, until, exclusive: taken.exclusive };
            let record = self.store.record(key);
            record.tidy(horizon, |reader| self.graph.contains(reader));
            let other = record.held.iter().find(|other| excludes(other, &lock)).copied();
            record.held.push(lock);
            if let Some(other) = other {
                let broken = Broken::Locks { object: taken.object, ops: [other.op, lock.op] };
                self.report(vec![other.txn, txn], broken);
            }
            if granularity == Granularity::Database {
                break;
            }
        }
    }

    /// Every version that can have been installed before this time has come.
    fn complete(&self) -> i64 {
        match self.mechanisms.view {
            View::Within => {
                let started = self.open.values().map(|txn| txn.course.start());
                started.min().map_or(self.now, |start| start.min(self.now))
            }
            _ => self.now,
        }
    }

    /// Judges the transactions whose ends the stream has passed.
    fn settle(&mut self, values: &Values) {
        let complete = self.complete();
        while let Some(&Reverse((end, txn))) = self.ended.peek()
            && end < complete
        {
            self.ended.pop();
            if let Some(ended) = self.waiting.remove(&txn) {
                self.judge(txn, &ended, values);
                self.forget_start(ended.course.start());
            }
            self.statistics.judged += 1;
            if self.statistics.judged.is_multiple_of(ROUND) {
                let horizon = self.horizon();
                self.graph.tidy(horizon);
            }
        }
    }

    fn report(&mut self, txns: Vec<TxnId>, broken: Broken) {
        self.statistics.violations += 1;
        self.found.push_back(Violation { txns, breach: Breach { mechanisms: self.mechanisms, broken } });
    }

    fn report_dependencies(&mut self, edges: Vec<Edge>) {
        let mut txns: Vec<TxnId> = edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
        txns.sort_unstable();
        txns.dedup();
        self.report(txns, Broken::Dependencies(edges));
    }
}

/// Whether two versions cannot both be there: neither writer had committed when the other took its snapshot.
fn clash(one: &Fact, other: &Fact) -> bool {
    let (Some(a), Some(b)) = (one.snapshot, other.snapshot) else { return false };
    one.certain && other.certain && one.installed.before > b && other.installed.before > a
}

/// Whether two locks were held at the same time and must not have been.
fn excludes(one: &Held, other: &Held) -> bool {
    one.txn != other.txn && (one.exclusive || other.exclusive) && one.until > other.by && other.until > one.by
}
