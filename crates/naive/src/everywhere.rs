//! What is illegal at every level: to read what nobody wrote, and to read an element of a list more
//! often than it was appended.

use hashbrown::HashMap;
use margay_history::{Access, History, NameId, ObjectId, Op, OpId, OpKind, Outcome, Value, ValueId};
use margay_sql::{Assignments, Dialect};

/// An operation of a committed transaction that saw something illegal.
pub fn illegal(history: &History) -> Option<OpId> {
    let committed = history.txns().filter(|&t| history.outcome(t) == Outcome::Committed);
    let reads =
        committed.flat_map(|t| history.ops(t)).filter(|op| matches!(op.kind, OpKind::Read | OpKind::Scan));
    let bad = |a: &Access| is_garbage(history, a) || is_doubled(history, a);
    reads.into_iter().find(|op| op.accesses.iter().any(bad)).map(|op| op.id)
}

/// Every operation that may have written an object, with what it wrote.
fn writes(history: &History, object: ObjectId) -> impl Iterator<Item = (Op<'_>, ValueId)> {
    let ops = history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind.writes());
    ops.flat_map(move |op| op.accesses.iter().filter(move |a| a.object == object).map(move |a| (op, a.value)))
}

/// Whether a predicate update whose rows nobody saw may have written the object.
fn is_opaque(history: &History, object: ObjectId) -> bool {
    let Some(table) = history.object(object).table else { return false };
    let hidden = |op: Op<'_>| {
        let update = history.update(op.id);
        update.is_some_and(|u| !u.observed && history.predicate(u.predicate).table == table)
    };
    history.txns().flat_map(|txn| history.ops(txn)).any(hidden)
}

fn is_garbage(history: &History, seen: &Access) -> bool {
    let object = seen.object;
    if is_opaque(history, object) {
        return false;
    }
    let initial = history.initial(object);
    let has = |test: &dyn Fn(OpKind, ValueId) -> bool| {
        test(OpKind::Write, initial) || writes(history, object).any(|(op, value)| test(op.kind, value))
    };
    match history.value(seen.value) {
        Value::Unknown => false,
        Value::List(items) => items.iter().any(|&item| {
            !has(&|kind, value| match history.value(value) {
                _ if kind == OpKind::Append => value == item,
                Value::List(items) => items.contains(&item),
                _ => false,
            })
        }),
        Value::Row(columns) => columns.iter().any(|&(name, value)| {
            let known =
                value == ValueId::NULL || value == ValueId::UNKNOWN || is_key(history, object, name, value);
            let written = |_: OpKind, row: ValueId| history.values().column(row, name) == Some(value);
            !known && !has(&written) && !is_computed(history, object, name)
        }),
        _ => {
            let same = |kind, value| {
                kind != OpKind::Append && (value == seen.value || is_empty(history, value, seen.value))
            };
            !has(&same) && !writes(history, object).any(|(op, value)| hides_a_column(history, op, value))
        }
    }
}

/// Absent and an empty list are the same.
fn is_empty(history: &History, value: ValueId, seen: ValueId) -> bool {
    seen == ValueId::NULL && matches!(history.value(value), Value::List([]))
}

fn is_key(history: &History, object: ObjectId, name: NameId, value: ValueId) -> bool {
    let object = history.object(object);
    let Some(table) = object.table else { return false };
    let key = &history.table(table).key;
    let Some(at) = key.iter().position(|k| k == history.name(name)) else { return false };
    match history.value(object.key) {
        Value::List(parts) if key.len() > 1 => parts.get(at) == Some(&value),
        _ => object.key == value,
    }
}

/// The columns that a predicate update sets.
fn targets(history: &History, op: Op<'_>) -> Vec<String> {
    let set = history.update(op.id).and_then(|update| update.set.as_deref());
    let parsed = set.and_then(|set| Assignments::parse(set, Dialect::Generic).ok());
    parsed.map_or(Vec::new(), |parsed| parsed.targets().map(str::to_string).collect())
}

/// Whether an update set the column without showing its value.
fn is_computed(history: &History, object: ObjectId, name: NameId) -> bool {
    writes(history, object).any(|(op, value)| {
        let sets = targets(history, op).iter().any(|target| target.eq_ignore_ascii_case(history.name(name)));
        sets && history.values().column(value, name).is_none()
    })
}

fn hides_a_column(history: &History, op: Op<'_>, value: ValueId) -> bool {
    let shown = |target: &String| {
        history.values().find_name(target).is_some_and(|n| history.values().column(value, n).is_some())
    };
    targets(history, op).iter().any(|target| !shown(target))
}

/// Whether a list shows an element more often than it was appended. Where lists are also written
/// whole, that cannot be told.
fn is_doubled(history: &History, seen: &Access) -> bool {
    let Value::List(items) = history.value(seen.value) else { return false };
    let mut shown: HashMap<ValueId, usize> = HashMap::new();
    items.iter().for_each(|&item| *shown.entry(item).or_default() += 1);
    let whole = |(op, _): (Op<'_>, ValueId)| op.kind != OpKind::Append;
    if history.initial(seen.object) != ValueId::NULL || writes(history, seen.object).any(whole) {
        return false;
    }
    let appends = |item| writes(history, seen.object).filter(|&(_, value)| value == item).count();
    shown.into_iter().any(|(item, times)| times > 1 && times > appends(item))
}
