//! Engine `follow`: complete checking in the order of real time.
//!
//! # Problem
//! With intervals, at most as many transactions as there are clients can take effect at any moment.
//! Whether some order of them explains what clients saw is then a matter of running them, whatever
//! their operations are: registers, lists, rows written in part, scans, predicate updates, values
//! that repeat.
//!
//! # Algorithm
//! Depth-first search over who takes effect next ([`search`]), on one state that changes in place
//! ([`world`]). Each transaction under way knows the objects that speak against it ([`candidate`]);
//! when an object changes, only what concerns that object is run again ([`strand`]). The search is
//! Wing and Gong's, with Lowe's memory of frontiers [WingGong1993, Lowe2017]; at the snapshot
//! levels each transaction has two points. Where that search is lost among begins, one with one
//! point each is tried: a serial order is an order of points, too.
//!
//! # Invariants
//! An order that is found is one that the audit accepts.
//!
//! # Cost
//! A step costs the transactions under way, times what the last step changed. On correct databases
//! with eight clients there are two or three steps per transaction.
//!
//! # When it answers unknown
//! Levels without real time, where no order in real time exists; conditions and statements outside
//! the fragment; more steps than it may take.

mod calendar;
mod candidate;
mod foresight;
mod lists;
mod points;
mod repair;
mod search;
mod strand;
mod suspects;
mod unknowns;
mod unnoticed;
mod world;

use margay_audit::{Unaudited, audit_alone_within, with_included};
use margay_history::{History, OpKind, TxnId};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Certificate, Checker, Exhausted, Predicates, Question, Verdict, Why};

use crate::search::{Furthest, Kind, Outcome, Search};
pub use crate::unnoticed::{Unnoticed, unnoticed};
use crate::world::World;

/// The engine.
#[derive(Clone, Copy, Default, Debug)]
pub struct Follow;

impl Checker for Follow {
    fn name(&self) -> &'static str {
        "follow"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        let predicates = match Predicates::compile(history) {
            Ok(predicates) => predicates,
            Err(outside) => return Verdict::Unknown(Why::Outside(outside.0)),
        };
        with_included(history, question, budget, |question| {
            audited(history, question, run(history, question, &predicates, &[], budget), budget)
        })
    }
}

impl Follow {
    /// The same, but what holds was not audited: for those who audit it in parts.
    #[must_use]
    pub fn search(&self, history: &History, question: Question, early: &[Early], budget: &Budget) -> Verdict {
        match Predicates::compile(history) {
            Ok(predicates) => run(history, question, &predicates, early, budget),
            Err(outside) => Verdict::Unknown(Why::Outside(outside.0)),
        }
    }

    /// The order, not audited, or that a few objects have none, if that is found soon; nothing if
    /// it takes long.
    #[must_use]
    pub fn glimpse(
        &self,
        history: &History,
        question: Question,
        early: &[Early],
        budget: &Budget,
    ) -> Option<Verdict> {
        let Ok(predicates) = Predicates::compile(history) else {
            return Some(self.search(history, question, early, budget));
        };
        let world = World::initial(&predicates);
        let search = Search::new(world, is_split(question), question.uses_instants(), early);
        match search.run(GLIMPSE * history.txn_count(), budget) {
            Outcome::Found(certificate) => Some(Verdict::Holds(certificate)),
            Outcome::TooLong(end) => {
                let proved = suspects::prove_soon(history, question, &end, budget)?;
                Some(Verdict::Violated(vec![proved]))
            }
            _ => Some(self.search(history, question, early, budget)),
        }
    }
}

/// A transaction of unknown outcome that takes effect before all others, or never.
#[derive(Clone, Debug)]
pub struct Early {
    /// It.
    pub txn: TxnId,
    /// Others that cannot take effect if it does.
    pub against: Vec<TxnId>,
}

/// What came of a search that accuses nobody.
#[derive(Debug)]
pub enum Attempt {
    /// An order, not audited.
    Order(Certificate),
    /// None was found, and these were in the way.
    Stuck(Vec<TxnId>),
    /// A limit of the budget.
    Exhausted(Exhausted),
}

impl Follow {
    /// The order, not audited, or the transactions that did not fit where the search ended; soon,
    /// or with patience.
    #[must_use]
    pub fn attempt(
        &self,
        history: &History,
        question: Question,
        early: &[Early],
        patient: bool,
        budget: &Budget,
    ) -> Attempt {
        let Ok(predicates) = Predicates::compile(history) else { return Attempt::Stuck(Vec::new()) };
        let world = World::initial(&predicates);
        let search = Search::new(world, is_split(question), question.uses_instants(), early);
        let limit = if patient { limits(history, question)[0] } else { ATTEMPT * history.txn_count() };
        match search.run(limit, budget) {
            Outcome::Found(certificate) => Attempt::Order(certificate),
            Outcome::Stuck(end) | Outcome::TooLong(end) => {
                Attempt::Stuck(end.blocked.into_iter().map(|blocked| blocked.0).collect())
            }
            Outcome::Exhausted(limit) => Attempt::Exhausted(limit),
        }
    }
}

/// How many steps for each transaction a glimpse takes at most. Most histories take two or three.
const GLIMPSE: usize = 10;

/// The same for an attempt: it is made often where there is no order.
const ATTEMPT: usize = 5;

/// The verdict as far as the audit accepts that it holds.
fn audited(history: &History, question: Question, verdict: Verdict, budget: &Budget) -> Verdict {
    let Verdict::Holds(certificate) = &verdict else { return verdict };
    match audit_alone_within(history, question, certificate, budget) {
        Ok(()) => verdict,
        Err(Unaudited::Exhausted(limit)) => Verdict::Unknown(Why::Exhausted(limit, String::new())),
        Err(Unaudited::Rejected(rejected)) => Verdict::Unknown(Why::Outside(rejected.0)),
    }
}

fn run(
    history: &History,
    question: Question,
    predicates: &Predicates<'_>,
    early: &[Early],
    budget: &Budget,
) -> Verdict {
    let search_with = |split, limit| {
        let world = World::initial(predicates);
        Search::new(world, split, question.uses_instants(), early).run(limit, budget)
    };
    let search = |limit| search_with(is_split(question), limit);
    let limits = limits(history, question);
    let prove = |furthest: &Furthest| {
        let proved = || suspects::prove(history, question, furthest, budget);
        question.uses_real_time().then(proved).flatten().map(|finding| Verdict::Violated(vec![finding]))
    };
    let mut found = search(limits[0]);
    if is_split(question)
        && !question.uses_instants()
        && matches!(found, Outcome::Stuck(_) | Outcome::TooLong(_))
        && let Outcome::Found(Certificate::Order(order)) = search_with(false, limits[0])
    {
        let steps = order.txns.iter().map(|&txn| (Kind::Whole, txn));
        found = Outcome::Found(Certificate::Points(points::in_order(steps)));
    }
    if let Outcome::TooLong(furthest) = &found
        && limits[0] < limits[1]
    {
        // Few objects may prove it sooner than all orders are tried.
        match prove(furthest) {
            Some(violated) => return violated,
            None => found = search(limits[1]),
        }
    }
    match found {
        Outcome::Found(certificate) => Verdict::Holds(certificate),
        Outcome::Stuck(furthest) | Outcome::TooLong(furthest) => {
            prove(&furthest).unwrap_or_else(|| Verdict::Unknown(no_order(history, &furthest)))
        }
        Outcome::Exhausted(limit) => Verdict::Unknown(Why::Exhausted(limit, String::new())),
    }
}

/// Whether a transaction may have two points: a begin and a commit.
fn is_split(question: Question) -> bool {
    match question.level.family() {
        Family::Snapshot => true,
        Family::Serial => false,
        _ => Level::StrictSnapshotIsolation.implies(question.level),
    }
}

/// How many steps are worth it, at first and in all: at levels with real time the search decides;
/// at the others, and for large histories, it is a guess: every step takes memory, and the engines
/// after this one may decide. Where there are conditions they rarely do.
fn limits(history: &History, question: Question) -> [usize; 2] {
    let size = history.txn_count();
    let few = 40 * size + 50_000;
    let conditions = history.has_kind(OpKind::Scan) || history.has_kind(OpKind::Update);
    match size <= THOROUGH_UP_TO {
        true if question.uses_real_time() => [few, 200 * size + 2_000_000],
        true if conditions => [few, 10 * few],
        _ => [few; 2],
    }
}

/// Up to so many transactions all orders are tried.
const THOROUGH_UP_TO: usize = 20_000;

fn no_order(history: &History, end: &Furthest) -> Why {
    let blocked: Vec<String> = end.blocked.iter().take(8).map(|(txn, _)| history.show_txn(*txn)).collect();
    Why::Outside(format!(
        "no order in real time was found: after {} transactions, nothing that may come next agrees with the state ({})",
        end.taken,
        blocked.join(", ")
    ))
}
