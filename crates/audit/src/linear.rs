//! One register in real time: whether its transactions can be put in an order at all.
//!
//! # Problem
//! At `strict-serializable` the serial order, restricted to the transactions that touch one
//! register, explains what they saw of it and respects real time: the register is linearizable.
//! Where many writes have the same value (a lock is taken and given back a thousand times) no short
//! cycle shows that it is not; counting does.
//!
//! # Algorithm
//! Time is walked through once (Wing and Gong's search (Herlihy and Wing 1990), made
//! breadth-first). A configuration is a value of the register and the transactions under way that
//! have already taken effect. When one that committed ends, it must have taken effect: others that
//! are under way may do so before it. If no configuration is left, there is no order.
//!
//! # Invariants
//! All configurations are kept, so an empty set is a proof. A transaction of unknown outcome is
//! under way for ever.
//!
//! # Cost
//! Exponential in the transactions under way at one time; nothing is said beyond a number of
//! configurations.

use hashbrown::HashSet;
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, ValueId};
use margay_verdict::Budget;

/// How many configurations are looked at.
const CONFIGURATIONS: usize = 2_000_000;

/// How many transactions may be under way at one time.
const UNDER_WAY: usize = 64;

/// What a transaction does to the register: what it must find, and what it leaves.
#[derive(Clone, Copy)]
struct RegisterStep {
    txn: TxnId,
    found: Option<ValueId>,
    left: Option<ValueId>,
}

/// A value, and which of those under way have taken effect, by their place.
type Configuration = (ValueId, u64);

/// The first transaction by whose end no order is left, if that can be said, and within the budget.
#[must_use]
pub fn unlinearizable(history: &History, object: ObjectId, budget: &Budget) -> Option<TxnId> {
    let mut walk = Walk::new(history, object, budget)?;
    for event in walk.events()? {
        match event {
            Event::Start(step) => walk.start(step)?,
            Event::End(txn) => {
                walk.end(txn)?;
                if walk.configurations.is_empty() {
                    return Some(txn);
                }
            }
        }
    }
    None
}

enum Event {
    Start(RegisterStep),
    End(TxnId),
}

struct Walk<'h> {
    history: &'h History,
    object: ObjectId,
    /// By place; nobody's places are used again.
    under_way: Vec<Option<RegisterStep>>,
    configurations: HashSet<Configuration>,
    looked: usize,
    budget: &'h Budget,
}

impl<'h> Walk<'h> {
    fn new(history: &'h History, object: ObjectId, budget: &'h Budget) -> Option<Self> {
        let initial = history.initial(object);
        let configurations = HashSet::from_iter([(initial, 0)]);
        let plain = history.object(object).table.is_none();
        let under_way = Vec::new();
        plain.then_some(Self { history, object, under_way, configurations, looked: 0, budget })
    }

    /// Starts and ends in time; at one moment starts come first, because only what ended before a
    /// start precedes it.
    fn events(&self) -> Option<Vec<Event>> {
        let history = self.history;
        let mut events: Vec<(i64, bool, Event)> = Vec::new();
        for txn in history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted) {
            let Some(step) = self.step(txn)? else { continue };
            events.push((history.start(txn)?, false, Event::Start(step)));
            if history.outcome(txn) == Outcome::Committed {
                let end = history.end(txn)?.saturating_add(history.header().skew);
                events.push((end, true, Event::End(txn)));
            }
        }
        events.sort_by_key(|&(at, ends, _)| (at, ends));
        Some(events.into_iter().map(|(_, _, event)| event).collect())
    }

    /// Nothing where the transaction does something else to the register than read and write it
    /// whole, or contradicts itself; nothing inside where it does not touch it.
    fn step(&self, txn: TxnId) -> Option<Option<RegisterStep>> {
        let mut step = RegisterStep { txn, found: None, left: None };
        let mut touched = false;
        for op in self.history.ops(txn) {
            if matches!(op.kind, OpKind::Scan | OpKind::Update | OpKind::Sql) {
                return None;
            }
            for access in op.accesses.iter().filter(|access| access.object == self.object) {
                touched = true;
                match op.kind {
                    OpKind::Write => step.left = Some(access.value),
                    OpKind::Read if access.value == ValueId::UNKNOWN => {}
                    OpKind::Read if step.left.is_none() && step.found.is_none_or(|f| f == access.value) => {
                        step.found = Some(access.value);
                    }
                    OpKind::Read if step.left == Some(access.value) => {}
                    _ => return None,
                }
            }
        }
        Some(touched.then_some(step))
    }

    fn start(&mut self, step: RegisterStep) -> Option<()> {
        let place = self.under_way.iter().position(Option::is_none).unwrap_or(self.under_way.len());
        if place == self.under_way.len() {
            self.under_way.push(None);
        }
        self.under_way[place] = Some(step);
        (self.under_way.len() <= UNDER_WAY).then_some(())
    }

    /// Keeps the configurations in which the transaction took effect, after whatever else may have.
    fn end(&mut self, txn: TxnId) -> Option<()> {
        let place = self.under_way.iter().position(|step| step.is_some_and(|step| step.txn == txn))?;
        let mut pending: Vec<Configuration> = self.configurations.iter().copied().collect();
        let mut met = std::mem::take(&mut self.configurations);
        while let Some((value, done)) = pending.pop() {
            self.looked += 1;
            if self.looked > CONFIGURATIONS || self.budget.poll().is_err() {
                return None;
            }
            if done >> place & 1 == 1 {
                self.configurations.insert((value, done & !(1 << place)));
                continue;
            }
            for (other, step) in self.under_way.iter().enumerate() {
                let Some(step) = step.filter(|_| done >> other & 1 == 0) else { continue };
                let next = (step.left.unwrap_or(value), done | 1 << other);
                if step.found.is_none_or(|found| found == value) && met.insert(next) {
                    pending.push(next);
                }
            }
        }
        self.under_way[place] = None;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use margay_history::{Access, HistoryBuilder, Interval, OpDetail};

    use super::*;

    /// Each takes a lock that must be free, in an interval, by one session each; or gives it back.
    fn lock(steps: &[(bool, i64, i64)]) -> Option<u64> {
        let mut b = HistoryBuilder::new();
        let (key, free, taken) = (b.values().text("lock"), b.values().int(0), b.values().int(1));
        let object = b.object(None, key);
        b.initial(object, free).expect("a value");
        for (i, &(take, start, end)) in steps.iter().enumerate() {
            let (from, to) = if take { (free, taken) } else { (taken, free) };
            let at = Some(Interval::new(start, end));
            let id = i as u64;
            for (kind, value) in [(OpKind::Read, from), (OpKind::Write, to)] {
                b.push(id, id, at, kind, &[Access { object, value }], OpDetail::None).expect("valid");
            }
            b.push(id, id, at, OpKind::Commit, &[], OpDetail::None).expect("valid");
        }
        let history = b.finish().expect("a history");
        unlinearizable(&history, object, &Budget::unlimited()).map(|txn| history.txn_label(txn))
    }

    #[test]
    fn a_lock_is_not_taken_twice() {
        assert_eq!(lock(&[(true, 0, 1), (true, 2, 3)]), Some(1));
        assert_eq!(lock(&[(true, 0, 1), (true, 2, 9), (false, 3, 4)]), None);
        assert_eq!(lock(&[(true, 0, 1), (true, 2, 9), (false, 10, 11)]), Some(1));
        assert_eq!(lock(&[(true, 0, 5), (false, 5, 6), (true, 6, 7)]), None, "one moment orders nothing");
    }

    #[test]
    fn three_takers_and_one_giver() {
        assert_eq!(lock(&[(true, 0, 10), (true, 1, 10), (false, 2, 10), (true, 3, 10)]), Some(3));
        assert_eq!(lock(&[(true, 0, 10), (true, 1, 10), (false, 2, 10)]), None);
    }
}
