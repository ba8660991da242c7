//! What recording costs a database that runs flat out.
//!
//! `cargo run --release -p margay-runner --example overhead [MILLISECONDS] [ROUNDS] [CLIENTS] [postgres|sqlite]`
//!
//! Starts a private PostgreSQL server and lets the clients of a workload loose on it for a short
//! while, again and again, in turns: once they record nothing, once they record. A round is one of
//! each, so both meet the same mood of the machine, and what comes first changes from round to
//! round. The median over the rounds of how fast recording clients are, compared with their silent
//! twins of the same round, is what recording leaves of the throughput. Then the same on SQLite,
//! which is part of the process, and where a transaction costs a tenth.
//!
//! On a machine that others use too, rounds differ by more than recording costs. So before all that
//! the cost itself is measured: one client of a database that answers after two microseconds,
//! silent and recording, and what the collector's thread computes meanwhile. Of many rounds the
//! fastest counts, which nobody has disturbed. What a transaction costs in computing time, of all
//! threads of the process and of the collector's, is told too: the machine's mood matters less to
//! it. What the collector does when the clients are gone, to complete the history, is no part of
//! that, and told apart.

use std::time::{Duration, Instant};

use margay_drivers::{Ask, Connection, Database, Obj, Start, Target, Trouble, Value, open};
use margay_runner::{Extras, Job, Monitor, choose_level, run};
use margay_workloads::Workload;

fn main() {
    let argument =
        |at: usize, usual: u64| std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (millis, rounds, clients) = (argument(1, 500), argument(2, 40), argument(3, 4) as u32);
    let only = std::env::args().nth(4);
    alone();
    for (name, target) in [("postgres", Target::StartPostgres), ("sqlite", Target::default())] {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        for name in ["blindw-rw", "mixed"] {
            let workload: Workload = name.parse().expect("a workload");
            measure(&target, workload, Duration::from_millis(millis), rounds, clients);
        }
    }
}

/// A database that does nothing for a while.
struct Nothing;

fn wait() -> Result<(), Trouble> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_micros(2) {}
    Ok(())
}

impl Database for Nothing {
    fn identity(&self) -> (String, String) {
        ("nothing".to_owned(), "1".to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["NOTHING"]
    }

    fn prepare(&self, _own_name: &str, _start: &Start) -> Result<(), String> {
        Ok(())
    }

    fn connect(&self, _client: usize, _own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        Ok(Box::new(Nothing))
    }
}

impl Connection for Nothing {
    fn begin(&mut self) -> Result<(), Trouble> {
        wait()
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        if let Ask::Read(obj) = ask {
            rows.push((obj, Value::Int(0)));
        }
        wait()
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        wait()
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        wait()
    }
}

/// What a transaction of `blindw-rw`, which makes ten calls, costs beside what the database does. A
/// client's rounds are so short that some are not interrupted; what the collector's thread computes
/// does not depend on that.
fn alone() {
    let least = |rounds: u32, transactions: u64, silent: bool| {
        let least = (0..rounds).map(|_| spent(transactions, silent));
        let least = least.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])]).expect("rounds");
        least.map(|nanos| nanos / transactions as f64)
    };
    let ([silent, _], [recorded, _]) = (least(300, 200, true), least(300, 200, false));
    let [_, collector] = least(5, 4_000, false);
    println!(
        "a transaction of ten calls of 2 µs each: {silent:.0} ns silent, {recorded:.0} ns recording: {:.0} ns more for the client, and {collector:.0} ns of the collector's thread",
        recorded - silent
    );
}

/// How long one client took for so many transactions, and what the collector computed, in
/// nanoseconds.
fn spent(transactions: u64, silent: bool) -> [f64; 2] {
    let job = Job {
        workload: "blindw-rw".parse().expect("a workload"),
        clients: 1,
        seed: 1,
        own_name: "NOTHING".to_owned(),
        others: Vec::new(),
        retries: 0,
        harms: Vec::new(),
        transactions: Some(transactions),
        duration: None,
    };
    let extras = Extras { silent, ..Extras::default() };
    let recording = run(&Nothing, &job, &Monitor::default(), extras).expect("it runs");
    let collecting =
        recording.cpu.unwrap_or_default().saturating_sub(recording.completing.unwrap_or_default());
    [recording.elapsed, collecting].map(|spent| spent.as_nanos() as f64)
}

fn measure(target: &Target, workload: Workload, duration: Duration, rounds: u64, clients: u32) {
    let database = match open(target, &Job::setting(&workload, clients, 1)) {
        Ok(database) => database,
        Err(why) => return println!("{target}: {why}"),
    };
    let once = |seed: u64, silent: bool| once(database.as_ref(), workload, duration, clients, seed, silent);
    once(rounds, true);
    once(rounds, false);
    let (mut speeds, mut rates) = (Vec::new(), [Vec::new(), Vec::new()]);
    let (mut computed, mut collected, mut completed) = ([Vec::new(), Vec::new()], Vec::new(), Vec::new());
    for round in 0..rounds {
        let recorded_first = round % 2 == 0;
        let first = once(round, !recorded_first);
        let second = once(round, recorded_first);
        let [silent, recorded] = if recorded_first { [second, first] } else { [first, second] };
        speeds.push(100.0 * (recorded.rate / silent.rate - 1.0));
        computed[0].push(silent.micros);
        computed[1].push(recorded.micros);
        collected.push(recorded.collector);
        completed.push(recorded.completing);
        rates[0].push(silent.rate);
        rates[1].push(recorded.rate);
    }
    let [silent, recorded] = rates.map(|mut rates| quartiles(&mut rates)[1]);
    let [low, middle, high] = quartiles(&mut speeds);
    let [alone, together] = computed.map(|mut micros| quartiles(&mut micros)[1]);
    let [collector, completing] = [quartiles(&mut collected)[1], quartiles(&mut completed)[1]];
    println!(
        "{target:<18} {workload:<10} silent {silent:>7.0}/s, recording {recorded:>7.0}/s: {middle:>+5.1} % in the median round, quartiles {low:>+5.1} and {high:>+5.1} %; a transaction costs the process {alone:.2} µs of CPU silent, {together:.2} µs recording ({:+.1} %), {collector:.2} µs of them the collector's; completing the history afterwards, {completing:.2} µs",
        100.0 * (together / alone - 1.0)
    );
}

/// How fast clients were, and what a transaction cost the client process, and in it the collector's
/// thread.
struct Speed {
    rate: f64,
    micros: f64,
    collector: f64,
    completing: f64,
}

fn once(
    database: &dyn Database,
    workload: Workload,
    duration: Duration,
    clients: u32,
    seed: u64,
    silent: bool,
) -> Speed {
    let (own_name, _) = choose_level(database, None).expect("a level");
    let job = Job {
        workload,
        clients,
        seed,
        own_name,
        others: Vec::new(),
        retries: 3,
        harms: Vec::new(),
        transactions: None,
        duration: Some(duration),
    };
    let before = process_cpu();
    let extras = Extras { silent, ..Extras::default() };
    let recording = run(database, &job, &Monitor::default(), extras).expect("it runs");
    let total = recording.counts.total() as f64;
    let micros = |seconds: f64| 1e6 * seconds / total;
    let completing = recording.completing.unwrap_or_default().as_secs_f64();
    Speed {
        rate: total / recording.elapsed.as_secs_f64(),
        micros: micros(process_cpu() - before - completing),
        collector: micros(recording.cpu.unwrap_or_default().as_secs_f64() - completing),
        completing: micros(completing),
    }
}

fn quartiles(numbers: &mut [f64]) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|part| numbers[(numbers.len() * part / 4).min(numbers.len() - 1)])
}

/// What all threads of this process have computed so far, in seconds, as Linux tells it.
fn process_cpu() -> f64 {
    let told = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = told.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
