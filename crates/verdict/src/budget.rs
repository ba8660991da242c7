//! Limits on time and memory, and a way to be stopped.
//!
//! # Design
//! A budget that has ended stays ended: its end is a flag, shared by all clones. One [`watchdog`]
//! thread looks at the clock and at the process's resident memory, and sets the flags. So
//! [`Budget::poll`] costs two relaxed loads, however seldom or often a loop polls.
//!
//! # Invariants
//! - After the first error, every poll of the budget and of its clones is an error.
//! - A shorter budget made by [`Budget::at_most`] ends by itself, without ending the one it was
//!   made from. Cancelling, and running out of memory, end both.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

mod memory;
mod watchdog;

pub use memory::default_memory;

/// What an engine may use. Polled in every loop that can be long.
///
/// # Cost
/// [`Budget::poll`] is two relaxed loads; a counted one stores a number too.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    time: Option<Arc<Timer>>,
    memory: Option<u64>,
    /// How many polls are left, where they are counted.
    polls: Option<Arc<Meter>>,
    /// Why it ended other than by time. Shared by all budgets made from the same one.
    ended: Arc<AtomicU8>,
}

/// A deadline, and whether it has passed.
#[derive(Debug)]
struct Timer {
    deadline: Instant,
    limit: Duration,
    over: AtomicBool,
    /// Whether the watchdog will set `over`. Otherwise each poll looks at the clock.
    watched: AtomicBool,
}

/// A number of polls, and how many of them are left.
#[derive(Debug)]
struct Meter {
    limit: u64,
    left: AtomicU64,
}

impl Meter {
    /// Counts a poll; false if there were none left. Threads that poll at the same time may count
    /// as one.
    fn count(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }
}

/// Values of `Budget::ended`.
const GOES_ON: u8 = 0;
const CANCELLED: u8 = 1;
const OUT_OF_MEMORY: u8 = 2;

/// Why an engine had to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exhausted {
    /// The time is over.
    Time(Duration),
    /// The memory limit, in bytes.
    Memory(u64),
    /// The number of polls that an engine allowed a part of its work ([`Budget::at_most_polls`]).
    Work(u64),
    /// Someone called [`Budget::cancel`].
    Cancelled,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exhausted::Time(limit) => write!(f, "out of time: the limit is {limit:?}"),
            Exhausted::Memory(limit) => write!(f, "out of memory: the limit is {} MiB", limit >> 20),
            Exhausted::Work(limit) => write!(f, "too much work: the limit is {limit} steps"),
            Exhausted::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Exhausted {}

impl Timer {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || (!self.watched.load(Ordering::Relaxed) && self.look())
    }

    /// Looks at the clock; remembers if the time is over.
    fn look(&self) -> bool {
        let over = Instant::now() >= self.deadline;
        if over {
            self.over.store(true, Ordering::Relaxed);
        }
        over
    }
}

impl Budget {
    /// No limits.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// A budget with the limits that are given: time from now on, and resident memory in bytes.
    #[must_use]
    pub fn limited(time: Option<Duration>, memory: Option<u64>) -> Self {
        let budget = time.map_or_else(Self::unlimited, |limit| Self::unlimited().with_time(limit));
        match memory {
            Some(bytes) => budget.with_memory(bytes),
            None => budget,
        }
    }

    /// The same budget that ends `limit` from now.
    #[must_use]
    pub fn with_time(mut self, limit: Duration) -> Self {
        let now = Instant::now();
        // A limit beyond what the clock can tell is none.
        self.time = now.checked_add(limit).map(|deadline| {
            let over = AtomicBool::new(limit.is_zero());
            let timer = Arc::new(Timer { deadline, limit, over, watched: AtomicBool::new(false) });
            timer.watched.store(watchdog::watch_time(&timer), Ordering::Relaxed);
            timer
        });
        self
    }

    /// The same budget that ends `limit` from now, if it does not end before.
    #[must_use]
    pub fn at_most(self, limit: Duration) -> Self {
        match self.remaining() {
            Some(remaining) if remaining <= limit => self,
            _ => self.with_time(limit),
        }
    }

    /// The same budget that ends after `limit` polls, if it does not end before. For what an engine
    /// may try before it goes on with something else: that must not depend on how fast the machine
    /// is.
    #[must_use]
    pub fn at_most_polls(mut self, limit: u64) -> Self {
        self.polls = Some(Arc::new(Meter { limit, left: AtomicU64::new(limit) }));
        self
    }

    /// The same budget that also ends when the process holds more than `bytes` of resident memory.
    ///
    /// Where the operating system does not tell how much that is (other than Linux), there is no
    /// limit.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        watchdog::watch_memory(&self.ended, bytes);
        self
    }

    /// How much time is left, where it is limited.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.time.as_ref().map(|timer| timer.deadline.saturating_duration_since(Instant::now()))
    }

    /// Stops every engine that polls this budget, a clone of it, or a shorter one made from it.
    pub fn cancel(&self) {
        self.ended.store(CANCELLED, Ordering::Relaxed);
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// When the time or the memory is used up, or the budget was cancelled. All later polls fail
    /// too.
    #[inline]
    pub fn poll(&self) -> Result<(), Exhausted> {
        let ended = self.ended.load(Ordering::Relaxed);
        if ended != GOES_ON {
            return Err(self.why(ended));
        }
        match (&self.time, &self.polls) {
            (Some(timer), _) if timer.is_over() => Err(Exhausted::Time(timer.limit)),
            (_, Some(meter)) if !meter.count() => Err(Exhausted::Work(meter.limit)),
            _ => Ok(()),
        }
    }

    /// The same by the clock itself, where the watchdog's delay of a few milliseconds is too much.
    ///
    /// # Errors
    /// As [`Budget::poll`].
    pub fn poll_now(&self) -> Result<(), Exhausted> {
        if let Some(timer) = &self.time {
            timer.look();
        }
        self.poll()
    }

    fn why(&self, ended: u8) -> Exhausted {
        match (ended, self.memory) {
            (OUT_OF_MEMORY, Some(limit)) => Exhausted::Memory(limit),
            _ => Exhausted::Cancelled,
        }
    }

    /// Whether an engine may allocate `bytes` more.
    ///
    /// # Errors
    /// When the process would hold more than the limit then; or as [`Budget::poll`].
    pub fn charge(&self, bytes: u64) -> Result<(), Exhausted> {
        self.poll()?;
        match self.memory {
            Some(limit) if memory::resident().unwrap_or(0).saturating_add(bytes) > limit => {
                self.ended.store(OUT_OF_MEMORY, Ordering::Relaxed);
                Err(Exhausted::Memory(limit))
            }
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
        assert_eq!(budget.poll(), Err(Exhausted::Time(Duration::ZERO)));
        assert_eq!(budget.poll_now(), Err(Exhausted::Time(Duration::ZERO)));
        let budget = Budget::unlimited();
        assert_eq!(budget.poll(), Ok(()));
        budget.clone().cancel();
        assert_eq!(budget.poll(), Err(Exhausted::Cancelled));
    }

    #[test]
    fn the_nearer_end_counts() {
        let (soon, late) = (Duration::ZERO, Duration::from_secs(3600));
        let ended = |budget: Budget| budget.poll().is_err();
        assert!(ended(Budget::unlimited().with_time(soon).at_most(late)));
        assert!(ended(Budget::unlimited().with_time(late).at_most(soon)));
        assert!(!ended(Budget::unlimited().at_most(late)));
    }

    #[test]
    fn a_counted_budget_ends_after_its_polls_and_alone() {
        let whole = Budget::unlimited();
        let part = whole.clone().at_most_polls(3);
        let polls: Vec<bool> = (0..6).map(|_| part.clone().poll().is_ok()).collect();
        assert_eq!(polls, [true, true, true, false, false, false]);
        assert_eq!((part.poll(), whole.poll()), (Err(Exhausted::Work(3)), Ok(())));
    }

    /// Polls until the budget ends; how long that took.
    fn until_end(budget: &Budget) -> Duration {
        let start = Instant::now();
        while budget.poll().is_ok() {
            assert!(start.elapsed() < Duration::from_secs(20), "the budget never ends");
            std::thread::sleep(Duration::from_millis(1));
        }
        start.elapsed()
    }

    /// A budget looked at the clock once in 1,024 polls, so a loop of slow steps ran on for
    /// minutes.
    #[test]
    fn slow_steps_end_in_time() {
        let budget = Budget::unlimited().with_time(Duration::from_millis(30));
        let took = until_end(&budget);
        assert!(took < Duration::from_millis(500), "{took:?}");
    }

    /// And it forgot that it had ended: the 1,023 polls after the error were fine again.
    #[test]
    fn the_end_is_for_ever_and_for_all_clones() {
        let budget = Budget::unlimited().with_time(Duration::from_millis(5));
        let clone = budget.clone();
        until_end(&budget);
        assert!((0..5000).all(|_| budget.poll().is_err() && clone.poll().is_err()));
    }

    #[test]
    fn a_shorter_budget_ends_alone_and_is_ended_with_the_whole() {
        let whole = Budget::unlimited().with_time(Duration::from_secs(3600));
        let part = whole.clone().at_most(Duration::from_millis(5));
        until_end(&part);
        assert_eq!((whole.poll(), part.poll().is_err()), (Ok(()), true));
        let other = whole.clone().at_most(Duration::from_secs(60));
        whole.cancel();
        assert_eq!(other.poll(), Err(Exhausted::Cancelled));
    }

    #[test]
    fn many_short_budgets_end() {
        let whole = Budget::unlimited().with_time(Duration::from_secs(3600));
        let parts: Vec<Budget> =
            (0..2000).map(|i| whole.clone().at_most(Duration::from_micros(i * 10))).collect();
        parts.iter().for_each(|part| _ = until_end(part));
        assert_eq!(whole.poll(), Ok(()));
    }

    #[test]
    fn ends_by_memory() {
        let Some(now) = memory::resident() else { return };
        let budget = Budget::unlimited().with_memory(now + (64 << 20));
        assert_eq!((budget.poll(), budget.charge(1)), (Ok(()), Ok(())));
        let clone = budget.clone();
        let limit = now + (64 << 20);
        assert_eq!(budget.charge(1 << 40), Err(Exhausted::Memory(limit)));
        assert_eq!(clone.poll(), Err(Exhausted::Memory(limit)));
    }

    /// What nobody counted is noticed as well.
    #[test]
    fn the_watchdog_sees_resident_memory() {
        let Some(now) = memory::resident() else { return };
        let budget = Budget::unlimited().with_memory(now + (48 << 20));
        // An optimised build would leave the memory out.
        let held = std::hint::black_box(vec![1u8; 128 << 20]);
        until_end(&budget);
        assert_eq!(budget.poll(), Err(Exhausted::Memory(now + (48 << 20))));
        assert_eq!(held[held.len() - 1], 1);
    }
}
