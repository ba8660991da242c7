//! Fewer candidates for open reads, by what the known graph forces.
//!
//! # Problem
//! A scan leaves open which version it saw of every row that it did not return; a value that was
//! written twice leaves a read open. Most of those candidates are impossible for reasons of order,
//! and each one that stays is a choice for the search.
//!
//! # Algorithm
//! Read `r` cannot have seen version `v` if `begin(r) ⇝ commit(v)`, or if another version `u` is
//! certainly after `v` and `commit(u) ⇝ begin(r)`. What is left is saturated again, until nothing
//! changes ([Vbox §4.3] prunes predicate constraints likewise).
//!
//! # Invariants
//! Only impossible candidates go, so an order found for the pruned problem is one for the whole.
//! The reasons are not kept: a violation is proved on the unpruned problem.

use margay_verdict::{Budget, Exhausted};

use crate::known::{KnownGraph, Reach, Saturated};
use crate::points::Points;
use crate::problem::{INITIAL, Problem};

/// The problem with fewer candidates; `None` if that leaves a read without any, or shows a cycle.
pub(crate) fn prune<'h>(
    problem: &Problem<'h>,
    points: Points,
    budget: &Budget,
) -> Result<Option<Problem<'h>>, Exhausted> {
    let mut pruned = problem.clone();
    loop {
        let mut known = KnownGraph::new(&pruned, points, true);
        let Saturated::Acyclic(reach) = known.saturate(budget)? else { return Ok(None) };
        let reads = 0..pruned.reads.len() as u32;
        let open = reads.filter(|&read| pruned.candidates(read).len() > 1);
        let mut changed: Vec<(u32, Vec<u32>)> = Vec::new();
        for read in open {
            budget.poll()?;
            changed.extend(fewer(&known, &reach, read));
        }
        let fewer = changed;
        if fewer.is_empty() {
            return Ok(Some(pruned));
        }
        if fewer.iter().any(|(_, kept)| kept.is_empty()) {
            return Ok(None);
        }
        pruned = pruned.with_candidates(&fewer);
    }
}

/// The candidates of a read that stay, if some go.
fn fewer(known: &KnownGraph<'_>, reach: &Reach, read: u32) -> Option<(u32, Vec<u32>)> {
    let (problem, points) = (known.problem, known.points);
    let reader = problem.reads[read as usize];
    let txn = |version: u32| problem.versions[version as usize].txn;
    let begin = known.node(read);
    let visible: Vec<u32> = problem
        .item_versions(reader.item)
        .skip(1)
        .filter(|&u| txn(u) != reader.txn && reach.reaches(points.commit(txn(u)), begin))
        .collect();
    let firm = problem.is_firm(read);
    let hidden = |v: u32| {
        let after =
            |u: u32| txn(v) == INITIAL || reach.reaches(points.after_earlier(txn(v)), points.commit(txn(u)));
        firm && visible.iter().any(|&u| u != v && after(u))
    };
    let later = |v: u32| txn(v) != INITIAL && reach.reaches(begin, points.commit(txn(v)));
    let candidates = problem.candidates(read);
    let kept: Vec<u32> = candidates.iter().copied().filter(|&v| !later(v) && !hidden(v)).collect();
    (kept.len() < candidates.len()).then_some((read, kept))
}
