//! `text`: lines `r(KEY,VALUE,SESSION,TXN)` and `w(…)` of PolySI, Plume, IsoVista and MTC.
//!
//! Line order is program order; 0 is the initial state (see `registers`); a transaction −1 is
//! aborted, and as many lines of a session as follow each other are one. Some files number
//! transactions in each session anew: the second session to use an id gets another one.

use std::io::Write;

use hashbrown::HashMap;
use margay_history::{History, OpKind, ValueId};

use super::registers::{RegisterBuilder, Registers, integer};
use crate::input::{Input, Lines};
use crate::{Format, FormatError, Warnings};

/// Labels for transactions that have none of their own begin here.
const FRESH: u64 = 1 << 32;

pub(crate) fn read(input: Input<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    let mut lines = input.lines()?;
    let mut reader = Reader::default();
    while lines.advance()? {
        let text = lines.text()?.trim();
        if text.is_empty() {
            continue;
        }
        let parsed = parse(&lines, text)?;
        reader.registers.builder.at_place(lines.number());
        reader.line(&lines, parsed)?;
    }
    let renamed = reader.renamed;
    let history = reader.finish().map_err(|invalid| lines.invalid(invalid))?;
    if renamed > 0 {
        warnings.add(format!(
            "{renamed} ids of transactions occur in two sessions: the later ones are numbered from {FRESH}"
        ));
    }
    Ok(history)
}

struct Line<'t> {
    kind: OpKind,
    key: &'t str,
    value: &'t str,
    session: u64,
    /// `None` is −1.
    txn: Option<u64>,
}

fn parse<'t>(lines: &Lines<'_>, text: &'t str) -> Result<Line<'t>, FormatError> {
    let column = |part: &str| (part.as_ptr() as usize - lines.line().as_ptr() as usize) as u64 + 1;
    let kind = match text.as_bytes()[0] {
        b'r' => OpKind::Read,
        b'w' => OpKind::Write,
        _ => return Err(lines.error(column(text), "expected r(KEY,VALUE,SESSION,TXN) or w(…)")),
    };
    let inner = text[1..].strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let parts: Vec<&str> = inner.unwrap_or_default().split(',').map(str::trim).collect();
    let [key, value, session, txn] = parts[..] else {
        return Err(lines.error(column(text), "expected four numbers: KEY,VALUE,SESSION,TXN"));
    };
    let number = |part: &str, what: &str| {
        part.parse::<u64>().map_err(|_| lines.error(column(part), format!("{what} is no natural number")))
    };
    let session = number(session, "the session")?;
    let txn = if txn == "-1" { None } else { Some(number(txn, "the transaction")?) };
    Ok(Line { kind, key, value, session, txn })
}

#[derive(Default)]
struct Reader {
    registers: RegisterBuilder,
    /// The transaction that each session is in: its id in the file, and its label.
    current: HashMap<u64, (Option<u64>, u64)>,
    /// The session of each label.
    owners: HashMap<u64, u64>,
    /// The labels of transactions that could not keep their id.
    others: HashMap<(u64, u64), u64>,
    fresh: u64,
    renamed: u64,
}

impl Reader {
    fn line(&mut self, lines: &Lines<'_>, line: Line<'_>) -> Result<(), FormatError> {
        let label = self.enter(&line).map_err(|invalid| lines.invalid(invalid))?;
        let key = self.number(lines, line.key, "the key")?;
        let value = self.number(lines, line.value, "the value")?;
        let pushed = self.registers.access(line.session, label, line.kind, key, value);
        pushed.map_err(|invalid| lines.invalid(invalid))
    }

    fn number(&mut self, lines: &Lines<'_>, text: &str, what: &str) -> Result<ValueId, FormatError> {
        let column = text.as_ptr() as usize - lines.line().as_ptr() as usize;
        integer(&mut self.registers.builder, text)
            .ok_or_else(|| lines.error(column as u64 + 1, format!("{what} is no integer of 64 bits")))
    }

    /// The label of a line's transaction, which ends the one before it in its session.
    fn enter(&mut self, line: &Line<'_>) -> Result<u64, margay_history::Invalid> {
        let open = self.current.get(&line.session).copied();
        if let Some((id, label)) = open {
            if id == line.txn {
                return Ok(label);
            }
            self.registers.end(line.session, label, id.is_some())?;
        }
        let label = match line.txn {
            Some(id) => self.label(line.session, id),
            None => self.fresh_label(line.session),
        };
        self.current.insert(line.session, (line.txn, label));
        Ok(label)
    }

    fn label(&mut self, session: u64, id: u64) -> u64 {
        if *self.owners.entry(id).or_insert(session) == session {
            return id;
        }
        if let Some(&label) = self.others.get(&(session, id)) {
            return label;
        }
        self.renamed += 1;
        let label = self.fresh_label(session);
        self.others.insert((session, id), label);
        label
    }

    fn fresh_label(&mut self, session: u64) -> u64 {
        loop {
            let label = FRESH + self.fresh;
            self.fresh += 1;
            if !self.owners.contains_key(&label) {
                self.owners.insert(label, session);
                return label;
            }
        }
    }

    fn finish(mut self) -> Result<History, margay_history::Invalid> {
        for (session, (id, label)) in self.current {
            self.registers.end(session, label, id.is_some())?;
        }
        self.registers.finish_with_zeros()
    }
}

pub(crate) fn write(history: &History, out: &mut dyn Write) -> Result<(), FormatError> {
    let registers = Registers::with_zeros(history, Format::Text)?;
    for session in history.sessions() {
        let mut after_abort = false;
        for txn in history.session_txns(session) {
            let committed = registers.committed(txn)?;
            let label = if committed { i128::from(history.txn_label(txn)) } else { -1 };
            let ops = registers.ops(txn)?;
            if let (true, false, Some(op)) = (after_abort, committed, ops.first()) {
                return Err(registers.refuse(op.op, "two aborted transactions in a row"));
            }
            for op in &ops {
                let (kind, value) = (if op.write { 'w' } else { 'r' }, op.value.unwrap_or(0));
                writeln!(out, "{kind}({},{value},{},{label})", op.key, history.session_label(session))?;
            }
            after_abort = !committed && (after_abort || !ops.is_empty()) || after_abort && ops.is_empty();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::foreign::testing::{fails, reads, round_trip};

    #[test]
    fn reads_and_writes() {
        let text = "w(1,1,0,0)\nr(1,0,1,1)\nw(2,7,1,1)\nr(2,7,1,2)\nw(2,9,1,-1)\nr(1,1,1,4)\n";
        let history = round_trip(Format::Text, text.as_bytes());
        assert_eq!(history.session_count(), 2);
        assert_eq!(history.txn_count(), 5);
        assert_eq!(history.initial_values().len(), 2);
    }

    #[test]
    fn a_written_zero_is_no_initial_state() {
        let history = round_trip(Format::Text, b"w(1,0,0,0)\nr(1,0,1,1)\n");
        assert!(history.initial_values().is_empty());
    }

    #[test]
    fn an_id_in_two_sessions_is_two_transactions() {
        let loaded = reads(Format::Text, b"r(1,0,1,1)\nr(1,0,2,1)\n");
        assert_eq!(loaded.history.txn_count(), 2);
        assert_eq!(loaded.warnings.len(), 1);
    }

    #[test]
    fn errors_have_their_place() {
        assert_eq!(
            fails(Format::Text, b"r(1,0,1,1)\nr(1,x,1,1)"),
            "<bytes>:2:5: the value is no integer of 64 bits"
        );
        assert_eq!(
            fails(Format::Text, b"r(1,0,1)"),
            "<bytes>:1:1: expected four numbers: KEY,VALUE,SESSION,TXN"
        );
        assert_eq!(fails(Format::Text, b"q"), "<bytes>:1:1: expected r(KEY,VALUE,SESSION,TXN) or w(…)");
        let back = fails(Format::Text, b"r(1,0,1,1)\nr(1,0,1,2)\nr(1,0,1,1)");
        assert!(back.contains("<bytes>:3:1"), "{back}");
    }
}
