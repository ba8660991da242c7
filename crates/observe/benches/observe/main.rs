//! How fast the engine is: logs of bank-server, Twitter, RUBiS and TPC-C from a simulated SQL
//! database, checked at their level.
//!
//! `cargo bench -p margay-observe --bench observe -- WORKLOAD LEVEL TRANSACTIONS [SWITCH]…`, with
//! WORKLOAD one of `bank`, `twitter`, `rubis`, `tpcc`, LEVEL one of `ser`, `si`, `rc`, and each
//! SWITCH one of `no-indexes`, `no-window`, `not-concrete`, `weakest-first`, `no-learning`,
//! `statement`, `no-audit`, `no-timestamps`. `wrong TRANSACTIONS LEMMAS CLASHES` counts how many
//! wrong logs whose order nothing tells are refuted with so many lemmas and proposals for their
//! formula at most. `ablation SECONDS [SET]…` compares what is decided within so many seconds each
//! when one strategy is off; `list SECONDS SET` prints each answer.
//! `faulty TRANSACTIONS SECONDS [no-parts]` counts how many long logs of a database that errs once
//! are refuted within so many seconds each.

use std::time::Duration;

use margay_audit::audit;
use margay_levels::Level;
use margay_observe::{Observe, Options};
use margay_verdict::execution::Reading;
use margay_verdict::{Budget, Checker, Question};

#[path = "../../tests/support/mod.rs"]
mod support;

mod ablation;
mod bank;
mod faulty;
mod mutated;
mod rubis;
mod sets;
mod tpcc;
mod twitter;
mod used;
mod wrong;

use support::simulate::{Protocol, Script, Simulator, Watch};
use used::used;

type Workload = (
    &'static str,
    &'static [support::log::Shape<'static>],
    fn(&mut Simulator),
    fn(&mut support::Random, u64) -> Script,
);

const WORKLOADS: [Workload; 4] = [
    ("bank", bank::TABLES, bank::load, bank::transaction),
    ("twitter", twitter::TABLES, twitter::load, twitter::transaction),
    ("rubis", rubis::TABLES, rubis::load, rubis::transaction),
    ("tpcc", tpcc::TABLES, tpcc::load, tpcc::transaction),
];

const LEVELS: [(&str, Protocol, Level); 3] = [
    ("ser", Protocol::Serial, Level::Serializable),
    ("si", Protocol::Snapshot, Level::SnapshotIsolation),
    ("rc", Protocol::Committed, Level::ReadCommitted),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if other(&args) {
        return;
    }
    check(&args);
}

/// One of the other benchmarks, if it is asked for.
fn other(args: &[String]) -> bool {
    let number = |text: &String, otherwise: u64| text.parse().unwrap_or(otherwise);
    match args {
        [what, count, lemmas, clashes] if what == "wrong" => {
            wrong::run(number(count, 20), number(lemmas, 0) as usize, number(clashes, 0) as usize);
        }
        [what, seconds, sets @ ..] if what == "ablation" => ablation::run(number(seconds, 10), sets),
        [what, seconds, set] if what == "list" => ablation::list(number(seconds, 10), set),
        [what, count, seconds, rest @ ..] if what == "faulty" => {
            let parts = !rest.iter().any(|switch| switch == "no-parts");
            faulty::run(number(count, 100), number(seconds, 20), parts);
        }
        _ => return false,
    }
    true
}

/// One workload at one level.
fn check(args: &[String]) {
    let [workload, level, count, switches @ ..] = args else {
        return eprintln!("WORKLOAD LEVEL TRANSACTIONS [SWITCH]…");
    };
    let Some(&(name, tables, load, transaction)) = WORKLOADS.iter().find(|known| known.0 == workload) else {
        return eprintln!("no workload {workload}");
    };
    let Some(&(_, protocol, level)) = LEVELS.iter().find(|known| known.0 == level) else {
        return eprintln!("no level {level}");
    };
    let count: u64 = count.parse().unwrap_or(1000);
    let has = |switch: &str| switches.iter().any(|given| given == switch);
    let start = used();
    let mut simulator = Simulator::new(tables, protocol, 1);
    simulator.watch = Watch::All;
    simulator.commits = !has("no-timestamps");
    load(&mut simulator);
    simulator.run(4, count, &mut { transaction });
    let history = simulator.finish();
    let made = used() - start;
    let options = Options {
        reading: if has("statement") { Reading::Statement } else { Reading::Item },
        indexes: !has("no-indexes"),
        window: if has("no-window") { None } else { Options::DEFAULT.window },
        concrete: !has("not-concrete"),
        strongest_first: !has("weakest-first"),
        learn: !has("no-learning"),
        ..Options::DEFAULT
    };
    let committed =
        history.txns().filter(|&t| history.outcome(t) == margay_history::Outcome::Committed).count();
    let (before, start, question) = (rss(), used(), Question::new(level));
    let budget = Budget::unlimited().with_time(Duration::from_secs(600));
    let verdict = Observe { options }.check(&history, question, &budget);
    let checked = used() - start;
    println!(
        "{name} {level}: {committed} committed of {count}, {} statements; made in {:.1} s; {} in {:.1} s, {} MiB beside the history's {}",
        history.op_count(),
        made.as_secs_f64(),
        verdict.word(),
        checked.as_secs_f64(),
        rss().saturating_sub(before) >> 20,
        before >> 20,
    );
    if let margay_verdict::Verdict::Unknown(why) = &verdict {
        println!("  {why}");
    }
    if let (Some(certificate), false) = (verdict.certificate(), has("no-audit")) {
        let start = used();
        let accepted = audit(&history, question, certificate);
        println!("  audit: {accepted:?} in {:.1} s", (used() - start).as_secs_f64());
    }
}

/// The most memory that the process has held, in bytes.
fn rss() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
        << 10
}
