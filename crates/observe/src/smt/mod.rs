//! The second backend: the whole question as one formula for an SMT solver, run as a process of its own.
//!
//! # Problem
//! As in the crate's documentation, with initial values that nobody knows: are there integers for them, an order, and sights, so that everything observed comes out?
//!
//! # Algorithm
//! Every transaction has a point in the order, an integer; a snapshot is a point too. A row that a statement sees is the one that the latest visible writer left ([`rows`]), and
//! what a writer leaves is the term of its statements over what those saw ([`margay_sql::Database::symbolic`]). That each result is what was observed, and that
//! the level's conditions hold, is asserted ([`encode`]). The order that time and evidence give is used to leave out writers that cannot be the latest, so that a log whose
//! order is known becomes a formula over its initial values alone.
//!
//! # Invariants
//! - Every execution that the level allows is a model: where the solver finds none, there is none. What would break that is refused by name.
//! - A model is no proof: it becomes an execution ([`model`]), which the audit executes with the plain interpreter before anybody says `holds`.
//!
//! # Differs from the paper
//! The paper's formula is its method; here it is the second opinion, and the answer to what has unknown initial values. The order of commits is part of the
//! formula, not fixed before.
//!
//! # Cost
//! For each row that is read, the square of the writers that may be its latest one. Logs of some dozen transactions without any order, of some thousands where the order is known.

mod encode;
mod fits;
mod model;
mod points;
mod process;
mod rows;

use margay_history::History;
use margay_verdict::observed::{Execution, Rules};
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
    let encoded = encode::encode(history, rules)?;
    Ok(match process::solve(solver, &encoded.terms, &encoded.asserted, budget) {
        Ok(Some(values)) => Said::Execution(model::execution(&encoded, &values)),
        Ok(None) => Said::None,
        Err(why) => Said::Unknown(why),
    })
}
