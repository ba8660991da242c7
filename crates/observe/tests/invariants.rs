//! Refutation by invariants: what no row can ever be is found at once, and nothing that has an
//! execution is refuted.

mod support;

use std::collections::BTreeSet;
use std::time::Instant;

use margay_audit::audit;
use margay_executions::{Constraints, Rules};
use margay_history::{History, OpKind};
use margay_levels::Level;
use margay_observe::Options;
use margay_observe::invariant::refuted;
use margay_sql::{Numbers, Possible, Value};
use margay_verdict::execution::{Invariant, InvariantCell, Reading};
use margay_verdict::{Budget, Certificate, Claim, Question, Verdict, wire};
use support::log::{Log, Seen};
use support::rich::rich;
use support::simulate::{Protocol, Simulator, script};
use support::tiny::{replacing, tiny};
use support::{LEVELS, Random, check, naive, word};

/// The paper's scaling experiment: transfers that nobody looks at, then a balance.
fn transfers(count: u64, balance: i64) -> History {
    let mut log = Log::new(&[("accounts", &["id"], &[("id", "int"), ("balance", "int")])]);
    for (id, balance) in [(1, 100), (2, 300)] {
        log.row("accounts", &[Value::Int(id)], &[("balance", Value::Int(balance))]);
    }
    for txn in 1..count {
        let add = "UPDATE accounts SET balance = balance + 10 WHERE id = 2";
        let take = "UPDATE accounts SET balance = balance - 10 WHERE id = 1";
        log.txn(txn, txn, &[(add, None), (take, None)], OpKind::Commit);
    }
    let read = "SELECT balance FROM accounts WHERE id = 2";
    log.txn(0, count, &[(read, Some(&[&[balance]]))], OpKind::Commit);
    log.finish()
}

fn invariant(history: &History, level: Level) -> Invariant {
    let verdict = check(history, level, Options::DEFAULT);
    match verdict.certificate() {
        Some(Certificate::Invariant(invariant)) => invariant.clone(),
        _ => panic!("{level}: {verdict:?}"),
    }
}

/// Too little, too much, and what the transfers step over.
#[test]
fn impossible_balances_after_many_transfers_are_refuted() {
    for balance in [66, 20_000, 305] {
        let history = transfers(1000, balance);
        for level in LEVELS {
            let start = Instant::now();
            let found = invariant(&history, level);
            println!("{balance} at {level}: {:?}", start.elapsed());
            assert!(found.notes.iter().any(|line| line.contains("in steps of 10")), "{:?}", found.notes);
        }
    }
    assert_eq!(word(&transfers(12, 310), Level::ReadCommitted), "holds");
}

/// A log on one table of integers, with one wrong result, or a right one.
fn one(setup: &[&str], query: &str, rows: &[&[i64]]) -> History {
    let mut log = Log::register(&[(1, 10), (2, 20)]);
    for (txn, text) in (0..).zip(setup) {
        log.txn(txn, txn, &[(text, None)], OpKind::Commit);
    }
    log.txn(100, 100, &[(query, Some(rows))], OpKind::Commit);
    log.finish()
}

/// TPC-C's stock.
const REFILL: &str = "UPDATE t SET v = CASE WHEN v >= 15 THEN v - 5 ELSE v - 5 + 91 END WHERE k = 1";

/// Row 1 with row 2.
const JOIN: &str = "SELECT a.k, b.v FROM t a JOIN t b ON b.k = a.k + 1 WHERE a.k = 1";

/// What others execute, a query, its answer, and whether that can be.
type Case<'a> = (&'a [&'a str], &'a str, &'a [&'a [i64]], bool);

#[test]
fn what_can_be_and_what_cannot() {
    let read = "SELECT v FROM t WHERE k = 1";
    let cases: &[Case<'_>] = &[
        (&["UPDATE t SET v = 7 WHERE k = 1"], read, &[&[8]], false),
        (&["UPDATE t SET v = 7 WHERE k = 1"], read, &[&[7]], true),
        (&["UPDATE t SET v = 7 WHERE v > 5"], read, &[&[8]], false),
        // A row that nothing can delete.
        (&["UPDATE t SET v = 7 WHERE k = 1"], read, &[], false),
        (&["DELETE FROM t WHERE k = 2"], read, &[], false),
        (&["DELETE FROM t WHERE v = 10"], read, &[], true),
        (&[], "SELECT k FROM t WHERE v >= 10", &[&[2]], false),
        (&["UPDATE t SET v = 9 WHERE k = 1"], "SELECT k FROM t WHERE v >= 10", &[&[2]], true),
        // A row that nobody inserted, and one that somebody did.
        (&[], "SELECT k FROM t", &[&[1], &[2], &[3]], false),
        (&["INSERT INTO t VALUES (3, 5)"], "SELECT k, v FROM t", &[&[1, 10], &[2, 20], &[3, 5]], true),
        (&["INSERT INTO t VALUES (3, 5)"], "SELECT k, v FROM t", &[&[1, 10], &[2, 20], &[3, 6]], false),
        // A condition that bounds what is taken.
        (&["UPDATE t SET v = v - 7 WHERE k = 1 AND v >= 7"; 3], read, &[&[3]], true),
        (&["UPDATE t SET v = v - 7 WHERE k = 1 AND v >= 7"; 3], read, &[&[-4]], false),
        (&["UPDATE t SET v = v - 7 WHERE k = 1"; 3], read, &[&[-4]], true),
        // Computed from another column, or from itself.
        (&["UPDATE t SET v = k + 1 WHERE k = 1"], read, &[&[2]], true),
        (&["UPDATE t SET v = k + 1 WHERE k = 1"], read, &[&[3]], false),
        (&["UPDATE t SET v = v * 2 WHERE k = 1"], read, &[&[20]], true),
        (&[REFILL; 3], read, &[&[91]], true),
        (&[REFILL; 3], read, &[&[500]], false),
        (&["UPDATE t SET v = v * 2 WHERE k = 1", "UPDATE t SET v = v - 3 WHERE k = 1"], read, &[&[17]], true),
        // Joins: a row that is always there, values that do not go together, and a row that may be
        // gone.
        (&[], JOIN, &[], false),
        (&[], JOIN, &[&[1, 20]], true),
        (&["UPDATE t SET v = 7 WHERE k = 2"], JOIN, &[&[1, 10]], false),
        (&["UPDATE t SET v = 7 WHERE k = 2"], JOIN, &[&[1, 7]], true),
        (&["DELETE FROM t WHERE k = 2"], JOIN, &[], true),
        // Fewer rows than the limit are all that there are.
        (&[], "SELECT k FROM t ORDER BY k LIMIT 2", &[&[2]], false),
        (&[], "SELECT k FROM t ORDER BY k LIMIT 1", &[&[1]], true),
        // An upsert.
        (&["INSERT INTO t VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET v = excluded.v"], read, &[&[5]], true),
        (&["INSERT INTO t VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET v = excluded.v"], read, &[&[6]], false),
        (&["INSERT INTO t VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET v = t.v + 1"], read, &[&[11]], true),
        // Sums and counts.
        (&["UPDATE t SET v = v + 5 WHERE k = 1"], "SELECT SUM(v), COUNT(*) FROM t", &[&[35, 2]], true),
        (&["UPDATE t SET v = v + 5 WHERE k = 1"], "SELECT SUM(v), COUNT(*) FROM t", &[&[36, 2]], false),
        (&["UPDATE t SET v = v + 5 WHERE k = 1"], "SELECT SUM(v), COUNT(*) FROM t", &[&[30, 3]], false),
        (&["DELETE FROM t WHERE k = 2"], "SELECT SUM(v), COUNT(*) FROM t", &[&[10, 1]], true),
    ];
    for &(setup, query, rows, can_be) in cases {
        let history = one(setup, query, rows);
        let expected = if can_be { "holds" } else { "violated" };
        for level in [Level::ReadCommitted, Level::Serializable, Level::StrictSnapshotIsolation] {
            assert_eq!(word(&history, level), expected, "{setup:?} {query} {rows:?} at {level}");
        }
        if !can_be {
            invariant(&history, Level::ReadCommitted);
        }
    }
}

/// What may have committed counts, what aborted does not; a transaction of unknown outcome is never
/// the wrong one.
#[test]
fn outcomes_count() {
    let read: (&str, Option<&[&[i64]]>) = ("SELECT v FROM t WHERE k = 1", Some(&[&[7]]));
    for (writer, reader, expected) in [
        (OpKind::Commit, OpKind::Commit, "holds"),
        (OpKind::Unknown, OpKind::Commit, "holds"),
        (OpKind::Abort, OpKind::Commit, "violated"),
        (OpKind::Abort, OpKind::Unknown, "holds"),
        (OpKind::Abort, OpKind::Abort, "holds"),
    ] {
        let mut log = Log::register(&[(1, 10)]);
        log.txn(0, 0, &[("UPDATE t SET v = 7 WHERE k = 1", None)], writer);
        log.txn(1, 1, &[read], reader);
        assert_eq!(word(&log.finish(), Level::ReadCommitted), expected, "{writer:?} {reader:?}");
    }
}

/// Initial values that are not known can be anything, and what the history does not know to be
/// there need not be.
#[test]
fn unknown_initial_values_are_anything() {
    let mut log = Log::register(&[(1, 10)]);
    let (unknown, key) = (margay_history::ValueId::UNKNOWN, log.builder.values().int(2));
    let table = log.builder.table("t");
    let object = log.builder.object(Some(table), key);
    log.builder.initial(object, unknown).expect("an object");
    let read = |k: i64| format!("SELECT v FROM t WHERE k = {k}");
    log.txn(0, 0, &[(&read(2), Some(&[&[77]])), (&read(1), Some(&[&[11]]))], OpKind::Commit);
    let found = invariant(&log.finish(), Level::Serializable);
    assert!(found.cells.iter().all(|cell| cell.key == [Value::Int(1)]), "{:?}", found.cells);
}

/// MariaDB returned one row several times, where a subquery in IN found it often:
/// `ORDER BY … DESC LIMIT` beside it. No statement could be blamed for what the row was, and such
/// recordings stayed undecided.
#[test]
fn one_row_is_shown_once() {
    let query = "SELECT k, v FROM t WHERE v IN (SELECT v FROM t) ORDER BY k DESC LIMIT 2";
    let moved = "UPDATE t SET k = k + 1 WHERE k > 100";
    let join = "SELECT a.k, b.k FROM t a, t b WHERE a.v = b.v";
    let cases: [(&str, &[&[i64]], bool); 5] = [
        (query, &[&[1, 100], &[1, 100]], true),
        (query, &[&[2, 100], &[1, 100]], false),
        ("SELECT v FROM t", &[&[100], &[100]], false),
        (join, &[&[1, 1], &[1, 2], &[2, 1], &[2, 2]], false),
        (join, &[&[1, 1], &[1, 2], &[1, 2], &[2, 2]], true),
    ];
    for (query, rows, wrong) in cases {
        let mut log = Log::register(&[(1, 100), (2, 100)]);
        log.txn(0, 1, &[(moved, None)], OpKind::Commit);
        log.txn(1, 2, &[(query, Some(rows))], OpKind::Commit);
        assert_eq!(refutes(&log.finish(), Level::ReadCommitted), wrong, "{query} {rows:?}");
    }
}

/// A row whose insertion the reader has to see, and that nothing deletes, is always there. Results
/// of busy servers that lack a row stayed undecided: only rows that were there initially counted.
#[test]
fn inserted_rows_are_there_for_whoever_has_to_see_them() {
    let insert = "INSERT INTO t (k, v) VALUES (7, 1)";
    let log = |insert: &str, count: u64, other: &str, rows: &[&[i64]]| {
        let mut log = Log::register(&[(1, 0)]);
        log.sql(0, 1, Some((1, 2)), insert, &[], &Seen::Count(count));
        log.op(0, 1, Some((3, 4)), OpKind::Commit);
        log.sql(1, 2, Some((11, 12)), other, &[], &Seen::Nothing);
        log.op(1, 2, Some((13, 14)), OpKind::Commit);
        let rows = rows.iter().map(|row| row.iter().copied().map(Value::Int).collect()).collect();
        log.sql(2, 3, Some((11, 12)), "SELECT k FROM t WHERE v < 9 ORDER BY k", &[], &Seen::Rows(rows));
        log.op(2, 3, Some((13, 14)), OpKind::Commit);
        log.finish()
    };
    let strict = [Level::StrictSerializable, Level::StrictSnapshotIsolation];
    let others = [Level::Serializable, Level::StrongSessionSnapshotIsolation, Level::ReadCommitted];
    let missing = log(insert, 1, "UPDATE t SET v = 2 WHERE k = 7", &[&[1]]);
    strict.into_iter().for_each(|level| assert!(refutes(&missing, level), "{level}"));
    others.into_iter().for_each(|level| assert!(!refutes(&missing, level), "{level}"));
    for unsure in [
        log(insert, 1, "UPDATE t SET v = 2 WHERE k = 7", &[&[1], &[7]]),
        log(insert, 1, "UPDATE t SET v = 9 WHERE k = 7", &[&[1]]),
        log(insert, 1, "DELETE FROM t WHERE v = 5", &[&[1]]),
        log("INSERT INTO t (k, v) VALUES (7, 1) ON CONFLICT DO NOTHING", 0, "SELECT 1", &[&[1]]),
    ] {
        strict.into_iter().for_each(|level| assert!(!refutes(&unsure, level), "{level}: {unsure:?}"));
    }
}

fn cases(usual: u64) -> u64 {
    std::env::var("MARGAY_OBSERVE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// What invariants alone say, of all transactions and of each one at its place; whatever they
/// refute, the audit accepts.
fn refutes(history: &History, level: Level) -> bool {
    let question = Question::new(level);
    let rules = Rules::of(question, Reading::Item).expect("a level of executions");
    let constraints = Constraints::new(history, rules);
    let refuted = |own| refuted(history, &constraints, own, &Budget::unlimited()).ok().flatten();
    let all = [None].into_iter().chain(history.txns().map(Some));
    let verdicts: Vec<Verdict> = all.filter_map(refuted).collect();
    for verdict in &verdicts {
        let certificate = verdict.certificate().expect("a certificate");
        assert_eq!(audit(history, question, certificate), Ok(()), "{level}: {certificate:?}");
    }
    !verdicts.is_empty()
}

/// An INSERT of one row that counted two stayed undecided in a log of 10,000 transactions.
#[test]
fn an_insert_writes_as_many_rows_as_it_lists() {
    let refuted = |dbms: &str, count: u64| {
        let mut log = Log::register(&[(1, 0)]);
        log.builder.header().dbms = Some(dbms.into());
        log.sql(0, 1, None, "INSERT INTO t (k, v) VALUES (7, 1)", &[], &Seen::Count(count));
        log.op(0, 1, None, OpKind::Commit);
        refutes(&log.finish(), Level::ReadCommitted)
    };
    assert_eq!([0, 1, 2].map(|count| refuted("postgresql-15", count)), [true, false, true]);
    assert_eq!([1, 3].map(|count| refuted("mariadb-10.11", count)), [false, true]);
}

/// Law: nothing that has an execution is refuted, and invariants refute something.
#[test]
fn nothing_that_has_an_execution_is_refuted() {
    let mut count = 0;
    for (log, first) in [(tiny as fn(u64) -> History, 9000), (rich, 19_000), (replacing, 29_000)] {
        for seed in first..first + cases(15) {
            let history = log(seed);
            for level in LEVELS.into_iter().filter(|&level| refutes(&history, level)) {
                let holds = |reading| naive::holds(&history, Question::new(level), reading);
                assert!(
                    !holds(Reading::Item) && !holds(Reading::Statement),
                    "seed {seed} at {level}: {history:?}"
                );
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count}");
}

/// Right logs of simulated databases are refuted at no level that their protocol keeps.
#[test]
fn right_logs_are_not_refuted() {
    const TABLE: &[support::log::Shape<'_>] = &[("t", &["k"], &[("k", "int"), ("v", "int")])];
    for (protocol, level) in [
        (Protocol::Serial, Level::StrictSerializable),
        (Protocol::Snapshot, Level::StrictSnapshotIsolation),
        (Protocol::Committed, Level::ReadCommitted),
    ] {
        for seed in 0..cases(6) {
            let mut simulator = Simulator::new(TABLE, protocol, seed);
            simulator.commits = seed % 2 == 0;
            for k in 0..6 {
                simulator.row("t", &[("k", k.into()), ("v", 100.into())], 1);
            }
            simulator.run(4, 40, &mut |random, _| {
                let (k, v) = (random.below(9) as i64, random.below(40) as i64);
                let line = |text: &str, params: &[i64]| {
                    (text.to_owned(), params.iter().copied().map(Value::Int).collect())
                };
                script(match random.below(9) {
                    0 => vec![line("SELECT k, v FROM t WHERE v >= $1 ORDER BY k", &[v * 3])],
                    1 => vec![line("SELECT SUM(v), COUNT(*), MIN(v), MAX(v) FROM t", &[])],
                    2 => vec![line("UPDATE t SET v = v - $1 WHERE k = $2 AND v >= $1", &[v, k])],
                    3 => vec![line("UPDATE t SET v = v + $1 WHERE v < 60", &[v])],
                    4 => vec![line("DELETE FROM t WHERE k = $1 AND v > 90", &[k])],
                    5 => vec![line(
                        "INSERT INTO t VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = t.v + excluded.k",
                        &[k, v],
                    )],
                    6 => vec![
                        line("SELECT v FROM t WHERE k = $1", &[k]),
                        line("UPDATE t SET v = $1 WHERE k = $2", &[v, k]),
                    ],
                    7 => vec![
                        line("UPDATE t SET v = k + 1 WHERE k = $1", &[k]),
                        line("SELECT k FROM t LIMIT 9", &[]),
                    ],
                    _ => vec![line("SELECT a.k, b.v FROM t a JOIN t b ON b.k = a.k WHERE a.v > $1", &[v])],
                })
            });
            assert!(!refutes(&simulator.finish(), level), "{protocol:?} seed {seed}");
        }
    }
}

/// The audit accepts no mutated invariant of a log that has an execution.
#[test]
fn mutated_invariants_are_rejected() {
    let (mut accepted, mut rejected) = (0, 0);
    for seed in 0..cases(24) {
        let (log, mut random) = (if seed % 2 == 0 { tiny } else { rich }, Random(seed));
        let history = log(50_000 + seed);
        for level in LEVELS {
            let question = Question::new(level);
            let verdict = check(&history, level, Options::DEFAULT);
            let Some(Certificate::Invariant(found)) = verdict.certificate() else { continue };
            round_trip(&history, question, found);
            for _ in 0..20 {
                let mutated = mutate(found, &history, &mut random);
                let certificate = Certificate::Invariant(mutated);
                match audit(&history, question, &certificate) {
                    Ok(()) => accepted += 1,
                    Err(_) => rejected += 1,
                }
            }
        }
        // What is accepted is true: of a log with an execution nothing is.
        let level = Level::ReadCommitted;
        if naive::holds(&history, Question::new(level), Reading::Item) {
            for op in 0..history.op_count() {
                let op = margay_history::OpId(u32::try_from(op).expect("few operations"));
                let cells = (0..3).flat_map(|k| any_cells(k, &mut random)).collect();
                let certificate = Certificate::Invariant(Invariant { op, cells, notes: Vec::new() });
                let answer = audit(&history, Question::new(level), &certificate);
                assert!(answer.is_err(), "seed {seed}: {certificate:?}\n{history:?}");
            }
        }
    }
    assert!(rejected > accepted, "{accepted} accepted, {rejected} rejected");
}

fn round_trip(history: &History, question: Question, found: &Invariant) {
    let whole = Certificate::Invariant(found.clone());
    let claim = Claim::of(history, question, None, &whole);
    let text = wire::to_json(history, &claim, &whole);
    assert_eq!(wire::from_json(history, None, &text), Ok((claim, whole)));
}

fn values(random: &mut Random) -> Possible {
    let low = i128::from(random.below(5)) - 2;
    match random.below(3) {
        0 => Possible::Of(BTreeSet::new()),
        1 => Possible::one(Value::Int(random.below(4) as i64)),
        _ => Possible::Numbers(Numbers {
            low,
            high: low + i128::from(random.below(4)),
            step: 1 + i128::from(random.below(3)),
            scale: 0,
            null: random.chance(50),
        }),
    }
}

fn any_cells(key: i64, random: &mut Random) -> Vec<InvariantCell> {
    let cell = |table: &str, column: &str, values| InvariantCell {
        table: table.to_owned(),
        key: vec![Value::Int(key)],
        column: column.to_owned(),
        values,
    };
    vec![cell("t", "v", values(random)), cell("t", "k", Possible::one(Value::Int(key)))]
}

fn mutate(found: &Invariant, history: &History, random: &mut Random) -> Invariant {
    let mut mutated = found.clone();
    let at = random.below(found.cells.len().max(1) as u64) as usize;
    match (random.below(4), mutated.cells.get_mut(at)) {
        (0, _) => mutated.op = margay_history::OpId(random.below(history.op_count() as u64) as u32),
        (1, Some(cell)) => cell.key = vec![Value::Int(random.below(4) as i64)],
        (2, Some(_)) => _ = mutated.cells.remove(at),
        (_, Some(cell)) => cell.values = values(random),
        (_, None) => mutated.op = margay_history::OpId(0),
    }
    mutated
}

/// A wrong certificate for a wrong log: smaller sets than statements leave, transactions that need
/// not have committed.
#[test]
fn invariants_that_do_not_survive_are_rejected() {
    let history = transfers(20, 66);
    let question = Question::new(Level::Serializable);
    let found = invariant(&history, Level::Serializable);
    let with = |values: Possible| {
        let mut spoiled = found.clone();
        spoiled.cells.iter_mut().filter(|cell| cell.column == "balance").for_each(|cell| {
            cell.values = values.clone();
        });
        audit(&history, question, &Certificate::Invariant(spoiled))
    };
    let numbers = |low, high, step| Possible::Numbers(Numbers { low, high, step, scale: 0, null: false });
    assert_eq!(with(numbers(300, 490, 10)), Ok(()));
    assert_eq!(with(numbers(200, 590, 5)), Ok(()));
    for wrong in [numbers(310, 490, 10), numbers(300, 480, 10), numbers(300, 490, 20), numbers(301, 491, 10)]
    {
        assert!(with(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(with(numbers(60, 490, 1)).is_err(), "it allows the result");
    assert!(with(Possible::Any).is_err(), "it says nothing");
}

/// A statement that may do anything leaves nothing certain.
#[test]
fn what_may_do_anything_refutes_nothing() {
    let mut log = Log::new(&[("t", &["k"], &[("k", "int"), ("v", "int")])]);
    log.row("t", &[Value::Int(1)], &[("v", Value::Int(10))]);
    log.txn(0, 0, &[("UPDATE t SET k = k + 1 WHERE v = 10", None)], OpKind::Commit);
    log.sql(1, 1, None, "SELECT v FROM t WHERE k = 2", &[], &Seen::Rows(vec![vec![Value::Int(10)]]));
    log.op(1, 1, None, OpKind::Commit);
    assert_eq!(word(&log.finish(), Level::Serializable), "holds");
}
