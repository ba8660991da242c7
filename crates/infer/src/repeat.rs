//! Reads that differ from an earlier read of the same transaction.
//!
//! # Problem
//! A transaction sees two versions of one object, neither its own. Elle calls this `internal`, as
//! it does a read that differs from an own write; here it is `non-repeatable-read`, and `phantom`
//! if one of the reads is a scan that did not return the row.
//!
//! # Algorithm
//! Whichever version is later, who read the other missed it and read it: two lemmas, one for each
//! order. The initial version is never the later one.

use margay_history::{TxnId, Version};
use margay_levels::Anomaly;
use margay_verdict::{Edge, Finding, Lemma, Reason};

use crate::case::{Case, FINDINGS_KEPT, Read};
use crate::counts_rw;
use crate::proof::Prover;

/// A few of them, where the level forbids them and counts rw edges.
pub(crate) fn find(case: &Case<'_>, prover: &Prover<'_, '_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if !counts_rw(case.question.level) {
        return found;
    }
    let mut tried = 0;
    let mut own: Vec<Read> = Vec::new();
    for reads in case.reads.chunk_by(|a, b| a.txn == b.txn).filter(|reads| reads.len() > 1) {
        own.clear();
        own.extend_from_slice(reads);
        own.sort_by_key(|read| (read.object, read.op));
        let pairs = own.windows(2).filter(|w| w[0].object == w[1].object && w[0].from != w[1].from);
        for pair in pairs {
            found.extend(finding(case, prover, pair[0], pair[1]));
            tried += 1;
            if tried >= FINDINGS_KEPT {
                return found;
            }
        }
    }
    found
}

fn finding(case: &Case<'_>, prover: &Prover<'_, '_>, a: Read, b: Read) -> Option<Finding> {
    let predicate = case.is_predicate(&a) || case.is_predicate(&b);
    let name = if predicate { Anomaly::Phantom } else { Anomaly::NonRepeatableRead };
    if !case.question.level.forbids(name) {
        return None;
    }
    let lemmas = [lemma(a, b), lemma(b, a)].into_iter().flatten().collect();
    prover.finding(Some(name), lemmas)
}

/// The version that `then` saw cannot be the later one: `missed` is of the same transaction.
fn lemma(missed: Read, then: Read) -> Option<Lemma> {
    let Version::Of(later): Version = then.from else { return None };
    let reader: TxnId = missed.txn;
    let rw = Reason::AntiRead { op: missed.op, object: missed.object, version: missed.from };
    let wr = Reason::Read { op: then.op, object: then.object };
    Some(Lemma {
        edges: vec![
            Edge { from: reader, to: later, reason: rw },
            Edge { from: later, to: reader, reason: wr },
        ],
    })
}
