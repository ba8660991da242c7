//! A serial execution that is built step by step, and mended where it does not fit.
//!
//! # Problem
//! Returned objects and clocks leave open how transactions that overlap are ordered; predicates
//! know, but only who runs them finds out.
//!
//! # Algorithm
//! Each transaction runs on an indexed store, as in a replay. One that does not fit where its turn
//! comes is tried between those that ran last, the latest place first, as far back as its
//! predecessors allow; whoever ran behind that place must fit again. If there is no such place,
//! whoever walks may go back and put the one that it did not see behind it ([`Course::blamed`],
//! [`Course::back_before`]), or try it again after each of the next steps.
//!
//! # Invariants
//! - Labels grow along the execution, so that an edge is kept if its target is placed behind the
//!   label of its source.
//! - What is undone leaves the store as it was.
//!
//! # Cost
//! Linear where everything fits; a transaction that does not costs some hundred others.

use std::collections::VecDeque;

use margay_history::{ObjectId, TxnId, Version};
use margay_verdict::{Cell, Effect, Fault, Predicates};

use crate::store::{Own, Store};

/// How many steps can be undone, and how many of them to put one transaction between.
const BACK: usize = 512;
const BETWEEN: usize = 48;

/// Room between two labels for those that are put between.
const ROOM: i64 = 1 << 24;

/// What a transaction does, in order.
type Writes = Vec<(ObjectId, Effect)>;

/// A transaction that ran.
struct ExecutedTransaction {
    txn: TxnId,
    label: i64,
    /// What it changed, as it was before.
    before: Vec<(ObjectId, Cell, Version)>,
}

/// An execution so far.
pub(crate) struct Course<'p> {
    predicates: &'p Predicates<'p>,
    store: Store<'p>,
    /// Who wrote what each object holds.
    last: Vec<Version>,
    /// Those that cannot be undone any more, and those that can.
    settled: Vec<TxnId>,
    recent: VecDeque<ExecutedTransaction>,
    label: i64,
}

impl<'p> Course<'p> {
    pub fn new(predicates: &'p Predicates<'p>) -> Self {
        let last = vec![Version::Initial; predicates.history().object_count()];
        let (settled, recent) = (Vec::new(), VecDeque::new());
        Self { predicates, store: Store::new(predicates), last, settled, recent, label: 0 }
    }

    /// Runs a transaction behind all others, if it fits there; answers its label.
    pub fn append(&mut self, txn: TxnId) -> Option<i64> {
        let writes = self.fits(txn)?;
        self.label += ROOM;
        let label = self.label;
        self.run(txn, label, writes);
        if self.recent.len() > BACK {
            self.settled.extend(self.recent.pop_front().map(|step| step.txn));
        }
        Some(label)
    }

    /// Runs a transaction somewhere before the last ones, but behind everything up to the label
    /// `floor`; answers its label.
    pub fn insert(&mut self, txn: TxnId, floor: i64) -> Option<i64> {
        let mut undone: Vec<(TxnId, i64)> = Vec::new();
        let mut found = None;
        while let Some(step) = self.recent.back().map(|step| (step.txn, step.label)) {
            if step.1 <= floor || undone.len() == BETWEEN {
                break;
            }
            self.undo();
            undone.push(step);
            if let Some(writes) = self.fits(txn) {
                found = Some((writes, undone.len()));
                break;
            }
        }
        let placed = found.and_then(|(writes, _)| {
            let low = self.recent.back().map_or(i64::MIN / 2, |step| step.label).max(floor);
            let high = undone.last()?.1;
            // The first steps have nothing behind them that could be undone.
            let label = if low < high - ROOM { high - ROOM / 2 } else { low + (high - low) / 2 };
            (low < label && label < high && label > floor).then(|| {
                self.run(txn, label, writes);
                label
            })
        });
        match placed {
            Some(label) if self.again(&undone) => Some(label),
            Some(label) => {
                self.back_to(label);
                self.again(&undone);
                None
            }
            None => {
                self.again(&undone);
                None
            }
        }
    }

    /// Runs again what was undone, the last first; false if somebody does not fit any more.
    fn again(&mut self, undone: &[(TxnId, i64)]) -> bool {
        undone.iter().rev().all(|&(txn, label)| match self.fits(txn) {
            Some(writes) => {
                self.run(txn, label, writes);
                true
            }
            None => false,
        })
    }

    /// Undoes everything from this label on.
    fn back_to(&mut self, label: i64) {
        while self.recent.back().is_some_and(|step| step.label >= label) {
            self.undo();
        }
    }

    /// Undoes a transaction and everything behind it; answers what was undone, nothing if it cannot
    /// be any more.
    pub fn back_before(&mut self, txn: TxnId) -> Vec<TxnId> {
        let Some(place) = self.recent.iter().position(|step| step.txn == txn) else { return Vec::new() };
        let undone = self.recent.iter().skip(place).map(|step| step.txn).collect();
        self.back_to(self.recent[place].label);
        undone
    }

    /// What the transaction does here, if it can have seen what it saw.
    fn fits(&self, txn: TxnId) -> Option<Writes> {
        self.try_on(txn).ok()
    }

    /// Who wrote what the transaction did not see, if it does not fit behind all others.
    pub fn blamed(&self, txn: TxnId) -> Option<TxnId> {
        match self.last[self.try_on(txn).err()??.index()] {
            Version::Of(writer) => Some(writer),
            Version::Initial => None,
        }
    }

    /// What the transaction does here; or else the object of which it saw something else, if it is
    /// known.
    fn try_on(&self, txn: TxnId) -> Result<Writes, Option<ObjectId>> {
        let history = self.predicates.history();
        let mut view = Own::new(&self.store);
        for op in history.ops(txn) {
            let seen = |object| if view.wrote(object) { Version::Of(txn) } else { self.last[object.index()] };
            let set = history.evidence().version_set(op.id).map_or(&[][..], |set| &set.versions);
            if let Some(other) = set.iter().find(|v| seen(v.0) != v.1) {
                return Err(Some(other.0));
            }
            view.run(&op).map_err(|fault| match fault {
                Fault::Mismatch(mismatch) => Some(mismatch.object),
                Fault::Outside(_) => None,
            })?;
        }
        Ok(view.into_effects())
    }

    fn run(&mut self, txn: TxnId, label: i64, writes: Writes) {
        let mut before = Vec::with_capacity(writes.len());
        for (object, effect) in writes {
            let last = std::mem::replace(&mut self.last[object.index()], Version::Of(txn));
            before.push((object, self.store.state.cell(object).clone(), last));
            self.store.change(object, &effect);
        }
        self.recent.push_back(ExecutedTransaction { txn, label, before });
    }

    fn undo(&mut self) {
        let Some(step) = self.recent.pop_back() else { return };
        for (object, cell, last) in step.before.into_iter().rev() {
            self.store.put(object, cell);
            self.last[object.index()] = last;
        }
    }

    /// The transactions as they ran.
    pub fn into_order(self) -> Vec<TxnId> {
        let recent = self.recent.into_iter().map(|step| step.txn);
        self.settled.into_iter().chain(recent).collect()
    }
}
