//! Shows a small simulation in the mini language and what the naive engine says of every level:
//! `cargo run -p margay-simdb --example judge -- [OPTION VALUE]…`

use std::error::Error;

use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{Mix, Protocol, SimConfig, simulate_history};
use margay_testkit::show;
use margay_verdict::{Budget, Question};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut config = SimConfig::small(Protocol::Ss2pl, Mix::NAMED[0].1, 0);
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        config.set(name.trim_start_matches('-'), &value)?;
    }
    let (history, report) = simulate_history(&config)?;
    println!("{}", show(&history).replace(" | ", "\n"));
    println!("{report:?}");
    for level in Level::ALL {
        match holds(&history, Question::new(level), &Budget::unlimited()) {
            Ok(holds) => println!("{level}: {}", if holds { "holds" } else { "violated" }),
            Err(why) => println!("{level}: {why}"),
        }
    }
    Ok(())
}
