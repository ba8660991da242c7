//! Whether live verification keeps up with a database that runs flat out on the same cores.
//!
//! `cargo run --release -p margay-runner --example keeping_up [SECONDS] [CLIENTS] [postgres|sqlite] [MAX_LAG] [WORKLOAD]…`
//!
//! For each workload a private PostgreSQL server at SERIALIZABLE, or SQLite in the same process,
//! whose clients record and are verified while they run. They wait while the verification is more
//! than MAX_LAG milliseconds behind, or never if that is 0. The lag is the age of the oldest call
//! that is not verified yet, the longest in each tenth of a second; if it grew, the second half of
//! the run would show more of it than the first. The verifier's CPU is that of the thread that
//! collects, builds the history and verifies, as a share of what the run's time offers on all cores
//! and on one; and what it computes when clients are gone.

use std::time::Duration;

use margay_drivers::{Target, open};
use margay_runner::{Extras, Job, Monitor, Point, choose_level, mechanisms, run};
use margay_workloads::Workload;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, usual: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (seconds, clients) = (number(0, 60), number(1, 8) as u32);
    let sqlite = arguments.get(2).is_some_and(|target| target == "sqlite");
    let target = if sqlite { Target::default() } else { Target::StartPostgres };
    let max_lag = Some(number(3, 0)).filter(|&millis| millis > 0).map(Duration::from_millis);
    let usual = ["blindw-rw".to_owned(), "mixed".to_owned()];
    for name in arguments.get(4..).filter(|names| !names.is_empty()).unwrap_or(&usual) {
        match measure(&target, name, Duration::from_secs(seconds), clients, max_lag) {
            Ok(told) => println!("{told}"),
            Err(why) => println!("{name}: {why}"),
        }
    }
}

fn measure(
    target: &Target,
    name: &str,
    duration: Duration,
    clients: u32,
    max_lag: Option<Duration>,
) -> Result<String, String> {
    let workload: Workload = name.parse().map_err(|_| "no workload".to_owned())?;
    let database = open(target, &Job::setting(&workload, clients, 1))?;
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
    let extras = Extras { mechanisms, max_lag, ..Extras::default() };
    let recording = run(database.as_ref(), &job, &Monitor::default(), extras)?;
    let verified = recording.verified.as_ref().ok_or("nothing was verified")?;
    let (elapsed, points) = (recording.elapsed.as_secs_f64(), &recording.statistics.points);
    let running = &points[..points.len().min((elapsed * 10.0) as usize)];
    let (first, second) = running.split_at(running.len() / 2);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let after = recording.completing.unwrap_or_default().as_secs_f64();
    let one = 100.0 * (recording.cpu.unwrap_or_default().as_secs_f64() - after) / elapsed;
    let total = recording.counts.total();
    Ok(format!(
        "{name}: {total} transactions in {elapsed:.1} s ({:.0}/s), {} verified, {} violations{}; verifier {:.1} % of {cores} cores, {one:.1} % of one, and {after:.1} s afterwards; clients waited {:.1} s for it, all together; lag of the first half {}, of the second {}",
        total as f64 / elapsed,
        verified.transactions,
        verified.violations,
        verified.ended.as_ref().map_or(String::new(), |why| format!(", ended: {why}")),
        one / cores,
        recording.waited.as_secs_f64(),
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
