//! SQL statements as operations on rows, for the engines that do not execute SQL.

use margay_engines::{Choice, Engine};
use margay_history::{History, OpKind};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_levels::profile::Dbms;
use margay_rows::{Projection, SeenState, project, translate, translate_partly};
use margay_verdict::{Predicates, Translation};

use crate::part::Coverage;

/// Up to this many transactions, `naive` can tell what an update did whose rows nobody saw.
const SMALL_HISTORY: usize = 8;

/// Up to this many transactions, statements become rows at once.
const SMALL_LOG: usize = 2_000;

/// The rows to check instead of a history of statements. `None` if there are no statements, if the
/// engine executes them, or if one of them is more than operations on rows.
pub(crate) fn instead(history: &History, engine: Choice, level: Level) -> Option<History> {
    if engine.is_named("observe") {
        return None;
    }
    if engine.asks_for_dbms() {
        return translate_partly(history, mirrored(history, engine, level)).map(|rows| rows.history);
    }
    let rows = translate(history, sight(level))?;
    // `auto` leaves updates whose rows nobody saw to the engine that executes statements.
    let unseen = rows.unseen > 0 && matches!(engine, Choice::Auto) && history.txn_count() > SMALL_HISTORY;
    let certified =
        rows.left.is_some() && certifies(history, engine) && Predicates::compile(&rows.history).is_ok();
    (rows.left.is_none() && !unseen || certified).then_some(rows.history)
}

/// The engine that is asked about a large log of statements before it becomes rows: it explains
/// most right logs, and refutes many wrong ones, in less time than the translation takes.
pub(crate) fn first(history: &History) -> Option<Engine> {
    let suits = history.txn_count() > SMALL_LOG && history.has_kind(OpKind::Sql);
    suits.then(margay_engines::first_sight)
}

/// Nothing: this build reads SQL.
pub(crate) fn unread(_: &History) -> Option<String> {
    None
}

/// Whether `certify` answers, which understands aggregates among operations on rows. `auto` takes
/// it where the evidence names versions.
fn certifies(history: &History, engine: Choice) -> bool {
    let evidence = history.evidence();
    match engine {
        Choice::Auto => !evidence.version_orders.is_empty() || !evidence.version_sets.is_empty(),
        _ => engine.is_named("certify"),
    }
}

/// What a transaction sees by the mechanisms of its database, which are not those of the level: an
/// update may find something newer than what was read before.
fn mirrored(history: &History, engine: Choice, level: Level) -> SeenState {
    let named = || {
        let dbms: Dbms = margay_engines::dbms(history.header().dbms.as_deref()?).ok()?;
        engine.for_dbms(&dbms, history, level).ok()
    };
    let engine = if matches!(engine, Choice::Mirror(_)) { Some(engine) } else { named() };
    match engine {
        Some(Choice::Mirror(mirror)) if mirror.mechanisms.is_some_and(|it| it.sees_one_state()) => {
            SeenState::Stable
        }
        _ => SeenState::Changing,
    }
}

/// The part of a history that is understood, and how much that is; nothing if there is no more to
/// say than about the whole.
pub(crate) fn part(history: &History, level: Level) -> Option<(History, Coverage)> {
    let Projection { history: part, coverage } = project(history, sight(level))?;
    let coverage = Coverage {
        tables: coverage.tables,
        all_tables: coverage.all_tables,
        transactions: coverage.transactions,
        all_transactions: coverage.all_transactions,
        left_out: coverage.left_out,
        verdict: "unknown",
    };
    Some((part, coverage))
}

/// All histories of rows that may have been checked instead of a history of statements, and how
/// each was made.
pub fn translations(history: &History) -> impl Iterator<Item = (Translation, History)> + '_ {
    let all = Translation::ALL.iter().map(|&(translation, _)| translation);
    all.filter_map(|translation| Some((translation, under(history, translation)?)))
}

/// The rows that statements become by a translation.
#[must_use]
pub fn under(history: &History, translation: Translation) -> Option<History> {
    let sight = if translation.is_stable() { SeenState::Stable } else { SeenState::Changing };
    match translation {
        Translation::Rows { partly: true, .. } => translate_partly(history, sight).map(|rows| rows.history),
        Translation::Rows { partly: false, .. } => translate(history, sight).map(|rows| rows.history),
        Translation::Projected { whole, .. } => {
            let Projection { history, coverage } = project(history, sight)?;
            (coverage.whole() == whole).then_some(history)
        }
        Translation::Recorded | Translation::Executed => None,
    }
}

/// What a transaction sees at a level.
fn sight(level: Level) -> SeenState {
    match level.family() {
        Family::Serial | Family::Snapshot => SeenState::Stable,
        _ => SeenState::Changing,
    }
}
