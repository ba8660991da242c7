//! Topological orders and strongly connected components.

use crate::graph::Graph;

/// The nodes in an order in which every edge goes forward; `None` when there is a cycle. Kahn's
/// algorithm: linear.
#[must_use]
pub fn topological_order(graph: &Graph) -> Option<Vec<u32>> {
    let mut missing = graph.indegrees();
    let mut order: Vec<u32> = (0..graph.node_count() as u32).filter(|&n| missing[n as usize] == 0).collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &to in graph.successors(node) {
            missing[to as usize] -= 1;
            if missing[to as usize] == 0 {
                order.push(to);
            }
        }
    }
    (order.len() == graph.node_count()).then_some(order)
}

/// The strongly connected components that hold a cycle (more than one node, or an edge to itself).
/// Tarjan's algorithm without recursion: linear.
#[must_use]
pub fn components(graph: &Graph) -> Vec<Vec<u32>> {
    let mut search = Tarjan {
        graph,
        index: vec![0; graph.node_count()],
        low: vec![0; graph.node_count()],
        on_stack: vec![false; graph.node_count()],
        stack: Vec::new(),
        counter: 0,
        found: Vec::new(),
    };
    for node in 0..graph.node_count() as u32 {
        if search.index[node as usize] == 0 {
            search.visit(node);
        }
    }
    search.found
}

struct Tarjan<'a> {
    graph: &'a Graph,
    /// 1-based; 0 is unvisited.
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    counter: u32,
    found: Vec<Vec<u32>>,
}

impl Tarjan<'_> {
    fn visit(&mut self, root: u32) {
        let mut calls = vec![(root, 0u32)];
        self.enter(root);
        while let Some((node, place)) = calls.last_mut() {
            let (current, edge) = (*node, *place);
            *place += 1;
            match self.graph.edge_at(current, edge) {
                Some(to) if self.index[to as usize] == 0 => {
                    self.enter(to);
                    calls.push((to, 0));
                }
                Some(to) if self.on_stack[to as usize] => self.lower(current, self.index[to as usize]),
                Some(_) => {}
                None => {
                    calls.pop();
                    self.leave(current);
                    if let Some(&(parent, _)) = calls.last() {
                        self.lower(parent, self.low[current as usize]);
                    }
                }
            }
        }
    }

    fn enter(&mut self, node: u32) {
        self.counter += 1;
        self.index[node as usize] = self.counter;
        self.low[node as usize] = self.counter;
        self.on_stack[node as usize] = true;
        self.stack.push(node);
    }

    fn lower(&mut self, node: u32, to: u32) {
        self.low[node as usize] = self.low[node as usize].min(to);
    }

    fn leave(&mut self, node: u32) {
        if self.low[node as usize] != self.index[node as usize] {
            return;
        }
        let start = self.stack.iter().rposition(|&n| n == node).expect("a node leaves after it entered");
        let component = self.stack.split_off(start);
        component.iter().for_each(|&n| self.on_stack[n as usize] = false);
        if component.len() > 1 || self.graph.successors(node).contains(&node) {
            self.found.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;

    fn graph(nodes: usize, edges: &[(u32, u32)]) -> Graph {
        let mut b = GraphBuilder::new();
        edges.iter().for_each(|&(from, to)| b.add(from, to, 0));
        b.build(nodes)
    }

    #[test]
    fn orders_what_has_an_order() {
        assert_eq!(topological_order(&graph(4, &[(3, 1), (1, 0), (3, 2)])), Some(vec![3, 1, 2, 0]));
        assert_eq!(topological_order(&graph(2, &[(0, 1), (1, 0)])), None);
    }

    #[test]
    fn finds_components_that_hold_a_cycle() {
        let mut found =
            components(&graph(7, &[(0, 1), (1, 0), (1, 2), (3, 3), (4, 5), (5, 6), (6, 4), (2, 4)]));
        found.iter_mut().for_each(|c| c.sort_unstable());
        found.sort();
        assert_eq!(found, [vec![0, 1], vec![3], vec![4, 5, 6]]);
    }

    #[test]
    fn a_million_nodes_in_a_row_do_not_overflow_the_stack() {
        let n = 1_000_000;
        let edges: Vec<_> = (0..n).map(|i| (i, (i + 1) % n)).collect();
        assert_eq!(components(&graph(n as usize, &edges)).len(), 1);
    }
}
