//! Shortest paths and cycles, by breadth-first search.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// A shortest path from `from` to `to` as edges `(from, to, label)`; `None` when there is none.
/// `edges` lists the edges of a node.
///
/// The graph need not be stored anywhere: callers search implicit graphs and parts of graphs. When
/// `from == to` the path is a cycle.
pub fn shortest_path<N, L, I>(from: N, to: N, mut edges: impl FnMut(N) -> I) -> Option<Vec<(N, N, L)>>
where
    N: Copy + Eq + Hash,
    L: Copy,
    I: IntoIterator<Item = (N, L)>,
{
    let mut came: HashMap<N, (N, L)> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for (next, label) in edges(node) {
            if next == to {
                return Some(trace(&came, from, (node, next, label)));
            }
            if next != from && !came.contains_key(&next) {
                came.insert(next, (node, label));
                queue.push_back(next);
            }
        }
    }
    None
}

fn trace<N: Copy + Eq + Hash, L: Copy>(
    came: &HashMap<N, (N, L)>,
    from: N,
    last: (N, N, L),
) -> Vec<(N, N, L)> {
    let mut path = vec![last];
    let mut node = last.0;
    while node != from {
        let (before, label) = came[&node];
        path.push((before, node, label));
        node = before;
    }
    path.reverse();
    path
}

/// A shortest cycle through any of `nodes`; `None` when there is none. Costs one search per node,
/// so give it few or small ones.
pub fn shortest_cycle<N, L, I>(
    nodes: impl IntoIterator<Item = N>,
    mut edges: impl FnMut(N) -> I,
) -> Option<Vec<(N, N, L)>>
where
    N: Copy + Eq + Hash,
    L: Copy,
    I: IntoIterator<Item = (N, L)>,
{
    let mut best: Option<Vec<(N, N, L)>> = None;
    for node in nodes {
        if let Some(cycle) = shortest_path(node, node, &mut edges)
            && best.as_ref().is_none_or(|b| cycle.len() < b.len())
        {
            best = Some(cycle);
        }
        if best.as_ref().is_some_and(|b| b.len() <= 2) {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(of: u32) -> Vec<(u32, char)> {
        match of {
            0 => vec![(1, 'a')],
            1 => vec![(2, 'b'), (3, 'c')],
            2 => vec![(0, 'd')],
            3 => vec![(1, 'e')],
            _ => vec![],
        }
    }

    #[test]
    fn shortest_path_has_its_edges_in_order() {
        assert_eq!(shortest_path(0, 2, edges), Some(vec![(0, 1, 'a'), (1, 2, 'b')]));
        assert_eq!(shortest_path(0, 9, edges), None);
    }

    #[test]
    fn shortest_cycle_is_the_shortest() {
        assert_eq!(shortest_cycle(0..4, edges), Some(vec![(1, 3, 'c'), (3, 1, 'e')]));
        assert_eq!(shortest_cycle(5..9, edges), None);
    }
}
