//! Certificates of every kind, at every level that they are for.

use margay_audit::audit;
use margay_history::{History, ObjectId, OpId, TxnId, Version};
use margay_levels::{Anomaly, Level};
use margay_testkit::history;
use margay_verdict::{Certificate, Edge, Lemma, Order, Point, Question, ReadFrom, Reason, Versions};

fn txn(history: &History, label: u64) -> TxnId {
    history.find_txn(label).expect("a transaction of the test")
}

fn object(history: &History, name: &str) -> ObjectId {
    history.objects().find(|&o| history.show_object(o) == name).expect("an object of the test")
}

fn op(history: &History, label: u64, index: u32) -> OpId {
    OpId(history.op_range(txn(history, label)).start + index)
}

fn order(history: &History, labels: &[u64]) -> Certificate {
    let txns = labels.iter().map(|&label| txn(history, label)).collect();
    Certificate::Order(Order { txns, reads: Vec::new() })
}

/// `+1` begins, `-1` commits.
fn points(history: &History, labels: &[i64]) -> Certificate {
    let point = |&label: &i64| match txn(history, label.unsigned_abs()) {
        txn if label > 0 => Point::Begin(txn),
        txn => Point::Commit(txn),
    };
    Certificate::Points(labels.iter().map(point).collect())
}

fn versions(history: &History, orders: &[(&str, &[u64])], reads: &[(u64, u32, &str, u64)]) -> Certificate {
    let writers = |labels: &[u64]| labels.iter().map(|&label| txn(history, label)).collect();
    let orders = orders.iter().map(|(name, labels)| (object(history, name), writers(labels))).collect();
    let version = |label| if label == 0 { Version::Initial } else { Version::Of(txn(history, label)) };
    let read = |&(label, index, name, from): &(u64, u32, &str, u64)| ReadFrom {
        op: op(history, label, index),
        object: object(history, name),
        version: version(from),
    };
    Certificate::Versions(Versions { committed: Vec::new(), orders, reads: reads.iter().map(read).collect() })
}

fn wr(history: &History, from: u64, to: u64, index: u32, name: &str) -> Edge {
    let reason = Reason::Read { op: op(history, to, index), object: object(history, name) };
    Edge { from: txn(history, from), to: txn(history, to), reason }
}

fn ww(history: &History, from: u64, to: u64, name: &str) -> Edge {
    Edge {
        from: txn(history, from),
        to: txn(history, to),
        reason: Reason::Write { object: object(history, name) },
    }
}

fn rw(history: &History, from: u64, to: u64, index: u32, name: &str, version: u64) -> Edge {
    let version = if version == 0 { Version::Initial } else { Version::Of(txn(history, version)) };
    let reason = Reason::AntiRead { op: op(history, from, index), object: object(history, name), version };
    Edge { from: txn(history, from), to: txn(history, to), reason }
}

fn session(history: &History, from: u64, to: u64) -> Edge {
    Edge { from: txn(history, from), to: txn(history, to), reason: Reason::Session }
}

fn refutation(lemmas: Vec<Vec<Edge>>) -> Certificate {
    Certificate::Refutation(lemmas.into_iter().map(|edges| Lemma { edges }).collect())
}

fn accepted(history: &History, level: Level, certificate: &Certificate) -> bool {
    audit(history, Question::new(level), certificate).is_ok()
}

#[track_caller]
fn accepts(history: &History, level: Level, certificate: &Certificate) {
    if let Err(why) = audit(history, Question::new(level), certificate) {
        panic!("{level}: {why}");
    }
}

/// Exactly the levels at which a certificate is accepted.
fn levels(history: &History, certificate: &Certificate) -> Vec<Level> {
    Level::ALL.into_iter().filter(|&level| accepted(history, level, certificate)).collect()
}

#[test]
fn a_serial_order_proves_what_it_implies() {
    let h = history("init: x=0 | T1@s1: r(x,0) w(x,1) | T2@s1: r(x,1) w(x,2) | T3@s2: r(x,1)");
    assert_eq!(levels(&h, &order(&h, &[1, 3, 2])), Level::ALL);
    assert!(levels(&h, &order(&h, &[3, 1, 2])).is_empty());
    let h = history("init: x=0 | T1@s1: w(x,1) | T2@s1: r(x,0)");
    let without_sessions: Vec<Level> = Level::ALL.into_iter().filter(|l| !l.session_order()).collect();
    assert_eq!(levels(&h, &order(&h, &[2, 1])), without_sessions);
}

#[test]
fn the_committed_set_is_complete() {
    let h = history("T1: w(x,1) | T2: w(x,2) abort | T3: w(x,3) unknown | T4: r(x,1)");
    for good in [&[1, 4][..], &[1, 4, 3], &[3, 1, 4]] {
        accepts(&h, Level::Serializable, &order(&h, good));
    }
    for bad in [&[1][..], &[4, 1], &[1, 2, 4], &[1, 1, 4], &[1, 3, 4], &[1, 4, 2], &[]] {
        assert!(!accepted(&h, Level::Serializable, &order(&h, bad)), "{bad:?}");
    }
}

#[test]
fn real_time_counts_where_asked() {
    let h = history("init: x=0 | T1: w(x,1)@[10,20] | T2: r(x,0)@[30,40]");
    let certificate = order(&h, &[2, 1]);
    accepts(&h, Level::StrongSessionSerializable, &certificate);
    assert!(!accepted(&h, Level::StrictSerializable, &certificate));
    assert!(!accepted(&h, Level::StrictSnapshotIsolation, &certificate));
    let question = Question { real_time: true, ..Question::new(Level::Serializable) };
    assert!(audit(&h, question, &certificate).is_err());
    let cycle = refutation(vec![vec![
        rw(&h, 2, 1, 0, "x", 0),
        Edge { from: txn(&h, 1), to: txn(&h, 2), reason: Reason::RealTime },
    ]]);
    accepts(&h, Level::StrictSerializable, &cycle);
    assert!(audit(&h, question, &cycle).is_ok());
    assert!(!accepted(&h, Level::Serializable, &cycle));
}

#[test]
fn write_skew_by_points() {
    let h = history("init: x=0 y=0 | T1: r(x,0) r(y,0) w(x,1) | T2: r(x,0) r(y,0) w(y,1)");
    let overlap = points(&h, &[1, 2, -1, -2]);
    for level in Level::ALL {
        let expected = Level::StrictSnapshotIsolation.implies(level);
        assert_eq!(accepted(&h, level, &overlap), expected, "{level}");
    }
    let cycle = vec![rw(&h, 1, 2, 1, "y", 0), rw(&h, 2, 1, 0, "x", 0)];
    let refuted = refutation(vec![cycle]);
    let expected: Vec<Level> = Level::ALL.into_iter().filter(|l| l.implies(Level::RepeatableRead)).collect();
    assert_eq!(levels(&h, &refuted), expected);
}

#[test]
fn lost_update() {
    let h = history("init: x=0 | T1: r(x,0) w(x,1) | T2: r(x,0) w(x,2)");
    let overlap = points(&h, &[1, 2, -1, -2]);
    accepts(&h, Level::Prefix, &overlap);
    accepts(&h, Level::ReadCommitted, &overlap);
    assert!(!accepted(&h, Level::SnapshotIsolation, &overlap));
    assert!(!accepted(&h, Level::ParallelSnapshot, &overlap));
    let one = vec![rw(&h, 2, 1, 0, "x", 0), ww(&h, 1, 2, "x")];
    let other = vec![rw(&h, 1, 2, 0, "x", 0), ww(&h, 2, 1, "x")];
    for level in
        [Level::SnapshotIsolation, Level::ParallelSnapshot, Level::RepeatableRead, Level::Serializable]
    {
        accepts(&h, level, &refutation(vec![one.clone(), other.clone()]));
        assert!(!accepted(&h, level, &refutation(vec![one.clone()])), "one half is not enough");
    }
    for level in [Level::Prefix, Level::Causal, Level::ReadCommitted] {
        assert!(!accepted(&h, level, &refutation(vec![one.clone(), other.clone()])), "{level}");
    }
}

#[test]
fn a_long_fork_is_allowed_by_parallel_snapshot() {
    let h = history("init: x=0 y=0 | T1: w(x,1) | T2: w(y,1) | T3: r(x,1) r(y,0) | T4: r(x,0) r(y,1)");
    let certificate = versions(&h, &[], &[]);
    let expected = [
        Level::ReadUncommitted,
        Level::ReadCommitted,
        Level::BeReadCommitted,
        Level::ReadAtomic,
        Level::Causal,
        Level::ParallelSnapshot,
    ];
    assert_eq!(levels(&h, &certificate), expected);
    let cycle =
        vec![wr(&h, 1, 3, 0, "x"), rw(&h, 3, 2, 1, "y", 0), wr(&h, 2, 4, 1, "y"), rw(&h, 4, 1, 0, "x", 0)];
    let refuted = refutation(vec![cycle]);
    let expected: Vec<Level> = Level::ALL
        .into_iter()
        .filter(|l| {
            [Level::RepeatableRead, Level::Prefix, Level::SnapshotIsolation].iter().any(|&m| l.implies(m))
        })
        .collect();
    assert_eq!(levels(&h, &refuted), expected);
}

#[test]
fn version_orders_of_stronger_levels_are_unrolled() {
    let h = history("init: x=0 y=0 | T1: r(x,0) w(x,1) | T2: r(x,1) w(x,2) w(y,5) | T3: r(y,5) r(x,2)");
    let certificate = versions(&h, &[("x", &[1, 2])], &[]);
    assert_eq!(levels(&h, &certificate), Level::ALL);
    assert!(levels(&h, &versions(&h, &[("x", &[2, 1])], &[])) == [Level::ReadUncommitted]);
}

#[test]
fn what_values_do_not_tell_the_certificate_says() {
    let h = history("T1: w(x,1) | T2: w(x,1) | T3: r(x,1)");
    assert!(!accepted(&h, Level::ReadCommitted, &versions(&h, &[("x", &[1, 2])], &[])));
    accepts(&h, Level::ReadCommitted, &versions(&h, &[("x", &[1, 2])], &[(3, 0, "x", 1)]));
    accepts(&h, Level::Serializable, &versions(&h, &[("x", &[1, 2])], &[(3, 0, "x", 2)]));
    assert!(!accepted(&h, Level::ReadCommitted, &versions(&h, &[("x", &[1, 2])], &[(3, 0, "x", 0)])));
}

#[test]
fn commit_orders_satisfy_axioms() {
    let h = history("init: x=0 y=0 | T1: w(x,1) w(y,1) | T2: r(x,1) r(y,0)");
    assert_eq!(levels(&h, &order(&h, &[1, 2])), Vec::<Level>::new());
    accepts(&h, Level::ReadCommitted, &versions(&h, &[], &[]));
    let visible = vec![rw(&h, 2, 1, 1, "y", 0), wr(&h, 1, 2, 0, "x")];
    let refuted = refutation(vec![visible]);
    for level in
        [Level::BeReadCommitted, Level::ReadAtomic, Level::Causal, Level::Prefix, Level::SnapshotIsolation]
    {
        accepts(&h, level, &refuted);
    }
    assert!(!accepted(&h, Level::ReadCommitted, &refuted));
    let h = history("init: x=0 y=0 | T1: w(x,1) w(y,1) | T2: r(y,0) r(x,1)");
    let certificate = order(&h, &[1, 2]);
    accepts(&h, Level::BeReadCommitted, &certificate);
    assert!(!accepted(&h, Level::ReadAtomic, &certificate));
    let refuted = refutation(vec![vec![rw(&h, 2, 1, 0, "y", 0), wr(&h, 1, 2, 1, "x")]]);
    assert!(!accepted(&h, Level::BeReadCommitted, &refuted));
    accepts(&h, Level::ReadAtomic, &refuted);
}

#[test]
fn causality() {
    let h = history("init: x=0 y=0 | T1: w(x,1) | T2: r(x,1) w(y,1) | T3: r(y,1) r(x,0)");
    let certificate = order(&h, &[1, 2, 3]);
    accepts(&h, Level::ReadAtomic, &certificate);
    assert!(!accepted(&h, Level::Causal, &certificate));
    let refuted = refutation(vec![vec![rw(&h, 3, 1, 1, "x", 0), wr(&h, 1, 2, 0, "x"), wr(&h, 2, 3, 0, "y")]]);
    accepts(&h, Level::Causal, &refuted);
    assert!(!accepted(&h, Level::ReadAtomic, &refuted));
    let h = history("T1@s1: w(x,1) | T2@s1: w(x,2) | T3@s2: r(x,2) | T4@s2: r(x,1)");
    assert!(!accepted(&h, Level::Causal, &order(&h, &[1, 2, 3, 4])));
    let to_second = Reason::Visible {
        op: op(&h, 4, 0),
        object: object(&h, "x"),
        path: vec![wr(&h, 2, 3, 0, "x"), session(&h, 3, 4)],
    };
    let edge = Edge { from: txn(&h, 2), to: txn(&h, 1), reason: to_second };
    accepts(&h, Level::Causal, &refutation(vec![vec![edge.clone(), session(&h, 1, 2)]]));
    assert!(!accepted(&h, Level::ReadAtomic, &refutation(vec![vec![edge, session(&h, 1, 2)]])));
}

#[test]
fn single_operations() {
    use Anomaly::{
        DuplicateElements, FutureRead, G1a, G1b, GarbageRead, IncompatibleOrder, Internal, PredicateReadMiss,
        ResultMismatch,
    };
    let cases: &[(Anomaly, &str, u64, u32)] = &[
        (GarbageRead, "init: x=0 | T1: r(x,7)", 1, 0),
        (DuplicateElements, "T1: a(x,1) | T2: r(x,[1 1])", 2, 0),
        (G1a, "T1: w(x,1) abort | T2: r(x,1)", 2, 0),
        (G1b, "T1: w(x,1) w(x,2) | T2: r(x,1)", 2, 0),
        (G1b, "T1: a(x,1) a(x,2) | T2: r(x,[1])", 2, 0),
        (Internal, "init: x=0 | T1: w(x,1) r(x,0)", 1, 1),
        (Internal, "T1: a(x,1) r(x,[]) ", 1, 1),
        (FutureRead, "T1: r(x,1) w(x,1)", 1, 0),
        (PredicateReadMiss, "init: t/1={v:9} | T1: w(t/1,{v:8}) | T2: scan(t, v > 5){}", 2, 0),
        (ResultMismatch, "init: t/1={v:3} | T1: scan(t, v > 5){1:{v:3}}", 1, 0),
        // Each column was written, but no version has both: this was called an intermediate read,
        // of nobody's.
        (ResultMismatch, "T1: w(t/1,{v:1 w:1}) | T2: w(t/1,{v:2 w:2}) | T3: r(t/1,{v:1 w:2})", 3, 0),
    ];
    for &(anomaly, text, label, index) in cases {
        let h = history(text);
        let ops = vec![op(&h, label, index)];
        let weakest = match anomaly {
            GarbageRead | DuplicateElements => Level::ReadUncommitted,
            _ => Level::ReadCommitted,
        };
        let expected: Vec<Level> = Level::ALL.into_iter().filter(|l| l.implies(weakest)).collect();
        assert_eq!(levels(&h, &Certificate::Operations { anomaly, ops: ops.clone() }), expected, "{text}");
        for &other in Anomaly::ALL {
            let certificate = Certificate::Operations { anomaly: other, ops: ops.clone() };
            let kin = other == anomaly || (anomaly, other) == (G1a, Anomaly::DirtyUpdate);
            // Whatever else is wrong with it, the answer is wrong.
            let loose = other == ResultMismatch && accepted(&h, Level::Serializable, &certificate);
            assert!(kin || loose || levels(&h, &certificate).is_empty(), "{text} is no {other}");
        }
    }
    let h = history("T1: a(x,1) | T2: a(x,2) | T3: r(x,[1 2]) | T4: r(x,[2 1])");
    let ops = vec![op(&h, 3, 0), op(&h, 4, 0)];
    accepts(
        &h,
        Level::ReadCommitted,
        &Certificate::Operations { anomaly: IncompatibleOrder, ops: ops.clone() },
    );
    let fine = history("T1: a(x,1) | T2: a(x,2) | T3: r(x,[1 2]) | T4: r(x,[1])");
    assert!(levels(&fine, &Certificate::Operations { anomaly: IncompatibleOrder, ops }).is_empty());
}

#[test]
fn elements_of_one_transaction_in_another_order() {
    let shown = |text: &str, label| {
        let h = history(text);
        let ops = vec![op(&h, label, 0)];
        Anomaly::ALL.iter().any(|&anomaly| {
            accepted(&h, Level::Serializable, &Certificate::Operations { anomaly, ops: ops.clone() })
        })
    };
    assert!(shown("T1: a(x,5) a(x,6) | T2: r(x,[6 5])", 2));
    assert!(!shown("T1: a(x,5) a(x,6) | T2: r(x,[5 6])", 2));
    assert!(
        !shown("T1: a(x,5) abort | T2: a(x,6) a(x,5) | T3: r(x,[6 5])", 3),
        "the aborted append is not its own"
    );
}

#[test]
fn single_operations_need_certainty() {
    let g1a =
        |h: &History, label| Certificate::Operations { anomaly: Anomaly::G1a, ops: vec![op(h, label, 0)] };
    let h = history("T1: w(x,1) unknown | T2: r(x,1)");
    assert!(levels(&h, &g1a(&h, 2)).is_empty(), "an unknown writer may have committed");
    let h = history("T1: w(x,1) abort | T2: r(x,1) abort");
    assert!(levels(&h, &g1a(&h, 2)).is_empty(), "nothing is asked of an aborted reader");
    let h = history("T1: w(x,1) abort | T3: w(x,1) | T2: r(x,1)");
    assert!(levels(&h, &g1a(&h, 2)).is_empty(), "another writer explains it");
}

#[test]
fn lists_tell_the_order_of_their_writers() {
    let h = history("T1: a(x,1) a(x,3) | T2: a(x,2) | T3: r(x,[1 2 3])");
    let g0 = refutation(vec![vec![ww(&h, 1, 2, "x"), ww(&h, 2, 1, "x")]]);
    accepts(&h, Level::ReadUncommitted, &g0);
    let h = history("T1: a(x,1) | T2: a(x,2) r(y,_) | T3: r(x,[1 2]) | T4: a(y,1) r(x,[1])");
    assert!(levels(&h, &refutation(vec![vec![ww(&h, 1, 2, "x"), ww(&h, 2, 1, "x")]])).is_empty());
    let cycle = vec![rw(&h, 2, 4, 1, "y", 0), rw(&h, 4, 2, 1, "x", 1)];
    accepts(&h, Level::Serializable, &refutation(vec![cycle]));
    let unseen = history("T1: a(x,1) | T2: a(x,2) | T3: r(x,[1])");
    let wrong = refutation(vec![vec![
        rw(&unseen, 3, 2, 0, "x", 1),
        ww(&unseen, 2, 1, "x"),
        wr(&unseen, 1, 3, 0, "x"),
    ]]);
    assert!(levels(&unseen, &wrong).is_empty(), "the unseen element comes later");
}

#[test]
fn unknown_outcomes_are_open() {
    let h = history("init: x=0 y=0 | T1: r(x,0) w(y,1) unknown | T2: r(y,0) w(x,1)");
    let cycle = vec![rw(&h, 1, 2, 0, "x", 0), rw(&h, 2, 1, 0, "y", 0)];
    assert!(levels(&h, &refutation(vec![cycle.clone()])).is_empty(), "T1 need not have committed");
    let h = history("init: x=0 y=0 | T1: r(x,0) w(y,1) unknown | T2: r(y,0) w(x,1) | T3: r(y,1)");
    let cycle = vec![rw(&h, 1, 2, 0, "x", 0), rw(&h, 2, 1, 0, "y", 0)];
    let seen = vec![wr(&h, 1, 3, 0, "y"), rw(&h, 3, 1, 0, "y", 0)];
    accepts(&h, Level::Serializable, &refutation(vec![cycle.clone()]));
    accepts(&h, Level::Serializable, &refutation(vec![cycle, seen]));
    let h = history("T1: a(x,1) a(x,3) unknown | T2: a(x,2) | T3: r(x,[1 2 3])");
    let cycle = vec![ww(&h, 1, 2, "x"), ww(&h, 2, 1, "x")];
    accepts(&h, Level::ReadCommitted, &refutation(vec![cycle.clone()]));
    assert!(
        !accepted(&h, Level::ReadUncommitted, &refutation(vec![cycle])),
        "being seen uncommitted proves nothing"
    );
}

#[test]
fn predicates_choose_versions() {
    let h = history("init: t/1={v:9} | T1: w(t/1,{v:3}) | T2: scan(t, v > 5){} scan(t, v > 5){1:{v:9}}");
    accepts(&h, Level::ReadCommitted, &versions(&h, &[], &[]));
    assert!(!accepted(&h, Level::Serializable, &versions(&h, &[], &[])));
    let cycle = vec![wr(&h, 1, 2, 0, "t/1"), rw(&h, 2, 1, 1, "t/1", 0)];
    for level in [Level::RepeatableRead, Level::SnapshotIsolation, Level::ReadAtomic] {
        accepts(&h, level, &refutation(vec![cycle.clone()]));
    }
    let h = history("T1: scan(t, v > 5){} w(t/1,{v:9}) | T2: scan(t, v > 5){} w(t/2,{v:9})");
    let cycle = vec![rw(&h, 1, 2, 0, "t/2", 0), rw(&h, 2, 1, 0, "t/1", 0)];
    accepts(&h, Level::Serializable, &refutation(vec![cycle.clone()]));
    assert!(
        !accepted(&h, Level::RepeatableRead, &refutation(vec![cycle])),
        "an anti-dependency over a predicate"
    );
}

#[test]
fn updates_compute() {
    let h = history(
        "init: t/1={v:6 w:1} | T1: upd(t, v > 5, v = v + 1){1:{v:7}} | T2: upd(t, v > 6, w = v){1:{v:7 w:7}} | T3: r(t/1,{v:7 w:7})",
    );
    assert_eq!(levels(&h, &order(&h, &[1, 2, 3])), Level::ALL);
    assert!(!accepted(&h, Level::Serializable, &order(&h, &[2, 1, 3])));
    let certificate = versions(&h, &[("t/1", &[1, 2])], &[]);
    accepts(&h, Level::ReadCommitted, &certificate);
    accepts(&h, Level::Serializable, &certificate);
    let h = history("init: t/1={v:6} | T1: upd(t, v > 5, v = v + 1) | T2: r(t/1,{v:7})");
    accepts(&h, Level::StrictSerializable, &order(&h, &[1, 2]));
    accepts(&h, Level::SnapshotIsolation, &points(&h, &[1, -1, 2, -2]));
    assert!(
        !accepted(&h, Level::ReadCommitted, &versions(&h, &[], &[])),
        "nobody saw which rows were updated"
    );
}

#[test]
fn evidence_narrows() {
    let h = history("T1: w(x,1) | T2: w(x,2) | order x: T2 T1");
    assert!(!accepted(&h, Level::Serializable, &order(&h, &[1, 2])));
    accepts(&h, Level::Serializable, &order(&h, &[2, 1]));
    accepts(&h, Level::ReadUncommitted, &versions(&h, &[("x", &[2, 1])], &[]));
    assert!(!accepted(&h, Level::ReadUncommitted, &versions(&h, &[("x", &[1, 2])], &[])));
    let h = history("T1: w(x,1) | T2: w(x,1) | T3: r(x,1) | saw T3.0 x=T1");
    assert!(!accepted(&h, Level::Serializable, &order(&h, &[1, 2, 3])));
    accepts(&h, Level::Serializable, &order(&h, &[2, 1, 3]));
    let h = history("T1: w(x,1) | T2: w(y,1) | T3: r(x,1) | commit T1=5 | snapshot T3=3");
    assert!(!accepted(&h, Level::SnapshotIsolation, &points(&h, &[1, -1, 3, -3, 2, -2])));
    let h = history("T1: w(x,1) | T2: w(y,1) | serialization T1=2 | serialization T2=1");
    assert!(!accepted(&h, Level::Serializable, &order(&h, &[1, 2])));
    accepts(&h, Level::Serializable, &order(&h, &[2, 1]));
    accepts(&h, Level::SnapshotIsolation, &order(&h, &[1, 2]));
}

#[test]
fn uncommitted_reads_are_free_but_for_garbage() {
    let h = history("T1: w(x,1) w(x,2) abort | T2: r(x,1) w(y,3) | T3: r(y,3) w(x,4)");
    accepts(&h, Level::ReadUncommitted, &versions(&h, &[], &[]));
    let h = history("T1: w(x,1) | T2: r(x,9)");
    assert!(!accepted(&h, Level::ReadUncommitted, &versions(&h, &[], &[])));
    let h = history("T1: a(x,1) | T2: r(x,[1 1])");
    assert!(!accepted(&h, Level::ReadUncommitted, &versions(&h, &[], &[])));
    let h = history("T1: a(x,1) a(x,3) | T2: a(x,2) | T3: r(x,[1 2 3])");
    for order in [[1, 2], [2, 1]] {
        assert!(!accepted(&h, Level::ReadUncommitted, &versions(&h, &[("x", &order)], &[])));
    }
}

#[test]
fn nothing_that_is_not_there_is_accepted() {
    let h = history("T1: w(x,1) | T2: r(x,1)");
    let (far, there) = (TxnId(99), txn(&h, 1));
    let edge = |reason| Edge { from: there, to: far, reason };
    let nonsense = [
        Certificate::Order(Order { txns: vec![far], reads: Vec::new() }),
        Certificate::Points(vec![Point::Begin(far)]),
        Certificate::Versions(Versions { committed: vec![far], ..Versions::default() }),
        Certificate::Versions(Versions { orders: vec![(ObjectId(77), vec![there])], ..Versions::default() }),
        Certificate::Versions(Versions {
            orders: vec![(ObjectId(0), vec![there]), (ObjectId(0), Vec::new())],
            ..Versions::default()
        }),
        Certificate::Operations { anomaly: Anomaly::G1a, ops: vec![OpId(99)] },
        Certificate::Operations { anomaly: Anomaly::G1a, ops: Vec::new() },
        Certificate::Refutation(Vec::new()),
        Certificate::Refutation(vec![Lemma { edges: Vec::new() }]),
        Certificate::Refutation(vec![Lemma { edges: vec![edge(Reason::Session)] }]),
        Certificate::Refutation(vec![Lemma { edges: vec![edge(Reason::Write { object: ObjectId(77) })] }]),
    ];
    for certificate in nonsense {
        assert!(levels(&h, &certificate).is_empty(), "{certificate:?}");
    }
}

/// An assignment may name a column that no value of the history has: nobody can have seen it, and
/// nothing can be asked about it.
#[test]
fn a_column_that_only_an_assignment_names_is_no_harm() {
    let h = history(
        "init: t/1={v:0} | T1: upd(t, v = 0, w = 5){1:{v:0}} unknown | T2: w(t/1,{v:1}) | T3: r(t/1,{v:0})",
    );
    let lemma = Lemma { edges: vec![ww(&h, 1, 2, "t/1"), ww(&h, 2, 1, "t/1")] };
    for level in Level::ALL {
        let answer = audit(&h, Question::new(level), &Certificate::Refutation(vec![lemma.clone()]));
        assert!(answer.is_err(), "{level}");
    }
}
