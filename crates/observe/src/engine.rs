//! The engine: wider limits until there is an answer.

use margay_audit::{audit_alone_within, with_included};
use margay_executions::{Answer, Constraints, Family, Rules, exhaust, unknowns};
use margay_history::{History, OpId, TxnId};
use margay_levels::Anomaly;
use margay_verdict::execution::{Execution, Initial, Misrun, Unexplained};
use margay_verdict::{Budget, Certificate, Checker, Finding, Outside, Question, Verdict, Why};

use crate::formula::Formula;
use crate::invariant;
use crate::learn::{self, Learned};
use crate::notes;
use crate::options::Options;
use crate::parts;
use crate::search::{FEW_EACH, Found, GLANCE_EACH, Limits, MANY_EACH, Misfit, Search};
use crate::smt::{self, Said, Solver};
use crate::unknown::Wrong;

/// The engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observe {
    /// What it may do.
    pub options: Options,
}

impl Observe {
    /// With the default options.
    pub const DEFAULT: Observe = Observe { options: Options::DEFAULT };

    /// Answers only what it sees at first sight, in linear time.
    pub const QUICK: Observe = Observe { options: Options { quick: true, ..Options::DEFAULT } };

    /// Looks for an execution with these initial values, within wider and wider limits.
    fn find(
        &self,
        asked: &Asked<'_, '_>,
        initial: &[Initial],
        budget: &Budget,
    ) -> Result<(Found, Limits), Outside> {
        let history = asked.history;
        let mut limits = self.first_limits(history);
        loop {
            let mut search = asked.search(self.options, limits, initial)?;
            match search.run(budget) {
                Found::Cut(_) if limits != Limits::NONE => limits = wider(limits, history.txn_count()),
                found => return Ok((found, limits)),
            }
        }
    }

    pub(crate) fn first_limits(&self, history: &History) -> Limits {
        let width = history.session_count().clamp(16, 256);
        Limits { window: self.options.window, patience: 64, width }
    }

    fn answer(
        &self,
        history: &History,
        question: Question,
        rules: Rules,
        budget: &Budget,
    ) -> Result<Verdict, Outside> {
        let constraints = Constraints::new(history, rules);
        let asked = Asked { history, question, rules, constraints: &constraints };
        let initial = unknowns(history)?;
        if !initial.is_empty() {
            return match self.by_invariants(&asked, None, budget) {
                Some(verdict) => Ok(verdict),
                None => self.guess(&asked, initial, budget),
            };
        }
        if let Some(verdict) = self.at_first_sight(&asked, budget)? {
            return Ok(verdict);
        }
        if self.options.quick {
            return Ok(Verdict::Unknown(Why::Outside("what is not seen at first sight".to_owned())));
        }
        if let Some(verdict) = self.in_real_time(&asked, budget)? {
            return Ok(verdict);
        }
        if let Some(verdict) = self.shortly(&asked, budget)? {
            return Ok(verdict);
        }
        let (found, limits) = self.find(&asked, &[], budget)?;
        match found {
            Found::Refuted(Some(misfit)) => {
                self.violated(&asked, limits, misfit, Vec::new(), budget).map(Verdict::Violated)
            }
            Found::Refuted(None) => Ok(self.unordered(history, &constraints)),
            other => asked.settled(other),
        }
    }

    /// A short search finds what comes in about the order of commits. Where it finds nothing,
    /// invariants may refute the log, a part of it may be wrong for itself, and learning may tell:
    /// `None` if nothing of that helps.
    fn shortly(&self, asked: &Asked<'_, '_>, budget: &Budget) -> Result<Option<Verdict>, Outside> {
        let Asked { history, question, rules, .. } = *asked;
        let parts = self.options.parts && history.txn_count() > MAX_WHOLE_TXNS;
        let lemmas = self.options.lemmas > 0 && learn::is_small(history, rules);
        if !parts && !lemmas && !self.options.invariants {
            return Ok(None);
        }
        if let Some(verdict) = self.glance(asked, budget)? {
            return Ok(Some(verdict));
        }
        let mut search = asked.search(self.short(), self.first_limits(history), &[])?;
        search.each = FEW_EACH;
        let misfit = match search.run(budget) {
            Found::Execution(execution) => {
                return Ok(Some(Verdict::Holds(Certificate::Execution(execution))));
            }
            Found::Cut(misfit) | Found::Refuted(misfit) => misfit,
            _ => None,
        };
        if let Some(verdict) = self.by_invariants(asked, misfit, budget) {
            return Ok(Some(verdict));
        }
        let verdict = match misfit.filter(|_| parts) {
            Some(misfit) => parts::refuted(self.options, (history, question, rules), misfit, budget)?,
            None => None,
        };
        match verdict {
            None if lemmas => self.learned(asked, budget),
            verdict => Ok(verdict),
        }
    }

    /// A search of very few steps explains most right logs. What waits in vain in a wrong one is
    /// mostly what is wrong: invariants are asked about that alone. If they allow it, it may have
    /// seen a much older state.
    fn glance(&self, asked: &Asked<'_, '_>, budget: &Budget) -> Result<Option<Verdict>, Outside> {
        let Asked { history, constraints, .. } = *asked;
        if !self.options.invariants || history.txn_count() <= MAX_WHOLE_TXNS {
            return Ok(None);
        }
        let first = self.first_limits(history);
        let all = first.window.filter(|_| history.txn_count() <= ALL_STATES_UP_TO);
        let few = Options { steps: self.options.steps.min(GLANCE), ..self.options };
        for limits in [Some(first), all.map(|_| Limits { window: None, ..first })].into_iter().flatten() {
            let mut search = asked.search(few, limits, &[])?;
            (search.each, search.most_for_one, search.impatient) = (GLANCE_EACH, GLANCE, true);
            match search.run(budget) {
                Found::Execution(execution) => {
                    return Ok(Some(Verdict::Holds(Certificate::Execution(execution))));
                }
                Found::Cut(_) | Found::Refuted(_) if limits.window == first.window => {}
                _ => return Ok(None),
            }
            let refuted = |txn| invariant::refuted(history, constraints, Some(txn), budget).ok().flatten();
            if let Some(verdict) = search.suspects().into_iter().find_map(refuted) {
                return Ok(Some(verdict));
            }
        }
        Ok(None)
    }

    /// The answer of invariants, if they have one: first where the search got stuck, then anywhere.
    /// What is outside the fragment for them is left to the others.
    fn by_invariants(
        &self,
        asked: &Asked<'_, '_>,
        misfit: Option<Misfit>,
        budget: &Budget,
    ) -> Option<Verdict> {
        if !self.options.invariants {
            return None;
        }
        let refuted = |own| invariant::refuted(asked.history, asked.constraints, own, budget).ok().flatten();
        misfit.and_then(|misfit| refuted(Some(misfit.txn))).or_else(|| refuted(None))
    }

    /// The options of a short search.
    pub(crate) fn short(&self) -> Options {
        Options { steps: self.options.steps.min(SHORT), ..self.options }
    }

    /// The answer to a question about a history that is asked for itself.
    pub(crate) fn answer_to(
        &self,
        history: &History,
        question: Question,
        budget: &Budget,
    ) -> Result<Verdict, Outside> {
        match Rules::of(question, self.options.reading) {
            Some(rules) => self.answer(history, question, rules, budget),
            None => Err(Outside(question.level.name().to_owned())),
        }
    }

    /// Tries everything for a short while, then learns: `None` if that does not help.
    fn learned(&self, asked: &Asked<'_, '_>, budget: &Budget) -> Result<Option<Verdict>, Outside> {
        let Asked { history, rules, constraints, .. } = *asked;
        let (limits, short) = (Limits::NONE, self.short());
        let mut search = asked.search(short, limits, &[])?;
        search.each = FEW_EACH;
        match search.run(budget) {
            Found::Cut(misfit) => match learn::learn(history, rules, constraints, self.options, budget)? {
                Learned::Execution(execution) => Ok(Some(Verdict::Holds(Certificate::Execution(execution)))),
                Learned::Refuted(lemmas, other) => match misfit.or(other) {
                    Some(misfit) => {
                        let short = Observe { options: short };
                        let findings = short.violated(asked, limits, misfit, lemmas, budget)?;
                        Ok(Some(Verdict::Violated(findings)))
                    }
                    None => Ok(None),
                },
                Learned::Exhausted(exhausted) => asked.settled(Found::Exhausted(exhausted, 0)).map(Some),
                Learned::Nothing => Ok(self.by_formula(asked, misfit, budget)),
            },
            Found::Execution(execution) => Ok(Some(Verdict::Holds(Certificate::Execution(execution)))),
            Found::Refuted(Some(misfit)) => {
                let lemmas = match learn::learn(history, rules, constraints, self.options, budget)? {
                    Learned::Refuted(lemmas, _) => lemmas,
                    // What the audit can try one after the other needs no other proof.
                    _ if exhaust(history, rules, None, AUDITED_STATEMENTS, budget)? == Answer::Refuted => {
                        Vec::new()
                    }
                    _ => match self.by_formula(asked, Some(misfit), budget) {
                        Some(verdict) => return Ok(Some(verdict)),
                        None => Vec::new(),
                    },
                };
                let short = Observe { options: short };
                short
                    .violated(asked, limits, misfit, lemmas, budget)
                    .map(|found| Some(Verdict::Violated(found)))
            }
            _ => Ok(None),
        }
    }

    /// The answer of the log's formula, if it has one.
    fn by_formula(&self, asked: &Asked<'_, '_>, misfit: Option<Misfit>, budget: &Budget) -> Option<Verdict> {
        let txns = asked.constraints.preferred();
        let op = misfit.map_or_else(|| OpId(asked.history.op_range(txns[0]).start), |misfit| misfit.op);
        Formula { asked, txns, op, budget }.answer(self.options).ok().flatten()
    }

    /// Asks a solver. What it says counts as far as the audit can follow.
    fn ask(
        &self,
        solver: Solver,
        history: &History,
        question: Question,
        budget: &Budget,
    ) -> Result<Verdict, Outside> {
        let Some(rules) = Rules::of(question, self.options.reading) else {
            return Ok(Verdict::Unknown(Why::Level(question.level.name().to_owned())));
        };
        let name = solver.name();
        match smt::ask(history, rules, solver, budget)? {
            Said::Execution(execution) => {
                let certificate = Certificate::Execution(execution);
                Ok(match audit_alone_within(history, question, &certificate, budget) {
                    Ok(()) => Verdict::Holds(certificate),
                    Err(rejected) => Verdict::Unknown(Why::Outside(format!(
                        "{name} found an execution that the interpreter does not confirm: {rejected}"
                    ))),
                })
            }
            Said::None => self.denied(name, history, (question, rules), budget),
            Said::Unknown(why) => Ok(Verdict::Unknown(match budget.poll() {
                Err(exhausted) => Why::Exhausted(exhausted, why),
                Ok(()) => Why::Outside(format!("{why} whether there is an execution")),
            })),
        }
    }

    /// A solver says that nothing explains what was observed: the search has to find what the audit
    /// can confirm.
    fn denied(
        &self,
        name: &str,
        history: &History,
        (question, rules): (Question, Rules),
        budget: &Budget,
    ) -> Result<Verdict, Outside> {
        Ok(match self.answer(history, question, rules, budget)? {
            Verdict::Unknown(why) => Verdict::Unknown(Why::Outside(format!(
                "{name} says that nothing explains what was observed, and nothing certifies it: {why}"
            ))),
            Verdict::Holds(_) => Verdict::Unknown(Why::Rejected(format!(
                "{name} says that there is no execution, but there is one"
            ))),
            confirmed => confirmed,
        })
    }

    /// Initial values that are not known: corrected by what results show, or unknowns of a formula.
    fn guess(
        &self,
        asked: &Asked<'_, '_>,
        initial: Vec<Initial>,
        budget: &Budget,
    ) -> Result<Verdict, Outside> {
        let short = Observe { options: self.short() };
        let first = if learn::is_small(asked.history, asked.rules) { &short } else { self };
        let stuck = match first.corrected(asked, initial.clone(), budget)? {
            Ok(verdict) => return Ok(verdict),
            Err(stuck) => stuck,
        };
        let closed = asked.constraints.closes(&stuck.txns);
        let txns = if closed { &stuck.txns } else { asked.constraints.preferred() };
        let formula = Formula { asked, txns, op: stuck.misfit.op, budget };
        let why = match formula.answer(self.options) {
            Ok(Some(verdict)) => return Ok(verdict),
            Ok(None) => "neither does the formula of the log within its limits".to_owned(),
            Err(outside) => format!("and the log has no formula: {outside}"),
        };
        if learn::is_small(asked.history, asked.rules)
            && let Ok(verdict) = self.corrected(asked, initial, budget)?
        {
            return Ok(verdict);
        }
        // What is known of some rows may be wrong whatever the others were.
        let Asked { history, question, rules, .. } = *asked;
        if self.options.parts
            && let Some(verdict) =
                parts::refuted(self.options, (history, question, rules), stuck.misfit, budget)?
        {
            return Ok(verdict);
        }
        let txn = history.show_txn(stuck.misfit.txn);
        let what = format!(
            "initial values that are not known, and that what {txn} observed does not reveal; {why} (an SMT solver may find them: --backend smt)"
        );
        Ok(Verdict::Unknown(Why::MissingEvidence(what)))
    }

    /// Corrects initial values that are not known until everything fits, or nothing helps.
    fn corrected(
        &self,
        asked: &Asked<'_, '_>,
        mut initial: Vec<Initial>,
        budget: &Budget,
    ) -> Result<Result<Verdict, Stuck>, Outside> {
        let (mut found, mut limits) = self.find(asked, &initial, budget)?;
        loop {
            let misfit = match found {
                Found::Refuted(Some(misfit)) | Found::Cut(Some(misfit)) => misfit,
                other => return asked.settled(other).map(Ok),
            };
            let (wrong, txns) = self.wrong(asked, (&initial, limits), misfit, budget)?;
            let mut best = None;
            for (at, value) in wrong.corrections(&initial) {
                let mut next = initial.clone();
                next[at].value = value;
                let (result, wide) = self.find(asked, &next, budget)?;
                let reached = match &result {
                    Found::Refuted(Some(next)) | Found::Cut(Some(next)) => (next.place, next.op),
                    Found::Execution(_) => (u32::MAX, misfit.op),
                    _ => continue,
                };
                let here = (misfit.place, misfit.op);
                let fewer = || {
                    let (next, _) = self.wrong(asked, (&next, wide), misfit, budget)?;
                    Ok(next.count < wrong.count)
                };
                if reached > here || reached == here && fewer()? {
                    best = Some((next, result, wide));
                    break;
                }
            }
            let Some((next, result, wide)) = best else { return Ok(Err(Stuck { txns, misfit })) };
            (initial, found, limits) = (next, result, wide);
        }
    }

    /// What is wrong at a misfit with these initial values, and the transactions up to there.
    fn wrong(
        &self,
        asked: &Asked<'_, '_>,
        (initial, limits): (&[Initial], Limits),
        misfit: Misfit,
        budget: &Budget,
    ) -> Result<(Wrong, Vec<TxnId>), Outside> {
        let mut search = asked.search(self.options, limits, initial)?;
        search.stop = Some(misfit);
        let _ = search.run(budget);
        let txns = search.order().iter().copied().chain([misfit.txn]).collect();
        Ok((Wrong::at(search.machine(), misfit, initial)?, txns))
    }

    /// No order is allowed at all.
    fn unordered(&self, history: &History, constraints: &Constraints<'_>) -> Verdict {
        let txns = constraints.preferred().to_vec();
        let Some(op) = txns.first().map(|&txn| OpId(history.op_range(txn).start)) else {
            return Verdict::Holds(Certificate::Execution(Execution::default()));
        };
        let notes = vec![
            "Timestamps, sessions and real time, as far as the level counts them, contradict each other."
                .into(),
        ];
        let (reading, lemmas, clashes) = (self.options.reading, Vec::new(), None);
        let unexplained = Unexplained { reading, rows: None, txns: txns.clone(), op, lemmas, clashes, notes };
        let certificate = Certificate::Unexplained(unexplained);
        Verdict::Violated(vec![Finding { anomaly: Anomaly::ResultMismatch, txns, certificate }])
    }

    /// The finding, with what the statement gives on the states that it can have seen.
    fn violated(
        &self,
        asked: &Asked<'_, '_>,
        limits: Limits,
        misfit: Misfit,
        lemmas: Vec<Misrun>,
        budget: &Budget,
    ) -> Result<Vec<Finding>, Outside> {
        let Asked { rules, constraints, .. } = *asked;
        let mut search = asked.search(self.options, limits, &[])?;
        search.stop = Some(misfit);
        search.each = if lemmas.is_empty() { MANY_EACH } else { FEW_EACH };
        let _ = search.run(budget);
        let prefix: Vec<TxnId> = search.order().iter().copied().chain([misfit.txn]).collect();
        let told = notes::tell(search.machine(), rules, misfit)?;
        let txns = if constraints.closes(&prefix) { prefix } else { constraints.preferred().to_vec() };
        let anomaly = if told.is_semantic { Anomaly::ResultMismatch } else { isolation(rules) };
        let certificate = Certificate::Unexplained(Unexplained {
            reading: self.options.reading,
            rows: None,
            txns,
            op: misfit.op,
            lemmas,
            clashes: None,
            notes: told.lines,
        });
        Ok(vec![Finding { anomaly, txns: told.txns, certificate }])
    }
}

/// The most transactions of a log that needs no parts: learning about all of them is quick.
pub(crate) const MAX_WHOLE_TXNS: usize = 24;

/// How many statements a search executes, beyond a few for each operation, before learning is
/// tried.
const SHORT: u64 = 20_000;

/// Up to so many transactions a glance keeps all states: what is wrong in one order may be right in
/// a much older state.
const ALL_STATES_UP_TO: usize = 20_000;

/// How many statements a glance executes, beyond a few for each operation.
pub(crate) const GLANCE: u64 = 1_000;

/// How many statements are executed to see whether the audit can try everything.
const AUDITED_STATEMENTS: u64 = 200_000;

/// Where initial values could not be corrected any more: the transactions up to there, and the
/// misfit.
struct Stuck {
    txns: Vec<TxnId>,
    misfit: Misfit,
}

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'c, 'h> {
    pub history: &'h History,
    pub question: Question,
    pub rules: Rules,
    pub constraints: &'c Constraints<'h>,
}

impl<'c, 'h> Asked<'c, 'h> {
    pub(crate) fn search(
        &self,
        options: Options,
        limits: Limits,
        initial: &[Initial],
    ) -> Result<Search<'c, 'h>, Outside> {
        Search::new(self.history, self.rules, self.constraints, options, limits, initial)
    }

    /// The answer by an execution, which may follow stricter rules than those that are asked for.
    pub(crate) fn holds(&self, execution: Execution) -> Verdict {
        Verdict::Holds(Certificate::Execution(Execution { reading: self.rules.reading(), ..execution }))
    }

    /// The answer, where nothing is refuted.
    fn settled(&self, found: Found) -> Result<Verdict, Outside> {
        Ok(match found {
            Found::Execution(execution) => Verdict::Holds(Certificate::Execution(execution)),
            Found::Outside(outside) => return Err(outside),
            Found::Exhausted(exhausted, done) => {
                let all = self.constraints.preferred().len();
                Verdict::Unknown(Why::Exhausted(exhausted, format!("{done} of {all} transactions explained")))
            }
            Found::Cut(misfit) | Found::Refuted(misfit) => Verdict::Unknown(too_many(self.history, misfit)),
            Found::Reached => Verdict::Unknown(too_many(self.history, None)),
        })
    }
}

/// Wider limits: at last none.
fn wider(limits: Limits, transactions: usize) -> Limits {
    let window = limits
        .window
        .map(|window| window.saturating_mul(16))
        .filter(|&window| (window as usize) < transactions);
    let patience = limits.patience.saturating_mul(16);
    if window.is_none() && patience as usize >= transactions {
        return Limits::NONE;
    }
    Limits { window, patience, width: limits.width.saturating_mul(4).min(Limits::NONE.width) }
}

fn too_many(history: &History, misfit: Option<Misfit>) -> Why {
    let at = misfit.map_or(String::new(), |misfit| {
        format!("; what {} observed fits nothing that was tried", history.show_txn(misfit.txn))
    });
    Why::Outside(format!("a log with more orders, or more mixtures of versions, than can be tried{at}"))
}

/// The name for a result that only a forbidden choice explains.
pub(crate) fn isolation(rules: Rules) -> Anomaly {
    match rules.family {
        Family::Serial => Anomaly::Pl3CycleExists,
        Family::Snapshot => Anomaly::PlSiCycleExists,
        Family::Repeatable => Anomaly::Pl299CycleExists,
        Family::Committed(_) => Anomaly::Pl2CycleExists,
    }
}

impl Checker for Observe {
    fn name(&self) -> &'static str {
        "observe"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        with_included(history, question, budget, |question| self.decide(history, question, budget))
    }
}

impl Observe {
    fn decide(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        let Some(rules) = Rules::of(question, self.options.reading) else {
            return Verdict::Unknown(Why::Level(format!(
                "observe does not decide {}",
                question.level.name()
            )));
        };
        let evidence = history.evidence();
        if !evidence.version_orders.is_empty() || !evidence.version_sets.is_empty() {
            let what = "version orders or version sets of SQL statements".to_owned();
            return Verdict::Unknown(Why::Outside(what));
        }
        let answer = match self.options.backend.solver() {
            Err(missing) => return Verdict::Unknown(Why::Program(missing)),
            Ok(None) => self.answer(history, question, rules, budget),
            Ok(Some(solver)) => self.ask(solver, history, question, budget),
        };
        let verdict = answer.unwrap_or_else(|outside| Verdict::Unknown(Why::Outside(outside.to_string())));
        // The search does not compare the instants of two snapshots with each other.
        if let (true, Verdict::Holds(proof)) = (rules.instants, &verdict)
            && let Err(rejected) = audit_alone_within(history, question, proof, budget)
        {
            let what =
                format!("instants: the snapshots that were found do not follow each other: {rejected}");
            return Verdict::Unknown(Why::Outside(what));
        }
        match (verdict, budget.poll()) {
            // A statement that was stopped is none outside the fragment.
            (Verdict::Unknown(Why::Outside(_)), Err(exhausted)) => {
                Verdict::Unknown(Why::Exhausted(exhausted, String::new()))
            }
            (verdict, _) => verdict,
        }
    }
}
