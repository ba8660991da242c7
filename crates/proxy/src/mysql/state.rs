//! The first state: what tables held before the first client came.
//!
//! # Algorithm
//! `START TRANSACTION WITH CONSISTENT SNAPSHOT`, then all rows of tables that have up to 100,000.
//! The transaction ends before any client goes on: an open one would keep the tables' definitions,
//! and hold up whoever alters them. So larger tables are not looked up later; what they held is
//! unknown.

use margay_history::{HistoryBuilder, Table, Unit, ValueId};
use margay_wire::mysql::kind;
use mysql::prelude::Queryable;
use mysql::{Conn, Value};

use crate::catalog::{Catalog, KnownTable};
use crate::initial::{FirstState, Initial, MAX_ROWS, MAX_ROWS_OF_ALL, initial};

use super::address::shown;
use super::values::value;

/// The tables with their rows.
pub(crate) fn first_state(
    mut conn: Conn,
    catalog: &mut Catalog,
    wanted: Initial,
) -> Result<(HistoryBuilder, FirstState), String> {
    let mut builder = HistoryBuilder::new();
    let header = builder.header();
    (header.unit, header.dbms) = (Unit::Nanoseconds, Some(catalog.dbms.clone()));
    for text in [
        "SET SESSION lock_wait_timeout = 2",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    ] {
        conn.query_drop(text).map_err(shown)?;
    }
    let mut left = MAX_ROWS_OF_ALL;
    for known in &catalog.tables {
        let usable = known.anything.is_none() && wanted != Initial::Unknown;
        let size = if usable { count(&mut conn, known)? } else { u64::MAX };
        let keyless = known.table.key.is_empty();
        let full = wanted == Initial::Full && !keyless && size <= MAX_ROWS.min(left);
        let table = Table { initial_unknown: !full && size > 0, ..known.table.clone() };
        builder.declare_table(table).map_err(|error| error.to_string())?;
        if full {
            left -= size;
            read(&mut conn, known, &mut builder)?;
        }
    }
    conn.query_drop("COMMIT").map_err(shown)?;
    Ok((builder, FirstState::known()))
}

/// The number of rows of a table, as far as that matters.
fn count(conn: &mut Conn, known: &KnownTable) -> Result<u64, String> {
    let query = format!("SELECT COUNT(*) FROM (SELECT 1 FROM {} LIMIT {}) AS t", known.path, MAX_ROWS + 1);
    let counted: Option<u64> = conn.query_first(query).map_err(shown)?;
    counted.ok_or_else(|| format!("the rows of {} cannot be counted", known.path))
}

fn read(conn: &mut Conn, known: &KnownTable, builder: &mut HistoryBuilder) -> Result<(), String> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let columns: Vec<String> = known.table.columns.iter().map(|(name, _)| quoted(name)).collect();
    let rows = conn.query_iter(format!("SELECT {} FROM {}", columns.join(", "), known.path));
    for row in rows.map_err(shown)? {
        let row = row.map_err(shown)?;
        let kinds: Vec<u32> = row.columns_ref().iter().map(type_number).collect();
        let cells = row.unwrap().into_iter().zip(kinds).map(|(cell, kind)| match cell {
            Value::Bytes(bytes) => value(builder.values(), kind, Some(&bytes)),
            _ => Some(ValueId::NULL),
        });
        let cells: Vec<_> = cells.collect();
        initial(known, &cells, builder)?;
    }
    Ok(())
}

/// The number of a column's type, as the relay tells it. Margay's own connection has texts in
/// UTF-8.
fn type_number(column: &mysql::Column) -> u32 {
    let binary = if column.character_set() == 63 { kind::BINARY } else { kind::UNICODE };
    kind::KNOWN | u32::from(column.column_type() as u8) | binary
}
