//! Simulations are histories, and the same ones every time.

use margay_history::Outcome;
use margay_simdb::{
    EvidenceOptions, Fault, JsonSink, Mix, Ppm, Protocol, Report, SimConfig, simulate, simulate_history,
};

fn bytes(config: &SimConfig) -> (Vec<u8>, Report) {
    let mut sink = JsonSink::new(Vec::new());
    let report = simulate(config, &mut sink).expect("memory takes everything");
    (sink.finish().expect("memory takes everything"), report)
}

fn medium(protocol: Protocol, seed: u64) -> SimConfig {
    SimConfig {
        clients: 6,
        transactions: 300,
        keys: 6,
        ops: (1, 5),
        domain: 10,
        unknown: Ppm::percent(5),
        evidence: EvidenceOptions::ALL,
        ..SimConfig::new(protocol, seed)
    }
}

#[test]
fn every_protocol_makes_progress_and_valid_histories() {
    for protocol in Protocol::ALL {
        let (history, report) = simulate_history(&medium(protocol, 1)).expect("a history");
        assert_eq!(history.txn_count() as u64, report.transactions);
        assert_eq!(history.op_count() as u64, report.operations);
        assert!(report.committed > 100, "{protocol}: {report:?}");
        assert!(report.firings.is_empty() && report.unknown > 0);
        let committed = history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).count();
        assert!(committed as u64 <= report.committed);
        assert!(!history.evidence().version_orders.is_empty() && !history.evidence().version_sets.is_empty());
    }
}

#[test]
fn every_fault_fires_and_histories_stay_well_formed() {
    for fault in Fault::ALL {
        for protocol in Protocol::ALL.into_iter().filter(|&p| fault.applies_to(p)) {
            let config = |seed| SimConfig {
                mix: Mix { weights: [10; 12] },
                ..medium(protocol, seed).with_fault(fault, Ppm::percent(50))
            };
            let visible = (0..20).any(|seed| {
                let (_, report) = simulate_history(&config(seed)).expect("a history");
                let (fired, visible) = report.count(fault);
                assert!(visible <= fired && report.firings.len() == fired);
                visible > 0
            });
            assert!(visible, "{}", config(0).command("OUT"));
        }
    }
}

#[test]
fn a_fault_that_never_fires_changes_nothing() {
    for protocol in Protocol::ALL {
        let (plain, _) = bytes(&medium(protocol, 3));
        let mut config = medium(protocol, 3);
        config.faults = Fault::ALL.map(|fault| (fault, Ppm::NEVER)).to_vec();
        assert!(plain == bytes(&config).0, "{protocol}");
    }
}

#[test]
fn thinner_evidence_is_a_part_of_the_whole() {
    let config = |percent| SimConfig {
        evidence: EvidenceOptions { version_order: percent, ..Default::default() },
        ..medium(Protocol::SiFuw, 4)
    };
    let count =
        |percent| simulate_history(&config(percent)).expect("a history").0.evidence().version_orders.len();
    let (whole, half) = (count(100), count(50));
    assert!(count(0) == 0 && half > whole / 3 && half < whole * 2 / 3, "{half} of {whole}");
}

#[test]
fn the_document_names_every_protocol_and_fault() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SIMDB.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    for protocol in Protocol::ALL {
        let promises: Vec<String> = protocol.promises().iter().map(|level| format!("`{level}`")).collect();
        let row = format!("| `{protocol}` | {} | {} |", promises.join(", "), protocol.description());
        assert!(text.contains(&row), "{row}");
    }
    for fault in Fault::ALL {
        let row = format!("| `{fault}` | {} |", fault.description());
        assert!(text.contains(&row), "{row}");
    }
}
