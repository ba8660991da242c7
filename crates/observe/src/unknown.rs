//! Initial values that the history does not know, found from what the log later reveals.
//!
//! # Algorithm
//! Every unknown integer is 0 at first. When a result does not fit, some unknown integer of a row that the statement looked at is wrong: the difference between what
//! was observed and what came out is added to it, or taken from it, one integer after the other, and what gets farthest is kept. Values that are only added to and
//! shown are found this way at their first showing.
//!
//! # Invariants
//! - What is found is checked like any other execution. What is not found is not refuted: the answer is `unknown`.

use margay_history::{History, Value as Seen};
use margay_sql::{Outcome, Value};
use margay_verdict::Outside;
use margay_verdict::observed::formula::row_of;
use margay_verdict::observed::{Initial, Machine, Sight};

use crate::search::Misfit;

/// Corrections of unknown integers that could make a misfit fit: the place of the integer, and its new value.
///
/// # Errors
/// When a statement has no meaning here.
pub fn corrections(
    machine: &mut Machine<'_>,
    misfit: Misfit,
    initial: &[Initial],
) -> Result<Vec<(usize, i64)>, Outside> {
    let history = machine.history();
    let here = machine.position();
    let mut transaction = machine.begin();
    let (mut found, mut rows) = (Vec::new(), Vec::new());
    for op in machine.statements(misfit.txn)? {
        let step = machine.step(&mut transaction, op, &Sight::state(here))?;
        let Ok(outcome) = &step.result else { break };
        rows.extend(outcome.reads.rows.iter().map(|read| (read.table, read.key.clone())));
        if !step.fits {
            found = differences(history, misfit, outcome);
            break;
        }
    }
    machine.drop(transaction);
    let looked_at = |cell: &Initial| {
        row_of(machine, cell.object)
            .is_some_and(|(table, key)| rows.iter().any(|read| read.0 == table && read.1 == key))
    };
    let open: Vec<usize> = (0..initial.len()).filter(|&at| looked_at(&initial[at])).collect();
    let add = |(at, by): (usize, i64)| initial[at].value.checked_add(by).map(|value| (at, value));
    let both = found.iter().flat_map(|&by| [by, -by]);
    Ok(both.flat_map(|by| open.iter().map(move |&at| (at, by))).filter_map(add).collect())
}

/// By how much integers of the observed rows differ from those that came out.
fn differences(history: &History, misfit: Misfit, outcome: &Outcome) -> Vec<i64> {
    let statement = history.statement(misfit.op);
    let Some(rows) = statement.and_then(|statement| statement.rows.as_ref()) else { return Vec::new() };
    let mut differences = Vec::new();
    for (&observed, given) in rows.iter().zip(&outcome.rows) {
        let Seen::List(cells) = history.value(observed) else { continue };
        for (&cell, value) in cells.iter().zip(given) {
            if let (Seen::Int(a), Value::Int(b)) = (history.value(cell), value)
                && let Some(by) = a.checked_sub(*b).filter(|by| *by != 0)
                && !differences.contains(&by)
            {
                differences.push(by);
            }
        }
    }
    differences
}
