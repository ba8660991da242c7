//! `margay run` on what is part of the program: stores of pairs, and SQLite in all its modes.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use common::{Run, found, margay};
use serde_json::Value;

fn run(args: &str) -> Run {
    margay(["run", "--no-report"].into_iter().chain(args.split_whitespace()))
}

/// Runs, which must hold, and whose live verification must be clean.
fn holds(args: &str) -> Value {
    let told = run(&format!("{args} --json")).expect(0).json();
    assert_eq!(told["verdict"], "holds", "{args}: {told}");
    assert_eq!(told["run"]["live"]["violations"], 0, "{args}: {told}");
    assert!(told["run"]["live"]["verified"].as_u64() > Some(0), "{args}: {told}");
    told
}

#[test]
#[cfg_attr(not(feature = "stores"), ignore = "built without the feature `stores`")]
fn stores_keep_what_they_promise() {
    for (target, promised) in [
        ("fjall", "serializable"),
        ("fjall --level single-writer", "strict-serializable"),
        ("redb", "strict-serializable"),
        ("surrealkv", "snapshot-isolation"),
    ] {
        for workload in ["mixed", "write-skew", "list-append", "increment"] {
            let told = holds(&format!("{target} --workload {workload} --transactions 300"));
            assert_eq!(told["level"], promised, "{target}");
        }
    }
    for target in ["fjall", "redb"] {
        holds(&format!("{target} --workload predicate --transactions 200"));
    }
}

#[test]
#[cfg_attr(not(feature = "stores"), ignore = "built without the feature `stores`")]
fn snapshot_isolation_of_a_store_is_not_serializable() {
    let told = found(run, "surrealkv --workload write-skew --claim serializable", 600, |_| true);
    let name = told["anomalies"][0]["name"].as_str().unwrap_or_default();
    assert!(name.starts_with("G2"), "{told}");
    assert_eq!(told["run"]["promised"], "snapshot-isolation");
}

#[test]
fn sqlite_holds_in_every_mode() {
    for (target, level) in [
        ("sqlite", "wal"),
        ("sqlite", "serializable"),
        ("sqlite:?begin=immediate", "wal"),
        ("sqlite:?begin=immediate", "serializable"),
        ("sqlite:?begin=exclusive", "wal"),
        ("sqlite:?begin=exclusive", "serializable"),
        ("sqlite:?cache=shared", "wal"),
        ("sqlite:?cache=shared", "serializable"),
    ] {
        holds(&format!("{target} --level {level} --transactions 120"));
    }
    let told = run("--level read-uncommitted --transactions 200 --json").expect(0).json();
    assert_eq!(told["level"], "read-uncommitted", "{told}");
}

#[test]
fn what_sqlite_has_not_committed_is_seen_if_one_asks_for_it() {
    let weaker = "sqlite --level read-uncommitted --claim serializable --workload rw-register";
    let told = found(run, weaker, 2500, |_| true);
    assert_eq!(told["run"]["level"], "read-uncommitted");
}

#[test]
#[cfg_attr(not(feature = "stores"), ignore = "built without the feature `stores`")]
fn a_store_of_a_folder_is_used_again() {
    let folder = tempfile::TempDir::new().expect("a folder");
    for store in ["fjall", "redb", "surrealkv"] {
        let target = format!("{store}:{}", folder.path().join(store).display());
        for _ in 0..2 {
            holds(&format!("{target} --transactions 60"));
        }
    }
}

#[test]
#[cfg_attr(not(feature = "stores"), ignore = "built without the feature `stores`")]
fn levels_are_mixed() {
    let told = run("--level wal,serializable --transactions 60 --json");
    // Two journals in one file are a contradiction, which SQLite notices or not; levels of one
    // database are not.
    assert!([0, 2].contains(&told.status), "{}", told.stderr);
    let error = run("fjall --level optimistic,nothing").expect(2);
    assert!(error.stderr.contains("it offers optimistic, single-writer"), "{}", error.stderr);
}

#[test]
fn several_engines_answer_one_after_the_other() {
    let told = run("--transactions 60 --engine solve,infer,mirror --json").expect(0).json();
    let checks = told["report"]["checks"].as_array().expect("checks").clone();
    let engines: Vec<_> = checks.iter().filter_map(|check| check["engine"].as_str()).collect();
    assert_eq!(engines, ["mirror", "follow, live", "solve", "infer", "mirror"], "the first two while it ran");
    assert_eq!(told["verdict"], "holds");
}

/// The objects of each transaction of a recording that aborted, and those of the next one of its
/// session.
fn aborted_and_next(record: &Path) -> Vec<[BTreeSet<String>; 2]> {
    let text = fs::read_to_string(record).expect("a recording");
    let mut sessions: BTreeMap<u64, BTreeMap<u64, (BTreeSet<String>, bool)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line).expect("a line");
        let (session, txn) = (line["session"].as_u64(), line["txn"].as_u64());
        let txns = sessions.entry(session.expect("a session")).or_default();
        let (objects, aborted) = txns.entry(txn.expect("a transaction")).or_default();
        let touched = [&line["read"], &line["write"]].into_iter().filter_map(Value::as_array).flatten();
        objects.extend(touched.map(|access| access[0].to_string()));
        *aborted |= line["abort"] == true;
    }
    let pairs = sessions.values().flat_map(|txns| txns.values().zip(txns.values().skip(1)));
    pairs.filter(|(first, _)| first.1).map(|(first, next)| [first.0.clone(), next.0.clone()]).collect()
}

/// More and more transactions, until some are refused: how threads meet is not in our hand. Some
/// are rolled back on purpose and not tried again; by chance the next one of those hardly has the
/// same objects, if they are two or more.
#[test]
#[cfg_attr(not(feature = "stores"), ignore = "built without the feature `stores`")]
fn a_refused_transaction_is_tried_again_as_another() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let record = folder.path().join("run.jsonl");
    let retried = |retries: u32, wanted: fn(usize, usize) -> bool| {
        [500, 2000, 8000, 32_000].into_iter().any(|transactions: u64| {
            let args =
                format!("--workload increment --transactions {transactions} --retries {retries} --json");
            let told = run(&format!("surrealkv {args} --record {}", record.display())).expect(0).json();
            let ended: u64 =
                ["committed", "aborted"].iter().filter_map(|key| told["run"][key].as_u64()).sum();
            assert_eq!((ended, told["stats"]["transactions"].as_u64()), (transactions, Some(transactions)));
            let mut pairs = aborted_and_next(&record);
            pairs.retain(|[aborted, _]| aborted.len() > 1);
            wanted(pairs.iter().filter(|[aborted, next]| aborted == next).count(), pairs.len())
        })
    };
    assert!(retried(0, |same, all| all >= 10 && same * 4 < all), "what is refused is tried again");
    assert!(retried(1_000_000, |same, _| same >= 3), "what is refused is not tried again");
}
