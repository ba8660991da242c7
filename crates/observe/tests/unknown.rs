//! Initial values that nobody knows, found from what the log reveals.

mod support;

use std::collections::BTreeMap;

use margay_audit::audit;
use margay_history::OpKind::Commit;
use margay_history::{History, ValueId};
use margay_levels::Level;
use margay_observe::Options;
use margay_sql::Value;
use margay_verdict::execution::{Clash, Execution, Reading, Unexplained};
use margay_verdict::{Certificate, Claim, Question, Verdict, wire};
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
    let values: Vec<Value> = execution.initial.iter().map(|cell| cell.value.clone()).collect();
    assert_eq!(values, [100, 300].map(Value::Int));
    let question = Question::new(LEVEL);
    let certificate = Certificate::Execution(execution);
    let claim = Claim::of(&history, question, None, &certificate);
    let text = wire::to_json(&history, &claim, &certificate);
    assert_eq!(wire::from_json(&history, None, &text), Ok((claim, certificate)));
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
    let claim = Claim::of(&history, question, None, &certificate);
    let text = wire::to_json(&history, &claim, &certificate);
    assert_eq!(wire::from_json(&history, None, &text), Ok((claim, certificate)));
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

/// Whatever initial values there are, if one of them explains a tiny log, nobody says that none
/// does; and what is refuted is explained by none.
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

/// A double that stands for many integers may be any of them, and a column may be wider than its
/// type says.
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

/// A table of people of whom nothing is known at first, a table of pets that is known, and
/// transactions one after the other.
fn people(dbms: &str, lines: &[(&str, &[&[Value]])]) -> History {
    let people: &[(&str, &str)] =
        &[("id", "int"), ("name", "varchar(20)"), ("born", "date"), ("owes", "decimal(10,2)")];
    let pets: &[(&str, &str)] = &[("id", "int"), ("age", "int")];
    let mut log = Log::new(&[("people", &["id"], people), ("pets", &["id"], pets)]);
    log.builder.header().dbms = Some(dbms.to_owned());
    for (table, id) in [("people", 1), ("people", 2), ("pets", 1)] {
        let key = log.builder.values().int(id);
        let table_id = log.builder.table(table);
        let object = log.builder.object(Some(table_id), key);
        let age = (log.builder.values().intern_name("age"), key);
        let value = if table == "pets" { log.builder.values().row(&[age]) } else { ValueId::UNKNOWN };
        log.builder.initial(object, value).unwrap();
    }
    for (number, (text, rows)) in (0..).zip(lines) {
        let seen = if text.starts_with("SELECT") {
            Seen::Rows(rows.iter().map(|row| row.to_vec()).collect())
        } else {
            Seen::Nothing
        };
        log.sql(0, number, None, text, &[], &seen);
        log.op(0, number, None, Commit);
    }
    log.finish()
}

fn text(text: &str) -> Value {
    Value::text(text)
}

/// Texts, dates and decimals are revealed too, also under DISTINCT, GROUP BY and LIMIT; the
/// execution is audited with the values that it names.
#[test]
fn texts_dates_and_decimals_are_revealed() {
    for dbms in ["postgresql-15", "mariadb-10.11", "sqlite-3.40"] {
        let dated = dbms != "sqlite-3.40";
        let born: &[&[Value]] = if dated { &[&[text("1970-05-01")]] } else { &[&[Value::Null]] };
        let history = people(
            dbms,
            &[
                ("UPDATE people SET owes = owes + 1.25 WHERE id = 1", &[]),
                ("SELECT name, owes FROM people WHERE id = 1", &[&[text("ann"), text("3.75")]]),
                ("SELECT name FROM people WHERE id = 2", &[&[text("bob")]]),
                ("SELECT DISTINCT name FROM people ORDER BY name LIMIT 1", &[&[text("ann")]]),
                (
                    "SELECT name, COUNT(*) FROM people GROUP BY name ORDER BY name",
                    &[&[text("ann"), Value::Int(1)], &[text("bob"), Value::Int(1)]],
                ),
                ("SELECT born FROM people WHERE id = 2", born),
                ("SELECT owes FROM people WHERE id = 2", &[&[Value::Null]]),
            ],
        );
        let execution = found(&history).unwrap_or_else(|| panic!("{dbms}: an execution"));
        let named = |value: &Value| execution.initial.iter().filter(|cell| cell.value == *value).count();
        assert_eq!((named(&text("ann")), named(&text("bob"))), (1, 1), "{dbms}: {:?}", execution.initial);
        let (question, certificate) = (Question::new(LEVEL), Certificate::Execution(execution));
        let claim = Claim::of(&history, question, None, &certificate);
        let json = wire::to_json(&history, &claim, &certificate);
        assert_eq!(wire::from_json(&history, None, &json), Ok((claim, certificate)));
    }
}

/// Names that nobody knows have no formula, but rows that are known are wrong whatever the names
/// were.
#[test]
fn what_is_known_is_refuted_beside_what_is_not() {
    let names: (&str, &[&[Value]]) = ("SELECT DISTINCT name FROM people WHERE id = 1", &[&[text("ann")]]);
    let grow = "UPDATE pets SET age = age + 1 WHERE id = 1";
    for (age, word) in [(2, "holds"), (3, "violated")] {
        let row = [Value::Int(age)];
        let history = people("postgresql-15", &[names, (grow, &[]), (AGE, &[&row])]);
        assert_eq!(check(&history, LEVEL, Options::DEFAULT).word(), word);
    }
    // Nothing else is said of the names themselves: one that changes by itself is not refuted.
    let other: (&str, &[&[Value]]) = (names.0, &[&[text("bob")]]);
    assert_eq!(check(&people("postgresql-15", &[names, other]), LEVEL, Options::DEFAULT).word(), "unknown");
}

const AGE: &str = "SELECT age FROM pets WHERE id = 1";
