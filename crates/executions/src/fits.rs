//! Whether a statement's result is what a client observed.

use margay_history::{History, Statement, ValueId};
use margay_sql::{Dialect, Outcome, Value as SqlValue};
use margay_verdict::compare::same_row;

/// Whether the outcome fits everything that was observed of the statement. `writes` is true for a statement that
/// changes rows: only then `count` is about them.
pub(crate) fn fits(
    history: &History,
    statement: &Statement,
    outcome: &Outcome,
    writes: bool,
    dialect: Dialect,
) -> bool {
    let rows = statement.rows.as_ref().is_none_or(|rows| rows_fit(history, rows, outcome));
    rows && statement.count.is_none_or(|count| !writes || count_fits(count, outcome, dialect))
}

/// MySQL's clients are told of the rows that changed, of those that matched, or of two for each that an upsert updated.
fn count_fits(count: u64, outcome: &Outcome, dialect: Dialect) -> bool {
    let mysql = [outcome.changed, outcome.matched + outcome.changed];
    count == outcome.matched || dialect.is_mysql() && mysql.contains(&count)
}

/// Rows of equal rank may come in any order; and all rows, where there is text among them: how a database sorts text
/// depends on a collation that the history does not tell.
fn rows_fit(history: &History, observed: &[ValueId], outcome: &Outcome) -> bool {
    if observed.len() != outcome.rows.len() {
        return false;
    }
    let text = || outcome.rows.iter().flatten().any(|value| matches!(value, SqlValue::Text(_)));
    ranked_fit(history, observed, outcome) || text() && same_rows(history, observed, &outcome.rows)
}

fn ranked_fit(history: &History, observed: &[ValueId], outcome: &Outcome) -> bool {
    let mut from = 0;
    while from < observed.len() {
        let rank = outcome.ranks.get(from);
        let tied = (from..observed.len()).take_while(|&at| outcome.ranks.get(at) == rank).count();
        if !same_rows(history, &observed[from..from + tied], &outcome.rows[from..from + tied]) {
            return false;
        }
        from += tied;
    }
    true
}

/// Whether the rows are the same, in any order.
fn same_rows(history: &History, observed: &[ValueId], rows: &[Vec<SqlValue>]) -> bool {
    let same = |at: usize, row: &[SqlValue]| same_row(history, observed[at], row);
    let mut left: Vec<&Vec<SqlValue>> = rows.iter().collect();
    for at in 0..observed.len() {
        match left.iter().position(|row| same(at, row)) {
            Some(found) => left.remove(found),
            None => return false,
        };
    }
    true
}
