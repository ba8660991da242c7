//! The course of one transaction in time: what its mechanisms need to know of it.

use margay_history::{Access, Interval, OpKind, Value, ValueId, Values};
use margay_levels::profile::Granularity;
use margay_verdict::mechanism::{Mechanisms, Points, ReadView};

/// When a transaction did what, on the common clock.
#[derive(Clone, Copy, Default, Debug)]
pub struct Course {
    first: Option<Interval>,
    statement: Option<Interval>,
    read: Option<Interval>,
    /// The first write that took effect for certain.
    write: Option<Interval>,
    statements: u32,
    /// When a statement of which nothing is known was called, if it was the first.
    unclear: Option<i64>,
    opaque: bool,
    /// When the last operation that was answered was called.
    last: i64,
    end: Option<(OpKind, Interval)>,
}

impl Course {
    /// Adds the next operation. A read of nothing but what the transaction wrote itself, or of the
    /// newest versions, need not take a snapshot: then `own` is true.
    pub fn push(&mut self, kind: OpKind, at: Interval, accesses: &[Access], own: bool) {
        self.first.get_or_insert(at);
        if kind.outcome().is_some() {
            self.end = Some((kind, at));
            return;
        }
        self.last = at.before;
        match kind {
            OpKind::Begin => return,
            OpKind::Sql => {
                self.opaque = true;
                if self.statement.is_none() {
                    self.unclear.get_or_insert(at.before);
                }
                return;
            }
            _ => {}
        }
        self.statements += 1;
        let first = self.unclear.unwrap_or(at.before);
        self.statement.get_or_insert(Interval::new(first, at.after));
        if matches!(kind, OpKind::Read | OpKind::Scan) && !own {
            self.read.get_or_insert(at);
        }
        if accesses.iter().any(|access| took_effect(kind, access.value)) {
            self.write.get_or_insert(at);
        }
    }

    /// Whether nothing of it is known yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether it has committed for certain.
    #[must_use]
    pub fn committed(&self) -> bool {
        matches!(self.end, Some((OpKind::Commit, _)))
    }

    /// Whether it has certainly not committed.
    #[must_use]
    pub fn aborted(&self) -> bool {
        matches!(self.end, Some((OpKind::Abort, _)))
    }

    /// Whether it wrote something for certain.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.write.is_some()
    }

    /// Whether it executed a statement of which nothing is known. It may have written anything and
    /// undone whatever it did: nothing that it did proves anything.
    #[must_use]
    pub fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// When it began at the earliest.
    #[must_use]
    pub fn start(&self) -> i64 {
        self.first.map_or(i64::MIN, |at| at.before)
    }

    /// When its end was called for and answered; open towards the future when nobody knows.
    #[must_use]
    pub fn end(&self) -> Interval {
        match self.end {
            Some((OpKind::Commit | OpKind::Abort, at)) => at,
            Some((_, at)) => Interval::new(at.before, i64::MAX),
            None => Interval::new(self.last, i64::MAX),
        }
    }

    /// When its versions became visible to others: at its commit, or where all of it takes place.
    #[must_use]
    pub fn installed(&self, view: ReadView) -> Interval {
        match view {
            ReadView::Within => Interval::new(self.start(), self.end().after),
            _ => self.end(),
        }
    }

    /// The snapshot that all its plain reads see, if it has taken one.
    #[must_use]
    pub fn shared_snapshot(&self, view: ReadView) -> Option<Interval> {
        match view {
            ReadView::Begin => self.first,
            ReadView::FirstStatement => self.statement,
            ReadView::FirstRead => self.read.map(|read| Interval::new(self.start(), read.after)),
            ReadView::Within => Some(Interval::new(self.start(), self.end().after)),
            ReadView::Uncommitted | ReadView::Statement | ReadView::StatementOrBefore => None,
        }
    }

    /// The snapshot of a plain read at `at`. Updates that search the snapshot share it, whenever it
    /// was taken if nothing was read.
    #[must_use]
    pub fn snapshot(&self, view: ReadView, at: Interval) -> Interval {
        match view {
            ReadView::FirstRead if self.read.is_none() => Interval::new(self.start(), self.end().after),
            ReadView::StatementOrBefore if !self.writes() => Interval::new(self.start(), at.after),
            _ => self.shared_snapshot(view).unwrap_or(at),
        }
    }

    /// Until when, at least, it held the locks that it had taken. An abort may have come at any
    /// time after the last answered operation was at work.
    #[must_use]
    pub fn held_until(&self) -> i64 {
        match self.end {
            Some((OpKind::Commit, at)) => at.before,
            _ => self.last,
        }
    }

    /// Whether an operation at `at` was certainly done: the last one of a transaction of unknown
    /// outcome may not have been.
    #[must_use]
    pub fn was_done(&self, at: Interval) -> bool {
        !self.opaque && (self.committed() || at.after <= self.held_until())
    }

    /// By when it had locked an object that it wrote at `at` for certain.
    #[must_use]
    pub fn locked(&self, mechanisms: &Mechanisms, at: Interval) -> Option<i64> {
        match mechanisms.write_locks? {
            Granularity::Row => Some(at.after),
            Granularity::Database => self.write.map(|write| write.after),
        }
    }

    /// By when it had its snapshot, where concurrent updates are refused.
    #[must_use]
    pub fn snapshot_taken(&self, mechanisms: &Mechanisms) -> Option<i64> {
        let snapshot = mechanisms.first_updater_wins.then(|| self.shared_snapshot(mechanisms.view));
        snapshot.flatten().map(|at| at.after)
    }

    /// Whether a read of it locks what it returns. A single SELECT need not, nor a transaction that
    /// only reads where it may read old versions.
    #[must_use]
    pub fn locks_reads(&self, mechanisms: &Mechanisms) -> bool {
        let old = mechanisms.view == ReadView::StatementOrBefore && !self.writes();
        mechanisms.read_locks && self.statements > 1 && !old
    }

    /// Where the point lies at which all of it takes place.
    #[must_use]
    pub fn point(&self, points: Points) -> Interval {
        match points {
            Points::Commit if self.writes() => self.end(),
            _ => Interval::new(self.start(), self.end().after),
        }
    }
}

/// Whether a write changed something for certain: the deletion of an object may have found none.
#[must_use]
pub fn took_effect(kind: OpKind, value: ValueId) -> bool {
    kind == OpKind::Update || (kind.writes() && value != ValueId::NULL)
}

/// Whether what a plain read returned of an object was there to be locked.
#[must_use]
pub fn returned(value: ValueId) -> bool {
    value != ValueId::NULL && value != ValueId::UNKNOWN
}

/// Whether a scan and a write of the same row need not meet. A scan may lock only the entry of an
/// index that has all that it returned, which a write of other columns does not touch.
#[must_use]
pub fn need_not_meet(one: (OpKind, ValueId), other: (OpKind, ValueId), values: &Values) -> bool {
    let apart = |scan: (OpKind, ValueId), write: (OpKind, ValueId)| {
        let ((OpKind::Scan, seen), true) = (scan, write.0.writes()) else { return false };
        match (values.get(seen), values.get(write.1)) {
            (Value::Row(seen), Value::Row(written)) => {
                !seen.iter().any(|(name, _)| written.iter().any(|(other, _)| name == other))
            }
            _ => false,
        }
    };
    apart(one, other) || apart(other, one)
}

/// Whether two consecutive anti-dependencies `a → b → c` are a dangerous structure of SSI for
/// certain: c committed first of the three, a and b ran at the same time, and if a wrote nothing, c
/// committed before a's snapshot.
#[must_use]
pub fn dangerous(a: &Course, b: &Course, c: &Course, view: ReadView) -> bool {
    let (Some(snapshot_a), Some(snapshot_b)) = (a.shared_snapshot(view), b.shared_snapshot(view)) else {
        return false;
    };
    let committed = c.end().after;
    committed < a.end().before
        && committed < b.end().before
        && snapshot_b.after < a.end().before
        && (a.writes() || committed < snapshot_a.before)
}
