//! Until when everything has come, where nobody says.
//!
//! # Algorithm
//! A session calls nothing before its last answer. So everything has come up to the earliest last answer of
//! the sessions that are at work. A session is at work if it was answered within a second of the latest
//! answer.
//!
//! # Invariants
//! This is a guess: a session may be silent for longer, or be new. A violation that was found is therefore withdrawn if
//! something comes that had been called before ([`crate::Follower`]).

use hashbrown::HashMap;
use margay_history::Unit;

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
        let silence = match unit {
            Unit::Nanoseconds => 1_000_000_000,
            Unit::Microseconds => 1_000_000,
            Unit::Milliseconds => 1_000,
            Unit::Seconds => 1,
            Unit::Index => 1_000,
        };
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
