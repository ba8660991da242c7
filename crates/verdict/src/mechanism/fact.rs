//! Versions with installation intervals, and which of them a snapshot can have shown.
//!
//! # Problem
//! A snapshot was taken at an unknown instant of its interval, every version was installed at an unknown instant of its own. Which versions can a read have
//! returned, and at which instants can the snapshot lie?
//!
//! # Algorithm
//! Leopard's five classes. A version is *future* when it was installed after the snapshot for certain. It is *garbage* when another is later
//! for certain and was there before the snapshot for certain: the newest such is the *pivot*. What is left are the candidates: the pivot, versions whose order
//! to the pivot is open (*pivot-overlap*), and versions that may have come just before the snapshot (*overlap*). A read is explained by the candidates that
//! match what it saw. Conversely the snapshot is not before the earliest of these, and not after all their successors (Theorem 2 of the appendix): that narrows its
//! interval, and the reads that share the snapshot are explained again until nothing changes.
//!
//! # Differs from the paper
//! - The theorem speaks of the one version that was read; here every version that may have been read counts, so that the interval never becomes too small.
//! - The pivot alone does not make others garbage: what counts is that the order of the two is certain, by time or by what locks and the rule for
//!   concurrent updates leave possible.
//! - A version whose transaction's outcome is unknown, or that deletes what may not have been there, hides nothing.

use margay_history::{Interval, OpKind, ValueId, Values};

use super::{Course, Mechanisms, Pattern, took_effect};

/// What a transaction has made of one object so far.
#[derive(Clone, Default, Debug)]
pub struct Written {
    /// What it may be now.
    pub pattern: Option<Pattern>,
    /// The first write that took effect for certain.
    pub effect: Option<Interval>,
}

impl Written {
    /// Adds the next write.
    pub fn push(&mut self, kind: OpKind, at: Interval, value: ValueId, values: &Values) {
        self.pattern = Some(Pattern::written(self.pattern.take(), kind, value, values));
        if took_effect(kind, value) {
            self.effect.get_or_insert(at);
        }
    }

    /// Whether a later read of the same transaction may see `value`.
    #[must_use]
    pub fn shows(&self, value: ValueId, values: &Values) -> bool {
        self.pattern.as_ref().is_none_or(|own| own.is_absent() || own.matches(value, values))
    }

    /// The version that others see, when the transaction has ended and not aborted.
    #[must_use]
    pub fn fact(self, course: &Course, mechanisms: &Mechanisms) -> Fact {
        Fact {
            installed: course.installed(mechanisms.view),
            certain: course.committed() && self.effect.is_some(),
            locked: self.effect.and_then(|at| course.locked(mechanisms, at)),
            snapshot: self.effect.and_then(|_| course.snapshot_taken(mechanisms)),
            pattern: self.pattern.unwrap_or(Pattern::Any),
        }
    }
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
    /// What it may be.
    pub pattern: Pattern,
}

/// What a read saw of one object, and the versions that others made of it.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// What it saw.
    pub value: ValueId,
    /// The versions, in any order; not the reader's own.
    pub versions: &'a [&'a Fact],
}

/// The versions of a [`Sight`] that may have been seen, by their places.
pub type Candidates = Vec<usize>;

impl Fact {
    /// The initial version.
    #[must_use]
    pub fn initial(value: ValueId) -> Self {
        let installed = Interval::new(i64::MIN, i64::MIN);
        Self { installed, certain: true, locked: None, snapshot: None, pattern: Pattern::Value(value) }
    }

    /// Whether `later` was installed after this one for certain, if both were.
    ///
    /// By time; or because the other order is impossible: `later`'s writer still held its lock when this writer had got it, or had not committed
    /// when this writer had its snapshot.
    #[must_use]
    pub fn before(&self, later: &Fact) -> bool {
        self.installed.after < later.installed.before
            || (self.certain && later.certain && self.precludes(later) && !later.precludes(self))
    }

    /// Whether the mechanisms rule out that `other` was installed before this one.
    fn precludes(&self, other: &Fact) -> bool {
        let too_late = |mine: Option<i64>, theirs: Option<i64>| {
            theirs.is_some() && mine.is_some_and(|mine| mine < other.installed.before)
        };
        too_late(self.locked, other.locked) || too_late(self.snapshot, other.snapshot)
    }
}

impl Sight<'_> {
    /// The candidates of a snapshot that match what was seen.
    #[must_use]
    pub fn candidates(&self, snapshot: Interval, values: &Values) -> Candidates {
        let hides = |j: &&&Fact| j.certain && j.installed.after < snapshot.before;
        let hiding: Vec<&&Fact> = self.versions.iter().filter(hides).collect();
        let possible = |version: &Fact| {
            version.installed.before <= snapshot.after && !hiding.iter().any(|j| version.before(j))
        };
        let all = self.versions.iter().enumerate();
        all.filter(|(_, v)| v.pattern.matches(self.value, values) && possible(v)).map(|(i, _)| i).collect()
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
        later.map(|j| j.installed.after).min().unwrap_or(i64::MAX)
    }

    /// Whether a version is later than whatever was seen.
    #[must_use]
    pub fn is_overwritten_by(&self, seen: &[usize], snapshot: Interval, version: &Fact) -> bool {
        version.certain
            && (version.installed.before > snapshot.after
                || seen.iter().all(|&i| self.versions[i].before(version)))
    }
}

/// The interval of the snapshot that all these reads share, as far as they narrow it, or the place of the read that no candidate explains.
///
/// # Errors
/// The place of a read for which nothing is left.
pub fn explain(reads: &[Sight<'_>], snapshot: Interval, values: &Values) -> Result<Interval, usize> {
    let mut snapshot = snapshot;
    loop {
        let before = snapshot;
        for (place, read) in reads.iter().enumerate() {
            let seen = read.candidates(snapshot, values);
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
        let read = Sight { value: ValueId::UNKNOWN, versions: &refs };
        assert_eq!(read.candidates(Interval::new(40, 55), &Values::default()), [1, 2, 3]);
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
            let reads =
                [Sight { value: seen_x, versions: &x[..] }, Sight { value: seen_y, versions: &y[..] }];
            explain(&reads, Interval::new(5, 50), &values)
        };
        assert_eq!(see(new, old), Ok(Interval::new(10, 40)));
        assert_eq!(see(old, old), Ok(Interval::new(5, 20)));
        assert!(see(old, new).is_err(), "x was replaced before y was");
    }
}
