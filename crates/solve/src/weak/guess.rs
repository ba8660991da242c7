//! An order of a stronger level, as a first guess.
//!
//! # Problem
//! Where visibility goes by paths, one read that misses something makes others visible or not, and
//! an order that is wrong in many places is mended slowly. But most histories that satisfy such a
//! level satisfy a stronger one too, or all but a few transactions do; and the stronger levels have
//! reachability to saturate by.
//!
//! # Algorithm
//! Solve serializability, then snapshot isolation, both with session order. An order of points of
//! these is one in which nobody misses what is visible. If there is none, look whether the few
//! transactions that show it violate the level in question too; if they do, that is the answer, and
//! else leave them out and try again: they are put back as early as they can be.
//!
//! # Invariants
//! Only a guess, but for lemmas: these refute part of the problem, and so the whole.
//!
//! # Cost
//! That of the stronger levels, at most [`TRIES`] times; each has half of the time that is left.

use hashbrown::HashMap;
use margay_history::TxnId;
use margay_levels::Level;
use margay_verdict::{Budget, Certificate, Exhausted, Finding, Lemma, Point, Question, Verdict};

use super::{Answer, decide};
use crate::points::{self, Points};
use crate::prepare::prepare;
use crate::problem::Problem;

/// How often transactions are left out.
const TRIES: usize = 8;

/// What came of it.
pub(super) enum Guess {
    /// A place for each transaction, from 1; 0 for those that were left out.
    Places(Vec<u64>),
    /// Lemmas that refute the problem.
    Refuted(Vec<Lemma>),
    Nothing,
}

/// Looks for an order of a stronger level.
pub(super) fn guess(problem: &Problem<'_>, points: Points, budget: &Budget) -> Result<Guess, Exhausted> {
    for (level, tries) in
        [(Level::StrongSessionSerializable, 1), (Level::StrongSessionSnapshotIsolation, TRIES)]
    {
        budget.poll()?;
        let budget = match budget.remaining() {
            Some(left) => budget.clone().at_most(left / 2),
            None => budget.clone(),
        };
        let question = Question { level, ..problem.question };
        let Ok(draft) = prepare(problem.history, question, &budget) else { continue };
        let Ok(stronger) = Problem::new(problem.history, question, &draft, &budget) else { continue };
        let stronger = stronger.with_strategies(problem.strategies);
        let found = Attempt { problem, points, stronger, budget }.run(points::of(level), tries);
        if !matches!(found, Guess::Nothing) {
            return Ok(found);
        }
    }
    budget.poll()?;
    Ok(Guess::Nothing)
}

struct Attempt<'a, 'h> {
    problem: &'a Problem<'h>,
    points: Points,
    stronger: Problem<'h>,
    budget: Budget,
}

impl Attempt<'_, '_> {
    /// With ever fewer transactions.
    fn run(&self, points: Points, tries: usize) -> Guess {
        let mut left: Vec<u32> = (0..self.stronger.txns.len() as u32).collect();
        for _ in 0..tries {
            let whole = left.len() == self.stronger.txns.len();
            let verdict = match whole {
                true => crate::solve(&self.stronger, points, &self.budget),
                false => crate::solve(&self.stronger.part(&left), points, &self.budget),
            };
            match verdict {
                Ok(Verdict::Holds(order)) => return Guess::Places(self.places(&order)),
                Ok(Verdict::Violated(findings)) => {
                    let slice = slice(&findings);
                    if let Some(lemmas) = self.refuted(&slice) {
                        return Guess::Refuted(lemmas);
                    }
                    left.retain(|&txn| !slice.contains(&self.stronger.txns[txn as usize]));
                }
                _ => return Guess::Nothing,
            }
        }
        Guess::Nothing
    }

    /// The lemmas by which some transactions violate the level in question.
    fn refuted(&self, slice: &[TxnId]) -> Option<Vec<Lemma>> {
        let found = slice.iter().filter_map(|id| self.problem.txns.binary_search(id).ok());
        let mut txns: Vec<u32> = found.map(|txn| txn as u32).collect();
        txns.sort_unstable();
        match decide(&self.problem.part(&txns), self.points, &self.budget) {
            Ok(Answer::Refuted(lemmas)) => Some(lemmas),
            _ => None,
        }
    }

    fn places(&self, order: &Certificate) -> Vec<u64> {
        let txns: Vec<TxnId> = match order {
            Certificate::Order(order) => order.txns.clone(),
            Certificate::Points(points) => points
                .iter()
                .filter_map(|point| match point {
                    Point::Commit(txn) => Some(*txn),
                    Point::Begin(_) => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        let places: HashMap<TxnId, u64> = txns.into_iter().zip(1..).collect();
        self.problem.txns.iter().map(|txn| places.get(txn).copied().unwrap_or(0)).collect()
    }
}

fn slice(findings: &[Finding]) -> Vec<TxnId> {
    findings.iter().flat_map(|finding| finding.txns.iter().copied()).collect()
}
