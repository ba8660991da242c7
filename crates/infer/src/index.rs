//! Who wrote what: writers by object and value, appenders by object and element.
//!
//! # Cost
//! One pass over the history and one hash entry for each distinct value written to an object.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, Value, ValueId};
use margay_verdict::Budget;

use crate::case::Stop;

/// How an object is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// By nobody.
    Unwritten,
    /// Whole.
    Register,
    /// By appends only.
    List,
}

/// Who left a value in a register when it ended, among those that may have committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Final {
    pub(crate) txn: TxnId,
    /// Whether others did too.
    pub(crate) several: bool,
}

/// Who appended an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Append {
    pub(crate) txn: TxnId,
    /// Its place among what the transaction appended to the object.
    pub(crate) place: u32,
}

/// Who wrote what.
pub(crate) struct Index {
    pub(crate) uses: Vec<Use>,
    finals: HashMap<u64, Final>,
    appends: HashMap<u64, Append>,
    /// How much a transaction appended to a list.
    counts: HashMap<u64, u32>,
    /// Who may have committed and writes what, by transaction; for a list as often as it appends.
    pub(crate) writers: Vec<(ObjectId, TxnId)>,
    /// What those leave in registers, if there are scans to ask for it.
    pub(crate) last_writes: Vec<(ObjectId, TxnId, ValueId)>,
}

/// Absent and the empty list are one value.
pub(crate) fn plain(history: &History, value: ValueId) -> ValueId {
    match value.small_int() {
        None if matches!(history.value(value), Value::List([])) => ValueId::NULL,
        _ => value,
    }
}

/// The elements that a list has at first.
pub(crate) fn initial_items(history: &History, object: ObjectId) -> &[ValueId] {
    match history.value(history.initial(object)) {
        Value::List(items) => items,
        _ => &[],
    }
}

fn key(object: ObjectId, other: u32) -> u64 {
    u64::from(object.0) << 32 | u64::from(other)
}

impl Index {
    /// # Errors
    /// What of the history is outside the engine's fragment, or the limit that was reached.
    pub(crate) fn new(history: &History, budget: &Budget) -> Result<Self, Stop> {
        let mut index = Self {
            uses: vec![Use::Unwritten; history.object_count()],
            finals: HashMap::new(),
            appends: HashMap::new(),
            counts: HashMap::new(),
            writers: Vec::new(),
            last_writes: Vec::new(),
        };
        if history.has_kind(OpKind::Write) {
            index.finals.reserve(history.op_count() / 2);
        }
        let mut own = BTreeMap::new();
        let scans = history.has_kind(OpKind::Scan);
        for txn in history.txns() {
            budget.poll()?;
            index.add(history, txn, &mut own)?;
            if scans && history.outcome(txn) != Outcome::Aborted {
                index.last_writes.extend(own.iter().map(|(&object, &value)| (object, txn, value)));
            }
        }
        Ok(index)
    }

    /// `own` is scratch: what the transaction wrote last to each object.
    fn add(
        &mut self,
        history: &History,
        txn: TxnId,
        own: &mut BTreeMap<ObjectId, ValueId>,
    ) -> Result<(), String> {
        own.clear();
        let lives = history.outcome(txn) != Outcome::Aborted;
        for op in history.ops(txn).filter(|op| op.kind.writes()) {
            for access in op.accesses {
                self.settle(history, access.object, op.kind)?;
                if op.kind == OpKind::Append {
                    self.append(history, txn, access.object, access.value)?;
                    if lives {
                        self.writers.push((access.object, txn));
                    }
                    continue;
                }
                own.insert(access.object, access.value);
            }
        }
        for (&object, &value) in own.iter().filter(|_| lives) {
            self.writers.push((object, txn));
            let found = self.finals.entry(key(object, plain(history, value).0));
            found.and_modify(|f| f.several = true).or_insert(Final { txn, several: false });
        }
        Ok(())
    }

    fn settle(&mut self, history: &History, object: ObjectId, kind: OpKind) -> Result<(), String> {
        let wanted = if kind == OpKind::Append { Use::List } else { Use::Register };
        let found = &mut self.uses[object.index()];
        if *found == Use::Unwritten {
            *found = wanted;
            let initial = history.initial(object);
            let list = initial == ValueId::NULL || matches!(history.value(initial), Value::List(_));
            if wanted == Use::List && !list {
                return Err(format!("{} is appended to, and no list at first", history.show_object(object)));
            }
        }
        match *found == wanted {
            true => Ok(()),
            false => Err(format!("{} is both written and appended to", history.show_object(object))),
        }
    }

    fn append(
        &mut self,
        history: &History,
        txn: TxnId,
        object: ObjectId,
        element: ValueId,
    ) -> Result<(), String> {
        let count = self.counts.entry(key(object, txn.0)).or_default();
        let append = Append { txn, place: *count };
        *count += 1;
        if initial_items(history, object).contains(&element) {
            return Err(format!(
                "{} is appended to {}, which has it at first",
                history.show_value(element),
                history.show_object(object)
            ));
        }
        match self.appends.insert(key(object, element.0), append) {
            None => Ok(()),
            Some(_) => Err(format!(
                "{} is appended twice to {}",
                history.show_value(element),
                history.show_object(object)
            )),
        }
    }

    /// Who left `value` in a register.
    pub(crate) fn last_writer(&self, history: &History, object: ObjectId, value: ValueId) -> Option<Final> {
        self.finals.get(&key(object, plain(history, value).0)).copied()
    }

    /// Who appended an element.
    pub(crate) fn appender(&self, object: ObjectId, element: ValueId) -> Option<Append> {
        self.appends.get(&key(object, element.0)).copied()
    }

    /// How much a transaction appended to a list.
    pub(crate) fn appended(&self, object: ObjectId, txn: TxnId) -> u32 {
        self.counts.get(&key(object, txn.0)).copied().unwrap_or(0)
    }
}
