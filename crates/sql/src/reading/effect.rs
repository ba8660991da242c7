//! What a statement can make of rows, whatever they are: the steps that an invariant has to
//! survive.
//!
//! # Invariants
//! - Every row that a statement leaves on any state is one of its effects' rows, or as it was. An
//!   effect may not happen at all: the condition may fail, or the statement.
//! - An [`Amount`] is added to a number, or to NULL, which stays NULL, at most once by each
//!   execution of its statement.

use std::sync::Arc;

use crate::decimal::Decimal;
use crate::dialect::Dialect;
use crate::possible::Possible;
use crate::reading::arith::Arith;
use crate::reading::cast::Type;
use crate::reading::database::Database;
use crate::reading::expr::{Cmp, Expr, Slot};
use crate::reading::plan::{Insert, InsertRows, Source, TableId, Update, is_flexible};
use crate::reading::statement::{Plan, Statement};
use crate::reading::store::Key;
use crate::reading::suppose::Supposed;
use crate::value::Value;

/// What a statement can do to rows of one table. Without a key, to any of its rows.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Rows appear, change or go in ways that are not known.
    Anything(TableId),
    /// A row appears.
    Insert {
        /// The table.
        table: TableId,
        /// The row's key.
        key: Key,
        /// What its columns can be.
        row: Vec<Possible>,
    },
    /// Columns of rows change.
    Update {
        /// The table.
        table: TableId,
        /// The row's key.
        key: Option<Key>,
        /// The columns, and how.
        changes: Vec<(usize, Change)>,
    },
    /// Rows go.
    Delete {
        /// The table.
        table: TableId,
        /// The row's key.
        key: Option<Key>,
    },
}

/// How a column changes.
#[derive(Clone, Debug)]
pub enum Change {
    /// It becomes one of these values.
    Set(Possible),
    /// A number is added.
    Add(Amount),
    /// It becomes the value of an expression over the row.
    Compute(Computed),
}

/// A number that is added to a column, in units of 10^-`scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// The number.
    pub number: i128,
    /// The digits after the point.
    pub scale: u32,
    /// The statement's condition asks that the column is at least so much, in the same units.
    pub least: Option<i128>,
    /// And at most so much.
    pub most: Option<i128>,
}

/// An expression over a row, stored in a column.
#[derive(Clone, Debug)]
pub struct Computed {
    expr: Expr,
    column: Type,
    params: Arc<[Value]>,
    dialect: Dialect,
    /// How many columns the row has; behind them stand those of a row that was to be inserted.
    width: usize,
    proposed: Vec<Possible>,
}

impl Computed {
    /// What the column can be afterwards, by what the columns can be before.
    pub fn possible(&self, row: &dyn Fn(usize) -> Possible) -> Possible {
        let cell = |slot: usize| match slot.checked_sub(self.width) {
            None => row(slot),
            Some(behind) => self.proposed.get(behind).cloned().unwrap_or(Possible::Any),
        };
        let supposed = Supposed { dialect: self.dialect, params: &self.params, row: &cell };
        supposed.stored(&self.expr, self.column, is_flexible(&self.expr))
    }
}

impl Change {
    /// What is computed without the row is known beforehand.
    fn of(computed: Computed) -> Change {
        let (columns, more) = computed.expr.uses();
        match more || columns.iter().all(|&column| column >= computed.width) {
            true => Change::Set(computed.possible(&|_| Possible::Any)),
            false => Change::Compute(computed),
        }
    }
}

impl Database {
    /// What a statement can do; `None` for what may do anything to any table.
    pub fn effects(&self, statement: &Statement, params: &[Value]) -> Option<Vec<Effect>> {
        match statement.plan() {
            Plan::Select(_) => Some(Vec::new()),
            Plan::Insert(insert) => Some(self.insert_effects(insert, params)),
            Plan::Update(update) => Some(vec![self.update_effect(update, params)]),
            Plan::Delete(delete) => {
                let key = self.named(&delete.source, params).flatten();
                Some(vec![Effect::Delete { table: delete.table, key }])
            }
            _ => None,
        }
    }

    fn insert_effects(&self, insert: &Insert, params: &[Value]) -> Vec<Effect> {
        let (table, anything) = (insert.table, || vec![Effect::Anything(insert.table)]);
        let InsertRows::Values(rows) = &insert.rows else { return anything() };
        let schema = self.schema(table);
        let sets = insert.conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
        let sets = sets.map_or(&[][..], |(sets, _)| sets);
        if sets.iter().any(|(column, _)| schema.key.contains(column)) {
            return anything();
        }
        let mut effects = Vec::with_capacity(rows.len());
        for row in rows {
            let Some((key, row)) = self.inserted_row(insert, row, params) else { return anything() };
            if !sets.is_empty() {
                let change = |(column, expr): &(usize, Expr)| {
                    let computed = Computed {
                        expr: expr.clone(),
                        column: schema.columns[*column].data_type,
                        params: params.into(),
                        dialect: self.dialect(),
                        width: row.len(),
                        proposed: row.clone(),
                    };
                    (*column, Change::of(computed))
                };
                // With other keys, it may be another row that the new one collides with.
                let key = schema.uniques.is_empty().then(|| key.clone());
                effects.push(Effect::Update { table, key, changes: sets.iter().map(change).collect() });
            }
            effects.push(Effect::Insert { table, key, row });
        }
        effects
    }

    /// A new row with its key; `None` if the key is not known.
    fn inserted_row(
        &self,
        insert: &Insert,
        given: &[Option<Expr>],
        params: &[Value],
    ) -> Option<(Key, Vec<Possible>)> {
        let schema = self.schema(insert.table);
        if schema.key.is_empty() {
            return None;
        }
        let supposed = Supposed { dialect: self.dialect(), params, row: &|_| Possible::Any };
        let cell = |(column, place): (&crate::reading::schema::Column, &Option<usize>)| {
            let expr = place.and_then(|place| given[place].as_ref()).or(column.default.as_ref());
            match expr {
                Some(expr) => supposed.stored(expr, column.data_type, is_flexible(expr)),
                None => Possible::one(Value::Null),
            }
        };
        let row: Vec<Possible> = schema.columns.iter().zip(&insert.given).map(cell).collect();
        // The database numbers what is not given, or given as NULL.
        if schema.columns.iter().zip(&row).any(|(column, cell)| column.auto && cell.has(&Value::Null)) {
            return None;
        }
        let part = |&column: &usize| match &row[column] {
            Possible::Of(values) if values.len() == 1 => values.first().map(|v| v.group_key(self.dialect())),
            _ => None,
        };
        let key: Option<Key> = schema.key.iter().map(part).collect();
        Some((key?, row))
    }

    fn update_effect(&self, update: &Update, params: &[Value]) -> Effect {
        let (table, schema) = (update.table, self.schema(update.table));
        let sets = |column: usize| update.sets.iter().filter(|(set, _)| *set == column).count();
        if schema.key.iter().any(|&column| sets(column) > 0) || schema.key.is_empty() {
            return Effect::Anything(table);
        }
        let key = self.named(&update.source, params).flatten();
        let change = |(column, expr): &(usize, Expr)| {
            let change = match self.amount(update, *column, expr, params) {
                _ if sets(*column) > 1 => Change::Set(Possible::Any),
                Some(amount) => Change::Add(amount),
                None => Change::of(Computed {
                    expr: expr.clone(),
                    column: schema.columns[*column].data_type,
                    params: params.into(),
                    dialect: self.dialect(),
                    width: schema.columns.len(),
                    proposed: Vec::new(),
                }),
            };
            (*column, change)
        };
        Effect::Update { table, key, changes: update.sets.iter().map(change).collect() }
    }

    /// The number that an assignment adds to its own column, if the column keeps such sums as they
    /// are.
    fn amount(&self, update: &Update, column: usize, expr: &Expr, params: &[Value]) -> Option<Amount> {
        let own = |expr: &Expr| matches!(expr, Expr::Column(Slot { depth: 0, index }) if usize::from(*index) == column);
        let (number, minus) = match expr {
            Expr::Arith(Arith::Add, a, b) if own(a) => (self.number(b, params)?, false),
            Expr::Arith(Arith::Add, a, b) if own(b) => (self.number(a, params)?, false),
            Expr::Arith(Arith::Sub, a, b) if own(a) => (self.number(b, params)?, true),
            _ => return None,
        };
        let scale = match self.schema(update.table).columns[column].data_type {
            Type::Int(_) => 0,
            Type::Decimal(Some((_, scale))) if self.dialect() != Dialect::Sqlite => scale,
            _ => return None,
        };
        let units = |number: Decimal| (number.scale() <= scale).then(|| number.rescale(scale))?;
        let number = units(number)?.mantissa();
        let number = if minus { number.checked_neg()? } else { number };
        let mut amount = Amount { number, scale, least: None, most: None };
        let Source { on, filters, .. } = &update.source;
        for condition in on.iter().chain(filters) {
            let Expr::Compare(op, left, right) = condition else { continue };
            let (op, bound) = if own(left) {
                (*op, right)
            } else if own(right) {
                (op.flipped(), left)
            } else {
                continue;
            };
            let Some(bound) = self.number(bound, params).and_then(units) else { continue };
            let bound = bound.mantissa();
            match op {
                Cmp::Ge | Cmp::Gt => amount.least = amount.least.max(Some(bound)),
                Cmp::Le | Cmp::Lt => amount.most = Some(amount.most.map_or(bound, |most| most.min(bound))),
                Cmp::Eq | Cmp::Ne => {}
            }
        }
        Some(amount)
    }

    /// The exact number that an expression without columns is.
    fn number(&self, expr: &Expr, params: &[Value]) -> Option<Decimal> {
        if !expr.uses().0.is_empty() {
            return None;
        }
        let supposed = Supposed { dialect: self.dialect(), params, row: &|_| Possible::Any };
        let Possible::Of(values) = supposed.value(expr) else { return None };
        match values.first() {
            Some(Value::Int(number)) => Some((*number).into()),
            Some(Value::Decimal(number)) => Some(*number),
            _ => None,
        }
    }
}
