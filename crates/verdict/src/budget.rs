//! Limits on time and memory, and a way to be stopped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What an engine may use. Polled in every loop that can be long.
///
/// # Cost
/// [`Budget::poll`] looks at the clock once in 1,024 calls; otherwise it is two relaxed loads.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    deadline: Option<(Instant, Duration)>,
    memory: Option<u64>,
    cancelled: Arc<AtomicBool>,
    polls: Arc<AtomicU64>,
}

/// Why an engine had to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exhausted {
    /// The time is over.
    Time(Duration),
    /// The memory limit, in bytes.
    Memory(u64),
    /// Someone called [`Budget::cancel`].
    Cancelled,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exhausted::Time(limit) => write!(f, "out of time: the limit is {limit:?}"),
            Exhausted::Memory(limit) => write!(f, "out of memory: the limit is {} MiB", limit >> 20),
            Exhausted::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl Budget {
    /// No limits.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// The same budget that ends `limit` from now.
    #[must_use]
    pub fn with_time(mut self, limit: Duration) -> Self {
        self.deadline = Some((Instant::now() + limit, limit));
        self
    }

    /// The same budget that ends `limit` from now, if it does not end before.
    #[must_use]
    pub fn at_most(self, limit: Duration) -> Self {
        match self.deadline {
            Some((deadline, _)) if deadline <= Instant::now() + limit => self,
            _ => self.with_time(limit),
        }
    }

    /// The same budget with a limit on memory in bytes, for engines that count what they hold ([`Budget::charge`]).
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// How much time is left, where it is limited.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|(deadline, _)| deadline.saturating_duration_since(Instant::now()))
    }

    /// Stops every engine that polls this budget or a clone of it.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// When the time is over or the budget was cancelled.
    pub fn poll(&self) -> Result<(), Exhausted> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Exhausted::Cancelled);
        }
        match self.deadline {
            Some((deadline, limit)) if self.polls.fetch_add(1, Ordering::Relaxed) & 1023 == 0 => {
                if Instant::now() < deadline {
                    Ok(())
                } else {
                    Err(Exhausted::Time(limit))
                }
            }
            _ => Ok(()),
        }
    }

    /// The same by the clock itself, for what comes seldom and takes long; [`Budget::poll`] looks at the clock once in a thousand times.
    ///
    /// # Errors
    /// As [`Budget::poll`].
    pub fn poll_now(&self) -> Result<(), Exhausted> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Exhausted::Cancelled);
        }
        match self.deadline {
            Some((deadline, limit)) if Instant::now() >= deadline => Err(Exhausted::Time(limit)),
            _ => Ok(()),
        }
    }

    /// Whether an engine that holds `bytes` may go on.
    ///
    /// # Errors
    /// When that is more than the limit.
    pub fn charge(&self, bytes: u64) -> Result<(), Exhausted> {
        match self.memory {
            Some(limit) if bytes > limit => Err(Exhausted::Memory(limit)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_by_time_and_by_cancelling() {
        let budget = Budget::unlimited().with_time(Duration::ZERO);
        assert!((0..2048).any(|_| budget.poll().is_err()));
        assert_eq!(budget.poll_now(), Err(Exhausted::Time(Duration::ZERO)));
        let budget = Budget::unlimited();
        assert_eq!(budget.poll(), Ok(()));
        budget.clone().cancel();
        assert_eq!(budget.poll(), Err(Exhausted::Cancelled));
    }

    #[test]
    fn the_nearer_end_counts() {
        let (soon, late) = (Duration::ZERO, Duration::from_secs(3600));
        let ended = |budget: Budget| (0..2048).any(|_| budget.poll().is_err());
        assert!(ended(Budget::unlimited().with_time(soon).at_most(late)));
        assert!(ended(Budget::unlimited().with_time(late).at_most(soon)));
        assert!(!ended(Budget::unlimited().at_most(late)));
    }

    #[test]
    fn charges_memory() {
        let budget = Budget::unlimited().with_memory(100);
        assert_eq!((budget.charge(100), budget.charge(101)), (Ok(()), Err(Exhausted::Memory(100))));
    }
}
