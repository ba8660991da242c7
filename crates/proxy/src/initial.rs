//! The first state: what tables held before the first client came.

use margay_history::{HistoryBuilder, Table, ValueId};
use postgres::{Client, SimpleQueryMessage};

use crate::catalog::{Catalog, Known, quoted, rows, shown};
use crate::values::value;

/// More rows than this are not read in advance.
const MAX_ROWS: u64 = 100_000;

/// How much is known of the first state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Initial {
    /// All rows, up to 100,000.
    #[default]
    Full,
    /// Nothing.
    Unknown,
}

/// Declares the tables, and reads their rows if that is wanted. Returns what was left out, and why.
pub(crate) fn declare(
    client: &mut Client,
    catalog: &Catalog,
    wanted: Initial,
    builder: &mut HistoryBuilder,
) -> Result<Vec<String>, String> {
    let mut left_out = Vec::new();
    for known in &catalog.tables {
        if let Some(why) = &known.anything {
            left_out.push(format!("table {} is left out: {why}", known.table.name));
            continue;
        }
        builder.declare_table(known.table.clone()).map_err(|error| error.to_string())?;
    }
    let declared: Vec<&Known> = catalog.tables.iter().filter(|known| known.anything.is_none()).collect();
    if wanted == Initial::Full && is_small(client, &declared)? {
        declared.iter().try_for_each(|known| read(client, known, builder))?;
    }
    Ok(left_out)
}

fn is_small(client: &mut Client, tables: &[&Known]) -> Result<bool, String> {
    let mut left = MAX_ROWS;
    for known in tables {
        let count = format!("SELECT count(*) FROM (SELECT FROM {} LIMIT {}) AS t", known.path, left + 1);
        let counted = rows(client, &count)?;
        let count: u64 = counted.first().and_then(|row| row.first()?.parse().ok()).unwrap_or(u64::MAX);
        let Some(rest) = left.checked_sub(count) else { return Ok(false) };
        left = rest;
    }
    Ok(true)
}

fn read(client: &mut Client, known: &Known, builder: &mut HistoryBuilder) -> Result<(), String> {
    if known.table.key.is_empty() {
        return Ok(());
    }
    let columns: Vec<String> = known.table.columns.iter().map(|(name, _)| quoted(name)).collect();
    let query = format!("SELECT {} FROM {}", columns.join(", "), known.path);
    for answer in client.simple_query(&query).map_err(|error| shown(&error))? {
        let SimpleQueryMessage::Row(row) = answer else { continue };
        let cells: Vec<_> = (0..row.len()).map(|at| row.get(at).map(str::as_bytes)).collect();
        initial(known, &cells, builder)?;
    }
    Ok(())
}

/// Gives a row its initial value.
fn initial(known: &Known, cells: &[Option<&[u8]>], builder: &mut HistoryBuilder) -> Result<(), String> {
    let Table { name, key, columns } = &known.table;
    let (mut keys, mut rest) = (vec![ValueId::NULL; key.len()], Vec::new());
    for ((column, kind), cell) in columns.iter().zip(&known.kinds).zip(cells) {
        let read = value(builder.values(), *kind, 0, *cell);
        let read = read.ok_or_else(|| format!("a value of {name}.{} cannot be read", column.0))?;
        match key.iter().position(|part| *part == column.0) {
            Some(place) => keys[place] = read,
            None => rest.push((builder.values().intern_name(&column.0), read)),
        }
    }
    let key = match keys[..] {
        [key] => key,
        ref several => builder.values().list(several),
    };
    let value = builder.values().row(&rest);
    let table = builder.table(name);
    let object = builder.object(Some(table), key);
    builder.initial(object, value).map_err(|error| error.to_string())
}
