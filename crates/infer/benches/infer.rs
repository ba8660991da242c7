//! How long engine infer takes, and in how much memory.
//!
//! `cargo bench -p margay-infer` runs each case in a process of its own, so that the peaks of memory do not mix, and prints a table; `-- PART` runs the
//! cases whose name has PART. Seconds are those of the check alone, by the clock and by the processor; the peak includes the history.
//!
//! The histories are serial executions dealt out to 50 sessions at random, with time. Registers: 8 operations, half of them reads, as many keys as a tenth of the
//! transactions. Updates: the same with 4 operations, and who writes a register has read it before. Lists: 4 operations, half of them reads; a list gets at most 32
//! elements. Stale lists: one read in a thousand misses the last element.

use std::process::Command;
use std::time::Instant;

use margay_history::{Access, History, HistoryBuilder, Interval, OpDetail, OpKind, ValueId};
use margay_infer::Infer;
use margay_levels::Level;
use margay_verdict::{Budget, Checker, Question, Verdict};

const SESSIONS: u64 = 50;

struct Case {
    name: &'static str,
    txns: u64,
    level: Level,
    make: fn(u64) -> History,
    goal: &'static str,
}

fn cases() -> Vec<Case> {
    let case = |name, txns, level, make, goal| Case { name, txns, level, make, goal };
    let (lists, stale, registers, updates) =
        (lists as fn(u64) -> _, stale as _, registers as _, updates as _);
    vec![
        case("lists", 100_000, Level::Serializable, lists, "1 s"),
        case("lists", 100_000, Level::StrictSerializable, lists, "1 s"),
        case("lists", 100_000, Level::SnapshotIsolation, lists, "1 s"),
        case("lists", 100_000, Level::ReadCommitted, lists, "1 s"),
        case("lists", 1_000_000, Level::Serializable, lists, "15 s"),
        case("lists", 1_000_000, Level::StrictSerializable, lists, "15 s"),
        case("stale lists", 100_000, Level::StrictSerializable, stale, "1 s"),
        case("stale lists", 1_000_000, Level::StrictSerializable, stale, "15 s"),
        case("updates", 100_000, Level::StrictSerializable, updates, "1 s"),
        case("updates", 1_000_000, Level::Serializable, updates, "15 s"),
        case("updates", 1_000_000, Level::StrictSerializable, updates, "15 s"),
        case("registers", 100_000, Level::Causal, registers, ""),
        case("registers", 1_000_000, Level::ReadCommitted, registers, "3 s, 1.5 GB"),
        case("registers", 1_000_000, Level::BeReadCommitted, registers, "3 s, 1.5 GB"),
        case("registers", 1_000_000, Level::ReadAtomic, registers, "3 s, 1.5 GB"),
        case("registers", 1_000_000, Level::Causal, registers, "6 s, 1.5 GB"),
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
        "| case | level | transactions | verdict | seconds | CPU s | peak, MB | goal |\n|---|---|---:|---|---:|---:|---:|---|"
    );
    for (number, case) in cases().iter().enumerate().filter(|(_, case)| case.name.contains(part)) {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program).args(["child", &number.to_string()]).output().expect("a child");
        let said = String::from_utf8_lossy(&output.stdout);
        println!("| {} | {} | {} | {} | {} |", case.name, case.level, case.txns, said.trim(), case.goal);
    }
}

fn child(case: &Case) {
    let history = (case.make)(case.txns);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let verdict = Infer::DEFAULT.check(&history, Question::new(case.level), &Budget::unlimited());
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let word = match &verdict {
        Verdict::Unknown(why) => format!("unknown: {why}"),
        verdict => verdict.word().to_string(),
    };
    println!("{word} | {seconds:.2} | {cpu:.2} | {}", peak_megabytes());
}

/// A stream of numbers, always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

fn registers(txns: u64) -> History {
    let (mut random, mut b) = (Random(42), HistoryBuilder::new());
    let keys = txns / 10;
    let mut current = vec![ValueId::NULL; keys as usize];
    let mut written = 0;
    for txn in 0..txns {
        let session = random.below(SESSIONS);
        for _ in 0..8 {
            let place = random.below(keys);
            let key = b.values().int(place as i64);
            let object = b.object(None, key);
            let kind = if random.below(2) == 0 { OpKind::Read } else { OpKind::Write };
            if kind == OpKind::Write {
                written += 1;
                current[place as usize] = b.values().int(written);
            }
            push(&mut b, session, txn, kind, &[Access { object, value: current[place as usize] }]);
        }
        push(&mut b, session, txn, OpKind::Commit, &[]);
    }
    b.finish().expect("a valid history")
}

fn updates(txns: u64) -> History {
    let (mut random, mut b) = (Random(42), HistoryBuilder::new());
    let keys = txns / 10;
    let mut current = vec![ValueId::NULL; keys as usize];
    let mut written = 0;
    for txn in 0..txns {
        let session = random.below(SESSIONS);
        for _ in 0..2 {
            let place = random.below(keys);
            let key = b.values().int(place as i64);
            let object = b.object(None, key);
            push(&mut b, session, txn, OpKind::Read, &[Access { object, value: current[place as usize] }]);
            if random.below(4) > 0 {
                written += 1;
                current[place as usize] = b.values().int(written);
                push(
                    &mut b,
                    session,
                    txn,
                    OpKind::Write,
                    &[Access { object, value: current[place as usize] }],
                );
            }
        }
        push(&mut b, session, txn, OpKind::Commit, &[]);
    }
    b.finish().expect("a valid history")
}

fn lists(txns: u64) -> History {
    lists_where(txns, u64::MAX)
}

fn stale(txns: u64) -> History {
    lists_where(txns, 1000)
}

/// One read in `stale` misses the last element.
fn lists_where(txns: u64, stale: u64) -> History {
    let (mut random, mut b) = (Random(42), HistoryBuilder::new());
    let mut open: Vec<(i64, Vec<ValueId>)> = (0..20).map(|key| (key, Vec::new())).collect();
    let (mut keys, mut written) = (20, 0);
    for txn in 0..txns {
        let session = random.below(SESSIONS);
        for _ in 0..4 {
            let (key, list) = &mut open[random.below(20) as usize];
            let name = b.values().int(*key);
            let object = b.object(None, name);
            if random.below(2) == 0 {
                let seen = if stale < u64::MAX && random.below(stale) == 0 {
                    list.len().saturating_sub(1)
                } else {
                    list.len()
                };
                let value = b.values().list(&list[..seen]);
                push(&mut b, session, txn, OpKind::Read, &[Access { object, value }]);
                continue;
            }
            written += 1;
            let value = b.values().int(written);
            list.push(value);
            push(&mut b, session, txn, OpKind::Append, &[Access { object, value }]);
            if list.len() == 32 {
                list.clear();
                *key = keys;
                keys += 1;
            }
        }
        push(&mut b, session, txn, OpKind::Commit, &[]);
    }
    b.finish().expect("a valid history")
}

fn push(b: &mut HistoryBuilder, session: u64, txn: u64, kind: OpKind, accesses: &[Access]) {
    let at = Some(Interval::new(10 * txn as i64, 10 * txn as i64 + 5));
    b.push(session, txn, at, kind, accesses, OpDetail::None).expect("a valid operation");
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
