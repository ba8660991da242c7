//! What scans saw of the rows that they left out and that say nothing otherwise.
//!
//! # Problem
//! A scan looks at every row of its table. Of a row that matches in no version any version will do,
//! and none is chosen; but where something is visible to the transaction, a certificate must not
//! say that it saw something older.
//!
//! # Algorithm
//! It saw the latest version that is visible to it anyway: that adds nothing to what is visible,
//! and misses nothing.
//!
//! # Cost
//! The audit's: every row of the table, for each scan.

use hashbrown::{HashMap, HashSet};
use margay_history::{ObjectId, Op, OpId, OpKind, PredicateId, Version};
use margay_verdict::{Budget, Exhausted, Predicates, ReadFrom};

use super::choice::Choice;
use super::sight::ReadVersions;
use crate::problem::Item;

/// What is added to what has been told already.
pub(super) fn left_out(
    choice: &Choice<'_>,
    order: &[u32],
    told: &[ReadFrom],
    budget: &Budget,
) -> Result<Vec<ReadFrom>, Exhausted> {
    let (problem, history) = (choice.problem, choice.problem.history);
    let scans = history.has_kind(OpKind::Scan) || history.has_kind(OpKind::Update);
    let Some(predicates) = scans.then(|| Predicates::compile(history).ok()).flatten() else {
        return Ok(Vec::new());
    };
    let told: HashSet<(OpId, ObjectId)> = told.iter().map(|read| (read.op, read.object)).collect();
    let places = super::choice::places(order);
    let versions = choice.versions(&places);
    let mut latest: HashMap<(OpId, ObjectId), u32> = HashMap::new();
    let mut sight = ReadVersions::new(choice, order);
    while sight.advance() {
        for txn in (0..problem.txns.len() as u32).filter(|&txn| choice.active[txn as usize]) {
            for op in history.ops(problem.txns[txn as usize]) {
                let Some(predicate) = asked(choice, &op) else { continue };
                budget.poll()?;
                let look = sight.look(txn, op.id);
                for &object in predicates.domain(predicate) {
                    if told.contains(&(op.id, object)) {
                        continue;
                    }
                    let place = |version: u32| places[choice.txn(version) as usize];
                    let all = &versions[Item::from(object).index()];
                    let before = all.partition_point(|&v| place(v) < places[txn as usize]);
                    let found = all[..before].iter().rev().find(|&&v| look.sees(choice.txn(v)));
                    let entry = found.map(|&v| (v, latest.entry((op.id, object)).or_insert(v)));
                    if let Some((version, best)) = entry.filter(|(v, best)| place(*v) > place(**best)) {
                        *best = version;
                    }
                }
            }
        }
    }
    let version = |version: u32| Version::Of(problem.txns[choice.txn(version) as usize]);
    let mut found: Vec<ReadFrom> = latest
        .into_iter()
        .map(|((op, object), seen)| ReadFrom { op, object, version: version(seen) })
        .collect();
    found.sort_unstable_by_key(|read| (read.op, read.object));
    Ok(found)
}

/// What an operation asked whose answer the client saw.
fn asked(choice: &Choice<'_>, op: &Op<'_>) -> Option<PredicateId> {
    let history = choice.problem.history;
    match op.kind {
        OpKind::Scan => history.scan(op.id).filter(|scan| scan.observed).map(|scan| scan.predicate),
        OpKind::Update => {
            history.update(op.id).filter(|update| update.observed).map(|update| update.predicate)
        }
        _ => None,
    }
}
