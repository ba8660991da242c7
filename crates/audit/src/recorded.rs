//! The only state that recorded timestamps leave.
//!
//! # Algorithm
//! If everyone who committed has a serialization timestamp (at the snapshot levels a snapshot and a
//! commit timestamp), no two are equal, and nobody's outcome is unknown, then there is one order,
//! or one row of begin and commit points, that a history can have had. It is run, without looking
//! at what others saw, up to the transaction in question; what its operation then gives is the only
//! thing that the client can have seen.
//!
//! # Invariants
//! Nothing is shown where timestamps are missing or equal: the answer is an error that says which.

use hashbrown::HashMap;
use margay_history::{ObjectId, OpId, Outcome, TxnId};
use margay_levels::definition::Family;
use margay_verdict::state::{Overlay, check, effects};
use margay_verdict::{Effect, Fault, Predicates, Question, State};

use super::{Rejected, reject};

/// Whether the operation gives something else than its client saw, in the only order that
/// timestamps leave.
pub(super) fn differs(predicates: &Predicates<'_>, question: Question, op: OpId) -> Result<bool, Rejected> {
    let target = predicates.history().txn_of(op);
    let mut state = State::initial(predicates);
    let mut pending: HashMap<TxnId, Vec<(ObjectId, Vec<Effect>)>> = HashMap::new();
    for (_, commits, txn) in points(predicates, question)? {
        if commits {
            for (object, effects) in pending.remove(&txn).unwrap_or_default() {
                effects.iter().for_each(|effect| state.change(object, effect));
            }
            continue;
        }
        if txn == target {
            return at(predicates, &state, op);
        }
        predicates.budget().poll()?;
        pending.insert(txn, run(predicates, &state, txn)?);
    }
    reject("the transaction has no timestamps")
}

/// Begins and commits by their timestamps; at the serializable levels a transaction commits where
/// it begins.
fn points(predicates: &Predicates<'_>, question: Question) -> Result<Vec<(i64, bool, TxnId)>, Rejected> {
    let (history, evidence) = (predicates.history(), predicates.history().evidence());
    let serial = question.level.family() == Family::Serial;
    let mut points = Vec::new();
    for txn in history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted) {
        if history.outcome(txn) == Outcome::Unknown {
            return reject(format!("whether {} committed is not known", history.show_txn(txn)));
        }
        let (begin, commit) = match question.level.family() {
            Family::Serial => (evidence.serialization(txn), evidence.serialization(txn)),
            Family::Snapshot => (evidence.snapshot(txn), evidence.commit(txn)),
            _ => return reject("the level does not follow timestamps"),
        };
        let (Some(begin), Some(commit)) = (begin, commit) else {
            return reject(format!("{} has no timestamps", history.show_txn(txn)));
        };
        points.push((begin, false, txn));
        match history.ops(txn).any(|op| op.kind.writes()) {
            true if !serial && commit <= begin => {
                return reject(format!("{} writes, and commits at its snapshot", history.show_txn(txn)));
            }
            true => points.push((commit, true, txn)),
            false => {}
        }
    }
    // A snapshot has the commits at its own time.
    points.sort_unstable_by_key(|&(ts, commits, txn)| (ts, if serial { commits } else { !commits }, txn));
    // Of two transactions at one place of a serial order either may come first, whether both write
    // or one only reads.
    let mut tied: Vec<i64> = points.iter().filter(|point| point.1 != serial).map(|point| point.0).collect();
    tied.sort_unstable();
    match tied.windows(2).any(|pair| pair[0] == pair[1]) {
        true => reject("equal timestamps leave the order open"),
        false => Ok(points),
    }
}

/// What a transaction does on a state, whatever its client saw.
fn run(
    predicates: &Predicates<'_>,
    state: &State<'_>,
    txn: TxnId,
) -> Result<Vec<(ObjectId, Vec<Effect>)>, Rejected> {
    let mut view = Overlay::new(state);
    for op in predicates.history().ops(txn) {
        view.apply(effects(predicates, &op, &view)?);
    }
    Ok(view.into_effects())
}

fn at(predicates: &Predicates<'_>, state: &State<'_>, target: OpId) -> Result<bool, Rejected> {
    let history = predicates.history();
    let mut view = Overlay::new(state);
    for op in history.ops(history.txn_of(target)).take_while(|op| op.id < target) {
        view.apply(effects(predicates, &op, &view)?);
    }
    match check(predicates, &history.op(target), &view) {
        Ok(()) => Ok(false),
        Err(Fault::Mismatch(_)) => Ok(true),
        Err(Fault::Outside(outside)) => Err(outside.into()),
    }
}
