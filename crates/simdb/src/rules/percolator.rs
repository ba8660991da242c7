//! Percolator's transactions \[Percolator\]: snapshot reads, and a commit in two phases over locks
//! that lie with the data.
//!
//! # Algorithm
//! Writes are buffered. A commit first *prewrites*: it aborts if any written object is locked or
//! has a version newer than the snapshot, and locks them all otherwise. Some time later it takes
//! its commit timestamp, and some time after that its versions appear, all at once: a reader that
//! meets a lock of a committed transaction rolls it forward, so versions whose primary is committed
//! count as there. A reader that meets the lock of a transaction older than its snapshot waits, for
//! that transaction may already have a commit timestamp within the snapshot.
//!
//! # Invariants
//! - Whoever has a commit timestamp holds all its locks, and held them before it took the
//!   timestamp. So a reader whose snapshot is not older than a commit timestamp finds either the
//!   version or the lock: snapshots are complete.
//! - The locks keep away a second writer until the versions are there; the check against newer
//!   versions does the rest: overlapping writers of one object do not both commit. Timestamps come
//!   from one counter inside the transactions' intervals: strict snapshot isolation.
//! - Nobody waits while holding locks: no deadlock.

use hashbrown::HashMap;

use super::si::snapshot_view;
use super::{Commit, Rules};
use margay_client::{Change, Cond, Obj, Space};

use crate::db::{Db, ReadView, RuleResult, Stop};
use crate::fault::Fault;

pub(super) struct Percolator {
    /// Who has prewritten an object.
    locks: HashMap<Obj, u32>,
    /// By client: its commit timestamp, once it has one.
    commit: Vec<u64>,
}

impl Percolator {
    pub fn new(clients: usize) -> Self {
        Self { locks: HashMap::new(), commit: vec![0; clients] }
    }

    fn wait_for_lock(&self, db: &Db, me: usize, obj: Obj, snapshot: u64) -> RuleResult<()> {
        match self.locks.get(&obj) {
            Some(&owner)
                if owner as usize != me
                    && db.txns[owner as usize].snapshot.is_some_and(|start| start <= snapshot) =>
            {
                Err(Stop::Wait(vec![owner]))
            }
            _ => Ok(()),
        }
    }

    /// A predicate read meets every lock in the table.
    fn wait_for_any_lock(&self, db: &mut Db, me: usize) -> RuleResult<ReadView> {
        let snapshot = db.take_snapshot(me);
        if !self.locks.is_empty() {
            let prewritten = db.txns.iter().filter(|txn| txn.phase > 0).flat_map(|txn| &txn.writes);
            for write in prewritten.filter(|w| w.obj.space == Space::Row) {
                self.wait_for_lock(db, me, write.obj, snapshot)?;
            }
        }
        Ok(ReadView::AsOf(snapshot))
    }

    fn prewrite(&mut self, db: &mut Db, me: usize) -> RuleResult<()> {
        let snapshot = db.txns[me].snapshot.unwrap_or(db.clock);
        for i in 0..db.txns[me].writes.len() {
            let obj = db.txns[me].writes[i].obj;
            let conflict = self.locks.contains_key(&obj) || db.store.chain(obj).latest().ts > snapshot;
            if conflict && !db.fault(me, Fault::PrewriteConflictMissed) {
                return Err(Stop::Abort);
            }
        }
        self.locks.extend(db.txns[me].writes.iter().map(|w| (w.obj, me as u32)));
        Ok(())
    }
}

impl Rules for Percolator {
    fn read(&mut self, db: &mut Db, me: usize, obj: Obj) -> RuleResult<ReadView> {
        let snapshot = db.take_snapshot(me);
        self.wait_for_lock(db, me, obj, snapshot)?;
        Ok(ReadView::AsOf(snapshot))
    }

    fn scan(&mut self, db: &mut Db, me: usize, _cond: Cond) -> RuleResult<ReadView> {
        self.wait_for_any_lock(db, me)
    }

    /// A write that depends on what it changes has to read it.
    fn write(&mut self, db: &mut Db, me: usize, obj: Obj, change: Change) -> RuleResult<ReadView> {
        if change.depends_on_base() { self.read(db, me, obj) } else { Ok(snapshot_view(db, me)) }
    }

    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        _change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        let view = self.wait_for_any_lock(db, me)?;
        Ok((db.matching(me, cond, view), view))
    }

    fn commit(&mut self, db: &mut Db, me: usize) -> RuleResult<Commit> {
        let phase = db.txns[me].phase;
        db.txns[me].phase += 1;
        match phase {
            _ if db.txns[me].writes.is_empty() => Ok(Commit::At(db.tick())),
            0 => self.prewrite(db, me).map(|()| Commit::Later),
            1 => {
                self.commit[me] = db.tick();
                Ok(Commit::Later)
            }
            _ => Ok(Commit::At(self.commit[me])),
        }
    }

    fn end(&mut self, db: &mut Db, me: usize, _committed: Option<u64>) {
        for write in &db.txns[me].writes {
            if self.locks.get(&write.obj) == Some(&(me as u32)) {
                self.locks.remove(&write.obj);
            }
        }
    }
}
