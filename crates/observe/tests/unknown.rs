//! Initial values that nobody knows, found from what the log reveals.

mod support;

use margay_history::{History, OpKind::Commit, ValueId};
use margay_levels::Level;
use margay_observe::Options;
use margay_sql::Value;
use margay_verdict::observed::Execution;
use margay_verdict::{Certificate, Question, Verdict, wire};
use support::check;
use support::log::{Log, Seen};

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
fn what_cannot_be_is_never_called_possible() {
    assert_eq!(found(&log(&[(ONE, Some(5)), (ADD, None), (ONE, Some(16))])), None);
    assert!(found(&log(&[(ONE, Some(5)), (ADD, None), (ONE, Some(15))])).is_some());
}
