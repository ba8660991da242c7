//! Until when everything has come, where nobody says.
//!
//! # Algorithm
//! A session calls nothing before its last answer. So everything has come up to the earliest last
//! answer of the sessions that are at work. A session is at work if it was answered within a second
//! of the latest answer.
//!
//! # Invariants
//! This is a guess: a session may be silent for longer, or be new. A violation that was found is
//! therefore withdrawn if something comes that had been called before ([`crate::Follower`]).

use std::time::Duration;

use hashbrown::HashMap;
use margay_history::Unit;

/// A duration in a unit of time; none if the unit is no time.
pub(crate) fn ticks(unit: Unit, duration: Duration) -> Option<i64> {
    let ticks = match unit {
        Unit::Nanoseconds => duration.as_nanos(),
        Unit::Microseconds => duration.as_micros(),
        Unit::Milliseconds => duration.as_millis(),
        Unit::Seconds => u128::from(duration.as_secs()),
        Unit::Index => return None,
    };
    Some(i64::try_from(ticks).unwrap_or(i64::MAX))
}

/// The sessions, and when each was answered last.
pub struct Watermark {
    sessions: HashMap<u64, i64>,
    latest: i64,
    silence: i64,
}

impl Watermark {
    /// No session yet.
    #[must_use]
    pub fn new(unit: Unit) -> Self {
        let silence = ticks(unit, Duration::from_secs(1)).unwrap_or(1_000);
        Self { sessions: HashMap::new(), latest: i64::MIN, silence }
    }

    /// A session was answered.
    pub fn answered(&mut self, session: u64, after: i64) {
        self.latest = self.latest.max(after);
        let last = self.sessions.entry(session).or_insert(after);
        *last = after.max(*last);
    }

    /// Until when everything has come; sessions that are silent are forgotten.
    pub fn reached(&mut self) -> i64 {
        let silent = self.latest.saturating_sub(self.silence);
        self.sessions.retain(|_, last| *last >= silent);
        self.sessions.values().copied().min().unwrap_or(i64::MIN)
    }
}
