//! Biswas and Enea's axioms: `be-read-committed`, `read-atomic`, `causal`.
//!
//! # Problem
//! A commit order contains session order and reads-from; and whenever t3 reads x from t1, and t2 writes x too and is
//! visible to t3, then t2 comes before t1. Visible means: t3 read from t2 in an earlier operation; t2 is before t3 in
//! its session or t3 reads from it; or a path of such steps leads from t2 to t3.
//!
//! # Algorithm
//! Versions follow the commit order, so "t2 comes before t1" compares two ranks. Of the writers of x in one session
//! that are visible, the last has the highest rank. For `causal`, a vector of what is visible of each session is
//! carried along the commit order.
//!
//! # Cost
//! `causal`: reads × sessions, in blocks of sessions so that the vectors stay small; the others: reads × sources of one
//! transaction.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, SessionId, TxnId};
use margay_levels::definition::{Axiom, Family};
use margay_verdict::{Budget, Order, Predicates, Question};

use super::execution::{Execution, Picks, Seen};
use super::precedence::Precedence;
use super::{Rejected, reject};

pub(super) fn audit(
    history: &History,
    question: Question,
    order: &Order,
    budget: &Budget,
) -> Result<(), Rejected> {
    let predicates = Predicates::compile(history)?.within(budget);
    let execution = Execution::by_commit_order(&predicates, &order.txns, Picks::listed(&order.reads)?)?;
    let seen = execution.explain()?;
    check(&execution, &seen, &order.txns, question)
}

/// Whether `order`, by which the execution's versions are ordered, satisfies the level's axiom.
pub(super) fn check(
    execution: &Execution<'_>,
    seen: &[Seen],
    order: &[TxnId],
    question: Question,
) -> Result<(), Rejected> {
    let history = execution.history();
    let mut precedence = Precedence::new(history, question);
    for &txn in order {
        precedence.begin(txn);
        precedence.commit(txn)?;
    }
    let axioms = Axioms::new(execution, seen);
    axioms.reads_follow_order(order)?;
    match question.level.family() {
        Family::CommitOrder(Axiom::ReadBefore) => axioms.direct(true),
        Family::CommitOrder(Axiom::Direct) => axioms.direct(false),
        Family::CommitOrder(Axiom::Causal) => axioms.causal(order),
        _ => reject("a commit order does not prove this level"),
    }
}

struct Axioms<'a, 'p> {
    execution: &'a Execution<'p>,
    history: &'p History,
    /// What each transaction saw, by transaction.
    seen: Vec<&'a Seen>,
    /// The rank of each version.
    ranks: HashMap<(ObjectId, TxnId), usize>,
    /// The writers of each object, by id: session by session.
    writers: HashMap<ObjectId, Vec<TxnId>>,
}

impl<'a, 'p> Axioms<'a, 'p> {
    fn new(execution: &'a Execution<'p>, seen: &'a [Seen]) -> Self {
        let mut by_txn: Vec<&Seen> = seen.iter().collect();
        by_txn.sort_by_key(|seen| (seen.op, seen.object));
        let mut ranks = HashMap::new();
        let mut writers = execution.orders.clone();
        for (&object, order) in &execution.orders {
            order.iter().enumerate().for_each(|(i, &txn)| _ = ranks.insert((object, txn), i + 1));
        }
        writers.values_mut().for_each(|writers| writers.sort_unstable());
        Self { execution, history: execution.history(), seen: by_txn, ranks, writers }
    }

    fn source(&self, seen: &Seen) -> Option<TxnId> {
        seen.rank.checked_sub(1).map(|place| self.execution.orders[&seen.object][place])
    }

    fn reads_of(&self, txn: TxnId) -> &[&'a Seen] {
        let start = self.seen.partition_point(|seen| seen.txn < txn);
        let end = self.seen.partition_point(|seen| seen.txn <= txn);
        &self.seen[start..end]
    }

    fn reads_follow_order(&self, order: &[TxnId]) -> Result<(), Rejected> {
        let mut place = vec![0; self.history.txn_count()];
        order.iter().enumerate().for_each(|(i, txn)| place[txn.index()] = i);
        let backwards = |seen: &&&Seen| {
            self.source(seen).is_some_and(|from| place[from.index()] >= place[seen.txn.index()])
        };
        match self.seen.iter().find(backwards) {
            Some(seen) => reject(format!(
                "{} reads from a transaction that comes later",
                self.history.show_txn(seen.txn)
            )),
            None => Ok(()),
        }
    }

    /// `from` is visible to the reader: its version, if it wrote the object, is not newer than what was seen.
    fn visible(&self, from: TxnId, seen: &Seen) -> Result<(), Rejected> {
        match self.ranks.get(&(seen.object, from)) {
            Some(&rank) if rank > seen.rank && from != seen.txn => reject(format!(
                "{} did not see the version of {} by {}, which is visible to it, nor a later one",
                self.history.show_txn(seen.txn),
                self.history.show_object(seen.object),
                self.history.show_txn(from)
            )),
            _ => Ok(()),
        }
    }

    /// `earlier`: only what earlier operations read from is visible; otherwise whatever the transaction read from, and
    /// its session.
    fn direct(&self, earlier: bool) -> Result<(), Rejected> {
        for reads in self.seen.chunk_by(|a, b| a.txn == b.txn) {
            self.execution.predicates.budget().poll()?;
            let mut first: HashMap<TxnId, u32> = HashMap::new();
            for seen in reads {
                if let Some(source) = self.source(seen) {
                    first.entry(source).or_insert(seen.op.0);
                }
            }
            for seen in reads {
                for (&source, &op) in &first {
                    if !earlier || op < seen.op.0 {
                        self.visible(source, seen)?;
                    }
                }
                if !earlier && let Some(before) = self.last_in_session(seen) {
                    self.visible(before, seen)?;
                }
            }
        }
        Ok(())
    }

    /// The last writer of the object before the reader in its session.
    fn last_in_session(&self, seen: &Seen) -> Option<TxnId> {
        let writers = self.writers.get(&seen.object)?;
        let place = writers.partition_point(|&w| w < seen.txn).checked_sub(1)?;
        Some(writers[place]).filter(|&w| self.history.session_of(w) == self.history.session_of(seen.txn))
    }

    fn causal(&self, order: &[TxnId]) -> Result<(), Rejected> {
        let sessions = self.history.session_count();
        let width = (CLOCKS / self.history.txn_count().max(1)).clamp(1, sessions.max(1));
        for start in (0..sessions).step_by(width) {
            self.causal_from(order, start..(start + width).min(sessions))?;
        }
        Ok(())
    }

    /// What is visible of the sessions of one block, along the commit order. A clock holds, for each session, one more
    /// than the last visible transaction.
    fn causal_from(&self, order: &[TxnId], block: std::ops::Range<usize>) -> Result<(), Rejected> {
        let width = block.len();
        let mut clocks = vec![0u32; self.history.txn_count() * width];
        let mut last: Vec<Option<TxnId>> = vec![None; self.history.session_count()];
        let mut clock = vec![0u32; width];
        for &txn in order {
            self.execution.predicates.budget().poll()?;
            clock.fill(0);
            let session = self.history.session_of(txn).index();
            let reads = self.reads_of(txn);
            for from in last[session].into_iter().chain(reads.iter().filter_map(|seen| self.source(seen))) {
                let theirs = &clocks[from.index() * width..][..width];
                clock.iter_mut().zip(theirs).for_each(|(mine, &theirs)| *mine = (*mine).max(theirs));
                let session = self.history.session_of(from).index();
                if block.contains(&session) {
                    let mine = &mut clock[session - block.start];
                    *mine = (*mine).max(from.0 + 1);
                }
            }
            for seen in reads {
                self.visible_by(&clock, &block, seen)?;
            }
            clocks[txn.index() * width..][..width].copy_from_slice(&clock);
            last[session] = Some(txn);
        }
        Ok(())
    }

    fn visible_by(&self, clock: &[u32], block: &std::ops::Range<usize>, seen: &Seen) -> Result<(), Rejected> {
        let Some(writers) = self.writers.get(&seen.object) else { return Ok(()) };
        let mut next = writers.partition_point(|&w| self.history.session_of(w).index() < block.start);
        while let Some(&writer) = writers.get(next) {
            let session: SessionId = self.history.session_of(writer);
            if !block.contains(&session.index()) {
                break;
            }
            let rest = &writers[next..];
            let of_session = &rest[..rest.partition_point(|&w| self.history.session_of(w) == session)];
            let visible = of_session.partition_point(|w| w.0 < clock[session.index() - block.start]);
            if let Some(last) = visible.checked_sub(1) {
                self.visible(of_session[last], seen)?;
            }
            next += of_session.len();
        }
        Ok(())
    }
}

/// How many clock entries are held at a time.
const CLOCKS: usize = 1 << 25;
