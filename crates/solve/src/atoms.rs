//! What the variables of the search mean.
//!
//! # Problem
//! Choices are orders of two versions, versions that an open read saw, and outcomes that nobody
//! learned. Give each that matters a variable, say what follows from it in clauses, and hand its
//! edges to the theory.
//!
//! # Algorithm
//! *Version `a` is before version `b`* is one variable, true or false: either value turns on a set
//! of edges, from the earlier transaction to the later, and from everyone who certainly read the
//! earlier version to the later. It exists only once it was named ([`Atoms::negated`]). *Read `r`
//! saw version `v`* has its edge from writer to reader; that such a reader comes before a later
//! version needs two assumptions, so it has a variable of its own that both together imply.
//!
//! # Invariants
//! Edges are between transactions that must have committed; what depends on an unknown outcome is
//! left to the clauses. The variables of one read's candidates follow each other.

use hashbrown::{HashMap, HashSet};
use margay_verdict::{Budget, Exhausted};

use crate::known::{KnownGraph, Reach};
use crate::lemma::{CycleStep, Steps};
use crate::lit::{Clauses, Lit};
use crate::problem::INITIAL;

/// No variable.
const NONE: u32 = u32::MAX;

/// About how much memory a candidate of an open read takes in the solver and in the theory.
const BYTES_PER_CANDIDATE: u64 = 256;

/// The variables of a search.
pub(crate) struct Atoms<'k> {
    pub known: &'k KnownGraph<'k>,
    reach: &'k Reach,
    /// `(earlier, later)` by number, to its variable.
    pub orders: HashMap<(u32, u32), u32>,
    /// By read with several candidates: the variable of the first; the others follow.
    sights: Vec<u32>,
    /// For transactions that need not have committed: that it did.
    commits: HashMap<u32, u32>,
    /// That an open read comes before a version because it saw an earlier one:
    /// `(read, seen, later)`.
    antis: HashMap<(u32, u32, u32), u32>,
    /// Orders that evidence or a list tells.
    facts: HashSet<(u32, u32)>,
    /// What each edge of the theory assumes, by its number.
    pub steps: Vec<CycleStep>,
}

impl<'k> Atoms<'k> {
    /// The variables of open reads and unknown outcomes.
    pub fn new(
        known: &'k KnownGraph<'k>,
        reach: &'k Reach,
        sat: &mut impl Clauses,
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        Self::guessed(known, reach, |read| guess(known, read), sat, budget)
    }

    /// The same, with what reads probably saw.
    pub fn guessed(
        known: &'k KnownGraph<'k>,
        reach: &'k Reach,
        guess: impl Fn(u32) -> u32,
        sat: &mut impl Clauses,
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        let reads = known.problem.reads.len() as u32;
        budget.charge(BYTES_PER_CANDIDATE * known.problem.open_candidates() as u64)?;
        let mut atoms = Self {
            known,
            reach,
            orders: HashMap::new(),
            sights: vec![NONE; reads as usize],
            commits: HashMap::new(),
            antis: HashMap::new(),
            facts: known.problem.sourced_facts().filter(|fact| fact.1.is_none()).map(|fact| fact.0).collect(),
            steps: Vec::new(),
        };
        atoms.open_commits(sat);
        for read in 0..reads {
            budget.poll()?;
            if known.problem.candidates(read).len() > 1 {
                atoms.open(read, guess(read), sat);
            }
        }
        Ok(atoms)
    }

    /// The variable of *`read` saw `version`*, if it has several candidates.
    fn sight(&self, read: u32, version: u32) -> Option<u32> {
        let first = Some(self.sights[read as usize]).filter(|&first| first != NONE)?;
        let place = self.known.problem.candidates(read).binary_search(&version).ok()?;
        Some(first + place as u32)
    }

    /// The version that a model says a read saw: the first of those that it says, or the only
    /// candidate.
    pub fn seen(&self, read: u32, value: impl Fn(u32) -> bool) -> Option<u32> {
        let candidates = self.known.problem.candidates(read);
        match (self.sights[read as usize], candidates) {
            (_, [only]) => Some(*only),
            (first, _) => (first..).zip(candidates).find(|&(var, _)| value(var)).map(|(_, &version)| version),
        }
    }

    /// One variable per transaction that need not have committed, with what follows if it did.
    fn open_commits(&mut self, sat: &mut impl Clauses) {
        let problem = self.known.problem;
        for txn in (0..problem.txns.len() as u32).filter(|&t| !problem.forced[t as usize]) {
            self.commits.insert(txn, sat.new_var(false));
        }
        let optional = self.commits.keys().copied();
        let reads = optional.flat_map(|txn| problem.txn_reads(txn)).filter_map(|read| {
            let writer = problem.versions[problem.seen(read)? as usize].txn;
            Some((problem.reads[read as usize].txn, writer))
        });
        for (a, b) in reads.chain(problem.needs.iter().copied()) {
            if let Some(&needed) = self.commits.get(&b) {
                let mut clause: Vec<Lit> = self.not_committed(a).into_iter().collect();
                clause.push(Lit::new(needed, true));
                sat.add(&clause);
            }
        }
    }

    /// *`txn` did not commit*, unless it must have.
    fn not_committed(&self, txn: u32) -> Option<Lit> {
        self.commits.get(&txn).map(|&var| Lit::new(var, false))
    }

    /// One variable per candidate of a read, of which at least one is true if the reader committed;
    /// who was seen committed.
    fn open(&mut self, read: u32, guess: u32, sat: &mut impl Clauses) {
        let problem = self.known.problem;
        let reader = problem.reads[read as usize].txn;
        let unread = self.not_committed(reader);
        let mut clause: Vec<Lit> = unread.into_iter().collect();
        for &version in problem.candidates(read) {
            let var = sat.new_var(version == guess);
            if self.sights[read as usize] == NONE {
                self.sights[read as usize] = var;
            }
            clause.push(Lit::new(var, true));
            let writer = problem.versions[version as usize].txn;
            if let Some(&commit) = self.commits.get(&writer) {
                let mut seen: Vec<Lit> = unread.into_iter().collect();
                seen.extend([Lit::new(var, false), Lit::new(commit, true)]);
                sat.add(&seen);
            } else if writer != INITIAL && problem.forced[reader as usize] {
                let edge = (self.known.points.commit(writer), self.known.node(read));
                self.attach(Lit::new(var, true), vec![(edge, CycleStep::Saw { read, version })], sat);
            }
        }
        sat.add(&clause);
    }

    fn attach(&mut self, lit: Lit, edges: Vec<((u32, u32), CycleStep)>, sat: &mut impl Clauses) {
        let (edges, steps): (Vec<_>, Vec<_>) = edges.into_iter().unzip();
        sat.attach(lit, &edges);
        self.steps.extend(steps);
    }

    /// The clause that a cycle means: not all that it assumes.
    pub fn negated(&mut self, cycle: &Steps, sat: &mut impl Clauses) -> Vec<Lit> {
        let mut clause: Vec<Lit> = Vec::new();
        for &(from, _, step) in cycle {
            self.assumptions(step, &mut clause, sat);
            clause.extend(self.known.txn(from).and_then(|txn| self.not_committed(txn)));
        }
        clause.sort_unstable();
        clause.dedup();
        clause
    }

    /// The negated assumptions of one step.
    fn assumptions(&mut self, step: CycleStep, clause: &mut Vec<Lit>, sat: &mut impl Clauses) {
        match step {
            CycleStep::Known(_) | CycleStep::Session => {}
            CycleStep::Fact { source, .. } => clause.extend(source.and_then(|txn| self.not_committed(txn))),
            CycleStep::Saw { read, version } => clause.extend(self.unseen(read, version)),
            CycleStep::Before { a, b } => clause.extend(self.order(a, b, sat).map(|lit| !lit)),
            CycleStep::Anti { read, a, b } => {
                clause.extend(self.unseen(read, a));
                clause.extend(self.order(a, b, sat).map(|lit| !lit));
                self.anti(read, a, b, sat);
            }
        }
    }

    /// *`read` did not see `version`*, unless it must have.
    fn unseen(&self, read: u32, version: u32) -> Option<Lit> {
        self.sight(read, version).map(|var| Lit::new(var, false))
    }

    /// *`a` is before `b`*, unless it must be.
    pub fn order(&mut self, a: u32, b: u32, sat: &mut impl Clauses) -> Option<Lit> {
        if self.is_forced(a, b) {
            return None;
        }
        let key = (a.min(b), a.max(b));
        if let Some(&var) = self.orders.get(&key) {
            return Some(Lit::new(var, a < b));
        }
        let commit = |v: u32| self.known.points.commit(self.known.problem.versions[v as usize].txn);
        let [first, second] = [key.0, key.1].map(commit);
        let var = sat.new_var(sat.is_before(first, second));
        self.orders.insert(key, var);
        for (a, b, value) in [(key.0, key.1, true), (key.1, key.0, false)] {
            let edges = self.edges(a, b);
            self.attach(Lit::new(var, value), edges, sat);
        }
        Some(Lit::new(var, a < b))
    }

    /// The edges that are there if `a` is before `b`.
    fn edges(&self, a: u32, b: u32) -> Vec<((u32, u32), CycleStep)> {
        let (problem, points) = (self.known.problem, self.known.points);
        let [ta, tb] = [a, b].map(|v| problem.versions[v as usize].txn);
        if !problem.forced[ta as usize] || !problem.forced[tb as usize] {
            return Vec::new();
        }
        let mut edges = vec![((points.commit(ta), points.after_earlier(tb)), CycleStep::Before { a, b })];
        for read in self.known.firm_readers(a) {
            if problem.reads[read as usize].txn != tb {
                edges.push(((self.known.node(read), points.commit(tb)), CycleStep::Anti { read, a, b }));
            }
        }
        edges
    }

    /// An open read that saw `a` comes before `b`, if `a` does; and so does a certain one, where
    /// neither a variable nor the known graph says so.
    pub fn anti(&mut self, read: u32, a: u32, b: u32, sat: &mut impl Clauses) {
        let (problem, points) = (self.known.problem, self.known.points);
        let [reader, later] = [problem.reads[read as usize].txn, problem.versions[b as usize].txn];
        let sure = [reader, later].iter().all(|&txn| problem.forced[txn as usize]);
        let order = self.order(a, b, sat);
        let unseen = self.unseen(read, a);
        let told = unseen.is_none() && (order.is_some() || !points.weak);
        if told || !sure || !problem.is_firm(read) || self.antis.contains_key(&(read, a, b)) {
            return;
        }
        let var = sat.new_var(false);
        self.antis.insert((read, a, b), var);
        let edge = (self.known.node(read), points.commit(later));
        self.attach(Lit::new(var, true), vec![(edge, CycleStep::Anti { read, a, b })], sat);
        let mut clause = vec![Lit::new(var, true)];
        clause.extend(unseen);
        clause.extend(order.map(|lit| !lit));
        sat.add(&clause);
    }

    /// Whether `a` must be before `b`: it is the initial version, or the known graph leads from one
    /// to the other.
    pub fn is_forced(&self, a: u32, b: u32) -> bool {
        let [ta, tb] = [a, b].map(|v| self.known.problem.versions[v as usize].txn);
        ta == INITIAL
            || self.facts.contains(&(a, b))
            || self.reach.reaches(self.known.points.after_earlier(ta), self.known.points.commit(tb))
    }

    /// The order that a step takes for granted because the known graph leads from one version to
    /// the other.
    pub fn rests_on(&self, step: CycleStep) -> Option<(u32, u32)> {
        let (CycleStep::Before { a, b } | CycleStep::Anti { a, b, .. }) = step else { return None };
        let written = self.known.problem.versions[a as usize].txn != INITIAL;
        (written && !self.facts.contains(&(a, b)) && self.is_forced(a, b)).then_some((a, b))
    }
}

/// The candidate of a read that is the likeliest: the last one that did not end after the reader,
/// else the first.
pub(crate) fn guess(known: &KnownGraph<'_>, read: u32) -> u32 {
    let problem = known.problem;
    let end = |txn: u32| problem.history.end(problem.txns[txn as usize]);
    let reader = end(problem.reads[read as usize].txn);
    let writer = |v: u32| problem.versions[v as usize].txn;
    let before = |&v: &u32| writer(v) == INITIAL || end(writer(v)) <= reader;
    let key = |&v: &u32| if writer(v) == INITIAL { None } else { end(writer(v)) };
    let candidates = problem.candidates(read);
    candidates.iter().copied().filter(before).max_by_key(key).unwrap_or(candidates[0])
}
