//! Snapshot isolation, in its two ways to keep updates from being lost.
//!
//! # Algorithm
//! The first statement takes a snapshot; all reads see it, and the transaction's own writes. First
//! updater wins: a write waits for the lock of its object, and aborts when the newest version is
//! newer than the snapshot, as in PostgreSQL. First committer wins: writes are not checked until
//! the commit, which aborts if any written object has a version newer than the snapshot.
//!
//! # Invariants
//! - The state at a snapshot is what was committed before it, and snapshots are taken after the
//!   transaction began: with begin points at snapshots and commit points at commits this is strict
//!   snapshot isolation, word for word.
//! - Of two transactions that overlap and write one object at most one commits. First updater: from
//!   the write to its end a transaction holds the lock, and the version it found was not newer than
//!   its snapshot. First committer: nothing newer than the snapshot was there at the commit itself.

use super::{Commit, Rules, commit_now};
use margay_client::{Change, Cond, Obj};

use crate::db::{Db, ReadView, RuleResult, Stop};
use crate::fault::Fault;

pub(super) struct FirstUpdater;
pub(super) struct FirstCommitter;

/// Where a transaction with a snapshot reads.
pub(super) fn snapshot_view(db: &mut Db, me: usize) -> ReadView {
    ReadView::AsOf(db.take_snapshot(me))
}

/// Takes the locks that writes of these objects need, and aborts if one is newer than the snapshot.
pub(super) fn update_first(db: &mut Db, me: usize, objs: &[Obj]) -> RuleResult<ReadView> {
    let snapshot = db.take_snapshot(me);
    match objs {
        [one] => db.lock_exclusive(me, *one)?,
        all => db.lock_all_exclusive(me, all)?,
    }
    for &obj in objs {
        check_newest(db, me, obj, snapshot)?;
    }
    Ok(ReadView::AsOf(snapshot))
}

fn check_newest(db: &mut Db, me: usize, obj: Obj, snapshot: u64) -> RuleResult<()> {
    if db.store.chain(obj).latest().ts > snapshot && !db.fault(me, Fault::LostUpdate) {
        return Err(Stop::Abort);
    }
    Ok(())
}

impl Rules for FirstUpdater {
    fn read(&mut self, db: &mut Db, me: usize, _obj: Obj) -> RuleResult<ReadView> {
        Ok(snapshot_view(db, me))
    }

    fn scan(&mut self, db: &mut Db, me: usize, _cond: Cond) -> RuleResult<ReadView> {
        Ok(snapshot_view(db, me))
    }

    fn write(&mut self, db: &mut Db, me: usize, obj: Obj, _change: Change) -> RuleResult<ReadView> {
        update_first(db, me, &[obj])
    }

    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        _change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        let view = snapshot_view(db, me);
        let rows = db.matching(me, cond, view);
        let view = update_first(db, me, &rows)?;
        Ok((rows, view))
    }
}

impl Rules for FirstCommitter {
    fn read(&mut self, db: &mut Db, me: usize, _obj: Obj) -> RuleResult<ReadView> {
        Ok(snapshot_view(db, me))
    }

    fn scan(&mut self, db: &mut Db, me: usize, _cond: Cond) -> RuleResult<ReadView> {
        Ok(snapshot_view(db, me))
    }

    fn write(&mut self, db: &mut Db, me: usize, _obj: Obj, _change: Change) -> RuleResult<ReadView> {
        Ok(snapshot_view(db, me))
    }

    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        _change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        let view = snapshot_view(db, me);
        Ok((db.matching(me, cond, view), view))
    }

    fn commit(&mut self, db: &mut Db, me: usize) -> RuleResult<Commit> {
        let snapshot = db.txns[me].snapshot.unwrap_or(db.clock);
        for i in 0..db.txns[me].writes.len() {
            check_newest(db, me, db.txns[me].writes[i].obj, snapshot)?;
        }
        commit_now(db)
    }
}
