//! Jepsen's bank: the total of all accounts never changes.
//!
//! The rule is no proof that a serial order exists, so where nothing breaks it the answer is
//! `clean`.

use margay_audit::{Bank, audit_within};
use margay_history::{History, OpId};
use margay_levels::Anomaly;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Certificate, Finding, Question, Verdict};

/// How many wrong totals are told.
const WRONG: usize = 3;

/// The answer, if the history is a bank's and the level one of serial orders.
pub(crate) fn decide(history: &History, question: Question, budget: &Budget) -> Option<Verdict> {
    if question.level.family() != Family::Serial {
        return None;
    }
    let bank = Bank::of(history)?;
    let ops = history.txns().flat_map(|txn| history.ops(txn)).map(|op| op.id);
    let mut totals = ops.filter_map(|op| Some((op, bank.total(op)?)));
    let (first, total) = totals.next()?;
    let wrong = totals.filter(|&(_, other)| other != total).take(WRONG);
    let findings: Vec<Finding> =
        wrong.filter_map(|(op, _)| finding(history, question, [op, first], budget)).collect();
    Some(if findings.is_empty() { Verdict::Clean } else { Verdict::Violated(findings) })
}

fn finding(history: &History, question: Question, ops: [OpId; 2], budget: &Budget) -> Option<Finding> {
    let anomaly = Anomaly::Pl3CycleExists;
    let certificate = Certificate::Operations { anomaly, ops: ops.to_vec() };
    audit_within(history, question, &certificate, budget).ok()?;
    Some(Finding { anomaly, txns: ops.map(|op| history.txn_of(op)).to_vec(), certificate })
}
