//! Engine **solve**: complete black-box checking, at every level.
//!
//! # Problem
//! Given only what clients saw, decide whether some order of transactions explains it; prove either
//! answer.
//!
//! # Algorithm
//! 1. `prepare`: last writes and external reads, each read with the versions it may have seen; what
//!    nothing explains is a violation. At `read-committed` the order in which commits began is
//!    tried before that (`commits`).
//! 2. `schedule` on the base graph alone: the guess by time or session place is verified as it is
//!    made; most valid histories end here, after a few repairs if there is no time
//!    (`schedule::repair`). If values repeat, small sets of objects are tried to refute before
//!    anything else (`footprints`, `cases`).
//! 3. `known`: saturation to a fixpoint ([Cobra §3.3], [Vbox §4.3]); most violations show as a
//!    cycle here. Where there are sessions and no time, the repairs are tried again after its first
//!    round.
//! 4. `prune`: fewer candidates for reads that may have seen several versions, by the same
//!    reachability.
//! 5. `search`: the schedule and a SAT solver (`bat` or `cadical`) with an acyclicity theory
//!    (`acyclic`), lazily ([Vbox §4.5, §4.6]); in between, local search mends the order that they
//!    arrived at (`mend`, with `line`, `demands` and `moves`).
//! 6. `refutation` and `lemma`: the cycles that are needed become lemmas that audit can check;
//!    `slice`: as few transactions as possible.
//!
//! One mechanism serves the two families, `repeatable-read` and `prefix`: a graph of begin and
//! commit points (`points`). The levels in which an anti-dependency is no edge have a search of
//! their own with the same parts (`weak`). A level without session order is first tried with it,
//! because most histories have it and it is what makes reachability cheap; only if that fails is it
//! left out.
//!
//! # Invariants
//! `holds` is said only with the order found; `violated` only with lemmas whose clauses have no
//! model. Neither depends on the guesses. Where reads cannot say all that a history says (`blind`),
//! both are audited first (`trust`), and orders are looked for by running the transactions too
//! (`replay`).
//!
//! # When it answers Unknown
//! - SQL statements.
//! - Violations that no certificate can express: because of what a transaction of unknown outcome
//!   saw, which therefore did not commit; of tables with updates whose rows nobody saw; of lists
//!   that are also replaced, or to which an element is appended twice; of conditions over several
//!   columns of rows that are written in part.
//! - Such histories too if they hold, if no order is found soon by replaying.
//! - The budget.

mod acyclic;
mod atoms;
#[cfg_attr(feature = "cadical", allow(dead_code, reason = "tests compare the back ends"))]
mod bat;
mod blind;
#[cfg(feature = "cadical")]
mod cadical;
mod cases;
mod commits;
mod demands;
mod footprints;
mod index;
mod known;
mod lemma;
mod line;
mod lit;
mod mend;
mod moves;
mod parts;
mod points;
mod prepare;
mod problem;
mod projections;
mod prune;
mod refutation;
mod replay;
mod scans;
mod schedule;
mod search;
mod slice;
#[doc(hidden)]
pub mod strategy;
#[cfg(test)]
mod tests;
mod told;
mod trust;
mod uncommitted;
mod values;
mod weak;

use margay_audit::{audit_within, with_included, without_instants};
use margay_history::History;
use margay_verdict::{
    Budget, Certificate, Checker, Exhausted, Finding, Lemma, Order, Point, Question, Verdict, Why,
};

use crate::footprints::refuted_by_few;
use crate::known::{KnownGraph, Reach, Saturated};
use crate::lemma::Prover;
use crate::points::Points;
use crate::prepare::{Stop, prepare, uncertifiable};
use crate::problem::{Draft, Problem};
use crate::prune::prune;
use crate::search::{Effort, Outcome, known_steps, repaired, search};
use crate::slice::{Slice, minimal};
use crate::strategy::{Strategies, Strategy};
use crate::trust::{BOLD, believed, certifiable};

/// With an assumed session order, after saturation.
const SOME: Effort = Effort { rounds: 256, conflicts: 10_000, ..Effort::ALL };

/// The engine.
#[derive(Clone, Copy, Default, Debug)]
pub struct Solve;

impl Checker for Solve {
    fn name(&self) -> &'static str {
        "solve"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        SolveWith(Strategies::ALL).check(history, question, budget)
    }
}

/// The engine with some strategies switched off.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct SolveWith(pub Strategies);

impl Checker for SolveWith {
    fn name(&self) -> &'static str {
        "solve"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        let answer = |question| match check(history, question, self.0, budget) {
            Verdict::Unknown(Why::Outside(what))
                if budget.poll().is_ok() && self.0.has(Strategy::ByStronger) =>
            {
                trust::by_stronger(history, question, self.0, budget)
                    .map_or(Verdict::Unknown(Why::Outside(what)), Verdict::Holds)
            }
            verdict => verdict,
        };
        without_instants(history, question, budget, |question| {
            with_included(history, question, budget, answer)
        })
    }
}

/// The verdict at this level.
fn check(history: &History, question: Question, strategies: Strategies, budget: &Budget) -> Verdict {
    if strategies.has(Strategy::CommitOrder)
        && let Some(order) = commits::in_order(history, question, budget)
    {
        return Verdict::Holds(order);
    }
    let points = points::of(question.level);
    let mut draft = match prepare(history, question, budget) {
        Ok(draft) => draft,
        Err(Stop::Violated(findings)) => return Verdict::Violated(findings),
        Err(Stop::Unknown(why)) => return Verdict::Unknown(why),
    };
    let problem = match Problem::new(history, question, &draft, budget) {
        Ok(problem) => problem.with_strategies(strategies),
        Err(limit) => return Verdict::Unknown(Why::Exhausted(limit, "before the search".to_string())),
    };
    draft.release();
    if points.weak
        && problem.has_open_reads()
        && strategies.has(Strategy::SnapshotGuess)
        && let Some(order) = trust::by_guess(history, question, strategies, budget)
    {
        return Verdict::Holds(order);
    }
    let found =
        if points.weak { solve_weak(&problem, points, budget) } else { solve(&problem, points, budget) };
    match found {
        Ok(Verdict::Violated(found)) if draft.bold => {
            match trust::proved(history, question, strategies, found, budget) {
                Some(found) => Verdict::Violated(found),
                None => Verdict::Unknown(Why::Outside(BOLD.to_string())),
            }
        }
        Ok(Verdict::Violated(found)) => shown(history, question, strategies, &draft, found, budget),
        Ok(Verdict::Holds(order)) => believed(&problem, points, &draft, order, budget),
        Ok(verdict) => verdict,
        Err(limit) => {
            let size = format!("{} transactions, {} reads", problem.txns.len(), problem.reads.len());
            Verdict::Unknown(Why::Exhausted(limit, size))
        }
    }
}

/// A violation with a proof that the audit accepts: that of a weaker level, if its own is none.
fn shown(
    history: &History,
    question: Question,
    strategies: Strategies,
    draft: &Draft,
    found: Vec<Finding>,
    budget: &Budget,
) -> Verdict {
    let accepted = |finding: &Finding| audit_within(history, question, &finding.certificate, budget).is_ok();
    if found.iter().all(accepted) {
        return Verdict::Violated(found);
    }
    match trust::by_weaker(history, question, strategies, budget) {
        Some(found) => Verdict::Violated(found),
        None if certifiable(history, draft, &found) => Verdict::Violated(found),
        None => Verdict::Unknown(uncertifiable()),
    }
}

fn solve_weak(problem: &Problem<'_>, points: Points, budget: &Budget) -> Result<Verdict, Exhausted> {
    Ok(match weak::decide(problem, points, budget)? {
        weak::Answer::Holds(certificate) => Verdict::Holds(certificate),
        weak::Answer::Refuted(lemmas) => violated(problem, points, lemmas, budget),
    })
}

fn solve(problem: &Problem<'_>, points: Points, budget: &Budget) -> Result<Verdict, Exhausted> {
    // Where no session has two transactions, nothing is assumed of them.
    let promised = problem.question.uses_session_order() || !problem.has_sessions();
    let has = |strategy| problem.strategies.has(strategy);
    let known = KnownGraph::new(problem, points, has(Strategy::AssumedSessions) || promised);
    if let Some(order) = guess(&known, budget)? {
        return Ok(holds(problem, points, order));
    }
    drop(known);
    if problem.has_open_reads()
        && has(Strategy::Footprints)
        && let Some(lemmas) = refuted_by_few(problem, points, budget)?
    {
        return Ok(violated(problem, points, lemmas, budget));
    }
    if problem.has_open_reads()
        && has(Strategy::Prune)
        && let Some(pruned) = prune(problem, points, budget)?
        && let Some(Outcome::Order(order)) = decide(KnownGraph::new(&pruned, points, true), SOME, budget)?
    {
        return Ok(holds(&pruned, points, order));
    }
    if promised || has(Strategy::AssumedSessions) {
        let known = KnownGraph::new(problem, points, true);
        let effort = if promised { Effort::ALL } else { SOME };
        match decide(known, effort, budget)? {
            Some(Outcome::Order(order)) => return Ok(holds(problem, points, order)),
            Some(Outcome::Refuted(lemmas)) if promised => {
                return Ok(violated(problem, points, lemmas, budget));
            }
            _ => {}
        }
    }
    let known = KnownGraph::new(problem, points, false);
    if let Some(order) = guess(&known, budget)? {
        return Ok(holds(problem, points, order));
    }
    Ok(match decide(known, Effort::ALL, budget)? {
        Some(Outcome::Order(order)) => holds(problem, points, order),
        Some(Outcome::Refuted(lemmas)) => violated(problem, points, lemmas, budget),
        None => unreachable!("a search without a limit on rounds ends"),
    })
}

/// The schedule on the graph as it stands.
fn guess(known: &KnownGraph<'_>, budget: &Budget) -> Result<Option<Vec<u32>>, Exhausted> {
    let has = |strategy| known.problem.strategies.has(strategy);
    if !has(Strategy::FirstSchedule) {
        return Ok(None);
    }
    match search(known, &Reach::Unknown, Effort { rounds: 1, ..Effort::ALL }, budget)? {
        Some(Outcome::Order(order)) => Ok(Some(order)),
        _ => Ok(None),
    }
}

fn decide(mut known: KnownGraph<'_>, effort: Effort, budget: &Budget) -> Result<Option<Outcome>, Exhausted> {
    match known.saturate_trying(&mut |known| repaired(known, budget), budget)? {
        Saturated::Ordered(order) => Ok(Some(Outcome::Order(order))),
        Saturated::Acyclic(reach) => search(&known, &reach, effort, budget),
        Saturated::Cyclic(cycle) => {
            let mut prover = Prover::new(&known);
            prover.add(&known_steps(cycle), &[], budget)?;
            Ok(Some(Outcome::Refuted(prover.finish())))
        }
    }
}

fn holds(problem: &Problem<'_>, points: Points, order: Vec<u32>) -> Verdict {
    let nodes = points.count(problem.txns.len()) as u32;
    let taken = order.into_iter().filter(|&point| point < nodes);
    let id = |point: u32| problem.txns[points.txn(point) as usize];
    Verdict::Holds(if points.split {
        let kind = |point: u32| {
            if point.is_multiple_of(2) { Point::Begin(id(point)) } else { Point::Commit(id(point)) }
        };
        Certificate::Points(taken.map(kind).collect())
    } else {
        Certificate::Order(Order { txns: taken.map(id).collect(), reads: Vec::new() })
    })
}

/// The points of an order.
fn numbers(problem: &Problem<'_>, points: Points, order: &Certificate) -> Vec<u32> {
    let txn = |id| problem.txns.binary_search(&id).unwrap_or_default() as u32;
    let point = |point: &Point| match *point {
        Point::Begin(id) => points.begin(txn(id)),
        Point::Commit(id) => points.commit(txn(id)),
    };
    match order {
        Certificate::Order(order) => order.txns.iter().map(|&id| points.commit(txn(id))).collect(),
        Certificate::Points(all) => all.iter().map(point).collect(),
        _ => Vec::new(),
    }
}

fn violated(problem: &Problem<'_>, points: Points, lemmas: Vec<Lemma>, budget: &Budget) -> Verdict {
    let Slice { txns, lemmas } = minimal(problem, points, lemmas, budget);
    let anomaly = margay_verdict::name(problem.history, problem.question.level, &lemmas);
    Verdict::Violated(vec![Finding { anomaly, txns, certificate: Certificate::Refutation(lemmas) }])
}
