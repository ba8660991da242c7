//! What a statement summed up, computed again.
//!
//! # Algorithm
//! - [`Tally`]: where a certificate says which version of every object an operation saw, the answer
//!   follows and is compared.
//! - [`impossible`]: where it does not, each object has some versions that it may have been, each
//!   of which adds something or nothing. An answer outside of what they can add up to cannot have
//!   been seen: a count or a sum beyond its bounds, a least or a greatest value that no version has
//!   or that a certain one beats.

use hashbrown::HashMap;
use margay_history::{ObjectId, Op, OpId, TxnId, ValueId};
use margay_sql::{SummaryKind, Value as SqlValue};
use margay_verdict::cell::to_sql;
use margay_verdict::summaries::{Asked, Contribution, show_answer};
use margay_verdict::{Cell, Predicates};

use super::candidates::Candidates;
use super::{Rejected, reject};

/// What the objects seen so far add to each summary.
pub(super) struct Tally<'p> {
    predicates: &'p Predicates<'p>,
    all: HashMap<OpId, Vec<Contribution>>,
}

impl<'p> Tally<'p> {
    pub(super) fn new(predicates: &'p Predicates<'p>) -> Self {
        Self { predicates, all: HashMap::new() }
    }

    /// An operation saw this of an object.
    pub(super) fn add(&mut self, op: OpId, object: ObjectId, cell: &Cell) -> Result<(), Rejected> {
        let Some(asked) = self.predicates.summary(op) else { return Ok(()) };
        if self.predicates.history().object(object).table == Some(self.predicates.table_of(asked.predicate)) {
            let added = self.predicates.contribution(asked, object, cell)?;
            self.all.entry(op).or_default().extend(added);
        }
        Ok(())
    }

    /// Compares the answers of the transactions that committed.
    pub(super) fn finish(&self, committed: impl Fn(TxnId) -> bool) -> Result<(), Rejected> {
        let history = self.predicates.history();
        if !history.has_kind(margay_history::OpKind::Sql) {
            return Ok(());
        }
        for op in history.txns().filter(|&txn| committed(txn)).flat_map(|txn| history.ops(txn)) {
            let Some(asked) = self.predicates.summary(op.id) else { continue };
            let given = self.predicates.summed(asked, self.all.get(&op.id).map_or(&[], Vec::as_slice))?;
            if !self.predicates.is_told(op.id, &given) {
                let (told, who) = (self.predicates.told(op.id), history.show_txn(history.txn_of(op.id)));
                return reject(format!("{who} was told {told} where {} comes out", show_answer(&given)));
            }
        }
        Ok(())
    }
}

/// What one object may add: one of these, or nothing.
struct Adds {
    values: Vec<Contribution>,
    nothing: bool,
}

/// Whether no versions that the operation can have seen give its answer.
pub(super) fn impossible(
    predicates: &Predicates<'_>,
    op: &Op<'_>,
    asked: &Asked,
    candidates: &Candidates<'_>,
) -> bool {
    let Some(answer) = predicates.answer(op.id) else { return predicates.is_no_answer(op.id) };
    let adds = |&object: &ObjectId| -> Option<Adds> {
        candidates.known(object).ok()?;
        let cells = candidates.possible_cells(op.id, object)?;
        let all = cells.iter().map(|cell| predicates.contribution(asked, object, cell));
        let all: Vec<Option<Contribution>> = all.collect::<Result<_, _>>().ok()?;
        let nothing = all.iter().any(Option::is_none);
        Some(Adds { values: all.into_iter().flatten().collect(), nothing })
    };
    let Some(all) = predicates.domain(asked.predicate).iter().map(adds).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let certain = all.iter().all(|adds| adds.values.len() + usize::from(adds.nothing) <= 1);
    if certain {
        let rows: Vec<Contribution> = all.into_iter().flat_map(|adds| adds.values).collect();
        return predicates.summed(asked, &rows).is_ok_and(|given| !predicates.is_told(op.id, &given));
    }
    let told = |cell: &ValueId| {
        Some(*cell).filter(|&c| c != ValueId::UNKNOWN).and_then(|c| to_sql(predicates.history(), c))
    };
    let outputs = asked.kinds().zip(asked.distinct()).zip(answer).enumerate();
    outputs.into_iter().any(|(at, (kind, cell))| told(cell).is_some_and(|told| beyond(kind, at, &all, &told)))
}

/// Whether an output is outside of what the objects can add up to. Equal values that are counted
/// once, or added once, may come to less.
fn beyond((kind, distinct): (SummaryKind, bool), at: usize, all: &[Adds], told: &SqlValue) -> bool {
    let counts = |value: &SqlValue| kind == SummaryKind::Rows || !value.is_null();
    match (kind, told) {
        (SummaryKind::Rows | SummaryKind::Count, SqlValue::Int(count)) => {
            let may = all.iter().filter(|adds| adds.values.iter().any(|row| counts(&row[at]))).count();
            let must = all
                .iter()
                .filter(|adds| !adds.nothing && adds.values.iter().all(|row| counts(&row[at])))
                .count();
            let least = if distinct { must.min(1) } else { must };
            !(least as i64..=may as i64).contains(count)
        }
        (SummaryKind::Sum, SqlValue::Int(sum)) if !distinct => {
            let ends: Option<Vec<(i128, i128)>> = all.iter().map(|adds| ends(adds, at)).collect();
            let total = ends.map(|ends| ends.iter().fold((0, 0), |sum, end| (sum.0 + end.0, sum.1 + end.1)));
            total.is_some_and(|(low, high)| !(low..=high).contains(&i128::from(*sum)))
        }
        (SummaryKind::Min | SummaryKind::Max, SqlValue::Int(best)) => {
            let numbers = |adds: &Adds| -> Option<Vec<i64>> {
                adds.values.iter().map(|row| integer(&row[at])).collect()
            };
            let Some(numbers) =
                all.iter().map(|adds| Some((numbers(adds)?, adds.nothing))).collect::<Option<Vec<_>>>()
            else {
                return false;
            };
            let beats = |n: &i64| if kind == SummaryKind::Min { n < best } else { n > best };
            let beaten =
                numbers.iter().any(|(all, nothing)| !nothing && !all.is_empty() && all.iter().all(beats));
            beaten || !numbers.iter().any(|(all, _)| all.contains(best))
        }
        _ => false,
    }
}

fn integer(value: &SqlValue) -> Option<i64> {
    match value {
        SqlValue::Int(int) => Some(*int),
        _ => None,
    }
}

/// The least and the most that an object can add to a sum; NULL adds nothing.
fn ends(adds: &Adds, at: usize) -> Option<(i128, i128)> {
    let mut ends: Vec<i128> = Vec::from_iter(adds.nothing.then_some(0));
    for row in &adds.values {
        ends.push(if row[at].is_null() { 0 } else { i128::from(integer(&row[at])?) });
    }
    Some((ends.iter().copied().min().unwrap_or(0), ends.iter().copied().max().unwrap_or(0)))
}
