//! What session order and real time say of the versions of registers.
//!
//! # Problem
//! Reads of registers tell few version orders. Elle offers to assume that keys are sequential or
//! linearizable [Elle §5.3]: that the versions of one key follow session order or real time.
//!
//! # Algorithm
//! Of two transactions that touch a register, one before the other in the order, the first leaves a
//! version (its write, or else what it read) and the other finds one (what it read first, or else
//! its write): the one left is before the one found.
//! - Left by a write or a read, found by a write: otherwise write and read dependencies and the
//!   order would form a cycle.
//! - Found by a read: otherwise the reader would have missed what was left, a cycle of one rw edge.
//!   So this is for the levels that count rw edges; the others have no use for it.
//!
//! In a session each transaction is joined to the next that touches the register; in real time to
//! the one that ended last before it began.
//!
//! # Differs from the paper
//! Nothing is assumed: an order counts only where the question has it. Real time gives one
//! predecessor instead of all, which keeps it linear; Elle's is quadratic.
//!
//! # Cost
//! Sorting the accesses of each register.

use margay_history::{ObjectId, TxnId, Version, VersionOrder};

use crate::case::{Case, Read};
use crate::index::Use;

/// What a transaction found in a register and what it left there.
#[derive(Clone, Copy, Debug)]
struct Touch {
    object: ObjectId,
    txn: TxnId,
    found: Version,
    left: Version,
}

/// A version that is before another, and the two transactions whose order says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) object: ObjectId,
    pub(crate) first: TxnId,
    pub(crate) then: TxnId,
    pub(crate) by: (TxnId, TxnId),
}

impl Pair {
    /// As evidence.
    pub(crate) fn order(&self) -> VersionOrder {
        VersionOrder { object: self.object, versions: vec![Version::Of(self.first), Version::Of(self.then)] }
    }
}

/// Which orders are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    pub(crate) session: bool,
    pub(crate) time: bool,
}

/// The pairs of versions that the orders tell.
pub(crate) fn pairs(case: &Case<'_>, orders: Orders) -> Vec<Pair> {
    let mut found = Vec::new();
    if !orders.session && !orders.time {
        return found;
    }
    let touches = touches(case);
    for of_object in touches.chunk_by(|a, b| a.object == b.object) {
        if orders.session {
            let one_session =
                |w: &&[Touch]| case.history.session_of(w[0].txn) == case.history.session_of(w[1].txn);
            found.extend(of_object.windows(2).filter(one_session).filter_map(|w| pair(&w[0], &w[1])));
        }
        if orders.time {
            in_time(case, of_object, &mut found);
        }
    }
    found
}

/// By object and transaction.
fn touches(case: &Case<'_>) -> Vec<Touch> {
    // What was seen, by operation; an own version comes after all that.
    let mut seen: Vec<(ObjectId, TxnId, u32, Version)> = Vec::new();
    let register = |read: &&Read| case.uses[read.object.index()] == Use::Register;
    let reads = case.reads.iter().filter(register);
    seen.extend(reads.map(|read| (read.object, read.txn, read.op.0, read.from)));
    for object in case.history.objects().filter(|o| case.uses[o.index()] == Use::Register) {
        let writers = case.writers.of(object).iter();
        seen.extend(writers.map(|&txn| (object, txn, u32::MAX, Version::Of(txn))));
    }
    seen.sort_unstable();
    let touch = |of_txn: &[(ObjectId, TxnId, u32, Version)]| {
        let ((object, txn, _, found), (.., left)) = (of_txn[0], of_txn[of_txn.len() - 1]);
        Touch { object, txn, found, left }
    };
    seen.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).map(touch).collect()
}

/// What one transaction left is before what a later one found, if that says something.
fn pair(a: &Touch, b: &Touch) -> Option<Pair> {
    let (Version::Of(first), Version::Of(then)) = (a.left, b.found) else { return None };
    let pair = Pair { object: a.object, first, then, by: (a.txn, b.txn) };
    (first != then).then_some(pair)
}

fn in_time(case: &Case<'_>, touches: &[Touch], found: &mut Vec<Pair>) {
    let history = case.history;
    let mut ends: Vec<(i64, &Touch)> =
        touches.iter().filter_map(|touch| Some((history.end(touch.txn)?, touch))).collect();
    ends.sort_by_key(|&(end, touch)| (end, touch.txn));
    let skew = history.header().skew;
    for touch in touches {
        let Some(start) = history.start(touch.txn) else { continue };
        let ended = ends.partition_point(|(end, _)| end.saturating_add(skew) < start);
        if let Some(last) = ended.checked_sub(1) {
            found.extend(pair(ends[last].1, touch));
        }
    }
}
