//! The database before the first transaction: tables, procedures, rows.
//!
//! Tables and procedures come from the header, and from CREATE statements of the history itself,
//! which are executed before everything else: a statement that used a table before it was created
//! would have failed. Tables that are dropped or created twice are outside.
//!
//! An initial row whose value is not known is there, with values that an execution has to name
//! ([`Initial`]); so is a column of it that is not known.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpKind, Outcome, Table, TableId, Value as Seen, ValueId};
use margay_sql::{Column, Database, Dialect, SqlError, Statement, Type, Value};
use margay_verdict::cell::to_sql;
use margay_verdict::execution::Initial;
use margay_verdict::{Outside, dialect};

/// The database before the first transaction.
pub(super) fn initial(history: &History, given: &[Initial]) -> Result<Database, Outside> {
    let mut database = Database::new(dialect(history));
    for table in history.tables() {
        if table.columns.is_empty() {
            continue;
        }
        let text = create(table, database.dialect());
        database.run(&text, &[]).map_err(|error| Outside(format!("the table {}: {error}", table.name)))?;
    }
    hoist(history, &mut database)?;
    load(history, given, &mut database)?;
    Ok(database)
}

fn create(table: &Table, dialect: Dialect) -> String {
    let column = |(name, of): &(String, String)| format!("{} {of}", quoted(name, dialect));
    let mut parts: Vec<String> = table.columns.iter().map(column).collect();
    if !table.key.is_empty() {
        let key: Vec<String> = table.key.iter().map(|name| quoted(name, dialect)).collect();
        parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
    }
    format!("CREATE TABLE {} ({})", quoted(&table.name, dialect), parts.join(", "))
}

fn quoted(name: &str, dialect: Dialect) -> String {
    match dialect.is_mysql() {
        true => format!("`{}`", name.replace('`', "``")),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Whether a text changes the schema, and so was executed before everything else.
pub(super) fn is_definition(text: &str) -> bool {
    let text = text.trim_start();
    ["create", "drop"].iter().any(|word| {
        text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            && text[word.len()..].starts_with(|c: char| c.is_ascii_whitespace())
    })
}

fn hoist(history: &History, database: &mut Database) -> Result<(), Outside> {
    let mut definitions: Vec<(i64, &str)> = Vec::new();
    for txn in history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted) {
        for op in history.ops(txn).filter(|op| op.kind == OpKind::Sql) {
            let text = history.statement(op.id).map_or("", |statement| &*statement.text);
            if is_definition(text) {
                definitions.push((op.at.map_or(0, |at| at.after), text));
            }
        }
    }
    definitions.sort_by_key(|(at, _)| *at);
    let mut last = "";
    for (_, text) in definitions {
        let drops = text.trim_start()[..4].eq_ignore_ascii_case("drop");
        let before = database.tables().count();
        match database.run(text, &[]) {
            // The same definition twice, by two clients that prepare the same, is one.
            Err(SqlError::TableExists(_)) if text == last => {}
            Err(error) => return Err(Outside(format!("{text:?}: {error}"))),
            Ok(_) if drops && database.tables().count() < before => {
                return Err(Outside(format!("{text:?}, which drops a table that was there")));
            }
            Ok(_) => last = text,
        }
    }
    Ok(())
}

/// Whether an initial value is not known: a whole row, or columns of it.
fn is_unknown(history: &History, value: ValueId) -> bool {
    match history.value(value) {
        Seen::Unknown => true,
        Seen::Row(cells) => cells.iter().any(|(_, cell)| *cell == ValueId::UNKNOWN),
        _ => false,
    }
}

/// The rows whose initial values are not known, or not all.
#[must_use]
pub fn unknown_rows(history: &History) -> Vec<ObjectId> {
    let unknown = |(object, value): &(ObjectId, ValueId)| is_unknown(history, *value).then_some(*object);
    history.initial_values().iter().filter_map(unknown).collect()
}

/// The values that are not known initially, all as if they were [`blank`].
///
/// # Errors
/// When a table is not declared.
pub fn unknowns(history: &History) -> Result<Vec<Initial>, Outside> {
    let rows = unknown_rows(history);
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let database = initial(history, &[])?;
    let mut unknowns = Vec::new();
    for object in rows {
        let Some(table) = history.object(object).table.map(|table| history.table(table)) else { continue };
        let Some(id) = database.table(&table.name) else { continue };
        let known = |name: &str| match history.value(history.initial(object)) {
            Seen::Row(cells) => !cells.iter().any(|(known, cell)| {
                history.name(*known).eq_ignore_ascii_case(name) && *cell == ValueId::UNKNOWN
            }),
            _ => table.key.iter().any(|key| key.eq_ignore_ascii_case(name)),
        };
        let columns = database.schema(id).columns.iter().filter(|column| !known(&column.name));
        unknowns.extend(columns.map(|column| Initial {
            object,
            column: column.name.clone(),
            value: blank(column),
        }));
    }
    Ok(unknowns)
}

/// What stands for a value of a column as long as nobody names it.
fn blank(column: &Column) -> Value {
    match column.data_type {
        Type::Int(_) | Type::Decimal(_) | Type::Float => Value::Int(0),
        Type::Text(_) if column.not_null => Value::text(""),
        _ => Value::Null,
    }
}

/// Stores the initial rows.
fn load(history: &History, given: &[Initial], database: &mut Database) -> Result<(), Outside> {
    let given: HashMap<(ObjectId, &str), &Value> =
        given.iter().map(|cell| ((cell.object, cell.column.as_str()), &cell.value)).collect();
    let mut inserts: Vec<Option<Insert>> = history.tables().iter().map(|_| None).collect();
    let mut transaction = database.begin();
    for &(id, value) in history.initial_values() {
        let object = history.object(id);
        let Some(table) = object.table else { continue };
        if inserts[table.index()].is_none() {
            inserts[table.index()] = Some(Insert::new(history, table, database)?);
        }
        let Some(insert) = &inserts[table.index()] else { continue };
        let named = |column: &str| given.get(&(id, column)).copied().cloned();
        let Some(row) = insert.row(history, object.key, value, &named)? else { continue };
        database
            .execute(&mut transaction, &insert.statement, &row)
            .map_err(|error| Outside(format!("an initial row of {}: {error}", history.table(table).name)))?;
    }
    database.commit(transaction);
    Ok(())
}

/// How the rows of one table are stored.
struct Insert {
    statement: Statement,
    /// For each column its place in the key, its name, and what it is where nobody names its value.
    columns: Vec<(Option<usize>, String, Value)>,
    table: String,
}

impl Insert {
    fn new(history: &History, table: TableId, database: &Database) -> Result<Self, Outside> {
        let table = history.table(table);
        let id = database.table(&table.name);
        let id =
            id.ok_or_else(|| Outside(format!("the table {}, whose columns are not declared", table.name)))?;
        let place = |name: &str| table.key.iter().position(|key| key.eq_ignore_ascii_case(name));
        let named = |column: &Column| (place(&column.name), column.name.clone(), blank(column));
        let columns: Vec<_> = database.schema(id).columns.iter().map(named).collect();
        let strict = database.dialect().is_strict();
        let marks: Vec<String> =
            (1..=columns.len()).map(|n| if strict { format!("${n}") } else { "?".into() }).collect();
        let text =
            format!("INSERT INTO {} VALUES ({})", quoted(&table.name, database.dialect()), marks.join(", "));
        let statement = database.prepare(&text).map_err(|error| Outside(format!("{text}: {error}")))?;
        Ok(Self { statement, columns, table: table.name.clone() })
    }

    /// The values of an initial row; `None` if it is absent.
    fn row(
        &self,
        history: &History,
        key: ValueId,
        value: ValueId,
        named: &dyn Fn(&str) -> Option<Value>,
    ) -> Result<Option<Vec<Value>>, Outside> {
        let outside = || Outside(format!("an initial row of {} whose values are not known", self.table));
        let cells = match history.value(value) {
            Seen::Null => return Ok(None),
            Seen::Row(cells) => cells,
            Seen::Unknown => &[],
            _ => return Err(outside()),
        };
        let all_unknown = value == ValueId::UNKNOWN;
        let cell = |(place, name, blank): &(Option<usize>, String, Value)| {
            let unknown = || Ok(named(name).unwrap_or_else(|| blank.clone()));
            let given = cells.iter().find(|(known, _)| history.name(*known).eq_ignore_ascii_case(name));
            let id = match (given, place, history.value(key)) {
                (Some((_, id)), _, _) if *id == ValueId::UNKNOWN => return unknown(),
                (Some((_, id)), _, _) => *id,
                (None, Some(place), Seen::List(parts)) => *parts.get(*place).ok_or_else(outside)?,
                (None, Some(0), _) => key,
                (None, Some(_), _) => return Err(outside()),
                (None, None, _) if all_unknown => return unknown(),
                (None, None, _) => return Ok(Value::Null),
            };
            to_sql(history, id).ok_or_else(outside)
        };
        self.columns.iter().map(cell).collect::<Result<Vec<Value>, Outside>>().map(Some)
    }
}
