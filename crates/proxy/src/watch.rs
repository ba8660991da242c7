//! Finds out whether somebody else may have written meanwhile.
//!
//! # Algorithm
//! PostgreSQL counts the sessions of each database (`pg_stat_database.sessions`, from version 15 on
//! as soon as a session ends). Between start and end there must be as many new ones as came through
//! the relay. Sessions that were there at the start, and workers that may write, are in
//! `pg_stat_activity`.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::catalog::rows;

/// How long others may take to leave.
const PATIENCE: Duration = Duration::from_secs(2);

const COUNT: &str = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()";

/// Workers of the server that write no rows of their own accord.
const OTHERS: &str = "\
SELECT pid, coalesce(backend_type, 'client backend') FROM pg_stat_activity
WHERE datname = current_database() AND coalesce(backend_type, '') NOT IN
  ('autovacuum worker', 'parallel worker', 'walsender', 'autovacuum launcher')";

/// What there was at the start.
pub(crate) struct Watch {
    client: Client,
    own: BTreeSet<u32>,
    /// The number of sessions so far, if the server counts them in time.
    sessions: Option<u64>,
    /// Why nobody can vouch for being alone.
    doubt: Option<String>,
}

impl Watch {
    /// Begins to watch. The pids are those of Margay's other connections.
    pub fn begin(mut client: Client, version: &str, mut own: BTreeSet<u32>) -> Result<Self, String> {
        own.insert(pid(&mut client)?);
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        let mut watch = Self { client, own, sessions: None, doubt: None };
        if major < 15 {
            watch.doubt = Some(format!("PostgreSQL {version} does not count sessions in time"));
            return Ok(watch);
        }
        let others = watch.wait_for_others(&BTreeSet::new())?;
        if let Some((pid, kind)) = others.first() {
            watch.doubt = Some(format!(
                "a {kind} that did not come through the proxy was there at the start (pid {pid})"
            ));
        }
        watch.sessions = Some(watch.count()?);
        Ok(watch)
    }

    /// Why somebody else may have written, if that is so. `expected` sessions came through the
    /// relay.
    pub fn end(mut self, expected: u64, backends: &BTreeSet<u32>) -> Option<String> {
        self.doubt.take().or_else(|| match self.compare(expected, backends) {
            Ok(doubt) => doubt,
            Err(why) => Some(format!("it cannot be told whether there were other sessions: {why}")),
        })
    }

    fn compare(&mut self, expected: u64, backends: &BTreeSet<u32>) -> Result<Option<String>, String> {
        let others = self.wait_for_others(backends)?;
        let foreign: Vec<_> = others.iter().filter(|(pid, _)| !backends.contains(pid)).collect();
        if let Some((pid, kind)) = foreign.first() {
            return Ok(Some(format!("a {kind} did not come through the proxy (pid {pid})")));
        }
        let before = self.sessions.unwrap_or_default();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let came = self.count()?.saturating_sub(before);
            if came > expected {
                return Ok(Some(format!("{} sessions did not come through the proxy", came - expected)));
            }
            if came == expected {
                return Ok(None);
            }
            if Instant::now() > deadline {
                return Ok(Some("the server has not counted all sessions".to_owned()));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sessions that were just closed need a moment to leave. Answers with those who stay.
    fn wait_for_others(&mut self, backends: &BTreeSet<u32>) -> Result<Vec<(u32, String)>, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = rows(&mut self.client, OTHERS)?.into_iter();
            let all = all.filter_map(|row| Some((row[0].parse::<u32>().ok()?, row[1].clone())));
            let others: Vec<_> = all.filter(|(pid, _)| !self.own.contains(pid)).collect();
            let stays = others.iter().any(|(pid, _)| !backends.contains(pid));
            if others.is_empty() || Instant::now() > deadline || (stays && !backends.is_empty()) {
                return Ok(others);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn count(&mut self) -> Result<u64, String> {
        flush(&mut self.client)?;
        let counted = rows(&mut self.client, COUNT)?;
        let count = counted.first().and_then(|row| row.first()?.parse().ok());
        count.ok_or_else(|| "the server does not count sessions".to_owned())
    }
}

/// The process number of a connection on the server.
pub(crate) fn pid(client: &mut Client) -> Result<u32, String> {
    let found = rows(client, "SELECT pg_backend_pid()")?;
    found.first().and_then(|row| row.first()?.parse().ok()).ok_or_else(|| "no process number".to_owned())
}

/// Has the server count a connection now.
pub(crate) fn flush(client: &mut Client) -> Result<(), String> {
    rows(client, "SELECT pg_stat_force_next_flush()").map(drop)
}
