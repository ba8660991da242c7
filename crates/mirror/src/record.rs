//! What is remembered of one object: its versions, who read them, and who locked it.
//!
//! # Algorithm
//! Everything of an object is kept until the *horizon*: the earliest time at which a transaction
//! that is not judged yet can have done anything. A version goes when another is later for certain
//! and was there before the horizon; a lock when it was given up before the horizon; a reader when
//! the certifier has forgotten its transaction. An object is tidied when it is touched, so nothing
//! is ever searched as a whole.
//!
//! A transaction of unknown outcome may install its versions at any later time. Where writers lock,
//! the next writer's lock ends that ([`close_unknown`]). Elsewhere, and of writes that nobody saw,
//! many old versions that say the same become two, by which nothing is lost; many that say
//! something else each become one that may be anything: nothing is accused because of it, and
//! memory stays bounded.

use std::borrow::Cow;
use std::cmp::Reverse;

use margay_history::{Interval, ObjectId, OpId, OpKind, PredicateId, TxnId, Value, ValueId, Values, Version};
use margay_mechanisms::{Fact, Pattern, Saw, World, close_unknown, left};
use margay_verdict::Edge;
use margay_verdict::mechanism::ReadView;

/// A lock of a transaction that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub txn: TxnId,
    pub op: OpId,
    /// By when it was taken.
    pub by: i64,
    /// Until when it was held at least.
    pub until: i64,
    /// Until when what the operation wrote stayed so at least: its own transaction may have changed
    /// it again.
    pub stayed: i64,
    /// Whether nobody else holds one.
    pub exclusive: bool,
    pub kind: OpKind,
    pub value: ValueId,
    /// The condition by which an update found the object.
    pub found_by: Option<PredicateId>,
}

impl Held {
    /// What the operation made of the object, as far as it alone tells.
    pub fn made(&self, values: &Values) -> Pattern {
        Pattern::written(None, self.kind, self.value, values)
    }
}

/// A committed transaction that has read the object.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Reader {
    pub txn: TxnId,
    pub op: OpId,
    /// What it saw.
    pub saw: Saw,
    /// Which version that may have been.
    pub version: Version,
    /// By when its snapshot was taken.
    pub by: i64,
    /// Whether it saw the value of no other version, and wrote none itself.
    pub sole: bool,
    /// The how-many-th transaction to be judged it is.
    pub number: u64,
}

/// A dependency on its way to the certifier.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MarkedEdge {
    pub edge: Edge,
    /// Whether it is an anti-dependency on the very version that followed the one that was read, as
    /// far as the certifier minds.
    pub direct: bool,
}

#[derive(Default, Debug)]
pub(crate) struct Record {
    /// How much of the logs of its table and of all tables it has seen.
    pub caught_up: [u64; 2],
    pub versions: Vec<(Version, Fact)>,
    pub readers: Vec<Reader>,
    pub held: Vec<Held>,
    /// How many readers were left when they were last looked through.
    left: usize,
}

/// Stands for the versions of transactions of unknown outcome that are not kept one by one.
pub(crate) const FORGOTTEN: Version = Version::Of(TxnId(u32::MAX));

/// More versions of one object that may have been there, or may appear at any time, are looked
/// through for those that say the same.
const UNKNOWN: usize = 8;

/// So many that say something else each are kept.
const APART: usize = 24;

impl Record {
    pub fn of(initial: ValueId) -> Self {
        Self { versions: vec![(Version::Initial, Fact::initial(initial))], ..Self::default() }
    }

    /// Adds a version, and bounds those of unknown outcome.
    pub fn install(&mut self, txn: TxnId, fact: Fact, horizon: i64) {
        self.versions.push((Version::Of(txn), fact));
        if self.versions.iter().any(|(_, fact)| !fact.certain) {
            close_unknown(&mut self.versions);
            self.forget_unknown(horizon);
        }
    }

    /// Bounds the old versions that may have been there, and those that may appear at any time.
    /// Newer ones are as few as transactions that are not judged yet, and tell these apart.
    fn forget_unknown(&mut self, horizon: i64) {
        let passed = |fact: &Fact| is_old(fact, horizon) && fact.installed.after < i64::MAX;
        let open = |fact: &Fact| is_old(fact, horizon) && fact.installed.after == i64::MAX;
        self.forget_alike(horizon);
        self.forget_apart(passed);
        self.forget_apart(open);
    }

    /// Forgets the old versions that say the same as two later ones, or no less. Whoever may have
    /// seen such a version may have seen these, and more than one as before: so nothing is lost.
    fn forget_alike(&mut self, horizon: i64) {
        let mut old: Vec<usize> =
            (0..self.versions.len()).filter(|&place| is_old(&self.versions[place].1, horizon)).collect();
        if old.len() <= UNKNOWN {
            return;
        }
        // A later lock ends what nobody heard of, the earlier the earlier it was locked.
        old.sort_by_key(|&place| {
            let Fact { installed, locked, .. } = &self.versions[place].1;
            Reverse((installed.after, locked.unwrap_or(i64::MAX)))
        });
        let (mut kept, mut gone): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for place in old {
            let pattern = &self.versions[place].1.pattern;
            let mut alike = kept.iter().filter(|&&later| {
                let (version, later) = &self.versions[later];
                later.pattern == *pattern || (later.pattern == Pattern::Any && *version != FORGOTTEN)
            });
            match (alike.next(), alike.next().copied()) {
                (Some(_), Some(second)) => {
                    let before = self.versions[place].1.installed.before;
                    let installed = &mut self.versions[second].1.installed;
                    installed.before = installed.before.min(before);
                    gone.push(place);
                }
                _ => kept.push(place),
            }
        }
        let mut place = 0..;
        self.versions.retain(|_| place.next().is_none_or(|place| !gone.contains(&place)));
    }

    /// Many versions become one that may be anything.
    fn forget_apart(&mut self, which: impl Fn(&Fact) -> bool) {
        let all = || self.versions.iter().filter(|(_, fact)| which(fact)).map(|(_, fact)| fact.installed);
        if all().count() <= APART {
            return;
        }
        let (first, last) = (all().map(|at| at.before).min(), all().map(|at| at.after).max());
        let installed = Interval::new(first.unwrap_or(i64::MIN), last.unwrap_or(i64::MAX));
        self.versions.retain(|(_, fact)| !which(fact));
        let any = Fact { installed, certain: false, pattern: Pattern::Any, ..Fact::initial(ValueId::NULL) };
        self.versions.push((FORGOTTEN, any));
    }

    /// Adds what unseen writes may have made of it, now that it has seen so much of the logs.
    pub fn catch_up(&mut self, new: Vec<(Version, Fact)>, seen: [u64; 2], horizon: i64, values: &Values) {
        self.caught_up = seen;
        self.versions.extend(new);
        // What nobody can have seen is not to be mixed with what somebody may have.
        self.tidy_versions(horizon, values);
        self.forget_unknown(horizon);
    }

    /// Forgets what nobody can touch any more. A partial row hides only what it determines itself.
    pub fn tidy(&mut self, horizon: i64, values: &Values, forgotten: u64) {
        if !self.held.is_empty() {
            self.held.retain(|lock| lock.until >= horizon);
        }
        self.tidy_readers(forgotten);
        self.tidy_versions(horizon, values);
    }

    fn tidy_versions(&mut self, horizon: i64, values: &Values) {
        if self.versions.iter().any(|(_, fact)| fact.gone < horizon) {
            self.versions.retain(|(_, fact)| fact.gone >= horizon);
        }
        let hides = |fact: &Fact| fact.certain && fact.installed.after < horizon;
        let mut place = 0;
        while self.versions.len() > 1 && place < self.versions.len() {
            let (version, fact) = &self.versions[place];
            if fact.installed.before >= horizon {
                place += 1;
                continue;
            }
            let hidden = |(other, later): &(Version, Fact)| {
                other != version
                    && hides(later)
                    && fact.before(later)
                    && later.pattern.covers(&fact.pattern, values)
            };
            match self.versions.iter().any(hidden) {
                true => _ = self.versions.remove(place),
                false => place += 1,
            }
        }
    }

    /// Forgets the readers that are forgotten elsewhere, when there are twice as many as the last
    /// time: so each is looked at only a few times.
    pub fn tidy_readers(&mut self, forgotten: u64) {
        if self.readers.len() > 2 * self.left + 4 {
            self.readers.retain(|reader| reader.number >= forgotten);
            self.left = self.readers.len();
        }
    }

    /// The version that was seen, if those that were there before the snapshot were there for
    /// certain, one after another, and each other came after it. A row is what the last of them
    /// made of each column.
    pub fn only(
        &self,
        object: ObjectId,
        saw: Saw,
        me: TxnId,
        snapshot: Interval,
        world: World<'_>,
    ) -> Option<Version> {
        let there = || self.versions.iter().filter(|(_, fact)| fact.installed.before <= snapshot.after);
        let clear = |(version, fact): &(Version, Fact)| {
            *version != Version::Of(me)
                && fact.certain
                && fact.gone == i64::MAX
                && fact.installed.after < snapshot.before
        };
        let (version, last) = there().max_by_key(|(_, fact)| fact.installed.before)?;
        let first = |(other, fact): &(Version, Fact)| other == version || fact.before(last);
        let fits = match saw {
            Saw::Value(value) => last.pattern.matches(value, world.values),
            Saw::Without(p) => world.searches.holds(p, object, &last.pattern, world.values) != Some(true),
            Saw::With(_) | Saw::Column(..) => false,
        };
        let sure = fits && there().all(|one| clear(one) && first(one));
        (sure && self.shows_columns(saw, last, world.values)).then_some(*version)
    }

    /// Whether each column of a row that the last version left alone is what the last one that
    /// determines it says. Where that is not clear it is not so.
    fn shows_columns(&self, saw: Saw, last: &Fact, values: &Values) -> bool {
        let (Saw::Value(value), Pattern::Row(_)) = (saw, &last.pattern) else { return true };
        let Value::Row(columns) = values.get(value) else { return true };
        columns.iter().all(|&(name, seen)| {
            let determines = |(_, fact): &&(Version, Fact)| {
                fact.pattern.determines(name) && fact.installed.before <= last.installed.before
            };
            let all = || self.versions.iter().filter(determines);
            let newest = all().max_by_key(|(_, fact)| fact.installed.before);
            seen == ValueId::UNKNOWN
                || newest.is_none_or(|(version, fact)| {
                    let alone = all().all(|(other, older)| other == version || older.before(fact));
                    alone && fact.pattern.shows(name, seen, values)
                })
        })
    }

    /// Who installed the versions that came first after a time for certain, of those that `counts`,
    /// as far as they were there by another; and how many came after it.
    pub fn next_after(&self, time: i64, by: i64, counts: impl Fn(&Fact) -> bool) -> (Vec<TxnId>, u64) {
        let later =
            |(_, fact): &&(Version, Fact)| fact.changes() && fact.installed.before > time && counts(fact);
        let all = || self.versions.iter().filter(later);
        let there = || all().filter(|(_, fact)| fact.installed.after <= by);
        let first = |fact: &Fact| !all().any(|(_, other)| other.before(fact));
        let writer = |(version, _): &(Version, Fact)| match version {
            Version::Of(txn) => Some(*txn),
            Version::Initial => None,
        };
        let next = there().filter(|(_, fact)| first(fact)).filter_map(writer).collect();
        (next, there().count() as u64)
    }

    /// Whether the version of `next` is the very one that followed the one that was read, which SSI
    /// asks: a reader of an older version is in conflict with who overwrote that one, and who
    /// overwrites the newer one does not meet its lock. This is decided when everything that may
    /// have been installed before `next` has come, and not later, because versions are forgotten.
    pub fn is_direct(&self, read: Version, next: TxnId, now: i64) -> bool {
        is_direct(&self.versions, read, next, now)
    }

    /// Whether a transaction did not leave the object as it was.
    pub fn changed_by(&self, txn: TxnId) -> bool {
        self.versions.iter().any(|(version, fact)| *version == Version::Of(txn) && fact.changes())
    }

    /// The last version that may have been there at a time, not of this transaction; the initial
    /// one if what was there is forgotten.
    pub fn seen_by(&self, time: i64, me: TxnId) -> Version {
        let there = self.versions.iter().filter(|(version, fact)| {
            *version != FORGOTTEN && *version != Version::Of(me) && fact.installed.before <= time
        });
        there.max_by_key(|(_, fact)| fact.installed.before).map_or(Version::Initial, |(version, _)| *version)
    }

    /// The versions that each transaction left, by which they are in order.
    pub fn left(&self, view: ReadView) -> Cow<'_, [(Version, Fact)]> {
        if view != ReadView::Uncommitted {
            return Cow::Borrowed(&self.versions);
        }
        let mut all: Vec<&(Version, Fact)> = self.versions.iter().collect();
        all.sort_by_key(|(version, _)| *version);
        let last =
            |made: &[&(Version, Fact)]| left(made.iter().map(|(_, fact)| fact)).map(|fact| (made[0].0, fact));
        all.chunk_by(|a, b| a.0 == b.0).filter_map(last).collect()
    }
}

/// As [`Record::is_direct`], of an object with these versions.
pub(crate) fn is_direct(versions: &[(Version, Fact)], read: Version, next: TxnId, now: i64) -> bool {
    let next = Version::Of(next);
    let fact = |wanted| versions.iter().find(|(known, _)| *known == wanted).map(|(_, fact)| fact);
    let (Some(from), Some(to)) = (fact(read), fact(next)) else { return false };
    let others = versions.iter().filter(|(version, _)| *version != read && *version != next);
    to.installed.after < now && from.right_before(to, others.map(|(_, other)| other))
}

/// Whether a version may have been there before the horizon, or may appear at any time. Only by
/// when it was there, if at all, can still tell it from others.
fn is_old(fact: &Fact, horizon: i64) -> bool {
    let Interval { before, after } = fact.installed;
    !fact.certain && fact.gone == i64::MAX && before < horizon && (after < horizon || after == i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(before: i64, after: i64, certain: bool, locked: Option<i64>) -> Fact {
        let installed = Interval::new(before, after);
        let pattern = Pattern::Value(ValueId(7));
        Fact { installed, certain, locked, pattern, ..Fact::initial(ValueId::NULL) }
    }

    #[test]
    fn a_later_lock_ends_what_nobody_heard_of() {
        let mut record = Record::of(ValueId::NULL);
        record.install(TxnId(1), fact(20, i64::MAX, false, Some(10)), 0);
        record.install(TxnId(2), fact(50, 60, true, Some(40)), 0);
        assert_eq!(record.versions[1].1.installed, Interval::new(20, 40));
        record.tidy(100, &Values::default(), u64::MAX);
        assert_eq!(record.versions.len(), 1, "the committed version hides the others");
    }

    #[test]
    fn without_locks_many_unknown_versions_become_one() {
        let mut record = Record::of(ValueId::NULL);
        for txn in 0..1_000 {
            let time = i64::from(txn) * 10;
            let unknown =
                Fact { pattern: Pattern::Value(ValueId(100 + txn)), ..fact(time, i64::MAX, false, None) };
            record.install(TxnId(txn), unknown, time);
            record.install(TxnId(10_000 + txn), fact(time + 1, time + 2, true, None), time);
            record.tidy(time, &Values::default(), u64::MAX);
            assert!(record.versions.len() <= APART + 4, "{}", record.versions.len());
        }
        assert!(record.versions.iter().any(|(version, fact)| *version == FORGOTTEN && !fact.certain));
    }

    #[test]
    fn of_versions_that_say_the_same_the_last_two_are_kept() {
        let mut record = Record::of(ValueId::NULL);
        let new = |txn: u32| {
            (Version::Of(TxnId(txn)), fact(i64::from(txn) * 10, i64::from(txn) * 10 + 5, false, None))
        };
        record.catch_up((0..100).map(new).collect(), [100, 0], 10_000, &Values::default());
        let kept: Vec<(Version, Interval)> =
            record.versions.iter().map(|(v, fact)| (*v, fact.installed)).collect();
        let of = |txn: u32, before, after| (Version::Of(TxnId(txn)), Interval::new(before, after));
        assert_eq!(kept[1..], [of(98, 0, 985), of(99, 990, 995)]);
    }
}
