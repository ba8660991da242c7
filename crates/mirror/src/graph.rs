//! The certifier's graph of dependencies, kept acyclic.
//!
//! # Algorithm
//! A topological order is kept up to date as edges come (Pearce and Kelly): an edge that agrees
//! with it costs nothing, another one a search between its two places, which finds the cycle if
//! there is one. Transactions come in the order of their commits, with which most edges agree.
//!
//! Where dependencies follow the order of points in time (timestamp order, validation at commit,
//! levels that keep real time), each transaction also has a *floor*: the latest beginning of its
//! own point's interval and of those that lead to it. An edge raises the floors behind it. A floor
//! above the end of the interval is a violation: the path that raised it leads from a transaction
//! to one that took place before it.
//!
//! A transaction is forgotten when nothing leads to it and every transaction that ran beside it has
//! been judged: whatever comes later comes after it, so it is in no cycle (Property 4 of the
//! appendix).

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use margay_history::TxnId;
use margay_mechanisms::Course;
use margay_verdict::mechanism::Points;
use margay_verdict::{Edge, Reason};

use crate::statistics::Edges;

#[derive(Debug)]
struct Node {
    place: u64,
    course: Course,
    floor: i64,
    /// The dependency that raised the floor.
    raised: Option<(TxnId, Reason)>,
    outs: Vec<Out>,
    ins: Vec<TxnId>,
}

/// A dependency on a transaction, with where it leads.
#[derive(Debug)]
struct Out {
    to: TxnId,
    reason: Reason,
    direct: Direct,
}

/// Whether a dependency is a direct anti-dependency.
#[derive(Debug)]
enum Direct {
    No,
    Yes,
    /// For another reason than the one that was told first.
    For(Box<Reason>),
}

impl Out {
    /// Why it is a direct anti-dependency, if it is one.
    fn direct(&self) -> Option<&Reason> {
        match &self.direct {
            Direct::No => None,
            Direct::Yes => Some(&self.reason),
            Direct::For(reason) => Some(reason),
        }
    }
}

#[derive(Default, Debug)]
pub(crate) struct Graph {
    nodes: HashMap<TxnId, Node>,
    next: u64,
    /// The edges, and whether each is an anti-dependency: a transaction that ran long keeps
    /// thousands of others from being forgotten, with many edges each.
    known: HashSet<(TxnId, TxnId, bool)>,
    points: Option<Points>,
    /// How many transactions were left when it was last tidied, and how many were judged since.
    left: usize,
    judged: usize,
    /// The transactions that were judged, in that order, without those of the beginning that are
    /// forgotten.
    order: VecDeque<TxnId>,
    /// How many those are.
    forgotten: u64,
    told: Edges,
}

/// After so many transactions, at least, the graph is tidied.
const ROUND: usize = 32;

impl Graph {
    pub fn new(points: Option<Points>) -> Self {
        Self { points, ..Self::default() }
    }

    /// Adds a committed transaction.
    pub fn insert(&mut self, txn: TxnId, course: Course) {
        let floor = self.points.map_or(i64::MIN, |points| course.point(points).before);
        let node = Node { place: self.next, course, floor, raised: None, outs: Vec::new(), ins: Vec::new() };
        self.next += 1;
        self.nodes.insert(txn, node);
    }

    /// One more transaction is judged; answers whether so many are that it is worth to tidy up.
    pub fn judged(&mut self, txn: TxnId) -> bool {
        self.order.push_back(txn);
        self.judged += 1;
        self.judged >= ROUND.max(self.left / 4)
    }

    /// How many of the first transactions that were judged are forgotten, without a gap.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// How many dependencies were added.
    pub fn told(&self) -> Edges {
        self.told
    }

    /// How many transactions and edges there are.
    pub fn len(&self) -> (usize, usize) {
        (self.nodes.len(), self.known.len())
    }

    pub fn course(&self, txn: TxnId) -> Option<&Course> {
        self.nodes.get(&txn).map(|node| &node.course)
    }

    /// Adds a dependency; answers the cycle that it would close, and then leaves it out, or the
    /// path to a transaction that took place before the path's first. An edge of transactions that
    /// are forgotten, or that is there already, changes nothing.
    pub fn add(&mut self, edge: Edge, direct: bool) -> Result<bool, Vec<Edge>> {
        let (Some(from), Some(to)) = (self.nodes.get(&edge.from), self.nodes.get(&edge.to)) else {
            return Ok(false);
        };
        let known = (edge.from, edge.to, is_anti(&edge.reason));
        let against = from.place > to.place;
        if self.known.contains(&known) {
            if direct {
                self.direct(edge);
            }
            return Ok(false);
        }
        self.told.all += 1;
        if against {
            self.told.against += 1;
            self.reorder(&edge)?;
        }
        self.known.insert(known);
        if let Some(to) = self.nodes.get_mut(&edge.to) {
            to.ins.push(edge.from);
        }
        let (from, to) = (edge.from, edge.to);
        if let Some(from) = self.nodes.get_mut(&edge.from) {
            let direct = if direct { Direct::Yes } else { Direct::No };
            from.outs.push(Out { to: edge.to, reason: edge.reason, direct });
        }
        match self.points {
            Some(points) => self.raise(from, to, points).map_or(Ok(true), Err),
            None => Ok(true),
        }
    }

    /// A dependency that is known already is direct, perhaps because of another operation.
    fn direct(&mut self, Edge { from, to, reason }: Edge) {
        let outs = self.nodes.get_mut(&from).map(|node| &mut node.outs);
        let same = outs.into_iter().flatten().find(|out| out.to == to && is_anti(&out.reason));
        if let Some(out) = same.filter(|out| matches!(out.direct, Direct::No)) {
            out.direct = if out.reason == reason { Direct::Yes } else { Direct::For(Box::new(reason)) };
        }
    }

    /// Raises the floors behind a new edge. The graph has no cycles, so this ends.
    fn raise(&mut self, from: TxnId, to: TxnId, points: Points) -> Option<Vec<Edge>> {
        let mut stack = vec![(from, to)];
        let mut backward = None;
        while let Some((from, to)) = stack.pop() {
            let (Some(before), Some(node)) = (self.nodes.get(&from), self.nodes.get(&to)) else { continue };
            if before.floor <= node.floor {
                continue;
            }
            let (floor, point) = (before.floor, node.course.point(points));
            let reason = before.outs.iter().find(|out| out.to == to).map(|out| out.reason.clone());
            let was_fine = node.floor <= point.after;
            stack.extend(node.outs.iter().map(|out| (to, out.to)));
            if let Some(node) = self.nodes.get_mut(&to) {
                (node.floor, node.raised) = (floor, reason.map(|reason| (from, reason)));
            }
            if was_fine && floor > point.after {
                backward = backward.or_else(|| self.path(to, floor));
            }
        }
        backward
    }

    /// The path that raised a floor, from the transaction whose own it is.
    fn path(&self, to: TxnId, floor: i64) -> Option<Vec<Edge>> {
        let (mut to, mut edges) = (to, Vec::new());
        while let Some((from, reason)) = self.nodes.get(&to)?.raised.clone() {
            edges.push(Edge { from, to, reason });
            if self.nodes.get(&from)?.course.point(self.points?).before == floor {
                edges.reverse();
                return Some(edges);
            }
            to = from;
        }
        None
    }

    fn place(&self, txn: TxnId) -> u64 {
        self.nodes[&txn].place
    }

    /// Makes room for an edge against the order: everything between that leads to `from` goes
    /// before everything that `to` leads to.
    fn reorder(&mut self, edge: &Edge) -> Result<(), Vec<Edge>> {
        let (low, high) = (self.place(edge.to), self.place(edge.from));
        let mut parents: HashMap<TxnId, (TxnId, Reason)> = HashMap::new();
        let (mut forward, mut stack) = (vec![edge.to], vec![edge.to]);
        while let Some(txn) = stack.pop() {
            for Out { to: next, reason, .. } in &self.nodes[&txn].outs {
                if *next == edge.to || parents.contains_key(next) || self.place(*next) > high {
                    continue;
                }
                parents.insert(*next, (txn, reason.clone()));
                if *next == edge.from {
                    return Err(cycle(edge, &parents));
                }
                forward.push(*next);
                stack.push(*next);
            }
        }
        let mut backward = self.backward(edge.from, low);
        self.renumber(&mut backward, &mut forward);
        Ok(())
    }

    fn backward(&self, from: TxnId, low: u64) -> Vec<TxnId> {
        let (mut seen, mut all, mut stack) = (HashSet::new(), vec![from], vec![from]);
        seen.insert(from);
        while let Some(txn) = stack.pop() {
            for &before in &self.nodes[&txn].ins {
                if self.place(before) >= low && seen.insert(before) {
                    all.push(before);
                    stack.push(before);
                }
            }
        }
        all
    }

    fn renumber(&mut self, backward: &mut [TxnId], forward: &mut [TxnId]) {
        backward.sort_unstable_by_key(|txn| self.place(*txn));
        forward.sort_unstable_by_key(|txn| self.place(*txn));
        let order = || backward.iter().chain(forward.iter()).copied();
        let mut places: Vec<u64> = order().map(|txn| self.place(txn)).collect();
        places.sort_unstable();
        for (txn, place) in order().collect::<Vec<_>>().into_iter().zip(places) {
            if let Some(node) = self.nodes.get_mut(&txn) {
                node.place = place;
            }
        }
    }

    /// The pairs of consecutive direct anti-dependencies with this edge as first or second.
    pub fn consecutive(&self, edge: &Edge) -> Vec<[Edge; 2]> {
        let mut pairs = Vec::new();
        let anti = |node: &Node, from: TxnId| -> Vec<Edge> {
            let outs = node.outs.iter().filter_map(|out| Some((out.to, out.direct()?.clone())));
            outs.map(|(to, reason)| Edge { from, to, reason }).collect()
        };
        if let Some(node) = self.nodes.get(&edge.to) {
            pairs.extend(anti(node, edge.to).into_iter().map(|second| [edge.clone(), second]));
        }
        for &before in self.nodes.get(&edge.from).map_or(&[][..], |node| &node.ins) {
            if let Some(node) = self.nodes.get(&before) {
                let into = anti(node, before).into_iter().filter(|first| first.to == edge.from);
                pairs.extend(into.map(|first| [first, edge.clone()]));
            }
        }
        pairs
    }

    /// Forgets the transactions that can be in no cycle any more.
    pub fn tidy(&mut self, horizon: i64) {
        let old = |node: &Node| node.ins.is_empty() && node.course.end().after < horizon;
        let mut stack: Vec<TxnId> =
            self.nodes.iter().filter(|(_, node)| old(node)).map(|(txn, _)| *txn).collect();
        self.judged = 0;
        while let Some(txn) = stack.pop() {
            let Some(node) = self.nodes.remove(&txn) else { continue };
            for Out { to, reason, .. } in node.outs {
                self.known.remove(&(txn, to, is_anti(&reason)));
                let Some(next) = self.nodes.get_mut(&to) else { continue };
                next.ins.retain(|before| *before != txn);
                if old(next) {
                    stack.push(to);
                }
            }
        }
        self.left = self.nodes.len();
        while self.order.front().is_some_and(|first| !self.nodes.contains_key(first)) {
            self.order.pop_front();
            self.forgotten += 1;
        }
    }
}

fn is_anti(reason: &Reason) -> bool {
    matches!(reason, Reason::AntiRead { .. })
}

/// The cycle of an edge and the path that leads back.
fn cycle(edge: &Edge, parents: &HashMap<TxnId, (TxnId, Reason)>) -> Vec<Edge> {
    let mut path = Vec::new();
    let mut to = edge.from;
    while to != edge.to {
        let Some((from, reason)) = parents.get(&to) else { break };
        path.push(Edge { from: *from, to, reason: reason.clone() });
        to = *from;
    }
    path.push(edge.clone());
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use margay_history::{Interval, ObjectId, OpKind};

    use super::*;

    fn edge(from: u32, to: u32) -> Edge {
        Edge { from: TxnId(from), to: TxnId(to), reason: Reason::Write { object: ObjectId(0) } }
    }

    fn graph(nodes: u32) -> Graph {
        let mut graph = Graph::default();
        for txn in 0..nodes {
            let mut course = Course::default();
            course.push(OpKind::Commit, Interval::new(i64::from(txn), i64::from(txn)), &[], false);
            graph.insert(TxnId(txn), course);
        }
        graph
    }

    #[test]
    fn finds_exactly_the_cycles() {
        let mut rng = 12345_u64;
        let mut draw = |below: u64| {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 33) % below
        };
        let mut cycles = 0;
        for _ in 0..200 {
            let (mut graph, mut reach) = (graph(12), [[false; 12]; 12]);
            for _ in 0..30 {
                let (a, b) = (draw(12) as usize, draw(12) as usize);
                if a == b {
                    continue;
                }
                match graph.add(edge(a as u32, b as u32), false) {
                    Err(found) => {
                        cycles += 1;
                        assert!(reach[b][a], "a cycle where none is");
                        assert!(found.iter().zip(found.iter().cycle().skip(1)).all(|(x, y)| x.to == y.from));
                    }
                    Ok(_) => {
                        assert!(!reach[b][a], "a cycle that was not found");
                        for x in 0..12 {
                            for y in 0..12 {
                                reach[x][y] |= (x == a || reach[x][a]) && (y == b || reach[b][y]);
                            }
                        }
                    }
                }
            }
        }
        assert!(cycles > 100, "{cycles}");
    }

    #[test]
    fn a_path_back_in_time_is_found_whatever_the_order_of_its_edges() {
        for order in [[(3, 2), (2, 1), (1, 0)], [(1, 0), (2, 1), (3, 2)], [(1, 0), (3, 2), (2, 1)]] {
            let mut graph = graph(0);
            graph.points = Some(Points::Commit);
            // Each overlaps with its neighbours; 0 had ended before 3 began.
            for (txn, at) in [(0, (0, 10)), (1, (8, 20)), (2, (18, 30)), (3, (28, 40))] {
                let mut course = Course::default();
                course.push(OpKind::Begin, Interval::new(at.0, at.0), &[], false);
                course.push(OpKind::Commit, Interval::new(at.1, at.1), &[], false);
                graph.insert(TxnId(txn), course);
            }
            let found: Vec<_> =
                order.into_iter().filter_map(|(a, b)| graph.add(edge(a, b), false).err()).collect();
            assert!(!found.is_empty(), "{order:?}");
            for path in found {
                assert!(path.windows(2).all(|pair| pair[0].to == pair[1].from));
                let (first, last) = (path[0].from.0, path[path.len() - 1].to.0);
                assert!(first >= last + 2, "{first} to {last}: neighbours overlap");
            }
        }
    }

    #[test]
    fn forgets_what_nothing_leads_to() {
        let mut graph = graph(4);
        (0..4).for_each(|txn| _ = graph.judged(TxnId(txn)));
        for (a, b) in [(0, 1), (1, 2), (3, 2)] {
            assert_eq!(graph.add(edge(a, b), false), Ok(true));
        }
        graph.tidy(3);
        assert!(!graph.nodes.contains_key(&TxnId(0)) && !graph.nodes.contains_key(&TxnId(1)));
        assert!(graph.nodes.contains_key(&TxnId(2)), "3 leads to it and may be in a cycle");
        assert_eq!((graph.len(), graph.forgotten()), ((2, 1), 2));
    }
}
