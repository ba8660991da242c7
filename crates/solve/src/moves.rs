//! The best place of a body on the line.
//!
//! # Problem
//! Where should a point, or both points of a transaction, be so that all that depends on it costs the least?
//!
//! # Algorithm
//! What a demand costs as a function of the body's place is a step function, whose steps are where the points that the demand names are: an edge has one step; a read that moves
//! has one per version of its item; for a version that moves, each read of the item has steps at the versions between its last candidate and itself; two writers that may not overlap have two.
//! One sweep over the steps of all of them tells the best of all places; the nearest of the best is taken.
//!
//! # Cost
//! As many steps as are named, times log.

use crate::demands::{Demands, MOST};
use crate::known::Known;
use crate::line::{Body, Line};
use crate::mend::both;

/// Between which places something may be.
pub(crate) type Span = (f64, f64);

const EVERYWHERE: Span = (f64::NEG_INFINITY, f64::INFINITY);

/// A move: how much less all costs, what moves, and where to.
#[derive(Clone, Copy)]
pub(crate) struct Move {
    pub gain: i64,
    pub body: Body,
    pub span: Span,
}

impl Move {
    /// None at all.
    pub const NONE: Self = Self { gain: i64::MIN, body: [0; 2], span: EVERYWHERE };
}

/// Room for the steps of one body after the other.
#[derive(Default)]
pub(crate) struct Moves {
    /// Where the body costs more, or less.
    steps: Vec<(f64, i64)>,
}

impl Moves {
    /// The best place of a body.
    pub fn best(
        &mut self,
        known: &Known<'_>,
        line: &Line<'_>,
        demands: &Demands<'_>,
        weights: &[i64],
        costs: &[i64],
        body: Body,
    ) -> Move {
        self.steps.clear();
        let (now, start) = (0, 0);
        let mut look =
            Look { known, line, demands, weights, costs, body, steps: &mut self.steps, now, start };
        look.edges();
        look.reads();
        look.writes();
        let (now, start) = (look.now, look.start);
        self.steps.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let (least, span) = self.sweep(start, line.at[body[0] as usize], limits(known, line, body));
        Move { gain: now - least, body, span }
    }

    /// The least cost, and the nearest span to `here` where it is; before all steps it is `start`.
    fn sweep(&self, start: i64, here: f64, limits: Span) -> (i64, Span) {
        let (mut cost, mut last) = (start, f64::NEG_INFINITY);
        let (mut least, mut nearest, mut span) = (i64::MAX, f64::INFINITY, limits);
        let end = std::iter::once((f64::INFINITY, 0));
        for (place, change) in self.steps.iter().copied().chain(end) {
            let (low, high) = (last.max(limits.0), place.min(limits.1));
            let distance = (low - here).max(here - high).max(0.0);
            if low < high && (cost < least || (cost == least && distance < nearest)) {
                (least, nearest, span) = (cost, distance, (low, high));
            }
            cost += change;
            last = place;
        }
        (least, span)
    }
}

/// Where a body may be at all: a single begin or commit stays on its side of the other.
fn limits(known: &Known<'_>, line: &Line<'_>, body: Body) -> Span {
    match both(known, body[0]) {
        Some([begin, commit]) if body == [begin; 2] => (f64::NEG_INFINITY, line.at[commit as usize]),
        Some([begin, commit]) if body == [commit; 2] => (line.at[begin as usize], f64::INFINITY),
        _ => EVERYWHERE,
    }
}

/// A look at one body.
struct Look<'a> {
    known: &'a Known<'a>,
    line: &'a Line<'a>,
    demands: &'a Demands<'a>,
    weights: &'a [i64],
    costs: &'a [i64],
    body: Body,
    steps: &'a mut Vec<(f64, i64)>,
    /// What all demands of the body cost now, and what they would before all steps.
    now: i64,
    start: i64,
}

impl Look<'_> {
    /// Counts what a demand costs now; answers its weight.
    fn count(&mut self, demand: u32) -> i64 {
        let weight = self.weights[demand as usize];
        self.now += weight * self.costs[demand as usize];
        weight
    }

    /// From some place on it costs so much more.
    fn step(&mut self, place: f64, more: i64) {
        if more != 0 {
            self.steps.push((place, more));
        }
    }

    fn edges(&mut self) {
        let body = self.body;
        let points = if body[0] == body[1] { &body[..1] } else { &body[..] };
        for &point in points {
            for &edge in self.demands.edges_at(point) {
                let (from, to) = self.demands.edge(edge);
                // An edge between two that move together stays as it is.
                match [from, to].map(|point| body.contains(&point)) {
                    [true, false] => {
                        let weight = self.count(edge);
                        self.step(self.line.at[to as usize], weight);
                    }
                    [false, true] => {
                        let weight = self.count(edge);
                        self.start += weight;
                        self.step(self.line.at[from as usize], -weight);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The reads that stand at the body.
    fn reads(&mut self) {
        let Some(txn) = self.known.txn(self.body[0]) else { return };
        if self.body[0] != self.known.points.begin(txn) {
            return;
        }
        for read in self.known.problem.txn_reads(txn) {
            let weight = self.count(self.demands.of_read(read));
            let item = self.known.problem.reads[read as usize].item;
            let mut stale = self.demands.at_first(read);
            let mut price = self.demands.price(read, stale);
            self.start += weight * price;
            for &version in self.line.versions(item) {
                if self.known.problem.versions[version as usize].txn == txn {
                    continue;
                }
                let fits = self.demands.is_candidate(read, version);
                stale = if fits { Some(0) } else { stale.map(|stale| stale + 1) };
                let next = self.demands.price(read, stale);
                self.step(self.line.place(version), weight * (next - price));
                price = next;
            }
        }
    }

    /// The versions that are committed at the body, or whose writer begins there.
    fn writes(&mut self) {
        let Some(txn) = self.known.txn(self.body[0]) else { return };
        let (problem, exclusive) = (self.known.problem, self.known.points.exclusive());
        if self.line.written(self.body).is_empty() {
            if exclusive && self.body[0] == self.known.points.begin(txn) {
                problem.txn_versions(txn).iter().for_each(|&version| self.begins(version));
            }
            return;
        }
        for &version in self.line.written(self.body) {
            for &read in self.demands.reads(problem.versions[version as usize].item) {
                if problem.reads[read as usize].txn != txn {
                    self.seen_by(read, version);
                }
            }
            if exclusive {
                self.commits(version);
            }
        }
    }

    /// What a read costs by where a version is.
    fn seen_by(&mut self, read: u32, version: u32) {
        let weight = self.count(self.demands.of_read(read));
        let item = self.known.problem.reads[read as usize].item;
        let here = self.line.at[self.known.node(read) as usize];
        let stale = self.demands.stale(self.line, read, Some(version));
        let without = self.demands.price(read, stale);
        let fits = self.demands.is_candidate(read, version);
        let before = &self.line.versions(item)[..self.line.before(item, here)];
        let mut others = before.iter().rev().filter(|&&other| other != version);
        // From right to left: after the read, then between the versions before it.
        let (mut right, mut bound, mut passed) = (without, here, 0);
        loop {
            let stale = if fits { Some(passed) } else { stale.map(|stale| stale + 1) };
            let price = self.demands.price(read, stale);
            self.step(bound, weight * (right - price));
            right = price;
            let Some(&other) = others.next() else { break };
            bound = self.line.place(other);
            if self.demands.is_candidate(read, other) {
                self.step(bound, weight * (right - without));
                right = without;
                break;
            }
            passed += 1;
            if passed > MOST {
                break;
            }
        }
        self.start += weight * right;
    }

    /// What overlaps cost by where a version is committed.
    fn commits(&mut self, version: u32) {
        let points = self.known.points;
        let written = self.known.problem.versions[version as usize];
        let alone = self.body[0] == self.body[1];
        let own = self.count(self.demands.of_version(version));
        let (begin, commit) = (self.line.at[points.begin(written.txn) as usize], self.line.place(version));
        for &other in self.line.versions(written.item).iter().filter(|&&other| other != version) {
            let demand = self.demands.of_version(other);
            let weight = self.count(demand);
            let txn = self.known.problem.versions[other as usize].txn;
            let (start, end) = (self.line.at[points.begin(txn) as usize], self.line.place(other));
            let inside = i64::from(start <= commit && commit < end);
            self.start += weight * (self.costs[demand as usize] - inside);
            self.step(start, weight);
            self.step(end, -weight);
            if alone && end > begin {
                self.step(end, own);
            }
        }
    }

    /// What overlaps cost by where the writer of a version begins.
    fn begins(&mut self, version: u32) {
        let item = self.known.problem.versions[version as usize].item;
        let weight = self.count(self.demands.of_version(version));
        let commit = self.line.place(version);
        for &other in self.line.versions(item).iter().take_while(|&&other| other != version) {
            let end = self.line.place(other);
            if end < commit {
                self.start += weight;
                self.step(end, -weight);
            }
        }
    }
}
