//! `leopard`: a directory of Leopard's (and Pisco's) traces, `trace/loader-N.K.json`, with the
//! initial rows in `init_data/TABLE.csv`.
//!
//! # Mapping
//! A thread is a session; transactions are numbered in the order of the files. Rows are objects
//! (table, primary key) whose values hold the columns that the trace shows; a write of some columns
//! leaves the others, and no columns at all are a deletion. Values are texts in the trace; those
//! that are spelt as integers or decimal fractions become numbers, here and in the initial rows
//! alike.
//!
//! - `SELECT` is a read of the rows it returned, one without rows nothing; its condition is not
//!   kept. A locking one, which may see newer rows than its snapshot, is a SQL statement with its
//!   text and its rows in the order of its columns.
//! - `INSERT`, `UPDATE` and `DELETE` are writes of the rows they changed.
//! - `START`, `COMMIT` and `ROLLBACK` are what they say. Everything else is left out, with a
//!   warning.

use hashbrown::{HashMap, HashSet};
use margay_history::{
    Access, History, HistoryBuilder, Interval, Invalid, ObjectId, OpDetail, OpKind, Table, TableId, ValueId,
};

use super::forms::{Form, FormStream, Node, Syntax};
use super::steps::{Fault, fault};
use crate::input::{Entry, Input, Lines};
use crate::{FormatError, Warnings};

pub(crate) fn read(input: Input<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    let is_trace = |file: &Entry<'_>| file.file_name().ends_with(".json") || !file.name.contains('.');
    let is_table = |file: &Entry<'_>| file.name.ends_with(".csv") && file.name.contains("init_data/");
    let name = input.name.clone();
    let files = input.logs(|file| is_trace(file) || is_table(file))?;
    let (tables, traces): (Vec<_>, Vec<_>) = files.into_iter().partition(is_table);
    let mut reader = Reader::default();
    for file in tables {
        initial_rows(&mut reader, file)?;
    }
    if traces.is_empty() {
        return Err(FormatError::new("no trace is in this directory").in_file(&name));
    }
    for file in traces {
        trace(&mut reader, file.open()?)?;
    }
    reader.finish(warnings)
}

fn trace(reader: &mut Reader, input: Input<'_>) -> Result<(), FormatError> {
    let name = input.name.clone();
    let mut stream = FormStream::new(name, input.reader()?, Syntax::Json);
    while stream.advance()? {
        let done = reader.operation(stream.form());
        done.map_err(|Fault { at, what }| stream.error(at, what))?;
    }
    Ok(())
}

/// Rows of a table: names in the first line, the primary key in the first column.
fn initial_rows(reader: &mut Reader, file: Entry<'_>) -> Result<(), FormatError> {
    let table = file.file_name().trim_end_matches(".csv").to_string();
    let mut lines = file.open()?.lines()?;
    let mut names: Option<Vec<String>> = None;
    while lines.advance()? {
        let fields = csv(&lines)?;
        match &names {
            _ if fields.iter().all(|field| field.is_empty()) => {}
            None => {
                reader.declare(&table, fields.first().map_or("", String::as_str));
                names = Some(fields);
            }
            Some(names) if names.len() == fields.len() => {
                reader.initial(&table, names, &fields).map_err(|invalid| lines.error(1, invalid.what))?;
            }
            Some(names) => {
                let what = format!("{} fields, where the first line has {}", fields.len(), names.len());
                return Err(lines.error(1, what));
            }
        }
    }
    Ok(())
}

/// The fields of a line, with or without quotes.
fn csv(lines: &Lines<'_>) -> Result<Vec<String>, FormatError> {
    let mut rest = lines.text()?;
    let mut fields = Vec::new();
    loop {
        let (field, behind) = match rest.strip_prefix('"') {
            Some(inside) => quoted(inside).ok_or_else(|| lines.error(1, "a quoted field without an end"))?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_string(), &rest[end..])
            }
        };
        fields.push(field);
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None if behind.is_empty() => return Ok(fields),
            None => return Err(lines.error(1, "something follows a quoted field")),
        }
    }
}

/// A quoted field, and what follows its closing quote. Two quotes are one.
fn quoted(inside: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = inside;
    loop {
        let (part, behind) = rest.split_once('"')?;
        field.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Some((field, behind)),
        }
    }
}

#[derive(Default)]
struct Reader {
    builder: HistoryBuilder,
    sessions: HashMap<String, u64>,
    session_labels: HashSet<u64>,
    txns: HashMap<String, u64>,
    levels: HashSet<String>,
    skipped: u64,
}

/// The fields of a trace that matter.
#[derive(Default)]
struct Fields<'t> {
    thread: Option<&'t str>,
    txn: Option<&'t str>,
    kind: Option<&'t str>,
    sql: Option<&'t str>,
    level: Option<&'t str>,
    mode: Option<&'t str>,
    start: Option<i64>,
    finish: Option<i64>,
    reads: Option<Form<'t>>,
    writes: Option<Form<'t>>,
}

impl<'t> Fields<'t> {
    fn of(form: Form<'t>) -> Result<Self, Fault> {
        let Some(pairs) = form.pairs() else { return fault(form, "a trace is an object") };
        let mut fields = Self::default();
        for (key, value) in pairs {
            match key.word().unwrap_or_default() {
                "threadID" => fields.thread = value.word(),
                "transactionID" => fields.txn = value.word(),
                "operationTraceType" => fields.kind = value.word(),
                "sql" => fields.sql = value.word(),
                "isolationLevel" => fields.level = value.word(),
                "readMode" => fields.mode = value.word(),
                "startTimestamp" => fields.start = value.int(),
                "finishTimestamp" => fields.finish = value.int(),
                "readTupleList" => fields.reads = Some(value),
                "writeTupleList" => fields.writes = Some(value),
                _ => {}
            }
        }
        Ok(fields)
    }
}

impl Reader {
    fn declare(&mut self, table: &str, key: &str) -> TableId {
        let declared = Table { name: table.to_string(), key: vec![key.to_string()], ..Table::default() };
        // A table may have a trace before its rows; then it stands without a key.
        self.builder.declare_table(declared).unwrap_or_else(|_| self.builder.table(table))
    }

    fn initial(&mut self, table: &str, names: &[String], fields: &[String]) -> Result<(), Invalid> {
        let table = self.builder.table(table);
        let object = self.object(table, &fields[0]);
        let mut columns = Vec::with_capacity(names.len());
        for (name, field) in names.iter().zip(fields).skip(1) {
            let value = number_or_text(&mut self.builder, field);
            columns.push((self.builder.values().intern_name(name), value));
        }
        let row = self.builder.values().row(&columns);
        self.builder.initial(object, row)
    }

    fn object(&mut self, table: TableId, key: &str) -> ObjectId {
        let key = number_or_text(&mut self.builder, key);
        self.builder.object(Some(table), key)
    }

    fn operation(&mut self, form: Form<'_>) -> Result<(), Fault> {
        let fields = Fields::of(form)?;
        let (Some(thread), Some(txn), Some(kind)) = (fields.thread, fields.txn, fields.kind) else {
            return fault(form, "a trace has threadID, transactionID and operationTraceType");
        };
        let (Some(start), Some(finish)) = (fields.start, fields.finish) else {
            return fault(form, "a trace has startTimestamp and finishTimestamp");
        };
        let place = At {
            session: self.session(thread),
            txn: self.txn(txn),
            at: Interval::new(start, finish),
            offset: form.offset(),
        };
        self.levels.extend(fields.level.map(str::to_string));
        let locking = fields.mode == Some("LOCKING_READ");
        match kind {
            "START" => self.push(place, OpKind::Begin, &[], OpDetail::None),
            "COMMIT" => self.push(place, OpKind::Commit, &[], OpDetail::None),
            "ROLLBACK" => self.push(place, OpKind::Abort, &[], OpDetail::None),
            "SELECT" if locking => self.locking(place, &fields),
            "SELECT" => self.rows(place, OpKind::Read, fields.reads),
            "INSERT" | "UPDATE" | "DELETE" => self.rows(place, OpKind::Write, fields.writes),
            _ => {
                self.skipped += 1;
                Ok(())
            }
        }
    }

    fn push(
        &mut self,
        place: At,
        kind: OpKind,
        accesses: &[Access],
        detail: OpDetail<'_>,
    ) -> Result<(), Fault> {
        let pushed = self.builder.push(place.session, place.txn, Some(place.at), kind, accesses, detail);
        pushed.map_err(|invalid| Fault { at: place.offset, what: invalid.what })
    }

    /// The number at the end of a thread's name, unless another thread has it.
    fn session(&mut self, thread: &str) -> u64 {
        if let Some(&session) = self.sessions.get(thread) {
            return session;
        }
        let mut number = thread.rsplit('-').next().and_then(|last| last.parse().ok()).unwrap_or(0);
        while !self.session_labels.insert(number) {
            number += 1;
        }
        self.sessions.insert(thread.to_string(), number);
        number
    }

    fn txn(&mut self, id: &str) -> u64 {
        if let Some(&txn) = self.txns.get(id) {
            return txn;
        }
        let next = self.txns.len() as u64;
        self.txns.insert(id.to_string(), next);
        next
    }

    fn rows(&mut self, place: At, kind: OpKind, tuples: Option<Form<'_>>) -> Result<(), Fault> {
        let mut accesses = Vec::new();
        for tuple in tuples.and_then(Form::sequence).into_iter().flatten() {
            let Tuple { table, key, columns } = Tuple::of(tuple)?;
            let table = self.builder.table(table);
            let object = self.object(table, key);
            let value = self.row(columns)?;
            accesses.push(Access { object, value });
        }
        if accesses.is_empty() { Ok(()) } else { self.push(place, kind, &accesses, OpDetail::None) }
    }

    /// A row of the columns that are shown; none are a deleted row.
    fn row(&mut self, columns: Form<'_>) -> Result<ValueId, Fault> {
        let mut row = Vec::new();
        for (name, value) in columns.pairs().into_iter().flatten() {
            let value = self.value(value)?;
            row.push((self.builder.values().intern_name(name.word().unwrap_or_default()), value));
        }
        if row.is_empty() { Ok(ValueId::NULL) } else { Ok(self.builder.values().row(&row)) }
    }

    fn value(&mut self, form: Form<'_>) -> Result<ValueId, Fault> {
        match (form.node(), form.word()) {
            (Node::Text(_), Some(text)) => Ok(number_or_text(&mut self.builder, text)),
            _ => super::steps::value(&mut self.builder, form),
        }
    }

    fn locking(&mut self, place: At, fields: &Fields<'_>) -> Result<(), Fault> {
        let text = fields.sql.unwrap_or("SELECT 1 FOR UPDATE");
        let names = selected(text);
        let mut rows = Vec::new();
        for tuple in fields.reads.and_then(Form::sequence).into_iter().flatten() {
            let columns = Tuple::of(tuple)?.columns;
            let mut row = Vec::with_capacity(names.len());
            for name in &names {
                let column = columns.pairs().into_iter().flatten().find(|(key, _)| key.word() == Some(name));
                row.push(column.map_or(Ok(ValueId::UNKNOWN), |(_, value)| self.value(value))?);
            }
            rows.push(self.builder.values().list(&row));
        }
        // A column that the trace does not show makes the whole result unknown.
        let shown = fields.reads.is_some() && !names.is_empty() && !self.has_unknown(&rows);
        let detail = OpDetail::Sql { text, params: &[], rows: shown.then_some(&rows[..]), count: None };
        self.push(place, OpKind::Sql, &[], detail)
    }

    fn has_unknown(&mut self, rows: &[ValueId]) -> bool {
        let values = self.builder.values();
        rows.iter().any(|&row| match values.get(row) {
            margay_history::Value::List(items) => items.contains(&ValueId::UNKNOWN),
            _ => false,
        })
    }

    fn finish(mut self, warnings: &mut Warnings) -> Result<History, FormatError> {
        if let (1, Some(level)) = (self.levels.len(), self.levels.iter().next()) {
            self.builder.header().level = Some(level.to_ascii_lowercase().replace('_', "-"));
        }
        if self.skipped > 0 {
            warnings
                .add(format!("{} traces of schema changes, faults and schedules are left out", self.skipped));
        }
        Ok(self.builder.finish()?)
    }
}

/// Where an operation belongs.
#[derive(Clone, Copy)]
struct At {
    session: u64,
    txn: u64,
    at: Interval,
    offset: usize,
}

/// A row of a trace.
struct Tuple<'t> {
    table: &'t str,
    key: &'t str,
    columns: Form<'t>,
}

impl<'t> Tuple<'t> {
    fn of(form: Form<'t>) -> Result<Self, Fault> {
        let (mut table, mut key, mut columns) = (None, None, None);
        for (name, value) in form.pairs().into_iter().flatten() {
            match name.word() {
                Some("table") => table = value.word(),
                Some("primaryKey") => key = value.word(),
                Some("valueMap") => columns = Some(value),
                _ => {}
            }
        }
        match (table, key, columns) {
            (Some(table), Some(key), Some(columns)) => Ok(Self { table, key, columns }),
            _ => fault(form, "a row has table, primaryKey and valueMap"),
        }
    }
}

/// The names that a plain SELECT lists; nothing when it lists anything else.
fn selected(sql: &str) -> Vec<&str> {
    let lower = sql.to_ascii_lowercase();
    let Some(from) = lower.find(" from ").filter(|_| lower.starts_with("select ")) else { return Vec::new() };
    let names: Vec<_> = sql[7..from].split(',').map(|name| name.trim().trim_matches(['`', '"'])).collect();
    let plain = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if names.iter().all(plain) { names } else { Vec::new() }
}

/// What is spelt as an integer or a decimal fraction is a number.
fn number_or_text(builder: &mut HistoryBuilder, text: &str) -> ValueId {
    if let Ok(int) = text.parse::<i64>()
        && int.to_string() == text
    {
        return builder.values().int(int);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = digits.split_once('.').is_some_and(|(left, right)| whole(left) && whole(right));
    match text.parse::<f64>() {
        Ok(float) if fraction && float.is_finite() => builder.values().float(float),
        _ => builder.values().text(text),
    }
}

#[cfg(test)]
mod tests {
    use margay_history::{OpKind, TxnId, ValueId};

    use crate::Format;
    use crate::foreign::testing::read_folder;

    const CSV: &[u8] = b"pkId,a,b\n\"0\",\"5\",\"x \"\"y\"\"\"\n1,-2.50,\n";

    fn trace(kind: &str, txn: u32, time: u32, more: &str) -> String {
        format!(
            "{{\"threadID\":\"0-0-3\",\"transactionID\":\"0-0-3,{txn}\",\"operationTraceType\":\"{kind}\",\
             \"startTimestamp\":{time},\"finishTimestamp\":{}{more}}}",
            time + 1
        )
    }

    #[test]
    fn reads_writes_and_initial_rows() {
        let row =
            |columns: &str| format!("{{\"table\":\"t0\",\"primaryKey\":\"1\",\"valueMap\":{{{columns}}}}}");
        let seen =
            format!(",\"readTupleList\":[{}],\"readMode\":\"CONSISTENT_READ\"", row("\"a\":\"-2.50\""));
        let locked = format!(
            ",\"sql\":\"select `b`, `a` from `t0` for update;\",\"readTupleList\":[{}],\"readMode\":\"LOCKING_READ\"",
            row("\"a\":\"7\",\"b\":\"z\"")
        );
        let all = [
            trace("START", 0, 1, ",\"isolationLevel\":\"REPEATABLE_READ\""),
            trace("SELECT", 0, 3, &seen),
            trace("SELECT", 0, 5, ",\"readTupleList\":[]"),
            trace("UPDATE", 0, 7, &format!(",\"writeTupleList\":[{}]", row("\"a\":\"7\""))),
            trace("SELECT", 0, 9, &locked),
            trace("DELETE", 0, 11, &format!(",\"writeTupleList\":[{}]", row(""))),
            trace("COMMIT", 0, 13, ""),
            trace("DDL", 1, 15, ""),
            trace("ROLLBACK", 1, 17, ""),
        ];
        let text = format!("[{}]", all.join(",\n"));
        let files: [(&str, &[u8]); 2] =
            [("init_data/t0.csv", CSV), ("trace/loader-3.0.json", text.as_bytes())];
        let loaded = read_folder(Format::Leopard, &files).unwrap();
        let history = loaded.history;
        assert_eq!(history.header().level.as_deref(), Some("repeatable-read"));
        assert_eq!((history.txn_count(), history.initial_values().len(), loaded.warnings.len()), (2, 2, 1));
        let kinds: Vec<_> = history.ops(TxnId(0)).map(|op| op.kind).collect();
        assert_eq!(
            kinds,
            [OpKind::Begin, OpKind::Read, OpKind::Write, OpKind::Sql, OpKind::Write, OpKind::Commit]
        );
        let ops: Vec<_> = history.ops(TxnId(0)).collect();
        assert_eq!(history.show_value(ops[1].accesses[0].value), "{a: -2.5}");
        assert_eq!(ops[4].accesses[0].value, ValueId::NULL);
        let rows = history.statement(ops[3].id).unwrap().rows.as_ref().unwrap();
        assert_eq!(history.show_value(rows[0]), "[\"z\" 7]");
        let initial: Vec<_> = history.initial_values().iter().map(|&(_, v)| history.show_value(v)).collect();
        assert_eq!(initial, ["{a: 5, b: \"x \\\"y\\\"\"}", "{a: -2.5, b: \"\"}"]);
    }

    #[test]
    fn errors_have_their_place() {
        let error = |name: &str, text: &[u8]| read_folder(Format::Leopard, &[(name, text)]).unwrap_err();
        let found = error("trace/loader-0.0.json", b"[\n{}]");
        assert_eq!((found.line, found.column), (Some(2), Some(1)));
        assert!(error("init_data/t.csv", b"a,b\n1").what.contains("1 fields, where the first line has 2"));
        assert!(error("init_data/t.csv", b"a,b\n\"1").what.contains("without an end"));
    }
}
