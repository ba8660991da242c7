//! Short cycles.
//!
//! # Algorithm
//! A cycle lies in a strongly connected component; the smallest component is searched, breadth
//! first, from some of its nodes, or from all if it is small. Steps inside a transaction and
//! through moments cost nothing, so a path through a clock is one edge.
//!
//! At `parallel-snapshot` a cycle may have one anti-dependency: each of those inside a component of
//! the whole graph is closed by a path without any.

use std::collections::VecDeque;

use hashbrown::HashMap;
use margay_order::{components, topological_order};
use margay_verdict::{Budget, Exhausted};

use crate::deps::{Deps, Label};

/// Edges between nodes, each starting where the one before ended.
pub(crate) type Steps = Vec<(u32, u32, Label)>;

/// How many edges a search may look at in all.
const WORK: usize = 4_000_000;

/// How many cycles are proposed.
const CYCLES: usize = 12;

/// An order of the nodes that all edges follow, or short cycles, the shortest first.
pub(crate) fn order_or_cycles(deps: &Deps) -> Result<Vec<u32>, Vec<Steps>> {
    if let Some(order) = topological_order(&deps.graph) {
        return Ok(order);
    }
    let mut cycles: Vec<Steps> = Vec::new();
    let mut found = components(&deps.graph);
    found.sort_unstable_by_key(Vec::len);
    for component in found.iter().take(CYCLES) {
        let inside = members(deps, component);
        let edges: usize = component.iter().map(|&n| deps.graph.successors(n).len()).sum();
        let starts = (WORK / edges.max(1)).clamp(2, component.len().max(2));
        let step = (component.len() / starts).max(1);
        let cycle = |&node: &u32| path(deps, node, node, |n| inside[n as usize], |_| true);
        cycles.extend(component.iter().step_by(step).filter_map(cycle));
        shortest(deps, &mut cycles);
    }
    Err(cycles)
}

/// Keeps the shortest.
fn shortest(deps: &Deps, cycles: &mut Vec<Steps>) {
    cycles.sort_by_cached_key(|cycle| cost(deps, cycle));
    cycles.truncate(CYCLES);
}

fn members(deps: &Deps, component: &[u32]) -> Vec<bool> {
    let mut inside = vec![false; deps.graph.node_count()];
    component.iter().for_each(|&node| inside[node as usize] = true);
    inside
}

/// Cycles with at most one anti-dependency.
pub(crate) fn with_one_anti(deps: &Deps, budget: &Budget) -> Result<Vec<Steps>, Exhausted> {
    let is_anti = |label: Label| matches!(label, Label::Anti(_));
    let mut cycles: Vec<Steps> = Vec::new();
    for component in components(&deps.graph) {
        let inside = members(deps, &component);
        for &node in &component {
            budget.poll()?;
            for (to, label) in deps.graph.edges(node).filter(|&(to, _)| inside[to as usize]) {
                if let Some(mut cycle) = path(deps, to, node, |n| inside[n as usize], |l| !is_anti(l)) {
                    cycle.insert(0, (node, to, Label::unpack(label)));
                    cycles.push(cycle);
                }
            }
            if cycles.len() > 4 * CYCLES {
                shortest(deps, &mut cycles);
                return Ok(cycles);
            }
        }
    }
    shortest(deps, &mut cycles);
    Ok(cycles)
}

fn weight(deps: &Deps, from: u32, label: Label) -> u32 {
    match label {
        Label::Inside => 0,
        Label::Time | Label::Stamp if from >= deps.points => 0,
        _ => 1,
    }
}

fn cost(deps: &Deps, steps: &Steps) -> u32 {
    steps.iter().map(|&(from, _, label)| weight(deps, from, label)).sum()
}

/// A cheapest path of at least one step.
fn path(
    deps: &Deps,
    from: u32,
    to: u32,
    inside: impl Fn(u32) -> bool,
    admits: impl Fn(Label) -> bool,
) -> Option<Steps> {
    let mut came: HashMap<u32, (u32, Label, u32)> = HashMap::new();
    let mut queue = VecDeque::from([(from, 0u32)]);
    let mut left = false;
    while let Some((node, cost)) = queue.pop_front() {
        if left && node == to {
            break;
        }
        left = true;
        if node != from && came.get(&node).is_some_and(|c| c.2 < cost) {
            continue;
        }
        for (next, label) in deps.graph.edges(node).filter(|&(n, _)| inside(n)) {
            let label = Label::unpack(label);
            let step = weight(deps, node, label);
            if !admits(label) || came.get(&next).is_some_and(|c| c.2 <= cost + step) {
                continue;
            }
            if next == from && to != from {
                continue;
            }
            came.insert(next, (node, label, cost + step));
            if step == 0 { queue.push_front((next, cost)) } else { queue.push_back((next, cost + 1)) }
        }
    }
    let mut steps = Vec::new();
    let mut node = to;
    loop {
        let &(before, label, _) = came.get(&node)?;
        steps.push((before, node, label));
        node = before;
        if node == from || steps.len() > came.len() {
            break;
        }
    }
    steps.reverse();
    Some(steps)
}
