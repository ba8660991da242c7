//! The part of a history that is understood.
//!
//! # Problem
//! An application sends statements that nobody here understands, triggers write columns, and rows
//! were there before the recording began. One such thing must not make a whole history undecidable.
//!
//! # Algorithm
//! Levels are closed under leaving out objects, columns and reads: what explains a history explains
//! what is left of it. So the projection
//! 1. leaves out every table that has a write which is not understood, or unseen writers; the other
//!    tables keep all their writes;
//! 2. leaves out every column that has unseen writers, and of single rows the columns that are
//!    written to a value which is not known; of scans whose condition names such a column only the
//!    rows they found stay;
//! 3. leaves out reads that are not understood;
//! 4. settles unknown initial values ([`crate::settle`]).
//!
//! # Invariants
//! - Whatever level allows the history allows the projection: a violation of the projection is one
//!   of the history. `holds` of the projection is `holds` of the history only if
//!   [`Coverage::whole`].
//! - Transactions, their outcomes and the times of their begin and end stay. If the first operation
//!   of a transaction is left out, a BEGIN keeps its interval, so that no transaction seems to
//!   begin later.
//! - Lists are left out as a whole or not at all. At `read-uncommitted` single reads of them cannot
//!   be: two reads that contradict each other say nothing there, and either of them alone tells an
//!   order of appends.
//! - Where dirty reads are allowed (`stable` is false), writes of aborted transactions count like
//!   others.
//!
//! # Cost
//! Linear, after the translation.

use std::collections::{BTreeSet, HashSet};

use margay_history::{
    Access, History, HistoryBuilder, NameId, ObjectId, Op, OpDetail, OpKind, Outcome, TableId, TxnId, Value,
    ValueId,
};
use margay_sql::Dialect;

use crate::blunt::{Effect, effect, is_of_nothing, words};
use crate::settle::settle;
use crate::translate::{SeenState, partly};

/// How many reasons a [`Coverage`] names.
const MAX_REASONS: usize = 20;

/// What is left of a history.
#[derive(Debug)]
pub struct Projection {
    /// The history.
    pub history: History,
    /// How much of the original it covers.
    pub coverage: Coverage,
}

/// How much of a history its projection covers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Coverage {
    /// Tables that are in the projection.
    pub tables: usize,
    /// Tables of the history.
    pub all_tables: usize,
    /// Transactions of which nothing was left out.
    pub transactions: usize,
    /// Transactions of the history.
    pub all_transactions: usize,
    /// What was left out and why, each once; at most 20.
    pub left_out: Vec<String>,
}

impl Coverage {
    /// Whether nothing was left out.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.tables == self.all_tables
            && self.transactions == self.all_transactions
            && self.left_out.is_empty()
    }
}

/// What to leave out.
#[derive(Default)]
pub(crate) struct Plan {
    /// Tables.
    pub tables: HashSet<TableId>,
    /// Columns of tables.
    pub columns: HashSet<(TableId, NameId)>,
    /// Columns of rows.
    pub cells: HashSet<(ObjectId, NameId)>,
    /// Columns that are left out of their table or of some rows of it.
    pub named: HashSet<(TableId, NameId)>,
    /// Locking reads.
    pub locking_reads: bool,
    /// Rows.
    pub objects: HashSet<ObjectId>,
}

/// The part of a history that is understood; nothing if a statement may have written anything.
#[must_use]
pub fn project(history: &History, sight: SeenState) -> Option<Projection> {
    let translated = partly(history, sight);
    let rows = translated.as_ref().map_or(history, |rows| &rows.history);
    let mut draft = Draft { history: rows, plan: Plan::default(), reasons: BTreeSet::new() };
    draft.tables();
    draft.writes(sight == SeenState::Stable)?;
    draft.conditions();
    let mut builder = HistoryBuilder::like(rows);
    draft.plan.locking_reads = is_newer(history);
    let copied = Copy { history: rows, plan: &draft.plan, builder: &mut builder }.copy()?;
    let mut left_out = draft.reasons;
    left_out.extend(copied.reasons);
    let lossy = settle(rows, builder, &draft.plan)?;
    left_out.extend(lossy.reasons);
    let dropped = copied.dropped.union(&lossy.dropped).count();
    let coverage = Coverage {
        tables: rows.tables().len() - draft.plan.tables.len(),
        all_tables: rows.tables().len(),
        transactions: rows.txn_count() - dropped,
        all_transactions: rows.txn_count(),
        left_out: left_out.into_iter().take(MAX_REASONS).collect(),
    };
    Some(Projection { history: lossy.history, coverage })
}

/// A history of rows without some of them; nothing if it has statements, which may be about any
/// row.
#[must_use]
pub fn without(history: &History, objects: HashSet<ObjectId>) -> Option<History> {
    let mut ops = history.txns().flat_map(|txn| history.ops(txn));
    if ops.any(|op| history.statement(op.id).is_some()) {
        return None;
    }
    let mut builder = HistoryBuilder::like(history);
    let plan = Plan { objects, ..Plan::default() };
    Copy { history, plan: &plan, builder: &mut builder }.copy()?;
    builder.finish().ok()
}

/// Whether locking reads see newer versions than the reads around them.
fn is_newer(history: &History) -> bool {
    let dbms = history.header().dbms.as_deref();
    Dialect::of_dbms(dbms).is_mysql() || dbms.is_some_and(crate::translate::is_singlestore)
}

struct Draft<'h> {
    history: &'h History,
    plan: Plan,
    reasons: BTreeSet<String>,
}

impl Draft<'_> {
    fn table(&mut self, table: TableId, why: impl FnOnce() -> String) {
        if self.plan.tables.insert(table) {
            let name = &self.history.table(table).name;
            self.reasons.insert(format!("table {name}: {}", why()));
        }
    }

    fn column(&mut self, table: TableId, column: NameId, why: &str) {
        if self.plan.named.insert((table, column)) {
            let (table, column) = (&self.history.table(table).name, self.history.name(column));
            self.reasons.insert(format!("column {column} of {table}: {why}"));
        }
    }

    /// What the history says of its tables and of their initial rows.
    fn tables(&mut self) {
        let history = self.history;
        for (at, table) in history.tables().iter().enumerate() {
            let id = TableId::at(at);
            if table.written_by_anything {
                self.table(id, || "written by anything".to_owned());
            }
            let known = table.columns_by_anything.iter().filter_map(|c| history.values().find_name(c));
            for column in known {
                self.column(id, column, "written by anything");
                self.plan.columns.insert((id, column));
            }
        }
        for &(object, value) in history.initial_values() {
            let Some(table) = history.object(object).table else { continue };
            match history.value(value) {
                Value::Unknown => self.table(table, || "an initial row that is not known".to_owned()),
                Value::Row(columns) => self.unknown_cells(object, columns, "an initial value is not known"),
                _ => {}
            }
        }
    }

    fn unknown_cells(&mut self, object: ObjectId, columns: &[(NameId, ValueId)], why: &str) {
        let Some(table) = self.history.object(object).table else { return };
        for &(name, _) in columns.iter().filter(|(_, value)| *value == ValueId::UNKNOWN) {
            self.column(table, name, why);
            self.plan.cells.insert((object, name));
        }
    }

    /// Leaves out what has writes that are not understood; nothing if anything may have been
    /// written.
    fn writes(&mut self, stable: bool) -> Option<()> {
        let history = self.history;
        let dialect = Dialect::of_dbms(history.header().dbms.as_deref());
        for txn in history.txns() {
            let counts = !stable || history.outcome(txn) != Outcome::Aborted;
            for op in history.ops(txn) {
                if let Some(statement) = history.statement(op.id).filter(|_| counts) {
                    let why = || format!("`{}` is not understood", statement.text);
                    match effect(&statement.text, history.tables(), dialect) {
                        Effect::Nothing => {}
                        Effect::Writes(table) => self.table(TableId::at(table), why),
                        Effect::Anything => return None,
                    }
                }
                if let Some(update) = history.update(op.id).filter(|update| counts && !update.observed) {
                    let table = history.predicate(update.predicate).table;
                    self.table(table, || "an update whose affected rows were not recorded".to_owned());
                }
                if op.kind.writes() {
                    self.written(op);
                }
            }
        }
        Some(())
    }

    fn written(&mut self, op: Op<'_>) {
        for access in op.accesses {
            let Some(table) = self.history.object(access.object).table else { continue };
            let unsettled = self.history.table(table).initial_unknown;
            match self.history.value(access.value) {
                Value::Row(columns) => {
                    self.unknown_cells(access.object, columns, "written to an unknown value");
                }
                Value::Null => {}
                _ if op.kind == OpKind::Append && unsettled => {
                    self.table(table, || "appends to unknown lists".to_owned());
                }
                _ => {}
            }
        }
    }

    /// A predicate update that asks about, or sets, a column that is left out is not understood.
    fn conditions(&mut self) {
        let history = self.history;
        for op in history.txns().flat_map(|txn| history.ops(txn)) {
            let Some(update) = history.update(op.id).filter(|_| !op.accesses.is_empty()) else { continue };
            let predicate = history.predicate(update.predicate);
            let set = update.set.as_deref().unwrap_or_default();
            let left_out = |text: &str| names_left_out(history, &self.plan, predicate.table, text);
            if left_out(&predicate.text) || left_out(set) {
                self.table(predicate.table, || "an update by a column that is left out".to_owned());
            }
        }
    }
}

/// Whether a condition names a column that is left out.
fn names_left_out(history: &History, plan: &Plan, table: TableId, condition: &str) -> bool {
    let mut columns = plan.named.iter().filter(|(of, _)| *of == table).peekable();
    if columns.peek().is_none() {
        return false;
    }
    let words: HashSet<String> = words(condition).into_iter().collect();
    columns.any(|&(_, column)| words.contains(&history.name(column).to_ascii_lowercase()))
}

/// What was left out on the way.
#[derive(Default)]
pub(crate) struct LeftOut {
    pub dropped: HashSet<TxnId>,
    pub reasons: BTreeSet<String>,
}

/// Copies what a plan keeps.
pub(crate) struct Copy<'a> {
    pub history: &'a History,
    pub plan: &'a Plan,
    pub builder: &'a mut HistoryBuilder,
}

/// What becomes of an operation.
enum Left {
    Whole,
    Some(Vec<Access>),
    /// A read of the rows that it found.
    Read(Vec<Access>),
    Nothing,
    /// Nothing, and there was nothing that could be left out.
    Void,
}

impl Copy<'_> {
    pub fn copy(mut self) -> Option<LeftOut> {
        self.initial();
        let history = self.history;
        let mut out = LeftOut::default();
        for txn in history.txns() {
            let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
            for (place, op) in history.ops(txn).enumerate() {
                let left = match self.op(op) {
                    (left, Some(why)) => {
                        out.reasons.insert(why);
                        left
                    }
                    (left, None) => left,
                };
                let accesses = match &left {
                    Left::Whole => op.accesses,
                    Left::Some(accesses) | Left::Read(accesses) => accesses,
                    Left::Nothing | Left::Void => &[],
                };
                if !matches!(left, Left::Whole | Left::Void) {
                    out.dropped.insert(txn);
                }
                match left {
                    Left::Nothing | Left::Void if place > 0 => continue,
                    // The transaction begins no later than it did.
                    Left::Nothing | Left::Void => {
                        self.builder.push(session, label, op.at, OpKind::Begin, &[], OpDetail::None).ok()?;
                    }
                    Left::Read(_) => {
                        self.builder
                            .push(session, label, op.at, OpKind::Read, accesses, OpDetail::None)
                            .ok()?;
                    }
                    Left::Whole | Left::Some(_) => {
                        let detail = history.detail(op, is_observed(history, op));
                        self.builder.push(session, label, op.at, op.kind, accesses, detail).ok()?;
                        history.read_lock(op.id).into_iter().for_each(|lock| self.builder.lock(lock));
                    }
                }
            }
        }
        let evidence = history.evidence();
        if !evidence.version_orders.is_empty() || !evidence.version_sets.is_empty() {
            out.reasons.insert("evidence of versions".to_owned());
        }
        let label = |txn: TxnId| history.txn_label(txn);
        evidence.snapshots.iter().for_each(|&(txn, ts)| self.builder.snapshot(label(txn), ts));
        evidence.commits.iter().for_each(|&(txn, ts)| self.builder.commit(label(txn), ts));
        evidence.serializations.iter().for_each(|&(txn, ts)| self.builder.serialization(label(txn), ts));
        Some(out)
    }

    fn initial(&mut self) {
        self.builder.keep_initial(|_| false);
        for &(object, value) in self.history.initial_values() {
            if self.keeps(object) {
                let value = self.value(object, value);
                let _ = self.builder.initial(object, value);
            }
        }
    }

    fn keeps(&self, object: ObjectId) -> bool {
        let table = self.history.object(object).table;
        !self.plan.objects.contains(&object) && table.is_none_or(|table| !self.plan.tables.contains(&table))
    }

    /// What is left of an operation, and why something is not.
    fn op(&mut self, op: Op<'_>) -> (Left, Option<String>) {
        if let Some(statement) = self.history.statement(op.id) {
            return (Left::Nothing, Some(format!("`{}` is not understood", statement.text)));
        }
        let scan = self.history.scan(op.id).map(|scan| (scan, self.history.predicate(scan.predicate)));
        if let Some((_, predicate)) = scan.filter(|(scan, _)| !scan.observed) {
            return match is_of_nothing(&predicate.text) {
                true => (Left::Void, None),
                false if self.plan.tables.contains(&predicate.table) => (Left::Nothing, None),
                false => (Left::Nothing, Some("queries whose rows are not understood".to_owned())),
            };
        }
        let reads = matches!(op.kind, OpKind::Read | OpKind::Scan);
        if reads && self.plan.locking_reads && self.history.read_lock(op.id).is_some() {
            return (Left::Nothing, Some("locking reads, which see newer versions".to_owned()));
        }
        if let Some((_, predicate)) = scan {
            if self.plan.tables.contains(&predicate.table) {
                return (Left::Nothing, None);
            }
            if names_left_out(self.history, self.plan, predicate.table, &predicate.text) {
                let why = Some("scans by a column that is left out".to_owned());
                let found = if op.shows_twice().is_some() { Vec::new() } else { self.found(op.accesses) };
                return (if found.is_empty() { Left::Nothing } else { Left::Read(found) }, why);
            }
        }
        if let Some(update) = self.history.update(op.id) {
            let predicate = self.history.predicate(update.predicate);
            let left_out = names_left_out(self.history, self.plan, predicate.table, &predicate.text);
            if self.plan.tables.contains(&predicate.table) || left_out && op.accesses.is_empty() {
                return (Left::Nothing, None);
            }
        }
        self.accesses(op)
    }

    fn accesses(&mut self, op: Op<'_>) -> (Left, Option<String>) {
        let known = |access: &&Access| op.kind != OpKind::Read || access.value != ValueId::UNKNOWN;
        let kept: Vec<Access> = op.accesses.iter().filter(known).copied().collect();
        let left = self.found(&kept);
        let empty = left.is_empty() && !op.accesses.is_empty();
        match left == op.accesses {
            true => (Left::Whole, None),
            false if empty => (Left::Nothing, None),
            false => (Left::Some(left), None),
        }
    }

    /// What is left of accesses.
    fn found(&mut self, accesses: &[Access]) -> Vec<Access> {
        let kept: Vec<Access> = accesses.iter().filter(|access| self.keeps(access.object)).copied().collect();
        let without = kept
            .into_iter()
            .map(|access| Access { value: self.value(access.object, access.value), ..access });
        without.collect()
    }

    /// A value without the columns that are left out.
    fn value(&mut self, object: ObjectId, value: ValueId) -> ValueId {
        let (Some(table), Value::Row(columns)) =
            (self.history.object(object).table, self.history.value(value))
        else {
            return value;
        };
        let is_kept = |(name, _): &(NameId, ValueId)| {
            !self.plan.columns.contains(&(table, *name)) && !self.plan.cells.contains(&(object, *name))
        };
        let kept: Vec<_> = columns.iter().copied().filter(is_kept).collect();
        if kept.len() == columns.len() { value } else { self.builder.values().row(&kept) }
    }
}

/// Whether the rows of a scan or an update were seen.
pub(crate) fn is_observed(history: &History, op: Op<'_>) -> bool {
    history.scan(op.id).is_some_and(|scan| scan.observed)
        || history.update(op.id).is_some_and(|update| update.observed)
}
