//! Which point is best taken first: guesses of an order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use margay_order::Graph;

use super::places::places;
use crate::known::{KnownGraph, Reach};

/// When each point is best taken: by the clock; without sessions by what was read; else by how much
/// comes before and after it, or by its relative place in its session.
pub(crate) fn priorities(known: &KnownGraph<'_>, reach: &Reach, nodes: usize) -> Vec<u64> {
    let ranks = match known.problem.history.is_timed() {
        true => None,
        false if known.has_sessions() && known.problem.has_sessions() => reach.ranks(),
        false => return by_reads(known, nodes),
    };
    match ranks {
        Some(ranks) => ranks.into_iter().map(|rank| rank.cast_unsigned() ^ (1 << 63)).collect(),
        None => times(known, nodes),
    }
}

/// By where each transaction probably was ([`places`]).
pub(crate) fn by_reads(known: &KnownGraph<'_>, nodes: usize) -> Vec<u64> {
    let places = places(known);
    let mut order: Vec<u32> = (0..places.len() as u32).collect();
    order.sort_by(|&a, &b| places[a as usize].total_cmp(&places[b as usize]));
    let mut priority = vec![0; nodes];
    for (place, &txn) in (0..).zip(&order) {
        priority[known.points.begin(txn) as usize] = 2 * place;
        priority[known.points.commit(txn) as usize] = 2 * place + 1;
    }
    priority
}

/// When each transaction began and ended, by the clock or relative to its session.
pub(crate) fn times(known: &KnownGraph<'_>, nodes: usize) -> Vec<u64> {
    let (problem, points) = (known.problem, known.points);
    let history = problem.history;
    let mut priority = vec![0; nodes];
    let mut lengths = vec![0u64; history.session_count()];
    let session = |t: usize| history.session_of(problem.txns[t]).index();
    (0..problem.txns.len()).for_each(|t| lengths[session(t)] += 1);
    let mut places = vec![0u64; history.session_count()];
    for (t, &id) in problem.txns.iter().enumerate() {
        let place = &mut places[session(t)];
        *place += 1;
        let relative = (*place << 32) / (lengths[session(t)] + 1);
        let clock = |time: Option<i64>| time.map(|time| time.cast_unsigned() ^ (1 << 63));
        let end = clock(history.end(id)).unwrap_or(relative);
        let start = clock(history.start(id)).unwrap_or(relative);
        priority[points.begin(t as u32) as usize] = start;
        priority[points.commit(t as u32) as usize] = end;
    }
    priority
}

/// An order in which all edges go forward, by priority where they leave a choice; `None` if there
/// is a cycle.
pub(crate) fn linear(graph: &Graph, priority: &[u64]) -> Option<Vec<u32>> {
    let mut missing = graph.indegrees();
    let nodes = 0..graph.node_count() as u32;
    let mut ready: BinaryHeap<Reverse<(u64, u32)>> = nodes
        .filter(|&node| missing[node as usize] == 0)
        .map(|node| Reverse((priority[node as usize], node)))
        .collect();
    let mut order = Vec::with_capacity(graph.node_count());
    while let Some(Reverse((_, node))) = ready.pop() {
        order.push(node);
        for &to in graph.successors(node) {
            missing[to as usize] -= 1;
            if missing[to as usize] == 0 {
                ready.push(Reverse((priority[to as usize], to)));
            }
        }
    }
    (order.len() == graph.node_count()).then_some(order)
}
