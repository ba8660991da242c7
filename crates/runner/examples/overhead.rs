//! What recording and live verification cost, on a database that runs flat out.
//!
//! `cargo run --release -p margay-runner --example overhead [SECONDS] [ROUNDS] [CLIENTS]`
//!
//! Starts a private PostgreSQL server and lets the clients of `blindw-rw` and `mixed` loose on it, three ways: clients that record nothing, clients
//! that record, and clients that record while the mirror verifies. The ways take turns, so that a change of the machine's mood meets all of them. Then the
//! same on SQLite without a server in between. CPU seconds are those of the collector's thread, which records and verifies.

use std::time::Duration;

use margay_drivers::{Database, Target, open};
use margay_runner::{Extras, Job, Monitor, Recording, choose_level, mechanisms, run};
use margay_workloads::Workload;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Silent,
    Recorded,
    Verified,
}

#[derive(Default)]
struct Sum {
    transactions: u64,
    seconds: f64,
    cpu: f64,
    process: f64,
    lag: Duration,
    violations: u64,
}

fn main() {
    let argument =
        |at: usize, usual: u64| std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (seconds, rounds, clients) = (argument(1, 5), argument(2, 5), argument(3, 8) as u32);
    for target in [Target::StartPostgres, Target::default()] {
        for name in ["blindw-rw", "mixed"] {
            let workload: Workload = name.parse().expect("a workload");
            measure(&target, workload, Duration::from_secs(seconds), rounds, clients);
        }
    }
}

fn measure(target: &Target, workload: Workload, duration: Duration, rounds: u64, clients: u32) {
    let database = match open(target, &Job::setting(&workload, clients, 1)) {
        Ok(database) => database,
        Err(why) => return println!("{target}: {why}"),
    };
    let ways = [Way::Silent, Way::Recorded, Way::Verified];
    let mut sums = ways.map(|_| Sum::default());
    for round in 0..rounds {
        for (way, sum) in ways.into_iter().zip(&mut sums) {
            let before = process_cpu();
            let recording = once(database.as_ref(), workload, duration, clients, round, way);
            sum.process += process_cpu() - before;
            sum.add(&recording);
        }
    }
    let rate = |sum: &Sum| sum.transactions as f64 / sum.seconds;
    let silent = rate(&sums[0]);
    for (way, sum) in ["nothing", "recording", "recording and verifying"].iter().zip(&sums) {
        println!(
            "{target:<18} {workload:<10} {way:<24} {:>8.0}/s {:>6.1} %  {:>6.1} µs of CPU each, collector {:>5.1} % of a core, worst lag {:>4} ms, {} violations",
            rate(sum),
            100.0 * (rate(sum) / silent - 1.0),
            1e6 * sum.process / sum.transactions as f64,
            100.0 * sum.cpu / sum.seconds,
            sum.lag.as_millis(),
            sum.violations,
        );
    }
}

fn once(
    database: &dyn Database,
    workload: Workload,
    duration: Duration,
    clients: u32,
    seed: u64,
    way: Way,
) -> Recording {
    let (own_name, _) = choose_level(database, None).expect("a level");
    let mechanisms = mechanisms(database, &own_name).filter(|_| way == Way::Verified);
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
    run(database, &job, &Monitor::default(), Extras { output: None, mechanisms, silent: way == Way::Silent })
        .expect("it runs")
}

/// What this process has computed so far, in seconds, as Linux tells it: a hundred ticks each.
fn process_cpu() -> f64 {
    let told = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = told.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

impl Sum {
    fn add(&mut self, recording: &Recording) {
        self.transactions += recording.counts.total();
        self.seconds += recording.elapsed.as_secs_f64();
        self.cpu += recording.cpu.unwrap_or_default().as_secs_f64();
        self.lag = self.lag.max(recording.statistics.worst_lag());
        self.violations += recording.verified.as_ref().map_or(0, |verified| verified.violations);
    }
}
