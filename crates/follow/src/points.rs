//! The points of the steps that a search took.

use margay_history::{History, TxnId};
use margay_verdict::Point;
use margay_verdict::instants::Instants;

use crate::search::Kind;

/// The points in the order of the steps.
pub(crate) fn in_order(steps: impl Iterator<Item = (Kind, TxnId)>) -> Vec<Point> {
    let mut points = Vec::new();
    for (kind, txn) in steps {
        if kind != Kind::Commit {
            points.push(Point::Begin(txn));
        }
        if kind != Kind::Begin {
            points.push(Point::Commit(txn));
        }
    }
    points
}

/// With instants, each point at its earliest one. Who writes nothing was taken whole at its begin,
/// and commits when it may.
pub(crate) fn in_time(history: &History, steps: impl Iterator<Item = (Kind, TxnId)>) -> Vec<Point> {
    let mut now = i64::MIN;
    let mut timed = Vec::new();
    for (kind, txn) in steps {
        let Instants { begin, commit } = Instants::of(history, txn);
        now = now.max(if kind == Kind::Commit { commit.from } else { begin.from });
        if kind != Kind::Commit {
            timed.push((now, Point::Begin(txn)));
        }
        if kind != Kind::Begin {
            timed.push((now.max(commit.from), Point::Commit(txn)));
        }
    }
    timed.sort_by_key(|timed| timed.0);
    timed.into_iter().map(|(_, point)| point).collect()
}
