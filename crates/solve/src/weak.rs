//! `parallel-snapshot`, `causal`, `read-atomic` and the two kinds of read committed: what is visible to a reader hides what is older.
//!
//! # Problem
//! These levels ask for no order of begin points: an anti-dependency counts only where the overwriter is visible to the reader. By one rule for all of them: there is an order of the
//! transactions that contains session order (but at `read-committed`), wr and ww, and if a read saw version `a`, and version `b` of the same item is visible to its transaction, then `b` is before `a`. Visible is
//! who leads to the reader by session order, wr and ww (`parallel-snapshot`, where that forbids just the cycles with one rw), by session order and wr (`causal`), or by one step of these
//! (`read-atomic`); who was read in an earlier operation (`be-read-committed`); nobody (`read-committed`).
//!
//! # Algorithm
//! Lazily, as elsewhere: a SAT solver with the acyclicity theory chooses what open reads saw and the orders of versions that have been named; the rest of the orders follows one linear order of the graph.
//! Every read that misses something visible is a cycle of one rw edge and the path that makes it visible, and becomes a clause, until there is none.
//!
//! # Invariants
//! As those of [`mod@crate::search`]: clauses are negations of forbidden cycles; `holds` is said only of an order that satisfies the rule.
//!
//! # Cost
//! One closure of the visible graph, and one look at each pair of a read and a version of its item, per round. Engine infer is linear where values are unique; this one is for the others.

use std::cmp::Reverse;
use std::sync::Arc;

use margay_history::{ObjectId, OpId, Outcome, TxnId};
use margay_levels::Level;
use margay_order::{Closure, Graph, GraphBuilder, shortest_path, topological_order};
use margay_verdict::{Budget, Certificate, Exhausted, Lemma, Order, ReadFrom, Versions};

use crate::acyclic::{Acyclic, Link};
use crate::atoms::{Atoms, guess};
use crate::known::{Known, Label, Reach, cycle};
use crate::lemma::{Prover, Step, Steps};
use crate::lit::{Clauses, Sat};
use crate::points::Points;
use crate::problem::{INITIAL, Problem};
use crate::refutation::needed;
use crate::schedule::linear;
use crate::search::{Solver, Stopped, active, known_steps};

/// How many transactions are too many: the closure is a square of bits.
pub(crate) const MOST: usize = 40_000;

/// How many cycles are taken from one choice.
const CYCLES: usize = 256;

/// How it ended.
pub(crate) enum Answer {
    Holds(Certificate),
    Refuted(Vec<Lemma>),
}

/// Decides one of these levels.
pub(crate) fn decide(problem: &Problem<'_>, points: Points, budget: &Budget) -> Result<Answer, Stopped> {
    let known = Known::new(problem, points, problem.question.uses_session_order());
    let graph = Arc::new(known.graph());
    let Some(order) = topological_order(&graph) else {
        let mut prover = Prover::new(&known);
        prover.add(&known_steps(cycle(&graph)), &[]);
        return Ok(Answer::Refuted(prover.finish()));
    };
    let mut solver = Solver::from(Acyclic::new(graph.clone(), Arc::new(known.reversed()), &order));
    let mut atoms = Atoms::new(&known, &Reach::Unknown, &mut solver);
    let mut cycles: Vec<Steps> = Vec::new();
    loop {
        if solver.solve(u64::MAX, budget)? != Some(true) {
            return Ok(Answer::Refuted(refutation(&known, atoms, solver, cycles, budget)?));
        }
        let choice = Choice::new(&known, &graph, &atoms, &solver);
        let found = match choice.order(&solver) {
            Ok(order) => {
                let choice = choice.chained(&order);
                let found = choice.misses(&order, budget)?;
                if found.is_empty() {
                    return Ok(Answer::Holds(choice.certificate(&order)));
                }
                found
            }
            Err(cycle) => vec![cycle],
        };
        for cycle in found {
            let clause = atoms.negated(&cycle, &mut solver);
            solver.add(&clause);
            cycles.push(cycle);
        }
    }
}

fn refutation(
    known: &Known<'_>,
    atoms: Atoms<'_>,
    mut solver: Solver,
    mut cycles: Vec<Steps>,
    budget: &Budget,
) -> Result<Vec<Lemma>, Exhausted> {
    let step = |link: Link| match link {
        Link::Fixed(label) => Step::Known(label),
        Link::Optional(edge) => atoms.steps[edge as usize],
    };
    let of_theory = solver.take_cycles().into_iter();
    cycles.extend(of_theory.map(|cycle| cycle.into_iter().map(|(a, b, link)| (a, b, step(link))).collect()));
    let mut prover = Prover::new(known);
    for cycle in needed(known, &Reach::Unknown, cycles, budget)? {
        prover.add(&cycle, &[]);
    }
    Ok(prover.finish())
}

/// What the solver chose, as a graph.
struct Choice<'a> {
    known: &'a Known<'a>,
    problem: &'a Problem<'a>,
    seen: Vec<u32>,
    active: Vec<bool>,
    nodes: usize,
    edges: Steps,
}

impl<'a> Choice<'a> {
    fn new(known: &'a Known<'a>, graph: &Graph, atoms: &Atoms<'_>, solver: &Solver) -> Self {
        let problem = known.problem;
        let seen = |read: u32| {
            let chosen = |&v: &u32| solver.value(atoms.sights[&(read, v)]);
            problem.seen(read).unwrap_or_else(|| {
                let open = problem.candidates(read).iter().copied();
                open.into_iter().find(chosen).unwrap_or_else(|| guess(known, read))
            })
        };
        let seen: Vec<u32> = (0..problem.reads.len() as u32).map(seen).collect();
        let active = active(known, &seen);
        let nodes = graph.node_count();
        let mut choice = Self { known, problem, seen, active, nodes, edges: Vec::new() };
        for from in 0..nodes as u32 {
            let fixed = graph.edges(from).map(|(to, label)| (from, to, Step::Known(label)));
            choice.edges.extend(fixed);
        }
        choice.add_open(atoms, solver);
        choice
    }

    /// The edges that are not known.
    fn add_open(&mut self, atoms: &Atoms<'_>, solver: &Solver) {
        let txn = |version: u32| self.problem.versions[version as usize].txn;
        let both = |&(a, b): &(u32, u32)| {
            txn(a) != INITIAL && self.active[txn(a) as usize] && self.active[txn(b) as usize]
        };
        let mut edges: Steps = Vec::new();
        for read in (0..self.seen.len() as u32).filter(|&read| !self.known.is_certain(read)) {
            let (reader, version) = (self.problem.reads[read as usize].txn, self.seen[read as usize]);
            if self.active[reader as usize] && txn(version) != INITIAL {
                edges.push((txn(version), reader, Step::Saw { read, version }));
            }
        }
        let sessions = self.known.optional_sessions(&self.active).into_iter();
        edges.extend(sessions.map(|(a, b)| (a, b, Step::Session)));
        let facts = self.known.optional_facts().iter().filter(|pair| both(pair));
        edges.extend(facts.map(|&(a, b)| (txn(a), txn(b), Step::Fact { a })));
        let chosen = |(&(a, b), &var): (&(u32, u32), &u32)| if solver.value(var) { (a, b) } else { (b, a) };
        let mut orders: Vec<(u32, u32)> = atoms.orders.iter().map(chosen).filter(both).collect();
        orders.sort_unstable();
        edges.extend(orders.into_iter().map(|(a, b)| (txn(a), txn(b), Step::Before { a, b })));
        self.edges.extend(edges);
    }

    fn graph(&self, edges: impl Fn(Step) -> bool) -> Graph {
        let mut builder = GraphBuilder::new();
        for (place, &(from, to, step)) in self.edges.iter().enumerate() {
            if edges(step) {
                builder.add(from, to, place as u32);
            }
        }
        builder.build(self.nodes)
    }

    fn steps(&self, path: Vec<(u32, u32, u32)>) -> Steps {
        path.into_iter().map(|(from, to, place)| (from, to, self.edges[place as usize].2)).collect()
    }

    /// A linear order of all nodes, or a cycle.
    fn order(&self, solver: &Solver) -> Result<Vec<u32>, Steps> {
        let graph = self.graph(|_| true);
        let places: Vec<u64> = solver.places().into_iter().map(u64::from).collect();
        linear(&graph, &places).ok_or_else(|| self.steps(cycle(&graph)))
    }

    /// Reads that miss something visible, as cycles.
    fn misses(&self, order: &[u32], budget: &Budget) -> Result<Vec<Steps>, Exhausted> {
        let places = places(order);
        let sight = Sight::new(self, order);
        let mut found = Vec::new();
        for read in 0..self.seen.len() as u32 {
            budget.poll()?;
            let (reader, a) = (self.problem.reads[read as usize].txn, self.seen[read as usize]);
            if !self.active[reader as usize] || found.len() >= CYCLES {
                continue;
            }
            let from = self.problem.versions[a as usize].txn;
            for b in self.problem.item_versions(self.problem.reads[read as usize].item).skip(1) {
                let later = self.problem.versions[b as usize].txn;
                let other = later != reader && b != a && self.active[later as usize];
                let newer = from == INITIAL || places[later as usize] > places[from as usize];
                if other
                    && newer
                    && let Some(path) = sight.path(later, read)
                {
                    let mut cycle = vec![(reader, later, Step::Anti { read, a, b })];
                    cycle.extend(path);
                    found.push(cycle);
                }
            }
        }
        Ok(found)
    }

    /// That the transaction of a read saw a version of `from` in an operation that `counts`.
    fn source(&self, from: u32, read: u32, counts: impl Fn(OpId, OpId) -> bool) -> Option<Steps> {
        let (problem, reads) = (self.problem, &self.problem.reads);
        let (reader, op) = (reads[read as usize].txn, reads[read as usize].op);
        let writer = |read: u32| problem.versions[self.seen[read as usize] as usize].txn;
        let mut all = problem.txn_reads(reader);
        let read = all.find(|&read| writer(read) == from && counts(reads[read as usize].op, op))?;
        Some(vec![(from, reader, Step::Saw { read, version: self.seen[read as usize] })])
    }

    /// With the order of all versions as edges, where they count.
    fn chained(mut self, order: &[u32]) -> Self {
        if self.problem.question.level != Level::ParallelSnapshot {
            return self;
        }
        let (problem, places) = (self.problem, places(order));
        let txn = |version: u32| problem.versions[version as usize].txn;
        for item in problem.items() {
            let versions = self.ordered(item, &places);
            let pairs = versions.windows(2).map(|pair| (pair[0], pair[1]));
            self.edges.extend(pairs.map(|(a, b)| (txn(a), txn(b), Step::Before { a, b })));
        }
        self
    }

    /// The written versions of an item, oldest first.
    fn ordered(&self, item: crate::problem::Item, places: &[u32]) -> Vec<u32> {
        let txn = |version: u32| self.problem.versions[version as usize].txn;
        let written = self.problem.item_versions(item).skip(1);
        let mut versions: Vec<u32> = written.filter(|&v| self.active[txn(v) as usize]).collect();
        versions.sort_by_key(|&v| places[txn(v) as usize]);
        versions
    }

    fn certificate(&self, order: &[u32]) -> Certificate {
        let id = |txn: u32| self.problem.txns[txn as usize];
        let places = places(order);
        let reads = self.reads(&places);
        if !matches!(self.problem.question.level, Level::ParallelSnapshot | Level::ReadCommitted) {
            let taken = order.iter().filter(|&&node| self.active.get(node as usize) == Some(&true));
            return Certificate::Order(Order { txns: taken.map(|&txn| id(txn)).collect(), reads });
        }
        let mut orders: Vec<(ObjectId, Vec<TxnId>)> = Vec::new();
        for item in self.problem.items() {
            let (object, None) = self.problem.place(item) else { continue };
            let versions = self.ordered(item, &places).into_iter();
            let txns = versions.map(|v| id(self.problem.versions[v as usize].txn)).collect();
            orders.push((object, txns));
        }
        orders.retain(|(_, txns)| !txns.is_empty());
        let unknown = |&txn: &u32| {
            self.active[txn as usize] && self.problem.history.outcome(id(txn)) == Outcome::Unknown
        };
        let committed = (0..self.active.len() as u32).filter(unknown).map(id).collect();
        Certificate::Versions(Versions { committed, orders, reads })
    }

    /// What operations saw of objects: of a row whose columns are of several transactions the latest of their versions.
    fn reads(&self, places: &[u32]) -> Vec<ReadFrom> {
        let seen = self.problem.reads.iter().zip(&self.seen);
        let active = seen.filter(|(read, _)| self.active[read.txn as usize]);
        let place = |version: u32| match self.problem.versions[version as usize].txn {
            INITIAL => 0,
            txn => 1 + places[txn as usize],
        };
        let mut told: Vec<(OpId, ObjectId, Reverse<u32>, u32)> = active
            .map(|(read, &version)| {
                (read.op, self.problem.place(read.item).0, Reverse(place(version)), version)
            })
            .collect();
        told.sort_unstable();
        told.dedup_by_key(|(op, object, ..)| (*op, *object));
        let origin = |version| self.problem.origin(version);
        told.into_iter().map(|(op, object, _, v)| ReadFrom { op, object, version: origin(v) }).collect()
    }
}

fn places(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&node, place)| places[node as usize] = place);
    places
}

/// Who is visible to whom.
enum Sight<'a> {
    /// By a path.
    Paths(&'a Choice<'a>, Graph, Closure),
    /// By one step.
    Direct(&'a Choice<'a>),
    /// By a read before the one in question.
    Earlier(&'a Choice<'a>),
    /// Nobody.
    Nobody,
}

impl<'a> Sight<'a> {
    fn new(choice: &'a Choice<'a>, order: &[u32]) -> Self {
        let reads = |step: Step| match step {
            Step::Session | Step::Saw { .. } => true,
            Step::Known(label) => matches!(choice.known.label(label), Label::Session | Label::Read(_)),
            _ => false,
        };
        let graph = match choice.problem.question.level {
            Level::ReadAtomic => return Sight::Direct(choice),
            Level::BeReadCommitted => return Sight::Earlier(choice),
            Level::ReadCommitted => return Sight::Nobody,
            Level::Causal => choice.graph(reads),
            _ => choice.graph(|_| true),
        };
        let closure = Closure::new(&graph, order);
        Sight::Paths(choice, graph, closure)
    }

    /// What makes `from` visible to a read, if anything does.
    fn path(&self, from: u32, read: u32) -> Option<Steps> {
        match self {
            Sight::Nobody => None,
            Sight::Earlier(choice) => choice.source(from, read, |earlier, op| earlier < op),
            Sight::Paths(choice, graph, closure) => {
                let reader = choice.problem.reads[read as usize].txn;
                let reached = closure.reaches(from, reader);
                let next = |node| graph.edges(node).collect::<Vec<_>>();
                reached.then(|| shortest_path(from, reader, next))?.map(|path| choice.steps(path))
            }
            Sight::Direct(choice) => {
                let (problem, reader) = (choice.problem, choice.problem.reads[read as usize].txn);
                let session = |txn: u32| problem.history.session_of(problem.txns[txn as usize]);
                if from < reader && session(from) == session(reader) {
                    return Some(vec![(from, reader, Step::Session)]);
                }
                choice.source(from, read, |_, _| true)
            }
        }
    }
}
