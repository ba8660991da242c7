//! Which of a block of nodes reach which nodes.
//!
//! # Problem
//! A matrix of all pairs does not fit for more than some ten thousand nodes, and without chains
//! there is nothing smaller that tells all. But most questions can be asked in the order of their
//! first node.
//!
//! # Algorithm
//! One row of bits per node: the sources of the block that reach it. Rows are passed on along the
//! edges, in a topological order.
//!
//! # Cost
//! `nodes × block / 8` bytes; `edges × block / 64` steps.

use std::ops::Range;

use crate::graph::Graph;
use crate::tally::Tally;

/// Who of a block of sources reaches whom, by at least one edge.
#[derive(Clone, Default, Debug)]
pub struct Sources {
    first: u32,
    words: usize,
    bits: Vec<u64>,
}

impl Sources {
    /// How many sources of a graph of `nodes` nodes fit into so many bytes, at least 64.
    #[must_use]
    pub fn most(nodes: usize, bytes: usize) -> u32 {
        let words = (bytes / 8 / nodes.max(1)).max(1);
        u32::try_from(words * 64).unwrap_or(u32::MAX)
    }

    /// For an acyclic graph and one of its topological orders (nodes without edges may be left out
    /// of it, and those that no source reaches).
    #[must_use]
    pub fn new(graph: &Graph, order: &[u32], block: Range<u32>) -> Self {
        let words = block.len().div_ceil(64);
        let mut sources = Self { first: block.start, words, bits: vec![0; words * graph.node_count()] };
        let mut row = vec![0; words];
        for &node in order {
            if graph.successors(node).is_empty() {
                continue;
            }
            row.copy_from_slice(&sources.bits[node as usize * words..][..words]);
            if block.contains(&node) {
                let place = (node - block.start) as usize;
                row[place / 64] |= 1 << (place % 64);
            }
            if row.iter().all(|&word| word == 0) {
                continue;
            }
            for &to in graph.successors(node) {
                let theirs = &mut sources.bits[to as usize * words..][..words];
                theirs.iter_mut().zip(&row).for_each(|(theirs, mine)| *theirs |= mine);
            }
        }
        sources
    }

    /// Adds to the rank of each node how many of the block reach it, and takes from that of each of
    /// the block how many it reaches.
    pub fn rank(&self, ranks: &mut [i64]) {
        let mut reached = Tally::new(self.words);
        for (row, rank) in self.bits.chunks(self.words.max(1)).zip(ranks.iter_mut()) {
            *rank += row.iter().map(|word| i64::from(word.count_ones())).sum::<i64>();
            reached.add(row);
        }
        let of_block = ranks.iter_mut().skip(self.first as usize);
        of_block.zip(reached.counts()).for_each(|(rank, count)| *rank -= count);
    }

    /// Whether there is a path with at least one edge from a source of the block.
    #[must_use]
    pub fn reach(&self, from: u32, to: u32) -> bool {
        let place = (from - self.first) as usize;
        self.bits[to as usize * self.words + place / 64] >> (place % 64) & 1 == 1
    }
}
