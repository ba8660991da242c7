//! Histories as Cobra logs: write ids are made up, and every read names the write it saw.
//!
//! Which write a read saw is told by its value, or by evidence where several transactions give that
//! value to the object; where neither tells, the read is refused.

use std::io::Write;

use hashbrown::{HashMap, HashSet};
use margay_history::{
    History, Interval, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Unit, Value, ValueId, Version,
};

use super::cobra::{DELETE, INITIAL, MISSING, NULL, SPECIAL};
use super::registers::Registers;
use crate::output::Folder;
use crate::{Format, FormatError};

pub(crate) fn write(history: &History, folder: &mut Folder) -> Result<(), FormatError> {
    let writer = Writer::new(history)?;
    for session in history.sessions() {
        let mut out = folder.file(&format!("T{}.log", history.session_label(session)))?;
        for txn in history.session_txns(session) {
            out.write_all(&writer.txn(txn)?)?;
        }
        out.flush()?;
    }
    Ok(())
}

/// What a value is called in a log: the writing transaction and its write id where the history's
/// value says so, and the number.
#[derive(Clone, Copy)]
struct Name {
    tag: Option<(u64, u64)>,
    value: u64,
}

/// Who gives an object a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Initial,
    Txn(TxnId),
    Several,
}

struct Writer<'h> {
    registers: Registers<'h>,
    history: &'h History,
    /// The id of each write, by operation and place in it.
    ids: HashMap<(OpId, usize), u64>,
    /// The last id under which a transaction gives an object a value.
    of_txn: HashMap<(TxnId, ObjectId, ValueId), u64>,
    sources: HashMap<(ObjectId, ValueId), Source>,
    /// The objects whose initial values are read: only those are in the logs.
    initial_read: HashSet<ObjectId>,
    timed: bool,
}

impl<'h> Writer<'h> {
    fn new(history: &'h History) -> Result<Self, FormatError> {
        let mut this = Self {
            registers: Registers::with_nothing(history, Format::Cobra),
            history,
            ids: HashMap::new(),
            of_txn: HashMap::new(),
            sources: HashMap::new(),
            initial_read: HashSet::new(),
            timed: is_timed(history),
        };
        this.number_writes()?;
        for object in history.objects() {
            this.add_source(object, history.initial(object), Source::Initial);
        }
        let reads = history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind == OpKind::Read);
        for (op, access) in reads.flat_map(|op| op.accesses.iter().map(move |access| (op, access))) {
            if this.source(op, access.object, access.value) == Some(Source::Initial) {
                this.initial_read.insert(access.object);
            }
        }
        Ok(this)
    }

    fn number_writes(&mut self) -> Result<(), FormatError> {
        let mut fresh = self.first_fresh_id()?;
        for txn in self.history.txns() {
            for op in self.history.ops(txn).filter(|op| op.kind == OpKind::Write) {
                for (at, access) in op.accesses.iter().enumerate() {
                    let id = match self.name(op, access.value)?.tag {
                        Some((_, id)) => id,
                        None if access.value == ValueId::NULL => DELETE,
                        None => {
                            fresh += 1;
                            fresh
                        }
                    };
                    self.ids.insert((op.id, at), id);
                    self.of_txn.insert((txn, access.object, access.value), id);
                    self.add_source(access.object, access.value, Source::Txn(txn));
                }
            }
        }
        Ok(())
    }

    /// Above every special id and every id that a value names.
    fn first_fresh_id(&self) -> Result<u64, FormatError> {
        let mut highest = 0;
        for txn in self.history.txns() {
            for op in self.history.ops(txn).filter(|op| matches!(op.kind, OpKind::Write | OpKind::Read)) {
                for access in op.accesses {
                    let tag = self.name(op, access.value)?.tag;
                    highest =
                        highest.max(tag.map_or(0, |(_, id)| if SPECIAL.contains(&id) { 0 } else { id }));
                }
            }
        }
        let writes = self.history.op_count() as u64;
        // Ids stay small where they can; the special ones lie above two billion.
        let clear = highest + writes < SPECIAL.iter().copied().min().unwrap_or(0);
        Ok(if clear { highest } else { highest.max(1 << 32) })
    }

    fn add_source(&mut self, object: ObjectId, value: ValueId, source: Source) {
        let known = self.sources.entry((object, value)).or_insert(source);
        if *known != source {
            *known = Source::Several;
        }
    }

    /// A value, as a number and the tag it may have.
    fn name(&self, op: Op<'_>, value: ValueId) -> Result<Name, FormatError> {
        let refuse = || self.registers.refuse(op, &format!("the value {}", self.history.show_value(value)));
        match self.history.value(value) {
            Value::Null | Value::Unknown => Ok(Name { tag: None, value: 0 }),
            Value::Text(text) => parse_tag(text).ok_or_else(refuse),
            _ => {
                let int = self.registers.int(value).and_then(|int| u64::try_from(int).ok());
                Ok(Name { tag: None, value: int.ok_or_else(refuse)? })
            }
        }
    }

    fn txn(&self, txn: TxnId) -> Result<Vec<u8>, FormatError> {
        let label = self.history.txn_label(txn);
        let last = self.history.session_txns(self.history.session_of(txn)).next_back() == Some(txn);
        let committed = match self.history.outcome(txn) {
            Outcome::Committed => true,
            Outcome::Unknown if last => false,
            outcome => {
                let what =
                    format!("transaction {label}: the format cobra cannot carry its outcome, {outcome:?}");
                return Err(FormatError::new(what));
            }
        };
        let mut out = vec![b'S'];
        out.extend(label.to_be_bytes());
        self.time(&mut out, self.history.ops(txn).next());
        let mut own = HashMap::new();
        for op in self.history.ops(txn) {
            match op.kind {
                OpKind::Begin | OpKind::Commit | OpKind::Unknown => {}
                OpKind::Write => self.writes(op, &mut own, &mut out)?,
                OpKind::Read => self.reads(txn, op, &own, &mut out)?,
                kind => {
                    return Err(self.registers.refuse(op, &format!("an operation of kind {}", kind.name())));
                }
            }
        }
        if committed {
            out.push(b'C');
            out.extend(label.to_be_bytes());
            self.time(&mut out, self.history.ops(txn).next_back());
        }
        Ok(out)
    }

    fn time(&self, out: &mut Vec<u8>, op: Option<Op<'_>>) {
        if let Some(at) = op.and_then(|op| op.at).filter(|_| self.timed) {
            out.extend(at.before.to_be_bytes());
        }
    }

    fn writes(
        &self,
        op: Op<'_>,
        own: &mut HashMap<ObjectId, (ValueId, u64)>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        for (at, access) in op.accesses.iter().enumerate() {
            let id = self.ids[&(op.id, at)];
            own.insert(access.object, (access.value, id));
            out.push(b'W');
            let value = self.name(op, access.value)?.value;
            [id, self.key(op, access.object)?, value].iter().for_each(|n| out.extend(n.to_be_bytes()));
        }
        Ok(())
    }

    fn reads(
        &self,
        txn: TxnId,
        op: Op<'_>,
        own: &HashMap<ObjectId, (ValueId, u64)>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        for access in op.accesses {
            if access.value == ValueId::UNKNOWN {
                return Err(self.registers.refuse(op, "an unknown result"));
            }
            let name = self.name(op, access.value)?;
            let (writer, id) = match (name.tag, own.get(&access.object)) {
                (Some(tag), _) => tag,
                (None, Some(&(value, id))) if value == access.value => (self.history.txn_label(txn), id),
                _ => self.seen(op, access.object, access.value)?,
            };
            out.push(b'R');
            let key = self.key(op, access.object)?;
            [writer, id, key, name.value].iter().for_each(|n| out.extend(n.to_be_bytes()));
        }
        Ok(())
    }

    /// Who gave an object the value that a read saw.
    fn source(&self, op: Op<'_>, object: ObjectId, value: ValueId) -> Option<Source> {
        let known = self.history.evidence().version_set(op.id);
        match known.and_then(|set| set.versions.iter().find(|(o, _)| *o == object)) {
            Some((_, Version::Initial)) => Some(Source::Initial),
            Some((_, Version::Of(txn))) => Some(Source::Txn(*txn)),
            None => self.sources.get(&(object, value)).copied(),
        }
    }

    /// The transaction and write id that a read saw.
    fn seen(&self, op: Op<'_>, object: ObjectId, value: ValueId) -> Result<(u64, u64), FormatError> {
        let source = self.source(op, object, value);
        // Without a read of it, an initial value is not in the logs, and what is absent would seem
        // to be the initial state.
        let hidden = self.history.initial(object) != ValueId::NULL && !self.initial_read.contains(&object);
        if value == ValueId::NULL && hidden {
            return Err(self
                .registers
                .refuse(op, "a read of what is absent beside an initial value that nobody read"));
        }
        match source {
            Some(Source::Initial) if value == ValueId::NULL => Ok((NULL, NULL)),
            Some(Source::Initial) => Ok((INITIAL, INITIAL)),
            Some(Source::Txn(txn)) => match self.of_txn.get(&(txn, object, value)) {
                Some(&id) => Ok((self.history.txn_label(txn), id)),
                None => Err(self.registers.refuse(op, "a value that is not the one of its version")),
            },
            Some(Source::Several) => Err(self.registers.refuse(op, "a read whose writer is not certain")),
            None if value == ValueId::NULL => Err(self.registers.refuse(op, "a read of what is absent")),
            None => Ok((MISSING, MISSING)),
        }
    }

    fn key(&self, op: Op<'_>, object: ObjectId) -> Result<u64, FormatError> {
        let object = self.history.object(object);
        let int = self.registers.int(object.key).filter(|_| object.table.is_none());
        int.and_then(|int| u64::try_from(int).ok())
            .ok_or_else(|| self.registers.refuse(op, "an object whose name is no natural number"))
    }
}

/// `VALUE of TXN.ID`, as the reader makes it.
fn parse_tag(text: &str) -> Option<Name> {
    let (value, tag) = text.split_once(" of ")?;
    let (txn, id) = tag.split_once('.')?;
    Some(Name { tag: Some((txn.parse().ok()?, id.parse().ok()?)), value: value.parse().ok()? })
}

/// Whether every transaction begins and commits at a point in milliseconds, as logs with times say
/// it.
pub(super) fn is_timed(history: &History) -> bool {
    let point = |at: Option<Interval>| at.is_some_and(|at| at.before == at.after && at.before >= 0);
    history.header().unit == Unit::Milliseconds
        && history.txns().all(|txn| {
            let first = history.ops(txn).next().filter(|op| op.kind == OpKind::Begin);
            first.is_some_and(|op| point(op.at))
                && history.ops(txn).next_back().is_some_and(|op| point(op.at))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::cobra::UNKNOWN;
    use crate::foreign::testing::{fails, folder_round_trip, read_folder};

    /// Records of a log: a tag and its numbers.
    fn log(records: &[(u8, &[u64])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (tag, numbers) in records {
            bytes.push(*tag);
            numbers.iter().for_each(|n| bytes.extend(n.to_be_bytes()));
        }
        bytes
    }

    fn shown(history: &History) -> Vec<String> {
        let ops = history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind == OpKind::Read);
        ops.map(|op| history.show_value(op.accesses[0].value)).collect()
    }

    #[test]
    fn plain_values() {
        let one = log(&[(b'S', &[1]), (b'R', &[INITIAL, INITIAL, 5, 9]), (b'W', &[77, 5, 10]), (b'C', &[1])]);
        let two = log(&[(b'S', &[2]), (b'R', &[1, 77, 5, 10]), (b'R', &[NULL, NULL, 6, 0]), (b'C', &[2])]);
        let history = folder_round_trip(Format::Cobra, &[("T3.log", &one), ("T10.log", &two)]);
        assert_eq!(shown(&history), ["9", "10", "absent"]);
        assert_eq!(history.initial_values().len(), 1);
        assert!(history.evidence().is_empty());
        assert_eq!(history.session_label(margay_history::SessionId(1)), 10);
    }

    #[test]
    fn equal_values_of_two_transactions_come_with_evidence() {
        let one = log(&[
            (b'S', &[1]),
            (b'W', &[70, 5, 9]),
            (b'C', &[1]),
            (b'S', &[2]),
            (b'W', &[71, 5, 9]),
            (b'C', &[2]),
        ]);
        let two = log(&[
            (b'S', &[3]),
            (b'R', &[1, 70, 5, 9]),
            (b'C', &[3]),
            (b'S', &[4]),
            (b'R', &[UNKNOWN, 71, 5, 9]),
            (b'C', &[4]),
        ]);
        let history = folder_round_trip(Format::Cobra, &[("T1.log", &one), ("T2.log", &two)]);
        let versions: Vec<_> = history.evidence().version_sets.iter().map(|set| set.versions[0].1).collect();
        assert_eq!(versions, [Version::Of(TxnId(0)), Version::Of(TxnId(1))]);
    }

    #[test]
    fn an_overwritten_equal_value_is_tagged() {
        let one = log(&[(b'S', &[1]), (b'W', &[70, 5, 9]), (b'W', &[71, 5, 9]), (b'C', &[1])]);
        let two = log(&[
            (b'S', &[2]),
            (b'R', &[1, 70, 5, 9]),
            (b'C', &[2]),
            (b'S', &[3]),
            (b'R', &[1, 71, 5, 9]),
            (b'C', &[3]),
        ]);
        let history = folder_round_trip(Format::Cobra, &[("T1.log", &one), ("T2.log", &two)]);
        assert_eq!(shown(&history), ["\"9 of 1.70\"", "9"]);
    }

    #[test]
    fn a_read_of_a_later_write_is_tagged() {
        let log = log(&[
            (b'S', &[1]),
            (b'R', &[1, DELETE, 5, 0]),
            (b'W', &[DELETE, 5, 0]),
            (b'R', &[1, DELETE, 5, 0]),
            (b'C', &[1]),
        ]);
        let history = folder_round_trip(Format::Cobra, &[("T1.log", &log)]);
        assert_eq!(shown(&history), ["\"0 of 1.2882400171\"", "\"0 of 1.2882400171\""]);
    }

    #[test]
    fn garbage_stays_garbage() {
        let one = log(&[(b'S', &[1]), (b'W', &[70, 5, 9]), (b'C', &[1])]);
        let two = log(&[
            (b'S', &[2]),
            (b'R', &[8, 99, 5, 9]),
            (b'R', &[8, 99, 5, 11]),
            (b'R', &[1, 70, 5, 12]),
            (b'R', &[INITIAL, INITIAL, 6, 1]),
            (b'R', &[INITIAL, INITIAL, 6, 2]),
            (b'C', &[2]),
        ]);
        let history = folder_round_trip(Format::Cobra, &[("T1.log", &one), ("T2.log", &two)]);
        assert_eq!(shown(&history), ["\"9 of 8.99\"", "11", "12", "1", "2"]);
    }

    #[test]
    fn deletions() {
        let one = log(&[(b'S', &[1]), (b'W', &[DELETE, 5, 0]), (b'C', &[1])]);
        let two = log(&[
            (b'S', &[2]),
            (b'R', &[1, DELETE, 5, 0]),
            (b'C', &[2]),
            (b'S', &[3]),
            (b'R', &[NULL, NULL, 5, 0]),
            (b'C', &[3]),
        ]);
        let history = folder_round_trip(Format::Cobra, &[("T1.log", &one), ("T2.log", &two)]);
        assert_eq!(history.evidence().version_sets.len(), 2);
    }

    #[test]
    fn times_are_found_out() {
        let one = log(&[
            (b'S', &[1, 1000]),
            (b'W', &[70, 5, 9]),
            (b'C', &[1, 1005]),
            (b'S', &[2, 1006]),
            (b'C', &[2, 1007]),
        ]);
        let history = folder_round_trip(Format::Cobra, &[("T1.log", &one)]);
        assert_eq!((history.start(TxnId(0)), history.end(TxnId(0))), (Some(1000), Some(1005)));
    }

    #[test]
    fn broken_logs() {
        let good = log(&[(b'S', &[1]), (b'W', &[70, 5, 9]), (b'C', &[1])]);
        for end in 1..good.len() {
            match read_folder(Format::Cobra, &[("T1.log", &good[..end])]) {
                Ok(loaded) => assert_eq!(loaded.history.outcome(TxnId(0)), Outcome::Unknown),
                Err(error) => assert!(error.offset.is_some(), "{error}"),
            }
        }
        let wrong = fails(Format::Cobra, &log(&[(b'S', &[1]), (b'C', &[2])]));
        assert!(wrong.contains("byte 9: transaction 2 commits while transaction 1 is open"), "{wrong}");
        assert!(fails(Format::Cobra, &log(&[(b'C', &[2])])).contains("byte 0: expected the start"));
        let tag = fails(Format::Cobra, &log(&[(b'S', &[1]), (b'W', &[1, 2, 3]), (b'X', &[])]));
        assert!(tag.contains("byte 34: expected one of S, W, R, C, found byte 88"), "{tag}");
    }
}
