//! What the solver chose, as a graph, and what is wrong with it.

use hashbrown::HashSet;
use margay_history::OpId;
use margay_levels::Level;
use margay_order::{Graph, GraphBuilder, components, shortest_cycle};
use margay_verdict::{Budget, Certificate, Exhausted, Order};

use super::Clash;
use super::left::left_out;
use super::sight::ReadVersions;
use crate::atoms::{Atoms, guess};
use crate::known::{KnownGraph, OptionalFact};
use crate::lemma::{CycleStep, Steps};
use crate::lit::Sat;
use crate::problem::{INITIAL, Item, Problem, Stand};
use crate::schedule::linear;
use crate::search::{Solver, active};
use crate::told::NodeOrder;

/// How many cycles are taken from one choice.
pub(super) const CYCLES: usize = 256;

/// At how many nodes of a component cycles are looked for.
const STARTS: usize = 64;

/// How many orders of versions are named at once.
const CLASHES: usize = 4_096;

/// What the solver chose, as a graph.
pub(super) struct Choice<'a> {
    pub known: &'a KnownGraph<'a>,
    pub problem: &'a Problem<'a>,
    pub seen: Vec<u32>,
    pub active: Vec<bool>,
    pub nodes: usize,
    pub edges: Steps,
}

impl<'a> Choice<'a> {
    pub fn new(
        known: &'a KnownGraph<'a>,
        graph: &Graph,
        atoms: &Atoms<'_>,
        solver: &Solver,
        named: &[Clash],
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        let problem = known.problem;
        let mut seen = Vec::with_capacity(problem.reads.len());
        for read in 0..problem.reads.len() as u32 {
            budget.poll()?;
            let chosen = atoms.seen(read, |var| solver.value(var));
            seen.push(chosen.unwrap_or_else(|| guess(known, read)));
        }
        let active = active(known, &seen);
        let nodes = graph.node_count();
        let mut choice = Self { known, problem, seen, active, nodes, edges: Vec::new() };
        for from in 0..nodes as u32 {
            let fixed = graph.edges(from).map(|(to, label)| (from, to, CycleStep::Known(label)));
            choice.edges.extend(fixed);
        }
        choice.add_open(atoms, solver);
        choice.add_named(atoms, solver, named);
        Ok(choice)
    }

    pub fn txn(&self, version: u32) -> u32 {
        self.problem.versions[version as usize].txn
    }

    /// The edges that are not known.
    fn add_open(&mut self, atoms: &Atoms<'_>, solver: &Solver) {
        let txn = |version: u32| self.txn(version);
        let both = |&(a, b): &(u32, u32)| {
            txn(a) != INITIAL && self.active[txn(a) as usize] && self.active[txn(b) as usize]
        };
        let mut edges: Steps = Vec::new();
        for read in (0..self.seen.len() as u32).filter(|&read| !self.known.is_certain(read)) {
            let (reader, version) = (self.problem.reads[read as usize].txn, self.seen[read as usize]);
            if self.active[reader as usize] && txn(version) != INITIAL {
                edges.push((txn(version), self.known.node(read), CycleStep::Saw { read, version }));
            }
        }
        let sessions = self.known.optional_sessions(&self.active).into_iter();
        edges.extend(sessions.map(|(a, b)| (a, b, CycleStep::Session)));
        let facts = self.known.optional_facts(&self.active);
        edges.extend(facts.map(|fact| {
            let OptionalFact { a, b, source } = fact;
            (txn(a), txn(b), CycleStep::Fact { a, source })
        }));
        let chosen = |(&(a, b), &var): (&(u32, u32), &u32)| if solver.value(var) { (a, b) } else { (b, a) };
        let mut orders: Vec<(u32, u32)> = atoms.orders.iter().map(chosen).filter(both).collect();
        orders.sort_unstable();
        edges.extend(orders.into_iter().map(|(a, b)| (txn(a), txn(b), CycleStep::Before { a, b })));
        self.edges.extend(edges);
    }

    /// Firm reads before the later versions that have been named.
    fn add_named(&mut self, atoms: &Atoms<'_>, solver: &Solver, named: &[Clash]) {
        for &(read, a, b) in named {
            let before = match atoms.orders.get(&(a.min(b), a.max(b))) {
                Some(&var) => solver.value(var) == (a < b),
                None => atoms.is_forced(a, b),
            };
            let reader = self.problem.reads[read as usize].txn;
            let both = self.active[reader as usize] && self.active[self.txn(b) as usize];
            if before && both && self.seen[read as usize] == a {
                self.edges.push((self.known.node(read), self.txn(b), CycleStep::Anti { read, a, b }));
            }
        }
    }

    /// A linear order of all nodes, or cycles. What an operation saw of a row it saw as early as it
    /// can have.
    pub fn order(&self, solver: &Solver, budget: &Budget) -> Result<Result<Vec<u32>, Vec<Steps>>, Exhausted> {
        let mut builder = GraphBuilder::new();
        for (place, &(from, to, _)) in self.edges.iter().enumerate() {
            builder.add(from, to, place as u32);
        }
        let graph = builder.build(self.nodes);
        let mut places: Vec<u64> = solver.places().into_iter().map(|place| u64::from(place) + 1).collect();
        let first = self.problem.txns.len();
        places[first..first + self.problem.own_points.len()].fill(0);
        match linear(&graph, &places) {
            Some(order) => Ok(Ok(order)),
            None => self.cycles(&graph, budget).map(Err),
        }
    }

    /// Short cycles through different nodes.
    fn cycles(&self, graph: &Graph, budget: &Budget) -> Result<Vec<Steps>, Exhausted> {
        let mut found: Vec<Steps> = Vec::new();
        for component in components(graph) {
            for &start in component.iter().step_by(component.len().div_ceil(STARTS)) {
                budget.poll()?;
                let met = |cycle: &Steps| cycle.iter().any(|&(from, _, _)| from == start);
                let next = |node| graph.edges(node).collect::<Vec<_>>();
                if found.len() < CYCLES && !found.iter().any(met) {
                    found.extend(shortest_cycle([start], next).map(|cycle| self.steps(cycle)));
                }
            }
        }
        Ok(found)
    }

    /// The steps of a path through edges by their places.
    pub fn steps(&self, path: Vec<(u32, u32, u32)>) -> Steps {
        path.into_iter().map(|(from, to, place)| (from, to, self.edges[place as usize].2)).collect()
    }

    /// Firm reads that stand behind a version that is later than the one that they saw.
    pub fn clashes(&self, order: &[u32], budget: &Budget) -> Result<Vec<Clash>, Exhausted> {
        let mut found = Vec::new();
        if self.problem.reads.iter().all(|read| read.stand == Stand::Free) {
            return Ok(found);
        }
        let places = places(order);
        let versions = self.versions(&places);
        for read in (0..self.seen.len() as u32).filter(|&read| self.problem.is_firm(read)) {
            budget.poll()?;
            let limit = places[self.known.node(read) as usize];
            let between = self.between(read, limit, &versions, &places);
            found.extend(between.iter().map(|&b| (read, self.seen[read as usize], b)));
            if found.len() >= CLASHES {
                break;
            }
        }
        Ok(found)
    }

    /// Other transactions' versions of what a read saw that are later than what it saw, and before
    /// `limit`, oldest first.
    fn between(&self, read: u32, limit: u32, versions: &[Vec<u32>], places: &[u32]) -> Vec<u32> {
        let (reader, a) = (self.problem.reads[read as usize].txn, self.seen[read as usize]);
        if !self.active[reader as usize] {
            return Vec::new();
        }
        let all = &versions[self.problem.reads[read as usize].item.index()];
        let place = |version: u32| places[self.txn(version) as usize];
        let start = match self.txn(a) {
            INITIAL => 0,
            txn => all.partition_point(|&b| place(b) <= places[txn as usize]),
        };
        let later = all[start..].iter().copied().take_while(|&b| place(b) < limit);
        later.filter(|&b| self.txn(b) != reader).collect()
    }

    /// Reads that miss something visible, as cycles; about so many at most.
    pub fn misses(&self, order: &[u32], most: usize, budget: &Budget) -> Result<Vec<Steps>, Exhausted> {
        let mut found = Vec::new();
        if matches!(self.problem.question.level, Level::ReadCommitted | Level::ReadUncommitted) {
            return Ok(found);
        }
        let places = places(order);
        let versions = self.versions(&places);
        let mut sight = ReadVersions::new(self, order);
        while sight.advance() {
            for read in (0..self.seen.len() as u32).filter(|&read| self.problem.is_dependency(read)) {
                budget.poll()?;
                if found.len() >= most {
                    return Ok(found);
                }
                let (reader, a) = (self.problem.reads[read as usize].txn, self.seen[read as usize]);
                for b in self.between(read, places[reader as usize], &versions, &places) {
                    let later = self.txn(b);
                    if let Some(path) = sight.path(later, read) {
                        let mut cycle = vec![(reader, later, CycleStep::Anti { read, a, b })];
                        cycle.extend(path);
                        found.push(cycle);
                    }
                }
            }
        }
        Ok(found)
    }

    /// The reads by which a transaction depends on others, in operations that count.
    fn dependencies(&self, reader: u32, counts: impl Fn(OpId) -> bool) -> impl Iterator<Item = u32> {
        let problem = self.problem;
        let counts =
            move |&read: &u32| problem.is_dependency(read) && counts(problem.reads[read as usize].op);
        problem.txn_reads(reader).filter(counts)
    }

    /// That a transaction saw a version of `from` in an operation that counts.
    pub fn source(&self, from: u32, reader: u32, counts: impl Fn(OpId) -> bool) -> Option<Steps> {
        let read =
            self.dependencies(reader, counts).find(|&read| self.txn(self.seen[read as usize]) == from)?;
        Some(vec![(from, reader, CycleStep::Saw { read, version: self.seen[read as usize] })])
    }

    /// Whose versions a transaction saw in operations that count.
    pub fn sources(&self, reader: u32, counts: impl Fn(OpId) -> bool) -> HashSet<u32> {
        self.dependencies(reader, counts).map(|read| self.txn(self.seen[read as usize])).collect()
    }

    /// With the order of all versions as edges, where they count.
    pub fn chained(mut self, order: &[u32]) -> Self {
        if self.problem.question.level != Level::ParallelSnapshot {
            return self;
        }
        let versions = self.versions(&places(order));
        let pairs = versions.iter().flat_map(|versions| versions.windows(2).map(|pair| (pair[0], pair[1])));
        let edges: Steps =
            pairs.map(|(a, b)| (self.txn(a), self.txn(b), CycleStep::Before { a, b })).collect();
        self.edges.extend(edges);
        self
    }

    /// The written versions of every item, oldest first.
    pub fn versions(&self, places: &[u32]) -> Vec<Vec<u32>> {
        let ordered = |item: Item| {
            let written = self.problem.item_versions(item).skip(1);
            let mut versions: Vec<u32> = written.filter(|&v| self.active[self.txn(v) as usize]).collect();
            versions.sort_by_key(|&v| places[self.txn(v) as usize]);
            versions
        };
        self.problem.items().map(ordered).collect()
    }

    pub fn certificate(&self, order: &[u32], budget: &Budget) -> Result<Certificate, Exhausted> {
        let (places, level) = (places(order), self.problem.question.level);
        let told = NodeOrder { problem: self.problem, places: &places, active: &self.active };
        let mut versions = told.versions(|read| self.known.node(read), |read| self.seen[read as usize]);
        if !matches!(level, Level::ReadCommitted | Level::ReadUncommitted) && !self.problem.is_part() {
            versions.reads.extend(left_out(self, order, &versions.reads, budget)?);
        }
        if matches!(level, Level::ParallelSnapshot | Level::ReadCommitted | Level::ReadUncommitted) {
            return Ok(Certificate::Versions(versions));
        }
        let taken = order.iter().filter(|&&node| self.active.get(node as usize) == Some(&true));
        let txns = taken.map(|&txn| self.problem.txns[txn as usize]).collect();
        Ok(Certificate::Order(Order { txns, reads: versions.reads }))
    }
}

/// The place of each node.
pub(super) fn places(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&node, place)| places[node as usize] = place);
    places
}
