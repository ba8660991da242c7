//! Names: the examples of the table of anomalies, the most severe first, what is ruled out, and the
//! options.

use margay_audit::reach;
use margay_audit::reach::boundary;
use margay_infer::{Assume, Infer, ambiguities, assumed};
use margay_levels::{Anomaly, Level, Model};
use margay_testkit::history;
use margay_verdict::{Budget, Checker, Finding, Question, Translation, Verdict};

fn ask(engine: Infer, text: &str, level: Level) -> Verdict {
    engine.check(&history(text), Question::new(level), &Budget::unlimited())
}

fn findings(text: &str, level: Level) -> Vec<Finding> {
    match ask(Infer::DEFAULT, text, level) {
        Verdict::Violated(findings) => findings,
        other => panic!("{text} at {level}: {other:?}"),
    }
}

fn names(text: &str, level: Level) -> Vec<&'static str> {
    findings(text, level).iter().map(|finding| finding.anomaly.name()).collect()
}

/// No example of an anomaly holds at a level that forbids it, and most are found, under their
/// names.
#[test]
fn examples_of_anomalies() {
    let (mut found, mut named) = (0, 0);
    for &anomaly in Anomaly::ALL {
        let Some(example) = anomaly.entry().example else { continue };
        for level in anomaly.weakest_forbidding() {
            match ask(Infer::DEFAULT, example, level) {
                Verdict::Violated(findings) => {
                    found += 1;
                    named += usize::from(findings.iter().any(|finding| finding.anomaly.implies(anomaly)));
                }
                Verdict::Unknown(_) => {}
                other => panic!("{anomaly} at {level}: {other:?}"),
            }
        }
    }
    println!("{found} found, {named} of them by name");
    assert!(found >= 30 && named >= 25, "{found} found, {named} of them by name");
}

#[test]
fn the_most_severe_comes_first() {
    let text = "T1: a(x,1) | T2: a(x,2) abort | T3: r(x,[1 2]) r(y,_) a(z,4) | T4: r(z,_) a(y,5) | T5: r(y,[5]) r(z,[4])";
    assert_eq!(names(text, Level::Serializable), ["G1a", "G2-item"]);
}

#[test]
fn a_lost_update_needs_no_version_order() {
    let text = "T1: r(x,_) w(x,1) | T2: r(x,_) w(x,2)";
    let found = names(text, Level::SnapshotIsolation);
    assert!(found.contains(&"lost-update"), "{found:?}");
}

#[test]
fn unknown_transactions_that_were_seen_count() {
    let text = "T1: a(x,1) r(y,[2]) unknown | T2: a(y,2) r(x,[1])";
    assert_eq!(names(text, Level::ReadCommitted), ["G1c"]);
    let text = "T1: a(x,1) r(y,[2]) unknown | T2: a(y,2)";
    assert!(matches!(ask(Infer::DEFAULT, text, Level::Serializable), Verdict::Holds(_)));
}

#[test]
fn what_is_ruled_out() {
    let text = "T1: r(x,_) a(y,1) | T2: r(y,_) a(x,2) | T3: r(x,[2]) r(y,[1])";
    let (history, question) = (history(text), Question::new(Level::Serializable));
    let found = findings(text, Level::Serializable);
    let recorded = Translation::Recorded;
    let all: Vec<_> =
        found.iter().map(|found| reach(&history, question, found, recorded, &Budget::unlimited())).collect();
    let boundary = boundary(&all);
    assert_eq!(boundary.not, [Model::RepeatableRead]);
    assert!(boundary.also_not.contains(&Model::Serializable));
    assert!(!boundary.also_not.contains(&Model::SnapshotIsolation));
}

/// In one session, x is written twice; who then reads the first value was overtaken by nobody
/// unless session order says so.
#[test]
fn keys_follow_the_order_of_the_question() {
    let text = "T1@s1: w(x,1) | T2@s1: w(x,2) | T3@s1: r(x,1)";
    let level = Level::StrongSessionSerializable;
    assert!(matches!(ask(Infer::DEFAULT, text, level), Verdict::Violated(_)));
    let blind = Infer { sequential_keys: false, ..Infer::DEFAULT };
    assert!(matches!(ask(blind, text, level), Verdict::Unknown(_)));
    assert!(matches!(ask(Infer::DEFAULT, text, Level::Serializable), Verdict::Unknown(_)));
}

#[test]
fn writes_that_cannot_be_told_apart_are_told_apart_from_violations() {
    let shown = |text: &str| -> Vec<String> {
        let history = history(text);
        ambiguities(&history).iter().map(|found| found.show(&history)).collect()
    };
    let twice = shown("T1: w(x,1) | T2: w(x,1) | T3: r(x,1)");
    assert_eq!(twice, ["duplicate-write: T1, T2 wrote x = 1, so a read of it may be of any of theirs"]);
    let same = shown("init: x=0 | T1: w(x,0) | T2: r(x,0)");
    assert_eq!(
        same,
        [
            "unobservable-write: T1 wrote x = 0, as it was at first, so a read of it may be of that or of theirs"
        ]
    );
    assert!(shown("T1: w(x,1) | T2: w(x,1) abort | T3: r(x,1) | T4: w(y,2) | T5: w(y,2)").is_empty());
}

#[test]
fn lists_may_begin_with_something() {
    let text = "init: x=[1 2] | T1: a(x,3) | T2: r(x,[1 2]) | T3: r(x,[1 2 3])";
    assert!(matches!(ask(Infer::DEFAULT, text, Level::StrictSerializable), Verdict::Holds(_)));
    let text = "init: x=[1 2] | T1: a(x,3) a(y,1) | T2: r(x,[1 2]) r(y,[1])";
    assert_eq!(names(text, Level::Serializable), ["G-single-item"]);
    let text = "init: x=[1 2] | T1: a(x,3) | T2: r(x,[1 3])";
    assert!(!matches!(ask(Infer::DEFAULT, text, Level::Serializable), Verdict::Holds(_)));
}

#[test]
fn rows_that_a_scan_left_out_give_predicate_anomalies() {
    let g2 = "T1: scan(t, v > 5){} w(t/1,{v:9}) | T2: scan(t, v > 5){} w(t/2,{v:9})";
    assert_eq!(names(g2, Level::Serializable), ["G2"]);
    assert!(matches!(ask(Infer::DEFAULT, g2, Level::RepeatableRead), Verdict::Holds(_)));
    let single =
        "init: t/1={v:0} u/1={v:0} | T1: w(t/1,{v:9}) w(u/1,{v:1}) | T2: scan(t, v > 5){} r(u/1,{v:1})";
    assert_eq!(names(single, Level::Serializable), ["G-single"]);
    let missed = "init: t/1={v:9} | T1: w(t/1,{v:8}) | T2: scan(t, v > 5){}";
    assert_eq!(names(missed, Level::ReadCommitted), ["predicate-read-miss"]);
    let phantom = "T1: w(t/1,{v:9}) | T2: scan(t, v > 5){} scan(t, v > 5){1:{v:9}}";
    assert!(names(phantom, Level::Serializable).contains(&"phantom"));
}

#[test]
fn a_read_that_differs_from_an_earlier_one() {
    let text = "T1: w(x,1) | T2: w(x,2) | T3: r(x,1) r(x,2)";
    assert!(names(text, Level::Serializable).contains(&"non-repeatable-read"));
    assert!(matches!(ask(Infer::DEFAULT, text, Level::ReadCommitted), Verdict::Holds(_)));
}

#[test]
fn a_lock_that_is_taken_twice() {
    let text = "init: m=0 | T1: r(m,0)@[1,2] w(m,1)@[1,2] | T2: r(m,1)@[3,4] w(m,0)@[3,4] | T3: r(m,0)@[5,6] w(m,1)@[5,6] | T4: r(m,0)@[7,8] w(m,1)@[7,8]";
    assert_eq!(names(text, Level::StrictSerializable), ["PL-SS-cycle-exists"]);
    assert!(!matches!(ask(Infer::DEFAULT, text, Level::Serializable), Verdict::Violated(_)));
}

#[test]
fn evidence_of_versions_is_taken() {
    let text = "T1@s1: w(x,1) | T2@s1: w(x,2) | T3@s2: r(x,2) w(y,1) | T4@s3: r(y,1) r(x,1)";
    let plain = history(text);
    let question = Question::new(Level::Serializable);
    let blind = Infer::DEFAULT.check(&plain, question, &Budget::unlimited());
    assert!(matches!(blind, Verdict::Unknown(_)), "{blind:?}");
    let assume = Assume { sequential_keys: true, ..Assume::default() };
    let orders = assumed(&plain, assume).expect("registers");
    let told = plain.with_version_orders(orders).expect("versions that there are");
    let Verdict::Violated(findings) = Infer::DEFAULT.check(&told, question, &Budget::unlimited()) else {
        panic!("the versions of x follow the session");
    };
    assert_eq!(findings[0].anomaly, Anomaly::GSingleItem);
}

#[test]
fn a_cycle_of_versions_has_its_name() {
    let found = names("T1: r(x,2) w(x,1) | T2: r(x,1) w(x,2)", Level::Serializable);
    assert!(found.contains(&"cyclic-versions") && found.contains(&"G1c"), "{found:?}");
}

#[test]
fn a_budget_that_is_over_ends_the_check() {
    let text = "T1: a(x,1) | T2: r(x,[1]) a(y,1) | T3: r(y,[1]) r(x,_)";
    let budget = Budget::unlimited();
    budget.cancel();
    for level in Level::ALL {
        let verdict = Infer::DEFAULT.check(&history(text), Question::new(level), &budget);
        assert!(
            matches!(verdict, Verdict::Unknown(margay_verdict::Why::Exhausted(..))),
            "{level}: {verdict:?}"
        );
    }
}

/// Elle calls it `future-read`, too, if the transaction had appended to the list before; it was
/// only `internal` here.
#[test]
fn a_future_read_after_an_own_append() {
    let found = names("T1: a(x,1) r(x,[1 2]) a(x,2)", Level::ReadCommitted);
    assert!(found.contains(&"internal") && found.contains(&"future-read"), "{found:?}");
    let found = names("T1: a(x,1) r(x,[]) a(x,2)", Level::ReadCommitted);
    assert_eq!(found, ["internal"]);
}

/// Elle calls it `lost-update` though nobody wrote the value that both read; it was only
/// `garbage-read` here.
#[test]
fn a_lost_update_of_a_value_that_nobody_wrote() {
    let found = names("init: x=0 | T1: r(x,7) w(x,1) | T2: r(x,7) w(x,2)", Level::Serializable);
    assert!(found.contains(&"garbage-read") && found.contains(&"lost-update"), "{found:?}");
    for text in ["T1: r(x,7) w(x,1) | T2: r(x,8) w(x,2)", "T1: r(x,7) w(x,1) | T2: r(x,7) w(y,2)"] {
        let found = names(&format!("init: x=0 y=0 | {text}"), Level::Serializable);
        assert!(!found.contains(&"lost-update"), "{text}: {found:?}");
    }
}
