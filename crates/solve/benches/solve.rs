//! How long engine solve takes, and in how much memory.
//!
//! `cargo bench -p margay-solve` runs each case in a process of its own, so that the peaks of memory do not mix, and prints a table. Seconds are those
//! of the check alone, by the clock and by the processor; the peak includes the history. `cargo bench -p margay-solve -- PART` runs the cases whose name has PART.
//!
//! With time: histories of simulated databases (24 clients, 8 operations, 10,000 keys; RH reads 80 %, RW 50 %, WH 20 %), checked at
//! `strict-serializable`. Without time: a serial execution dealt out to 20 sessions at random, 8 operations, uniform keys, checked at
//! `strong-session-serializable`, and, each transaction in a session of its own, at `serializable`.

use std::process::Command;
use std::time::Instant;

use margay_history::{Access, History, HistoryBuilder, ObjectId, OpDetail, OpKind};
use margay_levels::Level;
use margay_simdb::{Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_solve::Solve;
use margay_verdict::{Budget, Checker, Question, Verdict};

/// Where a case's history comes from.
enum Source {
    /// A simulated database, with this share of reads in percent.
    Simulated(Protocol, u32),
    /// A serial execution: keys, sessions (0 for one per transaction), shares of reads and of read-modify-writes in percent.
    Serial { keys: u64, sessions: u64, reads: u64, rmw: u64 },
}

struct Case {
    name: &'static str,
    txns: u64,
    level: Level,
    source: Source,
    goal: &'static str,
}

const SSS: Level = Level::StrongSessionSerializable;

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let simulated = |name, txns, protocol, reads, level, goal| {
        Case { name, txns, level, source: Source::Simulated(protocol, reads), goal }
    };
    let serial = |name, txns, level, keys, sessions, reads, rmw, goal| {
        Case { name, txns, level, source: Source::Serial { keys, sessions, reads, rmw }, goal }
    };
    let (strict, snapshot) = (Level::StrictSerializable, Level::StrictSnapshotIsolation);
    vec![
        simulated("timed RH ss2pl", 10_000, Protocol::Ss2pl, 80, strict, ""),
        simulated("timed RW ss2pl", 10_000, Protocol::Ss2pl, 50, strict, ""),
        simulated("timed WH ss2pl", 10_000, Protocol::Ss2pl, 20, strict, ""),
        simulated("timed RW ssi", 10_000, Protocol::Ssi, 50, Level::Serializable, ""),
        simulated("timed RW ss2pl", 100_000, Protocol::Ss2pl, 50, strict, "0.5 s, 150 MB"),
        simulated("timed RW si", 100_000, Protocol::SiFuw, 50, snapshot, ""),
        simulated("timed RW ss2pl", 1_000_000, Protocol::Ss2pl, 50, strict, "6 s, 1.5 GB"),
        serial("untimed, keys = txns", 10_000, SSS, 10_000, 20, 50, 0, "0.3 s"),
        serial("untimed, keys = txns", 100_000, SSS, 100_000, 20, 50, 0, "4 s, 500 MB"),
        serial("untimed, keys = txns", 1_000_000, SSS, 1_000_000, 20, 50, 0, "60 s"),
        serial("untimed, keys = txns / 10", 10_000, SSS, 1_000, 20, 50, 0, "2 s"),
        serial("untimed SI, keys = txns / 10", 10_000, Level::StrongSessionSnapshotIsolation, 1_000, 20, 50, 0, ""),
        serial("no sessions, RMW", 10_000, Level::Serializable, 10_000, 0, 25, 50, "30 s"),
        serial("no sessions, read/write", 10_000, Level::Serializable, 10_000, 0, 50, 0, "30 s"),
        serial("no sessions, heavy write", 10_000, Level::Serializable, 10_000, 0, 10, 10, "30 s"),
    ]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", number] => child(&cases()[number.parse::<usize>().expect("a number")]),
        _ => parent(args.first().map_or("", String::as_str)),
    }
}

fn parent(part: &str) {
    println!(
        "| case | transactions | verdict | seconds | CPU s | peak, MB | goal |\n|---|---:|---|---:|---:|---:|---|"
    );
    for (number, case) in cases().iter().enumerate().filter(|(_, case)| case.name.contains(part)) {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program).args(["child", &number.to_string()]).output().expect("a child");
        let said = String::from_utf8_lossy(&output.stdout);
        let goal = if case.goal.is_empty() { String::new() } else { format!("≤ {}", case.goal) };
        println!("| {} | {} | {} | {goal} |", case.name, case.txns, said.trim());
    }
}

fn child(case: &Case) {
    let history = history(case);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let budget = Budget::unlimited().with_time(std::time::Duration::from_secs(120));
    let verdict = Solve.check(&history, Question::new(case.level), &budget);
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let word = match &verdict {
        Verdict::Unknown(why) => format!("unknown: {why}"),
        verdict => verdict.word().to_string(),
    };
    println!("{word} | {seconds:.2} | {cpu:.2} | {}", peak_megabytes());
}

fn history(case: &Case) -> History {
    match case.source {
        Source::Simulated(protocol, reads) => {
            let mut weights = [0; 12];
            (weights[0], weights[1]) = (reads, 100 - reads);
            let config = SimConfig {
                clients: 24,
                transactions: case.txns,
                ops: (8, 8),
                keys: 10_000,
                mix: Mix { weights },
                aborts: Ppm::percent(0),
                unknown: Ppm::percent(0),
                ..SimConfig::new(protocol, 1)
            };
            simulate_history(&config).expect("a history").0
        }
        Source::Serial { keys, sessions, reads, rmw } => serial(case.txns, keys, sessions, reads, rmw),
    }
}

/// A serial execution whose transactions are dealt out to sessions.
fn serial(txns: u64, keys: u64, sessions: u64, reads: u64, rmw: u64) -> History {
    let mut state = 42u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut b = HistoryBuilder::new();
    let zero = b.values().int(0);
    let mut current = vec![0i64; keys as usize];
    for key in 0..keys {
        let key = b.values().int(key as i64);
        let object = b.object(None, key);
        b.initial(object, zero).expect("each key once");
    }
    let mut written = 0;
    for txn in 0..txns {
        // One session each, in an order that tells nothing of the execution.
        let alone = txn.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let session = if sessions == 0 { alone } else { random(sessions) };
        for _ in 0..8 {
            let key = random(keys);
            let object = ObjectId(key as u32);
            let kind = random(100);
            if kind < reads + rmw {
                let value = b.values().int(current[key as usize]);
                push(&mut b, session, txn, OpKind::Read, &[Access { object, value }]);
            }
            if kind >= reads {
                written += 1;
                current[key as usize] = written;
                let value = b.values().int(written);
                push(&mut b, session, txn, OpKind::Write, &[Access { object, value }]);
            }
        }
        push(&mut b, session, txn, OpKind::Commit, &[]);
    }
    b.finish().expect("a valid history")
}

fn push(b: &mut HistoryBuilder, session: u64, txn: u64, kind: OpKind, accesses: &[Access]) {
    b.push(session, txn, None, kind, accesses, OpDetail::None).expect("a valid operation");
}

/// User and system time of this process, in seconds; 0 where the system does not tell.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or("");
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

/// The largest resident memory of this process so far.
fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
