//! The streaming core: operations in, violations out.
//!
//! # Algorithm
//! Operations come in the order of their `before`. A transaction is collected until its end
//! (`front`). Then its versions and locks are put into the store, where they meet those of others
//! (`shard`, `locks`); and when the stream has passed the end's interval, so that every version
//! that the transaction may have seen has come, its reads are explained (`judge`) and what is
//! certain goes to the certifier (`certifier`). What is older than every transaction that is not
//! judged yet is forgotten.
//!
//! On one thread every transaction goes through this as soon as it can. On several they do so in
//! windows, step by step: each step is shared out by objects or by transactions, and the next one
//! begins when all have done theirs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use margay_history::{
    Access, Interval, ObjectId, OpId, OpKind, PredicateId, ReadLock, TxnId, ValueId, Values,
};
use margay_mechanisms::{Pattern, Searches, World};
use margay_verdict::mechanism::{Mechanisms, ReadView};
use margay_verdict::{Breach, Broken, Edge};

use crate::bundle::Bundles;
use crate::certifier::Judged;
use crate::front::{Front, FrontStep};
use crate::graph::Graph;
use crate::judge::{Answer, Explained, Joined, join};
use crate::letter::Content;
use crate::parallel::Crew;
use crate::shard::{Alarm, Fixed, Met, Ordered, Shard};
use crate::statistics::{Dependencies, Size, Statistics};
use crate::store::Store;
use crate::txn::{Ended, Txn};

/// One operation of the stream. Transactions, operations and objects are named by numbers of the
/// caller's choice.
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

/// Verifies a stream of operations.
#[derive(Debug)]
pub struct Mirror {
    pub(crate) mechanisms: Mechanisms,
    front: Front,
    /// Transactions that have ended and have not met others yet.
    fresh: Vec<Ended>,
    /// Transactions that are not judged yet, by the time that the stream must pass.
    waiting: BinaryHeap<Reverse<Ended>>,
    /// When the transactions that met others and are not judged yet began.
    starts: BTreeMap<i64, usize>,
    /// When the transactions that are running began, or have not met others yet.
    running: BTreeMap<i64, usize>,
    pub(crate) now: i64,
    pub(crate) store: Store,
    pub(crate) searches: Arc<Searches>,
    pub(crate) graph: Graph,
    found: VecDeque<Violation>,
    pub(crate) statistics: Statistics,
    /// The certifier has forgotten so many of the first transactions that were judged, or more.
    pub(crate) forgotten: u64,
    /// Leaves out some of what the certifier has forgotten, in tests.
    #[cfg(test)]
    pub(crate) lag: fn(u64, u64) -> u64,
    bundles: Option<Bundles>,
    crew: Arc<Crew>,
    /// When the first of the transactions that run elsewhere began.
    pub(crate) low: Option<i64>,
    /// Whether dependencies come together here.
    certifies: bool,
    /// If transactions meet others epoch by epoch.
    epochs: Option<Epochs>,
    /// So many transactions meet others at a time.
    window: usize,
    /// What the length of a window may be.
    windows: RangeInclusive<usize>,
}

/// Windows by time. Where they end is a function of the history, whoever verifies it.
#[derive(Clone, Copy, Debug)]
struct Epochs {
    /// When the one that has begun ends.
    end: Option<i64>,
    length: i64,
    longest: i64,
}

/// How many transactions make a window where several threads share the work.
const WINDOWS: RangeInclusive<usize> = 32..=512;

/// A window of transactions that make more versions of one object than this is too long: all of
/// them are looked at for every read of the object.
const VERSIONS: usize = 12;

/// No more transactions than this are judged together.
const MAX_TXNS: usize = 4_096;

/// Fewer transactions than this are not shared out.
const WORTH: usize = 64;

/// The first epoch is the longest one halved so many times.
const FIRST: u32 = 6;

impl Mirror {
    /// A mirror of a database with these mechanisms, whose clients' clocks are at most `skew`
    /// apart.
    #[must_use]
    pub fn new(mechanisms: Mechanisms, skew: i64) -> Self {
        Self {
            mechanisms,
            front: Front::new(mechanisms, skew),
            fresh: Vec::new(),
            waiting: BinaryHeap::new(),
            starts: BTreeMap::new(),
            running: BTreeMap::new(),
            now: i64::MIN,
            store: Store::default(),
            searches: Arc::default(),
            graph: Graph::new(mechanisms.points),
            found: VecDeque::new(),
            statistics: Statistics::default(),
            forgotten: 0,
            #[cfg(test)]
            lag: |_, now| now,
            bundles: None,
            crew: Arc::default(),
            low: None,
            certifies: true,
            epochs: None,
            window: 1,
            windows: 1..=1,
        }
    }

    /// Shares the work out to so many threads. Of a finished history, one of them brings the next
    /// operations together to transactions meanwhile. Objects are shared out for what happens to
    /// each of them, transactions for explaining their reads. Transactions then go in windows, so
    /// violations come a little later; what is found does not depend on the number of threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.crew = Arc::new(Crew::new(threads));
        self.store.split(self.crew.len(), &self.searches);
        self.with_windows(WINDOWS)
    }

    /// Takes transactions in windows of at least and at most so many, as few as objects have many
    /// versions. One at a time is the beginning; what is found hardly depends on it: where much was
    /// not seen, one length may miss what another finds.
    #[must_use]
    pub fn with_windows(mut self, windows: RangeInclusive<usize>) -> Self {
        self.window = (*windows.start()).max(1);
        self.windows = self.window..=(*windows.end()).max(self.window);
        self
    }

    /// Takes transactions in windows by time, each at most so long and as short as objects have few
    /// versions: where they end depends on nothing but the operations, so several workers can agree
    /// on it. An epoch begins with the first operation after the last one. What is found is as with
    /// [`Mirror::with_windows`].
    #[must_use]
    pub fn with_epochs(mut self, longest: i64) -> Self {
        let longest = longest.max(1);
        self.epochs = Some(Epochs { end: None, length: (longest >> FIRST).max(1), longest });
        self
    }

    /// Takes one of so many shares of the objects, for
    /// [`Engine::play_share`](crate::Engine::play_share). The first one is the certifier, and tells
    /// the others what it found.
    #[must_use]
    pub fn with_share(mut self, place: usize, count: usize) -> Self {
        self.store.shards = vec![Shard::new(place as u32, count as u32)];
        self.certifies = place == 0;
        self
    }

    /// Also counts what would be sent if objects were shared out to so many workers.
    #[must_use]
    pub fn with_bundle_count(mut self, workers: u32) -> Self {
        self.bundles = Some(Bundles { workers: workers.max(1), ..Bundles::default() });
        self
    }

    /// What would be sent, if that is counted.
    #[must_use]
    pub fn bundles(&self) -> Option<Bundles> {
        self.bundles
    }

    /// The tables, conditions and rows that [`Mirror::feed_search`] speaks of. They are declared
    /// before they are used.
    pub fn searches(&mut self) -> &mut Searches {
        Arc::make_mut(&mut self.searches)
    }

    /// Sets the initial value of an object, before its first operation. Objects are absent
    /// otherwise.
    pub fn initial(&mut self, object: ObjectId, value: ValueId) {
        self.store.initial(object, value, &self.searches);
    }

    /// Takes the next operation, in the order of `before`. A SQL statement is one of which nothing
    /// is known: its transaction may have written anything, and proves nothing.
    ///
    /// # Errors
    /// When it is out of order. It is not taken then.
    pub fn feed(&mut self, trace: Trace<'_>, values: &Values) -> Result<(), Unfit> {
        self.feed_asked(trace, &Asked::default(), values)
    }

    /// Takes a scan or a predicate update whose rows are all known, so that it tells also of the
    /// rows that it left out.
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

    /// The stream has come so far: whatever can be judged is, and who has ended meets others as
    /// soon as there is a window of them.
    fn advance(&mut self, step: FrontStep, values: &Values) {
        if let Some(Epochs { end, .. }) = self.epochs {
            if end.is_none_or(|end| !is_within(step.now, end)) {
                self.end_epoch(values);
                self.next_epoch(step.now);
            }
            return self.take(step);
        }
        if self.window == 1 {
            self.now = step.now;
            self.settle(values);
        }
        self.take(step);
        if self.fresh.len() >= self.window {
            self.admit(values);
            if self.window > 1 {
                self.settle(values);
            }
        }
    }

    /// The epoch is over: who has ended in it meets others, and whatever can be judged is.
    fn end_epoch(&mut self, values: &Values) {
        if let Some(Epochs { end: Some(end), .. }) = self.epochs {
            self.now = end;
            self.admit(values);
            self.settle(values);
        }
    }

    /// The next epoch begins with an operation at this time; answers when it ends.
    pub(crate) fn next_epoch(&mut self, first: i64) -> i64 {
        let length = self.epochs.map_or(1, |epochs| epochs.length);
        let end = first.saturating_add(length);
        if let Some(epochs) = &mut self.epochs {
            epochs.end = Some(end);
        }
        end
    }

    /// Takes the next step without looking at what follows from it.
    fn take(&mut self, step: FrontStep) {
        self.statistics.operations += 1;
        self.now = step.now;
        if step.started {
            *self.running.entry(step.now).or_default() += 1;
        }
        self.fresh.extend(step.ended);
    }

    /// Takes operations that `make` brings to the front half until there are no more, those of the
    /// next window beside what is done with the last one. Stops when `go_on` says so.
    ///
    /// # Errors
    /// What `go_on` says.
    pub(crate) fn feed_windows<E: Send>(
        &mut self,
        values: &Values,
        mut make: impl FnMut(&mut Front, &Searches) -> Option<FrontStep> + Send,
        mut go_on: impl FnMut(u64) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let mut front = std::mem::replace(&mut self.front, Front::new(self.mechanisms, 0));
        let (crew, searches) = (Arc::clone(&self.crew), Arc::clone(&self.searches));
        let mut next = |transactions: usize| {
            let (mut steps, mut ended) = (Vec::new(), 0);
            while ended < transactions
                && let Some(step) = make(&mut front, &searches)
            {
                ended += usize::from(step.ended.is_some());
                steps.push(step);
            }
            steps
        };
        let stopped = crew.inside(|| {
            let mut steps = next(self.window);
            while !steps.is_empty() {
                go_on(self.statistics.operations)?;
                let window = self.window;
                steps = crew.beside(|| next(window), || self.take_window(steps, values));
            }
            Ok(())
        });
        self.front = front;
        stopped
    }

    /// Takes the steps of a window, and does what follows from them.
    fn take_window(&mut self, steps: Vec<FrontStep>, values: &Values) {
        steps.into_iter().for_each(|step| self.take(step));
        self.admit(values);
        self.settle(values);
    }

    /// Whether transactions go in windows.
    pub(crate) fn has_windows(&self) -> bool {
        self.window > 1 && self.epochs.is_none()
    }

    /// The stream is over: transactions that have not ended have an unknown outcome.
    pub fn finish(&mut self, values: &Values) {
        self.finish_while(values, || true);
    }

    /// As [`Mirror::finish`], as long as `go_on` says so; answers whether all was judged.
    pub fn finish_while(&mut self, values: &Values, go_on: impl Fn() -> bool) -> bool {
        self.end_epoch(values);
        let open = self.front.finish(World { values, searches: &self.searches });
        self.fresh.extend(open);
        self.admit(values);
        self.now = i64::MAX;
        while !self.waiting.is_empty() {
            if !go_on() {
                return false;
            }
            let judged = self.judge(values);
            if judged.window.is_empty() {
                return false;
            }
            self.certify(judged);
        }
        true
    }

    /// The next violation that was found and not asked for yet.
    pub fn next_violation(&mut self) -> Option<Violation> {
        self.found.pop_front()
    }

    /// What was deduced so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics { graph: self.graph.told(), ..self.statistics }
    }

    /// How much is remembered now.
    #[must_use]
    pub fn size(&self) -> Size {
        let (versions, readers, locks) = self.store.len();
        let (nodes, edges) = self.graph.len();
        let transactions = self.front.open.len() + self.fresh.len() + self.waiting.len();
        Size { transactions, versions, readers, locks, indexed: self.store.indexed(), nodes, edges }
    }

    /// Whatever is not judged yet began at this time or later.
    pub(crate) fn horizon(&self) -> i64 {
        let first = |starts: &BTreeMap<i64, usize>| starts.keys().next().copied();
        let all = first(&self.starts).into_iter().chain(first(&self.running)).chain(self.low);
        all.fold(self.now, i64::min)
    }

    /// The transactions that have ended meet others, in the order in which they did.
    fn admit(&mut self, values: &Values) {
        let mut fresh = std::mem::take(&mut self.fresh);
        let Met { alarms, most } = self.meet(&fresh, values);
        self.tell(alarms);
        let count = fresh.len();
        fresh.drain(..).for_each(|ended| self.keep(ended));
        self.fresh = fresh;
        self.adapt(count, most);
    }

    /// Locks and versions of transactions that have ended meet those of others, object by object.
    pub(crate) fn meet(&mut self, fresh: &[Ended], values: &Values) -> Met {
        for ended in fresh {
            if let Some(bundles) = &mut self.bundles {
                bundles.add(ended, values);
            }
            forget(&mut self.running, ended.course.start());
            *self.starts.entry(ended.course.start()).or_default() += 1;
        }
        let mut all = Met::default();
        let each = vec![(); self.store.shards.len()];
        for met in self.by_shard(each, fresh.len(), values, |shard, (), fixed| shard.admit(fresh, fixed)) {
            all.alarms.extend(met.alarms);
            all.most = all.most.max(met.most);
        }
        all
    }

    /// Reports what went wrong in a window.
    pub(crate) fn tell(&mut self, mut alarms: Vec<Alarm>) {
        alarms.sort_by_key(|alarm| alarm.place);
        for Alarm { txns, broken, .. } in alarms {
            self.report(txns.to_vec(), broken);
        }
    }

    /// The next window is as long as objects have few versions, of which there were so many in the
    /// last one.
    pub(crate) fn adapt(&mut self, transactions: usize, most: usize) {
        if let Some(Epochs { length, longest, .. }) = &mut self.epochs {
            let next = match most > VERSIONS {
                true if transactions > *WINDOWS.start() => *length / 2,
                false if transactions < MAX_TXNS / 2 => length.saturating_mul(2),
                _ => *length,
            };
            *length = next.clamp(1, *longest);
        }
        let next = if most > VERSIONS { self.window / 2 } else { self.window.saturating_mul(2) };
        self.window = next.clamp(*self.windows.start(), *self.windows.end());
    }

    /// A transaction that committed is kept until it can be judged.
    pub(crate) fn keep(&mut self, ended: Ended) {
        if ended.course.committed() && !ended.course.is_opaque() {
            if self.certifies {
                self.graph.insert(ended.id, ended.course);
            }
            self.waiting.push(Reverse(ended));
        } else {
            forget(&mut self.starts, ended.course.start());
        }
    }

    /// Every version that can have been installed before this time has come.
    fn complete(&self) -> i64 {
        match self.mechanisms.view {
            ReadView::Within | ReadView::Uncommitted => {
                self.running.keys().next().copied().into_iter().chain(self.low).fold(self.now, i64::min)
            }
            _ => self.now,
        }
    }

    /// Judges the transactions whose ends the stream has passed.
    fn settle(&mut self, values: &Values) {
        loop {
            let judged = self.judge(values);
            let more = Self::is_full(&judged.window);
            self.certify(judged);
            if !more {
                return;
            }
        }
    }

    /// Some transactions whose ends the stream has passed, in their order.
    pub(crate) fn ready(&mut self) -> Vec<Ended> {
        let complete = self.complete();
        let is_ready = |next: Option<&Reverse<Ended>>| next.is_some_and(|next| next.0.answered < complete);
        let mut window = Vec::new();
        while window.len() < MAX_TXNS
            && is_ready(self.waiting.peek())
            && let Some(Reverse(ended)) = self.waiting.pop()
        {
            window.push(ended);
        }
        window
    }

    /// Some transactions whose ends the stream has passed, and what their reads and their versions
    /// make certain.
    fn judge(&mut self, values: &Values) -> Judged {
        let (window, horizon) = (self.ready(), self.horizon());
        let mut judged = Judged { window, horizon, ..Judged::default() };
        let (ready, count) = (&judged.window, judged.window.len());
        if count > 0 {
            let answers = self.answer(ready, values);
            let joined = self.join(ready, &answers, values);
            let concluded = self.conclude(ready, answers, &joined, values);
            judged.explained = joined.into_iter().map(|joined| joined.explained).collect();
            for (explained, ordered) in concluded {
                judged.ordered.push(ordered);
                judged.add(explained);
            }
            self.put_away(&judged.window);
        }
        judged
    }

    /// What the objects of each shard alone tell of reads.
    pub(crate) fn answer(&mut self, ready: &[Ended], values: &Values) -> Vec<Vec<Answer>> {
        let each = vec![(); self.store.shards.len()];
        self.by_shard(each, ready.len(), values, |shard, (), fixed| shard.answer(ready, fixed))
    }

    /// What is certain of transactions, shard by shard.
    pub(crate) fn conclude(
        &mut self,
        ready: &[Ended],
        answers: Vec<Vec<Answer>>,
        joined: &[Joined],
        values: &Values,
    ) -> Vec<(Vec<Explained>, Ordered)> {
        self.by_shard(answers, ready.len(), values, |shard, answers, fixed| {
            shard.conclude(ready, answers, joined, fixed)
        })
    }

    /// Whether more may be ready than these.
    pub(crate) fn is_full(window: &[Ended]) -> bool {
        window.len() >= MAX_TXNS
    }

    /// Brings together the open reads of several shards.
    fn join(&self, ready: &[Ended], answers: &[Vec<Answer>], values: &Values) -> Vec<Joined> {
        if answers.len() == 1 {
            return Vec::new();
        }
        let join = |number: usize| {
            let reads = answers.iter().flat_map(|answers| &answers[number].shared);
            let versions = |object| self.store.get(object).versions.as_slice();
            let open = reads.filter(|read| read.only.is_none());
            join(&ready[number], open.map(|read| (read, versions(read.seen.object))), self.fixed(values))
        };
        // More parts than threads: one of them may be making the next window.
        let part = ready.len().div_ceil(4 * self.crew.len());
        let parts = (0..ready.len()).step_by(part).map(|first| first..ready.len().min(first + part));
        let work = |part: Range<usize>| -> Vec<Joined> { part.map(join).collect() };
        self.crew.each(parts, self.is_worth(ready.len()), work).into_iter().flatten().collect()
    }

    /// What stays as it is while shards are at work.
    pub(crate) fn fixed<'a>(&'a self, values: &'a Values) -> Fixed<'a> {
        let world = World { values, searches: &self.searches };
        let (mechanisms, horizon, judged) = (&self.mechanisms, self.horizon(), self.statistics.judged);
        Fixed { mechanisms, world, horizon, judged, forgotten: self.forgotten, now: self.now }
    }

    /// Does something in every shard, with what there is for it, for so many transactions.
    fn by_shard<P: Send, T: Send>(
        &mut self,
        parts: Vec<P>,
        transactions: usize,
        values: &Values,
        each: impl Fn(&mut Shard, P, Fixed<'_>) -> T + Sync,
    ) -> Vec<T> {
        let worth = self.is_worth(transactions);
        let mut shards = std::mem::take(&mut self.store.shards);
        let fixed = self.fixed(values);
        let work = |(shard, part): (&mut Shard, P)| each(shard, part, fixed);
        let done = self.crew.each(shards.iter_mut().zip(parts), worth, work);
        self.store.shards = shards;
        done
    }

    /// Whether so many transactions are worth more than one thread.
    fn is_worth(&self, transactions: usize) -> bool {
        self.crew.len() > 1 && transactions >= WORTH
    }

    /// Transactions are judged: nothing waits for them any more.
    pub(crate) fn put_away(&mut self, window: &[Ended]) {
        window.iter().for_each(|ended| forget(&mut self.starts, ended.course.start()));
        self.statistics.judged += window.len() as u64;
    }

    /// The certifier is done with a transaction, and forgets from time to time what nobody needs
    /// any more.
    pub(crate) fn tidy(&mut self, ended: &Txn, horizon: i64) {
        if self.graph.judged(ended.id) {
            self.graph.tidy(horizon);
            #[cfg(test)]
            let told = (self.lag)(self.forgotten, self.graph.forgotten());
            #[cfg(not(test))]
            let told = self.graph.forgotten();
            self.forgotten = told;
        }
    }

    /// What was found and not asked for yet, for others.
    pub(crate) fn account(&self) -> Content {
        let found =
            self.found.iter().map(|violation| (violation.txns.clone(), violation.breach.broken.clone()));
        Content::Found(found.collect(), [self.statistics.ww, self.statistics.wr, self.statistics.rw])
    }

    /// What another mirror found.
    pub(crate) fn take_account(&mut self, found: Vec<(Vec<TxnId>, Broken)>, [ww, wr, rw]: [Dependencies; 3]) {
        found.into_iter().for_each(|(txns, broken)| self.report(txns, broken));
        (self.statistics.ww, self.statistics.wr, self.statistics.rw) = (ww, wr, rw);
    }

    pub(crate) fn report(&mut self, txns: Vec<TxnId>, broken: Broken) {
        self.statistics.violations += 1;
        self.found.push_back(Violation {
            txns,
            breach: Breach { profile: None, mechanisms: self.mechanisms, broken },
        });
    }

    pub(crate) fn report_dependencies(&mut self, edges: Vec<Edge>) {
        let mut txns: Vec<TxnId> = edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
        txns.sort_unstable();
        txns.dedup();
        self.report(txns, Broken::Dependencies(edges));
    }
}

/// Whether an operation at this time belongs to an epoch that ends then. Nothing comes after the
/// end of time.
pub(crate) fn is_within(time: i64, end: i64) -> bool {
    time < end || end == i64::MAX
}

/// Takes one away.
pub(crate) fn forget(times: &mut BTreeMap<i64, usize>, time: i64) {
    if let Some(count) = times.get_mut(&time) {
        *count -= 1;
        if *count == 0 {
            times.remove(&time);
        }
    }
}
