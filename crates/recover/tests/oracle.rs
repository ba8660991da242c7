//! The interpreter and a real PostgreSQL agree on which versions match.

mod common;

use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

use margay_client::Rng;
use margay_recover::{Datum, Oracle};
use margay_sql::{Dialect, Predicate, Value};

const CONDITIONS: [&str; 14] = [
    "v >= 3 AND v <= 7",
    "v BETWEEN 2 AND 5 OR w = 4",
    "NOT (v > 4)",
    "v IS NULL",
    "v IS NOT NULL AND w IS NULL",
    "v + w > 8",
    "v * 2 - w = 3",
    "v IN (1, 3, 5, NULL)",
    "v NOT IN (1, 3, 5)",
    "v <> w",
    "v % 3 = 1",
    "(v > 2) = (w > 2)",
    "CASE WHEN v > 4 THEN w ELSE v END = 3",
    "COALESCE(v, w, 0) = 2",
];

fn open(url: &str) -> Oracle {
    for _ in 0..300 {
        match Oracle::open(url) {
            Ok(oracle) => return oracle,
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
    panic!("the server does not take connections")
}

#[test]
fn the_database_matches_what_the_interpreter_matches() {
    let Some(server) = common::postgres() else { return };
    let mut rng = Rng::new(5, 1);
    let mut number = || if rng.below(6) == 0 { Datum::Null } else { Datum::Int(rng.below(10) as i64 - 1) };
    let rows: Vec<Vec<Datum>> = (0..300).map(|_| vec![number(), number()]).collect();
    let mut oracle = open(server.url());
    oracle.load(&[("v", "BIGINT"), ("w", "BIGINT")], &rows).expect("a table");
    let mut matched = 0;
    for condition in CONDITIONS {
        let predicate = Predicate::parse(condition, Dialect::Postgres).expect("a condition");
        let ours = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| predicate.matches(&columns(row)).expect("a truth value"));
        let ours: Vec<usize> = ours.map(|(number, _)| number).collect();
        assert_eq!(oracle.matching(condition), Ok(ours.clone()), "{condition}");
        matched += ours.len();
    }
    assert!(matched > 300, "the conditions match something: {matched}");
    assert!(oracle.matching("no_such_column = 1").is_err());
}

fn columns(row: &[Datum]) -> HashMap<&'static str, Value> {
    let value = |datum: &Datum| match datum {
        Datum::Int(int) => Value::Int(*int),
        _ => Value::Null,
    };
    HashMap::from([("v", value(&row[0])), ("w", value(&row[1]))])
}
