//! A profile in a TOML file, for a database that is not among the rows, or that is configured in
//! another way.
//!
//! ```toml
//! like = "postgresql/repeatable-read"   # everything that is not said is as there
//! dbms = "our-fork"
//! level = "REPEATABLE READ"             # the level in the database's own words
//! consistent-read = "begin"             # statement, begin, first-statement, first-read, within, none
//! mutual-exclusion = "row"              # row, database, none
//! first-updater-wins = true
//! skips-unchanged = false               # true where a write that leaves a row as it was makes no version
//! certifier = "none"                    # ssi, timestamp-order, occ, percolator, none
//! one-clock = true                      # false where timestamps come from the clocks of several servers
//! promises = ["snapshot-isolation"]     # levels of `margay levels`
//! note = "The snapshot is taken by BEGIN."
//!
//! [statements.select]                   # also select-for-share, select-for-update, insert, update, delete
//! lock = "none"                         # none, share-statement, share, exclusive
//! read = "snapshot"                     # uncommitted, snapshot, newest, snapshot-then-newest
//! predicate = "none"                    # none, blocking, remembered
//! ```
//!
//! # Invariants
//! A key that means nothing here is an error: a typing error must not weaken a profile silently.

use std::fmt;

use toml::{Table, Value};

use super::{
    Certifier, Dbms, Found, Granularity, Lock, Mode, PredicateLock, Profile, Read, Snapshot, Statement,
};
use crate::Level;
use crate::names::fold;

/// Why a profile file is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadProfile(String);

impl fmt::Display for BadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadProfile {}

type Result<T> = std::result::Result<T, BadProfile>;

fn bad<T>(what: impl Into<String>) -> Result<T> {
    Err(BadProfile(what.into()))
}

impl Dbms {
    /// Reads the text of a profile file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_toml(text: &str) -> Result<Self> {
        parse(text).map(|profile| Dbms::Own(Box::new(profile)))
    }
}

/// The profile that a file describes.
fn parse(text: &str) -> Result<Profile> {
    let mut table: Table = text.parse().map_err(|error| BadProfile(format!("{error}")))?;
    let mut profile = base(&mut table)?;
    if let Some(dbms) = string(&mut table, "dbms")? {
        profile.dbms = kept(fold(&dbms));
    }
    if let Some(level) = string(&mut table, "level")? {
        profile.own_name = kept(level);
    }
    if let Some(note) = string(&mut table, "note")? {
        profile.note = kept(note);
    }
    mechanisms(&mut table, &mut profile)?;
    if let Some(promises) = table.remove("promises") {
        profile.promises = Vec::leak(levels(&promises)?);
    }
    if let Some(statements) = table.remove("statements") {
        modes(statements, &mut profile)?;
    }
    if let Some(key) = table.keys().next() {
        return bad(format!("unknown key `{key}`"));
    }
    match profile.contradiction() {
        Some(why) => bad(format!("the profile contradicts itself: {why}")),
        None => Ok(profile),
    }
}

/// The row to start from; without one, that of any database, which promises nothing yet.
fn base(table: &mut Table) -> Result<Profile> {
    match string(table, "like")? {
        Some(name) => match name.parse::<Found>() {
            Ok(Found(profile)) => Ok(Profile { since: &[], default: true, cites: &[], ..*profile }),
            Err(unknown) => bad(unknown.to_string()),
        },
        None => match "generic".parse::<Found>() {
            Ok(Found(profile)) => Ok(Profile { promises: &[], note: "", cites: &[], ..*profile }),
            Err(unknown) => bad(unknown.to_string()),
        },
    }
}

fn mechanisms(table: &mut Table, profile: &mut Profile) -> Result<()> {
    if let Some(word) = string(table, "consistent-read")? {
        profile.consistent_read = optional("consistent-read", &word, &Snapshot::ALL, Snapshot::name)?;
    }
    if let Some(word) = string(table, "mutual-exclusion")? {
        profile.mutual_exclusion = optional("mutual-exclusion", &word, &Granularity::ALL, Granularity::name)?;
    }
    if let Some(word) = string(table, "certifier")? {
        profile.certifier = optional("certifier", &word, &Certifier::ALL, Certifier::name)?;
    }
    if let Some(is) = boolean(table, "first-updater-wins")? {
        profile.first_updater_wins = is;
    }
    if let Some(is) = boolean(table, "skips-unchanged")? {
        profile.skips_unchanged = is;
    }
    if let Some(is) = boolean(table, "one-clock")? {
        profile.one_clock = is;
    }
    Ok(())
}

fn levels(value: &Value) -> Result<Vec<Level>> {
    let Some(names) = value.as_array() else { return bad("`promises` is a list of levels") };
    let level = |name: &Value| match name.as_str().map(str::parse::<Level>) {
        Some(Ok(level)) => Ok(level),
        Some(Err(unknown)) => bad(unknown.to_string()),
        None => bad("`promises` is a list of levels"),
    };
    names.iter().map(level).collect()
}

fn modes(statements: Value, profile: &mut Profile) -> Result<()> {
    let Value::Table(statements) = statements else { return bad("`statements` is a table") };
    for (name, mode) in statements {
        let known = Statement::ALL.into_iter().find(|statement| fold(statement.name()) == fold(&name));
        let (Some(statement), Value::Table(mut table)) = (known, mode) else {
            return bad(format!("`statements.{name}` is no table of a kind of statement"));
        };
        let mode = &mut profile.modes[statement as usize];
        one_mode(&mut table, mode)?;
        if let Some(key) = table.keys().next() {
            return bad(format!("unknown key `statements.{name}.{key}`"));
        }
    }
    Ok(())
}

const LOCKS: [(&str, Lock); 4] = [
    ("none", Lock::None),
    ("share-statement", Lock::ShareStatement),
    ("share", Lock::Share),
    ("exclusive", Lock::Exclusive),
];

const READS: [(&str, Read); 4] = [
    ("uncommitted", Read::Uncommitted),
    ("snapshot", Read::Snapshot),
    ("newest", Read::Newest),
    ("snapshot-then-newest", Read::SnapshotThenNewest),
];

const PREDICATES: [(&str, PredicateLock); 3] = [
    ("none", PredicateLock::None),
    ("blocking", PredicateLock::Blocking),
    ("remembered", PredicateLock::Remembered),
];

fn one_mode(table: &mut Table, mode: &mut Mode) -> Result<()> {
    if let Some(word) = string(table, "lock")? {
        mode.lock = one_of("lock", &word, &LOCKS)?;
    }
    if let Some(word) = string(table, "read")? {
        mode.read = one_of("read", &word, &READS)?;
    }
    if let Some(word) = string(table, "predicate")? {
        mode.predicate = one_of("predicate", &word, &PREDICATES)?;
    }
    Ok(())
}

fn one_of<T: Copy>(key: &str, word: &str, all: &[(&str, T)]) -> Result<T> {
    match all.iter().find(|(name, _)| fold(name) == fold(word)) {
        Some(&(_, value)) => Ok(value),
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            bad(format!("`{key}` is one of {}, not `{word}`", names.join(", ")))
        }
    }
}

fn optional<T: Copy>(key: &str, word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<Option<T>> {
    let folded: Vec<String> = all.iter().map(|&value| fold(name(value))).collect();
    let known = folded.iter().map(String::as_str).zip(all.iter().map(|&value| Some(value)));
    let words: Vec<(&str, Option<T>)> = known.chain([("none", None)]).collect();
    one_of(key, word, &words)
}

fn string(table: &mut Table, key: &str) -> Result<Option<String>> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => bad(format!("`{key}` is a text")),
    }
}

fn boolean(table: &mut Table, key: &str) -> Result<Option<bool>> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::Boolean(is)) => Ok(Some(is)),
        Some(_) => bad(format!("`{key}` is true or false")),
    }
}

/// A profile's texts live as long as the program: it reads one file or two.
fn kept(text: String) -> &'static str {
    String::leak(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_a_row() {
        let text = "like = \"postgresql/repeatable-read\"\ndbms = \"Our Fork\"\nconsistent-read = \"begin\"\n\
            promises = [\"SI\"]\nfirst-updater-wins = false\n[statements.update]\nread = \"newest\"\n";
        let profile = parse(text).expect("a profile");
        assert_eq!(profile.name(), "our-fork/repeatable-read");
        assert_eq!(profile.consistent_read, Some(Snapshot::Begin));
        assert_eq!(profile.promises, [Level::SnapshotIsolation]);
        assert_eq!(profile.mode(Statement::Update).read, Read::Newest);
        assert!(!profile.first_updater_wins && profile.mutual_exclusion == Some(Granularity::Row));
    }

    #[test]
    fn a_file_without_a_row_says_what_it_promises() {
        let profile =
            parse("dbms = \"x\"\nlevel = \"y\"\npromises = [\"serializable\"]\n").expect("a profile");
        assert_eq!((profile.name().as_str(), profile.mutual_exclusion), ("x/y", None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("dbms = \"x\"", "it promises nothing"),
            ("like = \"postgre\"", "unknown profile"),
            ("like = \"pg\"\nconsistent_read = \"begin\"", "unknown key `consistent_read`"),
            (
                "like = \"pg\"\nconsistent-read = \"end\"",
                "first-statement, first-read, within, none, not `end`",
            ),
            ("like = \"pg\"\npromises = [\"best\"]", "unknown level"),
            ("like = \"pg\"\nmutual-exclusion = \"none\"", "contradicts itself"),
            ("like = \"pg\"\n[statements.select]\nlocks = \"none\"", "unknown key `statements.select.locks`"),
            ("like = \"pg\"\n[statements.merge]\nlock = \"none\"", "no table of a kind"),
            ("like = ", "TOML parse error"),
        ];
        for (text, expected) in cases {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
