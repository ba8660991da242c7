//! Evaluation of queries: nested loops over the sources, then groups, outputs, order and limit.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use crate::compare::{check_order, compare};
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::aggregate::Accumulator;
use crate::reading::cast::Type;
use crate::reading::eval::{Env, eval, truth};
use crate::reading::expr::{Cmp, Expr, Slot};
use crate::reading::outcome::{PredicateRead, Reads, RowRead};
use crate::reading::plan::{Asked, Group, Order, OrderBy, Output, Select, Source, SourceRows, TableId};
use crate::reading::predicate::cell;
use crate::reading::stop::Stop;
use crate::reading::store::{Found, Key, Record, StatementView, Table};
use crate::value::Value;

/// What a statement is evaluated in.
pub(crate) struct Context<'a> {
    pub dialect: Dialect,
    pub tables: &'a [Table],
    pub view: StatementView,
    pub params: &'a [Value],
    pub now: Option<i64>,
    /// The statement writes.
    pub writes: bool,
    pub reads: RefCell<Reads>,
    /// The parameters as predicates keep them, made once if one does.
    pub shared: RefCell<Option<Arc<[Value]>>>,
    /// Rows are numbered by nobody: a statement that would is refused.
    pub unnumbered: bool,
    /// The columns that should have an index, if indexes are made.
    pub wanted: Option<RefCell<Vec<(TableId, usize)>>>,
    pub stop: &'a Stop,
}

impl Context<'_> {
    fn shared_params(&self) -> Arc<[Value]> {
        self.shared.borrow_mut().get_or_insert_with(|| Arc::from(self.params)).clone()
    }

    pub(crate) fn note_row(&self, table: TableId, key: &Key, stamp: Option<u64>, present: bool) {
        self.reads.borrow_mut().rows.push(RowRead { table, key: key.clone(), stamp, present });
    }

    fn note_predicate(&self, table: TableId, asked: &Arc<Asked>) {
        let read = PredicateRead {
            table,
            asked: asked.clone(),
            params: self.shared_params(),
            dialect: self.dialect,
        };
        self.reads.borrow_mut().predicates.push(read);
    }
}

/// A row within the rows of the queries around it.
pub(crate) struct At<'a> {
    pub context: &'a Context<'a>,
    pub row: &'a [Value],
    pub outer: Option<&'a At<'a>>,
}

impl Env for At<'_> {
    fn dialect(&self) -> Dialect {
        self.context.dialect
    }

    #[inline]
    fn column(&self, slot: Slot) -> Result<Cow<'_, Value>, SqlError> {
        let mut at = self;
        for _ in 0..slot.depth {
            at = at.outer.ok_or_else(|| SqlError::unsupported("a column of a missing outer row"))?;
        }
        cell(at.row, slot)
    }

    #[inline]
    fn param(&self, index: usize) -> Result<&Value, SqlError> {
        self.context.params.get(index).ok_or(SqlError::MissingParameter(index + 1))
    }

    fn now(&self) -> Result<i64, SqlError> {
        self.context.now.ok_or_else(|| SqlError::unsupported("the current time, which is not known"))
    }

    fn zero_division_fails(&self) -> bool {
        self.context.writes && self.context.dialect.is_mysql()
    }

    fn select(&self, select: &Select) -> Result<Vec<Vec<Value>>, SqlError> {
        Ok(run(select, self.context, Some(self))?.rows)
    }
}

/// The rows of a query, with their places in its order.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub rows: Vec<Vec<Value>>,
    pub ranks: Vec<u32>,
}

/// Evaluates a query.
pub(crate) fn run(select: &Select, context: &Context, outer: Option<&At>) -> Result<Rows, SqlError> {
    if select.lock.is_some() {
        context.reads.borrow_mut().lock = select.lock;
    }
    let mut shown = Vec::new();
    match &select.group {
        None => joined(select, context, outer, &mut |row| {
            shown.push(show(select, &At { context, row, outer })?);
            Ok(())
        })?,
        Some(group) => {
            for row in grouped(select, group, context, outer)? {
                let at = At { context, row: &row, outer };
                let kept = match &group.having {
                    Some(having) => truth(having, &at)? == Some(true),
                    None => true,
                };
                if kept {
                    shown.push(show(select, &at)?);
                }
            }
        }
    }
    if select.distinct {
        shown = distinct(shown, context.dialect)?;
    }
    let env = At { context, row: &[], outer };
    arrange(select, shown, &env)
}

/// The outputs of a row, and what it is sorted by beyond them.
struct Shown {
    row: Vec<Value>,
    keys: Vec<Value>,
}

fn show(select: &Select, at: &At) -> Result<Shown, SqlError> {
    let row = outputs(&select.outputs, at)?;
    let mut keys = Vec::with_capacity(select.order.len());
    for order in &select.order {
        keys.push(match &order.by {
            OrderBy::Output(index) => row[*index].clone(),
            OrderBy::Expr(expr) => eval(expr, at)?.into_owned(),
        });
    }
    Ok(Shown { row, keys })
}

/// The values of outputs.
pub(crate) fn outputs(outputs: &[Output], at: &At) -> Result<Vec<Value>, SqlError> {
    outputs.iter().map(|output| Ok(eval(&output.expr, at)?.into_owned())).collect()
}

/// Drops repeated rows. Rows that are equal but not the same would leave it open which one stays.
fn distinct(shown: Vec<Shown>, dialect: Dialect) -> Result<Vec<Shown>, SqlError> {
    let mut seen: HashMap<Vec<Value>, Vec<Value>> = HashMap::new();
    let mut kept = Vec::new();
    for shown in shown {
        let key: Vec<Value> = shown.row.iter().map(|value| value.group_key(dialect)).collect();
        match seen.get(&key) {
            Some(first) if *first != shown.row => return Err(equal_but_not_same()),
            Some(_) => {}
            None => {
                seen.insert(key, shown.row.clone());
                kept.push(shown);
            }
        }
    }
    Ok(kept)
}

fn equal_but_not_same() -> SqlError {
    SqlError::unsupported("a group of values that are equal but not the same")
}

/// Sorts and cuts.
fn arrange(select: &Select, mut shown: Vec<Shown>, env: &At) -> Result<Rows, SqlError> {
    let dialect = env.context.dialect;
    if shown.len() <= 1 && select.limit.is_none() && select.offset.is_none() {
        let ranks = vec![0; shown.len()];
        return Ok(Rows { rows: shown.into_iter().map(|shown| shown.row).collect(), ranks });
    }
    let mut order = select.order.as_slice();
    if !order.is_empty() {
        check_sortable(&shown, order.len(), dialect)?;
        shown.sort_by(|a, b| compare_keys(&a.keys, &b.keys, order, dialect));
        order = &order[..known_keys(&shown, order.len(), dialect)];
    }
    let mut ranks: Vec<u32> = Vec::with_capacity(shown.len());
    for index in 0..shown.len() {
        let rank = match index.checked_sub(1) {
            None => 0,
            Some(before) => {
                let order = compare_keys(&shown[before].keys, &shown[index].keys, order, dialect);
                ranks[before] + u32::from(order.is_ne())
            }
        };
        ranks.push(rank);
    }
    let offset = limit_value(select.offset.as_ref(), env)?.unwrap_or(0).min(shown.len());
    let end =
        limit_value(select.limit.as_ref(), env)?.map_or(shown.len(), |limit| offset.saturating_add(limit));
    let end = end.min(shown.len());
    for cut in [offset, end] {
        check_cut(&shown, &ranks, cut, offset < end)?;
    }
    let rows = shown.into_iter().skip(offset).take(end - offset).map(|shown| shown.row).collect();
    Ok(Rows { rows, ranks: ranks[offset..end].to_vec() })
}

/// A limit must not choose among different rows of equal rank: which ones come is open.
fn check_cut(shown: &[Shown], ranks: &[u32], cut: usize, any: bool) -> Result<(), SqlError> {
    if !any || cut == 0 || cut >= shown.len() || ranks[cut - 1] != ranks[cut] {
        return Ok(());
    }
    let mut tied = (0..shown.len()).filter(|&index| ranks[index] == ranks[cut]);
    if tied.all(|index| shown[index].row == shown[cut].row) {
        return Ok(());
    }
    Err(SqlError::unsupported("a LIMIT among rows whose order is open"))
}

fn limit_value(expr: Option<&Expr>, env: &At) -> Result<Option<usize>, SqlError> {
    let Some(expr) = expr else { return Ok(None) };
    match &*eval(expr, env)? {
        Value::Int(number) if *number >= 0 => Ok(Some(usize::try_from(*number).unwrap_or(usize::MAX))),
        other => Err(SqlError::unsupported(format!("a LIMIT of {other}"))),
    }
}

fn compare_keys(a: &[Value], b: &[Value], order: &[Order], dialect: Dialect) -> Ordering {
    for ((a, b), order) in a.iter().zip(b).zip(order) {
        let step = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => {
                if order.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (false, true) => {
                if order.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, false) => {
                let step = a.order(b, dialect);
                if order.descending { step.reverse() } else { step }
            }
        };
        if step.is_ne() {
            return step;
        }
    }
    Ordering::Equal
}

/// Sorting needs an order of all values: one type per key, and text that the collation is known
/// for.
fn check_sortable(shown: &[Shown], keys: usize, dialect: Dialect) -> Result<(), SqlError> {
    for key in 0..keys {
        let mut values = shown.iter().map(|shown| &shown.keys[key]).filter(|value| !value.is_null());
        let Some(first) = values.next() else { continue };
        for value in values {
            compare(first, value, dialect)?;
            let odd = |text: &str| dialect.ignores_case() && text.bytes().any(|b| !(b' '..0x7f).contains(&b));
            if matches!((first, value), (Value::Text(a), Value::Text(b)) if odd(a) || odd(b)) {
                return Err(SqlError::unsupported("the order of text beyond printable ASCII"));
            }
        }
    }
    Ok(())
}

/// How many of the leading keys have values whose order is known. Rows that only further keys tell
/// apart may come in any order: PostgreSQL sorts text by the database's collation.
fn known_keys(shown: &[Shown], keys: usize, dialect: Dialect) -> usize {
    let known = |key: &usize| {
        let text = |shown: &Shown| matches!(shown.keys[*key], Value::Text(_));
        let mut texts: Vec<&Value> =
            shown.iter().filter(|shown| text(shown)).map(|shown| &shown.keys[*key]).collect();
        texts.sort_unstable_by(|a, b| a.order(b, dialect).then_with(|| a.cmp(b)));
        // Where each text agrees with the next, all of them agree.
        texts.windows(2).all(|pair| check_order(pair[0], pair[1], dialect).is_ok())
    };
    (0..keys).take_while(known).count()
}

/// The rows of the groups: keys, then aggregates.
fn grouped(
    select: &Select,
    group: &Group,
    context: &Context,
    outer: Option<&At>,
) -> Result<Vec<Vec<Value>>, SqlError> {
    let dialect = context.dialect;
    let mut index: HashMap<Vec<Value>, usize> = HashMap::new();
    let mut groups: Vec<(Vec<Value>, Vec<Accumulator>)> = Vec::new();
    if group.keys.is_empty() {
        groups.push((Vec::new(), vec![Accumulator::default(); group.aggregates.len()]));
        index.insert(Vec::new(), 0);
    }
    joined(select, context, outer, &mut |row| {
        let at = At { context, row, outer };
        let keys: Vec<Value> =
            group.keys.iter().map(|key| Ok(eval(key, &at)?.into_owned())).collect::<Result<_, SqlError>>()?;
        let normal: Vec<Value> = keys.iter().map(|key| key.group_key(dialect)).collect();
        let found = *index.entry(normal).or_insert_with(|| {
            groups.push((keys.clone(), vec![Accumulator::default(); group.aggregates.len()]));
            groups.len() - 1
        });
        if groups[found].0 != keys {
            return Err(equal_but_not_same());
        }
        for (aggregate, accumulator) in group.aggregates.iter().zip(&mut groups[found].1) {
            match &aggregate.arg {
                Some(arg) => accumulator.add(aggregate, &*eval(arg, &at)?, dialect)?,
                None => accumulator.add(aggregate, &Value::Bool(true), dialect)?,
            }
        }
        Ok(())
    })?;
    let finish = |(mut row, accumulators): (Vec<Value>, Vec<Accumulator>)| {
        for (aggregate, accumulator) in group.aggregates.iter().zip(&accumulators) {
            row.push(accumulator.finish(aggregate, dialect)?);
        }
        Ok(row)
    };
    groups.into_iter().map(finish).collect()
}

type Sink<'s> = &'s mut dyn FnMut(&[Value]) -> Result<(), SqlError>;

/// Gives every joined row that satisfies all conditions to `sink`.
fn joined(select: &Select, context: &Context, outer: Option<&At>, sink: Sink) -> Result<(), SqlError> {
    let empty = At { context, row: &[], outer };
    if !hold(&select.constant, &empty)? {
        return Ok(());
    }
    if let [source] = select.sources.as_slice()
        && let SourceRows::Table(id, asked) = &source.rows
    {
        return found(source, *id, asked, &empty, &mut |_, _, record| sink(record)).map(|_| ());
    }
    let derived: Vec<Option<Vec<Vec<Value>>>> = select
        .sources
        .iter()
        .map(|source| match &source.rows {
            SourceRows::Derived(select) => run(select, context, outer).map(|rows| Some(rows.rows)),
            SourceRows::Table(..) => Ok(None),
        })
        .collect::<Result<_, _>>()?;
    let join = Join { sources: &select.sources, derived: &derived, context, outer };
    join.extend(0, &[], sink)
}

/// The nested loops of a join.
struct Join<'a> {
    sources: &'a [Source],
    derived: &'a [Option<Vec<Vec<Value>>>],
    context: &'a Context<'a>,
    outer: Option<&'a At<'a>>,
}

impl Join<'_> {
    fn extend(&self, index: usize, row: &[Value], sink: Sink) -> Result<(), SqlError> {
        let Some(source) = self.sources.get(index) else { return sink(row) };
        let before = At { context: self.context, row, outer: self.outer };
        let any = Cell::new(false);
        let visit = |values: &[Value], sink: Sink| -> Result<(), SqlError> {
            any.set(true);
            let joined: Vec<Value> = row.iter().chain(values).cloned().collect();
            let at = At { context: self.context, row: &joined, outer: self.outer };
            if hold(&source.filters, &at)? { self.extend(index + 1, &joined, sink) } else { Ok(()) }
        };
        match (&source.rows, &self.derived[index]) {
            (SourceRows::Table(id, asked), _) => {
                found(source, *id, asked, &before, &mut |_, _, record| visit(record, sink))?;
            }
            (SourceRows::Derived(_), Some(rows)) => {
                for values in rows {
                    self.context.stop.check()?;
                    let joined: Vec<Value> = row.iter().chain(values).cloned().collect();
                    let at = At { context: self.context, row: &joined, outer: self.outer };
                    if hold(&source.on, &at)? {
                        visit(values, sink)?;
                    }
                }
            }
            (SourceRows::Derived(_), None) => {}
        }
        if source.left && !any.get() {
            visit(&vec![Value::Null; source.width], sink)?;
        }
        Ok(())
    }
}

/// True if all conditions are true.
#[inline]
pub(crate) fn hold(conditions: &[Expr], at: &At) -> Result<bool, SqlError> {
    for condition in conditions {
        if truth(condition, at)? != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gives the rows of a table that satisfy the join condition (and the filters too, where the source
/// stands alone) to `visit`, and notes what was read.
pub(crate) fn found(
    source: &Source,
    id: TableId,
    asked: &Arc<Asked>,
    before: &At,
    visit: &mut dyn FnMut(&Key, u64, &Record) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let context = before.context;
    let table = &context.tables[id.0 as usize];
    let Some(prefix) = key_prefix(source, table, before)? else { return Ok(()) };
    let alone = before.row.is_empty();
    let accepted = |record: &Record| -> Result<bool, SqlError> {
        if alone {
            let at = At { context, row: record, outer: before.outer };
            return Ok(hold(&source.on, &at)? && (source.left || hold(&source.filters, &at)?));
        }
        if source.on.is_empty() {
            return Ok(true);
        }
        let joined: Vec<Value> = before.row.iter().chain(record.iter()).cloned().collect();
        hold(&source.on, &At { context, row: &joined, outer: before.outer })
    };
    if source.access.whole && prefix.len() == source.access.prefix.len() {
        let Some((key, version)) = table.get(&prefix, context.view) else {
            context.note_row(id, &Key::from(prefix), None, false);
            return Ok(());
        };
        context.note_row(id, key, Some(version.stamp), version.row.is_some());
        let decided = source.access.decides && prefix.iter().all(|value| matches!(value, Value::Int(_)));
        return match &version.row {
            Some(record) if decided || accepted(record)? => visit(key, version.stamp, record),
            _ => Ok(()),
        };
    }
    context.note_predicate(id, asked);
    let ways = Ways::of(source, table, &prefix, before);
    let mut visited = 0;
    for (key, stamp, record) in ways.rows(table, &prefix, context.view) {
        context.stop.check()?;
        visited += 1;
        if accepted(record)? {
            context.note_row(id, key, Some(stamp), true);
            visit(key, stamp, record)?;
        }
    }
    if let (Some(wanted), Some(column)) = (&context.wanted, ways.missing)
        && visited > UNINDEXED_ROWS
    {
        wanted.borrow_mut().push((id, column));
    }
    Ok(())
}

/// A scan of more rows than this asks for an index.
const UNINDEXED_ROWS: usize = 32;

/// How the rows of a table are found where the whole key is not given.
#[derive(Default)]
struct Ways {
    /// An indexed column and its value.
    equal: Option<(usize, Value)>,
    /// An indexed column and the integers that it is between.
    between: Option<(usize, i64, i64)>,
    /// The integers between which the key goes on after its prefix.
    next: Option<(i64, i64)>,
    /// A column whose index would help.
    missing: Option<usize>,
}

impl Ways {
    fn of(source: &Source, table: &Table, prefix: &[Value], before: &At) -> Ways {
        let mut ways = Ways::default();
        let next = table.schema.key.get(prefix.len()).copied();
        let mut bounds: Vec<(usize, i64, i64)> = Vec::new();
        for lookup in &source.access.lookups {
            let column = &table.schema.columns[lookup.column];
            // What fails here fails again when the condition is evaluated, if it ever is.
            let Ok(value) = eval(&lookup.value, before) else { continue };
            let Some(value) = key_form(&value, column.data_type, before.context.dialect) else { continue };
            if lookup.cmp == Cmp::Eq {
                match table.index_size(lookup.column, &value) {
                    Some(size) if prefix.is_empty() || size <= UNINDEXED_ROWS => {
                        ways.equal = Some((lookup.column, value));
                    }
                    Some(_) => {}
                    None => ways.missing = Some(lookup.column),
                }
            } else if let (Value::Int(number), Type::Int(_)) = (&value, column.data_type) {
                narrow(&mut bounds, lookup.column, lookup.cmp, *number);
            }
        }
        for (column, low, high) in bounds {
            if Some(column) == next {
                ways.next = Some((low, high));
            } else if table.has_index(column) && prefix.is_empty() {
                ways.between = Some((column, low, high));
            } else if ways.missing.is_none() && prefix.is_empty() {
                ways.missing = Some(column);
            }
        }
        ways
    }

    /// The rows to look at: a superset of those that satisfy the conditions.
    fn rows<'a>(&self, table: &'a Table, prefix: &'a [Value], view: StatementView) -> Found<'a> {
        let equal = self.equal.as_ref().and_then(|(column, value)| table.indexed(*column, value, view));
        if let Some(found) = equal {
            return found;
        }
        match (self.next, self.between) {
            (Some(range), _) => Box::new(table.scan_range(prefix, range, view)),
            (None, Some((column, low, high))) => table
                .indexed_range(column, low, high, view)
                .unwrap_or_else(|| Box::new(table.scan(prefix, view))),
            (None, None) => Box::new(table.scan(prefix, view)),
        }
    }
}

/// Narrows the integers that a column is between. A strict bound is taken as it is: the condition
/// is checked anyway.
fn narrow(bounds: &mut Vec<(usize, i64, i64)>, column: usize, cmp: Cmp, number: i64) {
    let place = bounds.iter().position(|(known, _, _)| *known == column).unwrap_or_else(|| {
        bounds.push((column, i64::MIN, i64::MAX));
        bounds.len() - 1
    });
    let (_, low, high) = &mut bounds[place];
    match cmp {
        Cmp::Lt | Cmp::Le => *high = number.min(*high),
        Cmp::Gt | Cmp::Ge => *low = number.max(*low),
        Cmp::Eq | Cmp::Ne => {}
    }
}

/// The values of the key's leading columns, or `None` if one is NULL, which no row equals.
fn key_prefix(source: &Source, table: &Table, before: &At) -> Result<Option<Vec<Value>>, SqlError> {
    let mut prefix = Vec::with_capacity(source.access.prefix.len());
    for (expr, &column) in source.access.prefix.iter().zip(&table.schema.key) {
        let value = eval(expr, before)?;
        if value.is_null() {
            return Ok(None);
        }
        match key_form(&value, table.schema.columns[column].data_type, before.context.dialect) {
            Some(value) => prefix.push(value),
            None => break,
        }
    }
    Ok(Some(prefix))
}

/// The value as keys of a column of this type hold it, or `None` if only comparing can tell.
pub(crate) fn key_form(value: &Value, column: Type, dialect: Dialect) -> Option<Value> {
    match (value, column) {
        (Value::Int(_), Type::Int(_)) => Some(value.clone()),
        (Value::Text(text), Type::Text(_)) => dialect.knows_equals_of(text).then(|| value.group_key(dialect)),
        (Value::Int(number), Type::Decimal(_) | Type::Float) if number.unsigned_abs() < 1 << 53 => {
            Some(value.clone())
        }
        (Value::Decimal(_), Type::Int(_) | Type::Decimal(_)) => match value.group_key(dialect) {
            key @ Value::Int(_) => Some(key),
            key if matches!(column, Type::Decimal(_)) => Some(key),
            _ => None,
        },
        (Value::Bool(_), Type::Bool) | (Value::Date(_), Type::Date) => Some(value.clone()),
        (Value::Timestamp(_), Type::Timestamp) | (Value::Bytes(_), Type::Bytes) => Some(value.clone()),
        _ => None,
    }
}
