//! What the mechanisms of a database allow, given nothing but intervals.
//!
//! # Problem
//! A database keeps a level by mechanisms: snapshots, locks, a rule for concurrent updates, a
//! certifier. A level says what clients may see; a mechanism says more, and says it of points in
//! time. These are the definitions that engine mirror verifies online and that audit applies again
//! to the whole history. They know no stream and forget nothing.
//!
//! # Invariants
//! All times are on one clock: every interval is widened by half of the allowed skew on both sides
//! ([`common`]), so that it contains the true instant on the clock that lies in the middle of all
//! clocks.

mod course;
mod fact;
mod pattern;
mod search;
mod unseen;

pub use course::{Course, dangerous, need_not_meet, returned, took_effect};
pub use fact::{Candidates, Fact, ObjectSight, Saw, World, WriteStep, Written, close_unknown, explain, left};
pub use pattern::Pattern;
pub use search::Searches;
pub use unseen::{Unseen, changes};

use margay_history::{History, Interval, Op, OpId, OpKind};

/// The interval on the common clock, for clocks that are at most `skew` apart.
#[must_use]
pub fn common(at: Interval, skew: i64) -> Interval {
    let half = skew.saturating_add(1) / 2;
    Interval::new(at.before.saturating_sub(half), at.after.saturating_add(half))
}

/// When an operation took place. The end of a transaction of which nobody heard any more is not
/// before its last operation was called.
#[must_use]
pub fn interval(history: &History, op: &Op<'_>) -> Option<Interval> {
    op.at.or_else(|| {
        let last = OpId(op.id.0.checked_sub(1)?);
        let same = op.kind == OpKind::Unknown && history.txn_of(last) == history.txn_of(op.id);
        if same { history.op(last).at } else { None }
    })
}

/// Why the mechanisms cannot be verified on a history, if they cannot: they need the interval of
/// every operation.
#[must_use]
pub fn unfit(history: &History) -> Option<String> {
    let mut last = None;
    for txn in history.txns() {
        for op in history.ops(txn) {
            let Some(at) = interval(history, &op) else {
                return Some("an operation without its interval".to_owned());
            };
            if last.is_some_and(|(session, before)| session == history.session_of(txn) && before > at.before)
            {
                return Some(format!("a clock that goes back in {}", history.show_txn(txn)));
            }
            last = Some((history.session_of(txn), at.before));
        }
    }
    None
}
