//! Cycles by kind.
//!
//! # Problem
//! Of all cycles of dependencies show one of each kind that the level forbids, a short one, the
//! most severe kinds first; a cycle of a kind that an already shown one implies tells nothing new
//! [Elle §5.2, §6].
//!
//! # Algorithm
//! Strongly connected components of the whole graph; in each, kind by kind, a projection of the
//! graph: which edges count, whether two rw edges may meet. A node of the projection knows whether
//! it was entered by an rw edge. An edge of the kind's own sort whose ends lie in one component of
//! the projection closes a cycle; breadth-first search from a number of such edges finds the
//! shortest way back. With exactly one rw edge there is no such projection: each is tried, until
//! the steps run out.
//!
//! # Differs from the paper
//! No clock limits the search but a number of steps, so the same history gives the same findings.
//! Existence does not depend on that limit, apart from cycles of one rw edge in components of
//! millions of edges; a level that only those violate is decided otherwise.
//!
//! # Cost
//! Linear for each kind and component, plus the limited searches.

use std::collections::VecDeque;

use hashbrown::HashMap;
use margay_levels::Anomaly;
use margay_levels::anomaly::{Cycle, Order, Rw};
use margay_order::{Graph, GraphBuilder, components};
use margay_verdict::{Budget, Exhausted, Finding};

use crate::OF_ONE_NAME;
use crate::case::Case;
use crate::deps::{Deps, Layout, Why};
use crate::proof::Prover;

/// From how many edges of one kind a way back is searched.
const STARTS: usize = 48;

/// How many edges are looked at for one kind in one component.
const STEPS: usize = 4_000_000;

/// How many components are looked at.
const COMPONENTS: usize = 64;

/// Findings of the kinds of cycles that the level forbids.
///
/// # Errors
/// The limit that was reached before anything was found.
pub(crate) fn find(
    case: &Case<'_>,
    deps: &Deps,
    prover: &mut Prover<'_, '_>,
    budget: &Budget,
) -> Result<Vec<Finding>, Exhausted> {
    let graph = deps.graph(Layout::Txns);
    let mut found = Vec::new();
    let mut all = components(&graph);
    all.iter_mut().for_each(|component| component.sort_unstable());
    all.sort();
    for component in all.iter().take(COMPONENTS) {
        let search = Search::new(deps, &graph, component, budget);
        let mut here: Vec<Anomaly> = Vec::new();
        for kind in kinds(case) {
            let name = kind.name();
            if here.iter().any(|known| known.implies(name)) || enough(&found, name) {
                continue;
            }
            let cycle = match search.shortest(kind) {
                Err(limit) if found.is_empty() => return Err(limit),
                Err(_) => return Ok(found),
                Ok(cycle) => cycle,
            };
            let Some(lemma) = cycle.and_then(|cycle| prover.lemma(deps, &cycle)) else { continue };
            let name = prover.name(std::slice::from_ref(&lemma));
            let news = !here.iter().any(|known| known.implies(name)) && !enough(&found, name);
            if let Some(finding) = news.then(|| prover.finding(None, vec![lemma])).flatten() {
                here.push(finding.anomaly);
                found.push(finding);
            }
        }
    }
    Ok(found)
}

/// Whether there are witnesses enough of a name.
fn enough(found: &[Finding], name: Anomaly) -> bool {
    found.iter().filter(|finding| finding.anomaly == name).count() >= OF_ONE_NAME
}

/// A kind of cycle.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Whether wr edges count.
    wr: bool,
    rw: Rw,
    order: Order,
}

impl Kind {
    fn name(self) -> Anomaly {
        Anomaly::of_cycle(Cycle { wr: self.wr, rw: self.rw, predicate_rw: false, order: self.order })
    }

    fn counts(self, why: Why) -> bool {
        match why {
            Why::Write(_) => true,
            Why::Read(_) | Why::Visible(_) => self.wr,
            Why::Anti(_) | Why::OnAnti => self.rw != Rw::None,
            Why::Session => self.order != Order::Dependencies,
            Why::Time | Why::OnTime => self.order == Order::RealTime,
        }
    }

    /// Whether a cycle of this kind has such an edge.
    fn starts(self, why: Why) -> bool {
        match self.rw {
            Rw::None if self.wr => matches!(why, Why::Read(_)),
            Rw::None => matches!(why, Why::Write(_)),
            _ => matches!(why, Why::Anti(_)),
        }
    }
}

/// The kinds that the level forbids, the most severe first.
fn kinds(case: &Case<'_>) -> Vec<Kind> {
    let mut orders = vec![Order::Dependencies];
    if case.question.uses_session_order() {
        orders.push(Order::Session);
    }
    if case.question.uses_real_time() {
        orders.push(Order::RealTime);
    }
    let shapes =
        [(false, Rw::None), (true, Rw::None), (true, Rw::One), (true, Rw::NonAdjacent), (true, Rw::Adjacent)];
    let all = orders.iter().flat_map(|&order| shapes.map(|(wr, rw)| Kind { wr, rw, order }));
    let level = case.question.level;
    // Real time may be assumed beside a level: then its kinds count where the plain ones do.
    let forbidden = |kind: &Kind| {
        level.forbids(kind.name()) || level.forbids(Kind { order: Order::Dependencies, ..*kind }.name())
    };
    all.filter(forbidden).collect()
}

/// One component.
struct Search<'a> {
    deps: &'a Deps,
    graph: &'a Graph,
    nodes: &'a [u32],
    places: HashMap<u32, u32>,
    budget: &'a Budget,
}

impl<'a> Search<'a> {
    fn new(deps: &'a Deps, graph: &'a Graph, nodes: &'a [u32], budget: &'a Budget) -> Self {
        let places = nodes.iter().enumerate().map(|(i, &node)| (node, i as u32)).collect();
        Self { deps, graph, nodes, places, budget }
    }

    /// The projection: node `2p` is the node at place `p`, `2p + 1` the same entered by an rw edge.
    fn project(&self, kind: Kind, rw: bool) -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        for (place, &node) in self.nodes.iter().enumerate() {
            let from = 2 * place as u32;
            for (to, label) in self.graph.edges(node) {
                let Some(&to) = self.places.get(&to) else { continue };
                let why = self.deps.all[label as usize].why;
                if !kind.counts(why) || !rw && matches!(why, Why::Anti(_) | Why::OnAnti) {
                    continue;
                }
                match why {
                    Why::Anti(_) => {
                        builder.add(from, 2 * to + 1, label);
                        if kind.rw == Rw::Adjacent {
                            builder.add(from + 1, 2 * to + 1, label);
                        }
                    }
                    Why::OnAnti => builder.add(from + 1, 2 * to + 1, label),
                    _ => {
                        builder.add(from, 2 * to, label);
                        builder.add(from + 1, 2 * to, label);
                    }
                }
            }
        }
        builder
    }

    fn shortest(&self, kind: Kind) -> Result<Option<Vec<u32>>, Exhausted> {
        match kind.rw {
            Rw::One => self.with_one_rw(kind),
            _ => self.in_projection(kind),
        }
    }

    fn in_projection(&self, kind: Kind) -> Result<Option<Vec<u32>>, Exhausted> {
        let graph = self.project(kind, true).build(2 * self.nodes.len());
        let mut member = vec![u32::MAX; graph.node_count()];
        for (i, component) in components(&graph).iter().enumerate() {
            component.iter().for_each(|&node| member[node as usize] = i as u32);
        }
        let mut best: Option<Vec<u32>> = None;
        let mut steps = Steps::new(STEPS, self.budget);
        // The first search has no limit: there is a way back.
        let mut endless = Steps::new(usize::MAX, self.budget);
        let mut tried = 0;
        for node in 0..graph.node_count() as u32 {
            for (to, label) in graph.edges(node) {
                let inside =
                    member[node as usize] != u32::MAX && member[node as usize] == member[to as usize];
                if !inside || !kind.starts(self.deps.all[label as usize].why) {
                    continue;
                }
                let within = |n: u32| member[n as usize] == member[node as usize];
                let limit = if best.is_some() { &mut steps } else { &mut endless };
                keep_shorter(&mut best, label, way(&graph, to, |n| n == node, within, limit)?);
                tried += 1;
                if tried >= STARTS || steps.left == 0 || best.as_ref().is_some_and(|b| b.len() <= 2) {
                    return Ok(best);
                }
            }
        }
        Ok(best)
    }

    fn with_one_rw(&self, kind: Kind) -> Result<Option<Vec<u32>>, Exhausted> {
        let graph = self.project(kind, false).build(2 * self.nodes.len());
        let mut best: Option<Vec<u32>> = None;
        let (mut steps, mut tried) = (Steps::new(STEPS, self.budget), 0);
        for (place, &node) in self.nodes.iter().enumerate() {
            for (to, label) in self.graph.edges(node) {
                if !matches!(self.deps.all[label as usize].why, Why::Anti(_)) {
                    continue;
                }
                for (passed, to) in self.through(to) {
                    let Some(&to) = self.places.get(&to) else { continue };
                    let back = way(&graph, 2 * to, |n| n / 2 == place as u32, |_| true, &mut steps)?;
                    let back = back.map(|back| passed.iter().copied().chain(back).collect());
                    tried += usize::from(back.is_some());
                    keep_shorter(&mut best, label, back);
                    if tried >= STARTS || steps.left == 0 || best.as_ref().is_some_and(|b| b.len() <= 2) {
                        return Ok(best);
                    }
                }
            }
        }
        Ok(best)
    }

    /// The transactions to which an rw edge leads through extra nodes, and the way.
    fn through(&self, node: u32) -> Vec<(Vec<u32>, u32)> {
        let mut ends = Vec::new();
        let mut pending = vec![(Vec::new(), node)];
        while let Some((way, node)) = pending.pop() {
            if node < self.deps.txns {
                ends.push((way, node));
                continue;
            }
            for (to, label) in self.graph.edges(node).filter(|_| ends.len() < STARTS) {
                let mut longer: Vec<u32> = way.clone();
                longer.push(label);
                pending.push((longer, to));
            }
        }
        ends
    }
}

fn keep_shorter(best: &mut Option<Vec<u32>>, first: u32, back: Option<Vec<u32>>) {
    if let Some(back) = back
        && best.as_ref().is_none_or(|best| back.len() + 1 < best.len())
    {
        *best = Some([first].into_iter().chain(back).collect());
    }
}

/// How many edges may still be looked at.
pub(crate) struct Steps<'b> {
    left: usize,
    budget: &'b Budget,
}

impl<'b> Steps<'b> {
    pub(crate) fn new(left: usize, budget: &'b Budget) -> Self {
        Self { left, budget }
    }

    /// Takes one; false when there is none.
    fn take(&mut self) -> Result<bool, Exhausted> {
        self.budget.poll()?;
        let taken = self.left > 0;
        self.left -= usize::from(taken);
        Ok(taken)
    }
}

/// The labels of a shortest path from `from` to where `goal` says, if it is found in so many steps.
///
/// # Errors
/// The limit that was reached.
pub(crate) fn way(
    graph: &Graph,
    from: u32,
    goal: impl Fn(u32) -> bool,
    within: impl Fn(u32) -> bool,
    steps: &mut Steps<'_>,
) -> Result<Option<Vec<u32>>, Exhausted> {
    if goal(from) {
        return Ok(Some(Vec::new()));
    }
    let mut came: HashMap<u32, (u32, u32)> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for (to, label) in graph.edges(node) {
            if !steps.take()? {
                return Ok(None);
            }
            if to == from || !within(to) || came.contains_key(&to) {
                continue;
            }
            came.insert(to, (node, label));
            if goal(to) {
                return Ok(Some(trace(&came, from, to)));
            }
            queue.push_back(to);
        }
    }
    Ok(None)
}

fn trace(came: &HashMap<u32, (u32, u32)>, from: u32, mut node: u32) -> Vec<u32> {
    let mut labels = Vec::new();
    while node != from {
        let (before, label) = came[&node];
        labels.push(label);
        node = before;
    }
    labels.reverse();
    labels
}
