//! Where the points of a transaction lie on the clients' clocks.
//!
//! # Problem
//! Strict snapshot isolation only asks that a transaction sees what had ended before it started;
//! its snapshot may still be taken at any later moment before its commit. A database that takes the
//! snapshot with the first statement promises more, and clients can vouch for it: a point lies
//! between a call and its answer.
//!
//! # Algorithm
//! - The begin point lies between the start of the transaction (the call of BEGIN, if there is one)
//!   and the answer of its first statement that reads or writes. That covers databases that take
//!   the snapshot at BEGIN, too.
//! - The commit point lies between the call of the commit and its answer.
//!
//! The skew of the clocks is added to every end. An end that nobody saw is open: without intervals,
//! and for a transaction of unknown outcome, whose last call may never have been answered.
//!
//! # Invariants
//! Points within their spans respect real time, and so session order wherever that has times.

use margay_history::{History, Op, OpKind, Outcome, TxnId};

use crate::certificate::Point;

/// From one moment until another, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The earliest moment.
    pub from: i64,
    /// The latest moment, with the skew of the clocks.
    pub until: i64,
}

impl Span {
    /// At any time.
    const ANY: Span = Span { from: i64::MIN, until: i64::MAX };

    /// Whether all of it is before the other.
    #[must_use]
    pub fn precedes(self, other: Span) -> bool {
        self.until < other.from
    }
}

/// The spans of a transaction's two points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instants {
    /// Of its begin point.
    pub begin: Span,
    /// Of its commit point.
    pub commit: Span,
}

impl Instants {
    /// Those of a transaction.
    #[must_use]
    pub fn of(history: &History, txn: TxnId) -> Self {
        let start = history.start(txn).unwrap_or(i64::MIN);
        if history.outcome(txn) == Outcome::Unknown {
            let open = Span { from: start, ..Span::ANY };
            return Self { begin: open, commit: open };
        }
        let late = |at: i64| at.saturating_add(history.header().skew);
        let end = history.end(txn).map_or(i64::MAX, late);
        let commit = history.ops(txn).next_back().filter(|op| op.kind == OpKind::Commit);
        let called = commit.and_then(|op| op.at).map_or(start, |at| at.before);
        let first = history.ops(txn).find(|op| takes_snapshot(history, op)).and_then(|op| op.at);
        let answered = first.map_or(i64::MAX, |at| late(at.after));
        Self {
            begin: Span { from: start, until: answered.min(end) },
            commit: Span { from: called, until: end },
        }
    }

    /// Of all transactions.
    #[must_use]
    pub fn of_all(history: &History) -> Vec<Self> {
        history.txns().map(|txn| Self::of(history, txn)).collect()
    }
}

/// The span of a point.
#[must_use]
pub fn span(all: &[Instants], point: Point) -> Span {
    match point {
        Point::Begin(txn) => all[txn.index()].begin,
        Point::Commit(txn) => all[txn.index()].commit,
    }
}

/// The first point of an order that comes too late: after one whose span had not begun when this
/// one's was over.
#[must_use]
pub fn late(all: &[Instants], points: impl IntoIterator<Item = Point>) -> Option<Point> {
    let mut now = i64::MIN;
    points.into_iter().find(|&point| {
        let span = span(all, point);
        now = now.max(span.from);
        span.until < now
    })
}

/// Whether a statement reads or writes. Others, like SET, take no snapshot.
fn takes_snapshot(history: &History, op: &Op<'_>) -> bool {
    match op.kind {
        OpKind::Read | OpKind::Write | OpKind::Append | OpKind::Scan | OpKind::Update => true,
        OpKind::Sql => history.statement(op.id).is_some_and(|statement| {
            let word = statement.text.split_whitespace().next().unwrap_or("");
            STATEMENTS.iter().any(|known| word.eq_ignore_ascii_case(known))
        }),
        OpKind::Begin | OpKind::Commit | OpKind::Abort | OpKind::Unknown => false,
    }
}

/// How statements on rows begin.
const STATEMENTS: [&str; 10] =
    ["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "WITH", "VALUES", "TABLE", "CALL"];
