//! How long engine infer takes, and in how much memory.
//!
//! `cargo bench -p margay-infer` runs each case in a process of its own, so that the peaks of
//! memory do not mix, and prints a table; `-- PART` runs the cases whose name has PART. Seconds are
//! those of the check alone, by the clock and by the processor; the peak includes the history.
//!
//! The histories are serial executions dealt out to 50 sessions at random, with time. Registers: 8
//! operations, half of them reads, as many keys as a tenth of the transactions. Updates: the same
//! with 4 operations, and who writes a register has read it before. Lists: 4 operations, half of
//! them reads; a list gets at most 32 elements. Stale lists: one read in a thousand misses the last
//! element.

use margay_history::{Access, History, HistoryBuilder, Interval, OpDetail, OpKind, ValueId};
use margay_infer::Infer;
use margay_levels::Level;
use margay_testkit::bench::{Bench, measured, word};
use margay_verdict::{Budget, Checker, Question};

const SESSIONS: u64 = 50;

struct Case {
    name: &'static str,
    txns: u64,
    level: Level,
    make: fn(u64) -> History,
    goal: &'static str,
}

fn cases() -> Vec<Case> {
    let case = |name, txns, level, make, goal| Case { name, txns, level, make, goal };
    let (lists, stale, registers, updates) =
        (lists as fn(u64) -> _, stale as _, registers as _, updates as _);
    vec![
        case("lists", 100_000, Level::Serializable, lists, "1 s"),
        case("lists", 100_000, Level::StrictSerializable, lists, "1 s"),
        case("lists", 100_000, Level::SnapshotIsolation, lists, "1 s"),
        case("lists", 100_000, Level::ReadCommitted, lists, "1 s"),
        case("lists", 1_000_000, Level::Serializable, lists, "15 s"),
        case("lists", 1_000_000, Level::StrictSerializable, lists, "15 s"),
        case("stale lists", 100_000, Level::StrictSerializable, stale, "1 s"),
        case("stale lists", 1_000_000, Level::StrictSerializable, stale, "15 s"),
        case("updates", 100_000, Level::StrictSerializable, updates, "1 s"),
        case("updates", 1_000_000, Level::Serializable, updates, "15 s"),
        case("updates", 1_000_000, Level::StrictSerializable, updates, "15 s"),
        case("registers", 100_000, Level::Causal, registers, ""),
        case("registers", 1_000_000, Level::ReadCommitted, registers, "3 s, 1.5 GB"),
        case("registers", 1_000_000, Level::BeReadCommitted, registers, "3 s, 1.5 GB"),
        case("registers", 1_000_000, Level::ReadAtomic, registers, "3 s, 1.5 GB"),
        case("registers", 1_000_000, Level::Causal, registers, "6 s, 1.5 GB"),
    ]
}

fn main() {
    let cases = cases();
    Bench {
        head: "| case | level | transactions | verdict | seconds | CPU s | peak, MB | goal |\n|---|---|---:|---|---:|---:|---:|---|",
        names: cases.iter().map(|case| case.name).collect(),
        child: &|number| child(&cases[number]),
        row: &|number, said| {
            let case = &cases[number];
            format!("| {} | {} | {} | {said} | {} |", case.name, case.level, case.txns, case.goal)
        },
    }
    .main();
}

fn child(case: &Case) -> String {
    let history = (case.make)(case.txns);
    let question = Question::new(case.level);
    let (verdict, cost) = measured(|| Infer::DEFAULT.check(&history, question, &Budget::unlimited()));
    format!("{} | {cost}", word(&verdict))
}

/// A stream of numbers, always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

fn registers(txns: u64) -> History {
    let (mut random, mut b) = (Random(42), HistoryBuilder::new());
    let keys = txns / 10;
    let mut current = vec![ValueId::NULL; keys as usize];
    let mut written = 0;
    for txn in 0..txns {
        let session = random.below(SESSIONS);
        for _ in 0..8 {
            let place = random.below(keys);
            let key = b.values().int(place as i64);
            let object = b.object(None, key);
            let kind = if random.below(2) == 0 { OpKind::Read } else { OpKind::Write };
            if kind == OpKind::Write {
                written += 1;
                current[place as usize] = b.values().int(written);
            }
            push(&mut b, session, txn, kind, &[Access { object, value: current[place as usize] }]);
        }
        push(&mut b, session, txn, OpKind::Commit, &[]);
    }
    b.finish().expect("a valid history")
}

fn updates(txns: u64) -> History {
    let (mut random, mut b) = (Random(42), HistoryBuilder::new());
    let keys = txns / 10;
    let mut current = vec![ValueId::NULL; keys as usize];
    let mut written = 0;
    for txn in 0..txns {
        let session = random.below(SESSIONS);
        for _ in 0..2 {
            let place = random.below(keys);
            let key = b.values().int(place as i64);
            let object = b.object(None, key);
            push(&mut b, session, txn, OpKind::Read, &[Access { object, value: current[place as usize] }]);
            if random.below(4) > 0 {
                written += 1;
                current[place as usize] = b.values().int(written);
                push(
                    &mut b,
                    session,
                    txn,
                    OpKind::Write,
                    &[Access { object, value: current[place as usize] }],
                );
            }
        }
        push(&mut b, session, txn, OpKind::Commit, &[]);
    }
    b.finish().expect("a valid history")
}

fn lists(txns: u64) -> History {
    lists_where(txns, u64::MAX)
}

fn stale(txns: u64) -> History {
    lists_where(txns, 1000)
}

/// One read in `stale` misses the last element.
fn lists_where(txns: u64, stale: u64) -> History {
    let (mut random, mut b) = (Random(42), HistoryBuilder::new());
    let mut open: Vec<(i64, Vec<ValueId>)> = (0..20).map(|key| (key, Vec::new())).collect();
    let (mut keys, mut written) = (20, 0);
    for txn in 0..txns {
        let session = random.below(SESSIONS);
        for _ in 0..4 {
            let (key, list) = &mut open[random.below(20) as usize];
            let name = b.values().int(*key);
            let object = b.object(None, name);
            if random.below(2) == 0 {
                let seen = if stale < u64::MAX && random.below(stale) == 0 {
                    list.len().saturating_sub(1)
                } else {
                    list.len()
                };
                let value = b.values().list(&list[..seen]);
                push(&mut b, session, txn, OpKind::Read, &[Access { object, value }]);
                continue;
            }
            written += 1;
            let value = b.values().int(written);
            list.push(value);
            push(&mut b, session, txn, OpKind::Append, &[Access { object, value }]);
            if list.len() == 32 {
                list.clear();
                *key = keys;
                keys += 1;
            }
        }
        push(&mut b, session, txn, OpKind::Commit, &[]);
    }
    b.finish().expect("a valid history")
}

fn push(b: &mut HistoryBuilder, session: u64, txn: u64, kind: OpKind, accesses: &[Access]) {
    let at = Some(Interval::new(10 * txn as i64, 10 * txn as i64 + 5));
    b.push(session, txn, at, kind, accesses, OpDetail::None).expect("a valid operation");
}
