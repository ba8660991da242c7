//! `cobra`: a directory of Cobra logs, one per session.
//!
//! # Mapping
//! A version is (transaction, write id) there and (object, value) in a history. Values go into the
//! history as they are; where a value does not tell the version, evidence does, or the value gets a
//! tag, so that nothing is lost and no read of garbage looks like another:
//! - a read of a value that several transactions (or one and the initial state) give to the object
//!   comes with a `version-set`;
//! - a read of a write that its transaction overwrites, or has not done yet, and whose value also
//!   comes from elsewhere: both have the text `VALUE of TXN.ID`;
//! - a read of a version that is in no log keeps its value if nobody gives it to the object, else
//!   it is the text `VALUE of TXN.ID`.
//!
//! Reads of the initial id give the object its initial value; the first one counts. In VeriStrong's
//! variant reads do not name their transaction: they are matched by key, write id and value.

use hashbrown::{HashMap, HashSet};
use margay_history::{Access, History, HistoryBuilder, Interval, Invalid, OpDetail, OpKind, Unit, ValueId};

use super::places::{Places, session_number};
use crate::input::{Bytes, Input};
use crate::{FormatError, Warnings};

pub(super) const INITIAL: u64 = 0xbebe_ebee;
pub(super) const NULL: u64 = 0xdead_beef;
pub(super) const DELETE: u64 = 0xabcd_efab;
pub(super) const MISSING: u64 = 0xadea_fbee;
/// The writer of every read in VeriStrong's variant.
pub(super) const UNKNOWN: u64 = 0xabdd_efee;
pub(super) const SPECIAL: [u64; 7] = [INITIAL, NULL, DELETE, MISSING, UNKNOWN, 0x2333_2333, 0x6666_6666];

pub(crate) fn read(input: Input<'_>, _: &mut Warnings) -> Result<History, FormatError> {
    let mut logs = Logs::default();
    let mut taken = HashSet::new();
    for file in input.logs(|file| file.name.ends_with(".log") || !file.name.contains('.'))? {
        let session = session_number(file.file_name(), &mut taken);
        let input = file.open()?;
        let base = logs.places.begin(&input.name);
        logs.file(input.bytes()?, session, base)?;
    }
    let places = std::mem::take(&mut logs.places);
    logs.build().map_err(|invalid| places.invalid(invalid))
}

#[derive(Clone, Copy)]
struct Write {
    id: u64,
    key: u64,
    value: u64,
}

#[derive(Clone, Copy)]
struct Read {
    writer: u64,
    write: Write,
}

enum Record {
    Start {
        session: u64,
        txn: u64,
        time: Option<u64>,
    },
    Write(Write),
    Read(Read),
    Commit {
        time: Option<u64>,
    },
    /// The log ends inside the transaction: its outcome is not known.
    Unfinished,
}

/// All records of all logs.
#[derive(Default)]
struct Logs {
    places: Places,
    records: Vec<(u64, Record)>,
    /// Whether starts and commits carry a time; the first start tells.
    timed: Option<bool>,
}

impl Logs {
    fn file(&mut self, mut bytes: Bytes<'_>, session: u64, base: u64) -> Result<(), FormatError> {
        let mut open = None;
        while !bytes.at_end()? {
            let place = base + bytes.offset();
            let [tag] = bytes.array()?;
            let record = match (tag, open) {
                (b'S', None) => {
                    let txn = number(&mut bytes)?;
                    open = Some(txn);
                    let (time, ahead) = self.start_time(&mut bytes)?;
                    self.records.push((place, Record::Start { session, txn, time }));
                    let Some(tag) = ahead else { continue };
                    self.body(&mut bytes, tag, &mut open)?
                }
                (tag, Some(_)) => self.body(&mut bytes, tag, &mut open)?,
                (_, None) => {
                    return Err(self.places.error(place, "expected the start of a transaction ('S')"));
                }
            };
            self.records.push((place, record));
        }
        if open.is_some() {
            self.records.push((base + bytes.offset(), Record::Unfinished));
        }
        Ok(())
    }

    /// The time of a start. To find out whether there is one, the first start of all looks at the
    /// byte behind it: a tag, or the highest byte of a time, which is 0. A tag read so is given
    /// back.
    fn start_time(&mut self, bytes: &mut Bytes<'_>) -> Result<(Option<u64>, Option<u8>), FormatError> {
        match self.timed {
            Some(true) => return Ok((Some(number(bytes)?), None)),
            Some(false) => return Ok((None, None)),
            None if bytes.at_end()? => return Ok((None, None)),
            None => {}
        }
        let [first] = bytes.array()?;
        self.timed = Some(!b"RWC".contains(&first));
        if self.timed == Some(false) {
            return Ok((None, Some(first)));
        }
        let rest: [u8; 7] = bytes.array()?;
        let mut time = [first; 8];
        time[1..].copy_from_slice(&rest);
        Ok((Some(u64::from_be_bytes(time)), None))
    }

    /// A record inside a transaction.
    fn body(&self, bytes: &mut Bytes<'_>, tag: u8, open: &mut Option<u64>) -> Result<Record, FormatError> {
        let place = bytes.offset() - 1;
        match tag {
            b'W' => Ok(Record::Write(write(bytes)?)),
            b'R' => Ok(Record::Read(Read { writer: number(bytes)?, write: write(bytes)? })),
            b'C' => {
                let txn = number(bytes)?;
                let time = if self.timed == Some(true) { Some(number(bytes)?) } else { None };
                match open.take() {
                    Some(begun) if begun == txn => Ok(Record::Commit { time }),
                    begun => Err(bytes.error_at(
                        place,
                        format!("transaction {txn} commits while transaction {} is open", begun.unwrap_or(0)),
                    )),
                }
            }
            b'S' => Err(bytes.error_at(place, "a transaction begins inside another")),
            other => Err(bytes.error_at(place, format!("expected one of S, W, R, C, found byte {other}"))),
        }
    }

    fn build(self) -> Result<History, Invalid> {
        let versions = Versions::of(&self.records)?;
        let mut build = Build { versions, ..Build::default() };
        if self.timed == Some(true) {
            build.builder.header().unit = Unit::Milliseconds;
        }
        build.initial()?;
        for (place, record) in &self.records {
            build.builder.at_place(*place);
            build.record(record)?;
        }
        build.builder.finish()
    }
}

fn number(bytes: &mut Bytes<'_>) -> Result<u64, FormatError> {
    bytes.array().map(u64::from_be_bytes)
}

fn write(bytes: &mut Bytes<'_>) -> Result<Write, FormatError> {
    Ok(Write { id: number(bytes)?, key: number(bytes)?, value: number(bytes)? })
}

/// A value of an object; `None` is absent.
type Cell = Option<u64>;

fn cell(write: Write) -> Cell {
    (write.id != DELETE).then_some(write.value)
}

/// Where the value of an object can come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Initial,
    Txn(u64),
    Several,
}

/// What a read saw.
enum Seen {
    Initial(Cell),
    /// A write of this transaction.
    Of(u64, Write),
    /// One of several writes with the same id and value.
    OneOf,
    Garbage,
}

/// What the logs say about versions.
#[derive(Default)]
struct Versions {
    /// (key, write id, transaction) to value.
    writes: HashMap<(u64, u64, u64), u64>,
    /// (key, write id, value) to the transaction, if there is one only. For reads without a writer.
    unnamed: HashMap<(u64, u64, u64), Origin>,
    origins: HashMap<(u64, Cell), Origin>,
    initial: HashMap<u64, u64>,
    /// (transaction, key) to its last write id.
    last: HashMap<(u64, u64), u64>,
    /// Writes whose values need a tag: (key, write id, transaction).
    tagged: HashSet<(u64, u64, u64)>,
}

impl Versions {
    fn of(records: &[(u64, Record)]) -> Result<Self, Invalid> {
        let mut versions = Self::default();
        let mut current = 0;
        for (place, record) in records {
            match record {
                Record::Start { txn, .. } => current = *txn,
                Record::Write(write) => versions.write(*place, current, *write)?,
                Record::Read(read) => versions.initial_read(read),
                Record::Commit { .. } | Record::Unfinished => {}
            }
        }
        for (&key, &value) in &versions.initial {
            add_origin(&mut versions.origins, (key, Some(value)), Origin::Initial);
        }
        versions.tag(records);
        Ok(versions)
    }

    fn write(&mut self, place: u64, txn: u64, write: Write) -> Result<(), Invalid> {
        let before = self.writes.insert((write.key, write.id, txn), write.value);
        if before.is_some_and(|before| before != write.value && write.id != DELETE) {
            let what = format!("transaction {txn} uses the write id {} twice for one key", write.id);
            return Err(Invalid { what, place });
        }
        add_origin(&mut self.origins, (write.key, cell(write)), Origin::Txn(txn));
        add_origin(&mut self.unnamed, (write.key, write.id, write.value), Origin::Txn(txn));
        self.last.insert((txn, write.key), write.id);
        Ok(())
    }

    fn initial_read(&mut self, read: &Read) {
        if read.writer == INITIAL && read.write.id == INITIAL {
            self.initial.entry(read.write.key).or_insert(read.write.value);
        }
    }

    /// Tags writes that are read when they should not be seen (overwritten by their own
    /// transaction, or not yet done) though their values come from elsewhere too.
    fn tag(&mut self, records: &[(u64, Record)]) {
        let mut current = 0;
        // The latest write of the current transaction to each key.
        let mut own: HashMap<u64, Write> = HashMap::new();
        for (_, record) in records {
            match record {
                Record::Start { txn, .. } => {
                    current = *txn;
                    own.clear();
                }
                Record::Write(write) => {
                    own.insert(write.key, *write);
                }
                Record::Read(read) => {
                    if let Seen::Of(txn, write) = self.seen(read)
                        && self.needs_tag(txn, write, (txn == current).then(|| own.get(&write.key).copied()))
                    {
                        self.tagged.insert((write.key, write.id, txn));
                    }
                }
                Record::Commit { .. } | Record::Unfinished => {}
            }
        }
    }

    /// Whether a read of `write` would look like another by its value alone. `own` is the reader's
    /// latest write to the key, if the reader reads from itself.
    fn needs_tag(&self, txn: u64, write: Write, own: Option<Option<Write>>) -> bool {
        match own {
            None => self.last.get(&(txn, write.key)) != Some(&write.id) && !self.is_alone(txn, write),
            Some(Some(latest)) if latest.id == write.id => false,
            Some(Some(latest)) if cell(latest) == cell(write) => true,
            Some(_) => !self.is_alone(txn, write),
        }
    }

    /// Whether no other write gives the object the value of this one, nor the initial state.
    fn is_alone(&self, txn: u64, write: Write) -> bool {
        let last = self.last.get(&(txn, write.key));
        let repeated =
            last.is_some_and(|&last| self.writes.get(&(write.key, last, txn)) == Some(&write.value));
        self.origin(write.key, cell(write)) == Some(Origin::Txn(txn)) && !repeated
    }

    fn origin(&self, key: u64, cell: Cell) -> Option<Origin> {
        let written = self.origins.get(&(key, cell)).copied();
        match cell {
            // What is not there at first is absent too.
            None if !self.initial.contains_key(&key) => {
                written.map_or(Some(Origin::Initial), |_| Some(Origin::Several))
            }
            _ => written,
        }
    }

    fn seen(&self, read: &Read) -> Seen {
        let write = read.write;
        match (read.writer, write.id) {
            (INITIAL, INITIAL) => match self.initial.get(&write.key) {
                Some(&value) if value == write.value => Seen::Initial(Some(value)),
                _ => Seen::Garbage,
            },
            (NULL, NULL) => match self.initial.contains_key(&write.key) {
                true => Seen::Garbage,
                false => Seen::Initial(None),
            },
            (UNKNOWN, _) => match self.unnamed.get(&(write.key, write.id, write.value)) {
                Some(&Origin::Txn(txn)) => Seen::Of(txn, write),
                Some(_) => Seen::OneOf,
                None => Seen::Garbage,
            },
            (txn, id) => match self.writes.get(&(write.key, id, txn)) {
                Some(&value) if value == write.value || id == DELETE => Seen::Of(txn, write),
                _ => Seen::Garbage,
            },
        }
    }
}

fn add_origin<K: std::hash::Hash + Eq>(origins: &mut HashMap<K, Origin>, key: K, origin: Origin) {
    let known = origins.entry(key).or_insert(origin);
    if *known != origin {
        *known = Origin::Several;
    }
}

#[derive(Default)]
struct Build {
    builder: HistoryBuilder,
    versions: Versions,
    session: u64,
    txn: u64,
    ops: u32,
}

impl Build {
    fn initial(&mut self) -> Result<(), Invalid> {
        let initial = std::mem::take(&mut self.versions.initial);
        for (&key, &value) in &initial {
            let (key, value) = (self.builder.values().uint(key), self.builder.values().uint(value));
            let object = self.builder.object(None, key);
            self.builder.initial(object, value)?;
        }
        self.versions.initial = initial;
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), Invalid> {
        match *record {
            Record::Start { session, txn, time } => {
                (self.session, self.txn, self.ops) = (session, txn, 0);
                match time {
                    Some(_) => self.push(time, OpKind::Begin, &[]),
                    None => Ok(()),
                }
            }
            Record::Write(write) => {
                let tagged = self.versions.tagged.contains(&(write.key, write.id, self.txn));
                let value = self.value(write, tagged.then_some(self.txn));
                self.access(OpKind::Write, write.key, value)
            }
            Record::Read(read) => self.read(&read),
            Record::Commit { time } => self.push(time, OpKind::Commit, &[]),
            Record::Unfinished => self.push(None, OpKind::Unknown, &[]),
        }
    }

    fn push(&mut self, time: Option<u64>, kind: OpKind, accesses: &[Access]) -> Result<(), Invalid> {
        self.ops += 1;
        let time = time.and_then(|time| i64::try_from(time).ok());
        let at = time.map(|time| Interval::new(time, time));
        self.builder.push(self.session, self.txn, at, kind, accesses, OpDetail::None)
    }

    fn access(&mut self, kind: OpKind, key: u64, value: ValueId) -> Result<(), Invalid> {
        let key = self.builder.values().uint(key);
        let object = self.builder.object(None, key);
        self.push(None, kind, &[Access { object, value }])
    }

    /// The value of a write, with a tag if its transaction is given.
    fn value(&mut self, write: Write, tag: Option<u64>) -> ValueId {
        match (tag, cell(write)) {
            (Some(txn), _) => self.builder.values().text(&format!("{} of {txn}.{}", write.value, write.id)),
            (None, Some(value)) => self.builder.values().uint(value),
            (None, None) => ValueId::NULL,
        }
    }

    fn read(&mut self, read: &Read) -> Result<(), Invalid> {
        let write = read.write;
        let op = self.ops;
        let (value, version) = match self.versions.seen(read) {
            Seen::Initial(Some(value)) => (self.builder.values().uint(value), Some(Origin::Initial)),
            Seen::Initial(None) => (ValueId::NULL, Some(Origin::Initial)),
            Seen::Of(txn, write) => {
                let tagged = self.versions.tagged.contains(&(write.key, write.id, txn));
                let version = (!tagged && txn != self.txn).then_some(Origin::Txn(txn));
                (self.value(write, tagged.then_some(txn)), version)
            }
            Seen::OneOf => (self.value(write, None), None),
            Seen::Garbage => {
                let claimed = self.versions.origin(write.key, cell(write)).is_some();
                (self.value(write, claimed.then_some(read.writer)), None)
            }
        };
        self.access(OpKind::Read, write.key, value)?;
        let shared = match &version {
            Some(Origin::Initial) if value == ValueId::NULL => self.versions.origin(write.key, None),
            Some(_) => self.versions.origin(write.key, cell(write)),
            None => None,
        };
        if shared == Some(Origin::Several) {
            self.evidence(op, write.key, version);
        }
        Ok(())
    }

    fn evidence(&mut self, op: u32, key: u64, version: Option<Origin>) {
        let key = self.builder.values().uint(key);
        let object = self.builder.object(None, key);
        let writer = match version {
            Some(Origin::Txn(txn)) => Some(txn),
            _ => None,
        };
        self.builder.version_set(self.txn, op, vec![(object, writer)]);
    }
}
