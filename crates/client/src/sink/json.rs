//! What clients record, as JSON lines, Margay's native format, written as it happens.

use std::io::{self, Write};

use super::{Action, Note, Recorded, Sink, Start};
use crate::statement::{Cell, Executed, Schema};
use crate::value::{Change, Obj, Row, Space, Value};

/// Writes JSON lines.
///
/// # Cost
/// Numbers are written by hand into one buffer; it is passed on when it holds 64 KiB.
#[derive(Debug)]
pub struct JsonSink<W: Write> {
    out: W,
    line: Vec<u8>,
}

const FULL: usize = 1 << 16;

impl JsonSink<Vec<u8>> {
    /// Takes out all lines so far.
    pub fn take(&mut self) -> Vec<u8> {
        let mut lines = std::mem::take(&mut self.out);
        lines.append(&mut self.line);
        lines
    }
}

impl<W: Write> JsonSink<W> {
    /// Writes to `out`, which need not be buffered.
    pub fn new(out: W) -> Self {
        Self { out, line: Vec::with_capacity(2 * FULL) }
    }

    /// Writes what is left, and gives `out` back.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.line)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Passes on all whole lines.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.out.write_all(&self.line)?;
            self.line.clear();
        }
        self.out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.push(b'\n');
        if self.line.len() >= FULL {
            self.out.write_all(&self.line)?;
            self.line.clear();
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.line.extend_from_slice(text.as_bytes());
    }

    fn int(&mut self, int: i64) {
        if int < 0 {
            self.line.push(b'-');
        }
        self.uint(int.unsigned_abs());
    }

    fn uint(&mut self, mut int: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (int % 10) as u8;
            int /= 10;
            if int == 0 {
                break;
            }
        }
        self.line.extend_from_slice(&digits[at..]);
    }

    fn object(&mut self, obj: Obj) {
        match obj.space {
            Space::Register => self.uint(u64::from(obj.key)),
            Space::List => {
                self.text("\"l");
                self.uint(u64::from(obj.key));
                self.text("\"");
            }
            Space::Row => {
                self.text("[\"t\",");
                self.uint(u64::from(obj.key));
                self.text("]");
            }
        }
    }

    fn value(&mut self, value: &Value, list: bool) {
        match value {
            Value::Absent => self.text(if list { "[]" } else { "null" }),
            Value::Int(int) => self.int(*int),
            Value::List(items) => {
                self.text("[");
                for (i, &item) in items.iter().enumerate() {
                    if i > 0 {
                        self.text(",");
                    }
                    self.int(item);
                }
                self.text("]");
            }
            Value::Row(row) => self.row(*row, true),
        }
    }

    /// A row; NULL columns are named only where they were seen.
    fn row(&mut self, row: Row, seen: bool) {
        let mut separator = "{";
        for (name, value) in [("\"v\":", row.v), ("\"w\":", row.w)] {
            if value.is_none() && !seen {
                continue;
            }
            self.text(separator);
            self.text(name);
            match value {
                Some(int) => self.int(int),
                None => self.text("null"),
            }
            separator = ",";
        }
        self.text("}");
    }

    fn write(&mut self, obj: Obj, change: Change) {
        self.text(if matches!(change, Change::Append(_)) { ",\"append\":[[" } else { ",\"write\":[[" });
        self.object(obj);
        self.text(",");
        match change {
            Change::Put(int) | Change::Append(int) => self.int(int),
            Change::Merge(row) => self.row(row, false),
            Change::Delete => self.text("null"),
        }
        self.text("]]");
    }

    fn rows(&mut self, rows: &[(Obj, Value)]) {
        self.text(",\"rows\":[");
        for (i, (obj, value)) in rows.iter().enumerate() {
            self.text(if i > 0 { ",[" } else { "[" });
            self.object(*obj);
            self.text(",");
            self.value(value, false);
            self.text("]");
        }
        self.text("]");
    }

    fn cond(&mut self, cond: crate::value::Cond) {
        self.text("v >= ");
        self.int(cond.low);
        self.text(" AND v <= ");
        self.int(cond.high);
    }

    fn action(&mut self, action: Action<'_>) {
        match action {
            Action::Begin => self.text(",\"begin\":true"),
            Action::Commit => self.text(",\"commit\":true"),
            Action::Abort => self.text(",\"abort\":true"),
            Action::Unknown => self.text(",\"unknown\":true"),
            Action::Read(obj, value) => {
                self.text(",\"read\":[[");
                self.object(obj);
                self.text(",");
                self.value(value, obj.space == Space::List);
                self.text("]]");
            }
            Action::Write(obj, change) => self.write(obj, change),
            Action::Scan(cond, rows) => {
                self.text(",\"scan\":{\"table\":\"t\",\"where\":\"");
                self.cond(cond);
                self.text("\"}");
                self.rows(rows);
            }
            Action::Aggregate(cond, count, sum) => {
                self.text(",\"sql\":\"SELECT COUNT(*), SUM(v) FROM t WHERE ");
                self.cond(cond);
                self.text("\",\"rows\":[[");
                self.uint(count);
                self.text(",");
                match sum {
                    Some(sum) => self.int(sum),
                    None => self.text("null"),
                }
                self.text("]]");
            }
            Action::Sql(executed) => self.sql(executed),
            Action::Update(cond, set, rows) => {
                self.text(",\"update\":{\"table\":\"t\",\"where\":\"");
                self.cond(cond);
                match set {
                    Some(v) => {
                        self.text("\",\"set\":\"v = ");
                        self.int(v);
                        self.text("\"}");
                    }
                    None => self.text("\",\"set\":null}"),
                }
                self.rows(rows);
            }
        }
    }

    /// Items between commas.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) {
        self.text("[");
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.text(",");
            }
            write(self, item);
        }
        self.text("]");
    }

    fn quoted(&mut self, text: &str) {
        self.text("\"");
        for char in text.chars() {
            match char {
                '"' => self.text("\\\""),
                '\\' => self.text("\\\\"),
                char if char < ' ' => self.text(&format!("\\u{:04x}", char as u32)),
                char => self.text(char.encode_utf8(&mut [0; 4])),
            }
        }
        self.text("\"");
    }

    fn cell(&mut self, cell: &Cell) {
        match cell {
            Cell::Null => self.text("null"),
            Cell::Int(int) => self.int(*int),
            Cell::Text(text) => self.quoted(text),
        }
    }

    fn sql(&mut self, executed: Executed<'_>) {
        self.text(",\"sql\":");
        self.quoted(executed.text);
        if !executed.params.is_empty() {
            self.text(",\"params\":");
            self.list(executed.params, Self::cell);
        }
        if let Some(rows) = executed.rows() {
            self.text(",\"rows\":");
            self.list(rows, |sink, row| sink.list(row, Self::cell));
        }
        if let Some(count) = executed.affected() {
            self.text(",\"count\":");
            self.uint(count);
        }
    }

    /// The tables of a program, after which nothing but its rows may come.
    fn tables(&mut self, schema: &Schema) {
        for (i, def) in schema.tables.iter().enumerate() {
            self.text(if i == 0 { ",\"tables\":{" } else { "," });
            self.quoted(def.name);
            self.text(":{\"key\":");
            self.list(&def.columns[..def.key], |sink, (name, _)| sink.quoted(name));
            for (i, (name, kind)) in def.columns.iter().enumerate() {
                self.text(if i == 0 { ",\"columns\":{" } else { "," });
                self.quoted(name);
                self.text(":");
                self.quoted(&kind.to_string());
            }
            self.text("}}");
        }
        if !schema.tables.is_empty() {
            self.text("}");
        }
    }

    fn initial_row(&mut self, schema: &Schema, table: usize, row: &[Cell]) {
        let def = &schema.tables[table];
        let (key, rest) = row.split_at(def.key);
        self.text("[[");
        self.quoted(def.name);
        self.text(",");
        match key {
            [key] => self.cell(key),
            several => self.list(several, Self::cell),
        }
        self.text("],{");
        for (i, ((name, _), cell)) in def.columns[def.key..].iter().zip(rest).enumerate() {
            if i > 0 {
                self.text(",");
            }
            self.quoted(name);
            self.text(":");
            self.cell(cell);
        }
        self.text("}]");
    }

    fn version(&mut self, txn: u64) {
        if txn == 0 { self.text("null") } else { self.uint(txn) }
    }

    fn stamp(&mut self, kind: &str, txn: u64, ts: i64) {
        self.text("{\"evidence\":\"");
        self.text(kind);
        self.text("\",\"txn\":");
        self.uint(txn);
        self.text(",\"ts\":");
        self.int(ts);
        self.text("}");
    }
}

impl<W: Write> Sink for JsonSink<W> {
    type Error = io::Error;

    fn start(&mut self, start: &Start) -> io::Result<()> {
        self.text("{\"margay\":1,\"unit\":\"ns\",\"skew\":");
        self.int(start.skew);
        self.text(&format!(",\"dbms\":\"{}\",\"level\":\"{}\"", start.dbms, start.level));
        if start.table {
            self.text(",\"tables\":{\"t\":{\"key\":[\"k\"],\"columns\":{\"k\":\"int\",\"v\":\"int\",\"w\":\"int\"}}}");
        }
        self.tables(&start.schema);
        for (i, (obj, value)) in start.initial.iter().enumerate() {
            self.text(if i == 0 { ",\"initial\":[[" } else { ",[" });
            self.object(*obj);
            self.text(",");
            self.value(value, false);
            self.text("]");
        }
        for (i, (table, row)) in start.schema.rows.iter().enumerate() {
            self.text(if i == 0 && start.initial.is_empty() { ",\"initial\":[" } else { "," });
            self.initial_row(&start.schema, *table, row);
        }
        let none = start.initial.is_empty() && start.schema.rows.is_empty();
        self.text(if none { "}" } else { "]}" });
        self.end_line()
    }

    fn op(&mut self, op: Recorded<'_>) -> io::Result<()> {
        self.text("{\"session\":");
        self.uint(op.session);
        self.text(",\"txn\":");
        self.uint(op.txn);
        self.text(",\"at\":[");
        self.int(op.before);
        self.text(",");
        self.int(op.after);
        self.text("]");
        self.action(op.action);
        self.text("}");
        self.end_line()
    }

    fn note(&mut self, note: Note<'_>) -> io::Result<()> {
        match note {
            Note::VersionOrder(obj, [earlier, later]) => {
                self.text("{\"evidence\":\"version-order\",\"object\":");
                self.object(obj);
                self.text(",\"txns\":[");
                self.version(earlier);
                self.text(",");
                self.version(later);
                self.text("]}");
            }
            Note::VersionSet(txn, op, versions) => {
                self.text("{\"evidence\":\"version-set\",\"txn\":");
                self.uint(txn);
                self.text(",\"op\":");
                self.uint(u64::from(op));
                self.text(",\"rows\":[");
                for (i, &(obj, writer)) in versions.iter().enumerate() {
                    self.text(if i > 0 { ",[" } else { "[" });
                    self.object(obj);
                    self.text(",");
                    self.version(writer);
                    self.text("]");
                }
                self.text("]}");
            }
            Note::Snapshot(txn, ts) => self.stamp("snapshot", txn, ts),
            Note::Commit(txn, ts) => self.stamp("commit", txn, ts),
            Note::Serialization(txn, ts) => self.stamp("serialization", txn, ts),
        }
        self.end_line()
    }
}
