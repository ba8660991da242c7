//! A few transactions of a history as a script: their statements, in the order in which clients
//! called them.
//!
//! # Problem
//! A violation names a few transactions of thousands. What did they say, in which order, and does
//! it happen again when only they run?
//!
//! # Algorithm
//! The statements of these transactions are sorted in time: reads by when they were called, what
//! writes or ends by when it was answered, because it may have waited for a lock, and what was read
//! meanwhile mostly missed it. A commit whose writes another of the transactions saw earlier comes
//! before that. The tables begin with what the transactions that had ended before the first of them
//! left there: their committed writes, in the order of their ends.
//!
//! # Invariants
//! A script is a guess: who else ran beside them is left out. Only playing it
//! ([`crate::scripted::play`]) shows whether it was a good one.

use std::collections::{BTreeMap, BTreeSet};

use margay_client::sql::{Statement, TABLES, Upsert, texts};
use margay_client::{BuilderSink, Cell, ColumnType, Schema, Sink, Start, TableDef, text};
use margay_history::{
    Access, History, Interval, NameId, ObjectId, Op, OpKind, Outcome, TableId, TxnId, Value, ValueId,
};
use margay_workloads::scripted::{Act, Line, Script};

/// How many characters a text may have, where the history does not say.
const TEXT: u16 = 4000;

/// The script of these transactions for a database of this name. `rows` is the same history with
/// its statements as reads and writes of rows, where it has statements; it tells what was in the
/// tables.
///
/// # Errors
/// Why there is none: the history has no times, or says nothing that a database could be asked.
pub fn script(history: &History, rows: &History, txns: &[TxnId], dbms: &str) -> Result<Script, String> {
    let own = |history: &History, txn: TxnId| {
        let label = rows.txn_label(txn);
        history.find_txn(label).ok_or_else(|| format!("no transaction {label}"))
    };
    let originals = txns.iter().map(|&txn| own(history, txn)).collect::<Result<Vec<_>, _>>()?;
    let commits: Vec<i64> = txns.iter().map(|&txn| commit_time(rows, txn, txns)).collect();
    let lines = lines(history, &originals, &commits, &texts(upsert(dbms)))?;
    let first = originals.iter().filter_map(|&txn| history.start(txn)).min().unwrap_or(i64::MIN);
    let state = State::before(rows, first, txns);
    let mut schema = schema(history, rows, &state, txns)?;
    keep_named(&mut schema, &lines);
    Ok(Script { schema, lines })
}

/// The script of a whole history, whose tables begin as it says.
///
/// # Errors
/// As [`script`].
pub fn whole(history: &History, dbms: &str) -> Result<Script, String> {
    script(history, history, &history.txns().collect::<Vec<_>>(), dbms)
}

/// A script as a history of statements without answers, which [`whole`] reads again.
///
/// # Errors
/// Not for scripts of this module.
pub fn history(script: &Script, level: &str) -> Result<History, String> {
    let start = Start {
        dbms: "script".to_owned(),
        level: level.to_owned(),
        skew: 0,
        table: false,
        initial: Vec::new(),
        schema: script.schema.clone(),
    };
    let build = || {
        let mut sink = BuilderSink::default();
        sink.start(&start)?;
        for (at, line) in (0..).step_by(2).zip(&script.lines) {
            let (label, at) = (u64::from(line.session), Interval::new(at, at + 1));
            match &line.act {
                Act::Sql(text, params) => sink.unanswered(label, at, text, params)?,
                Act::Commit => sink.end(label, at, OpKind::Commit)?,
                Act::Rollback => sink.end(label, at, OpKind::Abort)?,
            }
        }
        sink.finish()
    };
    build().map_err(|error| error.to_string())
}

/// What to type, the number of the connection before each statement.
#[must_use]
pub fn shown(script: &Script) -> String {
    let mut out: Vec<String> =
        text::creation(&script.schema).into_iter().map(|statement| format!("{statement};")).collect();
    let mut begun = BTreeSet::new();
    for line in &script.lines {
        let begin = if begun.insert(line.session) { "BEGIN; " } else { "" };
        let said = match &line.act {
            Act::Sql(text, params) => {
                let literal = |number: usize| params.get(number - 1).map_or("NULL".to_owned(), text::literal);
                text::translate(text, literal).text
            }
            Act::Commit => "COMMIT".to_owned(),
            Act::Rollback => "ROLLBACK".to_owned(),
        };
        out.push(format!("/* {} */ {begin}{said};", line.session));
    }
    out.join("\n") + "\n"
}

fn upsert(dbms: &str) -> Upsert {
    match dbms {
        "mysql" | "mariadb" | "tidb" | "oceanbase" => Upsert::OnDuplicateKey,
        _ => Upsert::OnConflict,
    }
}

/// When a transaction committed, as far as what it and the others saw tells.
fn commit_time(rows: &History, txn: TxnId, txns: &[TxnId]) -> i64 {
    let writes = rows.ops(txn).filter(|op| op.kind.writes()).flat_map(|op| op.accesses);
    let written: BTreeSet<(ObjectId, ValueId)> = writes.map(|access| (access.object, access.value)).collect();
    let others = txns.iter().filter(|&&other| other != txn).flat_map(|&other| rows.ops(other));
    let saw = |op: &Op<'_>| {
        let reads = matches!(op.kind, OpKind::Read | OpKind::Scan);
        reads && op.accesses.iter().any(|access| written.contains(&(access.object, access.value)))
    };
    let seen = others.filter(saw).filter_map(|op| Some(op.at?.before)).min();
    rows.end(txn).into_iter().chain(seen).min().unwrap_or(i64::MAX)
}

fn lines(
    history: &History,
    txns: &[TxnId],
    commits: &[i64],
    texts: &[String; 8],
) -> Result<Vec<Line>, String> {
    let mut called = Vec::new();
    for (number, &txn) in txns.iter().enumerate() {
        let mut last = i64::MIN;
        for op in history.ops(txn) {
            let at = op.at.ok_or("a script needs the times of all operations (`at`)")?;
            let time = match op.kind {
                kind if kind.outcome().is_some() => commits[number].max(at.before),
                _ if reads(history, &op) => at.before,
                _ => at.after,
            };
            // A transaction's own operations keep their order; of what is at one time, ends come
            // first: so they were seen.
            last = time.max(last);
            let key = (last, op.kind.outcome().is_none() && last == time && reads(history, &op), op.id);
            called.extend(acts(history, &op, texts)?.into_iter().map(|act| (key, number, act)));
        }
    }
    called.sort_by_key(|call| call.0);
    // The first to speak is the first.
    let mut sessions: Vec<usize> = Vec::new();
    let lines = called.into_iter().map(|(_, number, act)| {
        let place = sessions.iter().position(|&known| known == number).unwrap_or_else(|| {
            sessions.push(number);
            sessions.len() - 1
        });
        Line { session: place as u32 + 1, act }
    });
    Ok(lines.collect())
}

fn reads(history: &History, op: &Op<'_>) -> bool {
    let selects =
        |text: &str| text.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select"));
    let statement = history.statement(op.id).is_some_and(|statement| selects(&statement.text));
    statement || matches!(op.kind, OpKind::Read | OpKind::Scan)
}

/// What an operation says to the database.
fn acts(history: &History, op: &Op<'_>, texts: &[String; 8]) -> Result<Vec<Act>, String> {
    let one = |act| Ok(vec![act]);
    match op.kind {
        OpKind::Begin => Ok(Vec::new()),
        OpKind::Commit | OpKind::Unknown => one(Act::Commit),
        OpKind::Abort => one(Act::Rollback),
        OpKind::Sql => {
            let statement = history.statement(op.id).ok_or("a statement without a text")?;
            let params = statement.params.iter().map(|&param| cell(history, param)).collect();
            one(Act::Sql(statement.text.to_string(), params))
        }
        OpKind::Scan => {
            let scan = history.scan(op.id).ok_or("a scan without a condition")?;
            let condition = &history.predicate(scan.predicate).text;
            one(Act::Sql(
                format!("SELECT k, v, w FROM {} WHERE {condition} ORDER BY k", TABLES[2]),
                Vec::new(),
            ))
        }
        OpKind::Update => {
            let update = history.update(op.id).ok_or("an update without a condition")?;
            let condition = &history.predicate(update.predicate).text;
            let text = match &update.set {
                Some(set) => format!("UPDATE {} SET {set} WHERE {condition}", TABLES[2]),
                None => format!("DELETE FROM {} WHERE {condition}", TABLES[2]),
            };
            one(Act::Sql(text, Vec::new()))
        }
        OpKind::Read | OpKind::Write | OpKind::Append => {
            op.accesses.iter().map(|access| statement(history, op.kind, access, texts)).collect()
        }
    }
}

/// The statement of our workloads that reads or writes an object.
fn statement(history: &History, kind: OpKind, access: &Access, texts: &[String; 8]) -> Result<Act, String> {
    let (table, key) = place(history, access.object)?;
    let value = history.value(access.value);
    let (which, params) = match (kind, table, value) {
        (OpKind::Read, 0, _) => (Statement::ReadRegister, vec![key]),
        (OpKind::Read, 1, _) => (Statement::ReadList, vec![key]),
        (OpKind::Read, _, _) => (Statement::ReadRow, vec![key]),
        (OpKind::Write, 0, _) => (Statement::WriteRegister, vec![cell(history, access.value), key]),
        (OpKind::Append, 1, Value::Int(item)) => {
            (Statement::Append, vec![key, Cell::Text(format!(",{item}"))])
        }
        (OpKind::Write, 2, Value::Null) => (Statement::DeleteRow, vec![key]),
        (OpKind::Write, 2, Value::Row(columns)) => {
            let cells = columns.iter().map(|&(_, value)| cell(history, value));
            (Statement::WriteRow, [key].into_iter().chain(cells).collect())
        }
        _ => return Err(format!("no statement writes {} like that", history.show_object(access.object))),
    };
    Ok(Act::Sql(texts[which as usize].clone(), params))
}

/// In which of [`TABLES`] an object of our workloads stands, under which key.
fn place(history: &History, object: ObjectId) -> Result<(usize, Cell), String> {
    let known = history.object(object);
    let number = |text: &str| text.strip_prefix('l')?.parse().ok();
    match (known.table, history.value(known.key)) {
        (None, Value::Int(key)) => Ok((0, Cell::Int(key))),
        (None, Value::Text(text)) if number(text).is_some() => Ok((1, Cell::Int(number(text).unwrap_or(0)))),
        (Some(_), Value::Int(key)) => Ok((2, Cell::Int(key))),
        _ => Err(format!("{} is in no table of ours", history.show_object(object))),
    }
}

/// What an object was.
#[derive(Clone)]
enum Content {
    Value(ValueId),
    List(Vec<ValueId>),
    Row(BTreeMap<NameId, ValueId>),
}

/// What was there before some transactions.
struct State(BTreeMap<ObjectId, Content>);

impl State {
    /// What those left that had ended before this time.
    fn before(rows: &History, time: i64, without: &[TxnId]) -> Self {
        let mut state = State(BTreeMap::new());
        for &(object, value) in rows.initial_values() {
            state.set(rows, OpKind::Write, &Access { object, value });
        }
        let ended = |txn: &TxnId| rows.end(*txn).is_some_and(|end| end < time);
        let committed = |txn: &TxnId| rows.outcome(*txn) == Outcome::Committed && !without.contains(txn);
        let mut earlier: Vec<TxnId> = rows.txns().filter(committed).filter(ended).collect();
        earlier.sort_by_key(|&txn| rows.end(txn));
        for op in earlier.into_iter().flat_map(|txn| rows.ops(txn)).filter(|op| op.kind.writes()) {
            op.accesses.iter().for_each(|access| state.set(rows, op.kind, access));
        }
        state
    }

    fn set(&mut self, rows: &History, kind: OpKind, access: &Access) {
        let now = match (kind, rows.value(access.value), self.0.remove(&access.object)) {
            (OpKind::Append, _, Some(Content::List(mut items))) => {
                items.push(access.value);
                Content::List(items)
            }
            (OpKind::Append, _, _) => Content::List(vec![access.value]),
            (_, Value::Null, _) => return,
            (_, Value::List(items), _) => Content::List(items.to_vec()),
            (_, Value::Row(columns), before) => {
                let mut row = if let Some(Content::Row(row)) = before { row } else { BTreeMap::new() };
                row.extend(columns.iter().copied());
                Content::Row(row)
            }
            _ => Content::Value(access.value),
        };
        self.0.insert(access.object, now);
    }
}

/// The tables that these transactions speak of, with the rows that they touch; with all rows where
/// they ask by a condition.
fn schema(history: &History, rows: &History, state: &State, txns: &[TxnId]) -> Result<Schema, String> {
    let ops = || txns.iter().flat_map(|&txn| rows.ops(txn));
    let touched: BTreeSet<ObjectId> = ops().flat_map(|op| op.accesses).map(|access| access.object).collect();
    let asks = |op: &Op<'_>| !matches!(op.kind, OpKind::Read | OpKind::Write | OpKind::Append);
    let whole = ops().any(|op| asks(&op) && op.kind.outcome().is_none() && op.kind != OpKind::Begin);
    let kept = state.0.iter().filter(|(object, _)| whole || touched.contains(*object));
    if history.has_kind(OpKind::Sql) {
        return program(rows, kept);
    }
    let mut schema = Schema { tables: own_tables(), rows: Vec::new() };
    for (&object, content) in kept {
        let (table, key) = place(rows, object)?;
        let rest = match content {
            Content::Value(value) => vec![cell(rows, *value)],
            Content::List(items) => {
                vec![Cell::Text(items.iter().map(|&item| format!(",{}", rows.show_value(item))).collect())]
            }
            Content::Row(columns) => columns.values().map(|&value| cell(rows, value)).collect(),
        };
        schema.rows.push((table, [key].into_iter().chain(rest).collect()));
    }
    Ok(schema)
}

/// Leaves out the tables that no line names.
fn keep_named(schema: &mut Schema, lines: &[Line]) {
    let says = |line: &Line, name: &str| matches!(&line.act, Act::Sql(text, _) if text.contains(name));
    let named = |def: &TableDef| lines.iter().any(|line| says(line, def.name));
    let places: Vec<Option<usize>> = {
        let mut next = 0..;
        schema.tables.iter().map(|def| if named(def) { next.next() } else { None }).collect()
    };
    schema.tables.retain(named);
    schema.rows = std::mem::take(&mut schema.rows)
        .into_iter()
        .filter_map(|(table, row)| Some((places[table]?, row)))
        .collect();
}

/// The tables of our workloads.
fn own_tables() -> Vec<TableDef> {
    let (int, text) = (ColumnType::Int, ColumnType::Text(TEXT));
    let columns: [Vec<(&str, ColumnType)>; 3] = [
        vec![("k", int), ("v", int)],
        vec![("k", int), ("v", text)],
        vec![("k", int), ("v", int), ("w", int)],
    ];
    let table = |(name, columns): (&'static str, Vec<(&'static str, ColumnType)>)| TableDef {
        name,
        key: 1,
        columns: columns.leak(),
        indexes: &[],
    };
    TABLES.into_iter().zip(columns).map(table).collect()
}

/// The tables of a program in SQL, as the history declares them.
fn program<'s>(
    rows: &History,
    kept: impl Iterator<Item = (&'s ObjectId, &'s Content)>,
) -> Result<Schema, String> {
    let mut schema = Schema::default();
    for table in rows.tables() {
        let is_key = |column: &&(String, String)| table.key.contains(&column.0);
        let (key, rest): (Vec<_>, Vec<_>) = table.columns.iter().partition(is_key);
        let columns = key.into_iter().chain(rest).map(|(name, kind)| (leaked(name), column_type(kind)));
        schema.tables.push(TableDef {
            name: leaked(&table.name),
            key: table.key.len(),
            columns: columns.collect::<Vec<_>>().leak(),
            indexes: &[],
        });
    }
    for (&object, content) in kept {
        let (Some(table), Content::Row(columns)) = (rows.object(object).table, content) else { continue };
        let cells = row(rows, &schema.tables[table.index()], table, object, columns)?;
        schema.rows.push((table.index(), cells));
    }
    Ok(schema)
}

/// The cells of a row, in the order of the table's columns.
fn row(
    rows: &History,
    def: &TableDef,
    table: TableId,
    object: ObjectId,
    columns: &BTreeMap<NameId, ValueId>,
) -> Result<Vec<Cell>, String> {
    let key = rows.object(object).key;
    let keys: Vec<ValueId> = match rows.value(key) {
        Value::List(parts) => parts.to_vec(),
        _ => vec![key],
    };
    let names = &rows.table(table).key;
    let value = |name: &str| match names.iter().position(|key| key == name) {
        Some(at) => {
            keys.get(at).copied().ok_or_else(|| format!("{} has no {name}", rows.show_object(object)))
        }
        None => {
            Ok(columns.iter().find(|(column, _)| rows.name(**column) == name).map_or(ValueId::NULL, |c| *c.1))
        }
    };
    def.columns.iter().map(|(name, _)| value(name).map(|value| cell(rows, value))).collect()
}

fn column_type(kind: &str) -> ColumnType {
    let numbers: Vec<u16> =
        kind.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    match (kind.split('(').next().unwrap_or_default().to_ascii_lowercase().as_str(), numbers.as_slice()) {
        ("decimal" | "numeric", &[digits, scale]) => ColumnType::Decimal(digits as u8, scale as u8),
        ("varchar" | "char", &[most]) => ColumnType::Text(most),
        ("bigint" | "int" | "integer" | "smallint", _) => ColumnType::Int,
        _ => ColumnType::Text(TEXT),
    }
}

/// Tables of programs have names that live as long as the program; a script is played once or
/// twice.
fn leaked(text: &str) -> &'static str {
    text.to_owned().leak()
}

fn cell(history: &History, value: ValueId) -> Cell {
    match history.value(value) {
        Value::Null | Value::Unknown => Cell::Null,
        Value::Int(int) => Cell::Int(int),
        Value::Text(text) => Cell::Text(text.to_owned()),
        Value::Bool(truth) => Cell::Int(i64::from(truth)),
        _ => Cell::Text(history.show_value(value)),
    }
}
