//! Mirror on simulated databases: never an alarm on a correct one, and how often a fault is found.

use margay_audit::audit;
use margay_history::History;
use margay_levels::Level;
use margay_mirror::{Engine, Mirror, Violation, simulated};
use margay_report::explain;
use margay_simdb::{Distribution, Fault, Mix, Ppm, Protocol, Report, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, Verdict};

/// How many seeds a protocol is run with, unless the environment variable `MARGAY_SEEDS` says
/// otherwise.
const SEEDS: u64 = 200;

fn question(protocol: Protocol) -> Question {
    Question::new(protocol.promises()[0])
}

fn run(config: &SimConfig) -> (History, Report) {
    simulate_history(config).expect("a simulation is a history")
}

fn check(history: &History, question: Question) -> Verdict {
    Engine::default().check(history, question, &Budget::unlimited())
}

/// Many shapes: few keys and many, long and short transactions, all mixes, skewed clocks, slow
/// networks.
fn config(protocol: Protocol, seed: u64) -> SimConfig {
    let mut config = SimConfig::new(protocol, seed);
    config.transactions = 120;
    config.clients = [3, 6, 10, 16][seed as usize % 4];
    config.keys = [2, 4, 10, 30][seed as usize / 4 % 4];
    config.ops = [(1, 8), (2, 4), (1, 3)][seed as usize % 3];
    config.mix = Mix::NAMED[seed as usize / 2 % 4].1;
    config.domain = 6;
    config.skew = [0, 20_000, 150_000, 1_000_000][seed as usize / 8 % 4];
    config.aborts = Ppm::percent(8);
    config.unknown = Ppm::percent(4);
    if seed.is_multiple_of(5) {
        config.distribution = Distribution::Zipf;
    }
    if seed.is_multiple_of(7) {
        config.timing.latency = 2_000;
    }
    config
}

fn explained(history: &History, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Violated(findings) => explain::finding(history, &findings[0]),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_correct_database_is_never_accused() {
    let seeds = std::env::var("MARGAY_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    for protocol in Protocol::ALL {
        for seed in 0..seeds {
            let (history, _) = run(&config(protocol, seed));
            let verdict = check(&history, question(protocol));
            assert!(verdict == Verdict::Clean, "{protocol} {seed}: {}", explained(&history, &verdict));
        }
    }
}

/// Everything that a mirror finds on so many threads.
fn violations(history: &History, protocol: Protocol, threads: Option<usize>) -> Vec<Violation> {
    let mechanisms = simulated(&format!("simdb-{protocol}")).expect("a simulated database");
    let mut mirror = Mirror::new(mechanisms, history.header().skew);
    if let Some(threads) = threads {
        mirror = mirror.with_threads(threads);
    }
    Engine::play(&mut mirror, history, &Budget::unlimited()).expect("a timed history");
    std::iter::from_fn(|| mirror.next_violation()).collect()
}

#[test]
fn threads_change_nothing() {
    let mut found = 0;
    for (number, protocol) in Protocol::ALL.into_iter().enumerate() {
        for fault in [Fault::StaleSnapshot, Fault::LockNotTaken, Fault::WriteSkew, Fault::ValidationSkipped] {
            let mut config = config(protocol, number as u64 * 4 + 1);
            config.transactions = 1_500;
            config.skew = 0;
            if fault.breaks(protocol).is_some() {
                config = config.with_fault(fault, Ppm::percent(5));
            }
            let (history, _) = run(&config);
            let one = violations(&history, protocol, Some(1));
            for threads in [2, 3, 5] {
                assert_eq!(
                    one,
                    violations(&history, protocol, Some(threads)),
                    "{protocol} {fault} {threads}"
                );
            }
            let at_once = violations(&history, protocol, None);
            assert_eq!(one.is_empty(), at_once.is_empty(), "{protocol} {fault}");
            found += one.len();
        }
    }
    assert!(found > 100, "{found}");
}

#[test]
fn what_is_not_promised_is_not_answered() {
    let (history, _) = run(&config(Protocol::RcMvcc, 1));
    assert!(matches!(check(&history, Question::new(Level::Serializable)), Verdict::Unknown(_)));
}

/// What is found of each fault, and that every finding passes the audit.
#[test]
fn faults_are_found_and_findings_are_audited() {
    println!("{:<26}{:<18}{:>8}{:>8}  first mechanism", "fault", "protocol", "visible", "found");
    let mut found_faults = 0;
    for fault in Fault::ALL {
        for protocol in Protocol::ALL.into_iter().filter(|p| fault.breaks(*p).is_some()) {
            let (mut visible, mut found, mut name) = (0, 0, "");
            for seed in 0..6 {
                let mut config = config(protocol, seed * 4 + 1).with_fault(fault, Ppm::percent(20));
                (config.skew, config.timing.latency) = (0, 5_000);
                let (history, report) = run(&config);
                visible += usize::from(report.count(fault).1 > 0);
                if let Verdict::Violated(findings) = check(&history, question(protocol)) {
                    found += 1;
                    name = findings[0].anomaly.name();
                    for finding in &findings {
                        let answer = audit(&history, question(protocol), &finding.certificate);
                        assert_eq!(answer, Ok(()), "{fault} {protocol} {seed}: {finding:?}");
                    }
                }
            }
            found_faults += usize::from(found > 0);
            println!("{:<26}{:<18}{visible:>8}{found:>8}  {name}", fault.name(), protocol.name());
        }
    }
    assert!(found_faults > 20, "{found_faults}");
}
