//! Execution of procedures.
//!
//! # Invariants
//! - Every statement and every turn of a loop costs one step of the call's budget, so that every
//!   call ends.
//! - A cursor or loop refuses to take a row whose place among the others is open.
//! - In MySQL a call that fails keeps what its statements wrote before; elsewhere it changes
//!   nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::SqlError;
use crate::reading::cast::text_of;
use crate::reading::coerce::store;
use crate::reading::database::{Database, Transaction};
use crate::reading::eval::{eval, truth};
use crate::reading::outcome::{Outcome, Write};
use crate::reading::plan::{Lock, TableId};
use crate::reading::procedure::{
    Block, Call, Direction, Formula, Handler, Prepared, ProcedureStep, Range, Test,
};
use crate::reading::run::At;
use crate::reading::statement::Statement;
use crate::reading::store::Key;
use crate::value::Value;

/// The most statements and turns of loops that one call executes.
const MAX_STEPS: u64 = 1_000_000;

/// Where execution goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Leave(u32),
    Iterate(u32),
    Return,
}

/// The rows of an open cursor, and how many were fetched.
struct Open {
    outcome: Outcome,
    at: usize,
}

/// A call at work.
struct Running<'d> {
    database: &'d mut Database,
    transaction: &'d mut Transaction,
    call: &'d Call,
    frame: Vec<Value>,
    cursors: Vec<Option<Open>>,
    /// The handlers of the blocks around, with the blocks.
    handlers: Vec<(u32, &'d Handler)>,
    outcome: Outcome,
}

/// Executes a call. Its one row holds the OUT and INOUT parameters; without any, the rows of the
/// one SELECT that sends them to the caller.
pub(crate) fn execute(
    database: &mut Database,
    transaction: &mut Transaction,
    statement: &Statement,
    call: &Arc<Call>,
    params: &[Value],
) -> Result<Outcome, SqlError> {
    let outermost = transaction.steps.is_none();
    transaction.steps.get_or_insert(MAX_STEPS);
    let mut frame = vec![Value::Null; call.procedure.slots.len()];
    frame[0] = Value::Bool(false);
    let mut cursors = Vec::new();
    cursors.resize_with(call.procedure.cursors.len(), || None);
    let handlers = Vec::new();
    let outcome = Outcome::default();
    let mut running = Running { database, transaction, call, frame, cursors, handlers, outcome };
    let done = running.arguments(params).and_then(|()| running.block(&call.procedure.body));
    let done = done.and_then(|_| running.give_back(statement));
    if outermost {
        running.transaction.steps = None;
    }
    if done.is_err() && !running.database.dialect().is_mysql() {
        let writes = std::mem::take(&mut running.outcome.writes);
        running.database.undo(running.transaction, &writes);
    }
    done.map(|()| running.outcome)
}

impl<'d> Running<'d> {
    fn arguments(&mut self, params: &[Value]) -> Result<(), SqlError> {
        for (at, arg) in self.call.args.iter().enumerate() {
            let Some((expr, flexible)) = arg else { continue };
            let context = self.database.context(self.transaction, params, true);
            let value = eval(expr, &At { context: &context, row: &[], outer: None })?.into_owned();
            let reads = context.reads.take();
            self.note(Outcome { reads, ..Outcome::default() });
            self.frame[at + 1] =
                store(value, self.call.procedure.parameters[at].of, *flexible, self.database.dialect())?;
        }
        Ok(())
    }

    /// Makes the outcome of the whole call.
    fn give_back(&mut self, statement: &Statement) -> Result<(), SqlError> {
        self.outcome.writes = merged(std::mem::take(&mut self.outcome.writes));
        let parameters = self.call.procedure.parameters.iter().enumerate();
        let outs = parameters.filter(|(_, parameter)| parameter.direction != Direction::In);
        let row: Vec<Value> = outs.map(|(at, _)| self.frame[at + 1].clone()).collect();
        if row.is_empty() {
            return Ok(());
        }
        if !self.outcome.columns.is_empty() {
            return Err(SqlError::unsupported("a procedure with OUT parameters and a result set"));
        }
        (self.outcome.columns, self.outcome.rows) = (statement.columns().clone(), vec![row]);
        self.outcome.ranks = vec![0];
        Ok(())
    }

    /// Adds what a statement read and wrote.
    fn note(&mut self, part: Outcome) {
        self.outcome.matched += part.matched;
        self.outcome.changed += part.changed;
        self.outcome.reads.rows.extend(part.reads.rows);
        self.outcome.reads.predicates.extend(part.reads.predicates);
        if self.outcome.reads.lock != Some(Lock::Update) {
            self.outcome.reads.lock = part.reads.lock.or(self.outcome.reads.lock);
        }
        self.outcome.writes.extend(part.writes);
    }

    fn spend(&mut self) -> Result<(), SqlError> {
        match self.transaction.steps.as_mut().and_then(|left| Some((left.checked_sub(1)?, left))) {
            Some((less, left)) => {
                *left = less;
                Ok(())
            }
            None => {
                Err(SqlError::Procedure(format!("a procedure executed more than {MAX_STEPS} statements")))
            }
        }
    }

    fn run(&mut self, prepared: &Prepared) -> Result<Outcome, SqlError> {
        let statement = prepared.as_ref().map_err(Clone::clone)?;
        let mut outcome = self.database.try_execute(self.transaction, statement, &self.frame)?;
        let rows = std::mem::take(&mut outcome.rows);
        let shown = Outcome {
            columns: outcome.columns.clone(),
            rows,
            ranks: std::mem::take(&mut outcome.ranks),
            matched: outcome.matched,
            ..Outcome::default()
        };
        self.note(outcome);
        Ok(shown)
    }

    fn value(&mut self, formula: &Formula) -> Result<Value, SqlError> {
        let expr = formula.as_ref().map_err(Clone::clone)?;
        let context = self.database.context(self.transaction, &self.frame, true);
        let value = eval(expr, &At { context: &context, row: &[], outer: None })?.into_owned();
        let reads = context.reads.take();
        self.note(Outcome { reads, ..Outcome::default() });
        Ok(value)
    }

    fn holds(&mut self, formula: &Formula) -> Result<bool, SqlError> {
        let expr = formula.as_ref().map_err(Clone::clone)?;
        let context = self.database.context(self.transaction, &self.frame, false);
        let holds = truth(expr, &At { context: &context, row: &[], outer: None })? == Some(true);
        let reads = context.reads.take();
        self.note(Outcome { reads, ..Outcome::default() });
        Ok(holds)
    }

    /// PL/pgSQL converts by way of text what has no conversion; beyond text that is outside the
    /// fragment.
    fn assign(&mut self, slot: usize, value: Value) -> Result<(), SqlError> {
        self.frame[slot] = match self.call.procedure.slots[slot] {
            Some(of) => store(value, of, true, self.database.dialect()).map_err(|error| match error {
                SqlError::Type(message) if message.contains("does not fit") => SqlError::unsupported(message),
                other => other,
            })?,
            None => value,
        };
        Ok(())
    }

    fn assign_row(&mut self, targets: &[usize], row: Vec<Value>) -> Result<(), SqlError> {
        if row.len() != targets.len() {
            let message = format!("{} values for {} variables", row.len(), targets.len());
            return Err(if self.database.dialect().is_mysql() {
                SqlError::Procedure(message)
            } else {
                SqlError::unsupported(message)
            });
        }
        targets.iter().zip(row).try_for_each(|(slot, value)| self.assign(*slot, value))
    }

    fn found(&mut self, found: bool) {
        self.frame[0] = Value::Bool(found);
    }

    fn block(&mut self, block: &'d Block) -> Result<Flow, SqlError> {
        for &cursor in &block.cursors {
            self.cursors[cursor] = None;
        }
        for (slot, formula) in &block.initial {
            let value = self.value(formula)?;
            self.assign(*slot, value)?;
        }
        let handlers = self.handlers.len();
        self.handlers.extend(block.handler.iter().map(|handler| (block.id, handler)));
        let flow = self.steps(&block.body);
        self.handlers.truncate(handlers);
        match flow? {
            Flow::Leave(id) if id == block.id => Ok(Flow::Next),
            flow => Ok(flow),
        }
    }

    fn steps(&mut self, steps: &'d [ProcedureStep]) -> Result<Flow, SqlError> {
        for step in steps {
            self.spend()?;
            let flow = self.step(step)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn step(&mut self, step: &'d ProcedureStep) -> Result<Flow, SqlError> {
        match step {
            ProcedureStep::Block(block) => return self.block(block),
            ProcedureStep::Run(prepared) => self.show(prepared)?,
            ProcedureStep::Perform(prepared) => {
                let rows = self.run(prepared)?.rows;
                self.found(!rows.is_empty());
            }
            ProcedureStep::Into(prepared, targets, strict) => return self.into(prepared, targets, *strict),
            ProcedureStep::Assign(slot, formula) => {
                let value = self.value(formula)?;
                self.assign(*slot, value)?;
            }
            ProcedureStep::If(branches, otherwise) => {
                for (test, body) in branches {
                    if self.holds(test)? {
                        return self.steps(body);
                    }
                }
                return self.steps(otherwise);
            }
            ProcedureStep::Loop(id, test, body) => return self.repeat(*id, test, body),
            ProcedureStep::Range(id, range, body) => return self.range(*id, range, body),
            ProcedureStep::Rows(id, query, targets, body) => return self.rows(*id, query, targets, body),
            ProcedureStep::Leave(id, when) => return self.jump(Flow::Leave(*id), when.as_ref()),
            ProcedureStep::Iterate(id, when) => return self.jump(Flow::Iterate(*id), when.as_ref()),
            ProcedureStep::Open(cursor, query) => self.open(*cursor, query.as_ref())?,
            ProcedureStep::Fetch(cursor, targets) => return self.fetch(*cursor, targets),
            ProcedureStep::Close(cursor) => {
                self.opened(*cursor)?;
                self.cursors[*cursor] = None;
            }
            ProcedureStep::Raise(text, values) => return Err(self.raised(text, values)),
            ProcedureStep::Return => return Ok(Flow::Return),
        }
        Ok(Flow::Next)
    }

    fn jump(&mut self, flow: Flow, when: Option<&Formula>) -> Result<Flow, SqlError> {
        match when {
            Some(when) if !self.holds(when)? => Ok(Flow::Next),
            _ => Ok(flow),
        }
    }

    /// A statement whose rows, if it has any, go to the caller.
    fn show(&mut self, prepared: &Prepared) -> Result<(), SqlError> {
        let shown = self.run(prepared)?;
        if shown.columns.is_empty() {
            self.found(shown.matched > 0);
            return Ok(());
        }
        if !self.outcome.columns.is_empty() {
            return Err(SqlError::unsupported("a procedure with a second result set"));
        }
        (self.outcome.columns, self.outcome.rows, self.outcome.ranks) =
            (shown.columns, shown.rows, shown.ranks);
        Ok(())
    }

    fn into(&mut self, prepared: &Prepared, targets: &[usize], strict: bool) -> Result<Flow, SqlError> {
        let mut shown = self.run(prepared)?;
        let mysql = self.database.dialect().is_mysql();
        let writes = prepared.as_ref().is_ok_and(Statement::is_write);
        if shown.rows.len() > 1 && (mysql || strict || writes) {
            return Err(SqlError::Procedure("INTO met more than one row".into()));
        }
        self.found(!shown.rows.is_empty());
        if shown.rows.is_empty() {
            if strict {
                return Err(SqlError::Procedure("INTO STRICT met no row".into()));
            }
            if mysql {
                return Ok(self.not_found()?.unwrap_or(Flow::Next));
            }
            return self.assign_row(targets, vec![Value::Null; targets.len()]).map(|()| Flow::Next);
        }
        check_place(&shown, 0)?;
        self.assign_row(targets, shown.rows.swap_remove(0))?;
        Ok(Flow::Next)
    }

    /// Runs the innermost handler for NOT FOUND, with the handlers around its block; `None` if
    /// there is none.
    fn not_found(&mut self) -> Result<Option<Flow>, SqlError> {
        let Some((block, handler)) = self.handlers.pop() else { return Ok(None) };
        let flow = self.steps(&handler.body);
        self.handlers.push((block, handler));
        Ok(Some(match flow? {
            Flow::Next if handler.exit => Flow::Leave(block),
            flow => flow,
        }))
    }

    /// What a loop's body has left to do: `None` to go on with the loop.
    fn turn(&mut self, id: u32, body: &'d [ProcedureStep]) -> Result<Option<Flow>, SqlError> {
        self.spend()?;
        Ok(match self.steps(body)? {
            Flow::Next => None,
            Flow::Iterate(to) if to == id => None,
            Flow::Leave(to) if to == id => Some(Flow::Next),
            flow => Some(flow),
        })
    }

    fn repeat(&mut self, id: u32, test: &Test, body: &'d [ProcedureStep]) -> Result<Flow, SqlError> {
        loop {
            if let Test::While(test) = test
                && !self.holds(test)?
            {
                return Ok(Flow::Next);
            }
            if let Some(flow) = self.turn(id, body)? {
                return Ok(flow);
            }
            if let Test::Until(test) = test
                && self.holds(test)?
            {
                return Ok(Flow::Next);
            }
        }
    }

    fn bound(&mut self, formula: &Formula) -> Result<i64, SqlError> {
        match self.value(formula)? {
            Value::Int(number) => Ok(number),
            Value::Null => Err(SqlError::Procedure("a bound of a FOR loop is NULL".into())),
            other => Err(SqlError::unsupported(format!("{other} as a bound of a FOR loop"))),
        }
    }

    fn range(&mut self, id: u32, range: &'d Range, body: &'d [ProcedureStep]) -> Result<Flow, SqlError> {
        let (mut at, end) = (self.bound(&range.low)?, self.bound(&range.high)?);
        let by = range.by.as_ref().map_or(Ok(1), |by| self.bound(by))?;
        if by < 1 {
            return Err(SqlError::Procedure("BY of a FOR loop must be positive".into()));
        }
        let step = if range.reverse { -by } else { by };
        let mut turned = false;
        let mut flow = Flow::Next;
        while if range.reverse { at >= end } else { at <= end } {
            turned = true;
            self.assign(range.slot, Value::Int(at))?;
            if let Some(left) = self.turn(id, body)? {
                flow = left;
                break;
            }
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        self.found(turned);
        Ok(flow)
    }

    fn rows(
        &mut self,
        id: u32,
        query: &Prepared,
        targets: &[usize],
        body: &'d [ProcedureStep],
    ) -> Result<Flow, SqlError> {
        let shown = self.run(query)?;
        let mut flow = Flow::Next;
        for at in 0..shown.rows.len() {
            check_place(&shown, at)?;
            self.assign_row(targets, shown.rows[at].clone())?;
            if let Some(left) = self.turn(id, body)? {
                flow = left;
                break;
            }
        }
        if shown.rows.is_empty() && targets.iter().any(|slot| self.call.procedure.slots[*slot].is_some()) {
            self.assign_row(targets, vec![Value::Null; targets.len()])?;
        }
        self.found(!shown.rows.is_empty());
        Ok(flow)
    }

    fn opened(&mut self, cursor: usize) -> Result<&mut Open, SqlError> {
        let name = &self.call.procedure.cursors[cursor].0;
        self.cursors[cursor]
            .as_mut()
            .ok_or_else(|| SqlError::Procedure(format!("the cursor {name} is not open")))
    }

    /// Both databases fix a cursor's rows when it is opened.
    fn open(&mut self, cursor: usize, query: Option<&Prepared>) -> Result<(), SqlError> {
        let (name, own) = &self.call.procedure.cursors[cursor];
        if self.cursors[cursor].is_some() {
            return Err(SqlError::Procedure(format!("the cursor {name} is open already")));
        }
        let query = query.or(own.as_ref());
        let query = query.ok_or_else(|| SqlError::Procedure(format!("the cursor {name} has no query")))?;
        let outcome = self.run(query)?;
        self.cursors[cursor] = Some(Open { outcome, at: 0 });
        Ok(())
    }

    fn fetch(&mut self, cursor: usize, targets: &[usize]) -> Result<Flow, SqlError> {
        let open = self.opened(cursor)?;
        let row = open.outcome.rows.get(open.at).cloned();
        if row.is_some() {
            check_place(&open.outcome, open.at)?;
            open.at += 1;
        }
        self.found(row.is_some());
        match row {
            Some(row) => self.assign_row(targets, row)?,
            None if self.database.dialect().is_mysql() => {
                let handled = self.not_found()?;
                return handled.ok_or_else(|| SqlError::Procedure("FETCH met no row".into()));
            }
            None => self.assign_row(targets, vec![Value::Null; targets.len()])?,
        }
        Ok(Flow::Next)
    }

    /// The error of RAISE or SIGNAL.
    fn raised(&mut self, text: &str, values: &[Formula]) -> SqlError {
        let mut message = String::new();
        let mut values = values.iter();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            if character != '%' {
                message.push(character);
            } else if characters.next_if_eq(&'%').is_some() {
                message.push('%');
            } else if let Some(formula) = values.next() {
                match self.value(formula) {
                    Ok(value) => {
                        message += &text_of(&value, self.database.dialect()).unwrap_or(value.to_string());
                    }
                    Err(error) => return error,
                }
            }
        }
        SqlError::Procedure(message)
    }
}

/// The row must be the one that every execution has at this place: rows of equal rank may come in
/// any order.
fn check_place(shown: &Outcome, at: usize) -> Result<(), SqlError> {
    let tied = |other: &usize| shown.ranks.get(*other) == shown.ranks.get(at);
    let (before, after) = ((0..at).rev().take_while(tied), (at + 1..shown.rows.len()).take_while(tied));
    if before.chain(after).any(|other| shown.rows.get(other) != shown.rows.get(at)) {
        return Err(SqlError::unsupported("a cursor, loop or INTO over rows whose order is open"));
    }
    Ok(())
}

/// Each row once: as it was before the first write and after the last.
fn merged(writes: Vec<Write>) -> Vec<Write> {
    let mut places: HashMap<(TableId, Key), usize> = HashMap::new();
    let mut merged: Vec<Write> = Vec::new();
    for write in writes {
        let place = *places.entry((write.table, write.key.clone())).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(known) => known.follow(&write),
            None => merged.push(write),
        }
    }
    merged
}
