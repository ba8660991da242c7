//! How often mirror finds a fault, and how often solve does: a table for `docs/MIRROR.md`.
//!
//! `cargo run --release -p margay-engines --example detection [SEEDS]`, by default 40.

mod compare;

use compare::{Shown, compare, protocols};
use margay_simdb::Fault;

fn main() {
    let seeds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(40);
    println!(
        "| fault | database | visible | solve | mirror | by the level alone | both | mirror only | solve only | undecided |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for fault in Fault::ALL {
        for protocol in protocols().filter(|protocol| fault.breaks(*protocol).is_some()) {
            let all: Vec<Shown> = (0..seeds).map(|seed| compare(protocol, Some(fault), seed).1).collect();
            let count = |test: fn(&Shown) -> bool| all.iter().filter(|shown| test(shown)).count();
            println!(
                "| {fault} | simdb-{protocol} | {} | {} | {} | {} | {} | {} | {} | {} |",
                count(|s| s.visible),
                count(|s| s.solve == Some(true)),
                count(|s| s.mirror),
                count(|s| s.level),
                count(|s| s.mirror && s.solve == Some(true)),
                count(|s| s.mirror && s.solve == Some(false)),
                count(|s| !s.mirror && s.solve == Some(true)),
                count(|s| s.solve.is_none()),
            );
        }
    }
}
