//! Re-checks a certificate against the history alone.
//!
//! # Design
//! `holds` is audited by doing what the certificate says happened, and comparing with what clients
//! saw:
//! - [`order`]: a serial order is replayed; a commit order is held against the axioms ([`axioms`]).
//! - [`points`]: begin and commit points are walked through.
//! - [`versions`]: version orders become a graph, whose shape is checked.
//!
//! The last two and the commit orders share [`execution`], which computes the value of every
//! version and checks that every read saw what it says. `violated` is audited by [`operations`] (no
//! version explains what an operation saw) and [`refutation`] (every lemma is true of the history,
//! and together with the axioms they leave no possibility); both take what a read may have seen
//! from [`candidates`]. Where only search in the order of real time can tell, [`mod@dead_end`]
//! searches again. What a statement summed up is computed again from the versions that it can have
//! seen ([`summary`]), or from the only state that timestamps leave ([`recorded`]). That a
//! mechanism was not at work is audited by [`intervals`], from the intervals of the whole history.
//!
//! Histories of SQL statements have certificates of their own ([`statements`]): an execution is
//! executed, and that there is none is audited by trying all, or by an invariant. That needs the
//! feature `sql`.
//!
//! A certificate for a stronger level proves a weaker one: what the weaker level asks for is made
//! from it, and then checked in full.
//!
//! # Invariants
//! Whatever is accepted is true, whoever made the certificate. What is rejected may still be true:
//! the certificate does not show it.
//!
//! Every loop that can be long polls the budget. Once the budget has ended, functions may return
//! anything early: [`audit_within`] then answers [`Unaudited::Exhausted`] whatever came out.

use std::fmt;

use margay_history::{History, Op, OpKind, Outcome, TxnId, Value, ValueId};
use margay_levels::definition::Family;
use margay_verdict::{Budget, Cell, Certificate, Exhausted, Outside, Question};

mod axioms;
mod bank;
mod candidates;
mod chain;
mod dead_end;
mod execution;
mod facts;
mod graph;
mod included;
mod intervals;
mod lemma;
mod linear;
mod lists;
mod operations;
mod order;
mod points;
mod precedence;
pub mod reach;
mod recorded;
mod refutation;
mod registers;
#[cfg_attr(not(feature = "sql"), path = "unread.rs")]
mod statements;
mod strand;
mod summary;
mod versions;
mod written;

pub use bank::Bank;
pub use dead_end::dead_end;
pub use included::{audit_alone_within, with_included, without_instants};
pub use linear::unlinearizable;
pub use reach::{Reach, reach};

/// Why a certificate proves nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected(pub String);

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Rejected {}

impl From<Outside> for Rejected {
    fn from(outside: Outside) -> Self {
        Rejected(format!("outside the fragment of audit: {outside}"))
    }
}

impl From<Exhausted> for Rejected {
    fn from(exhausted: Exhausted) -> Self {
        Rejected(exhausted.to_string())
    }
}

/// Why a certificate was not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unaudited {
    /// It proves nothing.
    Rejected(Rejected),
    /// The budget ended before the audit did: nothing is known of the certificate.
    Exhausted(Exhausted),
}

impl fmt::Display for Unaudited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unaudited::Rejected(rejected) => write!(f, "{rejected}"),
            Unaudited::Exhausted(exhausted) => write!(f, "{exhausted}"),
        }
    }
}

impl std::error::Error for Unaudited {}

fn reject<T>(why: impl Into<String>) -> Result<T, Rejected> {
    Err(Rejected(why.into()))
}

/// Whether `certificate` proves its answer to `question`: `holds` for [`Certificate::Order`],
/// [`Certificate::Points`], [`Certificate::Versions`], [`Certificate::Execution`] and
/// [`Certificate::Both`], `violated` for the others. A question that includes another
/// ([`Question::included`]) is answered together with it.
///
/// # Errors
/// Why it does not.
pub fn audit(history: &History, question: Question, certificate: &Certificate) -> Result<(), Rejected> {
    included::audit(history, question, certificate, &Budget::unlimited())
}

/// The same within a budget.
///
/// # Errors
/// Why it does not, or that the budget ended before that was known.
pub fn audit_within(
    history: &History,
    question: Question,
    certificate: &Certificate,
    budget: &Budget,
) -> Result<(), Unaudited> {
    let audited = included::audit(history, question, certificate, budget);
    budget.poll().map_err(Unaudited::Exhausted)?;
    audited.map_err(Unaudited::Rejected)
}

/// Audits one part of a longer history: `holds` at a serializable or snapshot level, by an order or
/// by points. Answers what every object holds after it, which is what is there before the next
/// part.
///
/// # Errors
/// Why it does not hold, or that the budget ended before that was known.
pub fn audit_part(
    history: &History,
    question: Question,
    certificate: &Certificate,
    budget: &Budget,
) -> Result<Vec<Cell>, Unaudited> {
    let family = question.level.family();
    let audited = match certificate {
        _ if !history.evidence().is_empty() => reject("evidence is not audited in parts"),
        _ if holds_unknown(history) => reject(UNKNOWN_VALUES),
        _ if history.unseen_content().is_some() => reject_unseen(history),
        Certificate::Order(order) if family == Family::Serial => {
            committed_set(history, order.txns.iter().copied())
                .and_then(|_| order::replay(history, question, &order.txns, budget))
        }
        Certificate::Points(points) if family == Family::Snapshot => {
            points::replay(history, question, points, budget)
        }
        _ => reject(format!("this kind of certificate proves no part at {}", question.level)),
    };
    budget.poll().map_err(Unaudited::Exhausted)?;
    audited.map_err(Unaudited::Rejected)
}

const UNKNOWN_VALUES: &str = "values that are not known were there initially, or were written";

/// What the level itself asks for, without the question that it includes.
fn audit_alone(
    history: &History,
    question: Question,
    certificate: &Certificate,
    budget: &Budget,
) -> Result<(), Rejected> {
    if history.unseen_content().is_some() {
        return reject_unseen(history);
    }
    let may_be_open = matches!(
        certificate,
        Certificate::DeadEnd(_)
            | Certificate::Intervals(_)
            | Certificate::Execution(_)
            | Certificate::Unexplained(_)
            | Certificate::Invariant(_)
    );
    if !may_be_open && holds_unknown(history) {
        return reject(UNKNOWN_VALUES);
    }
    match certificate {
        Certificate::Order(order) => order::audit(history, question, order, budget),
        Certificate::Points(points) => points::audit(history, question, points, budget),
        Certificate::Versions(versions) => versions::audit(history, question, versions, budget),
        Certificate::Both(_) => reject("two certificates, where the question includes no other"),
        Certificate::Operations { anomaly, ops } => {
            operations::audit(history, question, (*anomaly, ops), budget)
        }
        Certificate::Refutation(lemmas) => refutation::audit(history, question, lemmas, budget),
        Certificate::DeadEnd(end) => dead_end::audit(history, question, end, budget),
        Certificate::Intervals(breach) => intervals::audit(history, breach, budget),
        Certificate::Execution(execution) => statements::holds(history, question, execution, budget),
        Certificate::Unexplained(unexplained) => statements::violated(history, question, unexplained, budget),
        Certificate::Invariant(invariant) => statements::invariant(history, question, invariant, budget),
    }
}

/// No certificate takes content into account that the recorder could not see.
fn reject_unseen<T>(history: &History) -> Result<T, Rejected> {
    reject(format!("the certificate does not allow for {}", history.unseen_content().unwrap_or_default()))
}

/// Whether something was there initially, or was written, of which nobody knows what: it is no
/// value that a read can be compared with.
fn holds_unknown(history: &History) -> bool {
    let is_open = |id: ValueId| match history.value(id) {
        Value::Unknown => true,
        Value::Row(columns) => columns.iter().any(|column| column.1 == ValueId::UNKNOWN),
        Value::List(items) => items.contains(&ValueId::UNKNOWN),
        _ => false,
    };
    let writes = |op: &Op<'_>| matches!(op.kind, OpKind::Write | OpKind::Append);
    let mut ops = history.txns().flat_map(|txn| history.ops(txn)).filter(writes);
    history.initial_values().iter().any(|&(_, value)| is_open(value))
        || ops.any(|op| op.accesses.iter().any(|access| is_open(access.value)))
}

/// Which transactions are taken to have committed: each of `txns` once, every committed one among
/// them, no aborted one.
fn committed_set(history: &History, txns: impl Iterator<Item = TxnId>) -> Result<Vec<bool>, Rejected> {
    let mut taken = vec![false; history.txn_count()];
    for txn in txns {
        match taken.get_mut(txn.index()) {
            None => return reject("the certificate names a transaction that the history does not have"),
            Some(true) => return reject(format!("{} occurs twice", history.show_txn(txn))),
            Some(place) => *place = true,
        }
        if history.outcome(txn) == Outcome::Aborted {
            return reject(format!("{} aborted", history.show_txn(txn)));
        }
    }
    let missing = |t: &TxnId| history.outcome(*t) == Outcome::Committed && !taken[t.index()];
    match history.txns().find(missing) {
        Some(txn) => reject(format!("{} committed and is missing", history.show_txn(txn))),
        None => Ok(taken),
    }
}
