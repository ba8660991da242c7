//! Read committed by locks: writes lock to the end, reads only while they read.
//!
//! # Invariants
//! - A read waits while someone has written and not ended, and then sees the newest committed
//!   version: a prefix of the order of commits that grows from statement to statement. So a
//!   transaction never goes back behind a writer that it has read from: `be-read-committed`, of
//!   which Adya's PL-2 is a part.
//! - A write starts from the newest committed version and keeps others away until it commits:
//!   nothing is lost between the two.
//! - Nothing keeps what was read from changing: fuzzy reads, read skew, phantoms and lost updates
//!   happen.

use super::{Rules, lock_matching};
use margay_client::{Change, Cond, Obj};

use crate::db::{Db, ReadView, RuleResult};

pub(super) struct RcLocking;

impl Rules for RcLocking {
    fn read(&mut self, db: &mut Db, me: usize, obj: Obj) -> RuleResult<ReadView> {
        db.wait_to_read(me, obj)?;
        Ok(ReadView::Latest)
    }

    fn scan(&mut self, db: &mut Db, me: usize, cond: Cond) -> RuleResult<ReadView> {
        db.wait_for_writers(me, cond)?;
        Ok(ReadView::Latest)
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
