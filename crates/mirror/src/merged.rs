//! All operations of a history in the order of `before`.
//!
//! # Algorithm
//! Those of a session are in order already; a heap has the next one of each. So the first comes at
//! once, and nothing is sorted as a whole.
//!
//! # Invariants
//! Equal times go by the number of the operation. Clocks of sessions do not go back, which
//! [`margay_mechanisms::unfit`] looks at before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use margay_history::{History, OpId, SessionId, TxnId};
use margay_mechanisms::interval;

type Head = Reverse<(i64, OpId, TxnId)>;

pub(crate) struct Merged<'h> {
    history: &'h History,
    heads: BinaryHeap<Head>,
}

impl<'h> Merged<'h> {
    /// Those of all sessions.
    pub fn of(history: &'h History) -> Self {
        Self::among(history, |_| true)
    }

    /// Those of some sessions.
    pub fn among(history: &'h History, counts: impl Fn(SessionId) -> bool) -> Self {
        let first = |session| {
            let txn = history.session_txns(session).next()?;
            Some(head(history, history.ops(txn).next()?.id, txn))
        };
        Self { history, heads: history.sessions().filter(|s| counts(*s)).filter_map(first).collect() }
    }

    /// When the next one is called, on the client's clock.
    pub fn next_at(&self) -> Option<i64> {
        self.heads.peek().map(|Reverse((before, ..))| *before)
    }
}

impl Iterator for Merged<'_> {
    type Item = (OpId, TxnId);

    fn next(&mut self) -> Option<Self::Item> {
        let mut head = self.heads.peek_mut()?;
        let Reverse((_, op, txn)) = *head;
        match after(self.history, op, txn) {
            Some(next) => *head = next,
            None => _ = PeekMut::pop(head),
        }
        Some((op, txn))
    }
}

/// The next operation of a session.
fn after(history: &History, op: OpId, txn: TxnId) -> Option<Head> {
    if history.ops(txn).next_back().is_some_and(|last| op < last.id) {
        return Some(head(history, OpId(op.0 + 1), txn));
    }
    let next = TxnId(txn.0 + 1);
    let same = next.index() < history.txn_count() && history.session_of(next) == history.session_of(txn);
    let first = if same { history.ops(next).next() } else { None };
    first.map(|first| head(history, first.id, next))
}

fn head(history: &History, op: OpId, txn: TxnId) -> Head {
    Reverse((interval(history, &history.op(op)).map_or(i64::MIN, |at| at.before), op, txn))
}
