//! What a violated verdict says about other levels, held against the answers at those levels.
//!
//! # Laws
//! For every audited finding, at whatever level it was found:
//! 1. No level that it names as broken holds when asked.
//! 2. No level that it names as not ruled out is refuted by this very proof.
//! 3. No level that implies one of Elle's models in `not` and `also-not` holds when asked.
//!
//! # Story
//! The names came from that of the anomaly. Of 3,511 histories of other tools 1,932 had a level
//! named as broken that holds: a cycle through session order was called G1c, which rules out
//! read-committed; and of several cycles the shortest gave the name to all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use margay::{Decision, Options};
use margay_audit::reach::boundary;
use margay_audit::{Reach, audit, reach};
use margay_formats::{Source, read};
use margay_history::History;
use margay_levels::Level;
use margay_testkit::{cases, corpora, random, show, shrink};
use margay_verdict::{Budget, Question, Translation, Verdict};

/// Larger histories of the corpora take too long at fourteen levels.
const OPERATIONS: usize = 3_000;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn ask(history: &History, level: Level) -> Decision {
    let budget = Budget::unlimited().with_time(Duration::from_secs(5));
    margay::decide(history, Question::new(level), &Options::default(), &budget)
}

/// How many levels were named, and how often the law holds only because a level was not decided.
#[derive(Default)]
struct Tally {
    violated: usize,
    named: usize,
    undecided: usize,
}

fn law(history: &History, tally: &mut Tally) -> Result<(), String> {
    let asked: HashMap<Level, Decision> =
        Level::ALL.into_iter().map(|level| (level, ask(history, level))).collect();
    let holds = |level: Level| matches!(asked[&level].verdict, Verdict::Holds(_));
    for (&level, decision) in &asked {
        let (Verdict::Violated(findings), question) = (&decision.verdict, Question::new(level)) else {
            continue;
        };
        // The mirror accuses mechanisms, not the level.
        if decision.engine == Some("mirror") {
            continue;
        }
        let claim = decision.claim(history, question).expect("a proof");
        let history = decision.about(history);
        for finding in findings {
            tally.violated += 1;
            let reach = reach(history, question, finding, claim.translation, &Budget::unlimited());
            let told = || format!("{level}: {} names {reach:?}\n{finding:?}", finding.anomaly);
            if !reach.broken.contains(&level) {
                return Err(format!("the level itself is not named as broken: {}", told()));
            }
            if let Some(false_word) = reach.broken.iter().find(|&&level| holds(level)) {
                return Err(format!("{false_word} is named as broken and holds: {}", told()));
            }
            let refutes = |level: Level| audit(history, Question::new(level), &finding.certificate).is_ok();
            if let Some(false_word) = reach.left.iter().find(|&&level| refutes(level)) {
                return Err(format!("{false_word} is named as not ruled out and refuted: {}", told()));
            }
            if let Some(false_word) = false_model(&reach, &holds) {
                return Err(format!("{false_word}: {}", told()));
            }
            tally.named += reach.broken.len();
            let decided = |level: &&Level| matches!(asked[*level].verdict, Verdict::Violated(_));
            tally.undecided += reach.broken.len() - reach.broken.iter().filter(decided).count();
        }
    }
    Ok(())
}

/// A model that is ruled out, and a level that implies it and holds.
fn false_model(reach: &Reach, holds: &impl Fn(Level) -> bool) -> Option<String> {
    let out = boundary([reach]);
    out.not.iter().chain(&out.also_not).chain(&reach.models).find_map(|model| {
        let level = model.implied_by().into_iter().find(|&level| holds(level))?;
        Some(format!("{model} is ruled out, and {level}, which implies it, holds"))
    })
}

fn judge(history: &History, from: &str, tally: &mut Tally) {
    let Err(error) = law(history, tally) else { return };
    println!("{from}\n{error}");
    let fails = |part: &History| law(part, &mut Tally::default()).is_err();
    let small = shrink(history, &fails);
    let again = law(&small, &mut Tally::default()).err().unwrap_or_default();
    panic!("{from}\n{error}\nmade small:\n{}\n{again}", show(&small));
}

fn history(path: &Path) -> History {
    let loaded = read(Source::Path(path.to_path_buf()), None);
    loaded.unwrap_or_else(|error| panic!("{}: {error}", path.display())).history
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The history of the story: read-committed and serializable hold, and only session order breaks
/// strong-session-serializable.
#[test]
fn a_cycle_through_sessions_breaks_no_level_without_them() {
    let history = history(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/false-breaks-claim.txt"));
    let level = Level::StrongSessionSerializable;
    let Verdict::Violated(findings) = ask(&history, level).verdict else { panic!("it is violated") };
    for finding in &findings {
        let reach =
            reach(&history, Question::new(level), finding, Translation::Recorded, &Budget::unlimited());
        let name = finding.anomaly.name();
        assert!(name.ends_with("-process") || name == "cyclic-versions", "{name} is no plain anomaly");
        for level in [Level::ReadCommitted, Level::SnapshotIsolation, Level::Serializable] {
            assert!(!reach.broken.contains(&level), "{level} is named as broken: {finding:?}");
            assert!(reach.left.contains(&level), "{level} is not ruled out: {finding:?}");
        }
    }
    judge(&history, "the case", &mut Tally::default());
}

/// Which version came first is open: in one order the cycle is G1c, in the other G-single. The
/// proof has both, and refutes only what forbids both.
#[test]
fn of_several_cycles_only_what_all_share_counts() {
    let text = "T1@s1: w(x,1) w(y,1) | T2@s1: w(x,2) | T3@s2: r(x,2) w(z,1) | T4@s2: r(z,1) r(x,1) | T5@s3: r(x,2) r(y,_)";
    let history = margay_testkit::history(text);
    let mut tally = Tally::default();
    judge(&history, text, &mut tally);
    assert!(tally.violated > 0, "nothing is violated");
}

#[test]
fn our_own_histories() {
    let mut tally = Tally::default();
    let examples = std::fs::read_dir(root().join("examples")).expect("the examples are there");
    for path in examples.map(|entry| entry.expect("readable").path()) {
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            judge(&history(&path), &path.display().to_string(), &mut tally);
        }
    }
    let folders = std::fs::read_dir(root().join("corpus")).expect("the corpus is there");
    let folders = folders.map(|entry| entry.expect("readable").path()).filter(|path| path.is_dir());
    for path in folders.flat_map(|folder| std::fs::read_dir(folder).expect("readable")) {
        let path = path.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "hist") {
            let text = std::fs::read_to_string(&path).expect("readable");
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            let history = margay_testkit::parse(&lines.join(" | "));
            let history = history.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            judge(&history, &path.display().to_string(), &mut tally);
        }
    }
    told("our own histories", &tally, 100);
}

#[test]
fn random_histories() {
    let mut tally = Tally::default();
    let first = number("MARGAY_SEED", 0);
    for seed in first..first + number("MARGAY_SEEDS", 150) {
        judge(&random(seed), &format!("random {seed}"), &mut tally);
    }
    told("random histories", &tally, 100);
}

/// Every violated history of the other tools that is not too large.
#[test]
fn histories_of_other_tools() {
    let Some(root) = corpora() else { return println!("SKIPPED: no corpora beside the workspace") };
    let mut tally = Tally::default();
    let mut paths: Vec<PathBuf> =
        cases(&root).into_iter().filter(|case| !case.holds).map(|case| case.path).collect();
    paths.sort();
    paths.dedup();
    let every = number("MARGAY_EVERY", 1).max(1) as usize;
    for path in paths.iter().step_by(every) {
        let history = history(path);
        if history.op_count() <= OPERATIONS {
            judge(&history, &path.display().to_string(), &mut tally);
        }
    }
    told("histories of other tools", &tally, 100);
}

fn told(what: &str, tally: &Tally, at_least: usize) {
    let Tally { violated, named, undecided } = tally;
    println!("{what}: {violated} findings name {named} levels as broken, {undecided} of them undecided");
    assert!(*violated >= at_least, "only {violated} findings");
}
