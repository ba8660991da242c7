//! Reachability as a matrix of bits, for graphs of a few ten thousand nodes that have no chains.

use crate::graph::Graph;
use crate::tally::Tally;

/// Which node reaches which, by at least one edge.
#[derive(Clone, Debug)]
pub struct Closure {
    words: usize,
    bits: Vec<u64>,
}

impl Closure {
    /// The bytes that a closure of `nodes` nodes takes.
    #[must_use]
    pub fn bytes_for(nodes: usize) -> usize {
        nodes * nodes.div_ceil(64) * 8
    }

    /// Computes the closure of an acyclic graph, given one of its topological orders.
    /// `edges × nodes / 64` steps.
    #[must_use]
    pub fn new(graph: &Graph, order: &[u32]) -> Self {
        let words = order.len().div_ceil(64);
        let mut closure = Self { words, bits: vec![0; words * order.len()] };
        for &node in order.iter().rev() {
            for &to in graph.successors(node) {
                if !closure.reaches(node, to) {
                    closure.absorb(node, to);
                }
            }
        }
        closure
    }

    fn absorb(&mut self, node: u32, to: u32) {
        let (mine, theirs) = (node as usize * self.words, to as usize * self.words);
        for word in 0..self.words {
            let other = self.bits[theirs + word];
            self.bits[mine + word] |= other;
        }
        self.bits[mine + to as usize / 64] |= 1 << (to % 64);
    }

    /// A number per node that grows along every path: how many nodes reach it, less how many it
    /// reaches.
    #[must_use]
    pub fn ranks(&self) -> Vec<i64> {
        let nodes = self.bits.len().checked_div(self.words).unwrap_or(0);
        let (mut ranks, mut reached) = (vec![0; nodes], Tally::new(self.words));
        for (row, rank) in self.bits.chunks(self.words.max(1)).zip(&mut ranks) {
            *rank -= row.iter().map(|word| i64::from(word.count_ones())).sum::<i64>();
            reached.add(row);
        }
        ranks.iter_mut().zip(reached.counts()).for_each(|(rank, count)| *rank += count);
        ranks
    }

    /// Whether there is a path with at least one edge.
    #[must_use]
    pub fn reaches(&self, from: u32, to: u32) -> bool {
        self.bits[from as usize * self.words + to as usize / 64] >> (to % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::{Chains, Clocks};
    use crate::graph::GraphBuilder;
    use crate::sources::Sources;
    use crate::topo::topological_order;

    /// Random acyclic graphs over `chains` chains: the closure and the clocks answer the same as a
    /// search.
    #[test]
    fn closure_and_clocks_agree_with_search() {
        let mut state = 7u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % u64::from(below)) as u32
        };
        for round in 0..50 {
            let (nodes, chains) = (5 + random(30), 1 + random(5));
            let chain: Vec<u32> = (0..nodes).map(|_| random(chains)).collect();
            let mut lengths = vec![0; chains as usize];
            let mut last = vec![None; chains as usize];
            let mut builder = GraphBuilder::new();
            let mut position = Vec::new();
            for node in 0..nodes {
                let c = chain[node as usize] as usize;
                position.push(lengths[c]);
                lengths[c] += 1;
                if let Some(before) = last[c].replace(node) {
                    builder.add(before, node, 0);
                }
            }
            for _ in 0..random(2 * nodes) {
                let (a, b) = (random(nodes), random(nodes));
                if a < b {
                    builder.add(a, b, 0);
                }
            }
            let graph = builder.build(nodes as usize);
            let order = topological_order(&graph).expect("edges go upward");
            let chains = Chains::new(chain, position);
            let (clocks, closure) = (Clocks::new(&graph, &order, &chains), Closure::new(&graph, &order));
            let blocks: Vec<Sources> = (0..nodes)
                .step_by(7)
                .map(|first| Sources::new(&graph, &order, first..(first + 7).min(nodes)))
                .collect();
            let mut ranks = vec![0; nodes as usize];
            blocks.iter().for_each(|block| block.rank(&mut ranks));
            assert_eq!(ranks, closure.ranks(), "ranks, round {round}");
            for a in 0..nodes {
                for b in 0..nodes {
                    let path = crate::shortest_path(a, b, |n| graph.edges(n).collect::<Vec<_>>()).is_some();
                    assert_eq!(closure.reaches(a, b), path, "closure, round {round}: {a} to {b}");
                    assert_eq!(clocks.reaches(&chains, a, b), path, "forward, round {round}: {a} to {b}");
                    let block = &blocks[(a / 7) as usize];
                    assert_eq!(block.reach(a, b), path, "sources, round {round}: {a} to {b}");
                    let back = clocks.backward(b)[chains.chain(a) as usize] > chains.position(a);
                    assert_eq!(back, path, "backward, round {round}: {a} to {b}");
                }
            }
        }
    }
}
