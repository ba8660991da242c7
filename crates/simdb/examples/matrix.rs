//! The matrix: which protocol violates which level, and which engine finds which fault.
//!
//! `cargo run --release -p margay-simdb --example matrix [SEEDS]`, by default 250. The output is
//! Markdown, and stands in `docs/SIMDB.md`.

use std::time::Duration;

use margay_engines::{Engine, all};
use margay_history::History;
use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Question, Verdict};

fn main() {
    let seeds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(250);
    promises(seeds);
    println!();
    faults(seeds);
}

fn budget() -> Budget {
    Budget::unlimited().with_time(Duration::from_secs(2))
}

fn history(config: &SimConfig) -> History {
    simulate_history(config).expect("a simulation is a history").0
}

/// Protocol × level: in how many histories the naive engine sees the level violated.
fn promises(seeds: u64) {
    println!(
        "Histories that violate a level, of {} per protocol ({seeds} seeds for each of the mixes {}), by the naive engine. `·` is none; a level that \
         the protocol promises, or that follows, is in brackets.\n",
        seeds * Mix::NAMED.len() as u64,
        Mix::NAMED.map(|(name, _)| name).join(", ")
    );
    println!("| level | {} |", Protocol::ALL.map(Protocol::name).join(" | "));
    println!("|---|{}", "---:|".repeat(Protocol::ALL.len()));
    let columns = Protocol::ALL.map(|protocol| violations(protocol, seeds));
    for (row, level) in Level::ALL.into_iter().enumerate() {
        let cells =
            Protocol::ALL.iter().zip(&columns).map(|(protocol, column)| cell(*protocol, level, column[row]));
        println!("| {level} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn cell(protocol: Protocol, level: Level, (violated, unjudged): (u64, u64)) -> String {
    let number = if violated == 0 { "·".to_string() } else { violated.to_string() };
    let open = if unjudged > 0 { format!(" ?{unjudged}") } else { String::new() };
    if protocol.implements(level) { format!("[{number}{open}]") } else { format!("{number}{open}") }
}

/// By level: histories that violate it, and histories that the judge gave up on.
fn violations(protocol: Protocol, seeds: u64) -> Vec<(u64, u64)> {
    let mut column = vec![(0, 0); Level::ALL.len()];
    for (_, mix) in Mix::NAMED {
        for seed in 0..seeds {
            let config = SimConfig { transactions: 8, ops: (1, 4), ..SimConfig::small(protocol, mix, seed) };
            let history = history(&config);
            for (level, counts) in Level::ALL.into_iter().zip(&mut column) {
                match holds(&history, Question::new(level), &budget()) {
                    Ok(holds) => counts.0 += u64::from(!holds),
                    Err(_) => counts.1 += 1,
                }
            }
        }
    }
    column
}

/// Fault × engine: of the histories in which the fault became visible, those in which the engine
/// finds the level violated.
fn faults(seeds: u64) {
    println!(
        "Fault by fault, over {seeds} seeds: histories in which it became visible to a client, and how many of them each engine calls a violation of \
         the level that the fault breaks. A visible fault need not break the level; what the naive engine says is the truth.\n"
    );
    let engines: Vec<&str> = all().iter().map(|engine| engine.name()).collect();
    println!("| fault | protocol | breaks | visible | {} |", engines.join(" | "));
    println!("|---|---|---|---:|{}", "---:|".repeat(engines.len()));
    for fault in Fault::ALL {
        for protocol in Protocol::ALL {
            if let Some(level) = fault.breaks(protocol) {
                fault_row(fault, protocol, level, seeds);
            }
        }
    }
}

fn fault_row(fault: Fault, protocol: Protocol, level: Level, seeds: u64) {
    let mut visible = 0;
    let mut found = vec![(0, 0); all().len()];
    for seed in 0..seeds {
        let mix = mix(fault, seed);
        let config = SimConfig { transactions: 8, ops: (1, 4), ..SimConfig::small(protocol, mix, seed) }
            .with_fault(fault, Ppm::percent(50));
        let (history, report) = simulate_history(&config).expect("a simulation is a history");
        if report.count(fault).1 == 0 {
            continue;
        }
        visible += 1;
        for (engine, counts) in all().iter().zip(&mut found) {
            count(*engine, &history, level, counts);
        }
    }
    let cells = found.iter().map(|(found, open)| match open {
        0 => found.to_string(),
        _ => format!("{found} ?{open}"),
    });
    println!("| {fault} | {protocol} | {level} | {visible} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

/// Counts what an engine says: violated, or no answer.
fn count(engine: Engine, history: &History, level: Level, (found, open): &mut (u64, u64)) {
    if engine.name() == "naive" {
        match holds(history, Question::new(level), &budget()) {
            Ok(holds) => *found += u64::from(!holds),
            Err(_) => *open += 1,
        }
        return;
    }
    match engine.check(history, Question::new(level), &budget()) {
        Verdict::Violated(_) => *found += 1,
        Verdict::Unknown(_) => *open += 1,
        Verdict::Holds(_) | Verdict::Clean => {}
    }
}

/// What clients ask for, so that the fault can fire.
fn mix(fault: Fault, seed: u64) -> Mix {
    let rows = [Fault::Phantom, Fault::IndexEntryMissing, Fault::WrongAggregate, Fault::WrongRowCount];
    let name = match seed % 2 {
        _ if rows.contains(&fault) => "rows",
        0 => "lists",
        _ => "registers",
    };
    Mix::named(name).expect("a mix of this name")
}
