//! What each strategy of the engine is worth: how much is decided, and in how much time, when it is
//! off.
//!
//! `cargo bench -p margay-observe --bench observe -- ablation [SECONDS] [SET]…` prints one row for
//! each switch: how many questions are decided within so many seconds each (10 without), and the
//! processor time of all, with the audit of every certificate. SET is one of those in `sets`;
//! without any, all. `list SECONDS SET` prints each answer.

use std::time::Duration;

use margay_history::History;
use margay_levels::Level;
use margay_observe::{Observe, Options, STRATEGIES, Strategy};
use margay_verdict::{Budget, Checker, Question, Verdict};

use crate::{sets, used::used, wrong};

/// A log, and the levels that are asked of it.
pub type Asked = (History, Vec<Level>);

/// The options with each strategy off.
fn switches() -> impl Iterator<Item = (&'static str, Options)> {
    let without = |&(name, off): &Strategy| (name, off(Options::DEFAULT));
    std::iter::once(("nothing", Options::DEFAULT)).chain(STRATEGIES.iter().map(without))
}

/// Prints the table.
pub fn run(seconds: u64, wanted: &[String]) {
    let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|set| set == name);
    let sets = sets::ALL.into_iter().filter(|(name, _)| wanted(name));
    let made: Vec<(&str, Vec<Asked>)> = sets.map(|(name, make)| (name, make())).collect();
    let head = |(name, logs): &(&str, Vec<Asked>)| {
        format!("{name}, of {}", logs.iter().map(|(_, levels)| levels.len()).sum::<usize>())
    };
    let heads: Vec<String> = made.iter().map(head).collect();
    println!("| off | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
    for (name, options) in switches() {
        let cells: Vec<String> = made.iter().map(|(_, logs)| cell(logs, options, seconds)).collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// How many are decided, how many of them violated, and the time.
fn cell(logs: &[Asked], options: Options, seconds: u64) -> String {
    let (mut words, start) = ([0; 4], used());
    for (history, levels) in logs {
        for &level in levels {
            let budget = Budget::unlimited().with_time(Duration::from_secs(seconds));
            let question = Question::new(level);
            let verdict = Observe { options }.check(history, question, &budget);
            words[wrong::word(history, question, &verdict)] += 1;
        }
    }
    let [holds, violated, _, rejected] = words;
    let rejected = if rejected > 0 { format!(", {rejected} rejected") } else { String::new() };
    format!("{} ({violated} violated{rejected}), {:.1} s", holds + violated, (used() - start).as_secs_f64())
}

/// Prints each question of a set with its answer, the audit of it, and the processor time of both.
pub fn list(seconds: u64, set: &str) {
    let made = sets::ALL.into_iter().find(|(name, _)| *name == set).map(|(_, make)| make());
    for (at, (history, levels)) in made.into_iter().flatten().enumerate() {
        for level in levels {
            let (start, question) = (used(), Question::new(level));
            let budget = Budget::unlimited().with_time(Duration::from_secs(seconds));
            let verdict = Observe { options: Options::DEFAULT }.check(&history, question, &budget);
            let said = match &verdict {
                Verdict::Unknown(why) => format!("unknown: {why}"),
                other => other.word().to_owned(),
            };
            let checked = used() - start;
            let audit = if wrong::word(&history, question, &verdict) == 3 { "rejected" } else { "fine" };
            let (check, audited) = (checked.as_secs_f64(), (used() - start - checked).as_secs_f64());
            println!("{at} {level}: {said} ({check:.1} s), audit {audit} ({audited:.1} s)");
        }
    }
}
