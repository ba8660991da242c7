//! What is remembered of one object: its versions, who read them, and who locked it.
//!
//! # Algorithm
//! Everything of an object is kept until the *horizon*: the earliest time at which a transaction that is not judged yet can have done anything. A
//! version goes when another is later for certain and was there before the horizon; a lock when it was given up before the horizon; a
//! reader when the certifier has forgotten its transaction. An object is tidied when it is touched, so nothing is ever searched as a whole.
//!
//! A transaction of unknown outcome may install its versions at any later time. Where writers lock, the next writer's lock ends that ([`close_unknown`]). Elsewhere the
//! versions of many such transactions of one object become one that may be anything: nothing is accused because of it, and memory stays bounded.

use std::borrow::Cow;

use margay_history::{Interval, ObjectId, OpId, OpKind, TxnId, ValueId, Values, Version};
use margay_verdict::mechanism::{Fact, Pattern, Saw, View, World, close_unknown, left};

/// A lock of a transaction that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub txn: TxnId,
    pub op: OpId,
    /// The how-many-th transaction to end holds it.
    pub order: u64,
    /// By when it was taken.
    pub by: i64,
    /// Until when it was held at least.
    pub until: i64,
    /// Until when what the operation wrote stayed so at least: its own transaction may have changed it again.
    pub stayed: i64,
    /// Whether nobody else holds one.
    pub exclusive: bool,
    pub kind: OpKind,
    pub value: ValueId,
}

impl Held {
    /// What the operation made of the object, as far as it alone tells.
    pub fn made(&self, values: &Values) -> Pattern {
        Pattern::written(None, self.kind, self.value, values)
    }
}

/// A committed transaction that has read the object.
#[derive(Clone, Copy, Debug)]
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

/// So many versions of unknown outcome of one object are kept one by one.
const UNKNOWN: usize = 8;

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

    /// Many old versions that may appear at any time become one that may be anything. Newer ones are as few as transactions that are not judged yet, and tell these apart.
    fn forget_unknown(&mut self, horizon: i64) {
        let open = |fact: &Fact| {
            !fact.certain && fact.installed.after == i64::MAX && fact.installed.before < horizon
        };
        if self.versions.iter().filter(|(_, fact)| open(fact)).count() <= UNKNOWN {
            return;
        }
        let first =
            self.versions.iter().filter(|(_, fact)| open(fact)).map(|(_, fact)| fact.installed.before);
        let installed = Interval::new(first.min().unwrap_or(i64::MIN), i64::MAX);
        self.versions.retain(|(_, fact)| !open(fact));
        let any = Fact { installed, certain: false, pattern: Pattern::Any, ..Fact::initial(ValueId::NULL) };
        self.versions.push((FORGOTTEN, any));
    }

    /// Adds what unseen writes may have made of it, now that it has seen so much of the logs. A version that the same transaction made visibly says so already.
    pub fn catch_up(&mut self, mut new: Vec<(Version, Fact)>, seen: [u64; 2], horizon: i64, values: &Values) {
        self.caught_up = seen;
        let made = |version: &Version| self.versions.iter().any(|(known, _)| known == version);
        new.retain(|(version, fact)| fact.pattern == Pattern::Any || !made(version));
        self.versions.extend(new);
        // What nobody can have seen is not to be mixed with what somebody may have.
        self.tidy_versions(horizon, values);
        self.merge_unseen(horizon);
        self.forget_unknown(horizon);
    }

    /// Many old versions that may have been there become one that may be anything.
    fn merge_unseen(&mut self, horizon: i64) {
        let old = |fact: &Fact| !fact.certain && fact.installed.after < horizon;
        let all = || self.versions.iter().filter(|(_, fact)| old(fact)).map(|(_, fact)| fact.installed);
        if all().count() <= UNKNOWN {
            return;
        }
        let first = all().map(|at| at.before).min().unwrap_or(i64::MIN);
        let installed = Interval::new(first, all().map(|at| at.after).max().unwrap_or(horizon));
        self.versions.retain(|(_, fact)| !old(fact));
        let any = Fact { installed, certain: false, pattern: Pattern::Any, ..Fact::initial(ValueId::NULL) };
        self.versions.push((FORGOTTEN, any));
    }

    /// Forgets what nobody can touch any more. A partial row hides only what it determines itself.
    pub fn tidy(&mut self, horizon: i64, values: &Values, is_live: impl Fn(TxnId) -> bool) {
        if !self.held.is_empty() {
            self.held.retain(|lock| lock.until >= horizon);
        }
        self.tidy_readers(is_live);
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

    /// Forgets the readers that are forgotten elsewhere, when there are twice as many as the last time: so each is looked at only a few times.
    pub fn tidy_readers(&mut self, is_live: impl Fn(TxnId) -> bool) {
        if self.readers.len() > 2 * self.left + 4 {
            self.readers.retain(|reader| is_live(reader.txn));
            self.left = self.readers.len();
        }
    }

    /// The version that was seen, if only one was there before the snapshot, and each other came after it.
    pub fn only(
        &self,
        object: ObjectId,
        saw: Saw,
        me: TxnId,
        snapshot: Interval,
        world: World<'_>,
    ) -> Option<Version> {
        let came_later = |fact: &Fact| fact.installed.before > snapshot.after;
        let mut there = self.versions.iter().filter(|(_, fact)| !came_later(fact));
        let (version, fact) = there.next()?;
        let matches = || match saw {
            Saw::Value(value) => fact.pattern.matches(value, world.values),
            Saw::Without(p) => world.searches.holds(p, object, &fact.pattern, world.values) != Some(true),
            Saw::With(_) | Saw::Column(..) => false,
        };
        let fits = there.next().is_none()
            && *version != Version::Of(me)
            && fact.certain
            && fact.installed.after < snapshot.before
            && matches();
        fits.then_some(*version)
    }

    /// Who installed the versions that came first after a time for certain, of those that `counts`, as far as they were there by another; and how many came after it.
    pub fn next_after(&self, time: i64, by: i64, counts: impl Fn(&Fact) -> bool) -> (Vec<TxnId>, u64) {
        let later =
            |(_, fact): &&(Version, Fact)| fact.certain && fact.installed.before > time && counts(fact);
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

    /// The versions that each transaction left, by which they are in order.
    pub fn left(&self, view: View) -> Cow<'_, [(Version, Fact)]> {
        if view != View::Uncommitted {
            return Cow::Borrowed(&self.versions);
        }
        let mut all: Vec<&(Version, Fact)> = self.versions.iter().collect();
        all.sort_by_key(|(version, _)| *version);
        let last =
            |made: &[&(Version, Fact)]| left(made.iter().map(|(_, fact)| fact)).map(|fact| (made[0].0, fact));
        all.chunk_by(|a, b| a.0 == b.0).filter_map(last).collect()
    }
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
        record.tidy(100, &Values::default(), |_| false);
        assert_eq!(record.versions.len(), 1, "the committed version hides the others");
    }

    #[test]
    fn without_locks_many_unknown_versions_become_one() {
        let mut record = Record::of(ValueId::NULL);
        for txn in 0..1_000 {
            let time = i64::from(txn) * 10;
            record.install(TxnId(txn), fact(time, i64::MAX, false, None), time);
            record.install(TxnId(10_000 + txn), fact(time + 1, time + 2, true, None), time);
            record.tidy(time, &Values::default(), |_| false);
            assert!(record.versions.len() <= UNKNOWN + 4, "{}", record.versions.len());
        }
        assert!(record.versions.iter().any(|(version, fact)| *version == FORGOTTEN && !fact.certain));
    }
}
