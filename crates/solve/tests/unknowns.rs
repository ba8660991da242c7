//! How often the engine cannot tell, and why: on random histories, where the definitions can.

mod common;

use std::collections::BTreeMap;

use common::LEVELS;
use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{Mix, Protocol, SimConfig, simulate_history};
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
        "whose affected rows were not recorded",
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

/// The histories of `simulated`, at the levels that their protocols promise.
#[test]
fn few_simulated_answers_are_unknown() {
    let seeds = std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let mut reasons: BTreeMap<(Level, String), (usize, String)> = BTreeMap::new();
    let (mut decided, mut unknown) = (0, 0);
    for protocol in Protocol::ALL {
        for (_, mix) in Mix::NAMED {
            let promised = protocol.promises_on(&mix);
            for &level in promised.iter().filter(|level| levels().contains(level)) {
                for seed in 0..seeds {
                    let small = SimConfig::small(protocol, mix, seed);
                    let config = SimConfig { clients: 6, transactions: 60, ops: (1, 6), keys: 8, ..small };
                    let (history, _) = simulate_history(&config).expect("a history");
                    let verdict = Solve.check(&history, Question::new(level), &Budget::unlimited());
                    let Verdict::Unknown(why) = verdict else {
                        decided += 1;
                        continue;
                    };
                    unknown += 1;
                    let example = || (0, config.command("OUT"));
                    reasons.entry((level, kind(&why))).or_insert_with(example).0 += 1;
                }
            }
        }
    }
    for ((level, why), (count, example)) in reasons {
        println!("{count:6} at {level}: {why}\n       {example}");
    }
    println!("{unknown} unknown, {decided} decided");
    assert!(100 * unknown < decided, "{unknown} unknown, {decided} decided");
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
