//! Reads the binary form.

use std::sync::Arc;

use flate2::Crc;
use margay_history::{
    Access, Begin, Columns, Header, History, Interval, NameId, Object, ObjectId, OpId, OpKind, Predicate,
    PredicateId, Scan, Statement, Table, TableId, TxnId, Unit, Update, ValueId, Version, VersionOrder,
    VersionSet,
};

use super::codec::Section;
use super::{
    FIXED_VALUES, FLOAT, HAS_COUNT, HAS_LEVEL, HAS_ROWS, HAS_SET, HAS_UNIT, INITIAL_UNKNOWN, INT, LIST,
    MAGIC, MANY_ACCESSES, OBSERVED, READ_ONLY, ROW, SECTIONS, TEXT, UINT, VERSIONS, WRITTEN_BY_ANYTHING,
};
use crate::FormatError;
use crate::input::{Bytes, Input};

pub(crate) fn read(input: Input<'_>) -> Result<History, FormatError> {
    let mut file = File { bytes: input.bytes()?, crc: Crc::new(), next: 0 };
    let sections = file.preamble()?;
    let mut columns = Columns::default();
    for read in &READERS[..sections] {
        file.section(&mut columns, *read)?;
    }
    file.checksum()?;
    columns.into_history().map_err(FormatError::from)
}

type Read = fn(&mut Columns, &mut Section<'_>) -> Result<(), FormatError>;

/// The readers of all sections, in the order of [`SECTIONS`].
const READERS: [Read; SECTIONS.len()] = [
    header,
    tables,
    names,
    values,
    objects,
    predicates,
    initial,
    sessions,
    transactions,
    operations,
    intervals,
    accesses,
    scans,
    updates,
    statements,
    version_orders,
    version_sets,
    |columns, section| section.all(stamp).map(|all| columns.evidence.snapshots = all),
    |columns, section| section.all(stamp).map(|all| columns.evidence.commits = all),
    |columns, section| section.all(stamp).map(|all| columns.evidence.serializations = all),
    begins,
    open_tables,
];

struct File<'a> {
    bytes: Bytes<'a>,
    crc: Crc,
    /// The section that comes next.
    next: usize,
}

impl File<'_> {
    /// Reads what comes before the sections, and answers how many there are.
    fn preamble(&mut self) -> Result<usize, FormatError> {
        let magic: [u8; 8] = self.bytes.array()?;
        if magic != *MAGIC {
            return Err(self.bytes.error_at(0, "this is not a history in the format margay-bin"));
        }
        let version: [u8; 1] = self.bytes.array()?;
        let Some(&(_, sections)) = VERSIONS.iter().find(|(known, _)| *known == version[0]) else {
            let what = format!("this is version {} of the format; this Margay reads 1 and 2", version[0]);
            return Err(self.bytes.error_at(8, what));
        };
        self.crc.update(&magic);
        self.crc.update(&version);
        Ok(sections)
    }

    fn section(&mut self, columns: &mut Columns, read: Read) -> Result<(), FormatError> {
        let name = SECTIONS[self.next];
        self.next += 1;
        let start = self.bytes.offset();
        let count = self.number()?;
        let length = self.number()?;
        // Ids have 32 bits; a section above that cannot be one of ours.
        if length >= u64::from(u32::MAX) || count > length {
            let what = format!("the section of {name} claims {count} elements in {length} bytes");
            return Err(self.bytes.error_at(start, what));
        }
        let offset = self.bytes.offset();
        let bytes = self.bytes.vec(length)?;
        self.crc.update(&bytes);
        let mut section = Section { name, count: count as usize, bytes: &bytes, at: 0, offset };
        read(columns, &mut section)?;
        match section.at == bytes.len() {
            true => Ok(()),
            false => Err(section.error("something follows the last element")),
        }
    }

    fn number(&mut self) -> Result<u64, FormatError> {
        let start = self.bytes.offset();
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte: [u8; 1] = self.bytes.array()?;
            self.crc.update(&byte);
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(number);
            }
        }
        Err(self.bytes.error_at(start, "a number is too long"))
    }

    fn checksum(&mut self) -> Result<(), FormatError> {
        let at = self.bytes.offset();
        let expected = u32::from_le_bytes(self.bytes.array()?);
        if expected != self.crc.sum() {
            return Err(self.bytes.error_at(at, "the checksum is wrong: the file is damaged"));
        }
        match self.bytes.at_end()? {
            true => Ok(()),
            false => Err(self.bytes.error("something follows the end of the history")),
        }
    }
}

fn header(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    let unit = Unit::from_name(section.text()?).ok_or_else(|| section.error("an unknown unit of time"))?;
    let skew = section.int()?;
    let mut optional = || match section.byte()? {
        0 => Ok(None),
        _ => section.text().map(|text| Some(text.to_string())),
    };
    columns.header = Header { unit, skew, dbms: optional()?, level: optional()? };
    Ok(())
}

fn tables(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.tables = section.all(|section| {
        let name = section.text()?.to_string();
        let key = section.texts()?;
        let length = section.length()?;
        let columns =
            section.many(length, |section| Ok((section.text()?.to_string(), section.text()?.to_string())))?;
        Ok(Table { name, key, columns, ..Table::default() })
    })?;
    Ok(())
}

fn names(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    for expected in 0..section.count {
        if columns.values.intern_name(section.text()?).index() != expected {
            return Err(section.error("a name occurs twice"));
        }
    }
    Ok(())
}

fn values(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    let mut extents = Extents::default();
    for expected in FIXED_VALUES..FIXED_VALUES + section.count {
        let id = value(columns, section, &mut extents)?;
        if id.small_int().is_some() || id.index() != expected {
            return Err(section.error("a value occurs twice"));
        }
    }
    Ok(())
}

/// How deep values are, and how large they are when written out. Values are named by later ones, so
/// a small file could name one that fills the stack or the memory of whoever shows it.
#[derive(Default)]
struct Extents {
    /// Of the values that are listed, in their order.
    all: Vec<(usize, u64)>,
}

/// How deep a value may be: more than any other format gives.
const MAX_DEPTH: usize = 256;
/// How large a value may be when written out: what a line of JSON can hold.
const MAX_SIZE: u64 = crate::lines::LINE_LIMIT as u64;

impl Extents {
    fn add<'v>(
        &mut self,
        section: &Section<'_>,
        parts: impl Iterator<Item = &'v ValueId>,
    ) -> Result<(), FormatError> {
        let (mut depth, mut size) = (0, 1_u64);
        for part in parts {
            let listed = part.small_int().is_none().then(|| part.index().checked_sub(FIXED_VALUES)).flatten();
            let (below, inside) = listed.and_then(|at| self.all.get(at).copied()).unwrap_or((0, 1));
            (depth, size) = (depth.max(below + 1), size.saturating_add(inside));
        }
        if depth > MAX_DEPTH || size > MAX_SIZE {
            return Err(section.error("a value that is nested too deeply or too large"));
        }
        self.all.push((depth, size));
        Ok(())
    }
}

fn value(
    columns: &mut Columns,
    section: &mut Section<'_>,
    extents: &mut Extents,
) -> Result<ValueId, FormatError> {
    let values = &mut columns.values;
    let kind = section.byte()?;
    if !matches!(kind, LIST | ROW) {
        extents.add(section, [].iter())?;
    }
    Ok(match kind {
        INT => values.int(section.int()?),
        UINT => values.uint(section.uint()?),
        FLOAT => {
            let mut bits = [0; 8];
            bits.copy_from_slice(section.slice(8)?);
            values.float(f64::from_bits(u64::from_le_bytes(bits)))
        }
        TEXT => values.text(section.text()?),
        LIST => {
            let items = section.values()?;
            extents.add(section, items.iter())?;
            match items.iter().all(|&item| values.contains(item)) {
                true => values.list(&items),
                false => return Err(section.error("a list of values that come later")),
            }
        }
        ROW => {
            let length = section.length()?;
            let row = section.many(length, |section| Ok((NameId(section.id()?), section.value()?)))?;
            let known = |&(name, value): &(NameId, ValueId)| {
                name.index() < values.name_count() && values.contains(value)
            };
            extents.add(section, row.iter().map(|(_, value)| value))?;
            match row.iter().all(known) && row.is_sorted_by(|a, b| a.0 < b.0) {
                true => values.row(&row),
                false => return Err(section.error("a row of names or values that are not there")),
            }
        }
        _ => return Err(section.error("an unknown kind of value")),
    })
}

fn objects(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    for expected in 0..section.count {
        let table = section.id()?.checked_sub(1).map(TableId);
        let object = columns.objects.intern(Object { table, key: section.value()? });
        if object.index() != expected {
            return Err(section.error("an object occurs twice"));
        }
    }
    Ok(())
}

fn predicates(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.predicates = section
        .all(|section| Ok(Predicate { table: TableId(section.id()?), text: section.text()?.into() }))?;
    Ok(())
}

fn initial(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.initial = section.all(|section| Ok((ObjectId(section.id()?), section.value()?)))?;
    Ok(())
}

fn sessions(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.sessions = section.all(|section| Ok((section.uint()?, section.id()?)))?;
    Ok(())
}

fn transactions(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.txn_labels.reserve_exact(section.count);
    columns.txn_ops.reserve_exact(section.count);
    let mut label = 0_u64;
    for _ in 0..section.count {
        label = label.wrapping_add(section.int()? as u64);
        columns.txn_labels.push(label);
        columns.txn_ops.push(section.id()?);
    }
    Ok(())
}

fn operations(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.kinds.reserve_exact(section.count);
    columns.op_starts.reserve_exact(section.count + 1);
    let mut start = 0_u32;
    columns.op_starts.push(start);
    for _ in 0..section.count {
        let byte = section.byte()?;
        let kind = OpKind::ALL
            .get(usize::from(byte & 15))
            .ok_or_else(|| section.error("an unknown kind of operation"))?;
        columns.kinds.push(*kind);
        let accesses = match u32::from(byte >> 4) {
            MANY_ACCESSES => section.id()?,
            few => few,
        };
        start = start.checked_add(accesses).ok_or_else(|| section.error("too many accesses"))?;
        columns.op_starts.push(start);
    }
    Ok(())
}

fn intervals(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    let (ops, timed) = (columns.kinds.len(), section.count);
    let partly = timed > 0 && timed < ops;
    let bits = if partly { section.slice(ops.div_ceil(8))?.to_vec() } else { Vec::new() };
    if timed > 0 {
        columns.intervals.reserve(ops);
    }
    let (mut previous, mut left) = (0_i64, timed);
    for op in 0..ops {
        let has = if partly { bits[op / 8] >> (op % 8) & 1 == 1 } else { timed > 0 };
        if !has {
            columns.intervals.push(None);
            continue;
        }
        left = left.checked_sub(1).ok_or_else(|| section.error("more intervals than there should be"))?;
        let before = previous.wrapping_add(section.int()?);
        let after = before.wrapping_add(section.uint()? as i64);
        columns.intervals.push(Some(Interval { before, after }));
        previous = after;
    }
    if left == 0 { Ok(()) } else { Err(section.error("more intervals than operations")) }
}

fn accesses(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.accesses =
        section.all(|section| Ok(Access { object: ObjectId(section.id()?), value: section.value()? }))?;
    Ok(())
}

fn scans(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.scans = section.all(|section| {
        let (op, predicate) = (OpId(section.id()?), PredicateId(section.id()?));
        Ok((op, Scan { predicate, observed: section.byte()? == OBSERVED }))
    })?;
    Ok(())
}

fn updates(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.updates = section.all(|section| {
        let (op, predicate, flags) = (OpId(section.id()?), PredicateId(section.id()?), section.byte()?);
        let set = if flags & HAS_SET != 0 { Some(section.text()?.into()) } else { None };
        Ok((op, Update { predicate, set, observed: flags & OBSERVED != 0 }))
    })?;
    Ok(())
}

fn statements(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    let mut texts: Vec<Arc<str>> = Vec::new();
    columns.statements = section.all(|section| {
        let op = OpId(section.id()?);
        let text = match section.id()? {
            0 => {
                texts.push(section.text()?.into());
                texts.last().cloned()
            }
            number => texts.get(number as usize - 1).cloned(),
        };
        let text = text.ok_or_else(|| section.error("a statement's text is not there"))?;
        let params = section.values()?.into();
        let flags = section.byte()?;
        let rows = if flags & HAS_ROWS != 0 { Some(section.values()?.into()) } else { None };
        let count = if flags & HAS_COUNT != 0 { Some(section.uint()?) } else { None };
        Ok((op, Statement { text, params, rows, count }))
    })?;
    Ok(())
}

fn version_orders(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.evidence.version_orders = section.all(|section| {
        let (object, length) = (ObjectId(section.id()?), section.length()?);
        Ok(VersionOrder { object, versions: section.many(length, version)? })
    })?;
    Ok(())
}

fn version_sets(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    columns.evidence.version_sets = section.all(|section| {
        let (op, length) = (OpId(section.id()?), section.length()?);
        let versions = section.many(length, |section| Ok((ObjectId(section.id()?), version(section)?)))?;
        Ok(VersionSet { op, versions })
    })?;
    Ok(())
}

fn version(section: &mut Section<'_>) -> Result<Version, FormatError> {
    Ok(match section.id()? {
        0 => Version::Initial,
        txn => Version::Of(TxnId(txn - 1)),
    })
}

fn stamp(section: &mut Section<'_>) -> Result<(TxnId, i64), FormatError> {
    Ok((TxnId(section.id()?), section.int()?))
}

/// They are listed by transaction; their operation is the first one.
fn begins(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    let mut starts = Vec::with_capacity(columns.txn_ops.len());
    let mut start = 0_u32;
    for &ops in &columns.txn_ops {
        starts.push(start);
        start = start.saturating_add(ops);
    }
    columns.begins = section.all(|section| {
        let (txn, flags) = (section.id()?, section.byte()?);
        let op = *starts.get(txn as usize).ok_or_else(|| section.error("a begin of no transaction"))?;
        let level = if flags & HAS_LEVEL != 0 { Some(section.text()?.into()) } else { None };
        let unit = if flags & HAS_UNIT != 0 { Some(section.text()?.into()) } else { None };
        Ok((OpId(op), Begin { level, read_only: flags & READ_ONLY != 0, unit }))
    })?;
    Ok(())
}

fn open_tables(columns: &mut Columns, section: &mut Section<'_>) -> Result<(), FormatError> {
    let mut next = 0;
    for _ in 0..section.count {
        let (number, flags, names) = (section.id()? as usize, section.byte()?, section.texts()?);
        let table = columns.tables.get_mut(number).filter(|_| number >= next);
        let table = table.ok_or_else(|| section.error("no such table, or tables out of order"))?;
        table.initial_unknown = flags & INITIAL_UNKNOWN != 0;
        table.written_by_anything = flags & WRITTEN_BY_ANYTHING != 0;
        table.columns_by_anything = names;
        next = number + 1;
    }
    Ok(())
}
