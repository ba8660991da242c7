//! read-uncommitted: some version order has no cycle of write dependencies.
//!
//! # Problem
//! Reads may see anything that somebody wrote, so they say nothing about version orders; with one
//! exception: a list shows in which order its elements were appended. If a committed transaction
//! read a before b in a list, the writer of a wrote before the writer of b. Reads of one list that
//! contradict each other tell nothing at this level.
//!
//! # Algorithm
//! Evidence and lists give an order of some pairs of writers, object by object. If no object's
//! order has a cycle and their union (with session order and real time, as far as they count) has
//! none, one order of all transactions that contains it gives all version orders.

use std::collections::{BTreeMap, BTreeSet};

use margay_history::{ObjectId, Op, OpKind, Outcome, TxnId, Value, ValueId};
use margay_levels::Level;
use margay_verdict::{Edge, Reason, Versions, Why};

use crate::cycle::{CycleStep, back};
use crate::everywhere;
use crate::graph::{Matrix, closure};
use crate::model::{Model, Search, Stop};
use crate::versions::hidden_update;

/// Version orders, if there are some without a cycle and nothing was seen that is illegal at every
/// level.
pub fn order(model: &Model<'_>) -> Search<Option<Versions>> {
    let history = model.history;
    let txns = committed(model);
    let hidden = |op: &Op<'_>| history.update(op.id).is_some_and(|update| !update.observed);
    if let Some(op) = txns.iter().flat_map(|&t| history.ops(t)).find(hidden) {
        return Err(hidden_update(history, op.id).into());
    }
    if txns.len() > 64 {
        return Err(Stop::Why(Why::Outside("a history of more than 64 transactions".into())));
    }
    model.step()?;
    let row = |txn: TxnId| txns.iter().position(|&t| t == txn).unwrap_or(0);
    let mut matrix: Matrix = vec![0; txns.len()];
    for step in steps(model, &txns) {
        matrix[row(step.edge.from)] |= 1 << row(step.edge.to);
    }
    let all = closure(&matrix);
    let cyclic = all.iter().enumerate().any(|(i, row)| row >> i & 1 == 1);
    if cyclic || everywhere::illegal(history).is_some() {
        return Ok(None);
    }
    let rank = |txn: &TxnId| std::cmp::Reverse(all[row(*txn)].count_ones());
    let mut orders: Vec<(ObjectId, Vec<TxnId>)> = writers(model, &txns).into_iter().collect();
    orders.iter_mut().for_each(|(_, writers)| writers.sort_by_key(rank));
    orders.sort_unstable();
    Ok(Some(Versions { committed: Vec::new(), orders, reads: Vec::new() }))
}

/// The shortest cycle of what evidence and lists (and session order and real time, as far as they
/// count) say of version orders, if there is one. It breaks every level.
pub fn cycle(model: &Model<'_>) -> Option<Vec<CycleStep>> {
    let txns = committed(model);
    let steps = steps(model, &txns);
    txns.iter().filter_map(|&txn| back(Level::ReadUncommitted, &steps, (txn, 0))).min_by_key(Vec::len)
}

fn committed(model: &Model<'_>) -> Vec<TxnId> {
    let history = model.history;
    history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).collect()
}

/// What is certain about the order of committed transactions: by evidence and lists, and session
/// order and real time as far as they count.
fn steps(model: &Model<'_>, txns: &[TxnId]) -> Vec<CycleStep> {
    let mut all = Vec::new();
    let mut add =
        |from, to, reason| all.push(CycleStep { edge: Edge { from, to, reason }, predicate: false });
    for &a in txns {
        for &b in txns.iter().filter(|&&b| model.precedes(a, b)) {
            let session = model.history.session_of(a) == model.history.session_of(b) && a < b;
            add(a, b, if session { Reason::Session } else { Reason::RealTime });
        }
    }
    for (object, writers) in writers(model, txns) {
        for &a in &writers {
            let told = writers.iter().filter(|&&b| a != b && model.version_before(object, a, b));
            told.for_each(|&b| add(a, b, Reason::Write { object }));
        }
        for (a, b) in list_pairs(model, txns, object) {
            if txns.contains(&a) && txns.contains(&b) {
                add(a, b, Reason::Write { object });
            }
        }
    }
    all
}

fn writers(model: &Model<'_>, txns: &[TxnId]) -> BTreeMap<ObjectId, Vec<TxnId>> {
    let mut writers: BTreeMap<ObjectId, Vec<TxnId>> = BTreeMap::new();
    for &txn in txns {
        for op in model.history.ops(txn).filter(|op| op.kind.writes()) {
            for access in op.accesses {
                let all = writers.entry(access.object).or_default();
                if !all.contains(&txn) {
                    all.push(txn);
                }
            }
        }
    }
    writers
}

/// What the lists that were read of an object say of the order of its writers.
fn list_pairs(model: &Model<'_>, txns: &[TxnId], object: ObjectId) -> Vec<(TxnId, TxnId)> {
    let history = model.history;
    let mut before: BTreeSet<(ValueId, ValueId)> = BTreeSet::new();
    for op in txns.iter().flat_map(|&t| history.ops(t)) {
        let seen = op.accesses.iter().filter(|a| a.object == object && !op.kind.writes());
        for access in seen {
            if let Value::List(items) = history.value(access.value) {
                for (i, &a) in items.iter().enumerate() {
                    before.extend(items[i + 1..].iter().map(|&b| (a, b)));
                }
            }
        }
    }
    if before.iter().any(|&(a, b)| before.contains(&(b, a))) {
        return Vec::new();
    }
    let appender = |element: ValueId| only_appender(model, object, element);
    let pairs = before.into_iter().filter_map(|(a, b)| Some((appender(a)?, appender(b)?)));
    pairs.filter(|(a, b)| a != b).collect()
}

/// The transaction that appended an element, if there is just one that may have, and it did only
/// that.
fn only_appender(model: &Model<'_>, object: ObjectId, element: ValueId) -> Option<TxnId> {
    let history = model.history;
    let mut found = None;
    for txn in history.txns() {
        for op in history.ops(txn) {
            for access in op.accesses.iter().filter(|a| a.object == object) {
                match op.kind {
                    OpKind::Append if access.value == element && found.is_some() => return None,
                    OpKind::Append if access.value == element => found = Some(txn),
                    OpKind::Write | OpKind::Update => return None,
                    _ => {}
                }
            }
        }
    }
    found
}
