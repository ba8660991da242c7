//! Engine **infer**: dependencies from what reads show, and the weak levels.
//!
//! # Problem
//! Where every read tells whose version it saw, most of what happened can be inferred instead of
//! searched: lists show the order of their versions (Elle's domain), and at the weak levels the
//! version order follows from the reads (AWDIT's domain). Decide, prove, and name what is wrong.
//!
//! # Algorithm
//! 1. `index`, `visit`, `scans`, `lists`, `registers`: who wrote what, what each read saw, which
//!    versions certainly precede which; what nothing explains. Together they are a `case`.
//! 2. `deps`: dependencies and the orders that the question uses, as a graph of transactions or of
//!    begin and commit points.
//! 3. `weak`: the axioms of `be-read-committed`, `read-atomic` and `causal` as more edges.
//! 4. A graph without a cycle gives the certificate of `holds` (`order`): at every level if the
//!    version order is known, at the weak levels always.
//! 5. `cycles`, `lost`, `repeat`, `proof`: cycles by kind, lost updates, reads that differ from an
//!    earlier one, and their certificates.
//!
//! # Invariants
//! `violated` rests on certain dependencies only, and every finding has passed the audit. `holds`
//! is said only if nothing was left out.
//!
//! # Differs from the papers
//! Unknown transactions that were seen count as committed. Versions of registers are ordered only
//! by what must be so (the initial version is first; who reads before it writes comes later;
//! session order and real time, where the question has them: `keys`).
//!
//! # When it answers Unknown
//! Predicate updates, SQL, rows written in part, and evidence other than version orders; elements
//! appended twice; if no violation shows without them: values that several wrote, and scans that
//! may have seen one of several versions; above the weak levels, registers whose version order the
//! reads do not tell. Under `auto` the next engine takes over.

mod ambiguity;
mod bank;
mod case;
mod cycles;
mod deps;
mod fragment;
mod index;
mod keys;
mod linear;
mod lists;
mod lost;
mod order;
mod proof;
mod registers;
mod repeat;
mod scans;
mod uncommitted;
mod visit;
mod weak;
mod writers;

use hashbrown::HashMap;
use margay_audit::without_instants;
use margay_history::{History, VersionOrder};
use margay_levels::definition::{Axiom, Family};
use margay_levels::{Anomaly, Level};
use margay_verdict::{Budget, Checker, Exhausted, Finding, Question, Verdict, Why};

pub use crate::ambiguity::{Ambiguity, ambiguities};
use crate::case::{Case, Stop};
use crate::deps::{Deps, Layout};
use crate::proof::Prover;

/// How many findings are reported.
const FINDINGS: usize = 16;

/// How many of one name.
const OF_ONE_NAME: usize = 3;

/// The engine, and what it takes the order of registers' versions from: Elle's options, but that
/// none of them assumes more than the question does.
#[derive(Clone, Copy, Debug)]
pub struct Infer {
    /// Who reads a register and then writes it made the later version.
    pub write_follows_read: bool,
    /// Versions of a register follow session order, where the question has it.
    pub sequential_keys: bool,
    /// Versions of a register follow real time, where the question has it.
    pub linearizable_keys: bool,
}

impl Infer {
    /// Everything that is certain counts.
    pub const DEFAULT: Infer =
        Infer { write_follows_read: true, sequential_keys: true, linearizable_keys: true };
}

impl Default for Infer {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Checker for Infer {
    fn name(&self) -> &'static str {
        "infer"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        without_instants(history, question, budget, |question| self.answer(history, question, budget))
    }
}

impl Infer {
    fn answer(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        let exhausted = |limit| {
            let size = format!("{} transactions, {} operations", history.txn_count(), history.op_count());
            Verdict::Unknown(Why::Exhausted(limit, size))
        };
        if let Some(verdict) = bank::decide(history, question, budget) {
            return budget.poll().map_or_else(exhausted, |()| verdict);
        }
        match Case::new(history, question, self, budget) {
            Ok(case) => decide(&case, budget).unwrap_or_else(exhausted),
            Err(Stop::Limit(limit)) => exhausted(limit),
            Err(Stop::Outside(what)) => Verdict::Unknown(Why::Outside(what)),
        }
    }
}

/// What to take for granted of a database's registers, beside what the question says: Elle's
/// options for them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Assume {
    /// Versions of each register follow session order.
    pub sequential_keys: bool,
    /// Versions of each register follow real time.
    pub linearizable_keys: bool,
}

/// The version orders that follow if that is so, two versions each: evidence for any engine.
///
/// # Errors
/// What of the history is outside the engine's fragment.
pub fn assumed(history: &History, assume: Assume) -> Result<Vec<VersionOrder>, String> {
    let orders = keys::Orders { session: assume.sequential_keys, time: assume.linearizable_keys };
    let question = Question::new(Level::ReadCommitted);
    match Case::new(history, question, &Infer::DEFAULT, &Budget::unlimited()) {
        Ok(case) => Ok(keys::pairs(&case, orders).iter().map(keys::Pair::order).collect()),
        Err(Stop::Outside(what)) => Err(what),
        Err(Stop::Limit(limit)) => Err(limit.to_string()),
    }
}

fn decide(case: &Case<'_>, budget: &Budget) -> Result<Verdict, Exhausted> {
    let mut prover = Prover::new(case);
    let mut findings: Vec<Finding> =
        lists::few(case.local.clone()).iter().filter_map(|local| prover.local(local)).collect();
    let level = case.question.level;
    let mut deps = dependencies(case);
    let mut unshown = false;
    if let Family::CommitOrder(axiom) = level.family()
        && axiom != Axiom::Prefix
    {
        for unseen in weak::add_axiom(case, axiom, &mut deps, budget)? {
            let finding = prover.unseen(&unseen);
            unshown |= finding.is_none();
            findings.extend(finding);
        }
    }
    let order = order::of(&deps, level);
    if order.is_none() {
        match level.family() {
            Family::CommitOrder(axiom) if axiom != Axiom::Prefix => {
                findings.extend(order::finding(&deps, Layout::Txns, &mut prover));
            }
            _ => findings.extend(cycles::find(case, &deps, &mut prover, budget)?),
        }
    }
    if level.forbids(Anomaly::LostUpdate) {
        findings.extend(lost::find(case, &prover));
    }
    findings.extend(repeat::find(case, &prover));
    budget.poll()?;
    if findings.is_empty() && order.is_some() && case.open.is_some() {
        findings.extend(linear::find(case, &prover, budget));
    }
    if !findings.is_empty() {
        return Ok(Verdict::Violated(most_severe(findings)));
    }
    if unshown {
        return Ok(Verdict::Unknown(Why::Outside("a violation that no certificate can show".to_string())));
    }
    let verdict = order::holds(case, &deps, order, &mut prover, budget)?;
    // What the audit had no time for was not found.
    budget.poll()?;
    Ok(verdict)
}

/// Whether rw edges count at a level. Where they do not, the version orders of registers add
/// nothing to what the reads say.
pub(crate) fn counts_rw(level: Level) -> bool {
    use Level::{BeReadCommitted, Causal, ReadAtomic, ReadCommitted, ReadUncommitted};
    !matches!(level, ReadUncommitted | ReadCommitted | BeReadCommitted | ReadAtomic | Causal)
}

fn dependencies(case: &Case<'_>) -> Deps {
    let mut deps = Deps::new(case);
    deps.writes(case);
    if case.question.level != Level::ReadUncommitted {
        deps.reads(case);
    }
    if counts_rw(case.question.level) {
        deps.antis(case);
    }
    deps.orders(case);
    deps
}

/// The findings that rule out the most levels first, short ones before long ones, and a few of each
/// name.
fn most_severe(mut findings: Vec<Finding>) -> Vec<Finding> {
    let broken = |finding: &Finding| {
        std::cmp::Reverse(Level::ALL.iter().filter(|level| level.forbids(finding.anomaly)).count())
    };
    findings.sort_by_key(|finding| (broken(finding), finding.anomaly, finding.txns.len()));
    let mut counts: HashMap<Anomaly, usize> = HashMap::new();
    findings.retain(|finding| {
        let count = counts.entry(finding.anomaly).or_default();
        *count += 1;
        *count <= OF_ONE_NAME
    });
    findings.truncate(FINDINGS);
    findings
}
