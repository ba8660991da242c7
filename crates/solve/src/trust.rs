//! What is said only after it was audited.
//!
//! # Problem
//! Where something of a history was left out, or may be read in more ways than one, an order or a
//! refutation of what is left may be wrong of the whole. And some that are right no certificate can
//! express.
//!
//! # Invariants
//! A verdict that passes here is one that the audit accepts, or one of a history of which nothing
//! was left out.

use margay_audit::{audit_alone_within, audit_within};
use margay_history::{History, Outcome};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Certificate, Edge, Finding, Lemma, Question, Reason, Verdict, Why};

use crate::known::KnownGraph;
use crate::points::{self, Points};
use crate::prepare::prepare;
use crate::problem::{Draft, Problem};
use crate::replay::replay;
use crate::strategy::{Strategies, Strategy};
use crate::told::NodeOrder;

/// What a draft may read otherwise than the level's definition ([`Draft::bold`]).
pub(crate) const BOLD: &str = "rows that are written in part, or lists, with writers that may overlap";

/// The findings as far as they must be, if they can be proved: with whole rows, where columns are
/// not heard of.
pub(crate) fn proved(
    history: &History,
    question: Question,
    strategies: Strategies,
    found: Vec<Finding>,
    budget: &Budget,
) -> Option<Vec<Finding>> {
    let accepted = |finding: &Finding| audit_within(history, question, &finding.certificate, budget).is_ok();
    let prove = |finding: Finding| match finding {
        finding if accepted(&finding) => Some(finding),
        Finding { certificate: Certificate::Refutation(lemmas), anomaly, txns }
            if strategies.has(Strategy::WholeRows) =>
        {
            let certificate = Certificate::Refutation(lemmas.into_iter().map(whole_rows).collect());
            Some(Finding { anomaly, txns, certificate }).filter(accepted)
        }
        _ => None,
    };
    found.into_iter().map(prove).collect()
}

fn whole_rows(lemma: Lemma) -> Lemma {
    let whole = |edge: Edge| {
        let reason = match edge.reason {
            Reason::ReadColumn { op, object, .. } => Reason::Read { op, object },
            Reason::AntiReadColumn { op, object, version, .. } => Reason::AntiRead { op, object, version },
            other => other,
        };
        Edge { reason, ..edge }
    };
    Lemma { edges: lemma.edges.into_iter().map(whole).collect() }
}

/// An order that was found although something of the history was left out is replayed first; if it
/// is the wrong one, another is looked for.
pub(crate) fn believed(
    problem: &Problem<'_>,
    points: Points,
    draft: &Draft,
    order: Certificate,
    budget: &Budget,
) -> Verdict {
    let shown = shown(problem, &order);
    match &draft.loose {
        Some(what) if audit_alone_within(problem.history, problem.question, &shown, budget).is_err() => {
            let found = match problem.strategies.has(Strategy::Replay) {
                true => replay(problem, points, &order, budget),
                false => None,
            };
            match found {
                Some(order) => Verdict::Holds(order),
                None => Verdict::Unknown(Why::Outside(what.clone())),
            }
        }
        _ => Verdict::Holds(shown),
    }
}

/// What shows that an order explains a history: at `repeatable-read`, where it is not a serial
/// order, the versions in it.
fn shown(problem: &Problem<'_>, order: &Certificate) -> Certificate {
    let (Level::RepeatableRead, Certificate::Order(order)) = (problem.question.level, order) else {
        return order.clone();
    };
    let (mut places, mut active) = (vec![0; problem.txns.len()], vec![false; problem.txns.len()]);
    for (id, place) in order.txns.iter().zip(0..) {
        if let Ok(txn) = problem.txns.binary_search(id) {
            (places[txn], active[txn]) = (place, true);
        }
    }
    let told = NodeOrder { problem, places: &places, active: &active };
    let node = |read: u32| problem.reads[read as usize].txn;
    Certificate::Versions(told.versions(node, |read| told.earlier(read)))
}

/// An order at a stronger level, where what was left out can be found by replaying, if it proves
/// this one.
pub(crate) fn by_stronger(
    history: &History,
    question: Question,
    strategies: Strategies,
    budget: &Budget,
) -> Option<Certificate> {
    if matches!(question.level.family(), Family::Serial | Family::Snapshot) {
        return None;
    }
    let stronger = Question { level: Level::StrongSessionSnapshotIsolation, ..question };
    match crate::check(history, stronger, strategies, budget) {
        Verdict::Holds(order) => audit_within(history, question, &order, budget).is_ok().then_some(order),
        _ => None,
    }
}

/// The same for what reads leave open: most histories that satisfy a weak level satisfy snapshot
/// isolation too, where one order says at once what all reads saw. Only the order that the clock
/// and the sessions suggest is tried.
pub(crate) fn by_guess(
    history: &History,
    question: Question,
    strategies: Strategies,
    budget: &Budget,
) -> Option<Certificate> {
    let stronger = Question { level: Level::StrongSessionSnapshotIsolation, ..question };
    let points = points::of(stronger.level);
    let draft = prepare(history, stronger, budget).ok()?;
    let problem = Problem::new(history, stronger, &draft, budget).ok()?.with_strategies(strategies);
    let order = crate::guess(&KnownGraph::new(&problem, points, true), budget).ok()??;
    let Verdict::Holds(order) = crate::holds(&problem, points, order) else { return None };
    audit_within(history, question, &order, budget).is_ok().then_some(order)
}

/// A violation of a weaker level, with the proof of it, which is one for this level too.
pub(crate) fn by_weaker(
    history: &History,
    question: Question,
    strategies: Strategies,
    budget: &Budget,
) -> Option<Vec<Finding>> {
    let level = match question.level {
        _ if !strategies.has(Strategy::ByWeaker) => return None,
        Level::StrictSerializable | Level::StrongSessionSerializable => Level::Serializable,
        Level::StrictSnapshotIsolation | Level::StrongSessionSnapshotIsolation | Level::Serializable => {
            Level::SnapshotIsolation
        }
        _ => return None,
    };
    let Verdict::Violated(found) = crate::check(history, Question { level, ..question }, strategies, budget)
    else {
        return None;
    };
    let accepted = |finding: &Finding| audit_within(history, question, &finding.certificate, budget).is_ok();
    found.iter().all(accepted).then_some(found)
}

/// Whether a certificate should say what was found. What rests on the observations of an unknown
/// transaction, or on timestamps of one transaction that contradict each other, is beyond some.
pub(crate) fn certifiable(history: &History, draft: &Draft, found: &[Finding]) -> bool {
    let unknown = |finding: &Finding| finding.txns.iter().any(|&t| history.outcome(t) == Outcome::Unknown);
    let evidence = history.evidence();
    let stamped = !evidence.snapshots.is_empty() || !evidence.serializations.is_empty();
    !stamped && draft.dead.is_empty() && !found.iter().any(unknown)
}
