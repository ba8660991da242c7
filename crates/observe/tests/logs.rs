//! Logs of a simulated database: correct ones are proved, faults are found.

mod support;

use margay_audit::audit;
use margay_history::History;
use margay_levels::Level;
use margay_observe::Options;
use margay_sql::Value;
use margay_verdict::execution::{Misrun, Unexplained};
use margay_verdict::{Certificate, Claim, Question, Verdict, wire};
use support::simulate::{Fault, Line, Protocol, Script, Simulator, Watch, script};
use support::{Random, SEARCH, check, statement_reading, word};

const REGISTERS: &[support::log::Shape<'_>] = &[("t", &["k"], &[("k", "int"), ("v", "int")])];

fn register(random: &mut Random, _: u64) -> Script {
    let (k, v) = (Value::Int(random.below(10) as i64), Value::Int(random.below(100) as i64));
    script(vec![match random.below(2) {
        0 => ("SELECT v FROM t WHERE k = $1".to_owned(), vec![k]),
        _ => ("UPDATE t SET v = $1 WHERE k = $2".to_owned(), vec![v, k]),
    }])
}

/// The paper's logs of §8.2: values repeat, so that tools which need unique values prove 47 of 100.
#[test]
fn a_hundred_correct_logs_with_repeated_values_are_proved() {
    for seed in 0..100 {
        let mut simulator = Simulator::new(REGISTERS, Protocol::Committed, seed);
        for k in 0..10 {
            simulator.row("t", &[("k", Value::Int(k)), ("v", Value::Int(0))], 1);
        }
        simulator.run(4, 50, &mut register);
        assert_eq!(word(&simulator.finish(), Level::ReadCommitted), "holds", "seed {seed}");
    }
}

const BANK: &[support::log::Shape<'_>] = &[("accounts", &["id"], &[("id", "int"), ("balance", "int")])];

fn banking(random: &mut Random) -> Vec<Line> {
    let (a, b) = (random.below(8) as i64, random.below(8) as i64);
    let (a, b, amount) = (Value::Int(a), Value::Int(b), Value::Int(1 + random.below(9) as i64));
    let add = "UPDATE accounts SET balance = balance + $1 WHERE id = $2".to_owned();
    let take = "UPDATE accounts SET balance = balance - $1 WHERE id = $2".to_owned();
    match random.below(5) {
        0 => vec![("SELECT balance FROM accounts WHERE id = $1".to_owned(), vec![a])],
        1 => vec![("SELECT SUM(balance) FROM accounts".to_owned(), vec![])],
        2 => vec![(
            "SELECT id, balance FROM accounts WHERE balance >= $1 ORDER BY id".to_owned(),
            vec![Value::Int(90)],
        )],
        3 => vec![(add, vec![amount, b])],
        _ => vec![(take, vec![amount.clone(), a]), (add, vec![amount, b])],
    }
}

fn bank(protocol: Protocol, fault: Fault, seed: u64, count: u64, commits: bool) -> Option<History> {
    let mut simulator = Simulator::new(BANK, protocol, seed);
    simulator.watch = if seed.is_multiple_of(2) { Watch::All } else { Watch::Queries };
    (simulator.fault, simulator.fault_after, simulator.commits) = (fault, count / 2, commits);
    for id in 0..8 {
        simulator.row("accounts", &[("id", Value::Int(id)), ("balance", Value::Int(100))], 1);
    }
    simulator.run(4, count, &mut |random, _| script(banking(random)));
    (fault == Fault::None || simulator.struck()).then(|| simulator.finish())
}

#[test]
fn correct_logs_hold_at_their_level_and_below() {
    let of = |protocol| match protocol {
        Protocol::Serial => vec![
            Level::StrictSerializable,
            Level::Serializable,
            Level::RepeatableRead,
            Level::StrictSnapshotIsolation,
        ],
        Protocol::Snapshot => vec![Level::StrictSnapshotIsolation, Level::SnapshotIsolation],
        Protocol::Committed => vec![Level::ReadCommitted],
    };
    for protocol in [Protocol::Serial, Protocol::Snapshot, Protocol::Committed] {
        for seed in 0..6 {
            let history = bank(protocol, Fault::None, seed, 300, true).unwrap();
            for level in of(protocol) {
                assert_eq!(word(&history, level), "holds", "{protocol:?} seed {seed} at {level}");
            }
            assert_eq!(
                check(&history, Level::ReadCommitted, statement_reading()).word(),
                "holds",
                "{protocol:?} {seed}"
            );
        }
    }
}

/// Without timestamps of the database the order is searched: only sessions and intervals are known.
#[test]
fn correct_logs_hold_without_timestamps() {
    for seed in 0..6 {
        let serial = bank(Protocol::Serial, Fault::None, seed, 200, false).unwrap();
        assert_eq!(word(&serial, Level::StrictSerializable), "holds", "seed {seed}");
        let snapshot = bank(Protocol::Snapshot, Fault::None, seed, 200, false).unwrap();
        assert_eq!(word(&snapshot, Level::StrictSnapshotIsolation), "holds", "seed {seed}");
        assert_eq!(word(&snapshot, Level::SnapshotIsolation), "holds", "seed {seed}");
    }
}

/// Under snapshot isolation these transactions are serializable, but not in the order of their
/// commits: who read an older snapshot comes earlier.
#[test]
fn the_serial_order_is_not_the_order_of_commits() {
    for seed in 0..4 {
        for commits in [true, false] {
            let history = bank(Protocol::Snapshot, Fault::None, seed, 150, commits).unwrap();
            assert_eq!(word(&history, Level::Serializable), "holds", "seed {seed}, timestamps {commits}");
        }
    }
}

#[test]
fn faults_are_found() {
    let mut found = 0;
    for fault in [Fault::WrongAggregate, Fault::MissedRow, Fault::LostWrite] {
        for seed in 0..4 {
            for (protocol, level) in [
                (Protocol::Serial, Level::StrictSerializable),
                (Protocol::Snapshot, Level::StrictSnapshotIsolation),
            ] {
                let Some(history) = bank(protocol, fault, seed, 120, true) else { continue };
                let verdict = check(&history, level, Options::DEFAULT);
                assert_eq!(verdict.word(), "violated", "{fault:?} in {protocol:?} seed {seed}: {verdict:?}");
                found += 1;
                let Verdict::Violated(findings) = verdict else { unreachable!() };
                let told = margay_report::explain::finding(&history, &findings[0]);
                let why = ["it gives", "can only be"].iter().any(|words| told.contains(words));
                assert!(told.contains("observed") && why, "{told}");
            }
            if let Some(history) = bank(Protocol::Committed, fault, seed, 120, true) {
                let verdict = check(&history, Level::ReadCommitted, statement_reading());
                assert_eq!(
                    verdict.word(),
                    "violated",
                    "{fault:?} with statement snapshots, seed {seed}: {verdict:?}"
                );
                found += 1;
            }
        }
    }
    assert!(found >= 30, "{found}");
}

/// Without timestamps and without real time there are more orders than anybody can try; a sum over
/// all accounts teaches too little of them. The answer says so, and is never that it holds.
#[test]
fn too_many_orders_are_unknown() {
    let history = bank(Protocol::Serial, Fault::WrongAggregate, 0, 60, false).unwrap();
    let options = Options { steps: 20_000, lemmas: 50, ..SEARCH };
    let verdict = check(&history, Level::Serializable, options);
    let Verdict::Unknown(why) = verdict else { panic!("{verdict:?}") };
    assert!(why.to_string().contains("more orders"), "{why}");
}

/// Wrong logs whose order nothing tells: what is learned from wrong orders refutes them, and the
/// audit follows.
#[test]
fn lemmas_refute_without_any_order() {
    let (mut refuted, mut unlearned) = (0, 0);
    for seed in 0..8 {
        for (protocol, level) in
            [(Protocol::Serial, Level::Serializable), (Protocol::Snapshot, Level::SnapshotIsolation)]
        {
            let mut simulator = Simulator::new(REGISTERS, protocol, seed);
            (simulator.fault, simulator.fault_after) = (Fault::WrongAggregate, 5);
            (simulator.commits, simulator.timed) = (false, false);
            for k in 0..10 {
                simulator.row("t", &[("k", Value::Int(k)), ("v", Value::Int(0))], 1);
            }
            simulator.run(4, 16, &mut register);
            if !simulator.struck() {
                continue;
            }
            let history = simulator.finish();
            let verdict = check(&history, level, SEARCH);
            if let Some(Certificate::Unexplained(unexplained)) = verdict.certificate() {
                refuted += 1;
                unlearned += usize::from(unexplained.lemmas.is_empty());
                spoiled(&history, level, unexplained);
            }
        }
    }
    assert!(refuted >= 4 && unlearned == 0, "{refuted} refuted, {unlearned} without lemmas");
}

/// Lemmas that assume less, or execute less, are rejected.
fn spoiled(history: &History, level: Level, unexplained: &Unexplained) {
    let rejected = |lemmas: Vec<Misrun>| {
        let certificate = Certificate::Unexplained(Unexplained { lemmas, ..unexplained.clone() });
        assert!(audit(history, Question::new(level), &certificate).is_err(), "{level}: {certificate:?}");
    };
    let (question, whole) = (Question::new(level), Certificate::Unexplained(unexplained.clone()));
    let claim = Claim::of(history, question, None, &whole);
    let text = wire::to_json(history, &claim, &whole);
    assert_eq!(wire::from_json(history, None, &text), Ok((claim, whole)));
    for (at, lemma) in unexplained.lemmas.iter().enumerate() {
        for pair in 0..lemma.order.len() {
            let mut lemmas = unexplained.lemmas.clone();
            lemmas[at].order.remove(pair);
            rejected(lemmas);
        }
        let mut lemmas = unexplained.lemmas.clone();
        lemmas[at].run.pop();
        rejected(lemmas);
    }
}

/// A log whose order nothing tells, with one wrong answer: the row that it is about is enough, and
/// the certificate names it.
#[test]
fn a_row_of_a_long_log_refutes_it() {
    let mut log = support::log::Log::register(&(0..60).map(|k| (k, 0)).collect::<Vec<_>>());
    for txn in 0..60 {
        let (set, read) = (
            format!("UPDATE t SET v = {txn} WHERE k = {txn}"),
            format!("SELECT v FROM t WHERE k = {}", (txn + 1) % 60),
        );
        let seen: &[&[i64]] = if txn == 30 { &[&[7]] } else { &[&[0]] };
        log.txn(txn, txn, &[(&set, None), (&read, Some(seen))], margay_history::OpKind::Commit);
    }
    let history = log.finish();
    for level in [Level::Serializable, Level::SnapshotIsolation, Level::ReadCommitted] {
        let verdict = check(&history, level, SEARCH);
        let Some(Certificate::Unexplained(unexplained)) = verdict.certificate() else {
            panic!("{level}: {}", verdict.word())
        };
        assert_eq!(unexplained.rows, Some(vec![("t".to_owned(), Some(vec![Value::Int(31)]))]), "{level}");
        in_part(&history, level, unexplained);
    }
}

/// A part that leaves out who else can write, or what is said of it, is rejected.
fn in_part(history: &History, level: Level, unexplained: &Unexplained) {
    let question = Question::new(level);
    let whole = Certificate::Unexplained(unexplained.clone());
    let claim = Claim::of(history, question, None, &whole);
    let text = wire::to_json(history, &claim, &whole);
    assert_eq!(wire::from_json(history, None, &text), Ok((claim, whole)));
    let Some(rows) = &unexplained.rows else { return };
    let other: Vec<_> =
        rows.iter().map(|(table, _)| (table.clone(), Some(vec![Value::Int(1_000_000)]))).collect();
    for rows in [Some(Vec::new()), Some(other)] {
        let certificate = Certificate::Unexplained(Unexplained { rows, ..unexplained.clone() });
        assert!(audit(history, question, &certificate).is_err(), "{level}: {certificate:?}");
    }
}

/// A part has to have everybody who can write its rows: a scan that sets what it finds ties the
/// rows of its table together.
#[test]
fn rows_that_others_can_write_are_no_part() {
    let mut log = support::log::Log::register(&[(1, 0), (2, 0)]);
    log.txn(0, 0, &[("UPDATE t SET v = 5 WHERE v = 0", None)], margay_history::OpKind::Commit);
    log.txn(1, 1, &[("SELECT v FROM t WHERE k = 1", Some(&[&[5]]))], margay_history::OpKind::Commit);
    let history = log.finish();
    let of = |key: i64| vec![("t".to_owned(), Some(vec![Value::Int(key)]))];
    for (rows, is_part) in [(of(1), false), (vec![("t".to_owned(), None)], true)] {
        let part = margay_executions::Part::named(&history, &rows).expect("inside the fragment");
        assert_eq!(part.is_some(), is_part, "{rows:?}");
    }
}
