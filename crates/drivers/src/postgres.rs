//! PostgreSQL, and whatever speaks its protocol and says that it is PostgreSQL.

use margay_simdb::Start;
use postgres::types::{ToSql, Type};
use postgres::{Client, NoTls};

use crate::sql::{Cell, Session, Sql, Statement, Upsert, preparation, removal, texts};
use crate::{Connection, Database, Trouble};

pub(crate) struct PostgresDatabase {
    url: String,
    version: String,
}

impl PostgresDatabase {
    /// Asks the server who it is.
    pub fn open(url: &str) -> Result<Self, String> {
        let mut client = connect(url)?;
        let row = client.query_one("SHOW server_version", &[]).map_err(shown)?;
        let version: String = row.get(0);
        let number = version.split_whitespace().next().unwrap_or_default().to_owned();
        Ok(Self { url: url.to_owned(), version: number })
    }
}

fn connect(url: &str) -> Result<Client, String> {
    let mut client = Client::connect(url, NoTls).map_err(shown)?;
    client.batch_execute("SET client_min_messages = error").map_err(shown)?;
    Ok(client)
}

/// The server's own words, where there are some.
fn shown(error: postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => error.to_string(),
    }
}

impl Database for PostgresDatabase {
    fn identity(&self) -> (String, String) {
        ("postgresql".to_owned(), self.version.clone())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"]
    }

    fn prepare(&self, _own_name: &str, start: &Start) -> Result<(), String> {
        connect(&self.url)?.batch_execute(&preparation(start).join(";")).map_err(shown)
    }

    fn connect(&self, _client: usize, own_name: &str) -> Result<Box<dyn Connection>, String> {
        let mut client = connect(&self.url)?;
        let mut statements = Vec::new();
        for text in texts(Upsert::OnConflict) {
            statements.push(client.prepare(&numbered(&text)).map_err(shown)?);
        }
        let begin = format!("BEGIN ISOLATION LEVEL {own_name}");
        Ok(Box::new(Sql(PostgresSession { client, statements, begin })))
    }

    fn clean_up(&self) {
        if let Ok(mut client) = connect(&self.url) {
            let _ = client.batch_execute(&removal().join(";"));
        }
    }
}

/// `?` as `$1`, `$2`, …
fn numbered(text: &str) -> String {
    let mut parts = text.split('?');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        out += &format!("${}{part}", number + 1);
    }
    out
}

struct PostgresSession {
    client: Client,
    statements: Vec<postgres::Statement>,
    begin: String,
}

fn parameters(cells: &[Cell]) -> Vec<&(dyn ToSql + Sync)> {
    cells.iter().map(parameter).collect()
}

fn parameter(cell: &Cell) -> &(dyn ToSql + Sync) {
    match cell {
        Cell::Int(int) => int,
        Cell::Text(text) => text,
    }
}

fn cells(row: &postgres::Row) -> Vec<Cell> {
    let cell = |(at, column): (usize, &postgres::Column)| match *column.type_() {
        Type::INT8 => Cell::Int(row.get(at)),
        _ => Cell::Text(row.get(at)),
    };
    row.columns().iter().enumerate().map(cell).collect()
}

impl Session for PostgresSession {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.client.batch_execute(&self.begin).map_err(trouble)
    }

    fn query(&mut self, which: Statement, cells_in: &[Cell]) -> Result<Vec<Vec<Cell>>, Trouble> {
        let statement = &self.statements[which as usize];
        let rows = self.client.query(statement, &parameters(cells_in)).map_err(trouble)?;
        Ok(rows.iter().map(cells).collect())
    }

    fn change(&mut self, which: Statement, cells_in: &[Cell]) -> Result<u64, Trouble> {
        self.client.execute(&self.statements[which as usize], &parameters(cells_in)).map_err(trouble)
    }

    /// A COMMIT in a transaction that has failed is no error: it is answered with the tag ROLLBACK, which the client library does not show. A
    /// statement before it in the same message fails in such a transaction, and takes the COMMIT with it.
    fn commit(&mut self) -> Result<(), Trouble> {
        let committed = self.client.batch_execute("SELECT 1; COMMIT").map_err(commit_trouble);
        match committed {
            Err(Trouble::Refused(why)) => self.rollback().and(Err(Trouble::Refused(why))),
            other => other,
        }
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.client.batch_execute("ROLLBACK").map_err(trouble)
    }
}

/// Class 40 is "transaction rollback"; the others are timeouts of locks and statements, and a transaction that has failed before.
fn is_refusal(code: &str) -> bool {
    code.starts_with("40") && code != "40003" || matches!(code, "55P03" | "57014" | "25P02" | "25P03")
}

fn trouble(error: postgres::Error) -> Trouble {
    let code = error.code().map(|code| code.code().to_owned());
    match code.as_deref() {
        Some(code) if is_refusal(code) => Trouble::Refused(shown(error)),
        // The administrator ends connections, or the server ends.
        Some(code) if code.starts_with("57P") || code.starts_with("08") => Trouble::Lost(shown(error)),
        Some(_) => Trouble::Failed(shown(error)),
        None => Trouble::Lost(error.to_string()),
    }
}

/// Only a refusal says that a commit did not happen.
fn commit_trouble(error: postgres::Error) -> Trouble {
    match trouble(error) {
        Trouble::Failed(why) => Trouble::Lost(why),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("COMMIT"), "COMMIT");
    }

    #[test]
    fn refusals() {
        assert!(is_refusal("40001") && is_refusal("40P01") && is_refusal("25P02"));
        assert!(!is_refusal("40003") && !is_refusal("42601") && !is_refusal("57P01"));
    }
}
