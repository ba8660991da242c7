//! The shortest cycle of dependencies that a level forbids, with the reason of every edge.
//!
//! # Algorithm
//! Breadth-first search, from every place, for the shortest way back to it. A place is a
//! transaction; at parallel-snapshot also whether an rw edge was used; at the snapshot levels and
//! prefix a begin or commit point, where a transaction's begin leads to its commit for nothing.

use std::collections::VecDeque;

use hashbrown::HashMap;
use margay_history::{TxnId, Version};
use margay_levels::Level;
use margay_verdict::{Edge, Reason, Stamp};

use crate::graph::{Graph, Seen};
use crate::model::Model;

/// An edge and whether it is an anti-dependency over a predicate only.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CycleStep {
    /// The edge.
    pub edge: Edge,
    /// Whether it is an rw edge over a predicate only.
    pub predicate: bool,
}

/// Where a search stands: a transaction, and a phase whose meaning depends on the level.
pub type Place = (TxnId, u8);

const BEGIN: u8 = 0;
const COMMIT: u8 = 1;

/// The shortest cycle that the level forbids; among equally short ones one with few
/// anti-dependencies.
pub fn shortest(model: &Model<'_>, graph: &Graph) -> Option<Vec<CycleStep>> {
    let level = model.question.level;
    if let Some(cycle) = initial_cycle(model, graph) {
        return Some(cycle);
    }
    let steps = steps(model, graph);
    let phases: &[u8] = if is_pointed(level) { &[BEGIN, COMMIT] } else { &[0] };
    let starts = graph.txns.iter().flat_map(|&txn| phases.iter().map(move |&phase| (txn, phase)));
    let rws = |cycle: &Vec<CycleStep>| cycle.iter().filter(|s| is_rw(&s.edge)).count();
    starts.filter_map(|start| back(level, &steps, start)).min_by_key(|cycle| (cycle.len(), rws(cycle)))
}

fn is_pointed(level: Level) -> bool {
    level == Level::Prefix || level.family() == margay_levels::definition::Family::Snapshot
}

fn is_rw(edge: &Edge) -> bool {
    matches!(edge.reason, Reason::AntiRead { .. })
}

/// The shortest way from a place back to it.
pub fn back(level: Level, steps: &[CycleStep], start: Place) -> Option<Vec<CycleStep>> {
    let mut came: HashMap<Place, (Place, Option<usize>)> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(place) = queue.pop_front() {
        if is_pointed(level) && place.1 == BEGIN {
            let commit = (place.0, COMMIT);
            if commit == start {
                return Some(walk(steps, &came, start, place));
            }
            if !came.contains_key(&commit) {
                came.insert(commit, (place, None));
                queue.push_front(commit);
            }
        }
        for (i, step) in steps.iter().enumerate().filter(|(_, step)| step.edge.from == place.0) {
            let Some(phase) = next(level, place.1, &step.edge) else { continue };
            let to = (step.edge.to, phase);
            if to.0 == start.0 && (to == start || !is_pointed(level)) {
                let mut cycle = walk(steps, &came, start, place);
                cycle.push(step.clone());
                return Some(cycle);
            }
            if !came.contains_key(&to) {
                came.insert(to, (place, Some(i)));
                queue.push_back(to);
            }
        }
    }
    None
}

/// The phase after an edge; nothing if the level does not count the edge there.
fn next(level: Level, phase: u8, edge: &Edge) -> Option<u8> {
    let rw = is_rw(edge);
    if is_pointed(level) {
        let overlaps = level == Level::Prefix && matches!(edge.reason, Reason::Write { .. });
        return match (rw, phase) {
            (true, BEGIN) => Some(COMMIT),
            (_, BEGIN) if edge.reason == Reason::Recorded(Stamp::Outside) => Some(COMMIT),
            (_, COMMIT) if edge.reason == Reason::Recorded(Stamp::Outside) => None,
            (_, COMMIT) if edge.reason == Reason::Recorded(Stamp::Commit) => Some(COMMIT),
            (false, COMMIT) if overlaps => Some(COMMIT),
            (false, COMMIT) => Some(BEGIN),
            _ => None,
        };
    }
    match level {
        Level::ParallelSnapshot if rw => (phase == 0).then_some(1),
        _ => Some(phase),
    }
}

fn walk(
    steps: &[CycleStep],
    came: &HashMap<Place, (Place, Option<usize>)>,
    start: Place,
    end: Place,
) -> Vec<CycleStep> {
    let (mut place, mut path) = (end, Vec::new());
    while place != start {
        let (before, step) = came[&place];
        path.extend(step.map(|i| steps[i].clone()));
        place = before;
    }
    path.reverse();
    path
}

/// Every edge that the level counts.
fn steps(model: &Model<'_>, graph: &Graph) -> Vec<CycleStep> {
    let level = model.question.level;
    let mut all = Vec::new();
    let mut add =
        |from, to, reason, predicate| all.push(CycleStep { edge: Edge { from, to, reason }, predicate });
    for &a in &graph.txns {
        for &b in graph.txns.iter().filter(|&&b| model.precedes(a, b)) {
            let session = model.history.session_of(a) == model.history.session_of(b) && a < b;
            add(a, b, if session { Reason::Session } else { Reason::RealTime }, false);
        }
    }
    for (object, order) in &graph.orders {
        for (i, &a) in order.iter().enumerate() {
            order[i + 1..].iter().for_each(|&b| add(a, b, Reason::Write { object: *object }, false));
        }
    }
    if level == Level::ReadUncommitted {
        return all;
    }
    for (stamp, a, b) in recorded(model, &graph.txns) {
        add(a, b, Reason::Recorded(stamp), false);
    }
    for seen in &graph.seen {
        let (op, object, version) = (seen.op, seen.object, seen.version);
        if let Version::Of(writer) = version {
            add(writer, seen.reader, Reason::Read { op, object }, false);
        }
        let counts = match level {
            Level::ReadCommitted | Level::BeReadCommitted | Level::ReadAtomic | Level::Causal => false,
            Level::RepeatableRead => seen.item,
            _ => true,
        };
        if counts {
            for later in graph.later(object, version).into_iter().filter(|&later| later != seen.reader) {
                add(seen.reader, later, Reason::AntiRead { op, object, version }, !seen.item);
            }
        }
    }
    all.extend(visible(model, graph));
    all
}

/// What timestamps say of the order of transactions, at the levels that heed them.
pub fn recorded(model: &Model<'_>, txns: &[TxnId]) -> Vec<(Stamp, TxnId, TxnId)> {
    let evidence = model.history.evidence();
    let less = |a: Option<i64>, b: Option<i64>| matches!((a, b), (Some(a), Some(b)) if a < b);
    let mut all = Vec::new();
    for (&a, &b) in txns.iter().flat_map(|a| txns.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
        if model.is_serial() && less(evidence.serialization(a), evidence.serialization(b)) {
            all.push((Stamp::Serialization, a, b));
        }
        if !model.is_snapshot() {
            continue;
        }
        if less(evidence.commit(a), evidence.commit(b)) {
            all.push((Stamp::Commit, a, b));
        }
        if let (Some(commit), Some(snapshot)) = (evidence.commit(a), evidence.snapshot(b)) {
            all.push(if commit <= snapshot { (Stamp::Inside, a, b) } else { (Stamp::Outside, b, a) });
        }
    }
    all
}

/// What Biswas and Enea's axioms add: the writers that are visible to a read come before the one
/// that it saw.
fn visible(model: &Model<'_>, graph: &Graph) -> Vec<CycleStep> {
    let mut all = Vec::new();
    for (seen, other, path) in visible_writers(model, graph) {
        if let Version::Of(writer) = seen.version {
            let reason = Reason::Visible { op: seen.op, object: seen.object, path };
            all.push(CycleStep { edge: Edge { from: other, to: writer, reason }, predicate: false });
        }
    }
    all
}

/// A read of the initial version although a writer is visible: nothing comes before the initial
/// version, so this is a cycle by itself, of what makes the writer visible and the anti-dependency
/// on it.
fn initial_cycle(model: &Model<'_>, graph: &Graph) -> Option<Vec<CycleStep>> {
    let initial = visible_writers(model, graph).into_iter().filter(|v| v.0.version == Version::Initial);
    let (seen, other, mut path) = initial.min_by_key(|v| v.2.len())?;
    let reason = Reason::AntiRead { op: seen.op, object: seen.object, version: Version::Initial };
    path.push(Edge { from: seen.reader, to: other, reason });
    Some(path.into_iter().map(|edge| CycleStep { edge, predicate: false }).collect())
}

/// For every read the writers of its object that the level's axiom makes visible to it, and how.
fn visible_writers(model: &Model<'_>, graph: &Graph) -> Vec<(Seen, TxnId, Vec<Edge>)> {
    let mut all = Vec::new();
    if !is_axiomatic(model.question.level) {
        return all;
    }
    for seen in &graph.seen {
        for &other in graph.writers(seen.object) {
            if other != seen.reader
                && Version::Of(other) != seen.version
                && let Some(path) = path(model, graph, other, seen)
            {
                all.push((*seen, other, path));
            }
        }
    }
    all
}

fn is_axiomatic(level: Level) -> bool {
    matches!(level, Level::BeReadCommitted | Level::ReadAtomic | Level::Causal)
}

/// How `from` is visible to a read, as the level's axiom has it.
fn path(model: &Model<'_>, graph: &Graph, from: TxnId, seen: &Seen) -> Option<Vec<Edge>> {
    let level = model.question.level;
    let history = model.history;
    let session = |a: TxnId, b: TxnId| {
        (a < b && history.session_of(a) == history.session_of(b)).then_some(Reason::Session)
    };
    let read = |a: TxnId, b: TxnId| {
        let reads = graph.seen.iter().filter(|s| s.reader == b && s.version == Version::Of(a));
        let mut early = reads.filter(|s| level != Level::BeReadCommitted || s.op < seen.op);
        early.next().map(|s| Reason::Read { op: s.op, object: s.object })
    };
    let step = |a: TxnId, b: TxnId| match level {
        Level::BeReadCommitted => read(a, b),
        _ => session(a, b).or_else(|| read(a, b)),
    };
    if level != Level::Causal {
        return step(from, seen.reader).map(|reason| vec![Edge { from, to: seen.reader, reason }]);
    }
    let mut came: HashMap<TxnId, Edge> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &to in graph.txns.iter().filter(|&&to| to != at) {
            if !came.contains_key(&to)
                && let Some(reason) = step(at, to)
            {
                came.insert(to, Edge { from: at, to, reason });
                queue.push_back(to);
            }
        }
    }
    let mut path = vec![came.get(&seen.reader)?.clone()];
    while path[path.len() - 1].from != from {
        path.push(came[&path[path.len() - 1].from].clone());
    }
    path.reverse();
    Some(path)
}
