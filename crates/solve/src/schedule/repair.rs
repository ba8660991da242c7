//! Repairs of a schedule that is stuck, one order of two versions at a time.
//!
//! # Problem
//! Without time, nothing tells which of two writers of an item comes first until somebody waits for
//! what the wrong one has overwritten, or for whoever has still to read it. Nearly everything else
//! of the schedule is right.
//!
//! # Algorithm
//! Points that wait for one another in a cycle ([`super::waits`]) will never be taken, so now and
//! then they are looked for. Each wait that is not of the known graph rests on one order of two
//! versions. One of these is turned around: the earlier of the two is taken back, with what depends
//! on it, and waits for the other. If the cycle rests on one order only, no order of all points has
//! it, and it stays turned; of several, the one is taken that was turned least often, and that was
//! taken last.
//!
//! What depends on a transaction that is taken back: what follows in the known graph, by an order
//! that was turned, and who overwrote what it read.
//!
//! # Invariants
//! Orders of versions are only waits: a schedule that completes is right whatever they are. Without
//! those that are taken back, the schedule is one that taking points could have led to.
//!
//! # Differs from the search
//! The search ([`mod@crate::search`]) learns a clause from each cycle and asks a solver; that is
//! complete, and slow where thousands of orders are open. This ends without an answer when it takes
//! [`PATIENCE`] times the points that stay, which means that the guess is wrong too often.
//!
//! # Cost
//! What is taken again, and looking for cycles, which costs no more than taking.

use hashbrown::{HashMap, HashSet};
use margay_order::shortest_cycle;
use margay_verdict::{Budget, Exhausted};

use super::ahead::Ahead;
use super::{NONE, Schedule};
use crate::lemma::{CycleStep, Steps};
use crate::problem::INITIAL;

/// How many points are taken or looked at, at most, for each that stays taken.
const PATIENCE: usize = 8;

/// How many at first, for each that there is.
const FIRST_PATIENCE: usize = 1;

/// How often one order of two versions is turned around.
const MAX_TURNS: u32 = 64;

/// After how many points cycles of waits are looked for.
const PERIOD: usize = 256;

/// What was learned.
#[derive(Default)]
struct Lessons {
    /// Orders of versions that nothing allows the other way.
    forced: HashSet<(u32, u32)>,
    turns: HashMap<(u32, u32), u32>,
    /// Who waits for a point, by orders of this round or that were turned.
    waiting: HashMap<u32, Vec<u32>>,
}

impl Schedule<'_> {
    /// Takes points until all are taken, and repairs what is stuck; answers whether all are taken.
    /// `order` is one of the known graph.
    pub fn run_repaired(&mut self, order: &[u32], budget: &Budget) -> Result<bool, Exhausted> {
        if !self.problem.history.is_timed() {
            self.ahead = Ahead::new(self.known, order);
            self.restart(self.choices.clone());
        }
        let mut lessons = Lessons::default();
        for (&to, edges) in &self.extra {
            edges.iter().for_each(|&(from, _)| lessons.waiting.entry(from).or_default().push(to));
        }
        let (mut spent, mut period) = (0, PERIOD);
        loop {
            let before = self.left;
            let stuck = self.run_for(period, budget)?;
            if self.left == 0 {
                self.log.retain(|&point| point != NONE);
                return Ok(true);
            }
            let taken = before - self.left;
            let (cycle, looked_at) = self.waiting_cycle();
            match cycle {
                Some(cycle) if self.repair(&cycle, &mut lessons) => {}
                None if !stuck => {}
                _ => return Ok(false),
            }
            // Looking must not cost more than taking.
            period = PERIOD.max(looked_at);
            spent += taken + looked_at;
            let nodes = self.graph.node_count();
            if spent > FIRST_PATIENCE * nodes + PATIENCE * nodes.saturating_sub(self.left) {
                return Ok(false);
            }
        }
    }

    /// Turns one order of two versions around that a cycle of waits rests on; answers whether there
    /// is one.
    fn repair(&mut self, cycle: &Steps, lessons: &mut Lessons) -> bool {
        let open: Vec<(u32, u32)> = cycle.iter().filter_map(|step| self.assumed(step.2, lessons)).collect();
        let turns = |&(a, b): &(u32, u32)| lessons.turns.get(&(b, a)).copied().unwrap_or(0);
        let back = |&(a, _): &(u32, u32)| {
            let point = self.points.after_earlier(self.problem.versions[a as usize].txn) as usize;
            if self.done[point] { self.log.len() as u32 - self.place[point] } else { 0 }
        };
        let Some(&(a, b)) = open.iter().min_by_key(|&pair| (turns(pair), back(pair))) else { return false };
        if turns(&(a, b)) == MAX_TURNS {
            return false;
        }
        *lessons.turns.entry((b, a)).or_default() += 1;
        if open.len() == 1 {
            lessons.forced.insert((b, a));
        }
        self.turn(a, b, lessons);
        true
    }

    /// The order of two versions that a wait rests on, if it may be turned around.
    fn assumed(&self, step: CycleStep, lessons: &Lessons) -> Option<(u32, u32)> {
        let (CycleStep::Before { a, b } | CycleStep::Anti { a, b, .. }) = step else { return None };
        let initial = self.problem.versions[a as usize].txn == INITIAL;
        (!initial && !lessons.forced.contains(&(a, b))).then_some((a, b))
    }

    /// A short cycle of waits, if there is any; and how many points were looked at.
    fn waiting_cycle(&self) -> (Option<Steps>, usize) {
        let waiting = self.waiting_items.values().chain(self.waiting_points.values()).flatten().copied();
        let mut heads: Vec<u32> = waiting
            .filter(|&point| !self.done[point as usize] && self.missing[point as usize] == 0)
            .collect();
        heads.sort_unstable_by_key(|&point| (self.priority[point as usize], point));
        heads.dedup();
        let (start, looked_at) = self.on_cycle(&heads);
        (start.and_then(|start| shortest_cycle([start], |point| self.next_waits(point))), looked_at)
    }

    /// A point on a cycle of waits that these lead to, if there is any; and how many points were
    /// looked at.
    fn on_cycle(&self, starts: &[u32]) -> (Option<u32>, usize) {
        // Whether the search still is below a point.
        let mut below: HashMap<u32, bool> = HashMap::new();
        for &start in starts {
            let mut open = vec![(start, false)];
            while let Some((point, left)) = open.pop() {
                if left {
                    below.insert(point, false);
                    continue;
                }
                match below.get(&point) {
                    Some(_) => continue,
                    None => _ = below.insert(point, true),
                }
                open.push((point, true));
                for (other, _) in self.next_waits(point) {
                    match below.get(&other) {
                        Some(true) => return (Some(other), below.len()),
                        Some(false) => {}
                        None => open.push((other, false)),
                    }
                }
            }
        }
        (None, below.len())
    }

    /// What a point waits for, or what these wait for because they are not next in their sessions.
    fn next_waits(&self, point: u32) -> Vec<(u32, CycleStep)> {
        let mut waits = self.waits(point);
        if point == self.points.begin(self.points.txn(point))
            && !self.is_moment(point)
            && let Some((first, version)) = self.needed_first(self.points.txn(point))
        {
            waits.push((self.points.commit(first), CycleStep::Fact { a: version, source: None }));
        }
        waits.iter_mut().for_each(|wait| wait.0 = self.head(wait.0));
        waits
    }

    /// From now on `b` is before `a`.
    fn turn(&mut self, a: u32, b: u32, lessons: &mut Lessons) {
        let [ta, tb] = [a, b].map(|v| self.problem.versions[v as usize].txn);
        let (late, early) = (self.points.after_earlier(ta), self.points.commit(tb));
        if let Some(waits) = self.extra.get_mut(&self.points.after_earlier(tb)) {
            waits.retain(|&(_, step)| step != CycleStep::Before { a, b });
        }
        self.add_extra(early, late, CycleStep::Before { a: b, b: a });
        lessons.waiting.entry(early).or_default().push(late);
        self.take_back(late, lessons);
        self.push(late);
        self.push(self.points.after_earlier(tb));
    }

    /// Takes a point back, and what depends on it.
    fn take_back(&mut self, first: u32, lessons: &Lessons) {
        let (mut gone, mut open) = (Vec::new(), vec![first]);
        while let Some(point) = open.pop() {
            if !std::mem::replace(&mut self.done[point as usize], false) {
                continue;
            }
            self.log[self.place[point as usize] as usize] = NONE;
            self.left += 1;
            gone.push(point);
            for &to in self.graph.successors(point) {
                self.missing[to as usize] += 1;
                open.push(to);
            }
            let waits =
                |to: &u32| self.extra.get(to).is_some_and(|edges| edges.iter().any(|edge| edge.0 == point));
            open.extend(lessons.waiting.get(&point).into_iter().flatten().copied().filter(waits));
            if self.is_moment(point) {
                continue;
            }
            let txn = self.points.txn(point);
            open.extend([self.points.begin(txn), self.points.commit(txn)]);
            if point == self.points.begin(txn) {
                for read in self.firm_reads(txn) {
                    let mut version = self.choices.seen[read as usize];
                    self.unread[version as usize] += 1;
                    while self.after[version as usize] != NONE {
                        version = self.after[version as usize];
                        open.push(self.points.commit(self.problem.versions[version as usize].txn));
                    }
                }
            }
        }
        gone.iter().for_each(|&point| self.forget(point));
        for point in gone {
            if self.missing[point as usize] == 0 {
                self.push(point);
            }
        }
    }

    /// Takes the effect of a point out of the versions.
    fn forget(&mut self, point: u32) {
        if self.is_moment(point) {
            return;
        }
        let txn = self.points.txn(point);
        for &version in self.problem.txn_versions(txn) {
            let item = self.problem.versions[version as usize].item;
            if self.holder[item.index()] == txn {
                self.holder[item.index()] = NONE;
            }
            if point == self.points.commit(txn) {
                let (before, after) = (self.before[version as usize], self.after[version as usize]);
                match after {
                    NONE => self.current[item.index()] = before,
                    _ => self.before[after as usize] = before,
                }
                self.after[before as usize] = after;
                self.after[version as usize] = NONE;
            }
            self.wake(item);
        }
        if point == self.points.commit(txn) {
            self.ahead_take_back(txn);
        }
    }
}
