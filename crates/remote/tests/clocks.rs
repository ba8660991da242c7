//! Machines whose clocks differ: what the verifier takes their times for is right, and it finds what
//! is wrong and nothing else. Nothing here waits: clocks and networks are simulated.

use margay_formats::glance;
use margay_levels::Level;
use margay_remote::{Clock, Exchange, Merge};
use margay_simdb::{Fault, JsonSink, Mix, Ppm, Protocol, Rng, SimConfig, simulate};
use margay_stream::{End, Follower};
use margay_verdict::{Budget, Question};

/// A clock that shows another time than the verifier's, and is faster or slower. All numbers are in
/// nanoseconds.
#[derive(Clone, Copy)]
struct Skewed {
    offset: i64,
    /// In millionths.
    rate: i64,
}

impl Skewed {
    fn random(rng: &mut Rng) -> Self {
        // Up to 50 ms and never less than 5; up to 1,200 ppm: 600 for each of two clocks.
        let offset = 5_000_000 + rng.below(45_000_000) as i64;
        let offset = if rng.below(2) == 0 { offset } else { -offset };
        Self { offset, rate: rng.below(2_381) as i64 - 1_190 }
    }

    /// What it shows at this true time.
    fn at(self, time: i64) -> i64 {
        time + self.offset + time / 1_000_000 * self.rate
    }
}

/// An exchange that begins at this true time, with delays that differ in both directions.
fn exchange(rng: &mut Rng, clock: Skewed, asked: i64) -> Exchange {
    let mut delay =
        || if rng.below(8) == 0 { rng.below(20_000_000) } else { 30_000 + rng.below(400_000) } as i64;
    let (there, rest, back) = (delay(), delay() / 8, delay());
    Exchange {
        asked,
        heard: clock.at(asked + there),
        answered: clock.at(asked + there + rest),
        arrived: asked + there + rest + back,
    }
}

#[test]
fn the_bounds_are_never_violated() {
    let (mut worst, mut sum, mut count) = (0, 0, 0);
    for seed in 0..1_000 {
        let mut rng = Rng::new(seed, 1);
        let skewed = Skewed::random(&mut rng);
        let mut clock = Clock::default();
        for beat in 0..50 {
            let now = beat * 100_000_000 + rng.below(50_000_000) as i64;
            clock.learn(exchange(&mut rng, skewed, now)).expect("a clock that does not jump");
            // A time that was before, or comes later, or much later: no exchange for 3 s.
            for distance in [-80_000_000, -1_000, 0, 70_000_000, 3_000_000_000] {
                let time = now + distance;
                let (earliest, latest) = clock.bounds(skewed.at(time)).expect("bounds");
                assert!((earliest..=latest).contains(&time), "seed {seed}: {time} in {earliest}..{latest}");
                if distance == 70_000_000 {
                    (worst, sum, count) = (worst.max(latest - earliest), sum + latest - earliest, count + 1);
                }
            }
        }
    }
    println!("{count} bounds: {} us wide on average, {} us at most", sum / count / 1_000, worst / 1_000);
    assert!(sum / count < 2_000_000, "bounds of {} ns tell nothing", sum / count);
}

const MACHINES: usize = 4;

/// How many nanoseconds one tick of the simulated database is: an operation takes some milliseconds.
const TICK: i64 = 20;

struct Line {
    machine: usize,
    before: i64,
    after: i64,
    text: String,
}

/// A recording, as the machines of its sessions would make it by a true clock.
fn recorded(fault: Option<Fault>, seed: u64) -> (Vec<u8>, Vec<Line>) {
    let mix = Mix::named("registers").expect("a mix");
    let config =
        SimConfig { clients: 12, transactions: 400, keys: 12, mix, ..SimConfig::new(Protocol::SiFuw, seed) };
    let config = match fault {
        Some(fault) => config.with_fault(fault, Ppm::percent(50)),
        None => config,
    };
    let mut sink = JsonSink::new(Vec::new());
    simulate(&config, &mut sink).expect("a recording");
    let text = String::from_utf8(sink.finish().expect("lines")).expect("text");
    let (header, lines) = text.split_once('\n').expect("a header");
    let mut lines: Vec<Line> = lines
        .lines()
        .map(|line| {
            let seen = glance(line.as_bytes()).expect("a line").expect("an operation");
            let at = seen.at.expect("an interval");
            let machine = seen.session as usize % MACHINES;
            Line {
                machine,
                before: at.before * TICK,
                after: at.after * TICK,
                text: timed(line, (at.before, at.after)),
            }
        })
        .collect();
    lines.sort_by_key(|line| line.after);
    (format!("{header}\n").into_bytes(), lines)
}

/// With a place for another interval.
fn timed(line: &str, (before, after): (i64, i64)) -> String {
    let at = format!("\"at\":[{before},{after}]");
    assert!(line.contains(&at), "{line}");
    line.replacen(&at, "\"at\":[]", 1) + "\n"
}

/// Streams a recording from machines with skewed clocks, and follows it. With `trusting`, the
/// verifier believes all clocks to be its own.
fn verify(fault: Option<Fault>, seed: u64, trusting: bool) -> (End, bool) {
    let (header, lines) = recorded(fault, seed);
    let mut rng = Rng::new(seed, 2);
    let clocks: Vec<Skewed> = (0..MACHINES).map(|_| Skewed::random(&mut rng)).collect();
    let question = Question::new(Level::StrictSnapshotIsolation);
    let sink = Box::new(|_: &margay_stream::Part, _: &[u64]| Ok(()));
    let mut follower = Follower::new(question, &header, Budget::unlimited(), sink).expect("a follower");
    let mut merge = Merge::new(MACHINES);
    let last = lines.iter().map(|line| line.after).max().expect("lines");
    let (mut sent, mut number) = ([0; MACHINES], 0);
    let beat = 5_000_000;
    for now in (0..).map(|beats| beats * beat) {
        for (machine, &clock) in clocks.iter().enumerate() {
            if now % (20 * beat) == 0 {
                let told = exchange(&mut rng, clock, now - 40_000_000);
                let blind = Exchange { asked: now, heard: now, answered: now, arrived: now };
                merge.learn(machine, if trusting { blind } else { told }).expect("no jump");
            }
            // Some frames are late.
            if rng.below(4) == 0 && now <= last {
                continue;
            }
            let own = || lines.iter().filter(|line| line.machine == machine);
            let due: Vec<&Line> = own().skip(sent[machine]).take_while(|line| line.after <= now).collect();
            sent[machine] += due.len();
            let promise = own().skip(sent[machine]).map(|line| line.before).min().unwrap_or(now).min(now);
            let text: String = due
                .iter()
                .map(|line| {
                    let at = format!("\"at\":[{},{}]", clock.at(line.before), clock.at(line.after));
                    line.text.replacen("\"at\":[]", &at, 1)
                })
                .collect();
            number += 1;
            merge.take(machine, number, clock.at(promise), text.as_bytes()).expect("lines");
            if now > last {
                merge.end(machine);
            }
        }
        let until = merge.release(|line| follower.line(line).map_err(|trouble| trouble.to_string()));
        follower.advance(until.expect("lines"), true).expect("followed");
        if now > last {
            break;
        }
    }
    if follower.stopped().is_none() {
        assert_eq!(follower.counts().operations, lines.len() as u64, "every line has come");
    }
    (follower.finish().expect("an end"), follower.found().is_some())
}

fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

#[test]
fn what_is_right_holds_by_all_clocks() {
    for seed in 0..seeds() {
        let (end, violated) = verify(None, seed, false);
        assert_eq!((end, violated), (End::Whole, false), "seed {seed}");
    }
}

/// Otherwise the test above would show nothing.
#[test]
fn who_trusts_the_clocks_accuses_what_is_right() {
    let accused = (0..20).any(|seed| verify(None, seed, true).0 != End::Whole);
    assert!(accused, "clocks that differ by 5 ms and more make no difference");
}

#[test]
fn a_stale_read_is_still_found() {
    let found = (0..20).filter(|&seed| verify(Some(Fault::StaleSnapshot), seed, false).1).count();
    println!("a stale read was found in {found} of 20 recordings");
    assert!(found >= 10, "found in {found} of 20 recordings");
}
