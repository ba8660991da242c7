//! What one client has recorded.
//!
//! # Cost
//! An operation is pushed onto two vectors; what a read saw is moved, not copied. Nothing is allocated but their growth.

use margay_drivers::{Answer, Ask, Cell, Change, Obj, Value};
use margay_simdb::{Action, Executed, Recorded};

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

/// A client's recording.
#[derive(Default, Debug)]
pub(crate) struct Trace {
    ops: Vec<Op>,
    rows: Vec<(Obj, Value)>,
    cells: Vec<Cell>,
    session: u64,
    txn: u64,
    /// How many connections were lost.
    pub lost: u32,
    /// Why the client had to stop early.
    pub dropped: Option<String>,
}

impl Trace {
    /// What follows belongs to this transaction.
    pub fn enter(&mut self, session: u64, txn: u64) {
        (self.session, self.txn) = (session, txn);
    }

    pub fn begin(&mut self, before: i64, after: i64) {
        self.push(before, after, What::Begin);
    }

    /// A statement and what it answered.
    pub fn executed(&mut self, before: i64, after: i64, ask: Ask, rows: &mut Vec<(Obj, Value)>) {
        self.rows.append(rows);
        self.push(before, after, What::Asked(ask));
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
        self.cells.extend_from_slice(params);
        self.cells.extend_from_slice(&answer.cells);
        let (params, columns) = (params.len() as u32, answer.columns as u32);
        self.push(before, after, What::Sql(Sql { text, params, columns, count: answer.count }));
    }

    pub fn ended(&mut self, before: i64, after: i64, ended: Ended) {
        self.push(before, after, What::Ended(ended));
    }

    fn push(&mut self, before: i64, after: i64, what: What) {
        let (session, txn) = (self.session, self.txn);
        let (rows, cells) = (self.rows.len(), self.cells.len());
        self.ops.push(Op { session, txn, before, after, what, rows, cells });
    }

    /// From the first call to the last answer.
    pub fn span(&self) -> Option<(i64, i64)> {
        Some((self.ops.first()?.before, self.ops.last()?.after))
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
    use margay_drivers::Space;

    use super::*;

    #[test]
    fn a_delete_of_nothing_is_a_read() {
        let obj = Obj::new(Space::Row, 3);
        let mut trace = Trace::default();
        trace.enter(0, 1);
        trace.begin(1, 2);
        trace.executed(3, 4, Ask::Write(obj, Change::Delete), &mut vec![(obj, Value::Absent)]);
        trace.executed(5, 6, Ask::Write(obj, Change::Delete), &mut Vec::new());
        trace.ended(7, 8, Ended::Unknown);
        let mut told = Vec::new();
        let replayed = trace.replay(|op| {
            told.push(format!("{:?}", op.action));
            Ok::<_, ()>(())
        });
        assert_eq!((replayed, trace.span()), (Ok(()), Some((1, 8))));
        assert!(told[1].starts_with("Read") && told[2].starts_with("Write"), "{told:?}");
        assert_eq!((told[0].as_str(), told[3].as_str()), ("Begin", "Unknown"));
    }
}
