//! The first state: what tables held before the first client came.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use margay_history::{Access, HistoryBuilder, Object, ObjectId, Table, Value, ValueId};
use postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::catalog::{Catalog, KnownTable, quoted, rows, shown};
use crate::values::value;

/// Tables with more rows than this are not read in advance, nor more than this of all tables.
pub(crate) const MAX_ROWS: u64 = 100_000;
pub(crate) const MAX_ROWS_OF_ALL: u64 = 1_000_000;

/// A snapshot that is older than this is not asked any more: it holds vacuum back.
const MAX_AGE: Duration = Duration::from_secs(600);

/// How much is known of the first state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Initial {
    /// All rows of tables that have up to 100,000; larger ones as `Lazy`.
    #[default]
    Full,
    /// Each row when it is first met.
    Lazy,
    /// Nothing.
    Unknown,
}

/// Declares the tables, and reads their rows if that is wanted. Returns whether rows are left to be
/// looked up.
pub(crate) fn declare(
    client: &mut Client,
    catalog: &mut Catalog,
    wanted: Initial,
    builder: &mut HistoryBuilder,
) -> Result<bool, String> {
    let (mut left, mut looks_up) = (MAX_ROWS_OF_ALL, false);
    for known in &mut catalog.tables {
        let size = count(client, known, MAX_ROWS + 1)?;
        let keyless = known.table.key.is_empty();
        let full = wanted == Initial::Full && !known.untold && size <= MAX_ROWS.min(left) && !keyless;
        let empty = wanted != Initial::Unknown && !known.untold && size == 0;
        let table = Table { initial_unknown: !full && !empty, ..known.table.clone() };
        builder.declare_table(table).map_err(|error| error.to_string())?;
        if full {
            left -= size;
            read(client, known, builder)?;
        } else if !empty {
            looks_up |= wanted != Initial::Unknown;
            // It was counted just now, which keeps a lock on it.
            known.file = rows(client, &file(&known.path))?.into_iter().flatten().next();
        }
    }
    Ok(looks_up)
}

/// A query for the file, or the files of the partitions, that a table is in.
fn file(path: &str) -> String {
    let table = format!("'{}'::regclass", path.replace('\'', "''"));
    format!(
        "SELECT coalesce((SELECT string_agg(pg_relation_filenode(relid)::text, ' ' ORDER BY relid)
                          FROM pg_partition_tree({table})), pg_relation_filenode({table})::text)"
    )
}

/// The number of rows of a table, as far as that matters.
fn count(client: &mut Client, known: &KnownTable, most: u64) -> Result<u64, String> {
    let counted =
        rows(client, &format!("SELECT count(*) FROM (SELECT FROM {} LIMIT {most}) AS t", known.path))?;
    let count = counted.first().and_then(|row| row.first()?.parse().ok());
    count.ok_or_else(|| format!("the rows of {} cannot be counted", known.path))
}

fn read(client: &mut Client, known: &KnownTable, builder: &mut HistoryBuilder) -> Result<(), String> {
    let columns: Vec<String> = known.table.columns.iter().map(|(name, _)| quoted(name)).collect();
    let query = format!("SELECT {} FROM {}", columns.join(", "), known.path);
    for answer in client.simple_query(&query).map_err(|error| shown(&error))? {
        let SimpleQueryMessage::Row(row) = answer else { continue };
        let cells = texts(known, &row, builder);
        initial(known, &cells, builder)?;
    }
    Ok(())
}

/// A row of texts as the values of its columns.
fn texts(known: &KnownTable, row: &SimpleQueryRow, builder: &mut HistoryBuilder) -> Vec<Option<ValueId>> {
    let cells = known.kinds.iter().enumerate();
    cells.map(|(at, &kind)| value(builder.values(), kind, 0, row.get(at).map(str::as_bytes))).collect()
}

/// Gives a row its initial value. A column that cannot be read makes the row unknown, unless
/// anything may have written it anyway.
pub(crate) fn initial(
    known: &KnownTable,
    cells: &[Option<ValueId>],
    builder: &mut HistoryBuilder,
) -> Result<Access, String> {
    let Table { name, key, columns, columns_by_anything: open, .. } = &known.table;
    let (mut keys, mut rest, mut whole) = (vec![ValueId::NULL; key.len()], Vec::new(), true);
    for ((column, _), &cell) in columns.iter().zip(cells) {
        match (key.iter().position(|part| part == column), cell) {
            (Some(place), Some(read)) => keys[place] = read,
            (Some(_), None) => return Err(format!("a key of {name}.{column} cannot be read")),
            (None, Some(read)) => rest.push((builder.values().intern_name(column), read)),
            (None, None) if open.contains(column) => {
                rest.push((builder.values().intern_name(column), ValueId::NULL));
            }
            // A value such as `infinity` has no form here.
            (None, None) => whole = false,
        }
    }
    let key = match keys[..] {
        [key] => key,
        ref several => builder.values().list(several),
    };
    let value = if whole { builder.values().row(&rest) } else { ValueId::UNKNOWN };
    let table = builder.table(name);
    let object = builder.object(Some(table), key);
    builder.initial(object, value).map_err(|error| error.to_string())?;
    Ok(Access { object, value })
}

/// Rows of the first state, looked up when they are first met, in a snapshot from before the first
/// client.
///
/// # Invariants
/// The transaction keeps no lock: each question is rolled back to a savepoint. Otherwise TRUNCATE
/// and ALTER TABLE of the application would wait for Margay.
///
/// TRUNCATE, and ALTER TABLE that writes a table anew, empty it for older snapshots too. So a row
/// counts only if its table is still in the file that it was in ([`KnownTable::file`]).
pub(crate) struct FirstState {
    /// In a transaction that has its snapshot, if rows are looked up; gone if a later stretch needs
    /// it.
    client: Option<Client>,
    looks_up: bool,
    met: HashSet<ObjectId>,
    began: Instant,
}

impl FirstState {
    pub fn new(client: Client, looks_up: bool) -> Self {
        Self { client: Some(client), looks_up, met: HashSet::new(), began: Instant::now() }
    }

    /// Nothing is looked up.
    pub fn known() -> Self {
        Self { client: None, looks_up: false, met: HashSet::new(), began: Instant::now() }
    }

    /// Whether there are rows to be looked up.
    pub fn looks_up(&self) -> bool {
        self.looks_up
    }

    pub fn give_back(&mut self) -> Option<Client> {
        self.client.take()
    }

    /// Finds out what a row was, and tells the builder. Nothing if that is known already, or cannot
    /// be found out.
    pub fn look_up(
        &mut self,
        object: ObjectId,
        catalog: &Catalog,
        builder: &mut HistoryBuilder,
    ) -> Option<Access> {
        if !self.met.insert(object) || self.began.elapsed() > MAX_AGE {
            return None;
        }
        let Object { table, key } = builder.object_of(object);
        let table = builder.tables().get(table?.index()).filter(|table| table.initial_unknown)?;
        let name = table.name.clone();
        let known = catalog.tables.iter().find(|known| known.table.name == name && !known.untold)?;
        let values = builder.values();
        let keys: Vec<ValueId> = match values.get(key) {
            Value::List(items) => items.to_vec(),
            _ => vec![key],
        };
        let literals = keys.iter().map(|&key| literal(values.get(key))).collect::<Option<Vec<_>>>()?;
        if literals.len() != known.table.key.len() {
            return None;
        }
        let parts =
            known.table.key.iter().zip(literals).map(|(name, value)| format!("{} = {value}", quoted(name)));
        let columns: Vec<String> = known.table.columns.iter().map(|(name, _)| quoted(name)).collect();
        let condition = parts.collect::<Vec<_>>().join(" AND ");
        let query = format!("SELECT {} FROM {} WHERE {condition}", columns.join(", "), known.path);
        let file = file(&known.path);
        let client = self.client.as_mut()?;
        let answers = client.simple_query(&format!("SAVEPOINT margay; {query}; {file}; ROLLBACK TO margay"));
        let Ok(answers) = answers else {
            // Nobody waits for a lock of the application; a table that is altered meanwhile is not
            // known.
            let _ = client.simple_query("ROLLBACK TO margay");
            return None;
        };
        let mut found = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let last = found.next_back()?;
        if last.get(0) != known.file.as_deref() {
            return None;
        }
        match found.next() {
            Some(row) => {
                let cells = texts(known, row, builder);
                initial(known, &cells, builder).ok()
            }
            None => {
                let absent = Access { object, value: ValueId::NULL };
                builder.initial(object, absent.value).ok().map(|()| absent)
            }
        }
    }
}

fn literal(value: Value<'_>) -> Option<String> {
    match value {
        Value::Int(int) => Some(int.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Text(text) => Some(format!("'{}'", text.replace('\'', "''"))),
        _ => None,
    }
}
