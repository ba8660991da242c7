//! The dependency graph of a level.
//!
//! # Algorithm
//! Neighbours in a version order are joined by ww edges; a sight by a wr edge from the writer of
//! its lowest rank and an rw edge to the writer behind its highest (all others are paths). Where a
//! level is about points, a transaction is two nodes, and start dependencies come from timestamps
//! and the clock.
//!
//! | level | edges | nodes |
//! |---|---|---|
//! | `read-uncommitted` | ww | transactions |
//! | `read-committed` | ww, wr | transactions |
//! | `repeatable-read` | ww, wr, rw over items | transactions |
//! | `parallel-snapshot`, serializable levels | ww, wr, rw | transactions |
//! | snapshot levels, `prefix` | ww, wr, rw | points |
//!
//! # Cost
//! Linear in versions and sights.

use margay_history::TxnId;
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_order::{Graph, GraphBuilder};
use margay_verdict::Question;

use crate::sights::ObjectSight;
use crate::stamps::Moments;
use crate::world::World;

/// Which anti-dependencies count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anti {
    None,
    Items,
    All,
}

/// How a level makes a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether begin and commit are two nodes.
    pub split: bool,
    /// Whether writers of one object may overlap.
    pub overlap: bool,
    pub reads: bool,
    pub anti: Anti,
    pub family: Family,
}

/// The rules of a level; none for those that are not decided by such a graph.
pub(crate) fn rules(level: Level) -> Option<Rules> {
    let family = level.family();
    let rules = |split, anti| Rules { split, overlap: level == Level::Prefix, reads: true, anti, family };
    Some(match (family, level) {
        (_, Level::ReadUncommitted) => Rules { reads: false, ..rules(false, Anti::None) },
        (_, Level::ReadCommitted) => rules(false, Anti::None),
        (_, Level::RepeatableRead) => rules(false, Anti::Items),
        (_, Level::ParallelSnapshot) | (Family::Serial, _) => rules(false, Anti::All),
        (_, Level::Prefix) | (Family::Snapshot, _) => rules(true, Anti::All),
        _ => return None,
    })
}

impl Rules {
    pub fn begin(self, txn: TxnId) -> u32 {
        if self.split { 2 * txn.0 } else { txn.0 }
    }

    pub fn commit(self, txn: TxnId) -> u32 {
        if self.split { 2 * txn.0 + 1 } else { txn.0 }
    }

    pub fn txn(self, point: u32) -> TxnId {
        TxnId(if self.split { point / 2 } else { point })
    }

    /// Whether a point is a begin; transactions that are one node have none.
    pub fn is_begin(self, point: u32) -> bool {
        self.split && point.is_multiple_of(2)
    }

    fn counts(self, sight: &ObjectSight) -> bool {
        match self.anti {
            Anti::None => false,
            Anti::Items => sight.item,
            Anti::All => true,
        }
    }

    /// Whether holes in the range of a sight can matter.
    pub fn asks(self, sight: &ObjectSight) -> bool {
        !sight.whole && self.counts(sight)
    }
}

/// Why an edge is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Label {
    /// A transaction begins before it commits.
    Inside,
    Session,
    Time,
    Stamp,
    /// From the writer at this place to the next.
    Write(u32),
    /// By the sight of this index.
    Read(u32),
    /// By the sight of this index.
    Anti(u32),
}

const BITS: u32 = 29;

impl Label {
    fn pack(self) -> u32 {
        match self {
            Label::Inside => 0,
            Label::Session => 1 << BITS,
            Label::Time => 2 << BITS,
            Label::Stamp => 3 << BITS,
            Label::Write(place) => 4 << BITS | place,
            Label::Read(sight) => 5 << BITS | sight,
            Label::Anti(sight) => 6 << BITS | sight,
        }
    }

    pub fn unpack(packed: u32) -> Label {
        let data = packed & ((1 << BITS) - 1);
        match packed >> BITS {
            0 => Label::Inside,
            1 => Label::Session,
            2 => Label::Time,
            3 => Label::Stamp,
            4 => Label::Write(data),
            5 => Label::Read(data),
            _ => Label::Anti(data),
        }
    }
}

/// The graph, and how many of its nodes are points of transactions.
pub(crate) struct Deps {
    pub rules: Rules,
    pub graph: Graph,
    pub points: u32,
}

/// The graph of a level over these sights, with the anti-dependencies or without.
pub(crate) fn deps(world: &World<'_>, question: Question, rules: Rules, sights: &[ObjectSight]) -> Deps {
    let history = world.history;
    let points = history.txn_count() as u32 * if rules.split { 2 } else { 1 };
    let mut graph = GraphBuilder::new();
    if rules.split {
        history.txns().for_each(|t| graph.add(rules.begin(t), rules.commit(t), Label::Inside.pack()));
    }
    writes(world, rules, &mut graph);
    if rules.reads {
        reads(world, rules, sights, &mut graph);
    }
    if question.uses_session_order() {
        sessions(world, rules, &mut graph);
    }
    let mut moments = Moments { graph: &mut graph, nodes: points, label: Label::Time.pack() };
    if question.uses_real_time() {
        moments.clock(history, world.taken, |t| rules.commit(t), |t| rules.begin(t));
    }
    moments.label = Label::Stamp.pack();
    stamps(world, rules, &mut moments);
    let nodes = moments.nodes as usize;
    Deps { rules, graph: graph.build(nodes), points }
}

fn writes(world: &World<'_>, rules: Rules, graph: &mut GraphBuilder) {
    for object in world.history.objects() {
        let first = world.orders.place(object);
        for (i, pair) in world.orders.of(object).windows(2).enumerate() {
            let to = if rules.overlap { rules.commit(pair[1]) } else { rules.begin(pair[1]) };
            graph.add(rules.commit(pair[0]), to, Label::Write(first + i as u32).pack());
        }
    }
}

fn reads(world: &World<'_>, rules: Rules, sights: &[ObjectSight], graph: &mut GraphBuilder) {
    for (i, sight) in sights.iter().enumerate() {
        if let Some(from) = world.orders.writer(sight.object, sight.lo) {
            graph.add(rules.commit(from), rules.begin(sight.txn), Label::Read(i as u32).pack());
        }
        if rules.counts(sight)
            && let Some(to) = world.orders.writer(sight.object, sight.hi + 1)
            && to != sight.txn
        {
            graph.add(rules.begin(sight.txn), rules.commit(to), Label::Anti(i as u32).pack());
        }
    }
}

fn sessions(world: &World<'_>, rules: Rules, graph: &mut GraphBuilder) {
    for session in world.history.sessions() {
        let mut last = None;
        for txn in world.history.session_txns(session).filter(|t| world.taken[t.index()]) {
            if let Some(before) = last.replace(txn) {
                graph.add(rules.commit(before), rules.begin(txn), Label::Session.pack());
            }
        }
    }
}

fn stamps(world: &World<'_>, rules: Rules, moments: &mut Moments<'_>) {
    let evidence = world.history.evidence();
    let live = |t: &TxnId| world.taken[t.index()];
    match rules.family {
        Family::Serial if !evidence.serializations.is_empty() => {
            let stamped = evidence.serializations.iter().filter(|(t, _)| live(t));
            moments.total(stamped.map(|&(t, ts)| (ts, rules.commit(t))).collect());
        }
        Family::Snapshot if !(evidence.commits.is_empty() && evidence.snapshots.is_empty()) => {
            let mut stamped = vec![(None, None); world.history.txn_count()];
            evidence.snapshots.iter().filter(|s| live(&s.0)).for_each(|s| stamped[s.0.index()].0 = Some(s.1));
            evidence.commits.iter().filter(|s| live(&s.0)).for_each(|s| stamped[s.0.index()].1 = Some(s.1));
            let (begin, commit) = (|t| rules.begin(TxnId::at(t)), |t| rules.commit(TxnId::at(t)));
            moments.snapshots(&stamped, begin, commit);
        }
        _ => {}
    }
}
