//! The known graph: what must come before what, whatever the choices.
//!
//! # Problem
//! Before anything is searched, write down every order that the history forces, with its reason.
//!
//! # Algorithm
//! The base is session order, real time, timestamps of the evidence ([`stamps`]) and the reads that
//! saw one possible writer. Real time is a chain of moments, one per start: a transaction's commit
//! goes to the first moment after its end, each moment to its start. What follows from the base is
//! derived by [`spread`] where clocks per session are small, elsewhere by [`saturate`], by who
//! reaches whom ([`reach`]).
//!
//! # Invariants
//! The edges are between transactions that must have committed, so they hold in every model.
//!
//! # Cost
//! Linear but for sorting the moments.

mod pairs;
mod reach;
mod saturate;
mod spread;
mod stamps;

use margay_order::{Graph, GraphBuilder, components, shortest_cycle};
use margay_verdict::{Budget, Stamp};

pub(crate) use self::reach::Reach;
pub(crate) use self::saturate::Saturated;
use crate::points::Points;
use crate::problem::{INITIAL, Problem, Read, Stand};

/// What an edge of the known graph is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Label {
    /// From a transaction's begin to its commit.
    Inside,
    /// Session order.
    Session,
    /// To, between and from moments.
    Time,
    /// To, between and from ticks, where it leaves them.
    Recorded(Stamp),
    /// A read saw its only candidate.
    Read(u32),
    /// Something derived.
    Derived(u32),
}

/// An edge that was derived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Derived {
    pub kind: Kind,
    pub round: u32,
}

/// What was derived, and from what.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Version `a` is before version `b`.
    Before { a: u32, b: u32, why: Forced },
    /// Whoever made `read` comes before version `b`, because what it saw is before `b`.
    Anti { read: u32, b: u32, why: Forced },
}

/// Why one version must be before another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Forced {
    /// Evidence, a list, or the initial version.
    Fact,
    /// R1.
    Reaches,
    /// R2, by this read.
    ByRead(u32),
}

/// Version `a` is before version `b`, if both are there, and if the source committed whose read of
/// a list says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionalFact {
    pub a: u32,
    pub b: u32,
    pub source: Option<u32>,
}

/// The known graph.
pub(crate) struct KnownGraph<'p> {
    pub problem: &'p Problem<'p>,
    pub points: Points,
    /// Whether session order is in it.
    sessions: bool,
    nodes: usize,
    /// Chains of nodes that are no points: the first, and how many.
    helpers: Vec<(u32, u32)>,
    edges: GraphBuilder,
    pub derived: Vec<Derived>,
    /// Facts about versions that need not be there, or by a read that need not count.
    optional_facts: Vec<OptionalFact>,
    /// Timestamps of transactions that need not have committed: from a point to a tick.
    optional_stamps: Vec<(u32, u32, u32)>,
    /// Reads by the version that they certainly saw.
    reader_starts: Vec<u32>,
    readers: Vec<u32>,
}

const INSIDE: u32 = 0;
const SESSION: u32 = 1;
const TIME: u32 = 2;
const RECORDED: u32 = 3;
const READS: u32 = RECORDED + STAMPS.len() as u32;

const STAMPS: [Stamp; 4] = [Stamp::Serialization, Stamp::Commit, Stamp::Inside, Stamp::Outside];

impl<'p> KnownGraph<'p> {
    /// The base graph; `sessions` adds session order.
    pub fn new(problem: &'p Problem<'p>, points: Points, sessions: bool) -> Self {
        let (reader_starts, readers) = readers(problem);
        let nodes = points.count(problem.txns.len()) + problem.own_points.len();
        let mut known = Self {
            problem,
            points,
            sessions,
            nodes,
            helpers: Vec::new(),
            edges: GraphBuilder::new(),
            derived: Vec::new(),
            optional_facts: Vec::new(),
            optional_stamps: Vec::new(),
            reader_starts,
            readers,
        };
        known.add_inside();
        known.add_reads();
        if sessions {
            known.add_sessions();
        }
        if problem.question.uses_real_time() {
            known.add_moments();
        }
        known.add_stamps();
        known.add_facts();
        known
    }

    /// Whether session order is in it.
    pub fn has_sessions(&self) -> bool {
        self.sessions
    }

    fn forced(&self, txn: u32) -> bool {
        self.problem.forced[txn as usize]
    }

    /// Where a read stands.
    pub fn node(&self, read: u32) -> u32 {
        let Read { txn, stand, .. } = self.problem.reads[read as usize];
        match stand {
            Stand::Point(point) => self.points.count(self.problem.txns.len()) as u32 + point,
            _ => self.points.begin(txn),
        }
    }

    /// The transaction of a node; moments and ticks have none.
    pub fn txn(&self, node: u32) -> Option<u32> {
        let points = self.points.count(self.problem.txns.len());
        match (node as usize).checked_sub(points) {
            None => Some(self.points.txn(node)),
            Some(own) => self.problem.own_points.get(own).copied(),
        }
    }

    fn add_inside(&mut self) {
        let first = self.points.count(self.problem.txns.len()) as u32;
        for (&txn, point) in self.problem.own_points.iter().zip(first..) {
            self.edges.add(point, self.points.begin(txn), INSIDE);
        }
        if self.points.split {
            for txn in 0..self.problem.txns.len() as u32 {
                self.edges.add(self.points.begin(txn), self.points.commit(txn), INSIDE);
            }
        }
    }

    fn add_reads(&mut self) {
        for (i, read) in self.problem.reads.iter().enumerate() {
            let Some(version) = self.problem.seen(i as u32) else { continue };
            let writer = self.problem.versions[version as usize].txn;
            if writer != INITIAL && self.forced(read.txn) && self.forced(writer) {
                self.edges.add(self.points.commit(writer), self.node(i as u32), READS + i as u32);
            }
        }
    }

    fn add_sessions(&mut self) {
        let mut last: Option<u32> = None;
        let problem = self.problem;
        let session = |t: u32| problem.history.session_of(problem.txns[t as usize]);
        for txn in (0..problem.txns.len() as u32).filter(|&t| problem.forced[t as usize]) {
            if let Some(before) = last.filter(|&before| session(before) == session(txn)) {
                self.edges.add(self.points.commit(before), self.points.begin(txn), SESSION);
            }
            last = Some(txn);
        }
    }

    fn add_moments(&mut self) {
        let (history, txns) = (self.problem.history, &self.problem.txns);
        let mut starts: Vec<(i64, u32)> = (0..txns.len() as u32)
            .filter_map(|t| history.start(txns[t as usize]).map(|start| (start, t)))
            .collect();
        starts.sort_unstable();
        let base = self.add_helpers(starts.len());
        for (moment, &(_, txn)) in starts.iter().enumerate() {
            let moment = moment as u32;
            self.edges.add(base + moment, self.points.begin(txn), TIME);
            if moment > 0 {
                self.edges.add(base + moment - 1, base + moment, TIME);
            }
        }
        for txn in 0..txns.len() as u32 {
            let Some(end) = history.end(txns[txn as usize]) else { continue };
            let end = end.saturating_add(history.header().skew);
            let next = starts.partition_point(|&(start, _)| start <= end);
            if next < starts.len() {
                self.edges.add(self.points.commit(txn), base + next as u32, TIME);
            }
        }
    }

    /// A chain of nodes that are no points; answers the first.
    fn add_helpers(&mut self, count: usize) -> u32 {
        let first = self.nodes as u32;
        self.helpers.push((first, count as u32));
        self.nodes += count;
        first
    }

    /// What timestamps say of transactions that need not have committed: from a point to a tick,
    /// with the label.
    pub fn optional_stamps(&self) -> &[(u32, u32, u32)] {
        &self.optional_stamps
    }

    fn add_facts(&mut self) {
        for ((a, b), source) in self.problem.sourced_facts() {
            let [ta, tb] = [a, b].map(|v| self.problem.versions[v as usize].txn);
            if source.is_none() && self.forced(tb) && (ta == INITIAL || self.forced(ta)) {
                self.order(a, b, Forced::Fact, 0, &Reach::Unknown);
            } else if ta != INITIAL {
                self.optional_facts.push(OptionalFact { a, b, source });
            }
        }
    }

    /// Adds what follows from version `a` being before version `b`; answers whether anything was
    /// new.
    fn order(&mut self, a: u32, b: u32, why: Forced, round: u32, reach: &Reach) -> bool {
        let [ta, tb] = [a, b].map(|v| self.problem.versions[v as usize].txn);
        let mut new = false;
        if ta != INITIAL && !reach.reaches(self.points.commit(ta), self.points.after_earlier(tb)) {
            let to = self.points.after_earlier(tb);
            self.derive(self.points.commit(ta), to, Kind::Before { a, b, why }, round);
            new = true;
        }
        for place in self.reader_starts[a as usize]..self.reader_starts[a as usize + 1] {
            let read = self.readers[place as usize];
            let (from, to) = (self.node(read), self.points.commit(tb));
            if self.problem.reads[read as usize].txn != tb
                && self.problem.is_firm(read)
                && !reach.reaches(from, to)
            {
                self.derive(from, to, Kind::Anti { read, b, why }, round);
                new = true;
            }
        }
        new
    }

    fn derive(&mut self, from: u32, to: u32, kind: Kind, round: u32) {
        let label = READS + (self.problem.reads.len() + self.derived.len()) as u32;
        self.derived.push(Derived { kind, round });
        self.edges.add(from, to, label);
    }

    /// What a label means.
    pub fn label(&self, label: u32) -> Label {
        match label {
            INSIDE => Label::Inside,
            SESSION => Label::Session,
            TIME => Label::Time,
            RECORDED..READS => Label::Recorded(STAMPS[(label - RECORDED) as usize]),
            _ if ((label - READS) as usize) < self.problem.reads.len() => Label::Read(label - READS),
            _ => Label::Derived(label - READS - self.problem.reads.len() as u32),
        }
    }

    /// The graph as it stands.
    pub fn graph(&self) -> Graph {
        self.edges.build(self.nodes)
    }

    /// The graph as it stands, turned around.
    pub fn reversed(&self) -> Graph {
        self.edges.build_reversed(self.nodes)
    }

    /// The reads that certainly saw a version.
    pub fn readers(&self, version: u32) -> &[u32] {
        let (start, end) = (self.reader_starts[version as usize], self.reader_starts[version as usize + 1]);
        &self.readers[start as usize..end as usize]
    }

    /// Those of them that come before later versions.
    pub fn firm_readers(&self, version: u32) -> impl Iterator<Item = u32> + '_ {
        self.readers(version).iter().copied().filter(|&read| self.problem.is_firm(read))
    }

    /// How many reads are in [`KnownGraph::readers`].
    pub fn certain_reads(&self) -> usize {
        self.readers.len()
    }

    /// Whether a read is in [`KnownGraph::readers`].
    pub fn is_certain(&self, read: u32) -> bool {
        self.problem.seen(read).is_some_and(|version| self.readers(version).contains(&read))
    }

    /// What evidence and lists say of versions that need not be there, as far as it counts for
    /// these transactions.
    pub fn optional_facts(&self, active: &[bool]) -> impl Iterator<Item = OptionalFact> {
        let txn = |version: u32| self.problem.versions[version as usize].txn as usize;
        let counts = move |fact: &OptionalFact| {
            let read = fact.source.is_none_or(|source| active[source as usize]);
            read && active[txn(fact.a)] && active[txn(fact.b)]
        };
        self.optional_facts.iter().copied().filter(counts)
    }

    /// Session order to and from transactions that need not have committed but are taken to have.
    pub fn optional_sessions(&self, active: &[bool]) -> Vec<(u32, u32)> {
        if !self.sessions || self.problem.forced.iter().all(|&f| f) {
            return Vec::new();
        }
        let session = |t: u32| self.problem.history.session_of(self.problem.txns[t as usize]);
        let all: Vec<u32> = (0..active.len() as u32).filter(|&t| active[t as usize]).collect();
        let pairs = all.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(|&(a, b)| session(a) == session(b) && !(self.forced(a) && self.forced(b))).collect()
    }
}

fn readers(problem: &Problem<'_>) -> (Vec<u32>, Vec<u32>) {
    let certain = || {
        problem.reads.iter().enumerate().filter_map(|(i, read)| {
            let version = problem.seen(i as u32)?;
            let writer = problem.versions[version as usize].txn;
            let sure =
                problem.forced[read.txn as usize] && (writer == INITIAL || problem.forced[writer as usize]);
            sure.then_some((i as u32, version))
        })
    };
    let mut starts = vec![0u32; problem.versions.len() + 2];
    certain().for_each(|(_, version)| starts[version as usize + 2] += 1);
    for version in 0..=problem.versions.len() {
        starts[version + 1] += starts[version];
    }
    let mut all = vec![0; starts[problem.versions.len() + 1] as usize];
    for (read, version) in certain() {
        let place = &mut starts[version as usize + 1];
        all[*place as usize] = read;
        *place += 1;
    }
    starts.pop();
    (starts, all)
}

/// A short cycle of a graph that has one: the shortest through a few nodes, as far as there is time
/// to look.
pub(crate) fn cycle(graph: &Graph, budget: &Budget) -> Vec<(u32, u32, u32)> {
    let mut components = components(graph);
    components.sort_by_key(Vec::len);
    let smallest = &components[0];
    let few = smallest.len().clamp(1, 64);
    let step = smallest.len() / few;
    let starts = smallest.iter().copied().step_by(step.max(1));
    let mut found = 0;
    let starts = starts.take_while(|_| {
        found += 1;
        found == 1 || budget.poll().is_ok()
    });
    shortest_cycle(starts, |node| graph.edges(node).collect::<Vec<_>>()).expect("a component holds a cycle")
}
