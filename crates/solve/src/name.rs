//! What a violation is called.

use margay_history::History;
use margay_levels::{Anomaly, Level};
use margay_verdict::{Lemma, Reason};

/// The name of the shortest lemma: by its shape, or, where other levels than this one forbid that, by what this one does.
pub(crate) fn name(history: &History, level: Level, lemmas: &[Lemma]) -> Anomaly {
    let Some(shortest) = lemmas.iter().min_by_key(|lemma| lemma.edges.len()) else { return Anomaly::G2 };
    let shape = shortest.anomaly(history);
    match level {
        _ if level.forbids(shape) => shape,
        Level::Prefix => prefix(shortest),
        // What was seen of a row after an own write of it counts as an item, also where a predicate left the row out.
        Level::RepeatableRead => Anomaly::G2Item,
        Level::ParallelSnapshot => Anomaly::ParallelSnapshotCycleExists,
        Level::Causal => Anomaly::CausalCycleExists,
        Level::ReadAtomic => Anomaly::ReadAtomicCycleExists,
        Level::BeReadCommitted => Anomaly::BeReadCommittedCycleExists,
        _ => shape,
    }
}

fn prefix(lemma: &Lemma) -> Anomaly {
    let rw = lemma.edges.iter().filter(|edge| edge.reason.is_anti()).count();
    let ww = lemma.edges.iter().any(|edge| matches!(edge.reason, Reason::Write { .. }));
    match rw {
        1 if !ww => Anomaly::CausalityViolation,
        2 if !ww => Anomaly::LongFork,
        _ => Anomaly::PrefixCycleExists,
    }
}
