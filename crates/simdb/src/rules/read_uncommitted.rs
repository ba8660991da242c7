//! Read uncommitted: reads neither take nor respect locks.
//!
//! # Invariants
//! - A read sees what was written last, committed or not, aborted later or not.
//! - Writers of one object exclude each other until they end, so versions follow the order of
//!   commits: no cycle of write dependencies.

use super::{Rules, lock_matching};
use margay_client::{Change, Cond, Obj};

use crate::db::{Db, ReadView, RuleResult};

pub(super) struct ReadUncommitted;

impl Rules for ReadUncommitted {
    fn read(&mut self, _db: &mut Db, _me: usize, _obj: Obj) -> RuleResult<ReadView> {
        Ok(ReadView::Dirty)
    }

    fn scan(&mut self, _db: &mut Db, _me: usize, _cond: Cond) -> RuleResult<ReadView> {
        Ok(ReadView::Dirty)
    }

    fn write(&mut self, db: &mut Db, me: usize, obj: Obj, _change: Change) -> RuleResult<ReadView> {
        db.lock_exclusive(me, obj)?;
        Ok(ReadView::Latest)
    }

    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        Ok((lock_matching(db, me, cond, change)?, ReadView::Latest))
    }
}
