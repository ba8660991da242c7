//! Timestamps of the evidence in the known graph.
//!
//! # Algorithm
//! They are chains of ticks, one tick per distinct timestamp: who has a timestamp leads to its
//! tick, and whoever comes after it is led to by the last tick before. So the edges are as many as
//! the timestamps, not as their pairs.

use hashbrown::HashMap;
use margay_history::TxnId;
use margay_levels::definition::Family;
use margay_verdict::Stamp;

use super::{KnownGraph, RECORDED, STAMPS};

impl KnownGraph<'_> {
    /// What timestamps of the evidence say, through chains of ticks, one per distinct timestamp.
    pub(super) fn add_stamps(&mut self) {
        let (evidence, points) = (self.problem.history.evidence(), self.points);
        if !self.heeds_stamps() {
            return;
        }
        let dense = |&(id, ts): &(TxnId, i64)| {
            let txn = self.problem.txns.binary_search(&id).ok()?;
            Some((txn as u32, ts))
        };
        if !points.split {
            let stamps: Vec<_> = evidence.serializations.iter().filter_map(dense).collect();
            let at: Vec<_> = stamps.iter().map(|&(txn, ts)| (points.commit(txn), ts)).collect();
            return self.add_ticks(&at, &at, Stamp::Serialization, |enter, leave| enter < leave);
        }
        let commits: Vec<_> =
            evidence.commits.iter().filter_map(dense).map(|(txn, ts)| (points.commit(txn), ts)).collect();
        let begins: Vec<_> =
            evidence.snapshots.iter().filter_map(dense).map(|(txn, ts)| (points.begin(txn), ts)).collect();
        self.add_ticks(&commits, &commits, Stamp::Commit, |enter, leave| enter < leave);
        self.add_ticks(&commits, &begins, Stamp::Inside, |enter, leave| enter <= leave);
        self.add_ticks(&begins, &commits, Stamp::Outside, |enter, leave| enter < leave);
    }

    /// Whether timestamps of the evidence order transactions, not only versions.
    fn heeds_stamps(&self) -> bool {
        matches!(self.problem.question.level.family(), Family::Serial | Family::Snapshot)
    }

    /// From every point that enters to every point that leaves at a time that is `before`, through
    /// one chain.
    fn add_ticks(
        &mut self,
        enter: &[(u32, i64)],
        leave: &[(u32, i64)],
        stamp: Stamp,
        before: impl Fn(i64, i64) -> bool,
    ) {
        if enter.is_empty() || leave.is_empty() {
            return;
        }
        let label = RECORDED + STAMPS.iter().position(|&s| s == stamp).unwrap_or(0) as u32;
        let mut times: Vec<i64> = enter.iter().map(|&(_, ts)| ts).collect();
        times.sort_unstable();
        times.dedup();
        let first = self.add_helpers(times.len());
        for tick in 1..times.len() as u32 {
            self.edges.add(first + tick - 1, first + tick, label);
        }
        let mut own: HashMap<u32, i64> = HashMap::new();
        for &(point, ts) in enter {
            let tick = first + times.partition_point(|&time| time < ts) as u32;
            match self.forced(self.points.txn(point)) {
                true => self.edges.add(point, tick, label),
                false => self.optional_stamps.push((point, tick, label)),
            }
            own.insert(self.points.txn(point), ts);
        }
        for &(point, ts) in leave {
            // A transaction's own commit may well be at its own snapshot's time.
            let own = own.get(&self.points.txn(point)).filter(|_| stamp == Stamp::Inside);
            let limit = own.copied().filter(|&own| before(own, ts));
            let passed =
                times.partition_point(|&time| before(time, ts) && limit.is_none_or(|own| time < own));
            if passed > 0 {
                self.edges.add(first + passed as u32 - 1, point, label);
            }
            for &(other, time) in enter.iter().filter(|_| limit.is_some()) {
                let different = self.points.txn(other) != self.points.txn(point);
                if different && before(time, ts) && Some(time) >= limit {
                    match self.forced(self.points.txn(other)) {
                        true => self.edges.add(other, point, label),
                        false => self.optional_stamps.push((other, point, label)),
                    }
                }
            }
        }
    }
}
