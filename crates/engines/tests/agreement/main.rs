//! All engines, all levels, histories of every shape: whoever decides, decides the same.
//!
//! # Laws
//! 1. Of two engines that decide a question, both say the same; so does `auto`, and so do those
//!    that get statements as operations on rows.
//! 2. Every certificate passes the audit.
//! 3. If a level holds, no engine calls a level violated that it implies, whatever the evidence.
//! 4. No engine accuses a correct protocol of breaking what it promises.
//!
//! The histories are random tiny ones, simulated ones of all protocols, faults and mixes, and
//! simulated ones whose lines were changed afterwards. `MARGAY_SEEDS` says how many of each,
//! `MARGAY_SEED` where to begin.

mod mutate;
mod shapes;

use std::time::Duration;

use margay::{Choice, Options};
use margay_engines::{Engine, all};
use margay_history::History;
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_rows::{SeenState, translate};
use margay_simdb::simulate_history;
use margay_testkit::{Rng, random, show, shrink};
use margay_verdict::{Budget, Question, Verdict};

/// How long an engine may think; it says `unknown` then.
const PATIENCE: Duration = Duration::from_millis(400);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn seeds(few: u64) -> impl Iterator<Item = u64> {
    let first = number("MARGAY_SEED", 0);
    first..first + number("MARGAY_SEEDS", few)
}

/// What somebody said of a question.
struct Said {
    who: String,
    question: Question,
    holds: Option<bool>,
}

#[test]
fn on_random_histories() {
    for seed in seeds(25) {
        judge(&random(seed), &[], seed, &format!("random {seed}"));
    }
}

#[test]
fn on_simulated_histories() {
    for seed in seeds(25) {
        let config = shapes::config(seed);
        let (history, report) = simulate_history(&config).expect("a simulation is a history");
        let correct = report.firings.is_empty();
        let promised = if correct { config.protocol.promises_on(&config.mix) } else { &[] };
        judge(&history, promised, seed, &config.command("OUT"));
    }
}

#[test]
fn on_changed_histories() {
    for seed in seeds(25) {
        let config = shapes::config(seed);
        let (history, _) = simulate_history(&config).expect("a simulation is a history");
        if let Some(changed) = mutate::changed(&history, seed) {
            judge(&changed, &[], seed, &format!("changed by {seed}, {}", config.command("OUT")));
        }
    }
}

/// What the others have found once, made small.
#[test]
fn on_what_was_found() {
    let found = [
        // Two pieces of a version order say together what neither says alone.
        "init: x=0 y=0 | T10@s0: w(x,16) | T12@s1: w(y,7) | T16@s1: w(y,17) r(x,16) | T6@s2: w(y,8) | T13@s2: w(x,13) r(y,8)
         | order x: T10 T13 | order y: T6 T12 | order y: T12 T16",
        // The version between two others may be missing: the order of these is told all the same.
        "init: x=0 y=0 | T8@s0: r(y,1) w(x,4) unknown | T9@s1: w(x,17) unknown | T10@s2: w(x,6) | T11@s3: r(x,6) w(y,1) | T7@s4: r(x,4)
         | commit T8=1 | commit T9=2 | commit T10=3",
        // The version between two others is there only if its writer committed, which another
        // observation shows.
        "table t(k; k int, v int, w int) | init: t/0={v:0 w:0} t/2={v:0 w:0} | T1@s1: w(t/0,{v:0 w:2}) unknown
         | T5@s3: w(t/0,{v:1 w:8}) scan(t, v >= 0 AND v <= 1){0:{v:1 w:8} 2:{v:1 w:0}}
         | T3@s2: upd(t, v >= 0 AND v <= 1, v = 1){0:{v:1 w:2} 2:{v:1 w:0}} | order t/0: T5 T1 | commit T1=48 | commit T3=80",
    ];
    for text in found {
        judge(&margay_testkit::history(&text.replace('\n', " ")), &[], 0, text);
    }
}

/// Holds a history against the laws; one that breaks them is made small and shown.
fn judge(history: &History, promised: &[Level], seed: u64, from: &str) {
    let Err(error) = laws(history, promised, seed) else { return };
    println!("{from}\n{error}");
    let small = shrink(history, &|part| laws(part, &[], seed).is_err());
    let again = laws(&small, &[], seed).err().unwrap_or_default();
    panic!("{from}\n{error}\nmade small:\n{}\n{again}", show(&small));
}

fn laws(history: &History, promised: &[Level], seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut said = Vec::new();
    for level in Level::ALL {
        let question = Question { real_time: history.is_timed() && rng.chance(10), ..Question::new(level) };
        said.extend(ask_all(history, question)?);
    }
    agree(&said)?;
    implied(&said)?;
    let accused = said.iter().find(|said| {
        let kept = promised.iter().any(|promised| promised.implies(said.question.level));
        said.holds == Some(false) && kept && !said.question.real_time
    });
    accused.map_or(Ok(()), |said| {
        Err(format!("{} accuses a correct protocol: {}", said.who, said.question.level))
    })
}

/// What all engines say, of the history itself and of the rows that its statements are.
fn ask_all(history: &History, question: Question) -> Result<Vec<Said>, String> {
    let sight = match question.level.family() {
        Family::Serial | Family::Snapshot => SeenState::Stable,
        _ => SeenState::Changing,
    };
    let rows = translate(history, sight).filter(|rows| rows.left.is_none()).map(|rows| rows.history);
    let forms = [("", Some(history)), (" on rows", rows.as_ref())];
    let engines = || {
        all().iter().map(|&engine| (engine.name(), Choice::Engine(engine))).chain([("auto", Choice::Auto)])
    };
    let mut said = Vec::new();
    for (form, history) in forms.into_iter().filter_map(|(form, history)| Some((form, history?))) {
        for (name, engine) in engines() {
            let who = format!("{name}{form}");
            said.push(Said { holds: ask(history, question, engine, &who)?, who, question });
        }
    }
    Ok(said)
}

/// What one engine says; an error if the audit refuses its proof.
fn ask(history: &History, question: Question, engine: Choice, who: &str) -> Result<Option<bool>, String> {
    let budget = Budget::unlimited().with_time(PATIENCE);
    let options = Options::with_engine(engine);
    let decided = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        margay::decide(history, question, &options, &budget)
    }));
    let decision = decided.map_err(|_| format!("{who} panics at {}", question.level))?;
    if let Some(fault) = decision.faults.first() {
        return Err(format!("{who} at {}: the audit rejects {fault:?}", question.level));
    }
    match decision.verdict {
        Verdict::Holds(_) => Ok(Some(true)),
        // The mirror accuses mechanisms, not the level.
        Verdict::Violated(_) => Ok((decision.engine != Some("mirror")).then_some(false)),
        Verdict::Clean | Verdict::Unknown(_) => Ok(None),
    }
}

fn agree(said: &[Said]) -> Result<(), String> {
    for yes in said.iter().filter(|said| said.holds == Some(true)) {
        let no = said.iter().find(|no| no.question == yes.question && no.holds == Some(false));
        if let Some(no) = no {
            let Question { level, real_time, .. } = no.question;
            return Err(format!(
                "{} says that {level} holds (real time {real_time}), {} that it does not",
                yes.who, no.who
            ));
        }
    }
    Ok(())
}

fn implied(said: &[Said]) -> Result<(), String> {
    let pairs = said.iter().flat_map(|yes| said.iter().map(move |no| (yes, no)));
    for (yes, no) in pairs.filter(|(yes, no)| yes.holds == Some(true) && no.holds == Some(false)) {
        let same_time = yes.question.real_time || !no.question.real_time;
        if yes.question.level.implies(no.question.level) && same_time {
            return Err(format!(
                "{} says that {} holds, {} that {} does not",
                yes.who, yes.question.level, no.who, no.question.level
            ));
        }
    }
    Ok(())
}

/// Every engine is asked.
#[test]
fn nobody_is_left_out() {
    let names: Vec<&str> = all().iter().map(|engine: &Engine| engine.name()).collect();
    assert_eq!(names.len(), margay_engines::NAMES.len());
}
