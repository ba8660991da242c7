//! Finds out whether somebody else may have written meanwhile.
//!
//! # Algorithm
//! The server counts connections (`Connections`). Between start and end there must be as many new
//! ones as the relay and Margay itself made. Who was there at the start stands in the list of
//! processes, which only a user with the privilege PROCESS sees in full.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

use super::address::shown;

/// How long the counts may differ.
const PATIENCE: Duration = Duration::from_secs(2);

/// What there was at the start.
pub(crate) struct MysqlWatch {
    conn: Conn,
    /// The server's count, and the number of connections that the relay and Margay had made.
    counts: (u64, u64),
    /// Why nobody can vouch for being alone.
    doubt: Option<String>,
}

impl MysqlWatch {
    /// Begins to watch. `made` tells how many connections were made so far, this one included;
    /// `threads` are the numbers of those that are known.
    pub fn begin(mut conn: Conn, made: impl Fn() -> u64, threads: &BTreeSet<u32>) -> Result<Self, String> {
        let own = conn.connection_id();
        let count = count(&mut conn)?;
        let counts = (count, made());
        let grants: Vec<String> = conn.query("SHOW GRANTS").map_err(shown)?;
        let sees = |grant: &String| {
            let grant = grant.to_uppercase();
            grant.contains(" ON *.* ") && (grant.contains("ALL PRIVILEGES") || grant.contains("PROCESS"))
        };
        let events: u64 =
            first(&mut conn, "SELECT COUNT(*) FROM information_schema.events WHERE status = 'ENABLED'")?;
        let mut watch = Self { conn, counts, doubt: None };
        watch.doubt = if !grants.iter().any(sees) {
            Some("the address's user may not see other connections (it lacks PROCESS)".to_owned())
        } else if events > 0 {
            Some("the server has events".to_owned())
        } else {
            let other = watch.other(|id| id == own || threads.contains(&id))?;
            other.map(|id| {
                format!("a connection that did not come through the proxy was there at the start (id {id})")
            })
        };
        Ok(watch)
    }

    /// A connection that is not known.
    fn other(&mut self, known: impl Fn(u32) -> bool) -> Result<Option<u32>, String> {
        let query = "SELECT id FROM information_schema.processlist
                     WHERE command NOT IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID')";
        // Connections that have just ended take a moment to leave.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found: Vec<u32> = self.conn.query(query).map_err(shown)?;
            let other = found.into_iter().find(|&id| !known(id));
            if other.is_none() || Instant::now() > deadline {
                return Ok(other);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Why somebody else may have written, if that is so.
    pub fn end(mut self, made: impl Fn() -> u64) -> Option<String> {
        if self.doubt.is_some() {
            return self.doubt;
        }
        let (before, made_before) = self.counts;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let counted = match count(&mut self.conn) {
                Ok(counted) => counted.wrapping_sub(before),
                Err(why) => return Some(format!("the server does not count connections: {why}")),
            };
            let made = made() - made_before;
            if counted == made {
                return None;
            }
            if Instant::now() > deadline {
                return Some(format!("the server counts {counted} new connections, and {made} are known"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn count(conn: &mut Conn) -> Result<u64, String> {
    let row: Option<(String, u64)> =
        conn.query_first("SHOW GLOBAL STATUS LIKE 'Connections'").map_err(shown)?;
    row.map(|(_, count)| count).ok_or_else(|| "the server does not count connections".to_owned())
}

fn first(conn: &mut Conn, query: &str) -> Result<u64, String> {
    conn.query_first(query).map(Option::unwrap_or_default).map_err(shown)
}
