//! Statements that show nothing of what they saw, at `read-committed`: a later reader tells.

mod support;

use margay_history::{History, OpKind};
use margay_levels::Level;
use margay_sql::Value;
use support::log::{Log, Seen};
use support::word;

const ROUNDS: i64 = 16;

const COPY: &str = "INSERT INTO s (k, v) SELECT $1, MAX(v) FROM t";

fn tables() -> Log {
    let columns: &[(&str, &str)] = &[("k", "int"), ("v", "int")];
    let mut log = Log::new(&[("t", &["k"], columns), ("s", &["k"], columns)]);
    log.row("t", &[Value::Int(0)], &[("v", Value::Int(0))]);
    log
}

/// One statement, and a commit with this interval.
fn txn(log: &mut Log, session: u64, label: u64, at: [i64; 4], (text, params): (&str, &[i64]), seen: &Seen) {
    let params: Vec<Value> = params.iter().copied().map(Value::Int).collect();
    log.sql(session, label, Some((at[0], at[1])), text, &params, seen);
    log.op(session, label, Some((at[2], at[3])), OpKind::Commit);
}

fn insert(log: &mut Log, session: u64, label: u64, commit: [i64; 2], row: [i64; 2]) {
    let at = [commit[0] - 5, commit[0] - 1, commit[0], commit[1]];
    txn(log, session, label, at, ("INSERT INTO t (k, v) VALUES ($1, $2)", &row), &Seen::Count(1));
}

fn reader(log: &mut Log, copied: &[i64]) {
    let rows = (0..).zip(copied).map(|(k, v)| vec![Value::Int(k), Value::Int(*v)]).collect();
    let at = ROUNDS * 100;
    txn(
        log,
        3,
        1_000,
        [at, at + 1, at + 2, at + 3],
        ("SELECT k, v FROM s ORDER BY k", &[]),
        &Seen::Rows(rows),
    );
}

/// In every round a row is copied while the commit of a higher one is in flight, and every third
/// copy has seen it. There are as many executions as sets of rounds, and the first statement that
/// tells them apart is the last one.
fn copied() -> History {
    let (mut log, mut copied) = (tables(), Vec::new());
    for round in 0..ROUNDS {
        let (at, label) = (round * 100, round as u64 * 10);
        insert(&mut log, 0, label + 1, [at + 10, at + 40], [round + 1, round + 1]);
        let times = [at + 20, at + 30, at + 31, at + 39];
        txn(&mut log, 1, label + 2, times, (COPY, &[round]), &Seen::Count(1));
        copied.push(round + i64::from(round % 3 == 0));
    }
    reader(&mut log, &copied);
    log.finish()
}

#[test]
fn a_later_reader_tells_what_silent_statements_saw() {
    assert_eq!(word(&copied(), Level::ReadCommitted), "holds");
}

/// Two commits overlap, and the one that was called later takes effect first: a copy between them
/// sees a set of commits that no prefix of the order of calls is.
#[test]
fn commits_that_overlap_take_effect_in_any_order() {
    let (mut log, mut copied) = (tables(), Vec::new());
    for round in 0..ROUNDS {
        let (at, label) = (round * 100, round as u64 * 10);
        insert(&mut log, 0, label + 1, [at + 10, at + 60], [2 * round + 1, 10 * round + 5]);
        insert(&mut log, 2, label + 3, [at + 12, at + 20], [2 * round + 2, 10 * round + 3]);
        let times = [at + 25, at + 30, at + 31, at + 39];
        txn(&mut log, 1, label + 2, times, (COPY, &[round]), &Seen::Count(1));
        copied.push(10 * round + if round % 2 == 0 { 3 } else { 5 });
    }
    reader(&mut log, &copied);
    assert_eq!(word(&log.finish(), Level::ReadCommitted), "holds");
}

/// A statement that waited for a row had its snapshot before: it misses a row that was inserted
/// while it waited, and changes the newest version of those that it found.
#[test]
fn a_statement_that_waited_changes_what_it_had_found() {
    let mut log = tables();
    for k in 1..=20 {
        insert(&mut log, 0, k as u64, [k * 10, k * 10 + 1], [k, 1]);
    }
    insert(&mut log, 0, 30, [300, 390], [30, 1]);
    txn(&mut log, 2, 32, [280, 282, 340, 341], ("UPDATE t SET v = v + 10 WHERE k = 1", &[]), &Seen::Count(1));
    let update = "UPDATE t SET v = v + 1 WHERE v >= 1";
    txn(&mut log, 1, 31, [310, 350, 360, 365], (update, &[]), &Seen::Count(20));
    let rows = [(1, 12), (2, 2), (30, 1)].map(|(k, v)| vec![Value::Int(k), Value::Int(v)]).to_vec();
    let select = "SELECT k, v FROM t WHERE k IN (1, 2, 30) ORDER BY k";
    txn(&mut log, 3, 33, [400, 410, 411, 412], (select, &[]), &Seen::Rows(rows));
    let last = [[500, 501, 502, 503], [510, 511, 512, 513]];
    for (label, at) in (40..).zip(last) {
        txn(&mut log, 3, label, at, ("SELECT COUNT(*) FROM t", &[]), &Seen::Rows(vec![vec![Value::Int(22)]]));
    }
    assert_eq!(word(&log.finish(), Level::ReadCommitted), "holds");
}
