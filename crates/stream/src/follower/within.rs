//! Following at a level without real time, within a horizon.
//!
//! # Algorithm
//! An order in real time is an order. Where there is none, transactions may change places that are
//! no further apart than the horizon: as if the clocks of clients were so far apart. Where there is
//! still none, the transaction that is due first and cannot take effect is *undecided*, once more
//! transactions and a longer search did not help: it takes effect without what it saw. So others
//! may see what it wrote.
//!
//! # Invariants
//! Who has undecided transactions never answers `holds`, and nobody is accused: another order
//! across the horizon may explain what they saw.

use margay_follow::{Attempt, Follow};
use margay_history::{History, TxnId};

use super::{Follower, POSTPONED};
use crate::{Part, Trouble};

/// How many transactions may become undecided in one part.
const MOST_AT_ONCE: usize = 256;

/// How many undecided transactions are named.
const NAMED: usize = 1_000;

/// What is not decided.
#[derive(Default)]
pub(super) struct Within {
    undecided: Vec<u64>,
    count: u64,
}

impl Within {
    /// The first of them.
    pub fn undecided(&self) -> &[u64] {
        &self.undecided
    }

    /// How many they are.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn add(&mut self, label: u64) {
        self.count += 1;
        if self.undecided.len() < NAMED {
            self.undecided.push(label);
        }
    }
}

impl Follower<'_> {
    /// Searches for an order within the horizon, and settles all of it but some.
    pub(super) fn look_within(&mut self, limit: i64, leave: usize) -> Result<(), Trouble> {
        let mut unseeing = Vec::new();
        for _ in 0..MOST_AT_ONCE {
            let last = self.postponed == POSTPONED || limit == i64::MAX;
            let patient = unseeing.is_empty() && last;
            let blocked = match self.order_within(limit, patient)? {
                Ok(order) => {
                    (self.reached, self.postponed) = (limit, 0);
                    return self.settle(order, leave);
                }
                Err(blocked) => blocked,
            };
            if self.postponed < POSTPONED && limit < i64::MAX {
                self.postponed += 1;
                return Ok(());
            }
            let first = self.waiting.iter_mut().filter(|txn| blocked.contains(&txn.label));
            match first.min_by_key(|txn| txn.end).filter(|txn| !unseeing.contains(&txn.label)) {
                Some(txn) => {
                    *txn = txn.unseeing();
                    unseeing.push(txn.label);
                    self.within.iter_mut().for_each(|within| within.add(txn.label));
                }
                None => break,
            }
        }
        self.stop(format!(
            "no order within the horizon was found, not even without what {} transactions saw",
            unseeing.len()
        ));
        Ok(())
    }

    /// An order, in real time or else within the horizon; or the transactions that are in the way.
    fn order_within(&mut self, limit: i64, patient: bool) -> Result<Result<Part, Vec<u64>>, Trouble> {
        let question = self.auditor.question();
        let labels =
            |part: &History, txns: Vec<TxnId>| txns.into_iter().map(|txn| part.txn_label(txn)).collect();
        let mut blocked = Vec::new();
        for (wide, patiently) in [(false, false), (true, false), (false, true)] {
            if patiently && !patient {
                break;
            }
            let (part, early) = self.open_part(limit, wide)?;
            match Follow.attempt(&part, question, &early, patiently, &self.budget) {
                Attempt::Order(certificate) => {
                    if let Some(order) = Part::of(&part, &certificate) {
                        return Ok(Ok(order));
                    }
                }
                Attempt::Stuck(txns) => blocked = labels(&part, txns),
                Attempt::Exhausted(limit) => return Err(Trouble::Outside(limit.to_string())),
            }
        }
        Ok(Err(blocked))
    }
}
