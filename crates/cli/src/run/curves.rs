//! What happened over time, as curves of a report.

use margay_report::series::{Curve, Series};
use margay_runner::{PART, Point, Statistics};

/// No curve has more points; longer runs are drawn more coarsely.
const POINTS: usize = 300;

/// The curves of a run.
pub fn of(statistics: &Statistics) -> Series {
    let first = statistics.points.iter().position(|point| point.ended() > 0).unwrap_or(0);
    let points = &statistics.points[first..];
    let step = points.len().div_ceil(POINTS).max(1);
    let parts: Vec<&[Point]> = points.chunks(step).collect();
    let seconds = PART.as_secs_f64();
    let worked = worked(statistics, first, &parts);
    let rate = |pick: fn(&Point) -> u64| -> Vec<Option<f64>> {
        let count = |part: &[Point]| part.iter().map(pick).sum::<u64>() as f64;
        parts.iter().zip(&worked).map(|(part, time)| time.map(|time| count(part) / time)).collect()
    };
    let curve = |plot: &str, name: &str, unit: &str, value: &dyn Fn(&[Point]) -> Option<f64>| {
        Curve::new(plot, name, unit, parts.iter().map(|part| value(part)).collect())
    };
    let latency = |name: &str, share: f64| {
        curve("Latency of transactions", name, "ms", &|part| worst(part, |point| milliseconds(point, share)))
    };
    let curves = vec![
        Curve::new("Throughput", "committed", "/s", rate(|point| point.committed)),
        Curve::new("Throughput", "aborted", "/s", rate(|point| point.aborted)),
        Curve::new("Throughput", "unknown", "/s", rate(|point| point.unknown)),
        latency("median", 0.5),
        latency("95 %", 0.95),
        latency("99 %", 0.99),
        curve("Abort rate", "aborted", "%", &aborts),
        curve("Live verification", "behind", "ms", &|part| {
            worst(part, |point| Some(point.lag.as_secs_f64() * 1e3))
        }),
        curve("Memory", "resident", "MB", &|part| {
            worst(part, |point| point.memory.map(|bytes| bytes as f64 / 1e6))
        }),
    ];
    let curves = curves.into_iter().chain(dependencies(&parts)).collect();
    let middle = |at: usize| (at as f64 + 0.5) * step as f64 * seconds;
    Series { seconds: (0..parts.len()).map(middle).collect(), curves, marks: Vec::new() }
}

/// The seconds in each part in which clients were at work; nothing where they hardly were. The live
/// verification may go on when they are gone, and has no part in their speed.
fn worked(statistics: &Statistics, first: usize, parts: &[&[Point]]) -> Vec<Option<f64>> {
    let mut begin = first;
    let mut seconds = |part: &&[Point]| {
        let parts = begin..begin + part.len();
        begin = parts.end;
        statistics.worked(parts).as_secs_f64()
    };
    let worked: Vec<f64> = parts.iter().map(&mut seconds).collect();
    let most = worked.iter().copied().fold(0.0, f64::max);
    worked.into_iter().map(|seconds| (seconds > most / 2.0).then_some(seconds)).collect()
}

/// How many dependencies the live verification looked at in each part, by how it knows them.
fn dependencies(parts: &[&[Point]]) -> Vec<Curve> {
    let seconds = |part: &&[Point]| part.len() as f64 * PART.as_secs_f64();
    let names = ["certain by time", "deduced", "uncertain"];
    let curve = |(kind, name): (usize, &str)| {
        let mut before = 0;
        let rate = |part: &&[Point]| {
            let now = part.iter().map(|point| point.dependencies[kind]).max().unwrap_or(0).max(before);
            let more = now - std::mem::replace(&mut before, now);
            Some(more as f64 / seconds(part))
        };
        Curve::new("Dependencies", name, "/s", parts.iter().map(rate).collect())
    };
    names.into_iter().enumerate().map(curve).collect()
}

fn worst(part: &[Point], value: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
    part.iter().filter_map(value).reduce(f64::max)
}

fn milliseconds(point: &Point, share: f64) -> Option<f64> {
    point.latency(share).map(|latency| latency.as_secs_f64() * 1e3)
}

fn aborts(part: &[Point]) -> Option<f64> {
    let (aborted, all) =
        part.iter().fold((0, 0), |sum, point| (sum.0 + point.aborted, sum.1 + point.ended()));
    (all > 0).then(|| 100.0 * aborted as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn point(committed: u64) -> Point {
        let mut point = Point::default();
        point.committed = committed;
        point
    }

    /// Clients begin in the middle of a part, end in the middle of another, and the verification
    /// needs a second more.
    #[test]
    fn throughput_is_that_of_the_time_in_which_clients_are_at_work() {
        let counts = [0, 30, 50, 50, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let points = counts.into_iter().map(point).collect();
        let millis = Duration::from_millis;
        let told = of(&Statistics { points, busy: Some((millis(140), millis(408))) });
        let committed = told.curves.iter().find(|curve| curve.name == "committed").expect("a curve");
        let values: Vec<f64> = committed.values.iter().flatten().map(|value| value.round()).collect();
        assert_eq!(values, [500.0; 3], "{:?}", committed.values);
        assert_eq!(committed.values.len(), told.seconds.len());
        assert!(committed.values[3..].iter().all(Option::is_none));
    }

    #[test]
    fn a_short_run_has_a_throughput_too() {
        let busy = Some((Duration::from_millis(10), Duration::from_millis(16)));
        let told = of(&Statistics { points: vec![point(3)], busy });
        assert_eq!(
            told.curves[0].values.iter().flatten().map(|rate| rate.round()).collect::<Vec<_>>(),
            [500.0]
        );
    }
}
