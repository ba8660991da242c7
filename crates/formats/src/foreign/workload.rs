//! Steps of Jepsen operations as operations of a history, by workload.
//!
//! # Algorithm
//! Transactions wait in a queue until the workload that they belong to is known; from then on they
//! pass straight through. Most files tell at once: an append, a predicate, a compare-and-swap.
//! Registers of `[:w k v]` are told from rows of the closed-predicate workload by the absence of
//! predicates among the first [`LOOKAHEAD`] transactions.

use margay_history::{
    Access, HistoryBuilder, Interval, Invalid, ObjectId, OpDetail, OpKind, Outcome, Table, TableId, Value,
    ValueId,
};

use super::steps::OperationStep;
use super::texts::Texts;
use super::unwritten::Unwritten;

/// The table of the closed-predicate workload: key `k`, column `value`.
pub(crate) const CLOSED: &str = "closed";
const TAKE: &str = "UPDATE accounts SET balance = balance - $1 WHERE id = $2";
const GIVE: &str = "UPDATE accounts SET balance = balance + $1 WHERE id = $2";
const COUNT: &str = "UPDATE counter SET value = value + $1";
const LOOKAHEAD: usize = 4096;

/// A transaction that is known whole.
#[derive(Debug)]
pub(crate) struct Txn {
    pub session: u64,
    pub label: u64,
    pub at: Interval,
    pub outcome: Outcome,
    pub steps: Vec<OperationStep>,
    pub line: u64,
}

/// What the operations without micro-operations are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Single {
    Register,
    /// Several independent registers, each with its key.
    Registers,
    Counter,
    Set,
    Bank,
}

/// What was met so far that tells workloads apart.
#[derive(Default)]
struct Signs {
    /// Reads and writes of keys, which may be rows.
    keyed: bool,
    appends: bool,
    single: bool,
    adds: bool,
    stores: bool,
    swaps: bool,
    /// Operations on registers with keys.
    tuples: bool,
    scalars: bool,
    elements: bool,
    bank: bool,
    /// What is read of some keys is understood only when all writes are known.
    whole: bool,
}

impl Signs {
    fn note(&mut self, step: &OperationStep) {
        match step {
            OperationStep::Read(..) | OperationStep::Write(..) => self.keyed = true,
            OperationStep::Append(..) => self.appends = true,
            OperationStep::ReadRegister(..) | OperationStep::WriteRegister(..) => self.whole = true,
            OperationStep::GetText(..) | OperationStep::PutText(..) | OperationStep::AppendText(..) => {
                self.whole = true
            }
            OperationStep::Rows(..)
            | OperationStep::Init(_)
            | OperationStep::Acquire
            | OperationStep::Release => {}
            single => {
                self.single = true;
                self.adds |= matches!(single, OperationStep::Add(_));
                self.stores |= matches!(single, OperationStep::Store(_));
                self.swaps |= matches!(single, OperationStep::Swap(..));
                self.tuples |= matches!(single, OperationStep::SwapOf(..) | OperationStep::ReadOf(..));
                self.scalars |= matches!(single, OperationStep::Scalar(value) if *value != ValueId::NULL);
                self.elements |= matches!(single, OperationStep::Elements(..));
                self.bank |= matches!(single, OperationStep::Balances(_) | OperationStep::Transfer { .. });
            }
        }
    }

    fn single(&self) -> Option<Single> {
        if self.bank {
            Some(Single::Bank)
        } else if self.tuples {
            Some(Single::Registers)
        } else if self.elements {
            Some(Single::Set)
        } else if self.swaps || self.scalars && self.stores {
            Some(Single::Register)
        } else if self.scalars && self.adds {
            Some(Single::Counter)
        } else {
            None
        }
    }
}

/// Puts transactions into the builder. See the module's documentation.
#[derive(Default)]
pub(crate) struct Emitter {
    signs: Signs,
    queue: Vec<Txn>,
    /// Whether keys are rows of the table [`CLOSED`].
    closed: Option<bool>,
    single: Option<Single>,
    tables: Vec<(&'static str, TableId)>,
    counter: Option<ObjectId>,
    mutex: Option<ObjectId>,
    balances: Balances,
    registers: Unwritten,
    texts: Texts,
}

/// What is known of the initial balances of a bank.
#[derive(Default, PartialEq, Eq)]
enum Balances {
    #[default]
    Unread,
    Known,
    /// A transfer was under way before the first read was done.
    Lost,
}

impl Emitter {
    /// Says that the closed-predicate workload was met. False when it is too late for that.
    pub fn set_closed(&mut self) -> bool {
        let late = self.closed == Some(false) || self.signs.appends;
        self.closed = Some(!late);
        !late
    }

    /// Says that a transfer began.
    pub fn transfer_began(&mut self) {
        if self.balances == Balances::Unread {
            self.balances = Balances::Lost;
        }
    }

    /// Whether the initial balances of a bank are not known.
    pub fn lacks_balances(&self) -> bool {
        self.single == Some(Single::Bank) && self.balances != Balances::Known
    }

    /// Takes a transaction, and emits what can be emitted.
    pub fn take(&mut self, builder: &mut HistoryBuilder, txn: Txn) -> Result<(), Invalid> {
        txn.steps.iter().for_each(|step| self.signs.note(step));
        if self.balances == Balances::Unread
            && txn.outcome == Outcome::Committed
            && let Some(OperationStep::Balances(all)) = txn.steps.first()
        {
            self.initial_balances(builder, all)?;
        }
        self.queue.push(txn);
        if self.closed.is_none() && (self.signs.appends || self.queue.len() >= LOOKAHEAD) {
            self.closed = Some(false);
        }
        self.single = self.single.or_else(|| self.signs.single());
        let wait = self.signs.whole
            || self.signs.keyed && self.closed.is_none()
            || self.signs.single && self.single.is_none();
        if wait { Ok(()) } else { self.flush(builder) }
    }

    /// Emits everything that still waits.
    pub fn finish(&mut self, builder: &mut HistoryBuilder) -> Result<(), Invalid> {
        self.closed.get_or_insert(false);
        let default = if self.signs.adds { Single::Set } else { Single::Register };
        if self.signs.single {
            self.single.get_or_insert(default);
        }
        if self.signs.whole {
            self.look_ahead(builder)?;
        }
        self.flush(builder)
    }

    /// What the reads of all transactions need to know of the writes of all.
    fn look_ahead(&mut self, builder: &mut HistoryBuilder) -> Result<(), Invalid> {
        for txn in &self.queue {
            for step in &txn.steps {
                match *step {
                    OperationStep::WriteRegister(key, value) => {
                        let object = builder.object(None, key);
                        self.registers.write(object, value);
                    }
                    OperationStep::ReadRegister(key, value) => {
                        let object = builder.object(None, key);
                        self.registers.read(object, value, txn.outcome);
                    }
                    OperationStep::PutText(key, text) | OperationStep::AppendText(key, text) => {
                        self.texts.add(builder, key, text);
                    }
                    _ => {}
                }
            }
        }
        self.registers.initialise(builder)
    }

    /// Which initial values were taken from reads, if any.
    pub fn assumed_initial(&self) -> Option<String> {
        self.registers.warning()
    }

    fn flush(&mut self, builder: &mut HistoryBuilder) -> Result<(), Invalid> {
        let mut queue = std::mem::take(&mut self.queue);
        for txn in queue.drain(..) {
            Emission { to: self, builder, txn: &txn }.emit()?;
        }
        self.queue = queue;
        Ok(())
    }

    fn initial_balances(
        &mut self,
        builder: &mut HistoryBuilder,
        all: &[(ValueId, ValueId)],
    ) -> Result<(), Invalid> {
        self.balances = Balances::Known;
        for &(account, balance) in all {
            let table = self.table(builder, "accounts", &["id"])?;
            let object = builder.object(Some(table), account);
            let value = row(builder, "balance", balance);
            builder.initial(object, value)?;
        }
        Ok(())
    }

    /// The initial rows of the closed-predicate workload.
    pub fn initial_rows(
        &mut self,
        builder: &mut HistoryBuilder,
        rows: &[(ValueId, ValueId)],
    ) -> Result<(), Invalid> {
        for &(key, value) in rows {
            let table = self.table(builder, CLOSED, &["k"])?;
            let object = builder.object(Some(table), key);
            let value = row(builder, "value", value);
            builder.initial(object, value)?;
        }
        Ok(())
    }

    fn table(
        &mut self,
        builder: &mut HistoryBuilder,
        name: &'static str,
        key: &[&str],
    ) -> Result<TableId, Invalid> {
        if let Some(&(_, id)) = self.tables.iter().find(|(known, _)| *known == name) {
            return Ok(id);
        }
        let key = key.iter().map(ToString::to_string).collect();
        let id = builder.declare_table(Table { name: name.to_string(), key, ..Table::default() })?;
        self.tables.push((name, id));
        Ok(id)
    }

    fn counter(&mut self, builder: &mut HistoryBuilder) -> Result<ObjectId, Invalid> {
        if let Some(object) = self.counter {
            return Ok(object);
        }
        let table = self.table(builder, "counter", &["id"])?;
        let zero = builder.values().int(0);
        let object = builder.object(Some(table), zero);
        let value = row(builder, "value", zero);
        builder.initial(object, value)?;
        self.counter = Some(object);
        Ok(object)
    }

    fn mutex(&mut self, builder: &mut HistoryBuilder) -> Result<ObjectId, Invalid> {
        if let Some(object) = self.mutex {
            return Ok(object);
        }
        let (key, free) = (builder.values().text("mutex"), builder.values().text("free"));
        let object = builder.object(None, key);
        builder.initial(object, free)?;
        self.mutex = Some(object);
        Ok(object)
    }
}

/// A row of one column; what is absent or unknown stays so.
fn row(builder: &mut HistoryBuilder, column: &str, value: ValueId) -> ValueId {
    if value == ValueId::NULL || value == ValueId::UNKNOWN {
        return value;
    }
    let values = builder.values();
    let name = values.intern_name(column);
    values.row(&[(name, value)])
}

/// One transaction on its way into the builder.
struct Emission<'e> {
    to: &'e mut Emitter,
    builder: &'e mut HistoryBuilder,
    txn: &'e Txn,
}

impl Emission<'_> {
    fn emit(&mut self) -> Result<(), Invalid> {
        self.builder.at_place(self.txn.line);
        for step in &self.txn.steps {
            self.step(step)?;
        }
        let end = match self.txn.outcome {
            Outcome::Committed => OpKind::Commit,
            Outcome::Aborted => OpKind::Abort,
            Outcome::Unknown => OpKind::Unknown,
        };
        self.push(end, &[], OpDetail::None)
    }

    fn push(&mut self, kind: OpKind, accesses: &[Access], detail: OpDetail<'_>) -> Result<(), Invalid> {
        let Txn { session, label, at, .. } = *self.txn;
        self.builder.push(session, label, Some(at), kind, accesses, detail)
    }

    fn one(&mut self, kind: OpKind, object: ObjectId, value: ValueId) -> Result<(), Invalid> {
        self.push(kind, &[Access { object, value }], OpDetail::None)
    }

    fn step(&mut self, step: &OperationStep) -> Result<(), Invalid> {
        let set = self.to.single == Some(Single::Set);
        match step {
            OperationStep::Read(key, value) => self.keyed(OpKind::Read, *key, *value),
            OperationStep::Write(key, value) => self.keyed(OpKind::Write, *key, *value),
            OperationStep::Append(key, value) => self.keyed(OpKind::Append, *key, *value),
            OperationStep::ReadRegister(key, value) => self.keyed(OpKind::Read, *key, *value),
            OperationStep::WriteRegister(key, value) => self.keyed(OpKind::Write, *key, *value),
            OperationStep::GetText(key, text) => {
                let value = self.to.texts.split(self.builder, *key, *text, self.txn.line)?;
                self.keyed(OpKind::Read, *key, value)
            }
            OperationStep::PutText(key, ValueId::NULL) => self.keyed(OpKind::Write, *key, ValueId::NULL),
            OperationStep::PutText(key, text) => {
                let value = self.builder.values().list(&[*text]);
                self.keyed(OpKind::Write, *key, value)
            }
            // Nobody can see that nothing was appended.
            OperationStep::AppendText(_, ValueId::NULL) => Ok(()),
            OperationStep::AppendText(key, text) => self.keyed(OpKind::Append, *key, *text),
            OperationStep::Rows(condition, rows) => self.rows(condition, rows.as_deref()),
            // The initial state was taken from it before.
            OperationStep::Init(_) => Ok(()),
            OperationStep::Balances(all) => self.balances(all),
            OperationStep::Transfer { from, to, amount } => {
                self.to.table(self.builder, "accounts", &["id"])?;
                self.sql(TAKE, &[*amount, *from])?;
                self.sql(GIVE, &[*amount, *to])
            }
            OperationStep::Add(value) | OperationStep::Store(value) if set => self.insert(*value),
            OperationStep::Add(value) => {
                self.to.counter(self.builder)?;
                self.sql(COUNT, &[*value])
            }
            OperationStep::Store(value) => match self.tuple(*value) {
                Some((key, value)) => self.keyed(OpKind::Write, key, value),
                None => self.register(OpKind::Write, *value),
            },
            OperationStep::ReadOf(key, value) => self.keyed(OpKind::Read, *key, *value),
            OperationStep::SwapOf(key, old, new) => {
                let old = self.expected(*old);
                self.keyed(OpKind::Read, *key, old)?;
                self.keyed(OpKind::Write, *key, *new)
            }
            OperationStep::Swap(old, new) => {
                let old = self.expected(*old);
                self.register(OpKind::Read, old)?;
                self.register(OpKind::Write, *new)
            }
            OperationStep::Acquire => self.mutex("free", "held"),
            OperationStep::Release => self.mutex("held", "free"),
            OperationStep::Elements(key, elements) => self.scan(*key, Some(elements)),
            OperationStep::Unseen(key) if set => self.scan(*key, None),
            OperationStep::Unseen(Some(key)) if self.to.single == Some(Single::Registers) => {
                self.keyed(OpKind::Read, *key, ValueId::UNKNOWN)
            }
            OperationStep::Unseen(_) => self.scalar(ValueId::UNKNOWN),
            OperationStep::Scalar(_) if set => self.scan(None, None),
            OperationStep::Scalar(value) => self.scalar(*value),
        }
    }

    fn keyed(&mut self, kind: OpKind, key: ValueId, value: ValueId) -> Result<(), Invalid> {
        if self.to.closed != Some(true) {
            let object = self.builder.object(None, key);
            return self.one(kind, object, value);
        }
        let table = self.to.table(self.builder, CLOSED, &["k"])?;
        let object = self.builder.object(Some(table), key);
        let value = row(self.builder, "value", value);
        self.one(kind, object, value)
    }

    fn rows(&mut self, condition: &str, rows: Option<&[(ValueId, ValueId)]>) -> Result<(), Invalid> {
        let table = self.to.table(self.builder, CLOSED, &["k"])?;
        let mut accesses = Vec::new();
        for &(key, value) in rows.unwrap_or_default() {
            let object = self.builder.object(Some(table), key);
            accesses.push(Access { object, value: row(self.builder, "value", value) });
        }
        self.push(OpKind::Scan, &accesses, OpDetail::Scan { table, condition, observed: rows.is_some() })
    }

    fn sql(&mut self, text: &str, params: &[ValueId]) -> Result<(), Invalid> {
        self.push(OpKind::Sql, &[], OpDetail::Sql { text, params, rows: None, count: None })
    }

    fn balances(&mut self, all: &[(ValueId, ValueId)]) -> Result<(), Invalid> {
        let table = self.to.table(self.builder, "accounts", &["id"])?;
        let mut accesses = Vec::with_capacity(all.len());
        for &(account, balance) in all {
            let object = self.builder.object(Some(table), account);
            accesses.push(Access { object, value: row(self.builder, "balance", balance) });
        }
        if accesses.is_empty() { Ok(()) } else { self.push(OpKind::Read, &accesses, OpDetail::None) }
    }

    /// A read of the register or the counter. Which accounts a bank's read did not see cannot be
    /// said.
    fn scalar(&mut self, value: ValueId) -> Result<(), Invalid> {
        match self.to.single {
            Some(Single::Bank) => Ok(()),
            Some(Single::Counter) => {
                let object = self.to.counter(self.builder)?;
                let value = row(self.builder, "value", value);
                self.one(OpKind::Read, object, value)
            }
            _ => self.register(OpKind::Read, value),
        }
    }

    /// The key and the value of a write to one of several registers.
    fn tuple(&mut self, value: ValueId) -> Option<(ValueId, ValueId)> {
        match self.builder.values().get(value) {
            Value::List(&[key, value]) if self.to.single == Some(Single::Registers) => Some((key, value)),
            _ => None,
        }
    }

    fn register(&mut self, kind: OpKind, value: ValueId) -> Result<(), Invalid> {
        let key = self.builder.values().text("register");
        let object = self.builder.object(None, key);
        self.one(kind, object, value)
    }

    fn mutex(&mut self, from: &str, to: &str) -> Result<(), Invalid> {
        let object = self.to.mutex(self.builder)?;
        let (from, to) = (self.builder.values().text(from), self.builder.values().text(to));
        let from = self.expected(from);
        self.one(OpKind::Read, object, from)?;
        self.one(OpKind::Write, object, to)
    }

    /// What a conditional write found. One that failed found something else. One in doubt either
    /// found what it wanted and wrote, or did not happen: then what it read does not count either.
    fn expected(&self, value: ValueId) -> ValueId {
        if self.txn.outcome == Outcome::Aborted { ValueId::UNKNOWN } else { value }
    }

    /// The table of a set, or of the sets of several keys.
    fn set_table(&mut self, several: bool) -> Result<TableId, Invalid> {
        match several {
            true => self.to.table(self.builder, "sets", &["k", "element"]),
            false => self.to.table(self.builder, "set", &["element"]),
        }
    }

    /// An insertion into the set; a pair goes into the set of a key. The row says no more than that
    /// it is there.
    fn insert(&mut self, element: ValueId) -> Result<(), Invalid> {
        let several = matches!(self.builder.values().get(element), Value::List(items) if items.len() == 2);
        let table = self.set_table(several)?;
        let object = self.builder.object(Some(table), element);
        let value = row(self.builder, "present", ValueId::TRUE);
        self.one(OpKind::Write, object, value)
    }

    fn scan(&mut self, key: Option<ValueId>, elements: Option<&Vec<ValueId>>) -> Result<(), Invalid> {
        let table = self.set_table(key.is_some())?;
        let present = row(self.builder, "present", ValueId::TRUE);
        let mut accesses = Vec::new();
        for &element in elements.into_iter().flatten() {
            let element = match key {
                Some(key) => self.builder.values().list(&[key, element]),
                None => element,
            };
            accesses.push(Access { object: self.builder.object(Some(table), element), value: present });
        }
        let condition = match key {
            Some(key) => format!("k = {}", literal(self.builder, key)),
            None => "TRUE".to_string(),
        };
        let detail = OpDetail::Scan { table, condition: &condition, observed: elements.is_some() };
        self.push(OpKind::Scan, &accesses, detail)
    }
}

/// A key in a condition.
fn literal(builder: &mut HistoryBuilder, value: ValueId) -> String {
    match builder.values().get(value) {
        Value::Int(int) => int.to_string(),
        Value::UInt(int) => int.to_string(),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        _ => "NULL".to_string(),
    }
}
