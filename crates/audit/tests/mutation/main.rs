//! Valid certificates, spoiled: audit accepts a mutant only if it is a proof itself.
//!
//! The certificates are those of the naive engine on random tiny histories, at every level. Whether
//! a mutant proves something is decided in two ways, neither of which uses the audit: its answer
//! must be the true one, by the definitions; and on histories of registers and lists a judge
//! decides by brute force whether this very certificate proves it.

mod judge;
mod mutate;

use std::collections::HashMap;

use judge::Judge;
use margay_audit::audit;
use margay_history::{History, TxnId};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_naive::Naive;
use margay_testkit::{Rng, random, show};
use margay_verdict::{Budget, Certificate, Checker, Point, Question, Verdict};
use mutate::mutant;

#[derive(Default, Debug)]
struct Tally {
    certificates: usize,
    accepted: usize,
    rejected: usize,
    judged: usize,
    /// Accepted for some level.
    lent: usize,
}

/// Whether a level holds, with real time or without, as far as it was asked.
type Truths = HashMap<(Level, bool), Option<bool>>;

#[test]
fn mutants_are_rejected_unless_they_are_proofs() {
    let histories = std::env::var("MARGAY_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let mut tally = Tally::default();
    for seed in 1..=histories {
        spoil(&random(seed), seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.certificates > 0 && tally.judged > 0, "{tally:?}");
    assert!(tally.rejected > tally.accepted && tally.accepted > 0, "{tally:?}");
}

/// A certificate that is accepted for another level, or with another reading of real time, is a
/// proof there too.
fn lend(history: &History, certificate: &Certificate, truths: &mut Truths, tally: &mut Tally) {
    for question in Level::ALL
        .into_iter()
        .flat_map(|level| [false, true].map(|real_time| Question { real_time, ..Question::new(level) }))
    {
        if audit(history, question, certificate).is_err() {
            continue;
        }
        tally.lent += 1;
        let truth = truths
            .entry((question.level, question.real_time))
            .or_insert_with(|| margay_naive::holds(history, question, &Budget::unlimited()).ok());
        let holds = certificate.proves() == "holds";
        assert!(truth.is_none_or(|truth| truth == holds), "{question:?}\n{}\n{certificate:?}", show(history));
    }
}

fn spoil(history: &History, seed: u64, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let mut truths = Truths::new();
    for level in Level::ALL {
        let question = Question { real_time: rng.chance(20), ..Question::new(level) };
        let Some(certificate) = certificate(history, question) else { continue };
        tally.certificates += 1;
        if let Err(why) = audit(history, question, &certificate) {
            panic!("{level}: {why}\n{}\n{certificate:?}", show(history));
        }
        lend(history, &certificate, &mut truths, tally);
        for _ in 0..20 {
            let asked = if rng.chance(10) { Question::new(*rng.pick(&Level::ALL)) } else { question };
            let mutant = mutant(history, &certificate, &mut rng);
            judge(history, asked, &mutant, tally);
        }
    }
}

fn certificate(history: &History, question: Question) -> Option<Certificate> {
    match Naive.check(history, question, &Budget::unlimited()) {
        Verdict::Holds(certificate) => Some(certificate),
        Verdict::Violated(findings) => findings.into_iter().next().map(|finding| finding.certificate),
        _ => None,
    }
}

fn judge(history: &History, question: Question, mutant: &Certificate, tally: &mut Tally) {
    let answer = audit(history, question, mutant);
    match answer {
        Ok(()) => tally.accepted += 1,
        Err(_) => tally.rejected += 1,
    }
    let place = || format!("{question:?} {answer:?}\n{}\n{mutant:?}", show(history));
    let holds = !matches!(mutant, Certificate::Operations { .. } | Certificate::Refutation(_));
    if answer.is_ok()
        && let Ok(truth) = margay_naive::holds(history, question, &Budget::unlimited())
    {
        assert_eq!(truth, holds, "{}", place());
    }
    if !Judge::understands(history) {
        return;
    }
    let judge = Judge { history, question };
    let serial = question.level.family() == Family::Serial;
    let included = question.included(history).map(|question| Judge { history, question });
    // Every transaction begins directly before it commits.
    let alone = |txns: &[TxnId]| {
        let points =
            || txns.iter().flat_map(|&txn| [Point::Begin(txn), Point::Commit(txn)]).collect::<Vec<_>>();
        included.as_ref().is_none_or(|judge| judge.points(&points()))
    };
    let exactly = match mutant {
        Certificate::Order(order) if serial => Some(judge.serial(&order.txns) && alone(&order.txns)),
        Certificate::Points(points) if question.level.family() == Family::Snapshot => {
            Some(judge.points(points))
        }
        _ => None,
    };
    if let Some(exactly) = exactly {
        tally.judged += 1;
        assert_eq!(answer.is_ok(), exactly, "{}", place());
    }
    let graph =
        matches!(question.level, Level::ReadCommitted | Level::RepeatableRead | Level::ParallelSnapshot);
    let sound = match mutant {
        Certificate::Versions(versions) if graph => judge.versions(versions),
        Certificate::Refutation(lemmas) if question.level != Level::ReadUncommitted => {
            judge.refuted(lemmas) || included.is_some_and(|judge| judge.refuted(lemmas))
        }
        _ => return,
    };
    tally.judged += 1;
    assert!(sound || answer.is_err(), "{}", place());
}
