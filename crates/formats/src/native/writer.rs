//! Writes the native format: a history session by session, so that reading it back moves nothing;
//! or a recording, as it grows.
//!
//! # Invariants
//! - Only whole lines are passed on, and nothing is kept of them: a file that grows can be read at
//!   any time.
//!
//! # Cost
//! Numbers are written by hand into one buffer, which is passed on when it holds 64 KiB.

use std::fmt;
use std::io::{self, Write};

use margay_history::{
    Access, Header, History, Interval, NameId, Names, ObjectId, Op, OpDetail, OpKind, Table, TxnId, Value,
    ValueId, Version,
};

use crate::{Format, FormatError};

pub(crate) fn write(history: &History, out: &mut dyn Write) -> Result<(), FormatError> {
    let (mut writer, names) = (NativeWriter::new(out), history.names());
    let beyond = |what: &str, object, beyond: Beyond| {
        FormatError::new(format!("{what} {}: {beyond}", history.show_object(object)))
    };
    let header = writer.header(names, history.header(), history.initial_values());
    header.map_err(|(object, what)| beyond("initial value of", object, what))?;
    writer.end_line()?;
    for session in history.sessions() {
        let label = history.session_label(session);
        for txn in history.session_txns(session) {
            for op in history.ops(txn) {
                let who = (label, history.txn_label(txn));
                let (at, detail) = (op.at, history.detail(op, observed(history, op)));
                writer.op(names, who, at, op.kind, op.accesses, &detail).map_err(|Beyond(what)| {
                    FormatError::cannot_carry(Format::Margay, history, op.id, what)
                })?;
                writer.end_line()?;
            }
        }
    }
    let evidence = history.evidence();
    let label = |version| match version {
        Version::Initial => None,
        Version::Of(txn) => Some(history.txn_label(txn)),
    };
    for order in &evidence.version_orders {
        let versions: Vec<_> = order.versions.iter().map(|&version| label(version)).collect();
        let written = writer.version_order(names, order.object, &versions);
        written.map_err(|what| beyond("evidence about", order.object, what))?;
        writer.end_line()?;
    }
    for set in &evidence.version_sets {
        let op = (history.txn_label(history.txn_of(set.op)), history.op_index(set.op));
        let versions: Vec<_> =
            set.versions.iter().map(|&(object, version)| (object, label(version))).collect();
        let written = writer.version_set(names, op, &versions);
        written.map_err(|(object, what)| beyond("evidence about", object, what))?;
        writer.end_line()?;
    }
    let stamps: [(&str, &[(TxnId, i64)]); 3] = [
        ("snapshot", &evidence.snapshots),
        ("commit", &evidence.commits),
        ("serialization", &evidence.serializations),
    ];
    for (kind, stamps) in stamps {
        for &(txn, ts) in stamps {
            writer.stamp(kind, history.txn_label(txn), ts);
            writer.end_line()?;
        }
    }
    Ok(writer.flush()?)
}

/// Whether the rows of a scan or an update were seen.
fn observed(history: &History, op: Op<'_>) -> bool {
    history.scan(op.id).is_some_and(|scan| scan.observed)
        || history.update(op.id).is_some_and(|update| update.observed)
}

/// Something that JSON has no word for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beyond(pub &'static str);

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the format margay cannot carry {}", self.0)
    }
}

impl std::error::Error for Beyond {}

/// When the buffer is passed on.
const FULL: usize = 1 << 16;

/// Writes lines of the native format. Each is made by one call, and ended by
/// [`NativeWriter::end_line`].
#[derive(Debug)]
pub struct NativeWriter<W> {
    out: W,
    line: Vec<u8>,
}

impl NativeWriter<Vec<u8>> {
    /// Takes out all lines so far.
    pub fn take(&mut self) -> Vec<u8> {
        let mut lines = std::mem::take(&mut self.out);
        lines.append(&mut self.line);
        lines
    }
}

impl<W: Write> NativeWriter<W> {
    /// Writes to `out`, which need not be buffered.
    pub fn new(out: W) -> Self {
        Self { out, line: Vec::with_capacity(2 * FULL) }
    }

    /// Ends a line.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn end_line(&mut self) -> io::Result<()> {
        self.raw("}\n");
        if self.line.len() >= FULL { self.pass_on() } else { Ok(()) }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }

    /// Passes on all lines.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.out.flush()
    }

    /// Passes on all lines, and gives `out` back.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    /// The header.
    ///
    /// # Errors
    /// The first object whose initial value JSON has no word for.
    pub fn header(
        &mut self,
        names: Names<'_>,
        header: &Header,
        initial: &[(ObjectId, ValueId)],
    ) -> Result<(), (ObjectId, Beyond)> {
        self.raw("{\"margay\":1,\"unit\":");
        self.text(header.unit.name());
        self.raw(",\"skew\":");
        self.int(header.skew);
        for (field, value) in [(",\"dbms\":", &header.dbms), (",\"level\":", &header.level)] {
            self.optional(field, value.as_deref());
        }
        if !names.tables.is_empty() {
            self.raw(",\"tables\":");
            self.items(["{", "}"], names.tables, Self::table);
        }
        if initial.is_empty() {
            return Ok(());
        }
        self.raw(",\"initial\":");
        self.try_items(initial, |writer, &(object, value)| {
            writer.pair(names, object, value).map_err(|beyond| (object, beyond))
        })
    }

    fn table(&mut self, table: &Table) {
        self.text(&table.name);
        self.raw(":");
        let mut next = "{";
        let mut field = |writer: &mut Self, name: &str| {
            writer.raw(std::mem::replace(&mut next, ","));
            writer.raw(name);
        };
        if !table.key.is_empty() {
            field(self, "\"key\":");
            self.items(["[", "]"], &table.key, |writer, name| writer.text(name));
        }
        if !table.columns.is_empty() {
            field(self, "\"columns\":");
            self.items(["{", "}"], &table.columns, |writer, (name, kind)| {
                writer.text(name);
                writer.raw(":");
                match table.columns_by_anything.contains(name) {
                    true => {
                        writer.raw("{\"type\":");
                        writer.text(kind);
                        writer.raw(",\"written-by\":\"anything\"}");
                    }
                    false => writer.text(kind),
                }
            });
        }
        if table.initial_unknown {
            field(self, "\"initial\":\"unknown\"");
        }
        if table.written_by_anything {
            field(self, "\"written-by\":\"anything\"");
        }
        self.raw(if next == "{" { "{}" } else { "}" });
    }

    /// A field with a text, if there is one.
    fn optional(&mut self, field: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.raw(field);
            self.text(text);
        }
    }

    /// An operation of a session and a transaction, by their labels.
    ///
    /// # Errors
    /// What JSON has no word for.
    pub fn op(
        &mut self,
        names: Names<'_>,
        (session, txn): (u64, u64),
        at: Option<Interval>,
        kind: OpKind,
        accesses: &[Access],
        detail: &OpDetail<'_>,
    ) -> Result<(), Beyond> {
        self.raw("{\"session\":");
        self.uint(session);
        self.raw(",\"txn\":");
        self.uint(txn);
        if let Some(at) = at {
            self.raw(",\"at\":[");
            self.int(at.before);
            self.raw(",");
            self.int(at.after);
            self.raw("]");
        }
        self.raw(",\"");
        self.raw(kind.name());
        self.raw("\":");
        match *detail {
            OpDetail::None if matches!(kind, OpKind::Read | OpKind::Write | OpKind::Append) => {
                self.accesses(names, accesses)
            }
            OpDetail::Scan { table, condition, observed } => {
                self.asked(names.table(table), condition);
                self.raw("}");
                self.rows(names, observed, accesses)
            }
            OpDetail::Update { table, condition, set, observed } => {
                self.asked(names.table(table), condition);
                self.raw(",\"set\":");
                match set {
                    Some(set) => self.text(set),
                    None => self.raw("null"),
                }
                self.raw("}");
                self.rows(names, observed, accesses)
            }
            OpDetail::None | OpDetail::Begin { .. } | OpDetail::Sql { .. } if !accesses.is_empty() => {
                Err(Beyond("accesses of an operation of this kind"))
            }
            OpDetail::None => {
                self.raw("true");
                Ok(())
            }
            OpDetail::Begin { level, read_only, unit } => {
                self.raw("true");
                self.optional(",\"level\":", level);
                self.raw(if read_only { ",\"read-only\":true" } else { "" });
                self.optional(",\"unit\":", unit);
                Ok(())
            }
            OpDetail::Sql { text, params, rows, count } => {
                self.text(text);
                self.statement(names, params, rows, count)
            }
        }
    }

    fn asked(&mut self, table: &Table, condition: &str) {
        self.raw("{\"table\":");
        self.text(&table.name);
        self.raw(",\"where\":");
        self.text(condition);
    }

    fn rows(&mut self, names: Names<'_>, observed: bool, accesses: &[Access]) -> Result<(), Beyond> {
        match observed {
            true => {
                self.raw(",\"rows\":");
                self.accesses(names, accesses)
            }
            false if !accesses.is_empty() => Err(Beyond("rows that were not observed")),
            false => Ok(()),
        }
    }

    fn statement(
        &mut self,
        names: Names<'_>,
        params: &[ValueId],
        rows: Option<&[ValueId]>,
        count: Option<u64>,
    ) -> Result<(), Beyond> {
        if !params.is_empty() {
            self.raw(",\"params\":");
            self.values(names, params)?;
        }
        if let Some(rows) = rows {
            self.raw(",\"rows\":");
            if rows.iter().any(|&row| !matches!(names.value(row), Value::List(_))) {
                return Err(Beyond("a result tuple that is no list"));
            }
            self.values(names, rows)?;
        }
        if let Some(count) = count {
            self.raw(",\"count\":");
            self.uint(count);
        }
        Ok(())
    }

    fn accesses(&mut self, names: Names<'_>, accesses: &[Access]) -> Result<(), Beyond> {
        self.try_items(accesses, |writer, access| writer.pair(names, access.object, access.value))
    }

    /// An object and what it holds, if that is known.
    fn pair(&mut self, names: Names<'_>, object: ObjectId, value: ValueId) -> Result<(), Beyond> {
        self.raw("[");
        self.object(names, object)?;
        if value != ValueId::UNKNOWN {
            self.raw(",");
            self.value(names, value)?;
        }
        self.raw("]");
        Ok(())
    }

    /// An object.
    ///
    /// # Errors
    /// What JSON has no word for.
    pub fn object(&mut self, names: Names<'_>, id: ObjectId) -> Result<(), Beyond> {
        let object = names.object(id);
        let scalar = match names.value(object.key) {
            Value::Null | Value::Row(_) => return Err(Beyond("a key that is absent or a row")),
            Value::List(_) => false,
            _ => true,
        };
        match object.table {
            None if scalar => return self.value(names, object.key),
            None => self.raw("[null"),
            Some(table) => {
                self.raw("[");
                self.text(&names.table(table).name);
            }
        }
        self.raw(",");
        self.value(names, object.key)?;
        self.raw("]");
        Ok(())
    }

    /// A value.
    ///
    /// # Errors
    /// What JSON has no word for.
    pub fn value(&mut self, names: Names<'_>, id: ValueId) -> Result<(), Beyond> {
        match names.value(id) {
            Value::Null => self.raw("null"),
            Value::Unknown => return Err(Beyond("a value that is not known inside another")),
            Value::Bool(bool) => self.raw(if bool { "true" } else { "false" }),
            Value::Int(int) => self.int(int),
            Value::UInt(uint) => self.uint(uint),
            Value::Float(float) if float.is_finite() => self.raw(&format!("{float:?}")),
            Value::Float(_) => return Err(Beyond("a number that is infinite or none")),
            Value::Text(text) => self.text(text),
            Value::List(items) => return self.values(names, items),
            Value::Row(columns) => return self.row(names, columns),
        }
        Ok(())
    }

    fn values(&mut self, names: Names<'_>, items: &[ValueId]) -> Result<(), Beyond> {
        self.try_items(items, |writer, &item| writer.value(names, item))
    }

    /// Columns go by name: their ids depend on who was met first.
    fn row(&mut self, names: Names<'_>, columns: &[(NameId, ValueId)]) -> Result<(), Beyond> {
        let mut sorted: Vec<_> = columns.iter().map(|&(name, value)| (names.name(name), value)).collect();
        sorted.sort_unstable_by_key(|&(name, _)| name);
        self.try_between(["{", "}"], &sorted, |writer, &(name, value)| {
            writer.text(name);
            writer.raw(":");
            writer.value(names, value)
        })
    }

    /// That these transactions wrote an object one after the other; without a label it is the
    /// initial version.
    ///
    /// # Errors
    /// What JSON has no word for.
    pub fn version_order(
        &mut self,
        names: Names<'_>,
        object: ObjectId,
        versions: &[Option<u64>],
    ) -> Result<(), Beyond> {
        self.raw("{\"evidence\":\"version-order\",\"object\":");
        self.object(names, object)?;
        self.raw(",\"txns\":");
        self.items(["[", "]"], versions, |writer, &version| writer.version(version));
        Ok(())
    }

    /// Which versions an operation of a transaction saw.
    ///
    /// # Errors
    /// The first object that JSON has no word for.
    pub fn version_set(
        &mut self,
        names: Names<'_>,
        (txn, op): (u64, u32),
        versions: &[(ObjectId, Option<u64>)],
    ) -> Result<(), (ObjectId, Beyond)> {
        self.raw("{\"evidence\":\"version-set\",\"txn\":");
        self.uint(txn);
        self.raw(",\"op\":");
        self.uint(op.into());
        self.raw(",\"rows\":");
        self.try_items(versions, |writer, &(object, version)| {
            writer.raw("[");
            writer.object(names, object).map_err(|beyond| (object, beyond))?;
            writer.raw(",");
            writer.version(version);
            writer.raw("]");
            Ok(())
        })
    }

    fn version(&mut self, version: Option<u64>) {
        match version {
            Some(txn) => self.uint(txn),
            None => self.raw("null"),
        }
    }

    /// A timestamp of a transaction: `snapshot`, `commit` or `serialization`.
    pub fn stamp(&mut self, kind: &str, txn: u64, ts: i64) {
        self.raw("{\"evidence\":\"");
        self.raw(kind);
        self.raw("\",\"txn\":");
        self.uint(txn);
        self.raw(",\"ts\":");
        self.int(ts);
    }

    /// JSON as it is.
    pub fn raw(&mut self, json: &str) {
        self.line.extend_from_slice(json.as_bytes());
    }

    fn int(&mut self, int: i64) {
        if int < 0 {
            self.raw("-");
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

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.raw("\"");
        for &byte in text.as_bytes() {
            match byte {
                b'"' | b'\\' => self.line.extend([b'\\', byte]),
                b'\n' => self.raw("\\n"),
                b'\r' => self.raw("\\r"),
                b'\t' => self.raw("\\t"),
                0..0x20 => self.raw(&format!("\\u{byte:04x}")),
                _ => self.line.push(byte),
            }
        }
        self.raw("\"");
    }

    /// Items between brackets.
    fn items<T>(&mut self, between: [&str; 2], items: &[T], each: impl Fn(&mut Self, &T)) {
        let Ok(()) = self.try_between(between, items, |writer, item| {
            each(writer, item);
            Ok::<_, std::convert::Infallible>(())
        });
    }

    fn try_items<T, E>(
        &mut self,
        items: &[T],
        each: impl Fn(&mut Self, &T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.try_between(["[", "]"], items, each)
    }

    fn try_between<T, E>(
        &mut self,
        [open, close]: [&str; 2],
        items: &[T],
        each: impl Fn(&mut Self, &T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.raw(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.raw(",");
            }
            each(self, item)?;
        }
        self.raw(close);
        Ok(())
    }
}
