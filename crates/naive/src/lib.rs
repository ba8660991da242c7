//! The definitions of the levels, literally: the judge of the other engines.
//!
//! # Problem
//! A level holds when some choice (of who committed, of version orders and of what each read saw,
//! or of begin and commit points) explains every observation and is legal. This engine tries the
//! choices one by one, so it is only for tiny histories, and it does nothing clever.
//!
//! # Algorithm
//! - [`points`]: serializable and snapshot levels, by running transactions on states;
//! - [`choose`]: levels of dependencies and of Biswas and Enea's axioms, by version orders and
//!   reads-from, with the rules of all levels in [`graph`];
//! - [`uncommitted`], for the lowest level;
//! - [`everywhere`]: what is illegal at every level.
//!
//! A violation is shown by a [`finding`], made minimal by [`shrink`].
//!
//! # When it answers Unknown
//! SQL statements and conditions outside the fragment of `margay-sql`; predicate updates whose rows
//! were not seen, at levels of dependencies; and histories that take too many steps.

mod choose;
mod cycle;
mod everywhere;
mod finding;
mod graph;
mod meaning;
mod model;
mod points;
mod refute;
mod replay;
mod shrink;
mod uncommitted;
mod versions;

use margay_audit::with_included;
use margay_history::{History, Outcome, TxnId};
use margay_levels::Level;
#[cfg(test)]
use margay_levels::definition::Family;
use margay_verdict::{Budget, Certificate, Checker, Order, Question, ReadFrom, Verdict, Versions, Why};

use crate::graph::Graph;
use crate::model::{Model, Search, Stop};

/// The engine `naive`.
#[derive(Clone, Copy, Default, Debug)]
pub struct Naive;

impl Checker for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        with_included(history, question, budget, |question| match answer(history, question, budget) {
            Ok(verdict) => verdict,
            Err(Stop::Why(why)) => Verdict::Unknown(why),
        })
    }
}

fn answer(history: &History, question: Question, budget: &Budget) -> Search<Verdict> {
    let model = Model::new(history, question, budget)?;
    match explain(&model)? {
        Some(certificate) => {
            // The audit accepts no explanation of a history that it cannot read all of.
            model.meaning.is_read()?;
            Ok(Verdict::Holds(certificate))
        }
        None => match finding::find(&model)? {
            Some(finding) => {
                Ok(Verdict::Violated(vec![shrink::minimal(history, question, budget, finding)?]))
            }
            None => Err(Stop::Why(Why::Outside(UNSHOWN.to_string()))),
        },
    }
}

/// A violation that is certain by enumeration, but that neither single operations nor cycles show:
/// where values are written twice, or the values of rows depend on what other writers left of them.
const UNSHOWN: &str = "a violation that no certificate can show";

/// Whether some choice explains the history: the definition alone, without a certificate that
/// others can check. A serializable level includes the snapshot level below it, which timestamps
/// may contradict ([`Question::included`]).
///
/// # Errors
/// Why there is no answer.
pub fn holds(history: &History, question: Question, budget: &Budget) -> Result<bool, Why> {
    let decide =
        |question| -> Search<bool> { Ok(explain(&Model::new(history, question, budget)?)?.is_some()) };
    let both = || Ok(decide(question)? && question.included(history).map_or(Ok(true), decide)?);
    both().map_err(|Stop::Why(why)| why)
}

/// Shows one way in which it can have happened.
fn explain(model: &Model<'_>) -> Search<Option<Certificate>> {
    let level = model.question.level;
    Ok(match level {
        Level::ReadUncommitted => uncommitted::order(model)?.map(Certificate::Versions),
        Level::ReadCommitted | Level::RepeatableRead | Level::ParallelSnapshot => {
            choose::choose(model)?.map(|graph| Certificate::Versions(versions_of(model, graph)))
        }
        Level::BeReadCommitted | Level::ReadAtomic | Level::Causal => choose::choose(model)?.map(|graph| {
            Certificate::Order(Order { txns: graph.commit_order(level), reads: reads_of(&graph) })
        }),
        Level::Prefix => choose::choose(model)?.map(|graph| Certificate::Points(graph.point_order(level))),
        _ if model.is_snapshot() => points::place(model)?.map(Certificate::Points),
        _ => points::place(model)?.map(|points| Certificate::Order(serial(&points))),
    })
}

fn serial(points: &[margay_verdict::Point]) -> Order {
    let commit = |point: &margay_verdict::Point| match *point {
        margay_verdict::Point::Commit(txn) => Some(txn),
        margay_verdict::Point::Begin(_) => None,
    };
    Order { txns: points.iter().filter_map(commit).collect(), reads: Vec::new() }
}

fn reads_of(graph: &Graph) -> Vec<ReadFrom> {
    graph.seen.iter().map(|s| ReadFrom { op: s.op, object: s.object, version: s.version }).collect()
}

fn versions_of(model: &Model<'_>, graph: Graph) -> Versions {
    let unknown = |t: &TxnId| model.history.outcome(*t) == Outcome::Unknown;
    Versions {
        committed: graph.txns.iter().copied().filter(unknown).collect(),
        reads: reads_of(&graph),
        orders: graph.orders.into_iter().filter(|o| !o.1.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_testkit::{random, show, tiny};

    /// Adya's graphs and the replays define the same levels: a history is serializable, or allowed
    /// by snapshot isolation, exactly when some choice of version orders and reads-from has only
    /// legal cycles.
    fn agree(history: &History) {
        let levels = Level::ALL.into_iter();
        for level in levels.filter(|l| matches!(l.family(), Family::Serial | Family::Snapshot)) {
            let budget = Budget::unlimited();
            let Ok(model) = Model::new(history, Question::new(level), &budget) else { return };
            let (Ok(graph), Ok(replay)) = (choose::choose(&model), points::place(&model)) else { return };
            assert_eq!(graph.is_some(), replay.is_some(), "{level}: {}", show(history));
        }
    }

    #[test]
    fn graphs_and_replays_agree() {
        let mut number = 0;
        tiny(|history| {
            number += 1;
            if number % 5 == 0 {
                agree(&history);
            }
        });
        let seeds = (0..4000).map(random);
        seeds.for_each(|history| agree(&history));
    }
}
