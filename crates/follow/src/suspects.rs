//! Proving that there is no order.
//!
//! # Problem
//! The search went everywhere and found nothing. Somebody else has to be able to check that, and
//! wants to see few transactions.
//!
//! # Algorithm
//! What was seen of a few objects is enough: those that were against the transactions at the
//! furthest dead end, then those that these transactions touched, then those of their neighbours
//! too, then all. [`dead_end`], which the audit will run again, says whether these objects have an
//! order, and from when on there was none. Then objects are left out one by one, as long as there
//! still is none.

use margay_audit::dead_end;
use margay_history::{History, ObjectId, TxnId};
use margay_levels::Anomaly;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Certificate, DeadEnd, Finding, Question};

use crate::search::Furthest;

/// How many objects are enough to try.
const MAX_OBJECTS: usize = 2_000;

/// How often leaving objects out is tried.
const TRIES: usize = 64;

/// A proof that there is no order, if one is found.
pub(crate) fn prove(
    history: &History,
    question: Question,
    furthest: &Furthest,
    budget: &Budget,
) -> Option<Finding> {
    let against = against(furthest);
    let blocked = furthest.blocked.iter().map(|(txn, _)| *txn);
    let near = furthest.lately.iter().copied().chain(blocked.clone());
    let all = (history.object_count() <= MAX_OBJECTS).then(|| history.objects().collect());
    let stages = [
        Some(against.clone()),
        Some(with(history, &against, blocked)),
        Some(with(history, &against, near)),
        all,
    ];
    let mut tried = 0;
    for stage in stages.into_iter().flatten().map(sorted) {
        // The same objects once more would tell the same.
        if stage.len() <= tried {
            continue;
        }
        tried = stage.len();
        if let Ok(Some(txns)) = dead_end(history, question, &stage, budget) {
            return Some(fewer(history, question, DeadEnd { objects: stage, txns }, budget));
        }
    }
    None
}

/// The same, if what was against the transactions at the dead end is enough.
pub(crate) fn prove_soon(
    history: &History,
    question: Question,
    furthest: &Furthest,
    budget: &Budget,
) -> Option<Finding> {
    let objects = sorted(against(furthest));
    let txns = dead_end(history, question, &objects, budget).ok()??;
    Some(fewer(history, question, DeadEnd { objects, txns }, budget))
}

fn against(furthest: &Furthest) -> Vec<ObjectId> {
    furthest.blocked.iter().flat_map(|(_, objects)| objects.iter().take(8).copied()).collect()
}

/// The objects, and what transactions read and wrote.
fn with(history: &History, objects: &[ObjectId], txns: impl Iterator<Item = TxnId>) -> Vec<ObjectId> {
    let touched =
        txns.flat_map(|txn| history.ops(txn)).flat_map(|op| op.accesses).map(|access| access.object);
    objects.iter().copied().chain(touched).collect()
}

fn sorted(mut objects: Vec<ObjectId>) -> Vec<ObjectId> {
    objects.sort_unstable();
    objects.dedup();
    objects
}

/// Leaves out what is not needed: halves first, then single objects.
fn fewer(history: &History, question: Question, mut end: DeadEnd, budget: &Budget) -> Finding {
    let (mut size, mut from, mut tries) = (end.objects.len().div_ceil(2), 0, 0);
    while end.objects.len() > 1 && tries < TRIES && budget.poll().is_ok() {
        tries += 1;
        let until = (from + size).min(end.objects.len());
        let mut objects = end.objects.clone();
        objects.drain(from..until);
        match dead_end(history, question, &objects, budget) {
            Ok(Some(txns)) if !objects.is_empty() => end = DeadEnd { objects, txns },
            _ => from = until,
        }
        if from >= end.objects.len() {
            if size == 1 {
                break;
            }
            (size, from) = (size.div_ceil(2), 0);
        }
    }
    let anomaly = match question.level.family() {
        Family::Snapshot => Anomaly::StrongSiCycleExists,
        _ => Anomaly::PlSsCycleExists,
    };
    Finding { anomaly, txns: sorted_txns(&end.txns), certificate: Certificate::DeadEnd(end) }
}

fn sorted_txns(txns: &[TxnId]) -> Vec<TxnId> {
    let mut txns = txns.to_vec();
    txns.sort_unstable();
    txns
}
