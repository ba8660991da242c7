//! Which transactions of unknown outcome were seen; and the pieces in which values are seen.
//!
//! A value that one transaction alone wrote, and that another saw, shows that the first committed,
//! and by when. Knowing that early spares engines many wrong turns. It is a guess: a predicate
//! update may have made the same value. What follows from it is audited, or proved without it.
//!
//! # Cost
//! Linear in what operations wrote and saw.

use hashbrown::{HashMap, HashSet};
use margay_history::{Access, History, NameId, ObjectId, OpKind, Outcome, TxnId, Value, ValueId};

/// A value of an object, of one of its columns, or an element of its list.
pub type Piece = (ObjectId, Option<NameId>, ValueId);

/// By when each transaction of unknown outcome that was seen had taken effect.
#[must_use]
pub fn seen(history: &History) -> HashMap<TxnId, i64> {
    let mut pieces: HashMap<Piece, Option<TxnId>> = HashMap::new();
    for txn in history.txns().filter(|&txn| history.outcome(txn) == Outcome::Unknown) {
        each_piece(history, txn, true, |piece| _ = pieces.insert(piece, Some(txn)));
    }
    let computed = computed(history);
    pieces.retain(|piece, _| piece.1.is_none_or(|name| !computed.contains(&name)));
    let mut seen = HashMap::new();
    if pieces.is_empty() {
        return seen;
    }
    for txn in history.txns() {
        each_piece(history, txn, true, |piece| {
            if let Some(writer) = pieces.get_mut(&piece) {
                *writer = writer.filter(|&only| only == txn);
            }
        });
    }
    for &(object, value) in history.initial_values() {
        in_value(history, Access { object, value }, |piece| _ = pieces.remove(&piece));
    }
    for txn in history.txns().filter(|&txn| history.outcome(txn) == Outcome::Committed) {
        let Some(end) = history.end(txn) else { continue };
        each_piece(history, txn, false, |piece| {
            if let Some(&Some(writer)) = pieces.get(&piece) {
                let by = seen.entry(writer).or_insert(end);
                *by = end.min(*by);
            }
        });
    }
    seen
}

/// The columns that predicate updates name: what they hold may come from anywhere.
#[must_use]
pub fn computed(history: &History) -> HashSet<NameId> {
    let ops = history.txns().filter(|_| history.has_kind(OpKind::Update)).flat_map(|txn| history.ops(txn));
    let texts = ops.filter_map(|op| history.update(op.id)?.set.as_deref());
    let texts: HashSet<&str> = texts.collect();
    let names = (0..history.values().name_count()).map(NameId::at);
    let named = |name: &NameId| texts.iter().any(|text| text.contains(history.name(*name)));
    if texts.is_empty() { HashSet::new() } else { names.filter(named).collect() }
}

/// What a transaction wrote, or what it saw.
pub fn each_piece(history: &History, txn: TxnId, written: bool, mut each: impl FnMut(Piece)) {
    for op in history.ops(txn) {
        let counts = match op.kind {
            OpKind::Write | OpKind::Append => written,
            OpKind::Read | OpKind::Scan => !written,
            _ => false,
        };
        op.accesses.iter().filter(|_| counts).for_each(|&access| in_value(history, access, &mut each));
    }
}

/// What a value consists of.
pub fn in_value(history: &History, Access { object, value }: Access, mut each: impl FnMut(Piece)) {
    match history.value(value) {
        Value::Null | Value::Unknown => {}
        Value::Row(columns) => columns.iter().for_each(|&(name, value)| each((object, Some(name), value))),
        Value::List(items) => items.iter().for_each(|&item| each((object, None, item))),
        _ => each((object, None, value)),
    }
}
