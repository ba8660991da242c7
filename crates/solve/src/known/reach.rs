//! Who reaches whom in the known graph.
//!
//! # Algorithm
//! Reachability is kept per chain when sessions count ([`Clocks`]); without them as a matrix of
//! bits up to [`CLOSURE_BYTES`], and beyond that of those pairs only that anybody asks about
//! ([`Pairs`]). Where even these are too many, only about how much comes before each point is
//! estimated, and nothing is derived.

use margay_order::{Chains, Clocks, Closure, Graph, estimated_ranks};
use margay_verdict::{Budget, Exhausted};

use super::KnownGraph;
use super::pairs::Pairs;
use crate::strategy::Strategy;

/// The largest bit matrix that is made.
const CLOSURE_BYTES: usize = 1 << 30;

/// The largest clocks that are made.
const CLOCK_BYTES: usize = 4 << 30;

/// Who reaches whom.
pub(crate) enum Reach {
    Chains(Chains, Clocks),
    Matrix(Closure),
    /// Of those whose order can matter.
    Pairs(Pairs),
    /// Too large to keep: only about how much comes before each node, less what comes after.
    Estimated(Vec<i64>),
    /// Nobody asked.
    Unknown,
}

impl Reach {
    pub fn reaches(&self, from: u32, to: u32) -> bool {
        match self {
            Reach::Chains(chains, clocks) => clocks.reaches(chains, from, to),
            Reach::Matrix(closure) => closure.reaches(from, to),
            Reach::Pairs(pairs) => pairs.reaches(from, to),
            Reach::Estimated(_) | Reach::Unknown => false,
        }
    }

    /// A number per node that grows along every path: how many come before it, less how many come
    /// after. It guesses the order well where nothing else is known.
    pub fn ranks(&self) -> Option<Vec<i64>> {
        match self {
            Reach::Chains(chains, clocks) => Some(clocks.ranks(chains)),
            Reach::Matrix(closure) => Some(closure.ranks()),
            Reach::Pairs(pairs) => Some(pairs.ranks().to_vec()),
            Reach::Estimated(ranks) => Some(ranks.clone()),
            Reach::Unknown => None,
        }
    }
}

impl KnownGraph<'_> {
    /// Clocks where sessions are few, else a matrix, else what matters.
    pub(super) fn reach(&self, graph: &Graph, order: &[u32], budget: &Budget) -> Result<Reach, Exhausted> {
        if let Some(chains) = self.few_chains() {
            let clocks = Clocks::new(graph, order, &chains);
            return Ok(Reach::Chains(chains, clocks));
        }
        let matrix = Closure::bytes_for(self.nodes);
        if matrix <= CLOSURE_BYTES {
            return Ok(Reach::Matrix(Closure::new(graph, order)));
        }
        let pairs = match self.problem.strategies.has(Strategy::Pairs) {
            true => Pairs::new(self, graph, order, budget)?,
            false => None,
        };
        Ok(match pairs {
            Some(pairs) => Reach::Pairs(pairs),
            None => Reach::Estimated(estimated_ranks(graph, order)),
        })
    }

    /// The chains, if sessions count and clocks along them are small.
    pub(super) fn few_chains(&self) -> Option<Chains> {
        let chains = self.sessions.then(|| self.chains())?;
        let clocks = self.nodes * chains.count() * 8;
        let small = clocks <= Closure::bytes_for(self.nodes).max(1 << 20) && clocks <= CLOCK_BYTES;
        small.then_some(chains)
    }

    /// Sessions, each optional transaction by itself, and the helpers.
    fn chains(&self) -> Chains {
        let history = self.problem.history;
        let mut chain = vec![0; self.nodes];
        let mut position = vec![0; self.nodes];
        let mut next = vec![0; history.session_count()];
        let mut alone = history.session_count() as u32;
        for txn in 0..self.problem.txns.len() as u32 {
            let mut session = history.session_of(self.problem.txns[txn as usize]).0;
            let at = if self.forced(txn) {
                next[session as usize] += 2;
                next[session as usize] - 2
            } else {
                session = alone;
                alone += 1;
                0
            };
            for (point, at) in [(self.points.begin(txn), at), (self.points.commit(txn), at + 1)] {
                chain[point as usize] = session;
                position[point as usize] = at;
            }
        }
        for &(first, count) in &self.helpers {
            for place in 0..count {
                chain[(first + place) as usize] = alone;
                position[(first + place) as usize] = place;
            }
            alone += 1;
        }
        Chains::new(chain, position)
    }

    /// The sessions of those that committed, and the helpers; what is in no session has no edges
    /// and stands anywhere.
    pub fn visible_chains(&self, active: &[bool]) -> Chains {
        let history = self.problem.history;
        let (mut chain, mut position) = (vec![0; self.nodes], vec![0; self.nodes]);
        let mut next = vec![0; history.session_count()];
        for txn in (0..self.problem.txns.len()).filter(|&txn| active[txn]) {
            let session = history.session_of(self.problem.txns[txn]);
            (chain[txn], position[txn]) = (session.0, next[session.index()]);
            next[session.index()] += 1;
        }
        for (&(first, count), number) in self.helpers.iter().zip(history.session_count() as u32..) {
            for place in 0..count {
                (chain[(first + place) as usize], position[(first + place) as usize]) = (number, place);
            }
        }
        Chains::new(chain, position)
    }
}
