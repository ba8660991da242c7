//! The levels that ask for version orders and reads-from: all choices, one by one.
//!
//! # Algorithm
//! For every set of transactions that may have committed, and every object, all
//! [layouts](crate::versions); then a search through their combinations, which turns back as soon
//! as the dependencies so far are illegal: more dependencies cannot make them legal again.

use margay_history::{Op, TxnId};

use crate::graph::{Graph, Seen};
use crate::model::{Model, Search, Stop};
use crate::versions::{Layout, hidden_update, layouts};
use margay_verdict::Why;

/// A history of more objects is not decided.
const MAX_OBJECTS: usize = 1000;

/// The dependencies of some explanation, if there is one.
pub fn choose(model: &Model<'_>) -> Search<Option<Graph>> {
    for committed in model.committed_sets() {
        if let Some(objects) = all_layouts(model, &committed)?
            && let Some(found) = extend(model, &objects, 0, Graph::new(model, &committed))?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The layouts of every object; nothing if some object has none.
pub fn all_layouts(model: &Model<'_>, committed: &[TxnId]) -> Search<Option<Vec<Vec<Layout>>>> {
    if committed.len() > 32 {
        return Err(Stop::Why(Why::Outside("a history of more than 32 transactions".into())));
    }
    let history = model.history;
    // The search is one level deeper for each object: 100,000 initial rows once overflowed the
    // stack.
    if history.object_count() > MAX_OBJECTS {
        return Err(Stop::Why(Why::Outside(format!("a history of more than {MAX_OBJECTS} objects"))));
    }
    let hidden = |op: &Op<'_>| history.update(op.id).is_some_and(|update| !update.observed);
    if let Some(op) = committed.iter().flat_map(|&t| history.ops(t)).find(hidden) {
        return Err(hidden_update(history, op.id).into());
    }
    let mut all = Vec::new();
    for object in history.objects() {
        let found = layouts(model, committed, object)?;
        if found.is_empty() {
            return Ok(None);
        }
        all.push(found);
    }
    Ok(Some(all))
}

fn extend(model: &Model<'_>, objects: &[Vec<Layout>], next: usize, graph: Graph) -> Search<Option<Graph>> {
    let Some(layouts) = objects.get(next) else { return Ok(Some(graph)) };
    for layout in layouts {
        let mut graph = graph.clone();
        graph.add_order(layout.object, &layout.order);
        if let Some(found) = read(model, objects, next, layout, 0, graph)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Chooses what the reads of one object saw, and then goes on with the next object.
fn read(
    model: &Model<'_>,
    objects: &[Vec<Layout>],
    object: usize,
    layout: &Layout,
    next: usize,
    graph: Graph,
) -> Search<Option<Graph>> {
    model.step()?;
    if !graph.is_legal(model.question.level) {
        return Ok(None);
    }
    let Some(site) = layout.sites.get(next) else { return extend(model, objects, object + 1, graph) };
    for &option in &site.options {
        let mut graph = graph.clone();
        let version = layout.version(option);
        graph.add_seen(Seen {
            op: site.op,
            reader: site.reader,
            object: layout.object,
            version,
            item: site.item,
        });
        if let Some(found) = read(model, objects, object, layout, next + 1, graph)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
