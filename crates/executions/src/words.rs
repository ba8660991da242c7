//! Statements and their answers in words.

use std::fmt::Write as _;

use margay_history::{History, OpId};
use margay_sql::{Outcome, SqlError, Value};

/// Longer texts are cut.
const WIDTH: usize = 160;

/// A statement with its parameters; nothing if the operation is none.
#[must_use]
pub fn show_statement(history: &History, op: OpId) -> String {
    let Some(statement) = history.statement(op) else { return String::new() };
    let mut text = statement.text.to_string();
    if !statement.params.is_empty() {
        let params: Vec<String> = statement.params.iter().map(|&id| history.show_value(id)).collect();
        let _ = write!(text, " with {}", params.join(", "));
    }
    cut(text)
}

/// What the client observed of a statement.
#[must_use]
pub fn show_observed(history: &History, op: OpId) -> String {
    let Some(statement) = history.statement(op) else { return "nothing".to_owned() };
    match (&statement.rows, statement.count) {
        (Some(rows), _) if rows.is_empty() => "no rows".to_owned(),
        (Some(rows), _) => cut(rows.iter().map(|&row| history.show_value(row)).collect::<Vec<_>>().join(" ")),
        (None, Some(count)) => format!("{count} affected rows"),
        (None, None) => "that it succeeded".to_owned(),
    }
}

/// What executing a statement gives.
#[must_use]
pub fn show_given(result: &Result<Outcome, SqlError>) -> String {
    match result {
        Err(error) => format!("an error: {error}"),
        Ok(outcome) if outcome.columns.is_empty() => format!("{} affected rows", outcome.matched),
        Ok(outcome) if outcome.rows.is_empty() => "no rows".to_owned(),
        Ok(outcome) => {
            let row = |row: &Vec<Value>| {
                format!("[{}]", row.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            };
            cut(outcome.rows.iter().map(row).collect::<Vec<_>>().join(" "))
        }
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
