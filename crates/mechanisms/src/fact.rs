//! Versions with installation intervals, and which of them a snapshot can have shown.
//!
//! # Problem
//! A snapshot was taken at an unknown instant of its interval, every version was installed at an
//! unknown instant of its own. Which versions can a read have returned, and at which instants can
//! the snapshot lie?
//!
//! # Algorithm
//! Leopard's five classes. A version is *future* when it was installed after the snapshot for
//! certain. It is *garbage* when another is later for certain and was there before the snapshot for
//! certain: the newest such is the *pivot*. What is left are the candidates: the pivot, versions
//! whose order to the pivot is open (*pivot-overlap*), and versions that may have come just before
//! the snapshot (*overlap*). A read is explained by the candidates that match what it saw.
//! Conversely the snapshot is not before the earliest of these, and not after all their successors
//! (Theorem 2 of the appendix): that narrows its interval, and the reads that share the snapshot
//! are explained again until nothing changes.
//!
//! # Differs from the paper
//! - The theorem speaks of the one version that was read; here every version that may have been
//!   read counts, so that the interval never becomes too small.
//! - The pivot alone does not make others garbage: what counts is that the order of the two is
//!   certain, by time or by what locks and the rule for concurrent updates leave possible.
//! - A version whose transaction's outcome is unknown, or that deletes what may not have been
//!   there, hides nothing.

use margay_history::{Interval, NameId, ObjectId, OpKind, PredicateId, Value, ValueId, Values, Version};
use margay_verdict::mechanism::{Mechanisms, ReadView};

use super::{Course, Pattern, Searches, took_effect};

/// What a transaction has made of one object so far.
#[derive(Clone, Default, Debug)]
pub struct Written {
    /// What it may be now.
    pub pattern: Option<Pattern>,
    /// The first write that took effect for certain.
    pub effect: Option<Interval>,
    /// What it may also have made of it, without that anybody saw it.
    pub unseen: Option<Pattern>,
    /// What it was after each write that took effect, where others see that before the commit.
    pub steps: Vec<WriteStep>,
}

impl Written {
    /// Adds the next write.
    pub fn push(&mut self, kind: OpKind, at: Interval, value: ValueId, values: &Values) {
        self.pattern = Some(Pattern::written(self.pattern.take(), kind, value, values));
        if took_effect(kind, value) {
            self.effect.get_or_insert(at);
        }
    }

    /// Adds a write of which it was not seen what it wrote.
    pub fn push_unseen(&mut self, pattern: &Pattern) {
        self.unseen = Some(match self.unseen.take() {
            Some(before) if before != *pattern => Pattern::Any,
            _ => pattern.clone(),
        });
    }

    /// Remembers what others see now, where they see what is not committed.
    pub fn step(&mut self, kind: OpKind, at: Interval, value: ValueId) {
        let effect = took_effect(kind, value);
        self.steps.extend(self.pattern.clone().map(|pattern| WriteStep { at, pattern, effect }));
    }

    /// Whether there is anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pattern.is_none() && self.unseen.is_none()
    }

    /// Whether the transaction, which began at `start`, may have inserted the object over a
    /// deletion that its snapshot does not show.
    pub fn may_be_inserted<'a>(&self, start: i64, mut others: impl Iterator<Item = &'a Fact>) -> bool {
        self.effect.is_some_and(|at| others.any(|other| other.may_delete(start, at.after)))
    }

    /// Whether a later read of the same transaction may see `value`.
    #[must_use]
    pub fn shows(&self, value: ValueId, values: &Values) -> bool {
        self.unseen.is_some()
            || self.pattern.as_ref().is_none_or(|own| own.is_absent() || own.matches(value, values))
    }

    /// The version that others see, when the transaction has ended and not aborted.
    #[must_use]
    pub fn fact(self, course: &Course, mechanisms: &Mechanisms, values: &Values) -> Fact {
        let pattern = match (self.pattern, self.unseen) {
            (Some(pattern), Some(unseen)) => pattern.clouded(&unseen, values),
            (Some(pattern), None) | (None, Some(pattern)) => pattern,
            (None, None) => Pattern::Any,
        };
        Fact {
            installed: course.installed(mechanisms.view),
            certain: course.committed() && !course.is_opaque() && self.effect.is_some(),
            locked: self
                .effect
                .filter(|&at| course.was_done(at))
                .and_then(|at| course.locked(mechanisms, at)),
            snapshot: self
                .effect
                .filter(|_| !course.is_opaque())
                .and_then(|_| course.snapshot_taken(mechanisms)),
            gone: i64::MAX,
            unchanged: false,
            pattern,
        }
    }

    /// The versions that others see where they see what is not committed: each from its write on,
    /// and until it was undone if the transaction aborted.
    #[must_use]
    pub fn facts(&self, course: &Course, values: &Values) -> Vec<Fact> {
        let gone = if course.aborted() { course.end().after } else { i64::MAX };
        let proves = course.committed() && !course.is_opaque();
        let version = |installed, certain, pattern| Fact {
            gone,
            ..Fact { installed, certain, pattern, ..Fact::initial(ValueId::NULL) }
        };
        let step = |WriteStep { at, pattern, effect }: &WriteStep| {
            let clouded = self.unseen.as_ref().map(|unseen| pattern.clone().clouded(unseen, values));
            version(*at, proves && *effect, clouded.unwrap_or_else(|| pattern.clone()))
        };
        let whole = Interval::new(course.start(), course.end().after);
        let unseen = self.unseen.iter().map(|pattern| version(whole, false, pattern.clone()));
        let mut steps: Vec<Fact> = self.steps.iter().map(step).collect();
        let next = self.steps.iter().skip(1).map(|next| Some(next.at.after).filter(|_| next.effect));
        for (fact, next) in steps.iter_mut().zip(next).filter(|_| !course.is_opaque()) {
            fact.gone = fact.gone.min(next.unwrap_or(i64::MAX));
        }
        unseen.chain(steps).collect()
    }
}

/// The version that a transaction left of an object, given all that it made of it: the last one, by
/// which versions are in order. Where others see what is not committed there are several; a later
/// one that may have changed nothing, or that nobody saw, may be the last too.
#[must_use]
pub fn left<'a>(made: impl Iterator<Item = &'a Fact> + Clone) -> Option<Fact> {
    let latest = made.clone().map(|fact| fact.installed.after).max()?;
    let last = made.filter(|fact| fact.certain).max_by_key(|fact| fact.installed.before)?;
    Some(Fact { installed: Interval::new(last.installed.before, latest), ..last.clone() })
}

/// What an object was after a write.
#[derive(Clone, Debug)]
pub struct WriteStep {
    /// When it was written.
    pub at: Interval,
    /// What it may be.
    pub pattern: Pattern,
    /// Whether the write changed something for certain.
    pub effect: bool,
}

/// One transaction's version of one object, in time.
#[derive(Clone, Debug)]
pub struct Fact {
    /// When it became visible to others.
    pub installed: Interval,
    /// Whether it did for certain.
    pub certain: bool,
    /// By when its writer had locked the object to the end of the transaction, if it did.
    pub locked: Option<i64>,
    /// By when its writer had taken its snapshot, if concurrent updates are refused.
    pub snapshot: Option<i64>,
    /// By when it was undone, if it was.
    pub gone: i64,
    /// Whether it may have left the object as it was, where that makes no version: then nothing
    /// depends on it, and nobody is refused because of it.
    pub unchanged: bool,
    /// What it may be.
    pub pattern: Pattern,
}

/// What an operation tells of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saw {
    /// It returned this value.
    Value(ValueId),
    /// It searched for a condition and did not return the object: the condition was not true of it.
    Without(PredicateId),
    /// It searched for a condition and changed the object: the condition was true of it.
    With(PredicateId),
    /// It returned a row with this column.
    Column(NameId, ValueId),
}

/// What values and conditions mean.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The values.
    pub values: &'a Values,
    /// The conditions.
    pub searches: &'a Searches,
}

/// What a read saw of one object, and the versions that others made of it.
#[derive(Clone, Copy, Debug)]
pub struct ObjectSight<'a> {
    /// The object.
    pub object: ObjectId,
    /// What it saw.
    pub saw: Saw,
    /// The versions, in any order; not the reader's own.
    pub versions: &'a [&'a Fact],
}

/// The versions of an [`ObjectSight`] that may have been seen, by their places.
pub type Candidates = Vec<usize>;

impl Fact {
    /// The initial version. Where it is not known, it may have been anything, or absent.
    #[must_use]
    pub fn initial(value: ValueId) -> Self {
        let installed = Interval::new(i64::MIN, i64::MIN);
        let pattern = if value == ValueId::UNKNOWN { Pattern::Any } else { Pattern::Value(value) };
        Self {
            installed,
            certain: true,
            locked: None,
            snapshot: None,
            gone: i64::MAX,
            unchanged: false,
            pattern,
        }
    }

    /// What a transaction of which nobody heard any more may have done last, where others see what
    /// is not committed: a statement that was not answered stands in no recording, and may have
    /// written anything, also later.
    #[must_use]
    pub fn unheard(course: &Course, view: ReadView) -> Option<Self> {
        let heard = course.committed() || course.aborted() || view != ReadView::Uncommitted;
        let last = || Fact {
            installed: course.end(),
            certain: false,
            pattern: Pattern::Any,
            ..Fact::initial(ValueId::NULL)
        };
        (!heard && !course.is_empty()).then(last)
    }

    /// Whether `later` was installed after this one for certain, if both were.
    ///
    /// By time; or because the other order is impossible: `later`'s writer still held its lock when
    /// this writer had got it, or had not committed when this writer had its snapshot.
    #[must_use]
    pub fn before(&self, later: &Fact) -> bool {
        self.installed.after < later.installed.before
            || (self.certain && later.certain && self.precludes(later) && !later.precludes(self))
    }

    /// Leaves open by when the writer, which began at `start`, had its snapshot, if it may have
    /// inserted the object over a deletion that the snapshot does not show: such an insertion is
    /// refused nowhere for certain. PostgreSQL takes it for another row, whoever changed the one
    /// that is gone.
    pub fn may_be_inserted<'a>(&mut self, start: i64, mut others: impl Iterator<Item = &'a Fact>) {
        let Some(written) = self.locked else { return };
        if others.any(|other| other.may_delete(start, written)) {
            self.snapshot = None;
        }
    }

    /// Whether it changed the object for certain.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.certain && !self.unchanged
    }

    /// Marks it if it may have left the object as it was: each column that it has may have been so
    /// before. Nobody is refused because of it then.
    pub fn may_change_nothing(&mut self, others: &[&Fact], values: &Values) {
        let was = |saw: &dyn Fn(&Pattern) -> bool, determines: &dyn Fn(&Pattern) -> bool| {
            let all = || others.iter().copied().filter(|other| determines(&other.pattern));
            let there = all().filter(|other| other.certain && other.installed.after < self.installed.before);
            let newest = there.map(|other| other.installed.before).max();
            let passed = |other: &Fact| newest.is_some_and(|newest| other.installed.after < newest);
            all().any(|other| saw(&other.pattern) && !passed(other) && self.may_follow(other, all()))
        };
        self.unchanged = match &self.pattern {
            Pattern::New(_) | Pattern::Tail(_) => false,
            Pattern::Value(value) if *value == ValueId::NULL => false,
            Pattern::Value(value) => was(&|other| other.matches(*value, values), &|_| true),
            Pattern::Row(columns) => columns.iter().all(|&(name, value)| {
                was(&|other| other.shows(name, value, values), &|other| other.determines(name))
            }),
            Pattern::Any | Pattern::List(_) => true,
        };
        if self.unchanged {
            self.snapshot = None;
        }
    }

    /// Whether it may have come right after `other`, of all these. The rule for concurrent updates
    /// says nothing of who changed nothing, so only time and locks tell.
    fn may_follow<'a>(&self, other: &Fact, mut all: impl Iterator<Item = &'a Fact>) -> bool {
        let before = |one: &Fact, later: &Fact| Fact { snapshot: None, ..one.clone() }.before(later);
        let between = |one: &Fact| one.certain && before(other, one) && before(one, self);
        !before(self, other) && !all.any(between)
    }

    /// Whether it may have deleted the object between these times.
    #[must_use]
    pub fn may_delete(&self, since: i64, by: i64) -> bool {
        self.pattern.may_be_absent() && self.installed.before <= by && self.installed.after >= since
    }

    /// Whether `next` was installed right after this one for certain: every other version was there
    /// before, or came later.
    #[must_use]
    pub fn right_before<'a>(&self, next: &Fact, mut others: impl Iterator<Item = &'a Fact>) -> bool {
        self.before(next) && others.all(|other| other.before(self) || next.before(other))
    }

    /// Whether the mechanisms rule out that `other` was installed before this one.
    fn precludes(&self, other: &Fact) -> bool {
        let too_late = |mine: Option<i64>, theirs: Option<i64>| {
            theirs.is_some() && mine.is_some_and(|mine| mine < other.installed.before)
        };
        too_late(self.locked, other.locked) || too_late(self.snapshot, other.snapshot)
    }
}

impl ObjectSight<'_> {
    /// The candidates of a snapshot that match what was seen.
    #[must_use]
    pub fn candidates(&self, snapshot: Interval, world: World<'_>) -> Candidates {
        let all = self.versions.iter().enumerate();
        let fits = |v: &Fact| self.is_possible(v, snapshot) && self.fits(v, world);
        all.filter(|(_, v)| fits(v)).map(|(i, _)| i).collect()
    }

    /// How many versions a snapshot may have shown, whatever was seen.
    #[must_use]
    pub fn possible(&self, snapshot: Interval) -> usize {
        self.versions.iter().filter(|version| self.is_possible(version, snapshot)).count()
    }

    /// Whether a version was not installed after the snapshot for certain, and no later one was
    /// there before it for certain.
    fn is_possible(&self, version: &Fact, snapshot: Interval) -> bool {
        let hides = |j: &Fact| j.certain && j.installed.after < snapshot.before && version.before(j);
        version.installed.before <= snapshot.after
            && version.gone >= snapshot.before
            && !self.versions.iter().any(|j| hides(j))
    }

    /// Whether what was seen may be this version.
    fn fits(&self, version: &Fact, world: World<'_>) -> bool {
        let holds = |p| world.searches.holds(p, self.object, &version.pattern, world.values);
        match self.saw {
            Saw::Value(value) => version.pattern.matches(value, world.values),
            Saw::Without(predicate) => holds(predicate) != Some(true),
            Saw::With(predicate) => holds(predicate) != Some(false),
            Saw::Column(name, value) => version.pattern.shows(name, value, world.values),
        }
    }

    /// The snapshot's interval, given that one of `seen` was seen.
    fn narrowed(&self, seen: &[usize], snapshot: Interval) -> Interval {
        let first = seen.iter().map(|&i| self.versions[i].installed.before).min();
        let last = seen.iter().map(|&i| self.replaced(self.versions[i])).max();
        Interval {
            before: snapshot.before.max(first.unwrap_or(i64::MIN)),
            after: snapshot.after.min(last.unwrap_or(i64::MAX)),
        }
    }

    /// By when the version had a successor.
    fn replaced(&self, version: &Fact) -> i64 {
        let later = self.versions.iter().filter(|j| j.certain && version.before(j));
        later.map(|j| j.installed.after).min().unwrap_or(i64::MAX).min(version.gone)
    }

    /// Whether a version is later than whatever was seen, and would have changed it: of a row that
    /// was not returned, one of which the condition is true.
    #[must_use]
    pub fn is_overwritten_by(
        &self,
        seen: &[usize],
        snapshot: Interval,
        version: &Fact,
        world: World<'_>,
    ) -> bool {
        version.changes()
            && self.saw.is_changed_by(self.object, &version.pattern, world)
            && (version.installed.before > snapshot.after
                || seen.iter().all(|&i| self.versions[i].before(version)))
    }
}

impl Saw {
    /// Whether a later version of the object changes what was seen. A row that the same transaction
    /// changed is overwritten by itself first. A partial write of columns that were not seen
    /// changes nothing: MariaDB at SERIALIZABLE reads them from a covering index, whose lock such a
    /// write never meets.
    #[must_use]
    pub fn is_changed_by(self, object: ObjectId, pattern: &Pattern, world: World<'_>) -> bool {
        match self {
            Saw::Value(value) => match (world.values.get(value), pattern) {
                (Value::Row(columns), Pattern::Row(_)) => {
                    columns.iter().any(|&(name, seen)| seen != ValueId::UNKNOWN && pattern.determines(name))
                }
                _ => true,
            },
            Saw::Without(p) => world.searches.holds(p, object, pattern, world.values) == Some(true),
            Saw::With(_) | Saw::Column(..) => false,
        }
    }

    /// The columns of a row that was returned, each with the versions that determine it, as far as
    /// partial writes left them alone: there the versions of the whole row say nothing.
    #[must_use]
    pub fn columns<'a>(self, versions: &[&'a Fact], values: &Values) -> Vec<(Saw, Vec<&'a Fact>)> {
        let Saw::Value(value) = self else { return Vec::new() };
        let Value::Row(columns) = values.get(value) else { return Vec::new() };
        let left_alone = |name| versions.iter().any(|version| !version.pattern.determines(name));
        let of = |&(name, seen): &(NameId, ValueId)| {
            let determining = versions.iter().filter(|version| version.pattern.determines(name));
            (Saw::Column(name, seen), determining.copied().collect())
        };
        columns.iter().filter(|(name, seen)| *seen != ValueId::UNKNOWN && left_alone(*name)).map(of).collect()
    }
}

/// Bounds the versions of transactions whose outcome is unknown by the locks of others.
///
/// A transaction that had locked the object and has not been heard of since has ended by the time
/// at which another one got the lock: whatever it installed was there by then. `U` got it after the
/// unknown one, and not before, if it still held it when the unknown one had it.
pub fn close_unknown(versions: &mut [(Version, Fact)]) {
    for place in 0..versions.len() {
        let unknown = &versions[place].1;
        let (false, Some(locked)) = (unknown.certain, unknown.locked) else { continue };
        let later = versions.iter().filter(|(_, other)| other.certain && other.installed.before > locked);
        let by = later.filter_map(|(_, other)| other.locked).min();
        if let Some(by) = by.filter(|&by| by < unknown.installed.after) {
            let installed = &mut versions[place].1.installed;
            installed.after = by.max(installed.before);
        }
    }
}

/// The interval of the snapshot that all these reads share, as far as they narrow it, or the place
/// of the read that no candidate explains.
///
/// # Errors
/// The place of a read for which nothing is left.
pub fn explain(reads: &[ObjectSight<'_>], snapshot: Interval, world: World<'_>) -> Result<Interval, usize> {
    let mut snapshot = snapshot;
    loop {
        let before = snapshot;
        for (place, read) in reads.iter().enumerate() {
            let seen = read.candidates(snapshot, world);
            snapshot = read.narrowed(&seen, snapshot);
            if seen.is_empty() || snapshot.before > snapshot.after {
                return Err(place);
            }
        }
        if snapshot == before {
            return Ok(snapshot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(before: i64, after: i64, value: u32) -> Fact {
        let installed = Interval::new(before, after);
        Fact { installed, pattern: Pattern::Value(ValueId(value)), ..Fact::initial(ValueId::NULL) }
    }

    #[test]
    fn the_five_classes() {
        // Garbage, pivot, pivot-overlap, overlap, future; all match, for nothing was observed.
        let all = [fact(0, 5, 10), fact(20, 30, 11), fact(4, 25, 12), fact(45, 60, 13), fact(56, 70, 14)];
        let refs: Vec<&Fact> = all.iter().collect();
        let read = ObjectSight { object: ObjectId(0), saw: Saw::Value(ValueId::UNKNOWN), versions: &refs };
        let world = World { values: &Values::default(), searches: &Searches::default() };
        assert_eq!(read.candidates(Interval::new(40, 55), world), [1, 2, 3]);
    }

    #[test]
    fn locks_order_what_time_does_not() {
        let (mut a, mut b) = (fact(20, 40, 10), fact(38, 50, 11));
        assert!(!a.before(&b) && !b.before(&a));
        (a.locked, b.locked) = (Some(10), Some(39));
        assert!(a.before(&b) && !b.before(&a));
    }

    #[test]
    fn two_reads_that_share_a_snapshot_narrow_it() {
        let mut values = Values::default();
        let (old, new) = (values.int(1), values.int(2));
        let (x0, x1) = (Fact::initial(old), Fact { pattern: Pattern::Value(new), ..fact(10, 20, 0) });
        let (y0, y1) = (Fact::initial(old), Fact { pattern: Pattern::Value(new), ..fact(30, 40, 0) });
        let (x, y) = ([&x0, &x1], [&y0, &y1]);
        let see = |seen_x, seen_y| {
            let sight =
                |value, versions| ObjectSight { object: ObjectId(0), saw: Saw::Value(value), versions };
            let reads = [sight(seen_x, &x[..]), sight(seen_y, &y[..])];
            explain(&reads, Interval::new(5, 50), World { values: &values, searches: &Searches::default() })
        };
        assert_eq!(see(new, old), Ok(Interval::new(10, 40)));
        assert_eq!(see(old, old), Ok(Interval::new(5, 20)));
        assert!(see(old, new).is_err(), "x was replaced before y was");
    }
}
