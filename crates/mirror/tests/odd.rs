//! Histories at the edge: nothing in them, nobody who ends, everything at the same time, far too
//! much of one thing.

mod timed;

use margay_audit::audit;
use margay_history::{
    Access, History, HistoryBuilder, Interval, ObjectId, OpDetail, OpId, OpKind, TxnId, Values,
};
use margay_levels::profile::{self, Found};
use margay_levels::{Anomaly, Level};
use margay_mirror::{Engine, Mechanisms, Mirror, Trace, Unfit};
use margay_testkit::history;
use margay_verdict::{Budget, Checker, Question, Verdict};
use timed::timed;

const ANY: Question = Question { real_time: false, ..Question::new(Level::ReadUncommitted) };

fn mechanisms(profile: &str) -> Mechanisms {
    let Found(profile) = profile.parse().expect("a profile");
    Mechanisms::of(profile)
}

fn check(mechanisms: Mechanisms, history: &History) -> Verdict {
    Engine { mechanisms: Some(mechanisms), ..Engine::default() }.check(history, ANY, &Budget::unlimited())
}

/// The anomalies that are found, each with a certificate that the audit accepts.
fn found(profile: &str, history: &History) -> Vec<Anomaly> {
    match check(mechanisms(profile), history) {
        Verdict::Violated(findings) => {
            for finding in &findings {
                assert_eq!(audit(history, ANY, &finding.certificate), Ok(()));
            }
            findings.iter().map(|finding| finding.anomaly).collect()
        }
        verdict => {
            assert_eq!(verdict, Verdict::Clean);
            Vec::new()
        }
    }
}

#[track_caller]
fn is_clean_everywhere(history: &History) {
    for profile in profile::all() {
        assert_eq!(check(Mechanisms::of(profile), history), Verdict::Clean, "{}", profile.name());
    }
}

/// A table of rows with two columns.
fn rows(lines: &[&str]) -> History {
    let header = r#"{"margay":1,"tables":{"t":{"key":["id"],"columns":{"id":"int","v":"int","w":"int"}}},"initial":[[["t",1],{"v":10,"w":0}]]}"#;
    timed(header, lines)
}

#[test]
fn nothing() {
    is_clean_everywhere(&HistoryBuilder::new().finish().expect("a history"));
    is_clean_everywhere(&history("init: x=0 | T1: r(x,0)@[1,2]"));
}

#[test]
fn nobody_ends() {
    let open = r#"1 10 20 "write":[[["t",1],{"v":11}]]"#;
    let other = r#"2 11 21 "write":[[["t",1],{"w":12}]]"#;
    let read = |session: u8, v: u8| format!(r#"{session} 60 70 "read":[[["t",1],{{"v":{v}}}]]"#);
    let end = |session: u8| format!(r#"{session} 80 90 "commit":true"#);
    // The format gives such a transaction an unknown end without a time: mirror had no answer for
    // the whole history.
    is_clean_everywhere(&rows(&[open, other]));
    is_clean_everywhere(&rows(&[open, &read(3, 10), &end(3)]));
    for profile in ["postgresql/read-committed", "oracle/read-committed", "foundationdb"] {
        assert_eq!(found(profile, &rows(&[open, &read(4, 11), &end(4)])), []);
        assert_eq!(found(profile, &rows(&[open, &read(5, 13), &end(5)])), [Anomaly::ConsistentRead]);
    }
}

#[test]
fn everything_at_the_same_time() {
    let text = "init: x=0 y=0 | T1: w(x,1)@[5,5] w(y,1)@[5,5] commit@[5,5] | T2: r(x,0)@[5,5] r(y,0)@[5,5] commit@[5,5] | T3: r(x,1)@[5,5] r(y,1)@[5,5] commit@[5,5]";
    is_clean_everywhere(&history(text));
}

#[test]
fn clocks_that_are_as_far_apart_as_was_said() {
    let stale = |skew: u8| {
        history(&format!("skew {skew} | init: x=0 | T1: w(x,1)@[10,20] commit@[21,25] | T2: r(x,0)@[30,40]"))
    };
    assert_eq!(found("postgresql/read-committed", &stale(5)), []);
    assert_eq!(found("postgresql/read-committed", &stale(4)), [Anomaly::ConsistentRead]);
}

#[test]
fn values_that_were_written_twice() {
    let history = |seen: u8| {
        let read = format!("T3: r(x,{seen})@[30,40] commit@[41,42]");
        history(&format!(
            "init: x=0 | T1: w(x,1)@[1,2] commit@[3,4] | T2: w(x,0)@[5,6] commit@[7,8] | {read}"
        ))
    };
    for profile in ["postgresql/serializable", "mysql/serializable", "sqlite/wal"] {
        assert_eq!(found(profile, &history(0)), []);
        assert_eq!(found(profile, &history(1)), [Anomaly::ConsistentRead], "{profile}");
    }
}

#[test]
fn columns_without_a_value() {
    let lines = |seen: &str| {
        [
            r#"1 10 20 "write":[[["t",1],{"v":null}]]"#.to_owned(),
            r#"1 21 22 "commit":true"#.to_owned(),
            format!(r#"2 30 40 "read":[[["t",1],{{{seen}}}]]"#),
            r#"2 50 51 "commit":true"#.to_owned(),
        ]
    };
    let found =
        |seen: &str| found("postgresql/read-committed", &rows(&lines(seen).each_ref().map(String::as_str)));
    assert_eq!(found(r#""v":null,"w":0"#), []);
    assert_eq!(found(r#""w":0"#), []);
    assert_eq!(found(r#""v":10,"w":0"#), [Anomaly::ConsistentRead]);
    assert_eq!(found(r#""v":null,"w":1"#), [Anomaly::ConsistentRead], "a column that the write left alone");
    let scan = |condition: &str| {
        let lines = lines(r#""w":0"#);
        let scan = format!(r#"2 30 40 "scan":{{"table":"t","where":"{condition}"}},"rows":[]"#);
        found_at_read_committed(&rows(&[&lines[0], &lines[1], &scan, &lines[3]]))
    };
    assert_eq!(scan("v > 5"), [], "of nothing no comparison is true");
    assert_eq!(scan("v IS NULL"), [Anomaly::ConsistentRead]);
}

fn found_at_read_committed(history: &History) -> Vec<Anomaly> {
    found("postgresql/read-committed", history)
}

#[test]
fn ranges_without_an_end_are_locked() {
    for (condition, v) in
        [("v > 15", 99), ("v < 5", -99), ("v >= 15 AND w < 7", 15), ("16 > v AND 14 < v", 15)]
    {
        let scan = format!(r#"1 10 20 "scan":{{"table":"t","where":"{condition}"}},"rows":[]"#);
        let insert = |v: i32| format!(r#"2 30 40 "write":[[["t",7],{{"v":{v},"w":0}}]]"#);
        // A transaction of one statement need not lock.
        let first = r#"1 5 8 "read":[[["t",1],{"v":10}]]"#;
        let ends = [r#"2 50 51 "commit":true"#, r#"1 80 81 "commit":true"#];
        let all = |v| found("mysql/serializable", &rows(&[first, &scan, &insert(v), ends[0], ends[1]]));
        assert!(all(v).contains(&Anomaly::MutualExclusion), "{condition}");
        assert_eq!(all(10), [], "{condition}");
    }
}

/// What a transaction has written was kept in order, and each write looked for the next one of the
/// same object: both took the square of their number.
#[test]
fn one_transaction_that_does_everything() {
    const OPERATIONS: u32 = 60_000;
    let mut builder = HistoryBuilder::new();
    let key = |builder: &mut HistoryBuilder, number: u32| {
        let key = builder.values().int(i64::from(number));
        builder.object(None, key)
    };
    let mut time = 0;
    let mut push = |builder: &mut HistoryBuilder, kind, accesses: &[Access]| {
        time += 2;
        let at = Some(Interval::new(time, time + 1));
        builder.push(0, 1, at, kind, accesses, OpDetail::None).expect("an operation");
    };
    for number in (0..OPERATIONS).rev() {
        let (object, value) = (key(&mut builder, number), builder.values().int(1));
        push(&mut builder, OpKind::Write, &[Access { object, value }]);
    }
    for number in 0..OPERATIONS {
        let (object, value) = (key(&mut builder, number), builder.values().int(1 + i64::from(number == 5)));
        push(&mut builder, OpKind::Read, &[Access { object, value }]);
    }
    push(&mut builder, OpKind::Commit, &[]);
    let history = builder.finish().expect("a history");
    for profile in ["postgresql/serializable", "mysql/serializable", "foundationdb"] {
        let Verdict::Violated(findings) = check(mechanisms(profile), &history) else { panic!("{profile}") };
        assert_eq!(findings.len(), 1, "{profile}");
    }
}

#[test]
fn ten_thousand_clients() {
    let mut builder = HistoryBuilder::new();
    let mut values = Vec::new();
    for client in 0..10_000_u64 {
        let key = builder.values().int((client % 100) as i64);
        let (object, value) = (builder.object(None, key), builder.values().int(client as i64));
        values.push(Access { object, value });
    }
    let mut push = |client: u64, before: i64, kind, accesses: &[Access]| {
        let at = Some(Interval::new(before, before + 5));
        builder.push(client, client, at, kind, accesses, OpDetail::None).expect("an operation");
    };
    // All are in their transactions at the same time; where writers lock they would not be, so the
    // last ones only read.
    for (client, access) in (0_u64..).zip(&values) {
        let late = 100_000 + 10 * client as i64;
        push(client, client as i64, OpKind::Begin, &[]);
        push(client, late, OpKind::Write, std::slice::from_ref(access));
        push(client, late + 6, OpKind::Commit, &[]);
    }
    push(20_000, 300_000, OpKind::Read, &values[9_900..9_901]);
    push(20_000, 300_010, OpKind::Read, &values[50..51]);
    push(20_000, 300_020, OpKind::Commit, &[]);
    let history = builder.finish().expect("a history");
    for profile in ["postgresql/read-committed", "mysql/repeatable-read", "foundationdb"] {
        for windows in [1..=1, 32..=512] {
            let mut mirror = Mirror::new(mechanisms(profile), 0).with_windows(windows);
            Engine::play(&mut mirror, &history, &Budget::unlimited()).expect("a timed history");
            let found = mirror.next_violation().map(|violation| violation.txns);
            assert_eq!(found, Some(vec![TxnId(10_000)]), "{profile}");
            assert_eq!(mirror.next_violation(), None, "{profile}");
        }
    }
}

#[test]
fn times_at_the_ends_of_the_clock() {
    for profile in profile::all() {
        for skew in [0, 7, i64::MAX] {
            let mut mirror = Mirror::new(Mechanisms::of(profile), skew);
            let mut values = Values::default();
            let access = [Access { object: ObjectId(0), value: values.int(1) }];
            let mut number = 0;
            for (txn, (before, after)) in
                [(i64::MIN, i64::MIN), (i64::MIN, 0), (-5, i64::MAX), (i64::MAX, i64::MAX)]
                    .into_iter()
                    .enumerate()
            {
                for (kind, accesses) in
                    [(OpKind::Write, &access[..]), (OpKind::Read, &access), (OpKind::Commit, &[])]
                {
                    let (txn, op, at) = (TxnId(txn as u32), OpId(number), Interval::new(before, after));
                    mirror.feed(Trace { txn, op, kind, at, accesses }, &values).expect("in order");
                    number += 1;
                }
            }
            let at = Interval::new(3, 4);
            let early = Trace { txn: TxnId(9), op: OpId(99), kind: OpKind::Read, at, accesses: &access };
            let late = Unfit::OutOfOrder { before: 3, last: i64::MAX };
            assert_eq!(mirror.feed(early, &values), Err(late));
            mirror.finish(&values);
        }
    }
}
