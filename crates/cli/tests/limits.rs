//! `--timeout` and `--memory` of the binary: an answer in time, reading included, and no more
//! memory than allowed.

mod common;

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use common::{Run, margay};

/// What an answer may take beyond its limit: more than the promise, because tests run side by side.
const SLACK: Duration = Duration::from_secs(2);

/// Runs, and fails if that takes longer than the limit allows.
#[track_caller]
fn within(limit: Duration, args: &[&str]) -> Run {
    let start = Instant::now();
    let run = margay(args.iter());
    let took = start.elapsed();
    assert!(took <= limit + limit / 10 + SLACK, "{took:?} for {limit:?}: {args:?}\n{}", run.stdout);
    run
}

const CROSS_JOIN: &str = "crates/cli/tests/cases/cross-join-ignores-timeout.jsonl";
const SHRINK: &str = "crates/cli/tests/cases/shrink-ignores-timeout.jsonl";

/// The SQL interpreter ran on through four billion joined rows, and held 5 GB.
#[test]
fn a_join_ends_in_time() {
    let args = ["check", CROSS_JOIN, "--level", "serializable", "--timeout", "1s", "--json"];
    let run = within(Duration::from_secs(1), &args).expect(3);
    let reason = run.json()["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("out of time"), "{reason}");
}

/// What was read of the join is held; that is a lot long before the time is over.
#[test]
fn a_join_ends_at_the_memory_limit() {
    let args =
        ["check", CROSS_JOIN, "--level", "serializable", "--memory", "200M", "--timeout", "60s", "--json"];
    let run = margay(args).expect(3);
    let reason = run.json()["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("out of memory: the limit is 200 MiB"), "{reason}");
    let peak = run.json()["stats"]["peak_rss_bytes"].as_u64().expect("Linux tells");
    assert!(peak < 800 << 20, "{peak} bytes");
}

/// Making a refutation smaller did not look at the clock.
#[test]
fn shrinking_ends_in_time() {
    let args = ["check", SHRINK, "--level", "parallel-snapshot", "--engine", "solve", "--timeout", "200ms"];
    let run = within(Duration::from_millis(200), &args);
    assert!([1, 3].contains(&run.status), "{}", run.stdout);
}

/// Reading was not counted: a large file took as long as it took.
#[test]
fn reading_ends_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.jsonl");
    let mut file = fs::File::create(&path).expect("a file");
    let mut text = String::from("{\"margay\":1}\n");
    for txn in 0..1_000_000u32 {
        let session = txn % 8;
        text += &format!("{{\"session\":{session},\"txn\":{txn},\"write\":[[{txn},1]]}}\n");
        text += &format!("{{\"session\":{session},\"txn\":{txn},\"commit\":true}}\n");
    }
    file.write_all(text.as_bytes()).expect("room");
    drop((file, text));
    let path = path.to_str().expect("plain");
    let args = ["check", path, "--level", "serializable", "--timeout", "100ms", "--json"];
    let run = within(Duration::from_millis(100), &args).expect(3);
    let reason = run.json()["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("out of time") && reason.contains("while reading"), "{reason}");
}

#[test]
fn sizes_that_are_none_are_refused() {
    let run = margay(["check", CROSS_JOIN, "--level", "serializable", "--memory", "lots"]).expect(2);
    assert!(run.stderr.contains("expected a size with a unit"), "{}", run.stderr);
}

/// The limit of a run was nowhere to be read.
#[test]
fn the_limit_of_a_run_is_in_its_help() {
    let run = margay(["run", "--help"]).expect(0);
    assert!(run.stdout.contains("60s"), "{}", run.stdout);
}
