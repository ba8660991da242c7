//! Optimistic concurrency control with backward validation \[KungRobinson1981\].
//!
//! # Algorithm
//! Reads see the newest committed version and are written down, as are conditions and the bases of
//! writes that depend on them. At the commit, every transaction that committed since this one's
//! first statement is looked at: if it wrote what this one read, or a row that matches one of its
//! conditions before or after, this one aborts. Otherwise its writes are installed at once.
//!
//! # Invariants
//! - A transaction that passes has read only what is still the newest, so its commit point is where
//!   it could have happened alone: commit order is a serial order, and commit points lie inside the
//!   intervals: strict serializable. What a transaction reads before it fails may be inconsistent;
//!   it aborts.
//! - The log reaches back to the first statement of the oldest active transaction.

use std::collections::VecDeque;

use super::{Commit, Rules};
use margay_client::{Change, Cond, Obj, Value};

use crate::db::{Db, ReadView, RuleResult, Stop};
use crate::fault::Fault;

/// A committed write: what it changed, from what to what.
struct Written {
    obj: Obj,
    old: Value,
    new: Value,
}

#[derive(Default)]
struct Reads {
    start: Option<u64>,
    objs: Vec<Obj>,
    conds: Vec<Cond>,
}

pub(super) struct Occ {
    reads: Vec<Reads>,
    log: VecDeque<(u64, Vec<Written>)>,
}

impl Occ {
    pub fn new(clients: usize) -> Self {
        Self { reads: (0..clients).map(|_| Reads::default()).collect(), log: VecDeque::new() }
    }

    fn valid(&self, me: usize) -> bool {
        let reads = &self.reads[me];
        let Some(start) = reads.start else { return true };
        let since = self.log.iter().rev().take_while(|(ts, _)| *ts > start);
        !since.flat_map(|(_, writes)| writes).any(|w| {
            reads.objs.contains(&w.obj)
                || reads.conds.iter().any(|cond| cond.matches(&w.old) || cond.matches(&w.new))
        })
    }

    fn add_to_log(&mut self, db: &mut Db, me: usize, ts: u64) {
        let store = &mut db.store;
        let written = db.txns[me].writes.iter().map(|w| {
            let old = store.chain(w.obj).latest().value.clone();
            Written { obj: w.obj, old, new: w.value.clone() }
        });
        self.log.push_back((ts, written.collect()));
    }

    fn forget_old(&mut self) {
        let oldest = self.reads.iter().filter_map(|r| r.start).min().unwrap_or(u64::MAX);
        while self.log.front().is_some_and(|(ts, _)| *ts <= oldest) {
            self.log.pop_front();
        }
    }
}

impl Rules for Occ {
    fn statement(&mut self, db: &mut Db, me: usize) -> RuleResult<()> {
        self.reads[me].start.get_or_insert(db.clock);
        Ok(())
    }

    fn read(&mut self, _db: &mut Db, me: usize, obj: Obj) -> RuleResult<ReadView> {
        self.reads[me].objs.push(obj);
        Ok(ReadView::Latest)
    }

    /// A faulty predicate read writes down only the rows that it returns.
    fn scan(&mut self, db: &mut Db, me: usize, cond: Cond) -> RuleResult<ReadView> {
        if db.fault(me, Fault::Phantom) {
            let rows = db.matching(me, cond, ReadView::Latest);
            self.reads[me].objs.extend(rows);
        } else {
            self.reads[me].conds.push(cond)
        }
        Ok(ReadView::Latest)
    }

    fn write(&mut self, _db: &mut Db, me: usize, obj: Obj, change: Change) -> RuleResult<ReadView> {
        if change.depends_on_base() {
            self.reads[me].objs.push(obj);
        }
        Ok(ReadView::Latest)
    }

    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        _change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        self.reads[me].conds.push(cond);
        Ok((db.matching(me, cond, ReadView::Latest), ReadView::Latest))
    }

    fn commit(&mut self, db: &mut Db, me: usize) -> RuleResult<Commit> {
        if !self.valid(me) && !db.fault(me, Fault::ValidationSkipped) {
            return Err(Stop::Abort);
        }
        let ts = db.tick();
        self.add_to_log(db, me, ts);
        Ok(Commit::At(ts))
    }

    fn end(&mut self, _db: &mut Db, me: usize, _committed: Option<u64>) {
        let reads = &mut self.reads[me];
        reads.start = None;
        reads.objs.clear();
        reads.conds.clear();
        self.forget_old();
    }
}
