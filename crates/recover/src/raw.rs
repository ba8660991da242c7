//! PostgreSQL's log as it is: every row that changed, for a recorder that knows the tables itself.
//!
//! # Algorithm
//! A temporary slot with `test_decoding`, as [`crate::postgres`] has it, but nothing is left out:
//! tables without a key, tables that are made while the log is read, truncations. Values stay the
//! texts that the server writes, in settings that do not depend on the server's.
//!
//! # Invariants
//! Nothing is written to the database, and nothing is left on the server: the slot is dropped in the
//! end, and goes with its connection if there is no end.

use std::time::{Duration, Instant};

use margay_drivers::PostgresAddress;
use postgres::{Client, SimpleQueryMessage};

use crate::decoding::{Sides, sides};
use crate::log::{Datum, Row};
use crate::postgres::shown;
use crate::view::PgSnapshot;

/// How long a slot may wait for the transactions that run when it is made.
const SLOT_PATIENCE: &str = "3s";

/// How long the end of the log may keep us waiting.
const PATIENCE: Duration = Duration::from_secs(20);

/// A log that is this far behind is given up: the server keeps all of it on its disk.
const MAX_LAG: i64 = 1 << 30;

/// Values look the same whatever the server's settings are.
const SETTINGS: &str = "SET DateStyle = 'ISO, YMD'; SET TimeZone = 'UTC'; SET IntervalStyle = 'postgres'; \
     SET bytea_output = 'hex'; SET extra_float_digits = 1; SET synchronous_commit = on";

/// A transaction of the log.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RawCommit {
    /// The lower half of its number.
    pub xid: u32,
    /// When it committed, on the server's clock: microseconds since 1970.
    pub time: i64,
    /// What it changed, in order.
    pub changes: Vec<RawChange>,
    /// Tables that it emptied, as the log names them.
    pub truncated: Vec<String>,
}

/// A row that changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawChange {
    /// The table with its schema, quoted where SQL wants that.
    pub table: String,
    /// What identified the row before, if that is told: a deleted row, or a key that changed.
    pub old: Option<Row>,
    /// The row; none if it was deleted.
    pub new: Option<Row>,
}

/// What the server says of itself between two looks at its log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The server's clock: microseconds since 1970.
    pub time: i64,
    /// What is visible.
    pub snapshot: PgSnapshot,
}

/// The log of a database.
pub struct RawLog {
    client: Client,
    name: String,
    open: Option<RawCommit>,
}

impl RawLog {
    /// Begins to read: what commits from now on is in the log.
    ///
    /// # Errors
    /// When the server keeps no such log, or not for this user.
    pub fn open(address: &PostgresAddress) -> Result<Self, String> {
        let mut client = address.connect()?;
        client.batch_execute(SETTINGS).map_err(shown)?;
        let level: String = client.query_one("SHOW wal_level", &[]).map_err(shown)?.get(0);
        if level != "logical" {
            return Err(format!("wal_level is {level}, not logical"));
        }
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).map_err(shown)?.get(0);
        let name = format!("margay_{pid}");
        client.batch_execute(&format!("SET statement_timeout = '{SLOT_PATIENCE}'")).map_err(shown)?;
        let make = "SELECT pg_create_logical_replication_slot($1, 'test_decoding', true)";
        client.execute(make, &[&name]).map_err(shown)?;
        client.batch_execute("SET statement_timeout = 0").map_err(shown)?;
        Ok(Self { client, name, open: None })
    }

    /// The process number of its connection.
    ///
    /// # Errors
    /// When the server does not say.
    pub fn pid(&mut self) -> Result<u32, String> {
        let pid: i32 = self.client.query_one("SELECT pg_backend_pid()", &[]).map_err(shown)?.get(0);
        u32::try_from(pid).map_err(|error| error.to_string())
    }

    /// The connection, for questions.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The server's time and what is visible.
    ///
    /// # Errors
    /// When the log is too far behind, or the server does not answer.
    pub fn moment(&mut self) -> Result<Moment, String> {
        let query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
             txid_current_snapshot()::text, \
             (SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint \
              FROM pg_replication_slots WHERE slot_name = $1)";
        let row = self.client.query_one(query, &[&self.name]).map_err(shown)?;
        if row.get::<_, Option<i64>>(2).is_some_and(|lag| lag > MAX_LAG) {
            return Err("the log is more than 1 GiB behind".to_owned());
        }
        let snapshot = PgSnapshot::parse(row.get(1)).ok_or("a snapshot that is not understood")?;
        Ok(Moment { time: row.get(0), snapshot })
    }

    /// What was committed since the last look.
    ///
    /// # Errors
    /// What the server says, or the line that is not understood.
    pub fn read(&mut self) -> Result<Vec<RawCommit>, String> {
        let query = format!(
            "SELECT data FROM pg_logical_slot_get_changes('{}', NULL, NULL, 'include-timestamp', '1', \
             'skip-empty-xacts', '1')",
            self.name
        );
        let mut commits = Vec::new();
        for answer in self.client.simple_query(&query).map_err(shown)? {
            let SimpleQueryMessage::Row(row) = answer else { continue };
            commits.extend(self.line(row.get(0).unwrap_or_default())?);
        }
        Ok(commits)
    }

    /// What was committed up to now, all of it. The slot is gone then.
    ///
    /// # Errors
    /// When the end does not come.
    pub fn finish(&mut self) -> Result<Vec<RawCommit>, String> {
        let mark = "SELECT pg_logical_emit_message(true, $1, '')::text";
        let mark: String = self.client.query_one(mark, &[&self.name]).map_err(shown)?.get(0);
        let start = Instant::now();
        let mut commits = Vec::new();
        loop {
            commits.append(&mut self.read()?);
            let query = "SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots WHERE slot_name = $1";
            if self.client.query_one(query, &[&self.name, &mark]).map_err(shown)?.get(0) {
                break;
            }
            if start.elapsed() > PATIENCE {
                return Err("the log does not come to its end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.client.execute("SELECT pg_drop_replication_slot($1)", &[&self.name]).map_err(shown)?;
        Ok(commits)
    }

    /// Takes a line; answers with the transaction that it completes.
    fn line(&mut self, text: &str) -> Result<Option<RawCommit>, String> {
        let bad = || format!("the log has a line that is not understood: {text}");
        if text.starts_with("message: ") {
            return Ok(None);
        }
        if let Some(xid) = text.strip_prefix("BEGIN ") {
            let xid = xid.trim().parse().map_err(|_| bad())?;
            self.open = Some(RawCommit { xid, ..RawCommit::default() });
            return Ok(None);
        }
        if let Some(rest) = text.strip_prefix("COMMIT ") {
            let time = rest.split_once("(at ").map(|(_, time)| time.trim_end_matches(')'));
            let commit = self.open.take().ok_or_else(bad)?;
            let time = time.and_then(microseconds).ok_or_else(bad)?;
            return Ok(Some(RawCommit { time, ..commit }));
        }
        let open = self.open.as_mut().ok_or_else(bad)?;
        let rest = text.strip_prefix("table ").ok_or_else(bad)?;
        let (names, rest) = rest.split_once(": ").ok_or_else(bad)?;
        let (kind, columns) = rest.split_once(": ").ok_or_else(bad)?;
        if kind == "TRUNCATE" {
            open.truncated.extend(names.split(", ").map(str::to_owned));
            return Ok(None);
        }
        let Sides { old, row } = sides(columns).ok_or_else(bad)?;
        let table = names.to_owned();
        open.changes.push(match kind {
            "INSERT" => RawChange { table, old: None, new: Some(row) },
            "UPDATE" => RawChange { table, old, new: Some(row) },
            "DELETE" => RawChange { table, old: Some(row), new: None },
            _ => return Err(bad()),
        });
        Ok(None)
    }
}

/// `2026-11-15 06:00:00.123+00` in UTC.
fn microseconds(text: &str) -> Option<i64> {
    let text = text.strip_suffix("+00")?;
    let (date, time) = text.split_once(' ')?;
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let fraction: i64 = format!("{fraction:0<6}").parse().ok()?;
    // Days since 1970, counted from March, so that the leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + fraction)
}

/// The text of a value as the server writes it; none if it is NULL.
#[must_use]
pub fn text_of(datum: &Datum) -> Option<String> {
    match datum {
        Datum::Null | Datum::Unchanged => None,
        Datum::Int(int) => Some(int.to_string()),
        Datum::Text(text) => Some(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_time_is_read() {
        assert_eq!(microseconds("1970-01-01 00:00:00+00"), Some(0));
        assert_eq!(microseconds("2000-03-01 00:00:01.5+00"), Some(951_868_801_500_000));
        assert_eq!(microseconds("2026-11-19 12:34:56.000007+00"), Some(1_795_091_696_000_007));
        assert_eq!(microseconds("2026-11-19 12:34:56"), None);
    }
}
