//! Statements as operations on rows, for the engines that know no SQL.

use margay_engines::Choice;
use margay_history::History;
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_rows::{Sight, translate};

/// Up to so many transactions the definitions themselves can tell what an update did whose rows nobody saw.
const SMALL: usize = 8;

/// The history to check instead of one of statements: nothing when there are none, when the engine understands them, or when one of them is
/// more than operations on rows.
pub fn instead(history: &History, engine: Choice, level: Option<Level>) -> Option<History> {
    if matches!(engine, Choice::Engine(engine) if engine.name() == "observe") {
        return None;
    }
    // The mechanisms of a database are not those of the level: what an update finds may be newer than what was read before.
    let sight = if engine.asks_for_dbms() { Sight::Changing } else { sight(level?) };
    let rows = translate(history, sight)?;
    // Who chooses freely leaves updates whose rows nobody saw to the engine that executes statements.
    let unseen = rows.unseen > 0 && matches!(engine, Choice::Auto) && history.txn_count() > SMALL;
    (rows.left.is_none() && !unseen).then_some(rows.history)
}

/// All that may have been checked instead of a history.
pub fn all_instead(history: &History) -> impl Iterator<Item = History> + '_ {
    let sights = [Sight::Stable, Sight::Changing].into_iter();
    sights.filter_map(|sight| translate(history, sight)).map(|rows| rows.history)
}

/// What a transaction sees at a level.
pub fn sight(level: Level) -> Sight {
    match level.family() {
        Family::Serial | Family::Snapshot => Sight::Stable,
        _ => Sight::Changing,
    }
}
