//! Jepsen's operations: invocations and completions of one process make a transaction.
//!
//! # Mapping
//! A process is a session, the index of its invocation the transaction's label, and
//! `[index of the invocation, index of the completion]` the interval of all its operations: the
//! order of the list is Jepsen's real time. `:ok` committed, `:fail` aborted, `:info` and a missing
//! completion are unknown outcomes. What they and failed ones read is unknown too, unless the
//! completion tells it. A completion without an invocation has both indices equal.
//!
//! # Invariants
//! Only open invocations are kept; a transaction goes to the builder when it completes.

use std::collections::VecDeque;

use hashbrown::HashMap;
use margay_history::{History, HistoryBuilder, Interval, Invalid, Outcome, Unit, ValueId};

use super::forms::{Form, FormStream, Node};
use super::steps::{Converter, Fault, OperationStep, Problem, Seen, asked, fault};
use super::workload::{Emitter, Txn};
use crate::{FormatError, Warnings};

/// Reads the operations of `stream`. `keywords` says whether the syntax tells keywords from
/// strings.
pub(crate) fn read(
    mut stream: FormStream<'_>,
    keywords: bool,
    warnings: &mut Warnings,
) -> Result<History, FormatError> {
    let mut reader = Reader { keywords, ..Reader::default() };
    reader.builder.header().unit = Unit::Index;
    while stream.advance()? {
        let line = stream.line();
        let result = reader.operation(stream.form().untagged(), line);
        result.map_err(|problem| match problem {
            Problem::Fault(Fault { at, what }) => stream.error(at, what),
            Problem::Invalid(invalid) if invalid.place == line => {
                stream.error(stream.form().offset(), invalid.what)
            }
            Problem::Invalid(invalid) => at_line(invalid),
        })?;
    }
    reader.finish(warnings).map_err(at_line)
}

fn at_line(invalid: Invalid) -> FormatError {
    let error = FormatError::new(invalid.what);
    if invalid.place == 0 { error } else { error.at_line(invalid.place).at_column(1) }
}

#[derive(Default)]
struct Reader {
    keywords: bool,
    builder: HistoryBuilder,
    emitter: Emitter,
    /// Open invocations, by process.
    calls: HashMap<u64, Call>,
    anonymous: Anonymous,
    /// Whether operations carry their index; the first decides.
    indexed: Option<bool>,
    count: i64,
    last_index: Option<i64>,
    /// The last index of an operation that counts.
    end: i64,
    clients: u64,
    dropped: u64,
}

/// An open invocation.
struct Call {
    index: i64,
    line: u64,
    steps: Vec<OperationStep>,
}

/// The fields of an operation that matter.
struct Operation<'t> {
    index: i64,
    line: u64,
    kind: Kind,
    f: &'t str,
    value: Option<Form<'t>>,
    /// In Porcupine's key-value logs the key stands beside the value.
    key: Option<Form<'t>>,
    whole: Form<'t>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Invoke,
    Complete(Outcome),
}

enum Process {
    Client(u64),
    /// Something else than an integer.
    Other,
    Missing,
}

impl Reader {
    fn operation(&mut self, form: Form<'_>, line: u64) -> Result<(), Problem> {
        let fields = Fields::of(form)?;
        let index = self.index(form, fields.index)?;
        let process = process(fields.process)?;
        if matches!(process, Process::Other) {
            self.dropped += 1;
            return Ok(());
        }
        let f = fields.f.and_then(Form::word).unwrap_or_default();
        let Fields { value, key, .. } = fields;
        let op = Operation { index, line, kind: kind(form, fields.kind)?, f, value, key, whole: form };
        match process {
            Process::Client(session) => {
                self.clients += 1;
                self.end = index;
                self.client(session, &op)
            }
            _ if self.clients == 0 => self.nameless(&op),
            _ => {
                self.dropped += 1;
                Ok(())
            }
        }
    }

    fn index(&mut self, form: Form<'_>, given: Option<Form<'_>>) -> Result<i64, Fault> {
        let position = self.count;
        self.count += 1;
        let given = given.filter(|given| !given.is_nil());
        let index = match (*self.indexed.get_or_insert(given.is_some()), given) {
            (false, _) => position,
            (true, None) => return fault(form, "an operation without an :index, though the first had one"),
            (true, Some(given)) => match given.int() {
                Some(index) if index >= 0 => index,
                _ => return fault(given, "an :index is a natural number"),
            },
        };
        if self.last_index.is_some_and(|last| last >= index) {
            return fault(given.unwrap_or(form), "the :index of an operation is not above the one before");
        }
        self.last_index = Some(index);
        Ok(index)
    }

    fn client(&mut self, session: u64, op: &Operation<'_>) -> Result<(), Problem> {
        if op.f == "init" {
            return self.init(session, op);
        }
        let Kind::Complete(outcome) = op.kind else {
            let steps = self.steps(op, Seen::Nothing, None)?;
            let open = self.calls.insert(session, Call { index: op.index, line: op.line, steps });
            return match open {
                Some(lost) => self.lost(session, lost, op.index),
                None => Ok(()),
            };
        };
        let call = self.calls.remove(&session);
        let start = call.as_ref().map_or(op.index, |call| call.index);
        let steps = self.completed(op, outcome, call.map(|call| call.steps))?;
        let at = Interval::new(start, op.index);
        let txn = Txn { session, label: start as u64, at, outcome, steps, line: op.line };
        Ok(self.emitter.take(&mut self.builder, txn)?)
    }

    /// What a completed operation did: what it says if it is `:ok`; otherwise what it was asked
    /// for, with the results it tells.
    fn completed(
        &mut self,
        op: &Operation<'_>,
        outcome: Outcome,
        call: Option<Vec<OperationStep>>,
    ) -> Result<Vec<OperationStep>, Problem> {
        let silent = op.value.is_none_or(Form::is_nil) && !matches!(op.f, "read" | "acquire" | "release");
        if silent {
            return Ok(call.unwrap_or_default());
        }
        let key = match call.as_deref() {
            Some([OperationStep::Unseen(key)]) => *key,
            _ => None,
        };
        if outcome == Outcome::Committed {
            return self.steps(op, Seen::All, key);
        }
        // The value of a failed operation may be a reason instead of a transaction.
        match (self.steps(op, Seen::Values, key), call) {
            (Ok(told), Some(call)) if asked(&told) == asked(&call) => Ok(told),
            (Ok(_) | Err(Problem::Fault(_)), Some(call)) => Ok(call),
            (told, _) => told,
        }
    }

    fn steps(
        &mut self,
        op: &Operation<'_>,
        seen: Seen,
        key: Option<ValueId>,
    ) -> Result<Vec<OperationStep>, Problem> {
        let mut converter =
            Converter { builder: &mut self.builder, seen, keywords: self.keywords, key, closed: false };
        let value = op.value.map(Form::untagged);
        let steps = match op.key {
            Some(key) if matches!(op.f, "get" | "put" | "append") => {
                vec![converter.pair_store(op.f, key, value, op.whole)?]
            }
            _ => converter.steps(op.f, value, op.whole)?,
        };
        if converter.closed && !self.emitter.set_closed() {
            return Ok(fault(op.whole, "a predicate after many transactions without one, or among appends")?);
        }
        if matches!(steps[..], [OperationStep::Transfer { .. }]) {
            self.emitter.transfer_began();
        }
        Ok(steps)
    }

    /// The process went on without a completion.
    fn lost(&mut self, session: u64, call: Call, until: i64) -> Result<(), Problem> {
        let at = Interval::new(call.index, until);
        let Call { index, line, steps } = call;
        let txn = Txn { session, label: index as u64, at, outcome: Outcome::Unknown, steps, line };
        Ok(self.emitter.take(&mut self.builder, txn)?)
    }

    /// The initial state, which is no transaction. What was asked for counts, if it did not fail.
    fn init(&mut self, session: u64, op: &Operation<'_>) -> Result<(), Problem> {
        match op.kind {
            Kind::Invoke => {
                let steps = self.steps(op, Seen::Nothing, None)?;
                self.calls.insert(session, Call { index: op.index, line: op.line, steps });
                Ok(())
            }
            Kind::Complete(outcome) => {
                let steps = match self.calls.remove(&session) {
                    Some(call) => call.steps,
                    None => self.steps(op, Seen::All, None)?,
                };
                match &steps[..] {
                    [OperationStep::Init(rows)] if outcome == Outcome::Committed => {
                        self.builder.at_place(op.line);
                        Ok(self.emitter.initial_rows(&mut self.builder, rows)?)
                    }
                    _ => Ok(fault(op.whole, "the initial state is not certain")?),
                }
            }
        }
    }

    /// An operation of no process.
    fn nameless(&mut self, op: &Operation<'_>) -> Result<(), Problem> {
        let asked = self.steps(op, Seen::Nothing, None)?;
        self.end = op.index;
        let Kind::Complete(outcome) = op.kind else {
            self.anonymous.invoke(op, asked);
            return Ok(());
        };
        let (start, label) = self.anonymous.complete(&asked).unwrap_or((op.index, op.index));
        let steps = match outcome {
            Outcome::Committed => self.steps(op, Seen::All, None)?,
            _ => asked,
        };
        let at = Interval::new(start, op.index);
        let label = label as u64;
        self.anonymous.done.push(Txn { session: label, label, at, outcome, steps, line: op.line });
        Ok(())
    }

    fn finish(mut self, warnings: &mut Warnings) -> Result<History, Invalid> {
        let anonymous = std::mem::take(&mut self.anonymous);
        match self.clients {
            0 => {
                let all = anonymous.finish(self.end);
                if !all.is_empty() {
                    warnings.add("no operation has a :process: each is taken for a session of its own");
                }
                all.into_iter().try_for_each(|txn| self.emitter.take(&mut self.builder, txn))?;
            }
            _ => self.dropped += anonymous.seen,
        }
        let mut calls: Vec<_> = self.calls.drain().collect();
        calls.sort_unstable_by_key(|(_, call)| call.index);
        for (session, Call { index, line, steps }) in calls {
            let at = Interval::new(index, self.end);
            let txn = Txn { session, label: index as u64, at, outcome: Outcome::Unknown, steps, line };
            self.emitter.take(&mut self.builder, txn)?;
        }
        self.emitter.finish(&mut self.builder)?;
        if self.dropped > 0 {
            warnings.add(format!(
                "{} operations of no client (their :process is no integer) are left out",
                self.dropped
            ));
        }
        if let Some(assumed) = self.emitter.assumed_initial() {
            warnings.add(assumed);
        }
        if self.emitter.lacks_balances() {
            warnings
                .add("the initial balances are not known: no read was done before the first transfer began");
        }
        self.builder.finish()
    }
}

/// The fields of an operation, as forms.
#[derive(Default)]
struct Fields<'t> {
    kind: Option<Form<'t>>,
    process: Option<Form<'t>>,
    f: Option<Form<'t>>,
    value: Option<Form<'t>>,
    key: Option<Form<'t>>,
    index: Option<Form<'t>>,
}

impl<'t> Fields<'t> {
    fn of(form: Form<'t>) -> Result<Self, Fault> {
        let Some(pairs) = form.pairs() else { return fault(form, "an operation is a map") };
        let mut fields = Self::default();
        for (key, value) in pairs {
            let field = match key.word() {
                Some("type") => &mut fields.kind,
                Some("process") => &mut fields.process,
                Some("f") => &mut fields.f,
                Some("value") => &mut fields.value,
                Some("key") => &mut fields.key,
                Some("index") => &mut fields.index,
                _ => continue,
            };
            if field.replace(value).is_some() {
                return fault(key, "this key occurs twice in one operation");
            }
        }
        Ok(fields)
    }
}

fn process(form: Option<Form<'_>>) -> Result<Process, Fault> {
    match form.map(|form| (form, form.node())) {
        None => Ok(Process::Missing),
        Some((_, Node::Int(id))) if id >= 0 => Ok(Process::Client(id as u64)),
        Some((form, Node::Int(_))) => fault(form, "a :process is a natural number"),
        Some(_) => Ok(Process::Other),
    }
}

fn kind(form: Form<'_>, given: Option<Form<'_>>) -> Result<Kind, Fault> {
    let Some(given) = given else { return fault(form, "an operation without a :type") };
    match given.word() {
        Some("invoke") => Ok(Kind::Invoke),
        Some("ok") => Ok(Kind::Complete(Outcome::Committed)),
        Some("fail") => Ok(Kind::Complete(Outcome::Aborted)),
        Some("info") => Ok(Kind::Complete(Outcome::Unknown)),
        _ => fault(given, "a :type is :invoke, :ok, :fail or :info"),
    }
}

/// Operations in a file that names no process at all. A completion belongs to an open invocation of
/// the same content; when there are several, to any of them, so that its interval begins with the
/// earliest: wider than the truth perhaps, never narrower.
#[derive(Default)]
struct Anonymous {
    open: HashMap<Vec<OperationStep>, Group>,
    done: Vec<Txn>,
    seen: u64,
}

/// Open invocations of the same content (index and line), and the first one since there was none.
struct Group {
    first: i64,
    open: VecDeque<(i64, u64)>,
}

impl Anonymous {
    fn invoke(&mut self, op: &Operation<'_>, steps: Vec<OperationStep>) {
        self.seen += 1;
        let group =
            self.open.entry(steps).or_insert_with(|| Group { first: op.index, open: VecDeque::new() });
        group.open.push_back((op.index, op.line));
    }

    /// The earliest possible index of the invocation of what was asked, and the index to call it
    /// by.
    fn complete(&mut self, asked: &[OperationStep]) -> Option<(i64, i64)> {
        self.seen += 1;
        let group = self.open.get_mut(asked)?;
        let (first, (label, _)) = (group.first, group.open.pop_front()?);
        if group.open.is_empty() {
            self.open.remove(asked);
        }
        Some((first, label))
    }

    fn finish(mut self, end: i64) -> Vec<Txn> {
        for (steps, Group { first, open }) in self.open {
            for (index, line) in open {
                let (at, label) = (Interval::new(first, end), index as u64);
                let steps = steps.clone();
                self.done.push(Txn { session: label, label, at, outcome: Outcome::Unknown, steps, line });
            }
        }
        self.done.sort_by_key(|txn| txn.label);
        self.done
    }
}
