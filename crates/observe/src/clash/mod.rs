//! The formula's own solver: a SAT solver for the choices, the simplex method for the sums.
//!
//! # Problem
//! Initial values that nobody knows cannot all be tried; and where many rows may be seen as of many
//! states, neither can those. Is there a model of the formula ([`margay_executions::formula`]), and
//! if not, what proves that?
//!
//! # Algorithm
//! The SAT solver proposes truth values for choices, comparisons and bounds; the simplex method
//! looks for numbers within those bounds ([`simplex`]). Where there are none, the bounds that add
//! up to a contradiction are learned, and the solver proposes others. A fraction where an integer
//! should be splits the cases: at most the integer below, or more. When the solver has nothing to
//! propose, what was learned is the certificate: the audit makes the formula itself, adds the
//! bounds up, and asks a SAT solver once.
//!
//! # Invariants
//! - What is refuted is refuted for all initial values that the columns can hold, NULL included,
//!   and for rows that may not be there where nothing of them is known.
//!
//! # Cost
//! A call of both solvers for everything learned. [`Limits`] ends it.

mod rational;
mod simplex;

use hashbrown::HashMap;
use margay_executions::Rules;
use margay_executions::formula::{Clauses, Encoded, Open, encode};
use margay_history::{History, OpId, TxnId};
use margay_sql::Term;
use margay_verdict::execution::{Clash, Execution};
use margay_verdict::{Budget, Exhausted, Outside};
use rational::Rational;
use simplex::{Outcome, Simplex};

use crate::smt::model;

/// How far it goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most proposals.
    pub proposals: usize,
    /// The most decisions of the SAT solver, all proposals together.
    pub decisions: u64,
}

impl Limits {
    /// What the audit can follow.
    pub const DEFAULT: Limits = Limits { proposals: 20_000, decisions: 5_000_000 };
}

/// What the formula came to.
#[derive(Debug)]
pub enum Solved {
    /// An execution; it is not audited yet.
    Execution(Execution),
    /// No model: clashes that leave none, and the statements whose results are to blame.
    Refuted(Vec<Clash>, Vec<OpId>),
    /// No answer within the limits.
    Nothing,
    /// The budget is used up.
    Exhausted(Exhausted),
}

/// Looks for an execution of some transactions, after which all others come.
///
/// # Errors
/// What has no terms, or is too large.
pub fn solve(
    history: &History,
    rules: Rules,
    (txns, open): (&[TxnId], Open),
    limits: Limits,
    budget: &Budget,
) -> Result<Solved, Outside> {
    let encoded = encode(history, rules, txns, open)?;
    let mut clauses = Clauses::new(&encoded, limits.decisions, budget)?;
    let (mut simplex, mut clashes) = (Simplex::default(), Vec::new());
    for _ in 0..limits.proposals {
        if let Err(exhausted) = budget.poll_now() {
            return Ok(Solved::Exhausted(exhausted));
        }
        match clauses.solve() {
            None => return Ok(budget.poll_now().map_or_else(Solved::Exhausted, |()| Solved::Nothing)),
            Some(false) => return Ok(Solved::Refuted(clashes, clauses.blamed())),
            Some(true) => {}
        }
        match simplex.check(&clauses.intervals()) {
            None => return Ok(Solved::Nothing),
            Some(Outcome::Values(values)) => match fraction(&values) {
                None => return Ok(execution(&encoded, &clauses, &values)),
                Some((term, value)) => clauses.split(term, value.floor()),
            },
            Some(Outcome::Clash(clash)) if clauses.forbid(&clash) => clashes.push(clash),
            Some(Outcome::Clash(_)) => return Ok(Solved::Nothing),
        }
    }
    Ok(Solved::Nothing)
}

/// The first unknown that is no integer.
fn fraction(values: &HashMap<Term, Rational>) -> Option<(Term, Rational)> {
    let fractions = values.iter().filter(|(_, value)| value.below != 1);
    fractions.min_by_key(|(term, _)| **term).map(|(term, value)| (*term, *value))
}

fn execution(encoded: &Encoded<'_>, clauses: &Clauses<'_>, values: &HashMap<Term, Rational>) -> Solved {
    let integers = values.iter().map(|(&term, value)| (term, value.floor())).collect();
    Solved::Execution(model::execution(encoded, &clauses.values(&integers)))
}
