//! One line on standard error: what is going on, how far it is, how fast, and how long it will
//! take.
//!
//! # Design
//! A thread redraws the line; the command changes what it says by counters or a closure. Where
//! standard error is no terminal there is neither. `docs/DEPENDENCIES.md` says why this is not a
//! library.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use margay_report::limit::visible;

use crate::terminal::width;

/// Shows its line until it is dropped.
pub struct Progress {
    worker: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What is over sooner needs no line.
const PATIENCE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(100);
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];
/// Before this share of the work is done, the time that is left is a guess that jumps.
const EARLIEST_GUESS: f64 = 0.02;

/// What the line says at one moment.
#[derive(Clone, Default)]
pub struct ProgressState {
    /// What is being done: `reading history.jsonl`.
    pub phase: String,
    /// The share that is done, if known.
    pub share: Option<f64>,
    /// How fast, in words: `12 MB/s`.
    pub rate: Option<String>,
    /// What else is worth knowing.
    pub details: String,
    /// For how long the phase has lasted, if the line does not last as long.
    pub elapsed: Option<Duration>,
}

impl ProgressState {
    /// A phase of which nothing but its name is known.
    pub fn phase(phase: impl Into<String>) -> Self {
        Self { phase: phase.into(), ..Self::default() }
    }

    /// The line: phase, percentage, rate, time left, details, time so far.
    fn line(&self, since: Duration) -> String {
        let elapsed = self.elapsed.unwrap_or(since).as_secs_f64();
        let share = self.share.map(|share| share.clamp(0.0, 1.0));
        let percentage = share.map(|share| format!("{:.0} %", share * 100.0));
        let left = share.filter(|share| *share >= EARLIEST_GUESS && *share < 1.0);
        let left = left.map(|share| format!("{} left", time(elapsed / share - elapsed)));
        let details = Some(self.details.clone()).filter(|details| !details.is_empty());
        let parts = [percentage, self.rate.clone(), left, details, Some(time(elapsed))];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("{}: {}", self.phase, parts.join(", "))
    }
}

/// `0.4 s`, `12 s`, `3 min 05 s`.
fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds if seconds < 60.0 => format!("{seconds:.0} s"),
        seconds => format!("{} min {:02} s", seconds as u64 / 60, seconds as u64 % 60),
    }
}

/// `950/s`, `12.3k/s`, `1.2M/s`.
pub fn rate(many: u64, elapsed: Duration, unit: &str) -> Option<String> {
    let seconds = elapsed.as_secs_f64();
    if seconds < 0.05 || many == 0 {
        return None;
    }
    Some(match many as f64 / seconds {
        rate if rate >= 1e6 => format!("{:.1}M{unit}/s", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1}k{unit}/s", rate / 1e3),
        rate => format!("{rate:.0}{unit}/s"),
    })
}

/// Work that is counted, and how much of it there is.
#[derive(Clone, Default)]
pub struct Counter {
    pub done: Arc<AtomicU64>,
    pub all: u64,
}

impl Counter {
    /// Of so much work.
    pub fn of(all: u64) -> Self {
        Self { done: Arc::default(), all }
    }

    fn share(&self) -> (u64, Option<f64>) {
        let done = self.done.load(Ordering::Relaxed);
        (done, (self.all > 0).then(|| done as f64 / self.all as f64))
    }
}

impl Progress {
    /// Shows a phase of unknown length, if `wanted`.
    pub fn show(phase: &str, wanted: bool) -> Self {
        let state = ProgressState::phase(phase);
        Self::follow(move || state.clone(), wanted)
    }

    /// Shows a phase whose work is counted in `unit`, if `wanted`.
    pub fn count(phase: &str, counter: &Counter, unit: &'static str, wanted: bool) -> Self {
        let (phase, counter, start) = (phase.to_owned(), counter.clone(), Instant::now());
        let state = move || {
            let (done, share) = counter.share();
            let rate = rate(done, start.elapsed(), unit);
            ProgressState { phase: phase.clone(), share, rate, ..ProgressState::default() }
        };
        Self::follow(state, wanted)
    }

    /// Shows what `state` says at each moment, if `wanted`.
    pub fn follow(state: impl Fn() -> ProgressState + Send + 'static, wanted: bool) -> Self {
        if !wanted || !io::stderr().is_terminal() {
            return Self { worker: None };
        }
        let (stop, stopped) = mpsc::channel();
        let worker = thread::spawn(move || {
            let start = Instant::now();
            let mut wait = PATIENCE;
            let mut ticks = 0;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let line = visible(&state().line(start.elapsed()));
                // A line that wraps could not be replaced.
                let line: String = line.chars().take(width().saturating_sub(3)).collect();
                draw(&format!("\r\x1b[K{} {line}", SPINNER[ticks % SPINNER.len()]));
                (wait, ticks) = (TICK, ticks + 1);
            }
            if ticks > 0 {
                draw("\r\x1b[K");
            }
        });
        Self { worker: Some((stop, worker)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, worker)) = self.worker.take() {
            drop(stop);
            let _ = worker.join();
        }
    }
}

/// A terminal that went away is no reason to fail.
fn draw(text: &str) {
    let mut err = io::stderr();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_percentage_rate_and_time_left() {
        let state = ProgressState {
            phase: "reading h.jsonl".to_owned(),
            share: Some(0.25),
            rate: rate(30_000_000, Duration::from_secs(10), "B"),
            ..ProgressState::default()
        };
        let line = state.line(Duration::from_secs(10));
        assert_eq!(line, "reading h.jsonl: 25 %, 3.0MB/s, 30 s left, 10 s");
    }

    /// The share was once the larger of two, and the time left was infinite at the start and
    /// negative at the end.
    #[test]
    fn no_time_left_is_guessed_from_nothing_and_none_is_left_at_the_end() {
        for (share, line) in
            [(None, "a: 2.0 s"), (Some(0.0), "a: 0 %, 2.0 s"), (Some(1.3), "a: 100 %, 2.0 s")]
        {
            let state = ProgressState { share, ..ProgressState::phase("a") };
            assert_eq!(state.line(Duration::from_secs(2)), line);
        }
        assert_eq!(rate(0, Duration::from_secs(1), ""), None);
        assert_eq!(time(125.4), "2 min 05 s");
    }
}
