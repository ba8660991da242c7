//! What has no order in real time is shown by a few objects, and the audit tells a true proof from
//! a false one.

use margay_audit::audit;
use margay_audit::dead_end;
use margay_follow::Follow;
use margay_history::{History, HistoryBuilder, ObjectId, TxnId, ValueId};
use margay_levels::Level;
use margay_testkit::{Rng, history, random, show};
use margay_verdict::{Budget, Certificate, Checker, Claim, DeadEnd, Finding, Question, Verdict, wire};

fn ask(history: &History, level: Level) -> Verdict {
    Follow.check(history, Question::new(level), &Budget::unlimited())
}

fn finding(history: &History, level: Level) -> Finding {
    match ask(history, level) {
        Verdict::Violated(findings) => findings.into_iter().next().expect("a finding"),
        other => panic!("{other:?}"),
    }
}

/// Withdrawals from two accounts of one customer, after payments that made the same balances as
/// before: values repeat, so no read tells which payment it saw.
const WRITE_SKEW: &str = "init: x=50 y=50 z=0 \
    | T1: w(x,70)@[1,2] | T2: w(y,70)@[1,2] | T3: w(x,50)@[3,4] | T4: w(y,50)@[3,4] | T5: w(z,1)@[5,6] \
    | T6: r(x,50)@[10,11] r(y,50)@[12,13] w(x,-40)@[14,20] \
    | T7: r(x,50)@[10,11] r(y,50)@[12,13] w(y,-40)@[14,20] | T8: r(x,-40; y,-40)@[30,31]";

#[test]
fn write_skew_over_values_that_repeat() {
    let history = history(WRITE_SKEW);
    let finding = finding(&history, Level::StrictSerializable);
    let Certificate::DeadEnd(end) = &finding.certificate else { panic!("{finding:?}") };
    let names: Vec<String> = end.objects.iter().map(|&o| history.show_object(o)).collect();
    assert_eq!(names, ["x", "y"], "z has nothing to do with it");
    let txns: Vec<String> = finding.txns.iter().map(|&t| history.show_txn(t)).collect();
    assert_eq!(txns, ["T6", "T7"], "before them there is one possibility");
    assert!(matches!(ask(&history, Level::StrictSnapshotIsolation), Verdict::Holds(Certificate::Points(_))));
    assert!(matches!(ask(&history, Level::Serializable), Verdict::Unknown(_)), "real time was not promised");
}

#[test]
fn the_audit_rejects_what_does_not_follow() {
    let history = history(WRITE_SKEW);
    let strict = Question::new(Level::StrictSerializable);
    let Certificate::DeadEnd(end) = finding(&history, strict.level).certificate else { panic!("a dead end") };
    let accepts = |question, end: DeadEnd| audit(&history, question, &Certificate::DeadEnd(end)).is_ok();
    assert!(accepts(strict, end.clone()));
    assert!(accepts(Question { real_time: true, ..Question::new(Level::Serializable) }, end.clone()));
    assert!(!accepts(Question::new(Level::Serializable), end.clone()), "without real time");
    assert!(!accepts(Question::new(Level::StrictSnapshotIsolation), end.clone()), "snapshots allow it");
    for object in 0..end.objects.len() {
        let mut fewer = end.clone();
        fewer.objects.remove(object);
        assert!(!accepts(strict, fewer), "one account alone has an order");
    }
    let others = DeadEnd { txns: vec![TxnId(0)], ..end.clone() };
    assert!(!accepts(strict, others), "these are not the transactions");
    let beyond = DeadEnd { objects: vec![ObjectId(99)], ..end };
    assert!(!accepts(strict, beyond), "there is no such object");
}

#[test]
fn certificates_are_written_and_read_back() {
    let history = history(WRITE_SKEW);
    let question = Question::new(Level::StrictSerializable);
    let certificate = finding(&history, question.level).certificate;
    let claim = Claim::of(&history, question, None, &certificate);
    let text = wire::to_json(&history, &claim, &certificate);
    let (again, read) = wire::from_json(&history, None, &text).expect("our own text");
    assert_eq!((again, read), (claim, certificate));
}

#[test]
fn a_phantom_and_a_lost_update() {
    let phantom = history("init: t/1={v:3} | T1: w(t/2,{v:4})@[1,2] | T2: scan(t, v > 2){1:{v:3}}@[3,4]");
    assert_eq!(finding(&phantom, Level::StrictSerializable).txns.len(), 1);
    assert_eq!(finding(&phantom, Level::StrictSnapshotIsolation).txns.len(), 1);
    let lost = history(
        "init: x=1 | T1: r(x,1)@[1,2] w(x,1)@[3,9] | T2: r(x,1)@[1,2] w(x,2)@[3,9] | T3: r(x,1)@[10,11]",
    );
    assert!(matches!(ask(&lost, Level::StrictSnapshotIsolation), Verdict::Violated(_)));
}

/// What has an unknown outcome may take effect late, but not after a later transaction of its
/// session.
#[test]
fn unknown_outcomes() {
    let late = history("T1: w(x,1)@[1,2] unknown | T2: r(x,_)@[3,4] | T3: r(x,1)@[5,6] | T4: r(x,1)@[7,8]");
    assert!(matches!(ask(&late, Level::StrictSerializable), Verdict::Holds(_)));
    let moved_on = history("T1@s1: w(x,1)@[1,2] unknown | T2@s1: r(x,_)@[3,4] | T3@s2: r(x,1)@[5,6]");
    assert!(matches!(ask(&moved_on, Level::StrictSerializable), Verdict::Violated(_)));
}

/// Whatever objects are named: where the audit finds no order of them, the definitions find none of
/// the whole.
#[test]
fn no_dead_end_where_the_level_holds() {
    let (mut ends, mut histories) = (0, 0);
    for seed in 0..1500 {
        let history = random(seed);
        let mut rng = Rng::new(seed);
        let objects: Vec<ObjectId> = history.objects().filter(|_| rng.chance(60)).collect();
        for level in [Level::StrictSerializable, Level::StrictSnapshotIsolation] {
            let question = Question::new(level);
            let found = dead_end(&history, question, &objects, &Budget::unlimited());
            let Ok(holds) = margay_naive::holds(&history, question, &Budget::unlimited()) else { continue };
            histories += 1;
            if matches!(found, Ok(Some(_))) {
                ends += 1;
                assert!(!holds, "seed {seed}, {level}, {objects:?}: {}", show(&history));
            }
        }
    }
    assert!(ends > 100, "{ends} of {histories}");
}

/// The same transactions on objects that may have held anything at first.
fn opened(history: &History, objects: &[ObjectId]) -> History {
    let mut builder = HistoryBuilder::like(history);
    builder.keep_initial(|object| !objects.contains(&object));
    objects.iter().for_each(|&object| builder.initial(object, ValueId::UNKNOWN).expect("once"));
    for txn in history.txns() {
        let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
        for op in history.ops(txn) {
            let observed = history.scan(op.id).is_some_and(|scan| scan.observed)
                || history.update(op.id).is_some_and(|update| update.observed);
            let detail = history.detail(op, observed);
            builder.push(session, label, op.at, op.kind, op.accesses, detail).expect("as before");
        }
    }
    builder.finish().expect("a history")
}

/// Where objects may have held anything, what they did hold is among it.
#[test]
fn no_dead_end_on_open_objects_where_the_level_holds() {
    let (mut ends, mut histories) = (0, 0);
    for seed in 0..4000 {
        let history = random(seed);
        let mut rng = Rng::new(seed);
        let objects: Vec<ObjectId> = history.objects().filter(|_| rng.chance(60)).collect();
        let unknown: Vec<ObjectId> = history.objects().filter(|_| rng.chance(70)).collect();
        let opened = opened(&history, &unknown);
        for level in [Level::StrictSerializable, Level::StrictSnapshotIsolation] {
            let question = Question::new(level);
            let found = dead_end(&opened, question, &objects, &Budget::unlimited());
            let Ok(holds) = margay_naive::holds(&history, question, &Budget::unlimited()) else { continue };
            histories += 1;
            if matches!(found, Ok(Some(_))) {
                ends += 1;
                assert!(!holds, "seed {seed}, {level}, {objects:?}, {unknown:?}: {}", show(&history));
            }
        }
    }
    println!("{ends} of {histories}");
    assert!(ends > 100, "{ends} of {histories}");
}

/// What is told of objects that may have held anything.
#[test]
fn open_objects_teach_what_they_held() {
    for (text, violated) in [
        // Whatever x held, one of the two reads saw something else.
        ("T1: r(x,1)@[1,2] | T2: r(x,2)@[3,4]", true),
        ("T1: r(x,1)@[1,2] | T2: w(x,2)@[1,4] | T3: r(x,2)@[5,6]", false),
        ("T1: w(x,2)@[1,2] | T2: r(x,1)@[3,4]", true),
        ("T1: a(l,1)@[1,2] | T2: r(l,[7 1])@[3,4]", false),
        ("T1: a(l,1)@[1,2] | T2: r(l,[1 7])@[3,4]", true),
        ("T1: r(l,[7 8])@[1,2] | T2: a(l,9)@[3,4] | T3: r(l,[7 9])@[5,6]", true),
        ("T1: r(t/1,{v:3})@[1,2] | T2: scan(t, v > 2){}@[3,4]", true),
        ("T1: scan(t, v > 2){}@[1,2] | T2: r(t/1,{v:1})@[3,4]", false),
        // A scan that leaves out an open row is not held against a later read.
        ("T1: scan(t, v > 2){}@[1,2] | T2: r(t/1,{v:3})@[3,4]", false),
        ("T1: scan(t, v > 2){1:{v:3}}@[1,2] | T2: r(t/1,{v:4})@[3,4]", true),
        // Of a row that was read in part, the rest may be anything.
        ("T1: r(t/1,{v:3})@[1,2] | T2: scan(t, w > 2){}@[3,4] | T3: scan(t, w > 2){1:{w:9}}@[5,6]", false),
        ("T1: w(t/1,{v:3})@[1,2] | T2: r(t/1,{v:3 w:4})@[3,4] | T3: scan(t, w > 2){}@[5,6]", true),
        ("T1: r(t/1,{v:3})@[1,2] | T2: r(t/1,_)@[3,4]", true),
    ] {
        let history = history(text);
        let objects: Vec<ObjectId> = history.objects().collect();
        let opened = opened(&history, &objects);
        let question = Question::new(Level::StrictSerializable);
        let found = dead_end(&opened, question, &objects, &Budget::unlimited()).expect("it can be told");
        assert_eq!(found.is_some(), violated, "{text}: {found:?}");
        let certificate = found.map(|txns| Certificate::DeadEnd(DeadEnd { objects, txns }));
        assert!(certificate.is_none_or(|certificate| audit(&opened, question, &certificate).is_ok()));
    }
}
