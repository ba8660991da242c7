//! SmallBank and BlindW on a small optimistic database in virtual time, for endless traces.
//!
//! A transaction reads a snapshot that its first statement takes, and is refused at its commit if
//! anything that it read or wrote was committed since: strict serializable, by the rules of the
//! profile `foundationdb`. Values are not unique.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use margay_history::{Interval, OpKind};
use margay_simdb::Rng;

/// One operation on one register.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub txn: u32,
    pub kind: OpKind,
    pub at: Interval,
    pub object: u32,
    pub value: i64,
}

/// What clients ask for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// Accounts with two balances; five kinds of transactions.
    SmallBank,
    /// Half of the transactions read eight registers, half write them blindly.
    BlindWRw,
}

#[derive(Clone, Copy)]
struct Access {
    object: u32,
    /// What is added to what was read; nothing for a read.
    add: Option<i64>,
}

struct Running {
    plan: Vec<Access>,
    values: Vec<i64>,
    txn: u32,
    began: Interval,
    snapshot: i64,
    time: i64,
}

pub struct Bank {
    load: Load,
    rng: Rng,
    keys: u32,
    balances: Vec<i64>,
    /// When each register was last committed.
    changed: Vec<i64>,
    running: Vec<Option<Running>>,
    /// Clients by the instant of their next step.
    next: BinaryHeap<Reverse<(i64, u32)>>,
    txns: u32,
}

impl Bank {
    pub fn new(load: Load, clients: u32, keys: u32, seed: u64) -> Self {
        let next = (0..clients).map(|client| Reverse((1 + i64::from(client) * 37, client))).collect();
        let running = (0..clients).map(|_| None).collect();
        let size = 2 * keys as usize;
        Self {
            load,
            rng: Rng::new(seed, 0),
            keys,
            balances: vec![0; size],
            changed: vec![-1; size],
            running,
            next,
            txns: 0,
        }
    }

    /// How many registers there are; all are zero at first.
    pub fn registers(&self) -> u32 {
        2 * self.keys
    }

    /// The next step of whoever is first; a whole transaction comes out when it ends.
    pub fn step(&mut self, out: &mut Vec<Event>) -> u32 {
        let Some(Reverse((now, client))) = self.next.pop() else { return 0 };
        match self.running[client as usize].take() {
            None => self.begin(now, client),
            Some(running) => self.commit(now, client, running, out),
        }
        client
    }

    fn begin(&mut self, now: i64, client: u32) {
        let plan = self.plan();
        let values = plan.iter().map(|access| self.balances[access.object as usize]).collect();
        let began = Interval::new(now - 60, now - 20);
        let time = now + 40 + plan.len() as i64 * 100 + self.rng.below(100) as i64;
        self.txns += 1;
        let txn = self.txns;
        self.running[client as usize] = Some(Running { plan, values, txn, began, snapshot: now, time: now });
        self.next.push(Reverse((time, client)));
    }

    fn commit(&mut self, now: i64, client: u32, running: Running, out: &mut Vec<Event>) {
        let fine = running.plan.iter().all(|a| self.changed[a.object as usize] < running.snapshot);
        let event = |kind, at, object, value| Event { txn: running.txn, kind, at, object, value };
        out.push(event(OpKind::Begin, running.began, 0, 0));
        let mut time = running.time - 10;
        for (access, seen) in running.plan.iter().zip(&running.values) {
            let at = Interval::new(time, time + 60);
            let (kind, value) = match access.add {
                None => (OpKind::Read, *seen),
                Some(add) => (OpKind::Write, seen + add),
            };
            out.push(event(kind, at, access.object, value));
            time += 90;
            if let (true, OpKind::Write) = (fine, kind) {
                self.balances[access.object as usize] = value;
                self.changed[access.object as usize] = now;
            }
        }
        let end = if fine { OpKind::Commit } else { OpKind::Abort };
        out.push(event(end, Interval::new(time.min(now - 1), now + 15), 0, 0));
        self.next.push(Reverse((now + 90 + self.rng.below(60) as i64, client)));
    }

    fn plan(&mut self) -> Vec<Access> {
        let read = |object| Access { object, add: None };
        let add = |object, add| Access { object, add: Some(add) };
        if self.load == Load::BlindWRw {
            let writes = self.rng.below(2) == 0;
            let mut objects: Vec<u32> =
                (0..8).map(|_| self.rng.below(u64::from(self.registers())) as u32).collect();
            objects.sort_unstable();
            objects.dedup();
            let value = self.rng.below(1_000) as i64;
            return objects.into_iter().map(|o| if writes { add(o, value) } else { read(o) }).collect();
        }
        let (a, b) =
            (self.rng.below(u64::from(self.keys)) as u32, self.rng.below(u64::from(self.keys)) as u32);
        let b = if a == b { (b + 1) % self.keys } else { b };
        let (checking, savings) = (|account: u32| 2 * account, |account: u32| 2 * account + 1);
        let amount = 1 + self.rng.below(50) as i64;
        match self.rng.below(5) {
            0 => vec![read(checking(a)), read(savings(a))],
            1 => vec![read(checking(a)), add(checking(a), amount)],
            2 => vec![read(savings(a)), add(savings(a), -amount)],
            3 => vec![read(savings(a)), read(checking(a)), add(checking(a), -amount)],
            _ => vec![
                read(savings(a)),
                read(checking(a)),
                read(checking(b)),
                add(savings(a), -amount),
                add(checking(b), amount),
            ],
        }
    }
}
