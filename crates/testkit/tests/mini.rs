//! The mini language reads what it writes, and says where a text is wrong.

use margay_history::{OpKind, Outcome, Value};
use margay_testkit::{history, parse, show};

const SAMPLES: &[&str] = &[
    "",
    "T1: r(x,1) w(y,2)",
    "init: x=0 y=0 t/4={v:3} | T1: w(x,1) r(y,0) | T2: r(x,_) r(y,?) d(x) abort | T3: a(l,5) r(l,[5 6]) unknown",
    "T1@s1: w(x,1) | T2@s1: w(x,2) | T3@s2: r(x,1)",
    "T1@s2: w(x,1) | T2: w(x,2)",
    "skew 5 | T1: w(x,1)@[10,20] | T2: begin@[1,2] r(x,1; y,_)@[30,40] commit@[50,60]",
    "table t(id) | T1: scan(t, v > 5){4:{v:6} 5:{v:9}} upd(t, v > 5, v = 20){4:{v:20}} upd(t, v IN (1, 2), v = 1, w = 'a,b') del(t, v = 1){4:_} scan(t, v = ')|')",
    "T1: w(x,1) | T2: w(x,2) | T3: r(x,1) | order x: init T1 T2 | saw T3.0 x=T1 | snapshot T3=1 | commit T1=5 | serialization T1=1",
    "T1: w('a b',-3) w(t/(1 'x'),{a:1.5 b:true c:'it''s'}) w(7,18446744073709551615) sql('SELECT ''a''')",
];

#[test]
fn what_it_shows_reads_back_the_same() {
    for text in SAMPLES {
        let first = history(text);
        let again = parse(&show(&first)).unwrap_or_else(|error| panic!("{text}\n{}\n{error}", show(&first)));
        assert_eq!(first.difference(&again), None, "{text}\n{}", show(&first));
    }
}

#[test]
fn means_what_it_says() {
    let h = history(SAMPLES[2]);
    let [t1, t2, t3] = [1, 2, 3].map(|label| h.find_txn(label).unwrap());
    assert_eq!([t1, t2, t3].map(|t| h.outcome(t)), [Outcome::Committed, Outcome::Aborted, Outcome::Unknown]);
    assert_ne!(h.session_of(t1), h.session_of(t2));
    let kinds: Vec<_> = h.ops(t2).map(|op| op.kind).collect();
    assert_eq!(kinds, [OpKind::Read, OpKind::Read, OpKind::Write, OpKind::Abort]);
    let seen = h.ops(t3).nth(1).unwrap().accesses[0].value;
    assert!(matches!(h.value(seen), Value::List(items) if items.len() == 2));
    let sessions = history(SAMPLES[4]);
    assert_eq!(sessions.session_count(), 2);
}

#[test]
fn the_end_has_the_time_of_the_last_operation() {
    let h = history("T1: w(x,1)@[10,20] | T2: r(x,1)@[30,40]");
    let [t1, t2] = [1, 2].map(|label| h.find_txn(label).unwrap());
    assert_eq!((h.end(t1), h.start(t2)), (Some(20), Some(30)));
    assert!(h.precedes(t1, t2));
}

#[test]
fn errors_have_their_place() {
    let cases = [
        ("T1: w(x,1) q(y,2)", 11, "no operation"),
        ("T1: w(x,1", 9, "expected `)`"),
        ("T1: w(x,)", 8, "expected a value"),
        ("nonsense: x", 8, "begins no segment"),
        ("T1: w(x,1) abort w(x,2)", 17, "after the end"),
        ("T1: w(x,1) | T1: r(x,1)", 17, "after the end"),
        ("init: x=0 x=1", 10, "initial value before"),
        ("T1: w(x,1)@[20,10]", 4, "backwards"),
        ("T1: scan(t, v > 5", 17, "expected one of"),
    ];
    for (text, at, what) in cases {
        let error = parse(text).unwrap_err();
        assert!(error.at == at && error.what.contains(what), "{text}: {error}");
    }
    let error = parse("T1: w(x,1) | order x: T2").unwrap_err();
    assert!(error.what.contains("not in the history"), "{error}");
}

#[test]
fn the_examples_of_all_anomalies_parse() {
    for &anomaly in margay_levels::Anomaly::ALL {
        if let Some(example) = anomaly.entry().example {
            let h = parse(example).unwrap_or_else(|error| panic!("{anomaly}: {error}"));
            let again = parse(&show(&h)).unwrap();
            assert_eq!(h.difference(&again), None, "{anomaly}");
        }
    }
}
