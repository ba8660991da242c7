//! Evidence narrows, never widens: no level contradicts a stronger one under the same evidence.
//!
//! # Laws
//! 1. Where a level holds by the definitions (`naive`), every level that it implies holds.
//! 2. Of all engines together, none proves that a level holds where one proves that a weaker level
//!    is violated.
//!
//! The histories are random, each with evidence: version orders, version sets, and commit, snapshot
//! and serialization timestamps, true and false. `MARGAY_SEEDS` says how many.

use std::path::Path;

use margay::{Choice, Options, all, decide};
use margay_audit::audit_alone_within;
use margay_formats::{Source, read};
use margay_history::History;
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_testkit::{random_with_evidence, show, shrink};
use margay_verdict::{Budget, Certificate, Question, Verdict};

fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

/// How often timestamps made a difference at a serializable level.
#[derive(Default, Debug)]
struct Tally {
    /// A serial order and points of their own prove that it holds.
    apart: usize,
    /// Only the snapshot question that it includes is violated.
    included: usize,
}

/// Levels that hold and levels that are violated, each with who says so.
type Answers = Vec<(Level, bool, &'static str)>;

/// What the definitions say, and what every engine proves.
fn answers(history: &History, tally: &mut Tally) -> Answers {
    let budget = Budget::unlimited();
    let mut answers = Vec::new();
    for level in Level::ALL {
        let question = Question::new(level);
        answers.extend(
            margay_naive::holds(history, question, &budget).ok().map(|holds| (level, holds, "definition")),
        );
        let engines =
            all().iter().filter(|engine| engine.name() != "mirror").map(|&engine| Choice::Engine(engine));
        for choice in engines.chain([Choice::Auto]) {
            let decision = decide(history, question, &Options::with_engine(choice), &budget);
            assert_eq!(decision.faults, [], "{}", show(history));
            let who = decision.engine.unwrap_or("nobody");
            match &decision.verdict {
                Verdict::Holds(certificate) => {
                    tally.apart += usize::from(matches!(certificate, Certificate::Both(_)));
                    answers.push((level, true, who));
                }
                Verdict::Violated(findings) => {
                    let own = audit_alone_within(history, question, &findings[0].certificate, &budget);
                    tally.included += usize::from(level.family() == Family::Serial && own.is_err());
                    answers.push((level, false, who));
                }
                Verdict::Clean | Verdict::Unknown(_) => {}
            }
        }
    }
    answers
}

/// A level that holds above one that is violated.
fn contradiction(answers: &Answers) -> Option<String> {
    let pairs = answers.iter().flat_map(|yes| answers.iter().map(move |no| (yes, no)));
    let mut against = pairs.filter(|(yes, no)| yes.1 && !no.1 && yes.0.implies(no.0));
    let (yes, no) = against.next()?;
    Some(format!("{} holds ({}), and {} is violated ({})", yes.0, yes.2, no.0, no.2))
}

#[test]
fn no_level_contradicts_a_stronger_one() {
    let mut tally = Tally::default();
    for seed in seeds() {
        let history = random_with_evidence(seed);
        if let Some(found) = contradiction(&answers(&history, &mut tally)) {
            let fails = |part: &History| contradiction(&answers(part, &mut Tally::default())).is_some();
            let small = shrink(&history, &fails);
            panic!("seed {seed}: {found}\n{}", show(&small));
        }
    }
    // Without the included question all of these would be contradictions, or would not be proved.
    assert!(tally.apart > 0 && tally.included > 0, "{tally:?}");
}

/// A simulated database with a stale read. Its timestamps show it: strict-snapshot-isolation was
/// violated, and strict-serializable held, because no serial order has the points that the
/// timestamps are about.
#[test]
fn timestamps_that_no_snapshot_agrees_with_break_every_level_above() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/timestamps-break-lattice.jsonl");
    let history = read(Source::Path(path), None).expect("a readable case").history;
    let said =
        |level| decide(&history, Question::new(level), &Options::default(), &Budget::unlimited()).verdict;
    for level in Level::ALL {
        let broken = level.implies(Level::SnapshotIsolation);
        assert_eq!(said(level).word(), if broken { "violated" } else { "holds" }, "{level}");
    }
}
