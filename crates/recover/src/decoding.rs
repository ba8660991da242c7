//! The lines of PostgreSQL's output plugin `test_decoding`.
//!
//! ```text
//! BEGIN 747
//! table public.accounts: UPDATE: id[integer]:1 owner[text]:'O''Brien' balance[integer]:90
//! table public.accounts: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 balance[integer]:90
//! table public.accounts: DELETE: id[integer]:1
//! COMMIT 747 (at 2026-11-15 06:00:00.123+00)
//! ```

use crate::log::{Change, Commit, Datum, Keys, Row, key_of};

/// Collects lines into commits.
#[derive(Debug)]
pub(crate) struct Decoder {
    keys: Keys,
    open: Commit,
}

impl Decoder {
    pub fn new(keys: Keys) -> Self {
        Self { keys, open: Commit::default() }
    }

    /// Takes a line; answers the commit that it completes.
    pub fn line(&mut self, text: &str) -> Result<Option<Commit>, String> {
        let bad = || format!("the log has a line that is not understood: {text}");
        if let Some(id) = text.strip_prefix("BEGIN ") {
            self.open = Commit { id: id.to_owned(), ..Commit::default() };
            return Ok(None);
        }
        if let Some(rest) = text.strip_prefix("COMMIT ") {
            let time = rest.split_once("(at ").map(|(_, time)| time.trim_end_matches(')').to_owned());
            return Ok(Some(Commit { time, ..std::mem::take(&mut self.open) }));
        }
        let rest = text.strip_prefix("table ").ok_or_else(bad)?;
        let (name, rest) = rest.split_once(": ").ok_or_else(bad)?;
        let (kind, columns) = rest.split_once(": ").ok_or_else(bad)?;
        let table = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
        if !self.keys.contains_key(table) || kind == "TRUNCATE" {
            return Ok(None);
        }
        self.change(table, kind, columns).ok_or_else(bad)?;
        Ok(None)
    }

    fn change(&mut self, table: &str, kind: &str, columns: &str) -> Option<()> {
        let (old, new) = match columns.strip_prefix("old-key: ") {
            Some(rest) => {
                let (old, new) = rest.split_once(" new-tuple: ")?;
                (Some(old), new)
            }
            None => (None, columns),
        };
        if let Some(old) = old {
            self.push(table, row(old)?, "DELETE")?;
        }
        let kind = if old.is_some() { "INSERT" } else { kind };
        self.push(table, row(new)?, kind)
    }

    fn push(&mut self, table: &str, row: Row, kind: &str) -> Option<()> {
        let key = key_of(&self.keys, table, &row)?;
        let (table, row) = (table.to_owned(), Some(row).filter(|_| kind != "DELETE"));
        self.open.changes.push(Change { table, key, row, inserted: kind == "INSERT" });
        Some(())
    }
}

/// `name[type]:value name[type]:value …`
fn row(mut text: &str) -> Option<Row> {
    let mut row = Row::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once('[')?;
        let (_, rest) = rest.split_once("]:")?;
        let (value, rest) = value(rest)?;
        row.push((name.trim_matches('"').to_owned(), value));
        text = rest.strip_prefix(' ').unwrap_or(rest);
    }
    Some(row)
}

fn value(text: &str) -> Option<(Datum, &str)> {
    if let Some(quoted) = text.strip_prefix('\'') {
        return quoted_value(quoted);
    }
    let end = text.find(' ').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let datum = match word {
        "null" | "unchanged-toast-datum" => Datum::Null,
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

    fn decoder() -> Decoder {
        Decoder::new(Keys::from([("accounts".to_owned(), vec!["id".to_owned()])]))
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
            "table public.accounts: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 owner[character varying]:'' balance[integer]:-9",
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
            "table accounts",
            "table public.accounts: UPDATE: id",
            "table public.accounts: DELETE: (no-tuple-data)",
        ] {
            assert!(decoder().line(line).is_err(), "{line}");
        }
    }
}
