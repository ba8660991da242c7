//! What an operation says beyond its accesses.

use crate::history::{History, Op};
use crate::ids::{TableId, TxnId, ValueId};

/// What a transaction asked of the database, and what it belongs to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Begin {
    /// The level that it asked for, where that is known.
    pub level: Option<Box<str>>,
    /// Whether it promised to write nothing.
    pub read_only: bool,
    /// The request of the application that it belongs to.
    pub unit: Option<Box<str>>,
}

/// What an operation says beyond its accesses.
#[derive(Clone, Debug)]
pub enum OpDetail<'a> {
    /// Nothing: every kind but those below.
    None,
    /// For [`OpKind::Begin`](crate::OpKind::Begin), which may also have none.
    Begin {
        /// The level that the transaction asked for.
        level: Option<&'a str>,
        /// Whether it promised to write nothing.
        read_only: bool,
        /// The request of the application that it belongs to.
        unit: Option<&'a str>,
    },
    /// For [`OpKind::Scan`](crate::OpKind::Scan).
    Scan {
        /// The table.
        table: TableId,
        /// The text of the condition.
        condition: &'a str,
        /// Whether the client saw the rows.
        observed: bool,
    },
    /// For [`OpKind::Update`](crate::OpKind::Update).
    Update {
        /// The table.
        table: TableId,
        /// The text of the condition.
        condition: &'a str,
        /// The text of the assignments; `None` deletes.
        set: Option<&'a str>,
        /// Whether the client saw the rows.
        observed: bool,
    },
    /// For [`OpKind::Sql`](crate::OpKind::Sql).
    Sql {
        /// The text.
        text: &'a str,
        /// The parameters.
        params: &'a [ValueId],
        /// The result's tuples, each a list, if seen.
        rows: Option<&'a [ValueId]>,
        /// The number of affected rows, if seen.
        count: Option<u64>,
    },
}

impl History {
    /// What a transaction said when it began, if it said anything.
    #[must_use]
    pub fn begin(&self, txn: TxnId) -> Option<&Begin> {
        let first = self.op_range(txn).start;
        let found = self.begins.binary_search_by_key(&first, |(op, _)| op.0).ok()?;
        Some(&self.begins[found].1)
    }

    /// What all transactions said that said anything when they began.
    pub fn begins(&self) -> impl Iterator<Item = (TxnId, &Begin)> {
        self.begins.iter().map(|(op, begin)| (self.txn_of(*op), begin))
    }

    /// What an operation says beyond its accesses, as
    /// [`HistoryBuilder::push`](crate::HistoryBuilder::push) wants it; `observed` overrules whether
    /// the rows of a scan or predicate update were seen.
    #[must_use]
    pub fn detail(&self, op: Op<'_>, observed: bool) -> OpDetail<'_> {
        if let Some(scan) = self.scan(op.id) {
            let predicate = self.predicate(scan.predicate);
            return OpDetail::Scan { table: predicate.table, condition: &predicate.text, observed };
        }
        if let Some(update) = self.update(op.id) {
            let predicate = self.predicate(update.predicate);
            let (table, condition) = (predicate.table, &*predicate.text);
            return OpDetail::Update { table, condition, set: update.set.as_deref(), observed };
        }
        if let Ok(found) = self.begins.binary_search_by_key(&op.id, |(id, _)| *id) {
            let Begin { level, read_only, unit } = &self.begins[found].1;
            return OpDetail::Begin { level: level.as_deref(), read_only: *read_only, unit: unit.as_deref() };
        }
        match self.statement(op.id) {
            None => OpDetail::None,
            Some(statement) => OpDetail::Sql {
                text: &statement.text,
                params: &statement.params,
                rows: statement.rows.as_deref(),
                count: statement.count,
            },
        }
    }
}
