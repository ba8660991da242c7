//! `vbox`: a directory of Vbox logs, one per session, with intervals and range predicates.
//!
//! # Mapping
//! A key is a row of the table `vbox` with the key column `k`; field 7 is its column `f7`. A
//! version is (transaction, operation) there, and different versions may have equal values, so
//! every row has a column `version` with the text `TXN.OP`: a read of an overwritten write stays
//! one. A predicate on field 7 is a scan with the condition `f7 >= LEFT AND f7 <= RIGHT`.
//!
//! A write of some fields leaves the others as they are, as writes of rows do.
//!
//! The initial version (transaction 0, operation 0) is absent, unless a predicate returned it: then
//! its bounds must pin its value.
//!
//! A version that no log has is a row that nobody wrote: its column `version` is all that is known
//! of it. Some logs give a row of a predicate the number of its transaction where that of the
//! operation belongs. Then the row is the last version that the transaction made of the key, of
//! those that the predicate can have returned.

use hashbrown::{HashMap, HashSet};
use margay_history::{
    Access, History, HistoryBuilder, Interval, Invalid, ObjectId, OpDetail, OpKind, Table, TableId, ValueId,
};

use super::places::{Places, session_number};
use crate::input::{Bytes, Input};
use crate::{FormatError, Warnings};

/// The table of all rows.
pub(super) const TABLE: &str = "vbox";

pub(crate) fn read(input: Input<'_>, _: &mut Warnings) -> Result<History, FormatError> {
    let mut places = Places::default();
    let mut logs = Logs::default();
    let mut taken = HashSet::new();
    for file in input.logs(|file| file.name.ends_with(".log") || !file.name.contains('.'))? {
        let session = session_number(file.file_name(), &mut taken);
        let input = file.open()?;
        let base = places.begin(&input.name);
        logs.file(input.bytes()?, session, base)?;
    }
    logs.build().map_err(|invalid| places.invalid(invalid))
}

/// A version: transaction and operation; (0, 0) is the initial one.
type Version = (u32, u32);

const INITIAL: Version = (0, 0);

struct Record {
    place: u64,
    op: u32,
    at: Interval,
    what: What,
}

enum What {
    Begin,
    Commit,
    Abort,
    Write { key: u64, field: u64, value: u32 },
    Read { key: u64, from: Version },
    Predicate { field: u64, left: u32, right: u32, rows: Vec<(u64, Version)> },
}

/// The records of one transaction.
struct Txn {
    session: u64,
    id: u32,
    place: u64,
    at: Interval,
    records: Vec<Record>,
}

#[derive(Default)]
struct Logs {
    txns: Vec<Txn>,
}

impl Logs {
    fn file(&mut self, mut bytes: Bytes<'_>, session: u64, base: u64) -> Result<(), FormatError> {
        let mut open = false;
        while !bytes.at_end()? {
            let at = bytes.offset();
            let [tag] = bytes.array()?;
            if tag == b'T' {
                let id = int(&mut bytes)?;
                let interval = interval(&mut bytes, at)?;
                self.txns.push(Txn { session, id, place: base + at, at: interval, records: Vec::new() });
                open = true;
                continue;
            }
            let Some(txn) = self.txns.last_mut().filter(|_| open) else {
                return Err(bytes.error_at(at, "expected the start of a transaction ('T')"));
            };
            let op = int(&mut bytes)?;
            let interval = interval(&mut bytes, at)?;
            let what = what(&mut bytes, tag, at)?;
            txn.records.push(Record { place: base + at, op, at: interval, what });
        }
        Ok(())
    }

    fn build(self) -> Result<History, Invalid> {
        let versions = Versions::of(&self.txns)?;
        let mut build = Build::new(versions)?;
        build.initial()?;
        for txn in &self.txns {
            build.txn(txn)?;
        }
        build.builder.finish()
    }
}

fn int(bytes: &mut Bytes<'_>) -> Result<u32, FormatError> {
    bytes.array().map(u32::from_le_bytes)
}

fn long(bytes: &mut Bytes<'_>) -> Result<u64, FormatError> {
    bytes.array().map(u64::from_le_bytes)
}

fn interval(bytes: &mut Bytes<'_>, record: u64) -> Result<Interval, FormatError> {
    let (start, end) = (long(bytes)?, long(bytes)?);
    match (i64::try_from(start), i64::try_from(end)) {
        (Ok(start), Ok(end)) => Ok(Interval::new(start, end)),
        _ => Err(bytes.error_at(record, "a time of more than 63 bits")),
    }
}

fn what(bytes: &mut Bytes<'_>, tag: u8, record: u64) -> Result<What, FormatError> {
    Ok(match tag {
        b'S' => What::Begin,
        b'C' => What::Commit,
        b'A' => What::Abort,
        b'W' => What::Write { key: long(bytes)?, field: long(bytes)?, value: int(bytes)? },
        b'R' => What::Read { key: long(bytes)?, from: (int(bytes)?, int(bytes)?) },
        b'P' => {
            let (field, left, right) = (long(bytes)?, int(bytes)?, int(bytes)?);
            What::Predicate { field, left, right, rows: rows(bytes)? }
        }
        other => {
            return Err(
                bytes.error_at(record, format!("expected one of T, S, C, A, W, R, P, found byte {other}"))
            );
        }
    })
}

/// What a predicate returned: keys, then transactions, then operations. Memory grows with what is
/// there.
fn rows(bytes: &mut Bytes<'_>) -> Result<Vec<(u64, Version)>, FormatError> {
    let count = int(bytes)?;
    let keys = bytes.vec(u64::from(count) * 8)?;
    let txns = bytes.vec(u64::from(count) * 4)?;
    let ops = bytes.vec(u64::from(count) * 4)?;
    let ints = |bytes: &[u8]| -> Vec<u32> {
        bytes.as_chunks::<4>().0.iter().map(|&chunk| u32::from_le_bytes(chunk)).collect()
    };
    let keys = keys.as_chunks::<8>().0.iter().map(|&chunk| u64::from_le_bytes(chunk));
    Ok(keys.zip(ints(&txns).into_iter().zip(ints(&ops))).collect())
}

/// What the logs say about versions.
#[derive(Default)]
struct Versions {
    /// Whether rows of predicates name their transaction twice, and no operation.
    without_ops: bool,
    /// The operations of a transaction that write a key, in their order.
    ops: HashMap<(u64, u32), Vec<u32>>,
    /// The fields of each version of a key, by field.
    rows: HashMap<(u64, Version), Vec<(u64, u32)>>,
    /// The fields of the initial version of a key, where they are known.
    initial: HashMap<u64, Vec<(u64, u32)>>,
}

impl Versions {
    fn of(txns: &[Txn]) -> Result<Self, Invalid> {
        let mut versions = Self::default();
        let records = || txns.iter().flat_map(|txn| txn.records.iter().map(move |record| (txn.id, record)));
        for (txn, record) in records() {
            if let What::Write { key, field, value } = &record.what {
                versions.write((txn, record.op), record.place, (*key, *field, *value))?;
                versions.ops.entry((*key, txn)).or_default().push(record.op);
            }
        }
        versions.find_numbering(records().map(|(_, record)| record));
        versions.find_initial(records().map(|(_, record)| record))?;
        Ok(versions)
    }

    fn write(
        &mut self,
        version: Version,
        place: u64,
        (key, field, value): (u64, u64, u32),
    ) -> Result<(), Invalid> {
        let row = self.rows.entry((key, version)).or_default();
        match row.binary_search_by_key(&field, |&(field, _)| field) {
            Ok(_) => Err(Invalid { what: "this operation writes one field of one key twice".into(), place }),
            Err(at) => {
                row.insert(at, (field, value));
                Ok(())
            }
        }
    }

    /// Finds out whether the rows of predicates name operations: not if all of them repeat the
    /// transaction's number, and one names no write by that.
    fn find_numbering<'r>(&mut self, records: impl Iterator<Item = &'r Record>) {
        let mut missing = false;
        for record in records {
            let What::Predicate { rows, .. } = &record.what else { continue };
            for &(key, from) in rows.iter().filter(|(_, from)| *from != INITIAL) {
                if from.0 != from.1 {
                    return;
                }
                missing |= !self.rows.contains_key(&(key, from));
            }
        }
        self.without_ops = missing;
    }

    /// The version of a row that a predicate returned.
    fn of_row(&self, key: u64, from: Version, (field, left, right): (u64, u32, u32)) -> Version {
        if !self.without_ops || from == INITIAL {
            return from;
        }
        let fits = |op: &&u32| {
            let row = self.rows.get(&(key, (from.0, **op))).map_or(&[][..], Vec::as_slice);
            row.iter().any(|&(of, value)| of == field && (left..=right).contains(&value))
        };
        let ops = self.ops.get(&(key, from.0)).map_or(&[][..], Vec::as_slice);
        let last = ops.iter().rev().find(fits).or(ops.last());
        last.map_or(from, |op| (from.0, *op))
    }

    /// Initial values, from the predicates that returned initial versions.
    fn find_initial<'r>(&mut self, records: impl Iterator<Item = &'r Record>) -> Result<(), Invalid> {
        let mut bounds: HashMap<(u64, u64), (u32, u32, u64)> = HashMap::new();
        for record in records {
            let What::Predicate { field, left, right, rows } = &record.what else { continue };
            for &(key, _) in rows.iter().filter(|(_, from)| *from == INITIAL) {
                let known = bounds.entry((key, *field)).or_insert((0, u32::MAX, record.place));
                *known = (known.0.max(*left), known.1.min(*right), known.2);
            }
        }
        for ((key, field), (left, right, at)) in bounds {
            if left != right {
                let what = format!(
                    "the initial value of key {key} is not certain: it lies between {left} and {right}"
                );
                return Err(Invalid { what, place: at });
            }
            self.initial.entry(key).or_default().push((field, left));
        }
        Ok(())
    }
}

struct Build {
    builder: HistoryBuilder,
    versions: Versions,
    table: TableId,
}

impl Build {
    fn new(versions: Versions) -> Result<Self, Invalid> {
        let mut builder = HistoryBuilder::new();
        let table = Table { name: TABLE.to_string(), key: vec!["k".to_string()], ..Table::default() };
        let table = builder.declare_table(table)?;
        Ok(Self { builder, versions, table })
    }

    fn object(&mut self, key: u64) -> ObjectId {
        let key = self.builder.values().uint(key);
        self.builder.object(Some(self.table), key)
    }

    fn initial(&mut self) -> Result<(), Invalid> {
        let keys: Vec<u64> = self.versions.initial.keys().copied().collect();
        for key in keys {
            let (object, value) = (self.object(key), self.initial_row(key));
            self.builder.initial(object, value)?;
        }
        Ok(())
    }

    fn initial_row(&mut self, key: u64) -> ValueId {
        let fields = self.versions.initial.get(&key).map_or(&[][..], Vec::as_slice);
        let values = self.builder.values();
        let column = |&(field, value): &(u64, u32)| {
            (values.intern_name(&format!("f{field}")), values.uint(u64::from(value)))
        };
        let columns: Vec<_> = fields.iter().map(column).collect();
        if columns.is_empty() { ValueId::NULL } else { values.row(&columns) }
    }

    /// The row that a version of a key is. `known` is what is known of one that no log has.
    fn row(&mut self, key: u64, version: Version, known: &[(u64, u32)]) -> ValueId {
        if version == INITIAL {
            return self.initial_row(key);
        }
        let fields = self.versions.rows.get(&(key, version)).map_or(known, Vec::as_slice);
        let values = self.builder.values();
        let mut columns = Vec::with_capacity(fields.len() + 1);
        for &(field, value) in fields {
            columns.push((values.intern_name(&format!("f{field}")), values.uint(u64::from(value))));
        }
        let tag = values.text(&format!("{}.{}", version.0, version.1));
        columns.push((values.intern_name("version"), tag));
        values.row(&columns)
    }

    fn access(&mut self, key: u64, version: Version, known: &[(u64, u32)]) -> Access {
        let value = self.row(key, version, known);
        Access { object: self.object(key), value }
    }

    /// Records of one operation that follow each other are one operation of several accesses.
    fn txn(&mut self, txn: &Txn) -> Result<(), Invalid> {
        let same = |a: &Record, b: &Record| {
            a.op == b.op
                && matches!(
                    (&a.what, &b.what),
                    (What::Write { .. }, What::Write { .. }) | (What::Read { .. }, What::Read { .. })
                )
        };
        for group in txn.records.chunk_by(same) {
            self.builder.at_place(group[0].place);
            self.operation(txn, group)?;
        }
        let ended = matches!(txn.records.last(), Some(Record { what: What::Commit | What::Abort, .. }));
        if !ended {
            let (session, id) = (txn.session, u64::from(txn.id));
            self.builder.at_place(txn.place);
            self.builder.push(session, id, Some(txn.at), OpKind::Unknown, &[], OpDetail::None)?;
        }
        Ok(())
    }

    fn operation(&mut self, txn: &Txn, group: &[Record]) -> Result<(), Invalid> {
        let mut accesses: Vec<Access> = Vec::new();
        let mut condition = None;
        for record in group {
            match &record.what {
                What::Write { key, .. } => {
                    let access = self.access(*key, (txn.id, record.op), &[]);
                    // The row holds all fields that the operation writes.
                    if !accesses.contains(&access) {
                        accesses.push(access);
                    }
                }
                What::Read { key, from } => accesses.push(self.access(*key, *from, &[])),
                What::Predicate { field, left, right, rows } => {
                    for &(key, from) in rows {
                        let version = self.versions.of_row(key, from, (*field, *left, *right));
                        accesses.push(self.access(key, version, &[(*field, *left)]));
                    }
                    condition = Some(format!("f{field} >= {left} AND f{field} <= {right}"));
                }
                What::Begin | What::Commit | What::Abort => {}
            }
        }
        let kind = match group[0].what {
            What::Begin => OpKind::Begin,
            What::Commit => OpKind::Commit,
            What::Abort => OpKind::Abort,
            What::Write { .. } => OpKind::Write,
            What::Read { .. } => OpKind::Read,
            What::Predicate { .. } => OpKind::Scan,
        };
        let detail = match &condition {
            Some(condition) => OpDetail::Scan { table: self.table, condition, observed: true },
            None => OpDetail::None,
        };
        self.builder.push(txn.session, u64::from(txn.id), Some(group[0].at), kind, &accesses, detail)
    }
}
