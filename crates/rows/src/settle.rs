//! Unknown initial rows, as far as reads tell them.
//!
//! # Problem
//! A table whose initial rows are not known may have held anything. Engines want to know what.
//!
//! # Algorithm
//! A column's value that a committed transaction read, and that no transaction wrote to this row,
//! is the initial one: there is no other place that it can come from. A row that was read as
//! absent, and that nobody deleted, was absent. Where nothing tells, a read may have seen the
//! initial value or that of a writer: then the column is left out of the reads of this row. A scan
//! of such a table tells which rows it found; it becomes a read of these. That it did not find
//! others tells nothing.
//!
//! # Invariants
//! - If some initial rows make the history legal at a level, the settled history is legal at it.
//! - If nothing was left out, the reverse is true as well.
//! - A row of which nothing tells whether it was there has no reads left.

use std::collections::{BTreeSet, HashMap, HashSet};

use margay_history::{
    Access, History, HistoryBuilder, NameId, ObjectId, Op, OpDetail, OpKind, Outcome, TxnId, Value, ValueId,
};

use crate::project::{Plan, is_observed};

/// A history whose initial rows are known, and what was left out of it.
pub(crate) struct Settled {
    pub history: History,
    pub dropped: HashSet<TxnId>,
    pub reasons: BTreeSet<String>,
}

/// Settles the initial rows of a history that `builder` holds, made from `rows` by the plan.
pub(crate) fn settle(rows: &History, mut builder: HistoryBuilder, plan: &Plan) -> Option<Settled> {
    let open = |at: usize| !plan.tables.contains(&margay_history::TableId::at(at));
    let unknown = rows.tables().iter().enumerate().any(|(at, table)| table.initial_unknown && open(at));
    builder.take_tables_as_seen();
    let history = builder.finish().ok()?;
    if !unknown {
        return Some(Settled { history, dropped: HashSet::new(), reasons: BTreeSet::new() });
    }
    let open: Vec<bool> = rows.tables().iter().map(|table| table.initial_unknown).collect();
    let told = OpenContent::of(&history, &open);
    Copy { history: &history, open: &open, told: &told }.copy()
}

/// What was written to the rows of open tables, and what reads tell of their initial content.
#[derive(Default)]
struct OpenContent {
    written: HashSet<(ObjectId, NameId, ValueId)>,
    deleted: HashSet<ObjectId>,
    columns: HashMap<(ObjectId, NameId), ValueId>,
    present: HashSet<ObjectId>,
    absent: HashSet<ObjectId>,
}

fn is_open(history: &History, open: &[bool], object: ObjectId) -> bool {
    let given = history.initial_values().binary_search_by_key(&object, |&(o, _)| o).is_ok();
    !given && history.object(object).table.is_some_and(|table| open[table.index()])
}

impl OpenContent {
    fn of(history: &History, open: &[bool]) -> Self {
        let mut told = Self::default();
        let ops = || history.txns().flat_map(|txn| history.ops(txn).map(move |op| (txn, op)));
        let accesses = |op: Op<'_>| {
            let all = op.accesses.to_vec();
            all.into_iter().filter(|access| is_open(history, open, access.object))
        };
        for (_, op) in ops().filter(|(_, op)| op.kind.writes()) {
            let deletes = history.update(op.id).is_some_and(|update| update.set.is_none());
            for access in accesses(op) {
                match history.value(access.value) {
                    Value::Row(columns) if !deletes => {
                        told.written
                            .extend(columns.iter().map(|&(name, value)| (access.object, name, value)));
                    }
                    _ => drop(told.deleted.insert(access.object)),
                }
            }
        }
        let reads = |kind| matches!(kind, OpKind::Read | OpKind::Scan);
        for (_, op) in ops().filter(|&(txn, op)| reads(op.kind) && history.outcome(txn) == Outcome::Committed)
        {
            accesses(op).for_each(|access| told.seen(history, access));
        }
        told
    }

    fn seen(&mut self, history: &History, Access { object, value }: Access) {
        match history.value(value) {
            Value::Row(columns) => {
                for &(name, value) in columns {
                    if !self.written.contains(&(object, name, value)) {
                        self.columns.entry((object, name)).or_insert(value);
                        self.present.insert(object);
                    }
                }
            }
            Value::Null if !self.deleted.contains(&object) => drop(self.absent.insert(object)),
            _ => {}
        }
    }

    /// What is left of what a read saw of a row.
    fn left(&self, history: &History, builder: &mut HistoryBuilder, access: Access) -> Option<Access> {
        let Access { object, value } = access;
        let settled = self.present.contains(&object) || self.absent.contains(&object);
        match history.value(value) {
            Value::Row(columns) if self.present.contains(&object) => {
                let known = |&(name, _): &(NameId, ValueId)| self.columns.contains_key(&(object, name));
                let kept: Vec<_> = columns.iter().copied().filter(known).collect();
                let whole = kept.len() == columns.len();
                let value = if whole { value } else { builder.values().row(&kept) };
                Some(Access { object, value })
            }
            _ if settled => Some(access),
            _ => None,
        }
    }
}

struct Copy<'a> {
    history: &'a History,
    open: &'a [bool],
    told: &'a OpenContent,
}

impl Copy<'_> {
    fn copy(&self) -> Option<Settled> {
        let history = self.history;
        let mut builder = HistoryBuilder::like(history);
        self.initial(&mut builder);
        let (mut dropped, mut reasons) = (HashSet::new(), BTreeSet::new());
        for txn in history.txns() {
            let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
            for (place, op) in history.ops(txn).enumerate() {
                let (kind, accesses, lossy) = self.op(&mut builder, op);
                if lossy {
                    dropped.insert(txn);
                    reasons.insert("reads that unknown initial rows may explain".to_owned());
                }
                let touches = !matches!(op.kind, OpKind::Begin) && op.kind.outcome().is_none();
                let (kind, detail) = match kind {
                    _ if touches && accesses.is_empty() && lossy && place > 0 => continue,
                    _ if touches && accesses.is_empty() && lossy => (OpKind::Begin, OpDetail::None),
                    kind if kind != op.kind => (kind, OpDetail::None),
                    kind => (kind, history.detail(op, is_observed(history, op))),
                };
                builder.push(session, label, op.at, kind, &accesses, detail).ok()?;
                if matches!(kind, OpKind::Read | OpKind::Scan) {
                    history.read_lock(op.id).into_iter().for_each(|lock| builder.lock(lock));
                }
            }
        }
        let (evidence, label) = (history.evidence(), |txn: TxnId| history.txn_label(txn));
        evidence.snapshots.iter().for_each(|&(txn, ts)| builder.snapshot(label(txn), ts));
        evidence.commits.iter().for_each(|&(txn, ts)| builder.commit(label(txn), ts));
        evidence.serializations.iter().for_each(|&(txn, ts)| builder.serialization(label(txn), ts));
        Some(Settled { history: builder.finish().ok()?, dropped, reasons })
    }

    fn initial(&self, builder: &mut HistoryBuilder) {
        let mut rows: HashMap<ObjectId, Vec<(NameId, ValueId)>> = HashMap::new();
        for (&(object, name), &value) in &self.told.columns {
            rows.entry(object).or_default().push((name, value));
        }
        for (object, mut columns) in rows {
            columns.sort_unstable_by_key(|&(name, _)| name);
            let row = builder.values().row(&columns);
            let _ = builder.initial(object, row);
        }
    }

    /// The kind and the accesses that an operation is left with, and whether it tells less than
    /// before.
    fn op(&self, builder: &mut HistoryBuilder, op: Op<'_>) -> (OpKind, Vec<Access>, bool) {
        let history = self.history;
        let asked = history.scan(op.id).map(|scan| scan.predicate);
        let asked = asked.or_else(|| history.update(op.id).map(|update| update.predicate));
        let open = asked.is_some_and(|asked| self.open[history.predicate(asked).table.index()]);
        match op.kind {
            OpKind::Read | OpKind::Scan => {
                let accesses = self.read(builder, op.accesses);
                let kind = if open { OpKind::Read } else { op.kind };
                let lossy = open || accesses != op.accesses;
                (kind, accesses, lossy)
            }
            // What it wrote is known; which rows it did not find is not.
            OpKind::Update if open => {
                let deletes = history.update(op.id).is_some_and(|update| update.set.is_none());
                let became =
                    |a: &Access| Access { value: if deletes { ValueId::NULL } else { a.value }, ..*a };
                (OpKind::Write, op.accesses.iter().map(became).collect(), true)
            }
            kind => (kind, op.accesses.to_vec(), false),
        }
    }

    fn read(&self, builder: &mut HistoryBuilder, accesses: &[Access]) -> Vec<Access> {
        let left = |&access: &Access| {
            if is_open(self.history, self.open, access.object) {
                self.told.left(self.history, builder, access)
            } else {
                Some(access)
            }
        };
        accesses.iter().filter_map(left).collect()
    }
}
