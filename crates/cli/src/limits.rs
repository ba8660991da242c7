//! Limits on time and memory, from the command line to the budget that engines, readers and the
//! audit poll.
//!
//! # Invariants
//! `--timeout` is a promise. What polls the budget ends by itself. Should something run on for a
//! twentieth of the limit and a quarter of a second more, [`Overdue`] prints that there is no
//! answer and ends the process.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use margay_verdict::{Budget, Exhausted, default_memory};

use crate::failure::Status;
use crate::terminal;

/// The budget of a command: the time from now on, and memory, by default half of the machine's.
pub fn budget(timeout: Option<Duration>, memory: Option<u64>) -> Budget {
    Budget::limited(timeout, memory.or_else(default_memory))
}

const UNITS: [(&str, u64); 4] = [("", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];

/// A size as people type it: `500M`, `2G`, `1.5GiB`, or bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    let known = UNITS.into_iter().find(|&(name, _)| name == unit);
    match (known, digits.parse::<f64>()) {
        (Some((_, bytes)), Ok(number)) if (1.0..1e18).contains(&(number * bytes as f64)) => {
            Ok((number * bytes as f64) as u64)
        }
        _ => Err("expected a size with a unit: 500M, 2G".to_owned()),
    }
}

/// How often it is asked whether the budget has ended.
const BEAT: Duration = Duration::from_millis(20);

/// What ends the process if an answer is late; it does nothing once it is dropped.
pub struct Overdue {
    in_time: Arc<Mutex<bool>>,
    _stop: Sender<()>,
}

impl Drop for Overdue {
    /// Waits for the end of the process if the late answer is being printed.
    fn drop(&mut self) {
        *self.in_time.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Overdue {
    /// Waits until the budget has ended, and a little longer; then prints what `answer` gives.
    pub fn guard(budget: &Budget, answer: impl FnOnce(Exhausted) -> String + Send + 'static) -> Self {
        let (send, receive) = mpsc::channel::<()>();
        let in_time = Arc::new(Mutex::new(false));
        let (budget, answered) = (budget.clone(), Arc::clone(&in_time));
        let watch = move || {
            let waits = |time| receive.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            let limit = loop {
                if !waits(BEAT) {
                    return;
                }
                if let Err(limit) = budget.poll_now() {
                    break limit;
                }
            };
            let late = waits(grace(limit));
            let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            if late && !*answered {
                let text = answer(limit);
                let _ = if text.is_empty() { Ok(Status::Unknown) } else { terminal::print(&text) };
                std::process::exit(Status::Unknown as i32);
            }
        };
        // Without a thread there is still every poll of the budget.
        let _ = thread::Builder::new().name("overdue".to_owned()).spawn(watch);
        Self { in_time, _stop: send }
    }
}

fn grace(limit: Exhausted) -> Duration {
    let more = match limit {
        Exhausted::Time(limit) => limit / 20,
        Exhausted::Memory(_) | Exhausted::Work(_) | Exhausted::Cancelled => Duration::ZERO,
    };
    more + Duration::from_millis(250)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_type() {
        assert_eq!(size("500M"), Ok(500 << 20));
        assert_eq!(size("2g"), Ok(2 << 30));
        assert_eq!(size("1.5GiB"), Ok(3 << 29));
        assert_eq!(size("64kB"), Ok(64 << 10));
        assert_eq!(size("123456"), Ok(123_456));
        for text in ["", "M", "-1M", "2T2", "1e30G", "0", "nanM"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_in_time_is_left_alone() {
        let budget = Budget::unlimited().with_time(Duration::from_millis(1));
        let guard = Overdue::guard(&budget, |_| "late".to_owned());
        thread::sleep(Duration::from_millis(100));
        drop(guard);
        thread::sleep(Duration::from_millis(400));
    }
}
