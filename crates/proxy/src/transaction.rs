//! Transactions as a connection shows them, whatever it speaks.

use std::sync::Arc;
use std::vec::Drain;

use margay_wire::{Executed, Times};

use crate::level::OwnLevel;

/// A transaction with more statements than this is recorded as one that may have done anything.
pub(crate) const MAX_OPS: usize = 10_000;

/// A statement that may have done anything. Engines know no procedure of this name.
pub(crate) const OPAQUE: &str = "CALL margay_not_recorded()";

/// A statement that was executed.
#[derive(Debug)]
pub(crate) struct Op {
    /// Its own text.
    pub text: Arc<str>,
    /// What came over the wire; none if the statement is opaque.
    pub executed: Option<Box<Executed>>,
    pub times: Times,
    /// Whether it changes the schema.
    pub changes_schema: bool,
}

impl Op {
    pub fn new(text: impl Into<Arc<str>>, executed: Executed) -> Self {
        let times = executed.times;
        Self { text: text.into(), executed: Some(Box::new(executed)), times, changes_schema: false }
    }

    /// A statement that may have done anything.
    pub fn opaque(times: Times) -> Self {
        Self { text: Arc::from(OPAQUE), executed: None, times, changes_schema: false }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    Committed,
    Aborted,
    Unknown,
}

/// A transaction that has ended.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub session: u64,
    /// Its level, if that is certain.
    pub level: Option<OwnLevel>,
    pub read_only: bool,
    /// The request that it belongs to.
    pub unit: Option<Arc<str>>,
    pub begin: Times,
    pub ops: Vec<Op>,
    pub end: Times,
    pub ended: Ended,
}

impl Transaction {
    /// The place of the first statement that changes the schema.
    pub fn schema_change(&self) -> Option<usize> {
        self.ops.iter().position(|op| op.changes_schema)
    }

    /// Whether the schema may not be what it was.
    pub fn changes_schema(&self) -> bool {
        self.ended != Ended::Aborted && self.schema_change().is_some()
    }

    /// When it can have seen or done something at the earliest.
    pub fn first(&self) -> i64 {
        self.ops.first().map_or(self.end.before, |op| op.times.before)
    }
}

/// The statements of a transaction that has not ended.
#[derive(Default, Debug)]
pub(crate) struct Statements {
    pub ops: Vec<Op>,
    /// Names of savepoints, with the number of statements before each.
    savepoints: Vec<(String, usize)>,
}

impl Statements {
    pub fn changes_schema(&self) -> bool {
        self.ops.iter().any(|op| op.changes_schema)
    }

    /// Adds a statement. One that began before others, such as a cursor, stands before them, but
    /// never first. Returns false if there were too many: then an opaque one stands for all.
    pub fn push(&mut self, mut op: Op) -> bool {
        let fits = self.ops.len() < MAX_OPS;
        if !fits {
            let before = self.ops[0].times.before.min(op.times.before);
            let changes_schema = op.changes_schema || self.changes_schema();
            let times = Times { before: op.times.before.min(before), ..op.times };
            op = Op { changes_schema, ..Op::opaque(times) };
            *self = Self::default();
        }
        let at = self.ops.partition_point(|other| other.times.before <= op.times.before);
        let at = at.max(usize::from(!self.ops.is_empty()));
        self.savepoints.iter_mut().filter(|(_, count)| at < *count).for_each(|(_, count)| *count += 1);
        self.ops.insert(at, op);
        fits
    }

    /// Sets a savepoint. `replaces`: an older one of the same name is gone.
    pub fn savepoint(&mut self, name: String, replaces: bool) {
        self.savepoints.retain(|(known, _)| !replaces || *known != name);
        self.savepoints.push((name, self.ops.len()));
    }

    pub fn release(&mut self, name: &str) {
        if let Some(at) = self.savepoints.iter().rposition(|(known, _)| known == name) {
            self.savepoints.truncate(at);
        }
    }

    /// Drops what came behind a savepoint. Returns false if it was not seen: nobody knows what is
    /// left.
    #[must_use]
    pub fn roll_back_to(&mut self, name: &str) -> bool {
        let Some(at) = self.savepoints.iter().rposition(|(known, _)| known == name) else { return false };
        self.ops.truncate(self.savepoints[at].1);
        self.savepoints.truncate(at + 1);
        true
    }
}

/// What a connection still owes, and what it has to pass on.
#[derive(Default, Debug)]
pub(crate) struct Outstanding {
    /// No transaction that ends later has an operation before this time; none if nothing is
    /// outstanding.
    pub since: Option<i64>,
    /// Since when a message waits for its answer.
    pub asked: Option<i64>,
    done: Vec<Transaction>,
}

impl Outstanding {
    /// Something is about to be sent.
    pub fn sends(&mut self, now: i64) {
        self.since.get_or_insert(now);
        self.asked.get_or_insert(now);
    }

    /// A transaction has ended.
    pub fn ended(&mut self, transaction: Transaction) {
        self.done.push(transaction);
    }

    /// The transactions that have ended.
    pub fn done(&mut self) -> Drain<'_, Transaction> {
        self.done.drain(..)
    }

    /// Everything that was sent has been answered.
    pub fn rests(&mut self, in_transaction: bool) {
        self.asked = None;
        if !in_transaction {
            self.since = None;
        }
    }
}
