//! Mirror as an engine over a finished history.

use std::str::FromStr;

use margay_history::{History, OpId, TxnId};
use margay_levels::profile::Found;
use margay_verdict::mechanism::{Mechanisms, unfit};
use margay_verdict::{Budget, Certificate, Checker, Exhausted, Finding, Question, Verdict, Why};

use crate::mirror::{Mirror, Trace, Violation};
use crate::simulated::simulated;

/// How many violations are told; the stream goes on without them.
const TOLD: usize = 16;

/// The engine `mirror`: all sessions of a history merged by `before`, under the mechanisms of its database.
///
/// The mechanisms are those of the profile that the history's header names (`dbms` and `level`), or given ones.
#[derive(Clone, Copy, Default, Debug)]
pub struct Engine {
    /// The mechanisms, where they do not come from the history's header.
    pub mechanisms: Option<Mechanisms>,
}

impl Checker for Engine {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        match self.answer(history, question, budget) {
            Ok(verdict) => verdict,
            Err(why) => Verdict::Unknown(why),
        }
    }
}

impl Engine {
    fn answer(&self, history: &History, question: Question, budget: &Budget) -> Result<Verdict, Why> {
        let mechanisms = match self.mechanisms {
            Some(mechanisms) => mechanisms,
            None => mechanisms(history, question)?,
        };
        if let Some(what) = unfit(history) {
            return Err(match history.is_timed() {
                true => Why::Outside(what),
                false => Why::MissingEvidence("the intervals of the operations".to_owned()),
            });
        }
        let stopped = |limit: Exhausted, done: usize| {
            Why::Exhausted(limit, format!("{done} of {} operations", history.op_count()))
        };
        let mut mirror = Mirror::new(mechanisms, history.header().skew);
        history.initial_values().iter().for_each(|&(object, value)| mirror.initial(object, value));
        let mut found = Vec::new();
        for (done, (_, op, txn)) in merged(history).into_iter().enumerate() {
            budget.poll().map_err(|limit| stopped(limit, done))?;
            feed(&mut mirror, history, op, txn)?;
            take(&mut mirror, &mut found);
        }
        mirror.finish(history.values());
        take(&mut mirror, &mut found);
        Ok(if found.is_empty() { Verdict::Clean } else { Verdict::Violated(found) })
    }
}

/// All operations by `before`; those of one session stay in order.
fn merged(history: &History) -> Vec<(i64, OpId, TxnId)> {
    let of = |txn: TxnId| {
        history
            .ops(txn)
            .map(move |op| (op.at.map_or(i64::MIN, |at| at.before), op.id, txn))
            .collect::<Vec<_>>()
    };
    let mut all: Vec<_> = history.txns().flat_map(of).collect();
    all.sort_by_key(|&(before, op, _)| (before, op));
    all
}

fn feed(mirror: &mut Mirror, history: &History, op: OpId, txn: TxnId) -> Result<(), Why> {
    let op = history.op(op);
    let Some(at) = op.at else { return Ok(()) };
    let trace = Trace { txn, op: op.id, kind: op.kind, at, accesses: op.accesses };
    mirror.feed(trace, history.values()).map_err(|unfit| Why::Outside(unfit.to_string()))
}

fn take(mirror: &mut Mirror, found: &mut Vec<Finding>) {
    while let Some(Violation { txns, breach }) = mirror.next_violation() {
        if found.len() < TOLD {
            let anomaly = breach.broken.anomaly();
            found.push(Finding { anomaly, txns, certificate: Certificate::Intervals(breach) });
        }
    }
}

/// The mechanisms of the database that the history names, if it promises what is asked.
fn mechanisms(history: &History, question: Question) -> Result<Mechanisms, Why> {
    let header = history.header();
    let Some(dbms) = &header.dbms else {
        return Err(Why::MissingEvidence("which database it is: a profile".to_owned()));
    };
    if let Some(simulated) = simulated(dbms) {
        return match header.level.as_deref().map(str::parse::<margay_levels::Level>) {
            Some(Ok(promised)) if promised.implies(question.level) => Ok(simulated),
            _ => Err(Why::Level(format!("{dbms} does not promise {}", question.level.name()))),
        };
    }
    let name = match &header.level {
        Some(level) => format!("{dbms}/{level}"),
        None => dbms.clone(),
    };
    let Found(profile) = Found::from_str(&name).map_err(|error| Why::MissingEvidence(error.to_string()))?;
    match profile.promises(question.level) {
        true => Ok(Mechanisms::of(profile)),
        false => Err(Why::Level(format!("{profile} does not promise {}", question.level.name()))),
    }
}
