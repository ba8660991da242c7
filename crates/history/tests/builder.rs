//! What the builder accepts, what it refuses, and what a history costs.

use margay_history::{
    Access, History, HistoryBuilder, Interval, Invalid, OpDetail, OpKind, Outcome, TxnId, ValueId, Version,
};

/// A builder with the shorthands that these tests need.
#[derive(Default)]
struct Draft(HistoryBuilder);

impl Draft {
    fn access(&mut self, key: &str, value: i64) -> Access {
        let key = self.0.values().text(key);
        Access { object: self.0.object(None, key), value: self.0.values().int(value) }
    }

    fn op(&mut self, session: u64, txn: u64, kind: OpKind, key: &str, value: i64) -> Result<(), Invalid> {
        let access = self.access(key, value);
        self.0.push(session, txn, None, kind, &[access], OpDetail::None)
    }

    fn mark(&mut self, session: u64, txn: u64, kind: OpKind) -> Result<(), Invalid> {
        self.0.push(session, txn, None, kind, &[], OpDetail::None)
    }

    fn timed(&mut self, session: u64, txn: u64, at: (i64, i64)) -> Result<(), Invalid> {
        self.0.push(session, txn, Some(Interval::new(at.0, at.1)), OpKind::Commit, &[], OpDetail::None)
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Invalid>, part: &str) {
    let what = result.expect_err("this is not a history").what;
    assert!(what.contains(part), "{what:?} should say {part:?}");
}

#[test]
fn operations_come_out_session_by_session_in_program_order() {
    let mut b = Draft::default();
    b.op(7, 1, OpKind::Write, "x", 1).unwrap();
    b.op(3, 2, OpKind::Write, "x", 2).unwrap();
    b.op(7, 1, OpKind::Read, "y", 0).unwrap();
    b.mark(3, 2, OpKind::Abort).unwrap();
    b.mark(7, 1, OpKind::Commit).unwrap();
    b.op(3, 4, OpKind::Read, "x", 1).unwrap();
    let h = b.0.finish().unwrap();
    let labels: Vec<_> = h.txns().map(|t| h.txn_label(t)).collect();
    assert_eq!(labels, [2, 4, 1]);
    let outcomes: Vec<_> = h.txns().map(|t| h.outcome(t)).collect();
    assert_eq!(outcomes, [Outcome::Aborted, Outcome::Unknown, Outcome::Committed]);
    let kinds: Vec<_> = h.ops(TxnId(2)).map(|op| op.kind).collect();
    assert_eq!(kinds, [OpKind::Write, OpKind::Read, OpKind::Commit]);
    let read = h.ops(TxnId(1)).next().unwrap();
    assert_eq!(
        (h.show_object(read.accesses[0].object), h.show_value(read.accesses[0].value)),
        ("x".into(), "1".into())
    );
    assert_eq!((h.txn_of(read.id), h.op_index(read.id)), (TxnId(1), 0));
}

#[test]
fn what_a_session_cannot_do_is_refused() {
    let mut b = Draft::default();
    b.op(0, 1, OpKind::Write, "x", 1).unwrap();
    refused(b.op(1, 1, OpKind::Write, "x", 1), "belongs to session 0");
    refused(b.mark(0, 1, OpKind::Begin), "before its begin");
    b.op(0, 2, OpKind::Write, "x", 2).unwrap();
    refused(b.op(0, 1, OpKind::Read, "x", 1), "goes on after transaction 2");
    b.mark(0, 2, OpKind::Commit).unwrap();
    refused(b.op(0, 2, OpKind::Read, "x", 1), "after the end of transaction 2");
}

#[test]
fn time_must_run_forward() {
    let mut b = Draft::default();
    refused(b.timed(0, 1, (5, 4)), "time runs backwards");
    b.timed(0, 1, (10, 20)).unwrap();
    b.timed(0, 2, (3, 4)).unwrap();
    refused(b.0.finish(), "ended before transaction 1 of the same session");
    let mut b = Draft::default();
    b.0.push(0, 1, Some(Interval::new(8, 9)), OpKind::Begin, &[], OpDetail::None).unwrap();
    b.timed(0, 1, (3, 4)).unwrap();
    refused(b.0.finish(), "transaction 1 ended before it began");
}

#[test]
fn real_time_respects_skew_and_unknown_ends() {
    let build = |skew| {
        let mut b = Draft::default();
        b.0.header().skew = skew;
        b.timed(0, 1, (0, 10)).unwrap();
        b.timed(1, 2, (15, 20)).unwrap();
        b.0.finish().unwrap()
    };
    assert!(build(4).precedes(TxnId(0), TxnId(1)));
    assert!(!build(5).precedes(TxnId(0), TxnId(1)));
    let mut b = Draft::default();
    b.0.push(0, 1, Some(Interval::new(0, 1)), OpKind::Unknown, &[], OpDetail::None).unwrap();
    b.timed(1, 2, (15, 20)).unwrap();
    assert!(!b.0.finish().unwrap().precedes(TxnId(0), TxnId(1)), "it may still commit");
}

#[test]
fn evidence_must_be_about_what_is_there() {
    let draft = || {
        let mut b = Draft::default();
        b.op(0, 1, OpKind::Write, "x", 1).unwrap();
        b.op(1, 2, OpKind::Read, "x", 1).unwrap();
        b.0.at_place(17);
        let x = b.access("x", 0).object;
        (b.0, x)
    };
    let (mut b, x) = draft();
    b.version_order(x, vec![None, Some(1)]);
    b.version_set(2, 0, vec![(x, Some(1))]);
    b.commit(1, 5);
    let h = b.finish().unwrap();
    assert_eq!(h.evidence().version_orders[0].versions, [Version::Initial, Version::Of(TxnId(0))]);
    assert_eq!(h.evidence().commit(TxnId(0)), Some(5));

    type Give = fn(&mut HistoryBuilder, margay_history::ObjectId);
    let cases: [(Give, &str); 7] = [
        (|b, x| b.version_order(x, vec![Some(9)]), "transaction 9, which is not in the history"),
        (|b, x| b.version_order(x, vec![Some(2)]), "by transaction 2, which does not write it"),
        (|b, x| b.version_order(x, vec![Some(1), Some(1)]), "names one version twice"),
        (|b, x| b.version_order(x, vec![Some(1), None]), "the initial version comes first"),
        (|b, x| b.version_set(2, 5, vec![(x, None)]), "has no operation 5"),
        (|b, x| b.version_set(1, 0, vec![(x, None)]), "sees no versions"),
        (|b, _| (b.commit(1, 5), b.commit(1, 6)).0, "given before"),
    ];
    for (give, part) in cases {
        let (mut b, x) = draft();
        give(&mut b, x);
        let error = b.finish().expect_err(part);
        assert!(error.what.contains(part), "{error} should say {part:?}");
        assert_eq!(error.place, 17);
    }
}

#[test]
fn operations_must_be_what_their_kind_says() {
    let mut b = Draft::default();
    refused(b.0.push(0, 1, None, OpKind::Read, &[], OpDetail::None), "a read of no object");
    refused(b.0.push(0, 1, None, OpKind::Sql, &[], OpDetail::None), "without what it asked");
    let mut unknown = b.access("x", 0);
    unknown.value = ValueId::UNKNOWN;
    refused(b.0.push(0, 1, None, OpKind::Write, &[unknown], OpDetail::None), "without its value");
    assert!(b.0.push(0, 1, None, OpKind::Read, &[unknown], OpDetail::None).is_ok());
}

/// A timed history of `txns` transactions with 8 key-value operations each; the written values are
/// 64-bit, the costly kind.
fn large(txns: u64) -> History {
    let mut b = HistoryBuilder::new();
    let mut clock = 1_700_000_000_000_000_000;
    let mut at = || {
        clock += 1000;
        Some(Interval::new(clock, clock + 900))
    };
    for txn in 0..txns {
        let session = txn % 24;
        b.push(session, txn, at(), OpKind::Begin, &[], OpDetail::None).unwrap();
        for op in 0..8 {
            let key = b.values().int(((txn * 8 + op) * 7919 % 10_000) as i64);
            let object = b.object(None, key);
            let (kind, number) =
                if op % 2 == 0 { (OpKind::Write, txn * 8 + op) } else { (OpKind::Read, txn * 4) };
            let value = b.values().uint((1 << 40) + number);
            b.push(session, txn, at(), kind, &[Access { object, value }], OpDetail::None).unwrap();
        }
        b.push(session, txn, at(), OpKind::Commit, &[], OpDetail::None).unwrap();
    }
    b.finish().unwrap()
}

#[test]
fn a_key_value_operation_costs_at_most_40_bytes_all_told() {
    let txns = 50_000;
    let h = large(txns);
    let per_op = h.bytes() as f64 / (txns * 8) as f64;
    assert!(per_op <= 40.0, "{per_op} bytes per operation");
}

#[test]
fn a_history_equals_itself_whatever_the_order_of_arrival() {
    let build = |swap: bool| {
        let mut b = Draft::default();
        let mut ops = vec![(0, 1, "x", 1), (1, 2, "y", 2)];
        if swap {
            ops.reverse();
        }
        ops.into_iter().for_each(|(s, t, k, v)| b.op(s, t, OpKind::Write, k, v).unwrap());
        b.0.finish().unwrap()
    };
    assert_eq!(build(false).difference(&build(true)), None);
    let mut other = Draft::default();
    other.op(0, 1, OpKind::Write, "x", 1).unwrap();
    other.op(1, 2, OpKind::Write, "y", 3).unwrap();
    let difference = build(false).difference(&other.0.finish().unwrap());
    assert_eq!(difference.as_deref(), Some("T2: operation 0: value: \"2\" against \"3\""));
}
