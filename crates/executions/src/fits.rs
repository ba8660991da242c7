//! Whether a statement's result is what a client observed.

use margay_history::{History, Statement, Value, ValueId};
use margay_sql::{Dialect, Outcome, Value as SqlValue};
use margay_verdict::compare::same_row;

/// Whether the outcome fits everything that was observed of the statement. `writes` is true for a
/// statement that changes rows: only then `count` is about them. `mixed` is true if it saw rows of
/// several states: PostgreSQL sorts before it waits for locks, and returns the rows that changed
/// meanwhile in their old places.
pub(crate) fn fits(
    history: &History,
    statement: &Statement,
    outcome: &Outcome,
    (writes, mixed): (bool, bool),
    dialect: Dialect,
) -> bool {
    let unsorted = mixed && outcome.reads.lock.is_some() && dialect == Dialect::Postgres;
    let rows = statement.rows.as_ref().is_none_or(|rows| {
        rows_fit(history, rows, outcome) || unsorted && same_rows(history, rows, &outcome.rows)
    });
    rows && statement.count.is_none_or(|count| !writes || count_fits(count, outcome, dialect))
}

/// What is wrong about an outcome.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// The rows that nobody observed.
    pub given: Vec<Vec<SqlValue>>,
    /// The cells of the rows that were observed instead.
    pub observed: Vec<Vec<ValueId>>,
    /// By how much the count is wrong.
    pub count: u64,
}

impl Difference {
    /// How much is wrong.
    pub fn amount(&self) -> u64 {
        (self.given.len() + self.observed.len()) as u64 + self.count
    }
}

/// What is wrong about an outcome, but for the order of its rows.
pub(crate) fn difference(history: &History, statement: &Statement, outcome: &Outcome) -> Difference {
    let Some(observed) = &statement.rows else {
        let count = statement.count.map_or(0, |count| count.abs_diff(outcome.matched));
        return Difference { count, ..Difference::default() };
    };
    let mut wrong = Difference { given: outcome.rows.clone(), ..Difference::default() };
    for &row in observed {
        match wrong.given.iter().position(|known| same_row(history, row, known)) {
            Some(found) => _ = wrong.given.swap_remove(found),
            None => wrong.observed.push(match history.value(row) {
                Value::List(cells) => cells.to_vec(),
                _ => Vec::new(),
            }),
        }
    }
    wrong
}

/// MySQL's clients are told of the rows that changed, of those that matched, or of two for each
/// that an upsert updated.
fn count_fits(count: u64, outcome: &Outcome, dialect: Dialect) -> bool {
    let mysql = [outcome.changed, outcome.matched + outcome.changed];
    count == outcome.matched || dialect.is_mysql() && mysql.contains(&count)
}

/// Rows of equal rank may come in any order; and all rows, where there is text among them: how a
/// database sorts text depends on a collation that the history does not tell.
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
    if observed.len() != rows.len() {
        return false;
    }
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
