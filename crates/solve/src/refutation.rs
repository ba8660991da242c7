//! Fewer lemmas for a refutation.
//!
//! # Problem
//! A search leaves every cycle that it met. Most are not needed to show that there is no model.
//!
//! # Algorithm
//! Each cycle's clause gets a selector, and a SAT solver without any theory says which selectors
//! its refutation used, until that stops helping. If few are left, each is tried without, one by
//! one.
//!
//! # Invariants
//! The clauses of the cycles that stay have no model.

use batsat::{BasicSolver, SolverInterface, lbool};
use margay_verdict::{Budget, Exhausted};

use crate::atoms::Atoms;
use crate::bat::{preference, to_bat};
use crate::known::{KnownGraph, Reach};
use crate::lemma::Steps;
use crate::lit::{Clauses, Lit};
use crate::strategy::Strategy;

/// Up to how many cycles each one is tried without.
const ONE_BY_ONE: usize = 400;

/// How often the solver is asked for a smaller core.
const ROUNDS: usize = 8;

/// The cycles that are needed, or nearly so.
pub(crate) fn needed(
    known: &KnownGraph<'_>,
    reach: &Reach,
    cycles: Vec<Steps>,
    budget: &Budget,
) -> Result<Vec<Steps>, Exhausted> {
    if !known.problem.strategies.has(Strategy::FewerLemmas) {
        return Ok(cycles);
    }
    let mut plain = Plain::default();
    let mut atoms = Atoms::new(known, reach, &mut plain, budget)?;
    let mut selectors: Vec<Lit> = Vec::new();
    for cycle in &cycles {
        budget.poll()?;
        selectors.push(plain.select(&mut atoms, cycle));
    }
    let mut kept: Vec<usize> = (0..cycles.len()).collect();
    for _ in 0..ROUNDS {
        let before = kept.len();
        if !plain.shrink(&selectors, &mut kept, budget)? || kept.len() == before {
            break;
        }
    }
    if kept.len() <= ONE_BY_ONE {
        one_by_one(&mut plain, &selectors, &mut kept, budget)?;
    }
    let mut cycles: Vec<Option<Steps>> = cycles.into_iter().map(Some).collect();
    Ok(kept.into_iter().filter_map(|place| cycles[place].take()).collect())
}

/// The longest cycles go first.
fn one_by_one(
    plain: &mut Plain,
    selectors: &[Lit],
    kept: &mut Vec<usize>,
    budget: &Budget,
) -> Result<(), Exhausted> {
    let mut place = kept.len();
    while place > 0 {
        place = place.min(kept.len()) - 1;
        let without: Vec<usize> = kept.iter().copied().filter(|&cycle| cycle != kept[place]).collect();
        let mut fewer = without;
        if plain.shrink(selectors, &mut fewer, budget)? {
            *kept = fewer;
        }
    }
    Ok(())
}

/// A solver that knows clauses only.
#[derive(Default)]
struct Plain {
    solver: BasicSolver,
}

impl Plain {
    /// The clause of a cycle, in force if the answered literal is assumed.
    fn select(&mut self, atoms: &mut Atoms<'_>, cycle: &Steps) -> Lit {
        let mut clause = atoms.negated(cycle, self);
        let selector = Lit::new(self.new_var(false), true);
        clause.push(!selector);
        self.add(&clause);
        selector
    }

    /// Keeps of `kept` what a refutation uses; false if there is a model.
    fn shrink(
        &mut self,
        selectors: &[Lit],
        kept: &mut Vec<usize>,
        budget: &Budget,
    ) -> Result<bool, Exhausted> {
        let asked = budget.clone();
        self.solver.cb_mut().set_stop(move || asked.poll().is_err());
        let assumed: Vec<_> = kept.iter().map(|&cycle| to_bat(selectors[cycle])).collect();
        match self.solver.solve_limited(&assumed) {
            answer if answer == lbool::FALSE => {
                kept.retain(|&cycle| self.solver.unsat_core_contains_var(to_bat(selectors[cycle]).var()));
                Ok(true)
            }
            answer if answer == lbool::TRUE => Ok(false),
            _ => budget.poll_now().map(|()| false),
        }
    }
}

impl Clauses for Plain {
    fn new_var(&mut self, preferred: bool) -> u32 {
        self.solver.new_var(preference(preferred), true).idx()
    }

    fn add(&mut self, clause: &[Lit]) {
        let mut clause: Vec<_> = clause.iter().copied().map(to_bat).collect();
        self.solver.add_clause_reuse(&mut clause);
    }

    fn attach(&mut self, _: Lit, _: &[(u32, u32)]) {}

    fn is_before(&self, first: u32, second: u32) -> bool {
        first < second
    }
}
