//! The search: a SAT solver chooses, the schedule answers with lemmas.
//!
//! # Problem
//! After saturation some orders of versions are open, and perhaps some reads may have seen several writers. Find choices under which the
//! schedule completes, or lemmas that leave none.
//!
//! # Algorithm
//! Lazy clause generation. The schedule runs with the present choices; a cycle of waits becomes a clause over the atoms *version `a` is before
//! version `b`* and *read `r` saw version `v`*. An atom exists only once a lemma has named it, so pairs of writers that never matter cost
//! nothing. The solver's next model changes some choices; the schedule undoes only what they touch, and goes on.
//!
//! # Invariants
//! A clause is the negation of assumptions that form a cycle, so no model of the history is ever excluded; each round excludes the present
//! choices, and there are finitely many.
//!
//! # Differs from the paper
//! [Vbox §4.6] and [Cobra §3.4] create all constraints first and solve with an acyclicity theory inside the solver.
//!
//! # Cost
//! One SAT call and the undone part of the schedule per round.

use std::rc::Rc;

use batsat::{BasicSolver, Lit, SolverInterface, Var, lbool};
use hashbrown::{HashMap, HashSet};
use margay_verdict::{Budget, Exhausted, Lemma};

use crate::known::{Known, Reach};
use crate::lemma::{Prover, Step, Steps};
use crate::problem::INITIAL;
use crate::schedule::{Choices, Schedule};

/// How many cycles are taken from one stuck schedule.
const CYCLES: usize = 8;

/// Up to how many lemmas a refutation is minimised.
const MINIMISE: usize = 48;

/// How the search ended.
pub(crate) enum Outcome {
    /// All points, in order.
    Order(Vec<u32>),
    /// Lemmas without a model, the shortest first.
    Refuted(Vec<Lemma>),
}

/// Searches; gives up after `rounds` rounds with `None`.
pub(crate) fn search(
    known: &Known<'_>,
    reach: &Reach,
    rounds: usize,
    budget: &Budget,
) -> Result<Option<Outcome>, Exhausted> {
    let mut search = Search::new(known, reach);
    let mut schedule = Schedule::new(known, search.choices());
    for _ in 0..rounds {
        budget.poll()?;
        if schedule.run() {
            return Ok(Some(Outcome::Order(std::mem::take(&mut schedule.log))));
        }
        let before = search.cycles.len();
        for cycle in schedule.cycles(CYCLES) {
            search.learn(cycle);
        }
        debug_assert!(search.cycles.len() > before, "a stuck schedule has a cycle of waits");
        if search.solver.solve_limited(&[]) == lbool::FALSE {
            return Ok(Some(Outcome::Refuted(search.refutation())));
        }
        schedule.change(search.choices());
    }
    Ok(None)
}

struct Search<'k> {
    known: &'k Known<'k>,
    reach: &'k Reach,
    solver: BasicSolver,
    /// `(earlier, later)` by number, to its variable.
    orders: HashMap<(u32, u32), Var>,
    /// `(read, version)` to its variable, for reads with several candidates.
    sights: HashMap<(u32, u32), Var>,
    /// For transactions that need not have committed: that it did.
    commits: HashMap<u32, Var>,
    /// Orders that evidence or a list tells.
    facts: HashSet<(u32, u32)>,
    /// Reads with several candidates.
    open_reads: Vec<u32>,
    cycles: Vec<Steps>,
    /// The present choices; they change only if some read is open.
    seen: Rc<Vec<u32>>,
    active: Rc<Vec<bool>>,
}

impl<'k> Search<'k> {
    fn new(known: &'k Known<'k>, reach: &'k Reach) -> Self {
        let reads = 0..known.problem.reads.len() as u32;
        let mut search = Self {
            known,
            reach,
            solver: BasicSolver::default(),
            orders: HashMap::new(),
            sights: HashMap::new(),
            commits: HashMap::new(),
            facts: known.problem.facts.iter().copied().collect(),
            open_reads: reads.filter(|&read| known.problem.candidates(read).len() > 1).collect(),
            cycles: Vec::new(),
            seen: Rc::default(),
            active: Rc::default(),
        };
        search.open_commits();
        for read in search.open_reads.clone() {
            search.open(read);
        }
        search
    }

    /// One variable per transaction that need not have committed, with what follows if it did.
    fn open_commits(&mut self) {
        let problem = self.known.problem;
        for txn in (0..problem.txns.len() as u32).filter(|&t| !problem.forced[t as usize]) {
            let var = self.solver.new_var(preferred(false), true);
            self.commits.insert(txn, var);
        }
        let optional = self.commits.keys().copied();
        let reads = optional.flat_map(|txn| problem.txn_reads(txn)).filter_map(|read| {
            let writer = problem.versions[problem.seen(read)? as usize].txn;
            Some((problem.reads[read as usize].txn, writer))
        });
        let implied: Vec<(u32, u32)> = reads.chain(problem.needs.iter().copied()).collect();
        for (a, b) in implied {
            let clause =
                self.not_committed(a).into_iter().chain(self.commits.get(&b).map(|&var| Lit::new(var, true)));
            let mut clause: Vec<Lit> = clause.collect();
            if self.commits.contains_key(&b) {
                self.solver.add_clause_reuse(&mut clause);
            }
        }
    }

    /// *`txn` did not commit*, unless it must have.
    fn not_committed(&self, txn: u32) -> Option<Lit> {
        self.commits.get(&txn).map(|&var| Lit::new(var, false))
    }

    /// One variable per candidate of a read, of which at least one is true if the reader committed; who was seen committed.
    fn open(&mut self, read: u32) {
        let guess = self.guess(read);
        let reader = self.not_committed(self.known.problem.reads[read as usize].txn);
        let mut clause: Vec<Lit> = reader.into_iter().collect();
        for &version in self.known.problem.candidates(read) {
            let var = self.solver.new_var(preferred(version == guess), true);
            self.sights.insert((read, version), var);
            clause.push(Lit::new(var, true));
            let writer = self.known.problem.versions[version as usize].txn;
            if let Some(&commit) = self.commits.get(&writer) {
                let mut seen: Vec<Lit> = reader.into_iter().collect();
                seen.extend([Lit::new(var, false), Lit::new(commit, true)]);
                self.solver.add_clause_reuse(&mut seen);
            }
        }
        self.solver.add_clause_reuse(&mut clause);
    }

    /// The candidate that is the likeliest: the last one that did not end after the reader, else the first.
    fn guess(&self, read: u32) -> u32 {
        let problem = self.known.problem;
        let end = |txn: u32| problem.history.end(problem.txns[txn as usize]);
        let reader = end(problem.reads[read as usize].txn);
        let writer = |v: u32| problem.versions[v as usize].txn;
        let before = |&v: &u32| writer(v) == INITIAL || end(writer(v)) <= reader;
        let key = |&v: &u32| if writer(v) == INITIAL { None } else { end(writer(v)) };
        let candidates = problem.candidates(read);
        candidates.iter().copied().filter(before).max_by_key(key).unwrap_or(candidates[0])
    }

    /// What the solver's present model says, or the guesses before the first call.
    fn choices(&mut self) -> Choices {
        if self.seen.is_empty() || !self.open_reads.is_empty() {
            let reads = 0..self.known.problem.reads.len() as u32;
            self.seen = Rc::new(reads.map(|read| self.seen(read)).collect());
            self.active = Rc::new(self.active(&self.seen));
        }
        let orders =
            self.orders.iter().map(|(&(a, b), &var)| if self.is_true(var) { (a, b) } else { (b, a) });
        let mut orders: Vec<_> = orders.collect();
        orders.sort_unstable();
        Choices { seen: self.seen.clone(), active: self.active.clone(), orders }
    }

    fn seen(&self, read: u32) -> u32 {
        let candidates = self.known.problem.candidates(read);
        if candidates.len() == 1 {
            return candidates[0];
        }
        let chosen = candidates.iter().copied().find(|&v| self.is_true(self.sights[&(read, v)]));
        chosen.unwrap_or_else(|| self.guess(read))
    }

    fn is_true(&self, var: Var) -> bool {
        let model = self.solver.get_model();
        model.get(var.idx() as usize) == Some(&lbool::TRUE)
    }

    /// Those that must have committed, and those that somebody is taken to have seen.
    fn active(&self, seen: &[u32]) -> Vec<bool> {
        let problem = self.known.problem;
        let mut active = problem.forced.clone();
        let mut open: Vec<u32> = (0..active.len() as u32).filter(|&t| active[t as usize]).collect();
        if open.len() == active.len() {
            return active;
        }
        while let Some(txn) = open.pop() {
            for &(_, needed) in problem.needs.iter().filter(|&&(a, _)| a == txn) {
                if !std::mem::replace(&mut active[needed as usize], true) {
                    open.push(needed);
                }
            }
            for read in problem.txn_reads(txn) {
                let writer = problem.versions[seen[read as usize] as usize].txn;
                if writer != INITIAL && !std::mem::replace(&mut active[writer as usize], true) {
                    open.push(writer);
                }
            }
        }
        active
    }

    fn learn(&mut self, cycle: Steps) {
        let mut clause: Vec<Lit> = Vec::new();
        let txns = self.known.points.count(self.known.problem.txns.len()) as u32;
        for &(from, _, step) in &cycle {
            self.assumptions(step, &mut clause);
            if from < txns {
                clause.extend(self.not_committed(self.known.points.txn(from)));
            }
        }
        clause.sort_unstable();
        clause.dedup();
        self.solver.add_clause_reuse(&mut clause);
        self.cycles.push(cycle);
    }

    /// The negated assumptions of one step.
    fn assumptions(&mut self, step: Step, clause: &mut Vec<Lit>) {
        match step {
            Step::Known(_) | Step::Session | Step::Fact { .. } => {}
            Step::Saw { read, version } => clause.extend(self.sight(read, version)),
            Step::Before { a, b } => clause.extend(self.order(a, b)),
            Step::Anti { read, a, b } => {
                clause.extend(self.sight(read, a));
                clause.extend(self.order(a, b));
            }
        }
    }

    /// *`read` did not see `version`*, unless it must have.
    fn sight(&self, read: u32, version: u32) -> Option<Lit> {
        self.sights.get(&(read, version)).map(|&var| Lit::new(var, false))
    }

    /// *`a` is not before `b`*, unless it must be.
    fn order(&mut self, a: u32, b: u32) -> Option<Lit> {
        if self.is_forced(a, b) {
            return None;
        }
        let key = (a.min(b), a.max(b));
        let solver = &mut self.solver;
        let var = *self.orders.entry(key).or_insert_with(|| solver.new_var(preferred(a < b), true));
        Some(Lit::new(var, a > b))
    }

    /// Whether `a` must be before `b`: it is the initial version, or the known graph leads from one to the other.
    fn is_forced(&self, a: u32, b: u32) -> bool {
        let [ta, tb] = [a, b].map(|v| self.known.problem.versions[v as usize].txn);
        ta == INITIAL
            || self.facts.contains(&(a, b))
            || self.reach.reaches(self.known.points.begin(ta), self.known.points.commit(tb))
    }

    /// The lemmas of all cycles that are needed, with what they rest on.
    fn refutation(&self) -> Vec<Lemma> {
        let mut cycles = self.needed();
        cycles.sort_by_key(Vec::len);
        let mut prover = Prover::new(self.known);
        for cycle in &cycles {
            let forced: Vec<(u32, u32)> =
                cycle.iter().filter_map(|&(_, _, step)| self.rests_on(step)).collect();
            prover.add(cycle, &forced);
        }
        prover.finish()
    }

    fn rests_on(&self, step: Step) -> Option<(u32, u32)> {
        let (Step::Before { a, b } | Step::Anti { a, b, .. }) = step else { return None };
        let written = self.known.problem.versions[a as usize].txn != INITIAL;
        (written && !self.facts.contains(&(a, b)) && self.is_forced(a, b)).then_some((a, b))
    }

    /// A subset of the cycles that is still unsatisfiable, smaller if that is cheap to find.
    fn needed(&self) -> Vec<Steps> {
        let mut kept = self.cycles.clone();
        if kept.len() > MINIMISE {
            return kept;
        }
        let mut place = kept.len();
        while place > 0 {
            place -= 1;
            let cycle = kept.remove(place);
            if self.satisfiable(&kept) {
                kept.insert(place, cycle);
            }
        }
        kept
    }

    fn satisfiable(&self, cycles: &[Steps]) -> bool {
        let mut other = Search::new(self.known, self.reach);
        cycles.iter().for_each(|cycle| other.learn(cycle.clone()));
        other.solver.solve_limited(&[]) != lbool::FALSE
    }
}

/// The solver tries this value first.
fn preferred(value: bool) -> lbool {
    if value { lbool::TRUE } else { lbool::FALSE }
}

/// The steps of a cycle of the known graph.
pub(crate) fn known_steps(cycle: Vec<(u32, u32, u32)>) -> Steps {
    cycle.into_iter().map(|(from, to, label)| (from, to, Step::Known(label))).collect()
}
