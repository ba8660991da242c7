//! DuckDB, through its library: snapshots, and writes of rows that somebody else has changed since
//! are refused at once.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use duckdb::types::Value;
use duckdb::{Connection as Duck, Error, params_from_iter};
use margay_client::Start;

use crate::folder::Folder;
use crate::sql::{Session, Sql, Upsert, preparation, removal, texts};
use crate::{Answer, Cell, Connection, Database, Schema, Trouble, statement};

pub(crate) struct DuckDatabase {
    /// Connections to one database in one process come from one another.
    first: Mutex<Duck>,
    version: String,
    _folder: Option<Folder>,
}

impl DuckDatabase {
    /// Opens the database of this file; without one, in a temporary folder.
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        let (folder, file) = Folder::or_file(path, "margay.duckdb")?;
        let first = Duck::open(file).map_err(|error| error.to_string())?;
        let version = first.version().map_err(|error| error.to_string())?;
        let version = version.trim_start_matches('v').to_owned();
        Ok(Self { first: Mutex::new(first), version, _folder: folder })
    }

    fn connection(&self) -> Result<Duck, String> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.try_clone().map_err(|error| error.to_string())
    }

    /// Without indexes of our own: they make updates of what they cover deletes and inserts, which
    /// are refused for other reasons than conflicts.
    fn execute(&self, texts: Vec<String>) -> Result<(), String> {
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.starts_with("CREATE INDEX")).collect();
        self.connection()?.execute_batch(&texts.join(";")).map_err(|error| error.to_string())
    }
}

impl Database for DuckDatabase {
    fn identity(&self) -> (String, String) {
        ("duckdb".to_owned(), self.version.clone())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["SNAPSHOT"]
    }

    fn prepare(&self, _own_name: &str, start: &Start) -> Result<(), String> {
        self.execute(preparation(start))
    }

    fn connect(&self, _client: usize, _own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        let session = DuckSession { connection: self.connection()? };
        Ok(Box::new(Sql::new(session, texts(Upsert::OnConflict))))
    }

    fn prepare_sql(&self, _own_name: &str, schema: &Schema) -> Result<(), String> {
        self.execute(statement::creation(schema))
    }

    fn clean_up_sql(&self, schema: &Schema) {
        let _ = self.execute(statement::removal(schema));
    }

    fn clean_up(&self) {
        let _ = self.execute(removal());
    }
}

struct DuckSession {
    connection: Duck,
}

fn parameter(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(int) => Value::BigInt(*int),
        Cell::Text(text) => Value::Text(text.clone()),
    }
}

fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::BigInt(int) => Cell::Int(int),
        Value::Int(int) => Cell::Int(int.into()),
        Value::HugeInt(int) => i64::try_from(int).map_or_else(|_| Cell::Text(int.to_string()), Cell::Int),
        Value::Text(text) => Cell::Text(text),
        other => Cell::Text(format!("{other:?}")),
    }
}

impl DuckSession {
    fn control(&self, text: &str) -> Result<(), Trouble> {
        self.connection.execute_batch(text).map_err(trouble)
    }

    fn run(&self, text: &str, params: &[Cell]) -> duckdb::Result<Answer> {
        let mut statement = self.connection.prepare_cached(text)?;
        let params = params_from_iter(params.iter().map(parameter));
        // Before it has run, a statement does not tell whether it has columns.
        if !text.starts_with("SELECT") && !text.contains("RETURNING") {
            let count = statement.execute(params)? as u64;
            return Ok(Answer { count, ..Answer::default() });
        }
        let mut rows = statement.query(params)?;
        let (mut columns, mut cells) = (0, Vec::new());
        while let Some(row) = rows.next()? {
            columns = row.as_ref().column_count();
            for at in 0..columns {
                cells.push(row.get(at).map(cell)?);
            }
        }
        Ok(Answer { columns, cells, count: 0 })
    }
}

impl Session for DuckSession {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.control("BEGIN TRANSACTION")
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        self.run(text.trim_end_matches(" FOR UPDATE"), params).map_err(trouble)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.control("COMMIT")
    }

    /// A commit that failed has rolled back by itself: then there is nothing to roll back, which is
    /// no trouble.
    fn rollback(&mut self) -> Result<(), Trouble> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        match self.control("ROLLBACK") {
            Err(Trouble::Failed(why) | Trouble::Refused(why)) if why.contains("no transaction is active") => {
                Ok(())
            }
            other => other,
        }
    }
}

/// Conflicts are told in words only.
fn trouble(error: Error) -> Trouble {
    let told = error.to_string();
    let refused = ["TransactionContext Error", "Conflict on", "write-write conflict", "Constraint Error"];
    if refused.iter().any(|part| told.contains(part)) {
        Trouble::Refused(told)
    } else {
        Trouble::Failed(told)
    }
}
