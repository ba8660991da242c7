//! TiDB: versions of rows, asked for when clients are done.
//!
//! Written from the documentation; never run against a live server. What the answers mean stands in
//! [`crate::tidb`].
//!
//! # Algorithm
//! While clients run, the keys of all rows are collected now and then; in the end the status port
//! is asked for the versions of each. What was committed before the run began is initial. A key
//! that came and went between two looks is not known; then the log lacks what a client wrote, and
//! that is told.

use std::collections::BTreeSet;

use margay_drivers::mysql_options;
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::log::{Commit, Datum};
use crate::source::Source;
use crate::tidb::{Written, ask, log, versions};

/// Whom to ask.
pub(crate) trait Server: Send {
    /// Runs a query; every value as text.
    fn query(&mut self, text: &str) -> Result<Vec<Vec<String>>, String>;

    /// Asks the status port.
    fn get(&mut self, path: &str) -> Result<String, String>;
}

pub(crate) struct Mvcc<S = Tidb> {
    server: S,
    database: String,
    /// The tables whose key is one integer, with its column.
    tables: Vec<(String, String)>,
    keys: BTreeSet<(String, i64)>,
    /// When the run began.
    since: i64,
}

impl Mvcc<Tidb> {
    pub fn open(url: &str) -> Result<Self, String> {
        Self::of(Tidb::open(url)?)
    }
}

impl<S: Server> Mvcc<S> {
    fn of(mut server: S) -> Result<Self, String> {
        let one = |rows: Vec<Vec<String>>, what: &str| {
            rows.into_iter().flatten().next().ok_or_else(|| format!("the server does not tell {what}"))
        };
        let database = one(server.query("SELECT DATABASE()")?, "its database")?;
        let tables = "SELECT table_name, MIN(column_name) FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND column_key = 'PRI' AND data_type LIKE '%int' \
             GROUP BY table_name HAVING COUNT(*) = 1";
        let named = |row: Vec<String>| Some((row.first()?.clone(), row.get(1)?.clone()));
        let tables = server.query(tables)?.into_iter().filter_map(named).collect();
        let since = one(server.query("BEGIN; SELECT @@tidb_current_ts; COMMIT")?, "its time")?;
        let since = since.parse().map_err(|_| format!("a time that is not understood: {since}"))?;
        Ok(Self { server, database, tables, keys: BTreeSet::new(), since })
    }
}

impl<S: Server> Source for Mvcc<S> {
    fn read(&mut self) -> Result<(), String> {
        for (table, column) in &self.tables {
            let rows = self.server.query(&format!("SELECT {column} FROM {table}"))?;
            let keys = rows.iter().filter_map(|row| row.first()?.parse().ok());
            self.keys.extend(keys.map(|key| (table.clone(), key)));
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Commit>, String> {
        self.read()?;
        let mut rows: Vec<(String, Vec<Datum>, Vec<Written>)> = Vec::new();
        for (table, key) in std::mem::take(&mut self.keys) {
            let answer = self.server.get(&format!("/mvcc/key/{}/{table}/{key}", self.database))?;
            let new = versions(&answer)?.into_iter().filter(|version| version.commit > self.since);
            rows.push((table, vec![Datum::Int(key)], new.collect()));
        }
        Ok(log(&rows))
    }
}

/// A server over its two ports.
pub(crate) struct Tidb {
    connection: Conn,
    status: String,
}

impl Tidb {
    fn open(url: &str) -> Result<Self, String> {
        let options = mysql_options(url)?;
        if options.get_ssl_opts().is_some() {
            return Err(
                "versions of rows come from TiDB's status port, which is asked without encryption; ssl-mode=DISABLED says that this will do"
                    .to_owned(),
            );
        }
        let mut connection = Conn::new(options).map_err(|error| error.to_string())?;
        let question = "SELECT status_address FROM information_schema.cluster_info WHERE type = 'tidb'";
        let status: Option<String> = connection.query_first(question).map_err(|error| error.to_string())?;
        Ok(Self { connection, status: status.ok_or("the server does not tell its status port")? })
    }
}

impl Server for Tidb {
    fn query(&mut self, text: &str) -> Result<Vec<Vec<String>>, String> {
        let mut all = Vec::new();
        for part in text.split("; ") {
            let rows: Vec<mysql::Row> = self.connection.query(part).map_err(|error| error.to_string())?;
            all.extend(rows.into_iter().map(|row| row.unwrap().into_iter().map(text_of).collect()));
        }
        Ok(all)
    }

    fn get(&mut self, path: &str) -> Result<String, String> {
        ask(&self.status, path)
    }
}

fn text_of(value: mysql::Value) -> String {
    match value {
        mysql::Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => other.as_sql(true).trim_matches('\'').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says what the documentation says such a server says.
    struct Written;

    impl Server for Written {
        fn query(&mut self, text: &str) -> Result<Vec<Vec<String>>, String> {
            let rows: &[&[&str]] = match text {
                "SELECT DATABASE()" => &[&["test"]],
                text if text.contains("information_schema") => &[&["margay_rows", "k"]],
                "BEGIN; SELECT @@tidb_current_ts; COMMIT" => &[&["100"]],
                "SELECT k FROM margay_rows" => &[&["1"], &["2"]],
                other => return Err(format!("nobody asks {other}")),
            };
            Ok(rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect())
        }

        fn get(&mut self, path: &str) -> Result<String, String> {
            Ok(match path {
                "/mvcc/key/test/margay_rows/1" => {
                    r#"{"info":{"writes":[{"start_ts":90,"commit_ts":95},{"start_ts":110,"commit_ts":120}]}}"#
                }
                "/mvcc/key/test/margay_rows/2" => {
                    r#"{"info":{"writes":[{"start_ts":110,"commit_ts":120},{"type":1,"start_ts":130,"commit_ts":140}]}}"#
                }
                other => return Err(format!("nobody asks {other}")),
            }
            .to_owned())
        }
    }

    #[test]
    fn an_exchange_becomes_a_log() {
        let log = Box::new(Mvcc::of(Written).expect("a server")).finish().expect("a log");
        let told: Vec<(&str, usize)> =
            log.iter().map(|commit| (commit.id.as_str(), commit.changes.len())).collect();
        assert_eq!(told, [("110", 2), ("130", 1)], "what was there before the run is initial");
        assert!(log[1].changes[0].row.is_none());
    }
}
