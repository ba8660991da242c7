//! How often the engine cannot tell, and why: on random histories, where the definitions can.

mod common;

use std::collections::BTreeMap;

use common::LEVELS;
use margay_levels::Level;
use margay_naive::holds;
use margay_solve::Solve;
use margay_testkit::{random, show};
use margay_verdict::{Budget, Checker, Question, Verdict, Why};

/// All of them, or the last so many that the environment variable `MARGAY_LEVELS` says.
fn levels() -> &'static [Level] {
    let last = std::env::var("MARGAY_LEVELS").ok().and_then(|n| n.parse().ok()).unwrap_or(LEVELS.len());
    &LEVELS[LEVELS.len().saturating_sub(last)..]
}

/// A reason without the names of what it is about.
fn kind(why: &Why) -> String {
    let kinds = [
        "is both written and appended to",
        "is appended twice",
        "whose rows nobody saw",
        "whose outcome is unknown",
        "transaction of unknown outcome saw what nothing explains",
        "which is written in part",
        "is written in part",
        "with writers that may overlap",
        "is not always a row",
        "does not show what it made",
    ];
    let text = why.to_string();
    kinds.iter().find(|kind| text.contains(*kind)).map_or(text, |kind| (*kind).to_string())
}

#[test]
fn few_answers_are_unknown() {
    let number = std::env::var("MARGAY_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    let mut reasons: BTreeMap<(String, &str), (usize, String)> = BTreeMap::new();
    let (mut decided, mut unknown) = (0, 0);
    for history in (1..=number).map(random) {
        for &level in levels() {
            let question = Question::new(level);
            let Ok(expected) = holds(&history, question, &Budget::unlimited()) else { continue };
            match Solve.check(&history, question, &Budget::unlimited()) {
                Verdict::Unknown(why) => {
                    unknown += 1;
                    let expected = if expected { "holds" } else { "is violated" };
                    let example = || (0, format!("{level}: {}", show(&history)));
                    reasons.entry((kind(&why), expected)).or_insert_with(example).0 += 1;
                }
                _ => decided += 1,
            }
        }
    }
    for ((why, expected), (count, example)) in reasons {
        println!("{count:6} where it {expected}: {why}\n       {example}");
    }
    println!("{unknown} unknown, {decided} decided");
    assert!(100 * unknown < decided, "{unknown} unknown, {decided} decided");
}
