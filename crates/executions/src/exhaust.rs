//! Every execution of a few transactions, one after the other.
//!
//! # Algorithm
//! Depth first: which transaction comes next, and how it ran. A choice with the same writes as one
//! before is not followed twice, so a history whose writes do not depend on snapshots is walked
//! through once.
//!
//! # Invariants
//! - [`Answer::Refuted`] is only said when every order and every choice was tried.

use margay_history::{History, Outcome, TxnId};
use margay_verdict::{Budget, Outside};

use super::choices::Choices;
use super::machine::Machine;
use super::order::Constraints;
use super::rules::{Family, Rules};

/// What trying everything gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// There is an execution.
    Explained,
    /// There is none.
    Refuted,
    /// There were more possibilities than allowed.
    TooMany,
}

struct Frame {
    candidates: Vec<TxnId>,
    choices: Option<Choices>,
}

/// Looks for an execution of `txns` alone, all of them where `None`, with at most `limit`
/// statements executed, and while the budget lasts.
///
/// # Errors
/// What is outside the fragment.
pub fn exhaust(
    history: &History,
    rules: Rules,
    txns: Option<&[TxnId]>,
    limit: u64,
    budget: &Budget,
) -> Result<Answer, Outside> {
    let constraints = Constraints::new(history, rules);
    let mut machine = Machine::new(history, true)?.within(budget);
    let mut wanted = vec![txns.is_none(); history.txn_count()];
    txns.into_iter().flatten().for_each(|txn| wanted[txn.index()] = true);
    let is_left = |txn: &TxnId| wanted[txn.index()] && history.outcome(*txn) == Outcome::Committed;
    let mut left = history.txns().filter(is_left).count();
    let mut placed = constraints.placed();
    let mut frames: Vec<Frame> = Vec::new();
    let (mut used, mut whole) = (0, true);
    loop {
        if left == 0 {
            return Ok(Answer::Explained);
        }
        let (mut candidates, more) = placed.ready(usize::MAX >> 8);
        whole &= !more;
        candidates.retain(|txn| wanted[txn.index()]);
        candidates.reverse();
        frames.push(Frame { candidates, choices: None });
        loop {
            let Some(frame) = frames.last_mut() else {
                return Ok(if whole { Answer::Refuted } else { Answer::TooMany });
            };
            if let Some(choices) = &mut frame.choices {
                let steps = choices.steps;
                let next = choices.next(&mut machine)?;
                used += choices.steps - steps;
                if let Some(choice) = next {
                    let txn = choices.txn();
                    if !in_row_order(history, rules, &machine, placed.order(), txn, &choice.ran.writes) {
                        machine.drop(choice.transaction);
                        continue;
                    }
                    machine.commit(choice.transaction, &choice.ran, rules.skips());
                    placed.push(txn);
                    left -= usize::from(history.outcome(txn) == Outcome::Committed);
                    break;
                }
                if let Some(outside) = choices.outside.take() {
                    return Err(outside);
                }
                whole &= !choices.cut;
            }
            if used > limit || budget.poll_now().is_err() {
                return Ok(Answer::TooMany);
            }
            if let Some(txn) = frame.candidates.pop() {
                let range = placed.snapshots(txn);
                frame.choices = Some(Choices::new(&mut machine, rules, txn, range)?.within(budget));
                continue;
            }
            frames.pop();
            if let Some(txn) = placed.pop() {
                left += usize::from(history.outcome(txn) == Outcome::Committed);
                machine.take_back(u32::try_from(placed.order().len()).unwrap_or(u32::MAX));
            }
        }
    }
}

/// At the serializable levels commit timestamps order the writers of one row.
#[must_use]
pub fn in_row_order(
    history: &History,
    rules: Rules,
    machine: &Machine<'_>,
    order: &[TxnId],
    txn: TxnId,
    writes: &[margay_sql::Write],
) -> bool {
    let commits = history.evidence();
    if rules.family != Family::Serial || commits.commits.is_empty() {
        return true;
    }
    let Some(own) = commits.commit(txn) else { return true };
    let here = machine.position();
    let stamp = |state: u32| commits.commit(order[state.checked_sub(1)? as usize]);
    writes.iter().all(|write| {
        let last = machine.last_writer(write.table, &write.key, here);
        let known = last.map_or(Some(None), |(state, _)| stamp(state).map(Some));
        // Who has no timestamp hides those before it, not their order.
        known
            .unwrap_or_else(|| machine.writers_of(write.table, &write.key, here).find_map(stamp))
            .is_none_or(|other| other <= own)
    })
}
