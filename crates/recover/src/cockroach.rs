//! CockroachDB: a changefeed without a sink.
//!
//! Written from the documentation of changefeeds and their messages, tested with exchanges that
//! were written from it too; never run against a live server.
//!
//! # Algorithm
//! `EXPERIMENTAL CHANGEFEED FOR … WITH updated, resolved, diff` streams rows `(table, key, value)`
//! over a connection of its own. The value is JSON with the row `after` the change, the one
//! `before` it, and `updated`, the MVCC timestamp of the transaction that wrote it; or `resolved`:
//! nothing at or before that timestamp will come any more. Messages may come twice, and are in
//! order only per row. So messages are collected by timestamp; a transaction is what one timestamp
//! changed, and the log goes up to the last resolved timestamp.
//!
//! A transaction tells its own timestamp by `cluster_logical_timestamp()` right before its commit.
//! That fixes the timestamp, so it is the one that its versions have and its place in the
//! serialization order; whoever only read has one too.
//!
//! # Invariants
//! Timestamps that several transactions share do not tell them apart: what they wrote is one entry
//! of the log, which nobody's content fits alone.

use std::collections::BTreeMap;

use margay_client::Testimony;
use margay_history::{Evidence, History};
use serde_json::Value;

use crate::certificate::{Recovered, assemble};
use crate::log::{Change, Commit, Datum, Row};

/// `walltime.logical`, as a number that sorts as it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timestamp {
    /// Nanoseconds.
    pub wall: u64,
    /// What comes first among equal nanoseconds.
    pub logical: u32,
}

impl Timestamp {
    /// Reads `1700000000000000000.0000000002`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (wall, logical) = text.split_once('.').unwrap_or((text, "0"));
        // The fraction has ten digits; zeros at its end may be missing.
        let padded = format!("{logical:0<10}");
        Some(Self { wall: wall.parse().ok()?, logical: padded.get(..10)?.parse().ok()? })
    }
}

/// Collects the messages of a changefeed.
#[derive(Default, Debug)]
pub struct Changefeed {
    changes: BTreeMap<Timestamp, Vec<Change>>,
    resolved: Option<Timestamp>,
}

impl Changefeed {
    /// Takes one row of the changefeed: the table, the key and the value.
    ///
    /// # Errors
    /// When it is not understood.
    pub fn message(&mut self, table: Option<&str>, key: Option<&str>, value: &str) -> Result<(), String> {
        let bad = || format!("the changefeed has a message that is not understood: {value}");
        let value: Value = serde_json::from_str(value).map_err(|_| bad())?;
        let stamp = |name: &str| value.get(name).and_then(Value::as_str).and_then(Timestamp::parse);
        if value.get("resolved").is_some() {
            self.resolved = self.resolved.max(Some(stamp("resolved").ok_or_else(bad)?));
            return Ok(());
        }
        let (Some(table), Some(key), Some(updated)) = (table, key, stamp("updated")) else {
            return Err(bad());
        };
        let key: Value = serde_json::from_str(key).map_err(|_| bad())?;
        let key = key.as_array().ok_or_else(bad)?.iter().map(datum).collect();
        let row = value.get("after").and_then(Value::as_object).map(row);
        let inserted = row.is_some() && value.get("before").is_none_or(Value::is_null);
        let change = Change { table: table.to_owned(), key, row, inserted };
        let changes = self.changes.entry(updated).or_default();
        // Messages are delivered at least once.
        if !changes.contains(&change) {
            changes.push(change);
        }
        Ok(())
    }

    /// Everything up to the last resolved timestamp, in order.
    #[must_use]
    pub fn commits(&self) -> Vec<Commit> {
        let until = |stamp: &Timestamp| Some(*stamp) <= self.resolved;
        let all = self.changes.iter().filter(|entry| until(entry.0));
        all.map(|(stamp, changes)| Commit { id: id(*stamp), time: None, changes: changes.clone() }).collect()
    }

    /// Whether nothing at or before this timestamp is missing.
    #[must_use]
    pub fn is_resolved(&self, stamp: Timestamp) -> bool {
        self.resolved >= Some(stamp)
    }
}

/// What a transaction with this timestamp is called.
#[must_use]
pub fn id(stamp: Timestamp) -> String {
    format!("{}.{:010}", stamp.wall, stamp.logical)
}

/// The serialization order: the transactions' timestamps, ranked.
pub fn serialize(evidence: &mut Evidence, mut stamps: Vec<(margay_history::TxnId, Timestamp)>) {
    stamps.sort_by_key(|&(txn, stamp)| (stamp, txn));
    // Equal timestamps tell no order.
    let ranks = stamps.chunk_by(|a, b| a.1 == b.1).enumerate();
    let ranked = ranks.flat_map(|(rank, group)| group.iter().map(move |&(txn, _)| (txn, rank as i64 + 1)));
    evidence.serializations = ranked.collect();
    evidence.serializations.sort_unstable();
}

/// Evidence out of a log and of what transactions said of themselves: their timestamps, which are
/// their places in the serialization order.
pub(crate) fn assemble_stamped(history: &History, log: &[Commit], mut told: Vec<Testimony>) -> Recovered {
    let stamp = |told: &Testimony| Timestamp::parse(told.id.as_deref()?);
    let stamps = told.iter().filter_map(|told| Some((history.find_txn(told.txn)?, stamp(told)?))).collect();
    for testimony in &mut told {
        testimony.id = stamp(testimony).map(id);
    }
    let mut recovered = assemble(history, log, &told);
    serialize(&mut recovered.evidence, stamps);
    recovered
}

fn row(columns: &serde_json::Map<String, Value>) -> Row {
    columns.iter().map(|(name, value)| (name.clone(), datum(value))).collect()
}

fn datum(value: &Value) -> Datum {
    match value {
        Value::Null => Datum::Null,
        Value::Number(number) => number.as_i64().map_or_else(|| Datum::Text(number.to_string()), Datum::Int),
        Value::String(text) => Datum::Text(text.clone()),
        other => Datum::Text(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use margay_history::{Access, HistoryBuilder, OpDetail, OpKind, ValueId};

    use super::*;

    /// An exchange as the documentation describes it: two transactions, one message twice, a
    /// deletion, and checkpoints.
    const EXCHANGE: [(Option<&str>, Option<&str>, &str); 7] = [
        (
            Some("margay_rows"),
            Some("[1]"),
            r#"{"after": {"k": 1, "v": 7, "w": 3}, "before": null, "updated": "1700000000000000002.0000000000"}"#,
        ),
        (None, None, r#"{"resolved":"1700000000000000001.0000000000"}"#),
        (
            Some("margay_rows"),
            Some("[2]"),
            r#"{"after": {"k": 2, "v": 8, "w": 4}, "before": null, "updated": "1700000000000000002.0000000000"}"#,
        ),
        (
            Some("margay_rows"),
            Some("[1]"),
            r#"{"after": null, "before": {"k": 1, "v": 7, "w": 3}, "updated": "1700000000000000002.0000000001"}"#,
        ),
        (
            Some("margay_rows"),
            Some("[1]"),
            r#"{"after": {"k": 1, "v": 7, "w": 3}, "before": null, "updated": "1700000000000000002.0000000000"}"#,
        ),
        (None, None, r#"{"resolved":"1700000000000000003.0000000000"}"#),
        (
            Some("margay_rows"),
            Some("[9]"),
            r#"{"after": {"k": 9, "v": 0, "w": 0}, "before": null, "updated": "1700000000000000004.0000000000"}"#,
        ),
    ];

    #[test]
    fn a_changefeed_becomes_a_log() {
        let mut feed = Changefeed::default();
        EXCHANGE.iter().for_each(|&(table, key, value)| feed.message(table, key, value).expect("a message"));
        let log = feed.commits();
        assert_eq!(log.len(), 2, "what is not resolved yet is left out: {log:?}");
        assert_eq!(log[0].id, "1700000000000000002.0000000000");
        assert_eq!(log[0].changes.len(), 2, "a message that came twice is one");
        assert!(log[0].changes[0].inserted && log[1].changes[0].row.is_none());
        let stamp = |text: &str| Timestamp::parse(text).expect("a timestamp");
        assert!(feed.is_resolved(stamp("1700000000000000003.0")));
        assert!(!feed.is_resolved(stamp("1700000000000000003.0000000001")));
    }

    /// Two transactions and their timestamps, as their sessions told them before they committed.
    #[test]
    fn timestamps_are_the_serialization_order() {
        let mut builder = HistoryBuilder::new();
        let table = builder.table("t");
        for (txn, key) in [(1, 2), (2, 1)] {
            let (key, value) = (builder.values().int(key), builder.values().int(7));
            let object = builder.object(Some(table), key);
            let value = if txn == 2 { ValueId::NULL } else { value };
            builder
                .push(txn, txn, None, OpKind::Write, &[Access { object, value }], OpDetail::None)
                .expect("a write");
            builder.push(txn, txn, None, OpKind::Commit, &[], OpDetail::None).expect("a commit");
        }
        let history = builder.finish().expect("a history");
        let mut feed = Changefeed::default();
        EXCHANGE.iter().for_each(|&(table, key, value)| feed.message(table, key, value).expect("a message"));
        let told = |txn, id: &str| Testimony { txn, id: Some(id.to_owned()), ..Testimony::default() };
        let told = vec![told(2, "1700000000000000002.0000000001"), told(1, "1700000000000000002.0")];
        let recovered = assemble_stamped(&history, &feed.commits(), told);
        let txn = |label| history.find_txn(label).expect("a transaction");
        assert_eq!(recovered.evidence.serializations, [(txn(1), 1), (txn(2), 2)]);
        assert_eq!(recovered.commits, 2);
        // The first one's commit changed row 1 as well, of which its client says nothing.
        assert_eq!(recovered.gaps.len(), 1, "{:?}", recovered.gaps);
        assert!(history.clone().with_evidence(recovered.evidence).is_ok());
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for value in ["", "{}", r#"{"resolved":"x"}"#, r#"{"after":null,"updated":"1"}"#] {
            assert!(Changefeed::default().message(Some("t"), None, value).is_err(), "{value}");
        }
    }

    #[test]
    fn timestamps_sort_as_numbers() {
        let stamp = |text: &str| Timestamp::parse(text).expect("a timestamp");
        assert!(stamp("9.0000000002") < stamp("10.0") && stamp("9.0000000002") < stamp("9.0000000010"));
        assert_eq!(stamp("9"), stamp("9.0000000000"));
    }
}
