//! All orders at once: a SAT solver over what is before what.
//!
//! # Algorithm
//! A variable for each two moments, and clauses that make them an order: of three moments no two
//! ways around. What the level and the evidence ask is a clause for each pair; what a [`Misrun`]
//! says is one clause. Transactions of unknown outcome have a variable of their own.
//!
//! # Cost
//! The cube of the number of moments.

use batsat::{BasicSolver, Lit, SolverInterface, lbool};
use hashbrown::HashMap;
use margay_history::{History, Outcome, TxnId};
use margay_verdict::Budget;
use margay_verdict::execution::{Misrun, Moment};

use super::order::Constraints;
use super::rules::{Family, Rules};

/// The orders of a history's transactions.
pub struct Orders<'c, 'h> {
    constraints: &'c Constraints<'h>,
    moments: Vec<Moment>,
    places: HashMap<Moment, usize>,
    /// For each two moments, that the first is before the second.
    pairs: Vec<Lit>,
    included: HashMap<TxnId, Lit>,
    solver: BasicSolver,
}

/// An order: the transactions that committed, each with how many of those before it sees.
pub type Candidate = Vec<(TxnId, u32)>;

impl Orders<'_, '_> {
    /// The most moments whose orders are looked at.
    pub const MAX_MOMENTS: usize = 200;

    /// How many moments a transaction has.
    #[must_use]
    pub fn moments_of_each(rules: Rules) -> usize {
        if rules.family == Family::Snapshot { 2 } else { 1 }
    }
}

impl<'c, 'h> Orders<'c, 'h> {
    /// All orders that the level and the evidence allow; `None` if there are too many transactions.
    #[must_use]
    pub fn new(history: &'h History, rules: Rules, constraints: &'c Constraints<'h>) -> Option<Self> {
        let live = constraints.preferred();
        let snapshots = rules.family == Family::Snapshot;
        let begins: &[bool] = if snapshots { &[true, false] } else { &[false] };
        if live.len() * begins.len() > Self::MAX_MOMENTS {
            return None;
        }
        let moments: Vec<Moment> =
            live.iter().flat_map(|&txn| begins.iter().map(move |&begins| Moment { txn, begins })).collect();
        let places = moments.iter().copied().zip(0..).collect();
        let mut orders = Orders {
            constraints,
            places,
            pairs: Vec::new(),
            included: HashMap::new(),
            solver: BasicSolver::default(),
            moments,
        };
        orders.make_variables(history);
        orders.make_transitive();
        orders.constrain(history, rules);
        Some(orders)
    }

    fn make_variables(&mut self, history: &History) {
        let count = self.moments.len();
        // Later moments are later, if nobody says otherwise.
        self.pairs =
            (0..count * count).map(|_| Lit::new(self.solver.new_var(lbool::TRUE, true), true)).collect();
        for &txn in self.constraints.preferred() {
            if history.outcome(txn) != Outcome::Committed {
                let variable = self.solver.new_var(lbool::TRUE, true);
                self.included.insert(txn, Lit::new(variable, true));
            }
        }
    }

    /// That one moment is before another.
    fn before(&self, a: usize, b: usize) -> Lit {
        match a < b {
            true => self.pairs[a * self.moments.len() + b],
            false => !self.pairs[b * self.moments.len() + a],
        }
    }

    fn make_transitive(&mut self) {
        for a in 0..self.moments.len() {
            for b in a + 1..self.moments.len() {
                for c in b + 1..self.moments.len() {
                    let (ab, bc, ac) = (self.before(a, b), self.before(b, c), self.before(a, c));
                    self.solver.add_clause_reuse(&mut vec![!ab, !bc, ac]);
                    self.solver.add_clause_reuse(&mut vec![ab, bc, !ac]);
                }
            }
        }
    }

    fn constrain(&mut self, history: &History, rules: Rules) {
        for a in 0..self.moments.len() {
            for b in 0..self.moments.len() {
                let (first, second) = (self.moments[a], self.moments[b]);
                let own = first.txn == second.txn && first.begins && !second.begins;
                if own || a != b && self.is_asked(history, rules, first, second) {
                    let mut clause = vec![self.before(a, b)];
                    clause.extend(
                        [first, second].iter().filter_map(|m| self.included.get(&m.txn)).map(|&l| !l),
                    );
                    self.solver.add_clause_reuse(&mut clause);
                }
            }
        }
    }

    /// Whether one moment has to be before another, if both transactions committed.
    fn is_asked(&self, history: &History, rules: Rules, first: Moment, second: Moment) -> bool {
        if first.txn == second.txn {
            return false;
        }
        if self.constraints.in_time(first, second) {
            return true;
        }
        if first.begins {
            return false;
        }
        if !second.begins {
            return self.constraints.before(first.txn, second.txn);
        }
        let session =
            first.txn < second.txn && history.session_of(first.txn) == history.session_of(second.txn);
        rules.session && session || rules.real_time && history.precedes(first.txn, second.txn)
    }

    /// Whether one moment is before another in every order, if both transactions committed.
    #[must_use]
    pub fn is_certain(&self, history: &History, rules: Rules, first: Moment, second: Moment) -> bool {
        let own = first.txn == second.txn && first.begins && !second.begins;
        own || self.is_asked(history, rules, first, second)
    }

    /// Lets the search for an order end with the budget.
    pub fn within(mut self, budget: &Budget) -> Self {
        let budget = budget.clone();
        self.solver.cb_mut().set_stop(move || budget.poll_now().is_err());
        self
    }

    /// Leaves out the orders that a lemma is about; false if it names something unknown.
    pub fn learn(&mut self, lemma: &Misrun) -> bool {
        let mut clause = Vec::new();
        for (a, b) in &lemma.order {
            let (Some(&a), Some(&b)) = (self.places.get(a), self.places.get(b)) else { return false };
            if a == b {
                return false;
            }
            clause.push(!self.before(a, b));
        }
        let committed = lemma.run.iter().filter_map(|(txn, _)| self.included.get(txn)).map(|&l| !l);
        clause.extend(committed);
        for txn in &lemma.absent {
            // Who is known to have committed is not absent.
            let Some(&included) = self.included.get(txn) else { return false };
            clause.push(included);
        }
        self.solver.add_clause_reuse(&mut clause);
        true
    }

    /// An order that is left; `Some(None)` if there is none, and `None` if the budget ended the
    /// search.
    pub fn candidate(&mut self) -> Option<Option<Candidate>> {
        let answer = if self.solver.is_ok() { self.solver.solve_limited(&[]) } else { lbool::FALSE };
        if answer == lbool::TRUE {
            Some(Some(self.proposed()))
        } else if answer == lbool::FALSE {
            Some(None)
        } else {
            None
        }
    }

    /// The order of the solver's model.
    fn proposed(&self) -> Candidate {
        let count = self.moments.len();
        let is = |lit: Lit| self.solver.value_lit(lit) == lbool::TRUE;
        let rank = |a: usize| (0..count).filter(|&b| b != a && is(self.before(b, a))).count();
        let mut sorted: Vec<usize> = (0..count).collect();
        sorted.sort_by_key(|&a| rank(a));
        let (mut candidate, mut seen) = (Candidate::new(), HashMap::new());
        for moment in sorted.into_iter().map(|at| self.moments[at]) {
            if self.included.get(&moment.txn).is_some_and(|&lit| !is(lit)) {
                continue;
            }
            let place = u32::try_from(candidate.len()).unwrap_or(u32::MAX);
            match moment.begins {
                true => _ = seen.insert(moment.txn, place),
                false => candidate.push((moment.txn, seen.get(&moment.txn).copied().unwrap_or(place))),
            }
        }
        candidate
    }
}
