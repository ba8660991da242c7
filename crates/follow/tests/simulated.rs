//! Simulated databases of known isolation: what a protocol promises with real time is found to
//! hold, whatever the mix.

use margay_audit::audit;
use margay_follow::Follow;
use margay_levels::Level;
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, Verdict};

/// Seeds per protocol, level and mix.
fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

fn verdict(config: &SimConfig, level: Level) -> Verdict {
    let (history, _) = simulate_history(config).expect("a history");
    let question = Question::new(level);
    let verdict = Follow.check(&history, question, &Budget::unlimited());
    if let Some(certificate) = verdict.certificate() {
        let audited = audit(&history, question, certificate);
        assert!(audited.is_ok(), "{level}: {audited:?}: {}", config.command("OUT"));
    }
    verdict
}

#[test]
fn no_false_alarm_on_correct_protocols() {
    let (mut held, mut unknown) = (0, Vec::new());
    for protocol in Protocol::ALL {
        for (_, mix) in Mix::NAMED {
            for &level in protocol.promises_on(&mix) {
                for seed in 0..seeds() {
                    let config =
                        SimConfig { mix, transactions: 300, keys: 20, ..SimConfig::new(protocol, seed) };
                    match verdict(&config, level) {
                        Verdict::Holds(_) => held += 1,
                        Verdict::Unknown(why) => unknown.push((protocol, level, why)),
                        other => panic!("{protocol}, {level}: {}: {}", other.word(), config.command("OUT")),
                    }
                }
            }
        }
    }
    println!("{held} hold, {} are unknown", unknown.len());
    let ordered = unknown.iter().filter(|(protocol, ..)| KEEPS_REAL_TIME.contains(protocol)).count();
    assert!(50 * ordered < held, "{held} held, {unknown:#?}");
}

/// Their transactions take effect between their begins and their ends.
const KEEPS_REAL_TIME: [Protocol; 1] = [Protocol::Ss2pl];

/// Nothing that a fault did is said to hold where it broke the level for certain, and the audit
/// accepts what is said.
#[test]
fn faults_give_audited_answers() {
    let mut answers = 0;
    for fault in Fault::ALL {
        for protocol in Protocol::ALL {
            let Some(level) = fault.breaks(protocol) else { continue };
            for seed in 0..seeds().min(3) {
                let mix = Mix::NAMED[3].1;
                let config = SimConfig { mix, transactions: 60, keys: 8, ..SimConfig::new(protocol, seed) };
                let config = config.with_fault(fault, Ppm::percent(30));
                answers += usize::from(!matches!(verdict(&config, level), Verdict::Unknown(_)));
            }
        }
    }
    assert!(answers > 0);
}

/// A list that was read long after two appends changed places, and a transaction of unknown outcome
/// that was seen long after it agreed with the state, took hundreds of thousands of steps, or no
/// answer.
#[test]
fn a_dead_end_long_after_its_cause() {
    for (protocol, level, transactions, seed) in [
        (Protocol::Ss2pl, Level::StrictSerializable, 20_000, 1),
        (Protocol::SiFuw, Level::SnapshotIsolation, 3_000, 2),
        // The next transaction of the same client began because another committed, and the advice
        // was not heard.
        (Protocol::SiFuw, Level::SnapshotIsolation, 3_000, 7),
        // A serial order was found at once, an order of two points each not at all.
        (Protocol::Ss2pl, Level::SnapshotIsolation, 5_000, 2),
        // A row was deleted and written in the wrong order, and written once more before somebody
        // saw it absent.
        (Protocol::Mvto, Level::Serializable, 5_000, 6),
        (Protocol::SiFuw, Level::SnapshotIsolation, 5_000, 4),
    ] {
        let config = SimConfig { transactions, ..SimConfig::new(protocol, seed) };
        let said = verdict(&config, level);
        assert!(matches!(said, Verdict::Holds(_)), "{}: {}", said.word(), config.command("OUT"));
    }
}

/// A transaction was advised to wait for another, and then to come before what that other one comes
/// after. It waited on, and the search took twenty seconds.
#[test]
fn advice_that_later_advice_rules_out_is_forgotten() {
    let mix = Mix::NAMED[0].1;
    let config = SimConfig { mix, transactions: 2_600, ..SimConfig::new(Protocol::Ss2pl, 19_216) };
    let (history, _) = simulate_history(&config).expect("a history");
    let question = Question::new(Level::StrictSerializable);
    let said = Follow.glimpse(&history, question, &[], &Budget::unlimited());
    assert!(matches!(said, Some(Verdict::Holds(_))), "{}", config.command("OUT"));
}
