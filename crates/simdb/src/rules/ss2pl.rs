//! Strong strict two-phase locking: every lock, of reads too, is held until the transaction has
//! ended.
//!
//! # Invariants
//! - Reads hold shared locks, writes exclusive ones, predicate reads and predicate updates a lock
//!   on their condition.
//! - At its commit point a transaction holds all its locks, so nothing that it read has changed and
//!   nobody has seen what it wrote: the order of commit points is a serial order. Commit points lie
//!   inside the transactions' intervals: strict serializable.

use super::Rules;
use margay_client::{Cond, Obj};

use crate::db::{Db, ReadView, RuleResult};
use crate::fault::Fault;

pub(super) struct Ss2pl;

impl Rules for Ss2pl {
    fn read(&mut self, db: &mut Db, me: usize, obj: Obj) -> RuleResult<ReadView> {
        db.lock_shared(me, obj)?;
        Ok(ReadView::Latest)
    }

    /// The lock on the condition covers the returned rows. A faulty predicate read locks only
    /// these.
    fn scan(&mut self, db: &mut Db, me: usize, cond: Cond) -> RuleResult<ReadView> {
        db.wait_for_writers(me, cond)?;
        if db.fault(me, Fault::Phantom) {
            for row in db.matching(me, cond, ReadView::Latest) {
                db.lock_shared(me, row)?;
            }
        } else {
            db.lock_condition(me, cond);
        }
        Ok(ReadView::Latest)
    }
}
