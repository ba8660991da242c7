//! How fast histories are read and written, and in how much memory.
//!
//! `cargo bench -p margay-formats` makes histories in a temporary directory, then does each task in
//! a process of its own, so that the peaks of memory do not mix. Seconds are those of the clock
//! and, for machines with other work to do, of the processor. `MARGAY_BENCH_TXNS` sets the number
//! of transactions (default 1,000,000, of eight operations each); `TMPDIR` the directory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use margay_formats::{Format, Source, Target};
use margay_history::{Access, History, HistoryBuilder, Interval, OpDetail, OpKind, ValueId};

const SESSIONS: u64 = 64;
const OPS: u64 = 8;
const KEYS: u64 = 100_000;
/// Each task is done so often, and the fastest counts.
const TRIES: usize = 3;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", task, from, to] => child(task, Path::new(from), Path::new(to)),
        _ => parent(),
    }
}

fn parent() {
    let txns = std::env::var("MARGAY_BENCH_TXNS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name);
    make_mixed(&path("mixed.jsonl"), txns).expect("room for the history");
    println!(
        "{txns} transactions of {OPS} operations, begin and commit; {SESSIONS} sessions, {KEYS} keys, timed"
    );
    println!(
        "{:<34}{:>8}{:>9}{:>9}{:>10}{:>7}{:>9}",
        "", "MB", "seconds", "CPU s", "txns/s", "MB/s", "peak MB"
    );
    let run = |label: &str, task: &str, from: &str, to: &str, txns: u64| {
        let tries = (0..TRIES).map(|_| measured(task, &path(from), &path(to)));
        let took = tries.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).expect("at least one try");
        let size = std::fs::metadata(path(if task == "read" { from } else { to })).map_or(0, |m| m.len());
        report(label, size, txns, took);
    };
    run("read margay, sessions mixed", "read", "mixed.jsonl", "-", txns);
    run("write margay", "convert", "mixed.jsonl", "sorted.jsonl", txns);
    run("read margay, session by session", "read", "sorted.jsonl", "-", txns);
    run("write margay-bin", "convert", "mixed.jsonl", "h.mgb", txns);
    run("read margay-bin", "read", "h.mgb", "-", txns);
    run("write margay-bin, zstd", "convert", "h.mgb", "h.mgb.zst", txns);
    run("read margay-bin, zstd", "read", "h.mgb.zst", "-", txns);
    let lists = txns / 10;
    println!("{lists} transactions of list-append, 1 to 8 operations");
    let edn = list_append(lists);
    margay_formats::write(&edn, Format::Edn, Target::from(&*path("h.edn")))
        .expect("list-append fits into EDN");
    drop(edn);
    run("read edn", "read", "h.edn", "-", lists);
}

struct Took {
    seconds: f64,
    cpu: f64,
    peak: f64,
}

fn measured(task: &str, from: &Path, to: &Path) -> Took {
    let me = std::env::current_exe().expect("the benchmark's own path");
    let output = Command::new(me).arg("child").arg(task).arg(from).arg(to).output().expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [seconds, cpu, peak] = numbers[..] else {
        panic!("{task} {}: {}", from.display(), String::from_utf8_lossy(&output.stderr))
    };
    Took { seconds, cpu, peak }
}

fn report(label: &str, bytes: u64, txns: u64, took: Took) {
    let mb = bytes as f64 / 1e6;
    println!(
        "{label:<34}{mb:>8.1}{:>9.2}{:>9.2}{:>10.0}{:>7.0}{:>9.0}",
        took.seconds,
        took.cpu,
        txns as f64 / took.seconds,
        mb / took.seconds,
        took.peak
    );
}

/// Does one task; prints its seconds by the clock and by the processor, and the peak of memory in
/// megabytes.
fn child(task: &str, from: &Path, to: &Path) {
    let mut start = (Instant::now(), cpu_seconds());
    let loaded = margay_formats::read(Source::from(from), None).expect("a history");
    if task == "convert" {
        let format = Format::from_extension(to).expect("a known extension");
        start = (Instant::now(), cpu_seconds());
        margay_formats::write(&loaded.history, format, Target::from(to)).expect("a written history");
    }
    println!("{} {} {}", start.0.elapsed().as_secs_f64(), cpu_seconds() - start.1, peak_mb());
}

/// User and system time of this process; Linux counts them in hundredths.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kb.unwrap_or(0.0) * 1024.0 / 1e6
}

/// A small generator of numbers: the histories are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Native JSON lines as a recorder writes them: the sessions' operations take turns.
fn make_mixed(path: &Path, txns: u64) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    writeln!(out, "{{\"margay\":1,\"unit\":\"ns\"}}")?;
    let mut random = Random(42);
    let (mut now, mut line) = (1_700_000_000_000_000_000_u64, String::new());
    for round in 0..txns.div_ceil(SESSIONS) {
        for op in 0..OPS + 2 {
            for session in 0..SESSIONS.min(txns - round * SESSIONS) {
                now += random.below(2000);
                line.clear();
                let txn = round * SESSIONS + session;
                let after = now + 10_000 + random.below(90_000);
                let _ = write!(line, "{{\"session\":{session},\"txn\":{txn},\"at\":[{now},{after}],");
                let key = random.below(KEYS);
                let _ = match op {
                    0 => writeln!(line, "\"begin\":true}}"),
                    _ if op == OPS + 1 => writeln!(line, "\"commit\":true}}"),
                    _ if op % 2 == 1 => writeln!(line, "\"read\":[[{key},{}]]}}", random.below(txns * 4)),
                    _ => writeln!(line, "\"write\":[[{key},{}]]}}", txn * 4 + op / 2),
                };
                out.write_all(line.as_bytes())?;
            }
        }
    }
    out.flush()
}

/// A list-append history: a key takes 32 appends, then a new one takes its place; reads see the
/// whole list.
fn list_append(txns: u64) -> History {
    let mut builder = HistoryBuilder::new();
    let mut random = Random(7);
    let mut keys: Vec<(i64, Vec<ValueId>)> = (0..10).map(|key| (key, Vec::new())).collect();
    let mut next_key = 10;
    for txn in 0..txns {
        for _ in 0..=random.below(8) {
            let slot = random.below(10) as usize;
            let (key, list) = &mut keys[slot];
            let id = builder.values().int(*key);
            let object = builder.object(None, id);
            let (kind, value) = if random.below(2) == 0 {
                (OpKind::Read, builder.values().list(list))
            } else {
                list.push(builder.values().int(list.len() as i64 + 1));
                (OpKind::Append, list[list.len() - 1])
            };
            if list.len() == 32 {
                keys[slot] = (next_key, Vec::new());
                next_key += 1;
            }
            let access = [Access { object, value }];
            builder
                .push(txn % SESSIONS, txn, None, kind, &access, OpDetail::None)
                .expect("a valid operation");
        }
        let at = Some(Interval::new(txn as i64 * 10, txn as i64 * 10 + 5));
        builder.push(txn % SESSIONS, txn, at, OpKind::Commit, &[], OpDetail::None).expect("a valid end");
    }
    builder.finish().expect("a valid history")
}
