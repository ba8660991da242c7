//! One transaction at a time.
//!
//! # Invariants
//! - From its first statement to its end a transaction is alone; others wait.
//! - So the order of first statements is a serial order; it contains real time, because a first
//!   statement lies inside its transaction's interval. Strict serializable.

use super::Rules;
use margay_client::{Change, Cond, Obj};

use crate::db::{Db, ReadView, RuleResult, Stop};

#[derive(Default)]
pub(super) struct Serial {
    owner: Option<usize>,
}

impl Rules for Serial {
    fn statement(&mut self, _db: &mut Db, me: usize) -> RuleResult<()> {
        match self.owner.get_or_insert(me) {
            owner if *owner == me => Ok(()),
            owner => Err(Stop::Wait(vec![*owner as u32])),
        }
    }

    fn read(&mut self, _db: &mut Db, _me: usize, _obj: Obj) -> RuleResult<ReadView> {
        Ok(ReadView::Latest)
    }

    fn scan(&mut self, _db: &mut Db, _me: usize, _cond: Cond) -> RuleResult<ReadView> {
        Ok(ReadView::Latest)
    }

    fn write(&mut self, _db: &mut Db, _me: usize, _obj: Obj, _change: Change) -> RuleResult<ReadView> {
        Ok(ReadView::Latest)
    }

    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        _change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        Ok((db.matching(me, cond, ReadView::Latest), ReadView::Latest))
    }

    fn end(&mut self, _db: &mut Db, me: usize, _committed: Option<u64>) {
        if self.owner == Some(me) {
            self.owner = None;
        }
    }
}
