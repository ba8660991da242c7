//! How long certify and replay take, with Emme's recipe.
//!
//! `cargo bench -p margay-certify -- [items|predicates]… [transactions…]`; without numbers 100,000
//! items, and 2,500 and 100,000 predicates.
//!
//! Items: rows of a thousand keys; updates 30 %, reads 40 %, increments 20 % (a read and a write),
//! inserts 10 %, five of them a transaction. Predicates: a hundred keys; inserts 10 %, the rest
//! half reads and half updates, of which a part is by a range of `v`. The histories come from
//! simulated databases; a certificate is the version order for certify (where predicates ask, with
//! commit timestamps) and the serialization order, or snapshot and commit timestamps, for replay.

use std::time::Instant;

use margay_audit::audit;
use margay_certify::{Certify, Replay};
use margay_history::{Evidence, History};
use margay_levels::Level;
use margay_simdb::{EvidenceOptions, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question};

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Vec<u64> = asked.iter().filter_map(|arg| arg.parse().ok()).collect();
    let wants = |what: &str| {
        let named = |name: &str| asked.iter().any(|arg| arg == name);
        named(what) || !named("items") && !named("predicates")
    };
    println!(
        "{:36} {:>8} {:>8} {:22} {:8} {:>7} {:>7} {:>7}",
        "history", "txns", "ops", "level", "engine", "CPU s", "clock s", "audit s"
    );
    if wants("items") {
        or(&sizes, &[100_000]).iter().for_each(|&transactions| items(transactions));
    }
    if wants("predicates") {
        for &transactions in or(&sizes, &[2_500, 100_000]) {
            [0, 25, 50, 75, 100].iter().for_each(|&percent| predicates(transactions, percent));
        }
    }
}

fn or<'a>(given: &'a [u64], usual: &'a [u64]) -> &'a [u64] {
    if given.is_empty() { usual } else { given }
}

/// A read of a row stands for a read, and for one half of an increment; a write for the other half,
/// for updates and inserts.
fn items(transactions: u64) {
    let mix = Mix { weights: [0, 0, 0, 0, 60, 60, 0, 0, 0, 0, 0, 0] };
    let levels =
        [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable, Level::StrictSerializable];
    measure("items, ss2pl", &base(Protocol::Ss2pl, transactions, mix, 1000, 6), &levels);
    let levels = [Level::SnapshotIsolation, Level::StrictSnapshotIsolation];
    measure("items, si-fuw", &base(Protocol::SiFuw, transactions, mix, 1000, 6), &levels);
}

fn predicates(transactions: u64, percent: u32) {
    let (by_key, by_range) = (45 * (100 - percent) / 100, 45 * percent / 100);
    let mix = Mix { weights: [0, 0, 0, 0, by_key, 10 + by_key, 0, 0, by_range, by_range, 0, 0] };
    let config = base(Protocol::Ss2pl, transactions, mix, 100, 5);
    measure(&format!("{percent} % predicates, ss2pl"), &config, &[Level::Serializable]);
}

fn base(protocol: Protocol, transactions: u64, mix: Mix, keys: u32, ops: u32) -> SimConfig {
    let evidence = EvidenceOptions { version_set: 0, ..EvidenceOptions::ALL };
    SimConfig {
        clients: 16,
        transactions,
        ops: (ops, ops),
        keys,
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
    let all = history.evidence().clone();
    let predicates = !history.predicates().is_empty();
    let versions = Evidence {
        version_orders: all.version_orders.clone(),
        commits: if predicates { all.commits.clone() } else { Vec::new() },
        ..Evidence::default()
    };
    let bare = Evidence { version_orders: all.version_orders.clone(), ..Evidence::default() };
    let stamps = Evidence { version_orders: Vec::new(), ..all };
    if predicates {
        match history.clone().with_evidence(bare) {
            Ok(history) => time(&format!("{name}, orders only"), &history, levels[0], &Certify),
            Err(error) => println!("{name}: {error:?}"),
        }
    }
    for &level in levels {
        for (engine, evidence) in [(&Certify as &dyn Checker, &versions), (&Replay, &stamps)] {
            match history.clone().with_evidence(evidence.clone()) {
                Ok(history) => time(name, &history, level, engine),
                Err(error) => println!("{name}: {error:?}"),
            }
        }
    }
}

/// Seconds of this process on a processor, where the system tells; else by the clock.
fn cpu(start: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = told.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanos.map_or_else(|| start.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn time(name: &str, history: &History, level: Level, engine: &dyn Checker) {
    let question = Question::new(level);
    let start = Instant::now();
    let before = cpu(start);
    let verdict = engine.check(history, question, &Budget::unlimited());
    let (used, clock, start) = (cpu(start) - before, start.elapsed().as_secs_f64(), Instant::now());
    let before = cpu(start);
    let audited = verdict.certificate().map(|certificate| audit(history, question, certificate).is_ok());
    println!(
        "{name:36} {:8} {:8} {:22} {:8} {used:7.3} {clock:7.3} {:7.3} {}{}",
        history.txn_count(),
        history.op_count(),
        level.name(),
        engine.name(),
        cpu(start) - before,
        verdict.word(),
        if audited == Some(false) { " REJECTED" } else { "" }
    );
}
