//! A bank whose money neither appears nor disappears.
//!
//! # Problem
//! Jepsen's bank moves money between accounts with two statements,
//! `UPDATE t SET c = c - $1 WHERE k = $2` and the same with `+`. Where every transaction that may
//! have committed takes as much as it gives, all states of a serial order have the same total; so
//! two reads of all accounts that differ in it have no such order.
//!
//! # Invariants
//! Nothing is said unless every statement is of that form and names an account that was read, and
//! nothing else writes: then rows neither come nor go.

use hashbrown::HashSet;
use margay_history::{History, ObjectId, Op, OpId, OpKind, Outcome, TableId, TxnId, Value, ValueId};

/// A table of accounts that transfers leave in balance.
#[derive(Debug)]
pub struct Bank<'h> {
    history: &'h History,
    column: &'h str,
    accounts: HashSet<ObjectId>,
}

/// What a statement does: which table, column and key column, and whether it gives.
struct Form<'t> {
    table: &'t str,
    column: &'t str,
    key: &'t str,
    gives: bool,
}

impl<'t> Form<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["UPDATE", table, "SET", column, "=", same, sign, "$1", "WHERE", key, "=", "$2"] = words[..]
        else {
            return None;
        };
        let gives = match sign {
            "+" => true,
            "-" => false,
            _ => return None,
        };
        (column == same).then_some(Self { table, column, key, gives })
    }
}

impl<'h> Bank<'h> {
    /// The bank that a history is about, if all that may have happened to it are transfers.
    #[must_use]
    pub fn of(history: &'h History) -> Option<Self> {
        if !history.has_kind(OpKind::Sql) {
            return None;
        }
        let live = || history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted);
        let first = live().flat_map(|txn| history.ops(txn)).find_map(|op| history.statement(op.id))?;
        let form = Form::of(&first.text)?;
        let table = history.tables().iter().position(|table| table.name == form.table).map(TableId::at)?;
        if history.table(table).key != [form.key] {
            return None;
        }
        let accounts =
            history.objects().filter(|&object| history.object(object).table == Some(table)).collect();
        let bank = Self { history, column: form.column, accounts };
        live().all(|txn| bank.is_balanced(txn, &form).is_some()).then_some(bank)
    }

    /// Whether a transaction only reads, and takes as much as it gives.
    fn is_balanced(&self, txn: TxnId, bank: &Form<'_>) -> Option<()> {
        let mut sum = 0i64;
        for op in self.history.ops(txn) {
            match op.kind {
                OpKind::Sql => sum = sum.checked_add(self.change(&op, bank)?)?,
                OpKind::Write | OpKind::Append | OpKind::Update | OpKind::Scan => return None,
                _ => {}
            }
        }
        (sum == 0).then_some(())
    }

    fn change(&self, op: &Op<'_>, bank: &Form<'_>) -> Option<i64> {
        let statement = self.history.statement(op.id)?;
        let form = Form::of(&statement.text)?;
        let [amount, account] = *statement.params else { return None };
        let known = self.accounts.iter().any(|&object| self.history.object(object).key == account);
        let same = (form.table, form.column, form.key) == (bank.table, bank.column, bank.key);
        let amount = self.int(amount)?;
        let change = if form.gives { amount } else { amount.checked_neg()? };
        (known && same).then_some(change)
    }

    fn int(&self, value: ValueId) -> Option<i64> {
        match self.history.value(value) {
            Value::Int(int) => Some(int),
            _ => None,
        }
    }

    /// The total that an operation of a committed transaction saw, if it saw all accounts and its
    /// transaction moved nothing.
    #[must_use]
    pub fn total(&self, op: OpId) -> Option<i64> {
        let (txn, op) = (self.history.txn_of(op), self.history.op(op));
        let moved = self.history.ops(txn).any(|op| op.kind == OpKind::Sql);
        if op.kind != OpKind::Read || moved || self.history.outcome(txn) != Outcome::Committed {
            return None;
        }
        let seen: HashSet<ObjectId> = op.accesses.iter().map(|access| access.object).collect();
        if seen != self.accounts || op.accesses.len() != seen.len() {
            return None;
        }
        op.accesses.iter().try_fold(0i64, |sum, access| sum.checked_add(self.balance(access.value)?))
    }

    fn balance(&self, row: ValueId) -> Option<i64> {
        let column = self.history.values().find_name(self.column)?;
        self.int(self.history.values().column(row, column)?)
    }
}
