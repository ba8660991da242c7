//! What happened over time, in parts of 100 ms.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The length of a part.
pub const PART: Duration = Duration::from_millis(100);

/// A run over time.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Statistics {
    /// One after the other, each [`PART`] long, from the beginning of the run on.
    pub points: Vec<Point>,
    /// From when the first transaction was begun until the last one ended: before and after it no
    /// client was at work.
    pub busy: Option<(Duration, Duration)>,
}

/// What happened in one part of the time. Transactions count where they ended.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Point {
    /// Committed transactions.
    pub committed: u64,
    /// Refused or rolled back.
    pub aborted: u64,
    /// Of unknown outcome.
    pub unknown: u64,
    /// Transactions that the live verification had judged, all in all.
    pub verified: u64,
    /// Violations that it had found, all in all.
    pub violations: u64,
    /// Dependencies that it had looked at, all in all: certain by time alone, deduced, and neither.
    pub dependencies: [u64; 3],
    /// How far it was behind at most.
    pub lag: Duration,
    /// Memory of the whole process, in bytes, where the system tells.
    pub memory: Option<u64>,
    /// Microseconds that transactions took.
    latencies: Vec<u32>,
}

impl Point {
    /// The latency that this share of the transactions stayed below, for example 0.95.
    #[must_use]
    pub fn latency(&self, share: f64) -> Option<Duration> {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let place = (sorted.len() as f64 * share) as usize;
        let micros = sorted.get(place.min(sorted.len().checked_sub(1)?))?;
        Some(Duration::from_micros(u64::from(*micros)))
    }

    /// All transactions that ended.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.committed + self.aborted + self.unknown
    }
}

impl Statistics {
    /// The part of this time, in nanoseconds since the beginning.
    pub(crate) fn at(&mut self, nanos: i64) -> &mut Point {
        let part = (nanos.max(0) as u64 / PART.as_nanos() as u64) as usize;
        if self.points.len() <= part {
            self.points.resize_with(part + 1, Point::default);
        }
        &mut self.points[part]
    }

    /// How long clients were at work in these parts.
    #[must_use]
    pub fn worked(&self, parts: std::ops::Range<usize>) -> Duration {
        let Some((first, last)) = self.busy else { return Duration::ZERO };
        let time = |part: usize| PART * u32::try_from(part).unwrap_or(u32::MAX);
        time(parts.end).min(last).saturating_sub(time(parts.start).max(first))
    }

    /// A transaction ended, which had been begun then.
    pub(crate) fn worked_between(&mut self, begun: i64, ended: i64) {
        let [begun, ended] = [begun, ended].map(|nanos| Duration::from_nanos(nanos.max(0) as u64));
        let (first, last) = self.busy.unwrap_or((begun, ended));
        self.busy = Some((first.min(begun), last.max(ended)));
    }

    /// Between these times everything was verified that had been called before `reached`, and
    /// nothing later. A round of the verification may take many parts.
    pub(crate) fn behind(&mut self, reached: i64, from: i64, until: i64) {
        let part = PART.as_nanos() as i64;
        let mut time = from.max(0);
        while time <= until {
            let end = (time / part + 1) * part;
            let lag = Duration::from_nanos((end.min(until) - reached).max(0) as u64);
            let point = self.at(time);
            point.lag = point.lag.max(lag);
            time = end;
        }
    }

    /// The most that the live verification was behind.
    #[must_use]
    pub fn worst_lag(&self) -> Duration {
        self.points.iter().map(|point| point.lag).max().unwrap_or_default()
    }
}

impl Point {
    pub(crate) fn took(&mut self, nanos: i64) {
        self.latencies.push(u32::try_from(nanos / 1000).unwrap_or(u32::MAX));
    }
}

/// The memory of this process, as Linux tells it.
pub(crate) fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// A thread, as Linux tells of it.
#[derive(Clone, Debug)]
pub(crate) struct Thread(PathBuf);

impl Thread {
    /// This one.
    pub fn current() -> Option<Self> {
        std::fs::read_link("/proc/thread-self").ok().map(|path| Self(Path::new("/proc").join(path)))
    }

    /// What it has computed so far; nothing when it has ended.
    pub fn cpu(&self) -> Option<Duration> {
        let told = std::fs::read_to_string(self.0.join("schedstat")).ok()?;
        told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_latencies() {
        let mut statistics = Statistics::default();
        for millis in [5, 1, 4, 2, 3] {
            statistics.at(250_000_000).took(millis * 1_000_000);
        }
        assert_eq!(statistics.points.len(), 3);
        let point = &statistics.points[2];
        let millis = |share| point.latency(share).map(|latency| latency.as_millis());
        assert_eq!([millis(0.0), millis(0.5), millis(1.0)], [Some(1), Some(3), Some(5)]);
        assert_eq!(statistics.points[0].latency(0.5), None);
    }

    /// It was not up to date while it was busiest.
    #[test]
    fn a_long_round_is_seen_in_every_part_of_it() {
        let mut statistics = Statistics::default();
        statistics.behind(90_000_000, 95_000_000, 340_000_000);
        let lags: Vec<u128> = statistics.points.iter().map(|point| point.lag.as_millis()).collect();
        assert_eq!(lags, [10, 110, 210, 250]);
        statistics.behind(335_000_000, 340_000_000, 350_000_000);
        assert_eq!(statistics.worst_lag().as_millis(), 250);
        statistics.behind(500_000_000, 350_000_000, 360_000_000);
        assert_eq!(statistics.points.len(), 4);
    }

    #[test]
    fn clients_are_at_work_from_the_first_transaction_to_the_last() {
        let mut statistics = Statistics::default();
        assert_eq!(statistics.worked(0..9), Duration::ZERO);
        statistics.worked_between(180_000_000, 210_000_000);
        statistics.worked_between(130_000_000, 450_000_000);
        let worked = [0..1, 1..2, 2..4, 4..5, 5..6, 0..9].map(|parts| statistics.worked(parts).as_millis());
        assert_eq!(worked, [0, 70, 200, 50, 0, 320]);
    }
}
