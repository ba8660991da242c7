//! Reachability kept as one position per chain.
//!
//! # Problem
//! Engines ask millions of times whether one node reaches another; a matrix of all pairs does not
//! fit.
//!
//! # Algorithm
//! The nodes are covered by chains (sessions; the moments of a clock): sequences in which each node
//! has an edge to the next. What a node reaches in a chain is a suffix of it, so one number per
//! chain says it all: the earliest position reached. Likewise what reaches a node is a prefix of
//! each chain. [Vbox §4.4] keeps the time dimension implicit in the same spirit; here time is one
//! more chain.
//!
//! # Invariants
//! `forward[node][chain]` is the earliest position of `chain` that `node` reaches by at least one
//! edge, or [`NEVER`]; `backward[node][chain]` is one more than the latest position that reaches
//! `node`, or 0.
//!
//! # Cost
//! `nodes × chains × 4` bytes each way; one pass over the edges times chains to compute.

use crate::graph::Graph;

/// No position of the chain is reached.
pub const NEVER: u32 = u32::MAX;

/// A cover of the nodes by chains.
#[derive(Clone, Debug)]
pub struct Chains {
    chain: Vec<u32>,
    position: Vec<u32>,
    count: usize,
}

impl Chains {
    /// From each node's chain and its position in it.
    #[must_use]
    pub fn new(chain: Vec<u32>, position: Vec<u32>) -> Self {
        let count = chain.iter().max().map_or(0, |&c| c as usize + 1);
        Self { chain, position, count }
    }

    /// How many chains there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The chain of a node.
    #[must_use]
    pub fn chain(&self, node: u32) -> u32 {
        self.chain[node as usize]
    }

    /// The position of a node in its chain.
    #[must_use]
    pub fn position(&self, node: u32) -> u32 {
        self.position[node as usize]
    }
}

/// What each node reaches in each chain, and what reaches it.
#[derive(Clone, Debug)]
pub struct Clocks {
    chains: usize,
    forward: Vec<u32>,
    backward: Vec<u32>,
}

impl Clocks {
    /// Computes the clocks of an acyclic graph, given one of its topological orders.
    #[must_use]
    pub fn new(graph: &Graph, order: &[u32], chains: &Chains) -> Self {
        let backward = vec![0; order.len() * chains.count];
        let mut clocks = Self::with_backward(graph, order, chains, backward);
        for &node in order {
            clocks.push_backward(graph, chains, node);
        }
        clocks
    }

    /// The same where it is already known what reaches each node, in the order of nodes and chains.
    #[must_use]
    pub fn with_backward(graph: &Graph, order: &[u32], chains: &Chains, backward: Vec<u32>) -> Self {
        let forward = vec![NEVER; order.len() * chains.count];
        let mut clocks = Self { chains: chains.count, forward, backward };
        for &node in order.iter().rev() {
            clocks.pull_forward(graph, chains, node);
        }
        clocks
    }

    fn pull_forward(&mut self, graph: &Graph, chains: &Chains, node: u32) {
        for &to in graph.successors(node) {
            let (mine, theirs) = two_rows(&mut self.forward, node, to, self.chains);
            for (m, &t) in mine.iter_mut().zip(theirs.iter()) {
                *m = (*m).min(t);
            }
            let own = &mut mine[chains.chain(to) as usize];
            *own = (*own).min(chains.position(to));
        }
    }

    fn push_backward(&mut self, graph: &Graph, chains: &Chains, node: u32) {
        for &to in graph.successors(node) {
            let (theirs, mine) = two_rows(&mut self.backward, to, node, self.chains);
            for (t, &m) in theirs.iter_mut().zip(mine.iter()) {
                *t = (*t).max(m);
            }
            let own = &mut theirs[chains.chain(node) as usize];
            *own = (*own).max(chains.position(node) + 1);
        }
    }

    /// The earliest position of each chain that `node` reaches.
    #[must_use]
    pub fn forward(&self, node: u32) -> &[u32] {
        &self.forward[node as usize * self.chains..][..self.chains]
    }

    /// One more than the latest position of each chain that reaches `node`.
    #[must_use]
    pub fn backward(&self, node: u32) -> &[u32] {
        &self.backward[node as usize * self.chains..][..self.chains]
    }

    /// Whether there is a path with at least one edge.
    #[must_use]
    pub fn reaches(&self, chains: &Chains, from: u32, to: u32) -> bool {
        self.forward(from)[chains.chain(to) as usize] <= chains.position(to)
    }

    /// A number per node that grows along every path: what comes before it in all chains, less what
    /// comes after.
    #[must_use]
    pub fn ranks(&self, chains: &Chains) -> Vec<i64> {
        let mut lengths = vec![0u32; self.chains];
        for (&chain, &position) in chains.chain.iter().zip(&chains.position) {
            lengths[chain as usize] = lengths[chain as usize].max(position + 1);
        }
        let rank = |node: u32| {
            let before: i64 = self.backward(node).iter().map(|&b| i64::from(b)).sum();
            let reached = self.forward(node).iter().zip(&lengths);
            let after: i64 = reached.map(|(&first, &length)| i64::from(length.saturating_sub(first))).sum();
            before - after
        };
        (0..chains.chain.len() as u32).map(rank).collect()
    }

    /// The memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.forward.len() + self.backward.len()) * 4
    }
}

/// Row `a` to write and row `b` to read.
fn two_rows(rows: &mut [u32], a: u32, b: u32, width: usize) -> (&mut [u32], &[u32]) {
    let (a, b) = (a as usize * width, b as usize * width);
    if a < b {
        let (low, high) = rows.split_at_mut(b);
        (&mut low[a..a + width], &high[..width])
    } else {
        let (low, high) = rows.split_at_mut(a);
        (&mut high[..width], &low[b..b + width])
    }
}
