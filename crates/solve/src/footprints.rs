//! Few objects, and few transactions, that may be refuted by themselves.
//!
//! # Problem
//! Where values repeat, the reads of a large history have too many candidates for the search, also
//! if a handful of transactions is wrong.
//!
//! # Algorithm
//! The objects that one transaction read are a *footprint*. Walk through time with small
//! footprints, one after the other ([`dead_end`]). If the order of real time explains what was seen
//! of a footprint, so does the level in question. Else there is a dead end: a few transactions.
//! They may have seen versions of another time, so they are a suspect and no violation. Take them
//! together with the versions that they may have seen and the transactions that may have
//! overwritten these, and split into cases ([`crate::cases`]); then with what that leads to, and so
//! on.
//!
//! # Invariants
//! Every question is about a [`Problem::part`], and what refutes a part refutes the whole. This
//! only refutes: that nothing is refuted proves nothing.
//!
//! # Cost
//! One pass over the history per footprint, and [`ROUNDS`] small problems per dead end; at most
//! [`POLLS`] polls.

use hashbrown::{HashMap, HashSet};
use margay_audit::dead_end;
use margay_history::{ObjectId, TxnId};
use margay_levels::Level;
use margay_verdict::{Budget, Exhausted, Lemma, Question};

use crate::cases::refuted;
use crate::points::Points;
use crate::problem::{INITIAL, Problem};

/// The largest footprints that are tried.
const MAX_OBJECTS: usize = 3;

/// How many footprints are tried.
const MAX_FOOTPRINTS: usize = 64;

/// How often a suspect grows.
const ROUNDS: usize = 4;

/// A version that more reads may have seen has overwriters that say little.
const MAX_CANDIDATES: usize = 8;

/// How often all suspects together may poll the budget: about ten seconds' worth. Seconds
/// themselves would make the answer depend on the machine.
const POLLS: u64 = 100_000_000;

/// Lemmas that refute the problem, if those of one footprint do.
pub(crate) fn refuted_by_few(
    problem: &Problem<'_>,
    points: Points,
    budget: &Budget,
) -> Result<Option<Vec<Lemma>>, Exhausted> {
    let strict = if points.split { Level::StrictSnapshotIsolation } else { Level::StrictSerializable };
    let few = budget.clone().at_most_polls(POLLS);
    for objects in footprints(problem) {
        budget.poll()?;
        let Ok(Some(slice)) = dead_end(problem.history, Question::new(strict), &objects, &few) else {
            continue;
        };
        let footprint = Footprint::new(problem, &objects);
        let mut txns = footprint.numbers(&slice);
        let (mut fresh, mut readers) = (txns.clone(), HashMap::new());
        for round in 0..ROUNDS {
            readers.extend(fresh.iter().map(|&txn| (problem.txns[txn as usize], round)));
            fresh = footprint.grow(&mut txns, &fresh);
            let part =
                problem.part_with_reads(&txns, |txn| readers.contains_key(&problem.txns[txn as usize]));
            if let Ok(Some(lemmas)) = refuted(&part, points, |txn| readers[&txn], &few) {
                return Ok(Some(lemmas));
            }
        }
    }
    Ok(None)
}

/// Small sets of objects that transactions read, the smallest first, then the most frequent.
fn footprints(problem: &Problem<'_>) -> Vec<Vec<ObjectId>> {
    let mut counts: HashMap<Vec<ObjectId>, usize> = HashMap::new();
    for txn in 0..problem.txns.len() as u32 {
        let reads = problem.txn_reads(txn).map(|read| problem.reads[read as usize].item);
        let mut objects: Vec<ObjectId> = reads.map(|item| problem.place(item).0).collect();
        objects.sort_unstable();
        objects.dedup();
        if (2..=MAX_OBJECTS).contains(&objects.len()) {
            *counts.entry(objects).or_default() += 1;
        }
    }
    let mut all: Vec<(Vec<ObjectId>, usize)> = counts.into_iter().collect();
    all.sort_unstable_by(|(a, m), (b, n)| (a.len(), n, a).cmp(&(b.len(), m, b)));
    all.into_iter().take(MAX_FOOTPRINTS).map(|(objects, _)| objects).collect()
}

/// A few objects of a problem.
struct Footprint<'p> {
    problem: &'p Problem<'p>,
    objects: &'p [ObjectId],
    /// By version: the transactions that may have seen it and overwrote it, if reads of it have few
    /// candidates.
    overwriters: HashMap<u32, Vec<u32>>,
}

impl<'p> Footprint<'p> {
    fn new(problem: &'p Problem<'p>, objects: &'p [ObjectId]) -> Self {
        let mut footprint = Self { problem, objects, overwriters: HashMap::new() };
        for txn in 0..problem.txns.len() as u32 {
            for read in footprint.reads(txn) {
                let (candidates, item) = (problem.candidates(read), problem.reads[read as usize].item);
                let writes = |&version: &u32| problem.versions[version as usize].item == item;
                if candidates.len() <= MAX_CANDIDATES && problem.txn_versions(txn).iter().any(writes) {
                    for &version in candidates {
                        footprint.overwriters.entry(version).or_default().push(txn);
                    }
                }
            }
        }
        footprint
    }

    fn numbers(&self, txns: &[TxnId]) -> Vec<u32> {
        txns.iter().filter_map(|id| self.problem.txns.binary_search(id).ok()).map(|txn| txn as u32).collect()
    }

    /// A transaction's reads of these objects.
    fn reads(&self, txn: u32) -> Vec<u32> {
        let object = |read: &u32| self.problem.place(self.problem.reads[*read as usize].item).0;
        self.problem.txn_reads(txn).filter(|read| self.objects.contains(&object(read))).collect()
    }

    /// Adds the transactions whose versions the fresh ones may have seen, and those that may have
    /// overwritten such a version. Answers with those that were added because of few possibilities:
    /// the others say little themselves.
    fn grow(&self, txns: &mut Vec<u32>, fresh: &[u32]) -> Vec<u32> {
        let mut all: HashSet<u32> = txns.iter().copied().collect();
        let (mut telling, mut leaves) = (Vec::new(), Vec::new());
        for read in fresh.iter().flat_map(|&txn| self.reads(txn)) {
            let candidates = self.problem.candidates(read);
            let writers = candidates.iter().map(|&version| self.problem.versions[version as usize].txn);
            let writers = writers.filter(|&txn| txn != INITIAL);
            if candidates.len() > MAX_CANDIDATES {
                leaves.extend(writers);
                continue;
            }
            telling.extend(writers);
            telling.extend(candidates.iter().filter_map(|version| self.overwriters.get(version)).flatten());
        }
        telling.retain(|&txn| all.insert(txn));
        all.extend(leaves);
        *txns = all.into_iter().collect();
        txns.sort_unstable();
        telling
    }
}
