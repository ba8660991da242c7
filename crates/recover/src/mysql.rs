//! MariaDB and MySQL: the binary log, in rows.
//!
//! # Algorithm
//! As a replica does, but one that leaves when there is no more: the log is asked for from the last
//! position on, beside the workload and once more in the end. Transactions stand in it in the order
//! of their commits, each with the rows that it changed, before and after.
//!
//! Transactions go by their GTID. In MariaDB sessions ask for it after a commit (`@@last_gtid`);
//! MySQL tells it with the answer of a commit (`session_track_gtids`), if the server has `gtid_mode
//! = ON`. Where it has not, transactions are found by what they changed.
//!
//! # Differs from PostgreSQL
//! InnoDB does not tell what a snapshot sees, so there are version orders only. A write that
//! changes nothing is not in the log.

use std::collections::HashMap;

use margay_drivers::mysql_options;
use mysql::binlog::events::{Event, EventData, RowsEventData, TableMapEvent};
use mysql::binlog::row::BinlogRow;
use mysql::binlog::value::BinlogValue;
use mysql::prelude::Queryable;
use mysql::{BinlogDumpFlags, BinlogRequest, Conn, Opts};

use crate::log::{Change, Commit, Datum, Keys, Row, key_of};
use crate::source::Source;

/// The number of an event that begins a transaction in MariaDB.
const MARIADB_GTID: u8 = 162;
/// A number for us among the replicas; nobody else should have it.
const REPLICA: u32 = 0x6d61_7267;

pub(crate) struct Binlog {
    options: Opts,
    file: Vec<u8>,
    position: u64,
    tables: Tables,
    open: Commit,
    commits: Vec<Commit>,
}

/// What the log does not say of tables: the names of their columns.
#[derive(Default)]
struct Tables {
    columns: HashMap<String, Vec<String>>,
    keys: Keys,
}

impl Binlog {
    /// Remembers where the log is: what commits from now on counts.
    pub fn open(url: &str) -> Result<Self, String> {
        let options = mysql_options(url)?;
        let mut connection = connect(&options)?;
        let format: Option<(String, String)> =
            connection.query_first("SELECT @@log_bin, @@binlog_format").map_err(shown)?;
        match format.as_ref().map(|(on, format)| (on.as_str(), format.as_str())) {
            Some(("1" | "ON", "ROW")) => {}
            Some((_, format)) => {
                return Err(format!(
                    "versions can only be recovered from a server with log_bin and binlog_format = ROW; here it is {format}, or off"
                ));
            }
            None => return Err("the server says nothing about its binary log".to_owned()),
        }
        // MySQL has the first from 8.2 on, and not the second from 8.4 on; MariaDB has the second.
        let status: Result<Option<mysql::Row>, _> = connection.query_first("SHOW BINARY LOG STATUS");
        let status = status.or_else(|_| connection.query_first("SHOW MASTER STATUS")).map_err(shown)?;
        let place = status.and_then(|row| Some((row.get::<String, _>(0)?, row.get::<u64, _>(1)?)));
        let (file, position) = place.ok_or("the server has no binary log")?;
        let tables = Tables::read(&mut connection)?;
        let (open, commits) = (Commit::default(), Vec::new());
        Ok(Self { options, file: file.into_bytes(), position, tables, open, commits })
    }

    fn event(
        &mut self,
        event: &Event,
        maps: &mut HashMap<u64, TableMapEvent<'static>>,
    ) -> Result<(), String> {
        let header = event.header();
        if header.event_type_raw() == MARIADB_GTID {
            let id = gtid(event.data(), header.server_id()).ok_or("a GTID that is not understood")?;
            self.open = Commit { id, ..Commit::default() };
        }
        let data = event.read_data().map_err(|error| error.to_string())?;
        match data {
            Some(EventData::GtidEvent(named)) if !named.is_tagged() => {
                self.open = Commit { id: mysql_gtid(named.sid(), named.gno()), ..Commit::default() };
            }
            Some(EventData::TableMapEvent(map)) => _ = maps.insert(map.table_id(), map.into_owned()),
            Some(EventData::RowsEvent(rows)) => self.rows(&rows, maps)?,
            Some(EventData::XidEvent(_)) => self.committed(),
            Some(EventData::QueryEvent(query)) if query.query().eq_ignore_ascii_case("commit") => {
                self.committed()
            }
            // One without a position is made up by the server to say what it sends; a real one ends
            // a file.
            Some(EventData::RotateEvent(rotate)) if header.log_pos() > 0 => {
                (self.file, self.position) = (rotate.name_raw().to_vec(), rotate.position());
                return Ok(());
            }
            _ => {}
        }
        if header.log_pos() > 0 {
            self.position = u64::from(header.log_pos());
        }
        Ok(())
    }

    fn committed(&mut self) {
        let commit = std::mem::take(&mut self.open);
        self.commits.extend(Some(commit).filter(|commit| !commit.changes.is_empty()));
    }

    fn rows(
        &mut self,
        rows: &RowsEventData<'_>,
        maps: &HashMap<u64, TableMapEvent<'static>>,
    ) -> Result<(), String> {
        let map = maps.get(&rows.table_id()).ok_or("rows of an unknown table")?;
        let table = map.table_name();
        if !self.tables.keys.contains_key(table.as_ref()) {
            return Ok(());
        }
        for row in rows.rows(map) {
            let (before, after) = row.map_err(|error| error.to_string())?;
            let before = before.map(|row| self.tables.row(&table, &row));
            let after = after.map(|row| self.tables.row(&table, &row));
            self.changed(&table, before, after).ok_or("a row without its key")?;
        }
        Ok(())
    }

    fn changed(&mut self, table: &str, before: Option<Row>, after: Option<Row>) -> Option<()> {
        let key = |row: &Option<Row>| row.as_ref().map(|row| key_of(&self.tables.keys, table, row));
        let (old, new) = (key(&before), key(&after));
        let fresh = old != new;
        let change = |key, row: Option<Row>| {
            let inserted = fresh && row.is_some();
            Change { table: table.to_owned(), key, row, inserted }
        };
        if old != new
            && let Some(old) = old
        {
            self.open.changes.push(change(old?, None));
        }
        if let Some(new) = new {
            self.open.changes.push(change(new?, after));
        }
        Some(())
    }
}

impl Source for Binlog {
    fn read(&mut self) -> Result<(), String> {
        let mut connection = connect(&self.options)?;
        // Without this a MariaDB server hides the GTIDs from us.
        connection.query_drop("SET @mariadb_slave_capability = 4").map_err(shown)?;
        let file = self.file.clone();
        let request = BinlogRequest::new(REPLICA)
            .with_filename(&file[..])
            .with_pos(self.position)
            .with_flags(BinlogDumpFlags::BINLOG_DUMP_NON_BLOCK);
        // A log may end for now inside a transaction; that is read again from its beginning.
        let mut whole = (self.file.clone(), self.position);
        let mut maps = HashMap::new();
        for event in connection.get_binlog_stream(request).map_err(shown)? {
            let count = self.commits.len();
            self.event(&event.map_err(shown)?, &mut maps)?;
            if self.commits.len() > count || self.open == Commit::default() {
                whole = (self.file.clone(), self.position);
            }
        }
        (self.file, self.position) = whole;
        self.open = Commit::default();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Commit>, String> {
        self.read()?;
        Ok(self.commits)
    }
}

impl Tables {
    fn read(connection: &mut Conn) -> Result<Self, String> {
        let query = "SELECT table_name, column_name, column_key FROM information_schema.columns \
             WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position";
        let mut tables = Tables::default();
        for (table, column, key) in connection.query::<(String, String, String), _>(query).map_err(shown)? {
            if key == "PRI" {
                tables.keys.entry(table.clone()).or_default().push(column.clone());
            }
            tables.columns.entry(table).or_default().push(column);
        }
        Ok(tables)
    }

    fn row(&self, table: &str, row: &BinlogRow) -> Row {
        let names = self.columns.get(table).map_or(&[][..], |names| names);
        let value = |i: usize| row.as_ref(i).map_or(Datum::Null, datum);
        names.iter().enumerate().map(|(i, name)| (name.clone(), value(i))).collect()
    }
}

fn datum(value: &BinlogValue<'_>) -> Datum {
    let BinlogValue::Value(value) = value else { return Datum::Null };
    match value {
        mysql::Value::NULL => Datum::Null,
        mysql::Value::Int(int) => Datum::Int(*int),
        mysql::Value::UInt(int) => {
            i64::try_from(*int).map_or_else(|_| Datum::Text(int.to_string()), Datum::Int)
        }
        mysql::Value::Bytes(bytes) => Datum::Text(String::from_utf8_lossy(bytes).into_owned()),
        other => Datum::Text(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}

/// `domain-server-number` out of an event of MariaDB: 8 bytes the number, 4 the domain.
fn gtid(data: &[u8], server: u32) -> Option<String> {
    let number = u64::from_le_bytes(data.get(..8)?.try_into().ok()?);
    let domain = u32::from_le_bytes(data.get(8..12)?.try_into().ok()?);
    Some(format!("{domain}-{server}-{number}"))
}

/// `3e11fa47-71ca-11e1-9e33-c80aa9429562:23`, as MySQL's sessions are told it.
fn mysql_gtid(server: [u8; 16], number: u64) -> String {
    let hex: String = server.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("{}:{number}", parts.join("-"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtids_are_read() {
        let data = [7, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 9];
        assert_eq!(gtid(&data, 5).as_deref(), Some("2-5-263"));
        assert_eq!(gtid(&data[..11], 5), None);
        let server =
            [0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1, 0x9e, 0x33, 0xc8, 0x0a, 0xa9, 0x42, 0x95, 0x62];
        assert_eq!(mysql_gtid(server, 23), "3e11fa47-71ca-11e1-9e33-c80aa9429562:23");
    }
}
