//! Multi-version timestamp ordering (Reed 1978).
//!
//! # Algorithm
//! The first statement gives the transaction a timestamp, at which it reads and writes. A read sees
//! the newest version not newer than its timestamp and marks it as read at that time; if an older
//! transaction has written the object and not ended, it waits. A write aborts when the version
//! before it has been read at a later time than its own: that reader should have seen it. A
//! predicate read is written down with its timestamp, and a write of a row that matches it before
//! or after counts as a write of what it has read. A write that depends on what it changes reads
//! it.
//!
//! # Invariants
//! - Everybody sees, at their own timestamp, exactly the versions of all older transactions that
//!   commit: timestamp order is a serial order. One counter gives the timestamps inside the
//!   transactions' intervals: strict serializable.
//! - Predicate reads are kept while an older transaction is active: only such a one can come too
//!   late for them.
//! - Only younger transactions wait for older ones: no deadlock.

use super::{Commit, Rules};
use margay_client::{Change, Cond, Obj, Space};

use crate::db::{Db, Pending, ReadView, RuleResult, Stop, TICK, TIMESTAMP_ORDER, Txn};
use crate::fault::Fault;

#[derive(Default)]
pub(super) struct Mvto {
    /// Predicate reads with their timestamps.
    scans: Vec<(u64, Cond)>,
}

fn timestamp(db: &mut Db, me: usize) -> u64 {
    if let Some(ts) = db.txns[me].snapshot {
        return ts;
    }
    let ts = db.tick();
    db.txns[me].snapshot = Some(ts);
    db.txns[me].phase = TIMESTAMP_ORDER;
    ts
}

/// Where reads look: at the timestamp, or, by a fault, before it.
fn read_ts(db: &mut Db, me: usize, ts: u64) -> u64 {
    if ts > 5 * TICK && db.fault(me, Fault::StaleSnapshot) {
        return ts - TICK * (1 + db.faults.choice.below(4));
    }
    ts
}

/// Waits for older transactions that have written `obj`.
fn wait_for_older(db: &Db, me: usize, obj: Obj, ts: u64) -> RuleResult<()> {
    let older = |client: &usize| db.txns[*client].snapshot.is_some_and(|other| other < ts);
    let blockers: Vec<u32> = db.pending(me, obj).map(|(c, _)| c).filter(older).map(|c| c as u32).collect();
    if blockers.is_empty() { Ok(()) } else { Err(Stop::Wait(blockers)) }
}

fn mark(db: &mut Db, obj: Obj, ts: u64) {
    let version = db.store.chain(obj).as_of_mut(ts);
    version.read_ts = version.read_ts.max(ts);
}

/// Waits for older transactions that have written a row that matches before or after. What it was
/// before is what a reader at `ts` would see without them: newer versions may be there already.
fn wait_for_older_rows(db: &Db, me: usize, cond: Cond, ts: u64) -> RuleResult<()> {
    let older = |txn: &Txn| txn.snapshot.is_some_and(|other| other < ts);
    let others = db.txns.iter().enumerate().filter(|(client, txn)| *client != me && older(txn));
    let blocks = |w: &Pending| {
        w.obj.space == Space::Row
            && (cond.matches(&w.value) || cond.matches(&db.store.row(w.obj).as_of(ts).value))
    };
    let blockers: Vec<u32> =
        others.filter(|(_, txn)| txn.writes.iter().any(blocks)).map(|(client, _)| client as u32).collect();
    if blockers.is_empty() { Ok(()) } else { Err(Stop::Wait(blockers)) }
}

impl Mvto {
    /// Whether a write at `ts` comes too late for somebody who has read.
    fn too_late(&self, db: &mut Db, me: usize, obj: Obj, change: Change, ts: u64) -> bool {
        if db.store.chain(obj).as_of(ts).read_ts > ts {
            return true;
        }
        if obj.space != Space::Row {
            return false;
        }
        let old = db.store.row(obj).as_of(ts).value.clone();
        let new = change.apply(&db.base(me, obj, ReadView::AsOf(ts)));
        self.scans.iter().any(|(at, cond)| *at > ts && (cond.matches(&old) || cond.matches(&new)))
    }
}

impl Rules for Mvto {
    fn read(&mut self, db: &mut Db, me: usize, obj: Obj) -> RuleResult<ReadView> {
        let ts = timestamp(db, me);
        wait_for_older(db, me, obj, ts)?;
        let ts = read_ts(db, me, ts);
        mark(db, obj, ts);
        Ok(ReadView::AsOf(ts))
    }

    /// A faulty predicate read marks only the rows that it returns.
    fn scan(&mut self, db: &mut Db, me: usize, cond: Cond) -> RuleResult<ReadView> {
        let ts = timestamp(db, me);
        wait_for_older_rows(db, me, cond, ts)?;
        let ts = read_ts(db, me, ts);
        if db.fault(me, Fault::Phantom) {
            db.matching(me, cond, ReadView::AsOf(ts)).into_iter().for_each(|row| mark(db, row, ts))
        } else {
            self.scans.push((ts, cond))
        }
        Ok(ReadView::AsOf(ts))
    }

    fn write(&mut self, db: &mut Db, me: usize, obj: Obj, change: Change) -> RuleResult<ReadView> {
        let ts = timestamp(db, me);
        if change.depends_on_base() {
            wait_for_older(db, me, obj, ts)?;
        }
        if self.too_late(db, me, obj, change, ts) {
            return Err(Stop::Abort);
        }
        if change.depends_on_base() {
            mark(db, obj, ts);
        }
        Ok(ReadView::AsOf(ts))
    }

    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        let ts = timestamp(db, me);
        wait_for_older_rows(db, me, cond, ts)?;
        let rows = db.matching(me, cond, ReadView::AsOf(ts));
        if rows.iter().any(|&row| self.too_late(db, me, row, change, ts)) {
            return Err(Stop::Abort);
        }
        self.scans.push((ts, cond));
        Ok((rows, ReadView::AsOf(ts)))
    }

    fn commit(&mut self, db: &mut Db, me: usize) -> RuleResult<Commit> {
        let ts = timestamp(db, me);
        let writes = !db.txns[me].writes.is_empty();
        if writes && ts > 5 * TICK && db.fault(me, Fault::TimestampInversion) {
            let back = TICK * (1 + db.faults.choice.below(4));
            return Ok(Commit::At(ts - back + 1 + db.faults.choice.below(TICK - 1)));
        }
        Ok(Commit::At(ts))
    }

    fn end(&mut self, db: &mut Db, me: usize, _committed: Option<u64>) {
        let others = db.txns.iter().enumerate().filter(|(client, txn)| *client != me && txn.label != 0);
        let oldest = others.filter_map(|(_, txn)| txn.snapshot).min().unwrap_or(u64::MAX);
        self.scans.retain(|(ts, _)| *ts > oldest);
    }

    fn abort_ts(&self, db: &mut Db, me: usize) -> u64 {
        timestamp(db, me)
    }
}
