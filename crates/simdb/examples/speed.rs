//! How fast simulations are written: `cargo run --release -p margay-simdb --example speed -- FILE
//! [OPTION VALUE]…`
//!
//! Simulates 1,000,000 transactions of 8 operations by 24 clients, unless options say otherwise,
//! into a file, and prints what it took.

use std::error::Error;
use std::fs::File;
use std::time::Instant;

use margay_simdb::{JsonSink, SimConfig, simulate};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("give a file to write to")?;
    let mut config = SimConfig {
        clients: 24,
        transactions: 1_000_000,
        ops: (8, 8),
        keys: 1000,
        domain: 1000,
        ..SimConfig::default()
    };
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        config.set(name.trim_start_matches('-'), &value)?;
    }
    let start = Instant::now();
    let mut sink = JsonSink::new(File::create(&path)?);
    let report = simulate(&config, &mut sink)?;
    let bytes = sink.finish()?.metadata()?.len();
    let seconds = start.elapsed().as_secs_f64();
    println!("{}", config.command(&path));
    println!(
        "{} transactions ({} committed, {} refused), {} operations, {} MB in {seconds:.2} s; peak memory {} MB",
        report.transactions,
        report.committed,
        report.refused,
        report.operations,
        bytes / 1_000_000,
        peak_memory_kb() / 1000
    );
    Ok(())
}

/// What Linux says about this process; 0 elsewhere.
fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
