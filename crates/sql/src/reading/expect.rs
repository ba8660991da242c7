//! What a statement can answer, by what rows can be.
//!
//! # Invariants
//! - Whatever state a statement is executed on, if each row of it is one of the possible ones by
//!   itself, the answer fits what is expected. Rows are independent of each other here, so that
//!   this holds whichever states a level lets them be seen in.

use std::sync::Arc;

use crate::possible::{Numbers, Possible};
use crate::reading::cast::Type;
use crate::reading::database::Database;
use crate::reading::expr::{Cmp, Expr, Slot};
use crate::reading::plan::{
    Aggregate, AggregateKind, Group, Insert, InsertRows, Select, Source, SourceRows, TableId,
};
use crate::reading::statement::{Plan, Statement};
use crate::reading::store::Key;
use crate::reading::suppose::{Supposed, Truth};
use crate::value::Value;

/// What rows can be.
pub trait Rows {
    /// Calls `visit` with each row that a table can have, and whether it has it always; false if
    /// there may be others.
    fn each(&self, table: TableId, visit: &mut dyn FnMut(&Key, bool)) -> bool;
    /// Rows of a table, as [`Rows::each`] has them, among which all are whose column can be this
    /// integer; `None` where there is no quick way to tell.
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
    /// The one part has all outputs, and an answer for each of its rows that is there, up to the
    /// limit.
    pub whole: bool,
    /// The most rows of an answer.
    pub limit: Option<u64>,
    /// The outputs that show which rows of the tables a row of the answer is of: no two rows have all of them in common.
    pub keys: Option<Vec<usize>>,
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
            let met = asker.met(&[], source)?;
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
            Plan::Insert(insert) => Expected { count: inserted(insert), ..Expected::default() },
            _ => Expected::default(),
        }
    }
}

/// How many rows an INSERT writes at least and at most, where it lists them.
fn inserted(insert: &Insert) -> Option<(u64, u64)> {
    let InsertRows::Values(rows) = &insert.rows else { return None };
    let most = rows.len() as u64;
    Some((if insert.conflict.is_none() { most } else { 0 }, most))
}

struct Asker<'a> {
    database: &'a Database,
    params: &'a [Value],
    rows: &'a dyn Rows,
}

/// A row that a source can have.
#[derive(Clone)]
struct Met<'s> {
    source: &'s Source,
    table: TableId,
    key: Key,
    certain: bool,
}

/// The most rows of a join that are looked at one by one, at each of its tables.
const MOST_JOINED: usize = 64;

impl Asker<'_> {
    /// The rows of a source that can satisfy its conditions beside rows of the sources before it;
    /// `None` if there may be others.
    fn met<'s>(&self, before: &[Met<'s>], source: &'s Source) -> Option<Vec<Met<'s>>> {
        let SourceRows::Table(table, _) = &source.rows else { return None };
        if source.left {
            return None;
        }
        let mut met = Vec::new();
        let mut row = before.to_vec();
        let mut add = |key: &Key, present: bool| {
            row.truncate(before.len());
            row.push(Met { source, table: *table, key: key.clone(), certain: present });
            let truth = self.conditions(source, &row);
            if truth.can_hold {
                let certain = present && !truth.can_fail;
                met.extend(row.last().map(|last| Met { certain, ..last.clone() }));
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
            _ => match self.found(before, source, *table) {
                Some(found) => {
                    found.iter().for_each(|(key, present)| add(key, *present));
                    Some(met)
                }
                None => self.rows.each(*table, &mut add).then_some(met),
            },
        }
    }

    /// The fewest rows that a condition of equality leaves, where there is a quick way to tell.
    fn found(&self, before: &[Met<'_>], source: &Source, table: TableId) -> Option<Arc<[(Key, bool)]>> {
        let columns = &self.database.schema(table).columns;
        let cell = self.cell(before);
        let mut best: Option<Arc<[(Key, bool)]>> = None;
        for condition in source.on.iter().chain(&source.filters) {
            let Expr::Compare(Cmp::Eq, left, right) = condition else { continue };
            for (column, value) in [(left, right), (right, left)] {
                let Expr::Column(Slot { depth: 0, index }) = &**column else { continue };
                let own = usize::from(*index).checked_sub(source.offset).filter(|&own| own < source.width);
                let Some(own) = own.filter(|&own| matches!(columns[own].data_type, Type::Int(_))) else {
                    continue;
                };
                let Possible::Of(values) = self.supposed(&cell).value(value) else { continue };
                let (Some(Value::Int(number)), 1) = (values.first(), values.len()) else { continue };
                let Some(found) = self.rows.with(table, own, *number) else { continue };
                if best.as_ref().is_none_or(|best| found.len() < best.len()) {
                    best = Some(found);
                }
            }
        }
        best
    }

    /// Whether the conditions of a source can hold and fail on a joined row.
    fn conditions(&self, source: &Source, row: &[Met<'_>]) -> Truth {
        let start = Truth { can_hold: true, can_fail: false };
        let cell = self.cell(row);
        let conditions = source.on.iter().chain(&source.filters);
        conditions.fold(start, |truth, condition| truth.both(self.supposed(&cell).truth(condition)))
    }

    fn supposed<'s>(&'s self, row: &'s dyn Fn(usize) -> Possible) -> Supposed<'s> {
        Supposed { dialect: self.database.dialect(), params: self.params, row }
    }

    /// The columns of a joined row, of which those of some sources are known.
    fn cell<'s>(&'s self, row: &'s [Met<'s>]) -> impl Fn(usize) -> Possible + 's {
        move |slot| {
            let own =
                |met: &&Met<'_>| (met.source.offset..met.source.offset + met.source.width).contains(&slot);
            match row.iter().find(own) {
                Some(met) => self.rows.cell(met.table, &met.key, slot - met.source.offset),
                None => Possible::Any,
            }
        }
    }

    /// The rows of all sources together; `None` if there may be others, or they are too many.
    fn joined<'s>(&self, sources: &'s [Source]) -> Option<Vec<Vec<Met<'s>>>> {
        let mut joined = vec![Vec::new()];
        for source in sources {
            let mut longer = Vec::new();
            for row in &joined {
                let row: &Vec<Met<'s>> = row;
                longer.extend(self.met(row, source)?.into_iter().map(|met| [&row[..], &[met]].concat()));
            }
            if sources.len() > 1 && longer.len() > MOST_JOINED {
                return None;
            }
            joined = longer;
        }
        Some(joined)
    }

    fn select(&self, select: &Select) -> Expected {
        let constant = self.constant(select);
        let part = |outputs: Vec<usize>, rows: Vec<Vec<Met<'_>>>| {
            let show = |row: &Vec<Met<'_>>| {
                let cell = self.cell(row);
                let supposed = self.supposed(&cell);
                let values = outputs.iter().map(|&at| supposed.value(&select.outputs[at].expr)).collect();
                ExpectedRow { values, certain: row.iter().all(|met| met.certain) && !constant.can_fail }
            };
            let rows = rows.iter().filter(|_| constant.can_hold).map(show).collect();
            ExpectedPart { outputs, rows }
        };
        let limit = self.limit(select);
        let keys = self.keys(select);
        let cut = select.limit.is_some() && limit.is_none() || select.offset.is_some() || select.distinct;
        if let Some(rows) = self.joined(&select.sources) {
            let parts = vec![part((0..select.outputs.len()).collect(), rows)];
            return Expected { whole: !cut, limit, parts, keys, count: None };
        }
        let mut parts = Vec::new();
        for source in &select.sources {
            let own = |expr: &Expr| {
                let (columns, more) = expr.uses();
                let inside =
                    |&column: &usize| (source.offset..source.offset + source.width).contains(&column);
                !more && !columns.is_empty() && columns.iter().all(inside)
            };
            let outputs = select.outputs.iter().enumerate().filter(|(_, output)| own(&output.expr));
            let outputs: Vec<usize> = outputs.map(|(at, _)| at).collect();
            let Some(met) = self.met(&[], source) else { continue };
            parts.push(part(outputs, met.into_iter().map(|met| vec![met]).collect()));
        }
        Expected { whole: false, limit, parts, keys, count: None }
    }

    /// The outputs that are the keys of all tables.
    fn keys(&self, select: &Select) -> Option<Vec<usize>> {
        let mut keys = Vec::new();
        for source in &select.sources {
            let SourceRows::Table(table, _) = &source.rows else { return None };
            let key = &self.database.schema(*table).key;
            if source.left || key.is_empty() {
                return None;
            }
            for column in key {
                let slot = source.offset + column;
                let is_it = |expr: &Expr| matches!(expr, Expr::Column(Slot { depth: 0, index }) if usize::from(*index) == slot);
                keys.push(select.outputs.iter().position(|output| is_it(&output.expr))?);
            }
        }
        (!keys.is_empty()).then_some(keys)
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
        let met = self.met(&[], source)?;
        let made: Vec<Possible> =
            group.aggregates.iter().map(|aggregate| self.aggregate(aggregate, &met)).collect();
        let supposed = |slot: usize| made.get(slot).cloned().unwrap_or(Possible::Any);
        let supposed = self.supposed(&supposed);
        let values = select.outputs.iter().map(|output| supposed.value(&output.expr)).collect();
        let rows = vec![ExpectedRow { values, certain: true }];
        let part = ExpectedPart { outputs: (0..select.outputs.len()).collect(), rows };
        Some(Expected { parts: vec![part], whole: true, ..Expected::default() })
    }

    fn aggregate(&self, aggregate: &Aggregate, met: &[Met<'_>]) -> Possible {
        let argument = |met: &Met<'_>| match &aggregate.arg {
            None => Possible::one(Value::Int(1)),
            Some(arg) => self.supposed(&self.cell(std::slice::from_ref(met))).value(arg),
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
