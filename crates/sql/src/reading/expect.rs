//! What a statement can answer, by what rows can be.
//!
//! # Invariants
//! - Whatever state a statement is executed on, if each row of it is one of the possible ones by itself, the answer
//!   fits what is expected. Rows are independent of each other here, so that this holds whichever states a level lets
//!   them be seen in.

use std::sync::Arc;

use crate::possible::{Numbers, Possible};
use crate::reading::cast::Type;
use crate::reading::database::Database;
use crate::reading::expr::{Cmp, Expr, Slot};
use crate::reading::plan::{Aggregate, AggregateKind, Group, Select, Source, SourceRows, TableId};
use crate::reading::statement::{Plan, Statement};
use crate::reading::store::Key;
use crate::reading::suppose::{Supposed, Truth};
use crate::value::Value;

/// What rows can be.
pub trait Rows {
    /// Calls `visit` with each row that a table can have, and whether it has it always; false if there may be others.
    fn each(&self, table: TableId, visit: &mut dyn FnMut(&Key, bool)) -> bool;
    /// Rows of a table, as [`Rows::each`] has them, among which all are whose column can be this integer; `None` where
    /// there is no quick way to tell.
    fn with(&self, _: TableId, _column: usize, _number: i64) -> Option<Arc<[(Key, bool)]>> {
        None
    }
    /// Whether a table has a row of this key always; `None` if never.
    fn row(&self, table: TableId, key: &Key) -> Option<bool>;
    /// What a column of a row can be.
    fn cell(&self, table: TableId, key: &Key, column: usize) -> Possible;
}

/// What a statement can answer.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Every row of the answer is one of each part, in the outputs that the part has.
    pub parts: Vec<ExpectedPart>,
    /// The one part has all outputs, and an answer for each of its rows that is there, up to the limit.
    pub whole: bool,
    /// The most rows of an answer.
    pub limit: Option<u64>,
    /// How many rows are met by a statement that writes, at least and at most.
    pub count: Option<(u64, u64)>,
}

/// Rows that an answer can have, in some of its outputs.
#[derive(Clone, Debug)]
pub struct ExpectedPart {
    /// The outputs.
    pub outputs: Vec<usize>,
    /// The rows.
    pub rows: Vec<ExpectedRow>,
}

/// A row that an answer can have.
#[derive(Clone, Debug)]
pub struct ExpectedRow {
    /// What its outputs can be.
    pub values: Vec<Possible>,
    /// Whether the answer has it always.
    pub certain: bool,
}

impl Database {
    /// What a statement can answer. Where nothing is known, there are no parts and no count.
    pub fn expected(&self, statement: &Statement, params: &[Value], rows: &dyn Rows) -> Expected {
        let asker = Asker { database: self, params, rows };
        let met = |source: &Source| {
            let met = asker.met(source)?;
            let certain = met.iter().filter(|row| row.certain).count() as u64;
            Some((certain, met.len() as u64))
        };
        match statement.plan() {
            Plan::Select(select) => match &select.group {
                None => asker.select(select),
                Some(group) => asker.aggregates(select, group).unwrap_or_default(),
            },
            Plan::Update(update) => Expected { count: met(&update.source), ..Expected::default() },
            Plan::Delete(delete) => Expected { count: met(&delete.source), ..Expected::default() },
            _ => Expected::default(),
        }
    }
}

struct Asker<'a> {
    database: &'a Database,
    params: &'a [Value],
    rows: &'a dyn Rows,
}

/// A row that a source can have.
struct Met {
    table: TableId,
    key: Key,
    certain: bool,
}

impl Asker<'_> {
    /// The rows of a source that can satisfy its conditions; `None` if there may be others.
    fn met(&self, source: &Source) -> Option<Vec<Met>> {
        let SourceRows::Table(table, _) = &source.rows else { return None };
        if source.left {
            return None;
        }
        let mut met = Vec::new();
        let mut add = |key: &Key, present: bool| {
            let truth = self.conditions(source, *table, key);
            if truth.can_hold {
                met.push(Met { table: *table, key: key.clone(), certain: present && !truth.can_fail });
            }
        };
        match self.database.named(source, self.params) {
            Some(Some(key)) => {
                // That no other row may be there is asked of all.
                if let Some(present) = self.rows.row(*table, &key) {
                    add(&key, present);
                }
                Some(met)
            }
            _ => match self.found(source, *table) {
                Some(found) => {
                    found.iter().for_each(|(key, present)| add(key, *present));
                    Some(met)
                }
                None => self.rows.each(*table, &mut add).then_some(met),
            },
        }
    }

    /// The fewest rows that a condition of equality leaves, where there is a quick way to tell.
    fn found(&self, source: &Source, table: TableId) -> Option<Arc<[(Key, bool)]>> {
        let columns = &self.database.schema(table).columns;
        let mut best: Option<Arc<[(Key, bool)]>> = None;
        for condition in source.on.iter().chain(&source.filters) {
            let Expr::Compare(Cmp::Eq, left, right) = condition else { continue };
            for (column, value) in [(left, right), (right, left)] {
                let Expr::Column(Slot { depth: 0, index }) = &**column else { continue };
                let own = usize::from(*index).checked_sub(source.offset).filter(|&own| own < source.width);
                let Some(own) = own.filter(|&own| matches!(columns[own].data_type, Type::Int(_))) else {
                    continue;
                };
                let Possible::Of(values) = self.supposed(&|_| Possible::Any).value(value) else { continue };
                let (Some(Value::Int(number)), 1) = (values.first(), values.len()) else { continue };
                let Some(found) = self.rows.with(table, own, *number) else { continue };
                if best.as_ref().is_none_or(|best| found.len() < best.len()) {
                    best = Some(found);
                }
            }
        }
        best
    }

    /// Whether the conditions of a source can hold and fail on a row.
    fn conditions(&self, source: &Source, table: TableId, key: &Key) -> Truth {
        let start = Truth { can_hold: true, can_fail: false };
        let conditions = source.on.iter().chain(&source.filters);
        conditions.fold(start, |truth, condition| truth.both(self.condition(source, table, key, condition)))
    }

    fn condition(&self, source: &Source, table: TableId, key: &Key, condition: &Expr) -> Truth {
        let cell = self.cell(source, table, key);
        self.supposed(&cell).truth(condition)
    }

    fn supposed<'s>(&'s self, row: &'s dyn Fn(usize) -> Possible) -> Supposed<'s> {
        Supposed { dialect: self.database.dialect(), params: self.params, row }
    }

    /// The columns of a joined row, of which one source's are known.
    fn cell<'s>(
        &'s self,
        source: &'s Source,
        table: TableId,
        key: &'s Key,
    ) -> impl Fn(usize) -> Possible + 's {
        move |slot| match slot.checked_sub(source.offset).filter(|&column| column < source.width) {
            Some(column) => self.rows.cell(table, key, column),
            None => Possible::Any,
        }
    }

    fn select(&self, select: &Select) -> Expected {
        let single = select.sources.len() == 1;
        let constant = self.constant(select);
        let mut parts = Vec::new();
        for source in &select.sources {
            let own = |expr: &Expr| {
                let (columns, more) = expr.uses();
                let inside =
                    |&column: &usize| (source.offset..source.offset + source.width).contains(&column);
                single || !more && !columns.is_empty() && columns.iter().all(inside)
            };
            let outputs = select.outputs.iter().enumerate().filter(|(_, output)| own(&output.expr));
            let outputs: Vec<usize> = outputs.map(|(at, _)| at).collect();
            let Some(met) = self.met(source) else { continue };
            let show = |met: &Met| {
                let cell = self.cell(source, met.table, &met.key);
                let supposed = self.supposed(&cell);
                let values = outputs.iter().map(|&at| supposed.value(&select.outputs[at].expr)).collect();
                ExpectedRow { values, certain: met.certain && !constant.can_fail }
            };
            let rows = met.iter().filter(|_| constant.can_hold).map(show).collect();
            parts.push(ExpectedPart { outputs, rows });
        }
        let limit = self.limit(select);
        let cut = select.limit.is_some() && limit.is_none() || select.offset.is_some() || select.distinct;
        Expected { whole: single && parts.len() == 1 && !cut, limit, parts, count: None }
    }

    /// The limit of a query, if it is a number.
    fn limit(&self, select: &Select) -> Option<u64> {
        let supposed = self.supposed(&|_| Possible::Any);
        let Possible::Of(values) = supposed.value(select.limit.as_ref()?) else { return None };
        match values.first() {
            Some(Value::Int(limit)) if values.len() == 1 => u64::try_from(*limit).ok(),
            _ => None,
        }
    }

    fn constant(&self, select: &Select) -> Truth {
        let start = Truth { can_hold: true, can_fail: false };
        let supposed = self.supposed(&|_| Possible::Any);
        select.constant.iter().fold(start, |truth, condition| truth.both(supposed.truth(condition)))
    }

    /// The one row of a query that only aggregates the rows of one table.
    fn aggregates(&self, select: &Select, group: &Group) -> Option<Expected> {
        let [source] = select.sources.as_slice() else { return None };
        let plain = group.keys.is_empty() && group.having.is_none() && select.constant.is_empty();
        if !plain || select.limit.is_some() || select.offset.is_some() {
            return None;
        }
        let met = self.met(source)?;
        let made: Vec<Possible> =
            group.aggregates.iter().map(|aggregate| self.aggregate(aggregate, source, &met)).collect();
        let supposed = |slot: usize| made.get(slot).cloned().unwrap_or(Possible::Any);
        let supposed = self.supposed(&supposed);
        let values = select.outputs.iter().map(|output| supposed.value(&output.expr)).collect();
        let rows = vec![ExpectedRow { values, certain: true }];
        let part = ExpectedPart { outputs: (0..select.outputs.len()).collect(), rows };
        Some(Expected { parts: vec![part], whole: true, ..Expected::default() })
    }

    fn aggregate(&self, aggregate: &Aggregate, source: &Source, met: &[Met]) -> Possible {
        let argument = |met: &Met| match &aggregate.arg {
            None => Possible::one(Value::Int(1)),
            Some(arg) => self.supposed(&self.cell(source, met.table, &met.key)).value(arg),
        };
        let arguments: Vec<(Possible, bool)> = met.iter().map(|met| (argument(met), met.certain)).collect();
        let counted = |(value, certain): &(Possible, bool)| *certain && !value.has(&Value::Null);
        match aggregate.kind {
            AggregateKind::Count => {
                let most = arguments.iter().filter(|(value, _)| *value != Possible::one(Value::Null)).count();
                let least = arguments.iter().filter(|argument| counted(argument)).count();
                let least = if aggregate.distinct { least.min(1) } else { least };
                let (low, high) = (least as i128, most as i128);
                Possible::numbers(Numbers { low, high, step: 1, scale: 0, null: false })
            }
            AggregateKind::Min | AggregateKind::Max => {
                let mut all = Possible::nothing();
                arguments.iter().for_each(|(value, _)| all.join(value.clone()));
                if !arguments.iter().any(counted) {
                    all.join(Possible::one(Value::Null));
                }
                all
            }
            AggregateKind::Sum if !aggregate.distinct => total(&arguments),
            AggregateKind::Sum | AggregateKind::Avg => Possible::Any,
        }
    }
}

/// What the sum of values can be, each of which may be missing if it is not certain.
fn total(arguments: &[(Possible, bool)]) -> Possible {
    let mut sum = Possible::one(Value::Int(0));
    for (value, certain) in arguments {
        if *value == Possible::one(Value::Null) {
            continue;
        }
        let Some(numbers) = value.hull() else { return Possible::Any };
        let (mut low, mut high, mut step) = (numbers.low, numbers.high, numbers.step);
        if low == high {
            step = 0;
        }
        if !certain || numbers.null {
            // Nothing is added, or one of the numbers: both are multiples of what divides them.
            step = if low == high { low } else { 1 };
            (low, high) = (low.min(0), high.max(0));
        }
        sum = sum.shifted((low, high), step, numbers.scale);
    }
    // Without a row there is no sum.
    if !arguments.iter().any(|(value, certain)| *certain && !value.has(&Value::Null)) {
        sum.join(Possible::one(Value::Null));
    }
    sum
}
