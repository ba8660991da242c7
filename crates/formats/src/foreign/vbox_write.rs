//! Histories as Vbox logs: rows as the reader makes them, or integer registers as field 0.

use std::io::Write;

use hashbrown::HashMap;
use margay_history::{Access, History, Interval, ObjectId, Op, OpId, OpKind, TxnId, Value, ValueId, Version};

use super::vbox::TABLE;
use crate::output::Folder;
use crate::{Format, FormatError};

pub(crate) fn write(history: &History, folder: &mut Folder) -> Result<(), FormatError> {
    let writer = Writer::new(history)?;
    for session in history.sessions() {
        let mut out = folder.file(&format!("{}.log", history.session_label(session)))?;
        for txn in history.session_txns(session) {
            out.write_all(&writer.txn(txn)?)?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Who gives an object a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Initial,
    Write(TxnId, u32),
    Several,
}

struct Writer<'h> {
    history: &'h History,
    /// The number of each operation.
    numbers: Vec<u32>,
    sources: HashMap<(ObjectId, ValueId), Source>,
}

impl<'h> Writer<'h> {
    fn new(history: &'h History) -> Result<Self, FormatError> {
        let mut this = Self { history, numbers: vec![0; history.op_count()], sources: HashMap::new() };
        this.number()?;
        this.check_initial()?;
        for object in history.objects() {
            this.add_source(object, history.initial(object), Source::Initial);
        }
        for txn in history.txns() {
            for op in history.ops(txn).filter(|op| op.kind == OpKind::Write) {
                let source = Source::Write(txn, this.numbers[op.id.index()]);
                op.accesses.iter().for_each(|access| this.add_source(access.object, access.value, source));
            }
        }
        Ok(this)
    }

    /// Logs tell an initial row only through the predicates that returned it: with predicates, each
    /// field must be pinned so.
    fn check_initial(&self) -> Result<(), FormatError> {
        if !self.history.has_kind(OpKind::Scan) {
            return Ok(());
        }
        let mut bounds: HashMap<(ObjectId, String), (u32, u32)> = HashMap::new();
        for op in self.all_ops() {
            let Some(scan) = self.history.scan(op.id) else { continue };
            let Some((field, left, right)) = range(&self.history.predicate(scan.predicate).text) else {
                continue;
            };
            for access in op.accesses.iter().filter(|a| a.value == self.history.initial(a.object)) {
                let known = bounds.entry((access.object, format!("f{field}"))).or_insert((0, u32::MAX));
                *known = (known.0.max(left), known.1.min(right));
            }
        }
        let pinned = |object: ObjectId, value: ValueId| match self.history.value(value) {
            Value::Null => true,
            Value::Row(columns) => columns.iter().all(|&(name, _)| {
                bounds
                    .get(&(object, self.history.name(name).to_string()))
                    .is_some_and(|(left, right)| left == right)
            }),
            _ => false,
        };
        match self.history.initial_values().iter().find(|(object, value)| !pinned(*object, *value)) {
            Some((object, _)) => Err(FormatError::new(format!(
                "the format vbox cannot carry the initial value of {} beside predicates",
                self.history.show_object(*object)
            ))),
            None => Ok(()),
        }
    }

    /// Writes keep the numbers that their rows name; all others get new ones.
    fn number(&mut self) -> Result<(), FormatError> {
        let mut highest = 0;
        for op in self.all_ops() {
            for access in op.accesses {
                let Some((_, number)) = self.version(access.value) else { continue };
                highest = highest.max(number);
                if op.kind == OpKind::Write {
                    self.numbers[op.id.index()] = number;
                }
            }
        }
        for number in &mut self.numbers {
            if *number == 0 {
                highest =
                    highest.checked_add(1).ok_or_else(|| FormatError::new("more than 2^32 operations"))?;
                *number = highest;
            }
        }
        Ok(())
    }

    fn all_ops(&self) -> impl Iterator<Item = Op<'h>> + use<'h> {
        let history = self.history;
        (0..history.op_count()).map(|op| history.op(OpId::at(op)))
    }

    fn add_source(&mut self, object: ObjectId, value: ValueId, source: Source) {
        let known = self.sources.entry((object, value)).or_insert(source);
        if *known != source {
            *known = Source::Several;
        }
    }

    /// The transaction and operation that a row names.
    fn version(&self, value: ValueId) -> Option<(u32, u32)> {
        let name = self.history.values().find_name("version")?;
        let Value::Text(text) = self.history.value(self.history.values().column(value, name)?) else {
            return None;
        };
        let (txn, op) = text.split_once('.')?;
        Some((txn.parse().ok()?, op.parse().ok()?))
    }

    fn refuse(&self, op: Op<'_>, what: &str) -> FormatError {
        FormatError::cannot_carry(Format::Vbox, self.history, op.id, what)
    }

    fn txn(&self, txn: TxnId) -> Result<Vec<u8>, FormatError> {
        let all = || self.history.ops(txn).filter_map(|op| op.at);
        let span = all().map(|at| at.before).min().zip(all().map(|at| at.after).max());
        let Some((start, end)) = span.filter(|(start, _)| *start >= 0) else {
            let label = self.history.txn_label(txn);
            return Err(FormatError::new(format!(
                "transaction {label}: the format vbox wants the interval of every operation, not before time 0"
            )));
        };
        let mut out = Record::new(b'T');
        out.int(self.label(txn)?);
        out.interval(Interval::new(start, end));
        for op in self.history.ops(txn) {
            self.op(txn, op, &mut out)?;
        }
        Ok(out.bytes)
    }

    fn label(&self, txn: TxnId) -> Result<u32, FormatError> {
        let label = self.history.txn_label(txn);
        u32::try_from(label).ok().filter(|&label| label > 0).ok_or_else(|| {
            FormatError::new(format!("transaction {label}: the format vbox wants ids between 1 and 2^32 - 1"))
        })
    }

    fn op(&self, txn: TxnId, op: Op<'_>, out: &mut Record) -> Result<(), FormatError> {
        if op.kind == OpKind::Unknown {
            return Ok(());
        }
        let Some(at) = op.at.filter(|at| at.before >= 0) else {
            return Err(self.refuse(op, "an operation without an interval, or before time 0"));
        };
        let mut begin = |tag: u8| {
            out.bytes.push(tag);
            out.int(self.numbers[op.id.index()]);
            out.interval(at);
        };
        match op.kind {
            OpKind::Begin => begin(b'S'),
            OpKind::Commit => begin(b'C'),
            OpKind::Abort => begin(b'A'),
            OpKind::Write => {
                for access in op.accesses {
                    self.check_version(txn, op, access)?;
                    for (field, value) in self.fields(op, access)? {
                        out.bytes.push(b'W');
                        out.int(self.numbers[op.id.index()]);
                        out.interval(at);
                        out.long(self.key(op, access.object)?);
                        out.long(field);
                        out.int(value);
                    }
                }
            }
            OpKind::Read => {
                for access in op.accesses {
                    let (key, from) = (self.key(op, access.object)?, self.seen(txn, op, access)?);
                    out.bytes.push(b'R');
                    out.int(self.numbers[op.id.index()]);
                    out.interval(at);
                    out.long(key);
                    out.int(from.0);
                    out.int(from.1);
                }
            }
            OpKind::Scan => {
                begin(b'P');
                self.scan(txn, op, out)?;
            }
            kind => return Err(self.refuse(op, &format!("an operation of kind {}", kind.name()))),
        }
        Ok(())
    }

    /// A row must name its own transaction and operation.
    fn check_version(&self, txn: TxnId, op: Op<'_>, access: &Access) -> Result<(), FormatError> {
        let own = (self.label(txn)?, self.numbers[op.id.index()]);
        match self.version(access.value) {
            Some(version) if version != own => Err(self.refuse(op, "a row that names another version")),
            _ => Ok(()),
        }
    }

    fn key(&self, op: Op<'_>, object: ObjectId) -> Result<u64, FormatError> {
        let object = self.history.object(object);
        let ours = object.table.is_none_or(|table| self.history.table(table).name == TABLE);
        self.natural(object.key)
            .filter(|_| ours)
            .ok_or_else(|| self.refuse(op, "an object whose name is no natural number"))
    }

    fn natural(&self, value: ValueId) -> Option<u64> {
        match self.history.value(value) {
            Value::Int(int) => u64::try_from(int).ok(),
            Value::UInt(int) => Some(int),
            _ => None,
        }
    }

    /// The fields of a row, or the value of a register as field 0.
    fn fields(&self, op: Op<'_>, access: &Access) -> Result<Vec<(u64, u32)>, FormatError> {
        let small = |value| self.natural(value).and_then(|int| u32::try_from(int).ok());
        let refuse = || self.refuse(op, &format!("the value {}", self.history.show_value(access.value)));
        let Value::Row(columns) = self.history.value(access.value) else {
            return Ok(vec![(0, small(access.value).ok_or_else(refuse)?)]);
        };
        let mut fields = Vec::new();
        for &(name, value) in columns.iter().filter(|(name, _)| self.history.name(*name) != "version") {
            let field = self.history.name(name).strip_prefix('f').and_then(|field| field.parse().ok());
            fields.push(field.zip(small(value)).ok_or_else(refuse)?);
        }
        if fields.is_empty() { Err(refuse()) } else { Ok(fields) }
    }

    /// The version that a read saw.
    fn seen(&self, txn: TxnId, op: Op<'_>, access: &Access) -> Result<(u32, u32), FormatError> {
        let known = self.history.evidence().version_set(op.id);
        let known = known.and_then(|set| set.versions.iter().find(|(object, _)| *object == access.object));
        match (self.sources.get(&(access.object, access.value)), known) {
            (Some(Source::Initial), _) | (_, Some((_, Version::Initial))) => Ok((0, 0)),
            (Some(Source::Write(txn, number)), _) => Ok((self.label(*txn)?, *number)),
            (None, _) => Err(self.refuse(op, "a value that nobody wrote")),
            (Some(Source::Several), _) => match self.own(txn, op, access) {
                Some(own) => Ok((self.label(txn)?, self.numbers[own.id.index()])),
                None => Err(self.refuse(op, "a read whose writer is not certain")),
            },
        }
    }

    /// The write of the same transaction that a read sees.
    fn own(&self, txn: TxnId, op: Op<'_>, access: &Access) -> Option<Op<'h>> {
        let before = self.history.ops(txn).take_while(|other| other.id < op.id);
        before.filter(|other| other.kind == OpKind::Write && other.accesses.contains(access)).last()
    }

    fn scan(&self, txn: TxnId, op: Op<'_>, out: &mut Record) -> Result<(), FormatError> {
        let scan = self.history.scan(op.id).filter(|scan| scan.observed);
        let Some(scan) = scan else { return Err(self.refuse(op, "an unknown result")) };
        let condition = &self.history.predicate(scan.predicate).text;
        let Some((field, left, right)) = range(condition) else {
            return Err(self.refuse(op, &format!("the condition {condition:?}")));
        };
        out.long(field);
        out.int(left);
        out.int(right);
        out.int(op.accesses.len() as u32);
        let mut versions = Vec::new();
        for access in op.accesses {
            out.long(self.key(op, access.object)?);
            versions.push(self.seen(txn, op, access)?);
        }
        versions.iter().for_each(|(txn, _)| out.int(*txn));
        versions.iter().for_each(|(_, number)| out.int(*number));
        Ok(())
    }
}

/// `f7 >= LEFT AND f7 <= RIGHT`, as the reader makes it.
fn range(condition: &str) -> Option<(u64, u32, u32)> {
    let (left, right) = condition.split_once(" AND ")?;
    let (field, left) = left.split_once(" >= ")?;
    let (again, right) = right.split_once(" <= ")?;
    let field = (field == again).then(|| field.strip_prefix('f')).flatten()?;
    Some((field.parse().ok()?, left.parse().ok()?, right.parse().ok()?))
}

/// Bytes of records.
struct Record {
    bytes: Vec<u8>,
}

impl Record {
    fn new(tag: u8) -> Self {
        Self { bytes: vec![tag] }
    }

    fn int(&mut self, int: u32) {
        self.bytes.extend(int.to_le_bytes());
    }

    fn long(&mut self, long: u64) {
        self.bytes.extend(long.to_le_bytes());
    }

    fn interval(&mut self, at: Interval) {
        self.bytes.extend(at.before.to_le_bytes());
        self.bytes.extend(at.after.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::testing::{folder_round_trip, read_folder};

    fn record(tag: u8, ints: &[u64], widths: &[usize]) -> Vec<u8> {
        let mut bytes = vec![tag];
        for (int, &width) in ints.iter().zip(widths) {
            bytes.extend(&int.to_le_bytes()[..width]);
        }
        bytes
    }

    fn plain(tag: u8, id: u64, start: u64, end: u64) -> Vec<u8> {
        record(tag, &[id, start, end], &[4, 8, 8])
    }

    fn put(op: u64, key: u64, field: u64, value: u64) -> Vec<u8> {
        record(b'W', &[op, op, op, key, field, value], &[4, 8, 8, 8, 8, 4])
    }

    fn get(op: u64, key: u64, txn: u64, number: u64) -> Vec<u8> {
        record(b'R', &[op, op, op, key, txn, number], &[4, 8, 8, 8, 4, 4])
    }

    fn ask(op: u64, field: u64, left: u64, right: u64, rows: &[(u64, u64, u64)]) -> Vec<u8> {
        let mut bytes =
            record(b'P', &[op, op, op, field, left, right, rows.len() as u64], &[4, 8, 8, 8, 4, 4, 4]);
        rows.iter().for_each(|(key, ..)| bytes.extend(key.to_le_bytes()));
        rows.iter().for_each(|(_, txn, _)| bytes.extend((*txn as u32).to_le_bytes()));
        rows.iter().for_each(|(.., op)| bytes.extend((*op as u32).to_le_bytes()));
        bytes
    }

    fn read_one(log: &[u8]) -> Result<History, String> {
        read_folder(Format::Vbox, &[("0.log", log)])
            .map(|loaded| loaded.history)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn rows_versions_and_predicates() {
        let writer = [
            plain(b'T', 4, 1, 9),
            plain(b'S', 13, 1, 2),
            put(3, 0, 7, 5),
            put(3, 0, 8, 6),
            put(3, 2, 7, 5),
            put(4, 0, 7, 5),
            plain(b'C', 16, 8, 9),
        ]
        .concat();
        let reader = [
            plain(b'T', 5, 1, 20),
            get(10, 0, 4, 3),
            get(11, 2, 0, 0),
            ask(12, 7, 1, 5, &[(0, 4, 4), (2, 4, 3)]),
            ask(13, 7, 6, 6, &[]),
            plain(b'A', 17, 19, 20),
        ]
        .concat();
        let history = folder_round_trip(Format::Vbox, &[("0.log", &writer), ("12.log", &reader)]);
        let read = history.op(history.ops(TxnId(1)).next().unwrap().id);
        assert_eq!(history.show_value(read.accesses[0].value), "{f7: 5, f8: 6, version: \"4.3\"}");
        assert_eq!(history.predicates()[0].text.as_ref(), "f7 >= 1 AND f7 <= 5");
        assert_eq!(history.ops(TxnId(0)).nth(1).unwrap().accesses.len(), 2);
    }

    #[test]
    fn what_is_not_certain_is_refused() {
        let log = [plain(b'T', 1, 1, 9), ask(3, 7, 1, 5, &[(0, 0, 0)])].concat();
        assert!(read_one(&log).unwrap_err().contains("between 1 and 5"));
        let log =
            [plain(b'T', 1, 1, 9), ask(3, 7, 1, 5, &[(0, 0, 0)]), ask(4, 7, 5, 9, &[(0, 0, 0)])].concat();
        assert_eq!(read_one(&log).unwrap().initial_values().len(), 1);
    }

    /// A read of a version that is in no log was an input error here, and a read that nobody wrote
    /// elsewhere.
    #[test]
    fn a_version_of_no_log_is_a_row_that_nobody_wrote() {
        let log = [plain(b'T', 1, 1, 9), get(10, 0, 4, 3), ask(11, 7, 2, 5, &[(0, 4, 9)])].concat();
        let history = read_one(&log).unwrap();
        let shown: Vec<_> = history
            .ops(TxnId(0))
            .filter_map(|op| op.accesses.first().map(|access| history.show_value(access.value)))
            .collect();
        assert_eq!(shown, ["{version: \"4.3\"}", "{version: \"4.9\", f7: 2}"]);
    }

    /// Published logs of predicates have the transaction where the operation belongs.
    #[test]
    fn rows_of_predicates_may_name_their_transaction_only() {
        let writer = [plain(b'T', 4, 1, 9), put(11, 0, 7, 5), put(12, 0, 7, 6), put(13, 0, 7, 9)].concat();
        let row = |rows: &[(u64, u64, u64)]| {
            let reader = [plain(b'T', 5, 10, 20), ask(22, 7, 5, 6, rows)].concat();
            let logs: [(&str, &[u8]); 2] = [("0.log", &writer), ("1.log", &reader)];
            let history = read_folder(Format::Vbox, &logs).unwrap().history;
            history.show_value(history.ops(TxnId(1)).next().unwrap().accesses[0].value)
        };
        // The last version that the predicate can have returned.
        assert_eq!(row(&[(0, 4, 4)]), "{f7: 6, version: \"4.12\"}");
        // One row names its operation: so do the others.
        assert_eq!(row(&[(0, 4, 11), (1, 4, 4)]), "{f7: 5, version: \"4.11\"}");
    }

    #[test]
    fn broken_logs() {
        let log =
            [plain(b'T', 1, 1, 9), put(2, 0, 7, 1), ask(5, 7, 1, 1, &[(0, 1, 2)]), plain(b'C', 9, 9, 9)]
                .concat();
        assert!(read_one(&log).is_ok());
        for end in 1..log.len() {
            if let Err(error) = read_one(&log[..end]) {
                assert!(error.contains("byte "), "{error}");
            }
        }
        let mut huge = log.clone();
        let count = 21 + 41 + 37;
        huge[count..count + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read_one(&huge).unwrap_err().contains("the file ends too early"));
        assert!(read_one(&put(1, 1, 1, 1)).unwrap_err().contains("byte 0: expected the start"));
    }
}
