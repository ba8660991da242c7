//! Operations that no version explains: the non-cyclic anomalies.
//!
//! # Algorithm
//! An operation of which the version orders explain nothing is looked at by all names that such an
//! anomaly can have; the first that audit can derive from the history alone is the finding. If it
//! derives none, the operation is wrong only given orders and values that no certificate can
//! express.

use margay_audit::audit_within;
use margay_history::{History, ObjectId, OpId, OpKind, TxnId, Value, ValueId};
use margay_levels::Anomaly;
use margay_verdict::{Budget, Certificate, Finding, LOCAL_ANOMALIES, Question};

use crate::sights::Unexplained;

/// How many operations are looked at: each costs a pass over the history.
const MAX_CASES: usize = 8;

/// The first finding among operations that nothing explains.
pub(crate) fn local(
    history: &History,
    question: Question,
    unexplained: &[Unexplained],
    budget: &Budget,
) -> Option<Finding> {
    unexplained.iter().take(MAX_CASES).find_map(|case| finding(history, question, case, budget))
}

fn finding(history: &History, question: Question, case: &Unexplained, budget: &Budget) -> Option<Finding> {
    let reader = history.txn_of(case.op);
    let writer = writer(history, case);
    let forbidden = |name: &Anomaly| question.level.forbids(*name);
    LOCAL_ANOMALIES.into_iter().filter(forbidden).find_map(|anomaly| {
        let ops: Vec<OpId> = [Some(case.op), writer.map(|w| w.1)].into_iter().flatten().collect();
        let certificate = Certificate::Operations { anomaly, ops };
        audit_within(history, question, &certificate, budget).ok()?;
        let mut txns: Vec<TxnId> = [Some(reader), writer.map(|w| w.0)].into_iter().flatten().collect();
        txns.sort_unstable();
        txns.dedup();
        Some(Finding { anomaly, txns, certificate })
    })
}

/// Who wrote the value that was seen.
fn writer(history: &History, case: &Unexplained) -> Option<(TxnId, OpId)> {
    let seen = history.op(case.op).accesses.iter().find(|a| a.object == case.object)?.value;
    let wrote = |txn: TxnId| {
        let op = history.ops(txn).find(|op| op.kind.writes() && makes(history, op, case.object, seen))?;
        Some((txn, op.id))
    };
    history.txns().find_map(wrote)
}

fn makes(history: &History, op: &margay_history::Op<'_>, object: ObjectId, seen: ValueId) -> bool {
    op.accesses.iter().filter(|a| a.object == object).any(|a| match history.value(seen) {
        Value::List(items) if op.kind == OpKind::Append => items.last() == Some(&a.value),
        _ => a.value == seen,
    })
}
