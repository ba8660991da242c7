//! What an engine is.

use margay_history::History;
use margay_levels::Level;

use crate::budget::Budget;
use crate::mechanism::Deduced;
use crate::verdict::Verdict;

/// What is asked of a history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Question {
    /// Does this level hold?
    pub level: Level,
    /// Assume that the database orders transactions as real time does, even if the level does not
    /// promise it.
    pub real_time: bool,
    /// Read strict snapshot isolation with instants: each point lies between the call and the
    /// answer that clients saw ([`crate::instants`]). At other levels this says nothing.
    pub instants: bool,
}

impl Question {
    /// Does `level` hold?
    #[must_use]
    pub const fn new(level: Level) -> Self {
        Self { level, real_time: false, instants: false }
    }

    /// Whether session order counts.
    #[must_use]
    pub fn uses_session_order(self) -> bool {
        self.level.session_order() || self.uses_real_time()
    }

    /// The snapshot question that a serializable level includes, where the history has commit
    /// timestamps.
    ///
    /// Commit and snapshot timestamps are evidence about begin and commit points. A serial order
    /// has no such points, so the two are asked apart: some serial order, and some points that
    /// agree with the timestamps. Without commit timestamps the points follow from the serial
    /// order.
    #[must_use]
    pub fn included(self, history: &History) -> Option<Question> {
        let level = match self.level {
            Level::Serializable => Level::SnapshotIsolation,
            Level::StrongSessionSerializable => Level::StrongSessionSnapshotIsolation,
            Level::StrictSerializable => Level::StrictSnapshotIsolation,
            _ => return None,
        };
        // The instants that clients saw count at the level that they were asked for with, and at no
        // other.
        (!history.evidence().commits.is_empty()).then_some(Question { level, instants: false, ..self })
    }

    /// Whether points have to lie at the instants that clients saw.
    #[must_use]
    pub fn uses_instants(self) -> bool {
        self.instants && self.level == Level::StrictSnapshotIsolation
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

    /// Answers the question. Never panics on a valid history; what it cannot do is
    /// [`Verdict::Unknown`] with the reason.
    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict;

    /// The same with the dependencies that it looked at, if it counts them.
    fn check_counting(
        &self,
        history: &History,
        question: Question,
        budget: &Budget,
    ) -> (Verdict, Option<Deduced>) {
        (self.check(history, question, budget), None)
    }
}
