//! The recording as lines, written so that every beginning of the file tells the truth.
//!
//! # Problem
//! A run may be killed at any moment. If the file had a read but not yet the write that it saw, the
//! reader would accuse the database.
//!
//! # Algorithm
//! Lines are held back until their operation had ended when the collector's round began, and are
//! written in the order in which operations ended. Who saw a committed write ended after it; and
//! the write had been pushed onto its tape before its transaction's commit was even asked for. So
//! the write is there by then, in this round or an earlier one, and stands before the read.

use std::io::{self, Write};

use margay_client::{JsonSink, Recorded, Sink, Start};

use crate::collect::Output;

pub(crate) struct Lines<'a> {
    out: Output<'a>,
    sink: JsonSink<Vec<u8>>,
    /// Lines that wait, each with when its operation ended and was called.
    held: Vec<(i64, i64, Vec<u8>)>,
}

impl<'a> Lines<'a> {
    /// Writes the header.
    pub fn new(out: Output<'a>, start: &Start) -> io::Result<Self> {
        let mut lines = Self { out, sink: JsonSink::new(Vec::new()), held: Vec::new() };
        lines.sink.start(start)?;
        let header = lines.sink.take();
        lines.out.write_all(&header)?;
        lines.out.flush()?;
        Ok(lines)
    }

    pub fn op(&mut self, op: Recorded<'_>) -> io::Result<()> {
        self.sink.op(op)?;
        self.held.push((op.after, op.before, self.sink.take()));
        Ok(())
    }

    /// Writes all operations that ended until then. Answers when the first of the others was called.
    pub fn pass(&mut self, until: i64) -> io::Result<i64> {
        self.held.sort_by_key(|line| line.0);
        let ready = self.held.partition_point(|line| line.0 <= until);
        let lines: Vec<u8> = self.held.drain(..ready).flat_map(|line| line.2).collect();
        self.out.write_all(&lines)?;
        self.out.flush()?;
        Ok(self.held.iter().map(|line| line.1).min().unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use margay_client::{Action, Setting};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A client's tape is emptied before that of the one whose write it saw; the file has the write
    /// first all the same, and nothing of what came after.
    #[test]
    fn what_ended_first_stands_first() {
        let file = Shared::default();
        let setting = Setting { clients: 1, keys: 2, domain: 2, seed: 1 };
        let start = setting.start("a database".to_owned(), "serializable".to_owned());
        let mut lines = Lines::new(Box::new(file.clone()), &start).expect("a header");
        let begin = |txn, after| Recorded { session: txn, txn, before: 0, after, action: Action::Begin };
        for (txn, after) in [(3, 30), (5, 50), (1, 10), (2, 20)] {
            lines.op(begin(txn, after)).expect("a line");
        }
        lines.pass(30).expect("written");
        let text = String::from_utf8(file.0.lock().expect("no panic").clone()).expect("text");
        let ended: Vec<&str> = text.lines().skip(1).collect();
        let places = ["[0,10]", "[0,20]", "[0,30]"];
        assert_eq!(ended.len(), places.len(), "{text}");
        assert!(ended.iter().zip(places).all(|(line, place)| line.contains(place)), "{text}");
    }
}
