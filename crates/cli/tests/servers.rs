//! `margay run` against real servers: what they promise is kept, and what they do not promise is
//! found out.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Run, found, margay};
use margay_servers::{Server, started};
use serde_json::Value;

fn run(args: &str) -> Run {
    margay(["run", "--no-report"].into_iter().chain(args.split_whitespace()))
}

/// Runs until a violation of one of these kinds is found: which of several comes first is not in
/// our hand either.
fn violated(args: &str, transactions: u64, kinds: &[&str]) -> Value {
    found(run, args, transactions, |told| {
        told["anomalies"].as_array().is_some_and(|anomalies| {
            anomalies.iter().any(|anomaly| kinds.iter().any(|kind| anomaly["name"].as_str() == Some(*kind)))
        })
    })
}

/// Asks engines, none of which may accuse a correct database, and some of which must have an
/// answer.
fn is_clean(args: &str, engines: &[&str], answers: &[&str]) {
    let run = run(&format!("{args} --engine {} --timeout 20s --json", engines.join(",")));
    let told = run.expect(0).json();
    let checks = told["report"]["checks"].as_array().expect("checks").clone();
    assert!(checks.len() > engines.len(), "the mirror has looked on: {told}");
    for check in &checks {
        assert_ne!(check["verdict"], "violated", "{args}: {check}");
    }
    for engine in answers {
        let mut own = checks.iter().filter(|check| check["engine"] == *engine);
        assert!(own.any(|check| check["verdict"] != "unknown"), "{args}: {engine} has no answer: {told}");
    }
}

/// Every engine has an answer where a history is one of those that it decides. Clients tell what
/// they saw; the order of versions, which `certify` wants, the database itself tells.
fn every_engine_is_clean(url: &str, workload: &str) {
    let args = format!("{url} --workload {workload} --transactions 60");
    let mut answers = vec!["mirror"];
    // Of its updates bank-server learns only how many rows they changed, which rows cannot say.
    if workload != "bank-server" {
        answers.push("solve");
    }
    if TELLING.contains(&workload) {
        answers.push("infer");
    }
    if STATEMENTS.contains(&workload) {
        answers.push("observe");
    }
    is_clean(&args, &["auto", "solve", "mirror", "infer", "observe"], &answers);
    // Which rows its statements changed, bank-server does not tell.
    if workload != "bank-server" {
        is_clean(&format!("{args} --certificate-recovery"), &["certify"], &["certify"]);
    }
}

/// Whose reads tell the order of versions.
const TELLING: [&str; 4] = ["list-append", "increment", "write-skew", "smallbank"];

/// Programs in SQL.
const STATEMENTS: [&str; 7] =
    ["blindw-rw-plus", "blindw-pred", "smallbank", "tpcc", "c-twitter", "rubis", "bank-server"];

const WORKLOADS: [&str; 24] = [
    "mixed",
    "rw-register",
    "list-append",
    "increment",
    "write-skew",
    "predicate",
    "blindw-w",
    "blindw-rw",
    "blindw-rw-plus",
    "blindw-rh",
    "blindw-wr",
    "blindw-wh",
    "blindw-pred",
    "ycsb-a",
    "smallbank",
    "tpcc",
    "c-twitter",
    "rubis",
    "bank-server",
    "emme-item",
    "emme-predicate",
    "king-cobra-rmw",
    "king-cobra-rw",
    "king-cobra-write",
];

#[test]
fn postgresql_serializable_is_clean_on_every_workload_by_every_engine() {
    let Some(server) = started(Server::postgres()) else { return };
    for workload in WORKLOADS {
        every_engine_is_clean(server.url(), workload);
    }
}

#[test]
fn postgresql_keeps_no_more_than_it_promises() {
    let Some(server) = started(Server::postgres()) else { return };
    let url = server.url();
    let skew = ["G2-item", "G2", "write-skew"];
    for (workload, transactions) in
        [("write-skew", 500), ("smallbank --keys 2 --clients 12 --retries 0", 1500)]
    {
        let weaker = "--level repeatable-read --claim serializable";
        violated(&format!("{url} {weaker} --workload {workload}"), transactions, &skew);
    }
    run(&format!("{url} --level repeatable-read --workload write-skew --transactions 200")).expect(0);
    let weaker = "--level read-committed --claim snapshot-isolation --workload increment";
    violated(
        &format!("{url} {weaker}"),
        300,
        &["lost-update", "G-single-item", "G-single", "non-repeatable-read"],
    );
    run(&format!("{url} --level read-committed --workload increment --transactions 200")).expect(0);
    let mixed = run(&format!("{url} --level serializable,repeatable-read --transactions 200 --json"))
        .expect(0)
        .json();
    assert_eq!(mixed["run"]["level"], "serializable,repeatable-read", "{mixed}");
    assert_eq!(mixed["level"], "snapshot-isolation", "{mixed}");
}

#[test]
fn mariadb_loses_updates_at_repeatable_read_only() {
    let Some(server) = started(Server::mariadb()) else { return };
    let url = server.url();
    let weaker = "--level repeatable-read --claim snapshot-isolation --workload increment";
    violated(&format!("{url} {weaker}"), 400, &["lost-update", "G-single-item"]);
    for workload in ["mixed", "increment", "write-skew", "list-append", "predicate"] {
        let engines = ["auto", "solve", "mirror", "infer"];
        is_clean(&format!("{url} --workload {workload} --transactions 60"), &engines, &["solve", "mirror"]);
    }
}

/// Drives a server that is killed once so many lines are recorded, until clients have done enough
/// to notice.
fn driven_through_a_kill(mut server: Server, lines_before: usize) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("run.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
    let args = format!("run {} --workload increment --duration 600s --json --record", server.url());
    command.args(args.split_whitespace()).arg(&record).stdout(Stdio::piped());
    let running = command.spawn().expect("it starts");
    wait_for_lines(&record, lines_before);
    server.kill();
    let before = lines(&record);
    server.restart().expect("it comes back");
    wait_for_lines(&record, before + 500);
    let sent = Command::new("kill").args(["-s", "INT", &running.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let output = running.wait_with_output().expect("it ends");
    serde_json::from_slice(&output.stdout).expect("an account")
}

fn lines(path: &Path) -> usize {
    fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

fn wait_for_lines(path: &Path, many: usize) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while lines(path) < many {
        assert!(Instant::now() < deadline, "{} of {many} lines", lines(path));
        thread::sleep(Duration::from_millis(20));
    }
}

const CARELESS: [&str; 3] = ["synchronous_commit=off", "wal_writer_delay=10s", "wal_buffers=64MB"];

/// A careless server that crashed early lost the tables themselves; the run ended in "relation does
/// not exist".
#[test]
fn a_crash_does_not_take_the_tables_with_it() {
    let Some(server) = started(Server::postgres_with(&CARELESS)) else { return };
    driven_through_a_kill(server, 2);
}

#[test]
fn an_acknowledged_write_that_a_crash_loses_is_noticed() {
    // What was written to the disk just before is not lost; when that happens is not in our hand.
    let loses = || {
        let server = started(Server::postgres_with(&CARELESS))?;
        Some(driven_through_a_kill(server, 500)["verdict"] == "violated")
    };
    let Some(lost) = loses() else { return };
    assert!(
        lost || (0..4).any(|_| loses() == Some(true)),
        "five crashes that lose nothing, or nobody notices"
    );
    let Some(server) = started(Server::postgres()) else { return };
    let told = driven_through_a_kill(server, 500);
    assert_eq!(
        (told["verdict"].as_str(), told["run"]["live"]["violations"].as_u64()),
        (Some("holds"), Some(0)),
        "{told}"
    );
}

/// What broke a level is written as a script, which breaks it again, and is made smaller while it
/// does.
#[test]
fn a_violation_is_reproduced_by_its_script() {
    let Some(server) = started(Server::postgres()) else { return };
    let folder = tempfile::TempDir::new().expect("a folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (script, smaller, typed) = (place("s.jsonl"), place("smaller.jsonl"), place("s.sql"));
    let (url, weaker) = (server.url(), "--level read-committed --claim snapshot-isolation");
    // A script is a guess of what ran beside what: mostly, not always, a good one.
    let again = (0..6).find_map(|seed| {
        run(&format!(
            "{url} {weaker} --workload increment --transactions 400 --seed {seed} --reproduce {script}"
        ))
        .expect(1);
        let again = run(&format!("{url} {weaker} --script {script} --reproduce {smaller} --json"));
        (again.status == 1).then(|| again.json())
    });
    let again = again.expect("one of six scripts breaks the level again");
    assert!(again["run"]["committed"].as_u64() <= Some(3), "few transactions are enough: {again}");
    run(&format!("{url} {weaker} --script {smaller} --reproduce {typed}")).expect(1);
    let text = fs::read_to_string(&typed).expect("the statements");
    assert!(text.contains("/* 1 */ BEGIN; ") && text.contains("FROM margay_registers WHERE k = "), "{text}");
    assert!(!text.contains("margay_lists"), "{text}");
    // At a level that promises more, the same statements do no harm.
    run(&format!("{url} --level serializable --script {smaller}")).expect(0);
}

/// `--version` starts the server that says this version, and names what is there for another one.
#[test]
fn a_version_of_a_server_is_started() {
    if started(Server::postgres()).is_none() {
        return;
    }
    let short = "--workload increment --transactions 30 --json --start postgres";
    let told = run(short).expect(0).json();
    let version =
        told["run"]["dbms"].as_str().and_then(|name| name.split(' ').next_back()).expect("a version");
    let major = version.split('.').next().expect("its first number");
    let same = run(&format!("{short} --version {major}")).expect(0).json();
    assert_eq!(same["run"]["dbms"], told["run"]["dbms"]);
    assert!(same["run"]["again"].as_str().is_some_and(|again| again.contains(&format!("--version {major}"))));
    let error = run(&format!("{short} --version 6")).expect(2);
    assert!(
        error.stderr.contains("no postgres 6 is there") && error.stderr.contains(version),
        "{}",
        error.stderr
    );
}
