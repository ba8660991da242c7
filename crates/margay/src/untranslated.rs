//! SQL in a build without the feature `sql`: no statement becomes operations on rows, and an answer
//! that is missing for want of SQL says so.

use margay_engines::{Choice, Engine};
use margay_history::History;
use margay_levels::Level;
use margay_verdict::{SqlError, Translation};

use crate::part::Coverage;

/// Never anything.
pub(crate) fn instead(_: &History, _: Choice, _: Level) -> Option<History> {
    None
}

/// No engine executes statements.
pub(crate) fn first(_: &History) -> Option<Engine> {
    None
}

/// The first text of SQL that a history has, and that this build does not read it.
pub(crate) fn unread(history: &History) -> Option<String> {
    let condition = history.predicates().first().map(|predicate| &*predicate.text);
    let mut ops = history.txns().flat_map(|txn| history.ops(txn));
    let statement = || ops.find_map(|op| history.statement(op.id)).map(|statement| &*statement.text);
    Some(format!("{:?}: {}", condition.or_else(statement)?, SqlError::NoParser))
}

/// Never anything.
pub(crate) fn part(_: &History, _: Level) -> Option<(History, Coverage)> {
    None
}

/// None.
pub fn translations(_: &History) -> impl Iterator<Item = (Translation, History)> {
    std::iter::empty()
}

/// Never anything.
#[must_use]
pub fn under(_: &History, _: Translation) -> Option<History> {
    None
}
