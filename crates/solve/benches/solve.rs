//! How long engine solve takes, and in how much memory.
//!
//! `cargo bench -p margay-solve` runs each case in a process of its own, so that the peaks of
//! memory do not mix, and prints a table. Seconds are those of the check alone, by the clock and by
//! the processor; the peak includes the history. `cargo bench -p margay-solve -- PART` runs the
//! cases whose name has PART.
//!
//! With time: histories of simulated databases (24 clients, 8 operations, 10,000 keys; RH reads 80
//! %, WR 50 %, WH 20 %, Pred half predicate reads, half predicate updates), and serial executions
//! of C-Twitter and TPC-C as keys and values whose transactions overlap, all checked at
//! `strict-serializable`. Without time: a serial execution dealt out to 20 sessions at random, 8
//! operations, uniform keys, checked at `strong-session-serializable`, and, each transaction in a
//! session of its own, at `serializable`; a share of the version order may be known; and at the
//! levels below.

#[path = "solve/serial.rs"]
mod serial;

use margay_formats::{Source as From, read};
use margay_history::History;
use margay_levels::Level;
use margay_simdb::{Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_solve::Solve;
use margay_testkit::bench::{Bench, measured, word};
use margay_verdict::{Budget, Checker, Question, Verdict};

use crate::serial::{Fault, Pattern, Serial, serial, timed};

/// Where a case's history comes from.
enum Source {
    /// A simulated database: its keys, and the weights of reads, writes, scans and predicate
    /// updates.
    Simulated {
        protocol: Protocol,
        keys: u32,
        weights: [u32; 4],
    },
    Serial(Serial),
    /// A serial execution whose transactions overlap in time.
    Timed(Pattern),
    /// A history of the corpora.
    Corpus(&'static str),
}

struct Case {
    name: String,
    txns: u64,
    level: Level,
    source: Source,
    goal: &'static str,
}

const SSS: Level = Level::StrongSessionSerializable;
const STRICT: Level = Level::StrictSerializable;

fn cases() -> Vec<Case> {
    let mut cases = simulated_cases();
    cases.extend(session_cases());
    cases.extend(king_cobra_cases());
    cases.extend(few_reads_cases());
    cases.extend(level_cases());
    for (name, path) in [("yuga-G2-a", "cobra/yuga-G2-a"), ("yuga-G2-b", "cobra/yuga-G2-b")] {
        let (name, goal) = (format!("corpus {name}"), "5 s");
        cases.push(Case { name, txns: 0, level: SSS, source: Source::Corpus(path), goal });
    }
    cases
}

fn simulated_cases() -> Vec<Case> {
    let case = |name: &str, txns, protocol, weights: [u32; 4], level, goal| {
        let source = Source::Simulated { protocol, keys: 10_000, weights };
        Case { name: name.to_string(), txns, level, source, goal }
    };
    let timed = |name: &str, pattern| {
        let source = Source::Timed(pattern);
        Case { name: name.to_string(), txns: 10_000, level: STRICT, source, goal: "" }
    };
    let snapshot = Level::StrictSnapshotIsolation;
    let (ss2pl, mixed) = (Protocol::Ss2pl, [50, 50, 0, 0]);
    vec![
        case("timed RH ss2pl", 10_000, ss2pl, [80, 20, 0, 0], STRICT, ""),
        case("timed WR ss2pl", 10_000, ss2pl, mixed, STRICT, ""),
        case("timed WH ss2pl", 10_000, ss2pl, [20, 80, 0, 0], STRICT, ""),
        case("timed Pred ss2pl", 10_000, ss2pl, [0, 0, 50, 50], STRICT, "1 s"),
        timed("timed C-Twitter", Pattern::Twitter),
        timed("timed TPC-C", Pattern::Tpcc),
        case("timed WR ssi", 10_000, Protocol::Ssi, mixed, Level::Serializable, ""),
        case("timed WR ss2pl", 100_000, ss2pl, mixed, STRICT, "0.5 s, 150 MB"),
        case("timed WR si", 100_000, Protocol::SiFuw, mixed, snapshot, ""),
        case("timed WR ss2pl", 1_000_000, ss2pl, mixed, STRICT, "6 s, 1.5 GB"),
    ]
}

fn session_cases() -> Vec<Case> {
    let case = |name: &str, txns, level, keys, goal| {
        let source = Source::Serial(Serial {
            keys,
            tenants: 1,
            sessions: 20,
            reads: 50,
            updates: 0,
            versions: 0,
            fault: Fault::None,
        });
        Case { name: name.to_string(), txns, level, source, goal }
    };
    let si = Level::StrongSessionSnapshotIsolation;
    vec![
        case("untimed, keys = txns", 10_000, SSS, 10_000, "0.3 s"),
        case("untimed, keys = txns", 100_000, SSS, 100_000, "4 s, 500 MB"),
        case("untimed, keys = txns", 1_000_000, SSS, 1_000_000, "60 s"),
        case("untimed, keys = txns / 10", 10_000, SSS, 1_000, "2 s"),
        case("untimed SI, keys = txns / 10", 10_000, si, 1_000, ""),
    ]
}

/// King Cobra's three workloads: with and without session order, and with shares of the version
/// order.
fn king_cobra_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (workload, reads, updates) in [("RMW", 25, 50), ("read/write", 50, 0), ("heavy write", 10, 10)] {
        for (sessions, versions) in [(0, 0), (0, 50), (0, 90), (0, 100), (20, 0), (20, 90)] {
            let order = if sessions == 0 { "no SO" } else { "SO" };
            let name = format!("{workload}, {order}, {versions} % VO");
            let level = if sessions == 0 { Level::Serializable } else { SSS };
            let goal = if (sessions, versions) == (0, 0) { "30 s" } else { "" };
            let source = Source::Serial(Serial {
                keys: 10_000,
                tenants: 1,
                sessions,
                reads,
                updates,
                versions,
                fault: Fault::None,
            });
            cases.push(Case { name, txns: 10_000, level, source, goal });
        }
    }
    cases
}

/// Few reads of many versions, and no order of anything.
fn few_reads_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for level in [Level::Serializable, Level::SnapshotIsolation] {
        for keys in [1_000, 500, 200] {
            let (sessions, reads, updates, versions) = (0, 10, 0, 0);
            let fault = Fault::None;
            let source =
                Source::Serial(Serial { keys, tenants: 1, sessions, reads, updates, versions, fault });
            let name = format!("few reads, {keys} keys, {level}");
            cases.push(Case { name, txns: 10_000, level, source, goal: "" });
        }
    }
    cases
}

/// The levels below snapshots, with and without sessions, and more transactions than a matrix of
/// all pairs holds; also with one fault.
fn level_cases() -> Vec<Case> {
    let txns = 100_000;
    let case = |name: String, level, sessions, fault| {
        let serial = Serial { keys: txns, tenants: 1, sessions, reads: 50, updates: 0, versions: 0, fault };
        Case { name, txns, level, source: Source::Serial(serial), goal: "" }
    };
    let mut cases = Vec::new();
    for level in Level::ALL.into_iter().filter(|level| !level.implies(Level::SnapshotIsolation)) {
        cases.push(case(format!("levels, {level}"), level, 20, Fault::None));
    }
    let (psi, si, ser) = (Level::ParallelSnapshot, Level::SnapshotIsolation, Level::Serializable);
    for level in [Level::Causal, psi, Level::RepeatableRead, si, ser] {
        cases.push(case(format!("levels, {level}, no SO"), level, 0, Fault::None));
    }
    for (word, fault, levels) in [
        ("lost update", Fault::LostUpdate, &[psi, si, ser][..]),
        ("long fork", Fault::LongFork, &[psi, si]),
        ("write skew", Fault::WriteSkew, &[si, ser]),
    ] {
        for &level in levels {
            cases.push(case(format!("levels, {level}, {word}"), level, 20, fault));
            cases.push(case(format!("levels, {level}, no SO, {word}"), level, 0, fault));
        }
    }
    cases
}

fn main() {
    let cases = cases();
    Bench {
        head: "| case | transactions | verdict | seconds | CPU s | peak, MB | goal |\n|---|---:|---|---:|---:|---:|---|",
        names: cases.iter().map(|case| case.name.as_str()).collect(),
        child: &|number| child(&cases[number]),
        row: &|number, said| {
            let Case { name, goal, .. } = &cases[number];
            let goal = if goal.is_empty() { String::new() } else { format!("≤ {goal}") };
            format!("| {name} | {said} | {goal} |")
        },
    }
    .main();
}

fn child(case: &Case) -> String {
    let Some(history) = history(case) else { return "0 | not there | | | ".to_owned() };
    let budget = Budget::unlimited().with_time(std::time::Duration::from_secs(limit()));
    let (verdict, cost) = measured(|| Solve.check(&history, Question::new(case.level), &budget));
    let slice = match &verdict {
        Verdict::Violated(findings) => format!(", by {} transactions", findings[0].txns.len()),
        _ => String::new(),
    };
    format!("{} | {}{slice} | {cost}", history.txn_count(), word(&verdict))
}

/// `MARGAY_BENCH_LIMIT`, or 120 seconds.
fn limit() -> u64 {
    std::env::var("MARGAY_BENCH_LIMIT").ok().and_then(|text| text.parse().ok()).unwrap_or(120)
}

fn history(case: &Case) -> Option<History> {
    match &case.source {
        &Source::Simulated { protocol, keys, weights: [reads, writes, scans, updates] } => {
            let mut weights = [0; 12];
            (weights[0], weights[1], weights[8], weights[9]) = (reads, writes, scans, updates);
            let config = SimConfig {
                clients: 24,
                transactions: case.txns,
                ops: (8, 8),
                keys,
                mix: Mix { weights },
                aborts: Ppm::percent(0),
                unknown: Ppm::percent(0),
                domain: 100_000,
                ..SimConfig::new(protocol, 1)
            };
            Some(simulate_history(&config).expect("a history").0)
        }
        Source::Serial(source) => Some(serial(case.txns, source)),
        Source::Timed(pattern) => Some(timed(case.txns, *pattern)),
        Source::Corpus(name) => {
            let beside = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpora").into();
            let root = std::env::var_os("MARGAY_CORPORA").map_or_else(beside, std::path::PathBuf::from);
            read(From::Path(root.join(name)), None).ok().map(|loaded| loaded.history)
        }
    }
}
