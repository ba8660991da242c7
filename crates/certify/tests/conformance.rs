//! Engines certify and replay against the definitions: all tiny histories, random ones with
//! evidence, every certificate audited, the laws.

use margay_certify::{Certify, Replay};
use margay_levels::Level;
use margay_testkit::{Options, conformance, history};
use margay_verdict::{Budget, Checker, Question, Verdict};

const LEVELS: [Level; 11] = [
    Level::ReadUncommitted,
    Level::ReadCommitted,
    Level::RepeatableRead,
    Level::Prefix,
    Level::ParallelSnapshot,
    Level::SnapshotIsolation,
    Level::Serializable,
    Level::StrongSessionSnapshotIsolation,
    Level::StrictSnapshotIsolation,
    Level::StrongSessionSerializable,
    Level::StrictSerializable,
];

#[test]
fn certify_keeps_the_laws() {
    let tally = conformance(&Certify, &LEVELS, Options::default());
    println!("{tally:?}");
    assert!(tally.holds > 1000 && tally.violated > 100, "{tally:?}");
}

#[test]
fn replay_keeps_the_laws() {
    let random = Options::default().random.max(4000);
    let tally = conformance(&Replay, &LEVELS, Options { random, tiny: 0, ..Options::default() });
    println!("{tally:?}");
    assert!(tally.holds > 100 && tally.violated > 50, "{tally:?}");
}

fn ask(engine: &dyn Checker, text: &str, level: Level) -> Verdict {
    engine.check(&history(text), Question::new(level), &Budget::unlimited())
}

#[test]
fn a_predicate_cycle_tells_repeatable_read_from_serializable() {
    let skew = "table t(id) | T1: scan(t, v > 5){} w(t/1,{v:7}) | T2: scan(t, v > 5){} w(t/2,{v:8})";
    assert_eq!(ask(&Certify, skew, Level::RepeatableRead).word(), "holds");
    let Verdict::Violated(findings) = ask(&Certify, skew, Level::Serializable) else { panic!("a cycle") };
    assert_eq!(findings[0].anomaly.name(), "G2");
    let apart = skew.replace("{v:8}", "{v:3}");
    assert_eq!(
        ask(&Certify, &apart, Level::Serializable).word(),
        "holds",
        "a version that does not match is no phantom"
    );
}

#[test]
fn what_is_missing_is_named() {
    let two = "T1: w(x,1) | T2: w(x,2) | T3: r(x,1)";
    let Verdict::Unknown(why) = ask(&Certify, two, Level::Serializable) else { panic!("no order") };
    assert!(why.to_string().contains("versions of x have no complete order"), "{why}");
    let Verdict::Unknown(why) = ask(&Replay, two, Level::Serializable) else { panic!("no order") };
    assert!(why.to_string().contains("serialization order of T1"), "{why}");
    let ordered = format!("{two} | order x: T2 T1");
    assert_eq!(ask(&Certify, &ordered, Level::Serializable).word(), "holds");
}

#[test]
fn a_stream_stops_at_the_first_mismatch() {
    use margay_certify::{Refused, Replayer};
    use margay_history::TxnId;
    let history = history("T1: w(x,1) | T2: r(x,1) w(x,2) | T3: r(x,1)");
    let predicates = margay_verdict::Predicates::compile(&history).expect("no predicates");
    let mut stream = Replayer::new(&predicates);
    assert_eq!((stream.feed(TxnId(0)), stream.feed(TxnId(1))), (Ok(()), Ok(())));
    let Err(Refused::Halt(halt)) = stream.feed(TxnId(2)) else { panic!("a mismatch") };
    assert_eq!((halt.expected.as_str(), halt.observed.as_str()), ("2", "1"));
}
