//! What is before what, as literals of a SAT solver.
//!
//! # Mathematics
//! Points of transactions, and points of what is seen, which are compared with points of
//! transactions only. Every execution gives all of them different integers. So the comparisons that
//! hold are an order, and any truth values that are transitive over three points, at most one of
//! them of what is seen, are the comparisons of some order.

use batsat::Lit;
use hashbrown::HashMap;
use margay_sql::Term;

use super::points::Points;

/// The most clauses about three points.
const MAX_CLAUSES: usize = 2_000_000;

/// The most transactions.
pub(super) const TRANSACTIONS: usize = 600;

/// The comparisons of points.
pub(super) struct Moments {
    places: HashMap<Term, usize>,
    commits: usize,
    all: usize,
    /// For each point and each one of a transaction: that the first is before the second.
    before: Vec<Lit>,
}

/// Whether the order of two transactions that surely committed is known.
fn is_certain(points: &Points<'_>, a: usize, b: usize) -> bool {
    a != b && points.is_before(a, b) && [a, b].iter().all(|&txn| points.included[txn] == Term::TRUE)
}

impl Moments {
    /// Literals for all comparisons; `truth` is the literal that is true.
    pub fn new(points: &Points<'_>, truth: Lit, fresh: &mut dyn FnMut() -> Lit) -> Moments {
        let terms: Vec<Term> = points.at.iter().chain(&points.states).copied().collect();
        let (commits, all) = (points.at.len(), terms.len());
        let places = terms.into_iter().zip(0..).collect();
        let mut moments = Moments { places, commits, all, before: vec![truth; all * commits] };
        for a in 0..all {
            for b in 0..commits.min(a) {
                let lit = if a >= commits {
                    fresh()
                } else if is_certain(points, a, b) {
                    truth
                } else if is_certain(points, b, a) {
                    !truth
                } else {
                    fresh()
                };
                moments.before[a * commits + b] = lit;
                if a < commits {
                    moments.before[b * commits + a] = !lit;
                }
            }
        }
        moments
    }

    /// That one point is before another; `None` if they are no points, or never compared.
    pub fn less(&self, a: Term, b: Term) -> Option<Lit> {
        let (a, b) = (*self.places.get(&a)?, *self.places.get(&b)?);
        match (a < self.commits, b < self.commits) {
            _ if a == b => None,
            (_, true) => Some(self.before(a, b)),
            (true, false) => Some(!self.before(b, a)),
            (false, false) => None,
        }
    }

    /// That a point is before one of a transaction.
    fn before(&self, a: usize, b: usize) -> Lit {
        self.before[a * self.commits + b]
    }

    /// Adds the clauses that make the comparisons an order; `None` if there are too many.
    pub fn order(&self, points: &Points<'_>, truth: Lit, add: &mut dyn FnMut(Vec<Lit>)) -> Option<()> {
        let contradicting = |a, b| is_certain(points, a, b) && is_certain(points, b, a);
        if (0..self.commits).any(|a| (0..a).any(|b| contradicting(a, b))) {
            add(Vec::new());
        }
        let near = self.near(points);
        let near = |a: usize, b: usize| near[a * self.commits + b];
        let mut count = 0;
        for third in 0..self.all {
            for a in 0..self.commits.min(third) {
                // Of transactions in a known order, those next to each other are enough for a point
                // that is no transaction's.
                let others = (a + 1..self.commits.min(third)).filter(|&b| third < self.commits || near(a, b));
                for b in others {
                    let (ab, bc, ac) = (self.before(a, b), !self.before(third, b), !self.before(third, a));
                    count += self.clause([!ab, !bc, ac], truth, add);
                    count += self.clause([ab, bc, !ac], truth, add);
                    if count > MAX_CLAUSES {
                        return None;
                    }
                }
            }
        }
        Some(())
    }

    /// For each two transactions whether no third one is known to stand between them.
    fn near(&self, points: &Points<'_>) -> Vec<bool> {
        let count = if self.all > self.commits { self.commits } else { 0 };
        let between = |a, b| (0..count).any(|c| is_certain(points, a, c) && is_certain(points, c, b));
        let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
        pairs
            .map(|(a, b)| {
                let (a, b) = if is_certain(points, b, a) { (b, a) } else { (a, b) };
                !is_certain(points, a, b) || !between(a, b)
            })
            .collect()
    }

    fn clause(&self, clause: [Lit; 3], truth: Lit, add: &mut dyn FnMut(Vec<Lit>)) -> usize {
        if clause.contains(&truth) {
            return 0;
        }
        add(clause.to_vec());
        1
    }

    /// Integers for all points that agree with comparisons: even ones for transactions, odd ones
    /// for what is seen.
    pub fn values(&self, is: &dyn Fn(Lit) -> bool) -> HashMap<Term, i128> {
        let rank = |a: usize| (0..self.commits).filter(|&b| b != a && !is(self.before(a, b))).count() as i128;
        let value = |a: usize| if a < self.commits { 2 * rank(a) + 2 } else { 2 * rank(a) + 1 };
        self.places.iter().map(|(&term, &place)| (term, value(place))).collect()
    }
}
