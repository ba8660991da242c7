//! Writes the native format: session by session, so that reading it back moves nothing.

use std::io::Write;

use margay_history::{
    Access, History, NameId, ObjectId, Op, OpKind, Predicate, PredicateId, SessionId, Statement, TxnId,
    Value, ValueId, Version,
};

use crate::{Format, FormatError};

pub(crate) fn write(history: &History, out: &mut dyn Write) -> Result<(), FormatError> {
    let mut writer = Writer { history, line: Vec::new(), out };
    writer.header()?;
    for session in history.sessions() {
        for txn in history.session_txns(session) {
            for op in history.ops(txn) {
                writer.op(session, txn, op)?;
            }
        }
    }
    writer.evidence()
}

/// Something that JSON has no word for.
struct Beyond(&'static str);

struct Writer<'a> {
    history: &'a History,
    /// The line that is being made.
    line: Vec<u8>,
    out: &'a mut dyn Write,
}

macro_rules! put {
    ($writer:expr, $($arg:tt)*) => {
        // Writing to memory does not fail.
        drop(write!($writer.line, $($arg)*))
    };
}

impl Writer<'_> {
    fn end_line(&mut self) -> Result<(), FormatError> {
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }

    fn header(&mut self) -> Result<(), FormatError> {
        let header = self.history.header();
        put!(self, "{{\"margay\":1,\"unit\":\"{}\",\"skew\":{}", header.unit.name(), header.skew);
        for (name, value) in [("dbms", &header.dbms), ("level", &header.level)] {
            if let Some(value) = value {
                put!(self, ",\"{name}\":");
                self.text(value);
            }
        }
        self.tables();
        self.initial()?;
        self.line.push(b'}');
        self.end_line()
    }

    fn tables(&mut self) {
        if self.history.tables().is_empty() {
            return;
        }
        self.line.extend(b",\"tables\":");
        self.items(b"{}", self.history.tables(), |writer, table| {
            writer.text(&table.name);
            writer.line.extend(b":{");
            if !table.key.is_empty() {
                writer.line.extend(b"\"key\":");
                writer.items(b"[]", &table.key, |writer, name| writer.text(name));
            }
            if !table.columns.is_empty() {
                writer.line.extend(if table.key.is_empty() {
                    b"\"columns\":".as_slice()
                } else {
                    b",\"columns\":"
                });
                writer.items(b"{}", &table.columns, |writer, (name, kind)| {
                    writer.text(name);
                    writer.line.push(b':');
                    writer.text(kind);
                });
            }
            writer.line.push(b'}');
        });
    }

    fn initial(&mut self) -> Result<(), FormatError> {
        let initial = self.history.initial_values();
        if initial.is_empty() {
            return Ok(());
        }
        self.line.extend(b",\"initial\":");
        let pair = |writer: &mut Self, &(object, value): &(ObjectId, ValueId)| {
            writer.line.push(b'[');
            writer.object(object)?;
            if value != ValueId::UNKNOWN {
                writer.line.push(b',');
                writer.value(value)?;
            }
            writer.line.push(b']');
            Ok(())
        };
        self.try_items(initial, pair).map_err(|(&(object, _), Beyond(what))| {
            let object = self.history.show_object(object);
            FormatError::new(format!("initial value of {object}: the format margay cannot carry {what}"))
        })
    }

    fn op(&mut self, session: SessionId, txn: TxnId, op: Op<'_>) -> Result<(), FormatError> {
        put!(
            self,
            "{{\"session\":{},\"txn\":{}",
            self.history.session_label(session),
            self.history.txn_label(txn)
        );
        if let Some(at) = op.at {
            put!(self, ",\"at\":[{},{}]", at.before, at.after);
        }
        put!(self, ",\"{}\":", op.kind.name());
        self.content(op)
            .map_err(|Beyond(what)| FormatError::cannot_carry(Format::Margay, self.history, op.id, what))?;
        self.line.push(b'}');
        self.end_line()
    }

    fn content(&mut self, op: Op<'_>) -> Result<(), Beyond> {
        let history = self.history;
        let bare = op.kind == OpKind::Begin || op.kind == OpKind::Sql || op.kind.outcome().is_some();
        if bare && !op.accesses.is_empty() {
            return Err(Beyond("accesses of an operation of this kind"));
        }
        match op.kind {
            OpKind::Begin | OpKind::Commit | OpKind::Abort | OpKind::Unknown => {
                self.line.extend(b"true");
                Ok(())
            }
            OpKind::Read | OpKind::Write | OpKind::Append => self.accesses(op.accesses),
            OpKind::Scan => {
                let scan = history.scan(op.id).ok_or(Beyond("a scan without what it asked"))?;
                self.asked(scan.predicate);
                self.line.push(b'}');
                self.rows(scan.observed, op.accesses)
            }
            OpKind::Update => {
                let update = history.update(op.id).ok_or(Beyond("an update without what it asked"))?;
                self.asked(update.predicate);
                self.line.extend(b",\"set\":");
                match &update.set {
                    Some(set) => self.text(set),
                    None => self.line.extend(b"null"),
                }
                self.line.push(b'}');
                self.rows(update.observed, op.accesses)
            }
            OpKind::Sql => {
                self.statement(history.statement(op.id).ok_or(Beyond("a statement without its text"))?)
            }
        }
    }

    fn asked(&mut self, predicate: PredicateId) {
        let Predicate { table, text } = self.history.predicate(predicate);
        self.line.extend(b"{\"table\":");
        self.text(&self.history.table(*table).name);
        self.line.extend(b",\"where\":");
        self.text(text);
    }

    fn rows(&mut self, observed: bool, accesses: &[Access]) -> Result<(), Beyond> {
        match observed {
            true => {
                self.line.extend(b",\"rows\":");
                self.accesses(accesses)
            }
            false if !accesses.is_empty() => Err(Beyond("rows that were not observed")),
            false => Ok(()),
        }
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Beyond> {
        self.text(&statement.text);
        if !statement.params.is_empty() {
            self.line.extend(b",\"params\":");
            self.values(&statement.params)?;
        }
        if let Some(rows) = &statement.rows {
            self.line.extend(b",\"rows\":");
            if rows.iter().any(|&row| !matches!(self.history.value(row), Value::List(_))) {
                return Err(Beyond("a result tuple that is no list"));
            }
            self.values(rows)?;
        }
        if let Some(count) = statement.count {
            put!(self, ",\"count\":{count}");
        }
        Ok(())
    }

    fn accesses(&mut self, accesses: &[Access]) -> Result<(), Beyond> {
        let pair = |writer: &mut Self, access: &Access| {
            writer.line.push(b'[');
            writer.object(access.object)?;
            if access.value != ValueId::UNKNOWN {
                writer.line.push(b',');
                writer.value(access.value)?;
            }
            writer.line.push(b']');
            Ok(())
        };
        self.try_items(accesses, pair).map_err(|(_, beyond)| beyond)
    }

    fn object(&mut self, id: ObjectId) -> Result<(), Beyond> {
        let object = self.history.object(id);
        let scalar = match self.history.value(object.key) {
            Value::Null | Value::Row(_) => return Err(Beyond("a key that is absent or a row")),
            Value::List(_) => false,
            _ => true,
        };
        match object.table {
            None if scalar => return self.value(object.key),
            None => self.line.extend(b"[null"),
            Some(table) => {
                self.line.push(b'[');
                self.text(&self.history.table(table).name);
            }
        }
        self.line.push(b',');
        self.value(object.key)?;
        self.line.push(b']');
        Ok(())
    }

    fn value(&mut self, id: ValueId) -> Result<(), Beyond> {
        match self.history.value(id) {
            Value::Null => self.line.extend(b"null"),
            Value::Unknown => return Err(Beyond("a value that is not known inside another")),
            Value::Bool(bool) => put!(self, "{bool}"),
            Value::Int(int) => put!(self, "{int}"),
            Value::UInt(uint) => put!(self, "{uint}"),
            Value::Float(float) if float.is_finite() => put!(self, "{float:?}"),
            Value::Float(_) => return Err(Beyond("a number that is infinite or none")),
            Value::Text(text) => self.text(text),
            Value::List(items) => return self.values(items),
            Value::Row(columns) => return self.row(columns),
        }
        Ok(())
    }

    fn values(&mut self, items: &[ValueId]) -> Result<(), Beyond> {
        self.try_items(items, |writer, &item| writer.value(item)).map_err(|(_, beyond)| beyond)
    }

    /// Columns go by name: their ids depend on who was met first.
    fn row(&mut self, columns: &[(NameId, ValueId)]) -> Result<(), Beyond> {
        let mut sorted: Vec<_> =
            columns.iter().map(|&(name, value)| (self.history.name(name), value)).collect();
        sorted.sort_unstable_by_key(|&(name, _)| name);
        self.line.push(b'{');
        for (i, (name, value)) in sorted.into_iter().enumerate() {
            if i > 0 {
                self.line.push(b',');
            }
            self.text(name);
            self.line.push(b':');
            self.value(value)?;
        }
        self.line.push(b'}');
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.line.push(b'"');
        for &byte in text.as_bytes() {
            match byte {
                b'"' | b'\\' => self.line.extend([b'\\', byte]),
                b'\n' => self.line.extend(b"\\n"),
                b'\r' => self.line.extend(b"\\r"),
                b'\t' => self.line.extend(b"\\t"),
                0..0x20 => put!(self, "\\u{byte:04x}"),
                _ => self.line.push(byte),
            }
        }
        self.line.push(b'"');
    }

    /// Writes items between brackets.
    fn items<T>(&mut self, [open, close]: &[u8; 2], items: &[T], each: impl Fn(&mut Self, &T)) {
        self.line.push(*open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.line.push(b',');
            }
            each(self, item);
        }
        self.line.push(*close);
    }

    /// Writes a list of what may be beyond JSON; answers the item that is.
    fn try_items<'t, T>(
        &mut self,
        items: &'t [T],
        each: impl Fn(&mut Self, &T) -> Result<(), Beyond>,
    ) -> Result<(), (&'t T, Beyond)> {
        self.line.push(b'[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.line.push(b',');
            }
            each(self, item).map_err(|beyond| (item, beyond))?;
        }
        self.line.push(b']');
        Ok(())
    }

    fn evidence(&mut self) -> Result<(), FormatError> {
        let (history, evidence) = (self.history, self.history.evidence());
        for order in &evidence.version_orders {
            self.line.extend(b"{\"evidence\":\"version-order\",\"object\":");
            self.evidence_object(order.object)?;
            self.line.extend(b",\"txns\":");
            self.items(b"[]", &order.versions, |writer, &version| writer.version(version));
            self.line.push(b'}');
            self.end_line()?;
        }
        for set in &evidence.version_sets {
            let (txn, op) = (history.txn_label(history.txn_of(set.op)), history.op_index(set.op));
            put!(self, "{{\"evidence\":\"version-set\",\"txn\":{txn},\"op\":{op},\"rows\":[");
            for (i, &(object, version)) in set.versions.iter().enumerate() {
                self.line.extend(if i > 0 { b",[".as_slice() } else { b"[" });
                self.evidence_object(object)?;
                self.line.push(b',');
                self.version(version);
                self.line.push(b']');
            }
            self.line.extend(b"]}");
            self.end_line()?;
        }
        self.stamps("snapshot", &evidence.snapshots)?;
        self.stamps("commit", &evidence.commits)?;
        self.stamps("serialization", &evidence.serializations)
    }

    fn evidence_object(&mut self, object: ObjectId) -> Result<(), FormatError> {
        self.object(object).map_err(|Beyond(what)| {
            let object = self.history.show_object(object);
            FormatError::new(format!("evidence about {object}: the format margay cannot carry {what}"))
        })
    }

    fn version(&mut self, version: Version) {
        match version {
            Version::Initial => self.line.extend(b"null"),
            Version::Of(txn) => put!(self, "{}", self.history.txn_label(txn)),
        }
    }

    fn stamps(&mut self, kind: &str, stamps: &[(TxnId, i64)]) -> Result<(), FormatError> {
        for &(txn, ts) in stamps {
            let txn = self.history.txn_label(txn);
            put!(self, "{{\"evidence\":\"{kind}\",\"txn\":{txn},\"ts\":{ts}}}");
            self.end_line()?;
        }
        Ok(())
    }
}
