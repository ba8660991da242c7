//! Simulated databases of known isolation: no false alarm where a protocol keeps its promise, and
//! what the faults do is found.

use margay_audit::audit;
use margay_levels::Level;
use margay_simdb::{EvidenceOptions, Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_solve::Solve;
use margay_verdict::{Budget, Checker, Question, Verdict};

/// Seeds per protocol, level and mix.
fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// Fewer for the levels that every stronger one implies.
fn seeds_at(level: Level) -> u64 {
    if level.implies(Level::SnapshotIsolation) { seeds() } else { seeds().div_ceil(4) }
}

/// A history of 60 transactions, too large for the definitions.
fn config(protocol: Protocol, mix: Mix, seed: u64) -> SimConfig {
    SimConfig { clients: 6, transactions: 60, ops: (1, 6), keys: 8, ..SimConfig::small(protocol, mix, seed) }
}

fn verdict(config: &SimConfig, level: Level) -> Verdict {
    let (history, _) = simulate_history(config).expect("a history");
    let question = Question::new(level);
    let verdict = Solve.check(&history, question, &Budget::unlimited());
    if let Some(certificate) = verdict.certificate() {
        let audited = audit(&history, question, certificate);
        assert!(audited.is_ok(), "{level}: {audited:?}: {}", config.command("OUT"));
    }
    verdict
}

#[test]
fn no_false_alarm_on_correct_protocols() {
    let (mut held, mut unknown) = (0, 0);
    for protocol in Protocol::ALL {
        for (name, mix) in Mix::NAMED {
            for &level in protocol.promises_on(&mix) {
                for seed in 0..seeds_at(level) {
                    let config = config(protocol, mix, seed);
                    match verdict(&config, level) {
                        Verdict::Holds(_) => held += 1,
                        Verdict::Unknown(_) => unknown += 1,
                        other => {
                            panic!("{protocol}, {name}, {level}: {}: {}", other.word(), config.command("OUT"))
                        }
                    }
                }
            }
        }
    }
    println!("{held} histories hold, {unknown} are outside the fragment");
    assert!(100 * unknown < held, "{held} held, {unknown} unknown");
    assert!(held as u64 >= 12 * seeds(), "{held} held, {unknown} unknown");
}

/// Faults that show only in SQL statements, which are outside this engine's fragment.
const SQL_ONLY: [Fault; 2] = [Fault::WrongAggregate, Fault::WrongRowCount];

#[test]
fn visible_faults_are_found() {
    let mut missed = Vec::new();
    for fault in Fault::ALL.into_iter().filter(|fault| !SQL_ONLY.contains(fault)) {
        for protocol in Protocol::ALL {
            let Some(level) = fault.breaks(protocol) else { continue };
            let mixes = Mix::NAMED.iter().map(|(_, mix)| *mix);
            let configs = mixes.flat_map(|mix| {
                (0..seeds()).map(move |seed| config(protocol, mix, seed).with_fault(fault, Ppm::percent(30)))
            });
            let found =
                configs.into_iter().find(|config| matches!(verdict(config, level), Verdict::Violated(_)));
            match found {
                Some(config) => println!("{fault} breaks {level}: {}", config.command("OUT")),
                None => missed.push(format!("{fault} under {protocol} at {level}")),
            }
        }
    }
    assert!(missed.is_empty(), "never found: {missed:#?}");
}

/// Evidence of a row that a scan left out was not heeded where no version of the row could match:
/// the answer was an order that the audit rejected.
#[test]
fn evidence_of_rows_left_out_counts() {
    let (mut decided, mut unknown) = (0, 0);
    for protocol in Protocol::ALL {
        for seed in 0..seeds().min(40) {
            let evidence = EvidenceOptions::ALL;
            let config = SimConfig { evidence, ..SimConfig::small(protocol, Mix::NAMED[2].1, seed) };
            for level in [Level::Serializable, Level::SnapshotIsolation] {
                match verdict(&config, level) {
                    Verdict::Unknown(_) => unknown += 1,
                    _ => decided += 1,
                }
            }
        }
    }
    assert!(decided > unknown, "{decided} decided, {unknown} unknown");
}

/// Lists, and a few transactions of unknown outcome, sent `read-committed` to a search over every
/// version of every row.
#[test]
fn read_committed_with_lists_and_unknown_outcomes() {
    let config = SimConfig { transactions: 3_000, ..SimConfig::new(Protocol::RcMvcc, 1) };
    let said = verdict(&config, Level::ReadCommitted);
    assert!(matches!(said, Verdict::Holds(_)), "{}", said.word());
}
