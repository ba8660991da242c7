//! Where transactions and snapshots stand in the order, as integers.
//!
//! # Invariants
//! - Two transactions at one point stand as they do in the list: every assignment of points is an
//!   order.

use margay_history::{History, Outcome, TxnId};
use margay_sql::{Term, Terms};
use margay_verdict::execution::Moment;

use crate::order::Constraints;
use crate::rules::{Family, Rules};

/// The order of the transactions that may have committed.
#[derive(Debug)]
pub struct Points<'h> {
    history: &'h History,
    rules: Rules,
    /// The transactions, as they probably committed.
    pub txns: Vec<TxnId>,
    /// Whether each committed.
    pub included: Vec<Term>,
    /// The point of each.
    pub at: Vec<Term>,
    /// The points of snapshots and of what statements see. Only points of transactions are compared
    /// with them.
    pub states: Vec<Term>,
    /// Which come before which, where that is known.
    before: Vec<Vec<bool>>,
    /// Whose snapshots were taken before whose commits were called.
    unseen: Vec<Vec<bool>>,
}

/// What a statement sees of other transactions.
#[derive(Clone, Copy, Debug)]
pub enum Sees {
    /// Those before its own transaction.
    Here,
    /// Those up to a point.
    UpTo(Term),
}

impl<'h> Points<'h> {
    /// The points of some transactions of a history, and what the level and the evidence ask of
    /// them.
    pub fn new(
        history: &'h History,
        rules: Rules,
        txns: &[TxnId],
        terms: &mut Terms,
        asserted: &mut Vec<Term>,
    ) -> Self {
        let constraints = Constraints::new(history, rules);
        let txns = txns.to_vec();
        let included = txns.iter().map(|&txn| match history.outcome(txn) {
            Outcome::Committed => Term::TRUE,
            _ => terms.choice(),
        });
        let included = included.collect();
        let at = txns.iter().map(|_| terms.unknown()).collect();
        let before = txns.iter().map(|&a| txns.iter().map(|&b| constraints.before(a, b)).collect()).collect();
        let unseen = |a: TxnId, b: TxnId| {
            constraints.in_time(Moment { txn: a, begins: true }, Moment { txn: b, begins: false })
        };
        let unseen = txns.iter().map(|&a| txns.iter().map(|&b| unseen(a, b)).collect()).collect();
        let points = Points { history, rules, txns, included, at, states: Vec::new(), before, unseen };
        points.assert_order(terms, asserted);
        points
    }

    fn assert_order(&self, terms: &mut Terms, asserted: &mut Vec<Term>) {
        for a in 0..self.txns.len() {
            for b in (0..self.txns.len()).filter(|&b| self.before[a][b]) {
                let (both, less) =
                    (terms.and(&[self.included[a], self.included[b]]), terms.less(self.at[a], self.at[b]));
                asserted.push(terms.implies(both, less));
            }
        }
    }

    /// Whether the first stands before the second, if both committed.
    pub fn less(&self, a: usize, b: usize, terms: &mut Terms) -> Term {
        if self.before[a][b] {
            Term::TRUE
        } else if self.before[b][a] {
            Term::FALSE
        } else if a < b {
            terms.at_most(self.at[a], self.at[b])
        } else {
            terms.less(self.at[a], self.at[b])
        }
    }

    /// Whether the first is known to stand before the second.
    pub fn is_before(&self, a: usize, b: usize) -> bool {
        self.before[a][b]
    }

    /// Whether a transaction sees another.
    pub fn sees(&self, own: usize, sees: Sees, other: usize, terms: &mut Terms) -> Term {
        match sees {
            Sees::Here => self.less(other, own, terms),
            Sees::UpTo(_) if self.before[own][other] => Term::FALSE,
            Sees::UpTo(point) => terms.at_most(self.at[other], point),
        }
    }

    /// A point before a transaction, for what a statement or all of them see.
    pub fn state(&mut self, own: usize, terms: &mut Terms, asserted: &mut Vec<Term>) -> Term {
        let point = terms.unknown();
        self.states.push(point);
        asserted.push(terms.less(point, self.at[own]));
        point
    }

    /// The snapshot of a transaction: it has what its session and real time ask for, and agrees
    /// with timestamps.
    pub fn snapshot(&mut self, own: usize, terms: &mut Terms, asserted: &mut Vec<Term>) -> Term {
        let point = self.state(own, terms, asserted);
        for other in (0..self.txns.len()).filter(|&other| other != own) {
            let both = terms.and(&[self.included[own], self.included[other]]);
            let seen = terms.at_most(self.at[other], point);
            if self.has_to_see(own, other) {
                asserted.push(terms.implies(both, seen));
            }
            if self.unseen[own][other] {
                let unseen = terms.not(seen);
                asserted.push(terms.implies(both, unseen));
            }
            if let Some(stamped) = self.stamped(own, other) {
                let agrees = if stamped { seen } else { terms.not(seen) };
                // A snapshot says nothing of who committed later than its own transaction.
                let earlier = self.less(other, own, terms);
                let both = terms.and(&[both, earlier]);
                asserted.push(terms.implies(both, agrees));
            }
        }
        point
    }

    fn has_to_see(&self, own: usize, other: usize) -> bool {
        let (own, other, history) = (self.txns[own], self.txns[other], self.history);
        let session =
            self.rules.session && other < own && history.session_of(other) == history.session_of(own);
        session || self.rules.real_time && history.precedes(other, own)
    }

    /// Whether timestamps say that a snapshot has, or has not, what another committed.
    fn stamped(&self, own: usize, other: usize) -> Option<bool> {
        let evidence = self.history.evidence();
        let snapshot = evidence.snapshot(self.txns[own])?;
        evidence.commit(self.txns[other]).map(|commit| commit <= snapshot)
    }

    /// The pairs whose commit timestamps order the versions of a row that both write, at the
    /// serializable levels.
    pub fn ordered_writers(&self) -> Vec<(usize, usize)> {
        let commits = self.history.evidence();
        if self.rules.family != Family::Serial || commits.commits.is_empty() {
            return Vec::new();
        }
        let stamp = |at: usize| commits.commit(self.txns[at]);
        let pairs = (0..self.txns.len()).flat_map(|a| (0..self.txns.len()).map(move |b| (a, b)));
        pairs.filter(|&(a, b)| matches!((stamp(a), stamp(b)), (Some(a), Some(b)) if a < b)).collect()
    }
}
