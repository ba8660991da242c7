//! Whether live verification keeps up with PostgreSQL, which runs flat out on the same cores.
//!
//! `cargo run --release -p margay-runner --example keeping_up [SECONDS] [CLIENTS] [WORKLOAD]…`
//!
//! For each workload a private PostgreSQL server at SERIALIZABLE, whose clients record and are verified while they run. The lag is the age of the oldest call that is not
//! verified yet, the longest in each tenth of a second; if it grew, the second half of the run would show more of it than the first. The verifier's CPU is that of the
//! thread that collects, builds the history and verifies, as a share of what the run's time offers on all cores and on one.

use std::time::Duration;

use margay_drivers::{Target, open};
use margay_runner::{Extras, Job, Monitor, Point, choose_level, mechanisms, run};
use margay_workloads::Workload;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, usual: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (seconds, clients) = (number(0, 60), number(1, 8) as u32);
    let usual = ["blindw-rw".to_owned(), "mixed".to_owned()];
    for name in arguments.get(2..).filter(|names| !names.is_empty()).unwrap_or(&usual) {
        match measure(name, Duration::from_secs(seconds), clients) {
            Ok(told) => println!("{told}"),
            Err(why) => println!("{name}: {why}"),
        }
    }
}

fn measure(name: &str, duration: Duration, clients: u32) -> Result<String, String> {
    let workload: Workload = name.parse().map_err(|_| "no workload".to_owned())?;
    let database = open(&Target::StartPostgres, &Job::setting(&workload, clients, 1))?;
    let (own_name, _) = choose_level(database.as_ref(), None)?;
    let mechanisms = mechanisms(database.as_ref(), &own_name);
    let job = Job {
        workload,
        clients,
        seed: 1,
        own_name,
        others: Vec::new(),
        retries: 3,
        harms: Vec::new(),
        transactions: None,
        duration: Some(duration),
    };
    let extras = Extras { output: None, mechanisms, silent: false };
    let recording = run(database.as_ref(), &job, &Monitor::default(), extras)?;
    let verified = recording.verified.as_ref().ok_or("nothing was verified")?;
    let (elapsed, points) = (recording.elapsed.as_secs_f64(), &recording.statistics.points);
    let running = &points[..points.len().min((elapsed * 10.0) as usize)];
    let (first, second) = running.split_at(running.len() / 2);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let one = 100.0 * recording.cpu.unwrap_or_default().as_secs_f64() / elapsed;
    let total = recording.counts.total();
    Ok(format!(
        "{name}: {total} transactions in {elapsed:.1} s ({:.0}/s), {} verified, {} violations{}; verifier {:.1} % of {cores} cores, {one:.1} % of one; lag of the first half {}, of the second {}",
        total as f64 / elapsed,
        verified.transactions,
        verified.violations,
        verified.ended.as_ref().map_or(String::new(), |why| format!(", ended: {why}")),
        one / cores,
        lags(first),
        lags(second),
    ))
}

/// Median, 99 % and maximum.
fn lags(points: &[Point]) -> String {
    let mut lags: Vec<u128> = points.iter().map(|point| point.lag.as_millis()).collect();
    lags.sort_unstable();
    let at = |share: f64| lags.get(((lags.len() as f64 * share) as usize).min(lags.len().saturating_sub(1)));
    let [middle, most, worst] = [0.5, 0.99, 1.0].map(|share| at(share).copied().unwrap_or_default());
    format!("{middle} / {most} / {worst} ms")
}
