//! Mirror and solve on the same simulated histories.
//!
//! # Problem
//! Solve decides what a level's definition says; mirror decides what the mechanisms of a database
//! say, which is more: a dirty write that left no trace is no violation of any level. Where do both
//! decide the same question? Where the mechanisms are nothing but the level: one point (or a
//! snapshot and a commit point) for each transaction between its beginning and its end, the profile
//! `generic`. There, whatever mirror calls violated, solve must call violated too.

use std::time::Duration;

use margay_audit::audit;
use margay_history::History;
use margay_levels::Level;
use margay_levels::profile::Dbms;
use margay_mirror::Engine as Mirror;
use margay_simdb::{Fault, Mix, Ppm, Protocol, Report, SimConfig, simulate_history};
use margay_solve::Solve;
use margay_verdict::{Budget, Checker, Question, Verdict};

/// What one history showed.
#[derive(Clone, Copy, Default, Debug)]
pub struct Shown {
    /// Whether the simulation says that the fault is visible to clients.
    pub visible: bool,
    /// Whether mirror finds the mechanisms of the database broken.
    pub mirror: bool,
    /// Whether mirror finds the level broken, by the `generic` profile.
    pub level: bool,
    /// Whether solve finds the level broken; nothing if it ran out of time.
    pub solve: Option<bool>,
}

/// The protocols whose promise both engines decide.
pub fn protocols() -> impl Iterator<Item = Protocol> {
    let both = [Level::StrictSerializable, Level::StrictSnapshotIsolation];
    Protocol::ALL.into_iter().filter(move |protocol| both.contains(&protocol.promises()[0]))
}

/// A small history, so that searching it takes no time.
pub fn config(protocol: Protocol, fault: Option<Fault>, seed: u64) -> SimConfig {
    let mut config = SimConfig::new(protocol, seed);
    config.transactions = 60;
    config.clients = [4, 8, 12][seed as usize % 3];
    config.keys = [4, 8, 16][seed as usize / 3 % 3];
    config.ops = (1, 5);
    config.mix = Mix::NAMED[[0, 0, 1, 2][seed as usize % 4]].1;
    config.aborts = Ppm::percent(5);
    config.unknown = Ppm::percent(2);
    match fault {
        Some(fault) => config.with_fault(fault, Ppm::percent(20)),
        None => config,
    }
}

/// Simulates once and asks all.
pub fn compare(protocol: Protocol, fault: Option<Fault>, seed: u64) -> (History, Shown) {
    let config = config(protocol, fault, seed);
    let (history, report): (History, Report) = simulate_history(&config).expect("a simulation is a history");
    let question = Question::new(protocol.promises()[0]);
    let generic = Mirror::of(&Dbms::Named("generic".to_owned()), &history, question.level);
    let budget = Budget::unlimited().with_time(Duration::from_secs(2));
    let solve = match Solve.check(&history, question, &budget) {
        Verdict::Violated(_) => Some(true),
        Verdict::Holds(_) => Some(false),
        Verdict::Clean | Verdict::Unknown(_) => None,
    };
    let shown = Shown {
        visible: fault.is_some_and(|fault| report.count(fault).1 > 0),
        mirror: found(&Mirror::default(), &history, question),
        level: found(&generic.expect("a profile for every strict level"), &history, question),
        solve,
    };
    (history, shown)
}

/// Whether mirror finds something; every finding passes the audit.
fn found(mirror: &Mirror, history: &History, question: Question) -> bool {
    let Verdict::Violated(findings) = mirror.check(history, question, &Budget::unlimited()) else {
        return false;
    };
    for finding in &findings {
        assert_eq!(audit(history, question, &finding.certificate), Ok(()), "{finding:?}");
    }
    true
}
