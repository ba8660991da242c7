//! What each search strategy of engine solve is worth.
//!
//! `cargo bench -p margay-solve --bench ablation` asks the engine about the same histories with all
//! strategies, and with each one switched off. It prints how many questions are decided, and the
//! CPU seconds. `-- PART FAMILY` limits it to the strategies whose name contains PART (several with
//! commas) and the families whose name contains FAMILY. The program stops if two answers that are
//! not `unknown` differ.
//!
//! - **corpora**: the documented histories, if they are there, with a limit of 10 s each.
//! - **simulated**: every protocol, mix and two faults, 60 transactions, at every level, with a
//!   limit of 2 s.
//! - **random**: small random histories at every level.
//! - **large**: serial executions of 5,000 to 10,000 transactions, timed and not, with a limit of
//!   20 s.
//! - **hard**: many writes and few reads without any order, scans of few rows among inserts and
//!   deletes, two recordings of real databases, and 100,000 transactions without sessions, with a
//!   limit of 20 s.
//! - **wide**: 30,000 and 100,000 transactions of 20 and 200 sessions at levels that do not promise
//!   session order, and many writes on few keys; 100,000 without sessions and with a fault; with a
//!   limit of 60 s.
//! - **tenants**: 20 groups of keys that no transaction shares, many writes, no order, with a limit
//!   of 20 s.
//!
//! *Lost* are questions that all strategies together decide. *For `auto`* is how many of them
//! engine follow does not decide either.

#[allow(dead_code, reason = "the other benchmark uses more of it")]
#[path = "solve/serial.rs"]
mod serial;

use std::time::Duration;

use margay_follow::Follow;
use margay_formats::{Source, read};
use margay_history::History;
use margay_levels::Level;
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_solve::SolveWith;
use margay_solve::strategy::{Strategies, Strategy};
use margay_testkit::bench::cpu_seconds;
use margay_testkit::{cases, corpora, random};
use margay_verdict::{Budget, Checker, Question, Verdict};

use crate::serial::{Pattern, Serial, serial, timed};

/// Questions of one kind, with the limit for each.
struct Family {
    name: &'static str,
    limit: Duration,
    questions: Vec<(History, Question)>,
}

/// What came of the questions of a family.
struct Answers {
    /// Whether the level holds, where that was decided.
    decided: Vec<Option<bool>>,
    /// How many transactions the findings name.
    named: usize,
    cpu: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let part = args.first().map_or("", String::as_str);
    let wanted = args.get(1).map_or("", String::as_str);
    let made = [corpora_family, simulated, random_family, large, hard, wide, tenants].map(|make| make());
    let families: Vec<Family> = made.into_iter().filter(|family| family.name.contains(wanted)).collect();
    let all: Vec<Answers> = families.iter().map(|family| ask(family, Strategies::ALL)).collect();
    let titles =
        families.iter().map(|family| format!(" {}, lost / for `auto` | CPU s | named |", family.name));
    println!("| off |{}", titles.collect::<String>());
    println!("|---|{}", "---:|---:|---:|".repeat(families.len()));
    let row = |answers: &Answers| {
        let decided = answers.decided.iter().flatten().count();
        format!(" {decided} of {} | {:.1} | {} |", answers.decided.len(), answers.cpu, answers.named)
    };
    println!("| nothing |{}", all.iter().map(row).collect::<String>());
    let wanted = |name: &str| part.split(',').any(|part| name.contains(part));
    for (strategy, name) in Strategy::ALL.into_iter().filter(|(_, name)| wanted(name)) {
        let mut line = format!("| {name} |");
        for (family, whole) in families.iter().zip(&all) {
            let answers = ask(family, Strategies::ALL.without(strategy));
            line += &compared(family, whole, &answers);
        }
        println!("{line}");
    }
}

fn ask(family: &Family, strategies: Strategies) -> Answers {
    let start = cpu_seconds();
    let (mut decided, mut named) = (Vec::new(), 0);
    for (history, question) in &family.questions {
        let budget = Budget::unlimited().with_time(family.limit);
        let verdict = SolveWith(strategies).check(history, *question, &budget);
        if let Verdict::Violated(findings) = &verdict {
            named += findings.iter().map(|finding| finding.txns.len()).sum::<usize>();
        }
        decided.push(said(&verdict));
    }
    Answers { decided, named, cpu: cpu_seconds() - start }
}

fn said(verdict: &Verdict) -> Option<bool> {
    match verdict {
        Verdict::Holds(_) => Some(true),
        Verdict::Violated(_) => Some(false),
        Verdict::Clean | Verdict::Unknown(_) => None,
    }
}

fn compared(family: &Family, whole: &Answers, answers: &Answers) -> String {
    let (mut lost, mut for_auto) = (0, 0);
    for (place, (history, question)) in family.questions.iter().enumerate() {
        match (whole.decided[place], answers.decided[place]) {
            (Some(before), Some(now)) => assert_eq!(before, now, "{}: {place}", family.name),
            (Some(_), None) => {
                lost += 1;
                let budget = Budget::unlimited().with_time(family.limit);
                for_auto += usize::from(said(&Follow.check(history, *question, &budget)).is_none());
            }
            (None, _) => {}
        }
    }
    let gained =
        whole.decided.iter().zip(&answers.decided).filter(|(a, b)| a.is_none() && b.is_some()).count();
    let gained = if gained > 0 { format!(", +{gained}") } else { String::new() };
    format!(" {lost} / {for_auto}{gained} | {:.1} | {} |", answers.cpu, answers.named)
}

fn corpora_family() -> Family {
    let mut questions = Vec::new();
    for case in corpora().iter().flat_map(|root| cases(root)) {
        if let Ok(loaded) = read(Source::Path(case.path.clone()), None) {
            questions
                .push((loaded.history, Question { real_time: case.real_time, ..Question::new(case.level) }));
        }
    }
    Family { name: "corpora", limit: Duration::from_secs(10), questions }
}

fn simulated() -> Family {
    let mut questions = Vec::new();
    let faults = [None, Some(Fault::ALL[0]), Some(Fault::ALL[Fault::ALL.len() / 2])];
    let mixes = Mix::NAMED.len();
    for (place, protocol) in Protocol::ALL.into_iter().enumerate() {
        for number in 0..2 * mixes {
            let (seed, mix) = ((place * 100 + number) as u64, Mix::NAMED[number % mixes].1);
            let small = SimConfig::small(protocol, mix, seed);
            let mut config =
                SimConfig { clients: 6, transactions: 60, keys: 12, unknown: Ppm::percent(3), ..small };
            if let Some(fault) = faults[(place + number / mixes) % faults.len()] {
                config = config.with_fault(fault, Ppm::percent(10));
            }
            let Ok((history, _)) = simulate_history(&config) else { continue };
            questions.extend(Level::ALL.map(|level| (history.clone(), Question::new(level))));
        }
    }
    Family { name: "simulated", limit: Duration::from_secs(2), questions }
}

fn random_family() -> Family {
    let all = (1..600).map(random);
    let ask = |history: History| Level::ALL.map(|level| (history.clone(), Question::new(level)));
    Family { name: "random", limit: Duration::from_secs(2), questions: all.flat_map(ask).collect() }
}

/// Uniform accesses.
fn uniform(keys: u64, sessions: u64, reads: u64) -> Serial {
    Serial { keys, tenants: 1, sessions, reads, updates: 0, versions: 0, fault: serial::Fault::None }
}

/// A serial execution without time.
fn untimed(txns: u64, keys: u64, sessions: u64, reads: u64, level: Level) -> (History, Question) {
    (serial(txns, &uniform(keys, sessions, reads)), Question::new(level))
}

/// The same with a fault, on as many keys as there are transactions.
fn faulty(txns: u64, sessions: u64, fault: serial::Fault, level: Level) -> (History, Question) {
    (serial(txns, &Serial { fault, ..uniform(txns, sessions, 50) }), Question::new(level))
}

/// Scans among inserts, updates and deletes of 24 rows.
fn scans(seed: u64) -> Option<History> {
    let mut weights = [0; 12];
    (weights[4], weights[5], weights[7], weights[8]) = (2, 4, 2, 5);
    let small = SimConfig::small(Protocol::SiFuw, Mix { weights }, seed);
    let config = SimConfig { clients: 6, transactions: 300, ops: (1, 5), keys: 24, domain: 20, ..small };
    simulate_history(&config).ok().map(|(history, _)| history)
}

fn hard() -> Family {
    let mut questions = vec![
        untimed(10_000, 10_000, 0, 10, Level::Serializable),
        untimed(10_000, 10_000, 0, 10, Level::SnapshotIsolation),
        untimed(100_000, 100_000, 0, 50, Level::Serializable),
        untimed(100_000, 100_000, 0, 50, Level::Causal),
    ];
    let levels = [
        Level::ReadCommitted,
        Level::Causal,
        Level::ParallelSnapshot,
        Level::SnapshotIsolation,
        Level::StrictSnapshotIsolation,
        Level::StrictSerializable,
    ];
    let ask = |history: History| levels.map(|level| (history.clone(), Question::new(level)));
    questions.extend((0..4).filter_map(scans).flat_map(ask));
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines/tests/cases");
    for name in ["predicate-scans-ignore-timeout.jsonl.zst", "mariadb-predicate-memory.jsonl.zst"] {
        if let Ok(loaded) = read(Source::Path(folder.join(name)), None) {
            questions.push((loaded.history, Question::new(Level::ReadCommitted)));
        }
    }
    Family { name: "hard", limit: Duration::from_secs(20), questions }
}

fn wide() -> Family {
    let questions = vec![
        untimed(100_000, 10_000, 20, 50, Level::Serializable),
        untimed(100_000, 10_000, 20, 50, Level::SnapshotIsolation),
        untimed(30_000, 10_000, 200, 50, Level::Serializable),
        untimed(30_000, 10_000, 200, 50, Level::SnapshotIsolation),
        untimed(10_000, 1_000, 20, 10, Level::Serializable),
        untimed(10_000, 1_000, 20, 10, Level::SnapshotIsolation),
        faulty(100_000, 0, serial::Fault::LostUpdate, Level::SnapshotIsolation),
        faulty(100_000, 0, serial::Fault::WriteSkew, Level::Serializable),
        faulty(100_000, 0, serial::Fault::LongFork, Level::ParallelSnapshot),
    ];
    Family { name: "wide", limit: Duration::from_secs(60), questions }
}

fn tenants() -> Family {
    let apart = |fault| Serial { tenants: 20, fault, ..uniform(4_000, 0, 10) };
    let ask = |fault, level| (serial(8_000, &apart(fault)), Question::new(level));
    let questions = vec![
        ask(serial::Fault::None, Level::Serializable),
        ask(serial::Fault::None, Level::SnapshotIsolation),
        ask(serial::Fault::WriteSkew, Level::Serializable),
        ask(serial::Fault::LostUpdate, Level::SnapshotIsolation),
    ];
    Family { name: "tenants", limit: Duration::from_secs(20), questions }
}

fn large() -> Family {
    let weights = |[reads, writes, scans, updates]: [u32; 4], protocol, level| {
        let mut weights = [0; 12];
        (weights[0], weights[1], weights[8], weights[9]) = (reads, writes, scans, updates);
        let config = SimConfig {
            clients: 24,
            transactions: 5_000,
            ops: (8, 8),
            keys: 5_000,
            mix: Mix { weights },
            domain: 100_000,
            ..SimConfig::new(protocol, 1)
        };
        simulate_history(&config).ok().map(|(history, _)| (history, Question::new(level)))
    };
    let (sss, ser, si) = (Level::StrongSessionSerializable, Level::Serializable, Level::SnapshotIsolation);
    let mut questions = vec![
        untimed(10_000, 10_000, 20, 50, sss),
        untimed(10_000, 1_000, 20, 50, sss),
        untimed(10_000, 10_000, 0, 50, ser),
        untimed(5_000, 5_000, 0, 50, si),
        untimed(10_000, 10_000, 20, 50, Level::Causal),
        untimed(10_000, 10_000, 20, 50, Level::ParallelSnapshot),
        faulty(10_000, 0, serial::Fault::LostUpdate, si),
        faulty(10_000, 0, serial::Fault::WriteSkew, ser),
        faulty(10_000, 20, serial::Fault::WriteSkew, sss),
        faulty(10_000, 20, serial::Fault::LongFork, Level::ParallelSnapshot),
        faulty(10_000, 0, serial::Fault::LongFork, si),
        (timed(5_000, Pattern::Tpcc), Question::new(Level::StrictSerializable)),
    ];
    questions.extend(weights([50, 50, 0, 0], Protocol::Ss2pl, Level::StrictSerializable));
    questions.extend(weights([50, 50, 0, 0], Protocol::SiFuw, Level::StrictSnapshotIsolation));
    questions.extend(weights([50, 50, 0, 0], Protocol::Ssi, ser));
    questions.extend(weights([20, 20, 30, 30], Protocol::Ss2pl, Level::StrictSerializable));
    Family { name: "large", limit: Duration::from_secs(20), questions }
}
