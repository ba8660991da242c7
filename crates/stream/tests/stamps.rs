//! Timestamps as they come: the same answers as engine replay gives about the whole, and proofs
//! that are accepted.

use std::sync::{Arc, Mutex};

use margay_certify::Replay;
use margay_formats::{Format, Source, glance, read};
use margay_levels::Level;
use margay_simdb::{EvidenceOptions, Fault, JsonSink, Mix, Ppm, Protocol, SimConfig, simulate};
use margay_stream::proof::{self, Audited, Late};
use margay_stream::{End, Follower, Part};
use margay_verdict::{Budget, Checker, Question, Verdict};

const SNAPSHOTS: [Protocol; 4] = [Protocol::SiFuw, Protocol::SiFcw, Protocol::Ssi, Protocol::Percolator];
const SERIAL: [Protocol; 4] = [Protocol::Serial, Protocol::Ss2pl, Protocol::Occ, Protocol::Mvto];

fn cases() -> impl Iterator<Item = (Protocol, Level)> {
    let serial = SERIAL.map(|protocol| (protocol, Level::Serializable));
    SNAPSHOTS.map(|protocol| (protocol, Level::SnapshotIsolation)).into_iter().chain(serial)
}

fn recorded(protocol: Protocol, level: Level, config: SimConfig) -> Vec<Vec<u8>> {
    let evidence = match level {
        Level::Serializable => EvidenceOptions { serialization: 100, ..EvidenceOptions::default() },
        _ => EvidenceOptions { snapshot: 100, commit: 100, ..EvidenceOptions::default() },
    };
    let mut sink = JsonSink::new(Vec::new());
    simulate(&SimConfig { protocol, evidence, ..config }, &mut sink).expect("a recording");
    let text = sink.finish().expect("lines");
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

fn whole(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
}

struct Followed {
    end: End,
    violated: bool,
    parts: usize,
    proof: Vec<u8>,
}

fn follow(lines: &[Vec<u8>], level: Level, held: usize) -> Followed {
    let text = Arc::new(Mutex::new(Vec::new()));
    let parts = Arc::new(Mutex::new(0));
    let sink = {
        let (text, parts) = (Arc::clone(&text), Arc::clone(&parts));
        Box::new(move |part: &Part, left: &[u64]| {
            *parts.lock().unwrap() += 1;
            proof::write_part(&mut *text.lock().unwrap(), part, left)
        })
    };
    let follower = Follower::new(Question::new(level), &lines[0], Budget::unlimited(), sink);
    let mut follower = follower.expect("a follower").holding(held);
    proof::begin(&mut *text.lock().unwrap(), &follower.head()).unwrap();
    for (number, line) in lines.iter().enumerate().skip(1) {
        follower.line(line).expect("a line");
        if number % 64 == 0 {
            follower.advance_by_guess(number % 256 == 0).expect("lines");
        }
    }
    let end = follower.finish().expect("lines");
    let (violated, settled) = (follower.found().is_some(), follower.progress().settled);
    drop(follower);
    proof::end(&mut *text.lock().unwrap(), settled).unwrap();
    let (parts, proof) = (*parts.lock().unwrap(), text.lock().unwrap().clone());
    Followed { end, violated, parts, proof }
}

fn audited(lines: &[Vec<u8>], proof: &[u8]) -> Audited {
    let late = Late::read(proof).expect("a proof");
    proof::audit(whole(lines).as_slice(), proof, late, &Budget::unlimited()).expect("both can be read")
}

fn offline(lines: &[Vec<u8>], level: Level) -> Verdict {
    let history = read(Source::bytes(&whole(lines)), Some(Format::Margay)).expect("a history").history;
    Replay.check(&history, Question::new(level), &Budget::unlimited())
}

/// The same without times: what formats have that know nothing but timestamps.
fn untimed(lines: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let without = |line: &Vec<u8>| {
        let text = String::from_utf8(line.clone()).unwrap();
        let Some((head, tail)) = text.split_once("\"at\":[") else { return line.clone() };
        let (_, tail) = tail.split_once("],").expect("an operation after its interval");
        format!("{head}{tail}").into_bytes()
    };
    lines.iter().map(without).collect()
}

#[test]
fn timestamps_are_followed_to_the_end_and_the_proof_is_accepted() {
    for (protocol, level) in cases() {
        for (name, mix) in Mix::NAMED {
            let config = SimConfig { mix, transactions: 1_000, ..SimConfig::new(protocol, 1) };
            let timed = recorded(protocol, level, config);
            assert!(matches!(offline(&timed, level), Verdict::Holds(_)), "{protocol} {name}");
            for lines in [untimed(&timed), timed] {
                let followed = follow(&lines, level, 100);
                assert_eq!(followed.end, End::Whole, "{protocol} {name}");
                assert!(followed.parts > 2, "{protocol} {name}: settled while it came");
                let said = audited(&lines, &followed.proof);
                assert!(
                    matches!(said, Audited::Accepted { level: l, .. } if l == level),
                    "{protocol} {name}: {said:?}"
                );
            }
        }
    }
}

/// Never a violation that the whole history does not have, never an order where it has none.
#[test]
fn faults_are_judged_as_replay_judges_the_whole() {
    let (mut whole, mut violated, mut open, mut missed) = (0, 0, 0, 0);
    for (name, mix) in Mix::NAMED {
        for fault in Fault::ALL {
            for (protocol, level) in cases() {
                let config = SimConfig { mix, transactions: 200, keys: 10, ..SimConfig::new(protocol, 1) };
                let config = config.with_fault(fault, Ppm::percent(2));
                let case = format!("{fault} {name} {level}: {}", config.command("OUT"));
                let lines = recorded(protocol, level, config);
                let followed = follow(&lines, level, 50);
                let offline = offline(&lines, level);
                if followed.end == End::Whole {
                    assert!(matches!(offline, Verdict::Holds(_)), "{case}: {offline:?}");
                    let said = audited(&lines, &followed.proof);
                    assert!(matches!(said, Audited::Accepted { .. }), "{case}: {said:?}");
                    whole += 1;
                } else if followed.violated {
                    assert!(!matches!(offline, Verdict::Holds(_)), "{case}");
                    violated += 1;
                } else if matches!(offline, Verdict::Violated(_)) {
                    missed += 1;
                } else {
                    assert!(!matches!(offline, Verdict::Holds(_)), "{case}: {:?}", followed.end);
                    open += 1;
                }
            }
        }
    }
    println!("{whole} whole, {violated} violated, {missed} violated as a whole only, {open} open in both");
    assert!(whole > 20 && violated > 20, "{whole} whole, {violated} violated");
}

/// The lines of one transaction come last, long after its timestamps.
#[test]
fn a_transaction_behind_what_is_settled_is_named() {
    for (protocol, level) in
        [(Protocol::SiFuw, Level::SnapshotIsolation), (Protocol::Ss2pl, Level::Serializable)]
    {
        let lines =
            recorded(protocol, level, SimConfig { transactions: 1_000, ..SimConfig::new(protocol, 3) });
        let of = |line: &[u8]| match glance(line).unwrap() {
            Some(seen) => seen.txn,
            None => margay_formats::stamp(line).unwrap().unwrap().txn,
        };
        let late =
            lines[1..].iter().find(|line| glance(line).unwrap().is_none()).map(|line| of(line)).unwrap();
        let (last, first): (Vec<_>, Vec<_>) = lines[1..].iter().cloned().partition(|line| of(line) == late);
        let lines = [vec![lines[0].clone()], first, last].concat();
        let followed = follow(&lines, level, 100);
        let End::Stopped(why) = followed.end else { panic!("{level}: {:?}", followed.end) };
        assert!(why.contains(&format!("transaction {late} ")) && !followed.violated, "{why}");
    }
}

#[test]
fn a_proof_by_timestamps_that_was_changed_is_rejected() {
    let (protocol, level) = (Protocol::SiFuw, Level::SnapshotIsolation);
    let lines = recorded(protocol, level, SimConfig { transactions: 500, ..SimConfig::new(protocol, 2) });
    let text = String::from_utf8(follow(&lines, level, 50).proof).unwrap();
    let parts: Vec<&str> = text.lines().collect();
    for (changed, because) in [
        (parts[..parts.len() - 1].to_vec(), "no end"),
        ([&parts[..2], &parts[parts.len() - 1..]].concat(), ""),
        ([&parts[..2], &parts[1..]].concat(), "twice"),
        ([&parts[..1], &parts[2..]].concat(), ""),
    ] {
        let Audited::Rejected(why) = audited(&lines, changed.join("\n").as_bytes()) else {
            panic!("{because}")
        };
        assert!(why.contains(because), "{why}");
    }
}

/// Timestamps that come when an order was settled without them may contradict it.
#[test]
fn timestamps_that_come_late_are_named() {
    let (protocol, level) = (Protocol::SiFuw, Level::SnapshotIsolation);
    let lines = recorded(protocol, level, SimConfig { transactions: 1_000, ..SimConfig::new(protocol, 2) });
    let is_stamp = |line: &Vec<u8>| glance(line).unwrap().is_none();
    let (stamps, operations): (Vec<_>, Vec<_>) = lines[1..].iter().cloned().partition(is_stamp);
    let sorted = [vec![lines[0].clone()], operations, stamps].concat();
    let End::Stopped(why) = follow(&sorted, level, 300).end else { panic!("an order") };
    assert!(why.contains("timestamps came after"), "{why}");
}
