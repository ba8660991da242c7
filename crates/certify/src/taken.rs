//! Which transactions of unknown outcome are taken to have committed.
//!
//! Any choice that proves a level is a good one, so this is a guess: those that evidence names, and
//! those whose values somebody saw that nobody else wrote.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, Value, ValueId, Version};

/// By transaction: committed, or taken to have.
pub(crate) fn taken(history: &History) -> Vec<bool> {
    let mut taken: Vec<bool> = history.txns().map(|t| history.outcome(t) == Outcome::Committed).collect();
    if history.txns().all(|t| history.outcome(t) != Outcome::Unknown) {
        return taken;
    }
    for txn in named(history) {
        taken[txn.index()] |= history.outcome(txn) == Outcome::Unknown;
    }
    add_seen(history, &mut taken);
    taken
}

/// The transactions whose versions or timestamps evidence names.
fn named(history: &History) -> Vec<TxnId> {
    let evidence = history.evidence();
    let orders = evidence.version_orders.iter().flat_map(|order| order.versions.iter().copied());
    let sets = evidence.version_sets.iter().flat_map(|set| set.versions.iter().map(|v| v.1));
    let versions = orders.chain(sets).filter_map(|version| match version {
        Version::Of(txn) => Some(txn),
        Version::Initial => None,
    });
    let stamps = evidence.commits.iter().chain(&evidence.serializations).map(|s| s.0);
    versions.chain(stamps).collect()
}

fn add_seen(history: &History, taken: &mut [bool]) {
    let open = |t: &TxnId| history.outcome(*t) == Outcome::Unknown;
    let mut wrote: HashMap<(ObjectId, ValueId), TxnId> = HashMap::new();
    for txn in history.txns().filter(|t| open(t) && !taken[t.index()]) {
        parts(history, txn, OpKind::writes, &mut |key| _ = wrote.insert(key, txn));
    }
    for txn in history.txns().filter(|t| taken[t.index()]) {
        parts(history, txn, OpKind::writes, &mut |key| _ = wrote.remove(&key));
    }
    let mut pending: Vec<TxnId> = history.txns().filter(|t| taken[t.index()]).collect();
    while let Some(txn) = pending.pop() {
        let reads = |kind| matches!(kind, OpKind::Read | OpKind::Scan);
        parts(history, txn, reads, &mut |key| {
            if let Some(&writer) = wrote.get(&key)
                && !taken[writer.index()]
            {
                taken[writer.index()] = true;
                pending.push(writer);
            }
        });
    }
}

/// The values of a transaction's accesses, and what they consist of.
fn parts(
    history: &History,
    txn: TxnId,
    kinds: impl Fn(OpKind) -> bool,
    into: &mut impl FnMut((ObjectId, ValueId)),
) {
    for op in history.ops(txn).filter(|op| kinds(op.kind)) {
        for access in op.accesses {
            match history.value(access.value) {
                Value::List(items) => items.iter().for_each(|&item| into((access.object, item))),
                Value::Row(columns) => columns.iter().for_each(|c| into((access.object, c.1))),
                Value::Null | Value::Unknown => {}
                _ => into((access.object, access.value)),
            }
        }
    }
}
