//! What is followed while it comes is what engine follow decides of the whole, and its proof is
//! accepted.

use std::sync::{Arc, Mutex};

use margay_follow::Follow;
use margay_formats::{Format, Source, glance, read};
use margay_levels::Level;
use margay_simdb::{Fault, JsonSink, Mix, Ppm, Protocol, SimConfig, simulate};
use margay_stream::proof::{self, Audited, Late};
use margay_stream::{End, Follower, HELD, Part};
use margay_verdict::{Budget, Checker, Question, Verdict};

const LEVELS: [(Protocol, Level); 3] = [
    (Protocol::Ss2pl, Level::StrictSerializable),
    (Protocol::SiFuw, Level::StrictSnapshotIsolation),
    (Protocol::Occ, Level::StrictSerializable),
];

/// Seeds per protocol and fault.
fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The lines of a recording, in the order in which operations were answered; the header first.
fn recorded(config: &SimConfig) -> Vec<Vec<u8>> {
    let mut sink = JsonSink::new(Vec::new());
    simulate(config, &mut sink).expect("a recording");
    let text = sink.finish().expect("lines");
    let mut lines: Vec<Vec<u8>> =
        text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
    lines[1..].sort_by_key(|line| at(line).1);
    lines
}

fn at(line: &[u8]) -> (i64, i64) {
    let at = glance(line).expect("a line").expect("an operation").at.expect("an interval");
    (at.before, at.after)
}

/// What a follower came to, and its proof.
struct Followed {
    end: End,
    violated: bool,
    parts: Vec<Part>,
    proof: Vec<u8>,
    most_open: u64,
}

/// Follows lines. The watermark is exact: after each line, the earliest call of all that are still
/// to come.
fn follow(lines: &[Vec<u8>], level: Level, every: usize, held: usize) -> Followed {
    let (parts, text) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let sink = {
        let (parts, text) = (Arc::clone(&parts), Arc::clone(&text));
        Box::new(move |part: &Part, left: &[u64]| {
            parts.lock().unwrap().push(part.clone());
            proof::write_part(&mut *text.lock().unwrap(), part, left)
        })
    };
    let mut still = vec![i64::MAX; lines.len() + 1];
    for (number, line) in lines.iter().enumerate().skip(1).rev() {
        still[number] = at(line).0.min(still[number + 1]);
    }
    let follower =
        Follower::new(Question::new(level), &lines[0], Budget::unlimited(), sink).expect("a follower");
    let mut follower = follower.holding(held);
    proof::begin(&mut *text.lock().unwrap(), &follower.head()).unwrap();
    let mut most_open = 0;
    for (number, line) in lines.iter().enumerate().skip(1) {
        follower.line(line).expect("a line");
        if number % every == 0 {
            let settled = follower.progress().settled;
            follower.advance(still[number + 1], number % (4 * every) == 0).expect("lines");
            most_open = follower.progress().open.max(most_open);
            assert!(follower.progress().settled >= settled, "a settled part is never revised");
        }
    }
    let end = follower.finish().expect("lines");
    let violated = follower.found().is_some();
    let settled = follower.progress().settled;
    drop(follower);
    proof::end(&mut *text.lock().unwrap(), settled).unwrap();
    let (parts, proof) = (parts.lock().unwrap().clone(), text.lock().unwrap().clone());
    Followed { end, violated, parts, proof, most_open }
}

fn whole(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
}

fn audited(lines: &[Vec<u8>], proof: &[u8]) -> Audited {
    let late = Late::read(proof).expect("a proof");
    proof::audit(whole(lines).as_slice(), proof, late, &Budget::unlimited()).expect("both can be read")
}

fn offline(lines: &[Vec<u8>], level: Level) -> Verdict {
    let history = read(Source::bytes(&whole(lines)), Some(Format::Margay)).expect("a history").history;
    Follow.check(&history, Question::new(level), &Budget::unlimited())
}

#[test]
fn correct_databases_are_followed_to_the_end_and_the_proof_is_accepted() {
    let mut followed_to_the_end = 0;
    for (protocol, level) in LEVELS {
        for (name, mix) in Mix::NAMED {
            let config = SimConfig { mix, transactions: 3_000, ..SimConfig::new(protocol, 1) };
            let lines = recorded(&config);
            if !matches!(offline(&lines, level), Verdict::Holds(_)) {
                continue;
            }
            let followed = follow(&lines, level, 256, HELD);
            assert_eq!(followed.end, End::Whole, "{protocol} {name}");
            assert!(followed.parts.len() > 2, "{protocol} {name}: settled while it came");
            assert!(followed.most_open < 2_500, "{protocol} {name}: {} are held", followed.most_open);
            let said = audited(&lines, &followed.proof);
            assert!(matches!(said, Audited::Accepted { .. }), "{protocol} {name}: {said:?}");
            followed_to_the_end += 1;
        }
    }
    // Rows without the parser of conditions would all be left out.
    assert!(followed_to_the_end >= 10, "{followed_to_the_end}");
}

/// Never a violation that the whole history does not have, and never an order where it has none.
#[test]
fn faults_are_judged_as_the_engine_judges_the_whole() {
    for (name, mix) in Mix::NAMED {
        let (mut whole, mut violated, mut missed) = (0, 0, 0);
        for fault in Fault::ALL {
            for (protocol, level) in LEVELS {
                for seed in 0..seeds() {
                    let config =
                        SimConfig { mix, transactions: 300, keys: 10, ..SimConfig::new(protocol, seed) };
                    let config = config.with_fault(fault, Ppm::percent(2));
                    let lines = recorded(&config);
                    let followed = follow(&lines, level, 64, 50);
                    let offline = offline(&lines, level);
                    let case = format!("{fault} {name}: {}", config.command("OUT"));
                    if followed.end == End::Whole {
                        assert!(!matches!(offline, Verdict::Violated(_)), "{case}");
                        let said = audited(&lines, &followed.proof);
                        assert!(matches!(said, Audited::Accepted { .. }), "{case}: {said:?}");
                        whole += 1;
                    }
                    if followed.violated {
                        assert!(!matches!(offline, Verdict::Holds(_)), "{case}");
                        violated += 1;
                    } else if matches!(offline, Verdict::Violated(_)) {
                        missed += 1;
                    }
                }
            }
        }
        println!("{name}: {whole} whole, {violated} violated, {missed} violated as a whole only");
        assert!(whole > 5 && violated > 5, "{name}: {whole} whole, {violated} violated");
    }
}

/// Lines of several sessions change places; those of one session do not.
fn shuffled(lines: &[Vec<u8>], seed: u64) -> Vec<Vec<u8>> {
    let mut random = seed;
    let mut moved: Vec<(u64, usize)> = Vec::new();
    let mut last = std::collections::HashMap::new();
    for (number, line) in lines.iter().enumerate() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = number as u64 + (random >> 33) % 200;
        let session = if number == 0 { u64::MAX } else { glance(line).unwrap().unwrap().session };
        let after = last.entry(session).or_insert(0);
        *after = place.max(*after);
        moved.push((if number == 0 { 0 } else { *after }, number));
    }
    moved.sort_unstable();
    moved.into_iter().map(|(_, number)| lines[number].clone()).collect()
}

#[test]
fn arrivals_within_the_watermark_make_no_difference() {
    for (protocol, level) in LEVELS {
        let config = SimConfig { transactions: 2_000, ..SimConfig::new(protocol, 5) };
        let lines = recorded(&config);
        let straight = follow(&lines, level, 64, 300);
        for seed in 0..3 {
            let shuffled = shuffled(&lines, seed);
            assert_ne!(shuffled, lines);
            let followed = follow(&shuffled, level, 64, 300);
            assert_eq!(followed.end == End::Whole, straight.end == End::Whole, "{protocol} {seed}");
            if followed.end == End::Whole {
                let said = audited(&shuffled, &followed.proof);
                assert!(matches!(said, Audited::Accepted { .. }), "{protocol} {seed}: {said:?}");
            }
        }
    }
}

#[test]
fn a_proof_that_was_changed_is_rejected() {
    let config =
        SimConfig { mix: Mix::NAMED[0].1, transactions: 2_500, ..SimConfig::new(Protocol::Ss2pl, 1) };
    let lines = recorded(&config);
    let followed = follow(&lines, Level::StrictSerializable, 64, HELD);
    assert_eq!(followed.end, End::Whole);
    let text = String::from_utf8(followed.proof).unwrap();
    let parts: Vec<&str> = text.lines().collect();
    let reject = |changed: Vec<&str>, because: &str| {
        let said = audited(&lines, changed.join("\n").as_bytes());
        let Audited::Rejected(why) = said else { panic!("accepted: {because}") };
        assert!(why.contains(because), "{why}: {because}");
    };
    reject(parts[..parts.len() - 1].to_vec(), "no end");
    reject([&parts[..1], &parts[2..]].concat(), "");
    reject([&parts[..2], &parts[parts.len() - 1..]].concat(), "committed and is missing");
    reject([&parts[..2], &parts[1..]].concat(), "twice");
    let Part::Order(first) = &followed.parts[0] else { panic!("an order") };
    let mut backwards = first.clone();
    backwards.reverse();
    let backwards = format!("{{\"order\":{backwards:?},\"left\":[]}}");
    reject([&parts[..1], &[backwards.as_str()], &parts[2..]].concat(), "");
    let left = format!("{{\"order\":{:?},\"left\":[{}]}}", &first[1..], first[0]);
    reject([&parts[..1], &[left.as_str()], &parts[2..]].concat(), "");
}

/// A read of the value before the last one, of a key that others write all the time.
fn stale(lines: &mut [Vec<u8>]) -> usize {
    let mut written: Vec<String> = Vec::new();
    let half = lines.len() / 2;
    for (number, line) in lines.iter_mut().enumerate() {
        let text = String::from_utf8(line.clone()).unwrap();
        if let Some((_, value)) = text.split_once("\"write\":[[7,") {
            written.push(value.to_owned());
        }
        if let Some((head, value)) = text.split_once("\"read\":[[7,")
            && number > half
            && written.len() > 20
            && value != written[written.len() - 20]
        {
            *line = format!("{head}\"read\":[[7,{}", written[written.len() - 20]).into_bytes();
            return number;
        }
    }
    panic!("no read of key 7")
}

#[test]
fn a_stale_read_is_proved_by_what_is_in_memory() {
    let mix = Mix::NAMED[0].1;
    let config =
        SimConfig { mix, transactions: 6_000, unknown: Ppm(0), ..SimConfig::new(Protocol::Ss2pl, 1) };
    let mut lines = recorded(&config);
    let injected = stale(&mut lines);
    let level = Level::StrictSerializable;
    let followed = follow(&lines, level, 64, HELD);
    assert!(followed.violated, "{:?}", followed.end);
    assert!(matches!(offline(&lines, level), Verdict::Violated(_)));
    // What comes after it makes no difference, and what is before it does not prove it.
    assert!(!follow(&lines[..injected - 10], level, 64, HELD).violated);
}

/// What was found counts no longer when something comes that was called before it: it might have
/// explained it.
#[test]
fn what_comes_too_late_withdraws_a_violation() {
    let text = [
        r#"{"margay":1,"initial":[["x",0]]}"#,
        r#"{"session":0,"txn":1,"at":[1,2],"write":[["x",1]]}"#,
        r#"{"session":0,"txn":1,"at":[3,4],"commit":true}"#,
        r#"{"session":1,"txn":2,"at":[10,11],"read":[["x",2]]}"#,
        r#"{"session":1,"txn":2,"at":[12,13],"commit":true}"#,
        r#"{"session":2,"txn":3,"at":[5,6],"write":[["x",2]]}"#,
    ];
    let level = Level::StrictSerializable;
    let sink = || Box::new(|_: &Part, _: &[u64]| Ok(()));
    let mut follower =
        Follower::new(Question::new(level), text[0].as_bytes(), Budget::unlimited(), sink()).unwrap();
    text[1..5].iter().for_each(|line| follower.line(line.as_bytes()).unwrap());
    follower.advance(20, true).unwrap();
    assert!(follower.found().is_some(), "{:?}", follower.stopped());
    follower.line(text[5].as_bytes()).unwrap();
    assert!(follower.found().is_none());
    assert!(follower.stopped().is_some_and(|why| why.contains("came later")));
}

/// T1 has an unknown outcome. Nobody reads what it wrote until long after its place was settled.
#[test]
fn a_transaction_of_unknown_outcome_is_seen_late() {
    let mut lines = vec![
        r#"{"margay":1,"initial":[["x",0],["y",0]]}"#.to_owned(),
        r#"{"session":0,"txn":1,"at":[1,2],"read":[["x",0]]}"#.to_owned(),
        r#"{"session":0,"txn":1,"at":[3,4],"write":[["y",7]]}"#.to_owned(),
        r#"{"session":0,"txn":1,"at":[5,6],"unknown":true}"#.to_owned(),
    ];
    for txn in 2..40 {
        let (at, seen) = (10 * txn, if txn == 2 { 0 } else { txn - 1 });
        let of = |from: i64| format!("\"session\":0,\"txn\":{txn},\"at\":[{},{}]", at + from, at + from + 1);
        lines.push(format!("{{{},\"read\":[[\"x\",{seen}]]}}", of(0)));
        lines.push(format!("{{{},\"write\":[[\"x\",{txn}]]}}", of(2)));
        lines.push(format!("{{{},\"commit\":true}}", of(4)));
    }
    let with = |y: i64| -> Vec<Vec<u8>> {
        let last = r#"{"session":1,"txn":40,"at":[500,501],"#;
        let read = format!("{last}\"read\":[[\"y\",{y}]]}}");
        let all = lines.iter().cloned().chain([read, format!("{last}\"commit\":true}}")]);
        all.map(String::into_bytes).collect()
    };
    for level in [Level::StrictSerializable, Level::StrictSnapshotIsolation] {
        let seen = follow(&with(7), level, 1, 2);
        assert_eq!(seen.end, End::Whole);
        assert!(seen.parts.iter().any(|part| matches!(part, Part::Late(1, _))));
        assert!(matches!(audited(&with(7), &seen.proof), Audited::Accepted { transactions: 40, .. }));
        assert!(matches!(audited(&with(0), &seen.proof), Audited::Rejected(_)));
        let unseen = follow(&with(0), level, 1, 2);
        assert_eq!(unseen.end, End::Whole);
        assert!(matches!(audited(&with(0), &unseen.proof), Audited::Accepted { transactions: 39, .. }));
        assert_ne!(follow(&with(8), level, 1, 2).end, End::Whole);
    }
}

/// T1 and T2 have unknown outcomes, and T2 saw what T1 wrote: nothing that is settled explains it.
/// Such a chain once ended 100,000 transactions with 10,000 keys in `unknown`.
#[test]
fn a_chain_of_unknown_outcomes_is_seen_late() {
    let mut lines = vec![r#"{"margay":1,"initial":[["x",0],["y",0],["z",0]]}"#.to_owned()];
    let mut op = |session: i64, txn: i64, at: i64, what: &str| {
        let interval = format!("[{at},{}]", at + 1);
        lines.push(format!("{{\"session\":{session},\"txn\":{txn},\"at\":{interval},{what}}}"));
    };
    let filler = |op: &mut dyn FnMut(i64, i64, i64, &str), session: i64, txn: i64, seen: i64| {
        op(session, txn, 10 * txn, &format!("\"read\":[[\"x\",{seen}]]"));
        op(session, txn, 10 * txn + 2, &format!("\"write\":[[\"x\",{txn}]]"));
        op(session, txn, 10 * txn + 4, "\"commit\":true");
    };
    op(0, 1, 1, r#""write":[["y",7]]"#);
    op(0, 1, 3, r#""unknown":true"#);
    (3..40).for_each(|txn| filler(&mut op, 0, txn, if txn == 3 { 0 } else { txn - 1 }));
    op(0, 2, 401, r#""read":[["y",7]]"#);
    op(0, 2, 403, r#""write":[["z",9]]"#);
    op(0, 2, 405, r#""unknown":true"#);
    (41..80).for_each(|txn| filler(&mut op, 0, txn, if txn == 41 { 39 } else { txn - 1 }));
    let with = |y: i64, z: i64| -> Vec<Vec<u8>> {
        let last = r#"{"session":1,"txn":80,"at":[900,901],"#;
        let read = format!("{last}\"read\":[[\"y\",{y}],[\"z\",{z}]]}}");
        let all = lines.iter().cloned().chain([read, format!("{last}\"commit\":true}}")]);
        all.map(String::into_bytes).collect()
    };
    for level in [Level::StrictSerializable, Level::StrictSnapshotIsolation] {
        for (y, z, late) in [(7, 9, 2), (7, 0, 1), (0, 0, 0)] {
            let seen = follow(&with(y, z), level, 1, 2);
            assert_eq!(seen.end, End::Whole, "{y}, {z}");
            let woken = seen.parts.iter().filter(|part| matches!(part, Part::Late(..))).count();
            assert_eq!(woken, late, "{y}, {z}");
            let audited = audited(&with(y, z), &seen.proof);
            let all = 77 + late as u64;
            assert!(matches!(audited, Audited::Accepted { transactions, .. } if transactions == all));
        }
        // T2 saw what T1 wrote, so they cannot see the one without the other.
        assert_ne!(follow(&with(0, 9), level, 1, 2).end, End::Whole);
    }
}

/// The lines of one transaction come after thousands that began later: its place is settled without
/// it.
#[test]
fn a_transaction_behind_the_watermark_is_named_and_nobody_is_accused() {
    for (protocol, level) in LEVELS {
        let config = SimConfig { transactions: 3_000, ..SimConfig::new(protocol, 5) };
        let mut lines = recorded(&config);
        let of = |line: &[u8]| glance(line).unwrap().unwrap().txn;
        let is_commit = |line: &&Vec<u8>| line.ends_with(br#""commit":true}"#);
        let late = of(lines[100..].iter().find(is_commit).expect("a commit"));
        let header = lines.remove(0);
        let (last, first): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| of(line) == late);
        let lines = [vec![header], first, last].concat();
        let sink = Box::new(|_: &Part, _: &[u64]| Ok(()));
        let follower = Follower::new(Question::new(level), &lines[0], Budget::unlimited(), sink);
        let mut follower = follower.expect("a follower").holding(300);
        for (number, line) in lines.iter().enumerate().skip(1) {
            follower.line(line).expect("a line");
            if number % 64 == 0 {
                follower.advance_by_guess(true).expect("lines");
            }
        }
        let End::Stopped(why) = follower.finish().expect("lines") else { panic!("{protocol}: an order") };
        assert!(follower.found().is_none(), "{protocol}: {why}");
        println!("{protocol}: {why}");
    }
}

#[test]
fn what_cannot_be_followed_is_named() {
    let header = br#"{"margay":1}"#;
    let sink = || Box::new(|_: &Part, _: &[u64]| Ok(()));
    for (line, why) in [
        (r#"{"session":0,"txn":1,"write":[["x",1]]}"#, "without an interval (line 2)"),
        (r#"{"session":0,"txn":1,"at":[1,2],"sql":"SELECT 1"}"#, "SQL statements"),
        (r#"{"evidence":"version-order","object":"x","txns":[1]}"#, "evidence"),
    ] {
        let mut follower =
            Follower::new(Question::new(Level::StrictSerializable), header, Budget::unlimited(), sink())
                .unwrap();
        follower.line(line.as_bytes()).unwrap();
        follower.finish().unwrap();
        assert!(follower.stopped().is_some_and(|said| said.contains(why)), "{:?}", follower.stopped());
    }
    let mut follower =
        Follower::new(Question::new(Level::StrictSerializable), header, Budget::unlimited(), sink()).unwrap();
    assert!(follower.line(b"{\"session\":0,").is_err());
}
