//! Dependencies between transactions, as a graph.
//!
//! # Algorithm
//! Only neighbours in a version order are joined: a ww edge further on is a path, and an rw edge
//! further on is an rw edge and ww edges. Where one thing comes before many (the readers of the
//! last known version before every version whose place is not known; what ended before what began
//! later) extra nodes stand between, so that the edges are linear in number.
//!
//! A node is a transaction, or for the levels of points its begin and its commit.
//!
//! # Invariants
//! A path through extra nodes from one transaction to another is one dependency, of the kind of its
//! first edge.

use margay_history::{ObjectId, OpKind, TxnId};
use margay_levels::Level;
use margay_order::Graph;

use crate::case::{Case, Next, Read};

/// Why a dependency is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    Session,
    Time,
    /// The read.
    Read(u32),
    Write(ObjectId),
    /// The read.
    Anti(u32),
    /// An axiom about a read (of the levels of commit orders).
    Visible(u32),
    /// On from an extra node: of time, or of a read.
    OnTime,
    OnAnti,
}

/// An edge; a number from the count of transactions on is an extra node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dep {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) why: Why,
}

/// Dependencies.
#[derive(Clone)]
pub(crate) struct Deps {
    /// How many transactions there are.
    pub(crate) txns: u32,
    /// How many nodes there are with the extra ones.
    pub(crate) nodes: u32,
    pub(crate) all: Vec<Dep>,
}

/// What the nodes of a graph are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// Transactions.
    Txns,
    /// Begin and commit points. `overlap`: whether writers of one object may.
    Points { overlap: bool },
}

/// The label of the edge from a transaction's begin to its commit.
pub(crate) const INSIDE: u32 = u32::MAX;

impl Deps {
    /// None yet.
    pub(crate) fn new(case: &Case<'_>) -> Self {
        let txns = case.history.txn_count() as u32;
        Self { txns, nodes: txns, all: Vec::new() }
    }

    pub(crate) fn add(&mut self, from: u32, to: u32, why: Why) {
        if from != to {
            self.all.push(Dep { from, to, why });
        }
    }

    fn node(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes - 1
    }

    /// Who read from whom.
    pub(crate) fn reads(&mut self, case: &Case<'_>) {
        self.all.reserve_exact(case.reads.len() + case.history.txn_count());
        for (i, read) in case.reads.iter().enumerate() {
            if let margay_history::Version::Of(from) = read.from {
                self.add(from.0, read.txn.0, Why::Read(i as u32));
            }
        }
    }

    /// Whose version is before whose.
    pub(crate) fn writes(&mut self, case: &Case<'_>) {
        for &(object, from, to) in &case.pairs {
            self.add(from.0, to.0, Why::Write(object));
        }
    }

    /// Who saw what another overwrote.
    pub(crate) fn antis(&mut self, case: &Case<'_>) {
        // At repeatable read the rows that a scan did not return do not count.
        let items_only = case.question.level == Level::RepeatableRead && case.history.has_kind(OpKind::Scan);
        let counts = |read: &Read| !items_only || !case.is_predicate(read);
        for &(read, txn) in case.antis.iter().filter(|anti| counts(&case.reads[anti.0 as usize])) {
            self.add(case.reads[read as usize].txn.0, txn.0, Why::Anti(read));
        }
        let mut rest: Vec<(ObjectId, u32)> = Vec::new();
        for (i, read) in case.reads.iter().enumerate().filter(|(_, read)| counts(read)) {
            match read.next {
                Next::Nothing => {}
                Next::Txn(txn) => self.add(read.txn.0, txn.0, Why::Anti(i as u32)),
                Next::Rest => rest.push((read.object, i as u32)),
            }
        }
        rest.sort_unstable();
        for reads in rest.chunk_by(|a, b| a.0 == b.0) {
            self.antis_to_rest(case, reads);
        }
    }

    /// Extra nodes that lead to the first so many of the rest, and to the last so many; a reader
    /// that is one of them leaves itself out.
    fn antis_to_rest(&mut self, case: &Case<'_>, reads: &[(ObjectId, u32)]) {
        let rest = case.writers.rest(reads[0].0);
        if rest.len() <= 2 || reads.len() <= 2 {
            for &(_, read) in reads {
                let txn = case.reads[read as usize].txn.0;
                rest.iter().for_each(|writer| self.add(txn, writer.0, Why::Anti(read)));
            }
            return;
        }
        let first: Vec<u32> = rest.iter().map(|_| self.node()).collect();
        let last: Vec<u32> = rest.iter().map(|_| self.node()).collect();
        for (i, writer) in rest.iter().enumerate() {
            self.add(first[i], writer.0, Why::OnAnti);
            self.add(last[i], writer.0, Why::OnAnti);
            if i > 0 {
                self.add(first[i], first[i - 1], Why::OnAnti);
                self.add(last[i - 1], last[i], Why::OnAnti);
            }
        }
        for &(_, read) in reads {
            let txn = case.reads[read as usize].txn;
            match rest.binary_search(&txn) {
                Err(_) => self.add(txn.0, last[0], Why::Anti(read)),
                Ok(place) => {
                    if place > 0 {
                        self.add(txn.0, first[place - 1], Why::Anti(read));
                    }
                    if place + 1 < rest.len() {
                        self.add(txn.0, last[place + 1], Why::Anti(read));
                    }
                }
            }
        }
    }

    /// The orders that the question uses.
    pub(crate) fn orders(&mut self, case: &Case<'_>) {
        let time = case.question.uses_real_time();
        if case.question.uses_session_order() {
            for session in case.history.sessions() {
                let mut last: Option<TxnId> = None;
                for txn in case.history.session_txns(session).filter(|&t| case.has(t)) {
                    // Real time says the same where there is a clock, and under Elle's name.
                    if let Some(before) = last.filter(|&b| !time || !case.history.precedes(b, txn)) {
                        self.add(before.0, txn.0, Why::Session);
                    }
                    last = Some(txn);
                }
            }
        }
        if time {
            self.time(case);
        }
    }

    fn time(&mut self, case: &Case<'_>) {
        let history = case.history;
        let mut ends: Vec<(i64, TxnId)> =
            case.txns().filter_map(|txn| Some((history.end(txn)?, txn))).collect();
        ends.sort_unstable();
        let moments: Vec<u32> = ends.iter().map(|_| self.node()).collect();
        for (i, &(_, txn)) in ends.iter().enumerate() {
            self.add(txn.0, moments[i], Why::Time);
            if i > 0 {
                self.add(moments[i - 1], moments[i], Why::OnTime);
            }
        }
        let skew = history.header().skew;
        for txn in case.txns() {
            let Some(start) = history.start(txn) else { continue };
            let ended = ends.partition_point(|(end, _)| end.saturating_add(skew) < start);
            if ended > 0 {
                self.add(moments[ended - 1], txn.0, Why::OnTime);
            }
        }
    }

    /// The graph; labels are places in [`Deps::all`].
    pub(crate) fn graph(&self, layout: Layout) -> Graph {
        let edges = self.all.iter().zip(0..).map(|(dep, label)| {
            let (from, to) = self.ends(dep, layout);
            [from, to, label]
        });
        match layout {
            Layout::Txns => Graph::of(self.nodes as usize, edges),
            Layout::Points { .. } => {
                let inside = (0..self.txns).map(|txn| [2 * txn, 2 * txn + 1, INSIDE]);
                Graph::of((self.nodes + self.txns) as usize, edges.chain(inside))
            }
        }
    }

    /// The nodes that an edge joins.
    fn ends(&self, dep: &Dep, layout: Layout) -> (u32, u32) {
        let Layout::Points { overlap } = layout else { return (dep.from, dep.to) };
        let anti = matches!(dep.why, Why::Anti(_) | Why::OnAnti);
        let at_commit = anti || overlap && matches!(dep.why, Why::Write(_));
        let point = |node: u32, commit: bool| match node < self.txns {
            true => 2 * node + u32::from(commit),
            false => node + self.txns,
        };
        (point(dep.from, !anti), point(dep.to, at_commit))
    }

    /// The transaction of a node of the layout, if it is no extra one.
    pub(crate) fn txn(&self, layout: Layout, node: u32) -> Option<TxnId> {
        let (width, node) = if layout == Layout::Txns { (1, node) } else { (2, node / 2) };
        (node < self.txns && width > 0).then_some(TxnId(node))
    }
}

/// The nodes in an order that every edge follows, what became possible last first: so a transaction
/// commits soon after it began, and transactions overlap little. `None` when there is a cycle.
pub(crate) fn in_order(graph: &Graph) -> Option<Vec<u32>> {
    let mut missing = graph.indegrees();
    let mut open: Vec<u32> =
        (0..graph.node_count() as u32).rev().filter(|&n| missing[n as usize] == 0).collect();
    let mut order = Vec::with_capacity(missing.len());
    while let Some(node) = open.pop() {
        order.push(node);
        for &to in graph.successors(node) {
            missing[to as usize] -= 1;
            if missing[to as usize] == 0 {
                open.push(to);
            }
        }
    }
    (order.len() == missing.len()).then_some(order)
}
