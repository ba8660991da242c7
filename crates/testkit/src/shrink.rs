//! A smaller history that still fails.

use margay_history::{History, OpId, TxnId};

use crate::copy::{Edit, copy};

/// Drops evidence, times, transactions and operations for as long as the history still `fails`.
#[must_use]
pub fn shrink(history: &History, fails: &dyn Fn(&History) -> bool) -> History {
    let mut best = history.clone();
    while let Some(smaller) = steps(&best).into_iter().flatten().find(|h| fails(h)) {
        best = smaller;
    }
    best
}

/// The histories that are one step smaller.
fn steps(history: &History) -> Vec<Option<History>> {
    let all = |_: OpId| true;
    let edit = |times, evidence| Edit { keep: &all, times, evidence, names: 0 };
    let mut steps = Vec::new();
    if !history.evidence().is_empty() {
        steps.push(copy(history, &edit(true, false)));
    }
    if history.is_timed() {
        steps.push(copy(history, &edit(false, true)));
    }
    for out in history.txns() {
        let keep = |op: OpId| history.txn_of(op) != out;
        steps.push(copy(history, &Edit { keep: &keep, ..edit(true, true) }));
    }
    for out in history.txns().flat_map(|txn| dropped_ops(history, txn)) {
        let keep = |op: OpId| op != out;
        steps.push(copy(history, &Edit { keep: &keep, ..edit(true, true) }));
    }
    steps
}

/// The operations of a transaction that may be dropped: all but its end, and not the last one left.
fn dropped_ops(history: &History, txn: TxnId) -> Vec<OpId> {
    let ops: Vec<OpId> = history.ops(txn).filter(|op| op.kind.outcome().is_none()).map(|op| op.id).collect();
    if ops.len() > 1 { ops } else { Vec::new() }
}
