//! Levels without real time, within a horizon: never `holds` over what needs an order across it,
//! and it is named.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use margay_levels::Level;
use margay_simdb::{JsonSink, Mix, Protocol, SimConfig, simulate};
use margay_stream::proof::{self, Audited, Late};
use margay_stream::{End, Follower, Part};
use margay_verdict::{Budget, Question};

fn follow(lines: &[&[u8]], level: Level, horizon: Duration) -> (End, Audited) {
    let text = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let text = Arc::clone(&text);
        Box::new(move |part: &Part, left: &[u64]| proof::write_part(&mut *text.lock().unwrap(), part, left))
    };
    let follower = Follower::new(Question::new(level), lines[0], Budget::unlimited(), sink);
    let mut follower =
        follower.and_then(|follower| follower.within(horizon)).expect("a follower").holding(100);
    proof::begin(&mut *text.lock().unwrap(), &follower.head()).unwrap();
    for (number, line) in lines.iter().enumerate().skip(1) {
        follower.line(line).expect("a line");
        if number % 64 == 0 {
            follower.advance_by_guess(number % 256 == 0).expect("lines");
        }
    }
    let end = follower.finish().expect("lines");
    assert!(follower.found().is_none(), "nobody is accused");
    let settled = follower.progress().settled;
    drop(follower);
    proof::end(&mut *text.lock().unwrap(), settled).unwrap();
    let history: Vec<u8> = lines.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect();
    let proof = text.lock().unwrap().clone();
    let late = Late::read(proof.as_slice()).expect("a proof");
    let said = proof::audit(history.as_slice(), proof.as_slice(), late, &Budget::unlimited());
    (end, said.expect("both can be read"))
}

/// T2 reads what T1 has overwritten ten milliseconds ago; T3 sees what T2 wrote.
const STALE: [&str; 8] = [
    r#"{"margay":1,"unit":"ms","initial":[["x",0]]}"#,
    r#"{"session":0,"txn":1,"at":[1,2],"write":[["x",1]]}"#,
    r#"{"session":0,"txn":1,"at":[3,4],"commit":true}"#,
    r#"{"session":1,"txn":2,"at":[14,15],"read":[["x",0]]}"#,
    r#"{"session":1,"txn":2,"at":[16,17],"write":[["y",7]]}"#,
    r#"{"session":1,"txn":2,"at":[18,19],"commit":true}"#,
    r#"{"session":2,"txn":3,"at":[30,31],"read":[["y",7]]}"#,
    r#"{"session":2,"txn":3,"at":[32,33],"commit":true}"#,
];

#[test]
fn what_needs_an_order_across_the_horizon_is_undecided() {
    let lines = STALE.map(str::as_bytes);
    for level in [Level::Serializable, Level::SnapshotIsolation] {
        let (end, said) = follow(&lines, level, Duration::from_millis(5));
        assert_eq!(end, End::Partly { undecided: vec![2], count: 1 }, "{level}");
        assert!(matches!(said, Audited::Rejected(_)), "the proof has no order of what T2 saw: {said:?}");
        let (end, said) = follow(&lines, level, Duration::from_millis(20));
        assert_eq!(end, End::Whole, "{level}");
        assert!(matches!(said, Audited::Accepted { level: proved, .. } if proved.implies(level)), "{said:?}");
    }
}

#[test]
fn a_level_with_real_time_has_no_horizon() {
    let sink = || Box::new(|_: &Part, _: &[u64]| Ok(()));
    let header = STALE[0].as_bytes();
    for (level, header) in
        [(Level::StrictSerializable, header), (Level::Serializable, &br#"{"margay":1,"unit":"index"}"#[..])]
    {
        let follower = Follower::new(Question::new(level), header, Budget::unlimited(), sink()).unwrap();
        assert!(follower.within(Duration::from_secs(1)).is_err(), "{level}");
    }
}

/// Databases that are weaker than what is asked: whatever the horizon, never `holds` without a
/// proof.
#[test]
fn weaker_databases_never_hold_without_a_proof() {
    let (mut whole, mut partly) = (0, 0);
    for protocol in [Protocol::RcMvcc, Protocol::SiFuw, Protocol::Ss2pl] {
        for (name, mix) in Mix::NAMED {
            for horizon in [0, 2] {
                let config = SimConfig { mix, transactions: 300, ..SimConfig::new(protocol, 7) };
                let mut sink = JsonSink::new(Vec::new());
                simulate(&config, &mut sink).expect("a recording");
                let text = sink.finish().expect("lines");
                let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').filter(|l| !l.is_empty()).collect();
                let (end, said) = follow(&lines, Level::Serializable, Duration::from_millis(horizon));
                let accepted = matches!(said, Audited::Accepted { .. });
                match end {
                    End::Whole => {
                        assert!(accepted, "{protocol} {name} {horizon} ms: {said:?}");
                        whole += 1;
                    }
                    End::Partly { undecided, count } => {
                        assert!(!accepted && count > 0, "{protocol} {name} {horizon} ms");
                        assert!(!undecided.is_empty(), "they are named");
                        partly += 1;
                    }
                    End::Stopped(_) => {}
                }
            }
        }
    }
    println!("{whole} whole, {partly} partly");
    assert!(whole >= 8 && partly > 0, "{whole} whole, {partly} partly");
}
