//! `awdit`: AWDIT's test form. `w KEY VALUE` and `r KEY VALUE`; a line of `-` ends a transaction, a
//! line of `=` a session.
//!
//! There is no implicit initial transaction: the initial state of every object is absent, and a
//! read of a value that nobody writes is just that. Sessions and transactions are numbered from 0
//! in the order of the file.

use std::io::Write;

use margay_history::{History, Invalid, OpKind};

use super::registers::{RegisterBuilder, Registers, integer};
use crate::input::{Input, Lines};
use crate::{Format, FormatError, Warnings};

pub(crate) fn read(input: Input<'_>, _: &mut Warnings) -> Result<History, FormatError> {
    let mut lines = input.lines()?;
    let mut reader = Reader::default();
    while lines.advance()? {
        let text = lines.text()?.trim();
        reader.registers.builder.at_place(lines.number());
        let all = |c: char| !text.is_empty() && text.chars().all(|d| d == c);
        if text.is_empty() {
        } else if all('-') {
            reader.end_txn().map_err(|invalid| lines.invalid(invalid))?
        } else if all('=') {
            reader.end_session().map_err(|invalid| lines.invalid(invalid))?
        } else {
            reader.operation(&lines, text)?
        }
    }
    reader.finish().map_err(|invalid| lines.invalid(invalid))
}

#[derive(Default)]
struct Reader {
    registers: RegisterBuilder,
    session: u64,
    txn: u64,
    /// Whether the session has transactions, and the transaction operations.
    session_used: bool,
    txn_used: bool,
}

impl Reader {
    fn operation(&mut self, lines: &Lines<'_>, text: &str) -> Result<(), FormatError> {
        let column = |part: &str| (part.as_ptr() as usize - lines.line().as_ptr() as usize) as u64 + 1;
        let mut parts = text.split_ascii_whitespace();
        let kind = match parts.next() {
            Some("r") => OpKind::Read,
            Some("w") => OpKind::Write,
            _ => {
                return Err(lines
                    .error(column(text), "expected 'r KEY VALUE', 'w KEY VALUE', or a line of '-' or '='"));
            }
        };
        let (Some(key), Some(value), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(lines.error(column(text), "expected a key and a value"));
        };
        let mut number = |part: &str| {
            integer(&mut self.registers.builder, part)
                .ok_or_else(|| lines.error(column(part), "this is no integer of 64 bits"))
        };
        let (key, value) = (number(key)?, number(value)?);
        (self.txn_used, self.session_used) = (true, true);
        let pushed = self.registers.access(self.session, self.txn, kind, key, value);
        pushed.map_err(|invalid| lines.invalid(invalid))
    }

    fn end_txn(&mut self) -> Result<(), Invalid> {
        if std::mem::take(&mut self.txn_used) {
            self.registers.end(self.session, self.txn, true)?;
            self.txn += 1;
        }
        Ok(())
    }

    fn end_session(&mut self) -> Result<(), Invalid> {
        self.end_txn()?;
        self.session += u64::from(std::mem::take(&mut self.session_used));
        Ok(())
    }

    fn finish(mut self) -> Result<History, Invalid> {
        self.end_txn()?;
        self.registers.finish_with_nothing()
    }
}

pub(crate) fn write(history: &History, out: &mut dyn Write) -> Result<(), FormatError> {
    let registers = Registers::with_nothing(history, Format::Awdit);
    let mut first_session = true;
    for session in history.sessions() {
        let mut first_txn = true;
        for txn in history.session_txns(session) {
            if !registers.committed(txn)? {
                let label = history.txn_label(txn);
                let what =
                    format!("transaction {label}: the format awdit cannot carry an aborted transaction");
                return Err(FormatError::new(what));
            }
            let ops = registers.ops(txn)?;
            if ops.is_empty() {
                continue;
            }
            match (first_txn, first_session) {
                (true, true) => {}
                (true, false) => out.write_all(b"=====\n")?,
                (false, _) => out.write_all(b"-----\n")?,
            }
            (first_txn, first_session) = (false, false);
            for op in &ops {
                // Registers without an initial state always have values.
                writeln!(out, "{} {} {}", if op.write { 'w' } else { 'r' }, op.key, op.value.unwrap_or(0))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::foreign::testing::{fails, round_trip};

    #[test]
    fn reads_and_writes() {
        let history = round_trip(Format::Awdit, b"w 0 0\nw 1 0\n=====\n-----\nr 0 0\n-----\nr 1 7\n===\n");
        assert_eq!((history.session_count(), history.txn_count()), (2, 3));
        assert!(history.initial_values().is_empty());
    }

    #[test]
    fn errors_have_their_place() {
        assert_eq!(fails(Format::Awdit, b"w 0 0\nr 1 x"), "<bytes>:2:5: this is no integer of 64 bits");
        assert_eq!(fails(Format::Awdit, b"w 0"), "<bytes>:1:1: expected a key and a value");
    }
}
