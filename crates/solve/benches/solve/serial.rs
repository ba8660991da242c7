//! Serial executions on keys and values: valid by construction.

use margay_history::{Access, History, HistoryBuilder, Interval, ObjectId, OpDetail, OpKind};

/// A serial execution of uniform accesses, without time.
#[derive(Clone, Copy)]
pub struct Serial {
    pub keys: u64,
    /// How many groups of keys there are of which a transaction uses only one.
    pub tenants: u64,
    /// 0 for one per transaction.
    pub sessions: u64,
    /// Shares of reads and of read-modify-writes, in percent; the rest are writes.
    pub reads: u64,
    pub updates: u64,
    /// How much of the version order is told, in percent of the versions.
    pub versions: u64,
    /// What goes wrong in the middle of it.
    pub fault: Fault,
}

/// What goes wrong once.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// Two transactions change what both read.
    LostUpdate,
    /// Two transactions change each what the other read.
    WriteSkew,
    /// Two readers see two writers in different orders.
    LongFork,
}

/// Which keys transactions read and write.
#[derive(Clone, Copy)]
pub enum Pattern {
    /// Tweets, timelines and followers of 1,000 users.
    Twitter,
    /// One warehouse, ten districts, 3,000 customers, 10,000 items.
    Tpcc,
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most
    }
}

/// The database, and the history that is made of what happens to it.
struct Execution {
    builder: HistoryBuilder,
    current: Vec<i64>,
    written: i64,
    orders: Vec<Vec<u64>>,
    /// Where the next operation of a transaction is: its session, its number, and its time.
    session: u64,
    txn: u64,
    at: Option<Interval>,
}

impl Execution {
    fn new(keys: u64) -> Self {
        let mut builder = HistoryBuilder::new();
        let zero = builder.values().int(0);
        for key in 0..keys {
            let key = builder.values().int(key as i64);
            let object = builder.object(None, key);
            builder.initial(object, zero).expect("each key once");
        }
        let (current, orders) = (vec![0; keys as usize], vec![Vec::new(); keys as usize]);
        Self { builder, current, written: 0, orders, session: 0, txn: 0, at: None }
    }

    fn read(&mut self, key: u64) {
        self.read_value(key, self.current[key as usize]);
    }

    fn read_value(&mut self, key: u64, value: i64) {
        let value = self.builder.values().int(value);
        self.push(OpKind::Read, &[Access { object: ObjectId(key as u32), value }]);
    }

    fn write(&mut self, key: u64) {
        self.written += 1;
        self.current[key as usize] = self.written;
        if self.orders[key as usize].last() != Some(&self.txn) {
            self.orders[key as usize].push(self.txn);
        }
        let value = self.builder.values().int(self.written);
        self.push(OpKind::Write, &[Access { object: ObjectId(key as u32), value }]);
    }

    fn update(&mut self, key: u64) {
        self.read(key);
        self.write(key);
    }

    fn push(&mut self, kind: OpKind, accesses: &[Access]) {
        let pushed = self.builder.push(self.session, self.txn, self.at, kind, accesses, OpDetail::None);
        pushed.expect("a valid operation");
    }

    fn finish(self) -> History {
        self.builder.finish().expect("a valid history")
    }
}

/// `MARGAY_BENCH_SEED`, or 42.
fn seed() -> u64 {
    std::env::var("MARGAY_BENCH_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(42)
}

/// A serial execution whose transactions are dealt out to sessions.
pub fn serial(txns: u64, source: &Serial) -> History {
    let mut rng = Rng(seed());
    let mut run = Execution::new(source.keys);
    for txn in 0..txns {
        // One session each, in an order that tells nothing of the execution.
        let alone = txn.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        run.session = if source.sessions == 0 { alone } else { rng.below(source.sessions) };
        run.txn = txn;
        let own = source.keys / source.tenants;
        let first = if source.tenants > 1 { own * rng.below(source.tenants) } else { 0 };
        for _ in 0..8 {
            let (key, kind) = (first + rng.below(own), rng.below(100));
            match kind {
                _ if kind < source.reads => run.read(key),
                _ if kind < source.reads + source.updates => run.update(key),
                _ => run.write(key),
            }
        }
        run.push(OpKind::Commit, &[]);
        if txn == txns / 2 {
            plant(&mut run, txns, source);
        }
    }
    for key in 0..source.keys {
        let order = std::mem::take(&mut run.orders[key as usize]);
        let told: Vec<_> = order.into_iter().filter(|_| rng.below(100) < source.versions).map(Some).collect();
        if told.len() > 1 {
            run.builder.version_order(ObjectId(key as u32), told);
        }
    }
    run.finish()
}

/// What the transactions of a fault do to keys 0 and 1, one transaction after the other: what each
/// reads as it was before the fault, reads as it is, and writes.
fn plant(run: &mut Execution, first: u64, source: &Serial) {
    let old = [run.current[0], run.current[1]];
    let steps: &[[&[u64]; 3]] = match source.fault {
        Fault::None => &[],
        Fault::LostUpdate => &[[&[0], &[], &[0]], [&[0], &[], &[0]]],
        Fault::WriteSkew => &[[&[0, 1], &[], &[0]], [&[0, 1], &[], &[1]]],
        Fault::LongFork => &[[&[0], &[], &[0]], [&[1], &[], &[1]], [&[1], &[0], &[]], [&[0], &[1], &[]]],
    };
    for ([before, now, written], number) in steps.iter().zip(0..) {
        run.txn = first + number;
        run.session = if source.sessions == 0 { u64::MAX - number } else { number };
        before.iter().for_each(|&key| run.read_value(key, old[key as usize]));
        now.iter().for_each(|&key| run.read(key));
        written.iter().for_each(|&key| run.write(key));
        run.push(OpKind::Commit, &[]);
    }
}

/// 24 clients whose transactions take effect one after the other, each somewhere within its
/// interval, which overlaps those of the others.
pub fn timed(txns: u64, pattern: Pattern) -> History {
    let mut rng = Rng(42);
    let keys = match pattern {
        Pattern::Twitter => 3_000 + txns,
        Pattern::Tpcc => 24_000 + txns,
    };
    let mut run = Execution::new(keys);
    let mut free = [0i64; 24];
    for txn in 0..txns {
        (run.txn, run.session) = (txn, rng.below(24));
        let effect = 1_000 * (txn as i64 + 1);
        let before = (effect - rng.below(20_000) as i64).max(free[run.session as usize] + 1).min(effect);
        let after = effect + rng.below(900) as i64 + 1;
        free[run.session as usize] = after;
        run.at = Some(Interval { before, after });
        match pattern {
            Pattern::Twitter => tweet(&mut run, &mut rng),
            Pattern::Tpcc => order(&mut run, &mut rng),
        }
        run.push(OpKind::Commit, &[]);
    }
    run.finish()
}

/// Users are keys 0 to 999, their latest tweets 1,000 to 1,999, their followers 2,000 to 2,999, and
/// each tweet has its own.
fn tweet(run: &mut Execution, rng: &mut Rng) {
    let some = |rng: &mut Rng| rng.below(1 + rng.0 % 1_000);
    let user = some(rng);
    match rng.below(100) {
        0..20 => {
            run.update(user);
            run.write(1_000 + user);
            run.write(3_000 + run.txn);
        }
        20..60 => (0..6).for_each(|_| run.read(1_000 + some(rng))),
        _ => {
            run.update(2_000 + user);
            run.update(2_000 + (user + 1 + rng.below(999)) % 1_000);
        }
    }
}

/// The warehouse is key 0, districts 1 to 10, customers from 1,000, stocks from 4,000, items from
/// 14,000, orders from 24,000.
fn order(run: &mut Execution, rng: &mut Rng) {
    let (district, customer) = (1 + rng.below(10), 1_000 + rng.below(3_000));
    match rng.below(100) {
        0..45 => {
            run.read(0);
            run.update(district);
            run.read(customer);
            for _ in 0..10 {
                let item = rng.below(10_000);
                run.read(14_000 + item);
                run.update(4_000 + item);
            }
            run.write(24_000 + run.txn);
        }
        45..88 => [0, district, customer].into_iter().for_each(|key| run.update(key)),
        88..92 => run.read(customer),
        92..96 => run.update(customer),
        _ => {
            run.read(district);
            (0..20).for_each(|_| run.read(4_000 + rng.below(10_000)));
        }
    }
}
