//! Initial values that nobody knows, found from what the log reveals.

mod support;

use std::collections::BTreeMap;

use margay_history::{History, OpKind::Commit, ValueId};
use margay_levels::Level;
use margay_observe::Options;
use margay_sql::Value;
use margay_verdict::observed::formula::Clash;
use margay_verdict::observed::{Execution, Reading, Unexplained};
use margay_verdict::{Certificate, Question, Verdict, audit, wire};
use support::log::{Log, Seen};
use support::tiny::{Start, on};
use support::{LEVELS, Random, check, naive};

const ADD: &str = "UPDATE accounts SET balance = balance + 10 WHERE id = 1";
const ONE: &str = "SELECT balance FROM accounts WHERE id = 1";
const SUM: &str = "SELECT SUM(balance) FROM accounts";

/// Two accounts whose balances nobody knows, and transactions one after the other.
fn log(lines: &[(&str, Option<i64>)]) -> History {
    let mut log = Log::new(&[("accounts", &["id"], &[("id", "int"), ("balance", "int")])]);
    for id in [1, 2] {
        let key = log.builder.values().int(id);
        let table = log.builder.table("accounts");
        let object = log.builder.object(Some(table), key);
        log.builder.initial(object, ValueId::UNKNOWN).unwrap();
    }
    for (number, (text, seen)) in (0..).zip(lines) {
        let seen = seen.map_or(Seen::Nothing, |number| Seen::Rows(vec![vec![Value::Int(number)]]));
        log.sql(0, number, None, text, &[], &seen);
        log.op(0, number, None, Commit);
    }
    log.finish()
}

const LEVEL: Level = Level::StrongSessionSerializable;

fn found(history: &History) -> Option<Execution> {
    match check(history, LEVEL, Options::DEFAULT) {
        Verdict::Holds(Certificate::Execution(execution)) => Some(execution),
        Verdict::Unknown(_) => None,
        other => panic!("{other:?}"),
    }
}

/// The certificate that nothing explains a log, which the audit has accepted.
fn refuted(history: &History) -> Unexplained {
    let verdict = check(history, LEVEL, Options::DEFAULT);
    let Some(Certificate::Unexplained(unexplained)) = verdict.certificate() else { panic!("{verdict:?}") };
    assert_eq!(verdict.word(), "violated");
    unexplained.clone()
}

#[test]
fn what_is_shown_later_reveals_it() {
    let history = log(&[(ADD, None), (ONE, Some(110)), (ADD, None), (SUM, Some(420))]);
    let execution = found(&history).expect("an execution");
    let values: Vec<i64> = execution.initial.iter().map(|cell| cell.value).collect();
    assert_eq!(values, [100, 300]);
    let question = Question::new(LEVEL);
    let text = wire::to_json(&history, question, &Certificate::Execution(execution.clone()));
    assert_eq!(wire::from_json(&history, &text), Ok((question, Certificate::Execution(execution))));
}

#[test]
fn what_no_initial_values_explain_is_refuted() {
    let history = log(&[(ONE, Some(5)), (ADD, None), (ONE, Some(16))]);
    let unexplained = refuted(&history);
    assert_eq!(unexplained.txns.len(), 3);
    assert!(unexplained.notes.iter().any(|line| line.contains("16")), "{:?}", unexplained.notes);
    assert!(found(&log(&[(ONE, Some(5)), (ADD, None), (ONE, Some(15))])).is_some());
    // A row that is not there adds nothing, and nothing else does either.
    refuted(&log(&[(SUM, Some(420)), (ADD, None), (SUM, Some(431))]));
    assert!(found(&log(&[(SUM, Some(420)), (ADD, None), (SUM, Some(430))])).is_some());
}

#[test]
fn a_refutation_without_its_clashes_is_rejected() {
    let history = log(&[(ONE, Some(5)), (ADD, None), (SUM, Some(40)), (ADD, None), (SUM, Some(51))]);
    let (question, whole) = (Question::new(LEVEL), refuted(&history));
    let certificate = Certificate::Unexplained(whole.clone());
    let text = wire::to_json(&history, question, &certificate);
    assert_eq!(wire::from_json(&history, &text), Ok((question, certificate)));
    let clashes = whole.clashes.clone().expect("clashes");
    assert!(!clashes.is_empty());
    let rejected = |clashes: Option<Vec<Clash>>, why: &str| {
        let certificate = Certificate::Unexplained(Unexplained { clashes, ..whole.clone() });
        let answer = audit(&history, question, &certificate).expect_err(why).to_string();
        assert!(answer.contains(why), "{answer}");
    };
    rejected(None, "cannot all be tried");
    rejected(Some(Vec::new()), "leave a model");
    for at in 0..clashes.len() {
        let mut less = clashes.clone();
        less[at].bounds.pop();
        rejected(Some(less), "do not clash");
        let mut other = clashes.clone();
        other[at].bounds[0].times = -other[at].bounds[0].times;
        rejected(Some(other), "do not clash");
        let mut twice = clashes.clone();
        let (term, factor) = twice[at].bounds[0].form[0];
        twice[at].bounds[0].form.extend([(term, 1), (term, -1)]);
        assert_ne!(factor, 0);
        rejected(Some(twice), "do not clash");
    }
}

/// Whatever initial values there are, if one of them explains a tiny log, nobody says that none does; and what is refuted is explained by none.
#[test]
fn nobody_is_accused_whom_some_initial_values_explain() {
    let cases = std::env::var("MARGAY_OBSERVE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    let mut explained = [0; 2];
    for seed in 9000..9000 + cases {
        let open = [Start::Unknown, Start::Open];
        let kinds =
            [open[seed as usize % 2], *Random(seed).pick(&[Start::Unknown, Start::Open, Start::Holds(1)])];
        let history = on(Random(seed), kinds);
        for level in LEVELS {
            let verdict = check(&history, level, Options::DEFAULT);
            *words.entry(verdict.word()).or_default() += 1;
            let question = Question::new(level);
            let mut all = every(kinds).into_iter();
            let some = all.find(|&starts| naive::holds(&on(Random(seed), starts), question, Reading::Item));
            explained[usize::from(some.is_some())] += 1;
            if verdict.word() == "violated" {
                assert_eq!(some, None, "seed {seed} at {level}: {verdict:?}\n{history:?}");
            }
        }
    }
    println!("{words:?}, {explained:?} explained by none and by some");
    assert!(words["holds"] > cases as usize && words["violated"] > cases as usize, "{words:?}");
}

/// All beginnings that these stand for, with small integers.
fn every(kinds: [Start; 2]) -> Vec<[Start; 2]> {
    let each = |kind: Start| match kind {
        Start::Unknown | Start::Open => {
            let more = if kind == Start::Open { vec![Start::Null, Start::Absent] } else { vec![Start::Null] };
            more.into_iter().chain((-1..6).map(Start::Holds)).collect()
        }
        known => vec![known],
    };
    let (first, second) = (each(kinds[0]), each(kinds[1]));
    first.iter().flat_map(|&a| second.iter().map(move |&b| [a, b])).collect()
}

/// A double that stands for many integers may be any of them, and a column may be wider than its type says.
#[test]
fn large_numbers_accuse_nobody() {
    let mut large = Log::new(&[("accounts", &["id"], &[("id", "int"), ("balance", "bigint")])]);
    let key = large.builder.values().int(1);
    let table = large.builder.table("accounts");
    let object = large.builder.object(Some(table), key);
    large.builder.initial(object, ValueId::UNKNOWN).unwrap();
    for number in 0..2 {
        let seen = Seen::Rows(vec![vec![Value::Float(1.0e18)]]);
        large.sql(0, number, None, ONE, &[], &seen);
        large.op(0, number, None, Commit);
    }
    assert_ne!(check(&large.finish(), LEVEL, Options::DEFAULT).word(), "violated");
    let wide = log(&[(ONE, Some(5_000_000_000)), (ONE, Some(5_000_000_000))]);
    assert_ne!(check(&wide, LEVEL, Options::DEFAULT).word(), "violated");
}
