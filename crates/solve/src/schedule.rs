//! Building an order one point at a time.
//!
//! # Problem
//! Given the known graph and a few assumed orders of versions, find an order of all points that
//! explains every read, or show which assumptions cannot stand together.
//!
//! # Algorithm
//! Greedy scheduling. A point is taken when all its predecessors are, and
//! - a commit only when every reader of the versions that it overwrites has begun (so no read ever
//!   loses its version);
//! - in the snapshot family, a begin only when no other active transaction holds an object that it
//!   will write (so writers never overlap).
//!
//! Taking a point therefore never makes the order wrong; all that can happen is that nothing is
//! ready. Then every waiting point waits for another one, so there is a cycle of waits, and it is a
//! lemma: its assumptions are the orders of versions that the schedule made (`a` was taken, `b` was
//! not, so `a` is before `b`). Which ready point is taken first is decided by when its transaction
//! ended, by its relative place in its session, or by what was read ([`places`]): a guess that is
//! right for nearly all transactions.
//!
//! # Invariants
//! `unread[v]` counts the reads of version `v` whose transactions have not begun; `current[x]` is
//! the last taken version of `x`; the log undoes.
//!
//! # Cost
//! Linear in points and edges, times log for the queue; undoing costs what is undone.

mod ahead;
mod places;
mod priority;
mod repair;
mod waits;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use margay_order::Graph;
use margay_verdict::{Budget, Exhausted};

use self::ahead::Ahead;
pub(crate) use self::priority::{by_reads, linear, priorities, times};
use crate::known::{KnownGraph, OptionalFact};
use crate::lemma::CycleStep;
use crate::points::Points;
use crate::problem::{INITIAL, Item, Problem};

/// No transaction.
const NONE: u32 = u32::MAX;

/// What the search assumes in one round.
#[derive(Clone, Default)]
pub(crate) struct Choices {
    /// The version that each read saw.
    pub seen: Rc<Vec<u32>>,
    /// The transactions that committed.
    pub active: Rc<Vec<bool>>,
    /// Orders of versions, `(earlier, later)`.
    pub orders: Vec<(u32, u32)>,
}

/// A partial order of points under construction.
pub(crate) struct Schedule<'k> {
    pub known: &'k KnownGraph<'k>,
    problem: &'k Problem<'k>,
    points: Points,
    graph: Arc<Graph>,
    reversed: Arc<Graph>,
    priority: Vec<u64>,
    choices: Choices,
    /// Edges of this round only, by target.
    extra: HashMap<u32, Vec<(u32, CycleStep)>>,
    /// Reads that are not in [`KnownGraph::readers`], by version.
    readers: HashMap<u32, Vec<u32>>,
    missing: Vec<u32>,
    done: Vec<bool>,
    /// The place of a point in the log.
    place: Vec<u32>,
    pub log: Vec<u32>,
    unread: Vec<u32>,
    /// How often one transaction reads one item at most: so many of the unread may be the waiting
    /// writer's own.
    rereads: u32,
    current: Vec<u32>,
    /// By version that was taken: the one that it replaced, and the one that replaced it.
    before: Vec<u32>,
    after: Vec<u32>,
    holder: Vec<u32>,
    /// Which writers must come first, where that is looked for.
    ahead: Option<Ahead>,
    /// How many points are not taken yet.
    left: usize,
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    waiting_items: HashMap<Item, Vec<u32>>,
    waiting_points: HashMap<u32, Vec<u32>>,
}

/// What a point waits for.
enum Wait {
    Point(u32),
    Item(Item),
}

impl<'k> Schedule<'k> {
    /// A schedule of the known graph, which is given with what is turned around; `priority` says when
    /// each point is best taken.
    pub fn new(
        known: &'k KnownGraph<'k>,
        graph: &Arc<Graph>,
        reversed: &Arc<Graph>,
        priority: Vec<u64>,
        choices: Choices,
    ) -> Self {
        let problem = known.problem;
        let mut schedule = Self {
            known,
            problem,
            points: known.points,
            priority,
            missing: Vec::new(),
            done: Vec::new(),
            place: vec![0; graph.node_count()],
            graph: graph.clone(),
            reversed: reversed.clone(),
            choices: Choices::default(),
            extra: HashMap::new(),
            readers: HashMap::new(),
            log: Vec::new(),
            unread: Vec::new(),
            rereads: rereads(problem),
            current: Vec::new(),
            before: vec![0; problem.versions.len()],
            after: Vec::new(),
            holder: Vec::new(),
            ahead: None,
            left: 0,
            ready: BinaryHeap::new(),
            waiting_items: HashMap::new(),
            waiting_points: HashMap::new(),
        };
        schedule.restart(choices);
        schedule
    }

    fn restart(&mut self, choices: Choices) {
        self.missing = self.graph.indegrees();
        self.done = vec![false; self.graph.node_count()];
        self.log.clear();
        self.unread = vec![0; self.problem.versions.len()];
        for (read, &version) in choices.seen.iter().enumerate() {
            if choices.active[self.problem.reads[read].txn as usize] && self.problem.is_firm(read as u32) {
                self.unread[version as usize] += 1;
            }
        }
        self.current = self.problem.items().map(|x| self.problem.item_versions(x).start).collect();
        self.holder = vec![NONE; self.current.len()];
        self.after = vec![NONE; self.problem.versions.len()];
        self.choices = choices;
        self.left = (0..self.graph.node_count() as u32).filter(|&p| self.is_active(p)).count();
        self.find_dynamic_readers();
        self.find_extra();
        self.refill();
    }

    fn find_dynamic_readers(&mut self) {
        self.readers.clear();
        for read in self.uncertain_reads().into_iter().filter(|&read| self.problem.is_firm(read)) {
            self.readers.entry(self.choices.seen[read as usize]).or_default().push(read);
        }
    }

    /// Reads of this round that the known graph does not know.
    fn uncertain_reads(&self) -> Vec<u32> {
        if self.problem.forced.iter().all(|&f| f) && self.problem.reads.len() == self.known.certain_reads() {
            return Vec::new();
        }
        let active = |read: u32| self.choices.active[self.problem.reads[read as usize].txn as usize];
        (0..self.problem.reads.len() as u32).filter(|&r| active(r) && !self.known.is_certain(r)).collect()
    }

    fn find_extra(&mut self) {
        self.extra.clear();
        for read in self.uncertain_reads() {
            let version = self.choices.seen[read as usize];
            let writer = self.problem.versions[version as usize].txn;
            if writer != INITIAL {
                let reader = self.problem.reads[read as usize].txn;
                self.add_extra(
                    self.points.commit(writer),
                    self.points.begin(reader),
                    CycleStep::Saw { read, version },
                );
            }
        }
        for (before, after) in self.known.optional_sessions(&self.choices.active) {
            self.add_extra(self.points.commit(before), self.points.begin(after), CycleStep::Session);
        }
        let active = self.choices.active.clone();
        for OptionalFact { a, b, source } in self.known.optional_facts(&active) {
            let [ta, tb] = [a, b].map(|v| self.problem.versions[v as usize].txn);
            self.add_extra(
                self.points.commit(ta),
                self.points.after_earlier(tb),
                CycleStep::Fact { a, source },
            );
        }
        for &(point, tick, label) in self.known.optional_stamps() {
            if self.choices.active[self.points.txn(point) as usize] {
                self.add_extra(point, tick, CycleStep::Known(label));
            }
        }
        for (a, b) in self.choices.orders.clone() {
            let [ta, tb] = [a, b].map(|v| self.problem.versions[v as usize].txn);
            if self.choices.active[ta as usize] && self.choices.active[tb as usize] {
                let to = self.points.after_earlier(tb);
                self.add_extra(self.points.commit(ta), to, CycleStep::Before { a, b });
            }
        }
    }

    fn add_extra(&mut self, from: u32, to: u32, step: CycleStep) {
        self.extra.entry(to).or_default().push((from, step));
    }

    /// When each point is best taken.
    pub fn priorities(&self) -> &[u64] {
        &self.priority
    }

    /// Starts again, by `places`.
    pub fn follow(&mut self, choices: Choices, places: Vec<u32>) {
        self.priority = places.into_iter().map(u64::from).collect();
        self.restart(choices);
    }

    /// Takes up new choices, keeping as much of the order as they allow; goes on by `places`.
    pub fn change(&mut self, choices: Choices, places: Vec<u32>) {
        self.priority = places.into_iter().map(u64::from).collect();
        let same = Rc::ptr_eq(&choices.seen, &self.choices.seen) || choices.seen == self.choices.seen;
        if !same || choices.active != self.choices.active {
            return self.restart(choices);
        }
        self.choices = choices;
        self.find_extra();
        let mut keep = self.log.len();
        for (&to, edges) in &self.extra {
            for &(from, _) in edges {
                let late = !self.done[from as usize] || self.place[from as usize] > self.place[to as usize];
                if self.done[to as usize] && late {
                    keep = keep.min(self.place[to as usize] as usize);
                }
            }
        }
        while self.log.len() > keep {
            self.undo();
        }
        self.refill();
    }

    fn refill(&mut self) {
        self.ready.clear();
        self.waiting_items.clear();
        self.waiting_points.clear();
        for point in 0..self.graph.node_count() as u32 {
            if !self.done[point as usize] && self.missing[point as usize] == 0 {
                self.push(point);
            }
        }
    }

    fn push(&mut self, point: u32) {
        if self.is_active(point) {
            self.ready.push(Reverse((self.priority[point as usize], point)));
        }
    }

    fn is_active(&self, point: u32) -> bool {
        self.is_moment(point) || self.choices.active[self.points.txn(point) as usize]
    }

    fn is_moment(&self, point: u32) -> bool {
        point as usize >= self.points.count(self.problem.txns.len())
    }

    /// Takes points until none is ready; answers whether all are taken.
    pub fn run(&mut self, budget: &Budget) -> Result<bool, Exhausted> {
        self.run_for(usize::MAX, budget)?;
        Ok(self.left == 0)
    }

    /// Takes so many points at most; answers whether none is ready.
    fn run_for(&mut self, mut most: usize, budget: &Budget) -> Result<bool, Exhausted> {
        while most > 0
            && let Some(Reverse((_, point))) = self.ready.pop()
        {
            budget.poll()?;
            if self.done[point as usize] || self.missing[point as usize] > 0 {
                continue;
            }
            match self.wait(point) {
                Some(Wait::Point(other)) => self.waiting_points.entry(other).or_default().push(point),
                Some(Wait::Item(object)) => self.waiting_items.entry(object).or_default().push(point),
                None => {
                    self.take(point);
                    most -= 1;
                }
            }
        }
        Ok(most > 0)
    }

    fn wait(&self, point: u32) -> Option<Wait> {
        if let Some(edges) = self.extra.get(&point)
            && let Some(&(from, _)) = edges.iter().find(|(from, _)| !self.done[*from as usize])
        {
            return Some(Wait::Point(from));
        }
        if self.is_moment(point) {
            return None;
        }
        let txn = self.points.txn(point);
        if point == self.points.begin(txn)
            && let Some((first, _)) = self.needed_first(txn)
        {
            return Some(Wait::Point(self.points.commit(first)));
        }
        let versions = self.problem.txn_versions(txn);
        let item = |&v: &u32| self.problem.versions[v as usize].item;
        if self.points.split && point == self.points.begin(txn) {
            if self.points.overlap {
                return None;
            }
            return versions.iter().map(item).find(|x| self.holder[x.index()] != NONE).map(Wait::Item);
        }
        versions.iter().map(item).find(|&x| self.others_unread(txn, x) > 0).map(Wait::Item)
    }

    /// How many transactions other than `txn` have still to read the current version of an item.
    fn others_unread(&self, txn: u32, item: Item) -> u32 {
        let current = self.current[item.index()];
        let unread = self.unread[current as usize];
        if unread == 0 || self.points.split {
            return unread;
        }
        let own = self.firm_reads(txn).filter(|&r| self.choices.seen[r as usize] == current).count();
        unread - own as u32
    }

    /// The reads of a transaction that come before later versions.
    fn firm_reads(&self, txn: u32) -> impl Iterator<Item = u32> + use<'k> {
        let problem = self.problem;
        problem.txn_reads(txn).filter(move |&read| problem.is_firm(read))
    }

    fn take(&mut self, point: u32) {
        self.done[point as usize] = true;
        self.place[point as usize] = self.log.len() as u32;
        self.log.push(point);
        self.left -= 1;
        for place in 0..self.graph.successors(point).len() {
            let to = self.graph.successors(point)[place];
            self.missing[to as usize] -= 1;
            if self.missing[to as usize] == 0 {
                self.push(to);
            }
        }
        if !self.is_moment(point) {
            self.effect(point);
        }
        if let Some(waiting) = self.waiting_points.remove(&point) {
            waiting.into_iter().for_each(|p| self.push(p));
        }
    }

    fn effect(&mut self, point: u32) {
        let txn = self.points.txn(point);
        if point == self.points.begin(txn) {
            for read in self.firm_reads(txn) {
                let version = self.choices.seen[read as usize];
                self.unread[version as usize] -= 1;
                if self.unread[version as usize] <= self.rereads {
                    self.wake(self.problem.reads[read as usize].item);
                }
            }
            if self.points.exclusive() {
                for &version in self.problem.txn_versions(txn) {
                    self.holder[self.problem.versions[version as usize].item.index()] = txn;
                }
            }
        }
        if point == self.points.commit(txn) {
            for &version in self.problem.txn_versions(txn) {
                let item = self.problem.versions[version as usize].item;
                let before = std::mem::replace(&mut self.current[item.index()], version);
                self.before[version as usize] = before;
                self.after[before as usize] = version;
                self.holder[item.index()] = NONE;
                self.wake(item);
            }
            self.ahead_take(txn);
        }
    }

    fn wake(&mut self, item: Item) {
        if let Some(waiting) = self.waiting_items.remove(&item) {
            waiting.into_iter().for_each(|p| self.push(p));
        }
    }

    fn undo(&mut self) {
        let Some(point) = self.log.pop() else { return };
        self.done[point as usize] = false;
        self.left += 1;
        self.graph.successors(point).iter().for_each(|&to| self.missing[to as usize] += 1);
        if self.is_moment(point) {
            return;
        }
        let txn = self.points.txn(point);
        if point == self.points.commit(txn) {
            for &version in self.problem.txn_versions(txn) {
                let item = self.problem.versions[version as usize].item;
                self.current[item.index()] = self.before[version as usize];
                self.holder[item.index()] = if self.points.exclusive() { txn } else { NONE };
            }
        }
        if point == self.points.begin(txn) {
            for read in self.firm_reads(txn) {
                self.unread[self.choices.seen[read as usize] as usize] += 1;
            }
            if self.points.exclusive() {
                for &version in self.problem.txn_versions(txn) {
                    self.holder[self.problem.versions[version as usize].item.index()] = NONE;
                }
            }
        }
    }
}

fn rereads(problem: &Problem<'_>) -> u32 {
    let mut items: Vec<Item> = Vec::new();
    let mut most = 0;
    for txn in 0..problem.txns.len() as u32 {
        items.clear();
        items.extend(problem.txn_reads(txn).map(|read| problem.reads[read as usize].item));
        items.sort_unstable();
        let longest = items.chunk_by(|a, b| a == b).map(<[Item]>::len).max().unwrap_or(0);
        most = most.max(longest as u32);
    }
    most
}
