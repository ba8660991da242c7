//! A stretch of time in which the schema of a database stayed what it was.
//!
//! # Problem
//! A migration changes what tables there are, and what a statement means. A history has one schema.
//! So a recording is cut where the schema changes, and each stretch is a history of its own, with
//! its own first state.
//!
//! # Algorithm
//! A schema change takes effect when it commits. After that the relay holds back the next statement
//! of that database which touches rows, until the collector has read the schema and the state anew:
//! the cut. A cut has a beginning (before it was read) and an end (after).
//! - A transaction belongs to the stretch that it began in.
//! - Of a transaction that changes the schema, what came before the change stays.
//! - Of a transaction that ends after a change was committed, what was answered before that stays.
//!   It may have written something that others of its stretch saw: an opaque statement says so.
//! - A transaction that was open during a cut is opaque in the stretches behind.
//!
//! # Invariants
//! Whether a statement is held back decides only how much is understood, never what is true:
//! transactions are sorted by their times alone.

use margay_recover::PgSnapshot;

use crate::collect::{Collector, Files};
use crate::transaction::{Ended, Op, Transaction};

pub(crate) struct Stretch {
    pub collector: Collector,
    /// What the first state has, if that is known.
    pub snapshot: Option<PgSnapshot>,
    /// When its schema began to be read, and when it had been.
    begun: [i64; 2],
    /// When the next one's began to be read.
    cut: Option<i64>,
    /// When the first change of the schema can have taken effect.
    changed: Option<i64>,
    /// When the last transaction ended that did not change it.
    latest: i64,
}

impl Stretch {
    pub fn new(collector: Collector, snapshot: Option<PgSnapshot>, begun: [i64; 2]) -> Self {
        Self { collector, snapshot, begun, cut: None, changed: None, latest: i64::MIN }
    }

    /// When its schema began to be read.
    pub fn begun(&self) -> i64 {
        self.begun[0]
    }

    /// The next one begins.
    pub fn cut(&mut self, at: i64) {
        self.cut.get_or_insert(at);
    }

    /// Whether a transaction began before it, and may have written meanwhile.
    pub fn is_met_by(&self, transaction: &Transaction) -> bool {
        let meets = transaction.end.after >= self.begun[0] && !self.holds(transaction);
        meets && transaction.ended != Ended::Aborted && !self.collector.only_reads(transaction)
    }

    /// Whether a transaction began after it did.
    pub fn holds(&self, transaction: &Transaction) -> bool {
        transaction.first() > self.begun[1]
    }

    /// When all of its transactions have been taken, if nothing that is still to come began before
    /// this time.
    pub fn is_over(next: &Stretch, until: i64) -> bool {
        until > next.begun[1]
    }

    /// Records a transaction that it holds.
    pub fn take(&mut self, mut transaction: Transaction, files: &mut Files) -> Result<(), String> {
        let Transaction { end, ended, .. } = transaction;
        let crosses = self.cut.is_some_and(|cut| end.after >= cut);
        let schema = transaction.schema_change();
        let late = self.changed.filter(|&changed| end.after >= changed);
        let seen = |op: &Op| late.is_some_and(|changed| op.times.after >= changed);
        let unseen = transaction.ops.iter().position(seen).unwrap_or(transaction.ops.len());
        let only_reads = self.collector.only_reads(&transaction);
        transaction.ops.truncate(schema.map_or(unseen, |schema| schema.min(unseen)));
        let opaque = match schema {
            _ if ended == Ended::Aborted => false,
            Some(_) => {
                let changed = self.changed.unwrap_or(end.before).min(end.before);
                self.changed = Some(changed);
                crosses || self.latest >= changed || ended == Ended::Unknown
            }
            None => (crosses || late.is_some()) && !only_reads,
        };
        if schema.is_none() {
            self.latest = self.latest.max(end.after);
        }
        if opaque {
            transaction.ops.push(Op::opaque(end));
            transaction.ended = Ended::Unknown;
        }
        self.collector.take(transaction, files)
    }

    /// Records that a transaction may have done anything here.
    pub fn take_opaque(&mut self, of: &Transaction, files: &mut Files) -> Result<(), String> {
        let Transaction { session, level, begin, end, .. } = *of;
        let ops = vec![Op::opaque(end)];
        let (read_only, unit, ended) = (false, None, Ended::Unknown);
        let opaque = Transaction { session, level, read_only, unit, begin, ops, end, ended };
        self.collector.take(opaque, files)
    }
}
