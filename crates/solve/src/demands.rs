//! What an order of points has to meet, as demands that can be looked at one by one.
//!
//! A demand is met in one way or in two, and a way is a set of edges that all go forward. An edge of the known graph is a demand with one way; two versions that
//! nothing orders are a demand with two: the first before the second, or the other way round, each with the readers who have to be out of the way.
//!
//! # Invariants
//! An order of points that meets all demands of a graph and its open pairs explains all reads.

use margay_order::Graph;

use crate::known::Known;

/// A line from one point to another.
type Edge = (u32, u32);

/// The demands of a known graph and its open pairs.
pub(crate) struct Demands {
    edges: Vec<Edge>,
    /// Per demand: where its edges begin, where those of its second way do, and where they end.
    ways: Vec<[u32; 3]>,
    /// The demands that are about a point: a range of `about` each.
    starts: Vec<u32>,
    about: Vec<u32>,
}

impl Demands {
    pub fn new(known: &Known<'_>, graph: &Graph, open: &[(u32, u32)]) -> Self {
        let mut demands = Self { edges: Vec::new(), ways: Vec::new(), starts: Vec::new(), about: Vec::new() };
        let nodes = graph.node_count() as u32;
        for (from, to) in (0..nodes).flat_map(|from| graph.successors(from).iter().map(move |&to| (from, to)))
        {
            let start = demands.edges.len() as u32;
            demands.edges.push((from, to));
            demands.ways.push([start, start + 1, start + 1]);
        }
        for &(a, b) in open {
            let start = demands.edges.len() as u32;
            demands.add_way(known, a, b);
            let middle = demands.edges.len() as u32;
            demands.add_way(known, b, a);
            demands.ways.push([start, middle, demands.edges.len() as u32]);
        }
        demands.index(nodes as usize);
        demands
    }

    /// The edges of `a` being before `b`.
    fn add_way(&mut self, known: &Known<'_>, a: u32, b: u32) {
        let (problem, points) = (known.problem, known.points);
        let [ta, tb] = [a, b].map(|v| problem.versions[v as usize].txn);
        self.edges.push((points.commit(ta), points.after_earlier(tb)));
        let others = known.firm_readers(a).filter(|&read| problem.reads[read as usize].txn != tb);
        self.edges.extend(others.map(|read| (known.node(read), points.commit(tb))));
    }

    fn index(&mut self, nodes: usize) {
        let mut last = vec![u32::MAX; nodes];
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for demand in 0..self.ways.len() as u32 {
            for &(from, to) in self.edges(demand) {
                for point in [from, to] {
                    if std::mem::replace(&mut last[point as usize], demand) != demand {
                        pairs.push((point, demand));
                    }
                }
            }
        }
        self.starts = vec![0; nodes + 2];
        pairs.iter().for_each(|&(point, _)| self.starts[point as usize + 2] += 1);
        (0..=nodes).for_each(|node| self.starts[node + 1] += self.starts[node]);
        self.about = vec![0; pairs.len()];
        for (point, demand) in pairs {
            let place = &mut self.starts[point as usize + 1];
            self.about[*place as usize] = demand;
            *place += 1;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ways.len()
    }

    /// The demands that are about a point, in order.
    pub fn about(&self, point: u32) -> &[u32] {
        &self.about[self.starts[point as usize] as usize..self.starts[point as usize + 1] as usize]
    }

    /// All edges that a demand is about.
    pub fn edges(&self, demand: u32) -> &[Edge] {
        let [start, _, end] = self.ways[demand as usize];
        &self.edges[start as usize..end as usize]
    }

    /// The ways in which a demand can be met.
    pub fn ways(&self, demand: u32) -> impl Iterator<Item = &[Edge]> {
        let [start, middle, end] = self.ways[demand as usize].map(|place| place as usize);
        [&self.edges[start..middle], &self.edges[middle..end]].into_iter().filter(|way| !way.is_empty())
    }

    /// Whether the places of the points meet a demand.
    pub fn is_met(&self, demand: u32, at: &[f64]) -> bool {
        self.ways(demand).any(|way| way.iter().all(|&(from, to)| at[from as usize] < at[to as usize]))
    }
}
