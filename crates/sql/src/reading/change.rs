//! Evaluation of INSERT, UPDATE and DELETE.
//!
//! A statement is computed as a whole before anything is stored, so that one that fails changes
//! nothing. Databases check keys row by row, in an order of their own: an UPDATE whose outcome
//! would depend on that order is refused.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::coerce::store;
use crate::reading::eval::{eval, truth};
use crate::reading::expr::Expr;
use crate::reading::outcome::{Outcome, Write};
use crate::reading::plan::{
    Conflict, Delete, Insert, InsertRows, Source, SourceRows, TableId, Update, is_flexible,
};
use crate::reading::run::{At, Context, found, outputs, run};
use crate::reading::schema::Schema;
use crate::reading::store::{Key, Record, Table};
use crate::value::Value;

/// The writes of one statement to one table.
struct Changes<'a> {
    context: &'a Context<'a>,
    id: TableId,
    table: &'a Table,
    writes: Vec<Write>,
    /// Where each key's write is, once there are many.
    index: HashMap<Key, usize>,
    last_number: i64,
}

/// Up to so many writes are found by looking at all of them.
const UNINDEXED_WRITES: usize = 8;

/// What a statement did, and the table's last number after it.
pub(crate) struct Changed {
    pub outcome: Outcome,
    pub last_number: i64,
}

impl<'a> Changes<'a> {
    fn new(context: &'a Context<'a>, id: TableId) -> Self {
        let table = &context.tables[id.0 as usize];
        let last_number = table.last_number;
        Changes { context, id, table, writes: Vec::new(), index: HashMap::new(), last_number }
    }

    /// Where the write of a key is.
    fn find(&self, key: &[Value]) -> Option<usize> {
        if self.writes.len() <= UNINDEXED_WRITES {
            return self.writes.iter().position(|write| *write.key == *key);
        }
        self.index.get(key).copied()
    }

    /// The row of a key as it is now, inside the statement.
    fn current(&self, key: &[Value]) -> Option<&Record> {
        match self.find(key) {
            Some(at) => self.writes[at].after.as_ref(),
            None => self.table.get(key, self.context.view).and_then(|(_, version)| version.row.as_ref()),
        }
    }

    fn write(&mut self, key: Key, after: Option<Record>) {
        match self.find(&key) {
            Some(at) => self.writes[at].after = after,
            None => {
                let before = self.current(&key).cloned();
                self.write_first(key, before, after);
            }
        }
    }

    /// The first write of a key in the statement, where what was there before is known.
    fn write_first(&mut self, key: Key, before: Option<Record>, after: Option<Record>) {
        self.writes.push(Write { table: self.id, key, before, after, replaced: false });
        let indexed = if self.writes.len() == UNINDEXED_WRITES + 1 { 0 } else { self.writes.len() - 1 };
        if self.writes.len() > UNINDEXED_WRITES {
            let fresh = self.writes.iter().enumerate().skip(indexed);
            self.index.extend(fresh.map(|(at, write)| (write.key.clone(), at)));
        }
    }

    /// Writes a row whose key no row has.
    fn write_new(&mut self, key: Key, after: Record) {
        match self.find(&key) {
            Some(at) => self.writes[at].after = Some(after),
            None => self.write_first(key, None, Some(after)),
        }
    }

    /// The rows that a new row of this key collides with: the constraint (`None` is the primary
    /// key) and the key.
    fn collisions(&self, key: Option<&Key>, row: &[Value]) -> Vec<(Option<usize>, Key)> {
        let mut collisions = Vec::new();
        if let Some(key) = key
            && self.current(key).is_some()
        {
            collisions.push((None, key.clone()));
        }
        for constraint in 0..self.table.schema.uniques.len() {
            let Some(values) = self.table.unique_values(constraint, row) else { continue };
            let stored = self.table.unique_rows(constraint, &values, self.context.view);
            let stored = stored.map(|(key, _)| key).filter(|key| self.find(key).is_none());
            let fresh = self.writes.iter().filter(|write| {
                let after = write.after.as_ref().and_then(|row| self.table.unique_values(constraint, row));
                after.as_ref() == Some(&values)
            });
            let keys = stored.chain(fresh.map(|write| &write.key));
            collisions.extend(keys.map(|key| (Some(constraint), key.clone())));
        }
        collisions
    }

    /// Notes the rows that a new row collides with as read.
    fn note(&self, collisions: &[(Option<usize>, Key)]) {
        for (_, key) in collisions {
            if let Some((key, version)) = self.table.get(key, self.context.view) {
                self.context.note_row(self.id, key, Some(version.stamp), version.row.is_some());
            }
        }
    }

    /// A row's primary key, if the table has one.
    fn primary(&self, row: &[Value]) -> Option<Key> {
        (!self.table.schema.key.is_empty()).then(|| self.table.key_of(row))
    }

    /// The key of a new row in a table without a primary key.
    fn numbered_key(&mut self) -> Key {
        self.last_number += 1;
        Arc::from([Value::Int(self.last_number)])
    }

    fn finish(self, rows: Vec<Vec<Value>>, matched: u64) -> Changed {
        let mut writes = self.writes;
        let changed = writes.iter().filter(|write| write.before != write.after).count() as u64;
        // MySQL does not write a row that stays as it is, and goes on reading it from its snapshot.
        let skips = self.context.dialect.is_mysql();
        writes.retain(|write| match skips {
            true => write.before != write.after,
            false => write.before.is_some() || write.after.is_some(),
        });
        let ranks = vec![0; rows.len()];
        let outcome = Outcome {
            rows,
            ranks,
            matched,
            changed,
            reads: self.context.reads.take(),
            writes,
            ..Outcome::default()
        };
        Changed { outcome, last_number: self.last_number }
    }
}

/// NOT NULL and CHECK.
fn check_row(table: &Table, row: &[Value], context: &Context) -> Result<(), SqlError> {
    for (column, value) in table.schema.columns.iter().zip(row) {
        if column.not_null && value.is_null() {
            return Err(SqlError::Constraint(format!("{}.{} is NOT NULL", table.schema.name, column.name)));
        }
    }
    let at = At { context, row, outer: None };
    for (text, check) in &table.schema.checks {
        if truth(check, &at)? == Some(false) {
            return Err(SqlError::Constraint(format!("CHECK ({text}) of {}", table.schema.name)));
        }
    }
    check_key_text(table, row, context.dialect)
}

/// Keys are compared by the collation: a text that only some collations hold equal to another one
/// cannot be a key here.
fn check_key_text(table: &Table, row: &[Value], dialect: Dialect) -> Result<(), SqlError> {
    let keys = table.schema.key.iter().chain(table.schema.uniques.iter().flatten());
    let odd = |column: &usize| matches!(&row[*column], Value::Text(text) if !dialect.knows_equals_of(text));
    if keys.into_iter().any(odd) {
        return Err(SqlError::unsupported("a key with text beyond ASCII, or with trailing spaces"));
    }
    Ok(())
}

/// Evaluates an INSERT.
pub(crate) fn insert(insert: &Insert, context: &Context) -> Result<Changed, SqlError> {
    let mut changes = Changes::new(context, insert.table);
    let at = At { context, row: &[], outer: None };
    let (mut shown, mut matched) = (Vec::new(), 0);
    let mut put = |row: Vec<Value>, changes: &mut Changes| -> Result<(), SqlError> {
        let Some(record) = put(insert, row, changes)? else { return Ok(()) };
        matched += 1;
        if let Some(returning) = &insert.returning {
            shown.push(outputs(returning, &At { context, row: &record, outer: None })?);
        }
        Ok(())
    };
    match &insert.rows {
        InsertRows::Values(rows) => {
            for cells in rows {
                let give = |given: usize| match &cells[given] {
                    Some(expr) => Ok(Some((eval(expr, &at)?.into_owned(), is_flexible(expr)))),
                    None => Ok(None),
                };
                let row = complete(insert, &give, &mut changes, &at)?;
                put(row, &mut changes)?;
            }
        }
        InsertRows::Select(select) => {
            for values in run(select, context, None)?.rows {
                let give = |given: usize| Ok(Some((values[given].clone(), false)));
                let row = complete(insert, &give, &mut changes, &at)?;
                put(row, &mut changes)?;
            }
        }
    }
    Ok(changes.finish(shown, matched))
}

/// Writes one row, or what ON CONFLICT makes of it; gives the row that was written, if any.
fn put(insert: &Insert, row: Vec<Value>, changes: &mut Changes) -> Result<Option<Record>, SqlError> {
    let primary = changes.primary(&row);
    let collisions = changes.collisions(primary.as_ref(), &row);
    match (collisions.is_empty(), &insert.conflict) {
        (true, _) => {
            check_row(changes.table, &row, changes.context)?;
            let key = primary.unwrap_or_else(|| changes.numbered_key());
            let record: Record = Arc::from(row);
            changes.write_new(key, record.clone());
            Ok(Some(record))
        }
        (false, None) => Err(duplicate(changes.table)),
        (false, Some(conflict)) => {
            changes.note(&collisions);
            resolve(conflict, &collisions, row, changes)
        }
    }
}

fn duplicate(table: &Table) -> SqlError {
    SqlError::Constraint(format!("a key of {} is there already", table.schema.name))
}

/// A given value, and whether it came from a literal or parameter; `None` is DEFAULT.
type Given<'a> = &'a dyn Fn(usize) -> Result<Option<(Value, bool)>, SqlError>;

/// The whole row: given values, defaults and numbers, converted to the columns' types.
fn complete(insert: &Insert, give: Given, changes: &mut Changes, at: &At) -> Result<Vec<Value>, SqlError> {
    let dialect = at.context.dialect;
    let table = changes.table;
    let mut row = Vec::with_capacity(table.schema.columns.len());
    for (column, given) in table.schema.columns.iter().zip(&insert.given) {
        let cell = match given {
            Some(given) => give(*given)?,
            None => None,
        };
        let numbered = column.auto
            && match &cell {
                None => true,
                Some((value, _)) => !dialect.is_strict() && value.is_null(),
            };
        if numbered && at.context.unnumbered {
            return Err(SqlError::unsupported("a number that the database gives to a row"));
        }
        let (value, flexible) = match (cell, &column.default) {
            _ if numbered => (Value::Int(next_number(changes, row.len())), false),
            (Some(cell), _) => cell,
            (None, Some(default)) => (eval(default, at)?.into_owned(), is_flexible(default)),
            (None, None) => (Value::Null, false),
        };
        if let (true, Value::Int(number)) = (column.auto && dialect.is_mysql(), &value) {
            changes.last_number = changes.last_number.max(*number);
        }
        row.push(store(value, column.data_type, flexible, dialect)?);
    }
    Ok(row)
}

/// SQLite numbers after the largest row there is, the others after the last number they gave.
fn next_number(changes: &mut Changes, column: usize) -> i64 {
    if changes.context.dialect != Dialect::Sqlite {
        changes.last_number += 1;
        return changes.last_number;
    }
    let stored = changes.table.scan(&[], changes.context.view).map(|(_, _, row)| row);
    let fresh = changes.writes.iter().filter_map(|write| write.after.as_ref());
    let numbers = stored.chain(fresh).filter_map(|row| match row.get(column) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    });
    numbers.max().unwrap_or(0).saturating_add(1).max(1)
}

/// ON CONFLICT: the row that is written instead, if any.
fn resolve(
    conflict: &Conflict,
    collisions: &[(Option<usize>, Key)],
    proposed: Vec<Value>,
    changes: &mut Changes,
) -> Result<Option<Record>, SqlError> {
    let context = changes.context;
    // The key that the clause names is looked at before all others.
    let meant =
        |(constraint, _): &&(Option<usize>, Key)| conflict.target.is_none_or(|target| target == *constraint);
    let Some((_, key)) = collisions.iter().find(meant) else { return Err(duplicate(changes.table)) };
    check_row(changes.table, &proposed, context)?;
    let Some((sets, condition)) = &conflict.update else { return Ok(None) };
    let key = key.clone();
    if collisions.iter().filter(meant).any(|(_, other)| *other != key) {
        return Err(SqlError::unsupported("a conflict with several rows"));
    }
    if changes.find(&key).is_some() && context.dialect.is_strict() {
        return Err(SqlError::Constraint("ON CONFLICT DO UPDATE meets one row twice".into()));
    }
    let Some(old) = changes.current(&key).cloned() else { return Ok(None) };
    let both: Vec<Value> = old.iter().chain(&proposed).cloned().collect();
    if let Some(condition) = condition
        && truth(condition, &At { context, row: &both, outer: None })? != Some(true)
    {
        return Ok(None);
    }
    let new = assigned(sets, both, old.len(), changes.table, context)?;
    check_row(changes.table, &new, context)?;
    let primary = changes.primary(&new);
    let moved = changes.collisions(primary.as_ref(), &new).iter().any(|(_, other)| *other != key);
    if moved || primary.is_some_and(|primary| primary != key) {
        return Err(SqlError::unsupported("ON CONFLICT DO UPDATE that changes a key"));
    }
    let record: Record = Arc::from(new);
    changes.write(key, Some(record.clone()));
    Ok(Some(record))
}

/// The row after assignments, which all see the old row.
fn assigned(
    sets: &[(usize, Expr)],
    mut row: Vec<Value>,
    width: usize,
    table: &Table,
    context: &Context,
) -> Result<Vec<Value>, SqlError> {
    let mut new: Vec<Value> = Vec::with_capacity(sets.len());
    for (column, expr) in sets {
        let value = eval(expr, &At { context, row: &row, outer: None })?.into_owned();
        let to = table.schema.columns[*column].data_type;
        new.push(store(value, to, is_flexible(expr), context.dialect)?);
    }
    for ((column, _), value) in sets.iter().zip(new) {
        row[*column] = value;
    }
    row.truncate(width);
    Ok(row)
}

/// The rows that an UPDATE or DELETE meets.
fn met(source: &Source, context: &Context) -> Result<Vec<(Key, Record)>, SqlError> {
    let mut met = Vec::new();
    let before = At { context, row: &[], outer: None };
    if let SourceRows::Table(id, asked) = &source.rows {
        found(source, *id, asked, &before, &mut |key, _, record| {
            met.push((key.clone(), record.clone()));
            Ok(())
        })?;
    }
    Ok(met)
}

/// Evaluates an UPDATE.
pub(crate) fn update(update: &Update, context: &Context) -> Result<Changed, SqlError> {
    let mut changes = Changes::new(context, update.table);
    let met = met(&update.source, context)?;
    let mut new = Vec::with_capacity(met.len());
    for (_, old) in &met {
        let row = assigned(&update.sets, old.to_vec(), old.len(), changes.table, context)?;
        check_row(changes.table, &row, context)?;
        new.push(row);
    }
    check_keys(&update.sets, &met, &new, &changes)?;
    let (mut shown, matched) = (Vec::new(), met.len() as u64);
    let keyed = update.sets.iter().any(|(column, _)| changes.table.schema.key.contains(column));
    let mut moved = Vec::new();
    for ((key, old), row) in met.into_iter().zip(new) {
        if let Some(returning) = &update.returning {
            shown.push(outputs(returning, &At { context, row: &row, outer: None })?);
        }
        let new_key = if keyed { changes.table.key_of(&row) } else { key.clone() };
        if new_key == key {
            changes.write_first(key, Some(old), Some(Arc::from(row)));
        } else {
            changes.write_first(key, Some(old), None);
            moved.push((new_key, row));
        }
    }
    let changed_keys = moved.len() as u64;
    for (key, row) in moved {
        changes.write(key, Some(Arc::from(row)));
    }
    let mut changed = changes.finish(shown, matched);
    // A row that moves is written twice but is one row.
    changed.outcome.changed -= changed_keys;
    Ok(changed)
}

/// Whether assignments set a column of a key or of a UNIQUE constraint.
pub(crate) fn key_is_set(sets: &[(usize, Expr)], schema: &Schema) -> bool {
    let keys = schema.key.iter().chain(schema.uniques.iter().flatten());
    keys.into_iter().any(|column| sets.iter().any(|(set, _)| set == column))
}

/// New keys must be free and distinct. If one is another row's old key, the order of the rows
/// decides.
fn check_keys(
    sets: &[(usize, Expr)],
    met: &[(Key, Record)],
    new: &[Vec<Value>],
    changes: &Changes,
) -> Result<(), SqlError> {
    let table = changes.table;
    let is_set = |columns: &[usize]| columns.iter().any(|column| sets.iter().any(|(set, _)| set == column));
    if is_set(&table.schema.key) {
        let old: Vec<Key> = met.iter().map(|(key, _)| key.clone()).collect();
        let new: Vec<Option<Key>> = new.iter().map(|row| Some(table.key_of(row))).collect();
        let taken = |key: &Key| changes.current(key).is_some();
        check_one_key(&old.into_iter().map(Some).collect::<Vec<_>>(), &new, taken, table)?;
    }
    for (constraint, columns) in table.schema.uniques.iter().enumerate() {
        if !is_set(columns) {
            continue;
        }
        let values = |row: &[Value]| table.unique_values(constraint, row);
        let old: Vec<Option<Vec<Value>>> = met.iter().map(|(_, row)| values(row)).collect();
        let new: Vec<Option<Vec<Value>>> = new.iter().map(|row| values(row)).collect();
        let taken =
            |key: &Vec<Value>| table.unique_rows(constraint, key, changes.context.view).next().is_some();
        check_one_key(&old, &new, taken, table)?;
    }
    Ok(())
}

fn check_one_key<K: Eq + std::hash::Hash>(
    old: &[Option<K>],
    new: &[Option<K>],
    taken: impl Fn(&K) -> bool,
    table: &Table,
) -> Result<(), SqlError> {
    let mut seen = HashSet::new();
    let leaving: HashMap<&K, usize> =
        old.iter().enumerate().filter_map(|(at, key)| key.as_ref().map(|key| (key, at))).collect();
    for (at, key) in new.iter().enumerate() {
        let Some(key) = key else { continue };
        if !seen.insert(key) {
            return Err(duplicate(table));
        }
        match leaving.get(key) {
            Some(&other) if other == at => {}
            Some(&other) if new[other].as_ref() == Some(key) => return Err(duplicate(table)),
            Some(_) => return Err(SqlError::unsupported("an UPDATE that passes keys from row to row")),
            None if taken(key) => return Err(duplicate(table)),
            None => {}
        }
    }
    Ok(())
}

/// Evaluates a DELETE.
pub(crate) fn delete(delete: &Delete, context: &Context) -> Result<Changed, SqlError> {
    let mut changes = Changes::new(context, delete.table);
    let met = met(&delete.source, context)?;
    let (mut shown, matched) = (Vec::new(), met.len() as u64);
    for (key, row) in met {
        if let Some(returning) = &delete.returning {
            shown.push(outputs(returning, &At { context, row: &row, outer: None })?);
        }
        changes.write_first(key, Some(row), None);
    }
    Ok(changes.finish(shown, matched))
}
