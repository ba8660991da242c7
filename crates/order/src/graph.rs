//! A directed graph in compressed rows, with a label on every edge.

/// A directed graph. Edges of one node lie together; parallel edges are kept.
#[derive(Clone, Default, Debug)]
pub struct Graph {
    starts: Vec<u32>,
    targets: Vec<u32>,
    labels: Vec<u32>,
}

/// Collects edges for a [`Graph`].
#[derive(Clone, Default, Debug)]
pub struct GraphBuilder {
    edges: Vec<[u32; 3]>,
}

impl GraphBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an edge with a label.
    pub fn add(&mut self, from: u32, to: u32, label: u32) {
        self.edges.push([from, to, label]);
    }

    /// How many edges there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there is no edge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// The graph of `nodes` nodes with the edges added so far.
    #[must_use]
    pub fn build(&self, nodes: usize) -> Graph {
        Graph::of(nodes, self.edges.iter().copied())
    }

    /// The same with every edge turned around.
    #[must_use]
    pub fn build_reversed(&self, nodes: usize) -> Graph {
        Graph::of(nodes, self.edges.iter().map(|&[from, to, label]| [to, from, label]))
    }
}

impl Graph {
    /// The graph of `nodes` nodes with these edges: from, to, label. Goes through them twice.
    #[must_use]
    pub fn of(nodes: usize, edges: impl Iterator<Item = [u32; 3]> + Clone) -> Self {
        let mut starts = vec![0u32; nodes + 2];
        edges.clone().for_each(|[from, ..]| starts[from as usize + 2] += 1);
        for node in 0..=nodes {
            starts[node + 1] += starts[node];
        }
        let count = starts[nodes + 1] as usize;
        let (mut targets, mut labels) = (vec![0; count], vec![0; count]);
        edges.for_each(|[from, to, label]| {
            let place = &mut starts[from as usize + 1];
            targets[*place as usize] = to;
            labels[*place as usize] = label;
            *place += 1;
        });
        starts.pop();
        Graph { starts, targets, labels }
    }

    /// How many nodes there are.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// How many edges there are.
    #[must_use]
    pub fn edge_count(&self) -> usize {
        self.targets.len()
    }

    /// The successors of a node.
    #[must_use]
    pub fn successors(&self, node: u32) -> &[u32] {
        &self.targets[self.range(node)]
    }

    /// The successors of a node with the labels of the edges.
    pub fn edges(&self, node: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let range = self.range(node);
        self.targets[range.clone()].iter().copied().zip(self.labels[range].iter().copied())
    }

    /// The edge at `place` among those of a node.
    fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize
    }

    /// How many edges enter each node.
    #[must_use]
    pub fn indegrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.node_count()];
        self.targets.iter().for_each(|&to| degrees[to as usize] += 1);
        degrees
    }

    pub(crate) fn edge_at(&self, node: u32, place: u32) -> Option<u32> {
        self.successors(node).get(place as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_edges_and_labels_both_ways() {
        let mut b = GraphBuilder::new();
        for (label, (from, to)) in [(0, 1), (0, 2), (2, 1), (0, 1)].into_iter().enumerate() {
            b.add(from, to, label as u32);
        }
        let g = b.build(4);
        assert_eq!((g.node_count(), g.edge_count()), (4, 4));
        assert_eq!(g.edges(0).collect::<Vec<_>>(), [(1, 0), (2, 1), (1, 3)]);
        assert_eq!(g.successors(3), &[] as &[u32]);
        assert_eq!(g.indegrees(), [0, 3, 1, 0]);
        assert_eq!(b.build_reversed(4).edges(1).collect::<Vec<_>>(), [(0, 0), (2, 2), (0, 3)]);
    }
}
