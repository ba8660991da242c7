//! Initial values that the history does not know, found from what the log later reveals.
//!
//! # Algorithm
//! Every unknown number is 0 at first, every other value NULL. When a result does not fit, some
//! unknown value of a row that the statement looked at is wrong. A number: the difference between
//! what was observed and what came out is added to it, or taken from it. Anything else, and what is
//! shown as NULL: what was observed is taken for it. One value after the other, and the first that
//! gets farther, or leaves fewer values wrong, is kept. Values that are only added to and shown are
//! found this way at their first showing.
//!
//! # Invariants
//! - What is found is checked like any other execution. What is not found is not refuted: the
//!   answer is `unknown`.

use margay_executions::formula::row_of;
use margay_executions::{Machine, RowId};
use margay_history::{History, Value as Seen};
use margay_sql::{Decimal, Dialect, Outcome, Type, Value};
use margay_verdict::Outside;
use margay_verdict::compare::same_value;
use margay_verdict::execution::{Initial, StatementSight};

use crate::search::Misfit;

/// What is wrong at a misfit.
#[derive(Debug)]
pub struct Wrong {
    /// How many values of the result are, at least; more than any where it has too many rows, or
    /// too few.
    pub count: usize,
    differences: Vec<Difference>,
    /// The unknown values of rows that were looked at, with the types of their columns.
    open: Vec<(usize, Type)>,
    dialect: Dialect,
}

impl Wrong {
    /// What is wrong at this misfit, on the database at its place.
    ///
    /// # Errors
    /// When a statement has no meaning here.
    pub fn at(machine: &mut Machine<'_>, misfit: Misfit, initial: &[Initial]) -> Result<Wrong, Outside> {
        let history = machine.history();
        let here = machine.position();
        let mut transaction = machine.begin();
        let (mut wrong, mut rows) = ((usize::MAX, Vec::new()), Vec::new());
        for op in machine.statements(misfit.txn)? {
            let step = machine.step(&mut transaction, op, &StatementSight::state(here))?;
            let Ok(outcome) = &step.result else { break };
            rows.extend(outcome.reads.rows.iter().map(|read| (read.table, read.key.clone())));
            if !step.fits {
                wrong = differences(history, misfit, outcome);
                break;
            }
        }
        machine.drop(transaction);
        let looked_at = |cell: &Initial| {
            let read = |row: &RowId| rows.iter().any(|read| read.0 == row.0 && read.1 == row.1);
            let (table, _) = row_of(machine, cell.object).filter(read)?;
            let columns = &machine.database().schema(table).columns;
            columns.iter().find(|column| column.name == cell.column).map(|column| column.data_type)
        };
        let open = initial.iter().enumerate().filter_map(|(at, cell)| Some((at, looked_at(cell)?))).collect();
        let ((count, differences), dialect) = (wrong, machine.database().dialect());
        Ok(Wrong { count, differences, open, dialect })
    }

    /// Corrections of unknown values that could help: the place of the value, and the new one.
    pub fn corrections(&self, initial: &[Initial]) -> Vec<(usize, Value)> {
        let mut all = Vec::new();
        for way in [Way::Add, Way::Take, Way::Replace] {
            for pair in &self.differences {
                let one = |&(at, of): &(usize, Type)| {
                    Some((at, way.correct(&initial[at].value, pair, of, self.dialect)?))
                };
                all.extend(self.open.iter().filter_map(one));
            }
        }
        all
    }
}

/// A value that was observed, and the one that came out in its place.
#[derive(Debug)]
struct Difference {
    observed: Value,
    given: Value,
}

/// How a difference corrects a value.
#[derive(Clone, Copy)]
enum Way {
    Add,
    Take,
    Replace,
}

impl Way {
    fn correct(self, value: &Value, pair: &Difference, of: Type, dialect: Dialect) -> Option<Value> {
        let by = || number(&pair.observed)?.checked_sub(number(&pair.given)?);
        match self {
            Way::Add => stored(number(value)?.checked_add(by()?)?, of, dialect),
            Way::Take => stored(number(value)?.checked_sub(by()?)?, of, dialect),
            Way::Replace => replaced(value, &pair.observed, of, dialect),
        }
        .filter(|new| new != value)
    }
}

/// What was observed as a value of a column, where it is no difference of numbers.
fn replaced(value: &Value, observed: &Value, of: Type, dialect: Dialect) -> Option<Value> {
    match (observed, of) {
        (Value::Null, _) | (Value::Text(_), Type::Text(_)) => Some(observed.clone()),
        (Value::Text(text), Type::Date) => Value::date(text),
        (Value::Text(text), Type::Timestamp) => Value::timestamp(text),
        _ if *value == Value::Null => stored(number(observed)?, of, dialect),
        _ => None,
    }
}

/// A number as a column holds it.
fn stored(number: Decimal, of: Type, dialect: Dialect) -> Option<Value> {
    match of {
        Type::Int(_) => number.to_integer().map(Value::Int),
        Type::Decimal(_) if dialect != Dialect::Sqlite => Some(Value::Decimal(number)),
        Type::Decimal(_) | Type::Float => Some(Value::Float(number.to_f64())),
        _ => None,
    }
}

/// The number that a value is, or that its text is.
fn number(value: &Value) -> Option<Decimal> {
    match value {
        Value::Int(number) => Some((*number).into()),
        Value::Decimal(number) => Some(*number),
        Value::Float(number) => number.to_string().parse().ok(),
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// Where values of the observed rows differ from those that came out, and how many do.
fn differences(history: &History, misfit: Misfit, outcome: &Outcome) -> (usize, Vec<Difference>) {
    let (mut count, mut differences) = (0, Vec::<Difference>::new());
    let statement = history.statement(misfit.op);
    let Some(rows) = statement.and_then(|statement| statement.rows.as_ref()) else {
        return (usize::MAX, differences);
    };
    for (&observed, given) in rows.iter().zip(&outcome.rows) {
        let Seen::List(cells) = history.value(observed) else { continue };
        for (&cell, given) in
            cells.iter().zip(given).filter(|(cell, given)| !same_value(history, **cell, given))
        {
            count += 1;
            let observed = match history.value(cell) {
                Seen::Null => Value::Null,
                Seen::Int(number) => Value::Int(number),
                Seen::Float(number) => Value::Float(number),
                Seen::Text(text) => Value::text(text),
                _ => continue,
            };
            if !differences.iter().any(|pair| pair.observed == observed && pair.given == *given) {
                differences.push(Difference { observed, given: given.clone() });
            }
        }
    }
    let count = if rows.len() == outcome.rows.len() { count } else { usize::MAX };
    (count, differences)
}
