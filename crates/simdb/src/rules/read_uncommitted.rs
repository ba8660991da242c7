//! Read uncommitted: reads neither take nor respect locks.
//!
//! # Invariants
//! - A read sees what was written last, committed or not, aborted later or not.
//! - Writers of one object exclude each other until they end, so versions follow the order of commits: no
//!   cycle of write dependencies.

use super::{Rules, lock_matching};
use margay_client::{Change, Cond, Obj};

use crate::db::{Db, Step, View};

pub(super) struct ReadUncommitted;

impl Rules for ReadUncommitted {
    fn read(&mut self, _db: &mut Db, _me: usize, _obj: Obj) -> Step<View> {
        Ok(View::Dirty)
    }

    fn scan(&mut self, _db: &mut Db, _me: usize, _cond: Cond) -> Step<View> {
        Ok(View::Dirty)
    }

    fn write(&mut self, db: &mut Db, me: usize, obj: Obj, _change: Change) -> Step<View> {
        db.lock_exclusive(me, obj)?;
        Ok(View::Latest)
    }

    fn targets(&mut self, db: &mut Db, me: usize, cond: Cond, change: Change) -> Step<(Vec<Obj>, View)> {
        Ok((lock_matching(db, me, cond, change)?, View::Latest))
    }
}
