//! The database before the first transaction: tables, procedures, rows.
//!
//! Tables and procedures come from the header, and from CREATE statements of the history itself, which are executed before everything else: a
//! statement that used a table before it was created would have failed. Tables that are dropped or created twice are outside.

use margay_history::{History, OpKind, Outcome, Table, TableId, Value as Seen};
use margay_sql::{Database, Dialect, SqlError, Statement, Value};

use crate::cell::to_sql;
use crate::predicates::Outside;

/// The rules of the database that the history was recorded from.
#[must_use]
pub fn dialect(history: &History) -> Dialect {
    let dbms = history.header().dbms.as_deref().unwrap_or("").to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| dbms.starts_with(name));
    match () {
        () if is(&["mysql", "mariadb"]) => Dialect::MySql,
        () if is(&["sqlite"]) => Dialect::Sqlite,
        () if is(&["postgres"]) => Dialect::Postgres,
        () => Dialect::Generic,
    }
}

/// The database before the first transaction.
pub(super) fn initial(history: &History) -> Result<Database, Outside> {
    let mut database = Database::new(dialect(history));
    for table in history.tables() {
        if table.columns.is_empty() {
            continue;
        }
        let text = create(table, database.dialect());
        database.run(&text, &[]).map_err(|error| Outside(format!("the table {}: {error}", table.name)))?;
    }
    hoist(history, &mut database)?;
    load(history, &mut database)?;
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
    match dialect {
        Dialect::MySql => format!("`{}`", name.replace('`', "``")),
        _ => format!("\"{}\"", name.replace('"', "\"\"")),
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

/// Stores the initial rows.
fn load(history: &History, database: &mut Database) -> Result<(), Outside> {
    let mut inserts: Vec<Option<Insert>> = history.tables().iter().map(|_| None).collect();
    let mut transaction = database.begin();
    for &(object, value) in history.initial_values() {
        let object = history.object(object);
        let Some(table) = object.table else { continue };
        if inserts[table.index()].is_none() {
            inserts[table.index()] = Some(Insert::new(history, table, database)?);
        }
        let Some(insert) = &inserts[table.index()] else { continue };
        let Some(row) = insert.row(history, object.key, value)? else { continue };
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
    /// For each column its place in the key, or its name.
    columns: Vec<(Option<usize>, String)>,
    table: String,
}

impl Insert {
    fn new(history: &History, table: TableId, database: &Database) -> Result<Self, Outside> {
        let table = history.table(table);
        let id = database.table(&table.name);
        let id =
            id.ok_or_else(|| Outside(format!("the table {}, whose columns are not declared", table.name)))?;
        let named =
            |name: &String| (table.key.iter().position(|key| key.eq_ignore_ascii_case(name)), name.clone());
        let columns: Vec<_> = database.schema(id).columns.iter().map(|column| named(&column.name)).collect();
        let strict = matches!(database.dialect(), Dialect::Generic | Dialect::Postgres);
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
        key: margay_history::ValueId,
        value: margay_history::ValueId,
    ) -> Result<Option<Vec<Value>>, Outside> {
        let outside = || Outside(format!("an initial row of {} whose values are not known", self.table));
        let cells = match history.value(value) {
            Seen::Null => return Ok(None),
            Seen::Row(cells) => cells,
            _ => return Err(outside()),
        };
        let cell = |(place, name): &(Option<usize>, String)| {
            let given = cells.iter().find(|(known, _)| history.name(*known).eq_ignore_ascii_case(name));
            let id = match (given, place, history.value(key)) {
                (Some((_, id)), _, _) => *id,
                (None, Some(place), Seen::List(parts)) => *parts.get(*place).ok_or_else(outside)?,
                (None, Some(0), _) => key,
                (None, Some(_), _) => return Err(outside()),
                (None, None, _) => return Ok(Value::Null),
            };
            to_sql(history, id).ok_or_else(outside)
        };
        self.columns.iter().map(cell).collect::<Result<Vec<Value>, Outside>>().map(Some)
    }
}
