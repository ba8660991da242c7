//! Read committed by statement snapshots, as PostgreSQL does it.
//!
//! # Algorithm
//! Each statement reads the state committed when it began. A write waits for the row's lock; when
//! it has it, it starts from the newest version. A predicate update finds its rows in the
//! statement's snapshot, waits for their locks, and then checks each newest version against the
//! condition again (PostgreSQL's EvalPlanQual): rows that no longer match are left alone, rows that
//! match only now are not found.
//!
//! # Invariants
//! - A statement's snapshot is a prefix of the order of commits, and includes those of earlier
//!   statements: `be-read-committed`. What a predicate update saw of its own rows may be newer than
//!   what it saw of the others; that happens inside one operation, which the level leaves free.
//! - A statement that waits keeps its snapshot.

use super::Rules;
use margay_client::{Change, Cond, Obj};

use crate::db::{Db, ReadView, RuleResult};

pub(super) struct RcMvcc;

impl RcMvcc {
    fn view(db: &Db, me: usize) -> ReadView {
        ReadView::AsOf(db.txns[me].statement.unwrap_or(db.clock))
    }
}

impl Rules for RcMvcc {
    fn statement(&mut self, db: &mut Db, me: usize) -> RuleResult<()> {
        if db.txns[me].statement.is_none() {
            db.txns[me].statement = Some(db.possibly_stale(me));
        }
        Ok(())
    }

    fn read(&mut self, db: &mut Db, me: usize, _obj: Obj) -> RuleResult<ReadView> {
        Ok(Self::view(db, me))
    }

    fn scan(&mut self, db: &mut Db, me: usize, _cond: Cond) -> RuleResult<ReadView> {
        Ok(Self::view(db, me))
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
        _change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        let view = Self::view(db, me);
        let mut rows = db.matching(me, cond, view);
        db.lock_all_exclusive(me, &rows)?;
        rows.retain(|&row| cond.matches(&db.base(me, row, ReadView::Latest)));
        Ok((rows, ReadView::Latest))
    }

    fn searched(&self, db: &Db, me: usize) -> Option<ReadView> {
        Some(Self::view(db, me))
    }
}
