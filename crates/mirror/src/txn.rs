//! A transaction while it runs, and until it has been judged.

use margay_history::{Interval, ObjectId, OpId, OpKind, PredicateId, ValueId};
use margay_verdict::mechanism::{Course, Pattern, Saw, World, Written, returned, took_effect};

use crate::mirror::Trace;

/// What one operation tells of others' versions of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub op: OpId,
    pub at: Interval,
    pub object: ObjectId,
    pub saw: Saw,
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
    /// The objects of which it says nothing beyond what stands among the reads: those that it returned, and those that its transaction had written.
    pub skip: Vec<ObjectId>,
    /// Rows that its transaction had made match and that it did not return.
    pub missed: bool,
}

/// An operation that may lock an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub op: OpId,
    pub at: Interval,
    pub object: ObjectId,
    pub kind: OpKind,
    pub value: ValueId,
}

impl Taken {
    pub fn exclusive(&self) -> bool {
        self.kind.writes()
    }

    /// Whether there was something to lock. Where searches lock what they searched, a read of nothing locks too.
    pub fn counts(&self, reads: bool, regions: bool) -> bool {
        self.exclusive() || (reads && (regions || returned(self.value)))
    }
}

/// A transaction so far.
#[derive(Default, Debug)]
pub(crate) struct Txn {
    pub course: Course,
    pub reads: Vec<Seen>,
    pub searches: Vec<Search>,
    pub taken: Vec<Taken>,
    /// By object, sorted.
    pub writes: Vec<(ObjectId, Written)>,
    /// When the last of its operations was answered.
    pub answered: i64,
    /// A read that did not see its own transaction's write.
    pub missed: Option<OpId>,
}

impl Txn {
    /// Adds the next operation, with its interval on the common clock; of a search whose rows are known its condition, and whether rows that it left out were not there to be found.
    pub fn push(
        &mut self,
        trace: &Trace<'_>,
        at: Interval,
        search: Option<(PredicateId, bool)>,
        world: World<'_>,
    ) {
        self.answered = at.after.max(if self.course.is_empty() { i64::MIN } else { self.answered });
        let own = trace.kind == OpKind::Read
            && trace.accesses.iter().all(|access| self.own(access.object).is_some());
        self.course.push(trace.kind, at, trace.accesses, own);
        if let Some((predicate, whole)) = search {
            self.search(trace, at, (predicate, whole), world);
        }
        let whole = search.filter(|(_, whole)| *whole).map(|(predicate, _)| predicate);
        match trace.kind {
            OpKind::Read | OpKind::Scan => self.read(trace, at, world),
            kind if kind.writes() => self.write(trace, at, whole, world),
            _ => {}
        }
    }

    /// When the object of a lock was written again, at the earliest.
    pub fn changed_again(&self, place: usize) -> Option<i64> {
        let (taken, later) = (&self.taken[place], &self.taken[place + 1..]);
        if !taken.exclusive() {
            return None;
        }
        let next = later.iter().find(|next| next.exclusive() && next.object == taken.object);
        next.map(|next| next.at.before)
    }

    fn own(&self, object: ObjectId) -> Option<&Written> {
        let place = self.writes.binary_search_by_key(&object, |(object, _)| *object).ok()?;
        Some(&self.writes[place].1)
    }

    fn read(&mut self, trace: &Trace<'_>, at: Interval, world: World<'_>) {
        for access in trace.accesses {
            let (op, object, value) = (trace.op, access.object, access.value);
            if value == ValueId::UNKNOWN {
                continue;
            }
            self.taken.push(Taken { op, at, object, kind: trace.kind, value });
            // PostgreSQL may return an old and a new version of one row to a scan: neither tells anything.
            if twice(trace, object) {
                continue;
            }
            match self.own(object) {
                Some(own) if !own.shows(value, world.values) => _ = self.missed.get_or_insert(op),
                Some(_) => {}
                None => self.reads.push(Seen { op, at, object, saw: Saw::Value(value) }),
            }
        }
    }

    fn write(&mut self, trace: &Trace<'_>, at: Interval, search: Option<PredicateId>, world: World<'_>) {
        for access in trace.accesses {
            let (op, object, value) = (trace.op, access.object, access.value);
            if took_effect(trace.kind, value) {
                self.taken.push(Taken { op, at, object, kind: trace.kind, value });
            }
            let place = match self.writes.binary_search_by_key(&object, |(object, _)| *object) {
                Ok(place) => place,
                Err(place) => {
                    if let Some(predicate) = search.filter(|_| !twice(trace, object)) {
                        self.reads.push(Seen { op, at, object, saw: Saw::With(predicate) });
                    }
                    self.writes.insert(place, (object, Written::default()));
                    place
                }
            };
            self.writes[place].1.push(trace.kind, at, value, world.values);
        }
    }

    fn search(
        &mut self,
        trace: &Trace<'_>,
        at: Interval,
        (predicate, whole): (PredicateId, bool),
        world: World<'_>,
    ) {
        let mut skip: Vec<ObjectId> = trace.accesses.iter().map(|access| access.object).collect();
        let made_match =
            |object: ObjectId, own: &Pattern| Saw::Without(predicate).is_changed_by(object, own, world);
        let own = |(object, written): &(ObjectId, Written)| {
            !skip.contains(object)
                && written.pattern.as_ref().is_some_and(|pattern| made_match(*object, pattern))
        };
        let missed = whole && self.writes.iter().any(own);
        skip.extend(self.writes.iter().map(|(object, _)| *object));
        skip.sort_unstable();
        let update = trace.kind.writes();
        self.searches.push(Search { op: trace.op, at, predicate, update, whole, skip, missed });
    }
}

fn twice(trace: &Trace<'_>, object: ObjectId) -> bool {
    trace.accesses.len() > 1 && trace.accesses.iter().filter(|access| access.object == object).count() > 1
}
