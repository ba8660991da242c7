//! A formula as clauses: choices, comparisons of points, and bounds on sums of unknown integers.
//!
//! # Algorithm
//! Every term that is true or false has a literal. An integer is a sum of unknown integers with
//! factors; *one or the other* is an unknown of its own that is equal to one under the condition
//! and to the other without it, and so is a product of unknowns, of which nothing else is said.
//! *Less* and *equal* are bounds on sums: a sum of integers is at most some number, or at least the
//! next one.
//!
//! # Mathematics
//! Bounds that are multiplied by positive numbers and added up so that every unknown is gone, and
//! that then say that 0 is at most a negative number, are not all true (Farkas): that is a
//! [`Clash`], and anybody can check it by adding up. When the clauses together with the clauses
//! that clashes are have no model, the formula has none.
//!
//! # Invariants
//! - Every model of the formula is one of the clauses.

use std::cell::Cell;
use std::collections::BTreeMap;

use batsat::{BasicSolver, Lit, SolverInterface, lbool};
use hashbrown::HashMap;
use margay_history::OpId;
use margay_sql::{Node, Term, Terms};
use margay_verdict::execution::{Clash, Form};
use margay_verdict::{Budget, Outside};

use super::encode::Encoded;
use super::moments::{Moments, TRANSACTIONS};

/// What a sum has to be in a model: at least and at most.
pub type Interval = (Option<i128>, Option<i128>);

/// A sum of unknown integers and a number.
type Sum = (BTreeMap<Term, i128>, i128);

/// The clauses of a formula.
pub struct Clauses<'e> {
    terms: &'e Terms,
    solver: BasicSolver,
    truth: Lit,
    truths: HashMap<Term, Lit>,
    sums: HashMap<Term, Sum>,
    /// For each sum the numbers that it may be at most, each with its literal.
    bounds: BTreeMap<Form, BTreeMap<i128, Lit>>,
    moments: Moments,
    /// The literal of each observation.
    observed: Vec<(OpId, Lit)>,
}

/// That numbers are too large for this.
struct TooLarge;

impl<'e> Clauses<'e> {
    /// The clauses of a formula; its solver stops after so many decisions, and with the budget.
    ///
    /// # Errors
    /// When the formula is too large.
    pub fn new(encoded: &'e Encoded<'_>, decisions: u64, budget: &Budget) -> Result<Self, Outside> {
        let too_large = |what: &str| Outside(format!("{what} for a formula over unknown values"));
        if encoded.points.txns.len() > TRANSACTIONS {
            return Err(too_large("too many transactions"));
        }
        let mut solver = BasicSolver::default();
        let (left, budget) = (Cell::new(decisions), budget.clone());
        solver.cb_mut().set_stop(move || {
            left.set(left.get().saturating_sub(1));
            left.get() == 0 || budget.poll_now().is_err()
        });
        let truth = Lit::new(solver.new_var(lbool::TRUE, true), true);
        solver.add_clause_reuse(&mut vec![truth]);
        let mut fresh = || Lit::new(solver.new_var(lbool::TRUE, true), true);
        let moments = Moments::new(&encoded.points, truth, &mut fresh);
        let order = moments.order(&encoded.points, truth, &mut |mut clause| {
            solver.add_clause_reuse(&mut clause);
        });
        order.ok_or_else(|| too_large("too many orders"))?;
        let mut clauses = Clauses {
            terms: &encoded.terms,
            solver,
            truth,
            truths: HashMap::new(),
            sums: HashMap::new(),
            bounds: BTreeMap::new(),
            moments,
            observed: Vec::new(),
        };
        clauses.translate(encoded).map_err(|TooLarge| too_large("too large numbers"))?;
        Ok(clauses)
    }

    fn translate(&mut self, encoded: &Encoded<'_>) -> Result<(), TooLarge> {
        let nodes = self.terms.nodes();
        let mut needed = vec![false; nodes.len()];
        let observed = encoded.observed.iter().map(|(_, term)| term);
        encoded.asserted.iter().chain(observed).for_each(|term| needed[term.index()] = true);
        for (at, node) in nodes.iter().enumerate().rev() {
            if needed[at] {
                node.parts().into_iter().for_each(|part| needed[part.index()] = true);
            }
        }
        for (at, node) in nodes.iter().enumerate().filter(|(at, _)| needed[*at]) {
            let term = self.terms.term(at);
            if node.is_truth() {
                let lit = self.literal(node)?;
                self.truths.insert(term, lit);
            } else {
                let sum = self.sum(term, node)?;
                self.sums.insert(term, sum);
            }
        }
        for term in &encoded.asserted {
            self.add(vec![self.truths[term]]);
        }
        self.observed = encoded.observed.iter().map(|(op, term)| (*op, self.truths[term])).collect();
        Ok(())
    }

    fn add(&mut self, mut clause: Vec<Lit>) {
        self.solver.add_clause_reuse(&mut clause);
    }

    fn fresh(&mut self) -> Lit {
        // Choices are refused unless somebody asks for them.
        Lit::new(self.solver.new_var(lbool::TRUE, true), true)
    }

    fn literal(&mut self, node: &Node) -> Result<Lit, TooLarge> {
        Ok(match node {
            Node::Truth(known) => {
                if *known {
                    self.truth
                } else {
                    !self.truth
                }
            }
            Node::Not(inner) => !self.truths[inner],
            Node::And(parts) => {
                let parts: Vec<Lit> = parts.iter().map(|part| self.truths[part]).collect();
                self.all(&parts)
            }
            Node::Or(parts) => {
                let parts: Vec<Lit> = parts.iter().map(|part| !self.truths[part]).collect();
                !self.all(&parts)
            }
            Node::Less(a, b) => match self.moments.less(*a, *b) {
                Some(lit) => lit,
                None => {
                    let mut less = self.difference(*a, *b)?;
                    less.1 = less.1.checked_add(1).ok_or(TooLarge)?;
                    self.at_most_zero(less)?
                }
            },
            Node::Equal(a, b) => {
                let (one, other) = (self.difference(*a, *b)?, self.difference(*b, *a)?);
                self.zero(one, other)?
            }
            _ => self.fresh(),
        })
    }

    /// All of them.
    fn all(&mut self, parts: &[Lit]) -> Lit {
        let all = self.fresh();
        let mut whole = vec![all];
        for &part in parts {
            self.add(vec![!all, part]);
            whole.push(!part);
        }
        self.add(whole);
        all
    }

    /// What an integer is.
    fn sum(&mut self, term: Term, node: &Node) -> Result<Sum, TooLarge> {
        let alone = (BTreeMap::from([(term, 1)]), 0);
        Ok(match node {
            Node::Int(number) => (BTreeMap::new(), *number),
            Node::Add(a, b) => added(&self.sums[a], &self.sums[b], 1)?,
            Node::Times(a, b) => match (&self.sums[a], &self.sums[b]) {
                ((none, factor), other) | (other, (none, factor)) if none.is_empty() => {
                    added(&(BTreeMap::new(), 0), other, *factor)?
                }
                _ => alone,
            },
            Node::If(condition, then, otherwise) => {
                let condition = self.truths[condition];
                for (when, value) in [(condition, then), (!condition, otherwise)] {
                    let value = self.sums[value].clone();
                    let (one, other) = (added(&alone, &value, -1)?, added(&value, &alone, -1)?);
                    let same = self.zero(one, other)?;
                    self.add(vec![!when, same]);
                }
                alone
            }
            _ => alone,
        })
    }

    fn difference(&self, a: Term, b: Term) -> Result<Sum, TooLarge> {
        added(&self.sums[&a], &self.sums[&b], -1)
    }

    /// That a sum, which is the other one negated, is 0.
    fn zero(&mut self, one: Sum, other: Sum) -> Result<Lit, TooLarge> {
        let (most, least) = (self.at_most_zero(one)?, self.at_most_zero(other)?);
        Ok(self.all(&[most, least]))
    }

    /// That a sum is at most 0.
    fn at_most_zero(&mut self, (left, number): Sum) -> Result<Lit, TooLarge> {
        let form: Form = left.into_iter().filter(|(_, factor)| *factor != 0).collect();
        let most = number.checked_neg().ok_or(TooLarge)?;
        self.bound(form, most)
    }

    /// That a sum is at most some number: of integers, so that a common factor tightens it.
    fn bound(&mut self, mut form: Form, mut most: i128) -> Result<Lit, TooLarge> {
        let Some(&(_, first)) = form.first() else {
            return Ok(if most >= 0 { self.truth } else { !self.truth });
        };
        let common = form.iter().fold(0, |common, (_, factor)| gcd(common, *factor));
        form.iter_mut().for_each(|(_, factor)| *factor /= common);
        most = most.div_euclid(common);
        if first > 0 {
            return Ok(self.known_bound(form, most));
        }
        form.iter_mut().for_each(|(_, factor)| *factor = -*factor);
        // At least a number is not at most the one before it.
        let before = most.checked_neg().and_then(|least| least.checked_sub(1)).ok_or(TooLarge)?;
        Ok(!self.known_bound(form, before))
    }

    fn known_bound(&mut self, form: Form, most: i128) -> Lit {
        let known = self.bounds.get(&form);
        if let Some(&lit) = known.and_then(|known| known.get(&most)) {
            return lit;
        }
        let lower = known.and_then(|known| known.range(..most).next_back()).map(|(_, &lit)| lit);
        let higher = known.and_then(|known| known.range(most..).next()).map(|(_, &lit)| lit);
        let lit = self.fresh();
        self.bounds.entry(form).or_default().insert(most, lit);
        lower.into_iter().for_each(|lower| self.add(vec![!lower, lit]));
        higher.into_iter().for_each(|higher| self.add(vec![!lit, higher]));
        lit
    }

    /// Leaves out the models that a clash is about; false if it is none.
    pub fn forbid(&mut self, clash: &Clash) -> bool {
        if !clash.is_one() {
            return false;
        }
        let mut clause = Vec::new();
        for bound in &clash.bounds {
            let mut left = BTreeMap::new();
            for &(term, factor) in &bound.form {
                // Whatever the formula says of other terms is not said of these.
                let itself = |(form, number): &Sum| *number == 0 && form.get(&term) == Some(&1);
                if !self.sums.get(&term).is_some_and(itself) || left.insert(term, factor).is_some() {
                    return false;
                }
            }
            let Ok(lit) = self.at_most_zero((left, bound.at_most.saturating_neg())) else { return false };
            clause.push(!lit);
        }
        self.add(clause);
        true
    }

    /// A bound that models have to decide on: at most this, or more.
    pub fn split(&mut self, term: Term, most: i128) {
        self.known_bound(vec![(term, 1)], most);
    }

    /// Whether there is a model with all that was observed; `None` if the solver stopped.
    pub fn solve(&mut self) -> Option<bool> {
        if !self.solver.is_ok() {
            return Some(false);
        }
        let assumed: Vec<Lit> = self.observed.iter().map(|(_, lit)| *lit).collect();
        let answer = self.solver.solve_limited(&assumed);
        (answer == lbool::TRUE || answer == lbool::FALSE).then_some(answer == lbool::TRUE)
    }

    /// The statements whose results, together, have no model.
    #[must_use]
    pub fn blamed(&self) -> Vec<OpId> {
        if !self.solver.is_ok() {
            return Vec::new();
        }
        let core = self.solver.unsat_core();
        let blamed = |lit: &Lit| core.contains(lit) || core.contains(&!*lit);
        self.observed.iter().filter(|(_, lit)| blamed(lit)).map(|(op, _)| *op).collect()
    }

    fn is(&self, lit: Lit) -> bool {
        self.solver.value_lit(lit) == lbool::TRUE
    }

    /// What each sum has to be in the model.
    #[must_use]
    pub fn intervals(&self) -> Vec<(&Form, Interval)> {
        let interval = |bounds: &BTreeMap<i128, Lit>| {
            let most = bounds.iter().find(|(_, lit)| self.is(**lit)).map(|(most, _)| *most);
            let least =
                bounds.iter().rev().find(|(_, lit)| !self.is(**lit)).map(|(most, _)| most.saturating_add(1));
            (least, most)
        };
        self.bounds.iter().map(|(form, bounds)| (form, interval(bounds))).collect()
    }

    /// The values of all terms in the model, where `integers` says those that are not known.
    #[must_use]
    pub fn values(&self, integers: &HashMap<Term, i128>) -> Vec<i128> {
        let points = self.moments.values(&|lit| self.is(lit));
        self.terms.evaluate(&|term| match self.truths.get(&term) {
            Some(&lit) => self.is(lit).into(),
            None => points.get(&term).or_else(|| integers.get(&term)).copied().unwrap_or(0),
        })
    }
}

/// One sum, and another so many times.
fn added(a: &Sum, b: &Sum, times: i128) -> Result<Sum, TooLarge> {
    let mut sum = a.clone();
    let product = |factor: i128| factor.checked_mul(times).ok_or(TooLarge);
    for (&term, &factor) in &b.0 {
        let known = sum.0.entry(term).or_insert(0);
        *known = known.checked_add(product(factor)?).ok_or(TooLarge)?;
    }
    sum.0.retain(|_, factor| *factor != 0);
    sum.1 = sum.1.checked_add(product(b.1)?).ok_or(TooLarge)?;
    Ok(sum)
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
