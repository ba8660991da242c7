//! The search over CaDiCaL, through its interface for external propagators.
//!
//! The solver tells what it assigns when it pleases, so a trail of our own is kept and followed
//! when the solver asks for something. A conflict of the theory is handed over as a clause; while
//! it waits, nothing more is asserted.

use std::cell::RefCell;
use std::rc::Rc;

use cadical_sys::{CaDiCal, ExternalPropagator, Status, Terminator};
use margay_verdict::{Budget, Exhausted};

use crate::acyclic::{Acyclic, Cycle};
use crate::lit::{Clauses, Lit, Sat};

/// CaDiCaL with the theory.
pub(crate) struct Cadical {
    solver: CaDiCal,
    follower: Rc<RefCell<Follower>>,
    model: Vec<bool>,
    vars: u32,
}

impl From<Acyclic> for Cadical {
    fn from(theory: Acyclic) -> Self {
        let mut solver = CaDiCal::new();
        solver.set("quiet", 1);
        solver.set("chrono", 0);
        let follower = Rc::new(RefCell::new(Follower::new(theory)));
        solver.connect_external_propagator(Shared(follower.clone()));
        Self { solver, follower, model: Vec::new(), vars: 0 }
    }
}

impl Cadical {
    /// The solver's literal. Its first choice is always *true*, so variables that prefer *false*
    /// are turned around.
    fn outside(&self, lit: Lit) -> i32 {
        outside(&self.follower.borrow().turned, lit)
    }
}

fn outside(turned: &[bool], lit: Lit) -> i32 {
    let var = lit.var() as i32 + 1;
    if lit.is_positive() == turned[lit.var() as usize] { -var } else { var }
}

impl Clauses for Cadical {
    fn new_var(&mut self, preferred: bool) -> u32 {
        let var = self.solver.declare_one_more_variable();
        self.solver.add_observed_var(var);
        self.follower.borrow_mut().add_var(!preferred);
        self.vars += 1;
        debug_assert_eq!(var as u32, self.vars, "variables are numbered in order");
        var as u32 - 1
    }

    fn add(&mut self, clause: &[Lit]) {
        let clause: Vec<i32> = clause.iter().map(|&lit| self.outside(lit)).collect();
        clause.into_iter().chain([0]).for_each(|lit| self.solver.add(lit));
    }

    fn attach(&mut self, lit: Lit, edges: &[(u32, u32)]) {
        self.follower.borrow_mut().acyclic.attach(lit, edges);
    }

    fn is_before(&self, first: u32, second: u32) -> bool {
        let follower = self.follower.borrow();
        let places = follower.acyclic.places();
        places[first as usize] < places[second as usize]
    }
}

impl Sat for Cadical {
    fn solve(&mut self, conflicts: u64, budget: &Budget) -> Result<Option<bool>, Exhausted> {
        let until = self.follower.borrow().conflicts.saturating_add(conflicts);
        let stop = Stop { budget: budget.clone(), follower: self.follower.clone(), until };
        self.solver.connect_terminator(stop);
        let status = self.solver.solve();
        if status == Status::SATISFIABLE {
            let vars = 0..self.vars;
            self.model = vars
                .map(|var| {
                    let lit = self.outside(Lit::new(var, true));
                    (self.solver.val(lit.abs()) > 0) == (lit > 0)
                })
                .collect();
        }
        match status {
            Status::SATISFIABLE => Ok(Some(true)),
            Status::UNSATISFIABLE => Ok(Some(false)),
            Status::UNKNOWN => budget.poll_now().map(|()| None),
        }
    }

    fn value(&self, var: u32) -> bool {
        self.model.get(var as usize) == Some(&true)
    }

    fn take_cycles(&mut self) -> Vec<Cycle> {
        std::mem::take(&mut self.follower.borrow_mut().acyclic.cycles)
    }

    fn places(&self) -> Vec<u32> {
        self.follower.borrow().acyclic.places().to_vec()
    }
}

struct Stop {
    budget: Budget,
    follower: Rc<RefCell<Follower>>,
    until: u64,
}

impl Terminator for Stop {
    fn terminated(&mut self) -> bool {
        self.budget.poll().is_err() || self.follower.borrow().conflicts >= self.until
    }
}

/// The theory as CaDiCaL calls it.
struct Follower {
    acyclic: Acyclic,
    turned: Vec<bool>,
    /// What is assigned, by variable.
    assigned: Vec<bool>,
    trail: Vec<Lit>,
    /// Where each level begins on the trail.
    levels: Vec<usize>,
    followed: usize,
    conflicts: u64,
    /// A clause to hand over, last literal first.
    clause: Option<Vec<i32>>,
    reason: Option<Vec<i32>>,
}

impl Follower {
    fn new(acyclic: Acyclic) -> Self {
        Self {
            acyclic,
            turned: Vec::new(),
            assigned: Vec::new(),
            trail: Vec::new(),
            levels: Vec::new(),
            followed: 0,
            conflicts: 0,
            clause: None,
            reason: None,
        }
    }

    fn add_var(&mut self, turned: bool) {
        self.turned.push(turned);
        self.assigned.push(false);
    }

    fn inside(&self, lit: i32) -> Lit {
        let var = lit.unsigned_abs() - 1;
        Lit::new(var, (lit > 0) != self.turned[var as usize])
    }

    fn outside(&self, lit: Lit) -> i32 {
        outside(&self.turned, lit)
    }

    /// Asserts what was assigned; stops at a conflict.
    fn follow(&mut self) {
        while self.clause.is_none() && self.followed < self.trail.len() {
            let level = self.levels.partition_point(|&start| start <= self.followed);
            while self.acyclic.levels() < level {
                self.acyclic.push_level();
            }
            let lit = self.trail[self.followed];
            self.followed += 1;
            if let Err(conflict) = self.acyclic.assert(lit) {
                self.conflicts += 1;
                let clause = conflict.into_iter().map(|lit| self.outside(!lit));
                self.clause = Some([0].into_iter().chain(clause).collect());
            }
        }
    }

    fn backtrack(&mut self, level: usize) {
        let Some(&start) = self.levels.get(level) else { return };
        self.levels.truncate(level);
        for lit in self.trail.drain(start..) {
            self.assigned[lit.var() as usize] = false;
        }
        self.followed = self.followed.min(start);
        self.clause = None;
        self.acyclic.pop_to(level);
    }

    fn propagate(&mut self) -> i32 {
        self.follow();
        while self.clause.is_none()
            && let Some(lit) = self.acyclic.next_false()
        {
            if !self.assigned[lit.var() as usize] {
                if self.acyclic.levels() == 0 {
                    self.acyclic.explain(lit);
                }
                return self.outside(!lit);
            }
        }
        0
    }

    /// The reason of a propagated literal, one literal after the other.
    fn next_of_reason(&mut self, propagated: i32) -> i32 {
        if self.reason.is_none() {
            let lits = self.acyclic.explain(!self.inside(propagated));
            let clause = lits.into_iter().map(|lit| self.outside(!lit));
            self.reason = Some([0].into_iter().chain(clause).chain([propagated]).collect());
        }
        next(&mut self.reason)
    }
}

/// Takes the next literal of a clause; the clause is gone after its closing 0.
fn next(clause: &mut Option<Vec<i32>>) -> i32 {
    let lit = clause.as_mut().and_then(Vec::pop).unwrap_or(0);
    if lit == 0 {
        *clause = None;
    }
    lit
}

/// What the solver owns of the follower.
struct Shared(Rc<RefCell<Follower>>);

impl ExternalPropagator for Shared {
    fn notify_assignment(&mut self, lits: &[i32]) {
        let mut follower = self.0.borrow_mut();
        for &lit in lits {
            let lit = follower.inside(lit);
            if !std::mem::replace(&mut follower.assigned[lit.var() as usize], true) {
                follower.trail.push(lit);
            }
        }
    }

    fn notify_new_decision_level(&mut self) {
        let mut follower = self.0.borrow_mut();
        let start = follower.trail.len();
        follower.levels.push(start);
    }

    fn notify_backtrack(&mut self, new_level: usize) {
        self.0.borrow_mut().backtrack(new_level);
    }

    fn cb_check_found_model(&mut self, _: &[i32]) -> bool {
        let mut follower = self.0.borrow_mut();
        follower.follow();
        follower.clause.is_none()
    }

    fn cb_propagate(&mut self) -> i32 {
        self.0.borrow_mut().propagate()
    }

    fn cb_add_reason_clause_lit(&mut self, propagated: i32) -> i32 {
        self.0.borrow_mut().next_of_reason(propagated)
    }

    fn cb_has_external_clause(&mut self, is_forgettable: &mut bool) -> bool {
        *is_forgettable = true;
        let mut follower = self.0.borrow_mut();
        follower.follow();
        follower.clause.is_some()
    }

    fn cb_add_external_clause_lit(&mut self) -> i32 {
        next(&mut self.0.borrow_mut().clause)
    }
}
