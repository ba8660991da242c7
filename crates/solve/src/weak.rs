//! `parallel-snapshot`, `causal`, `read-atomic`, the two kinds of read committed and
//! `read-uncommitted`: what is visible to a reader hides what is older.
//!
//! # Problem
//! These levels ask for no order of begin points: an anti-dependency counts only where the
//! overwriter is visible to the reader. By one rule for all of them: there is an order of the
//! transactions that contains session order (but at `read-committed` and below), wr and ww, and if
//! a read saw version `a`, and version `b` of the same item is visible to its transaction, then `b`
//! is before `a`. Visible is who leads to the reader by session order, wr and ww
//! (`parallel-snapshot`, where that forbids just the cycles with one rw), by session order and wr
//! (`causal`), or by one step of these (`read-atomic`); who was read in an earlier operation
//! (`be-read-committed`); nobody (`read-committed`). At `read-uncommitted` there are no reads at
//! all.
//!
//! # Algorithm
//! Lazily, as elsewhere: a SAT solver with the acyclicity theory chooses what open reads saw and
//! the orders of versions that have been named; the rest of the orders follows one linear order of
//! the graph. Every read that misses something visible is a cycle of one rw edge and the path that
//! makes it visible, and becomes a clause, until there is none.
//!
//! Where the first linear order is not enough and paths make visible, one of a stronger level is
//! looked for first ([`mod@guess`]).
//!
//! What an operation saw of a row that is written in part must be one version, though its columns
//! were written by several. So the operation has a point of its own before its transaction's
//! ([`Stand::Point`]): it comes after all whose columns it saw and before all who wrote these
//! columns later. Where the linear order breaks that, the order of the two versions is named. What
//! a transaction saw of a row after it had written it itself is what it saw at its own place.
//!
//! # Invariants
//! As those of [`mod@crate::search`]: clauses are negations of forbidden cycles; `holds` is said
//! only of an order that satisfies the rule.
//!
//! # Cost
//! Reachability in the visible graph ([`sight`]), and one look at each pair of a read and a version
//! between the one that it saw and its transaction, per round. Engine infer is linear where values
//! are unique; this one is for the others.
//!
//! [`Stand::Point`]: crate::problem::Stand::Point

mod choice;
mod guess;
mod hint;
mod left;
mod sight;

use std::sync::Arc;

use margay_levels::Level;
use margay_order::Graph;
use margay_verdict::{Budget, Certificate, Exhausted, Lemma};

use crate::acyclic::{Acyclic, Link};
use crate::atoms::Atoms;
use crate::known::{KnownGraph, Reach, cycle};
use crate::lemma::{CycleStep, Prover, Steps};
use crate::lit::{Clauses, Sat};
use crate::points::Points;
use crate::problem::Problem;
use crate::refutation::needed;
use crate::schedule::{linear, times};
use crate::search::{Solver, known_steps};
use crate::strategy::Strategy;

use choice::{CYCLES, Choice};
use guess::{Guess, guess};
use hint::hints;

/// How it ended.
pub(crate) enum Answer {
    Holds(Certificate),
    Refuted(Vec<Lemma>),
}

/// A read that saw a version, and another version of the item: the second is before the first, or
/// after the read.
type Clash = (u32, u32, u32);

/// Decides one of these levels.
pub(crate) fn decide(problem: &Problem<'_>, points: Points, budget: &Budget) -> Result<Answer, Exhausted> {
    let known = KnownGraph::new(problem, points, problem.question.uses_session_order());
    let search = Weak { graph: Arc::new(known.graph()), known: &known };
    let times = times(&known, search.graph.node_count());
    if let Some(answer) = search.run(&times, 1, budget)? {
        return Ok(answer);
    }
    let guess = match problem.question.level {
        Level::ParallelSnapshot | Level::Causal
            if !problem.is_part() && problem.strategies.has(Strategy::StrongerGuess) =>
        {
            guess(problem, points, budget)?
        }
        _ => Guess::Nothing,
    };
    let answer = match guess {
        Guess::Refuted(lemmas) => return Ok(Answer::Refuted(lemmas)),
        Guess::Places(places) => {
            let mut priority = vec![0; search.graph.node_count()];
            priority[..places.len()].copy_from_slice(&places);
            search.run(&priority, usize::MAX, budget)?
        }
        Guess::Nothing => search.run(&times, usize::MAX, budget)?,
    };
    Ok(answer.expect("a search without a limit on rounds ends"))
}

/// A search at one of these levels.
struct Weak<'k> {
    known: &'k KnownGraph<'k>,
    graph: Arc<Graph>,
}

impl Weak<'_> {
    /// From a linear order by priority, for so many rounds.
    fn run(&self, priority: &[u64], rounds: usize, budget: &Budget) -> Result<Option<Answer>, Exhausted> {
        let (known, graph) = (self.known, &self.graph);
        let Some(order) = linear(graph, priority) else {
            let mut prover = Prover::new(known);
            prover.add(&known_steps(cycle(graph, budget)), &[], budget)?;
            return Ok(Some(Answer::Refuted(prover.finish())));
        };
        let mut solver = Solver::from(Acyclic::new(graph.clone(), Arc::new(known.reversed()), &order));
        let hints = hints(known, &order, budget)?;
        let guess = |read: u32| hints[read as usize];
        let mut atoms = Atoms::guessed(known, &Reach::Unknown, guess, &mut solver, budget)?;
        let (mut cycles, mut named): (Vec<Steps>, Vec<Clash>) = (Vec::new(), Vec::new());
        for round in 1.. {
            if solver.solve(u64::MAX, budget)? != Some(true) {
                let lemmas = refutation(known, atoms, solver, cycles, budget)?;
                return Ok(Some(Answer::Refuted(lemmas)));
            }
            let choice = Choice::new(known, graph, &atoms, &solver, &named, budget)?;
            let found = match choice.order(&solver, budget)? {
                Ok(order) => {
                    let clashes = choice.clashes(&order, budget)?;
                    if !clashes.is_empty() {
                        for &(read, a, b) in &clashes {
                            budget.poll()?;
                            atoms.anti(read, a, b, &mut solver);
                        }
                        named.extend(clashes);
                        continue;
                    }
                    let choice = choice.chained(&order);
                    let most = if round == rounds { 1 } else { CYCLES };
                    let found = choice.misses(&order, most, budget)?;
                    if found.is_empty() {
                        return Ok(Some(Answer::Holds(choice.certificate(&order, budget)?)));
                    }
                    found
                }
                Err(cycles) => cycles,
            };
            if round >= rounds {
                return Ok(None);
            }
            for cycle in found {
                budget.poll()?;
                let clause = atoms.negated(&cycle, &mut solver);
                solver.add(&clause);
                cycles.push(cycle);
            }
        }
        Ok(None)
    }
}

fn refutation(
    known: &KnownGraph<'_>,
    atoms: Atoms<'_>,
    mut solver: Solver,
    mut cycles: Vec<Steps>,
    budget: &Budget,
) -> Result<Vec<Lemma>, Exhausted> {
    let step = |link: Link| match link {
        Link::Fixed(label) => CycleStep::Known(label),
        Link::Optional(edge) => atoms.steps[edge as usize],
    };
    let of_theory = solver.take_cycles().into_iter();
    cycles.extend(of_theory.map(|cycle| cycle.into_iter().map(|(a, b, link)| (a, b, step(link))).collect()));
    let mut prover = Prover::new(known);
    for cycle in needed(known, &Reach::Unknown, cycles, budget)? {
        prover.add(&cycle, &[], budget)?;
    }
    Ok(prover.finish())
}
