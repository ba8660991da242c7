//! Wrong certificates. Versions dropped, swapped, duplicated, timestamps exchanged: the answer is
//! an error with a name, `violated`, or what is missing; and `holds` only where the definitions,
//! asked about the corrupted certificate, say so too and audit accepts the proof.

use std::time::Duration;

use margay_audit::audit;
use margay_certify::{Certify, Replay};
use margay_history::{Evidence, History, Version};
use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{EvidenceOptions, Mix, Ppm, Protocol, Rng, SimConfig, simulate_history};
use margay_solve::Solve;
use margay_verdict::{Budget, Checker, Question, Verdict, Why};

/// What can go wrong on the way from a database to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Damage {
    DropVersion,
    SwapVersions,
    DuplicateVersion,
    DropOrder,
    DropSetEntry,
    ChangeSetEntry,
    SwapCommits,
    SwapSerializations,
    SwapSnapshots,
    EqualCommits,
    DropCommit,
}

use Damage::*;

const ALL: [Damage; 11] = [
    DropVersion,
    SwapVersions,
    DuplicateVersion,
    DropOrder,
    DropSetEntry,
    ChangeSetEntry,
    SwapCommits,
    SwapSerializations,
    SwapSnapshots,
    EqualCommits,
    DropCommit,
];

fn pick<T>(rng: &mut Rng, all: &[T]) -> Option<usize> {
    (!all.is_empty()).then(|| rng.below(all.len() as u64) as usize)
}

fn swap(stamps: &mut [(margay_history::TxnId, i64)], rng: &mut Rng) -> Option<()> {
    let (a, b) = (pick(rng, stamps)?, pick(rng, stamps)?);
    if stamps[a].1 == stamps[b].1 {
        return None;
    }
    (stamps[a].1, stamps[b].1) = (stamps[b].1, stamps[a].1);
    Some(())
}

/// Damages evidence; none if there is nothing to damage.
fn damage(evidence: &mut Evidence, what: Damage, rng: &mut Rng) -> Option<()> {
    match what {
        DropVersion | SwapVersions | DuplicateVersion => {
            // Timestamps would make up for it.
            evidence.commits.clear();
            evidence.serializations.clear();
            let order = pick(rng, &evidence.version_orders)?;
            let versions = &mut evidence.version_orders[order].versions;
            let at = pick(rng, versions).filter(|_| versions.len() > 1)?;
            let next = if at + 1 < versions.len() { at + 1 } else { at - 1 };
            match what {
                DropVersion => _ = versions.remove(at),
                SwapVersions => versions.swap(at, next),
                _ => versions.insert(at, versions[at]),
            }
        }
        DropOrder => {
            evidence.commits.clear();
            evidence.serializations.clear();
            let order = pick(rng, &evidence.version_orders)?;
            evidence.version_orders.remove(order);
        }
        DropSetEntry | ChangeSetEntry => {
            let set = pick(rng, &evidence.version_sets)?;
            let versions = &mut evidence.version_sets[set].versions;
            let at = pick(rng, versions)?;
            if what == DropSetEntry {
                versions.remove(at);
            } else {
                let object = versions[at].0;
                let orders = evidence.version_orders.iter().filter(|order| order.object == object);
                let known: Vec<Version> = orders.flat_map(|order| order.versions.clone()).collect();
                let other = known[pick(rng, &known)?];
                if std::mem::replace(&mut versions[at].1, other) == other {
                    return None;
                }
            }
        }
        SwapCommits => swap(&mut evidence.commits, rng)?,
        SwapSerializations => swap(&mut evidence.serializations, rng)?,
        SwapSnapshots => swap(&mut evidence.snapshots, rng)?,
        EqualCommits => {
            let (a, b) = (pick(rng, &evidence.commits)?, pick(rng, &evidence.commits)?);
            evidence.commits[a].1 = evidence.commits[b].1;
        }
        DropCommit => {
            let at = pick(rng, &evidence.commits)?;
            evidence.commits.remove(at);
        }
    }
    Some(())
}

/// How often what came of it: refused as input, violated, something missing, holds.
#[derive(Default, Debug)]
struct Said([usize; 4]);

fn judge(history: &History, level: Level, engine: &dyn Checker, what: &str) -> usize {
    let question = Question::new(level);
    let budget = || Budget::unlimited().with_time(Duration::from_secs(5));
    let verdict = engine.check(history, question, &budget());
    if let Some(certificate) = verdict.certificate() {
        assert_eq!(audit(history, question, certificate), Ok(()), "{what}");
    }
    let expected = holds(history, question, &Budget::unlimited().with_time(Duration::from_millis(300)));
    match (&verdict, expected) {
        (Verdict::Violated(_), expected) => {
            assert_ne!(expected, Ok(true), "{what}: {verdict:?}");
            1
        }
        (Verdict::Holds(_), expected) => {
            assert_ne!(expected, Ok(false), "{what}: {verdict:?}");
            3
        }
        (Verdict::Unknown(Why::MissingEvidence(_)), _) => 2,
        (other, _) => panic!("{what}: {other:?}"),
    }
}

fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

fn small(protocol: Protocol, seed: u64) -> SimConfig {
    let mix = Mix::NAMED[(seed % 4) as usize].1;
    let config = SimConfig::small(protocol, mix, seed);
    SimConfig { evidence: EvidenceOptions::ALL, unknown: Ppm::NEVER, ..config }
}

#[test]
fn a_wrong_certificate_never_holds_by_luck() {
    let protocols = [(Protocol::Ss2pl, Level::Serializable), (Protocol::SiFuw, Level::SnapshotIsolation)];
    for what in ALL {
        let (mut certify, mut replay) = (Said::default(), Said::default());
        for seed in 0..seeds() {
            for (protocol, level) in protocols {
                let (history, _) = simulate_history(&small(protocol, seed)).expect("a history");
                let mut rng = Rng::new(seed, 77);
                let mut evidence = history.evidence().clone();
                if damage(&mut evidence, what, &mut rng).is_none() {
                    continue;
                }
                let text = format!("{what:?} {protocol} seed {seed}");
                let Ok(damaged) = history.with_evidence(evidence) else {
                    certify.0[0] += 1;
                    continue;
                };
                certify.0[judge(&damaged, level, &Certify, &text)] += 1;
                replay.0[judge(&damaged, level, &Replay, &text)] += 1;
            }
        }
        println!(
            "{what:?}: refused, violated, missing, holds: certify {:?} replay {:?}",
            certify.0, replay.0
        );
        let noticed = certify.0[..3].iter().chain(&replay.0[..3]).sum::<usize>();
        // What values tell need not be in a version set.
        assert!(noticed > 0 || what == DropSetEntry, "{what:?} was never noticed");
        if what == DuplicateVersion {
            assert_eq!(certify.0[1..], [0, 0, 0], "a version twice is an error of the input");
        }
    }
}

/// What the engine that searches says of a history with its certificate, certify says too.
#[test]
fn certify_says_what_solve_says() {
    let mut compared = [0, 0];
    for seed in 0..seeds() {
        for protocol in Protocol::ALL {
            let (history, _) = simulate_history(&small(protocol, seed)).expect("a history");
            for level in [Level::Serializable, Level::SnapshotIsolation, Level::StrictSerializable] {
                let question = Question::new(level);
                let budget = Budget::unlimited().with_time(Duration::from_secs(2));
                let certify = Certify.check(&history, question, &budget);
                let solve = Solve.check(&history, question, &budget);
                let known = |verdict: &Verdict| !matches!(verdict, Verdict::Unknown(_));
                // What audit rejects is no answer.
                let proved = solve.certificate().is_some_and(|c| audit(&history, question, c).is_ok());
                if known(&certify) && known(&solve) && proved {
                    assert_eq!(certify.word(), solve.word(), "{protocol} seed {seed} {level}");
                    compared[usize::from(certify.word() == "holds")] += 1;
                }
            }
        }
    }
    println!("violated, holds: {compared:?}");
    assert!(compared[0] > 50 && compared[1] > 200, "{compared:?}");
}
