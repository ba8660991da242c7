//! When a follower looks makes no difference to its answer.
//!
//! The follower looks when enough has come, or when somebody wants to know: on a busy machine that
//! is at other moments than on a quiet one. So here it looks at moments that a seed chooses: after
//! every few lines, hardly ever, in bursts. A stream of 50 million operations once held, and ended
//! in `unknown` under load: a search that took long was put off until too much was waiting for a
//! longer one. With 1,000 keys, most streams ended in `unknown` after some ten thousand
//! transactions: one of unknown outcome was seen long after its place had been settled.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use margay_levels::Level;
use margay_simdb::{JsonSink, Mix, Protocol, Rng, SimConfig, simulate};
use margay_stream::proof::{self, Audited, Late};
use margay_stream::{End, Follower, Part};
use margay_verdict::{Budget, Question};

/// Moments per stream; the seed of the stream is the same.
fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// When to look.
enum Looks {
    /// When enough has come; that is asked after every so many lines.
    Enough(u64),
    /// After every so many lines.
    Every(u64),
    /// Whenever a coin says so, that is thrown after every so many lines.
    Coin(u64, u64),
    /// By turns, for some thousand lines: after every few lines, and not at all.
    Bursts(u64),
}

impl Looks {
    fn of(seed: u64, random: &mut Rng) -> Self {
        match seed % 8 {
            0 => Looks::Every(512 + random.below(4_000)),
            1 => Looks::Coin(512, 2 + random.below(60)),
            2 => Looks::Enough(1_000 + random.below(400_000)),
            3 => Looks::Every(64 + random.below(512)),
            4 => Looks::Every(5_000 + random.below(60_000)),
            5 => Looks::Coin(64, 2 + random.below(2_000)),
            6 => Looks::Bursts(1_000 + random.below(100_000)),
            _ => Looks::Enough(512),
        }
    }

    /// Whether to ask after this line, and whether somebody wants to know.
    fn at(&self, number: u64, random: &mut Rng) -> Option<bool> {
        match *self {
            Looks::Enough(lines) => number.is_multiple_of(lines).then_some(false),
            Looks::Every(lines) => number.is_multiple_of(lines).then_some(true),
            Looks::Coin(lines, sides) => number.is_multiple_of(lines).then(|| random.below(sides) == 0),
            Looks::Bursts(lines) => ((number / lines).is_multiple_of(2) && number.is_multiple_of(64))
                .then(|| random.below(4) == 0),
        }
    }
}

/// Passes lines to a follower that looks when it is told to.
struct Feed {
    follower: Option<Follower<'static>>,
    level: Level,
    line: Vec<u8>,
    number: u64,
    looks: Looks,
    random: Rng,
    proof: Arc<Mutex<Vec<u8>>>,
    lines: Vec<u8>,
}

impl Feed {
    fn take(&mut self) {
        let Some(follower) = &mut self.follower else {
            let proof = Arc::clone(&self.proof);
            let sink = Box::new(move |part: &Part, left: &[u64]| {
                proof::write_part(&mut *proof.lock().unwrap(), part, left)
            });
            let follower = Follower::new(Question::new(self.level), &self.line, Budget::unlimited(), sink);
            let follower = follower.expect("a follower");
            proof::begin(&mut *self.proof.lock().unwrap(), &follower.head()).unwrap();
            self.follower = Some(follower);
            return;
        };
        follower.line(&self.line).expect("a line");
        self.number += 1;
        if let Some(eager) = self.looks.at(self.number, &mut self.random) {
            follower.advance_by_guess(eager).expect("lines");
        }
    }
}

impl Write for Feed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.ends_with(b"\n") {
                self.take();
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn followed(config: &SimConfig, level: Level, seed: u64) -> (End, Audited) {
    let mut random = Rng::new(seed, 1);
    let looks = Looks::of(seed, &mut random);
    let (proof, lines) = (Arc::default(), Vec::new());
    let feed = Feed { follower: None, level, line: Vec::new(), number: 0, looks, random, proof, lines };
    let mut sink = JsonSink::new(feed);
    simulate(config, &mut sink).expect("a stream");
    let mut feed = sink.finish().expect("lines");
    let mut follower = feed.follower.take().expect("a header");
    let end = follower.finish().expect("lines");
    let settled = follower.progress().settled;
    drop(follower);
    let mut proof = feed.proof.lock().unwrap();
    proof::end(&mut *proof, settled).unwrap();
    let late = Late::read(proof.as_slice()).expect("a proof");
    let said = proof::audit(feed.lines.as_slice(), proof.as_slice(), late, &Budget::unlimited());
    (end, said.expect("both can be read"))
}

/// With few keys it is the order of writes that shows late; with many, whether a transaction of
/// unknown outcome took effect: one in a hundred.
#[test]
fn a_correct_stream_holds_whenever_the_follower_looks() {
    let [registers, lists, rows, mixed] = Mix::NAMED.map(|(_, mix)| mix);
    let (serial, snapshot) = (Level::StrictSerializable, Level::StrictSnapshotIsolation);
    for (protocol, level, mix, keys, transactions) in [
        (Protocol::Ss2pl, serial, registers, 100, 10_000),
        (Protocol::Ss2pl, serial, registers, 10_000, 15_000),
        (Protocol::SiFuw, snapshot, registers, 10_000, 10_000),
        (Protocol::Ss2pl, serial, lists, 1_000, 6_000),
        (Protocol::Ss2pl, serial, mixed, 1_000, 6_000),
        (Protocol::SiFuw, snapshot, mixed, 1_000, 6_000),
        (Protocol::Ss2pl, serial, rows, 100, 3_000),
    ] {
        let config = SimConfig { mix, transactions, keys, ..SimConfig::new(protocol, 1) };
        for seed in 0..seeds() {
            let (end, audited) = followed(&config, level, seed);
            let case = format!("{}, looks {seed}", config.command("-"));
            assert_eq!(end, End::Whole, "{case}");
            assert!(matches!(audited, Audited::Accepted { .. }), "{case}: {audited:?}");
        }
    }
}
