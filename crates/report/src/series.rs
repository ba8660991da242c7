//! What happened over time: curves for plots, and marks where violations are.
//!
//! # Algorithm
//! A timed history is divided into at most [`BUCKETS`] parts of equal length; a transaction counts
//! where it ended. Of the accesses of one object, in the order in which they began, two neighbours
//! of different transactions of which one writes are in conflict; their intervals overlap or they
//! do not. The share of those that do is the overlap ratio: so often the clock alone does not tell
//! which came first. Of large histories it is that of a sample of the objects.

use margay_history::{History, Interval, Outcome, TxnId, Unit};
use margay_verdict::Finding;
use serde::{Deserialize, Serialize};

/// Points of a curve.
pub const BUCKETS: usize = 120;
/// With fewer transactions there is nothing to see in a curve.
const FEWEST: usize = 40;
/// Of more operations than this, the overlap ratio is taken from a sample of the objects.
const SAMPLE: usize = 1_000_000;
/// Violations that are marked.
pub const MARKS: usize = 200;

/// Curves over one axis of time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// The middle of each part, in seconds since the beginning.
    pub seconds: Vec<f64>,
    /// The curves. Those of one plot are drawn together.
    pub curves: Vec<Curve>,
    /// Where violations are.
    pub marks: Vec<Mark>,
}

/// One curve.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// The plot that it belongs to.
    pub plot: String,
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: String,
    /// A value for each point of time; nothing where there is none.
    pub values: Vec<Option<f64>>,
}

/// A violation on the axis of time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// When its last transaction ended, in seconds since the beginning.
    pub seconds: f64,
    /// What it is.
    pub label: String,
    /// Its place in the list of anomalies.
    pub anomaly: usize,
}

impl Curve {
    /// A curve of `plot`.
    #[must_use]
    pub fn new(plot: &str, name: &str, unit: &str, values: Vec<Option<f64>>) -> Self {
        Self { plot: plot.to_owned(), name: name.to_owned(), unit: unit.to_owned(), values }
    }
}

impl Series {
    /// Takes over the curves of one plot of another series, each value from the nearest point of
    /// its time.
    pub fn adopt(&mut self, other: &Series, plot: &str) {
        let nearest = |time: &f64| {
            let after = other.seconds.partition_point(|at| at < time);
            let ends = [after.checked_sub(1), Some(after)]
                .into_iter()
                .flatten()
                .filter(|&at| at < other.seconds.len());
            ends.min_by(|&a, &b| (other.seconds[a] - time).abs().total_cmp(&(other.seconds[b] - time).abs()))
        };
        let places: Vec<Option<usize>> = self.seconds.iter().map(nearest).collect();
        for curve in other.curves.iter().filter(|curve| curve.plot == plot) {
            let values =
                places.iter().map(|place| place.and_then(|at| curve.values.get(at).copied().flatten()));
            self.curves.push(Curve { values: values.collect(), ..curve.clone() });
        }
    }
}

/// The curves that a timed history shows by itself; nothing for a small one, or one without a
/// clock.
#[must_use]
pub fn of_history(history: &History, findings: &[Finding]) -> Option<Series> {
    let axis = Axis::of(history)?;
    let parts = axis.parts(history);
    let per_second = |count: u32| f64::from(count) / axis.width_seconds();
    let rate = |pick: fn(&Part) -> u32| parts.iter().map(|part| Some(per_second(pick(part)))).collect();
    let at = |share: f64| {
        parts.iter().map(|part| part.latency(share).map(|ticks| ticks * axis.tick * 1e3)).collect()
    };
    let curves = vec![
        Curve::new("Throughput", "committed", "/s", rate(|part| part.committed)),
        Curve::new("Throughput", "aborted", "/s", rate(|part| part.aborted)),
        Curve::new("Latency of transactions", "median", "ms", at(0.5)),
        Curve::new("Latency of transactions", "95 %", "ms", at(0.95)),
        Curve::new("Latency of transactions", "99 %", "ms", at(0.99)),
        Curve::new("Abort rate", "aborted", "%", parts.iter().map(Part::abort_rate).collect()),
        Curve::new("Overlap ratio", "conflicts that overlap", "%", axis.overlap(history)),
    ];
    let seconds = (0..axis.count).map(|at| (at as f64 + 0.5) * axis.width_seconds()).collect();
    Some(Series { seconds, curves, marks: marks(history, &axis, findings) })
}

fn marks(history: &History, axis: &Axis, findings: &[Finding]) -> Vec<Mark> {
    let mark = |(anomaly, finding): (usize, &Finding)| {
        let last = finding.txns.iter().filter_map(|&txn| history.end(txn)).max()?;
        let seconds = axis.ticks(last) * axis.tick;
        Some(Mark { seconds, label: finding.anomaly.name().to_owned(), anomaly })
    };
    findings.iter().enumerate().filter_map(mark).take(MARKS).collect()
}

/// The axis of time.
struct Axis {
    first: i64,
    /// Seconds of one tick of the clock.
    tick: f64,
    /// Ticks of one part.
    width: f64,
    count: usize,
}

impl Axis {
    fn of(history: &History) -> Option<Self> {
        if history.txn_count() < FEWEST {
            return None;
        }
        let tick = match history.header().unit {
            Unit::Nanoseconds => 1e-9,
            Unit::Microseconds => 1e-6,
            Unit::Milliseconds => 1e-3,
            Unit::Seconds => 1.0,
            Unit::Index => return None,
        };
        let first = history.txns().filter_map(|txn| history.start(txn)).min()?;
        let last = history.txns().filter_map(|txn| history.end(txn)).max()?;
        let span = last.abs_diff(first).max(1) as f64;
        // Fewer transactions than points make combs, not curves.
        let count = (history.txn_count() / 8).clamp(4, BUCKETS);
        Some(Self { first, tick, width: span / count as f64, count })
    }

    fn width_seconds(&self) -> f64 {
        self.width * self.tick
    }

    fn ticks(&self, at: i64) -> f64 {
        at.abs_diff(self.first) as f64
    }

    fn part(&self, at: i64) -> usize {
        ((self.ticks(at) / self.width) as usize).min(self.count - 1)
    }

    fn parts(&self, history: &History) -> Vec<Part> {
        let mut parts = vec![Part::default(); self.count];
        for txn in history.txns() {
            let (Some(start), Some(end)) = (history.start(txn), history.end(txn)) else { continue };
            parts[self.part(end)].add(history.outcome(txn), end.abs_diff(start) as f64);
        }
        parts.iter_mut().for_each(|part| part.latencies.sort_by(f64::total_cmp));
        parts
    }

    /// The overlap ratio of each part, in percent.
    fn overlap(&self, history: &History) -> Vec<Option<f64>> {
        let mut counts = vec![(0u32, 0u32); self.count];
        let mut all = timed_accesses(history);
        all.sort_unstable_by_key(|access| (access.object, access.at.before));
        for pair in all.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if a.object == b.object && a.txn != b.txn && (a.writes || b.writes) {
                let (conflicts, overlapping) = &mut counts[self.part(b.at.before)];
                *conflicts += 1;
                *overlapping += u32::from(b.at.before <= a.at.after);
            }
        }
        let share = |&(conflicts, overlapping): &(u32, u32)| {
            (conflicts > 0).then(|| 100.0 * f64::from(overlapping) / f64::from(conflicts))
        };
        counts.iter().map(share).collect()
    }
}

#[derive(Clone, Copy)]
struct TimedAccess {
    object: u32,
    txn: TxnId,
    at: Interval,
    writes: bool,
}

/// The accesses of all objects, or of every n-th object where that would be too many.
fn timed_accesses(history: &History) -> Vec<TimedAccess> {
    let nth = history.op_count() / SAMPLE + 1;
    let mut all = Vec::new();
    for txn in history.txns() {
        for op in history.ops(txn) {
            let Some(at) = op.at else { continue };
            let writes = op.kind.writes();
            let sampled = op.accesses.iter().filter(|access| access.object.index().is_multiple_of(nth));
            all.extend(sampled.map(|access| TimedAccess { object: access.object.0, txn, at, writes }));
        }
    }
    all
}

/// What ended in one part of the time.
#[derive(Clone, Default)]
struct Part {
    committed: u32,
    aborted: u32,
    unknown: u32,
    latencies: Vec<f64>,
}

impl Part {
    fn add(&mut self, outcome: Outcome, latency: f64) {
        match outcome {
            Outcome::Committed => self.committed += 1,
            Outcome::Aborted => self.aborted += 1,
            Outcome::Unknown => self.unknown += 1,
        }
        self.latencies.push(latency);
    }

    fn abort_rate(&self) -> Option<f64> {
        let all = self.committed + self.aborted + self.unknown;
        (all > 0).then(|| 100.0 * f64::from(self.aborted) / f64::from(all))
    }

    /// The latency that this share of the transactions stayed below, in ticks.
    fn latency(&self, share: f64) -> Option<f64> {
        let place = (self.latencies.len() as f64 * share) as usize;
        self.latencies.get(place.min(self.latencies.len().saturating_sub(1))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_of_another_axis() {
        let mut own = Series { seconds: vec![0.0, 1.0, 2.0, 9.0], ..Series::default() };
        let values = vec![Some(10.0), None, Some(30.0)];
        let other = Series {
            seconds: vec![0.4, 1.1, 3.0],
            curves: vec![Curve::new("a", "b", "", values)],
            marks: Vec::new(),
        };
        own.adopt(&other, "a");
        own.adopt(&other, "something else");
        assert_eq!(own.curves.len(), 1);
        assert_eq!(own.curves[0].values, [Some(10.0), None, None, Some(30.0)]);
    }
}
