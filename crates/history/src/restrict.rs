//! A history without some of its transactions.
//!
//! # Problem
//! A counterexample is minimal when no transaction of it can be dropped. But a history from which a
//! writer was simply cut out is broken: what others read of that writer would look as if it came
//! from nowhere.
//!
//! # Algorithm
//! With a transaction go the observations that may be its work: a read that may have seen it
//! becomes one whose result is not known, its elements vanish from lists that were read, and a scan
//! of a table that it wrote to is no longer observed.
//!
//! # Invariants
//! If some choice of orders and points explains the history at some level, then the same choice
//! without the dropped transactions explains what is left. So a violation of the restricted history
//! is one of the whole.

use crate::HistoryBuilder;
use crate::evidence::Version;
use crate::history::{Access, History, Op, OpKind};
use crate::ids::{ObjectId, TableId, TxnId, ValueId};
use crate::value::Value;

impl History {
    /// The history of the transactions that `keep` names, in which nothing depends on the others.
    /// Objects, values and labels stay the same; transactions and operations are numbered anew.
    ///
    /// `None` when that cannot be told: when the effect of a kept statement depends on what a
    /// dropped transaction wrote.
    #[must_use]
    pub fn restrict(&self, keep: impl Fn(TxnId) -> bool) -> Option<History> {
        let (kept, dropped): (Vec<TxnId>, Vec<TxnId>) = self.txns().partition(|&txn| keep(txn));
        let mut cut = Cut { history: self, dropped: &dropped, builder: HistoryBuilder::like(self) };
        for &txn in &kept {
            cut.copy(txn)?;
        }
        cut.copy_evidence(&keep);
        cut.builder.finish().ok()
    }
}

struct Cut<'a> {
    history: &'a History,
    dropped: &'a [TxnId],
    builder: HistoryBuilder,
}

impl Cut<'_> {
    fn copy(&mut self, txn: TxnId) -> Option<()> {
        let session = self.history.session_label(self.history.session_of(txn));
        let label = self.history.txn_label(txn);
        for op in self.history.ops(txn) {
            let (accesses, observed) = self.op(op)?;
            let detail = self.history.detail(op, observed);
            self.builder.push(session, label, op.at, op.kind, &accesses, detail).ok()?;
            self.history.read_lock(op.id).into_iter().for_each(|lock| self.builder.lock(lock));
        }
        Some(())
    }

    /// What is left of an operation: its accesses, and whether it was observed.
    fn op(&mut self, op: Op<'_>) -> Option<(Vec<Access>, bool)> {
        let all = op.accesses.to_vec();
        match op.kind {
            OpKind::Read => {
                let weaken = |a: &Access| Access { value: self.weaken(a.object, a.value), ..*a };
                Some((op.accesses.iter().map(weaken).collect(), true))
            }
            OpKind::Scan => {
                let scan = self.history.scan(op.id)?;
                let lost = self.touched(self.history.predicate(scan.predicate).table);
                Some(if lost { (Vec::new(), false) } else { (all, scan.observed) })
            }
            OpKind::Update => {
                let update = self.history.update(op.id)?;
                let lost = self.touched(self.history.predicate(update.predicate).table);
                (!lost).then_some((all, update.observed))
            }
            OpKind::Sql => {
                let writes = |op: Op<'_>| op.kind.writes() || op.kind == OpKind::Sql;
                let lost = self.dropped.iter().any(|&txn| self.history.ops(txn).any(writes));
                (!lost).then_some((all, true))
            }
            _ => Some((all, true)),
        }
    }

    /// Whether a dropped transaction may have written to the table.
    fn touched(&self, table: TableId) -> bool {
        let of_table = |a: &Access| self.history.object(a.object).table == Some(table);
        let touches = |op: Op<'_>| {
            op.kind == OpKind::Sql
                || op.kind.writes() && op.accesses.iter().any(of_table)
                || self.history.updates_table(op, table)
        };
        self.dropped.iter().any(|&txn| self.history.ops(txn).any(touches))
    }

    /// What is left of an observed value without the dropped transactions.
    fn weaken(&mut self, object: ObjectId, value: ValueId) -> ValueId {
        let mut appended = Vec::new();
        for &txn in self.dropped {
            for op in self.history.ops(txn) {
                if self.may_show(op, object, value) {
                    return ValueId::UNKNOWN;
                }
                if op.kind == OpKind::Append {
                    appended.extend(op.accesses.iter().filter(|a| a.object == object).map(|a| a.value));
                }
            }
        }
        let Value::List(items) = self.history.value(value) else { return value };
        let (gone, left): (Vec<ValueId>, Vec<ValueId>) =
            items.iter().partition(|item| appended.contains(item));
        match gone.is_empty() {
            true => value,
            false if gone.iter().any(|&item| self.stays(object, item)) => ValueId::UNKNOWN,
            false => self.builder.values().list(&left),
        }
    }

    /// Whether an element of a list may also be there without the dropped transactions.
    fn stays(&self, object: ObjectId, item: ValueId) -> bool {
        let initially = matches!(self.history.value(self.history.initial(object)), Value::List(items) if items.contains(&item));
        let kept = self.history.txns().filter(|txn| !self.dropped.contains(txn));
        let writes = |op: Op<'_>| {
            op.kind.writes() && op.accesses.iter().any(|a| a.object == object && a.value == item)
        };
        initially || kept.into_iter().any(|txn| self.history.ops(txn).any(writes))
    }

    /// Whether an operation, appends aside, may be what an observation of `value` shows.
    fn may_show(&self, op: Op<'_>, object: ObjectId, value: ValueId) -> bool {
        if op.kind == OpKind::Sql {
            return true;
        }
        let table = self.history.object(object).table;
        if let Some(update) = self.history.update(op.id)
            && !update.observed
            && Some(self.history.predicate(update.predicate).table) == table
        {
            return true;
        }
        let deletes = self.history.update(op.id).is_some_and(|update| update.set.is_none());
        let left = |a: &Access| if deletes { ValueId::NULL } else { a.value };
        let shows = |a: &Access| a.object == object && self.shows(left(a), value);
        matches!(op.kind, OpKind::Write | OpKind::Update) && op.accesses.iter().any(shows)
    }

    /// Whether what was `written` may be part of what was `seen`. A whole list may be part of any
    /// list; what is absent in a row may come from any write of that row, for one that deletes or
    /// creates it leaves the other columns absent. That nothing is there shows only who removed it.
    fn shows(&self, written: ValueId, seen: ValueId) -> bool {
        let columns_of_seen = match self.history.value(seen) {
            Value::List(_) => return true,
            Value::Row(columns) => columns,
            Value::Null => {
                return matches!(self.history.value(written), Value::Null | Value::Unknown | Value::List([]));
            }
            _ => return written == seen,
        };
        columns_of_seen.iter().any(|&(name, value)| {
            value == ValueId::NULL || self.history.values().column(written, name) == Some(value)
        })
    }

    fn copy_evidence(&mut self, keep: &impl Fn(TxnId) -> bool) {
        let label = |txn: TxnId| self.history.txn_label(txn);
        let kept = |version: Version| match version {
            Version::Initial => Some(None),
            Version::Of(txn) => keep(txn).then(|| Some(label(txn))),
        };
        let evidence = self.history.evidence();
        for order in &evidence.version_orders {
            let versions: Vec<_> = order.versions.iter().filter_map(|&v| kept(v)).collect();
            self.builder.version_order(order.object, versions);
        }
        for set in &evidence.version_sets {
            let txn = self.history.txn_of(set.op);
            if keep(txn) {
                let versions = set.versions.iter().filter_map(|&(o, v)| Some((o, kept(v)?))).collect();
                self.builder.version_set(label(txn), self.history.op_index(set.op), versions);
            }
        }
        let stamps = |column: &[(TxnId, i64)], add: &mut dyn FnMut(u64, i64)| {
            column.iter().filter(|&&(txn, _)| keep(txn)).for_each(|&(txn, ts)| add(label(txn), ts));
        };
        stamps(&evidence.snapshots, &mut |txn, ts| self.builder.snapshot(txn, ts));
        stamps(&evidence.commits, &mut |txn, ts| self.builder.commit(txn, ts));
        stamps(&evidence.serializations, &mut |txn, ts| self.builder.serialization(txn, ts));
    }
}

impl History {
    fn updates_table(&self, op: Op<'_>, table: TableId) -> bool {
        self.update(op.id).is_some_and(|update| self.predicate(update.predicate).table == table)
    }
}
