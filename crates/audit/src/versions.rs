//! Version orders, what reads saw, and the shape of the graph that they make.
//!
//! | level | what must not be a cycle |
//! |---|---|
//! | `read-uncommitted` | ww |
//! | `read-committed` | ww, wr |
//! | `repeatable-read` | ww, wr, rw over items |
//! | `parallel-snapshot` | so, ww, wr, and at most one rw |
//!
//! For the other levels the graph is unrolled into what they are defined by (a serial order,
//! points, a commit order), which is then audited like a certificate of that kind.
//!
//! Only neighbours in a version order are joined: a ww edge further on is a path, and an rw edge
//! further on is an rw edge and ww edges.
//!
//! # Cost
//! Linear, but for `parallel-snapshot` inside the strongly connected components of the whole graph,
//! where each rw edge is searched for.

use margay_history::{History, Outcome, TxnId};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Order, Point, Predicates, Question, Versions};

use super::execution::{Execution, Seen};
use super::graph::Graph;
use super::lists::{list_orders, no_duplicates};
use super::written::Written;
use super::{Rejected, axioms, committed_set, order, points, reject};

pub(super) fn audit(
    history: &History,
    question: Question,
    versions: &Versions,
    budget: &Budget,
) -> Result<(), Rejected> {
    let predicates = Predicates::compile(history)?.within(budget);
    let known = history.txns().filter(|&t| history.outcome(t) == Outcome::Committed);
    let committed = committed_set(history, known.chain(versions.committed.iter().copied()))?;
    let execution = Execution::by_versions(&predicates, committed, versions)?;
    if question.level == Level::ReadUncommitted {
        return uncommitted(&execution, question);
    }
    let seen = execution.explain()?;
    let shape = Shape { execution: &execution, question, seen: &seen };
    match (question.level.family(), question.level) {
        (_, Level::ReadCommitted) => shape.dependencies(|_| false).topological().map(|_| ()),
        (_, Level::RepeatableRead) => shape.dependencies(|seen| seen.item).topological().map(|_| ()),
        (_, Level::ParallelSnapshot) => shape.at_most_one_rw(),
        (Family::Serial, _) => {
            let txns = shape.unrolled(&shape.dependencies(|_| true).topological()?);
            order::audit(history, question, &Order { txns, reads: Vec::new() }, budget)
        }
        (Family::Snapshot, _) | (_, Level::Prefix) => {
            points::audit(history, question, &shape.points()?, budget)
        }
        _ => {
            let txns = shape.unrolled(&shape.dependencies(|_| false).topological()?);
            axioms::check(&execution, &seen, &txns, question)
        }
    }
}

/// At `read-uncommitted` reads say nothing, but for what nobody wrote, what was appended once and
/// seen twice, and the order of the elements of lists.
fn uncommitted(execution: &Execution<'_>, question: Question) -> Result<(), Rejected> {
    let history = execution.history();
    let shape = Shape { execution, question, seen: &[] };
    shape.dependencies(|_| false).topological()?;
    Written::of_history(execution.predicates).covers(&execution.committed)?;
    no_duplicates(history, &execution.committed)?;
    for order in list_orders(history, |txn| execution.committed[txn.index()]) {
        let writers = execution.orders.get(&order.object).map_or(&[][..], |writers| writers);
        let rank = |txn: TxnId| writers.iter().position(|&w| w == txn);
        let ranks: Vec<_> = order.writers.iter().filter_map(|&txn| rank(txn)).collect();
        if !ranks.is_sorted() {
            return reject(format!(
                "a read shows another order of the elements of {}",
                history.show_object(order.object)
            ));
        }
    }
    Ok(())
}

struct Shape<'a, 'p> {
    execution: &'a Execution<'p>,
    question: Question,
    seen: &'a [Seen],
}

impl Shape<'_, '_> {
    fn writers(&self, seen: &Seen) -> &[TxnId] {
        self.execution.orders.get(&seen.object).map_or(&[], |writers| writers)
    }

    /// Who wrote what was seen; nobody did the initial version.
    fn source(&self, seen: &Seen) -> Option<TxnId> {
        seen.rank.checked_sub(1).map(|place| self.writers(seen)[place])
    }

    /// The next writer after what was seen. If that is the reader itself, ww edges lead on.
    fn overwriter(&self, seen: &Seen) -> Option<TxnId> {
        self.writers(seen).get(seen.rank).copied().filter(|&txn| txn != seen.txn)
    }

    /// Transactions as nodes: ww, wr, the orders that the question uses, and the rw edges that `rw`
    /// admits.
    fn dependencies(&self, rw: impl Fn(&Seen) -> bool) -> Graph {
        let history = self.execution.history();
        let mut graph = Graph::new(history.txn_count());
        let node = |txn: TxnId| txn.index();
        for writers in self.execution.orders.values() {
            writers.windows(2).for_each(|pair| graph.edge(node(pair[0]), node(pair[1])));
        }
        for seen in self.seen {
            self.source(seen).into_iter().for_each(|from| graph.edge(node(from), node(seen.txn)));
            if rw(seen) {
                self.overwriter(seen).into_iter().for_each(|to| graph.edge(node(seen.txn), node(to)));
            }
        }
        if self.question.uses_session_order() {
            graph.session_order(history, &self.execution.committed, node, node);
        }
        if self.question.uses_real_time() {
            graph.real_time(history, &self.execution.committed, node, node);
        }
        graph
    }

    /// The committed transactions among the nodes.
    fn unrolled(&self, nodes: &[usize]) -> Vec<TxnId> {
        let committed = |&node: &usize| self.execution.committed.get(node) == Some(&true);
        nodes.iter().copied().filter(committed).map(TxnId::at).collect()
    }

    /// A cycle through one rw edge lies in one strongly connected component of all edges, so only
    /// there is it looked for.
    fn at_most_one_rw(&self) -> Result<(), Rejected> {
        let without = self.dependencies(|_| false);
        without.topological()?;
        let paths = without.adjacency();
        let component = self.dependencies(|_| true).adjacency().components();
        let budget = self.execution.predicates.budget();
        for seen in self.seen {
            let Some(to) = self.overwriter(seen) else { continue };
            let here = component[seen.txn.index()];
            if component[to.index()] == here
                && paths.reaches(to.index(), seen.txn.index(), |node| component[node] == here, budget)?
            {
                let history = self.execution.history();
                return reject(format!(
                    "{} depends on {}, whose version of {} it did not see",
                    history.show_txn(seen.txn),
                    history.show_txn(to),
                    history.show_object(seen.object)
                ));
            }
        }
        Ok(())
    }

    /// Begin and commit points that the dependencies allow. Writers of one object overlap at
    /// `prefix` only.
    fn points(&self) -> Result<Vec<Point>, Rejected> {
        let history = self.execution.history();
        let (begin, commit) = (|txn: TxnId| 2 * txn.index(), |txn: TxnId| 2 * txn.index() + 1);
        let mut graph = Graph::new(2 * history.txn_count());
        history.txns().for_each(|txn| graph.edge(begin(txn), commit(txn)));
        let overlap = self.question.level == Level::Prefix;
        for writers in self.execution.orders.values() {
            for pair in writers.windows(2) {
                graph.edge(commit(pair[0]), if overlap { commit(pair[1]) } else { begin(pair[1]) });
            }
        }
        for seen in self.seen {
            self.source(seen).into_iter().for_each(|from| graph.edge(commit(from), begin(seen.txn)));
            self.overwriter(seen).into_iter().for_each(|to| graph.edge(begin(seen.txn), commit(to)));
        }
        if self.question.uses_session_order() {
            graph.session_order(history, &self.execution.committed, commit, begin);
        }
        if self.question.uses_real_time() {
            graph.real_time(history, &self.execution.committed, commit, begin);
        }
        let point = |node: &usize| {
            let txn = TxnId::at(node / 2);
            let point = if node.is_multiple_of(2) { Point::Begin(txn) } else { Point::Commit(txn) };
            (self.execution.committed.get(txn.index()) == Some(&true)).then_some(point)
        };
        Ok(graph.topological()?.iter().filter_map(point).collect())
    }
}
