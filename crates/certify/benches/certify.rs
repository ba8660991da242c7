//! How long certify and replay take on simulated histories with full evidence.
//!
//! `cargo bench -p margay-certify -- [transactions…]`; without numbers 100,000.

use std::time::Instant;

use margay_certify::{Certify, Replay};
use margay_history::History;
use margay_levels::Level;
use margay_simdb::{EvidenceOptions, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, audit};

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![100_000] } else { sizes };
    println!(
        "{:28} {:>9} {:>9} {:24} {:8} {:>8} {:>8}",
        "history", "txns", "ops", "level", "engine", "check s", "audit s"
    );
    for &transactions in &sizes {
        items(transactions);
        predicates(transactions);
    }
}

/// Registers and lists: eight operations, a thousand keys of each kind.
fn items(transactions: u64) {
    let order = EvidenceOptions { version_order: 100, serialization: 100, ..EvidenceOptions::default() };
    let snapshots = EvidenceOptions { snapshot: 100, commit: 100, ..EvidenceOptions::default() };
    let levels =
        [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable, Level::StrictSerializable];
    let registers = Mix::NAMED[0].1;
    let config = base(Protocol::Ss2pl, transactions, registers, order);
    measure("registers, ss2pl", &config, &levels);
    let config = base(Protocol::SiFuw, transactions, registers, snapshots);
    measure("registers, si-fuw", &config, &[Level::SnapshotIsolation, Level::StrictSnapshotIsolation]);
    let config = base(Protocol::Ss2pl, transactions, Mix::NAMED[1].1, order);
    measure("lists, ss2pl", &config, &[Level::Serializable]);
}

/// Rows with scans and predicate updates over a hundred keys.
fn predicates(transactions: u64) {
    let config = SimConfig {
        keys: 100,
        ops: (5, 5),
        ..base(Protocol::SiFuw, transactions / 10, Mix::NAMED[2].1, EvidenceOptions::ALL)
    };
    measure("rows, si-fuw", &config, &[Level::ReadCommitted, Level::SnapshotIsolation]);
    let config = SimConfig {
        keys: 100,
        ops: (5, 5),
        ..base(Protocol::Mvto, transactions / 10, Mix::NAMED[2].1, EvidenceOptions::ALL)
    };
    measure("rows, mvto", &config, &[Level::RepeatableRead, Level::Serializable]);
}

fn base(protocol: Protocol, transactions: u64, mix: Mix, evidence: EvidenceOptions) -> SimConfig {
    SimConfig {
        clients: 16,
        transactions,
        ops: (8, 8),
        keys: 1000,
        mix,
        unknown: Ppm::NEVER,
        evidence,
        ..SimConfig::new(protocol, 7)
    }
}

fn measure(name: &str, config: &SimConfig, levels: &[Level]) {
    let (history, _) = match simulate_history(config) {
        Ok(made) => made,
        Err(error) => return println!("{name}: {error:?}"),
    };
    for &level in levels {
        for engine in [&Certify as &dyn Checker, &Replay] {
            time(name, &history, level, engine);
        }
    }
}

fn time(name: &str, history: &History, level: Level, engine: &dyn Checker) {
    let question = Question::new(level);
    let start = Instant::now();
    let verdict = engine.check(history, question, &Budget::unlimited());
    let checked = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let audited = verdict.certificate().map(|certificate| audit(history, question, certificate).is_ok());
    println!(
        "{name:28} {:9} {:9} {:24} {:8} {checked:8.3} {:8.3} {}{}",
        history.txn_count(),
        history.op_count(),
        level.name(),
        engine.name(),
        start.elapsed().as_secs_f64(),
        verdict.word(),
        if audited == Some(false) { " REJECTED" } else { "" }
    );
}
