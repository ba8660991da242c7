//! Somebody else's tests, with the library's default features off. `tests/outside.rs` builds and
//! runs them.
#![cfg(test)]

use margay::{Datum, Level, Recorder, Verdict, check};

/// What the terminal shows of an answer that must be `unknown`.
fn unknown(recorder: &Recorder) -> String {
    let history = recorder.history().expect("a history");
    let report = check(&history, Level::Serializable);
    assert!(matches!(report.verdict(), Verdict::Unknown(_)), "{report}");
    report.to_string()
}

#[test]
fn registers_and_lists_are_decided() {
    let recorder = Recorder::new();
    let mut t = recorder.session(0).begin();
    t.write("x", 1);
    t.append("list", 1);
    t.commit();
    let mut t = recorder.session(1).begin();
    t.read("list", Datum::List(vec![1.into()]));
    t.read("x", 1);
    t.commit();
    margay::assert_isolated!(recorder, Level::Serializable);
}

#[test]
#[should_panic(expected = "violated")]
fn a_read_of_nothing_fails() {
    let recorder = Recorder::new();
    let mut t = recorder.session(0).begin();
    t.read("x", 7);
    t.commit();
    margay::assert_isolated!(recorder, Level::ReadCommitted);
}

#[test]
fn a_condition_is_not_read() {
    let recorder = Recorder::new();
    let mut t = recorder.session(0).begin();
    t.write(("t", 1), Datum::row([("id", 1), ("v", 5)]));
    t.commit();
    let mut t = recorder.session(0).begin();
    t.scan("t", "v > 3", [] as [(i64, Datum); 0]);
    t.commit();
    let shown = unknown(&recorder);
    assert!(shown.contains("v > 3") && shown.contains("this build reads no SQL"), "{shown}");
}

#[test]
fn a_statement_is_not_read() {
    let recorder = Recorder::new();
    let mut t = recorder.session(0).begin();
    t.query("SELECT SUM(v) FROM t", vec![], vec![vec![5.into()]]);
    t.commit();
    let shown = unknown(&recorder);
    assert!(shown.contains("SUM(v)") && shown.contains("this build reads no SQL"), "{shown}");
    assert!(margay::by_name("observe").is_err());
}
