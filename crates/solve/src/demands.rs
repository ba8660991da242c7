//! What an order of points has to meet, as demands that can be looked at one by one.
//!
//! There are three kinds. An edge of the known graph goes forward, and so does one between versions
//! whose order is known if they are there. A read sees a version that it may have seen: the last
//! one before it is a candidate (where later versions may come before the read, some candidate is
//! before it). And where writers of one item may not overlap, nobody else commits a version of it
//! between a writer's begin and commit.
//!
//! Each demand has a price, 0 if it is met. That of a read is how many versions are too many
//! between its last candidate and itself, so that each that goes away is progress.
//!
//! # Invariants
//! An order of points that meets all demands explains all reads. There are as many demands as
//! edges, reads and versions: pairs of versions are not looked at, however many nothing orders.

use margay_order::Graph;

use crate::known::KnownGraph;
use crate::line::Line;
use crate::problem::Item;
use crate::schedule::Choices;

/// More than so many versions too many are not counted.
pub(crate) const MAX_COUNTED: u32 = 64;

/// How many versions have come after the last candidate; nothing before the first.
pub(crate) type Stale = Option<u32>;

/// What a demand is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// One point before another.
    Edge(u32, u32),
    /// A read sees a candidate.
    Read(u32),
    /// The writer of a version is alone with its item.
    Alone(u32),
}

/// The demands of a known graph, of all reads, and of all writers.
pub(crate) struct Demands<'k> {
    known: &'k KnownGraph<'k>,
    edges: Vec<(u32, u32)>,
    /// The edges at each point.
    at_points: Lists,
    /// The reads of each item that count.
    of_items: Lists,
}

impl<'k> Demands<'k> {
    pub fn new(known: &'k KnownGraph<'k>, graph: &Graph, choices: &Choices) -> Self {
        let (problem, nodes) = (known.problem, graph.node_count() as u32);
        let mut edges: Vec<(u32, u32)> =
            (0..nodes).flat_map(|from| graph.successors(from).iter().map(move |&to| (from, to))).collect();
        let txn = |version: u32| problem.versions[version as usize].txn;
        let facts = known.optional_facts(&choices.active);
        let points = known.points;
        edges.extend(facts.map(|fact| (points.commit(txn(fact.a)), points.after_earlier(txn(fact.b)))));
        let ends = edges.iter().zip(0..).flat_map(|(&(from, to), edge)| [(from, edge), (to, edge)]);
        let reads = || (0..problem.reads.len() as u32).map(|read| (read, problem.reads[read as usize]));
        let items = reads().filter(|(_, read)| choices.active[read.txn as usize]);
        Self {
            known,
            at_points: Lists::new(nodes as usize, ends),
            of_items: Lists::new(problem.items().count(), items.map(|(number, read)| (read.item.0, number))),
            edges,
        }
    }

    /// How many numbers there are for demands.
    pub fn count(&self) -> usize {
        self.edges.len() + self.known.problem.reads.len() + self.known.problem.versions.len()
    }

    /// How many edges there are, whose demands come first.
    pub fn edge_count(&self) -> u32 {
        self.edges.len() as u32
    }

    /// What the demand with a number is.
    pub fn demand(&self, number: u32) -> Demand {
        let (edges, reads) = (self.edges.len() as u32, self.known.problem.reads.len() as u32);
        match number.checked_sub(edges) {
            None => Demand::Edge(self.edges[number as usize].0, self.edges[number as usize].1),
            Some(read) if read < reads => Demand::Read(read),
            Some(version) => Demand::Alone(version - reads),
        }
    }

    /// The demand of a read.
    pub fn of_read(&self, read: u32) -> u32 {
        self.edges.len() as u32 + read
    }

    /// The demand of the writer of a version.
    pub fn of_version(&self, version: u32) -> u32 {
        self.of_read(self.known.problem.reads.len() as u32) + version
    }

    /// The edges at a point.
    pub fn edges_at(&self, point: u32) -> &[u32] {
        self.at_points.get(point)
    }

    /// An edge, whose number is that of its demand.
    pub fn edge(&self, edge: u32) -> (u32, u32) {
        self.edges[edge as usize]
    }

    /// The reads of an item.
    pub fn reads(&self, item: Item) -> &[u32] {
        self.of_items.get(item.0)
    }

    /// Whether a read may have seen a version.
    pub fn is_candidate(&self, read: u32, version: u32) -> bool {
        self.known.problem.candidates(read).binary_search(&version).is_ok()
    }

    /// What a read that is so stale costs.
    pub fn price(&self, read: u32, stale: Stale) -> i64 {
        match stale {
            None => 1,
            Some(_) if !self.known.problem.is_firm(read) => 0,
            Some(versions) => i64::from(versions.min(MAX_COUNTED)),
        }
    }

    /// How stale a read is at its place, as if one version were not there.
    pub fn stale(&self, line: &Line<'_>, read: u32, but: Option<u32>) -> Stale {
        self.stale_at(line, read, line.at[self.known.node(read) as usize], but)
    }

    /// How stale it would be at another place.
    pub fn stale_at(&self, line: &Line<'_>, read: u32, here: f64, but: Option<u32>) -> Stale {
        let item = self.known.problem.reads[read as usize].item;
        let mut passed = 0;
        let before = &line.versions(item)[..line.before(item, here)];
        for &version in
            before.iter().rev().filter(|&&version| Some(version) != but).take(MAX_COUNTED as usize)
        {
            if self.is_candidate(read, version) {
                return Some(passed);
            }
            passed += 1;
        }
        let initial = self.known.problem.item_versions(item).start;
        let earlier = |v: &u32| *v == initial || (Some(*v) != but && line.is_before(*v, here));
        self.known.problem.candidates(read).iter().any(earlier).then_some(passed)
    }

    /// What a demand costs as things stand.
    pub fn cost(&self, line: &Line<'_>, number: u32) -> i64 {
        match self.demand(number) {
            Demand::Edge(from, to) => i64::from(line.at[from as usize] >= line.at[to as usize]),
            Demand::Read(read) => self.price(read, self.stale(line, read, None)),
            Demand::Alone(version) => self.company(line, version).len() as i64,
        }
    }

    /// The versions that are committed between the begin and the commit of another one's writer.
    pub fn company<'l>(&self, line: &'l Line<'_>, version: u32) -> &'l [u32] {
        let (points, written) = (self.known.points, self.known.problem.versions[version as usize]);
        let [begin, commit] = [points.begin(written.txn), points.commit(written.txn)];
        let [first, last] = [begin, commit].map(|point| line.before(written.item, line.at[point as usize]));
        &line.versions(written.item)[first.min(last)..last]
    }
}

/// Lists of numbers, one after the other.
struct Lists {
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Lists {
    /// From pairs of a list's number and what is in it.
    fn new(count: usize, pairs: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut pairs: Vec<(u32, u32)> = pairs.collect();
        pairs.sort_unstable();
        let mut starts = vec![0; count + 1];
        pairs.iter().for_each(|&(list, _)| starts[list as usize + 1] += 1);
        (0..count).for_each(|list| starts[list + 1] += starts[list]);
        Self { starts, all: pairs.into_iter().map(|(_, what)| what).collect() }
    }

    fn get(&self, list: u32) -> &[u32] {
        &self.all[self.starts[list as usize] as usize..self.starts[list as usize + 1] as usize]
    }
}
