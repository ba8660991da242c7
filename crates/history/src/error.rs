//! Why something is not a history.

use std::fmt;

/// An ill-formed history: what is wrong, and where. Never a violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid {
    /// What is wrong, as a sentence without a full stop.
    pub what: String,
    /// The place, as last told to [`crate::HistoryBuilder::at_place`] for what is wrong: a line, a
    /// record or a byte, as the reader counts.
    pub place: u64,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Invalid {}
