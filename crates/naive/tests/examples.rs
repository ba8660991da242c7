//! The examples of the anomalies, and the boundaries between levels.

use margay_levels::anomaly::Kind;
use margay_levels::{Anomaly, Level};
use margay_naive::Naive;
use margay_testkit::history;
use margay_verdict::{Budget, Checker, Question, Verdict, Why};

fn verdict(text: &str, level: Level) -> Verdict {
    Naive.check(&history(text), Question::new(level), &Budget::unlimited())
}

/// The levels that a history violates.
fn violated(text: &str) -> Vec<Level> {
    let bad = |&level: &Level| match verdict(text, level) {
        Verdict::Holds(_) => false,
        Verdict::Violated(_) => true,
        other => panic!("{text} at {level}: {other:?}"),
    };
    Level::ALL.into_iter().filter(bad).collect()
}

#[test]
fn every_example_breaks_the_levels_that_forbid_its_anomaly() {
    let mut wrong = Vec::new();
    for &anomaly in Anomaly::ALL {
        let Some(example) = anomaly.entry().example else { continue };
        let bad = violated(example);
        let missing = Level::ALL.into_iter().filter(|&level| level.forbids(anomaly) && !bad.contains(&level));
        wrong.extend(missing.map(|level| format!("{anomaly}: {level} forbids it, and holds in {example}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The shape of a cycle tells exactly which levels of dependencies it breaks.
#[test]
fn examples_of_cycles_break_no_weaker_level_of_adyas() {
    use Level::*;
    for &anomaly in Anomaly::ALL {
        let entry = anomaly.entry();
        if !matches!(entry.kind, Kind::Cycle(_)) {
            continue;
        }
        let bad = violated(entry.example.unwrap());
        for level in [ReadUncommitted, ReadCommitted, RepeatableRead, SnapshotIsolation, Serializable] {
            assert_eq!(bad.contains(&level), level.forbids(anomaly), "{anomaly} at {level}");
        }
    }
}

#[test]
fn findings_of_examples_have_their_names() {
    for &anomaly in Anomaly::ALL {
        let entry = anomaly.entry();
        if !matches!(entry.kind, Kind::Cycle(_)) {
            continue;
        }
        for level in anomaly.weakest_forbidding() {
            match verdict(entry.example.unwrap(), level) {
                Verdict::Violated(findings) => {
                    assert!(level.forbids(findings[0].anomaly), "{anomaly} at {level}: {findings:?}");
                    assert!(
                        findings[0].anomaly.implies(anomaly) || anomaly.implies(findings[0].anomaly),
                        "{anomaly} at {level}: {}",
                        findings[0].anomaly
                    );
                }
                other => panic!("{anomaly} at {level}: {other:?}"),
            }
        }
    }
}

/// A condition outside the fragment did not matter while no row was asked about: `naive` said
/// `holds`, the audit rejected that, and the decision told of a fault of the engine.
#[test]
fn a_condition_that_cannot_be_read_is_outside_even_if_no_row_depends_on_it() {
    let text = "T1: scan(t, nosuchfunction(v) > 5){}";
    let Verdict::Unknown(Why::Outside(what)) = verdict(text, Level::ReadCommitted) else { panic!("{text}") };
    assert!(what.contains("nosuchfunction"), "{what}");
}
