//! Writes the binary form.

use std::io::Write;

use flate2::Crc;
use hashbrown::HashMap;
use margay_history::{History, NameId, Op, OpId, Statement, Table, TxnId, Value, ValueId, Version};

use super::codec::Encoder;
use super::{
    FIXED_VALUES, FLOAT, HAS_COUNT, HAS_LEVEL, HAS_ROWS, HAS_SET, HAS_UNIT, INITIAL_UNKNOWN, INT, LIST,
    MAGIC, MANY_ACCESSES, OBSERVED, READ_ONLY, ROW, SECTIONS, TEXT, UINT, VERSIONS, WRITTEN_BY_ANYTHING,
};
use crate::FormatError;

pub(crate) fn write(history: &History, out: &mut dyn Write) -> Result<(), FormatError> {
    let mut writer = Writer { history, out, crc: Crc::new() };
    writer.raw(MAGIC)?;
    let (version, sections) = VERSIONS[usize::from(has_more(history))];
    writer.raw(&[version])?;
    writer.frame()?;
    writer.operations()?;
    writer.evidence()?;
    if sections == SECTIONS.len() {
        writer.begins_and_tables()?;
    }
    let sum = writer.crc.sum().to_le_bytes();
    writer.raw(&sum)
}

struct Writer<'a> {
    history: &'a History,
    out: &'a mut dyn Write,
    crc: Crc,
}

impl Writer<'_> {
    fn raw(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        self.crc.update(bytes);
        Ok(self.out.write_all(bytes)?)
    }

    fn section(&mut self, count: usize, fill: impl FnOnce(&mut Encoder)) -> Result<(), FormatError> {
        let mut section = Encoder::default();
        fill(&mut section);
        let mut head = Encoder::default();
        head.count(count);
        head.count(section.bytes.len());
        self.raw(&head.bytes)?;
        self.raw(&section.bytes)
    }

    /// A section of the elements of a slice.
    fn each<T>(&mut self, items: &[T], put: impl Fn(&mut Encoder, &T)) -> Result<(), FormatError> {
        self.section(items.len(), |out| items.iter().for_each(|item| put(out, item)))
    }

    fn frame(&mut self) -> Result<(), FormatError> {
        let history = self.history;
        self.section(1, |out| put_header(out, history))?;
        self.each(history.tables(), |out, table| {
            out.text(&table.name);
            out.count(table.key.len());
            table.key.iter().for_each(|name| out.text(name));
            out.count(table.columns.len());
            for (name, kind) in &table.columns {
                out.text(name);
                out.text(kind);
            }
        })?;
        let values = history.values();
        self.section(values.name_count(), |out| {
            (0..values.name_count()).for_each(|name| out.text(values.name(NameId::at(name))));
        })?;
        self.section(values.len() - FIXED_VALUES, |out| {
            (FIXED_VALUES..values.len()).for_each(|id| put_value(out, values.get(ValueId::at(id))));
        })?;
        self.section(history.object_count(), |out| {
            for object in history.objects().map(|id| history.object(id)) {
                out.uint(object.table.map_or(0, |table| u64::from(table.0) + 1));
                out.value(object.key);
            }
        })?;
        self.each(history.predicates(), |out, predicate| {
            out.uint(u64::from(predicate.table.0));
            out.text(&predicate.text);
        })?;
        self.each(history.initial_values(), |out, &(object, value)| {
            out.uint(u64::from(object.0));
            out.value(value);
        })
    }

    fn operations(&mut self) -> Result<(), FormatError> {
        let history = self.history;
        self.section(history.session_count(), |out| {
            for session in history.sessions() {
                out.uint(history.session_label(session));
                out.count(history.session_txns(session).len());
            }
        })?;
        self.section(history.txn_count(), |out| {
            let mut previous = 0;
            for txn in history.txns() {
                let label = history.txn_label(txn);
                out.int(label.wrapping_sub(previous) as i64);
                out.count(history.op_range(txn).len());
                previous = label;
            }
        })?;
        self.section(history.op_count(), |out| ops(history).for_each(|op| put_op(out, op)))?;
        let timed = ops(history).filter(|op| op.at.is_some()).count();
        self.section(timed, |out| put_intervals(out, history, timed))?;
        let accesses = ops(history).map(|op| op.accesses.len()).sum();
        self.section(accesses, |out| {
            for access in ops(history).flat_map(|op| op.accesses) {
                out.uint(u64::from(access.object.0));
                out.value(access.value);
            }
        })?;
        self.details()
    }

    fn details(&mut self) -> Result<(), FormatError> {
        let history = self.history;
        let scans: Vec<_> = ops(history).filter_map(|op| Some((op.id, history.scan(op.id)?))).collect();
        self.each(&scans, |out, (op, scan)| {
            out.uint(u64::from(op.0));
            out.uint(u64::from(scan.predicate.0));
            out.byte(u8::from(scan.observed));
        })?;
        let updates: Vec<_> = ops(history).filter_map(|op| Some((op.id, history.update(op.id)?))).collect();
        self.each(&updates, |out, (op, update)| {
            out.uint(u64::from(op.0));
            out.uint(u64::from(update.predicate.0));
            let flags = if update.observed { OBSERVED } else { 0 };
            out.byte(flags | if update.set.is_some() { HAS_SET } else { 0 });
            update.set.iter().for_each(|set| out.text(set));
        })?;
        let statements: Vec<_> =
            ops(history).filter_map(|op| Some((op.id, history.statement(op.id)?))).collect();
        self.section(statements.len(), |out| put_statements(out, &statements))
    }

    fn evidence(&mut self) -> Result<(), FormatError> {
        let evidence = self.history.evidence();
        self.each(&evidence.version_orders, |out, order| {
            out.uint(u64::from(order.object.0));
            out.count(order.versions.len());
            order.versions.iter().for_each(|&version| put_version(out, version));
        })?;
        self.each(&evidence.version_sets, |out, set| {
            out.uint(u64::from(set.op.0));
            out.count(set.versions.len());
            for &(object, version) in &set.versions {
                out.uint(u64::from(object.0));
                put_version(out, version);
            }
        })?;
        let stamp = |out: &mut Encoder, &(txn, ts): &(TxnId, i64)| {
            out.uint(u64::from(txn.0));
            out.int(ts);
        };
        self.each(&evidence.snapshots, stamp)?;
        self.each(&evidence.commits, stamp)?;
        self.each(&evidence.serializations, stamp)
    }

    /// The sections that only the second version has.
    fn begins_and_tables(&mut self) -> Result<(), FormatError> {
        let begins: Vec<_> = self.history.begins().collect();
        self.each(&begins, |out, (txn, begin)| {
            out.uint(u64::from(txn.0));
            let flag = |is: bool, flag| if is { flag } else { 0 };
            out.byte(
                flag(begin.level.is_some(), HAS_LEVEL)
                    | flag(begin.unit.is_some(), HAS_UNIT)
                    | flag(begin.read_only, READ_ONLY),
            );
            begin.level.iter().chain(&begin.unit).for_each(|text| out.text(text));
        })?;
        let open: Vec<_> =
            self.history.tables().iter().enumerate().filter(|(_, table)| is_open(table)).collect();
        self.each(&open, |out, (number, table)| {
            out.count(*number);
            let initial = if table.initial_unknown { INITIAL_UNKNOWN } else { 0 };
            out.byte(initial | if table.written_by_anything { WRITTEN_BY_ANYTHING } else { 0 });
            out.count(table.columns_by_anything.len());
            table.columns_by_anything.iter().for_each(|name| out.text(name));
        })
    }
}

/// Whether the history needs the sections of the second version.
fn has_more(history: &History) -> bool {
    history.begins().next().is_some() || history.tables().iter().any(is_open)
}

fn is_open(table: &Table) -> bool {
    table.initial_unknown || table.has_unseen_writers()
}

fn ops(history: &History) -> impl Iterator<Item = Op<'_>> {
    (0..history.op_count()).map(|op| history.op(OpId::at(op)))
}

fn put_header(out: &mut Encoder, history: &History) {
    let header = history.header();
    out.text(header.unit.name());
    out.int(header.skew);
    for text in [&header.dbms, &header.level] {
        out.byte(u8::from(text.is_some()));
        text.iter().for_each(|text| out.text(text));
    }
}

fn put_value(out: &mut Encoder, value: Value<'_>) {
    match value {
        Value::Int(int) => {
            out.byte(INT);
            out.int(int);
        }
        Value::UInt(uint) => {
            out.byte(UINT);
            out.uint(uint);
        }
        Value::Float(float) => {
            out.byte(FLOAT);
            out.bytes.extend(float.to_bits().to_le_bytes());
        }
        Value::Text(text) => {
            out.byte(TEXT);
            out.text(text);
        }
        Value::List(items) => {
            out.byte(LIST);
            out.values(items);
        }
        Value::Row(columns) => {
            out.byte(ROW);
            out.count(columns.len());
            for &(name, value) in columns {
                out.uint(u64::from(name.0));
                out.value(value);
            }
        }
        Value::Null | Value::Unknown | Value::Bool(_) => {
            unreachable!("the fixed values come before all others")
        }
    }
}

fn put_op(out: &mut Encoder, op: Op<'_>) {
    let count = op.accesses.len();
    let few = (count as u64).min(u64::from(MANY_ACCESSES)) as u8;
    out.byte(op.kind as u8 | few << 4);
    if few == MANY_ACCESSES as u8 {
        out.count(count);
    }
}

/// Which operations have an interval, unless all or none do; then each interval against the one
/// before it.
fn put_intervals(out: &mut Encoder, history: &History, timed: usize) {
    if timed > 0 && timed < history.op_count() {
        let mut bits = vec![0_u8; history.op_count().div_ceil(8)];
        for op in ops(history).filter(|op| op.at.is_some()) {
            bits[op.id.index() / 8] |= 1 << (op.id.index() % 8);
        }
        out.bytes.extend(bits);
    }
    let mut previous = 0_i64;
    for at in ops(history).filter_map(|op| op.at) {
        out.int(at.before.wrapping_sub(previous));
        out.uint(at.after.wrapping_sub(at.before) as u64);
        previous = at.after;
    }
}

/// A text is written where it first occurs, with number 0; later it is named by its place among all
/// texts, from 1.
fn put_statements(out: &mut Encoder, statements: &[(OpId, &Statement)]) {
    let mut texts: HashMap<&str, u64> = HashMap::new();
    for &(op, statement) in statements {
        out.uint(u64::from(op.0));
        let next = texts.len() as u64 + 1;
        match texts.insert(&statement.text, next) {
            Some(known) => {
                texts.insert(&statement.text, known);
                out.uint(known);
            }
            None => {
                out.uint(0);
                out.text(&statement.text);
            }
        }
        out.values(&statement.params);
        let flags = if statement.rows.is_some() { HAS_ROWS } else { 0 };
        out.byte(flags | if statement.count.is_some() { HAS_COUNT } else { 0 });
        statement.rows.iter().for_each(|rows| out.values(rows));
        statement.count.iter().for_each(|&count| out.uint(count));
    }
}

fn put_version(out: &mut Encoder, version: Version) {
    match version {
        Version::Initial => out.uint(0),
        Version::Of(txn) => out.uint(u64::from(txn.0) + 1),
    }
}
