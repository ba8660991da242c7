//! The search: a SAT solver chooses, the theory keeps it from cycles, the schedule names what is
//! still to be chosen.
//!
//! # Problem
//! After saturation some orders of versions are open, and perhaps some reads may have seen several
//! writers. Find choices under which the schedule completes, or lemmas that leave none.
//!
//! # Algorithm
//! Lazy clause generation around CDCL with an acyclicity theory. The schedule runs with the present
//! choices; a cycle of waits becomes a clause over the atoms *version `a` is before version `b`*
//! and *read `r` saw version `v`*. An atom exists only once a lemma has named it, so pairs of
//! writers that never matter cost nothing; between the atoms that exist, the solver finds the
//! cycles itself ([`crate::acyclic`]). The next model changes some choices; the schedule undoes
//! only what they touch, and goes on, in the order that the theory arrived at. When a few rounds
//! have not been enough, that order is mended by local search ([`crate::mend`]).
//!
//! # Invariants
//! A clause is the negation of assumptions that form a cycle, so no model of the history is ever
//! excluded; each round excludes the present choices, and there are finitely many.
//!
//! # Differs from the paper
//! [Vbox §4.6] and [Cobra §3.4] create all constraints first.
//!
//! # Cost
//! One SAT call and the undone part of the schedule per round.

use std::rc::Rc;
use std::sync::Arc;

use margay_order::Graph;
use margay_verdict::{Budget, Exhausted, Lemma};

use crate::acyclic::{Acyclic, Cycle, Link};
use crate::atoms::{Atoms, guess};
use crate::known::{KnownGraph, Reach};
use crate::lemma::{CycleStep, Prover, Steps};
use crate::lit::Sat;
use crate::mend::mend;
use crate::problem::INITIAL;
use crate::refutation::needed;
use crate::schedule::{Choices, Schedule, by_reads, linear, priorities};
use crate::strategy::Strategy;

#[cfg(not(feature = "cadical"))]
pub(crate) type Solver = crate::bat::Bat;
#[cfg(feature = "cadical")]
pub(crate) type Solver = crate::cadical::Cadical;

/// How many cycles are taken from one stuck schedule.
const CYCLES: usize = 8;

/// How the search ended.
pub(crate) enum Outcome {
    /// All points, in order.
    Order(Vec<u32>),
    /// Lemmas without a model, the shortest first.
    Refuted(Vec<Lemma>),
}

/// How much a search may try before it gives up.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub rounds: usize,
    /// Of the theory, in one call of the solver.
    pub conflicts: u64,
    /// After how many rounds the order is mended.
    pub lazy: usize,
}

impl Effort {
    /// Until there is an answer.
    pub const ALL: Self = Self { rounds: usize::MAX, conflicts: u64::MAX, lazy: 8 };
}

/// Searches; gives up with `None`.
pub(crate) fn search(
    known: &KnownGraph<'_>,
    reach: &Reach,
    effort: Effort,
    budget: &Budget,
) -> Result<Option<Outcome>, Exhausted> {
    search_with::<Solver>(known, reach, effort, budget)
}

/// Searches with one of the back ends.
pub(crate) fn search_with<S: Sat>(
    known: &KnownGraph<'_>,
    reach: &Reach,
    effort: Effort,
    budget: &Budget,
) -> Result<Option<Outcome>, Exhausted> {
    let (graph, reversed) = (Arc::new(known.graph()), Arc::new(known.reversed()));
    let priority = priorities(known, reach, graph.node_count());
    let mut schedule = Schedule::new(known, &graph, &reversed, priority, guesses(known));
    if schedule.run(budget)? {
        return Ok(Some(Outcome::Order(schedule.log)));
    }
    let Some(order) = linear(&graph, schedule.priorities()) else { return Ok(None) };
    if effort.rounds == 1 {
        let repairs = known.problem.strategies.has(Strategy::Repair);
        let repaired = repairs && schedule.run_repaired(&order, budget)?;
        return Ok(repaired.then_some(Outcome::Order(schedule.log)));
    }
    let solver = S::from(Acyclic::new(graph.clone(), reversed.clone(), &order));
    let mut search = Search::new(known, reach, solver, budget)?;
    search.run(&mut schedule, &graph, effort, budget)
}

/// An order by repairs of a schedule, where many sessions and no time tell of it, if there is one.
pub(crate) fn repaired(known: &KnownGraph<'_>, budget: &Budget) -> Result<Option<Vec<u32>>, Exhausted> {
    let problem = known.problem;
    let tells = !problem.history.is_timed() && problem.has_sessions();
    if !tells || !problem.strategies.has(Strategy::Repair) {
        return Ok(None);
    }
    let (graph, reversed) = (Arc::new(known.graph()), Arc::new(known.reversed()));
    let priority = by_reads(known, graph.node_count());
    let Some(order) = linear(&graph, &priority) else { return Ok(None) };
    let mut schedule = Schedule::new(known, &graph, &reversed, priority, guesses(known));
    Ok(schedule.run_repaired(&order, budget)?.then_some(schedule.log))
}

/// What is tried first.
pub(crate) fn guesses(known: &KnownGraph<'_>) -> Choices {
    let reads = 0..known.problem.reads.len() as u32;
    let seen: Vec<u32> =
        reads.map(|read| known.problem.seen(read).unwrap_or_else(|| guess(known, read))).collect();
    let active = Rc::new(active(known, &seen));
    Choices { seen: Rc::new(seen), active, orders: Vec::new() }
}

/// Those that must have committed, and those that somebody is taken to have seen.
pub(crate) fn active(known: &KnownGraph<'_>, seen: &[u32]) -> Vec<bool> {
    let problem = known.problem;
    let mut active = problem.forced.clone();
    let mut open: Vec<u32> = (0..active.len() as u32).filter(|&t| active[t as usize]).collect();
    if open.len() == active.len() {
        return active;
    }
    while let Some(txn) = open.pop() {
        for &(_, needed) in problem.needs.iter().filter(|&&(a, _)| a == txn) {
            if !std::mem::replace(&mut active[needed as usize], true) {
                open.push(needed);
            }
        }
        for read in problem.txn_reads(txn) {
            let writer = problem.versions[seen[read as usize] as usize].txn;
            if writer != INITIAL && !std::mem::replace(&mut active[writer as usize], true) {
                open.push(writer);
            }
        }
    }
    active
}

struct Search<'k, S> {
    known: &'k KnownGraph<'k>,
    reach: &'k Reach,
    solver: S,
    atoms: Atoms<'k>,
    /// Cycles of the schedule that became clauses.
    cycles: Vec<Steps>,
    /// The present choices; they change only if some read is open.
    seen: Rc<Vec<u32>>,
    active: Rc<Vec<bool>>,
}

impl<'k, S: Sat> Search<'k, S> {
    fn new(
        known: &'k KnownGraph<'k>,
        reach: &'k Reach,
        mut solver: S,
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        let atoms = Atoms::new(known, reach, &mut solver, budget)?;
        let (cycles, seen, active) = (Vec::new(), Rc::default(), Rc::default());
        Ok(Self { known, reach, solver, atoms, cycles, seen, active })
    }

    /// From a schedule that is stuck to an answer.
    fn run(
        &mut self,
        schedule: &mut Schedule<'k>,
        graph: &Graph,
        effort: Effort,
        budget: &Budget,
    ) -> Result<Option<Outcome>, Exhausted> {
        // With session order a schedule is nearly right, and a few more rounds make it so.
        let lazy = if matches!(self.reach, Reach::Chains(..)) { 8 * effort.lazy } else { effort.lazy };
        for round in 1..effort.rounds {
            for cycle in schedule.cycles(CYCLES, budget)? {
                self.learn(cycle);
            }
            if round == lazy && self.mended(schedule, graph, budget)? {
                return Ok(Some(Outcome::Order(std::mem::take(&mut schedule.log))));
            }
            match self.solver.solve(effort.conflicts, budget)? {
                None => return Ok(None),
                Some(false) => return Ok(Some(Outcome::Refuted(self.refutation(budget)?))),
                Some(true) => schedule.change(self.choices(), self.solver.places()),
            }
            if schedule.run(budget)? {
                return Ok(Some(Outcome::Order(std::mem::take(&mut schedule.log))));
            }
        }
        Ok(None)
    }

    /// Tries to mend the order that the theory arrived at; answers whether the schedule is
    /// complete.
    fn mended(
        &mut self,
        schedule: &mut Schedule<'k>,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<bool, Exhausted> {
        if !self.known.problem.strategies.has(Strategy::Mend) {
            return Ok(false);
        }
        let mended = mend(self.known, graph, &guesses(self.known), &self.solver.places(), budget)?;
        let Some((choices, places)) = mended else { return Ok(false) };
        schedule.follow(choices, places);
        schedule.run(budget)
    }

    /// What the solver's model says.
    fn choices(&mut self) -> Choices {
        if self.seen.is_empty() || self.known.problem.has_open_reads() {
            let reads = 0..self.known.problem.reads.len() as u32;
            self.seen = Rc::new(reads.map(|read| self.seen(read)).collect());
            self.active = Rc::new(active(self.known, &self.seen));
        }
        let solver = &self.solver;
        let chosen = |(&(a, b), &var): (&(u32, u32), &u32)| if solver.value(var) { (a, b) } else { (b, a) };
        let mut orders: Vec<_> = self.atoms.orders.iter().map(chosen).collect();
        orders.sort_unstable();
        Choices { seen: self.seen.clone(), active: self.active.clone(), orders }
    }

    fn seen(&self, read: u32) -> u32 {
        let chosen = self.atoms.seen(read, |var| self.solver.value(var));
        chosen.unwrap_or_else(|| guess(self.known, read))
    }

    fn learn(&mut self, cycle: Steps) {
        let clause = self.atoms.negated(&cycle, &mut self.solver);
        self.solver.add(&clause);
        self.cycles.push(cycle);
    }

    /// The lemmas of all cycles that are needed, with what they rest on.
    fn refutation(&mut self, budget: &Budget) -> Result<Vec<Lemma>, Exhausted> {
        let mut cycles = std::mem::take(&mut self.cycles);
        let found = self.solver.take_cycles();
        cycles.extend(found.into_iter().map(|cycle| self.steps(cycle)));
        let mut cycles = needed(self.known, self.reach, cycles, budget)?;
        cycles.sort_by_key(Vec::len);
        let mut prover = Prover::new(self.known);
        for cycle in &cycles {
            let forced: Vec<(u32, u32)> =
                cycle.iter().filter_map(|&(_, _, step)| self.atoms.rests_on(step)).collect();
            prover.add(cycle, &forced, budget)?;
        }
        Ok(prover.finish())
    }

    fn steps(&self, cycle: Cycle) -> Steps {
        let step = |link: Link| match link {
            Link::Fixed(label) => CycleStep::Known(label),
            Link::Optional(edge) => self.atoms.steps[edge as usize],
        };
        cycle.into_iter().map(|(from, to, link)| (from, to, step(link))).collect()
    }
}

/// The steps of a cycle of the known graph.
pub(crate) fn known_steps(cycle: Vec<(u32, u32, u32)>) -> Steps {
    cycle.into_iter().map(|(from, to, label)| (from, to, CycleStep::Known(label))).collect()
}
