//! Who touched the objects that a report is about: one walk over the history for all of them.

use std::collections::HashMap;

use margay_history::{Access, History, ObjectId, Op, OpKind, TxnId, Value, ValueId};

/// One access of an object.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    /// Who.
    pub txn: TxnId,
    /// How.
    pub kind: OpKind,
    /// What was seen, written or appended.
    pub value: ValueId,
}

/// Every access of the objects of interest.
pub struct Touches {
    by_object: HashMap<ObjectId, Vec<Touch>>,
}

impl Touches {
    /// Walks over the history once.
    #[must_use]
    pub fn of(history: &History, objects: impl IntoIterator<Item = ObjectId>) -> Self {
        let mut by_object: HashMap<ObjectId, Vec<Touch>> =
            objects.into_iter().map(|object| (object, Vec::new())).collect();
        if by_object.is_empty() {
            return Self { by_object };
        }
        let mut wanted = vec![false; history.object_count()];
        by_object.keys().for_each(|object| wanted[object.index()] = true);
        for txn in history.txns() {
            for op in history.ops(txn) {
                for access in op.accesses.iter().filter(|access| wanted[access.object.index()]) {
                    by_object.entry(access.object).or_default().push(touch(txn, op, access));
                }
            }
        }
        Self { by_object }
    }

    /// The accesses of one object, by transaction and in program order.
    #[must_use]
    pub fn get(&self, object: ObjectId) -> &[Touch] {
        self.by_object.get(&object).map_or(&[], Vec::as_slice)
    }
}

fn touch(txn: TxnId, op: Op<'_>, access: &Access) -> Touch {
    Touch { txn, kind: op.kind, value: access.value }
}

/// Whether what was seen may be what this write made, by the values alone.
#[must_use]
pub fn shows(history: &History, seen: ValueId, kind: OpKind, written: ValueId) -> bool {
    match (history.value(seen), history.value(written)) {
        (Value::Unknown, _) => false,
        (Value::List(items), _) if kind == OpKind::Append => items.last() == Some(&written),
        (Value::Row(columns), Value::Row(_)) => columns
            .iter()
            .all(|&(name, value)| history.values().column(written, name).is_none_or(|made| made == value)),
        _ => seen == written,
    }
}
