//! TiDB: the MVCC interface of its HTTP server.
//!
//! Written from the documentation of TiDB's HTTP interface, tested with exchanges that were written
//! from it too; never run against a live server.
//!
//! # Algorithm
//! `GET /mvcc/key/{database}/{table}/{key}` on the status port tells all versions of a row that
//! have not been collected as garbage: for each the `start_ts` and `commit_ts` of the transaction
//! that wrote it. `commit_ts` orders the versions. A session tells its last transaction's
//! timestamps by `@@tidb_last_txn_info`, and the `for_update_ts` of a statement by
//! `@@tidb_last_query_info`: a pessimistic transaction reads locked rows at that time, and
//! everything else at its `start_ts`.
//!
//! # Invariants
//! Only writes of rows count: records of locks and rollbacks, which the interface lists as well,
//! are no versions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use margay_client::Testimony;
use margay_history::{History, TxnId};
use serde_json::Value;

use crate::certificate::{Recovered, assemble};
use crate::log::{Change, Commit, Datum};

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The timestamps of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Of its snapshot.
    pub start: i64,
    /// Of its commit; none if it wrote nothing.
    pub commit: Option<i64>,
}

/// Reads what `@@tidb_last_txn_info` says.
#[must_use]
pub fn last_transaction(text: &str) -> Option<Times> {
    let told: Value = serde_json::from_str(text).ok()?;
    let stamp = |name: &str| told.get(name).and_then(Value::as_i64).filter(|&ts| ts > 0);
    Some(Times { start: stamp("start_ts")?, commit: stamp("commit_ts") })
}

/// Reads the `for_update_ts` of `@@tidb_last_query_info`.
#[must_use]
pub fn last_query(text: &str) -> Option<i64> {
    let told: Value = serde_json::from_str(text).ok()?;
    told.get("for_update_ts").and_then(Value::as_i64)
}

/// One version of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// Of the transaction that wrote it.
    pub start: i64,
    /// Of its commit.
    pub commit: i64,
    /// Whether the row was deleted.
    pub deleted: bool,
}

/// Reads the versions of a row out of an answer, oldest first.
///
/// # Errors
/// When it is not understood.
pub fn versions(answer: &str) -> Result<Vec<Written>, String> {
    let bad = || format!("an answer that is not understood: {answer}");
    let told: Value = serde_json::from_str(answer).map_err(|_| bad())?;
    // Newer servers tell it of every key that they were asked about, in a list or under its value.
    let first = told.as_array().map_or(Some(&told), |all| all.first()).ok_or_else(bad)?;
    let info = [&first["value"]["info"], &first["info"]]
        .into_iter()
        .find(|info| info.is_object())
        .ok_or_else(bad)?;
    let writes = match &info["writes"] {
        Value::Null => return Ok(Vec::new()),
        writes => writes.as_array().ok_or_else(bad)?,
    };
    let mut all = Vec::new();
    for write in writes {
        let stamp = |name: &str| write.get(name).and_then(Value::as_i64).ok_or_else(bad);
        // A put is what has no type; the others have numbers.
        let kind = write.get("type").and_then(Value::as_i64).unwrap_or(0);
        if kind <= 1 {
            all.push(Written { start: stamp("start_ts")?, commit: stamp("commit_ts")?, deleted: kind == 1 });
        }
    }
    all.sort_by_key(|version| version.commit);
    Ok(all)
}

/// The log that the versions of all rows are: transactions by their commit timestamps. Values are
/// not decoded.
#[must_use]
pub fn log(rows: &[(String, Vec<Datum>, Vec<Written>)]) -> Vec<Commit> {
    let mut commits: BTreeMap<i64, Commit> = BTreeMap::new();
    for (table, key, versions) in rows {
        let mut there = false;
        for version in versions {
            let row = (!version.deleted).then(Vec::new);
            let inserted = !version.deleted && !there;
            there = !version.deleted;
            let commit = commits.entry(version.commit).or_default();
            commit.id = version.start.to_string();
            commit.changes.push(Change { table: table.clone(), key: key.clone(), row, inserted });
        }
    }
    commits.into_values().collect()
}

/// Evidence out of a log and of what sessions said of their transactions. Commit timestamps order
/// everything; `start_ts` is no snapshot in our sense, because pessimistic transactions update what
/// is newer.
pub(crate) fn assemble_stamped(history: &History, log: &[Commit], mut told: Vec<Testimony>) -> Recovered {
    let times = |told: &Testimony| last_transaction(told.id.as_deref()?);
    let stamped = |told: &Testimony| Some((history.find_txn(told.txn)?, times(told)?.commit?));
    let mut commits: Vec<(TxnId, i64)> = told.iter().filter_map(stamped).collect();
    commits.sort_unstable();
    for testimony in &mut told {
        testimony.id = times(testimony).map(|times| times.start.to_string());
    }
    let mut recovered = assemble(history, log, &told);
    recovered.evidence.commits = commits;
    recovered
}

/// Asks the status port of a server.
///
/// # Errors
/// When there is no answer, or another one than 200.
pub fn ask(address: &str, path: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{address}{path}: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").map_err(failed)?;
    answer(BufReader::new(stream)).map_err(|error| format!("{address}{path}: {error}"))
}

/// The body of an answer: with HTTP/1.0 it ends with the connection.
fn answer(mut from: impl BufRead) -> Result<String, String> {
    let mut line = String::new();
    from.read_line(&mut line).map_err(|error| error.to_string())?;
    if line.split_whitespace().nth(1) != Some("200") {
        return Err(format!("answered {}", line.trim_end()));
    }
    while line.trim_end() != "" {
        line.clear();
        if from.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
            break;
        }
    }
    let mut body = String::new();
    from.read_to_string(&mut body).map_err(|error| error.to_string())?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"info":{"writes":[
        {"start_ts":407306588892692486,"commit_ts":407306588892692489,"short_value":"CAIIAggE"},
        {"start_ts":407306449994645510,"commit_ts":407306449994645513,"short_value":"CAIIAggC"},
        {"type":2,"start_ts":407306588892692490,"commit_ts":407306588892692491},
        {"type":1,"start_ts":407306588892692500,"commit_ts":407306588892692501}]}}"#;
    const NEW: &str = r#"[{"key":"7480","region_id":2,"value":{"info":{"writes":[
        {"start_ts":1,"commit_ts":5,"short_value":"gAAB"}]}}}]"#;

    #[test]
    fn versions_come_in_the_order_of_their_commits() {
        let all = versions(OLD).expect("versions");
        let stamps: Vec<_> = all.iter().map(|v| (v.commit, v.deleted)).collect();
        assert_eq!(
            stamps,
            [(407306449994645513, false), (407306588892692489, false), (407306588892692501, true)],
            "locks are no versions"
        );
        assert_eq!(versions(NEW).map(|all| all.len()), Ok(1));
        assert_eq!(versions(r#"{"info":{}}"#), Ok(Vec::new()), "a row that nobody wrote");
        assert!(versions("{}").is_err() && versions("x").is_err());
    }

    #[test]
    fn rows_become_a_log() {
        let row = |k: i64, all: &str| ("t".to_owned(), vec![Datum::Int(k)], versions(all).expect("versions"));
        let other = r#"{"info":{"writes":[{"start_ts":407306588892692486,"commit_ts":407306588892692489}]}}"#;
        let log = log(&[row(1, OLD), row(2, other)]);
        assert_eq!(log.len(), 3);
        assert_eq!((log[1].id.as_str(), log[1].changes.len()), ("407306588892692486", 2));
        assert!(log[0].changes[0].inserted && !log[1].changes[0].inserted && log[1].changes[1].inserted);
        assert!(log[2].changes[0].row.is_none());
    }

    #[test]
    fn sessions_tell_their_times() {
        let told = r#"{"txn_scope":"global","start_ts":424768545227014155,"commit_ts":424768545227014161,"txn_commit_mode":"1pc"}"#;
        let times = Times { start: 424768545227014155, commit: Some(424768545227014161) };
        assert_eq!(last_transaction(told), Some(times));
        assert_eq!(
            last_transaction(r#"{"start_ts":7,"commit_ts":0}"#),
            Some(Times { start: 7, commit: None })
        );
        assert_eq!(last_query(r#"{"txn_scope":"global","start_ts":1,"for_update_ts":3}"#), Some(3));
        assert_eq!(last_transaction("no"), None);
    }

    #[test]
    fn an_exchange_over_http() {
        let told = format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{NEW}");
        assert_eq!(answer(told.as_bytes()).as_deref(), Ok(NEW));
        assert!(answer(&b"HTTP/1.0 404 Not Found\r\n\r\n"[..]).is_err());
        assert!(answer(&b""[..]).is_err());
    }
}
