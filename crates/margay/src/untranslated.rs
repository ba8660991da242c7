//! SQL statements in a build without the feature `sql`: none of them becomes operations on rows.

use margay_engines::Choice;
use margay_history::History;
use margay_levels::Level;
use margay_verdict::Translation;

/// Never anything.
pub(crate) fn instead(_: &History, _: Choice, _: Level) -> Option<History> {
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
