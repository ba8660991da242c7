//! One connection's events as transactions.
//!
//! # Problem
//! The protocol shows statements and a status. A history wants transactions: where each begins and
//! ends, at which level, with which outcome, and when its statements can have taken effect at the
//! earliest and at the latest.
//!
//! # Algorithm
//! Command tags and the status of ReadyForQuery decide where transactions begin and end; texts
//! decide levels, chains and savepoints. A transaction is kept until it has ended, and is then
//! passed on as a whole.
//! - The interval of a statement begins when its Bind was sent. That of a transaction's first
//!   statement begins when anything was sent for the transaction after BEGIN: REPEATABLE READ takes
//!   its snapshot at the first Parse, also of a statement that fails later or is rolled back to a
//!   savepoint.
//! - An implicit transaction ends at ReadyForQuery; an error before it aborts the transaction.
//! - COMMIT that is answered with the tag ROLLBACK is an abort. An error at COMMIT is one too.
//!   Without an answer, or with one that ends the connection, the outcome is unknown.
//! - A failed statement is left out. ROLLBACK TO drops all statements since its savepoint, reads
//!   included.
//!
//! # Invariants
//! What is recorded is what happened, or less. Where less would be wrong (a write that is not
//! understood), an opaque statement stands in its place, about which engines know nothing.

use std::sync::Arc;

use margay_wire::{Event, Executed, Outcome, Refusal, Severity, Times};

use crate::level::OwnLevel;
use crate::literals::Readings;
use crate::pieces::{Grammar, without_secrets};
use crate::text::{Verb, may_set_level, split, verb};
use crate::transaction::{Ended, OPAQUE, Op, Outstanding, Statements, Transaction};
use crate::units::unit_of;

/// What is read of a statement's text, once for all its executions.
#[derive(Debug)]
struct Reading {
    /// What is recorded of it.
    text: Arc<str>,
    verb: Verb,
    sets_level: bool,
}

impl Reading {
    fn new(text: &str) -> Self {
        let recorded = without_secrets(text, Grammar::Postgres).map_or_else(|| Arc::from(text), Arc::from);
        Self { text: recorded, verb: verb(text), sets_level: may_set_level(text) }
    }
}

/// A transaction that has not ended.
#[derive(Debug)]
struct Open {
    explicit: bool,
    level: Option<OwnLevel>,
    read_only: bool,
    unit: Option<Arc<str>>,
    begin: Times,
    /// When something was first sent for it after BEGIN.
    first: Option<i64>,
    statements: Statements,
    /// An error that an implicit transaction met.
    failed: bool,
    /// Whether its outcome cannot be told from its end.
    uncertain: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Lane {
    session: u64,
    /// The level of transactions that name none, at the beginning and now.
    levels: [Option<OwnLevel>; 2],
    open: Option<Open>,
    known: Readings<Reading>,
    /// The field of comments that names units, and what the latest statement says there.
    unit_field: Option<Arc<str>>,
    unit: Option<Arc<str>>,
    /// When a Parse or Bind was first sent since the last transaction ended.
    planned: Option<i64>,
    pub outstanding: Outstanding,
}

impl Lane {
    pub fn new(session: u64, level: Option<OwnLevel>, unit_field: Option<Arc<str>>) -> Self {
        Self {
            session,
            levels: [level; 2],
            open: None,
            known: Readings::new(Grammar::Postgres),
            unit_field,
            unit: None,
            planned: None,
            outstanding: Outstanding::default(),
        }
    }

    /// Whether the open transaction changes the schema.
    pub fn changes_schema(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.statements.changes_schema())
    }

    pub fn event(&mut self, event: Event) {
        match event {
            Event::Planned(sent) => self.planned(sent),
            Event::Executed(executed) => self.executed(*executed),
            Event::Queried(all) => self.queried(all),
            Event::Refused(refusal, at) => self.refused(&refusal, at),
            Event::Ready(status, at) => self.ready(status, at),
            Event::Backend(_) | Event::Parameter(..) | Event::Blind(_) => {}
        }
    }

    /// The connection is gone.
    pub fn closed(&mut self, now: i64) {
        let Some(open) = self.open.take() else { return };
        let ended = match open.explicit || open.failed {
            true if !open.uncertain => Ended::Aborted,
            _ => Ended::Unknown,
        };
        self.end(open, Times { before: now, after: now }, ended);
    }

    fn planned(&mut self, sent: i64) {
        match &mut self.open {
            Some(open) => open.first = open.first.or(Some(sent)),
            None => self.planned = self.planned.or(Some(sent)),
        }
    }

    /// The unit that a message names belongs to all of its statements.
    fn names_unit(&mut self, executed: Option<&Executed>) {
        let Some(field) = &self.unit_field else { return };
        let text = executed.and_then(|executed| executed.prepared.text.as_deref());
        self.unit = text.and_then(|text| unit_of(text, field)).map(Arc::from);
    }

    fn executed(&mut self, executed: Executed) {
        self.names_unit(Some(&executed));
        let Some(text) = executed.prepared.text.clone() else {
            return self.statement(&Reading::new(OPAQUE), executed);
        };
        if let Some(known) = self.known.get(&text) {
            return self.statement(&known, executed);
        }
        match split(&text).as_slice() {
            [] => {}
            [one] => self.piece(one, executed),
            _ => self.statement(&Reading::new(OPAQUE), executed),
        }
    }

    /// One statement.
    fn piece(&mut self, text: &str, mut executed: Executed) {
        let reading = self.known.read(text, &mut executed, Reading::new);
        self.statement(&reading, executed);
    }

    /// The statements of a Query message. If they cannot be told apart, one opaque statement stands
    /// for all.
    fn queried(&mut self, all: Vec<Executed>) {
        self.names_unit(all.first());
        let text = all.first().and_then(|first| first.prepared.text.clone());
        let pieces = text.as_deref().map(split).unwrap_or_default();
        let whole = all.last().is_some_and(|last| matches!(last.outcome, Outcome::Done(_)));
        let fits = if whole { pieces.len() == all.len() } else { pieces.len() >= all.len() };
        let rest = pieces.get(all.len()..).unwrap_or_default();
        let lost = all.last().is_some_and(|last| last.outcome == Outcome::Lost);
        if !fits || (lost && !rest.is_empty()) {
            let mut all = all;
            all.drain(..all.len().saturating_sub(1));
            return all.into_iter().for_each(|last| self.opaque(last));
        }
        pieces.iter().zip(all).for_each(|(piece, executed)| self.piece(piece, executed));
    }

    /// Something that may have done anything, commits included.
    fn opaque(&mut self, executed: Executed) {
        self.push(Op::opaque(executed.times));
        if let Some(open) = &mut self.open {
            (open.uncertain, open.level) = (true, None);
        }
    }

    fn statement(&mut self, reading: &Reading, executed: Executed) {
        let times = executed.times;
        match executed.outcome.clone() {
            Outcome::Done(tag) => self.succeeded(reading, &tag, executed),
            Outcome::Failed(refusal) if refusal.severity == Severity::Error => {
                let commits = matches!(reading.verb, Verb::End { .. });
                self.failed(&refusal, commits, times);
            }
            Outcome::Failed(_) | Outcome::Lost => self.lost(reading, executed),
        }
    }

    /// A statement failed, and left its connection alive.
    fn failed(&mut self, refusal: &Refusal, ends: bool, times: Times) {
        // The statement that failed may have taken the snapshot.
        self.planned(times.before);
        let Some(open) = &mut self.open else { return };
        if !ends && open.explicit {
            return;
        }
        if !ends {
            open.failed = true;
            return;
        }
        let certain = refusal.code != "40003";
        if let Some(open) = self.open.take() {
            self.end(open, times, if certain { Ended::Aborted } else { Ended::Unknown });
        }
    }

    /// An error outside of any statement.
    fn refused(&mut self, refusal: &Refusal, at: i64) {
        match (&mut self.open, refusal.severity) {
            (Some(open), Severity::Error) if !open.explicit => open.failed = true,
            (Some(open), Severity::Fatal) if !open.explicit => open.uncertain = true,
            _ => {}
        }
        if self.open.is_none() {
            self.planned(at);
        }
    }

    /// Nobody knows whether the statement ran.
    fn lost(&mut self, reading: &Reading, executed: Executed) {
        let (times, verb) = (executed.times, &reading.verb);
        match *verb {
            Verb::End { commits, .. } => {
                if let Some(open) = self.open.take() {
                    let aborted = !commits && !open.uncertain;
                    self.end(open, times, if aborted { Ended::Aborted } else { Ended::Unknown });
                }
            }
            Verb::Sql | Verb::Declare(_) | Verb::Schema | Verb::Uncertain => {
                let op = Op::new(Arc::clone(&reading.text), Executed { complete: false, ..executed });
                self.push(Op { changes_schema: *verb == Verb::Schema, ..op });
                if let Some(open) =
                    self.open.as_mut().filter(|open| !open.explicit || *verb == Verb::Uncertain)
                {
                    open.uncertain = true;
                }
            }
            _ => {}
        }
    }

    fn succeeded(&mut self, reading: &Reading, tag: &str, executed: Executed) {
        let times = executed.times;
        match (tag, reading.verb.clone()) {
            ("BEGIN" | "START TRANSACTION", Verb::Begin(level, reads)) => self.begin(level, reads, times),
            ("SAVEPOINT", Verb::Savepoint(name)) => self.savepoint(name, times),
            ("RELEASE", Verb::Release(name)) => self.release(&name),
            ("ROLLBACK", Verb::RollbackTo(name)) => self.roll_back_to(&name),
            ("COMMIT", Verb::End { chains, .. }) => self.ended(Ended::Committed, chains, times),
            ("ROLLBACK", Verb::End { chains, .. }) => self.ended(Ended::Aborted, chains, times),
            // The text and the tag contradict each other: nobody knows what happened.
            ("BEGIN" | "COMMIT" | "ROLLBACK" | "START TRANSACTION" | "SAVEPOINT" | "RELEASE", _) => {
                self.opaque(executed);
            }
            (_, Verb::SetTransaction(level, reads)) => {
                if let Some(open) = &mut self.open {
                    (open.level, open.read_only) = (level.or(open.level), reads);
                }
            }
            (_, Verb::SetDefault(level)) => self.set_default(level),
            (_, Verb::ResetDefault) => self.set_default(self.levels[0]),
            (_, Verb::Nothing) => self.planned(times.before),
            (_, Verb::Declare(query)) => {
                self.push(Op::new(query, Executed { complete: false, ..executed }));
            }
            (_, Verb::Uncertain) => self.uncertain(reading, executed),
            (_, verb) => self.plain(reading, executed, verb == Verb::Schema),
        }
    }

    fn plain(&mut self, reading: &Reading, executed: Executed, changes_schema: bool) {
        if reading.sets_level {
            self.levels[1] = None;
            self.open.iter_mut().for_each(|open| open.level = None);
        }
        self.push(Op { changes_schema, ..Op::new(Arc::clone(&reading.text), executed) });
    }

    fn uncertain(&mut self, reading: &Reading, executed: Executed) {
        self.push(Op::new(Arc::clone(&reading.text), executed));
        if let Some(open) = &mut self.open {
            open.uncertain = true;
        }
    }

    fn begin(&mut self, level: Option<OwnLevel>, read_only: bool, begin: Times) {
        match &mut self.open {
            // A second BEGIN is only warned of; one behind other statements of a message adopts
            // them.
            Some(open) => open.explicit = true,
            None => {
                let level = level.or(self.levels[1]);
                self.open = Some(Open { explicit: true, read_only, ..Open::new(level, begin, None) });
            }
        }
        self.planned = None;
    }

    fn savepoint(&mut self, name: String, times: Times) {
        self.planned(times.before);
        if let Some(open) = &mut self.open {
            open.statements.savepoint(name, false);
        }
    }

    fn release(&mut self, name: &str) {
        self.open.iter_mut().for_each(|open| open.statements.release(name));
    }

    fn roll_back_to(&mut self, name: &str) {
        self.open.iter_mut().for_each(|open| open.uncertain |= !open.statements.roll_back_to(name));
    }

    fn ended(&mut self, ended: Ended, chains: bool, times: Times) {
        let Some(open) = self.open.take() else { return };
        let (level, read_only) = (open.level, open.read_only);
        let ended = if open.uncertain { Ended::Unknown } else { ended };
        self.end(open, times, ended);
        if chains {
            self.open = Some(Open { explicit: true, read_only, ..Open::new(level, times, None) });
        }
    }

    fn set_default(&mut self, level: Option<OwnLevel>) {
        // An abort would set it back.
        let explicit = self.open.as_ref().is_some_and(|open| open.explicit);
        self.levels[1] = if explicit && level != self.levels[1] { None } else { level };
    }

    fn push(&mut self, mut op: Op) {
        let planned = self.planned.take();
        let open = self.open.get_or_insert_with(|| {
            let before = planned.unwrap_or(op.times.before).min(op.times.before);
            Open::new(self.levels[1], Times { before, after: before }, Some(before))
        });
        if open.unit.is_none() {
            open.unit.clone_from(&self.unit);
        }
        let first = *open.first.get_or_insert(op.times.before);
        if open.statements.ops.is_empty() {
            op.times.before = op.times.before.min(first);
        }
        open.uncertain |= !open.statements.push(op);
    }

    fn ready(&mut self, status: u8, at: i64) {
        match (&mut self.open, status) {
            (Some(open), b'I') => {
                let uncertain = open.explicit || open.uncertain;
                let ended = match open.failed {
                    true => Ended::Aborted,
                    false if uncertain => Ended::Unknown,
                    false => Ended::Committed,
                };
                let before = open.statements.ops.last().map_or(open.begin.before, |op| op.times.before);
                if let Some(open) = self.open.take() {
                    self.end(open, Times { before, after: at }, ended);
                }
            }
            // BEGIN was part of something that was not understood.
            (Some(open), _) if !open.explicit => {
                (open.explicit, open.uncertain, open.level) = (true, true, None)
            }
            (Some(_), _) => {}
            (None, b'I') => {}
            (None, _) => {
                let begin = self.outstanding.since.unwrap_or(at);
                let begin = Times { before: begin, after: begin };
                let open = Open::new(None, begin, Some(begin.before));
                self.open = Some(Open { explicit: true, uncertain: true, ..open });
            }
        }
        self.planned = None;
    }

    /// Everything that was sent has been answered.
    pub fn rests(&mut self) {
        self.outstanding.rests(self.open.is_some());
    }

    /// The connection is not understood any more.
    pub fn blinded(&mut self, now: i64) {
        if let Some(open) = self.open.take() {
            self.end(open, Times { before: now, after: now }, Ended::Unknown);
        }
        self.outstanding.rests(false);
    }

    fn end(&mut self, open: Open, end: Times, ended: Ended) {
        self.planned = None;
        let Open { level, read_only, unit, begin, statements: Statements { ops, .. }, .. } = open;
        if ops.is_empty() {
            return;
        }
        let session = self.session;
        self.outstanding.ended(Transaction { session, level, read_only, unit, begin, ops, end, ended });
    }
}

impl Open {
    fn new(level: Option<OwnLevel>, begin: Times, first: Option<i64>) -> Self {
        let (explicit, read_only, failed, uncertain) = (false, false, false, false);
        let (unit, statements) = (None, Statements::default());
        Self { explicit, level, read_only, unit, begin, first, statements, failed, uncertain }
    }
}

#[cfg(test)]
mod tests;
