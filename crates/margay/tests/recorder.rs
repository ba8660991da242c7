//! Recording by hand: what comes out, what is refused, and that nothing panics.

use std::time::Duration;

use margay::{Budget, Datum, Level, Options, Question, Recorder, assert_isolated, check, check_with};
use margay_testkit::Rng;

/// Two doctors on call, each of whom leaves because the other is there.
fn write_skew() -> Recorder {
    let recorder = Recorder::new();
    recorder.initial("alice", "on call");
    recorder.initial("bob", "on call");
    for (session, mine, other) in [(0, "alice", "bob"), (1, "bob", "alice")] {
        let mut t = recorder.session(session).begin();
        t.read(other, "on call");
        t.write(mine, "off");
        t.commit();
    }
    recorder
}

#[test]
fn a_report_has_all_forms() {
    let history = write_skew().history().expect("a history");
    assert!(check(&history, Level::SnapshotIsolation).holds());
    let report = check(&history, Level::Serializable);
    assert!(report.is_violated());
    let text = report.to_string();
    assert!(text.starts_with("violated: ") && text.contains("alice"), "{text}");
    assert!(report.json().contains("\"verdict\":\"violated\""));
    assert!(report.html().starts_with("<!doctype html>"));
    assert!(report.certificate().is_some_and(|text| text.contains("margay-certificate")));
}

#[test]
fn a_failed_assertion_tells_the_story_and_keeps_the_evidence() {
    let failed = std::panic::catch_unwind(|| assert_isolated!(write_skew(), Level::Serializable));
    let message = failed.expect_err("write skew is not serializable");
    let message = message.downcast_ref::<String>().expect("a text");
    assert!(message.contains("violated") && message.contains("history and page: "), "{message}");
    let stem = message.split("history and page: ").nth(1).and_then(|rest| rest.split(".{").next());
    let stem = stem.expect("the place").to_owned();
    for ending in ["jsonl", "html", "certificate.json"] {
        assert!(std::fs::metadata(format!("{stem}.{ending}")).is_ok(), "{stem}.{ending}");
    }
}

#[test]
fn clocks_order_what_many_threads_do() {
    let recorder = Recorder::with_clock();
    recorder.initial("x", 0);
    let register = std::sync::Mutex::new(0_i64);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (session, register) = (recorder.session(number), &register);
            scope.spawn(move || {
                for _ in 0..50 {
                    let mut t = session.begin();
                    let mut x = register.lock().expect("nobody panics");
                    t.read("x", *x);
                    *x += 1;
                    t.write("x", *x);
                    t.commit();
                }
            });
        }
    });
    let history = recorder.history().expect("a history");
    assert!(history.is_timed());
    assert!(check(&history, Level::StrictSerializable).holds());
}

#[test]
fn rows_scans_and_statements_are_recorded_too() {
    let recorder = Recorder::new();
    recorder.set_dbms("postgresql-15");
    recorder.table("t", &["id"], &[("id", "int"), ("v", "int")]);
    recorder.initial(("t", 1), Datum::row([("id", 1), ("v", 5)]));
    let mut t = recorder.session(0).begin();
    t.scan("t", "v > 3", [(1, Datum::row([("id", 1), ("v", 5)]))]);
    t.query("SELECT v FROM t WHERE id = $1", vec![1.into()], vec![vec![5.into()]]);
    t.execute("UPDATE t SET v = 6 WHERE id = 1", vec![], 1);
    t.commit();
    let history = recorder.history().expect("a history");
    assert_eq!(history.op_count(), 5);
}

#[test]
fn what_is_no_history_is_an_error_that_says_where() {
    let recorder = Recorder::new();
    let session = recorder.session(3);
    let (first, second) = (session.begin(), session.begin());
    first.commit();
    second.commit();
    let error = recorder.history().expect_err("they overlap").to_string();
    assert_eq!(error, "transaction 2: session 3 begins it while transaction 1 is open");

    let recorder = Recorder::new();
    let open = recorder.session(0).begin();
    assert_eq!(recorder.history().expect_err("it is open").to_string(), "transaction 1: it has not ended");
    drop(open);
    assert_eq!(recorder.history().expect("its outcome is unknown").txn_count(), 1);

    let deep = (0..100).fold(Datum::Null, |inner, _| Datum::List(vec![inner]));
    let mut t = recorder.session(0).begin();
    t.write("x", deep);
    t.commit();
    let error = recorder.history().expect_err("it is too deep").to_string();
    assert_eq!(error, "transaction 2: values are nested more than 64 deep");
}

/// Arbitrary sequences of calls: a history or an error, an answer or `unknown`, never a panic.
#[test]
fn no_sequence_of_calls_panics() {
    for seed in 0..300 {
        let recorder = scribble(&mut Rng::new(seed));
        let Ok(history) = recorder.history() else { continue };
        for level in [Level::ReadCommitted, Level::StrictSerializable] {
            let budget = Budget::unlimited().with_time(Duration::from_millis(50));
            let report = check_with(&history, Question::new(level), &Options::default(), &budget);
            assert!(report.decision().faults.is_empty(), "{seed}: {:?}", report.decision().faults);
            let _ = (report.to_string(), report.json(), report.html(), report.certificate());
        }
    }
}

fn scribble(rng: &mut Rng) -> Recorder {
    let recorder = if rng.chance(50) { Recorder::new() } else { Recorder::with_clock() };
    if rng.chance(30) {
        recorder.table("t", &["id"], &[("id", "int"), ("v", "int")]);
    }
    let mut open = Vec::new();
    for _ in 0..rng.below(30) {
        match rng.below(10) {
            0 => recorder.initial(datum(rng, 0), datum(rng, 0)),
            1 | 2 => open.push(recorder.session(rng.below(3) as u64).begin()),
            _ if open.is_empty() => {}
            kind => {
                let at = rng.below(open.len());
                match kind {
                    3 => open[at].read(datum(rng, 0), datum(rng, 0)),
                    4 => open[at].write(datum(rng, 0), datum(rng, 0)),
                    5 => open[at].append("l", datum(rng, 0)),
                    6 => open[at].scan("t", "v > 1", [(1, datum(rng, 0))]),
                    7 => open[at].query("SELECT v FROM t", vec![], vec![vec![datum(rng, 0)]]),
                    8 => open.swap_remove(at).commit(),
                    _ => drop(open.swap_remove(at)),
                }
            }
        }
    }
    recorder
}

fn datum(rng: &mut Rng, depth: u32) -> Datum {
    match rng.below(if depth > 2 { 6 } else { 8 }) {
        0 => Datum::Null,
        1 => rng.chance(50).into(),
        2 => f64::NAN.into(),
        3 => "text".into(),
        4 => u64::MAX.into(),
        5 => (rng.below(3) as i64).into(),
        6 => Datum::List(vec![datum(rng, depth + 1), datum(rng, depth + 1)]),
        _ => Datum::row([("v", datum(rng, depth + 1)), ("w", datum(rng, depth + 1))]),
    }
}
