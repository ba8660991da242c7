//! Random logs of a few transactions, over two registers.

use margay_history::{History, OpKind, ValueId};
use margay_sql::Value;

use super::Random;
use super::log::{Log, Seen};

/// What a register is initially.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Start {
    /// It holds this.
    Holds(i64),
    /// It holds NULL.
    Null,
    /// It is not there.
    Absent,
    /// It is there, and nobody knows what it holds.
    Unknown,
    /// Nobody knows anything of it.
    Open,
}

/// A random log of a few transactions, with results that may or may not be right.
pub fn tiny(seed: u64) -> History {
    let mut random = Random(seed);
    let starts = [0, 1].map(|_| Start::Holds(random.below(3) as i64));
    on(random, starts)
}

/// A random log of transactions that delete rows, insert them again, and look for them.
pub fn replacing(seed: u64) -> History {
    let mut random = Random(seed);
    let mut log = Log::register(&[(1, 0), (2, 0)]);
    for txn in 0..2 + random.below(2) {
        let mut k = 1 + random.below(2);
        for _ in 0..1 + random.below(3) {
            if random.chance(25) {
                k = 3 - k;
            }
            let (v, count) = (random.below(2), Seen::Count(random.below(2)));
            let rows = Seen::Rows((0..random.below(3)).map(|k| vec![Value::Int(k as i64 + 1)]).collect());
            let (text, seen) = match random.below(8) {
                0 | 1 => (format!("DELETE FROM t WHERE k = {k}"), count),
                2 | 3 => (format!("INSERT INTO t VALUES ({k}, {v})"), Seen::Count(1)),
                4 => (format!("UPDATE t SET v = v + 1 WHERE k = {k}"), count),
                5 => (format!("UPDATE t SET v = 1 WHERE v = {v}"), Seen::Count(random.below(3))),
                6 => ("SELECT k FROM t ORDER BY k FOR UPDATE".to_owned(), rows),
                _ => ("SELECT k FROM t ORDER BY k".to_owned(), rows),
            };
            log.sql(txn, txn, None, &text, &[], &seen);
        }
        log.op(txn, txn, None, OpKind::Commit);
    }
    log.finish()
}

/// A random log of transactions that overlap on the clock.
pub fn overlapping(seed: u64) -> History {
    let mut random = Random(seed);
    let mut log = Log::register(&[(1, 0), (2, 0)]);
    for txn in 0..2 + random.below(2) {
        let mut clock = random.below(8) as i64;
        let mut at = |random: &mut Random| {
            let before = clock + random.below(3) as i64;
            clock = before + random.below(4) as i64;
            Some((before, clock))
        };
        for _ in 0..1 + random.below(2) {
            let (text, seen) = statement(&mut random);
            let time = at(&mut random);
            log.sql(txn, txn, time, &text, &[], &seen);
        }
        let time = at(&mut random);
        log.op(txn, txn, time, if random.chance(10) { OpKind::Unknown } else { OpKind::Commit });
    }
    log.finish()
}

/// A random log whose registers begin like this.
pub fn on(mut random: Random, starts: [Start; 2]) -> History {
    let mut log = Log::register(&[]);
    for (k, start) in (1..).zip(starts) {
        let value = match start {
            Start::Holds(value) => log.builder.values().int(value),
            Start::Null => ValueId::NULL,
            Start::Absent => continue,
            Start::Unknown | Start::Open => ValueId::UNKNOWN,
        };
        let name = log.builder.values().intern_name("v");
        let row = log.builder.values().row(&[(name, value)]);
        let key = log.builder.values().int(k);
        let table = log.builder.table("t");
        let object = log.builder.object(Some(table), key);
        let value = if start == Start::Open { ValueId::UNKNOWN } else { row };
        log.builder.initial(object, value).unwrap();
    }
    let timed = random.chance(50);
    let txns = 2 + random.below(2);
    let sessions = 1 + random.below(3);
    let mut clock = 0;
    for txn in 0..txns {
        let session = txn % sessions;
        let mut at = |random: &mut Random| {
            clock += 1 + random.below(3) as i64;
            // Intervals overlap freely across sessions, and follow each other within one.
            timed.then_some((clock * 2, clock * 2 + random.below(2) as i64))
        };
        for _ in 0..1 + random.below(2) {
            let (text, seen) = statement(&mut random);
            let time = at(&mut random);
            log.sql(session, txn, time, &text, &[], &seen);
        }
        let end = match random.below(10) {
            0 => OpKind::Abort,
            1 | 2 => OpKind::Unknown,
            _ => OpKind::Commit,
        };
        let time = at(&mut random);
        log.op(session, txn, time, end);
        if end == OpKind::Commit && random.chance(20) {
            log.builder.commit(txn, random.below(3) as i64);
        }
        if end == OpKind::Commit && random.chance(10) {
            log.builder.snapshot(txn, random.below(3) as i64);
        }
    }
    log.finish()
}

fn statement(random: &mut Random) -> (String, Seen) {
    let (k, v) = (1 + random.below(2), random.below(4));
    let small = |random: &mut Random| Value::Int(random.below(5) as i64);
    match random.below(8) {
        0 | 1 => {
            let seen = Seen::Rows(vec![vec![small(random)]]);
            (format!("SELECT v FROM t WHERE k = {k}"), seen)
        }
        2 => (format!("UPDATE t SET v = v + 1 WHERE k = {k}"), Seen::Nothing),
        3 => (format!("UPDATE t SET v = {v} WHERE k = {k}"), Seen::Count(random.below(2))),
        4 => (format!("UPDATE t SET v = v + 1 WHERE v < {v}"), Seen::Nothing),
        5 => {
            let rows = random.below(3);
            let seen = Seen::Rows((0..rows).map(|row| vec![Value::Int(row as i64 + 1)]).collect());
            (format!("SELECT k FROM t WHERE v >= {v}"), seen)
        }
        6 => (format!("DELETE FROM t WHERE k = {k}"), Seen::Nothing),
        _ => {
            let seen = Seen::Rows(vec![vec![small(random)]]);
            ("SELECT COUNT(*) FROM t WHERE v > 0".to_owned(), seen)
        }
    }
}
