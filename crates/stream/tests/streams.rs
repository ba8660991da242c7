//! What is followed while it comes is what engine follow decides of the whole, and its proof is accepted.

use std::sync::{Arc, Mutex};

use margay_follow::Follow;
use margay_formats::{Format, Source, glance, read};
use margay_levels::Level;
use margay_simdb::{Fault, JsonSink, Mix, Ppm, Protocol, SimConfig, simulate};
use margay_stream::proof::{self, Audited};
use margay_stream::{End, Follower, Part};
use margay_verdict::{Budget, Checker, Question, Verdict};

const LEVELS: [(Protocol, Level); 3] = [
    (Protocol::Ss2pl, Level::StrictSerializable),
    (Protocol::SiFuw, Level::StrictSnapshotIsolation),
    (Protocol::Occ, Level::StrictSerializable),
];

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
    parts: Vec<Part>,
    proof: Vec<u8>,
    most_open: u64,
}

/// Follows lines. The watermark is exact: after each line, the earliest call of all that are still to come.
fn follow(lines: &[Vec<u8>], level: Level, every: usize) -> Followed {
    let (parts, text) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    proof::begin(&mut *text.lock().unwrap(), level).unwrap();
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
    let mut follower = Follower::new(level, &lines[0], Budget::unlimited(), sink).expect("a follower");
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
    let settled = follower.progress().settled;
    drop(follower);
    proof::end(&mut *text.lock().unwrap(), settled).unwrap();
    let (parts, proof) = (parts.lock().unwrap().clone(), text.lock().unwrap().clone());
    Followed { end, parts, proof, most_open }
}

fn whole(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
}

fn audited(lines: &[Vec<u8>], proof: &[u8]) -> Audited {
    proof::audit(whole(lines).as_slice(), proof, &Budget::unlimited()).expect("both can be read")
}

fn offline(lines: &[Vec<u8>], level: Level) -> Verdict {
    let history = read(Source::bytes(&whole(lines)), Some(Format::Margay)).expect("a history").history;
    Follow.check(&history, Question::new(level), &Budget::unlimited())
}

#[test]
fn correct_databases_are_followed_to_the_end_and_the_proof_is_accepted() {
    for (protocol, level) in LEVELS {
        for (name, mix) in Mix::NAMED {
            for seed in 0..2 {
                let config = SimConfig { mix, transactions: 3_000, ..SimConfig::new(protocol, seed) };
                let lines = recorded(&config);
                if !matches!(offline(&lines, level), Verdict::Holds(_)) {
                    continue;
                }
                let followed = follow(&lines, level, 64);
                assert_eq!(followed.end, End::Whole, "{protocol} {name} {seed}");
                assert!(followed.parts.len() > 2, "{protocol} {name}: settled while it came");
                assert!(followed.most_open < 2_500, "{protocol} {name}: {} are held", followed.most_open);
                let said = audited(&lines, &followed.proof);
                assert!(matches!(said, Audited::Accepted { .. }), "{protocol} {name} {seed}: {said:?}");
            }
        }
    }
}
