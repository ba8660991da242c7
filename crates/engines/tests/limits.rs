//! Engines keep within their budgets: each is asked with budgets of 1, 10 and 100 ms about
//! histories that take long.
//!
//! The stories of the files, all of version 0.1.0:
//! - `predicate-scans-ignore-timeout`: `solve` made a list of versions for each scan and each
//!   object that the scan had left out, and did not look at the clock: 146 s and 2.2 GB for a limit
//!   of 5 s.
//! - `mariadb-predicate-memory`: the same with 6.9 GB, until the kernel ended it.
//! - `cross-join-ignores-timeout`: six tables of 40 rows joined; the SQL interpreter went through
//!   all four billion rows.
//! - `shrink-ignores-timeout`: at `parallel-snapshot`, `solve` went on making its refutation
//!   smaller.
//! - Four keys, five values, 10,000 transactions: every read has hundreds of candidates. `solve`
//!   made a variable for each of them without a look at the clock: 6 s and 1.5 GB for any limit.
//! - One transaction that writes 50,000 keys: `solve` looked each key up in a list of all before
//!   it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use margay_audit::{audit, audit_within};
use margay_engines::all;
use margay_formats::Source;
use margay_history::{Access, History, HistoryBuilder, OpDetail, OpKind};
use margay_levels::Level;
use margay_verdict::{Budget, Question, Verdict, Why};

/// What an answer may take beyond a tenth of its limit. Tests run side by side on slow machines;
/// what is caught here took seconds and minutes.
const SLACK: Duration = Duration::from_millis(1500);

fn case(name: &str) -> History {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    margay_formats::read(Source::Path(path), None).expect("a history").history
}

/// Asks every engine; counts those that had no time.
fn ask_all(history: &History, level: Level) -> usize {
    let mut exhausted = 0;
    for engine in all() {
        for limit in [1, 10, 100].map(Duration::from_millis) {
            let start = Instant::now();
            let budget = Budget::unlimited().with_time(limit);
            let verdict = engine.check(history, Question::new(level), &budget);
            let took = start.elapsed();
            assert!(
                took <= limit + limit / 10 + SLACK,
                "{} at {level}: {took:?} for {limit:?}",
                engine.name()
            );
            exhausted += usize::from(matches!(verdict, Verdict::Unknown(Why::Exhausted(..))));
        }
    }
    exhausted
}

#[test]
fn scans_of_postgres() {
    let history = case("predicate-scans-ignore-timeout.jsonl.zst");
    for level in [Level::ReadCommitted, Level::Causal, Level::ParallelSnapshot, Level::Serializable] {
        assert!(ask_all(&history, level) > 0, "{level} is no test: every engine answers at once");
    }
}

#[test]
fn scans_of_mariadb() {
    let history = case("mariadb-predicate-memory.jsonl.zst");
    for level in [Level::ReadCommitted, Level::SnapshotIsolation] {
        assert!(ask_all(&history, level) > 0, "{level} is no test: every engine answers at once");
    }
}

#[test]
fn a_join_of_billions() {
    let history = case("cross-join-ignores-timeout.jsonl");
    assert!(ask_all(&history, Level::Serializable) >= 3, "no engine executes four billion rows in 100 ms");
}

#[test]
fn shrinking_a_refutation() {
    let history = case("shrink-ignores-timeout.jsonl");
    ask_all(&history, Level::ParallelSnapshot);
}

/// Few keys, few values, many transactions without times: every read may be of thousands of writes.
fn ambiguous(txns: u64) -> History {
    let mut builder = HistoryBuilder::new();
    let keys = ["a", "b", "c", "d"].map(|key| {
        let key = builder.values().text(key);
        builder.object(None, key)
    });
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    for txn in 0..txns {
        let session = txn % 8;
        for kind in [OpKind::Read, OpKind::Write] {
            let (object, value) = (keys[below(4) as usize], builder.values().int(below(5) as i64));
            let access = Access { object, value };
            builder.push(session, txn, None, kind, &[access], OpDetail::None).expect("an operation");
        }
        builder.push(session, txn, None, OpKind::Commit, &[], OpDetail::None).expect("an end");
    }
    builder.finish().expect("a history")
}

#[test]
fn many_writers_of_few_values() {
    let history = ambiguous(10_000);
    for level in Level::ALL {
        ask_all(&history, level);
    }
}

/// One transaction loads all keys; the next one reads some.
#[test]
fn one_transaction_with_many_writes() {
    let mut builder = HistoryBuilder::new();
    for txn in [0, 1] {
        let kind = if txn == 0 { OpKind::Write } else { OpKind::Read };
        for key in 0..50_000 {
            let (key, value) = (builder.values().int(key), builder.values().int(key + 1));
            let access = Access { object: builder.object(None, key), value };
            builder.push(txn, txn, None, kind, &[access], OpDetail::None).expect("an operation");
        }
        builder.push(txn, txn, None, OpKind::Commit, &[], OpDetail::None).expect("an end");
    }
    let history = builder.finish().expect("a history");
    for level in [Level::ReadUncommitted, Level::ReadCommitted, Level::Causal, Level::Serializable] {
        ask_all(&history, level);
    }
}

/// Both were `unknown`, or never ended. The level is decided by the order of commits, without a
/// list of versions.
#[test]
fn read_committed_scans_are_decided() {
    for name in ["predicate-scans-ignore-timeout.jsonl.zst", "mariadb-predicate-memory.jsonl.zst"] {
        let (history, question) = (case(name), Question::new(Level::ReadCommitted));
        let budget = Budget::unlimited().with_time(Duration::from_secs(60));
        let solve = all().iter().find(|engine| engine.name() == "solve").expect("there is one");
        let verdict = solve.check(&history, question, &budget);
        let Verdict::Holds(certificate) = verdict else { panic!("{name}: {}", verdict.word()) };
        assert_eq!(audit(&history, question, &certificate), Ok(()));
        // The audit, too, says in time that there was none.
        let ended = Budget::unlimited().with_time(Duration::ZERO);
        assert!(audit_within(&history, question, &certificate, &ended).is_err());
    }
}

/// A correct log of random SQL from PostgreSQL: at `serializable`, `observe` had explained 43 of
/// 164 transactions after 20 s. It now tries the orders of real time first, and needs a fraction of
/// a second.
#[test]
fn random_sql_is_explained_in_real_time() {
    let history = case("random-sql-postgres.jsonl.zst");
    let observe = all().iter().find(|engine| engine.name() == "observe").expect("the engine of SQL");
    let budget = Budget::unlimited().with_time(Duration::from_secs(20));
    let verdict = observe.check(&history, Question::new(Level::Serializable), &budget);
    assert_eq!(verdict.word(), "holds", "{verdict:?}");
}
