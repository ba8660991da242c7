//! A simulated database for clients that are really there: threads call it, wait in it, and are
//! refused by it.
//!
//! The simulation of [`crate::simulate`] plays its own clients, one event at a time. Here the
//! clients play themselves, and the protocol is the same code. What comes out depends on how the
//! threads are scheduled, so it cannot be repeated byte for byte.
//!
//! # Invariants
//! - Every call takes effect at one instant, while it holds the state; a call that waits has had no
//!   effect yet.
//! - Whoever waits is tried again whenever anyone releases something.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use margay_client::{Ask, DatabaseEvidence, Obj, Value};

use crate::config::SimConfig;
use crate::db::{Db, Deferred, Seen, Stop};
use crate::evidence::{has_serial_order, has_snapshots};
use crate::execute::execute;
use crate::fault::Fault;
use crate::protocol::Protocol;
use crate::rules::{Commit, Rules, rules};

/// How long a commit in several steps rests between two of them.
const STEP: Duration = Duration::from_micros(50);

/// The transaction was refused and is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// A simulated database that threads share. `me` is a client's number, below
/// [`SimConfig::clients`]; `now` is nanoseconds on any clock that all of them share.
pub struct Live {
    state: Mutex<State>,
    released: Condvar,
}

struct State {
    db: Db,
    rules: Box<dyn Rules>,
    /// The label of the last transaction.
    label: u64,
    /// Sorted by time.
    deferred: VecDeque<Deferred>,
    answer: Vec<Seen>,
    /// What is kept to be told, if anyone wants it.
    told: Option<DatabaseEvidence>,
}

impl Live {
    /// The database of a configuration, of which only protocol, faults, clients, keys, domain, mix
    /// and seed count.
    #[must_use]
    pub fn new(config: &SimConfig) -> Self {
        let state = State {
            db: Db::new(config),
            rules: rules(config.protocol, config.clients as usize),
            label: 0,
            deferred: VecDeque::new(),
            answer: Vec::new(),
            told: None,
        };
        Self { state: Mutex::new(state), released: Condvar::new() }
    }

    /// Keeps from now on what is to be told of transactions.
    pub fn remember(&self, protocol: Protocol) {
        let mut state = unpoisoned(self.state.lock());
        state.db.keep_successions = true;
        let told = state.told.get_or_insert_with(DatabaseEvidence::default);
        told.serial = has_serial_order(protocol);
        told.views = has_snapshots(protocol);
    }

    /// What was kept; nothing if nobody asked for it.
    pub fn told(&self) -> Option<DatabaseEvidence> {
        unpoisoned(self.state.lock()).told.take()
    }

    /// Begins a transaction; answers its label.
    pub fn begin(&self, me: usize, now: i64) -> u64 {
        let mut state = self.enter(now);
        state.label += 1;
        state.db.txns[me].label = state.label;
        state.label
    }

    /// Executes a statement and leaves what it answers in `rows`.
    ///
    /// # Errors
    /// When the transaction had to be aborted.
    pub fn execute(
        &self,
        me: usize,
        ask: Ask,
        now: i64,
        rows: &mut Vec<(Obj, Value)>,
    ) -> Result<(), Refused> {
        rows.clear();
        let mut state = self.enter(now);
        loop {
            let step = state.statement(me, ask);
            match step {
                Ok(()) => {
                    rows.extend(state.answer.drain(..).map(|seen| (seen.obj, seen.value)));
                    self.leave(&mut state);
                    return Ok(());
                }
                Err(stop) => state = self.wait_or_abort(state, me, stop)?,
            }
        }
    }

    /// Commits.
    ///
    /// # Errors
    /// When the transaction had to be aborted, or a fault says so of one that was not.
    pub fn commit(&self, me: usize, now: i64) -> Result<(), Refused> {
        let mut state = self.enter(now);
        loop {
            state.db.locks.go_on(me);
            let State { db, rules, .. } = &mut *state;
            match rules.commit(db, me) {
                Ok(Commit::At(ts)) => {
                    let told = state.committed(me, ts);
                    self.leave(&mut state);
                    return told;
                }
                Ok(Commit::Later) => state = unpoisoned(self.released.wait_timeout(state, STEP)).0,
                Err(stop) => state = self.wait_or_abort(state, me, stop)?,
            }
        }
    }

    /// Rolls back.
    pub fn rollback(&self, me: usize, now: i64) {
        let mut state = self.enter(now);
        state.abort(me);
        self.leave(&mut state);
    }

    fn enter(&self, now: i64) -> MutexGuard<'_, State> {
        let mut state = unpoisoned(self.state.lock());
        state.db.now = state.db.now.max(now);
        state.apply_deferred();
        state
    }

    /// Whoever waits for what was released tries again.
    fn leave(&self, state: &mut State) {
        state.take_deferred();
        state.keep_successions();
        if !std::mem::take(&mut state.db.released).is_empty() {
            self.released.notify_all();
        }
    }

    fn wait_or_abort<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        me: usize,
        stop: Stop,
    ) -> Result<MutexGuard<'a, State>, Refused> {
        if let Stop::Wait(blockers) = stop
            && state.db.locks.wait(me, blockers)
        {
            return Ok(unpoisoned(self.released.wait(state)));
        }
        state.abort(me);
        self.leave(&mut state);
        Err(Refused)
    }
}

impl State {
    fn keep_successions(&mut self) {
        let new = self.db.successions.drain(..).filter(|new| new.earlier != new.later);
        match &mut self.told {
            Some(told) => told.successions.extend(new.map(|new| (new.obj, new.earlier, new.later))),
            None => drop(new),
        }
    }

    fn keep_commit(&mut self, me: usize, ts: u64) {
        let (label, snapshot) = (self.db.txns[me].label, self.db.txns[me].snapshot);
        let Some(told) = self.told.as_mut() else { return };
        told.commits.push((label, ts as i64));
        if let Some(snapshot) = snapshot.filter(|_| told.views) {
            told.snapshots.push((label, snapshot as i64));
        }
    }

    fn statement(&mut self, me: usize, ask: Ask) -> Result<(), Stop> {
        self.db.locks.go_on(me);
        execute(&mut self.db, self.rules.as_mut(), me, ask, &mut self.answer)
    }

    fn committed(&mut self, me: usize, ts: u64) -> Result<(), Refused> {
        let lie = !self.db.txns[me].writes.is_empty() && self.db.faults.roll(Fault::UnknownCommitted);
        self.rules.end(&mut self.db, me, Some(ts));
        self.keep_commit(me, ts);
        self.db.commit(me, ts);
        self.db.locks.release_all(me);
        if lie { Err(Refused) } else { Ok(()) }
    }

    fn abort(&mut self, me: usize) {
        let ts = self.rules.abort_ts(&mut self.db, me);
        self.rules.end(&mut self.db, me, None);
        self.db.abort(me, ts);
        self.db.locks.release_all(me);
    }

    fn take_deferred(&mut self) {
        for deferred in std::mem::take(&mut self.db.deferred) {
            let place = self.deferred.partition_point(|d| d.at <= deferred.at);
            self.deferred.insert(place, deferred);
        }
    }

    fn apply_deferred(&mut self) {
        while self.deferred.front().is_some_and(|deferred| deferred.at <= self.db.now) {
            self.deferred.pop_front().into_iter().for_each(|due| self.db.apply(due));
        }
    }
}

/// A client that panicked has left the state whole: nothing panics between two halves of a change.
fn unpoisoned<T>(locked: Result<T, PoisonError<T>>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use margay_client::{Change, Space};

    fn database(protocol: Protocol) -> Live {
        Live::new(&SimConfig { clients: 2, ..SimConfig::new(protocol, 1) })
    }

    const X: Obj = Obj { space: Space::Register, key: 0 };
    const Y: Obj = Obj { space: Space::Register, key: 1 };

    /// Each of two clients reads one register and writes the other; answers how many commit.
    fn skew(live: &Live) -> usize {
        let mut rows = Vec::new();
        let mut alive = [true; 2];
        for me in 0..2 {
            live.begin(me, 0);
        }
        for (me, obj) in [(0, X), (1, Y)] {
            alive[me] &= live.execute(me, Ask::Read(obj), 0, &mut rows).is_ok();
            assert_eq!(rows, [(obj, Value::Int(0))]);
        }
        for (me, obj) in [(0, Y), (1, X)] {
            alive[me] &= live.execute(me, Ask::Write(obj, Change::Put(9)), 0, &mut rows).is_ok();
        }
        (0..2).filter(|&me| alive[me] && live.commit(me, 0).is_ok()).count()
    }

    #[test]
    fn snapshots_skew_and_the_certifier_refuses() {
        assert_eq!(skew(&database(Protocol::SiFuw)), 2);
        assert_eq!(skew(&database(Protocol::Ssi)), 1);
        assert_eq!(skew(&database(Protocol::Occ)), 1);
    }

    #[test]
    fn who_waits_goes_on_when_the_lock_is_released() {
        let live = database(Protocol::Ss2pl);
        live.begin(0, 0);
        live.execute(0, Ask::Write(X, Change::Put(1)), 0, &mut Vec::new()).expect("nobody is there");
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut rows = Vec::new();
                live.begin(1, 0);
                live.execute(1, Ask::Read(X), 0, &mut rows).expect("it waits");
                live.commit(1, 0).expect("it holds a lock");
                rows
            });
            thread::sleep(Duration::from_millis(20));
            live.commit(0, 1).expect("it holds the lock");
            assert_eq!(reader.join().expect("no panic"), [(X, Value::Int(1))]);
        });
    }
}
