//! Long logs of a database that errs once: how many are refuted with a certificate that the audit
//! accepts.
//!
//! A tenth as many rows as transactions, so that a row has some ten writers whatever the length of
//! the log.

use std::time::Duration;

use margay_history::History;
use margay_levels::Level;
use margay_observe::{Observe, Options};
use margay_sql::Value;
use margay_verdict::{Budget, Checker, Question};

use crate::support::Random;
use crate::support::simulate::{Fault, Line, Protocol, Simulator, Watch, script};
use crate::used;
use crate::wrong::word;

const TABLE: &[crate::support::log::Shape<'static>] = &[("t", &["k"], &[("k", "int"), ("v", "int")])];

/// A transaction's statements over so many rows.
pub type Transaction = fn(&mut Random, u64) -> Vec<Line>;

fn read(k: &Value) -> Line {
    ("SELECT v FROM t WHERE k = $1".to_owned(), vec![k.clone()])
}

/// Registers: two values are read, and one or both overwritten.
pub fn registers(random: &mut Random, rows: u64) -> Vec<Line> {
    let set = |k: Value, v: Value| ("UPDATE t SET v = $1 WHERE k = $2".to_owned(), vec![v, k]);
    let (a, b) = (Value::Int(random.below(rows) as i64), Value::Int(random.below(rows) as i64));
    let (v, w) = (Value::Int(random.below(1 << 20) as i64), Value::Int(random.below(1 << 20) as i64));
    match random.below(4) {
        0 => vec![read(&a), read(&b)],
        1 => vec![set(a, v)],
        2 => vec![read(&a), set(a, v)],
        _ => vec![read(&a), read(&b), set(a, v), set(b, w)],
    }
}

/// Accounts: amounts are moved from one to another, balances are read; a transfer may look at its
/// result.
pub fn accounts(random: &mut Random, rows: u64) -> Vec<Line> {
    let (a, b) = (Value::Int(random.below(rows) as i64), Value::Int(random.below(rows) as i64));
    let amount = Value::Int(1 + random.below(1000) as i64);
    let take = ("UPDATE t SET v = v - $1 WHERE k = $2".to_owned(), vec![amount.clone(), a.clone()]);
    let give = ("UPDATE t SET v = v + $1 WHERE k = $2".to_owned(), vec![amount, b.clone()]);
    match random.below(4) {
        0 => vec![read(&a), read(&b)],
        1 => vec![read(&a), take, give],
        2 => vec![take, give, read(&b)],
        _ => vec![take, give],
    }
}

/// Orders: rows come and go, and are changed under conditions.
pub fn orders(random: &mut Random, rows: u64) -> Vec<Line> {
    let k = Value::Int(random.below(rows) as i64);
    let v = Value::Int(random.below(1000) as i64);
    match random.below(5) {
        0 => vec![read(&k)],
        1 => {
            vec![("UPDATE t SET v = v * 2 WHERE k = $1 AND v < $2".to_owned(), vec![k.clone(), v]), read(&k)]
        }
        2 => vec![("DELETE FROM t WHERE k = $1".to_owned(), vec![k])],
        3 => vec![
            ("DELETE FROM t WHERE k = $1".to_owned(), vec![k.clone()]),
            ("INSERT INTO t (k, v) VALUES ($1, $2)".to_owned(), vec![k, v]),
        ],
        _ => vec![("UPDATE t SET v = v + 1 WHERE k = $1".to_owned(), vec![k.clone()]), read(&k)],
    }
}

pub fn log(
    transaction: Transaction,
    protocol: Protocol,
    fault: Fault,
    seed: u64,
    count: u64,
    timed: bool,
) -> Option<History> {
    let rows = (count / 10).max(4);
    let mut simulator = Simulator::new(TABLE, protocol, seed);
    simulator.watch = Watch::All;
    (simulator.fault, simulator.fault_after) = (fault, count / 2);
    (simulator.commits, simulator.timed) = (false, timed);
    for k in 0..rows {
        simulator.row("t", &[("k", Value::Int(k as i64)), ("v", Value::Int(1000))], 1);
    }
    simulator.run(8, count, &mut |random, _| script(transaction(random, rows)));
    simulator.struck().then(|| simulator.finish())
}

/// Counts verdicts; one that the audit does not accept counts as none.
pub fn run(count: u64, seconds: u64, parts: bool) {
    let kinds: [(&str, Transaction); 3] =
        [("registers", registers), ("accounts", accounts), ("orders", orders)];
    let levels = [
        (Protocol::Serial, Level::Serializable, false),
        (Protocol::Serial, Level::StrictSerializable, true),
        (Protocol::Snapshot, Level::SnapshotIsolation, false),
        (Protocol::Snapshot, Level::StrictSnapshotIsolation, true),
        (Protocol::Committed, Level::ReadCommitted, false),
    ];
    for (name, transaction) in kinds {
        for (protocol, level, timed) in levels {
            let (mut words, mut checked, mut audited) = ([0; 4], Duration::ZERO, Duration::ZERO);
            for fault in [Fault::WrongAggregate, Fault::MissedRow, Fault::LostWrite] {
                for seed in 0..2 {
                    let Some(history) = log(transaction, protocol, fault, seed, count, timed) else {
                        continue;
                    };
                    let (question, start) = (Question::new(level), used());
                    let budget = Budget::unlimited().with_time(Duration::from_secs(seconds));
                    let verdict = Observe { options: Options { parts, ..Options::DEFAULT } }
                        .check(&history, question, &budget);
                    checked += used() - start;
                    let start = used();
                    words[word(&history, question, &verdict)] += 1;
                    audited += used() - start;
                }
            }
            let [holds, violated, unknown, rejected] = words;
            println!(
                "{name} {level}, {count} transactions: {violated} violated, {holds} hold, {unknown} unknown, {rejected} not audited, checked in {:.1} s, audited in {:.1} s",
                checked.as_secs_f64(),
                audited.as_secs_f64()
            );
        }
    }
}
