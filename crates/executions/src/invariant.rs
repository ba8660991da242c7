//! What rows can ever be, whatever the order, and a result outside of it.
//!
//! # Problem
//! A result that no state gives is wrong, but there are more states than can be tried: `k`
//! transfers that nobody looked at have `2^k` of them at `read-committed`. What all of them have in
//! common is small.
//!
//! # Mathematics
//! An invariant says of some cells (a column of a row) which values they can have. Take the
//! transactions that can come before the one with the wrong result: all that may have committed but
//! those that the level or the evidence puts after it. In any execution, each row that one of them
//! sees was left by another one earlier, or by itself, or was there initially. So if
//! 1. every initial value is in its set, and
//! 2. every statement of theirs that sees rows within the sets leaves rows within the sets,
//!
//! then every row that the result can rest on is within the sets, in every order and with every
//! sight that any level allows.
//!
//! Additions (`x = x + c`) are the exception to 2: each of them happens once at most, so a value is
//! one that was stored, plus the sum of some of them. All negative ones are a lower bound of that
//! sum, all positive ones an upper bound, and what divides all of them divides it. An addition that
//! its own statement bounds (`… - 10 WHERE x >= 10`) stores a number that is not below the bound:
//! it counts as stored there, and not among the negative ones.
//!
//! Transactions of unknown outcome count as far as they can write, and are never the ones with the
//! wrong result.
//!
//! # Differs from the paper
//! Troubadour leaves sums over unobserved transfers to the arithmetic of an SMT solver.

use hashbrown::HashSet;
use margay_history::{History, Statement as Seen, Value as SeenValue, ValueId};
use margay_sql::{Decimal, Dialect, Expected, ExpectedRow, Numbers, Possible, Statement};
use margay_verdict::compare::same_value;

/// Why a result is not what is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contradiction {
    /// This row of the result is none that can be.
    Impossible(ValueId),
    /// A row of the tables is in the result more than once.
    Twice(ValueId),
    /// A row that is always there is missing.
    Missing,
    /// There are more, or fewer, rows than there can be.
    Count,
}

/// Why what was observed of a statement cannot be, by what is expected of it.
#[must_use]
pub fn contradicts(
    history: &History,
    seen: &Seen,
    statement: &Statement,
    expected: &Expected,
    dialect: Dialect,
) -> Option<Contradiction> {
    if let (Some(count), Some((least, most))) = (seen.count, expected.count)
        && statement.columns().is_empty()
        && statement.is_write()
    {
        // MySQL may count the rows that changed, or those twice.
        let (least, most) = if dialect.is_mysql() { (0, 2 * most) } else { (least, most) };
        if !(least..=most).contains(&count) {
            return Some(Contradiction::Count);
        }
    }
    let rows = seen.rows.as_ref()?;
    let tuples: Vec<(ValueId, &[ValueId])> = rows.iter().filter_map(|&row| tuple(history, row)).collect();
    if tuples.len() < rows.len() {
        return None;
    }
    if let Some(row) = expected.keys.as_ref().and_then(|keys| twice(history, &tuples, keys)) {
        return Some(Contradiction::Twice(row));
    }
    for part in &expected.parts {
        let fits = |cells: &[ValueId], row: &ExpectedRow| {
            let pairs = part.outputs.iter().zip(&row.values);
            pairs
                .into_iter()
                .all(|(&at, value)| cells.get(at).is_none_or(|&cell| can_be(history, cell, value)))
        };
        if let Some((row, _)) = tuples.iter().find(|(_, cells)| !part.rows.iter().any(|row| fits(cells, row)))
        {
            return Some(Contradiction::Impossible(*row));
        }
        // Fewer rows than the limit are all that there are.
        let all = expected.whole && expected.limit.is_none_or(|limit| (tuples.len() as u64) < limit);
        let mut certain = part.rows.iter().filter(|row| all && row.certain);
        if certain.clone().count() > tuples.len() || expected.whole && part.rows.len() < tuples.len() {
            return Some(Contradiction::Count);
        }
        if certain.any(|row| !tuples.iter().any(|(_, cells)| fits(cells, row))) {
            return Some(Contradiction::Missing);
        }
    }
    None
}

/// A row of the result that shows the same rows of the tables as one before it.
fn twice(history: &History, tuples: &[(ValueId, &[ValueId])], keys: &[usize]) -> Option<ValueId> {
    let mut seen = HashSet::new();
    let known = |cell: &ValueId| !matches!(history.value(*cell), SeenValue::Unknown | SeenValue::Null);
    tuples.iter().find_map(|(row, cells)| {
        let key: Option<Vec<ValueId>> = keys.iter().map(|&at| cells.get(at).copied()).collect();
        let key = key.filter(|key| key.iter().all(known))?;
        (!seen.insert(key)).then_some(*row)
    })
}

/// The cells of an observed row, if they are known.
fn tuple(history: &History, row: ValueId) -> Option<(ValueId, &[ValueId])> {
    match history.value(row) {
        SeenValue::List(cells) => Some((row, cells)),
        _ => None,
    }
}

/// Whether an observed value may be one of these.
fn can_be(history: &History, observed: ValueId, values: &Possible) -> bool {
    match values {
        Possible::Any => true,
        Possible::Of(values) => values.iter().any(|value| same_value(history, observed, value)),
        Possible::Numbers(numbers) => match history.value(observed) {
            SeenValue::Null => numbers.null,
            SeenValue::Int(number) => numbers.has(number.into()),
            SeenValue::UInt(number) => number.to_string().parse().is_ok_and(|number| numbers.has(number)),
            SeenValue::Text(text) => match text.parse::<Decimal>() {
                Ok(number) => numbers.has(number),
                Err(_) => true,
            },
            SeenValue::Float(number) => double_can_be(number, *numbers),
            _ => true,
        },
    }
}

/// A double stands for every number that is nearest to it. Small ones are nearest to one number of
/// their scale only.
fn double_can_be(double: f64, numbers: Numbers) -> bool {
    let few_digits = double.abs() * 10_f64.powi(i32::try_from(numbers.scale).unwrap_or(i32::MAX)) < 1e15;
    match double.to_string().parse::<Decimal>() {
        Ok(number) if few_digits => numbers.has(number),
        _ => true,
    }
}
