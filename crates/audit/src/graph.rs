//! A directed graph: topological order, and strongly connected components.

use margay_history::{History, TxnId};
use margay_verdict::{Budget, Exhausted};

use super::Rejected;

/// A graph with nodes `0..nodes`.
pub(super) struct Graph {
    nodes: usize,
    edges: Vec<(u32, u32)>,
}

/// The same, by node.
pub(super) struct Adjacency {
    starts: Vec<u32>,
    to: Vec<u32>,
}

impl Graph {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes, edges: Vec::new() }
    }

    pub(super) fn edge(&mut self, from: usize, to: usize) {
        self.edges.push((from as u32, to as u32));
    }

    fn node(&mut self) -> usize {
        self.nodes += 1;
        self.nodes - 1
    }

    /// Session order among the committed: from each transaction's `out` node to the next one's
    /// `into` node.
    pub(super) fn session_order(
        &mut self,
        history: &History,
        committed: &[bool],
        out: impl Fn(TxnId) -> usize,
        into: impl Fn(TxnId) -> usize,
    ) {
        for session in history.sessions() {
            let txns: Vec<TxnId> = history.session_txns(session).filter(|t| committed[t.index()]).collect();
            txns.windows(2).for_each(|pair| self.edge(out(pair[0]), into(pair[1])));
        }
    }

    /// Real time among the committed. A chain of extra nodes, one for each end on the clock, stands
    /// between what ended and what began later: the pairs are paths, and the edges are linear in
    /// number.
    pub(super) fn real_time(
        &mut self,
        history: &History,
        committed: &[bool],
        out: impl Fn(TxnId) -> usize,
        into: impl Fn(TxnId) -> usize,
    ) {
        let live = || history.txns().filter(|t| committed[t.index()]);
        let mut ends: Vec<(i64, TxnId)> = live().filter_map(|t| Some((history.end(t)?, t))).collect();
        ends.sort_unstable();
        let chain: Vec<usize> = ends.iter().map(|_| self.node()).collect();
        for (i, &(_, txn)) in ends.iter().enumerate() {
            self.edge(out(txn), chain[i]);
            if i > 0 {
                self.edge(chain[i - 1], chain[i]);
            }
        }
        let skew = history.header().skew;
        for txn in live() {
            let Some(start) = history.start(txn) else { continue };
            let ended = ends.partition_point(|(end, _)| end.saturating_add(skew) < start);
            if ended > 0 {
                self.edge(chain[ended - 1], into(txn));
            }
        }
    }

    pub(super) fn adjacency(&self) -> Adjacency {
        let mut starts = vec![0u32; self.nodes + 1];
        self.edges.iter().for_each(|&(from, _)| starts[from as usize + 1] += 1);
        for node in 0..self.nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut to = vec![0; self.edges.len()];
        for &(from, target) in &self.edges {
            to[next[from as usize] as usize] = target;
            next[from as usize] += 1;
        }
        Adjacency { starts, to }
    }

    /// The nodes in an order that every edge follows.
    pub(super) fn topological(&self) -> Result<Vec<usize>, Rejected> {
        let adjacency = self.adjacency();
        let mut incoming = vec![0u32; self.nodes];
        self.edges.iter().for_each(|&(_, to)| incoming[to as usize] += 1);
        let mut order: Vec<usize> = (0..self.nodes).filter(|&n| incoming[n] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for &to in adjacency.of(order[next]) {
                incoming[to as usize] -= 1;
                if incoming[to as usize] == 0 {
                    order.push(to as usize);
                }
            }
            next += 1;
        }
        match order.len() == self.nodes {
            true => Ok(order),
            false => Err(Rejected("the dependencies have a cycle that the level forbids".to_string())),
        }
    }
}

impl Adjacency {
    pub(super) fn of(&self, node: usize) -> &[u32] {
        &self.to[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    pub(super) fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// The strongly connected component of each node, by Tarjan's algorithm without recursion.
    pub(super) fn components(&self) -> Vec<u32> {
        const NEW: u32 = u32::MAX;
        let nodes = self.nodes();
        let (mut index, mut low) = (vec![NEW; nodes], vec![0; nodes]);
        let (mut component, mut stack, mut count, mut components) = (vec![NEW; nodes], Vec::new(), 0, 0);
        for root in 0..nodes {
            if index[root] != NEW {
                continue;
            }
            let mut path: Vec<(usize, usize)> = vec![(root, 0)];
            while let Some(&mut (node, ref mut child)) = path.last_mut() {
                if *child == 0 {
                    (index[node], low[node]) = (count, count);
                    count += 1;
                    stack.push(node);
                }
                if let Some(&to) = self.of(node).get(*child) {
                    *child += 1;
                    let to = to as usize;
                    match index[to] {
                        NEW => path.push((to, 0)),
                        seen if component[to] == NEW => low[node] = low[node].min(seen),
                        _ => {}
                    }
                    continue;
                }
                path.pop();
                if let Some(&(parent, _)) = path.last() {
                    low[parent] = low[parent].min(low[node]);
                }
                if low[node] == index[node] {
                    while let Some(member) = stack.pop() {
                        component[member] = components;
                        if member == node {
                            break;
                        }
                    }
                    components += 1;
                }
            }
        }
        component
    }

    /// Whether a path of at least one edge leads from `from` to `to`, looking only at nodes that
    /// `within` admits.
    pub(super) fn reaches(
        &self,
        from: usize,
        to: usize,
        within: impl Fn(usize) -> bool,
        budget: &Budget,
    ) -> Result<bool, Exhausted> {
        let mut seen = hashbrown::HashSet::new();
        let mut pending = vec![from];
        while let Some(node) = pending.pop() {
            budget.poll()?;
            for &next in self.of(node) {
                let next = next as usize;
                if next == to {
                    return Ok(true);
                }
                if within(next) && seen.insert(next) {
                    pending.push(next);
                }
            }
        }
        Ok(false)
    }
}
