//! MariaDB, MySQL, and what speaks their protocol and says its name.

use margay_simdb::Start;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Params};

use crate::sql::{Cell, Session, Sql, Statement, Upsert, preparation, removal, texts};
use crate::{Connection, Database, Trouble};

pub(crate) struct MysqlDatabase {
    options: Opts,
    dbms: &'static str,
    version: String,
}

impl MysqlDatabase {
    /// Asks the server who it is.
    pub fn open(url: &str) -> Result<Self, String> {
        let url = url.replacen("mariadb://", "mysql://", 1);
        let options = Opts::from_url(&url).map_err(|error| error.to_string())?;
        let options = Opts::from(OptsBuilder::from_opts(options).prefer_socket(false));
        let told: Option<String> = connect(&options)?.query_first("SELECT VERSION()").map_err(shown)?;
        let (dbms, version) = identity(&told.unwrap_or_default());
        Ok(Self { options, dbms, version })
    }
}

/// `10.11.19-MariaDB-0+deb12u1`, `8.0.46`, `8.0.11-TiDB-v7.5.0`.
fn identity(told: &str) -> (&'static str, String) {
    if let Some((_, version)) = told.split_once("-TiDB-v") {
        return ("tidb", version.to_owned());
    }
    let number = told.split('-').next().unwrap_or_default().to_owned();
    (if told.contains("MariaDB") { "mariadb" } else { "mysql" }, number)
}

fn connect(options: &Opts) -> Result<Conn, String> {
    Conn::new(options.clone()).map_err(shown)
}

fn shown(error: mysql::Error) -> String {
    match error {
        mysql::Error::MySqlError(error) => format!("{} ({})", error.message, error.code),
        other => other.to_string(),
    }
}

impl Database for MysqlDatabase {
    fn identity(&self) -> (String, String) {
        (self.dbms.to_owned(), self.version.clone())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED"]
    }

    fn prepare(&self, _own_name: &str, start: &Start) -> Result<(), String> {
        let mut connection = connect(&self.options)?;
        preparation(start).iter().try_for_each(|text| connection.query_drop(text)).map_err(shown)
    }

    fn connect(&self, _client: usize, own_name: &str) -> Result<Box<dyn Connection>, String> {
        let mut connection = connect(&self.options)?;
        connection
            .query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {own_name}"))
            .map_err(shown)?;
        connection.query_drop("SET SESSION innodb_lock_wait_timeout = 1").map_err(shown)?;
        let mut statements = Vec::new();
        for text in texts(Upsert::OnDuplicateKey) {
            statements.push(connection.prep(text).map_err(shown)?);
        }
        Ok(Box::new(Sql(MysqlSession { connection, statements })))
    }

    fn clean_up(&self) {
        if let Ok(mut connection) = connect(&self.options) {
            removal().iter().for_each(|text| drop(connection.query_drop(text)));
        }
    }
}

struct MysqlSession {
    connection: Conn,
    statements: Vec<mysql::Statement>,
}

fn parameters(cells: &[Cell]) -> Params {
    let value = |cell: &Cell| match cell {
        Cell::Int(int) => mysql::Value::Int(*int),
        Cell::Text(text) => mysql::Value::Bytes(text.clone().into_bytes()),
    };
    Params::Positional(cells.iter().map(value).collect())
}

fn cell(value: mysql::Value) -> Cell {
    match value {
        mysql::Value::Int(int) => Cell::Int(int),
        mysql::Value::Bytes(bytes) => Cell::Text(String::from_utf8_lossy(&bytes).into_owned()),
        other => Cell::Text(format!("{other:?}")),
    }
}

impl MysqlSession {
    fn control(&mut self, text: &str) -> Result<(), Trouble> {
        self.connection.query_drop(text).map_err(trouble)
    }
}

impl Session for MysqlSession {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.control("START TRANSACTION")
    }

    fn query(&mut self, which: Statement, cells: &[Cell]) -> Result<Vec<Vec<Cell>>, Trouble> {
        let statement = &self.statements[which as usize];
        let rows: Vec<mysql::Row> = self.connection.exec(statement, parameters(cells)).map_err(trouble)?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(cell).collect()).collect())
    }

    fn change(&mut self, which: Statement, cells: &[Cell]) -> Result<u64, Trouble> {
        let statement = &self.statements[which as usize];
        self.connection.exec_drop(statement, parameters(cells)).map_err(trouble)?;
        Ok(self.connection.affected_rows())
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        match self.control("COMMIT") {
            Err(Trouble::Refused(why)) => self.rollback().and(Err(Trouble::Refused(why))),
            Err(Trouble::Failed(why)) => Err(Trouble::Lost(why)),
            other => other,
        }
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.control("ROLLBACK")
    }
}

/// A lock that did not come in time, a deadlock, a record changed since the snapshot.
const REFUSALS: [u16; 3] = [1205, 1213, 1020];

/// The server shuts down, or the connection was killed.
const ENDS: [u16; 3] = [1053, 1317, 1927];

fn trouble(error: mysql::Error) -> Trouble {
    match &error {
        mysql::Error::MySqlError(told) if REFUSALS.contains(&told.code) => Trouble::Refused(shown(error)),
        mysql::Error::MySqlError(told) if !ENDS.contains(&told.code) => Trouble::Failed(shown(error)),
        _ => Trouble::Lost(shown(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart() {
        assert_eq!(identity("10.11.19-MariaDB-0+deb12u1"), ("mariadb", "10.11.19".to_owned()));
        assert_eq!(identity("8.0.46"), ("mysql", "8.0.46".to_owned()));
        assert_eq!(identity("8.0.11-TiDB-v7.5.0"), ("tidb", "7.5.0".to_owned()));
    }
}
