//! What a database's log tells: transactions that committed, in the order in which they did, and
//! what each of them changed.

use std::fmt;

/// A value of a log, as far as evidence needs to tell values apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Datum {
    /// NULL.
    Null,
    /// A value that the log leaves out, because it is long and did not change.
    Unchanged,
    /// An integer.
    Int(i64),
    /// Anything else, as the database writes it.
    Text(String),
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Null => f.write_str("null"),
            Datum::Unchanged => f.write_str("unchanged"),
            Datum::Int(int) => write!(f, "{int}"),
            Datum::Text(text) => write!(f, "{text}"),
        }
    }
}

/// Columns by name.
pub type Row = Vec<(String, Datum)>;

/// What a transaction made of one row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The table, without its schema.
    pub table: String,
    /// The values of the key's columns, in the key's order.
    pub key: Vec<Datum>,
    /// The row; none if it was deleted.
    pub row: Option<Row>,
    /// Whether there was no such row before.
    pub inserted: bool,
}

/// A transaction that committed and changed something.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Commit {
    /// What the database calls it.
    pub id: String,
    /// When it committed, on the database's own clock, if the log tells. Only the order of the log
    /// counts; this is for people.
    pub time: Option<String>,
    /// What it changed, in order.
    pub changes: Vec<Change>,
}

/// The columns of a table's key.
pub type Keys = std::collections::HashMap<String, Vec<String>>;

/// The transaction that a log is telling of.
#[derive(Debug)]
pub(crate) struct Telling {
    keys: Keys,
    open: Option<Commit>,
}

impl Telling {
    pub fn new(keys: Keys) -> Self {
        Self { keys, open: None }
    }

    /// Whether anything is to be known of a table.
    pub fn knows(&self, table: &str) -> bool {
        self.keys.contains_key(table)
    }

    pub fn begin(&mut self, id: String) {
        self.open = Some(Commit { id, ..Commit::default() });
    }

    /// The transaction, which is over; none if there was no beginning.
    pub fn commit(&mut self, time: Option<String>) -> Option<Commit> {
        Some(Commit { time, ..self.open.take()? })
    }

    /// None if the row does not tell its key, or no transaction is open; so below.
    pub fn insert(&mut self, table: &str, row: Row) -> Option<()> {
        let key = key_of(&self.keys, table, &row)?;
        self.push(table, key, Some(row), true)
    }

    /// An update with what there was before, as far as the log tells: at least the key, if it
    /// changed. A row with another key is another row.
    pub fn update(&mut self, table: &str, old: Option<&Row>, row: Row) -> Option<()> {
        let key = key_of(&self.keys, table, &row)?;
        let before = old.map_or_else(|| Some(key.clone()), |old| key_of(&self.keys, table, old))?;
        let moved = before != key;
        if moved {
            self.push(table, before, None, false)?;
        }
        self.push(table, key, Some(row), moved)
    }

    pub fn delete(&mut self, table: &str, old: &Row) -> Option<()> {
        let key = key_of(&self.keys, table, old)?;
        self.push(table, key, None, false)
    }

    fn push(&mut self, table: &str, key: Vec<Datum>, row: Option<Row>, inserted: bool) -> Option<()> {
        let table = table.to_owned();
        self.open.as_mut()?.changes.push(Change { table, key, row, inserted });
        Some(())
    }
}

/// The key's values out of a row; none if it lacks one.
pub(crate) fn key_of(keys: &Keys, table: &str, row: &Row) -> Option<Vec<Datum>> {
    let value = |name: &String| row.iter().find(|column| column.0 == *name).map(|column| column.1.clone());
    keys.get(table)?.iter().map(value).collect()
}
