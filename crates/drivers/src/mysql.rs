//! MariaDB, MySQL, and what speaks their protocol and says its name.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use margay_client::Start;
use mysql::consts::{CapabilityFlags, ColumnType};
use mysql::prelude::Queryable;
use mysql::session_state_change::SessionStateChange;
use mysql::{Conn, Opts, OptsBuilder, Params};

use crate::alone::OTHER_RUN;
use crate::mysql_tls::{mysql_options, shown};
use crate::sql::{Session, Sql, Upsert, preparation, removal, texts};
use crate::statement::{self, translate};
use crate::{Answer, Cell, Connection, Database, Schema, Testimony, Trouble, Witness};

pub(crate) struct MysqlDatabase {
    url: String,
    /// The connections of who prepares, which nobody limits.
    patient: Opts,
    /// The connections of clients.
    limited: Opts,
    /// Keeps other runs away while it is open.
    _alone: Option<Conn>,
    dbms: &'static str,
    version: String,
    witness: OnceLock<Arc<Witness>>,
}

impl MysqlDatabase {
    /// Asks the server who it is. A statement that is not answered within the limit costs its
    /// client the connection.
    pub fn open(url: &str, limit: Option<Duration>) -> Result<Self, String> {
        let patient = mysql_options(url)?;
        // Sessions keep their statements; the library would close those of them that it met longest
        // ago.
        let limited = OptsBuilder::from_opts(patient.clone()).read_timeout(limit).stmt_cache_size(0);
        let limited = Opts::from(limited);
        let told: Option<String> = connect(&patient)?.query_first("SELECT VERSION()").map_err(shown)?;
        let (dbms, version) = identity(&told.unwrap_or_default());
        let url = url.to_owned();
        Ok(Self { url, patient, limited, _alone: None, dbms, version, witness: OnceLock::new() })
    }

    /// The same, unless another run is at work there: two would make and drop the same tables, and
    /// take each other's writes for the database's faults. One that is about to end is waited for.
    pub fn alone(mut self) -> Result<Self, String> {
        // Its locks outlive the session that has them (seekdb 1.4.0, docs/FINDINGS.md): the next
        // run would wait in vain.
        if self.dbms == "oceanbase" {
            return Ok(self);
        }
        let mut connection = connect(&self.patient)?;
        // Locks are the server's, tables the database's. Who has no such locks cannot be asked.
        let got: Result<Option<i64>, _> = connection
            .query_first("SELECT GET_LOCK(LEFT(CONCAT('margay.', COALESCE(DATABASE(), '')), 64), 3)");
        match got {
            Ok(Some(0)) => Err(OTHER_RUN.to_owned()),
            _ => {
                self._alone = Some(connection);
                Ok(self)
            }
        }
    }
}

impl MysqlDatabase {
    /// A connection for a client. If it is to testify, MySQL is asked to name its transactions.
    fn client(&self) -> Result<Conn, String> {
        if self.dbms != "mysql" || self.witness.get().is_none() {
            return connect(&self.limited);
        }
        let tracked = OptsBuilder::from_opts(self.limited.clone())
            .additional_capabilities(CapabilityFlags::CLIENT_SESSION_TRACK);
        let mut connection = connect(&Opts::from(tracked))?;
        // Servers without GTIDs know nothing of it; their transactions are met by what they
        // changed.
        let _ = connection.query_drop("SET SESSION session_track_gtids = OWN_GTID");
        Ok(connection)
    }
}

/// From this version on MariaDB's REPEATABLE READ is snapshot isolation, unless a variable is
/// switched off. What profiles say of it is asked for.
const SNAPSHOT_ISOLATION: [u32; 3] = [11, 6, 2];

fn is_since(version: &str, first: [u32; 3]) -> bool {
    version.split('.').map_while(|number| number.parse::<u32>().ok()).ge(first)
}

/// `10.11.19-MariaDB-0+deb12u1`, `8.0.46`, `8.0.11-TiDB-v7.5.0`, `5.7.25-OceanBase
/// seekdb-v1.4.0.0`.
fn identity(told: &str) -> (&'static str, String) {
    if let Some((_, version)) = told.split_once("-OceanBase") {
        return ("oceanbase", version.trim_start_matches([' ', '-', 'v']).replace("-v", "-"));
    }
    if let Some((_, version)) = told.split_once("-TiDB-v") {
        return ("tidb", version.to_owned());
    }
    let number = told.split('-').next().unwrap_or_default().to_owned();
    (if told.contains("MariaDB") { "mariadb" } else { "mysql" }, number)
}

fn connect(options: &Opts) -> Result<Conn, String> {
    Conn::new(options.clone()).map_err(shown)
}

impl Database for MysqlDatabase {
    fn identity(&self) -> (String, String) {
        (self.dbms.to_owned(), self.version.clone())
    }

    fn levels(&self) -> Vec<&'static str> {
        let all = ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED"];
        all.into_iter().filter(|&level| self.dbms != "oceanbase" || level != "READ UNCOMMITTED").collect()
    }

    fn prepare(&self, _own_name: &str, start: &Start) -> Result<(), String> {
        let mut connection = connect(&self.patient)?;
        preparation(start).iter().try_for_each(|text| connection.query_drop(text)).map_err(shown)
    }

    fn connect(&self, _client: usize, own_name: &str) -> Result<Box<dyn Connection>, String> {
        let mut connection = self.client()?;
        connection
            .query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {own_name}"))
            .map_err(shown)?;
        let patience = match self.dbms {
            "oceanbase" => "SET SESSION ob_trx_lock_timeout = 1000000",
            _ => "SET SESSION innodb_lock_wait_timeout = 1",
        };
        connection.query_drop(patience).map_err(shown)?;
        if self.dbms == "mariadb" && is_since(&self.version, SNAPSHOT_ISOLATION) {
            connection.query_drop("SET SESSION innodb_snapshot_isolation = ON").map_err(shown)?;
        }
        let watch = self.witness.get().map(|witness| Watch {
            witness: Arc::clone(witness),
            question: last_transaction(self.dbms),
            wrote: false,
            told: Testimony::default(),
        });
        // Elsewhere reads see what is there now, which is the same.
        let writes_alike = own_name != "REPEATABLE READ";
        let session = MysqlSession { connection, writes_alike, watch, prepared: HashMap::new() };
        Ok(Box::new(Sql::new(session, texts(Upsert::OnDuplicateKey))))
    }

    fn witness(&self) -> Option<Arc<Witness>> {
        Some(Arc::clone(self.witness.get_or_init(Arc::default)))
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn prepare_sql(&self, _own_name: &str, schema: &Schema) -> Result<(), String> {
        let mut connection = connect(&self.patient)?;
        statement::creation(schema).iter().try_for_each(|text| connection.query_drop(text)).map_err(shown)
    }

    fn clean_up_sql(&self, schema: &Schema) {
        if let Ok(mut connection) = connect(&self.patient) {
            statement::removal(schema).iter().for_each(|text| drop(connection.query_drop(text)));
        }
    }

    fn clean_up(&self) {
        if let Ok(mut connection) = connect(&self.patient) {
            removal().iter().for_each(|text| drop(connection.query_drop(text)));
        }
    }
}

/// How a session asks what its last transaction that wrote is called in the log.
fn last_transaction(dbms: &str) -> Option<&'static str> {
    match dbms {
        "mariadb" => Some("SELECT @@last_gtid"),
        "tidb" => Some("SELECT @@tidb_last_txn_info"),
        _ => None,
    }
}

/// The GTID that came with the answer of a commit.
fn told_gtid(connection: &Conn) -> Option<String> {
    connection.session_state_changes().ok()?.iter().find_map(|change| match change.decode() {
        Ok(SessionStateChange::Gtids(gtids)) => gtid(&gtids.as_str()),
        _ => None,
    })
}

/// The library leaves a byte for the form and one for the length in front of the name, whose first
/// part has eight digits.
fn gtid(told: &str) -> Option<String> {
    let start = told.find('-')?.checked_sub(8)?;
    told.get(start..).map(str::to_owned)
}

/// What a connection that testifies keeps in mind.
struct Watch {
    witness: Arc<Witness>,
    question: Option<&'static str>,
    wrote: bool,
    told: Testimony,
}

struct MysqlSession {
    connection: Conn,
    writes_alike: bool,
    watch: Option<Watch>,
    /// The statements so far, by their texts, with the numbers of their parameters in the order in
    /// which they are wanted.
    prepared: HashMap<String, (mysql::Statement, Vec<usize>)>,
}

fn positional(values: Vec<mysql::Value>) -> Params {
    if values.is_empty() { Params::Empty } else { Params::Positional(values) }
}

fn parameter(cell: &Cell) -> mysql::Value {
    match cell {
        Cell::Null => mysql::Value::NULL,
        Cell::Int(int) => mysql::Value::Int(*int),
        Cell::Text(text) => mysql::Value::Bytes(text.clone().into_bytes()),
    }
}

fn cell(value: mysql::Value) -> Cell {
    match value {
        mysql::Value::NULL => Cell::Null,
        mysql::Value::Int(int) => Cell::Int(int),
        mysql::Value::UInt(int) => i64::try_from(int).map_or_else(|_| Cell::Text(int.to_string()), Cell::Int),
        mysql::Value::Bytes(bytes) => Cell::Text(String::from_utf8_lossy(&bytes).into_owned()),
        other => Cell::Text(format!("{other:?}")),
    }
}

impl MysqlSession {
    fn control(&mut self, text: &str) -> Result<(), Trouble> {
        self.connection.query_drop(text).map_err(trouble)
    }

    /// After the commit, because only then it has a name. Without an answer there is none, and what
    /// it changed must tell.
    fn testify(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        if watch.wrote {
            watch.told.id = match watch.question {
                Some(question) => self.connection.query_first(question).ok().flatten(),
                None => told_gtid(&self.connection),
            };
        }
        watch.witness.hear(std::mem::take(&mut watch.told));
    }
}

impl MysqlSession {
    fn run(&mut self, text: &str, params: &[Cell]) -> Result<Answer, mysql::Error> {
        if !self.prepared.contains_key(text) {
            let translated = translate(text, |_| "?".to_owned());
            let statement = self.connection.prep(translated.text)?;
            self.prepared.insert(text.to_owned(), (statement, translated.params));
        }
        let (statement, wanted) = &self.prepared[text];
        let values = wanted.iter().map(|&at| params.get(at).map_or(mysql::Value::NULL, parameter)).collect();
        let columns = statement.columns().len();
        if columns == 0 {
            self.connection.exec_drop(statement, positional(values))?;
            return Ok(Answer { count: self.connection.affected_rows(), ..Answer::default() });
        }
        let is_decimal = |column: &mysql::Column| column.column_type() == ColumnType::MYSQL_TYPE_NEWDECIMAL;
        let decimals: Vec<bool> = statement.columns().iter().map(is_decimal).collect();
        let rows: Vec<mysql::Row> = self.connection.exec(statement, positional(values))?;
        let mut cells = Vec::with_capacity(columns * rows.len());
        for row in rows {
            cells.extend(row.unwrap().into_iter().zip(&decimals).map(|(value, decimal)| match cell(value) {
                Cell::Text(text) if *decimal => statement::number(&text),
                cell => cell,
            }));
        }
        Ok(Answer { columns, cells, count: 0 })
    }
}

impl Session for MysqlSession {
    fn enter(&mut self, label: u64) {
        if let Some(watch) = &mut self.watch {
            (watch.wrote, watch.told) = (false, Testimony { txn: label, ..Testimony::default() });
        }
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        self.control("START TRANSACTION")
    }

    fn has_returning(&self) -> bool {
        false
    }

    fn deletes_read(&self) -> bool {
        false
    }

    fn writes_alike(&self) -> bool {
        self.writes_alike
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        let answer = self.run(text, params).map_err(sql_trouble)?;
        if let Some(watch) = &mut self.watch {
            watch.wrote |= answer.count > 0;
        }
        Ok(answer)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.control("COMMIT")?;
        self.testify();
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.control("ROLLBACK")
    }
}

/// A lock that did not come in time, a deadlock, a record changed since the snapshot; OceanBase has
/// its own two, for the last of these and for a transaction that it has rolled back.
const REFUSALS: [u16; 5] = [1205, 1213, 1020, 6235, 6002];

/// The server shuts down, or the connection was killed.
const ENDS: [u16; 3] = [1053, 1317, 1927];

fn trouble(error: mysql::Error) -> Trouble {
    match &error {
        mysql::Error::MySqlError(told) if REFUSALS.contains(&told.code) => Trouble::Refused(shown(error)),
        mysql::Error::MySqlError(told) if !ENDS.contains(&told.code) => Trouble::Failed(shown(error)),
        _ => Trouble::Lost(shown(error)),
    }
}

/// A duplicate key that a program runs into ends its transaction; the program goes on.
fn sql_trouble(error: mysql::Error) -> Trouble {
    match &error {
        mysql::Error::MySqlError(told) if told.code == 1062 => Trouble::Refused(shown(error)),
        _ => trouble(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtids_are_found_in_what_is_told() {
        let name = "47c0a139-e1d6-11f1-9d52-02fc00000001:7";
        assert_eq!(gtid(&format!("\0&{name}")).as_deref(), Some(name));
        assert_eq!(gtid(name).as_deref(), Some(name));
        assert_eq!((gtid(""), gtid("a-b")), (None, None));
    }

    #[test]
    fn servers_are_told_apart() {
        assert_eq!(identity("10.11.19-MariaDB-0+deb12u1"), ("mariadb", "10.11.19".to_owned()));
        assert!(is_since("11.6.2", SNAPSHOT_ISOLATION) && is_since("11.8.1", SNAPSHOT_ISOLATION));
        assert!(!is_since("11.6.1", SNAPSHOT_ISOLATION) && !is_since("10.11.19", SNAPSHOT_ISOLATION));
        assert_eq!(identity("8.0.46"), ("mysql", "8.0.46".to_owned()));
        assert_eq!(identity("8.0.11-TiDB-v7.5.0"), ("tidb", "7.5.0".to_owned()));
        let seekdb = ("oceanbase", "seekdb-1.4.0.0".to_owned());
        assert_eq!(identity("5.7.25-OceanBase seekdb-v1.4.0.0"), seekdb);
        assert_eq!(identity("5.7.25-OceanBase-v4.2.1"), ("oceanbase", "4.2.1".to_owned()));
    }
}
