//! What PostgreSQL is known for is said where a finding rests on it, and nowhere else.

use margay_history::{
    Access, History, HistoryBuilder, Interval, ObjectId, OpDetail, OpId, OpKind, TxnId, Version,
};
use margay_levels::Anomaly;
use margay_levels::profile::Granularity;
use margay_report::explain;
use margay_verdict::mechanism::{Certified, Locking, Mechanisms, Points, ReadView};
use margay_verdict::{Breach, Broken, Certificate, Edge, Finding, Lemma, Reason};

const INSERTER: TxnId = TxnId(0);
const DELETER: TxnId = TxnId(1);
const ROW: ObjectId = ObjectId(0);

/// What differs from the known story.
#[derive(Clone, Copy, Default)]
struct Twist {
    dbms: Option<&'static str>,
    level: Option<&'static str>,
    /// What the second transaction leaves instead of nothing.
    left: Option<i64>,
    /// A third transaction writes the row in between.
    third: bool,
    /// What is read in the end instead of the old version.
    again: Option<i64>,
    /// The client of the second transaction hears of its commit only when all is over.
    late: bool,
}

/// T1 reads a row, T2 deletes it, T1 inserts it and reads the old one again.
fn story(twist: Twist) -> History {
    let mut builder = HistoryBuilder::new();
    builder.header().dbms = Some(twist.dbms.unwrap_or("postgresql-15").to_owned());
    builder.header().level = Some(twist.level.unwrap_or("repeatable-read").to_owned());
    let table = builder.table("t");
    let key = builder.values().int(1);
    let object = builder.object(Some(table), key);
    let name = builder.values().intern_name("v");
    let row = |builder: &mut HistoryBuilder, v: i64| {
        let v = builder.values().int(v);
        builder.values().row(&[(name, v)])
    };
    let [old, new] = [1, 7].map(|v| row(&mut builder, v));
    let again = row(&mut builder, twist.again.unwrap_or(1));
    let left = twist.left.map_or(margay_history::ValueId::NULL, |v| row(&mut builder, v));
    builder.initial(object, old).expect("an initial value");
    let mut at = 0;
    let mut step = |txn: u64, kind: OpKind, value: Option<margay_history::ValueId>| {
        at += 10;
        let accesses: Vec<Access> = value.map(|value| Access { object, value }).into_iter().collect();
        let late = twist.late && txn == 2 && kind == OpKind::Commit;
        let interval = Interval { before: at, after: at + if late { 1000 } else { 5 } };
        builder.push(txn, txn, Some(interval), kind, &accesses, OpDetail::None).expect("an operation");
    };
    step(1, OpKind::Read, Some(old));
    step(2, OpKind::Write, Some(left));
    step(2, OpKind::Commit, None);
    if twist.third {
        step(3, OpKind::Write, Some(old));
        step(3, OpKind::Commit, None);
    }
    step(1, OpKind::Write, Some(new));
    step(1, OpKind::Read, Some(again));
    step(1, OpKind::Commit, None);
    builder.finish().expect("a history")
}

fn op(history: &History, number: u32) -> OpId {
    OpId(history.op_range(INSERTER).start + number)
}

fn cycle(edges: [(TxnId, TxnId, Reason); 2]) -> Certificate {
    let edges = edges.map(|(from, to, reason)| Edge { from, to, reason });
    Certificate::Refutation(vec![Lemma { edges: edges.to_vec() }])
}

fn lost_update(history: &History) -> Certificate {
    let anti = Reason::AntiRead { op: op(history, 0), object: ROW, version: Version::Initial };
    cycle([(INSERTER, DELETER, anti), (DELETER, INSERTER, Reason::Write { object: ROW })])
}

fn breach(broken: Broken) -> Certificate {
    let mechanisms = Mechanisms {
        view: ReadView::FirstRead,
        together: true,
        read_locks: false,
        write_locks: Some(Granularity::Row),
        first_updater_wins: true,
        skips_unchanged: false,
        locking: Locking::Snapshot,
        certifier: Certified::Committed,
        read_regions: false,
        write_regions: false,
        update_search: false,
        points: Some(Points::Commit),
    };
    Certificate::Intervals(Breach { profile: None, mechanisms, broken })
}

/// All that engines find in the story.
fn findings(history: &History) -> Vec<Certificate> {
    let again = op(history, 2);
    vec![
        lost_update(history),
        Certificate::Operations { anomaly: Anomaly::Internal, ops: vec![again] },
        breach(Broken::Read { op: again }),
        breach(Broken::Updates { object: ROW, txns: [INSERTER, DELETER] }),
    ]
}

fn is_known(history: &History, certificate: Certificate) -> bool {
    let finding = Finding { anomaly: Anomaly::Internal, txns: vec![INSERTER], certificate };
    let known = explain::known(history, &finding);
    assert_eq!(known.is_some(), explain::finding(history, &finding).contains("PostgreSQL is known"));
    known.is_some_and(|known| known.contains("T1 inserted t/1 after T2 had deleted it"))
}

#[test]
fn the_insertion_of_a_deleted_row_is_known() {
    let history = story(Twist::default());
    for certificate in findings(&history) {
        assert!(is_known(&history, certificate.clone()), "{certificate:?}");
    }
}

/// A regression: a busy client made the commits of deleter and inserter overlap, and nothing was
/// known of the finding. The deleter had written long before the inserter asked to commit, so it
/// came first.
#[test]
fn locks_tell_which_came_first_where_commits_overlap() {
    let history = story(Twist { late: true, ..Twist::default() });
    assert!(is_known(&history, lost_update(&history)));
}

#[test]
fn nothing_else_is() {
    let none = Twist::default();
    for twist in [
        Twist { dbms: Some("mariadb-10.11"), ..none },
        Twist { level: Some("serializable"), ..none },
        Twist { left: Some(3), ..none },
        Twist { third: true, ..none },
    ] {
        let history = story(twist);
        assert!(findings(&history).into_iter().all(|certificate| !is_known(&history, certificate)));
    }
    // A value that nobody left there is another matter.
    let history = story(Twist { again: Some(99), ..none });
    let garbage = Certificate::Operations { anomaly: Anomaly::Internal, ops: vec![op(&history, 2)] };
    assert!(!is_known(&history, garbage));
    // That the deletion comes first is enough for this cycle, and PostgreSQL promises that.
    let history = story(none);
    let read = Reason::Read { op: op(&history, 2), object: ROW };
    let seen = cycle([(DELETER, INSERTER, Reason::Write { object: ROW }), (INSERTER, DELETER, read)]);
    assert!(!is_known(&history, seen));
}

/// Most refutations have further cycles, which exclude the other orders; alone they leave a
/// possibility.
#[test]
fn one_cycle_is_enough_if_the_others_are_not() {
    let history = story(Twist::default());
    let Certificate::Refutation(mut lemmas) = lost_update(&history) else { panic!("cycles") };
    let other = Lemma {
        edges: vec![
            Edge { from: INSERTER, to: DELETER, reason: Reason::Write { object: ROW } },
            Edge { from: DELETER, to: INSERTER, reason: Reason::Write { object: ROW } },
        ],
    };
    lemmas.push(other.clone());
    assert!(is_known(&history, Certificate::Refutation(lemmas)));
    assert!(!is_known(&history, Certificate::Refutation(vec![other])));
}
