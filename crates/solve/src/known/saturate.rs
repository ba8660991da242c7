//! What follows from the known graph, to a fixpoint.
//!
//! # Problem
//! Find every order of two versions that the graph forces; most violations show here as a cycle,
//! and most pairs of writers need no choice afterwards.
//!
//! # Algorithm
//! To a fixpoint, for versions `a`, `b` of one object ([Cobra §3.3] calls the second rule an
//! inference of write order, [Vbox §4.3] pruning):
//! - **R1** `begin(a) ⇝ commit(b)` ⇒ `a` is before `b`: `commit(a) → begin(b)`, and every reader of
//!   `a` goes `begin(reader) → commit(b)`;
//! - **R2** a reader `r` of `a` with `commit(b) ⇝ begin(r)` ⇒ `b` is before `a`:
//!   `commit(b) → begin(a)`.
//!
//! Each rule refutes the other order by a cycle, and remembers which, so that a certificate can
//! tell. Where sessions count, only the first writer of each session matters to R1 and the last to
//! R2, because the rest follows by session order. Where there are clocks for all sessions,
//! [`super::spread`] does the same and looks only at what changed; here all versions are looked at
//! in rounds.
//!
//! # Invariants
//! An edge derived in round `k` is justified by edges of rounds before `k`: justifications are
//! never circular.
//!
//! # Differs from the paper
//! Vbox creates constraints first and prunes them; here no pair of writers is ever materialised.
//! Real time counts only if the question says so.
//!
//! # Cost
//! Rounds × (reachability + versions × sessions × log). Where reachability is dear
//! ([`Reach::Pairs`]), the last rounds, which add little, are left out: then it is no fixpoint, and
//! the search does the rest.

use margay_order::topological_order;
use margay_verdict::{Budget, Exhausted};

use super::reach::Reach;
use super::{Forced, KnownGraph, cycle};
use crate::strategy::Strategy;

/// A round that adds less than one in so many of what was derived may be the last.
const LAST_ROUND_SHARE: usize = 16;

/// The saturated graph with reachability, or a cycle.
pub(crate) enum Saturated {
    Acyclic(Reach),
    Cyclic(Vec<(u32, u32, u32)>),
    /// An attempt found an order of all points.
    Ordered(Vec<u32>),
}

/// A look for an order, once most is derived.
pub(crate) type Attempt<'a> = &'a mut dyn FnMut(&KnownGraph<'_>) -> Result<Option<Vec<u32>>, Exhausted>;

impl KnownGraph<'_> {
    /// Applies R1 and R2 until nothing changes or a cycle shows.
    pub fn saturate(&mut self, budget: &Budget) -> Result<Saturated, Exhausted> {
        self.saturate_trying(&mut |_| Ok(None), budget)
    }

    /// The same, unless an attempt succeeds before it is done.
    pub fn saturate_trying(&mut self, attempt: Attempt<'_>, budget: &Budget) -> Result<Saturated, Exhausted> {
        if self.problem.strategies.has(Strategy::Saturation)
            && self.problem.own_points.is_empty()
            && let Some(chains) = self.few_chains()
        {
            return self.spread(chains, attempt, budget);
        }
        self.rounds(budget)
    }

    /// The same in rounds over all versions.
    pub(super) fn rounds(&mut self, budget: &Budget) -> Result<Saturated, Exhausted> {
        for round in 1.. {
            budget.poll()?;
            let graph = self.graph();
            let Some(order) = topological_order(&graph) else {
                return Ok(Saturated::Cyclic(cycle(&graph, budget)));
            };
            if !self.problem.strategies.has(Strategy::Saturation) {
                return Ok(Saturated::Acyclic(Reach::Unknown));
            }
            let reach = self.reach(&graph, &order, budget)?;
            let before = self.derived.len();
            if matches!(reach, Reach::Estimated(_)) || !self.round(&reach, round, budget)? {
                return Ok(Saturated::Acyclic(reach));
            }
            // Where a round is dear, what is left is left to the search.
            let few = (self.derived.len() - before) * LAST_ROUND_SHARE < self.derived.len();
            if matches!(reach, Reach::Pairs(_)) && few && topological_order(&self.graph()).is_some() {
                return Ok(Saturated::Acyclic(reach));
            }
        }
        unreachable!("rounds end when nothing new is derived")
    }

    fn round(&mut self, reach: &Reach, round: u32, budget: &Budget) -> Result<bool, Exhausted> {
        let (mut new, mut pairs) = (false, Vec::new());
        for item in self.problem.items() {
            budget.poll()?;
            let range = self.problem.item_versions(item);
            let groups = self.groups(range.clone());
            for a in range {
                if a == groups.initial || self.forced(self.problem.versions[a as usize].txn) {
                    self.apply(reach, a, &groups, &mut pairs);
                    for (a, b, why) in pairs.drain(..) {
                        new |= self.order(a, b, why, round, reach);
                    }
                }
            }
        }
        Ok(new)
    }

    /// Collects the versions before which, and after which, version `a` must be.
    fn apply(&self, reach: &Reach, a: u32, groups: &Groups, pairs: &mut Vec<(u32, u32, Forced)>) {
        let initial = a == groups.initial;
        let begin = match initial {
            true => 0,
            false => self.points.after_earlier(self.problem.versions[a as usize].txn),
        };
        for group in groups.iter() {
            let next = match initial {
                true => group.first(),
                false => {
                    let place = self.first_reached(reach, begin, a, group);
                    group[place..].iter().find(|&&b| b != a)
                }
            };
            if let Some(&b) = next {
                pairs.push((a, b, if initial { Forced::Fact } else { Forced::Reaches }));
            }
            for read in self.firm_readers(a).filter(|_| !initial) {
                let seen = self.count_reaching(reach, self.node(read), group);
                if let Some(&b) = group[..seen].last().filter(|&&b| b != a) {
                    pairs.push((b, a, Forced::ByRead(read)));
                }
            }
        }
    }

    /// From which place on `begin` reaches the commits of a group; `a` itself may be there.
    fn first_reached(&self, reach: &Reach, begin: u32, a: u32, group: &[u32]) -> usize {
        let commit = |b: u32| self.points.commit(self.problem.versions[b as usize].txn);
        group.partition_point(|&b| b != a && !reach.reaches(begin, commit(b)))
    }

    /// How many versions of a group have commits that reach a node: the first so many.
    fn count_reaching(&self, reach: &Reach, node: u32, group: &[u32]) -> usize {
        let commit = |b: u32| self.points.commit(self.problem.versions[b as usize].txn);
        group.partition_point(|&b| reach.reaches(commit(b), node))
    }

    /// Forced versions of one object by session, or one by one when sessions do not count.
    fn groups(&self, range: std::ops::Range<u32>) -> Groups {
        let written: Vec<u32> = (range.start + 1..range.end)
            .filter(|&v| self.forced(self.problem.versions[v as usize].txn))
            .collect();
        let session = |v: u32| {
            let txn = self.problem.versions[v as usize].txn;
            self.problem.history.session_of(self.problem.txns[txn as usize])
        };
        let mut ends = Vec::new();
        for place in 1..=written.len() {
            let same = self.sessions
                && place < written.len()
                && session(written[place - 1]) == session(written[place]);
            if !same {
                ends.push(place);
            }
        }
        Groups { initial: range.start, written, ends }
    }
}

/// Versions of one object in groups that session order orders.
struct Groups {
    initial: u32,
    written: Vec<u32>,
    ends: Vec<usize>,
}

impl Groups {
    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.written[start..end])
    }
}
