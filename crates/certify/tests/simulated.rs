//! Simulated databases that tell everything: correct ones are never accused and mostly proved,
//! broken ones are found, and on small histories both engines say what the definitions say.

use std::time::Duration;

use margay_audit::audit;
use margay_certify::{Certify, Replay};
use margay_history::History;
use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{EvidenceOptions, Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, Verdict};

fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

fn ask(engine: &dyn Checker, history: &History, level: Level) -> Verdict {
    let question = Question::new(level);
    let budget = Budget::unlimited().with_time(Duration::from_secs(20));
    let verdict = engine.check(history, question, &budget);
    if let Some(certificate) = verdict.certificate() {
        let audited = audit(history, question, certificate);
        assert!(audited.is_ok(), "{} at {level}: {audited:?}", engine.name());
    }
    verdict
}

/// The levels that the engines decide, below a promised one.
fn promised(protocol: Protocol, mix: &Mix) -> Vec<Level> {
    let promises = protocol.promises_on(mix);
    let decided =
        |level: &Level| !matches!(level, Level::BeReadCommitted | Level::ReadAtomic | Level::Causal);
    Level::ALL
        .into_iter()
        .filter(|level| promises.iter().any(|promise| promise.implies(*level)))
        .filter(decided)
        .collect()
}

fn medium(protocol: Protocol, seed: u64) -> SimConfig {
    let mix = Mix::NAMED[(seed % 4) as usize].1;
    SimConfig {
        clients: 4,
        transactions: 40,
        ops: (1, 5),
        keys: 6,
        mix,
        domain: 12,
        aborts: Ppm::percent(10),
        unknown: Ppm::percent(5),
        evidence: EvidenceOptions::ALL,
        ..SimConfig::new(protocol, seed)
    }
}

/// How often an engine said what: holds, violated, unknown.
#[derive(Default)]
struct Said([usize; 3]);

impl Said {
    fn add(&mut self, verdict: &Verdict) {
        let place = match verdict {
            Verdict::Holds(_) | Verdict::Clean => 0,
            Verdict::Violated(_) => 1,
            Verdict::Unknown(_) => 2,
        };
        self.0[place] += 1;
    }
}

#[test]
fn correct_databases_are_never_accused_and_mostly_proved() {
    let mut proved = 0;
    let mut asked = 0;
    for protocol in Protocol::ALL {
        let (mut certify, mut replay) = (Said::default(), Said::default());
        for seed in 0..seeds() {
            let config = medium(protocol, seed);
            let (history, _) = simulate_history(&config).expect("a history");
            for level in promised(protocol, &config.mix) {
                let answers = [ask(&Certify, &history, level), ask(&Replay, &history, level)];
                for answer in &answers {
                    let wrong = matches!(answer, Verdict::Violated(_));
                    assert!(!wrong, "{level}: {answer:?}: {}", config.command("OUT"));
                }
                asked += 1;
                proved += usize::from(answers.iter().any(|a| matches!(a, Verdict::Holds(_))));
                certify.add(&answers[0]);
                replay.add(&answers[1]);
            }
        }
        println!("{protocol:18} certify {:?} replay {:?}", certify.0, replay.0);
    }
    println!("{proved} of {asked} proved");
    assert!(proved * 10 > asked * 9, "only {proved} of {asked} were proved");
}

#[test]
fn faults_are_found_with_evidence() {
    let mut found_any = 0;
    let mut pairs = 0;
    println!("{:24} {:18} {:32} certify replay", "fault", "protocol", "level");
    for fault in Fault::ALL {
        for protocol in Protocol::ALL {
            let Some(level) = fault.breaks(protocol) else { continue };
            let (mut certify, mut replay, mut visible) = (Said::default(), Said::default(), 0);
            for seed in 0..12 {
                let config = medium(protocol, seed).with_fault(fault, Ppm::percent(20));
                let (history, report) = simulate_history(&config).expect("a history");
                visible += usize::from(report.count(fault).1 > 0);
                certify.add(&ask(&Certify, &history, level));
                replay.add(&ask(&Replay, &history, level));
            }
            pairs += usize::from(visible > 0);
            found_any += usize::from(visible > 0 && certify.0[1] + replay.0[1] > 0);
            println!(
                "{:24} {:18} {:32} {:4?} {:4?} of {visible}",
                fault.name(),
                protocol.name(),
                level.name(),
                certify.0,
                replay.0
            );
        }
    }
    println!("found in {found_any} of {pairs}");
    assert!(found_any * 2 > pairs, "only {found_any} of {pairs}");
}

#[test]
fn small_histories_are_judged_as_the_definitions_do() {
    let mut decided = [0, 0];
    for seed in 0..seeds() {
        for (i, protocol) in Protocol::ALL.into_iter().enumerate() {
            let mix = Mix::NAMED[(seed as usize + i) % 4].1;
            let mut config = SimConfig::small(protocol, mix, seed);
            config.evidence = EvidenceOptions::ALL;
            if seed % 2 == 0 {
                let fault = Fault::ALL[(seed as usize / 2 + i) % Fault::ALL.len()];
                if fault.applies_to(protocol) {
                    config = config.with_fault(fault, Ppm::percent(30));
                }
            }
            let (history, _) = simulate_history(&config).expect("a history");
            let level = Level::ALL[(seed as usize * 5 + i) % Level::ALL.len()];
            let budget = Budget::unlimited().with_time(Duration::from_millis(300));
            let Ok(expected) = holds(&history, Question::new(level), &budget) else { continue };
            for engine in [&Certify as &dyn Checker, &Replay] {
                match ask(engine, &history, level) {
                    Verdict::Unknown(_) => {}
                    verdict => {
                        let says = matches!(verdict, Verdict::Holds(_));
                        assert_eq!(
                            says,
                            expected,
                            "{} {level}: {verdict:?}: {}",
                            engine.name(),
                            config.command("OUT")
                        );
                        decided[usize::from(says)] += 1;
                    }
                }
            }
        }
    }
    println!("violated, holds: {decided:?}");
    assert!(decided[0] > 20 && decided[1] > 200, "{decided:?}");
}

#[test]
fn an_incomplete_certificate_is_an_error_with_a_name() {
    let mut missing = 0;
    for seed in 0..seeds() {
        let mut config = medium(Protocol::Ss2pl, seed);
        config.evidence = EvidenceOptions { version_order: 70, ..EvidenceOptions::default() };
        let (history, _) = simulate_history(&config).expect("a history");
        match ask(&Certify, &history, Level::Serializable) {
            Verdict::Unknown(why) => {
                assert!(why.to_string().contains("missing evidence"), "{why}");
                missing += 1;
            }
            Verdict::Violated(findings) => panic!("{findings:?}"),
            _ => {}
        }
    }
    assert!(missing > seeds() / 2, "{missing}");
}
