//! `dbcop`: the `history.bincode` of dbcop (OOPSLA'19), in bincode 1.x.
//!
//! Sessions and transactions are numbered from 0 in the order of the file. 0 is the initial state
//! (see `registers`). A transaction without success is aborted; an event without success did not
//! happen and is left out. The parameters, the info and the times of the file are not kept.

use std::io::Write;

use margay_history::{History, OpKind};

use super::registers::{RegisterBuilder, Registers};
use crate::input::{Bytes, Input};
use crate::{Format, FormatError, Warnings};

const FILE: &str = "history.bincode";

pub(crate) fn read(input: Input<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    if !input.is_directory() {
        return read_file(input.bytes()?, warnings);
    }
    let mut files: Vec<_> = input.files()?.into_iter().filter(|file| file.file_name() == FILE).collect();
    match files.len() {
        1 => read_file(files.remove(0).open()?.bytes()?, warnings),
        0 => Err(FormatError::new(format!("no {FILE} is in this directory"))),
        several => Err(FormatError::new(format!("{several} files {FILE} are in this directory: name one"))),
    }
}

fn read_file(mut bytes: Bytes<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    for _ in 0..5 {
        number(&mut bytes)?;
    }
    for _ in 0..3 {
        let length = number(&mut bytes)?;
        bytes.vec(length)?;
    }
    let mut reader = Reader::default();
    for _ in 0..number(&mut bytes)? {
        reader.session(&mut bytes)?;
    }
    if !bytes.at_end()? {
        return Err(bytes.error("something follows the end of the history"));
    }
    if reader.failed > 0 {
        warnings.add(format!("{} events without success are left out", reader.failed));
    }
    reader.registers.finish_with_zeros().map_err(|invalid| bytes.invalid(invalid))
}

fn number(bytes: &mut Bytes<'_>) -> Result<u64, FormatError> {
    bytes.array().map(u64::from_le_bytes)
}

fn flag(bytes: &mut Bytes<'_>) -> Result<bool, FormatError> {
    match bytes.array::<1>()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [other] => Err(bytes.error_at(bytes.offset() - 1, format!("expected 0 or 1, found {other}"))),
    }
}

#[derive(Default)]
struct Reader {
    registers: RegisterBuilder,
    sessions: u64,
    txns: u64,
    failed: u64,
}

impl Reader {
    fn session(&mut self, bytes: &mut Bytes<'_>) -> Result<(), FormatError> {
        let count = number(bytes)?;
        for _ in 0..count {
            self.txn(bytes)?;
        }
        self.sessions += u64::from(count > 0);
        Ok(())
    }

    fn txn(&mut self, bytes: &mut Bytes<'_>) -> Result<(), FormatError> {
        self.registers.builder.at_place(bytes.offset());
        for _ in 0..number(bytes)? {
            let kind = if flag(bytes)? { OpKind::Write } else { OpKind::Read };
            let (key, value) = (number(bytes)?, number(bytes)?);
            match flag(bytes)? {
                true => self.event(kind, key, value).map_err(|invalid| bytes.invalid(invalid))?,
                false => self.failed += 1,
            }
        }
        let ended = flag(bytes)?;
        self.registers.end(self.sessions, self.txns, ended).map_err(|invalid| bytes.invalid(invalid))?;
        self.txns += 1;
        Ok(())
    }

    fn event(&mut self, kind: OpKind, key: u64, value: u64) -> Result<(), margay_history::Invalid> {
        let values = self.registers.builder.values();
        let (key, value) = (values.uint(key), values.uint(value));
        self.registers.access(self.sessions, self.txns, kind, key, value)
    }
}

pub(crate) fn write(history: &History, out: &mut dyn Write) -> Result<(), FormatError> {
    let registers = Registers::with_zeros(history, Format::Dbcop)?;
    let longest = |counts: &mut dyn Iterator<Item = usize>| counts.max().unwrap_or(0);
    let txns = longest(&mut history.sessions().map(|session| history.session_txns(session).len()));
    let events = longest(&mut history.txns().map(|txn| history.ops(txn).len()));
    for count in [0, history.session_count(), history.object_count(), txns, events] {
        out.write_all(&(count as u64).to_le_bytes())?;
    }
    for text in ["written by margay", "1970-01-01T00:00:00+00:00", "1970-01-01T00:00:00+00:00"] {
        out.write_all(&(text.len() as u64).to_le_bytes())?;
        out.write_all(text.as_bytes())?;
    }
    out.write_all(&(history.session_count() as u64).to_le_bytes())?;
    for session in history.sessions() {
        out.write_all(&(history.session_txns(session).len() as u64).to_le_bytes())?;
        for txn in history.session_txns(session) {
            write_txn(&registers, txn, out)?;
        }
    }
    Ok(())
}

fn write_txn(
    registers: &Registers<'_>,
    txn: margay_history::TxnId,
    out: &mut dyn Write,
) -> Result<(), FormatError> {
    let committed = registers.committed(txn)?;
    let ops = registers.ops(txn)?;
    out.write_all(&(ops.len() as u64).to_le_bytes())?;
    for op in ops {
        let natural =
            |int: i128| u64::try_from(int).map_err(|_| registers.refuse(op.op, "a negative number"));
        out.write_all(&[u8::from(op.write)])?;
        out.write_all(&natural(op.key)?.to_le_bytes())?;
        out.write_all(&natural(op.value.unwrap_or(0))?.to_le_bytes())?;
        out.write_all(&[1])?;
    }
    Ok(out.write_all(&[u8::from(committed)])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::testing::{fails, reads, round_trip};

    fn sample() -> Vec<u8> {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, n: u64| bytes.extend(n.to_le_bytes());
        (0..5).for_each(|n| number(&mut bytes, n));
        for text in ["i", "s", "e"] {
            number(&mut bytes, 1);
            bytes.extend(text.as_bytes());
        }
        let event = |bytes: &mut Vec<u8>, write: u8, key: u64, value: u64, success: u8| {
            bytes.push(write);
            number(bytes, key);
            number(bytes, value);
            bytes.push(success);
        };
        number(&mut bytes, 2);
        number(&mut bytes, 2);
        number(&mut bytes, 2);
        event(&mut bytes, 1, 7, 1, 1);
        event(&mut bytes, 0, 8, 0, 1);
        bytes.push(1);
        number(&mut bytes, 2);
        event(&mut bytes, 1, 7, 2, 1);
        event(&mut bytes, 1, 7, 3, 0);
        bytes.push(0);
        number(&mut bytes, 1);
        number(&mut bytes, 1);
        event(&mut bytes, 0, 7, 1, 1);
        bytes.push(1);
        bytes
    }

    #[test]
    fn reads_and_writes() {
        let history = round_trip(Format::Dbcop, &sample());
        assert_eq!((history.session_count(), history.txn_count(), history.op_count()), (2, 3, 7));
        assert_eq!(history.initial_values().len(), 2);
        assert_eq!(reads(Format::Dbcop, &sample()).warnings.len(), 1);
    }

    #[test]
    fn any_cut_is_an_error() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert!(fails(Format::Dbcop, &bytes[..end]).contains("the file ends too early"), "{end}");
        }
        let mut more = bytes.clone();
        more.push(0);
        assert!(fails(Format::Dbcop, &more).contains("something follows"));
    }

    #[test]
    fn huge_counts_and_odd_flags_are_errors() {
        let mut bytes = sample();
        bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(fails(Format::Dbcop, &bytes).contains("the file ends too early"));
        let mut bytes = sample();
        let last = bytes.len() - 1;
        bytes[last] = 2;
        assert!(fails(Format::Dbcop, &bytes).ends_with("expected 0 or 1, found 2"));
    }
}
