//! SQLite, which is part of the program.
//!
//! Its two levels are its two journals: `WAL` lets readers go on beside the one writer,
//! `SERIALIZABLE` is the rollback journal, where they exclude each other; `READ UNCOMMITTED` is
//! SQLite's pragma of that name, which counts only among connections that share one cache.
//! Transactions are deferred unless the target says otherwise: they begin as readers, and one that
//! wants to write after somebody else did is refused.
//!
//! Connections that share one cache lock tables and see no snapshots, in `WAL` neither: profiles
//! know that as a database of its own.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use margay_client::Start;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection as Sqlite, ErrorCode, OpenFlags, params_from_iter};
use tempfile::TempDir;

use crate::sql::{Session, Sql, Upsert, preparation, removal, texts};
use crate::statement::{self, translate};
use crate::{Answer, Cell, Connection, Database, Schema, Trouble};

/// The level that lets transactions see what others have not committed.
const UNCOMMITTED: &str = "READ UNCOMMITTED";
/// How long a writer waits for another before it looks again, and how often it looks.
///
/// SQLite's own waits grow to a tenth of a second each, in which others do thousands of
/// transactions here, and a waiting client meets nobody.
const NAP: Duration = Duration::from_micros(200);
const LOOKS: i32 = 1000;

/// How a target wants SQLite to be used.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mode {
    /// How transactions begin.
    pub begin: Begin,
    /// Whether connections share one cache: then tables are locked, and not files.
    pub shared: bool,
}

/// How transactions begin.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Begin {
    /// As readers.
    #[default]
    Deferred,
    /// As writers.
    Immediate,
    /// As writers beside whom nobody reads, in the rollback journal.
    Exclusive,
}

impl Begin {
    const ALL: [(Begin, &str, &str); 3] = [
        (Begin::Deferred, "deferred", "BEGIN"),
        (Begin::Immediate, "immediate", "BEGIN IMMEDIATE"),
        (Begin::Exclusive, "exclusive", "BEGIN EXCLUSIVE"),
    ];
}

impl FromStr for Mode {
    type Err = String;

    /// What stands behind the `?` of a target: `begin=immediate&cache=shared`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut mode = Mode::default();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let begin = || Begin::ALL.into_iter().find(|(_, name, _)| option == format!("begin={name}"));
            match (option, begin()) {
                ("cache=shared", _) => mode.shared = true,
                ("cache=private", _) => mode.shared = false,
                (_, Some((begin, ..))) => mode.begin = begin,
                _ => {
                    return Err(format!(
                        "`{option}` is no option of sqlite; there are begin=deferred|immediate|exclusive and cache=private|shared"
                    ));
                }
            }
        }
        Ok(mode)
    }
}

impl fmt::Display for Mode {
    /// Nothing where it is as usual.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begin =
            Begin::ALL.into_iter().find(|(begin, ..)| *begin == self.begin && *begin != Begin::Deferred);
        match (begin, self.shared) {
            (None, false) => Ok(()),
            (None, true) => f.write_str("?cache=shared"),
            (Some((_, name, _)), false) => write!(f, "?begin={name}"),
            (Some((_, name, _)), true) => write!(f, "?begin={name}&cache=shared"),
        }
    }
}

pub(crate) struct SqliteDatabase {
    mode: Mode,
    file: PathBuf,
    /// Removed with the database.
    _folder: Option<TempDir>,
}

impl SqliteDatabase {
    /// A database in a temporary folder.
    pub fn temporary(mode: Mode) -> Result<Self, String> {
        let folder =
            TempDir::with_prefix("margay-").map_err(|error| format!("no temporary folder: {error}"))?;
        Ok(Self { mode, file: folder.path().join("margay.sqlite"), _folder: Some(folder) })
    }

    /// The database of this file, which is made if need be.
    pub fn file(path: &Path, mode: Mode) -> Self {
        Self { mode, file: path.to_owned(), _folder: None }
    }

    fn connection(&self, own_name: &str) -> Result<Sqlite, String> {
        let open = || {
            let mut flags = OpenFlags::default();
            flags.set(OpenFlags::SQLITE_OPEN_SHARED_CACHE, self.mode.shared || own_name == UNCOMMITTED);
            let mut connection = Sqlite::open_with_flags(&self.file, flags)?;
            connection.busy_handler(Some(wait))?;
            connection.pragma_update_and_check(None, "journal_mode", journal(own_name), |_| Ok(()))?;
            // Nothing here outlives a crash of the machine, so nothing needs to reach its disk.
            connection.pragma_update(None, "synchronous", "off")?;
            connection.pragma_update(None, "read_uncommitted", own_name == UNCOMMITTED)?;
            Ok(connection)
        };
        open().map_err(|error: rusqlite::Error| format!("{}: {error}", self.file.display()))
    }
}

impl Database for SqliteDatabase {
    fn identity(&self) -> (String, String) {
        let name = if self.mode.shared { "sqlite-shared" } else { "sqlite" };
        (name.to_owned(), rusqlite::version().to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["WAL", "SERIALIZABLE", UNCOMMITTED]
    }

    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String> {
        let connection = self.connection(own_name)?;
        is_journal(&connection, own_name)?;
        connection.execute_batch(&preparation(start).join(";")).map_err(|error| error.to_string())
    }

    fn connect(&self, _client: usize, own_name: &str) -> Result<Box<dyn Connection>, String> {
        let connection = self.connection(own_name)?;
        let mode = self.mode.begin;
        let begin =
            Begin::ALL.into_iter().find(|(begin, ..)| *begin == mode).map_or("BEGIN", |(.., text)| text);
        let session = SqliteSession { connection, begin, translated: HashMap::new() };
        Ok(Box::new(Sql::new(session, texts(Upsert::OnConflict))))
    }

    fn prepare_sql(&self, own_name: &str, schema: &Schema) -> Result<(), String> {
        let connection = self.connection(own_name)?;
        is_journal(&connection, own_name)?;
        let texts = statement::creation(schema).join(";");
        connection.execute_batch(&format!("BEGIN; {texts}; COMMIT")).map_err(|error| error.to_string())
    }

    fn clean_up_sql(&self, schema: &Schema) {
        if let Ok(connection) = self.connection("SERIALIZABLE") {
            let _ = connection.execute_batch(&statement::removal(schema).join(";"));
        }
    }

    fn clean_up(&self) {
        if let Ok(connection) = self.connection("SERIALIZABLE") {
            let _ = connection.execute_batch(&removal().join(";"));
        }
    }
}

fn journal(own_name: &str) -> &'static str {
    if own_name == "WAL" { "wal" } else { "delete" }
}

/// SQLite keeps the journal that a file has while others use it, and says nothing. Reads of one
/// journal would be held against the promise of the other.
fn is_journal(connection: &Sqlite, own_name: &str) -> Result<(), String> {
    let kept: Result<String, _> = connection.pragma_query_value(None, "journal_mode", |row| row.get(0));
    match kept {
        Ok(kept) if kept != journal(own_name) => {
            Err(format!("the file is in use, and keeps the journal mode `{kept}`; {own_name} is another"))
        }
        kept => kept.map(drop).map_err(|error| error.to_string()),
    }
}

fn wait(looks: i32) -> bool {
    thread::sleep(NAP);
    looks < LOOKS
}

struct SqliteSession {
    connection: Sqlite,
    begin: &'static str,
    /// Texts as SQLite understands them.
    translated: HashMap<String, String>,
}

/// A cell as a parameter.
struct Parameter<'a>(&'a Cell);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            Cell::Null => rusqlite::types::Null.to_sql(),
            Cell::Int(int) => int.to_sql(),
            Cell::Text(text) => text.to_sql(),
        }
    }
}

impl SqliteSession {
    fn control(&self, text: &str) -> Result<(), Trouble> {
        self.connection.execute_batch(text).map_err(trouble)
    }
}

impl SqliteSession {
    fn run(&self, text: &str, params: &[Cell]) -> rusqlite::Result<Answer> {
        let mut statement = self.connection.prepare_cached(text)?;
        let (columns, params) = (statement.column_count(), params_from_iter(params.iter().map(Parameter)));
        if columns == 0 {
            let count = statement.execute(params)? as u64;
            return Ok(Answer { count, ..Answer::default() });
        }
        let (mut rows, mut cells) = (statement.query(params)?, Vec::new());
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                cells.push(cell(row.get_ref(column)?));
            }
        }
        Ok(Answer { columns, cells, count: 0 })
    }
}

/// A lock on rows is nothing that SQLite knows, or needs.
fn translated(text: &str) -> String {
    translate(text.trim_end_matches(" FOR UPDATE"), |number| format!("?{number}")).text
}

impl Session for SqliteSession {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.control(self.begin)
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        if !self.translated.contains_key(text) {
            self.translated.insert(text.to_owned(), translated(text));
        }
        self.run(&self.translated[text], params).map_err(sql_trouble)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.control("COMMIT")
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        // Some errors roll back by themselves.
        if self.connection.is_autocommit() { Ok(()) } else { self.control("ROLLBACK") }
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(int) => Cell::Int(int),
        ValueRef::Real(real) => Cell::Text(real.to_string()),
        other => Cell::Text(other.as_str().unwrap_or_default().to_owned()),
    }
}

fn trouble(error: rusqlite::Error) -> Trouble {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Refused(error.to_string()),
        _ => Trouble::Failed(error.to_string()),
    }
}

/// A constraint that a program runs into ends its transaction; the program goes on.
fn sql_trouble(error: rusqlite::Error) -> Trouble {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => Trouble::Refused(error.to_string()),
        _ => trouble(error),
    }
}
