//! The name of a cycle, and of a refutation by several.
//!
//! # Invariants
//! A name says what all branches of a proof share: of several cycles, the widest shape. A cycle
//! that needs session order or real time is named after that, also if only the order of versions,
//! or what makes a write visible, rests on it.

use margay_history::{History, OpKind};
use margay_levels::anomaly::{Cycle, Order, Rw};
use margay_levels::definition::Family;
use margay_levels::{Anomaly, Level};

use crate::certificate::{Lemma, Reason};

impl Lemma {
    /// Which anomaly the cycle is: by how many anti-dependencies it has and whether two of them
    /// meet, whether one is over a predicate, and which orders it uses [Adya1999, Elle].
    #[must_use]
    pub fn anomaly(&self, history: &History) -> Anomaly {
        Anomaly::of_cycle(self.shape(history))
    }

    /// Whether an edge of the cycle, or of what makes one of them visible, is of this kind.
    #[must_use]
    pub fn uses(&self, kind: fn(&Reason) -> bool) -> bool {
        self.edges.iter().any(|edge| match &edge.reason {
            Reason::Visible { path, .. } => kind(&edge.reason) || path.iter().any(|edge| kind(&edge.reason)),
            reason => kind(reason),
        })
    }

    fn shape(&self, history: &History) -> Cycle {
        let rws: Vec<bool> = self.edges.iter().map(|edge| edge.reason.is_anti()).collect();
        let meet = (0..rws.len()).any(|i| rws[i] && rws[(i + 1) % rws.len()]);
        Cycle {
            wr: self.uses(|reason| reason.is_read() || is_visible(reason)),
            rw: match self.antis() {
                0 => Rw::None,
                1 => Rw::One,
                _ if meet => Rw::Adjacent,
                _ => Rw::NonAdjacent,
            },
            predicate_rw: self.edges.iter().any(|edge| is_predicate_rw(history, &edge.reason)),
            order: if self.uses(|reason| *reason == Reason::RealTime) {
                Order::RealTime
            } else if self.uses(|reason| *reason == Reason::Session) {
                Order::Session
            } else {
                Order::Dependencies
            },
        }
    }

    fn antis(&self) -> usize {
        self.edges.iter().filter(|edge| edge.reason.is_anti()).count()
    }

    fn has(&self, kind: fn(&Reason) -> bool) -> bool {
        self.edges.iter().any(|edge| kind(&edge.reason))
    }
}

/// What a refutation is called at a level: by the shape that all its cycles share, or, where the
/// level forbids it for another reason than its shape, by the level.
///
/// Without a lemma there is nothing to name; the answer is the widest name then.
#[must_use]
pub fn name(history: &History, level: Level, lemmas: &[Lemma]) -> Anomaly {
    let shapes = lemmas.iter().map(|lemma| lemma.shape(history));
    let Some(shape) = shapes.reduce(wider) else { return Anomaly::G2 };
    let any = |kind: fn(&Reason) -> bool| lemmas.iter().any(|lemma| lemma.has(kind));
    let axiomatic =
        matches!(level, Level::BeReadCommitted | Level::ReadAtomic | Level::Causal) && any(is_axiom);
    let anomaly = Anomaly::of_cycle(shape);
    // Real time may be assumed beside a level: then its cycles count where the plain ones do.
    let plain = Anomaly::of_cycle(Cycle { order: Order::Dependencies, ..shape });
    let serial = matches!(level.family(), Family::Serial | Family::Snapshot);
    if serial && any(|reason| matches!(reason, Reason::Recorded(_))) {
        return some_cycle(level, shape.order);
    }
    if axiomatic {
        return by_axiom(level, shape, lemmas);
    }
    match level {
        _ if level.forbids(anomaly) => anomaly,
        Level::Prefix => by_prefix(shape, lemmas),
        _ if level.forbids(plain) && shape.order == Order::RealTime => anomaly,
        _ => some_cycle(level, shape.order),
    }
}

/// The shape that covers both.
fn wider(a: Cycle, b: Cycle) -> Cycle {
    Cycle {
        wr: a.wr || b.wr,
        rw: a.rw.max(b.rw),
        predicate_rw: a.predicate_rw || b.predicate_rw,
        order: a.order.max(b.order),
    }
}

/// A violation of an axiom of Biswas and Enea's. The names of one missed write say that it was
/// missed because of reads alone, but for the causal one, which session order is part of.
fn by_axiom(level: Level, shape: Cycle, lemmas: &[Lemma]) -> Anomaly {
    let once = |lemma: &Lemma| lemma.edges.iter().filter(|edge| is_axiom(&edge.reason)).count() <= 1;
    let reads_alone = shape.order == Order::Dependencies;
    match level {
        _ if shape.predicate_rw || !lemmas.iter().all(once) => some_cycle(level, shape.order),
        Level::BeReadCommitted if reads_alone => Anomaly::NonMonotonicRead,
        Level::ReadAtomic if reads_alone => Anomaly::FracturedRead,
        Level::Causal => Anomaly::CausalityViolation,
        _ => some_cycle(level, shape.order),
    }
}

/// What `prefix` forbids and no smaller name fits, or one of two names for missed writes.
fn by_prefix(shape: Cycle, lemmas: &[Lemma]) -> Anomaly {
    let missed = |count| {
        let is = |lemma: &Lemma| lemma.antis() == count && !lemma.has(|r| matches!(r, Reason::Write { .. }));
        !shape.predicate_rw && lemmas.iter().all(is)
    };
    match shape.order {
        Order::Dependencies | Order::Session if missed(1) => Anomaly::CausalityViolation,
        Order::Dependencies if missed(2) => Anomaly::LongFork,
        _ => Anomaly::PrefixCycleExists,
    }
}

/// Some cycle that rules the level out, or already the weaker one that has no more order than the
/// proof uses.
fn some_cycle(level: Level, order: Order) -> Anomaly {
    use Anomaly as A;
    match (level, order) {
        (Level::ReadUncommitted, _) => A::Pl1CycleExists,
        (Level::ReadCommitted, _) => A::Pl2CycleExists,
        (Level::BeReadCommitted, _) => A::BeReadCommittedCycleExists,
        (Level::ReadAtomic, _) => A::ReadAtomicCycleExists,
        (Level::Causal, _) => A::CausalCycleExists,
        // What was seen of a row after an own write of it counts as an item, also where a predicate
        // left the row out.
        (Level::RepeatableRead, _) => A::G2Item,
        (Level::Prefix, _) => A::PrefixCycleExists,
        (Level::ParallelSnapshot, _) => A::ParallelSnapshotCycleExists,
        (_, Order::Dependencies) if level.family() == Family::Snapshot => A::PlSiCycleExists,
        (_, Order::Session) if level.family() == Family::Snapshot => A::StrongSessionSiCycleExists,
        (_, Order::RealTime) if level.family() == Family::Snapshot => A::StrongSiCycleExists,
        (_, Order::Dependencies) => A::Pl3CycleExists,
        (_, Order::Session) => A::StrongSessionSerializableCycleExists,
        (_, Order::RealTime) => A::PlSsCycleExists,
    }
}

fn is_visible(reason: &Reason) -> bool {
    matches!(reason, Reason::Visible { .. })
}

/// A write that was missed although an axiom makes it visible.
fn is_axiom(reason: &Reason) -> bool {
    reason.is_anti() || is_visible(reason)
}

/// An anti-dependency from an object that a scan did not return, or that a statement only summed
/// up.
fn is_predicate_rw(history: &History, reason: &Reason) -> bool {
    match reason {
        Reason::AntiRead { op, object, .. } | Reason::AntiReadColumn { op, object, .. } => {
            let op = history.op(*op);
            matches!(op.kind, OpKind::Scan | OpKind::Update | OpKind::Sql)
                && op.accesses.iter().all(|a| a.object != *object)
        }
        _ => false,
    }
}
