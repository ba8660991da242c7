//! A history from whole columns: for readers of large histories that were validated when they were
//! written, and are validated again here.
//!
//! # Invariants
//! Any columns lead to a history that [`crate::HistoryBuilder`] could have made, or to an error;
//! never to a panic.
//!
//! # Cost
//! Linear, apart from sorting the transactions' labels once to see that they are unique. Nothing is
//! copied.

use crate::builder::check_clocks;
use crate::detail::Begin;
use crate::error::Invalid;
use crate::evidence::{Evidence, Version, check_order, check_sees, check_set, check_version};
use crate::history::{Access, Header, History, Op, OpKind, Predicate, Scan, Statement, Update, shown_twice};
use crate::ids::{ObjectId, OpId, PredicateId, SessionId, TableId, TxnId, ValueId};
use crate::intervals::Intervals;
use crate::object::Objects;
use crate::table::Table;
use crate::value::Values;

/// The columns of a history, in its own order: sessions by label, transactions in session order,
/// operations in program order.
#[derive(Default, Debug)]
pub struct Columns {
    /// What the history says of itself.
    pub header: Header,
    /// The tables.
    pub tables: Vec<Table>,
    /// The values, interned in the order of their ids.
    pub values: Values,
    /// The objects, interned in the order of their ids.
    pub objects: Objects,
    /// The predicates.
    pub predicates: Vec<Predicate>,
    /// Initial values, by object.
    pub initial: Vec<(ObjectId, ValueId)>,
    /// The label of each session and the number of its transactions.
    pub sessions: Vec<(u64, u32)>,
    /// The label of each transaction.
    pub txn_labels: Vec<u64>,
    /// The number of each transaction's operations.
    pub txn_ops: Vec<u32>,
    /// The kind of each operation.
    pub kinds: Vec<OpKind>,
    /// The first access of each operation, and the number of accesses.
    pub op_starts: Vec<u32>,
    /// The interval of each operation.
    pub intervals: Intervals,
    /// The accesses of all operations.
    pub accesses: Vec<Access>,
    /// What transactions said when they began, by operation.
    pub begins: Vec<(OpId, Begin)>,
    /// Scans, by operation.
    pub scans: Vec<(OpId, Scan)>,
    /// Predicate updates, by operation.
    pub updates: Vec<(OpId, Update)>,
    /// SQL statements, by operation.
    pub statements: Vec<(OpId, Statement)>,
    /// What is known beyond what clients saw.
    pub evidence: Evidence,
}

type Check = Result<(), String>;

impl Columns {
    /// The history.
    ///
    /// # Errors
    /// When the columns do not fit together or break a rule of the model. The error has no place.
    pub fn into_history(self) -> Result<History, Invalid> {
        let history = self.assemble().map_err(unplaced)?;
        check_details(&history).map_err(unplaced)?;
        history.txns().try_for_each(|txn| check_txn(&history, txn)).map_err(unplaced)?;
        check_evidence(&history).map_err(unplaced)?;
        check_clocks(&history, |_| 0)?;
        Ok(history)
    }

    /// The history, after what makes its accessors safe to use has been checked.
    fn assemble(self) -> Result<History, String> {
        self.check_ids()?;
        ensure(self.txn_labels.len() == self.txn_ops.len(), "transactions without operations")?;
        ensure(self.intervals.len() == self.kinds.len(), "the operations' intervals do not add up")?;
        let ordered = self.op_starts.first() == Some(&0) && self.op_starts.is_sorted();
        ensure(
            ordered && self.op_starts.len() == self.kinds.len() + 1,
            "the operations' accesses do not add up",
        )?;
        ensure(last(&self.op_starts) == self.accesses.len(), "the operations' accesses do not add up")?;
        let history = self.join()?;
        ensure(all_end(&history.txn_starts, &history.kinds), "a transaction without an end")?;
        Ok(history)
    }

    /// The history of columns that fit together, but for the sums.
    pub(crate) fn join(mut self) -> Result<History, String> {
        let session_starts = starts(self.sessions.iter().map(|&(_, txns)| txns))?;
        let txn_starts = starts(self.txn_ops.iter().copied())?;
        ensure(last(&session_starts) == self.txn_labels.len(), "the sessions' transactions do not add up")?;
        ensure(last(&txn_starts) == self.kinds.len(), "the transactions' operations do not add up")?;
        let sessions = self.sessions.iter().enumerate();
        let txn_sessions =
            sessions.flat_map(|(s, &(_, txns))| (0..txns).map(move |_| SessionId::at(s))).collect();
        self.values.finish();
        self.objects.finish();
        Ok(History {
            header: self.header,
            tables: self.tables,
            values: self.values,
            objects: self.objects,
            predicates: self.predicates,
            initial: self.initial,
            session_labels: self.sessions.iter().map(|&(label, _)| label).collect(),
            session_starts,
            txn_labels: self.txn_labels,
            txn_sessions,
            txn_starts,
            kinds: self.kinds,
            intervals: self.intervals,
            op_starts: self.op_starts,
            accesses: self.accesses,
            begins: self.begins,
            scans: self.scans,
            updates: self.updates,
            statements: self.statements,
            locks: Vec::new(),
            evidence: self.evidence,
        })
    }

    /// Every id leads somewhere, and what is unique or sorted is.
    fn check_ids(&self) -> Check {
        ensure(!self.values.is_full(), "too much text")?;
        ensure(self.header.skew >= 0, "the clocks' skew cannot be negative")?;
        check_tables(&self.tables)?;
        let object = |id: ObjectId| id.index() < self.objects.len();
        let value = |id: ValueId| self.values.contains(id);
        let table = |id: TableId| id.index() < self.tables.len();
        let predicate = |id: PredicateId| id.index() < self.predicates.len();
        let op = |id: OpId| id.index() < self.kinds.len();
        let objects = (0..self.objects.len()).map(|o| self.objects.get(ObjectId::at(o)));
        ensure(
            objects.into_iter().all(|o| value(o.key) && o.table.is_none_or(table)),
            "an object of no table or key",
        )?;
        ensure(self.predicates.iter().all(|p| table(p.table)), "a predicate on no table")?;
        ensure(self.initial.iter().all(|&(o, v)| object(o) && value(v)), "an initial value of no object")?;
        ensure(sorted(&self.initial), "two initial values of one object")?;
        ensure(
            self.accesses.iter().all(|a| object(a.object) && value(a.value)),
            "an access to no object or value",
        )?;
        ensure(self.scans.iter().all(|(o, s)| op(*o) && predicate(s.predicate)), "a scan of no predicate")?;
        ensure(
            self.updates.iter().all(|(o, u)| op(*o) && predicate(u.predicate)),
            "an update of no predicate",
        )?;
        let known = |s: &Statement| s.params.iter().chain(s.rows.iter().flatten()).all(|&v| value(v));
        ensure(self.statements.iter().all(|(o, s)| op(*o) && known(s)), "a statement with no such value")?;
        ensure(
            sorted(&self.begins) && sorted(&self.scans) && sorted(&self.updates) && sorted(&self.statements),
            "operations out of order",
        )?;
        ensure(self.sessions.is_sorted_by(|a, b| a.0 < b.0), "sessions out of order")?;
        ensure(self.sessions.iter().all(|&(_, txns)| txns > 0), "a session without transactions")?;
        self.check_labels()
    }

    fn check_labels(&self) -> Check {
        let mut labels = self.txn_labels.clone();
        labels.sort_unstable();
        match labels.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("transaction {} occurs twice", pair[0])),
            None => Ok(()),
        }
    }
}

pub(crate) fn unplaced(what: String) -> Invalid {
    Invalid { what, place: 0 }
}

fn ensure(fine: bool, what: &str) -> Check {
    if fine { Ok(()) } else { Err(what.to_string()) }
}

fn sorted<K: Ord + Copy, T>(column: &[(K, T)]) -> bool {
    column.is_sorted_by(|a, b| a.0 < b.0)
}

fn last(starts: &[u32]) -> usize {
    starts.last().map_or(0, |&end| end as usize)
}

fn check_tables(tables: &[Table]) -> Check {
    let mut names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    names.sort_unstable();
    ensure(names.is_sorted_by(|a, b| a < b), "two tables of one name")?;
    tables.iter().find_map(Table::fault).map_or(Ok(()), Err)
}

/// Where each group begins, and the sum of all sizes.
fn starts(sizes: impl ExactSizeIterator<Item = u32>) -> Result<Vec<u32>, String> {
    let mut starts = Vec::with_capacity(sizes.len() + 1);
    let mut sum = 0_u32;
    starts.push(sum);
    for size in sizes {
        sum = sum.checked_add(size).ok_or("a history holds at most 2^32 of anything")?;
        starts.push(sum);
    }
    Ok(starts)
}

/// Whether the last operation of every transaction is an end.
fn all_end(txn_starts: &[u32], kinds: &[OpKind]) -> bool {
    let ends = |range: &[u32]| range[0] < range[1] && kinds[range[1] as usize - 1].outcome().is_some();
    txn_starts.windows(2).all(ends)
}

/// Every scan, update and statement belongs to an operation of its kind, and every such operation
/// has one.
fn check_details(history: &History) -> Check {
    let begin = |(op, begin): &(OpId, Begin)| {
        op.index() < history.kinds.len()
            && history.kinds[op.index()] == OpKind::Begin
            && *begin != Begin::default()
    };
    let fine = history.begins.iter().all(begin)
        && fits(history, OpKind::Scan, &history.scans)
        && fits(history, OpKind::Update, &history.updates)
        && fits(history, OpKind::Sql, &history.statements);
    ensure(fine, "an operation without what it asked")
}

fn fits<T>(history: &History, kind: OpKind, details: &[(OpId, T)]) -> bool {
    let count = history.kinds.iter().filter(|&&k| k == kind).count();
    details.len() == count && details.iter().all(|(op, _)| history.kinds[op.index()] == kind)
}

fn check_txn(history: &History, txn: TxnId) -> Check {
    let range = history.op_range(txn);
    for (index, op) in range.clone().enumerate() {
        let id = OpId(op);
        let op = history.op(id);
        let wrong =
            |what: &str| Err(format!("transaction {}, operation {index}: {what}", history.txn_label(txn)));
        match op.kind {
            OpKind::Begin if index > 0 => return wrong("a begin after other operations"),
            OpKind::Read | OpKind::Write | OpKind::Append if op.accesses.is_empty() => {
                return wrong("no object");
            }
            kind if kind.outcome().is_some() && id.0 + 1 != range.end => {
                return wrong("an end before the last operation");
            }
            kind if kind.writes() && op.accesses.iter().any(|a| a.value == ValueId::UNKNOWN) => {
                return wrong("a write without its value");
            }
            OpKind::Scan | OpKind::Update if has_foreign_row(history, &op) => {
                return wrong("a row of another table");
            }
            OpKind::Read if shown_twice(op.accesses).is_some() => {
                return wrong("one object twice, with different values");
            }
            _ => {}
        }
        if op.at.is_some_and(|at| at.before > at.after) {
            return wrong("time runs backwards");
        }
    }
    Ok(())
}

/// Whether a scan or an update shows a row that is not of the table that it asked about.
fn has_foreign_row(history: &History, op: &Op<'_>) -> bool {
    let scan = history.scan(op.id).map(|scan| scan.predicate);
    let predicate = scan.or_else(|| history.update(op.id).map(|update| update.predicate));
    let table = predicate.map(|predicate| history.predicate(predicate).table);
    op.accesses.iter().any(|access| history.object(access.object).table != table)
}

impl History {
    /// The same history, where these objects had an initial value that is not known, and tables
    /// were seen otherwise.
    ///
    /// # Errors
    /// When one of them has an initial value. The error has no place.
    pub fn with_unknown_initial(mut self, objects: &[ObjectId]) -> Result<History, Invalid> {
        self.initial.extend(objects.iter().map(|&object| (object, ValueId::UNKNOWN)));
        self.initial.sort_unstable();
        if !sorted(&self.initial) {
            return Err(unplaced("two initial values of one object".to_owned()));
        }
        self.tables.iter_mut().for_each(|table| table.initial_unknown = false);
        Ok(self)
    }

    /// The same history with this evidence instead of its own.
    ///
    /// # Errors
    /// When the evidence is not about this history, or not sorted as [`Evidence`] is. The error has
    /// no place.
    pub fn with_evidence(mut self, evidence: Evidence) -> Result<History, Invalid> {
        self.evidence = evidence;
        check_evidence(&self).map_err(unplaced)?;
        Ok(self)
    }
}

fn check_evidence(history: &History) -> Check {
    let evidence = history.evidence();
    let object = |id: ObjectId| ensure(id.index() < history.object_count(), "evidence about no object");
    let version = |v: Version| match v {
        Version::Of(txn) if txn.index() >= history.txn_count() => {
            Err("evidence about no transaction".to_string())
        }
        _ => Ok(()),
    };
    for order in &evidence.version_orders {
        object(order.object)?;
        order.versions.iter().try_for_each(|&v| version(v))?;
        check_order(history, order.object, &order.versions)?;
    }
    for set in &evidence.version_sets {
        ensure(set.op.index() < history.op_count(), "evidence about no operation")?;
        check_sees(history, set.op)?;
        for &(o, v) in &set.versions {
            object(o)?;
            version(v)?;
            check_version(history, o, v)?;
        }
        check_set(history, &set.versions)?;
    }
    let ordered = evidence.version_orders.is_sorted_by_key(|order| order.object)
        && evidence.version_sets.is_sorted_by(|a, b| a.op < b.op);
    ensure(ordered, "evidence out of order")?;
    [&evidence.snapshots, &evidence.commits, &evidence.serializations].into_iter().try_for_each(|stamps| {
        ensure(sorted(stamps), "evidence out of order")?;
        ensure(
            stamps.iter().all(|&(txn, _)| txn.index() < history.txn_count()),
            "evidence about no transaction",
        )
    })
}
