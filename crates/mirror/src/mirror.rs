//! The streaming core: operations in, violations out.
//!
//! # Algorithm
//! Operations come in the order of their `before`. A transaction is collected until its end. Then its versions and locks are put into the store, where they meet those of
//! others; and when the stream has passed the end's interval, so that every version that the transaction may have seen has come, it is
//! judged (`judge`). What is older than every transaction that is not judged yet is forgotten.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use margay_history::{
    Access, Interval, ObjectId, OpId, OpKind, PredicateId, ReadLock, TxnId, ValueId, Values, Version,
};
use margay_verdict::mechanism::{Fact, Mechanisms, Pattern, Searches, Unseen, View, World, Written};
use margay_verdict::{Breach, Broken, Edge};

use crate::front::{Front, Step};
use crate::graph::Graph;
use crate::log::Entry;
use crate::store::Store;
use crate::txn::Txn;
use judge::Explained;

#[path = "judge.rs"]
mod judge;
#[path = "locks.rs"]
mod locks;

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

/// What an operation asked, beyond what it touched.
#[derive(Clone, Default, Debug)]
pub struct Asked {
    /// The condition of a scan or a predicate update.
    pub search: Option<PredicateId>,
    /// Whether all rows that it found are among the accesses.
    pub observed: bool,
    /// What a predicate update made of rows of which nobody saw which they are.
    pub changes: Option<Pattern>,
    /// How a read locks what it returned.
    pub lock: Option<ReadLock>,
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
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::OutOfOrder { before, last } => {
                write!(f, "an operation called at {before} comes after one called at {last}")
            }
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

/// How the dependencies of one kind came to be known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dependencies {
    /// The intervals do not overlap: time alone tells.
    pub certain: u64,
    /// They overlap, and values, snapshots, locks or the rule for concurrent updates tell.
    pub deduced: u64,
    /// Nothing tells.
    pub uncertain: u64,
}

impl Dependencies {
    fn count(&mut self, known: bool, by_time: bool) {
        let kind = match (known, by_time) {
            (true, true) => &mut self.certain,
            (true, false) => &mut self.deduced,
            (false, _) => &mut self.uncertain,
        };
        *kind += 1;
    }

    fn add(&mut self, more: Dependencies) {
        self.certain += more.certain;
        self.deduced += more.deduced;
        self.uncertain += more.uncertain;
    }

    /// The part of the dependencies that is known, from 0 to 1; 1 if there are none.
    #[must_use]
    pub fn known(&self) -> f64 {
        let (known, all) = (self.certain + self.deduced, self.certain + self.deduced + self.uncertain);
        if all == 0 { 1.0 } else { known as f64 / all as f64 }
    }
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
    /// Pairs of versions of one object: which came first.
    pub ww: Dependencies,
    /// Reads: which version was seen.
    pub wr: Dependencies,
    /// Reads and other versions of what they saw, that are not older: whether it came later. Looked for only where the certifier minds.
    pub rw: Dependencies,
    /// Violations found.
    pub violations: u64,
}

/// Verifies a stream of operations.
#[derive(Debug)]
pub struct Mirror {
    mechanisms: Mechanisms,
    front: Front,
    /// Ended transactions by the time that the stream must pass, and their order of arrival.
    ended: BinaryHeap<Reverse<(i64, TxnId)>>,
    waiting: HashMap<TxnId, Txn>,
    /// When the transactions that are not judged yet began.
    starts: BTreeMap<i64, usize>,
    /// When the transactions that are running began.
    running: BTreeMap<i64, usize>,
    now: i64,
    store: Store,
    searches: Arc<Searches>,
    graph: Graph,
    found: VecDeque<Violation>,
    statistics: Statistics,
    threads: usize,
    /// So many of them explain reads.
    explainers: usize,
    /// So many transactions are judged at a time.
    batch: usize,
}

/// After so many transactions the graph is tidied.
const ROUND: u64 = 32;

/// So many steps the front half hands over at a time, and so many times it may be ahead.
const STEPS: usize = 1024;
const AHEAD: usize = 8;

/// So many transactions are judged at a time for each thread.
const BATCH: usize = 256;

impl Mirror {
    /// A mirror of a database with these mechanisms, whose clients' clocks are at most `skew` apart.
    #[must_use]
    pub fn new(mechanisms: Mechanisms, skew: i64) -> Self {
        Self {
            mechanisms,
            front: Front::new(mechanisms, skew),
            ended: BinaryHeap::new(),
            waiting: HashMap::new(),
            starts: BTreeMap::new(),
            running: BTreeMap::new(),
            now: i64::MIN,
            store: Store::default(),
            searches: Arc::default(),
            graph: Graph::new(mechanisms.points),
            found: VecDeque::new(),
            statistics: Statistics::default(),
            threads: 1,
            explainers: 1,
            batch: 1,
        }
    }

    /// Works on so many threads, the caller's among them: one brings operations of a finished history together to transactions, the others explain reads. Transactions
    /// are then judged in batches, so violations come a little later; what is found does not depend on the number of threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self.explainers = self.threads;
        self.batch = BATCH;
        self
    }

    /// The tables, conditions and rows that [`Mirror::feed_search`] speaks of. They are declared before they are used.
    pub fn searches(&mut self) -> &mut Searches {
        Arc::make_mut(&mut self.searches)
    }

    /// Sets the initial value of an object, before its first operation. Objects are absent otherwise.
    pub fn initial(&mut self, object: ObjectId, value: ValueId) {
        self.store.initial(object, value, &self.searches);
    }

    /// Takes the next operation, in the order of `before`. A SQL statement is one of which nothing is known: its transaction may have written anything, and proves nothing.
    ///
    /// # Errors
    /// When it is out of order. It is not taken then.
    pub fn feed(&mut self, trace: Trace<'_>, values: &Values) -> Result<(), Unfit> {
        self.feed_asked(trace, &Asked::default(), values)
    }

    /// Takes a scan or a predicate update whose rows are all known, so that it tells also of the rows that it left out.
    ///
    /// # Errors
    /// As [`Mirror::feed`].
    pub fn feed_search(
        &mut self,
        trace: Trace<'_>,
        search: PredicateId,
        values: &Values,
    ) -> Result<(), Unfit> {
        self.feed_asked(trace, &Asked { search: Some(search), observed: true, ..Asked::default() }, values)
    }

    /// Takes an operation with all that it asked.
    ///
    /// # Errors
    /// As [`Mirror::feed`].
    pub fn feed_asked(&mut self, trace: Trace<'_>, asked: &Asked, values: &Values) -> Result<(), Unfit> {
        let step = self.front.take(trace, asked, &self.searches, values)?;
        self.advance(step, values);
        Ok(())
    }

    /// The stream has come so far.
    fn advance(&mut self, step: Step, values: &Values) {
        self.statistics.operations += 1;
        self.now = step.now;
        self.settle(values);
        if step.started {
            *self.starts.entry(step.now).or_default() += 1;
            *self.running.entry(step.now).or_default() += 1;
        }
        if let Some(ended) = step.ended {
            let (txn, ended) = *ended;
            self.end(txn, ended, values);
        }
    }

    /// Takes operations that another thread makes, which is given the front half and what to do with what comes of each. Stops when `go_on` says so.
    ///
    /// # Errors
    /// What `go_on` says.
    pub(crate) fn feed_beside<E>(
        &mut self,
        values: &Values,
        make: impl FnOnce(&mut Front, &Searches, &mut dyn FnMut(Step) -> bool) + Send,
        mut go_on: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<Step>>(AHEAD);
        let mut front = std::mem::replace(&mut self.front, Front::new(self.mechanisms, 0));
        let searches = Arc::clone(&self.searches);
        self.explainers = self.threads.saturating_sub(1).max(1);
        std::thread::scope(|scope| {
            let maker = scope.spawn(move || {
                let mut steps = Vec::with_capacity(STEPS);
                make(&mut front, &searches, &mut |step| {
                    steps.push(step);
                    let full = steps.len() == STEPS;
                    !full || sender.send(std::mem::replace(&mut steps, Vec::with_capacity(STEPS))).is_ok()
                });
                let _ = sender.send(steps);
                front
            });
            let mut stopped = Ok(());
            for steps in receiver {
                stopped = go_on(self.statistics.operations);
                if stopped.is_err() {
                    break;
                }
                steps.into_iter().for_each(|step| self.advance(step, values));
            }
            match maker.join() {
                Ok(front) => self.front = front,
                Err(panic) => std::panic::resume_unwind(panic),
            }
            stopped
        })
    }

    /// Whether it was made for several threads.
    pub(crate) fn has_threads(&self) -> bool {
        self.threads > 1
    }

    /// The stream is over: transactions that have not ended have an unknown outcome.
    pub fn finish(&mut self, values: &Values) {
        let mut open: Vec<(TxnId, Txn)> = self.front.open.drain().collect();
        open.sort_unstable_by_key(|(txn, _)| *txn);
        open.into_iter().for_each(|(txn, unknown)| self.end(txn, unknown, values));
        (self.now, self.batch) = (i64::MAX, 1);
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
        let transactions = self.front.open.len() + self.waiting.len();
        Size { transactions, versions, readers, locks, nodes, edges }
    }

    /// Whatever is not judged yet began at this time or later.
    fn horizon(&self) -> i64 {
        self.starts.keys().next().map_or(self.now, |&start| start.min(self.now))
    }

    fn forget_start(&mut self, start: i64) {
        forget(&mut self.starts, start);
    }

    /// A transaction has ended: its locks and versions meet those of others.
    fn end(&mut self, txn: TxnId, mut ended: Txn, values: &Values) {
        forget(&mut self.running, ended.course.start());
        self.hold(txn, &ended, values);
        if ended.course.aborted() && self.mechanisms.view != View::Uncommitted {
            return self.forget_start(ended.course.start());
        }
        if !ended.unseen.is_empty() {
            ended.cloud(World { values, searches: &self.searches });
        }
        self.install(txn, &ended, values);
        self.note_unseen(txn, &ended, values);
        if !ended.course.committed() || ended.course.is_opaque() {
            return self.forget_start(ended.course.start());
        }
        self.graph.insert(txn, ended.course);
        self.ended.push(Reverse((ended.answered, txn)));
        self.waiting.insert(txn, ended);
    }

    /// The versions of a transaction meet those of others.
    fn install(&mut self, txn: TxnId, ended: &Txn, values: &Values) {
        let horizon = self.horizon();
        for (object, written) in &ended.writes {
            let mut broken = None;
            let record = self.store.record(*object, &self.searches);
            for fact in made(written, ended, &self.mechanisms, values) {
                let clash = record.versions.iter().find(|(_, other)| clash(&fact, other));
                broken = broken.or(clash.map(|(version, _)| *version));
                record.install(txn, fact);
            }
            record.tidy(horizon, values, |reader| self.graph.contains(reader));
            if let Some(Version::Of(other)) = broken {
                self.report(vec![other, txn], Broken::Updates { object: *object, txns: [other, txn] });
            }
        }
    }

    /// What a transaction may have written without that anybody saw it.
    fn note_unseen(&mut self, txn: TxnId, ended: &Txn, values: &Values) {
        let entry = |unseen: Option<&Unseen>| {
            let mut written = Written::default();
            written.push_unseen(unseen.map_or(&Pattern::Any, |unseen| &unseen.pattern));
            let facts = made(&written, ended, &self.mechanisms, values);
            facts.into_iter().next().map(|fact| Entry { txn, unseen: unseen.cloned(), fact })
        };
        let mut entries: Vec<_> = ended.unseen.iter().filter_map(|unseen| entry(Some(unseen))).collect();
        if ended.course.is_opaque() {
            entries.extend(entry(None));
        }
        for entry in entries {
            let table = entry.unseen.as_ref().and_then(|unseen| unseen.table(&self.searches));
            self.store.note(table, entry);
        }
    }

    /// The objects that transactions have looked at get what unseen writes may have made of them.
    fn catch_up(&mut self, ready: &[(TxnId, Txn)], values: &Values) {
        let searches = ready.iter().flat_map(|(_, ended)| &ended.searches);
        for search in searches.filter(|search| search.whole) {
            self.store.sort_rows(search.predicate, &self.searches, values);
        }
        if self.store.saw_all() {
            return;
        }
        let horizon = self.horizon();
        for (_, ended) in ready {
            let searched = ended.searches.iter().filter(|search| search.whole);
            let rows = searched.flat_map(|search| self.store.rows(search.predicate, &self.searches));
            let mut objects: Vec<ObjectId> = rows.collect();
            objects.extend(ended.reads.iter().map(|seen| seen.object));
            for object in objects {
                self.store.catch_up(object, horizon, &self.searches, values);
            }
        }
    }

    /// Every version that can have been installed before this time has come.
    fn complete(&self) -> i64 {
        match self.mechanisms.view {
            View::Within | View::Uncommitted => {
                self.running.keys().next().map_or(self.now, |&start| start.min(self.now))
            }
            _ => self.now,
        }
    }

    /// Judges the transactions whose ends the stream has passed, as soon as there is a batch of them.
    fn settle(&mut self, values: &Values) {
        let complete = self.complete();
        let is_ready = |end: Option<&Reverse<(i64, TxnId)>>| end.is_some_and(|end| end.0.0 < complete);
        if !is_ready(self.ended.peek()) || self.ended.len() < self.batch {
            return;
        }
        let mut ready = Vec::new();
        while is_ready(self.ended.peek())
            && let Some(Reverse((_, txn))) = self.ended.pop()
        {
            ready.extend(self.waiting.remove(&txn).map(|ended| (txn, ended)));
        }
        self.catch_up(&ready, values);
        for ((txn, ended), found) in ready.iter().zip(self.explain_all(&ready, values)) {
            self.conclude_all(*txn, ended, found, values);
            self.forget_start(ended.course.start());
            self.statistics.judged += 1;
            if self.statistics.judged.is_multiple_of(ROUND) {
                let horizon = self.horizon();
                self.graph.tidy(horizon);
            }
        }
    }

    /// Explains the reads of transactions, on several threads if there are many.
    fn explain_all(&self, ready: &[(TxnId, Txn)], values: &Values) -> Vec<Explained> {
        let explain = |(txn, ended): &(TxnId, Txn)| self.explain(*txn, ended, values);
        let threads = self.explainers;
        if threads == 1 || ready.len() < 2 * threads {
            return ready.iter().map(explain).collect();
        }
        let part = ready.len().div_ceil(threads);
        std::thread::scope(|scope| {
            let mut parts = ready.chunks(part);
            let mine = parts.next().unwrap_or_default();
            let others: Vec<_> =
                parts.map(|part| scope.spawn(move || part.iter().map(explain).collect::<Vec<_>>())).collect();
            let mut all: Vec<Explained> = mine.iter().map(explain).collect();
            for (other, part) in others.into_iter().zip(ready.chunks(part).skip(1)) {
                // A thread that could not finish is no reason to leave its part out.
                all.extend(other.join().unwrap_or_else(|_| part.iter().map(explain).collect()));
            }
            all
        })
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

/// Takes one away.
fn forget(times: &mut BTreeMap<i64, usize>, time: i64) {
    if let Some(count) = times.get_mut(&time) {
        *count -= 1;
        if *count == 0 {
            times.remove(&time);
        }
    }
}

/// What a transaction made of an object, as others see it.
fn made(written: &Written, ended: &Txn, mechanisms: &Mechanisms, values: &Values) -> Vec<Fact> {
    match mechanisms.view {
        View::Uncommitted => written.facts(&ended.course, values),
        _ => vec![written.clone().fact(&ended.course, mechanisms, values)],
    }
}

/// Whether two versions cannot both be there: neither writer had committed when the other took its snapshot.
fn clash(one: &Fact, other: &Fact) -> bool {
    let (Some(a), Some(b)) = (one.snapshot, other.snapshot) else { return false };
    one.certain && other.certain && one.installed.before > b && other.installed.before > a
}
