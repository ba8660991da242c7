//! A serial order that may prove everything at once.
//!
//! # Problem
//! What predicates left out costs an edge or two per predicate and row. Mostly nothing comes of it.
//!
//! # Algorithm
//! Take the transactions as returned objects tell, by time where that leaves a choice, and run them on an indexed store, as replay does (Enne's Algorithm 4).
//! Whoever does not fit is put a little earlier or later ([`crate::course`]). If everyone sees what was seen, predicates included, the order proves the level and every weaker
//! one. If not, nothing is lost but the run, and the graph decides.
//!
//! # Cost
//! Linear in operations and returned objects, log for the choice of the next transaction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use margay_history::TxnId;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Exhausted, Question};

use crate::course::Course;
use crate::deps::{Anti, Deps, Rules, deps};
use crate::guess::Guesser;
use crate::sights::Sight;
use crate::world::World;

/// How many transactions may wait for a place, and for how many steps.
const WAITING: usize = 32;
const PATIENCE: usize = 256;

/// How many may be put elsewhere than where their turn comes, in all: a history in which nothing fits is not worth it.
const MENDED: usize = 20_000;

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
    sights: &[Sight],
    guesser: &Guesser<'_>,
    budget: &Budget,
) -> Result<Tried, Exhausted> {
    let rules = Rules { split: false, overlap: false, reads: true, anti: Anti::All, family: Family::Serial };
    let graph = deps(world, question, rules, sights);
    let walk = Walk {
        world,
        deps: &graph,
        missing: graph.graph.indegrees(),
        floors: vec![i64::MIN; graph.graph.node_count()],
        free: BinaryHeap::new(),
        waiting: Vec::new(),
        course: Course::new(world.predicates),
        left: graph.graph.node_count(),
        mended: 0,
    };
    walk.run(|node| if node < graph.points { guesser.place(TxnId(node)) } else { i64::MIN }, budget)
}

/// A topological order that prefers the earlier of what is free, and what fits.
struct Walk<'w, 'a> {
    world: &'w World<'a>,
    deps: &'w Deps,
    /// How many predecessors of each node have not run.
    missing: Vec<u32>,
    /// The highest label among those that have.
    floors: Vec<i64>,
    free: BinaryHeap<Reverse<(i64, u32)>>,
    /// Nodes that fit nowhere yet, and since how many steps.
    waiting: Vec<(u32, usize)>,
    course: Course<'a>,
    left: usize,
    mended: usize,
}

impl Walk<'_, '_> {
    fn run(mut self, place: impl Fn(u32) -> i64, budget: &Budget) -> Result<Tried, Exhausted> {
        let first = (0..self.left as u32).filter(|&node| self.missing[node as usize] == 0);
        self.free = first.map(|node| Reverse((place(node), node))).collect();
        while let Some(Reverse((_, node))) = self.free.pop() {
            budget.poll()?;
            match self.label(node) {
                Some(label) => self.ran(node, label, &place),
                None => self.waiting.push((node, 0)),
            }
            if !self.retry(&place) {
                return Ok(Tried::Misfit);
            }
        }
        Ok(match (self.left, self.waiting.is_empty()) {
            (0, _) => Tried::Order(self.course.into_order()),
            (_, true) => Tried::Cycle,
            (_, false) => Tried::Misfit,
        })
    }

    /// Places a node; what is no transaction that committed only passes an order on.
    fn label(&mut self, node: u32) -> Option<i64> {
        let floor = self.floors[node as usize];
        if self.world.taken.get(node as usize) != Some(&true) {
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
        for &to in self.deps.graph.successors(node) {
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
        while at < self.waiting.len() {
            match self.course.append(TxnId(self.waiting[at].0)) {
                Some(label) => {
                    let (node, _) = self.waiting.remove(at);
                    self.ran(node, label, place);
                    at = 0;
                }
                None => {
                    self.waiting[at].1 += 1;
                    at += 1;
                }
            }
        }
        let patient = self.waiting.iter().all(|&(_, steps)| steps <= PATIENCE);
        patient && self.waiting.len() <= WAITING && self.mended <= MENDED
    }
}
