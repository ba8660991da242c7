//! Authors drive a database of their own that understands SQL, here SQLite in ten lines.

use std::path::PathBuf;
use std::time::Duration;

use margay_client::blocking::{AsyncSession, AsyncSqlStore, Blocking};
use margay_client::sql::{Session, SqlStore, SqlStored};
use margay_client::text::translate;
use margay_client::{Answer, Cell, Database, Trouble};
use margay_levels::Level;
use margay_runner::drive::{Options, run};
use margay_solve::Solve;
use margay_verdict::{Budget, Checker, Question, Verdict};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, params_from_iter};
use tempfile::TempDir;

struct Sqlite(TempDir);

impl Sqlite {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("own.sqlite")
    }

    fn open(&self) -> Result<SqliteSession, String> {
        let connection = Connection::open(self.file()).map_err(|error| error.to_string())?;
        // Whoever finds it locked is refused at once, so that no call waits.
        connection.busy_timeout(Duration::ZERO).map_err(|error| error.to_string())?;
        Ok(SqliteSession(connection))
    }
}

impl SqlStore for Sqlite {
    type Session<'a> = SqliteSession;

    fn connect(&self, _level: &str) -> Result<SqliteSession, String> {
        self.open()
    }
}

struct SqliteSession(Connection);

impl SqliteSession {
    fn run(&self, text: &str, params: &[Cell]) -> Result<Answer, rusqlite::Error> {
        let text = translate(text.trim_end_matches(" FOR UPDATE"), |number| format!("?{number}")).text;
        let mut statement = self.0.prepare_cached(&text)?;
        let params = params_from_iter(params.iter().map(|cell| match cell {
            Cell::Null => Value::Null,
            Cell::Int(int) => Value::Integer(*int),
            Cell::Text(text) => Value::Text(text.clone()),
        }));
        let columns = statement.column_count();
        if columns == 0 {
            return Ok(Answer { count: statement.execute(params)? as u64, ..Answer::default() });
        }
        let (mut rows, mut cells) = (statement.query(params)?, Vec::new());
        while let Some(row) = rows.next()? {
            for at in 0..columns {
                cells.push(match row.get(at)? {
                    Value::Null => Cell::Null,
                    Value::Integer(int) => Cell::Int(int),
                    Value::Text(text) => Cell::Text(text),
                    other => Cell::Text(format!("{other:?}")),
                });
            }
        }
        Ok(Answer { columns, cells, count: 0 })
    }
}

fn trouble(error: rusqlite::Error) -> Trouble {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Refused(error.to_string()),
        _ => Trouble::Failed(error.to_string()),
    }
}

impl Session for SqliteSession {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.0.execute_batch("BEGIN").map_err(trouble)
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        self.run(text, params).map_err(trouble)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.0.execute_batch("COMMIT").map_err(trouble)
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        if self.0.is_autocommit() { Ok(()) } else { self.0.execute_batch("ROLLBACK").map_err(trouble) }
    }
}

/// The same, asynchronously.
struct Later(Sqlite);

struct LaterSession(SqliteSession);

impl AsyncSqlStore for Later {
    type Session<'a> = LaterSession;

    async fn connect(&self, _level: &str) -> Result<LaterSession, String> {
        self.0.open().map(LaterSession)
    }
}

impl AsyncSession for LaterSession {
    async fn begin(&mut self) -> Result<(), Trouble> {
        tokio::task::yield_now().await;
        self.0.begin()
    }

    async fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        tokio::task::yield_now().await;
        self.0.sql(text, params)
    }

    async fn commit(&mut self) -> Result<(), Trouble> {
        self.0.commit()
    }

    async fn rollback(&mut self) -> Result<(), Trouble> {
        self.0.rollback()
    }
}

fn is_serializable(database: &dyn Database, workload: &str) {
    let options = Options { transactions: 100, ..Options::default() };
    let workload = workload.parse().expect("a workload");
    let recording = run(database, workload, &options).expect("a recording");
    assert!(recording.counts.committed > 10, "{workload}: {:?}", recording.counts);
    let budget = Budget::unlimited().with_time(Duration::from_secs(60));
    let verdict = Solve.check(&recording.history, Question::new(Level::Serializable), &budget);
    assert!(matches!(verdict, Verdict::Holds(_)), "{workload}: {verdict:?}");
}

#[test]
fn a_session_is_driven_by_objects() {
    for workload in ["mixed", "predicate", "list-append"] {
        is_serializable(&SqlStored(Sqlite::new()), workload);
    }
}

#[test]
fn a_session_is_driven_by_programs() {
    let database = SqlStored(Sqlite::new());
    let workload = "smallbank".parse().expect("a workload");
    let recording = run(&database, workload, &Options::default()).expect("a recording");
    assert!(recording.counts.committed > 10, "{:?}", recording.counts);
    assert!(recording.history.op_count() > 400);
}

#[test]
fn an_asynchronous_session_is_driven_too() {
    is_serializable(&SqlStored(Blocking::new(Later(Sqlite::new())).expect("a runtime")), "mixed");
}
