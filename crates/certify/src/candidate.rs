//! A serial order that may prove everything at once.
//!
//! # Problem
//! What predicates left out costs an edge or two per predicate and row. Mostly nothing comes of it.
//!
//! # Algorithm
//! Order the transactions by what returned objects tell, and by time where that leaves a choice; then run them in this order on an indexed store, as replay
//! does (Enne's Algorithm 4). If everyone sees what was seen, predicates included, the order proves the level and every weaker one. If not, nothing is lost but
//! the run, and the graph decides.
//!
//! # Cost
//! Linear in operations and returned objects, log for the choice of the next transaction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use margay_history::TxnId;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Exhausted, Question};

use crate::deps::{Anti, Deps, Rules, deps};
use crate::guess::Guesser;
use crate::replayer::Replayer;
use crate::sights::Sight;
use crate::world::World;

/// A serial order that explains the whole history; none if the first try does not.
pub(crate) fn candidate(
    world: &World<'_>,
    question: Question,
    sights: &[Sight],
    guesser: &Guesser<'_>,
    budget: &Budget,
) -> Result<Option<Vec<TxnId>>, Exhausted> {
    let rules = Rules { split: false, overlap: false, reads: true, anti: Anti::All, family: Family::Serial };
    let graph = deps(world, question, rules, sights);
    let Some(order) = by_time(&graph, |node| match node < graph.points {
        true => guesser.place(TxnId(node)),
        // What only passes an order on is passed at once.
        false => i64::MIN,
    }) else {
        return Ok(None);
    };
    let live = |node: &u32| world.taken.get(*node as usize) == Some(&true);
    let order: Vec<TxnId> = order.into_iter().filter(live).map(TxnId).collect();
    let mut replayer = Replayer::new(world.predicates);
    for &txn in &order {
        budget.poll()?;
        if replayer.feed(txn).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(order))
}

/// A topological order that prefers the earlier of what is free; none if there is a cycle.
fn by_time(deps: &Deps, place: impl Fn(u32) -> i64) -> Option<Vec<u32>> {
    let graph = &deps.graph;
    let mut missing = graph.indegrees();
    let free = (0..graph.node_count() as u32).filter(|&node| missing[node as usize] == 0);
    let mut free: BinaryHeap<_> = free.map(|node| Reverse((place(node), node))).collect();
    let mut order = Vec::with_capacity(graph.node_count());
    while let Some(Reverse((_, node))) = free.pop() {
        order.push(node);
        for &to in graph.successors(node) {
            missing[to as usize] -= 1;
            if missing[to as usize] == 0 {
                free.push(Reverse((place(to), to)));
            }
        }
    }
    (order.len() == graph.node_count()).then_some(order)
}
