//! What clients record, as JSON lines, Margay's native format, written as it happens.
//!
//! # Algorithm
//! Each operation is put into the words of a history by a [`BuilderSink`], and written with them.
//! What these words stand for is forgotten when there is much of it, so that memory stays the same
//! however long a recording grows.

use std::io::{self, Write};

use margay_formats::NativeWriter;
use margay_history::{Access, Interval};

use super::{BuilderSink, Note, Recorded, Sink, Start};

/// How many objects and values are known at most.
const KNOWN: usize = 1 << 16;

/// Writes JSON lines.
#[derive(Debug)]
pub struct JsonSink<W> {
    writer: NativeWriter<W>,
    words: BuilderSink,
}

impl JsonSink<Vec<u8>> {
    /// Takes out all lines so far.
    pub fn take(&mut self) -> Vec<u8> {
        self.writer.take()
    }
}

impl<W: Write> JsonSink<W> {
    /// Writes to `out`, which need not be buffered.
    pub fn new(out: W) -> Self {
        Self { writer: NativeWriter::new(out), words: BuilderSink::default() }
    }

    /// Writes what is left, and gives `out` back.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(self) -> io::Result<W> {
        self.writer.finish()
    }

    /// Passes on all whole lines.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if self.words.names().count() > KNOWN {
            self.words = self.words.renewed().map_err(io::Error::other)?;
        }
        self.writer.end_line()
    }
}

impl<W: Write> Sink for JsonSink<W> {
    type Error = io::Error;

    fn start(&mut self, start: &Start) -> io::Result<()> {
        self.words.start(start).map_err(io::Error::other)?;
        let builder = self.words.builder();
        let header = builder.header().clone();
        let mut initial: Vec<_> =
            builder.initial_values().map(|Access { object, value }| (object, value)).collect();
        initial.sort_unstable();
        let written = self.writer.header(builder.names(), &header, &initial);
        written.map_err(|(_, beyond)| io::Error::other(beyond))?;
        self.end_line()
    }

    fn op(&mut self, op: Recorded<'_>) -> io::Result<()> {
        let (who, at) = ((op.session, op.txn), Some(Interval::new(op.before, op.after)));
        let written = self.words.translate(op.action, |builder, kind, accesses, detail| {
            self.writer.op(builder.names(), who, at, kind, accesses, &detail)
        });
        written.map_err(io::Error::other)?;
        self.end_line()
    }

    fn note(&mut self, note: Note<'_>) -> io::Result<()> {
        let label = |txn: u64| (txn != 0).then_some(txn);
        match note {
            Note::VersionOrder(obj, txns) => {
                let object = self.words.object(obj);
                let written = self.writer.version_order(self.words.names(), object, &txns.map(label));
                written.map_err(io::Error::other)?;
            }
            Note::VersionSet(txn, op, versions) => {
                let versions: Vec<_> =
                    versions.iter().map(|&(obj, writer)| (self.words.object(obj), label(writer))).collect();
                let written = self.writer.version_set(self.words.names(), (txn, op), &versions);
                written.map_err(|(_, beyond)| io::Error::other(beyond))?;
            }
            Note::Snapshot(txn, ts) => self.writer.stamp("snapshot", txn, ts),
            Note::Commit(txn, ts) => self.writer.stamp("commit", txn, ts),
            Note::Serialization(txn, ts) => self.writer.stamp("serialization", txn, ts),
        }
        self.end_line()
    }
}

#[cfg(test)]
mod tests {
    use margay_formats::{Format, Source, read};

    use super::*;
    use crate::{Action, Change, Obj, Setting, Space};

    /// More values than are kept, and a name with quotes, which was written without escapes once.
    #[test]
    fn a_long_recording_reads_back_as_what_was_built() {
        let mut lines = JsonSink::new(Vec::new());
        let mut built = BuilderSink::default();
        let setting = Setting { clients: 1, keys: 2, domain: 2, seed: 1 };
        let start = setting.start("a \"database\"".to_owned(), "serializable".to_owned());
        lines.start(&start).expect("a header");
        built.start(&start).expect("a header");
        let (writes, large) = (KNOWN as i64 + 1000, i64::from(u32::MAX));
        let row = Obj::new(Space::Row, 1);
        let delete = Action::Write(row, Change::Delete);
        let puts = (0..writes).map(|n| Action::Write(Obj::new(Space::Register, 0), Change::Put(large + n)));
        for (n, action) in (0..).zip(puts.chain([delete, Action::Commit])) {
            let op = Recorded { session: 1, txn: 1, before: n, after: n, action };
            lines.op(op).expect("a line");
            built.op(op).expect("an operation");
        }
        assert!(lines.words.names().count() < KNOWN, "what was written is forgotten");
        let bytes = lines.finish().expect("memory takes everything");
        let read = read(Source::bytes(&bytes), Some(Format::Margay)).expect("well-formed").history;
        assert_eq!(read.difference(&built.finish().expect("a history")), None);
    }
}
