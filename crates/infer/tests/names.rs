//! Names: the examples of the table of anomalies, the most severe first, what is ruled out, and the options.

use margay_infer::{Infer, ruled_out};
use margay_levels::{Anomaly, Level, Model};
use margay_testkit::history;
use margay_verdict::{Budget, Checker, Finding, Question, Verdict};

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

/// No example of an anomaly holds at a level that forbids it, and most are found, under their names.
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
    let found =
        findings("T1: r(x,_) a(y,1) | T2: r(y,_) a(x,2) | T3: r(x,[2]) r(y,[1])", Level::Serializable);
    let boundary = ruled_out(&found);
    assert_eq!(boundary.not, [Model::RepeatableRead]);
    assert!(boundary.also_not.contains(&Model::Serializable));
    assert!(!boundary.also_not.contains(&Model::SnapshotIsolation));
}

/// In one session, x is written twice; who then reads the first value was overtaken by nobody unless session order says so.
#[test]
fn keys_follow_the_order_of_the_question() {
    let text = "T1@s1: w(x,1) | T2@s1: w(x,2) | T3@s1: r(x,1)";
    let level = Level::StrongSessionSerializable;
    assert!(matches!(ask(Infer::DEFAULT, text, level), Verdict::Violated(_)));
    let blind = Infer { sequential_keys: false, ..Infer::DEFAULT };
    assert!(matches!(ask(blind, text, level), Verdict::Unknown(_)));
    assert!(matches!(ask(Infer::DEFAULT, text, Level::Serializable), Verdict::Unknown(_)));
}
