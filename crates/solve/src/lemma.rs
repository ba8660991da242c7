//! From paths in the graph of points to lemmas that audit can check.
//!
//! # Algorithm
//! A cycle of points becomes a cycle of transactions: steps inside a transaction disappear, runs of
//! moments become one real-time edge. A derived edge stands for an order of two versions that was
//! forced; the cycle that refuted the other order becomes a lemma of its own, and so on for the
//! derived edges of that one. Derived edges are justified by earlier rounds only, so this ends.

use hashbrown::{HashMap, HashSet};
use margay_order::{Graph, shortest_path};
use margay_verdict::{Budget, Edge, Exhausted, Lemma, Reason};

use crate::known::{Forced, Kind, KnownGraph, Label};
use crate::problem::INITIAL;

/// One edge between points, and what it assumes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum CycleStep {
    /// An edge of the known graph.
    Known(u32),
    /// Session order of a transaction that need not have committed.
    Session,
    /// A read saw a version, of several.
    Saw { read: u32, version: u32 },
    /// Version `a` is before version `b`.
    Before { a: u32, b: u32 },
    /// Version `a` is before version `b`, if both committed: evidence says so, or a list that the
    /// source read, if it committed too.
    Fact { a: u32, source: Option<u32> },
    /// A read saw `a`, and `a` is before `b`.
    Anti { read: u32, a: u32, b: u32 },
}

/// A path or a cycle of points.
pub(crate) type Steps = Vec<(u32, u32, CycleStep)>;

/// Turns steps into lemmas.
pub(crate) struct Prover<'k> {
    known: &'k KnownGraph<'k>,
    graph: Graph,
    /// How the order of two versions was derived, if it was, the earliest way.
    derivations: HashMap<(u32, u32), (Forced, u32)>,
    justified: HashSet<(u32, u32)>,
    lemmas: Vec<Lemma>,
}

impl<'k> Prover<'k> {
    pub fn new(known: &'k KnownGraph<'k>) -> Self {
        let mut derivations = HashMap::new();
        for derived in &known.derived {
            let (pair, why) = match derived.kind {
                Kind::Before { a, b, why } => ((Some(a), b), why),
                Kind::Anti { read, b, why } => ((known.problem.seen(read), b), why),
            };
            if let (Some(a), b) = pair {
                derivations.entry((a, b)).or_insert((why, derived.round));
            }
        }
        Self { known, graph: known.graph(), derivations, justified: HashSet::new(), lemmas: Vec::new() }
    }

    /// Adds the lemma of a cycle and all that it rests on. `forced` are orders of versions that
    /// hold because the first reaches the second.
    pub fn add(&mut self, cycle: &Steps, forced: &[(u32, u32)], budget: &Budget) -> Result<(), Exhausted> {
        let mut open = self.push(cycle);
        open.extend(forced);
        while let Some((a, b)) = open.pop() {
            budget.poll()?;
            let (why, round) = self.derivations.get(&(a, b)).copied().unwrap_or((Forced::Reaches, u32::MAX));
            if self.justified.insert((a, b))
                && let Some(cycle) = self.refutation(a, b, why, round)
            {
                open.extend(self.push(&cycle));
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Vec<Lemma> {
        self.lemmas
    }

    /// Adds one lemma; answers the orders that its derived edges rest on.
    fn push(&mut self, cycle: &Steps) -> Vec<(u32, u32)> {
        let lemma = Lemma { edges: self.edges(cycle) };
        if !self.lemmas.contains(&lemma) {
            self.lemmas.push(lemma);
        }
        cycle.iter().filter_map(|&(_, _, step)| self.rests_on(step)).collect()
    }

    fn rests_on(&self, step: CycleStep) -> Option<(u32, u32)> {
        let CycleStep::Known(label) = step else { return None };
        let Label::Derived(derived) = self.known.label(label) else { return None };
        match self.known.derived[derived as usize].kind {
            Kind::Before { a, b, .. } => Some((a, b)),
            Kind::Anti { read, b, .. } => Some((self.known.problem.seen(read)?, b)),
        }
    }

    /// The cycle that shows that `a` cannot be after `b`.
    fn refutation(&self, a: u32, b: u32, why: Forced, round: u32) -> Option<Steps> {
        let (points, versions) = (self.known.points, &self.known.problem.versions);
        let [ta, tb] = [a, b].map(|v| versions[v as usize].txn);
        let (from, to, step) = match why {
            _ if ta == INITIAL => return None,
            Forced::Fact => return None,
            Forced::Reaches => {
                (points.after_earlier(ta), points.commit(tb), CycleStep::Before { a: b, b: a })
            }
            Forced::ByRead(read) => {
                (points.commit(ta), self.known.node(read), CycleStep::Anti { read, a: b, b: a })
            }
        };
        let mut cycle = self.path(from, to, round)?;
        cycle.push((to, from, step));
        Some(cycle)
    }

    /// A path through edges that were known before `round`.
    fn path(&self, from: u32, to: u32, round: u32) -> Option<Steps> {
        let earlier = |&(_, label): &(u32, u32)| match self.known.label(label) {
            Label::Derived(d) => self.known.derived[d as usize].round < round,
            _ => true,
        };
        let path =
            shortest_path(from, to, |node| self.graph.edges(node).filter(earlier).collect::<Vec<_>>())?;
        Some(path.into_iter().map(|(a, b, label)| (a, b, CycleStep::Known(label))).collect())
    }

    /// The edges between transactions along a cycle of points.
    fn edges(&self, cycle: &Steps) -> Vec<Edge> {
        let first = cycle.iter().position(|&(from, _, _)| self.known.txn(from).is_some()).unwrap_or(0);
        let mut edges = Vec::new();
        let mut left = None;
        for &(from, to, step) in cycle[first..].iter().chain(&cycle[..first]) {
            left = self.known.txn(from).or(left);
            let (Some(from), Some(to)) = (left, self.known.txn(to)) else { continue };
            if let Some(reason) = self.reason(step) {
                let id = |t: u32| self.known.problem.txns[t as usize];
                edges.push(Edge { from: id(from), to: id(to), reason });
            }
        }
        edges
    }

    fn reason(&self, step: CycleStep) -> Option<Reason> {
        let problem = self.known.problem;
        let read =
            |read: u32| (problem.reads[read as usize].op, problem.place(problem.reads[read as usize].item));
        let write =
            |version: u32| Reason::Write { object: problem.place(problem.versions[version as usize].item).0 };
        let anti = |i: u32, version: u32| match (read(i), problem.origin(version)) {
            ((op, (object, None)), version) => Reason::AntiRead { op, object, version },
            ((op, (object, Some(column))), version) => Reason::AntiReadColumn { op, object, column, version },
        };
        let saw = |i: u32| match read(i) {
            (op, (object, None)) => Reason::Read { op, object },
            (op, (object, Some(column))) => Reason::ReadColumn { op, object, column },
        };
        Some(match step {
            CycleStep::Session => Reason::Session,
            CycleStep::Saw { read, .. } => saw(read),
            CycleStep::Before { a, .. } | CycleStep::Fact { a, .. } => write(a),
            CycleStep::Anti { read, a, .. } => anti(read, a),
            CycleStep::Known(label) => match self.known.label(label) {
                Label::Inside => return None,
                Label::Session => Reason::Session,
                Label::Time => Reason::RealTime,
                Label::Recorded(stamp) => Reason::Recorded(stamp),
                Label::Read(read) => saw(read),
                Label::Derived(derived) => match self.known.derived[derived as usize].kind {
                    Kind::Before { a, .. } => write(a),
                    Kind::Anti { read, .. } => anti(read, problem.seen(read)?),
                },
            },
        })
    }
}
