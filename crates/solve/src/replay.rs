//! Orders found by running transactions.
//!
//! # Problem
//! Some things are said by no read and no order of versions: what an update did whose rows nobody
//! saw, what became of a list that was appended to and replaced, a condition on several columns
//! that different transactions wrote. An order that the rest of the engine finds may then be the
//! wrong one of several.
//!
//! # Algorithm
//! Depth first: take the points one by one, each transaction run on the state at its begin point;
//! whoever saw something else is not taken there. The known graph, which says what comes before
//! what in every order, and the order that was found leave few wrong turns. States that were left
//! before are not tried again. What is found is audited.
//!
//! # Invariants
//! Only orders that the audit accepts are answered. That nothing was found proves nothing to
//! others.
//!
//! # Differs from the paper
//! This is how [Lowe 2017] tests linearizability, with transactions for operations and begin and
//! commit points.
//!
//! # Cost
//! At most [`STEPS`] transactions are run, with at most [`POLLS`] polls.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use margay_audit::audit_alone_within;
use margay_history::{ObjectId, TxnId};
use margay_order::Graph;
use margay_verdict::cell::{Field, fold};
use margay_verdict::state::{ObjectView, check, effects};
use margay_verdict::{Budget, Cell, Certificate, Predicates, Verdict};

use crate::known::{KnownGraph, Saturated};
use crate::points::Points;
use crate::problem::Problem;

/// How many transactions are run.
const STEPS: usize = 50_000;

/// With how many polls of the budget.
const POLLS: u64 = 20_000_000;

/// How many points are tried at one place.
const WIDTH: usize = 24;

/// How many complete orders are audited.
const AUDITS: usize = 256;

/// An order near `guess` that explains the history, if one is found soon.
pub(crate) fn replay(
    problem: &Problem<'_>,
    points: Points,
    guess: &Certificate,
    budget: &Budget,
) -> Option<Certificate> {
    let predicates = Predicates::compile(problem.history).ok().filter(|_| !points.overlap && !points.weak)?;
    let mut known = KnownGraph::new(problem, points, problem.question.uses_session_order());
    let Ok(Saturated::Acyclic(_)) = known.saturate(budget) else { return None };
    let graph = known.graph();
    let mut runs = Runs::new(problem, points, &predicates, &graph, places(problem, points, guess));
    runs.search(&budget.clone().at_most_polls(POLLS))
}

/// The place of each point in an order; those that are not in it come last.
fn places(problem: &Problem<'_>, points: Points, guess: &Certificate) -> Vec<u32> {
    let mut places = vec![u32::MAX; points.count(problem.txns.len())];
    for (point, place) in crate::numbers(problem, points, guess).into_iter().zip(0..) {
        places[point as usize] = place;
    }
    places
}

/// What a transaction makes of objects.
type Made = Vec<(ObjectId, Cell)>;

/// A transaction on its way: the state below it, and what it made itself.
struct Run<'a> {
    base: &'a [Cell],
    made: Made,
}

impl ObjectView for Run<'_> {
    fn look(&self, object: ObjectId) -> Cow<'_, Cell> {
        let own = self.made.iter().find(|(o, _)| *o == object);
        Cow::Borrowed(own.map_or(&self.base[object.index()], |(_, cell)| cell))
    }
}

/// What a transaction makes if it runs on a state; nothing if it saw something else.
fn run(predicates: &Predicates<'_>, txn: TxnId, base: &[Cell]) -> Option<Made> {
    let history = predicates.history();
    let mut run = Run { base, made: Vec::new() };
    for op in history.ops(txn) {
        check(predicates, &op, &run).ok()?;
        for (object, effect) in effects(predicates, &op, &run).ok()? {
            let cell = fold(history, run.look(object).into_owned(), &effect);
            match run.made.iter_mut().find(|(o, _)| *o == object) {
                Some(own) => own.1 = cell,
                None => run.made.push((object, cell)),
            }
        }
    }
    Some(run.made)
}

/// What is tried at one place.
struct Turn {
    points: Vec<u32>,
    next: usize,
}

/// What one step changed.
struct ReplayStep {
    point: u32,
    /// Nodes of the graph that were passed with it.
    passed: Vec<u32>,
    replaced: Made,
}

struct Runs<'a, 'h> {
    problem: &'a Problem<'h>,
    points: Points,
    predicates: &'a Predicates<'h>,
    graph: &'a Graph,
    places: Vec<u32>,
    cells: Vec<Cell>,
    missing: Vec<u32>,
    done: Vec<bool>,
    ready: BTreeSet<(u32, u32)>,
    /// Who has begun and not committed, with what it makes.
    pending: HashMap<u32, Made>,
    steps: Vec<ReplayStep>,
    /// A number for the points taken, the state, and what is pending.
    mark: u64,
    left: usize,
}

impl<'a, 'h> Runs<'a, 'h> {
    fn new(
        problem: &'a Problem<'h>,
        points: Points,
        predicates: &'a Predicates<'h>,
        graph: &'a Graph,
        places: Vec<u32>,
    ) -> Self {
        let history = problem.history;
        let mut cells = vec![Cell::ABSENT; history.object_count()];
        history.initial_values().iter().for_each(|&(o, value)| cells[o.index()] = Cell::Value(value));
        let left = problem.forced.iter().filter(|&&forced| forced).count();
        let mut runs = Self {
            problem,
            points,
            predicates,
            graph,
            places,
            cells,
            missing: graph.indegrees(),
            done: vec![false; graph.node_count()],
            ready: BTreeSet::new(),
            pending: HashMap::new(),
            steps: Vec::new(),
            mark: 0,
            left,
        };
        let mut passed = Vec::new();
        (0..graph.node_count() as u32).for_each(|node| runs.arrive(node, &mut passed));
        runs
    }

    fn search(&mut self, budget: &Budget) -> Option<Certificate> {
        let (mut visited, mut audits) = (HashSet::new(), 0);
        let mut turns = vec![self.turn()];
        for _ in 0..STEPS {
            budget.poll().ok()?;
            let turn = turns.last_mut()?;
            let Some(&point) = turn.points.get(turn.next) else {
                turns.pop();
                self.undo();
                continue;
            };
            turn.next += 1;
            if !self.take(point) {
                continue;
            }
            if self.left == 0 && self.pending.is_empty() {
                let order = self.order();
                if audit_alone_within(self.problem.history, self.problem.question, &order, budget).is_ok() {
                    return Some(order);
                }
                audits += 1;
                if audits > AUDITS {
                    return None;
                }
            }
            match visited.insert(self.mark) {
                true => turns.push(self.turn()),
                false => self.undo(),
            }
        }
        None
    }

    fn turn(&self) -> Turn {
        Turn { points: self.ready.iter().take(WIDTH).map(|&(_, point)| point).collect(), next: 0 }
    }

    fn order(&self) -> Certificate {
        let taken = self.steps.iter().map(|step| step.point).collect();
        match crate::holds(self.problem, self.points, taken) {
            Verdict::Holds(order) => order,
            _ => Certificate::Points(Vec::new()),
        }
    }

    /// A node that all its predecessors have been passed of: a point is ready, another node is
    /// passed.
    fn arrive(&mut self, node: u32, passed: &mut Vec<u32>) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            if self.missing[node as usize] > 0 || self.done[node as usize] {
                continue;
            }
            match self.places.get(node as usize) {
                Some(&place) => _ = self.ready.insert((place, node)),
                None => {
                    self.done[node as usize] = true;
                    passed.push(node);
                    for &to in self.graph.successors(node) {
                        self.missing[to as usize] -= 1;
                        open.push(to);
                    }
                }
            }
        }
    }

    /// Takes a point, if its transaction explains what it saw there.
    fn take(&mut self, point: u32) -> bool {
        let txn = self.points.txn(point);
        let replaced = match (point == self.points.begin(txn), point == self.points.commit(txn)) {
            (true, true) => run(self.predicates, self.problem.txns[txn as usize], &self.cells)
                .map(|made| self.install(made)),
            (true, false) => self.begin(txn),
            _ => {
                let made = self.pending.remove(&txn).unwrap_or_default();
                self.mark ^= pending_mark(txn, &made);
                Some(self.install(made))
            }
        };
        let Some(replaced) = replaced else { return false };
        let commits = point == self.points.commit(txn) && self.problem.forced[txn as usize];
        self.left -= usize::from(commits);
        self.done[point as usize] = true;
        self.ready.remove(&(self.places[point as usize], point));
        self.mark ^= mark(&(0u8, point));
        let mut passed = Vec::new();
        for &to in self.graph.successors(point) {
            self.missing[to as usize] -= 1;
            self.arrive(to, &mut passed);
        }
        self.steps.push(ReplayStep { point, passed, replaced });
        true
    }

    fn begin(&mut self, txn: u32) -> Option<Made> {
        let made = run(self.predicates, self.problem.txns[txn as usize], &self.cells)?;
        let held = |object: ObjectId| self.pending.values().flatten().any(|(other, _)| *other == object);
        if made.iter().any(|(object, _)| held(*object)) {
            return None;
        }
        self.mark ^= pending_mark(txn, &made);
        self.pending.insert(txn, made);
        Some(Vec::new())
    }

    /// Puts new values in place; answers the old ones.
    fn install(&mut self, made: Made) -> Made {
        let replace = |(object, cell): (ObjectId, Cell)| {
            self.mark ^= cell_mark(object, &cell) ^ cell_mark(object, &self.cells[object.index()]);
            (object, std::mem::replace(&mut self.cells[object.index()], cell))
        };
        made.into_iter().map(replace).collect()
    }

    fn undo(&mut self) {
        let Some(ReplayStep { point, passed, replaced }) = self.steps.pop() else { return };
        let (txn, graph) = (self.points.txn(point), self.graph);
        for &node in passed.iter().rev().chain([&point]) {
            for &to in graph.successors(node) {
                if self.missing[to as usize] == 0
                    && let Some(&place) = self.places.get(to as usize)
                {
                    self.ready.remove(&(place, to));
                }
                self.missing[to as usize] += 1;
            }
            self.done[node as usize] = false;
        }
        self.mark ^= mark(&(0u8, point));
        let commits = point == self.points.commit(txn) && self.problem.forced[txn as usize];
        self.left += usize::from(commits);
        let made = self.install(replaced);
        if self.points.split {
            let made = match point == self.points.begin(txn) {
                true => self.pending.remove(&txn).unwrap_or_default(),
                false => made,
            };
            self.mark ^= pending_mark(txn, &made);
            if point == self.points.commit(txn) {
                self.pending.insert(txn, made);
            }
        }
        self.ready.insert((self.places[point as usize], point));
    }
}

fn mark(what: &impl Hash) -> u64 {
    // One and the same state of the hasher, so that a search goes the same way every time.
    thread_local!(static STATE: DefaultHashBuilder = DefaultHashBuilder::default());
    STATE.with(|state| state.hash_one(what))
}

fn pending_mark(txn: u32, made: &Made) -> u64 {
    made.iter().fold(mark(&(1u8, txn)), |all, (object, cell)| all ^ mark(&(txn, cell_mark(*object, cell))))
}

fn cell_mark(object: ObjectId, cell: &Cell) -> u64 {
    struct Marked<'a>(&'a Cell);
    impl Hash for Marked<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            match self.0 {
                Cell::Value(id) => (0u8, id).hash(state),
                Cell::List(items) => (1u8, items).hash(state),
                Cell::Row(columns) => {
                    for (name, field) in columns {
                        match field {
                            Field::Value(id) => (2u8, name, id).hash(state),
                            Field::Made(value) => (3u8, name, format!("{value:?}")).hash(state),
                        }
                    }
                }
                Cell::Made(value) => (4u8, format!("{value:?}")).hash(state),
            }
        }
    }
    mark(&(2u8, object, Marked(cell)))
}
