//! Random logs of a few transactions.

use margay_history::{History, OpKind};
use margay_sql::Value;

use super::Random;
use super::log::{Log, Seen};

/// A random log of a few transactions, with results that may or may not be right.
pub fn tiny(seed: u64) -> History {
    let mut random = Random(seed);
    let mut log = Log::register(&[(1, random.below(3) as i64), (2, random.below(3) as i64)]);
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
