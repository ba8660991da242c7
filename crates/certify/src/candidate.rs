//! A serial order that may prove everything at once.
//!
//! # Problem
//! What predicates left out costs an edge or two per predicate and row. Mostly nothing comes of it.
//!
//! # Algorithm
//! Take the transactions as returned objects tell, by time where that leaves a choice, and run them
//! on an indexed store, as replay does (Enne's Algorithm 4). A transaction took effect before its
//! client knew, and before anyone who depends on it did: of those that are free, the one whose
//! latest moment comes first goes first. Whoever does not fit is put a little earlier or later
//! ([`crate::course`]). If that does not help, somebody wrote too early what it did not see: the
//! walk goes back to before that write, and from then on the writer waits for it. If everyone sees
//! what was seen, predicates included, the order proves the level and every weaker one. If not,
//! nothing is lost but the run, and the graph decides.
//!
//! # Cost
//! Linear in operations and returned objects, log for the choice of the next transaction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::{HashMap, HashSet};
use margay_history::TxnId;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Exhausted, Question};

use crate::course::Course;
use crate::deps::{Anti, Deps, Rules, deps};
use crate::guess::Guesser;
use crate::sights::ObjectSight;
use crate::world::World;

/// How many transactions may wait for a place, and for how many steps.
const WAITING: usize = 32;
const PATIENCE: usize = 256;

/// After so many, whoever is in the way must give way, even if it seems to have come first.
const URGENT: usize = 24;

/// How many may be put elsewhere than where their turn comes, in all: a history in which nothing
/// fits is not worth it.
const MENDED: usize = 20_000;

/// How many of these one step back costs.
const STEP_BACK: usize = 10;

/// What came of the try.
pub(crate) enum Tried {
    /// A serial order that explains the whole history.
    Order(Vec<TxnId>),
    /// What returned objects tell is a cycle.
    Cycle,
    /// Some transaction saw what the order that was tried does not give.
    Misfit,
}

/// Looks for a serial order that explains the whole history.
pub(crate) fn candidate(
    world: &World<'_>,
    question: Question,
    sights: &[ObjectSight],
    guesser: &Guesser<'_>,
    budget: &Budget,
) -> Result<Tried, Exhausted> {
    let rules = Rules { split: false, overlap: false, reads: true, anti: Anti::All, family: Family::Serial };
    let graph = deps(world, question, rules, sights);
    let latest = latest(&graph, |txn| guesser.place(txn));
    let walk = Walk {
        world,
        deps: &graph,
        missing: graph.graph.indegrees(),
        floors: vec![i64::MIN; graph.graph.node_count()],
        has_run: vec![false; graph.graph.node_count()],
        learnt: HashMap::new(),
        free: BinaryHeap::new(),
        waiting: Vec::new(),
        course: Course::new(world.predicates),
        left: graph.graph.node_count(),
        mended: 0,
    };
    walk.run(|node| if node < graph.points { latest[node as usize] } else { i64::MIN }, budget)
}

/// By node: when it took effect at the latest, which is never after those that come behind it.
fn latest(deps: &Deps, place: impl Fn(TxnId) -> i64) -> Vec<i64> {
    let nodes = deps.graph.node_count() as u32;
    let own = |node| if node < deps.points { place(TxnId(node)) } else { i64::MAX };
    let mut latest: Vec<i64> = (0..nodes).map(own).collect();
    let mut missing = deps.graph.indegrees();
    let mut order: Vec<u32> = (0..nodes).filter(|&node| missing[node as usize] == 0).collect();
    let mut at = 0;
    while let Some(&node) = order.get(at) {
        at += 1;
        for &to in deps.graph.successors(node) {
            missing[to as usize] -= 1;
            if missing[to as usize] == 0 {
                order.push(to);
            }
        }
    }
    for &node in order.iter().rev() {
        let behind = deps.graph.successors(node).iter().map(|&to| latest[to as usize]).min();
        latest[node as usize] = latest[node as usize].min(behind.unwrap_or(i64::MAX));
    }
    latest
}

/// A topological order that prefers the earlier of what is free, and what fits.
struct Walk<'w, 'a> {
    world: &'w World<'a>,
    deps: &'w Deps,
    /// How many predecessors of each node have not run.
    missing: Vec<u32>,
    /// The highest label among those that have.
    floors: Vec<i64>,
    has_run: Vec<bool>,
    /// Who waits for whom besides, because it wrote what the other did not see.
    learnt: HashMap<u32, Vec<u32>>,
    /// Some of them may have run, or miss a predecessor again.
    free: BinaryHeap<Reverse<(i64, u32)>>,
    /// Nodes that fit nowhere yet, and since how many steps.
    waiting: Vec<(u32, usize)>,
    course: Course<'a>,
    left: usize,
    mended: usize,
}

impl<'w, 'a> Walk<'w, 'a> {
    fn run(mut self, place: impl Fn(u32) -> i64, budget: &Budget) -> Result<Tried, Exhausted> {
        let first = (0..self.left as u32).filter(|&node| self.missing[node as usize] == 0);
        self.free = first.map(|node| Reverse((place(node), node))).collect();
        while let Some(Reverse((_, node))) = self.free.pop() {
            budget.poll()?;
            if !self.is_free(node) || self.waiting.iter().any(|waiting| waiting.0 == node) {
                continue;
            }
            match self.label(node) {
                Some(label) => self.ran(node, label, &place),
                None if self.step_back(node, &place, false) => {}
                None => self.waiting.push((node, 0)),
            }
            if !self.retry(&place) {
                return Ok(Tried::Misfit);
            }
        }
        Ok(match (self.left, self.waiting.is_empty() && self.learnt.is_empty()) {
            (0, _) => Tried::Order(self.course.into_order()),
            (_, true) => Tried::Cycle,
            (_, false) => Tried::Misfit,
        })
    }

    fn is_free(&self, node: u32) -> bool {
        !self.has_run[node as usize] && self.missing[node as usize] == 0
    }

    fn behind(&self, node: u32) -> impl Iterator<Item = u32> + use<'w, 'a> {
        let learnt = self.learnt.get(&node).cloned().unwrap_or_default();
        self.deps.graph.successors(node).iter().copied().chain(learnt)
    }

    /// Whether one that has run comes before another by an order that was passed on.
    fn leads_to(&self, from: u32, to: u32) -> bool {
        let (mut open, mut seen) = (vec![from], HashSet::new());
        while let Some(node) = open.pop() {
            for next in self.behind(node) {
                if next == to {
                    return true;
                }
                if self.has_run[next as usize] && seen.insert(next) {
                    open.push(next);
                }
            }
        }
        false
    }

    /// Whether a node is no transaction that committed, and only passes an order on.
    fn passes(&self, node: u32) -> bool {
        self.world.taken.get(node as usize) != Some(&true)
    }

    /// Goes back to before whoever wrote what this one did not see, and makes it wait; false if
    /// that is not possible, or not likely to be right.
    fn step_back(&mut self, node: u32, place: &impl Fn(u32) -> i64, urgent: bool) -> bool {
        let Some(TxnId(writer)) = self.course.blamed(TxnId(node)) else { return false };
        let likely = urgent || place(node) <= place(writer);
        if writer == node || !likely || self.leads_to(writer, node) {
            return false;
        }
        let undone = self.course.back_before(TxnId(writer));
        if undone.is_empty() {
            return false;
        }
        self.mended += STEP_BACK;
        self.learnt.entry(node).or_default().push(writer);
        self.missing[writer as usize] += 1;
        self.undone(undone.into_iter().map(|txn| txn.0).collect(), place);
        self.free.push(Reverse((place(node), node)));
        true
    }

    /// Takes back that these ran, and with them what passed their order on. Those who depend on one
    /// of them have not run, or are among them.
    fn undone(&mut self, mut undone: Vec<u32>, place: &impl Fn(u32) -> i64) {
        let mut at = 0;
        while let Some(&node) = undone.get(at) {
            at += 1;
            self.has_run[node as usize] = false;
            self.left += 1;
            for to in self.behind(node) {
                self.missing[to as usize] += 1;
                if self.passes(to) && self.has_run[to as usize] && !undone.contains(&to) {
                    undone.push(to);
                }
            }
        }
        self.free.extend(undone.into_iter().map(|node| Reverse((place(node), node))));
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|&(node, _)| self.is_free(node));
        self.waiting = waiting.into_iter().map(|(node, _)| (node, 0)).collect();
    }

    /// Places a node; what is no transaction that committed only passes an order on.
    fn label(&mut self, node: u32) -> Option<i64> {
        let floor = self.floors[node as usize];
        if self.passes(node) {
            return Some(floor);
        }
        let found = self.course.append(TxnId(node));
        found.or_else(|| {
            self.mended += 1;
            self.course.insert(TxnId(node), floor)
        })
    }

    fn ran(&mut self, node: u32, label: i64, place: &impl Fn(u32) -> i64) {
        self.left -= 1;
        self.has_run[node as usize] = true;
        for to in self.behind(node) {
            let to = to as usize;
            self.floors[to] = self.floors[to].max(label);
            self.missing[to] -= 1;
            if self.missing[to] == 0 {
                self.free.push(Reverse((place(to as u32), to as u32)));
            }
        }
    }

    /// Tries those that wait; false if it is not worth going on.
    fn retry(&mut self, place: &impl Fn(u32) -> i64) -> bool {
        let mut at = 0;
        while let Some(&(node, steps)) = self.waiting.get(at) {
            if let Some(label) = self.course.append(TxnId(node)) {
                self.waiting.remove(at);
                self.ran(node, label, place);
                at = 0;
            } else if self.step_back(node, place, steps > URGENT) {
                at = 0;
            } else {
                self.waiting[at].1 += 1;
                at += 1;
            }
        }
        let patient = self.waiting.iter().all(|&(_, steps)| steps <= PATIENCE);
        patient && self.waiting.len() <= WAITING && self.mended <= MENDED
    }
}
