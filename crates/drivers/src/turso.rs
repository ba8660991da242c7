//! Turso, SQLite written anew, in its concurrent mode: `PRAGMA journal_mode = 'mvcc'` and `BEGIN
//! CONCURRENT`.

use std::path::Path;

use margay_client::Start;
use tokio::runtime::{Builder, Runtime};
use turso::{Connection as Turso, Error, Value};

use crate::folder::Folder;
use crate::sql::{Session, Sql, Upsert, preparation, removal, texts};
use crate::statement::{self, translate};
use crate::{Answer, Cell, Connection, Database, Schema, Trouble};

/// A test compares it with the lock file.
pub(crate) const VERSION: &str = "0.8";

pub(crate) struct TursoDatabase {
    database: turso::Database,
    runtime: Runtime,
    _folder: Option<Folder>,
}

impl TursoDatabase {
    /// Opens the database of this file; without one, in a temporary folder.
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        let (folder, file) = Folder::or_file(path, "margay.turso")?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let database = runtime.block_on(turso::Builder::new_local(&file.display().to_string()).build());
        Ok(Self { database: database.map_err(|error| error.to_string())?, runtime, _folder: folder })
    }

    fn connection(&self) -> Result<Turso, String> {
        let connection = self.database.connect().map_err(|error| error.to_string())?;
        let mvcc = self.runtime.block_on(connection.pragma_update("journal_mode", "'mvcc'"));
        mvcc.map(|_| connection).map_err(|error| error.to_string())
    }

    fn execute(&self, texts: Vec<String>) -> Result<(), String> {
        let connection = self.connection()?;
        let execute = |text: &String| self.runtime.block_on(connection.execute(text, ())).map(drop);
        texts.iter().try_for_each(execute).map_err(|error| error.to_string())
    }
}

impl Database for TursoDatabase {
    fn identity(&self) -> (String, String) {
        ("turso".to_owned(), VERSION.to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["CONCURRENT"]
    }

    fn prepare(&self, _own_name: &str, start: &Start) -> Result<(), String> {
        self.execute(preparation(start))
    }

    fn connect(&self, _client: usize, _own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        let connection = self.connection()?;
        let session = TursoSession { runtime: &self.runtime, connection };
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

struct TursoSession<'a> {
    runtime: &'a Runtime,
    connection: Turso,
}

impl TursoSession<'_> {
    fn control(&self, text: &str) -> Result<(), Trouble> {
        self.runtime.block_on(self.connection.execute(text, ())).map(drop).map_err(trouble)
    }

    fn run(&self, text: &str, params: &[Cell]) -> Result<Answer, Error> {
        self.runtime.block_on(async {
            let mut statement = self.connection.prepare_cached(text).await?;
            let columns = statement.column_count();
            if columns == 0 {
                let count = statement.execute(parameters(params)).await?;
                return Ok(Answer { count, ..Answer::default() });
            }
            let mut rows = statement.query(parameters(params)).await?;
            let mut cells = Vec::new();
            while let Some(row) = rows.next().await? {
                for at in 0..columns {
                    cells.push(cell(row.get_value(at)?));
                }
            }
            Ok(Answer { columns, cells, count: 0 })
        })
    }
}

fn parameters(cells: &[Cell]) -> Vec<Value> {
    let value = |cell: &Cell| match cell {
        Cell::Null => Value::Null,
        Cell::Int(int) => Value::Integer(*int),
        Cell::Text(text) => Value::Text(text.clone()),
    };
    cells.iter().map(value).collect()
}

fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Integer(int) => Cell::Int(int),
        Value::Text(text) => Cell::Text(text),
        other => Cell::Text(format!("{other:?}")),
    }
}

impl Session for TursoSession<'_> {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.control("BEGIN CONCURRENT")
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        let text = translate(text.trim_end_matches(" FOR UPDATE"), |number| format!("?{number}")).text;
        self.run(&text, params).map_err(|error| match error {
            // A constraint that a program runs into ends its transaction; the program goes on.
            Error::Constraint(why) => Trouble::Refused(why),
            other => trouble(other),
        })
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.control("COMMIT")
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        // Some errors roll back by themselves.
        if self.connection.is_autocommit().unwrap_or(false) { Ok(()) } else { self.control("ROLLBACK") }
    }
}

/// As its own documentation decides whether to try again.
fn trouble(error: Error) -> Trouble {
    match &error {
        Error::Busy(_) | Error::BusySnapshot(_) => Trouble::Refused(error.to_string()),
        Error::Error(told) if told.contains("conflict") => Trouble::Refused(error.to_string()),
        _ => Trouble::Failed(error.to_string()),
    }
}
