//! The simulated database: versions, active transactions, and what all protocols have in common.
//!
//! # Invariants
//! - Every call happens at one instant, `now`; the instants are totally ordered. What a call does
//!   is atomic.
//! - Writes are kept with their transaction and installed by its commit. What has not been
//!   committed can only be seen on purpose: by [`ReadView::Dirty`] or by a fault.
//! - The protocol decides ([`crate::rules::Rules`]); the database does. No protocol changes a chain
//!   itself, but for read timestamps.

use margay_client::{Cond, Obj, Space, Value};

use crate::config::SimConfig;
use crate::fault::Fault;
use crate::faults::Faults;
use crate::locks::Locks;
use crate::store::{CLEAN, Store, Version};

/// How far apart two timestamps are; what is between is for timestamps that should not be.
pub(crate) const TICK: u64 = 16;

/// Where to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadView {
    /// The newest committed version.
    Latest,
    /// The newest version not newer than this.
    AsOf(u64),
    /// What another transaction has written last, committed or not.
    Dirty,
}

/// Why a statement or a commit does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// It waits for these clients' transactions.
    Wait(Vec<u32>),
    /// Its transaction has to abort.
    Abort,
}

pub(crate) type RuleResult<T> = Result<T, Stop>;

/// A write that has not been committed.
#[derive(Debug)]
pub(crate) struct Pending {
    pub obj: Obj,
    pub value: Value,
    /// What the same transaction had written there before.
    pub overwritten: Option<Value>,
    /// Whether a fault keeps the client from knowing of it.
    pub untold: bool,
}

/// What a client is doing in the database.
#[derive(Default, Debug)]
pub(crate) struct Txn {
    /// 0 when it is in no transaction.
    pub label: u64,
    pub snapshot: Option<u64>,
    /// When the statement that is being executed was first tried.
    pub statement: Option<u64>,
    pub writes: Vec<Pending>,
    /// The firings that this transaction has to do with.
    pub firings: Vec<u32>,
    /// How far a commit in several steps has come.
    pub phase: u8,
    /// The firing that all its versions come from.
    pub mark: Option<u32>,
}

impl Txn {
    pub fn own(&self, obj: Obj) -> Option<&Pending> {
        self.writes.iter().find(|w| w.obj == obj)
    }
}

/// What a read saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub obj: Obj,
    pub value: Value,
    /// The label of the version's writer; `None` when it is the reader itself, or the history does
    /// not know of the version.
    pub writer: Option<u64>,
}

/// A write that will be applied later, by a fault.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub at: i64,
    pub obj: Obj,
    /// Timestamp 0 stands for the time of application.
    pub version: Version,
    /// Whether it is this version's first time.
    pub first: bool,
}

/// Two neighbours in the version order of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Succession {
    pub obj: Obj,
    pub earlier: u64,
    pub later: u64,
}

#[derive(Debug)]
pub(crate) struct Db {
    pub store: Store,
    /// By client.
    pub txns: Vec<Txn>,
    /// The last timestamp that was given out.
    pub clock: u64,
    pub now: i64,
    pub faults: Faults,
    pub locks: Locks,
    /// Clients that have released something that others may wait for.
    pub released: Vec<u32>,
    pub deferred: Vec<Deferred>,
    /// Successions that came to be since the last time they were taken, if anyone wants them.
    pub successions: Vec<Succession>,
    pub keep_successions: bool,
    /// The versions that the statement at hand looked at, if anyone wants them.
    pub looked: Vec<(Obj, u64)>,
    pub keep_looked: bool,
    /// Whether rows that do not match count as looked at.
    pub whole_tables: bool,
    slack: u64,
    delay: u64,
}

impl Db {
    pub fn new(config: &SimConfig) -> Self {
        let faults = Faults::new(config);
        let old = [Fault::StaleSnapshot, Fault::TimestampInversion];
        Self {
            store: Store::new(config),
            txns: (0..config.clients).map(|_| Txn::default()).collect(),
            clock: TICK,
            now: 0,
            locks: Locks::new(config.clients as usize),
            released: Vec::new(),
            deferred: Vec::new(),
            successions: Vec::new(),
            keep_successions: config.evidence.version_order > 0,
            looked: Vec::new(),
            keep_looked: config.evidence.version_set > 0,
            whole_tables: config.protocol.sees_whole_tables(),
            slack: if old.into_iter().any(|f| faults.armed(f)) { 8 * TICK } else { 0 },
            delay: config.timing.latency * 4,
            faults,
        }
    }

    /// A new timestamp.
    pub fn tick(&mut self) -> u64 {
        self.clock += TICK;
        self.clock
    }

    /// Whether a fault happens now; if so it is written down for the transaction of `me`.
    pub fn fault(&mut self, me: usize, fault: Fault) -> bool {
        let fires = self.faults.roll(fault);
        if fires {
            self.record(me, fault);
        }
        fires
    }

    /// Writes a firing down.
    pub fn record(&mut self, me: usize, fault: Fault) -> u32 {
        let id = self.faults.record(fault, self.txns[me].label, self.now);
        self.txns[me].firings.push(id);
        id
    }

    /// The other clients that have an uncommitted write of `obj`, with it.
    pub fn pending(&self, me: usize, obj: Obj) -> impl Iterator<Item = (usize, &Pending)> {
        let others = self.txns.iter().enumerate().filter(move |(client, _)| *client != me);
        others.filter_map(move |(client, txn)| Some((client, txn.own(obj)?)))
    }

    /// What `me` sees of an object.
    pub fn see(&mut self, me: usize, obj: Obj, view: ReadView) -> Seen {
        let early = self.see_own(me, obj).or_else(|| self.see_wrong(me, obj));
        early.unwrap_or_else(|| self.see_version(me, obj, view))
    }

    /// What `me` has written itself.
    pub fn see_own(&mut self, me: usize, obj: Obj) -> Option<Seen> {
        let value = self.txns[me].own(obj)?.value.clone();
        let skip = self.faults.armed(Fault::OwnWriteNotRead) && self.store.chain(obj).latest().value != value;
        let skipped = skip && self.fault(me, Fault::OwnWriteNotRead);
        (!skipped).then_some(Seen { obj, value, writer: None })
    }

    /// What is committed, as far as the view goes.
    pub fn see_version(&mut self, me: usize, obj: Obj, view: ReadView) -> Seen {
        if view == ReadView::Dirty
            && let Some((client, pending)) = self.pending(me, obj).next()
        {
            let writer = (!pending.untold).then_some(self.txns[client].label);
            return Seen { obj, value: pending.value.clone(), writer };
        }
        let chain = self.store.chain(obj);
        let version = match view {
            ReadView::AsOf(ts) => chain.as_of(ts),
            ReadView::Latest | ReadView::Dirty => chain.latest(),
        };
        let writer = (!version.untold).then_some(version.txn);
        let seen = Seen { obj, value: version.value.clone(), writer };
        let marks = [version.mark, chain.mark];
        marks.into_iter().filter(|&mark| mark != CLEAN).for_each(|mark| self.txns[me].firings.push(mark));
        seen
    }

    /// A read that returns what it must not, if one of the faults that do so fires.
    ///
    /// Whatever would make an honest reader wait does not count.
    pub fn see_wrong(&mut self, me: usize, obj: Obj) -> Option<Seen> {
        if !self.faults.in_reads {
            return None;
        }
        let pending = self.pending(me, obj).next();
        let pending = pending.map(|(client, w)| (client, w.value.clone(), w.overwritten.clone(), w.untold));
        if let Some((client, dirty, overwritten, untold)) = pending {
            let writer = (!untold).then_some(self.txns[client].label);
            if let Some(value) = overwritten
                && self.fault(me, Fault::IntermediateRead)
            {
                return Some(Seen { obj, value, writer });
            }
            if self.fault(me, Fault::DirtyRead) {
                return Some(Seen { obj, value: dirty, writer });
            }
        }
        let (writer, value) = self.store.chain(obj).aborted.clone()?;
        self.fault(me, Fault::AbortedRead).then_some(Seen { obj, value, writer: Some(writer) })
    }

    /// What a write of `me` starts from: its own earlier write, or a version.
    pub fn base(&mut self, me: usize, obj: Obj, view: ReadView) -> Value {
        if let Some(own) = self.txns[me].own(obj) {
            return own.value.clone();
        }
        let chain = self.store.chain(obj);
        match view {
            ReadView::AsOf(ts) => chain.as_of(ts).value.clone(),
            ReadView::Latest | ReadView::Dirty => chain.latest().value.clone(),
        }
    }

    /// Writes, for `me` alone so far.
    pub fn put(&mut self, me: usize, obj: Obj, value: Value) {
        let writes = &mut self.txns[me].writes;
        match writes.iter_mut().find(|w| w.obj == obj) {
            Some(own) => own.overwritten = Some(std::mem::replace(&mut own.value, value)),
            None => writes.push(Pending { obj, value, overwritten: None, untold: false }),
        }
    }

    /// The rows that match for `me` in a view, its own writes included; faults of reads do not
    /// count here.
    pub fn matching(&mut self, me: usize, cond: Cond, view: ReadView) -> Vec<Obj> {
        let mut rows = self.candidates(cond);
        rows.retain(|&row| cond.matches(&self.base(me, row, view)));
        rows
    }

    /// Rows that may match for anybody in any view, in order: the others need not be looked at.
    pub fn candidates(&self, cond: Cond) -> Vec<Obj> {
        let mut rows = self.store.candidates(cond);
        let stored = rows.len();
        rows.extend(self.pending_rows(cond).map(|(_, w)| w.obj));
        if rows.len() > stored {
            rows.sort_unstable();
            rows.dedup();
        }
        rows
    }

    /// Uncommitted writes of rows that match before or after them, with the clients whose they are.
    pub fn pending_rows(&self, cond: Cond) -> impl Iterator<Item = (usize, &Pending)> {
        let all = self
            .txns
            .iter()
            .enumerate()
            .flat_map(|(client, txn)| txn.writes.iter().map(move |w| (client, w)));
        all.filter(move |(_, w)| {
            w.obj.space == Space::Row
                && (cond.matches(&w.value)
                    || w.overwritten.as_ref().is_some_and(|value| cond.matches(value))
                    || cond.matches(&self.store.row(w.obj).latest().value))
        })
    }

    /// Gives `me` its snapshot if it has none, at its first statement.
    pub fn take_snapshot(&mut self, me: usize) -> u64 {
        if let Some(snapshot) = self.txns[me].snapshot {
            let fresh = self.txns[me].statement.is_none() && snapshot < self.clock;
            if !(fresh && self.fault(me, Fault::StatementSnapshot)) {
                return snapshot;
            }
        }
        let snapshot = self.possibly_stale(me);
        self.txns[me].snapshot = Some(snapshot);
        snapshot
    }

    /// The present time, or, by a fault, some time ago.
    pub fn possibly_stale(&mut self, me: usize) -> u64 {
        let age = TICK * 5;
        if self.clock > age && self.fault(me, Fault::StaleSnapshot) {
            return self.clock - TICK * (1 + self.faults.choice.below(4));
        }
        self.clock
    }

    /// What nobody can see any more is older than this.
    fn horizon(&self) -> u64 {
        let active = self.txns.iter().filter(|t| t.label != 0);
        let oldest = active.filter_map(|t| t.snapshot.into_iter().chain(t.statement).min()).min();
        oldest.unwrap_or(self.clock).saturating_sub(self.slack)
    }

    /// Installs the writes of `me` at `ts` and ends its transaction.
    pub fn commit(&mut self, me: usize, ts: u64) {
        let horizon = self.horizon();
        self.store.settle(horizon);
        let writes = std::mem::take(&mut self.txns[me].writes);
        let now = self.fractured_part(me, writes.len());
        for (i, write) in writes.into_iter().enumerate() {
            let version = Version { untold: write.untold, ..self.version(me, write.value, ts) };
            if i < now {
                self.install_possibly_wrong(me, write.obj, version, horizon)
            } else {
                self.defer(me, write.obj, version, true)
            }
        }
        for &firing in &self.txns[me].firings {
            self.faults.firings[firing as usize].visible = true;
        }
        self.end(me);
    }

    fn version(&self, me: usize, value: Value, ts: u64) -> Version {
        let mark = self.txns[me].mark.unwrap_or(CLEAN);
        Version { ts, txn: self.txns[me].label, value, read_ts: 0, mark, untold: false }
    }

    /// How many of `writes` are installed at once: all, unless a fault splits the commit.
    fn fractured_part(&mut self, me: usize, writes: usize) -> usize {
        if writes > 1 && self.faults.roll(Fault::FracturedCommit) {
            self.faults.record(Fault::FracturedCommit, self.txns[me].label, self.now);
            return 1 + self.faults.choice.below(writes as u64 - 1) as usize;
        }
        writes
    }

    /// The last firing that was written down.
    fn last_firing(&self) -> u32 {
        self.faults.firings.len() as u32 - 1
    }

    fn install_possibly_wrong(&mut self, me: usize, obj: Obj, mut version: Version, horizon: u64) {
        let label = self.txns[me].label;
        if self.faults.roll(Fault::WriteLost) {
            self.store.chain(obj).mark = self.faults.record(Fault::WriteLost, label, self.now);
            return self.store.changed(obj);
        }
        if !version.untold
            && self.faults.roll(Fault::VersionOrderInverted)
            && let Some(neighbours) = self.store.chain(obj).install_below(version.clone())
        {
            self.succeed(obj, label, neighbours);
            self.store.chain(obj).mark = self.faults.record(Fault::VersionOrderInverted, label, self.now);
            return self.store.changed(obj);
        }
        if self.faults.roll(Fault::WriteTwice) {
            version.mark = self.faults.record(Fault::WriteTwice, label, self.now);
            match &version.value {
                Value::List(items) => {
                    version.value = Value::List(items.iter().chain(items.last()).copied().collect());
                }
                _ => self.defer(me, obj, version.clone(), false),
            }
        }
        self.install(obj, version, horizon);
    }

    fn install(&mut self, obj: Obj, version: Version, horizon: u64) {
        let label = version.txn;
        let chain = self.store.chain(obj);
        chain.mark = CLEAN;
        let untold = version.untold;
        let neighbours = chain.install(version, horizon);
        self.store.changed(obj);
        if !untold {
            self.succeed(obj, label, neighbours);
        }
    }

    fn succeed(&mut self, obj: Obj, label: u64, (earlier, later): (Option<u64>, Option<u64>)) {
        if !self.keep_successions {
            return;
        }
        let before = earlier.map(|earlier| Succession { obj, earlier, later: label });
        let after = later.map(|later| Succession { obj, earlier: label, later });
        self.successions.extend(before.into_iter().chain(after));
    }

    fn defer(&mut self, me: usize, obj: Obj, mut version: Version, first: bool) {
        version.mark = self.last_firing();
        if first {
            self.store.chain(obj).mark = version.mark;
            self.store.changed(obj);
        }
        if self.txns[me].phase != TIMESTAMP_ORDER {
            version.ts = 0;
        }
        let at = self.now + 1 + self.faults.choice.below(self.delay) as i64;
        self.deferred.push(Deferred { at, obj, version, first });
    }

    /// Applies what a fault had put off.
    pub fn apply(&mut self, deferred: Deferred) {
        let Deferred { obj, mut version, first, .. } = deferred;
        if version.ts == 0 {
            version.ts = self.tick();
        }
        let (keep, horizon) = (self.keep_successions, self.horizon());
        self.keep_successions &= first;
        self.install(obj, version, horizon);
        self.keep_successions = keep;
    }

    /// Ends the transaction of `me` without its writes.
    pub fn abort(&mut self, me: usize, ts: u64) {
        let writes = std::mem::take(&mut self.txns[me].writes);
        let keep = !writes.is_empty() && self.faults.roll(Fault::AbortedWriteKept);
        let label = self.txns[me].label;
        if keep {
            self.faults.record(Fault::AbortedWriteKept, label, self.now);
        }
        let horizon = self.horizon();
        for write in writes {
            if self.faults.armed(Fault::AbortedRead) {
                self.store.chain(write.obj).aborted = Some((label, write.value.clone()));
            }
            if keep {
                let version =
                    Version { mark: self.last_firing(), untold: true, ..self.version(me, write.value, ts) };
                self.store.chain(write.obj).install(version, horizon);
            }
            self.store.changed(write.obj);
        }
        self.end(me);
    }

    fn end(&mut self, me: usize) {
        self.released.push(me as u32);
        let txn = &mut self.txns[me];
        txn.label = 0;
        txn.snapshot = None;
        txn.statement = None;
        txn.phase = 0;
        txn.mark = None;
        txn.firings.clear();
    }
}

/// The phase of transactions whose versions keep their timestamp even if they are installed late.
pub(crate) const TIMESTAMP_ORDER: u8 = u8::MAX;
