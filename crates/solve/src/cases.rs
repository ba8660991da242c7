//! Refutation by cases.
//!
//! # Problem
//! A read that may have seen any of a hundred equal versions gives the search a hundred ways that
//! all fail for the same reason, each with its own lemmas. It learns them one by one, between
//! thousands that do not matter.
//!
//! # Algorithm
//! Split into cases: which of few candidates a read saw, and so on for the next read. In each case
//! try every read that is still open: if saturation finds a cycle for each of its candidates, the
//! case is refuted. If some case is not, and no read with few candidates is left, give up.
//!
//! # Invariants
//! A cycle that saturation finds names all that it assumes: which version a read saw stands in the
//! reasons of its edges. So the lemmas of a case are true of the whole problem, and those of all
//! cases together leave no possibility.
//!
//! # Cost
//! A saturation for each candidate of each open read in each case, of a small problem; at most
//! [`MAX_CASES`] cases.

use margay_history::TxnId;
use margay_verdict::{Budget, Exhausted, Lemma};

use crate::known::{KnownGraph, Saturated};
use crate::lemma::Prover;
use crate::points::Points;
use crate::problem::Problem;
use crate::search::known_steps;

/// The most candidates of a read that make cases.
const MAX_CANDIDATES: usize = 4;

/// How many cases are looked at.
const MAX_CASES: usize = 256;

/// Lemmas that refute a problem, if cases do. Reads of transactions of low rank make cases first.
pub(crate) fn refuted(
    problem: &Problem<'_>,
    points: Points,
    rank: impl Fn(TxnId) -> usize,
    budget: &Budget,
) -> Result<Option<Vec<Lemma>>, Exhausted> {
    let mut lemmas = Vec::new();
    let mut open = vec![problem.clone()];
    let mut cases = 0;
    while let Some(case) = open.pop() {
        cases += 1;
        if cases > MAX_CASES {
            return Ok(None);
        }
        if let Some(found) = impossible(&case, points, budget)? {
            lemmas.extend(found);
            continue;
        }
        let few = |&read: &u32| (2..=MAX_CANDIDATES).contains(&case.candidates(read).len());
        let rank = |&read: &u32| {
            (rank(case.txns[case.reads[read as usize].txn as usize]), case.candidates(read).len())
        };
        let Some(read) = (0..case.reads.len() as u32).filter(few).min_by_key(rank) else { return Ok(None) };
        open.extend(
            case.candidates(read).iter().map(|&version| case.with_candidates(&[(read, vec![version])])),
        );
    }
    Ok(Some(lemmas))
}

/// Lemmas that refute a case by one of its reads, or without any.
fn impossible(case: &Problem<'_>, points: Points, budget: &Budget) -> Result<Option<Vec<Lemma>>, Exhausted> {
    if let Some(lemmas) = cyclic(case, points, budget)? {
        return Ok(Some(lemmas));
    }
    for read in (0..case.reads.len() as u32).filter(|&read| case.candidates(read).len() > 1) {
        if let Some(lemmas) = unexplained(case, read, points, budget)? {
            return Ok(Some(lemmas));
        }
    }
    Ok(None)
}

/// Lemmas that rule out every candidate of a read.
fn unexplained(
    case: &Problem<'_>,
    read: u32,
    points: Points,
    budget: &Budget,
) -> Result<Option<Vec<Lemma>>, Exhausted> {
    let mut lemmas = Vec::new();
    for &version in case.candidates(read) {
        let Some(found) = cyclic(&case.with_candidates(&[(read, vec![version])]), points, budget)? else {
            return Ok(None);
        };
        lemmas.extend(found);
    }
    Ok(Some(lemmas))
}

/// The lemmas of a cycle that saturation finds.
fn cyclic(problem: &Problem<'_>, points: Points, budget: &Budget) -> Result<Option<Vec<Lemma>>, Exhausted> {
    let mut known = KnownGraph::new(problem, points, problem.question.uses_session_order());
    let Saturated::Cyclic(cycle) = known.saturate(budget)? else { return Ok(None) };
    let mut prover = Prover::new(&known);
    prover.add(&known_steps(cycle), &[], budget)?;
    Ok(Some(prover.finish()))
}
