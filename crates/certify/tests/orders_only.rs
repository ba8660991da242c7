//! Version orders alone, without timestamps and version sets: what predicates left out must be
//! found by running them.

use margay_audit::audit;
use margay_certify::Certify;
use margay_history::{Evidence, History};
use margay_levels::Level;
use margay_simdb::{EvidenceOptions, Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, Verdict};

/// Emme's predicate mix; the given part of reads and updates is by a range.
fn config(percent: u32, transactions: u64, seed: u64) -> SimConfig {
    let (by_key, by_range) = (45 * (100 - percent) / 100, 45 * percent / 100);
    let mix = Mix { weights: [0, 0, 0, 0, by_key, 10 + by_key, 0, 0, by_range, by_range, 0, 0] };
    SimConfig {
        clients: 16,
        transactions,
        ops: (5, 5),
        keys: 100,
        mix,
        unknown: Ppm::NEVER,
        evidence: EvidenceOptions { version_order: 100, ..EvidenceOptions::default() },
        ..SimConfig::new(Protocol::Ss2pl, seed)
    }
}

fn history(config: &SimConfig) -> History {
    let (history, _) = simulate_history(config).expect("a history");
    let told = history.evidence();
    let orders = Evidence { version_orders: told.version_orders.clone(), ..Evidence::default() };
    assert_eq!(*told, orders, "nothing else is told");
    history
}

fn ask(history: &History, level: Level) -> Verdict {
    let question = Question::new(level);
    let verdict = Certify.check(history, question, &Budget::unlimited());
    if let Some(certificate) = verdict.certificate() {
        assert_eq!(audit(history, question, certificate), Ok(()), "{level}");
    }
    verdict
}

/// Some of these need one transaction to be put behind another that the clock has before it.
#[test]
fn they_are_enough() {
    for (percent, seed) in [(25, 7), (25, 1), (75, 3), (100, 7)] {
        let history = history(&config(percent, 6_000, seed));
        for level in [Level::Serializable, Level::StrictSerializable] {
            let verdict = ask(&history, level);
            assert!(matches!(verdict, Verdict::Holds(_)), "{percent} %, {seed}, {level}: {}", verdict.word());
        }
    }
}

/// A database that loses the locks of predicates is not proved to be right, however much is mended.
#[test]
fn phantoms_are_not_mended() {
    let mut broken = 0;
    for seed in 0..6 {
        let config = config(50, 400, seed).with_fault(Fault::Phantom, Ppm::percent(30));
        let verdict = ask(&history(&config), Level::Serializable);
        broken += usize::from(!matches!(verdict, Verdict::Holds(_)));
    }
    assert!(broken > 3, "{broken} of 6");
}
