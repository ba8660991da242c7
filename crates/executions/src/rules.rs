//! What a level asks of an execution.

use margay_levels::Level;
use margay_verdict::Question;
use margay_verdict::execution::Reading;

/// Which sights a level allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// Everything as of the state before the transaction's own commit.
    Serial,
    /// Everything as of one state, and no write conflict since.
    Snapshot,
    /// Rows that are read as of the state before the transaction's own commit; rows that conditions
    /// leave out as of any.
    Repeatable,
    /// Committed rows.
    Committed(Reading),
}

/// What is asked of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// Which sights are allowed.
    pub family: Family,
    /// The order contains session order.
    pub session: bool,
    /// The order contains real time.
    pub real_time: bool,
    /// Points lie at the instants that clients saw.
    pub instants: bool,
}

impl Rules {
    /// The rules of a question; `None` for levels that are not defined by executions.
    #[must_use]
    pub fn of(question: Question, reading: Reading) -> Option<Rules> {
        use Level as L;
        let family = match question.level {
            L::Serializable | L::StrongSessionSerializable | L::StrictSerializable => Family::Serial,
            L::SnapshotIsolation | L::StrongSessionSnapshotIsolation | L::StrictSnapshotIsolation => {
                Family::Snapshot
            }
            L::RepeatableRead => Family::Repeatable,
            L::ReadCommitted => Family::Committed(reading),
            _ => return None,
        };
        Some(Rules {
            family,
            session: question.uses_session_order(),
            real_time: question.uses_real_time(),
            instants: question.uses_instants(),
        })
    }

    /// The reading of `read-committed`; at other levels there is one.
    #[must_use]
    pub fn reading(self) -> Reading {
        match self.family {
            Family::Committed(reading) => reading,
            _ => Reading::Item,
        }
    }

    /// Whether rows that a transaction leaves as they were are not written.
    #[must_use]
    pub fn skips(self) -> bool {
        self.family == Family::Snapshot
    }
}
