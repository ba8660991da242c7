//! Wrong logs whose order nothing tells: how many are refuted, with learning and without.

use std::time::Duration;

use margay_audit::audit;
use margay_history::History;
use margay_levels::Level;
use margay_observe::{Observe, Options};
use margay_sql::Value;
use margay_verdict::{Budget, Checker, Question, Verdict};

use crate::support::Random;
use crate::support::simulate::{Fault, Line, Protocol, Simulator, Watch, script};
use crate::used;

const TABLE: &[crate::support::log::Shape<'static>] = &[("t", &["k"], &[("k", "int"), ("v", "int")])];

/// A transaction's statements.
pub type Transaction = fn(&mut Random) -> Vec<Line>;

/// Registers: values are read and overwritten.
pub fn registers(random: &mut Random) -> Vec<Line> {
    let (k, v) = (Value::Int(random.below(8) as i64), Value::Int(random.below(50) as i64));
    let read = ("SELECT v FROM t WHERE k = $1".to_owned(), vec![k.clone()]);
    match random.below(3) {
        0 => vec![read],
        1 => vec![("UPDATE t SET v = $1 WHERE k = $2".to_owned(), vec![v, k])],
        _ => vec![read, ("UPDATE t SET v = $1 WHERE k = $2".to_owned(), vec![v, k])],
    }
}

/// Accounts: amounts are moved, single balances are read.
pub fn accounts(random: &mut Random) -> Vec<Line> {
    let add = "UPDATE t SET v = v + $1 WHERE k = $2".to_owned();
    let take = "UPDATE t SET v = v - $1 WHERE k = $2".to_owned();
    let mut key = || Value::Int(random.below(8) as i64);
    let (a, b) = (key(), key());
    let amount = Value::Int(1 + random.below(9) as i64);
    match random.below(3) {
        0 => vec![("SELECT v FROM t WHERE k = $1".to_owned(), vec![a])],
        1 => vec![("SELECT k, v FROM t WHERE k = $1".to_owned(), vec![a]), (add, vec![amount, b])],
        _ => vec![(take, vec![amount.clone(), a]), (add, vec![amount, b])],
    }
}

/// Accounts whose sum is read, too.
pub fn sums(random: &mut Random) -> Vec<Line> {
    match random.below(4) {
        0 => vec![("SELECT SUM(v) FROM t".to_owned(), vec![])],
        _ => accounts(random),
    }
}

pub fn log(
    transaction: Transaction,
    protocol: Protocol,
    fault: Fault,
    seed: u64,
    count: u64,
) -> Option<History> {
    let mut simulator = Simulator::new(TABLE, protocol, seed);
    simulator.watch = Watch::All;
    (simulator.fault, simulator.fault_after) = (fault, count / 3);
    (simulator.commits, simulator.timed) = (false, false);
    for k in 0..8 {
        simulator.row("t", &[("k", Value::Int(k)), ("v", Value::Int(100))], 1);
    }
    simulator.run(4, count, &mut |random, _| script(transaction(random)));
    simulator.struck().then(|| simulator.finish())
}

/// Counts verdicts; one that the audit does not accept counts as none.
pub fn run(count: u64, lemmas: usize, clashes: usize) {
    let kinds: [(&str, Transaction); 3] = [("registers", registers), ("accounts", accounts), ("sums", sums)];
    let levels = [
        (Protocol::Serial, Level::Serializable),
        (Protocol::Snapshot, Level::SnapshotIsolation),
        (Protocol::Committed, Level::ReadCommitted),
    ];
    for (name, transaction) in kinds {
        for (protocol, level) in levels {
            let (mut words, start) = ([0; 4], used());
            for fault in [Fault::WrongAggregate, Fault::MissedRow, Fault::LostWrite] {
                for seed in 0..6 {
                    let Some(history) = log(transaction, protocol, fault, seed, count) else { continue };
                    let options = Options { lemmas, clashes, ..Options::DEFAULT };
                    let budget = Budget::unlimited().with_time(Duration::from_secs(20));
                    let question = Question::new(level);
                    let verdict = Observe { options }.check(&history, question, &budget);
                    words[word(&history, question, &verdict)] += 1;
                }
            }
            let [holds, violated, unknown, rejected] = words;
            println!(
                "{name} {level}, {count} transactions, {lemmas} lemmas, {clashes} clashes: {violated} violated, {holds} hold, {unknown} unknown, {rejected} not audited, {:.1} s",
                (used() - start).as_secs_f64()
            );
        }
    }
}

/// Where a verdict is counted: holds, violated, unknown, or not accepted by the audit.
pub fn word(history: &History, question: Question, verdict: &Verdict) -> usize {
    let accepted = verdict.certificate().map(|certificate| audit(history, question, certificate).is_ok());
    match (verdict, accepted) {
        (_, Some(false)) => 3,
        (Verdict::Holds(_), _) => 0,
        (Verdict::Violated(_), _) => 1,
        _ => 2,
    }
}
