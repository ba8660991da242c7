//! The search over `batsat`, in pure Rust.
//!
//! The solver's trail is followed from where it was left: every literal on it is asserted in the
//! theory once per level. A reason at level 0 is never asked for by the solver, so it is looked up
//! at once: a refutation must be able to tell it.

use std::cell::Cell;
use std::rc::Rc;

use batsat::{BasicSolver, SolverInterface, Theory, TheoryArg, Var, lbool};
use margay_verdict::{Budget, Exhausted};

use crate::acyclic::{Acyclic, Cycle};
use crate::lit::{Clauses, Lit, Sat};

/// `batsat` with the theory.
pub(crate) struct Bat {
    solver: BasicSolver,
    theory: Follower,
}

impl From<Acyclic> for Bat {
    fn from(theory: Acyclic) -> Self {
        let theory = Follower {
            acyclic: theory,
            followed: 0,
            levels: Vec::new(),
            reason: Vec::new(),
            budget: Budget::unlimited(),
            conflicts: Rc::default(),
        };
        Self { solver: BasicSolver::default(), theory }
    }
}

impl Clauses for Bat {
    fn new_var(&mut self, preferred: bool) -> u32 {
        self.solver.new_var(preference(preferred), true).idx()
    }

    fn add(&mut self, clause: &[Lit]) {
        let mut clause: Vec<_> = clause.iter().copied().map(to_bat).collect();
        self.solver.add_clause_reuse(&mut clause);
    }

    fn attach(&mut self, lit: Lit, edges: &[(u32, u32)]) {
        self.theory.acyclic.attach(lit, edges);
    }

    fn is_before(&self, first: u32, second: u32) -> bool {
        let places = self.theory.acyclic.places();
        places[first as usize] < places[second as usize]
    }
}

impl Sat for Bat {
    fn solve(&mut self, conflicts: u64, budget: &Budget) -> Result<Option<bool>, Exhausted> {
        let asked = budget.clone();
        let (counter, start) = (self.theory.conflicts.clone(), self.theory.conflicts.get());
        let stop = move || asked.poll().is_err() || counter.get() - start >= conflicts;
        self.solver.cb_mut().set_stop(stop);
        self.theory.budget = budget.clone();
        let answer = self.solver.solve_limited_th(&mut self.theory, &[]);
        if answer == lbool::UNDEF || answer == lbool::TRUE {
            // A theory that ran out of time has not looked at all of the model.
            budget.poll()?;
        }
        Ok((answer != lbool::UNDEF).then_some(answer == lbool::TRUE))
    }

    fn value(&self, var: u32) -> bool {
        self.solver.get_model().get(var as usize) == Some(&lbool::TRUE)
    }

    fn take_cycles(&mut self) -> Vec<Cycle> {
        std::mem::take(&mut self.theory.acyclic.cycles)
    }

    fn places(&self) -> Vec<u32> {
        self.theory.acyclic.places().to_vec()
    }
}

/// The solver tries this value first.
pub(crate) fn preference(value: bool) -> lbool {
    if value { lbool::TRUE } else { lbool::FALSE }
}

pub(crate) fn to_bat(lit: Lit) -> batsat::Lit {
    batsat::Lit::new(Var::unsafe_from_idx(lit.var()), lit.is_positive())
}

fn from_bat(lit: batsat::Lit) -> Lit {
    Lit::new(lit.var().idx(), lit.sign())
}

/// The theory as `batsat` calls it.
struct Follower {
    acyclic: Acyclic,
    /// How much of the trail has been asserted.
    followed: usize,
    levels: Vec<usize>,
    reason: Vec<batsat::Lit>,
    budget: Budget,
    /// How many conflicts there were.
    conflicts: Rc<Cell<u64>>,
}

impl Theory for Follower {
    fn final_check(&mut self, acts: &mut TheoryArg<'_>) {
        self.partial_check(acts);
    }

    fn create_level(&mut self) {
        self.levels.push(self.followed);
        self.acyclic.push_level();
    }

    fn pop_levels(&mut self, n: usize) {
        let level = self.levels.len() - n;
        self.followed = self.levels[level];
        self.levels.truncate(level);
        self.acyclic.pop_to(level);
    }

    fn n_levels(&self) -> usize {
        self.levels.len()
    }

    fn partial_check(&mut self, acts: &mut TheoryArg<'_>) {
        while let Some(&lit) = acts.model().get(self.followed) {
            if self.budget.poll().is_err() {
                return;
            }
            self.followed += 1;
            if let Err(conflict) = self.acyclic.assert(from_bat(lit)) {
                let clause: Vec<_> = conflict.into_iter().map(|lit| to_bat(!lit)).collect();
                self.conflicts.set(self.conflicts.get() + 1);
                return acts.raise_conflict(&clause, false);
            }
        }
        while let Some(lit) = self.acyclic.next_false() {
            let negated = to_bat(!lit);
            if acts.value(negated.var()) == lbool::UNDEF {
                if self.levels.is_empty() {
                    self.acyclic.explain(lit);
                }
                acts.propagate(negated);
            }
        }
    }

    fn explain_propagation(&mut self, p: batsat::Lit) -> &[batsat::Lit] {
        let reason = self.acyclic.explain(!from_bat(p));
        self.reason.clear();
        self.reason.extend(reason.into_iter().map(to_bat));
        &self.reason
    }
}
