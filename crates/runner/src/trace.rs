//! What one client has recorded and nobody has collected yet.
//!
//! # Algorithm
//! A client pushes each operation onto its own tape when it has been answered; the collector takes
//! what there is whenever it likes, by exchanging the full chunk for an empty one. Before each call
//! the client says when it calls: whatever is still to come was called then or later, also if the
//! call takes long. So the collector never waits for a client, and a client never waits for more
//! than an exchange of pointers.
//!
//! # Cost
//! An operation is pushed onto two or three vectors, under a lock that only the collector's
//! exchange contends for; what a read saw is moved, not copied. Chunks go back and forth with the
//! room that they have: once they are large enough nothing is allocated. Texts of SQL statements'
//! parameters and answers are copied, because the program that asked keeps them too.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use margay_client::{Action, Answer, Ask, Cell, Change, Executed, Obj, Recorded, Value};

/// Room for so many operations is there from the beginning.
const ROOM: usize = 4096;

/// How a transaction ended, as far as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    Committed,
    Aborted,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Begin,
    Asked(Ask),
    /// A statement of a program.
    Sql(Sql),
    Ended(Ended),
}

/// Its parameters stand before the cells of its answer.
#[derive(Clone, Copy, Debug)]
struct Sql {
    text: &'static str,
    params: u32,
    columns: u32,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    session: u64,
    txn: u64,
    before: i64,
    after: i64,
    what: What,
    /// Where its rows end.
    rows: usize,
    /// Where its cells end.
    cells: usize,
}

/// Operations of one client, in order.
#[derive(Debug)]
pub(crate) struct Chunk {
    ops: Vec<Op>,
    rows: Vec<(Obj, Value)>,
    cells: Vec<Cell>,
}

impl Default for Chunk {
    fn default() -> Self {
        Self { ops: Vec::with_capacity(ROOM), rows: Vec::with_capacity(ROOM), cells: Vec::new() }
    }
}

impl Chunk {
    /// A chunk without room, in the place of one that is being looked at.
    pub const fn placeholder() -> Self {
        Self { ops: Vec::new(), rows: Vec::new(), cells: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.ops.clear();
        self.rows.clear();
        self.cells.clear();
    }

    /// Tells it all again.
    pub fn replay<E>(&self, mut sink: impl FnMut(Recorded<'_>) -> Result<(), E>) -> Result<(), E> {
        let (mut from, mut first) = (0, 0);
        for op in &self.ops {
            let &Op { session, txn, before, after, what, rows, cells } = op;
            let action = action(what, &self.rows[from..rows], &self.cells[first..cells]);
            sink(Recorded { session, txn, before, after, action })?;
            (from, first) = (rows, cells);
        }
        Ok(())
    }
}

/// What a client and the collector share.
#[derive(Default, Debug)]
pub(crate) struct Tape {
    /// Whether nothing is recorded.
    silent: bool,
    chunk: Mutex<Chunk>,
    /// When the client called last; everything when it is gone.
    calling: AtomicI64,
}

impl Tape {
    pub fn new(silent: bool) -> Self {
        Self { silent, ..Self::default() }
    }

    fn chunk(&self) -> MutexGuard<'_, Chunk> {
        self.chunk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client calls now, or promises not to have called before.
    pub fn call(&self, now: i64) {
        self.calling.store(now, Ordering::Release);
    }

    /// The client calls no more.
    pub fn close(&self) {
        self.call(i64::MAX);
    }

    /// Exchanges what there is for an empty chunk; answers the time before which nothing more will
    /// come.
    pub fn take(&self, empty: &mut Chunk) -> i64 {
        // First the promise: what is pushed after it was called no earlier.
        let promised = self.calling.load(Ordering::Acquire);
        std::mem::swap(&mut *self.chunk(), empty);
        promised
    }
}

/// A client's end of its tape.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    tape: &'a Tape,
    session: u64,
    txn: u64,
}

impl<'a> Recorder<'a> {
    pub fn new(tape: &'a Tape) -> Self {
        Self { tape, session: 0, txn: 0 }
    }

    /// What follows belongs to this transaction.
    pub fn enter(&mut self, session: u64, txn: u64) {
        (self.session, self.txn) = (session, txn);
    }

    pub fn begin(&mut self, before: i64, after: i64) {
        self.push(before, after, |_| What::Begin);
    }

    /// A statement and what it answered.
    pub fn executed(&mut self, before: i64, after: i64, ask: Ask, rows: &mut Vec<(Obj, Value)>) {
        self.push(before, after, |chunk| {
            chunk.rows.append(rows);
            What::Asked(ask)
        });
    }

    /// A statement of a program and its answer.
    pub fn answered(
        &mut self,
        before: i64,
        after: i64,
        text: &'static str,
        params: &[Cell],
        answer: &Answer,
    ) {
        self.push(before, after, |chunk| {
            chunk.cells.extend_from_slice(params);
            chunk.cells.extend_from_slice(&answer.cells);
            let (params, columns) = (params.len() as u32, answer.columns as u32);
            What::Sql(Sql { text, params, columns, count: answer.count })
        });
    }

    pub fn ended(&mut self, before: i64, after: i64, ended: Ended) {
        self.push(before, after, |_| What::Ended(ended));
    }

    fn push(&self, before: i64, after: i64, what: impl FnOnce(&mut Chunk) -> What) {
        if self.tape.silent {
            return;
        }
        let mut chunk = self.tape.chunk();
        let what = what(&mut chunk);
        let (session, txn) = (self.session, self.txn);
        let (rows, cells) = (chunk.rows.len(), chunk.cells.len());
        chunk.ops.push(Op { session, txn, before, after, what, rows, cells });
    }
}

fn action<'a>(what: What, rows: &'a [(Obj, Value)], cells: &'a [Cell]) -> Action<'a> {
    match (what, rows) {
        (What::Begin, _) => Action::Begin,
        (What::Sql(sql), _) => Action::Sql(executed(sql, cells)),
        (What::Ended(Ended::Committed), _) => Action::Commit,
        (What::Ended(Ended::Aborted), _) => Action::Abort,
        (What::Ended(Ended::Unknown), _) => Action::Unknown,
        // A delete that found nothing has written nothing, but it has seen that there is nothing.
        (What::Asked(Ask::Read(_) | Ask::Write(_, Change::Delete)), [(obj, value)]) => {
            Action::Read(*obj, value)
        }
        (What::Asked(Ask::Read(obj)), _) => Action::Read(obj, &Value::Absent),
        (What::Asked(Ask::Write(obj, change)), _) => Action::Write(obj, change),
        (What::Asked(Ask::Scan(cond) | Ask::Aggregate(cond)), rows) => Action::Scan(cond, rows),
        (What::Asked(Ask::Update(cond, set)), rows) => Action::Update(cond, set, rows),
    }
}

fn executed(sql: Sql, cells: &[Cell]) -> Executed<'_> {
    let Sql { text, params, columns, count } = sql;
    let (params, cells) = cells.split_at(params as usize);
    Executed { text, params, columns: columns as usize, cells, count }
}

#[cfg(test)]
mod tests {
    use margay_client::Space;

    use super::*;

    fn told(chunk: &Chunk) -> Vec<String> {
        let mut told = Vec::new();
        let replayed = chunk.replay(|op| {
            told.push(format!("{:?}", op.action));
            Ok::<_, ()>(())
        });
        assert_eq!(replayed, Ok(()));
        told
    }

    #[test]
    fn a_delete_of_nothing_is_a_read() {
        let obj = Obj::new(Space::Row, 3);
        let tape = Tape::default();
        let mut recorder = Recorder::new(&tape);
        recorder.enter(0, 1);
        recorder.begin(1, 2);
        recorder.executed(3, 4, Ask::Write(obj, Change::Delete), &mut vec![(obj, Value::Absent)]);
        recorder.executed(5, 6, Ask::Write(obj, Change::Delete), &mut Vec::new());
        recorder.ended(7, 8, Ended::Unknown);
        let mut chunk = Chunk::default();
        tape.take(&mut chunk);
        let told = told(&chunk);
        assert!(told[1].starts_with("Read") && told[2].starts_with("Write"), "{told:?}");
        assert_eq!((told[0].as_str(), told[3].as_str()), ("Begin", "Unknown"));
    }

    #[test]
    fn chunks_keep_their_room_and_promises_come_before_what_they_promise() {
        let tape = Tape::default();
        let mut recorder = Recorder::new(&tape);
        let mut chunk = Chunk::default();
        let rooms = [chunk.ops.as_ptr(), tape.chunk().ops.as_ptr()];
        for round in 0..10 {
            tape.call(round);
            (0..ROOM as i64).for_each(|_| recorder.begin(round, round));
            chunk.clear();
            assert_eq!(tape.take(&mut chunk), round);
            assert_eq!(chunk.ops.len(), ROOM);
            assert!(rooms.contains(&chunk.ops.as_ptr()), "a chunk was allocated anew");
        }
        tape.close();
        chunk.clear();
        assert_eq!((tape.take(&mut chunk), chunk.ops.len()), (i64::MAX, 0));
    }
}
