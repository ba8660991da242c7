//! A transaction while it runs, and until it has been judged.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

use hashbrown::HashMap;
use margay_history::{Interval, ObjectId, OpId, OpKind, PredicateId, ReadLock, TxnId, ValueId};
use margay_mechanisms::{Course, Pattern, Saw, Unseen, World, Written, returned, took_effect};
use margay_verdict::mechanism::{Locking, Mechanisms, ReadView};

use crate::mirror::{Asked, Trace};
use crate::writes::Writes;

/// What one operation tells of others' versions of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub op: OpId,
    pub at: Interval,
    pub object: ObjectId,
    pub saw: Saw,
    /// Whether it saw what was newest at a point of its own, not a snapshot.
    pub current: bool,
}

/// A search whose rows are known.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub op: OpId,
    pub at: Interval,
    pub predicate: PredicateId,
    /// Whether it is the search of an update.
    pub update: bool,
    /// Whether rows that it left out were not there to be found.
    pub whole: bool,
    /// The objects of which it says nothing beyond what stands among the reads: those that it
    /// returned, and those that its transaction had written.
    pub skip: Vec<ObjectId>,
    /// Rows that its transaction had made match and that it did not return.
    pub missed: bool,
    /// How many writes that nobody saw its transaction had made before.
    pub unseen: usize,
    /// Whether it locks what it searched although plain ones do not.
    pub locks: bool,
}

/// An operation that may lock an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub op: OpId,
    pub at: Interval,
    pub object: ObjectId,
    pub kind: OpKind,
    pub value: ValueId,
    /// How it locks although plain reads may not.
    pub lock: Option<ReadLock>,
    /// Whether it locks what is not there.
    pub gaps: bool,
    /// When what it wrote was changed again at the earliest, where searches lock what they
    /// searched.
    pub again: i64,
}

impl Taken {
    pub fn exclusive(&self) -> bool {
        self.kind.writes() || (self.lock == Some(ReadLock::Exclusive) && returned(self.value))
    }

    /// Whether there was something to lock. Where searches lock what they searched, a read of
    /// nothing locks too.
    pub fn counts(&self, reads: bool, regions: bool) -> bool {
        let there = regions || self.gaps || returned(self.value);
        self.exclusive() || ((reads || self.lock.is_some()) && there)
    }
}

/// A transaction so far.
#[derive(Debug)]
pub(crate) struct Txn {
    pub id: TxnId,
    pub course: Course,
    pub reads: Vec<Seen>,
    pub searches: Vec<Search>,
    pub taken: Vec<Taken>,
    pub writes: Writes,
    /// Writes of which nobody saw what they changed.
    pub unseen: Vec<Unseen>,
    /// When the last of its operations was answered.
    pub answered: i64,
    /// Reads that did not see their own transaction's write.
    pub missed: Vec<(OpId, ObjectId)>,
}

/// A transaction that has ended; several workers of a process share it. The order is that of the
/// times at which everything of it had been answered.
#[derive(Clone, Debug)]
pub(crate) struct Ended(Arc<Txn>);

impl Ended {
    pub fn new(txn: Box<Txn>) -> Self {
        Self(Arc::new(*txn))
    }
}

impl Deref for Ended {
    type Target = Txn;

    fn deref(&self) -> &Txn {
        &self.0
    }
}

impl Ord for Ended {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.answered, self.id).cmp(&(other.answered, other.id))
    }
}

impl PartialOrd for Ended {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ended {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ended {}

impl Txn {
    pub fn new(id: TxnId) -> Self {
        Self {
            id,
            course: Course::default(),
            reads: Vec::new(),
            searches: Vec::new(),
            taken: Vec::new(),
            writes: Writes::default(),
            unseen: Vec::new(),
            answered: i64::MIN,
            missed: Vec::new(),
        }
    }

    /// Adds the next operation, with its interval on the common clock.
    pub fn push(
        &mut self,
        trace: &Trace<'_>,
        at: Interval,
        asked: &Asked,
        mechanisms: &Mechanisms,
        world: World<'_>,
    ) {
        self.answered = at.after.max(self.answered);
        let own = trace.kind == OpKind::Read
            && trace.accesses.iter().all(|access| self.own(access.object).is_some());
        let like = Like::of(trace.kind, asked, mechanisms);
        self.course.push(trace.kind, at, trace.accesses, own || !like.plain);
        let whole = asked.observed && like.whole;
        if let Some(predicate) = asked.search {
            self.search(trace, at, (predicate, whole, like.gaps), world);
        }
        match trace.kind {
            OpKind::Read | OpKind::Scan => self.read(trace, at, like, world),
            kind if kind.writes() => {
                self.write(trace, at, asked.search.filter(|_| whole), world);
                if mechanisms.view == ReadView::Uncommitted {
                    self.step(trace, at);
                }
            }
            _ => {}
        }
        if let (Some(predicate), Some(pattern)) = (asked.search, &asked.changes) {
            self.unseen.push(Unseen { at, predicate, pattern: pattern.clone() });
        }
    }

    /// Remembers what others see now, where they see what is not committed.
    fn step(&mut self, trace: &Trace<'_>, at: Interval) {
        for access in trace.accesses {
            if let Some(written) = self.writes.get_mut(access.object) {
                written.step(trace.kind, at, access.value);
            }
        }
    }

    /// Whether one of the first `count` writes that nobody saw may have changed an object.
    pub fn is_clouded(&self, object: ObjectId, count: usize, world: World<'_>) -> bool {
        self.unseen[..count].iter().any(|unseen| unseen.touches(object, world.searches, world.values))
    }

    /// No more operations come: what nobody saw may also have changed what it wrote.
    pub fn cloud(&mut self, world: World<'_>) {
        for unseen in &self.unseen {
            for (object, written) in self.writes.iter_mut() {
                if unseen.touches(*object, world.searches, world.values) {
                    written.push_unseen(&unseen.pattern);
                }
            }
        }
    }

    /// Whether others may see what it wrote.
    pub fn is_seen(&self, mechanisms: &Mechanisms) -> bool {
        !self.course.aborted() || mechanisms.view == ReadView::Uncommitted
    }

    /// No more operations come: what it wrote twice was not there to be found for long the first
    /// time.
    pub fn find_changed_again(&mut self) {
        let mut next = HashMap::new();
        for taken in self.taken.iter_mut().rev().filter(|taken| taken.exclusive()) {
            taken.again = next.insert(taken.object, taken.at.before).unwrap_or(i64::MAX);
        }
    }

    /// What it has written of an object.
    pub fn own(&self, object: ObjectId) -> Option<&Written> {
        self.writes.get(object)
    }

    fn read(&mut self, trace: &Trace<'_>, at: Interval, like: Like, world: World<'_>) {
        let repeated = repeated(trace);
        for access in trace.accesses {
            let (op, object, value) = (trace.op, access.object, access.value);
            if value == ValueId::UNKNOWN || like.nothing {
                continue;
            }
            self.taken.push(Taken {
                op,
                at,
                object,
                kind: trace.kind,
                value,
                lock: like.lock,
                gaps: like.gaps,
                again: i64::MAX,
            });
            // PostgreSQL may return an old and a new version of one row to a scan: neither tells
            // anything.
            let twice =
                repeated.binary_search(&object).is_ok() && !(like.alone && self.own(object).is_some());
            if twice || self.is_clouded(object, self.unseen.len(), world) {
                continue;
            }
            match self.own(object).filter(|_| like.keeps_own) {
                Some(own) if !own.shows(value, world.values) => self.missed.push((op, object)),
                Some(_) => {}
                None => {
                    let seen = Seen { op, at, object, saw: Saw::Value(value), current: !like.plain };
                    self.reads.push(seen);
                    if like.refused && returned(value) {
                        self.reads.push(Seen { current: true, ..seen });
                    }
                }
            }
        }
    }

    fn write(&mut self, trace: &Trace<'_>, at: Interval, search: Option<PredicateId>, world: World<'_>) {
        let repeated = if search.is_some() { repeated(trace) } else { Vec::new() };
        for access in trace.accesses {
            let (op, object, value) = (trace.op, access.object, access.value);
            if took_effect(trace.kind, value) {
                let (kind, again) = (trace.kind, i64::MAX);
                self.taken.push(Taken { op, at, object, kind, value, lock: None, gaps: false, again });
            }
            if self.own(object).is_none() {
                let clouded = self.is_clouded(object, self.unseen.len(), world);
                let told = repeated.binary_search(&object).is_err() && !clouded;
                if let Some(predicate) = search.filter(|_| told) {
                    let saw = Saw::With(predicate);
                    self.reads.push(Seen { op, at, object, saw, current: false });
                }
                self.writes.add(object);
            }
            if let Some(written) = self.writes.get_mut(object) {
                written.push(trace.kind, at, value, world.values);
            }
        }
    }

    fn search(
        &mut self,
        trace: &Trace<'_>,
        at: Interval,
        (predicate, whole, locks): (PredicateId, bool, bool),
        world: World<'_>,
    ) {
        let mut skip: Vec<ObjectId> = trace.accesses.iter().map(|access| access.object).collect();
        skip.sort_unstable();
        let made_match =
            |object: ObjectId, own: &Pattern| Saw::Without(predicate).is_changed_by(object, own, world);
        let own = |(object, written): &(ObjectId, Written)| {
            skip.binary_search(object).is_err()
                && !self.is_clouded(*object, self.unseen.len(), world)
                && written.pattern.as_ref().is_some_and(|pattern| made_match(*object, pattern))
        };
        let missed = whole && self.writes.iter().any(own);
        skip.extend(self.writes.iter().map(|(object, _)| *object));
        skip.sort_unstable();
        let (op, update, unseen) = (trace.op, trace.kind.writes(), self.unseen.len());
        self.searches.push(Search { op, at, predicate, update, whole, skip, missed, unseen, locks });
    }
}

/// How an operation reads and locks.
#[derive(Clone, Copy, Debug)]
struct Like {
    /// Whether it sees what plain reads see.
    plain: bool,
    /// Whether rows that it left out were not there to be found.
    whole: bool,
    lock: Option<ReadLock>,
    /// Whether it locks what it searched although plain reads do not.
    gaps: bool,
    /// Whether it would have failed if a row had been changed since the snapshot.
    refused: bool,
    /// Whether nothing is known of what it sees.
    nothing: bool,
    /// Whether it sees no older version beside one of its own transaction.
    alone: bool,
    /// Whether nobody else overwrites what its transaction has written.
    keeps_own: bool,
}

impl Like {
    fn of(kind: OpKind, asked: &Asked, mechanisms: &Mechanisms) -> Self {
        let (locking, locks) = (mechanisms.locking, asked.lock.is_some());
        let nothing = locks && locking == Locking::Nothing;
        let plain = !locks || !(locking.sees_newest() || nothing);
        let whole = if kind.writes() { mechanisms.update_search } else { plain && mechanisms.scans_whole() };
        Self {
            plain,
            whole,
            lock: asked.lock.filter(|_| locking.locks()),
            gaps: locks && locking == Locking::NewestGaps,
            refused: locks && locking == Locking::Snapshot && mechanisms.first_updater_wins,
            nothing,
            alone: plain && mechanisms.sees_own_alone(),
            keeps_own: mechanisms.keeps_own(),
        }
    }
}

/// The objects that an operation tells of more than once, sorted.
fn repeated(trace: &Trace<'_>) -> Vec<ObjectId> {
    if trace.accesses.len() < 2 {
        return Vec::new();
    }
    let mut all: Vec<ObjectId> = trace.accesses.iter().map(|access| access.object).collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0]).collect()
}
