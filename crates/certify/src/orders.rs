//! The version order of every object, from evidence.
//!
//! # Algorithm
//! Commit timestamps that tell all writers apart sort them; otherwise what is recorded of pairs
//! must leave one order only, which shows when sources are taken away one after the other: there is
//! never a choice (Emme, section 4: a version certificate is complete).
//!
//! # Invariants
//! An order that is returned agrees with all evidence about versions. What contradicts itself is a
//! cycle of recorded ww edges, forbidden at every level.

use margay_history::{History, ObjectId, OpKind, TxnId, Version};
use margay_verdict::{Budget, Edge, Exhausted, Lemma, Reason};

use crate::touches::{Touch, Touches};

/// Why there are no version orders.
pub(crate) enum NoOrder {
    /// This object's versions are not ordered.
    Missing(ObjectId),
    /// The evidence contradicts itself.
    Contradiction(Lemma),
    /// A limit was reached.
    Exhausted(Exhausted),
}

/// The writers of every object, oldest first. Rank 0 is the initial version, rank `k` the `k`-th
/// writer's.
pub(crate) struct Orders {
    starts: Vec<u32>,
    writers: Vec<TxnId>,
    /// The same with their ranks, by transaction.
    ranks: Vec<(TxnId, u32)>,
}

impl Orders {
    pub fn new(
        history: &History,
        taken: &[bool],
        touches: &Touches,
        budget: &Budget,
    ) -> Result<Self, NoOrder> {
        let stamps = commit_stamps(history);
        let pairs = Pairs::new(history, taken);
        let mut missing = None;
        let mut orders = Self { starts: vec![0], writers: Vec::new(), ranks: Vec::new() };
        for object in history.objects() {
            budget.poll().map_err(NoOrder::Exhausted)?;
            let mut writers = writers(touches.of(object));
            if writers.len() > 1 {
                match sort(object, &mut writers, pairs.of(object), &stamps) {
                    // A contradiction elsewhere would tell more.
                    Err(NoOrder::Missing(object)) => _ = missing.get_or_insert(object),
                    sorted => sorted?,
                }
            }
            orders.push(&writers);
        }
        match missing {
            Some(object) => Err(NoOrder::Missing(object)),
            None => Ok(orders),
        }
    }

    fn push(&mut self, writers: &[TxnId]) {
        let first = self.ranks.len();
        self.writers.extend_from_slice(writers);
        self.ranks.extend(writers.iter().enumerate().map(|(i, &txn)| (txn, i as u32 + 1)));
        self.ranks[first..].sort_unstable();
        self.starts.push(self.writers.len() as u32);
    }

    fn range(&self, object: ObjectId) -> std::ops::Range<usize> {
        self.starts[object.index()] as usize..self.starts[object.index() + 1] as usize
    }

    /// The writers, oldest first.
    pub fn of(&self, object: ObjectId) -> &[TxnId] {
        &self.writers[self.range(object)]
    }

    /// The rank of a transaction's version.
    pub fn rank(&self, object: ObjectId, txn: TxnId) -> Option<u32> {
        let ranks = &self.ranks[self.range(object)];
        ranks.binary_search_by_key(&txn, |r| r.0).ok().map(|found| ranks[found].1)
    }

    /// The rank of a version; none if it is not one of a transaction that is taken to have
    /// committed.
    pub fn rank_of(&self, object: ObjectId, version: Version) -> Option<u32> {
        match version {
            Version::Initial => Some(0),
            Version::Of(txn) => self.rank(object, txn),
        }
    }

    /// Who wrote the version of this rank; nobody did the initial one.
    pub fn writer(&self, object: ObjectId, rank: u32) -> Option<TxnId> {
        rank.checked_sub(1).and_then(|place| self.of(object).get(place as usize).copied())
    }

    /// What is at this rank.
    pub fn version(&self, object: ObjectId, rank: u32) -> Version {
        self.writer(object, rank).map_or(Version::Initial, Version::Of)
    }

    /// The object of a place among all writers, and the writer there.
    pub fn at(&self, place: u32) -> (ObjectId, TxnId) {
        let object = self.starts.partition_point(|&start| start <= place) - 1;
        (ObjectId::at(object), self.writers[place as usize])
    }

    /// The first place of an object's writers.
    pub fn place(&self, object: ObjectId) -> u32 {
        self.starts[object.index()]
    }
}

/// The commit timestamps, by transaction.
pub(crate) fn commit_stamps(history: &History) -> Vec<Option<i64>> {
    let mut stamps = vec![None; history.txn_count()];
    history.evidence().commits.iter().for_each(|&(txn, ts)| stamps[txn.index()] = Some(ts));
    stamps
}

/// The transactions among touches that write, in the order of their numbers.
fn writers(touches: &[Touch]) -> Vec<TxnId> {
    let wrote = touches.iter().filter(|t| t.kind.writes());
    let mut writers: Vec<TxnId> = wrote.map(|t| t.txn).collect();
    writers.dedup();
    writers
}

/// What version orders say of neighbours, by object.
struct Pairs(Vec<(ObjectId, TxnId, TxnId)>);

impl Pairs {
    fn new(history: &History, taken: &[bool]) -> Self {
        let mut pairs = Vec::new();
        for order in &history.evidence().version_orders {
            let live = order.versions.iter().filter_map(|version| match version {
                Version::Of(txn) if taken[txn.index()] => Some(*txn),
                _ => None,
            });
            let live: Vec<TxnId> = live.collect();
            pairs.extend(live.windows(2).map(|pair| (order.object, pair[0], pair[1])));
        }
        pairs.sort_unstable();
        pairs.dedup();
        Self(pairs)
    }

    fn of(&self, object: ObjectId) -> &[(ObjectId, TxnId, TxnId)] {
        let start = self.0.partition_point(|p| p.0 < object);
        let end = self.0.partition_point(|p| p.0 <= object);
        &self.0[start..end]
    }
}

fn sort(
    object: ObjectId,
    writers: &mut [TxnId],
    pairs: &[(ObjectId, TxnId, TxnId)],
    stamps: &[Option<i64>],
) -> Result<(), NoOrder> {
    let stamp = |txn: TxnId| stamps[txn.index()];
    let mut stamped: Vec<(i64, TxnId)> = writers.iter().filter_map(|&t| Some((stamp(t)?, t))).collect();
    stamped.sort_unstable();
    let distinct = stamped.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let agrees = |&(_, a, b): &(ObjectId, TxnId, TxnId)| stamp(a) < stamp(b);
    if stamped.len() == writers.len() && distinct && pairs.iter().all(agrees) {
        writers.iter_mut().zip(&stamped).for_each(|(writer, &(_, txn))| *writer = txn);
        return Ok(());
    }
    let mut edges: Vec<(TxnId, TxnId)> = pairs.iter().map(|p| (p.1, p.2)).collect();
    let groups: Vec<&[(i64, TxnId)]> = stamped.chunk_by(|a, b| a.0 == b.0).collect();
    for pair in groups.windows(2) {
        edges.extend(pair[0].iter().flat_map(|a| pair[1].iter().map(move |b| (a.1, b.1))));
    }
    let order = only_order(object, writers, &edges)?;
    writers.copy_from_slice(&order);
    Ok(())
}

/// The only order of `writers` that follows all edges.
fn only_order(object: ObjectId, writers: &[TxnId], edges: &[(TxnId, TxnId)]) -> Result<Vec<TxnId>, NoOrder> {
    let local = |txn: TxnId| writers.binary_search(&txn).ok();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); writers.len()];
    let mut before = vec![0u32; writers.len()];
    for &(a, b) in edges {
        if let (Some(a), Some(b)) = (local(a), local(b)) {
            after[a].push(b);
            before[b] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..writers.len()).filter(|&w| before[w] == 0).collect();
    let (mut order, mut unique) = (Vec::with_capacity(writers.len()), true);
    while let Some(next) = ready.pop() {
        unique &= ready.is_empty();
        order.push(writers[next]);
        for &later in &after[next] {
            before[later] -= 1;
            if before[later] == 0 {
                ready.push(later);
            }
        }
    }
    match (order.len() == writers.len(), unique) {
        (true, true) => Ok(order),
        (true, false) => Err(NoOrder::Missing(object)),
        (false, _) => Err(contradiction(object, writers, &after)),
    }
}

fn contradiction(object: ObjectId, writers: &[TxnId], after: &[Vec<usize>]) -> NoOrder {
    let edges = |node: usize| after[node].iter().map(|&to| (to, ())).collect::<Vec<_>>();
    match margay_order::shortest_cycle(0..writers.len(), edges) {
        Some(cycle) => {
            let edge =
                |&(a, b, ())| Edge { from: writers[a], to: writers[b], reason: Reason::Write { object } };
            NoOrder::Contradiction(Lemma { edges: cycle.iter().map(edge).collect() })
        }
        None => NoOrder::Missing(object),
    }
}

/// Whether an operation of this kind is asked what it saw.
pub(crate) fn sees(kind: OpKind) -> bool {
    matches!(kind, OpKind::Read | OpKind::Scan | OpKind::Update)
}
