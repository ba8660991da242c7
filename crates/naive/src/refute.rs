//! Why no choice is legal: the lemmas of a refutation.
//!
//! # Algorithm
//! The same search through all choices as in [`choose`](crate::choose), but at each dead end it
//! asks why: either a lemma that was found before forbids it, or the shortest forbidden cycle
//! becomes a new one. At the end lemmas that are not needed are dropped.

use margay_history::{TxnId, Version};
use margay_verdict::{Edge, Lemma, Reason};

use crate::choose::all_layouts;
use crate::cycle::{CycleStep, shortest};
use crate::graph::{Graph, Seen};
use crate::model::{Model, Search};
use crate::versions::Layout;

/// Every set of transactions that may have committed, with the layouts of every object.
type Choices = Vec<(Vec<TxnId>, Vec<Vec<Layout>>)>;

/// Cycles of which each choice has one; `None` if some choice is legal after all.
pub fn refute(model: &Model<'_>) -> Search<Option<Vec<Vec<CycleStep>>>> {
    let mut choices = Choices::new();
    for committed in model.committed_sets() {
        if let Some(objects) = all_layouts(model, &committed)? {
            choices.push((committed, objects));
        }
    }
    let mut found = Refutation { model, cycles: Vec::new(), learn: true };
    if !found.covers(&choices)? {
        return Ok(None);
    }
    found.learn = false;
    let mut next = 0;
    while next < found.cycles.len() {
        let cycle = found.cycles.remove(next);
        if !found.covers(&choices)? {
            found.cycles.insert(next, cycle);
            next += 1;
        }
    }
    Ok(Some(found.cycles))
}

/// The lemma of a cycle.
pub fn lemma(cycle: &[CycleStep]) -> Lemma {
    Lemma { edges: cycle.iter().map(|step| step.edge.clone()).collect() }
}

struct Refutation<'a, 'h> {
    model: &'a Model<'h>,
    cycles: Vec<Vec<CycleStep>>,
    /// Whether to find new cycles.
    learn: bool,
}

impl Refutation<'_, '_> {
    /// Whether every choice has one of the cycles.
    fn covers(&mut self, choices: &Choices) -> Search<bool> {
        for (committed, objects) in choices {
            if !self.extend(objects, 0, Graph::new(self.model, committed))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn extend(&mut self, objects: &[Vec<Layout>], next: usize, graph: Graph) -> Search<bool> {
        if self.is_refuted(&graph)? {
            return Ok(true);
        }
        let Some(layouts) = objects.get(next) else { return Ok(false) };
        for layout in layouts {
            let mut graph = graph.clone();
            graph.add_order(layout.object, &layout.order);
            if !self.read(objects, next, layout, 0, graph)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read(
        &mut self,
        objects: &[Vec<Layout>],
        object: usize,
        layout: &Layout,
        next: usize,
        graph: Graph,
    ) -> Search<bool> {
        let Some(site) = layout.sites.get(next) else { return self.extend(objects, object + 1, graph) };
        if self.is_refuted(&graph)? {
            return Ok(true);
        }
        for &option in &site.options {
            let mut graph = graph.clone();
            let version = layout.version(option);
            let (op, reader, item) = (site.op, site.reader, site.item);
            graph.add_seen(Seen { op, reader, object: layout.object, version, item });
            if !self.read(objects, object, layout, next + 1, graph)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether one of the cycles is there, or a new one.
    fn is_refuted(&mut self, graph: &Graph) -> Search<bool> {
        self.model.step()?;
        if self.cycles.iter().any(|cycle| cycle.iter().all(|step| holds(graph, &step.edge))) {
            return Ok(true);
        }
        if self.learn && !graph.is_legal(self.model.question.level) {
            let cycle = shortest(self.model, graph);
            self.cycles.extend(cycle.clone());
            return Ok(cycle.is_some());
        }
        Ok(false)
    }
}

/// Whether what an edge assumes is chosen.
fn holds(graph: &Graph, edge: &Edge) -> bool {
    let saw = |op, object, version| {
        graph.seen.iter().any(|s| s.op == op && s.object == object && s.version == version)
    };
    let there = |txn: &TxnId| graph.txns.contains(txn);
    let assumed = match &edge.reason {
        Reason::Session | Reason::RealTime | Reason::Recorded(_) => true,
        Reason::Read { op, object } => saw(*op, *object, Version::Of(edge.from)),
        Reason::Write { object } => graph.later(*object, Version::Of(edge.from)).contains(&edge.to),
        Reason::AntiRead { op, object, version } => {
            saw(*op, *object, *version) && graph.later(*object, *version).contains(&edge.to)
        }
        Reason::Visible { op, object, path } => {
            saw(*op, *object, Version::Of(edge.to)) && path.iter().all(|edge| holds(graph, edge))
        }
        // The cycles of this engine are about whole rows.
        Reason::ReadColumn { .. } | Reason::AntiReadColumn { .. } => false,
    };
    assumed && there(&edge.from) && there(&edge.to)
}
