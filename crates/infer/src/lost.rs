//! Lost updates.
//!
//! # Problem
//! Two transactions read the same version of an object and both overwrite it. Whichever version is
//! later, its writer missed the other.
//!
//! # Algorithm
//! Readers are grouped by the version that they saw; two that write the object make two lemmas, one
//! for each order of their versions. No version order need be known. Two readers of a value that
//! nobody wrote lost an update too: the value is a garbage read, and Elle calls the pair a lost
//! update.
//!
//! # Cost
//! Linear, apart from sorting.

use margay_history::{ObjectId, OpId, TxnId, ValueId, Version};
use margay_levels::Anomaly;
use margay_verdict::{Edge, Finding, Lemma, Reason};

use crate::case::{Case, FINDINGS_KEPT, Local, Read};
use crate::proof::Prover;

/// A few lost updates.
pub(crate) fn find(case: &Case<'_>, prover: &Prover<'_, '_>) -> Vec<Finding> {
    let mut updates: Vec<(ObjectId, Version, TxnId, u32)> = Vec::new();
    for (i, read) in case.reads.iter().enumerate() {
        if case.written.has(read.txn, read.object) {
            updates.push((read.object, read.from, read.txn, i as u32));
        }
    }
    updates.sort_unstable();
    updates.dedup_by_key(|update| (update.0, update.1, update.2));
    let pairs = updates.windows(2).filter(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1));
    let read = |update: &(ObjectId, Version, TxnId, u32)| case.reads[update.3 as usize];
    let found = pairs.map(|pair| (read(&pair[0]), read(&pair[1]))).take(FINDINGS_KEPT);
    let of_versions =
        found.filter_map(|(a, b)| prover.finding(Some(Anomaly::LostUpdate), vec![lemma(a, b), lemma(b, a)]));
    of_versions.chain(of_garbage(case, prover)).collect()
}

/// Lost updates of values that nobody wrote.
fn of_garbage(case: &Case<'_>, prover: &Prover<'_, '_>) -> Vec<Finding> {
    let garbage = case.local.iter().filter(|local| local.names[0] == Anomaly::GarbageRead);
    let ops = garbage.map(|local| case.history.op(local.ops[0]));
    let mut reads: Vec<(ObjectId, ValueId, TxnId, OpId)> = Vec::new();
    for op in ops {
        let txn = case.history.txn_of(op.id);
        let updated = op.accesses.iter().filter(|access| case.written.has(txn, access.object));
        reads.extend(updated.map(|access| (access.object, access.value, txn, op.id)));
    }
    reads.sort_unstable();
    reads.dedup_by_key(|read| (read.0, read.1, read.2));
    let pairs =
        reads.windows(2).filter(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1)).take(FINDINGS_KEPT);
    let local = |pair: &[(ObjectId, ValueId, TxnId, OpId)]| Local {
        names: vec![Anomaly::LostUpdate],
        ops: pair.iter().map(|read| read.3).collect(),
    };
    pairs.filter_map(|pair| prover.local(&local(pair))).collect()
}

/// `first`'s version cannot be the earlier one: `then` read what both overwrote.
fn lemma(first: Read, then: Read) -> Lemma {
    let missed = Reason::AntiRead { op: then.op, object: then.object, version: then.from };
    Lemma {
        edges: vec![
            Edge { from: first.txn, to: then.txn, reason: Reason::Write { object: first.object } },
            Edge { from: then.txn, to: first.txn, reason: missed },
        ],
    }
}
