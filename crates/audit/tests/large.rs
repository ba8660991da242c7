//! Audits of large certificates: near-linear, so that the test ends. `MARGAY_LARGE` is the number
//! of transactions.

use std::time::Instant;

use margay_audit::audit;
use margay_history::{Access, History, HistoryBuilder, Interval, ObjectId, OpDetail, OpKind, TxnId};
use margay_levels::Level;
use margay_testkit::Rng;
use margay_verdict::{Certificate, Edge, Lemma, Order, Point, Question, Reason, Versions};

const SESSIONS: usize = 24;

/// Serial transactions of eight operations on registers and a few lists, with times; and the order
/// in which they ran.
fn serial(txns: usize) -> (History, Vec<TxnId>) {
    let mut rng = Rng::new(7);
    let mut builder = HistoryBuilder::new();
    let objects: Vec<ObjectId> = (0..txns / 4 + 10)
        .map(|key| {
            let key = builder.values().int(key as i64);
            builder.object(None, key)
        })
        .collect();
    let zero = builder.values().int(0);
    let mut state = vec![zero; objects.len()];
    for &object in &objects {
        builder.initial(object, zero).expect("given once");
    }
    let (mut next, mut sessions) = (1, Vec::new());
    for txn in 0..txns {
        let session = rng.below(SESSIONS) as u64;
        sessions.push(session);
        for i in 0..8 {
            let at = Some(Interval::new((txn * 10 + i) as i64, (txn * 10 + i) as i64));
            let object = rng.below(objects.len());
            let kind = if i % 2 == 0 { OpKind::Read } else { OpKind::Write };
            if kind == OpKind::Write {
                state[object] = builder.values().int(next);
                next += 1;
            }
            let access = Access { object: objects[object], value: state[object] };
            builder.push(session, txn as u64, at, kind, &[access], OpDetail::None).expect("a good operation");
        }
        let at = Some(Interval::new((txn * 10 + 8) as i64, (txn * 10 + 9) as i64));
        builder.push(session, txn as u64, at, OpKind::Commit, &[], OpDetail::None).expect("a good end");
    }
    let history = builder.finish().expect("a good history");
    let mut order: Vec<TxnId> = history.txns().collect();
    order.sort_by_key(|&txn| history.txn_label(txn));
    (history, order)
}

fn version_orders(history: &History, order: &[TxnId]) -> Versions {
    let mut orders = vec![Vec::new(); history.object_count()];
    for &txn in order {
        for op in history.ops(txn).filter(|op| op.kind == OpKind::Write) {
            let writers: &mut Vec<TxnId> = &mut orders[op.accesses[0].object.index()];
            if writers.last() != Some(&txn) {
                writers.push(txn);
            }
        }
    }
    let orders = orders.into_iter().enumerate().map(|(i, writers)| (ObjectId::at(i), writers));
    Versions { orders: orders.filter(|o| !o.1.is_empty()).collect(), ..Versions::default() }
}

fn timed(history: &History, level: Level, certificate: &Certificate) {
    let start = Instant::now();
    audit(history, Question::new(level), certificate).unwrap_or_else(|why| panic!("{level}: {why}"));
    println!("{level}: {:.2?}", start.elapsed());
}

#[test]
fn large_certificates_are_audited_fast() {
    let txns = std::env::var("MARGAY_LARGE").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let (history, order) = serial(txns);
    let serial = Certificate::Order(Order { txns: order.clone(), reads: Vec::new() });
    timed(&history, Level::StrictSerializable, &serial);
    let points = order.iter().flat_map(|&t| [Point::Begin(t), Point::Commit(t)]).collect();
    let points = Certificate::Points(points);
    timed(&history, Level::StrictSnapshotIsolation, &points);
    timed(&history, Level::Prefix, &points);
    let versions = Certificate::Versions(version_orders(&history, &order));
    for level in [
        Level::ReadUncommitted,
        Level::ReadCommitted,
        Level::RepeatableRead,
        Level::ParallelSnapshot,
        Level::ReadAtomic,
        Level::Causal,
        Level::StrictSerializable,
    ] {
        timed(&history, level, &versions);
    }
}

#[test]
fn one_cycle_in_a_large_history_is_audited_fast() {
    let (history, order) = serial(20_000);
    let writer =
        |txn: &TxnId| history.ops(*txn).find(|op| op.kind == OpKind::Write).map(|op| op.accesses[0].object);
    let object = writer(&order[0]).expect("everyone writes");
    let start = Instant::now();
    let back = Edge { from: order[9], to: order[3], reason: Reason::RealTime };
    let forth = Edge { from: order[3], to: order[9], reason: Reason::Write { object } };
    let certificate = Certificate::Refutation(vec![Lemma { edges: vec![back, forth] }]);
    assert!(audit(&history, Question::new(Level::StrictSerializable), &certificate).is_err());
    println!("a cycle: {:.2?}", start.elapsed());
}
