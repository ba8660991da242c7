//! The second backend: the whole question as one formula for an SMT solver, run as a process of its
//! own.
//!
//! # Problem
//! As in the crate's documentation, with initial values that nobody knows: are there integers for
//! them, an order, and sights, so that everything observed comes out?
//!
//! # Algorithm
//! The formula is that of [`margay_executions::formula`]; a model becomes an execution ([`model`]).
//!
//! # Differs from the paper
//! The paper's formula is its method; here it is the second opinion, and the answer to what has
//! unknown initial values. The order of commits is part of the formula, not fixed before.
//!
//! # Cost
//! For each row that is read, the square of the writers that may be its latest one. Logs of some
//! dozen transactions without any order, of some thousands where the order is known.

pub(crate) mod model;
mod process;

use margay_executions::formula::{Open, encode};
use margay_executions::{Constraints, Rules};
use margay_history::History;
use margay_sql::Term;
use margay_verdict::execution::Execution;
use margay_verdict::{Budget, Outside};

pub use process::Solver;

/// What the solver says.
#[derive(Debug)]
pub enum Said {
    /// There is an execution; it is not audited yet.
    Execution(Execution),
    /// There is none.
    None,
    /// It does not know, or could not be asked, and why.
    Unknown(String),
}

/// Asks a solver whether there is an execution.
///
/// # Errors
/// What is outside the fragment that has terms.
pub fn ask(history: &History, rules: Rules, solver: Solver, budget: &Budget) -> Result<Said, Outside> {
    let constraints = Constraints::new(history, rules);
    let encoded = encode(history, rules, constraints.preferred(), Open::Integers)?;
    let observed = encoded.observed.iter().map(|(_, term)| *term);
    let asserted: Vec<Term> = encoded.asserted.iter().copied().chain(observed).collect();
    Ok(match process::solve(solver, &encoded.terms, &asserted, budget) {
        Ok(Some(values)) => Said::Execution(model::execution(&encoded, &values)),
        Ok(None) => Said::None,
        Err(why) => Said::Unknown(why),
    })
}
