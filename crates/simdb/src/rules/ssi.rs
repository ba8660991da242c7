//! Serializable snapshot isolation with PostgreSQL's rules \[PortsGrittner2012\].
//!
//! # Algorithm
//! Snapshot isolation, first updater wins, and a certifier that keeps track of read-write conflicts
//! `T → U`: T read a version that U, running at the same time, replaced. A *dangerous structure* is
//! `T1 → T2 → T3` where T3 was the first of the three to commit; if T1 wrote nothing, also T3
//! committed before T1's snapshot. The pivot T2, or whoever is still there to abort, aborts.
//! PostgreSQL looks at three moments:
//! 1. a conflict comes up into a transaction that has one out to a committed transaction (*writer
//!    is pivot*);
//! 2. a conflict comes up out of a transaction that has one in, to a committed writer (*reader is
//!    pivot*);
//! 3. a transaction commits to which a pivot leads that is still running, as is what leads to the
//!    pivot (*precommit*).
//!
//! # Invariants
//! - No dangerous structure commits whole: whichever of its two conflicts and T3's commit comes
//!   last is one of the three moments.
//! - So the database is strict serializable. A cycle over wr, ww, rw and real-time order must have
//!   two adjacent rw edges `T1 → T2 → T3` with T3 the first of the whole cycle to commit
//!   \[Fekete2005\]: from any T, following wr, ww and real time leads to transactions that began
//!   after T's commit, so the first committer is entered by rw from a transaction that runs beside
//!   it, which in turn can only be entered by rw. If T1 wrote nothing, it is entered by wr or real
//!   time from a transaction that committed before its snapshot, and T3 committed earlier still.
//!   Real-time edges go from commit to begin as wr edges do, so the theorem covers them; that is
//!   why the promise here is strict, which plain snapshot isolation's bookkeeping alone would not
//!   tell.
//! - A committed transaction is kept while any transaction that ran beside it is active. What it
//!   had conflicts to may be forgotten earlier: the earliest commit among them is kept with it, and
//!   is all that rule 1 needs.
//!
//! # Differs from the paper
//! Conflicts are tracked for objects and conditions exactly, not by page; a condition conflicts
//! with a write of a row that matches it before or after.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::si::{snapshot_view, update_first};
use super::{Commit, Rules, commit_now};
use margay_client::{Change, Cond, Obj, Space, Value};

use crate::db::{Db, ReadView, RuleResult, Stop};
use crate::fault::Fault;

/// What the certifier knows of a transaction.
#[derive(Default, Debug)]
struct Node {
    snapshot: u64,
    /// When it committed.
    commit: Option<u64>,
    /// Known to have written nothing: it has committed so.
    read_only: bool,
    doomed: bool,
    /// What it has read; conditions stand with all others.
    objs: Vec<Obj>,
    /// Who leads to it.
    ins: Vec<u64>,
    outs: Vec<u64>,
    /// The earliest commit among those it leads to.
    first_out: Option<u64>,
}

impl Node {
    fn ran_beside(&self, snapshot: u64) -> bool {
        self.commit.is_none_or(|commit| commit > snapshot)
    }
}

#[derive(Default)]
pub(super) struct Ssi {
    /// By label, so that walking through them is the same everywhere.
    nodes: BTreeMap<u64, Node>,
    /// Who has read an object; looked up only.
    readers: HashMap<Obj, Vec<u64>>,
    /// Who has searched for what.
    searches: Vec<(u64, Cond)>,
}

impl Ssi {
    fn node(&mut self, label: u64) -> &mut Node {
        self.nodes.entry(label).or_default()
    }

    /// A conflict came up between `me` and another. Aborts `me`, or dooms the other, if that
    /// completes a dangerous structure.
    fn conflict(&mut self, db: &mut Db, me: usize, reader: u64, writer: u64) -> RuleResult<()> {
        let my_label = db.txns[me].label;
        // A fault may have left a version whose writer is long forgotten.
        let known = |label| self.nodes.contains_key(&label);
        if !known(reader) || !known(writer) || self.node(reader).outs.contains(&writer) {
            return Ok(());
        }
        let writer_commit = self.node(writer).commit;
        let r = self.node(reader);
        r.outs.push(writer);
        r.first_out = r.first_out.into_iter().chain(writer_commit).min();
        self.node(writer).ins.push(reader);
        let dangerous = self.writer_is_pivot(reader, writer) && !db.fault(me, Fault::SsiWriterPivot)
            || self.reader_is_pivot(reader, writer) && !db.fault(me, Fault::SsiReaderPivot);
        if !dangerous {
            return Ok(());
        }
        if my_label == writer || writer_commit.is_some() {
            return Self::refuse(db, me);
        }
        self.node(writer).doomed = true;
        Ok(())
    }

    fn refuse(db: &mut Db, me: usize) -> RuleResult<()> {
        if db.fault(me, Fault::WriteSkew) { Ok(()) } else { Err(Stop::Abort) }
    }

    /// Rule 1: reader → writer → T3, where T3 committed before both, and before the snapshot of a
    /// reader that wrote nothing.
    fn writer_is_pivot(&self, reader: u64, writer: u64) -> bool {
        let (r, w) = (&self.nodes[&reader], &self.nodes[&writer]);
        w.first_out.is_some_and(|t3| {
            r.commit.is_none_or(|commit| t3 <= commit)
                && w.commit.is_none_or(|commit| t3 <= commit)
                && (!r.read_only || t3 <= r.snapshot)
        })
    }

    /// Rule 2: T1 → reader → writer, where the writer committed before T1, and before the snapshot
    /// of a T1 that wrote nothing.
    fn reader_is_pivot(&self, reader: u64, writer: u64) -> bool {
        let Some(t3) = self.nodes[&writer].commit else { return false };
        let r = &self.nodes[&reader];
        !r.read_only
            && r.ins.iter().filter_map(|label| self.nodes.get(label)).any(|t1| {
                !t1.doomed
                    && t1.commit.is_none_or(|commit| commit >= t3)
                    && (!t1.read_only || t1.snapshot >= t3)
            })
    }

    /// Rule 3: T1 → pivot → me, both still running: the pivot is doomed.
    fn precommit(&mut self, db: &mut Db, me: usize) {
        let label = db.txns[me].label;
        for pivot in self.node(label).ins.clone() {
            let running = |label: u64, ssi: &Ssi| {
                ssi.nodes.get(&label).is_some_and(|node| node.commit.is_none() && !node.doomed)
            };
            if !running(pivot, self) {
                continue;
            }
            let dangerous = self.nodes[&pivot].ins.iter().any(|&far| far == label || running(far, self));
            if dangerous && !db.fault(me, Fault::SsiPrecommit) {
                self.node(pivot).doomed = true;
            }
        }
    }

    /// Conflicts from what `me` reads to whoever has replaced it, or is about to.
    fn conflicts_out(
        &mut self,
        db: &mut Db,
        me: usize,
        obj: Obj,
        replaced: impl Fn(&Value, &Value) -> bool,
    ) -> RuleResult<()> {
        let (label, snapshot) = (db.txns[me].label, db.take_snapshot(me));
        let chain = db.store.chain(obj);
        let committed = chain.since(snapshot).filter(|(old, new)| replaced(&old.value, &new.value));
        let mut writers: Vec<u64> = committed.map(|(_, new)| new.txn).collect();
        let newest = chain.latest().value.clone();
        let pending = db.pending(me, obj).filter(|(_, w)| replaced(&newest, &w.value));
        writers.extend(pending.map(|(client, _)| db.txns[client].label));
        writers.into_iter().try_for_each(|writer| self.conflict(db, me, label, writer))
    }

    /// Conflicts to `me` from whoever has read what it replaces.
    fn conflicts_in(&mut self, db: &mut Db, me: usize, obj: Obj, change: Change) -> RuleResult<()> {
        let (label, snapshot) = (db.txns[me].label, db.take_snapshot(me));
        let old = db.store.chain(obj).latest().value.clone();
        let new = change.apply(&db.base(me, obj, ReadView::AsOf(snapshot)));
        let mut readers = self.readers.get(&obj).cloned().unwrap_or_default();
        if obj.space == Space::Row {
            let hit = self.searches.iter().filter(|(_, cond)| cond.matches(&old) || cond.matches(&new));
            readers.extend(hit.map(|(reader, _)| *reader));
        }
        readers.retain(|reader| *reader != label && self.nodes[reader].ran_beside(snapshot));
        readers.sort_unstable();
        readers.dedup();
        readers.into_iter().try_for_each(|reader| self.conflict(db, me, reader, label))
    }

    fn add_read(&mut self, label: u64, obj: Obj) {
        let readers = self.readers.entry(obj).or_default();
        if !readers.contains(&label) {
            readers.push(label);
            self.node(label).objs.push(obj);
        }
    }

    /// Forgets what a transaction has read.
    fn drop_reads(&mut self, objs: &[Obj], label: u64) {
        self.searches.retain(|(searcher, _)| *searcher != label);
        for obj in objs {
            if let Some(readers) = self.readers.get_mut(obj) {
                readers.retain(|&reader| reader != label);
                if readers.is_empty() {
                    self.readers.remove(obj);
                }
            }
        }
    }

    fn forget(&mut self, label: u64) {
        if let Some(node) = self.nodes.remove(&label) {
            self.drop_reads(&node.objs, label);
            node.ins.iter().for_each(|r| self.change(*r, |n| n.outs.retain(|&o| o != label)));
            node.outs.iter().for_each(|w| self.change(*w, |n| n.ins.retain(|&i| i != label)));
        }
    }

    fn change(&mut self, label: u64, how: impl Fn(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(&label) {
            how(node);
        }
    }

    /// Forgets transactions beside which nobody runs any more. The conflicts of others with them
    /// stay.
    fn forget_old(&mut self) {
        let oldest = self.nodes.values().filter(|n| n.commit.is_none()).map(|n| n.snapshot).min();
        let old =
            |node: &Node| node.commit.is_some_and(|commit| oldest.is_none_or(|oldest| commit <= oldest));
        let labels: Vec<u64> = self.nodes.iter().filter(|(_, n)| old(n)).map(|(label, _)| *label).collect();
        for label in labels {
            if let Some(node) = self.nodes.remove(&label) {
                self.drop_reads(&node.objs, label);
            }
        }
    }
}

impl Rules for Ssi {
    fn statement(&mut self, db: &mut Db, me: usize) -> RuleResult<()> {
        let snapshot = db.take_snapshot(me);
        let node = self.node(db.txns[me].label);
        node.snapshot = snapshot;
        if node.doomed { Self::refuse(db, me) } else { Ok(()) }
    }

    fn read(&mut self, db: &mut Db, me: usize, obj: Obj) -> RuleResult<ReadView> {
        self.add_read(db.txns[me].label, obj);
        self.conflicts_out(db, me, obj, |_, _| true)?;
        Ok(snapshot_view(db, me))
    }

    /// A faulty predicate read counts as a read of the rows that it returns.
    fn scan(&mut self, db: &mut Db, me: usize, cond: Cond) -> RuleResult<ReadView> {
        let view = snapshot_view(db, me);
        if db.fault(me, Fault::Phantom) {
            for row in db.matching(me, cond, view) {
                self.read(db, me, row)?;
            }
            return Ok(view);
        }
        self.searches.push((db.txns[me].label, cond));
        for row in db.candidates(cond) {
            self.conflicts_out(db, me, row, |old, new| cond.matches(old) || cond.matches(new))?;
        }
        Ok(view)
    }

    fn write(&mut self, db: &mut Db, me: usize, obj: Obj, change: Change) -> RuleResult<ReadView> {
        let view = update_first(db, me, &[obj])?;
        self.conflicts_in(db, me, obj, change)?;
        Ok(view)
    }

    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        let view = snapshot_view(db, me);
        let rows = db.matching(me, cond, view);
        let view = update_first(db, me, &rows)?;
        self.searches.push((db.txns[me].label, cond));
        for row in db.candidates(cond) {
            self.conflicts_out(db, me, row, |old, new| cond.matches(old) || cond.matches(new))?;
        }
        for &row in &rows {
            self.conflicts_in(db, me, row, change)?;
        }
        Ok((rows, view))
    }

    fn commit(&mut self, db: &mut Db, me: usize) -> RuleResult<Commit> {
        if self.nodes.get(&db.txns[me].label).is_some_and(|node| node.doomed) {
            Self::refuse(db, me)?;
        }
        self.precommit(db, me);
        commit_now(db)
    }

    fn end(&mut self, db: &mut Db, me: usize, committed: Option<u64>) {
        let (label, wrote) = (db.txns[me].label, !db.txns[me].writes.is_empty());
        let Some(ts) = committed else { return self.forget(label) };
        let Some(node) = self.nodes.get_mut(&label) else { return };
        node.commit = Some(ts);
        node.read_only = !wrote;
        let has_read = !node.objs.is_empty() || self.searches.iter().any(|(searcher, _)| *searcher == label);
        let ins = node.ins.clone();
        if has_read && db.fault(me, Fault::SsiForgottenReads) {
            let objs = std::mem::take(&mut node.objs);
            self.drop_reads(&objs, label);
        }
        for reader in ins {
            self.change(reader, |n| n.first_out = n.first_out.into_iter().chain([ts]).min());
        }
        self.forget_old();
    }
}
