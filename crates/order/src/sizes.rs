//! How much comes before and after each node, estimated.
//!
//! # Problem
//! How many nodes a node reaches, less how many reach it, guesses an order well; but to count them
//! takes a matrix of all pairs.
//!
//! # Algorithm
//! Each node draws a few numbers from an exponential distribution. The least number among all that
//! a node reaches is passed on along the edges, in one pass; the more it reaches, the less that is,
//! and the mean of several tells how many ([Cohen 1997]).
//!
//! # Cost
//! [`DRAWS`] numbers per node; as many steps per edge, each way.

use crate::graph::Graph;

/// How many numbers each node draws.
const DRAWS: usize = 16;

/// A number per node: about how many nodes reach it, less how many it reaches. The same graph has
/// the same numbers every time.
#[must_use]
pub fn estimated_ranks(graph: &Graph, order: &[u32]) -> Vec<i64> {
    let (mut before, mut after) = (draws(graph.node_count()), draws(graph.node_count()));
    for &node in order {
        let row = before[node as usize];
        graph.successors(node).iter().for_each(|&to| least(&mut before[to as usize], &row));
    }
    for &node in order.iter().rev() {
        let mut row = after[node as usize];
        graph.successors(node).iter().for_each(|&to| least(&mut row, &after[to as usize]));
        after[node as usize] = row;
    }
    before.iter().zip(&after).map(|(before, after)| size(before) - size(after)).collect()
}

type Draws = [f32; DRAWS];

fn least(mine: &mut Draws, theirs: &Draws) {
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = mine.min(*theirs));
}

/// How many drew these, at the least.
fn size(draws: &Draws) -> i64 {
    let sum: f64 = draws.iter().map(|&draw| f64::from(draw)).sum();
    ((DRAWS - 1) as f64 / sum) as i64
}

fn draws(nodes: usize) -> Vec<Draws> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let unit = ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        (-unit.ln()).max(f64::from(f32::MIN_POSITIVE)) as f32
    };
    (0..nodes).map(|_| std::array::from_fn(|_| draw())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;

    /// Along a chain they grow nearly everywhere, and from its middle the two sides look alike.
    #[test]
    fn ranks_grow_along_a_chain() {
        let mut builder = GraphBuilder::new();
        (1..2_000).for_each(|node| builder.add(node - 1, node, 0));
        let graph = builder.build(2_000);
        let order: Vec<u32> = (0..2_000).collect();
        let ranks = estimated_ranks(&graph, &order);
        assert!((0..1_000).all(|node| ranks[node] <= ranks[node + 1_000]), "{ranks:?}");
        assert!(ranks[0] < -1_000 && ranks[1_999] > 1_000, "{} to {}", ranks[0], ranks[1_999]);
        assert_eq!(ranks, estimated_ranks(&graph, &order));
    }
}
