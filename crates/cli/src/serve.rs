//! `margay run --serve`: the report on a page while it is being made.
//!
//! # Invariants
//! - Without a token nothing but this machine is served; on other addresses a token is made up if
//!   none is given.
//! - What the page shows last is the report that is printed and written.

use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use margay_report::live::{self, Live};
use margay_report::series::{Mark, Series};
use margay_report::view::{Check, Details, Run, Stats};
use margay_report::{Report, Word};
use margay_runner::{Followed, Monitor, PART, Phase};

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::memory;

/// How often the page is brought up to date.
const BEAT: Duration = Duration::from_millis(500);
/// How long browsers get to fetch the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Whether the page only waits to be looked at, and whether somebody has had enough of that.
static LINGERING: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What a page says of a run that goes on, beside its numbers.
pub struct Shown {
    /// The level that the verdict will be about.
    pub claim: String,
    /// What the database promises, which the live verification is about.
    pub promised: &'static str,
    /// That it does not promise the claimed level, if it does not.
    pub beyond: Option<String>,
    pub run: Run,
    pub curves: fn(&Monitor) -> Series,
}

/// A run that is shown on a page.
pub struct Serving {
    live: Arc<Live>,
    beat: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
    linger: Option<Duration>,
}

impl Serving {
    /// Starts to serve, if that is wanted, and says where.
    pub fn start(
        args: &ServeArgs,
        quiet: bool,
        monitor: &Arc<Monitor>,
        shown: Shown,
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = args.serve else { return Ok(None) };
        let made_up = || (!address.ip().is_loopback()).then(live::token);
        let token = args.token.clone().or_else(made_up);
        let monitor = Arc::clone(monitor);
        let now = move || running(&monitor, &shown);
        let live = Live::start(address, token, now())
            .map_err(|error| Failure::new(format!("--serve {address}: {error}")))?;
        if !quiet {
            eprintln!("live page: {}", live.url());
        }
        let live = Arc::new(live);
        let (stop, stopped) = mpsc::channel();
        let publishing = Arc::clone(&live);
        let beat = thread::spawn(move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                publishing.publish(now(), false);
            }
        });
        // Somebody who sits at a terminal wants to look; nobody else has the time.
        let linger = args.linger.or_else(|| (!io::stderr().is_terminal()).then_some(Duration::ZERO));
        Ok(Some(Self { live, beat: Mutex::new(Some((stop, beat))), linger }))
    }

    /// Shows the final report, and waits as long as it is to be looked at.
    pub fn finish(&self, report: &Report, quiet: bool) {
        if let Some((stop, beat)) = self.beat.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(stop);
            let _ = beat.join();
        }
        self.live.publish(report.clone(), true);
        LINGERING.store(true, Ordering::Relaxed);
        let start = Instant::now();
        if self.linger.is_none() && !quiet {
            eprintln!("the report stays at {} until you interrupt", self.live.url());
        }
        let wanted = |limit: Duration| start.elapsed() < limit;
        while !INTERRUPTED.load(Ordering::Relaxed) && self.linger.is_none_or(wanted) {
            thread::sleep(Duration::from_millis(50));
        }
        self.live.drain(FAREWELL);
    }
}

/// An interrupt: whether it only means that the page was looked at long enough.
pub fn interrupted() -> bool {
    INTERRUPTED.store(true, Ordering::Relaxed);
    LINGERING.load(Ordering::Relaxed)
}

/// The report of a run that goes on.
fn running(monitor: &Monitor, shown: &Shown) -> Report {
    let (counts, progress) = (monitor.counts(), monitor.progress());
    let mut series = (shown.curves)(monitor);
    series.marks = violations(monitor);
    let found = (progress.violations > 0).then(|| format!("{} violations so far", progress.violations));
    let judged = Check {
        engine: "mirror, live".to_owned(),
        level: shown.promised.to_owned(),
        verdict: if found.is_some() { Word::Violated } else { Word::Running },
        reason: Some(found.unwrap_or_else(|| format!("{} transactions verified so far", progress.verified))),
        seconds: progress.lag.as_secs_f64(),
    };
    let mut more = shown.run.more.clone();
    let phase = match monitor.phase() {
        Phase::Preparing => "preparing",
        Phase::Running => "running",
        Phase::CatchingUp => "catching up",
    };
    more.insert("phase".to_owned(), phase.into());
    let run = Run {
        more,
        committed: counts.committed,
        aborted: counts.aborted,
        unknown: counts.unknown,
        seconds: monitor.worked().as_secs_f64(),
        ..shown.run.clone()
    };
    Report {
        verdict: Word::Running,
        level: shown.claim.clone(),
        engine: None,
        reason: None,
        anomalies: Vec::new(),
        not: Vec::new(),
        also_not: Vec::new(),
        stats: Stats {
            transactions: counts.total() as usize,
            peak_rss_bytes: memory::peak_rss_bytes(),
            ..Stats::default()
        },
        report: Some(Box::new(Details {
            version: 1,
            subject: "what the clients see".to_owned(),
            headline: format!("{} at {} is being driven", run.dbms, run.level),
            beyond: shown.beyond.clone().map(|sentence| sentence + "."),
            audited: "nothing".to_owned(),
            checks: [judged].into_iter().chain(monitor.followed().map(|followed| live(&followed))).collect(),
            series: Some(series),
            ..Details::default()
        })),
        run: Some(run),
        more: serde_json::Map::new(),
    }
}

/// The line of the follower.
fn live(followed: &Followed) -> Check {
    let settled = format!(
        "{} settled, {} open, {:.1} MB",
        followed.settled,
        followed.open,
        followed.memory as f64 / 1_000_000.0
    );
    Check {
        engine: "follow, live".to_owned(),
        level: followed.level.to_owned(),
        verdict: if followed.stopped.is_some() { Word::Unknown } else { Word::Running },
        reason: Some(followed.stopped.clone().unwrap_or(settled)),
        seconds: followed.lag.as_secs_f64(),
    }
}

/// Where the live verification has found something.
fn violations(monitor: &Monitor) -> Vec<Mark> {
    let statistics = monitor.statistics();
    let mut before = 0;
    let grew = statistics.points.iter().enumerate().filter_map(|(at, point)| {
        let more = point.violations > before;
        before = before.max(point.violations);
        more.then(|| Mark {
            seconds: at as f64 * PART.as_secs_f64(),
            label: "mirror: violation".to_owned(),
            anomaly: 0,
        })
    });
    grew.take(margay_report::series::MARKS).collect()
}

/// An address of the command line: `127.0.0.1:8080`, `localhost:8080`, or a port of this machine.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let mut found = text.to_socket_addrs().map_err(|error| format!("no address: {error}"))?;
    found.next().ok_or_else(|| "no address".to_owned())
}

/// An access token of the command line. It stands in an address, so it has only what may stand
/// there.
pub fn token(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if text.chars().all(fits) && !text.is_empty() {
        Ok(text.to_owned())
    } else {
        Err("a token has letters, digits and -._~, at least one of them".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(address("8080"), Ok(SocketAddr::from(([127, 0, 0, 1], 8080))));
        assert_eq!(address("0.0.0.0:9"), Ok(SocketAddr::from(([0, 0, 0, 0], 9))));
        assert!(address("localhost:80").is_ok_and(|address| address.ip().is_loopback()));
        assert!(address("nowhere").is_err());
    }

    /// A regression: whoever gave an empty token, from a variable that was not set say, served
    /// everybody.
    #[test]
    fn an_empty_token_is_none() {
        assert_eq!(token("Se-cret.1"), Ok("Se-cret.1".to_owned()));
        for text in ["", " ", "a b", "a&b", "a#b"] {
            assert!(token(text).is_err(), "{text:?}");
        }
    }
}
