//! Evidence out of a log, testimonies and a recording.
//!
//! # Algorithm
//! - *Version orders*: the writers of each object in the order of the log. A row's lock is released
//!   after its writer's commit is in the log, so the log has versions of one row in their order.
//! - *Snapshots and commits* (PostgreSQL): timestamps from the order in which commits became
//!   visible ([`crate::view`]). Whoever only read commits right after its snapshot: no other place
//!   could be told from that one. Among equal snapshots the earlier start comes first, so that real
//!   time is never contradicted by a choice of ours.
//! - *Version sets* (PostgreSQL): what a statement saw of each object that it returned is the last
//!   version among the commits that its snapshot sees. Rows that a scan left out are not named,
//!   although the snapshot fixes their versions too: engines take a version set literally, and a
//!   later version that does not match either would become a conflict, which it is neither for Adya
//!   nor for the database. Timestamps lead the engines to the right one among the versions that do
//!   not match.
//!
//! # Invariants
//! - Where log and recording do not agree ([`Gap`]), the object gets no version order and occurs in
//!   no version set: the certificate is incomplete then, and says where.
//! - Nothing of a transaction's own writes is in a version set.
//!
//! # Cost
//! Linear in the log and the recording, but for sorting.

use std::collections::HashMap;

use margay_client::Testimony;
use margay_history::{
    Evidence, History, ObjectId, OpKind, Outcome, TxnId, Version, VersionOrder, VersionSet,
};

use crate::log::Commit;
use crate::meet::{Gap, Met, meet, speaks_sql};
use crate::shadow::Shadowed;
use crate::view::{Fork, PgSnapshot, Visible};

/// What was recovered.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Recovered {
    /// The evidence.
    pub evidence: Evidence,
    /// Where it is incomplete, and why.
    pub gaps: Vec<Gap>,
    /// How many commits the log had.
    pub commits: usize,
    /// How many versions of version sets shadow transactions saw as well.
    pub confirmed: usize,
}

/// Puts together what was told.
#[must_use]
pub fn assemble(history: &History, log: &[Commit], told: &[Testimony]) -> Recovered {
    let mut met = meet(history, log, told);
    let gaps = std::mem::take(&mut met.gaps);
    let writers = Writers::new(history, &met, &gaps);
    let mut recovered = Recovered { evidence: writers.orders(), gaps, commits: log.len(), confirmed: 0 };
    let views = Views::new(history, told);
    if !views.ops.is_empty() || !views.whole.is_empty() {
        match Sighted::new(history, &met, &views, told) {
            Ok(sighted) => sighted.add(&writers, &met, told, &mut recovered),
            Err(Fork(one, other)) => recovered.gaps.push(Gap::Fork(one, other)),
        }
    }
    recovered
}

/// The committed writers of every object, by place in the log.
struct Writers {
    by_object: Vec<Vec<(usize, TxnId)>>,
    /// Objects of which not everything is known.
    doubtful: Vec<bool>,
}

impl Writers {
    fn new(history: &History, met: &Met, gaps: &[Gap]) -> Self {
        let mut by_object = vec![Vec::new(); history.object_count()];
        for (place, (txn, objects)) in met.txns.iter().zip(&met.objects).enumerate() {
            if let Some(txn) = *txn {
                objects.iter().for_each(|object| by_object[object.index()].push((place, txn)));
            }
        }
        let mut doubtful = vec![false; history.object_count()];
        let mut doubt = |object: ObjectId| doubtful[object.index()] = true;
        for gap in gaps {
            match gap {
                Gap::Unclaimed(_, object) | Gap::Differs(_, object) => doubt(*object),
                Gap::NotInLog(txn) => crate::meet::written(history, *txn).into_keys().for_each(&mut doubt),
                Gap::Fork(..) | Gap::Reborn(..) | Gap::Shadow(..) => {}
            }
        }
        // Who executes statements is not known to have written what; the order of its versions
        // would be one of statements.
        let statements =
            met.txns.iter().zip(&met.objects).filter(|(txn, _)| txn.is_some_and(|t| speaks_sql(history, t)));
        statements.flat_map(|(_, objects)| objects).for_each(|&object| doubt(object));
        Self { by_object, doubtful }
    }

    fn known(&self) -> impl Iterator<Item = (ObjectId, &[(usize, TxnId)])> {
        let all = self.by_object.iter().enumerate().map(|(i, writers)| (ObjectId::at(i), &writers[..]));
        all.filter(|(object, writers)| !writers.is_empty() && !self.doubtful[object.index()])
    }

    fn orders(&self) -> Evidence {
        let order = |(object, writers): (ObjectId, &[(usize, TxnId)])| {
            let versions = writers.iter().map(|&(_, txn)| Version::Of(txn));
            VersionOrder { object, versions: std::iter::once(Version::Initial).chain(versions).collect() }
        };
        Evidence { version_orders: self.known().map(order).collect(), ..Evidence::default() }
    }
}

/// What statements and transactions saw, as they said.
struct Views {
    /// By transaction and number of the operation.
    ops: Vec<(TxnId, u32, PgSnapshot)>,
    whole: Vec<(TxnId, PgSnapshot)>,
}

impl Views {
    fn new(history: &History, told: &[Testimony]) -> Self {
        let mut views = Views { ops: Vec::new(), whole: Vec::new() };
        for told in told {
            let Some(txn) = history.find_txn(told.txn) else { continue };
            let own = told.id.as_deref().and_then(|id| id.parse().ok());
            let view = |text: &str| PgSnapshot::parse(text).map(|view| view.without(own));
            views.whole.extend(told.view.as_deref().and_then(view).map(|view| (txn, view)));
            let parsed = told.views.iter().filter_map(|(op, text)| Some((txn, *op, view(text)?)));
            views.ops.extend(parsed);
        }
        views.ops.sort();
        views.whole.sort();
        views
    }
}

/// Room between two commits for the snapshots that see the same.
struct Sighted<'a> {
    history: &'a History,
    views: &'a Views,
    visible: Visible,
    /// The rank of each transaction that is in the log.
    ranks: HashMap<TxnId, u32>,
    /// Places of the log, to ranks.
    places: Vec<Option<u32>>,
}

impl<'a> Sighted<'a> {
    fn new(history: &'a History, met: &Met, views: &'a Views, told: &[Testimony]) -> Result<Self, Fork> {
        let numbers = told
            .iter()
            .filter_map(|told| Some((history.find_txn(told.txn)?, told.id.as_deref()?.parse::<u64>().ok()?)));
        let numbers: HashMap<TxnId, u64> = numbers.collect();
        let numbered = met.txns.iter().enumerate().filter_map(|(place, txn)| {
            let txn = (*txn)?;
            Some((place, txn, *numbers.get(&txn)?))
        });
        let numbered: Vec<(usize, TxnId, u64)> = numbered.collect();
        let log: Vec<u64> = numbered.iter().map(|entry| entry.2).collect();
        let all: Vec<&PgSnapshot> =
            views.ops.iter().map(|v| &v.2).chain(views.whole.iter().map(|v| &v.1)).collect();
        let visible = Visible::new(&log, &all)?;
        let mut places = vec![None; met.txns.len()];
        let mut ranks = HashMap::new();
        for (&(place, txn, _), &rank) in numbered.iter().zip(&visible.ranks) {
            places[place] = Some(rank);
            ranks.insert(txn, rank);
        }
        Ok(Self { history, views, visible, ranks, places })
    }

    fn add(&self, writers: &Writers, met: &Met, told: &[Testimony], recovered: &mut Recovered) {
        // Without a number for every commit, ranks do not tell which versions a snapshot sees.
        if self.places.iter().any(Option::is_none) {
            return;
        }
        recovered.evidence.version_sets = self.sets(writers);
        let sets = &mut recovered.evidence.version_sets;
        let mut shadowed = Shadowed { history: self.history, sets, confirmed: 0 };
        recovered.gaps.extend(shadowed.compare(told));
        recovered.confirmed = shadowed.confirmed;
        self.stamps(&mut recovered.evidence);
        let reborn = self.reborn(writers, met);
        let is_reborn = |txn: TxnId| reborn.iter().any(|gap| matches!(gap, Gap::Reborn(t, _) if *t == txn));
        recovered.evidence.snapshots.retain(|&(txn, _)| !is_reborn(txn));
        recovered.gaps.extend(reborn);
    }

    /// Insertions after deletions that their transactions do not see.
    fn reborn(&self, writers: &Writers, met: &Met) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for (txn, view) in &self.views.whole {
            let (Some(own), seen) = (self.ranks.get(txn), self.visible.rank(view)) else { continue };
            let Some(place) = met.txns.iter().position(|met| *met == Some(*txn)) else { continue };
            for &object in &met.inserted[place] {
                let others = writers.by_object[object.index()].iter().filter_map(|w| self.places[w.0]);
                if others.into_iter().any(|rank| rank > seen && rank < *own) {
                    gaps.push(Gap::Reborn(*txn, object));
                }
            }
        }
        gaps
    }

    /// Timestamps: commits far apart, and snapshots in the room between.
    fn stamps(&self, evidence: &mut Evidence) {
        let room = 2 * self.history.txn_count() as i64 + 2;
        let mut snapshots: Vec<(u32, Option<i64>, TxnId)> = self
            .views
            .whole
            .iter()
            .map(|(txn, view)| (self.visible.rank(view), self.history.start(*txn), *txn))
            .collect();
        snapshots.sort_unstable();
        for group in snapshots.chunk_by(|a, b| a.0 == b.0) {
            for (i, &(rank, _, txn)) in group.iter().enumerate() {
                let at = i64::from(rank) * room + 2 * i as i64;
                evidence.snapshots.push((txn, at));
                let committed = self.history.outcome(txn) == Outcome::Committed;
                if committed && !self.ranks.contains_key(&txn) {
                    evidence.commits.push((txn, at + 1));
                }
            }
        }
        evidence.commits.extend(self.ranks.iter().map(|(&txn, &rank)| (txn, i64::from(rank) * room)));
        evidence.snapshots.sort_unstable();
        evidence.commits.sort_unstable();
    }

    fn sets(&self, writers: &Writers) -> Vec<VersionSet> {
        let mut chains: HashMap<ObjectId, Vec<(u32, TxnId)>> = HashMap::new();
        for (object, writers) in writers.known() {
            let rank = |&(place, txn): &(usize, TxnId)| Some((self.places[place]?, txn));
            chains.insert(object, writers.iter().filter_map(rank).collect());
        }
        let seen = |(txn, number, view): &(TxnId, u32, PgSnapshot)| {
            let op = self.history.ops(*txn).nth(*number as usize)?;
            let rank = self.visible.rank(view);
            let looked = returned(&op).into_iter().filter(|o| chains.contains_key(o)).collect();
            let version = |object: ObjectId| (object, at(chains.get(&object).map_or(&[], |c| c), rank));
            let versions: Vec<_> = self.foreign(*txn, &op, looked).into_iter().map(version).collect();
            (!versions.is_empty()).then_some(VersionSet { op: op.id, versions })
        };
        let mut sets: Vec<VersionSet> = self.views.ops.iter().filter_map(seen).collect();
        sets.sort_by_key(|set| set.op);
        sets.dedup_by_key(|set| set.op);
        sets
    }

    /// Without what the transaction had written itself.
    fn foreign(&self, txn: TxnId, op: &margay_history::Op<'_>, mut objects: Vec<ObjectId>) -> Vec<ObjectId> {
        let before = self.history.ops(txn).take_while(|other| other.id < op.id).filter(|o| o.kind.writes());
        let own: Vec<ObjectId> = before.flat_map(|o| o.accesses.iter().map(|a| a.object)).collect();
        objects.retain(|object| !own.contains(object));
        objects
    }
}

fn returned(op: &margay_history::Op<'_>) -> Vec<ObjectId> {
    match op.kind {
        OpKind::Read | OpKind::Scan => op.accesses.iter().map(|a| a.object).collect(),
        _ => Vec::new(),
    }
}

/// The last version up to a rank.
fn at(chain: &[(u32, TxnId)], rank: u32) -> Version {
    let seen = chain.iter().filter(|writer| writer.0 <= rank).max();
    seen.map_or(Version::Initial, |&(_, txn)| Version::Of(txn))
}
