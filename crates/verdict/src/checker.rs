//! What an engine is.

use margay_history::History;
use margay_levels::Level;

use crate::budget::Budget;
use crate::verdict::Verdict;

/// What is asked of a history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Question {
    /// Does this level hold?
    pub level: Level,
    /// Assume that the database orders transactions as real time does, even if the level does not promise it.
    pub real_time: bool,
}

impl Question {
    /// Does `level` hold?
    #[must_use]
    pub fn new(level: Level) -> Self {
        Self { level, real_time: false }
    }

    /// Whether session order counts.
    #[must_use]
    pub fn uses_session_order(self) -> bool {
        self.level.session_order() || self.uses_real_time()
    }

    /// Whether real-time order counts, by the level or by assumption.
    #[must_use]
    pub fn uses_real_time(self) -> bool {
        self.real_time || self.level.real_time()
    }
}

/// An engine.
pub trait Checker {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Answers the question. Never panics on a valid history; what it cannot do is [`Verdict::Unknown`] with the
    /// reason.
    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict;
}
