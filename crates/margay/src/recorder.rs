//! Recording what clients see, from one thread or many.
//!
//! # Design
//! A [`Transaction`] collects its operations by itself and hands them over when it ends, so clients
//! wait for each other only then. A recorder keeps what was handed over as plain data; a
//! [`History`] is made from it by [`Recorder::history`], as often as wanted.
//!
//! # Time
//! With a clock ([`Recorder::with_clock`]) every operation gets the interval from the end of the
//! one before it to the moment at which it is recorded. It contains the moment at which the
//! database acted if `begin` is called before the database's own begin, and each operation is
//! recorded after the database has answered. Wider intervals are never wrong; they only order less.
//!
//! # Invariants
//! Nothing here panics. What is wrong (two open transactions of one session, an impossible value)
//! is remembered, and [`Recorder::history`] returns it as an error that says where.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use margay_history::{
    Access, History, HistoryBuilder, Interval, Invalid, OpDetail, OpKind, Table, Unit, ValueId,
};

use crate::datum::{Datum, Key};

/// Why something is not a history: what is wrong, in which transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadHistory {
    what: String,
    txn: Option<u64>,
}

impl fmt::Display for BadHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.txn {
            Some(txn) => write!(f, "transaction {txn}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for BadHistory {}

/// Records a history. Clones record into the same one.
///
/// ```
/// let recorder = margay::Recorder::new();
/// recorder.initial("x", 1);
/// let mut t = recorder.session(0).begin();
/// t.read("x", 1);
/// t.write("x", 2);
/// t.commit();
/// assert_eq!(recorder.history().unwrap().txn_count(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    clock: Option<Instant>,
    state: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    dbms: Option<String>,
    tables: Vec<Table>,
    initial: Vec<(Key, Datum)>,
    txns: Vec<Ended>,
    /// Transactions begun so far; the next label.
    begun: u64,
    /// The open transaction of each session that has one.
    open: BTreeMap<u64, u64>,
    /// What was wrong first.
    bad: Option<BadHistory>,
}

/// A transaction that has ended.
#[derive(Debug)]
struct Ended {
    session: u64,
    label: u64,
    operations: Vec<Operation>,
}

#[derive(Debug)]
struct Operation {
    at: Option<Interval>,
    what: What,
}

#[derive(Debug)]
enum What {
    Item { kind: OpKind, key: Key, value: Datum },
    Scan { table: String, condition: String, rows: Vec<(Datum, Datum)> },
    Sql { text: String, params: Vec<Datum>, rows: Option<Vec<Datum>>, count: Option<u64> },
    Mark(OpKind),
}

impl Recorder {
    /// A recorder without time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A recorder with a monotonic clock, so that levels that promise real-time order can be
    /// checked.
    #[must_use]
    pub fn with_clock() -> Self {
        let shared = Shared { clock: Some(Instant::now()), ..Shared::default() };
        Self { shared: Arc::new(shared) }
    }

    /// The database's name and version, such as `postgresql-15`: how SQL is read depends on it.
    pub fn set_dbms(&self, name: impl Into<String>) {
        self.state().dbms = Some(name.into());
    }

    /// Declares a table: its key columns, and its columns with their SQL types.
    pub fn table(&self, name: &str, key: &[&str], columns: &[(&str, &str)]) {
        let text = |text: &&str| (*text).to_owned();
        let column = |(name, of): &(&str, &str)| ((*name).to_owned(), (*of).to_owned());
        let table = Table {
            name: name.to_owned(),
            key: key.iter().map(text).collect(),
            columns: columns.iter().map(column).collect(),
            ..Table::default()
        };
        self.state().tables.push(table);
    }

    /// The value of an object before the first transaction. Objects that are not named are absent.
    pub fn initial(&self, key: impl Into<Key>, value: impl Into<Datum>) {
        self.state().initial.push((key.into(), value.into()));
    }

    /// A session: one client, whose transactions follow each other.
    #[must_use]
    pub fn session(&self, number: u64) -> Session {
        Session { recorder: self.clone(), number }
    }

    /// What was recorded.
    ///
    /// # Errors
    /// When it is no history: a transaction has not ended, transactions of one session overlap, a
    /// table is declared twice, a value is nested too deep.
    pub fn history(&self) -> Result<History, BadHistory> {
        self.state().history(self.shared.clock.is_some())
    }

    fn state(&self) -> MutexGuard<'_, Recorded> {
        // A panic of another client leaves whole transactions behind: they are handed over at once.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Option<i64> {
        let elapsed = self.shared.clock?.elapsed();
        Some(i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// One client.
#[derive(Clone, Debug)]
pub struct Session {
    recorder: Recorder,
    number: u64,
}

impl Session {
    /// Begins a transaction. Call it before the database begins its own.
    #[must_use = "a transaction that is dropped has an unknown outcome"]
    pub fn begin(&self) -> Transaction {
        let label = self.recorder.state().begin(self.number);
        let last = self.recorder.now();
        let (session, recorder) = (self.number, self.recorder.clone());
        let mut begun = Transaction {
            recorder,
            ended: Ended { session, label, operations: Vec::new() },
            last,
            done: false,
        };
        begun.record(What::Mark(OpKind::Begin));
        begun
    }
}

/// A transaction that is being recorded. Record each operation after the database has answered it.
///
/// If it is dropped without an end, its outcome is unknown: it may or may not have committed.
#[derive(Debug)]
pub struct Transaction {
    recorder: Recorder,
    ended: Ended,
    last: Option<i64>,
    done: bool,
}

impl Transaction {
    /// The number by which verdicts call this transaction.
    #[must_use]
    pub fn label(&self) -> u64 {
        self.ended.label
    }

    /// It read this value; `None::<i64>` for an object that was absent.
    pub fn read(&mut self, key: impl Into<Key>, value: impl Into<Datum>) {
        self.item(OpKind::Read, key.into(), value.into());
    }

    /// It wrote this value.
    pub fn write(&mut self, key: impl Into<Key>, value: impl Into<Datum>) {
        self.item(OpKind::Write, key.into(), value.into());
    }

    /// It deleted the object.
    pub fn delete(&mut self, key: impl Into<Key>) {
        self.item(OpKind::Write, key.into(), Datum::Null);
    }

    /// It appended an element to a list.
    pub fn append(&mut self, key: impl Into<Key>, element: impl Into<Datum>) {
        self.item(OpKind::Append, key.into(), element.into());
    }

    /// It asked for the rows of a table that fulfil a SQL condition, and got these: keys and rows
    /// ([`Datum::row`]).
    pub fn scan<K: Into<Datum>>(
        &mut self,
        table: &str,
        condition: &str,
        rows: impl IntoIterator<Item = (K, Datum)>,
    ) {
        let rows = rows.into_iter().map(|(key, row)| (key.into(), row)).collect();
        self.record(What::Scan { table: table.to_owned(), condition: condition.to_owned(), rows });
    }

    /// It queried with a SQL statement, and got these rows, each a list of values.
    pub fn query(&mut self, text: &str, params: Vec<Datum>, rows: Vec<Vec<Datum>>) {
        let rows = Some(rows.into_iter().map(Datum::List).collect());
        self.record(What::Sql { text: text.to_owned(), params, rows, count: None });
    }

    /// It executed a SQL statement, which changed this many rows.
    pub fn execute(&mut self, text: &str, params: Vec<Datum>, count: u64) {
        self.record(What::Sql { text: text.to_owned(), params, rows: None, count: Some(count) });
    }

    /// The database acknowledged the commit.
    pub fn commit(mut self) {
        self.end(OpKind::Commit);
    }

    /// The transaction is certainly gone.
    pub fn abort(mut self) {
        self.end(OpKind::Abort);
    }

    /// Nobody knows whether it committed: the connection broke, or the answer never came.
    pub fn unknown(mut self) {
        self.end(OpKind::Unknown);
    }

    fn item(&mut self, kind: OpKind, key: Key, value: Datum) {
        self.record(What::Item { kind, key, value });
    }

    fn record(&mut self, what: What) {
        let now = self.recorder.now();
        let at = self.last.zip(now).map(|(before, after)| Interval { before, after });
        self.last = now;
        self.ended.operations.push(Operation { at, what });
    }

    fn end(&mut self, kind: OpKind) {
        self.record(What::Mark(kind));
        self.done = true;
        let none = Ended { session: 0, label: 0, operations: Vec::new() };
        let ended = std::mem::replace(&mut self.ended, none);
        self.recorder.state().end(ended);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.done {
            self.end(OpKind::Unknown);
        }
    }
}

impl Recorded {
    fn begin(&mut self, session: u64) -> u64 {
        self.begun += 1;
        let label = self.begun;
        if let Some(open) = self.open.insert(session, label) {
            let what = format!("session {session} begins it while transaction {open} is open");
            self.bad.get_or_insert(BadHistory { what, txn: Some(label) });
        }
        label
    }

    fn end(&mut self, txn: Ended) {
        if self.open.get(&txn.session) == Some(&txn.label) {
            self.open.remove(&txn.session);
        }
        self.txns.push(txn);
    }

    /// Whether there is a history: a transaction that is still open may have written what others
    /// have read.
    fn complete(&self) -> Result<(), BadHistory> {
        let open = self.open.values().next();
        let open = open.map(|&txn| BadHistory { what: "it has not ended".to_owned(), txn: Some(txn) });
        self.bad.clone().or(open).map_or(Ok(()), Err)
    }

    fn history(&self, timed: bool) -> Result<History, BadHistory> {
        self.complete()?;
        let whole = |invalid: Invalid| BadHistory { what: invalid.what, txn: None };
        let refused = |what: String| BadHistory { what, txn: None };
        let mut builder = HistoryBuilder::new();
        builder.header().dbms.clone_from(&self.dbms);
        builder.header().unit = if timed { Unit::Nanoseconds } else { Unit::Index };
        for table in &self.tables {
            builder.declare_table(table.clone()).map_err(whole)?;
        }
        for (key, value) in &self.initial {
            key.key.fault(0).or_else(|| value.fault(0)).map_or(Ok(()), |what| Err(refused(what)))?;
            let (object, value) = (key.intern(&mut builder), value.intern(&mut builder));
            builder.initial(object, value).map_err(whole)?;
        }
        // Transactions of one session come in the order in which they were begun.
        let mut txns: Vec<&Ended> = self.txns.iter().collect();
        txns.sort_by_key(|txn| txn.label);
        for txn in txns {
            let bad = |what: String| BadHistory { what, txn: Some(txn.label) };
            for operation in &txn.operations {
                operation.push(txn, &mut builder).map_err(bad)?;
            }
        }
        builder.finish().map_err(whole)
    }
}

impl Operation {
    fn push(&self, txn: &Ended, builder: &mut HistoryBuilder) -> Result<(), String> {
        self.what.fault().map_or(Ok(()), Err)?;
        let push = |builder: &mut HistoryBuilder, kind, accesses: &[Access], detail: OpDetail<'_>| {
            builder
                .push(txn.session, txn.label, self.at, kind, accesses, detail)
                .map_err(|invalid| invalid.what)
        };
        match &self.what {
            What::Mark(kind) => push(builder, *kind, &[], OpDetail::None),
            What::Item { kind, key, value } => {
                let access = Access { object: key.intern(builder), value: value.intern(builder) };
                push(builder, *kind, &[access], OpDetail::None)
            }
            What::Scan { table, condition, rows } => {
                let id = builder.table(table);
                let mut accesses = Vec::with_capacity(rows.len());
                for (key, row) in rows {
                    let (key, value) = (key.intern(builder), row.intern(builder));
                    accesses.push(Access { object: builder.object(Some(id), key), value });
                }
                let detail = OpDetail::Scan { table: id, condition, observed: true };
                push(builder, OpKind::Scan, &accesses, detail)
            }
            What::Sql { text, params, rows, count } => {
                let mut all = |data: &[Datum]| -> Vec<ValueId> {
                    data.iter().map(|datum| datum.intern(builder)).collect()
                };
                let (params, rows) = (all(params), rows.as_deref().map(all));
                let detail = OpDetail::Sql { text, params: &params, rows: rows.as_deref(), count: *count };
                push(builder, OpKind::Sql, &[], detail)
            }
        }
    }
}

impl What {
    fn fault(&self) -> Option<String> {
        match self {
            What::Mark(_) => None,
            What::Item { key, value, .. } => key.key.fault(0).or_else(|| value.fault(0)),
            What::Scan { rows, .. } => {
                rows.iter().find_map(|(key, row)| key.fault(0).or_else(|| row.fault(0)))
            }
            What::Sql { params, rows, .. } => {
                params.iter().chain(rows.iter().flatten()).find_map(|datum| datum.fault(0))
            }
        }
    }
}
