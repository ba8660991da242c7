//! The lines of PostgreSQL's output plugin `test_decoding`.
//!
//! ```text
//! BEGIN 747
//! table public.accounts: UPDATE: id[integer]:1 owner[text]:'O''Brien' balance[integer]:90
//! table public.accounts: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 balance[integer]:90
//! table public.accounts: DELETE: id[integer]:1
//! COMMIT 747 (at 2026-11-15 06:00:00.123+00)
//! ```

use crate::log::{Commit, Datum, Keys, Row, Telling};

/// Collects lines into commits.
#[derive(Debug)]
pub(crate) struct Lines {
    telling: Telling,
}

impl Lines {
    pub fn new(keys: Keys) -> Self {
        Self { telling: Telling::new(keys) }
    }

    /// Takes a line; answers the commit that it completes.
    pub fn line(&mut self, text: &str) -> Result<Option<Commit>, String> {
        let bad = || format!("the log has a line that is not understood: {text}");
        if text.starts_with("message: ") {
            return Ok(None);
        }
        if let Some(id) = text.strip_prefix("BEGIN ") {
            self.telling.begin(id.to_owned());
            return Ok(None);
        }
        if let Some(rest) = text.strip_prefix("COMMIT ") {
            let time = rest.split_once("(at ").map(|(_, time)| time.trim_end_matches(')').to_owned());
            return self.telling.commit(time).map(Some).ok_or_else(bad);
        }
        let rest = text.strip_prefix("table ").ok_or_else(bad)?;
        let (names, rest) = rest.split_once(": ").ok_or_else(bad)?;
        let (kind, columns) = rest.split_once(": ").ok_or_else(bad)?;
        if kind == "TRUNCATE" {
            return self.truncated(names);
        }
        let table = last_name(names);
        if self.telling.knows(table) {
            self.change(table, kind, columns).ok_or_else(bad)?;
        }
        Ok(None)
    }

    fn truncated(&self, names: &str) -> Result<Option<Commit>, String> {
        match names.split(", ").map(last_name).find(|table| self.telling.knows(table)) {
            Some(table) => Err(truncated(table)),
            None => Ok(None),
        }
    }

    fn change(&mut self, table: &str, kind: &str, columns: &str) -> Option<()> {
        let Sides { old, row } = sides(columns)?;
        match kind {
            "INSERT" => self.telling.insert(table, row),
            "UPDATE" => self.telling.update(table, old.as_ref(), row),
            "DELETE" => self.telling.delete(table, &row),
            _ => None,
        }
    }
}

/// What a line tells of a row.
pub(crate) struct Sides {
    /// What it was before.
    pub old: Option<Row>,
    pub row: Row,
}

/// The columns of a line.
pub(crate) fn sides(columns: &str) -> Option<Sides> {
    let (old, columns) = match columns.strip_prefix("old-key: ") {
        Some(columns) => {
            let (old, rest) = row(columns)?;
            (Some(old), rest.strip_prefix(NEW)?)
        }
        None => (None, columns),
    };
    // Of a row that nothing identifies the log says that it says nothing.
    if columns == "(no-tuple-data)" {
        return Some(Sides { old, row: Row::new() });
    }
    let (row, _) = row(columns).filter(|(_, rest)| rest.is_empty())?;
    Some(Sides { old, row })
}

/// What stands between an old key and the new row.
const NEW: &str = "new-tuple: ";

/// What a log that has a truncation is answered with: which rows went is not in it.
pub(crate) fn truncated(table: &str) -> String {
    format!("table {table} was truncated while its log was read, and the log does not tell which rows it had")
}

/// A table's name without its schema.
fn last_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name).trim_matches('"')
}

/// `name[type]:value name[type]:value …`, up to the end or a new row.
fn row(mut text: &str) -> Option<(Row, &str)> {
    let mut row = Row::new();
    while !text.is_empty() && !text.starts_with(NEW) {
        let (name, rest) = text.split_once('[')?;
        let (_, rest) = rest.split_once("]:")?;
        let (value, rest) = value(rest)?;
        row.push((name.trim_matches('"').to_owned(), value));
        text = rest.strip_prefix(' ').unwrap_or(rest);
    }
    Some((row, text))
}

fn value(text: &str) -> Option<(Datum, &str)> {
    if let Some(quoted) = text.strip_prefix('\'') {
        return quoted_value(quoted);
    }
    let end = text.find(' ').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let datum = match word {
        "null" => Datum::Null,
        "unchanged-toast-datum" => Datum::Unchanged,
        _ => word.parse().map_or_else(|_| Datum::Text(word.to_owned()), Datum::Int),
    };
    Some((datum, rest))
}

/// A text up to its closing quote; two quotes are one.
fn quoted_value(text: &str) -> Option<(Datum, &str)> {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'')?;
        out += part;
        match after.strip_prefix('\'') {
            Some(more) => {
                out.push('\'');
                rest = more;
            }
            None => return Some((Datum::Text(out), after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder() -> Lines {
        Lines::new(Keys::from([("accounts".to_owned(), vec!["id".to_owned()])]))
    }

    fn decode(lines: &[&str]) -> Commit {
        let mut decoder = decoder();
        let mut done = lines.iter().filter_map(|line| decoder.line(line).expect("a line"));
        done.next().expect("a commit")
    }

    #[test]
    fn a_transaction_is_read() {
        let commit = decode(&[
            "BEGIN 747",
            "table public.accounts: INSERT: id[integer]:1 owner[character varying]:'O''Brien: x' balance[integer]:null",
            "table public.accounts: UPDATE: old-key: id[integer]:1 owner[character varying]:'a new-tuple: b' new-tuple: id[integer]:2 owner[character varying]:'' balance[integer]:-9",
            "table public.other: INSERT: id[integer]:1",
            "table public.accounts: DELETE: id[integer]:2",
            "COMMIT 747 (at 2026-11-15 06:00:00.123+00)",
        ]);
        assert_eq!((commit.id.as_str(), commit.time.as_deref()), ("747", Some("2026-11-15 06:00:00.123+00")));
        let keys: Vec<_> = commit.changes.iter().map(|c| (c.key[0].clone(), c.row.is_some())).collect();
        let key = Datum::Int;
        assert_eq!(keys, [(key(1), true), (key(1), false), (key(2), true), (key(2), false)]);
        let row = commit.changes[0].row.as_ref().expect("a row");
        assert_eq!(row[1], ("owner".to_owned(), Datum::Text("O'Brien: x".to_owned())));
        assert_eq!(row[2].1, Datum::Null);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for line in [
            "nonsense",
            "COMMIT 1",
            "table public.other, public.accounts: TRUNCATE: (no-flags)",
            "table accounts",
            "table public.accounts: UPDATE: id",
            "table public.accounts: DELETE: (no-tuple-data)",
        ] {
            assert!(decoder().line(line).is_err(), "{line}");
        }
    }
}
