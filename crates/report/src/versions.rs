//! The versions of one object, as far as a history tells them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, Value, ValueId, Version};

use crate::limit::{Limits, clean};
use crate::operation;
use crate::picture;
use crate::touches::{Touch, Touches, shows};

/// Readers that are named of one version.
const READERS: usize = 12;

/// The object's versions, those of `slice` and what is next to them first of all, with those of the
/// `shown` transactions that saw them.
#[must_use]
pub fn view(
    history: &History,
    touches: &Touches,
    object: ObjectId,
    slice: &[TxnId],
    shown: &BTreeSet<TxnId>,
    limits: Limits,
) -> picture::Object {
    let touched = touches.get(object);
    let mut made = last_writes(touched);
    let order = sort(history, object, touched, &mut made);
    let chosen = choose(&made, slice, limits.versions);
    let reads: Vec<&Touch> =
        touched.iter().filter(|touch| !touch.kind.writes() && shown.contains(&touch.txn)).collect();
    let mut versions = vec![initial(history, object, &reads, limits)];
    versions.extend(chosen.iter().map(|&at| version(history, made[at], &reads, limits)));
    picture::Object {
        name: clean(&history.show_object(object), limits.text),
        order: order.to_owned(),
        left_out: made.len() - chosen.len(),
        versions,
    }
}

/// The last write of each writer: that is its version.
fn last_writes(touched: &[Touch]) -> Vec<Touch> {
    let mut made: Vec<Touch> = Vec::new();
    for &touch in touched.iter().filter(|touch| touch.kind.writes()) {
        match made.last_mut() {
            Some(last) if last.txn == touch.txn => *last = touch,
            _ => made.push(touch),
        }
    }
    made
}

/// Puts versions in the best order that is known, and says which.
fn sort(history: &History, object: ObjectId, touched: &[Touch], made: &mut [Touch]) -> &'static str {
    if let Some(order) = history.evidence().version_orders.iter().find(|order| order.object == object) {
        let place: HashMap<Version, usize> =
            order.versions.iter().enumerate().map(|(i, &v)| (v, i)).collect();
        made.sort_by_key(|touch| place.get(&Version::Of(touch.txn)).copied().unwrap_or(usize::MAX));
        return "in the order that the evidence gives";
    }
    if let Some(items) = longest_list(history, touched) {
        let place: HashMap<ValueId, usize> = items.iter().enumerate().map(|(i, &v)| (v, i)).collect();
        made.sort_by_key(|touch| place.get(&touch.value).copied().unwrap_or(usize::MAX));
        return "in the order that the longest list shows";
    }
    if history.is_timed() {
        made.sort_by_key(|touch| (history.end(touch.txn).unwrap_or(i64::MAX), touch.txn));
        "by the time at which their writers ended; the database may have another order"
    } else {
        "in the order of the file; the history does not tell which came first"
    }
}

fn longest_list<'h>(history: &'h History, touched: &[Touch]) -> Option<&'h [ValueId]> {
    let appended = touched.iter().any(|touch| touch.kind == OpKind::Append);
    let lists = touched.iter().filter(|touch| !touch.kind.writes()).filter_map(|touch| {
        match history.value(touch.value) {
            Value::List(items) => Some(items),
            _ => None,
        }
    });
    lists.max_by_key(|items| items.len()).filter(|_| appended)
}

/// Which versions are shown: those nearest to one of the slice.
fn choose(made: &[Touch], slice: &[TxnId], most: usize) -> Vec<usize> {
    if made.len() <= most {
        return (0..made.len()).collect();
    }
    let of_slice: Vec<usize> = (0..made.len()).filter(|&at| slice.contains(&made[at].txn)).collect();
    let distance = |at: usize| of_slice.iter().map(|&own| own.abs_diff(at)).min().unwrap_or(usize::MAX);
    let mut all: Vec<usize> = (0..made.len()).collect();
    all.sort_by_key(|&at| (distance(at), Reverse(at)));
    all.truncate(most);
    all.sort_unstable();
    all
}

fn initial(history: &History, object: ObjectId, reads: &[&Touch], limits: Limits) -> picture::Version {
    let value = history.initial(object);
    let empty = |touch: &Touch| matches!(history.value(touch.value), Value::List(items) if items.is_empty());
    let readers = reads.iter().filter(|touch| {
        shows(history, touch.value, OpKind::Write, value) || (value == ValueId::NULL && empty(touch))
    });
    picture::Version {
        by: None,
        outcome: "committed".to_owned(),
        value: operation::value(history, value, limits.text),
        at: None,
        readers: labels(history, readers.map(|touch| touch.txn)),
    }
}

fn version(history: &History, made: Touch, reads: &[&Touch], limits: Limits) -> picture::Version {
    let value = operation::value(history, made.value, limits.text);
    let readers =
        reads.iter().filter(|read| read.txn != made.txn && shows(history, read.value, made.kind, made.value));
    picture::Version {
        by: Some(history.txn_label(made.txn)),
        outcome: outcome(history.outcome(made.txn)).to_owned(),
        value: if made.kind == OpKind::Append { format!("…, {value}") } else { value },
        at: history.end(made.txn),
        readers: labels(history, readers.map(|touch| touch.txn)),
    }
}

fn labels(history: &History, txns: impl Iterator<Item = TxnId>) -> Vec<u64> {
    let mut all: Vec<u64> = txns.take(READERS).map(|txn| history.txn_label(txn)).collect();
    all.dedup();
    all
}

/// The word for an outcome.
#[must_use]
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Committed => "committed",
        Outcome::Aborted => "aborted",
        Outcome::Unknown => "unknown",
    }
}
