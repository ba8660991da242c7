//! The few transactions that make a violation.
//!
//! # Problem
//! A refutation of a large history names many transactions, most of which happened to be in the
//! way. People want those that matter.
//!
//! # Algorithm
//! The transactions that the lemmas name, with those whose reads show what the lemmas take for
//! granted of lists, are a problem of their own ([`Problem::part`]). Leave out ever smaller groups
//! of them, in the end one at a time, and solve what is left: if it is still refuted, go on with
//! that and with its lemmas, which are fewer. Who was needed once stays needed, because a part of a
//! part is refuted only if the part is; so one round of single transactions is enough.
//!
//! # Invariants
//! The lemmas that are left refute the whole history, and the slice alone. Within the limits no
//! transaction of it can be left out.
//!
//! # Cost
//! About as many small searches as the first lemmas name transactions, within [`POLLS`] polls.

use margay_history::{ObjectId, TxnId, Version};
use margay_verdict::{Budget, Edge, Lemma, Reason};

use crate::known::KnownGraph;
use crate::points::Points;
use crate::problem::Problem;
use crate::search::{Effort, Outcome};
use crate::strategy::Strategy;
use crate::weak;

/// How often the budget may be polled to make a slice smaller.
const POLLS: u64 = 8_000_000;

/// More transactions are not looked at.
const MAX_TXNS: usize = 20_000;

/// What one smaller problem may take.
const SLICE_EFFORT: Effort = Effort { rounds: 256, conflicts: 10_000, ..Effort::ALL };

/// Lemmas, and the transactions that they need.
pub(crate) struct Slice {
    pub txns: Vec<TxnId>,
    pub lemmas: Vec<Lemma>,
}

/// The smallest slice that is found below these lemmas.
pub(crate) fn minimal(problem: &Problem<'_>, points: Points, lemmas: Vec<Lemma>, budget: &Budget) -> Slice {
    let named = named(problem, &lemmas);
    let budget = budget.clone().at_most_polls(POLLS);
    let wanted = named.len() <= MAX_TXNS && problem.strategies.has(Strategy::Slice);
    let part = wanted.then(|| problem.part(&named));
    match part.and_then(|part| refuted(&part, points, &budget).map(|lemmas| (part, lemmas))) {
        Some((part, lemmas)) => Shrink { part, lemmas, points, budget }.run(),
        None => Slice { txns: ids(problem, &named), lemmas },
    }
}

struct Shrink<'h> {
    part: Problem<'h>,
    lemmas: Vec<Lemma>,
    points: Points,
    budget: Budget,
}

impl Shrink<'_> {
    fn run(mut self) -> Slice {
        self.keep(named(&self.part, &self.lemmas));
        let mut size = self.part.txns.len().div_ceil(2);
        loop {
            let all = self.part.txns.clone();
            for group in all.chunks(size) {
                if self.budget.poll().is_err() {
                    break;
                }
                let left = |txn: &u32| !group.contains(&self.part.txns[*txn as usize]);
                let left: Vec<u32> = (0..self.part.txns.len() as u32).filter(left).collect();
                if self.keep(left) {
                    self.keep(named(&self.part, &self.lemmas));
                }
            }
            if size == 1 || self.budget.poll().is_err() {
                return Slice { txns: self.part.txns, lemmas: self.lemmas };
            }
            size = size.div_ceil(2).min(self.part.txns.len());
        }
    }

    /// Goes on with fewer transactions, if they are refuted too; answers whether they are.
    fn keep(&mut self, txns: Vec<u32>) -> bool {
        if txns.is_empty() || txns.len() == self.part.txns.len() {
            return false;
        }
        let part = self.part.part(&txns);
        let Some(lemmas) = refuted(&part, self.points, &self.budget) else { return false };
        (self.part, self.lemmas) = (part, lemmas);
        true
    }
}

/// The lemmas that refute a problem, if they are found soon.
fn refuted(problem: &Problem<'_>, points: Points, budget: &Budget) -> Option<Vec<Lemma>> {
    if points.weak {
        return match weak::decide(problem, points, budget) {
            Ok(weak::Answer::Refuted(lemmas)) => Some(lemmas),
            _ => None,
        };
    }
    let known = KnownGraph::new(problem, points, problem.question.uses_session_order());
    match crate::decide(known, SLICE_EFFORT, budget) {
        Ok(Some(Outcome::Refuted(lemmas))) => Some(lemmas),
        _ => None,
    }
}

/// The transactions that lemmas name, and those whose reads of lists show what they take for
/// granted.
fn named(problem: &Problem<'_>, lemmas: &[Lemma]) -> Vec<u32> {
    let edges = || lemmas.iter().flat_map(|lemma| &lemma.edges);
    let ids = edges().flat_map(|edge| [Some(edge.from), Some(edge.to), seen(edge)]).flatten();
    let found = ids.filter_map(|id| problem.txns.binary_search(&id).ok());
    let mut objects: Vec<ObjectId> = edges().filter_map(object).collect();
    objects.sort_unstable();
    objects.dedup();
    let mut txns: Vec<u32> = found.map(|txn| txn as u32).chain(problem.shown_by(&objects)).collect();
    txns.sort_unstable();
    txns.dedup();
    txns
}

/// What an edge is about.
fn object(edge: &Edge) -> Option<ObjectId> {
    match edge.reason {
        Reason::Read { object, .. }
        | Reason::Write { object }
        | Reason::AntiRead { object, .. }
        | Reason::ReadColumn { object, .. }
        | Reason::AntiReadColumn { object, .. } => Some(object),
        _ => None,
    }
}

/// Whose version an anti-dependency is about.
fn seen(edge: &Edge) -> Option<TxnId> {
    match edge.reason {
        Reason::AntiRead { version: Version::Of(txn), .. }
        | Reason::AntiReadColumn { version: Version::Of(txn), .. } => Some(txn),
        _ => None,
    }
}

fn ids(problem: &Problem<'_>, txns: &[u32]) -> Vec<TxnId> {
    txns.iter().map(|&txn| problem.txns[txn as usize]).collect()
}
