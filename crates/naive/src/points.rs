//! The levels that run transactions on whole states: the serializable and the snapshot levels.
//!
//! # Problem
//! *Snapshot isolation*: begin and commit points can be put in one order such that a transaction
//! sees exactly what committed before its begin point, and its own writes; and of two transactions
//! that write one object, one commits before the other begins. *Serializable*: the same with every
//! begin directly before its commit; that is a serial order. With session order or real time, what
//! comes before in it has its commit before the other's begin. With instants, of two points whose
//! spans on the clock do not overlap, the one of the earlier span comes first.
//!
//! # Algorithm
//! Only the number of commits before a begin matters. So: put transactions one by one at the end of
//! the order of commits, and for each try every begin, that is every state that there was; the
//! transaction is replayed on that state. Stop at the first one that contradicts an observation.
//!
//! # Cost
//! n! orders, times n begins each, for n transactions; mismatches cut most of them.

use std::cmp::Ordering;

use margay_history::{ObjectId, TxnId};
use margay_verdict::Point;
use margay_verdict::instants::{Instants, span};

use crate::model::{Model, Search};
use crate::replay::{State, replay};

/// The points of some explanation, if there is one.
pub fn place(model: &Model<'_>) -> Search<Option<Vec<Point>>> {
    for committed in model.committed_sets() {
        let instants = model.question.uses_instants().then(|| Instants::of_all(model.history));
        let states = vec![State::initial(model)];
        let mut search = Placement { model, instants, left: committed, placed: Vec::new(), states };
        if search.extend()? {
            return Ok(Some(search.points()));
        }
    }
    Ok(None)
}

struct Placed {
    txn: TxnId,
    /// How many commits come before its begin.
    begin: usize,
    writes: Vec<ObjectId>,
}

struct Placement<'a, 'h> {
    model: &'a Model<'h>,
    /// By transaction, if they count.
    instants: Option<Vec<Instants>>,
    left: Vec<TxnId>,
    /// In the order of commits.
    placed: Vec<Placed>,
    /// `states[k]` is the state after `k` commits.
    states: Vec<State>,
}

impl Placement<'_, '_> {
    fn extend(&mut self) -> Search<bool> {
        if self.left.is_empty() {
            return Ok(true);
        }
        for i in 0..self.left.len() {
            let txn = self.left.remove(i);
            if self.may_commit(txn) {
                let last = self.placed.len();
                let first = if self.model.is_serial() { last } else { 0 };
                for begin in (first..=last).rev() {
                    self.model.step()?;
                    if self.may_begin(txn, begin) && self.commit(txn, begin)? {
                        return Ok(true);
                    }
                }
            }
            self.left.insert(i, txn);
        }
        Ok(false)
    }

    /// Puts the transaction at the end, and goes on from there; takes it back if that leads
    /// nowhere.
    fn commit(&mut self, txn: TxnId, begin: usize) -> Search<bool> {
        let Some(effects) = replay(self.model, txn, &self.states[begin])? else { return Ok(false) };
        let mut writes: Vec<ObjectId> = effects.iter().map(|e| e.1).collect();
        writes.sort_unstable();
        writes.dedup();
        if !self.may_write(txn, begin, &writes) {
            return Ok(false);
        }
        let state = self.states[self.placed.len()].after(self.model, txn, &effects);
        self.states.push(state);
        self.placed.push(Placed { txn, begin, writes });
        if self.extend()? {
            return Ok(true);
        }
        self.placed.pop();
        self.states.pop();
        Ok(false)
    }

    /// Nobody who is still to commit must commit before it.
    fn may_commit(&self, txn: TxnId) -> bool {
        !self.left.iter().any(|&other| {
            self.model.precedes(other, txn)
                || self.stamped_before(other, txn)
                || self.in_time(Point::Commit(other), Point::Commit(txn))
        })
    }

    /// Whether the instants of one point are all before those of another.
    fn in_time(&self, first: Point, second: Point) -> bool {
        self.instants.as_ref().is_some_and(|all| span(all, first).precedes(span(all, second)))
    }

    /// No point is on the wrong side of this begin, as far as they are placed. What is left commits
    /// later.
    fn begins_in_time(&self, txn: TxnId, begin: usize) -> bool {
        let own = Point::Begin(txn);
        let fits = |(i, other): (usize, &Placed)| {
            let (commit, begun) = (Point::Commit(other.txn), Point::Begin(other.txn));
            let commits = if i < begin { !self.in_time(own, commit) } else { !self.in_time(commit, own) };
            let begins = match other.begin.cmp(&begin) {
                Ordering::Less => !self.in_time(own, begun),
                Ordering::Equal => true,
                Ordering::Greater => !self.in_time(begun, own),
            };
            commits && begins
        };
        self.placed.iter().enumerate().all(fits)
            && self.left.iter().all(|&other| !self.in_time(Point::Commit(other), own))
    }

    /// Evidence about the order of commits: serialization timestamps at the serializable levels,
    /// commit timestamps at the snapshot levels.
    fn stamped_before(&self, a: TxnId, b: TxnId) -> bool {
        let evidence = self.model.history.evidence();
        let less = |a: Option<i64>, b: Option<i64>| matches!((a, b), (Some(a), Some(b)) if a < b);
        self.model.is_serial() && less(evidence.serialization(a), evidence.serialization(b))
            || self.model.is_snapshot() && less(evidence.commit(a), evidence.commit(b))
    }

    /// Everything that must be in its snapshot is, and nothing that must not be.
    fn may_begin(&self, txn: TxnId, begin: usize) -> bool {
        let evidence = self.model.history.evidence();
        let snapshot = evidence.snapshot(txn).filter(|_| self.model.is_snapshot());
        let others = self.placed.iter().enumerate();
        let fits = |(i, other): (usize, &Placed)| {
            let inside = i < begin;
            let told = snapshot.zip(evidence.commit(other.txn)).map(|(snapshot, commit)| commit <= snapshot);
            (inside || !self.model.precedes(other.txn, txn)) && told.is_none_or(|told| told == inside)
        };
        let unplaced = |&other: &TxnId| {
            let told = snapshot.zip(evidence.commit(other)).map(|(snapshot, commit)| commit <= snapshot);
            told != Some(true)
        };
        others.into_iter().all(fits) && self.left.iter().all(unplaced) && self.begins_in_time(txn, begin)
    }

    /// Nobody wrote one of its objects after its begin, and the versions come in the order that
    /// evidence says.
    fn may_write(&self, txn: TxnId, begin: usize, writes: &[ObjectId]) -> bool {
        let shares = |other: &Placed| writes.iter().any(|object| other.writes.contains(object));
        if self.placed[begin..].iter().any(shares) {
            return false;
        }
        let contradicts = |other: &Placed, object: &ObjectId| {
            other.writes.contains(object) && self.model.version_before(*object, txn, other.txn)
        };
        !self.placed.iter().any(|other| writes.iter().any(|object| contradicts(other, object)))
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for k in 0..=self.placed.len() {
            let mut begins: Vec<TxnId> = self.placed.iter().filter(|p| p.begin == k).map(|p| p.txn).collect();
            begins.sort_by_key(|&txn| self.model.history.start(txn));
            points.extend(begins.into_iter().map(Point::Begin));
            points.extend(self.placed.get(k).map(|p| Point::Commit(p.txn)));
        }
        points
    }
}
