//! Registers whose writes have few values: locks, flags, small compare-and-swap registers.
//!
//! Where several wrote the value that was read, dependencies are not certain. In real time each
//! register must still be linearizable, which is decided by walking through time; the audit does
//! that, so it is asked right away.

use margay_audit::unlinearizable;
use margay_history::{ObjectId, OpId, TxnId};
use margay_levels::Anomaly;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Finding};

use crate::case::{Case, Local};
use crate::index::Use;
use crate::proof::Prover;

/// One register that no order explains, at the serial levels with real time.
pub(crate) fn find(case: &Case<'_>, prover: &Prover<'_, '_>, budget: &Budget) -> Option<Finding> {
    let serial = case.question.level.family() == Family::Serial && case.question.uses_real_time();
    if !serial || !case.history.is_timed() || case.history.object_count() > OBJECTS {
        return None;
    }
    let mut registers = case.history.objects().filter(|o| case.uses[o.index()] == Use::Register);
    let (object, txn) =
        registers.find_map(|object| Some((object, unlinearizable(case.history, object, budget)?)))?;
    let local = Local { names: vec![Anomaly::PlSsCycleExists], ops: vec![touch(case, object, txn)?] };
    prover.local(&local)
}

/// In histories of more objects it is not tried: each costs a walk through all transactions.
const OBJECTS: usize = 64;

/// The first operation of a transaction on an object.
fn touch(case: &Case<'_>, object: ObjectId, txn: TxnId) -> Option<OpId> {
    let mut ops = case.history.ops(txn);
    ops.find(|op| op.accesses.iter().any(|access| access.object == object)).map(|op| op.id)
}
