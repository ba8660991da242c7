//! A question together with the one that it includes.
//!
//! # Problem
//! Commit and snapshot timestamps say where begin and commit points lie. A serial order has no such
//! points, so timestamps that contradict every snapshot would leave a serializable level untouched:
//! it would hold, and the weaker snapshot level be violated. Evidence narrows every level, so a
//! serializable level includes the snapshot question ([`Question::included`]): it holds if some
//! serial order explains the history, and some points do that agree with the timestamps. The two
//! need not be one choice.
//!
//! # Algorithm
//! `violated` is proved by a proof against either question. `holds` needs a proof of each: often a
//! serial order is one of both, as points where each transaction begins directly before its commit;
//! else there are two ([`Certificate::Both`]).

use margay_history::History;
use margay_verdict::{Budget, Certificate, Question, Verdict, Why};

use super::{Rejected, Unaudited, audit_alone, reject};

pub(super) fn audit(
    history: &History,
    question: Question,
    certificate: &Certificate,
    budget: &Budget,
) -> Result<(), Rejected> {
    let alone = |question, certificate| audit_alone(history, question, certificate, budget);
    let Some(included) = question.included(history) else { return alone(question, certificate) };
    match certificate {
        Certificate::Both(both) if both.iter().all(|part| part.proves() == "holds") => {
            alone(question, &both[0])?;
            alone(included, &both[1])
        }
        Certificate::Both(_) => reject("one of two certificates proves something else than \"holds\""),
        _ if certificate.proves() == "holds" => {
            alone(question, certificate)?;
            alone(included, certificate)
        }
        _ => alone(question, certificate).or_else(|why| alone(included, certificate).map_err(|_| why)),
    }
}

/// Whether the certificate proves what the level itself asks for, without the question that it
/// includes: for engines that try an order before they go on.
///
/// # Errors
/// Why it does not, or that the budget ended before that was known.
pub fn audit_alone_within(
    history: &History,
    question: Question,
    certificate: &Certificate,
    budget: &Budget,
) -> Result<(), Unaudited> {
    let audited = audit_alone(history, question, certificate, budget);
    budget.poll().map_err(Unaudited::Exhausted)?;
    audited.map_err(Unaudited::Rejected)
}

/// The answer of an engine that knows nothing of instants: they only narrow strict snapshot
/// isolation, so what violates the level violates it with instants too; what explains it may be an
/// explanation with instants, as the audit says.
pub fn without_instants(
    history: &History,
    question: Question,
    budget: &Budget,
    answer: impl FnOnce(Question) -> Verdict,
) -> Verdict {
    let verdict = answer(Question { instants: false, ..question });
    match &verdict {
        Verdict::Holds(proof) if question.uses_instants() => {
            match audit_alone_within(history, question, proof, budget) {
                Ok(()) => verdict,
                Err(Unaudited::Exhausted(limit)) => Verdict::Unknown(Why::Exhausted(limit, String::new())),
                Err(Unaudited::Rejected(_)) => Verdict::Unknown(Why::Outside(
                    "instants: the level holds without them, and this engine does not place points at instants".into(),
                )),
            }
        }
        _ => verdict,
    }
}

/// The answer to a question, made of `answer` to what the level itself asks for, and to the
/// question that it includes.
pub fn with_included(
    history: &History,
    question: Question,
    budget: &Budget,
    mut answer: impl FnMut(Question) -> Verdict,
) -> Verdict {
    let own = answer(question);
    let Some(included) = question.included(history) else { return own };
    match own {
        Verdict::Violated(_) => own,
        Verdict::Holds(proof) if audit_alone_within(history, included, &proof, budget).is_ok() => {
            Verdict::Holds(proof)
        }
        Verdict::Holds(proof) => match answer(included) {
            Verdict::Holds(points) => Verdict::Holds(Certificate::Both(Box::new([proof, points]))),
            other => other,
        },
        Verdict::Clean | Verdict::Unknown(_) => match answer(included) {
            violated @ Verdict::Violated(_) => violated,
            _ => own,
        },
    }
}
