//! Timestamps of the evidence, and the clock, as edges of a graph.
//!
//! # Algorithm
//! Pairs would be quadratic in number; nodes for the moments between timestamps make them paths
//! (Emme, section 4.4, has the same need for start dependencies). A path from one transaction to
//! the next through such nodes is one recorded edge.

use margay_history::{History, TxnId};
use margay_order::GraphBuilder;

/// Collects edges, and makes nodes for moments.
pub(crate) struct Moments<'g> {
    pub graph: &'g mut GraphBuilder,
    pub nodes: u32,
    /// The label of all edges that are made.
    pub label: u32,
}

impl Moments<'_> {
    fn node(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes - 1
    }

    fn edge(&mut self, from: u32, to: u32) {
        self.graph.add(from, to, self.label);
    }

    /// Every point with a lower timestamp comes before every one with a higher.
    pub fn total(&mut self, mut points: Vec<(i64, u32)>) {
        points.sort_unstable();
        let mut gap = self.node();
        for group in points.chunk_by(|a, b| a.0 == b.0) {
            let next = self.node();
            for &(_, point) in group {
                self.edge(gap, point);
                self.edge(point, next);
            }
            gap = next;
        }
    }

    /// What had ended comes before what began later.
    pub fn clock(
        &mut self,
        history: &History,
        taken: &[bool],
        out: impl Fn(TxnId) -> u32,
        into: impl Fn(TxnId) -> u32,
    ) {
        let live = || history.txns().filter(|t| taken[t.index()]);
        let mut ends: Vec<(i64, TxnId)> = live().filter_map(|t| Some((history.end(t)?, t))).collect();
        ends.sort_unstable();
        let first = self.nodes;
        for (i, &(_, txn)) in ends.iter().enumerate() {
            let node = self.node();
            self.edge(out(txn), node);
            if i > 0 {
                self.edge(node - 1, node);
            }
        }
        let skew = history.header().skew;
        for txn in live() {
            let Some(start) = history.start(txn) else { continue };
            let ended = ends.partition_point(|(end, _)| end.saturating_add(skew) < start) as u32;
            if ended > 0 {
                self.edge(first + ended - 1, into(txn));
            }
        }
    }

    /// Commit timestamps order the commits, and a snapshot timestamp says which of them come before
    /// the begin.
    ///
    /// Between two commit timestamps lie two nodes: begins come after the first and before the
    /// second.
    pub fn snapshots(
        &mut self,
        stamped: &[(Option<i64>, Option<i64>)],
        begin: impl Fn(usize) -> u32,
        commit: impl Fn(usize) -> u32,
    ) {
        let mut times: Vec<i64> = stamped.iter().filter_map(|s| s.1).collect();
        times.sort_unstable();
        times.dedup();
        let first = self.nodes;
        let (opens, closes) = (|gap: usize| first + 3 * gap as u32, |gap: usize| first + 3 * gap as u32 + 1);
        self.nodes += 3 * (times.len() as u32 + 1);
        (0..=times.len()).for_each(|gap| self.edge(opens(gap), closes(gap)));
        let mut late: Vec<(usize, usize)> = Vec::new();
        for (txn, &(snapshot, ts)) in stamped.iter().enumerate() {
            let gap = snapshot.map(|s| times.partition_point(|&time| time <= s));
            let at = ts.map(|ts| times.partition_point(|&time| time < ts));
            if let Some(at) = at {
                self.edge(closes(at), commit(txn));
                self.edge(commit(txn), opens(at + 1));
            }
            match (gap, at) {
                // Its own commit does not count for its own snapshot.
                (Some(gap), Some(at)) if gap == at + 1 => late.push((at, txn)),
                (Some(gap), _) => {
                    self.edge(opens(gap), begin(txn));
                    self.edge(begin(txn), closes(gap));
                }
                (None, _) => {}
            }
        }
        self.late(stamped, late, &times, |gap| first + 3 * gap as u32 + 2, begin, commit);
    }

    /// Transactions whose snapshot is at their own commit's time: they begin after all others of
    /// that time.
    fn late(
        &mut self,
        stamped: &[(Option<i64>, Option<i64>)],
        mut late: Vec<(usize, usize)>,
        times: &[i64],
        before: impl Fn(usize) -> u32,
        begin: impl Fn(usize) -> u32,
        commit: impl Fn(usize) -> u32,
    ) {
        if late.is_empty() {
            return;
        }
        late.sort_unstable();
        for group in late.chunk_by(|a, b| a.0 == b.0) {
            let last = before(group[0].0);
            // After all earlier commits too: the gap's first node is two before.
            self.edge(last - 2, last);
            group.iter().for_each(|&(_, txn)| self.edge(last, begin(txn)));
            if let [(_, one), (_, two), ..] = *group {
                self.edge(commit(one), begin(two));
                self.edge(commit(two), begin(one));
            }
        }
        for (txn, ts) in stamped.iter().enumerate().filter_map(|(txn, s)| Some((txn, s.1?))) {
            let at = times.partition_point(|&time| time < ts);
            if late.binary_search(&(at, txn)).is_err() {
                self.edge(commit(txn), before(at));
            }
        }
    }
}
