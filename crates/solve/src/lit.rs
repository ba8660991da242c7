//! Literals that no solver owns, and what a back end of the search must be able to do.

use margay_verdict::{Budget, Exhausted};

use crate::acyclic::{Acyclic, Cycle};

/// A variable, or its negation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Lit(u32);

impl Lit {
    /// The literal that says that `var` has this value.
    pub fn new(var: u32, value: bool) -> Self {
        Self(2 * var + u32::from(!value))
    }

    pub fn var(self) -> u32 {
        self.0 / 2
    }

    /// Whether it is the variable itself.
    pub fn is_positive(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// A dense number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::ops::Not for Lit {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// Takes variables, clauses, and the edges that literals turn on.
pub(crate) trait Clauses {
    /// A new variable; the solver tries the `preferred` value first.
    fn new_var(&mut self, preferred: bool) -> u32;

    /// Adds a clause.
    fn add(&mut self, clause: &[Lit]);

    /// Gives the edges that a literal turns on, once and before the next search.
    fn attach(&mut self, lit: Lit, edges: &[(u32, u32)]);

    /// Whether one point is before another in the best order known.
    fn is_before(&self, first: u32, second: u32) -> bool;
}

/// A SAT solver that heeds the acyclicity theory.
pub(crate) trait Sat: Clauses + From<Acyclic> {
    /// Whether there is a model under which the graph has no cycle; `None` after too many
    /// conflicts.
    fn solve(&mut self, conflicts: u64, budget: &Budget) -> Result<Option<bool>, Exhausted>;

    /// What the last model says; false before the first.
    fn value(&self, var: u32) -> bool;

    /// The cycles that were used since this was last asked.
    fn take_cycles(&mut self) -> Vec<Cycle>;

    /// The place of each point in an order that follows the last model.
    fn places(&self) -> Vec<u32>;
}
