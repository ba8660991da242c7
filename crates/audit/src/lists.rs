//! What lists say of the order of their writers.
//!
//! A list that was only appended to shows the order of its elements to whoever reads it, and so the
//! order of its writers' versions.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, ObjectId, OpId, OpKind, Outcome, TxnId, Value, ValueId};

use super::{Rejected, reject};

/// All accesses of one object: the operation, and the value seen or written.
pub(super) type Accesses = [(OpId, ValueId)];

/// The accesses of every object that `wanted` admits.
pub(super) fn accesses(
    history: &History,
    wanted: impl Fn(ObjectId) -> bool,
) -> HashMap<ObjectId, Vec<(OpId, ValueId)>> {
    let mut all: HashMap<ObjectId, Vec<(OpId, ValueId)>> = HashMap::new();
    for op in history.txns().flat_map(|txn| history.ops(txn)) {
        for access in op.accesses.iter().filter(|a| wanted(a.object)) {
            all.entry(access.object).or_default().push((op.id, access.value));
        }
    }
    all
}

/// The lists that committed transactions read of an object, without those that are the beginning of
/// another.
pub(super) fn longest_reads<'h>(
    history: &'h History,
    accesses: &Accesses,
    committed: impl Fn(TxnId) -> bool,
) -> Vec<&'h [ValueId]> {
    let mut reads: Vec<&[ValueId]> = Vec::new();
    for &(op, value) in accesses {
        if let Value::List(items) = history.value(value)
            && matches!(history.op(op).kind, OpKind::Read | OpKind::Scan)
            && committed(history.txn_of(op))
        {
            reads.push(items);
        }
    }
    reads.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    let mut kept: Vec<&[ValueId]> = Vec::new();
    for read in reads {
        if !kept.iter().any(|longer| longer.starts_with(read)) {
            kept.push(read);
        }
    }
    kept
}

/// Who appended each element, where one append only can have, among the transactions that `counts`
/// admits. Empty when a counting transaction did something else to the object than append.
pub(super) fn appenders(
    history: &History,
    object: ObjectId,
    accesses: &Accesses,
    counts: impl Fn(TxnId) -> bool,
) -> HashMap<ValueId, TxnId> {
    let mut found: HashMap<ValueId, TxnId> = HashMap::new();
    let mut several: HashSet<ValueId> = match history.value(history.initial(object)) {
        Value::List(items) => items.iter().copied().collect(),
        _ => HashSet::new(),
    };
    for &(op, value) in accesses {
        let txn = history.txn_of(op);
        match history.op(op).kind {
            OpKind::Append if counts(txn) => several.extend(found.insert(value, txn).map(|_| value)),
            OpKind::Write | OpKind::Update if counts(txn) => return HashMap::new(),
            _ => {}
        }
    }
    found.retain(|element, _| !several.contains(element));
    found
}

/// The order of the writers of one list, as one read shows it; a writer occurs as often as its
/// elements do.
pub(super) struct ListOrder {
    pub(super) object: ObjectId,
    pub(super) writers: Vec<TxnId>,
}

/// What lists say at `read-uncommitted`, where a read may show anything: nothing, if the reads of a
/// list contradict each other.
pub(super) fn list_orders(history: &History, committed: impl Fn(TxnId) -> bool) -> Vec<ListOrder> {
    let mut orders = Vec::new();
    if !history.has_kind(OpKind::Append) {
        return orders;
    }
    for (object, accesses) in accesses(history, |_| true) {
        orders.extend(orders_of(history, object, &accesses, &committed));
    }
    orders
}

/// The same for one object.
pub(super) fn orders_of(
    history: &History,
    object: ObjectId,
    accesses: &Accesses,
    committed: impl Fn(TxnId) -> bool,
) -> Vec<ListOrder> {
    let reads = longest_reads(history, accesses, &committed);
    if contradict(&reads) {
        return Vec::new();
    }
    let appenders = appenders(history, object, accesses, |_| true);
    let order = |read: &&[ValueId]| {
        let writers = read.iter().filter_map(|element| appenders.get(element).copied());
        ListOrder { object, writers: writers.filter(|&txn| committed(txn)).collect() }
    };
    reads.iter().map(order).collect()
}

/// Whether two elements are seen in both orders, be it by one read.
fn contradict(reads: &[&[ValueId]]) -> bool {
    let twice = |read: &[ValueId]| {
        let mut seen = HashSet::new();
        // An element twice in a row contradicts nothing but itself, and that is an anomaly of its
        // own.
        !read.iter().all(|&element| seen.insert(element))
    };
    if reads.iter().any(|read| twice(read)) {
        return true;
    }
    let places: Vec<HashMap<ValueId, usize>> =
        reads.iter().map(|read| read.iter().enumerate().map(|(i, &e)| (e, i)).collect()).collect();
    places.iter().enumerate().any(|(i, theirs)| {
        reads[i + 1..].iter().any(|read| {
            let shared: Vec<usize> = read.iter().filter_map(|element| theirs.get(element).copied()).collect();
            !shared.is_sorted()
        })
    })
}

/// An element that a committed transaction saw more often than it was appended.
pub(super) fn duplicate(
    history: &History,
    object: ObjectId,
    accesses: &Accesses,
    observed: ValueId,
) -> Option<ValueId> {
    let Value::List(items) = history.value(observed) else { return None };
    let mut left: HashMap<ValueId, isize> = HashMap::new();
    for &item in items {
        *left.entry(item).or_default() += 1;
    }
    if left.len() == items.len() || history.initial(object) != ValueId::NULL {
        return None;
    }
    for &(op, value) in accesses {
        match history.op(op).kind {
            OpKind::Append => left.entry(value).and_modify(|count| *count -= 1).or_default(),
            OpKind::Write | OpKind::Update => return None,
            _ => continue,
        };
    }
    items.iter().copied().find(|item| left[item] > 0)
}

/// Whether no committed transaction saw an element more often than it was appended.
pub(super) fn no_duplicates(history: &History, committed: &[bool]) -> Result<(), Rejected> {
    let repeats = |value: ValueId| match history.value(value) {
        Value::List(items) => items.iter().copied().collect::<HashSet<_>>().len() < items.len(),
        _ => false,
    };
    let mut suspects = Vec::new();
    for txn in history.txns().filter(|t| committed[t.index()]) {
        for op in history.ops(txn).filter(|op| !op.kind.writes()) {
            suspects
                .extend(op.accesses.iter().filter(|a| repeats(a.value)).map(|a| (txn, a.object, a.value)));
        }
    }
    if suspects.is_empty() {
        return Ok(());
    }
    let objects: HashSet<ObjectId> = suspects.iter().map(|s| s.1).collect();
    let all = accesses(history, |object| objects.contains(&object));
    for (txn, object, value) in suspects {
        if duplicate(history, object, &all[&object], value).is_some() {
            return reject(format!(
                "{} saw an element of {} twice",
                history.show_txn(txn),
                history.show_object(object)
            ));
        }
    }
    Ok(())
}

/// Whether a transaction may have committed.
pub(super) fn may_commit(history: &History, txn: TxnId) -> bool {
    history.outcome(txn) != Outcome::Aborted
}
