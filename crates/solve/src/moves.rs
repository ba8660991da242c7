//! The best place of a body on the line.
//!
//! # Problem
//! Where should a point, or both points of a transaction, be so that all that depends on it costs
//! the least?
//!
//! # Algorithm
//! What a demand costs as a function of the body's place is a step function, whose steps are where
//! the points that the demand names are: an edge has one step; a read that moves has one per
//! version of its item; for a version that moves, each read of the item has steps at the versions
//! between its last candidate and itself; two writers that may not overlap have two. One sweep over
//! the steps of all of them tells the best of all places; the nearest of the best is taken.
//!
//! # Cost
//! As many steps as are named, times log.

use crate::demands::{Demands, MAX_COUNTED};
use crate::known::KnownGraph;
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

/// How things stand.
#[derive(Clone, Copy)]
pub(crate) struct Now<'a> {
    pub known: &'a KnownGraph<'a>,
    pub line: &'a Line<'a>,
    pub demands: &'a Demands<'a>,
    pub weights: &'a [i64],
    pub costs: &'a [i64],
}

/// Room for the steps of one body after the other.
#[derive(Default)]
pub(crate) struct Moves {
    /// Where the body costs more, or less.
    steps: Vec<(f64, i64)>,
}

impl Moves {
    /// The best place of a body.
    pub fn best(&mut self, now: Now<'_>, body: Body) -> Move {
        self.steps.clear();
        let span = limits(now, body);
        let mut look = Look { now, body, span, steps: &mut self.steps, cost: 0, start: 0 };
        look.edges();
        look.reads();
        look.writes();
        let (cost, start) = (look.cost, look.start);
        self.steps.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let (least, span) = self.sweep(start, now.line.at[body[0] as usize], span);
        Move { gain: cost - least, body, span }
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
fn limits(now: Now<'_>, body: Body) -> Span {
    let at = |point: u32| now.line.at[point as usize];
    match both(now.known, body[0]) {
        Some([begin, commit]) if body == [begin; 2] => (f64::NEG_INFINITY, at(commit)),
        Some([begin, commit]) if body == [commit; 2] => (at(begin), f64::INFINITY),
        _ => EVERYWHERE,
    }
}

/// A look at one body.
struct Look<'a> {
    now: Now<'a>,
    body: Body,
    /// Where it may go; what happens elsewhere does not matter.
    span: Span,
    steps: &'a mut Vec<(f64, i64)>,
    /// What all demands of the body cost now, and what they would before all steps.
    cost: i64,
    start: i64,
}

impl Look<'_> {
    /// Counts what a demand costs now; answers its weight.
    fn count(&mut self, demand: u32) -> i64 {
        let weight = self.now.weights[demand as usize];
        self.cost += weight * self.now.costs[demand as usize];
        weight
    }

    /// From some place on it costs so much more.
    fn step(&mut self, place: f64, more: i64) {
        if more != 0 {
            self.steps.push((place, more));
        }
    }

    fn edges(&mut self) {
        let (Now { line, demands, .. }, body) = (self.now, self.body);
        let points = if body[0] == body[1] { &body[..1] } else { &body[..] };
        for &point in points {
            for &edge in demands.edges_at(point) {
                let (from, to) = demands.edge(edge);
                // An edge between two that move together stays as it is.
                match [from, to].map(|point| body.contains(&point)) {
                    [true, false] => {
                        let weight = self.count(edge);
                        self.step(line.at[to as usize], weight);
                    }
                    [false, true] => {
                        let weight = self.count(edge);
                        self.start += weight;
                        self.step(line.at[from as usize], -weight);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The reads that stand at the body.
    fn reads(&mut self) {
        let Now { known, line, demands, .. } = self.now;
        let Some(txn) = known.txn(self.body[0]).filter(|&txn| line.has(txn)) else { return };
        if self.body[0] != known.points.begin(txn) {
            return;
        }
        let (low, high) = self.span;
        for read in known.problem.txn_reads(txn) {
            let weight = self.count(demands.of_read(read));
            let item = known.problem.reads[read as usize].item;
            let own = known.problem.txn_versions(txn);
            let own = own.iter().copied().find(|&v| known.problem.versions[v as usize].item == item);
            let mut stale = demands.stale_at(line, read, low, own);
            let mut price = demands.price(read, stale);
            self.start += weight * price;
            for &version in &line.versions(item)[line.before(item, low)..] {
                let place = line.place(version);
                if place >= high {
                    break;
                }
                if Some(version) == own {
                    continue;
                }
                let fits = demands.is_candidate(read, version);
                stale = if fits { Some(0) } else { stale.map(|stale| stale + 1) };
                let next = demands.price(read, stale);
                self.step(place, weight * (next - price));
                price = next;
            }
        }
    }

    /// The versions that are committed at the body, or whose writer begins there.
    fn writes(&mut self) {
        let Now { known, line, demands, .. } = self.now;
        let Some(txn) = known.txn(self.body[0]).filter(|&txn| line.has(txn)) else { return };
        let (problem, exclusive) = (known.problem, known.points.exclusive());
        if line.written(self.body).is_empty() {
            if exclusive && self.body[0] == known.points.begin(txn) {
                problem.txn_versions(txn).iter().for_each(|&version| self.begins(version));
            }
            return;
        }
        for &version in line.written(self.body) {
            let item = problem.versions[version as usize].item;
            let cover = self.cover(version);
            for &read in demands.reads(item) {
                let here = line.at[known.node(read) as usize];
                let met = self.now.costs[demands.of_read(read) as usize] == 0;
                let elsewhere = here <= self.span.0 || (met && here > cover);
                if problem.reads[read as usize].txn != txn && !elsewhere {
                    self.seen_by(read, version);
                }
            }
            if exclusive {
                self.commits(version);
            }
        }
    }

    /// The first place from where on another version hides whatever a version that moves can do:
    /// reads there that see what they should see something later.
    fn cover(&self, version: u32) -> f64 {
        let Now { known, line, .. } = self.now;
        let item = known.problem.versions[version as usize].item;
        let later = &line.versions(item)[line.before(item, self.span.1)..];
        later.iter().find(|&&other| other != version).map_or(f64::INFINITY, |&other| line.place(other))
    }

    /// What a read costs by where a version is.
    fn seen_by(&mut self, read: u32, version: u32) {
        let Now { known, line, demands, .. } = self.now;
        let weight = self.count(demands.of_read(read));
        let item = known.problem.reads[read as usize].item;
        let here = line.at[known.node(read) as usize];
        let stale = demands.stale(line, read, Some(version));
        let without = demands.price(read, stale);
        let fits = demands.is_candidate(read, version);
        let before = &line.versions(item)[..line.before(item, here)];
        let mut others = before.iter().rev().filter(|&&other| other != version);
        // From right to left: after the read, then between the versions before it.
        let (mut right, mut bound, mut passed) = (without, here, 0);
        loop {
            let stale = if fits { Some(passed) } else { stale.map(|stale| stale + 1) };
            let price = demands.price(read, stale);
            self.step(bound, weight * (right - price));
            right = price;
            let Some(&other) = others.next() else { break };
            bound = line.place(other);
            if demands.is_candidate(read, other) {
                self.step(bound, weight * (right - without));
                right = without;
                break;
            }
            passed += 1;
            if passed > MAX_COUNTED {
                break;
            }
        }
        self.start += weight * right;
    }

    /// What overlaps cost by where a version is committed.
    fn commits(&mut self, version: u32) {
        let Now { known, line, demands, costs, .. } = self.now;
        let (points, written) = (known.points, known.problem.versions[version as usize]);
        let alone = self.body[0] == self.body[1];
        let own = self.count(demands.of_version(version));
        let (begin, commit) = (line.at[points.begin(written.txn) as usize], line.place(version));
        for &other in line.versions(written.item).iter().filter(|&&other| other != version) {
            let (txn, end) = (known.problem.versions[other as usize].txn, line.place(other));
            let start = line.at[points.begin(txn) as usize];
            if alone && end > begin {
                self.step(end, own);
            }
            if end <= self.span.0 || start >= self.span.1 {
                continue;
            }
            let demand = demands.of_version(other);
            let weight = self.count(demand);
            let inside = i64::from(start <= commit && commit < end);
            self.start += weight * (costs[demand as usize] - inside);
            self.step(start, weight);
            self.step(end, -weight);
        }
    }

    /// What overlaps cost by where the writer of a version begins.
    fn begins(&mut self, version: u32) {
        let Now { known, line, demands, .. } = self.now;
        let item = known.problem.versions[version as usize].item;
        let weight = self.count(demands.of_version(version));
        for &other in line.versions(item).iter().take_while(|&&other| other != version) {
            self.start += weight;
            self.step(line.place(other), -weight);
        }
    }
}
