//! Locks on objects and conditions, and deadlocks.
//!
//! # Algorithm
//! A statement takes all locks that it needs at one instant, or none and waits. Whenever a
//! transaction releases anything, every statement that waits for it is tried again, in the order in
//! which they began to wait. A transaction that closes a circle of waiting is the victim.
//!
//! # Invariants
//! - Two transactions hold a lock on one object only if both hold it shared.
//! - A lock on a condition protects what matches it: a write conflicts when the row matches before
//!   or after it.
//! - Every wait ends: a circle is found by whoever closes it, because a waiting transaction's
//!   blockers are looked up anew each time it is tried, and it is tried each time any of them ends.

use hashbrown::HashMap;

use margay_client::{Change, Cond, Obj};

use crate::db::{Db, RuleResult, Stop};
use crate::fault::Fault;

#[derive(Clone, Copy, Debug)]
struct Holder {
    client: u32,
    exclusive: bool,
}

/// The lock table.
#[derive(Debug)]
pub(crate) struct Locks {
    objects: HashMap<Obj, Vec<Holder>>,
    conds: Vec<(u32, Cond)>,
    /// By client: the objects it has locks on, in the order of locking.
    held: Vec<Vec<Obj>>,
    /// By client: how many of these earlier statements took.
    before: Vec<usize>,
    /// By client: whom it waits for.
    waits: Vec<Vec<u32>>,
    /// Empty vectors to use again.
    spare: Vec<Vec<Holder>>,
}

impl Locks {
    pub fn new(clients: usize) -> Self {
        Self {
            objects: HashMap::new(),
            conds: Vec::new(),
            held: vec![Vec::new(); clients],
            before: vec![0; clients],
            waits: vec![Vec::new(); clients],
            spare: Vec::new(),
        }
    }

    fn holds(&self, client: u32, obj: Obj, exclusive: bool) -> bool {
        let holders = self.objects.get(&obj);
        holders.is_some_and(|h| h.iter().any(|h| h.client == client && (h.exclusive || !exclusive)))
    }

    fn blockers(&self, me: u32, obj: Obj, exclusive: bool, blockers: &mut Vec<u32>) {
        let Some(holders) = self.objects.get(&obj) else { return };
        let conflicting = holders.iter().filter(|h| h.client != me && (exclusive || h.exclusive));
        blockers.extend(conflicting.map(|h| h.client));
    }

    fn grant(&mut self, me: u32, obj: Obj, exclusive: bool) {
        let spare = &mut self.spare;
        let holders = self.objects.entry(obj).or_insert_with(|| spare.pop().unwrap_or_default());
        match holders.iter_mut().find(|h| h.client == me) {
            Some(mine) => mine.exclusive |= exclusive,
            None => {
                holders.push(Holder { client: me, exclusive });
                self.held[me as usize].push(obj);
            }
        }
    }

    fn release_from(&mut self, me: usize, start: usize) {
        for obj in self.held[me].drain(start..) {
            let Some(holders) = self.objects.get_mut(&obj) else { continue };
            holders.retain(|h| h.client != me as u32);
            if holders.is_empty()
                && let Some(empty) = self.objects.remove(&obj)
            {
                self.spare.push(empty);
            }
        }
    }

    /// Whether the statement at hand has taken locks.
    pub fn took_any(&self, me: usize) -> bool {
        self.held[me].len() > self.before[me]
    }

    /// Ends a statement; its locks are kept unless something is wrong.
    pub fn end_statement(&mut self, me: usize, keep: bool) {
        if !keep {
            self.release_from(me, self.before[me]);
        }
        self.before[me] = self.held[me].len();
    }

    /// Ends a transaction.
    pub fn release_all(&mut self, me: usize) {
        self.release_from(me, 0);
        self.before[me] = 0;
        self.waits[me].clear();
        self.conds.retain(|(client, _)| *client != me as u32);
    }

    /// Lets `me` wait. Answers false if it would wait for itself.
    pub fn wait(&mut self, me: usize, blockers: Vec<u32>) -> bool {
        self.waits[me] = blockers;
        let mut seen = vec![false; self.waits.len()];
        let mut open: Vec<u32> = self.waits[me].clone();
        while let Some(client) = open.pop() {
            if client as usize == me {
                self.waits[me].clear();
                return false;
            }
            if !std::mem::replace(&mut seen[client as usize], true) {
                open.extend(&self.waits[client as usize]);
            }
        }
        true
    }

    /// Whether `me` waits for one of these.
    pub fn waits_for(&self, me: u32, clients: &[u32]) -> bool {
        self.waits[me as usize].iter().any(|blocker| clients.contains(blocker))
    }

    /// `me` waits no more.
    pub fn go_on(&mut self, me: usize) {
        self.waits[me].clear();
    }
}

fn wait_for(blockers: Vec<u32>) -> RuleResult<()> {
    if blockers.is_empty() { Ok(()) } else { Err(Stop::Wait(blockers)) }
}

impl Db {
    /// Waits while another holds a lock that a read conflicts with.
    pub fn wait_to_read(&mut self, me: usize, obj: Obj) -> RuleResult<()> {
        let mut blockers = Vec::new();
        self.locks.blockers(me as u32, obj, false, &mut blockers);
        self.unless_lock_is_skipped(me, blockers)
    }

    fn unless_lock_is_skipped(&mut self, me: usize, blockers: Vec<u32>) -> RuleResult<()> {
        if !blockers.is_empty() && self.fault(me, Fault::LockNotTaken) {
            return Ok(());
        }
        wait_for(blockers)
    }

    /// Takes a shared lock.
    pub fn lock_shared(&mut self, me: usize, obj: Obj) -> RuleResult<()> {
        self.lock(me, obj, false)
    }

    /// Takes an exclusive lock.
    pub fn lock_exclusive(&mut self, me: usize, obj: Obj) -> RuleResult<()> {
        self.lock(me, obj, true)
    }

    fn lock(&mut self, me: usize, obj: Obj, exclusive: bool) -> RuleResult<()> {
        if self.locks.holds(me as u32, obj, exclusive) || self.fault(me, Fault::LockNotTaken) {
            return Ok(());
        }
        let mut blockers = Vec::new();
        self.locks.blockers(me as u32, obj, exclusive, &mut blockers);
        wait_for(blockers)?;
        self.locks.grant(me as u32, obj, exclusive);
        Ok(())
    }

    /// Takes exclusive locks on all of these, or on none.
    pub fn lock_all_exclusive(&mut self, me: usize, objs: &[Obj]) -> RuleResult<()> {
        let mut blockers = Vec::new();
        objs.iter().for_each(|&obj| self.locks.blockers(me as u32, obj, true, &mut blockers));
        if !objs.is_empty() && self.fault(me, Fault::LockNotTaken) {
            return Ok(());
        }
        wait_for(blockers)?;
        objs.iter().for_each(|&obj| self.locks.grant(me as u32, obj, true));
        Ok(())
    }

    /// Waits while another has a lock on a condition that the row matches before or after the
    /// change.
    pub fn wait_for_conditions(&mut self, me: usize, obj: Obj, change: Change) -> RuleResult<()> {
        if self.locks.conds.is_empty() {
            return Ok(());
        }
        let old = self.base(me, obj, crate::db::ReadView::Latest);
        let new = change.apply(&old);
        let others = self.locks.conds.iter().filter(|(client, _)| *client as usize != me);
        let conflicting = others.filter(|(_, cond)| cond.matches(&old) || cond.matches(&new));
        let blockers = conflicting.map(|&(client, _)| client).collect();
        self.unless_lock_is_skipped(me, blockers)
    }

    /// Waits while another has changed, and locked, a row that matches the condition before or
    /// after its change.
    pub fn wait_for_writers(&mut self, me: usize, cond: Cond) -> RuleResult<()> {
        let others = self.pending_rows(cond).filter(|(client, _)| *client != me);
        let locked = others.filter(|(client, w)| self.locks.holds(*client as u32, w.obj, true));
        let blockers = locked.map(|(client, _)| client as u32).collect();
        self.unless_lock_is_skipped(me, blockers)
    }

    /// Protects a condition until the transaction ends.
    pub fn lock_condition(&mut self, me: usize, cond: Cond) {
        self.locks.conds.push((me as u32, cond));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_client::Space;

    #[test]
    fn whoever_closes_a_circle_is_told() {
        let mut locks = Locks::new(3);
        assert!(locks.wait(0, vec![1]));
        assert!(locks.wait(1, vec![2]));
        assert!(!locks.wait(2, vec![0]));
        locks.go_on(0);
        assert!(locks.wait(2, vec![0]));
    }

    #[test]
    fn a_statement_can_give_back_its_own_locks_only() {
        let (a, b) = (Obj::new(Space::Register, 1), Obj::new(Space::Register, 2));
        let mut locks = Locks::new(2);
        locks.grant(0, a, false);
        locks.end_statement(0, true);
        locks.grant(0, b, true);
        locks.end_statement(0, false);
        assert!(locks.holds(0, a, false) && !locks.holds(0, b, false));
        locks.grant(1, a, false);
        let mut blockers = Vec::new();
        locks.blockers(0, a, true, &mut blockers);
        assert_eq!(blockers, [1]);
        locks.release_all(1);
        assert!(!locks.holds(1, a, false));
    }
}
