//! How far a run has come, for whoever watches it; and a way to end it early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::follow::Followed;
use crate::statistics::Statistics;
use crate::trace::Ended;

/// How far a run has come.
#[derive(Default, Debug)]
pub struct Monitor {
    committed: AtomicU64,
    aborted: AtomicU64,
    unknown: AtomicU64,
    lost: AtomicU64,
    verified: AtomicU64,
    violations: AtomicU64,
    lag: AtomicU64,
    collected: AtomicU64,
    stop: AtomicBool,
    begun: OnceLock<Instant>,
    gone: OnceLock<Instant>,
    pub(crate) statistics: Mutex<Statistics>,
    followed: Mutex<Option<Followed>>,
}

/// How transactions have ended so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Committed.
    pub committed: u64,
    /// Refused by the database, or rolled back on purpose.
    pub aborted: u64,
    /// Nobody knows.
    pub unknown: u64,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.committed + self.aborted + self.unknown
    }
}

/// How far the live verification has come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Committed transactions that were judged.
    pub verified: u64,
    /// Violations that were found.
    pub violations: u64,
    /// How far it is behind.
    pub lag: Duration,
}

/// What a run does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The database is being prepared, and clients connect.
    Preparing,
    /// Clients are at work.
    Running,
    /// Clients have finished, and verification catches up.
    CatchingUp,
}

impl Monitor {
    /// What the run does now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match (self.begun.get(), self.gone.get()) {
            (_, Some(_)) => Phase::CatchingUp,
            (Some(_), None) => Phase::Running,
            (None, None) => Phase::Preparing,
        }
    }

    /// For how long clients have been at work.
    #[must_use]
    pub fn worked(&self) -> Duration {
        let until = self.gone.get().copied().unwrap_or_else(Instant::now);
        self.begun.get().map_or(Duration::ZERO, |begun| until.saturating_duration_since(*begun))
    }

    /// The first client begins.
    pub(crate) fn begins(&self) {
        self.begun.get_or_init(Instant::now);
    }

    /// The last client has finished.
    pub(crate) fn ends(&self) {
        self.gone.get_or_init(Instant::now);
    }

    /// The numbers of this moment.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            committed: number(&self.committed),
            aborted: number(&self.aborted),
            unknown: number(&self.unknown),
        }
    }

    /// How many connections were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        number(&self.lost)
    }

    /// How many transactions were answered to their end.
    pub(crate) fn answered(&self) -> u64 {
        self.counts().total().saturating_sub(self.lost())
    }

    /// A connection was lost, and with it a transaction that was counted.
    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// How far the live verification has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            verified: number(&self.verified),
            violations: number(&self.violations),
            lag: Duration::from_nanos(number(&self.lag)),
        }
    }

    /// What happened over time, so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How far the follower has come, if there is one.
    #[must_use]
    pub fn followed(&self) -> Option<Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn has_followed(&self, followed: Followed) {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = Some(followed);
    }

    /// Ends the run after the transactions that are open now.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run was ended.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, ended: Ended) {
        let counter = match ended {
            Ended::Committed => &self.committed,
            Ended::Aborted => &self.aborted,
            Ended::Unknown => &self.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What clients had recorded by this time of the run is collected, and verified as far as it
    /// can be.
    pub(crate) fn collected(&self) -> Duration {
        Duration::from_nanos(number(&self.collected))
    }

    pub(crate) fn has_collected(&self, until: i64) {
        self.collected.store(until.max(0) as u64, Ordering::Relaxed);
    }

    pub(crate) fn verified(&self, lag: Duration, (verified, violations): (u64, u64)) {
        self.lag.store(lag.as_nanos() as u64, Ordering::Relaxed);
        self.verified.store(verified, Ordering::Relaxed);
        self.violations.store(violations, Ordering::Relaxed);
    }
}

fn number(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
