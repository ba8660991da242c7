//! What the points of a stuck schedule wait for.
//!
//! # Algorithm
//! A point that is not taken waits for one that is not taken either: by the known graph, by an
//! assumption, for a reader to begin or for a writer to commit. So waits lead around in cycles; the
//! shortest through a few points that wait for items are answered.

use hashbrown::HashMap;
use margay_order::shortest_cycle;
use margay_verdict::{Budget, Exhausted};

use super::{NONE, Schedule};
use crate::lemma::{CycleStep, Steps};

impl Schedule<'_> {
    /// Cycles of waits, when nothing is ready: at most `most`, short ones.
    pub fn cycles(&self, most: usize, budget: &Budget) -> Result<Vec<Steps>, Exhausted> {
        let mut blocked: Vec<u32> = self.waiting_items.values().flatten().copied().collect();
        blocked.sort_unstable_by_key(|&p| (self.priority[p as usize], p));
        blocked.dedup();
        let mut found: Vec<Steps> = Vec::new();
        for &start in blocked.iter().take(4 * most) {
            budget.poll()?;
            if found.len() >= most
                || found.iter().any(|cycle| cycle.iter().any(|&(from, _, _)| from == start))
            {
                continue;
            }
            if let Some(waits) = shortest_cycle([start], |point| self.waits(point)) {
                let mut cycle: Steps =
                    waits.into_iter().map(|(waiter, other, step)| (other, waiter, step)).collect();
                cycle.reverse();
                found.push(cycle);
            }
        }
        if found.is_empty() {
            found.extend(self.any_cycle());
        }
        Ok(found)
    }

    /// A cycle of waits from anywhere: every waiting point waits for another, so walking on must
    /// come back.
    fn any_cycle(&self) -> Option<Steps> {
        let mut point =
            (0..self.graph.node_count() as u32).find(|&p| !self.done[p as usize] && self.is_active(p))?;
        let mut walked: Steps = Vec::new();
        let mut visited: HashMap<u32, usize> = HashMap::new();
        loop {
            if let Some(&start) = visited.get(&point) {
                let mut cycle = walked.split_off(start);
                cycle.reverse();
                return Some(cycle);
            }
            visited.insert(point, walked.len());
            let &(other, step) = self.waits(point).first()?;
            walked.push((other, point, step));
            point = other;
        }
    }

    /// What a point waits for, and why.
    pub(super) fn waits(&self, point: u32) -> Vec<(u32, CycleStep)> {
        let open = |p: u32| !self.done[p as usize] && self.is_active(p);
        let mut waits: Vec<(u32, CycleStep)> = self
            .reversed
            .edges(point)
            .filter(|&(from, _)| open(from))
            .map(|(from, label)| (from, CycleStep::Known(label)))
            .collect();
        if let Some(edges) = self.extra.get(&point) {
            waits.extend(edges.iter().copied().filter(|&(from, _)| open(from)));
        }
        if !self.is_moment(point) {
            self.dynamic_waits(point, &mut waits);
        }
        waits
    }

    fn dynamic_waits(&self, point: u32, waits: &mut Vec<(u32, CycleStep)>) {
        let txn = self.points.txn(point);
        for &b in self.problem.txn_versions(txn) {
            let item = self.problem.versions[b as usize].item;
            let holder = self.holder[item.index()];
            if self.points.exclusive() && point == self.points.begin(txn) && holder != NONE && holder != txn {
                let held = self.problem.txn_versions(holder).iter().copied();
                let a = held.into_iter().find(|&v| self.problem.versions[v as usize].item == item);
                waits.extend(a.map(|a| (self.points.commit(holder), CycleStep::Before { a, b })));
            }
            if point == self.points.commit(txn) {
                let a = self.current[item.index()];
                let more = self.readers.get(&a).map_or(&[][..], Vec::as_slice).iter().copied();
                for read in self.known.firm_readers(a).chain(more) {
                    let reader = self.problem.reads[read as usize].txn;
                    let begin = self.points.begin(reader);
                    if reader != txn && !self.done[begin as usize] {
                        waits.push((begin, CycleStep::Anti { read, a, b }));
                    }
                }
            }
        }
    }
}
