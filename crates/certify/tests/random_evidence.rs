//! Evidence of all kinds, in part, with ties and with errors, on small histories with unknown
//! outcomes and partial rows: whatever the engines decide is what the definitions say.

use std::time::Duration;

use margay_audit::audit;
use margay_certify::{Certify, Replay};
use margay_history::{Evidence, History, TxnId, Version, VersionOrder, VersionSet};
use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{EvidenceOptions, Fault, Mix, Ppm, Protocol, Rng, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, Verdict};

fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
}

fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// What a simulated database tells.
fn simulated(seed: u64, rng: &mut Rng) -> History {
    let protocol = Protocol::ALL[rng.below(Protocol::ALL.len() as u64) as usize];
    let mix = Mix::NAMED[rng.below(Mix::NAMED.len() as u64) as usize].1;
    let unknown = Ppm::percent(if chance(rng, 50) { 25 } else { 0 });
    let config =
        SimConfig { evidence: EvidenceOptions::ALL, unknown, ..SimConfig::small(protocol, mix, seed) };
    let fault = Fault::ALL[rng.below(Fault::ALL.len() as u64) as usize];
    let broken = fault.applies_to(protocol) && chance(rng, 50);
    let config = if broken { config.with_fault(fault, Ppm::percent(25)) } else { config };
    simulate_history(&config).expect("a history").0
}

/// A history of any kind, with evidence from the order in which its transactions ended, or from any
/// order.
fn invented(seed: u64, rng: &mut Rng) -> History {
    let history = margay_testkit::random(seed);
    let mut order: Vec<(i64, TxnId)> = history.txns().map(|t| (history.end(t).unwrap_or(0), t)).collect();
    order.sort_unstable();
    if chance(rng, 30) {
        (1..order.len()).rev().for_each(|i| order.swap(i, rng.below(i as u64 + 1) as usize));
    }
    let stamps = |shift: i64| {
        let mut all: Vec<_> = order.iter().enumerate().map(|(i, o)| (o.1, 4 * i as i64 + shift)).collect();
        all.sort_unstable();
        all
    };
    let wrote = |txn: TxnId, object| {
        history.ops(txn).any(|op| op.kind.writes() && op.accesses.iter().any(|a| a.object == object))
    };
    let orders = history.objects().map(|object| {
        let writers = order.iter().map(|o| o.1).filter(|&txn| wrote(txn, object));
        VersionOrder { object, versions: writers.map(Version::Of).collect() }
    });
    let evidence = Evidence {
        version_orders: orders.filter(|order| order.versions.len() > 1).collect(),
        commits: stamps(3),
        snapshots: stamps(if chance(rng, 50) { 1 } else { -1 }),
        serializations: stamps(0),
        ..Evidence::default()
    };
    history.clone().with_evidence(evidence).unwrap_or(history)
}

/// Leaves some of it out, makes timestamps equal, and exchanges some.
fn disturbed(mut evidence: Evidence, rng: &mut Rng) -> Evidence {
    let Evidence { version_orders, version_sets, commits, snapshots, serializations } = &mut evidence;
    for stamps in [commits, snapshots, serializations] {
        stamps_disturbed(stamps, rng);
    }
    if chance(rng, 40) {
        version_orders.clear();
    }
    version_orders.retain(|_| !chance(rng, 10));
    for VersionOrder { versions, .. } in version_orders {
        versions.retain(|_| !chance(rng, 5));
        if versions.len() > 1 && chance(rng, 5) {
            versions.swap(0, 1);
        }
    }
    if chance(rng, 50) {
        version_sets.clear();
    }
    version_sets.retain(|_| !chance(rng, 20));
    for VersionSet { versions, .. } in version_sets {
        if chance(rng, 5) && !versions.is_empty() {
            versions[0].1 = Version::Initial;
        }
    }
    evidence
}

fn stamps_disturbed(stamps: &mut Vec<(TxnId, i64)>, rng: &mut Rng) {
    if chance(rng, 40) {
        stamps.clear();
    }
    if chance(rng, 30) {
        stamps.retain(|_| !chance(rng, 20));
    }
    if chance(rng, 40) {
        let coarse = 2 + rng.below(8) as i64;
        stamps.iter_mut().for_each(|stamp| stamp.1 = stamp.1.div_euclid(coarse) * coarse);
    }
    if stamps.len() > 1 && chance(rng, 20) {
        let (a, b) = (rng.below(stamps.len() as u64) as usize, rng.below(stamps.len() as u64) as usize);
        (stamps[a].1, stamps[b].1) = (stamps[b].1, stamps[a].1);
    }
}

fn judge(history: &History, question: Question, what: &str, decided: &mut [usize; 2]) {
    let naive = || holds(history, question, &Budget::unlimited().with_time(Duration::from_millis(200)));
    for engine in [&Certify as &dyn Checker, &Replay] {
        let budget = Budget::unlimited().with_time(Duration::from_secs(5));
        let verdict = engine.check(history, question, &budget);
        let says = match verdict {
            Verdict::Holds(_) => true,
            Verdict::Violated(_) => false,
            Verdict::Unknown(_) | Verdict::Clean => continue,
        };
        let certificate = verdict.certificate().expect("a certificate");
        let told = || {
            format!("{} {question:?} {what}: {}\n{verdict:?}", engine.name(), margay_testkit::show(history))
        };
        assert_eq!(audit(history, question, certificate), Ok(()), "{}", told());
        if let Ok(expected) = naive() {
            assert_eq!(says, expected, "{}", told());
            decided[usize::from(says)] += 1;
        }
    }
}

#[test]
fn what_is_decided_is_what_the_definitions_say() {
    let mut decided = [0, 0];
    for seed in 0..seeds() {
        let mut rng = Rng::new(seed, 99);
        let history = if chance(&mut rng, 50) { simulated(seed, &mut rng) } else { invented(seed, &mut rng) };
        let evidence = disturbed(history.evidence().clone(), &mut rng);
        let Ok(history) = history.with_evidence(evidence) else { continue };
        for _ in 0..3 {
            let level = Level::ALL[rng.below(Level::ALL.len() as u64) as usize];
            let question = Question { real_time: chance(&mut rng, 20), ..Question::new(level) };
            judge(&history, question, &format!("seed {seed}"), &mut decided);
        }
    }
    println!("violated, holds: {decided:?}");
    assert!(decided[0] as u64 > seeds() / 10 && decided[1] as u64 > seeds() / 10, "{decided:?}");
}

/// Found by the above: nobody saw that the first one deleted what the third one wrote, and a commit
/// timestamp is against the serialization order.
#[test]
fn timestamps_count_for_what_nobody_saw_too() {
    let text = "init: t/1={v:3} | T1: del(t, v >= 2) | T2: w(t/1,{v:3}) | commit T1=6 | commit T2=2 | serialization T1=1 | serialization T2=2";
    let question = Question::new(Level::Serializable);
    let verdict = Replay.check(&margay_testkit::history(text), question, &Budget::unlimited());
    assert!(!matches!(verdict, Verdict::Holds(_)), "{verdict:?}");
}
