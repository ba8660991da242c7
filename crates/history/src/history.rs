//! The finished history and its columns.

use std::ops::Range;

use hashbrown::HashMap;

use crate::detail::Begin;
use crate::evidence::Evidence;
use crate::ids::{NameId, ObjectId, OpId, PredicateId, SessionId, TableId, TxnId, ValueId};
use crate::intervals::{Interval, Intervals};
use crate::object::{Object, Objects};
use crate::table::Table;
use crate::value::{Value, Values};

/// The unit of the client clocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Unit {
    /// Nanoseconds.
    #[default]
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// No clock: positions in a recorded list of events.
    Index,
}

impl Unit {
    /// All units, with their names in files.
    pub const ALL: [(Unit, &'static str); 5] = [
        (Unit::Nanoseconds, "ns"),
        (Unit::Microseconds, "us"),
        (Unit::Milliseconds, "ms"),
        (Unit::Seconds, "s"),
        (Unit::Index, "index"),
    ];

    /// The unit's name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The unit of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Unit> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|&(unit, _)| unit)
    }
}

/// What a history says of itself.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Header {
    /// The unit of the client clocks.
    pub unit: Unit,
    /// How far two clients' clocks may be apart, in that unit; never negative.
    pub skew: i64,
    /// The database, as `name-version`.
    pub dbms: Option<String>,
    /// The level that the database was asked for.
    pub level: Option<String>,
}

/// How a transaction ended, as far as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It committed.
    Committed,
    /// It aborted: nothing of it may be seen.
    Aborted,
    /// The client never learned. It may have committed, even after the last interval of the
    /// transaction.
    Unknown,
}

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum OpKind {
    /// BEGIN.
    Begin,
    /// A read of one or more objects in one statement.
    Read,
    /// A write of one or more objects in one statement; a write of [`ValueId::NULL`] deletes.
    Write,
    /// An append of one element to each list.
    Append,
    /// A predicate read; its accesses are the rows that matched. See [`History::scan`].
    Scan,
    /// A predicate update; its accesses are the rows that matched, as they became. See
    /// [`History::update`].
    Update,
    /// A SQL statement. See [`History::statement`].
    Sql,
    /// COMMIT, acknowledged.
    Commit,
    /// ROLLBACK, or an error that says that the transaction is gone.
    Abort,
    /// The end of what the client knows.
    Unknown,
}

impl OpKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [OpKind; 10] = [
        OpKind::Begin,
        OpKind::Read,
        OpKind::Write,
        OpKind::Append,
        OpKind::Scan,
        OpKind::Update,
        OpKind::Sql,
        OpKind::Commit,
        OpKind::Abort,
        OpKind::Unknown,
    ];

    /// The outcome that an operation of this kind tells, if it is an end.
    #[inline]
    #[must_use]
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            OpKind::Commit => Some(Outcome::Committed),
            OpKind::Abort => Some(Outcome::Aborted),
            OpKind::Unknown => Some(Outcome::Unknown),
            _ => None,
        }
    }

    /// The kind's word in the native format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Begin => "begin",
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Append => "append",
            OpKind::Scan => "scan",
            OpKind::Update => "update",
            OpKind::Sql => "sql",
            OpKind::Commit => "commit",
            OpKind::Abort => "abort",
            OpKind::Unknown => "unknown",
        }
    }

    /// Whether it makes new versions of its accesses' objects.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, OpKind::Write | OpKind::Append | OpKind::Update)
    }
}

/// One object touched by an operation, with the value seen, written, or appended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The object.
    pub object: ObjectId,
    /// The value; [`ValueId::UNKNOWN`] for a read whose result is not known.
    pub value: ValueId,
}

/// The object that is shown twice, with different values, if one is.
pub(crate) fn shown_twice(accesses: &[Access]) -> Option<ObjectId> {
    if accesses.len() < 2 {
        return None;
    }
    let mut seen = HashMap::with_capacity(accesses.len());
    let mut known = accesses.iter().filter(|access| access.value != ValueId::UNKNOWN);
    let twice = known.find(|access| {
        let other = seen.insert(access.object, access.value);
        other.is_some_and(|other| other != access.value)
    });
    twice.map(|access| access.object)
}

/// An operation, as seen through a [`History`].
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// Its id.
    pub id: OpId,
    /// Its kind.
    pub kind: OpKind,
    /// When it took effect, if known.
    pub at: Option<Interval>,
    /// What it touched.
    pub accesses: &'a [Access],
}

impl Op<'_> {
    /// The object that a scan or an update shows twice, with different values, if it does.
    /// Databases have returned two rows of one key, so this is no ill-formed input; but it sees one
    /// version of an object.
    #[must_use]
    pub fn shows_twice(&self) -> Option<ObjectId> {
        matches!(self.kind, OpKind::Scan | OpKind::Update).then(|| shown_twice(self.accesses)).flatten()
    }
}

/// A table and the text of a WHERE clause.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Predicate {
    /// The table.
    pub table: TableId,
    /// The text of the condition.
    pub text: Box<str>,
}

/// How a locking read locks what it returns, to the end of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadLock {
    /// With other readers: FOR SHARE, LOCK IN SHARE MODE.
    Share,
    /// Alone: FOR UPDATE.
    Exclusive,
}

/// What a scan asked. The rows it saw are the operation's accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scan {
    /// What it asked.
    pub predicate: PredicateId,
    /// Whether the client saw the rows.
    pub observed: bool,
}

/// What a predicate update asked. The rows it changed are the operation's accesses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// Which rows it changed.
    pub predicate: PredicateId,
    /// The text of the assignments; `None` deletes the rows.
    pub set: Option<Box<str>>,
    /// Whether the client saw the rows.
    pub observed: bool,
}

/// A SQL statement and what the client saw of its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// The text.
    pub text: std::sync::Arc<str>,
    /// The parameters.
    pub params: Box<[ValueId]>,
    /// The result's tuples, each a list, if seen.
    pub rows: Option<Box<[ValueId]>>,
    /// The number of affected rows, if seen.
    pub count: Option<u64>,
}

/// What clients saw. See the [crate documentation](crate).
#[derive(Clone, Debug)]
pub struct History {
    pub(crate) header: Header,
    pub(crate) tables: Vec<Table>,
    pub(crate) values: Values,
    pub(crate) objects: Objects,
    pub(crate) predicates: Vec<Predicate>,
    /// By object.
    pub(crate) initial: Vec<(ObjectId, ValueId)>,
    pub(crate) session_labels: Vec<u64>,
    /// The first transaction of each session, and the number of transactions.
    pub(crate) session_starts: Vec<u32>,
    pub(crate) txn_labels: Vec<u64>,
    pub(crate) txn_sessions: Vec<SessionId>,
    /// The first operation of each transaction, and the number of operations.
    pub(crate) txn_starts: Vec<u32>,
    pub(crate) kinds: Vec<OpKind>,
    pub(crate) intervals: Intervals,
    /// The first access of each operation, and the number of accesses.
    pub(crate) op_starts: Vec<u32>,
    pub(crate) accesses: Vec<Access>,
    /// By operation, each.
    pub(crate) begins: Vec<(OpId, Begin)>,
    pub(crate) scans: Vec<(OpId, Scan)>,
    pub(crate) updates: Vec<(OpId, Update)>,
    pub(crate) statements: Vec<(OpId, Statement)>,
    pub(crate) locks: Vec<(OpId, ReadLock)>,
    pub(crate) evidence: Evidence,
}

impl History {
    /// What the history says of itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// One table.
    #[must_use]
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.index()]
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// What a value id stands for.
    #[inline]
    #[must_use]
    pub fn value(&self, id: ValueId) -> Value<'_> {
        self.values.get(id)
    }

    /// The name of a column.
    #[must_use]
    pub fn name(&self, id: NameId) -> &str {
        self.values.name(id)
    }

    /// How many objects there are.
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.objects.len()
    }

    /// All objects.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = ObjectId> + use<> {
        (0..self.objects.len()).map(ObjectId::at)
    }

    /// What an object id stands for.
    #[inline]
    #[must_use]
    pub fn object(&self, id: ObjectId) -> Object {
        self.objects.get(id)
    }

    /// The given initial values, by object.
    #[must_use]
    pub fn initial_values(&self) -> &[(ObjectId, ValueId)] {
        &self.initial
    }

    /// The initial value of an object: absent unless given.
    #[inline]
    #[must_use]
    pub fn initial(&self, object: ObjectId) -> ValueId {
        // Objects that have a value are mostly the first ones.
        if let Some(&(at, value)) = self.initial.get(object.index())
            && at == object
        {
            return value;
        }
        match self.initial.binary_search_by_key(&object, |&(o, _)| o) {
            Ok(found) => self.initial[found].1,
            Err(_) => ValueId::NULL,
        }
    }

    /// A predicate.
    #[must_use]
    pub fn predicate(&self, id: PredicateId) -> &Predicate {
        &self.predicates[id.index()]
    }

    /// All predicates.
    #[must_use]
    pub fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    /// How many sessions there are.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.session_labels.len()
    }

    /// All sessions.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = SessionId> + use<> {
        (0..self.session_labels.len()).map(SessionId::at)
    }

    /// What the recorder called the session.
    #[must_use]
    pub fn session_label(&self, session: SessionId) -> u64 {
        self.session_labels[session.index()]
    }

    /// The transactions of a session, in session order.
    #[inline]
    pub fn session_txns(
        &self,
        session: SessionId,
    ) -> impl ExactSizeIterator<Item = TxnId> + DoubleEndedIterator + use<> {
        ids(&self.session_starts, session.index()).map(TxnId::at)
    }

    /// How many transactions there are.
    #[must_use]
    pub fn txn_count(&self) -> usize {
        self.txn_labels.len()
    }

    /// All transactions, session by session.
    #[inline]
    pub fn txns(&self) -> impl ExactSizeIterator<Item = TxnId> + DoubleEndedIterator + use<> {
        (0..self.txn_labels.len()).map(TxnId::at)
    }

    /// What the recorder called the transaction.
    #[must_use]
    pub fn txn_label(&self, txn: TxnId) -> u64 {
        self.txn_labels[txn.index()]
    }

    /// The transaction of this label, by a search through all.
    #[must_use]
    pub fn find_txn(&self, label: u64) -> Option<TxnId> {
        self.txn_labels.iter().position(|&l| l == label).map(TxnId::at)
    }

    /// The session of a transaction.
    #[inline]
    #[must_use]
    pub fn session_of(&self, txn: TxnId) -> SessionId {
        self.txn_sessions[txn.index()]
    }

    /// How a transaction ended.
    #[must_use]
    pub fn outcome(&self, txn: TxnId) -> Outcome {
        let end = self.txn_starts[txn.index() + 1] as usize - 1;
        self.kinds[end].outcome().expect("the last operation of a transaction is its end")
    }

    /// How many operations there are, begins and ends included.
    #[must_use]
    pub fn op_count(&self) -> usize {
        self.kinds.len()
    }

    /// The ids of a transaction's operations, in program order.
    #[inline]
    #[must_use]
    pub fn op_range(&self, txn: TxnId) -> Range<u32> {
        self.txn_starts[txn.index()]..self.txn_starts[txn.index() + 1]
    }

    /// A transaction's operations, in program order.
    #[inline]
    pub fn ops(&self, txn: TxnId) -> impl ExactSizeIterator<Item = Op<'_>> + DoubleEndedIterator {
        self.op_range(txn).map(|op| self.op(OpId(op)))
    }

    /// An operation.
    #[inline]
    #[must_use]
    pub fn op(&self, id: OpId) -> Op<'_> {
        Op {
            id,
            kind: self.kinds[id.index()],
            at: self.intervals.get(id.index()),
            accesses: &self.accesses[ids(&self.op_starts, id.index())],
        }
    }

    /// The transaction of an operation, by binary search.
    #[inline]
    #[must_use]
    pub fn txn_of(&self, op: OpId) -> TxnId {
        TxnId::at(self.txn_starts.partition_point(|&start| start <= op.0) - 1)
    }

    /// The place of an operation in its transaction, counted from 0, BEGIN included.
    #[must_use]
    pub fn op_index(&self, op: OpId) -> u32 {
        op.0 - self.txn_starts[self.txn_of(op).index()]
    }

    /// What a [`OpKind::Scan`] asked.
    #[must_use]
    pub fn scan(&self, op: OpId) -> Option<&Scan> {
        detail(&self.scans, op)
    }

    /// What a [`OpKind::Update`] asked.
    #[must_use]
    pub fn update(&self, op: OpId) -> Option<&Update> {
        detail(&self.updates, op)
    }

    /// The statement of a [`OpKind::Sql`].
    #[must_use]
    pub fn statement(&self, op: OpId) -> Option<&Statement> {
        detail(&self.statements, op)
    }

    /// How a read or scan locks what it returns. Files say it only by the texts of statements.
    #[must_use]
    pub fn read_lock(&self, op: OpId) -> Option<ReadLock> {
        detail(&self.locks, op).copied()
    }

    /// Whether any operation is of this kind. Scans, updates and SQL are answered at once.
    #[inline]
    #[must_use]
    pub fn has_kind(&self, kind: OpKind) -> bool {
        match kind {
            OpKind::Scan => !self.scans.is_empty(),
            OpKind::Update => !self.updates.is_empty(),
            OpKind::Sql => !self.statements.is_empty(),
            _ => self.kinds.contains(&kind),
        }
    }

    /// What is known beyond what clients saw.
    #[must_use]
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Whether any operation has an interval.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        !self.intervals.is_empty()
    }

    /// The earliest time at which a transaction can have begun: its first operation's `before`, if
    /// that is known.
    #[inline]
    #[must_use]
    pub fn start(&self, txn: TxnId) -> Option<i64> {
        self.intervals.get(self.txn_starts[txn.index()] as usize).map(|at| at.before)
    }

    /// The latest time at which a transaction can have taken effect: its end's `after`. Unknown for
    /// an unknown outcome, which may take effect later than anything its client saw.
    #[inline]
    #[must_use]
    pub fn end(&self, txn: TxnId) -> Option<i64> {
        if self.outcome(txn) == Outcome::Unknown {
            return None;
        }
        self.intervals.get(self.txn_starts[txn.index() + 1] as usize - 1).map(|at| at.after)
    }

    /// Real-time order: `a` had ended before `b` began, on any clocks within the allowed skew.
    #[inline]
    #[must_use]
    pub fn precedes(&self, a: TxnId, b: TxnId) -> bool {
        match (self.end(a), self.start(b)) {
            (Some(end), Some(start)) => end.saturating_add(self.header.skew) < start,
            _ => false,
        }
    }

    /// The memory that the history holds, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.values.bytes()
            + self.objects.bytes()
            + self.initial.capacity() * 8
            + self.session_labels.capacity() * 8
            + self.session_starts.capacity() * 4
            + self.txn_labels.capacity() * 8
            + self.txn_sessions.capacity() * 4
            + self.txn_starts.capacity() * 4
            + self.kinds.capacity()
            + self.intervals.bytes()
            + self.op_starts.capacity() * 4
            + self.accesses.capacity() * size_of::<Access>()
            + self.begins.capacity() * size_of::<(OpId, Begin)>()
            + self.scans.capacity() * size_of::<(OpId, Scan)>()
            + self.updates.capacity() * size_of::<(OpId, Update)>()
            + self.statements.capacity() * size_of::<(OpId, Statement)>()
            + self.locks.capacity() * size_of::<(OpId, ReadLock)>()
    }
}

#[inline]
fn ids(starts: &[u32], index: usize) -> Range<usize> {
    starts[index] as usize..starts[index + 1] as usize
}

fn detail<T>(column: &[(OpId, T)], op: OpId) -> Option<&T> {
    column.binary_search_by_key(&op, |(o, _)| *o).ok().map(|found| &column[found].1)
}
