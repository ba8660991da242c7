//! Evidence that simulated databases tell of themselves, and exchanges with databases that cannot
//! be installed here.

mod common;

use common::{ask, job, with_evidence};
use margay_certify::{Certify, Replay};
use margay_drivers::Target;
use margay_history::History;
use margay_levels::Level;
use margay_recover::Watched;
use margay_runner::{Extras, Job, Monitor};
use margay_verdict::Verdict;

fn run(target: &str, workload: &str, seed: u64) -> History {
    run_longer(target, workload, seed, 200)
}

fn run_longer(target: &str, workload: &str, seed: u64, transactions: u64) -> History {
    let target: Target = target.parse().expect("a target");
    let job = job(workload, "", seed, transactions);
    let database =
        margay_drivers::open(&target, &Job::setting(&job.workload, job.clients, seed)).expect("a database");
    let job = Job { own_name: database.levels()[0].to_owned(), ..job };
    let watched = Watched::new(database).expect("something to tell");
    let recording = margay_runner::run(watched.database(), &job, &Monitor::default(), Extras::default())
        .expect("a recording");
    let (history, gaps) = with_evidence(&watched, recording.history);
    assert_eq!(gaps, []);
    history
}

#[test]
fn what_they_tell_proves_what_they_promise() {
    for (seed, workload) in ["mixed", "predicate", "write-skew", "increment"].into_iter().enumerate() {
        let history = run("sim:ss2pl", workload, seed as u64);
        for verdict in
            [ask(&Certify, &history, Level::Serializable), ask(&Replay, &history, Level::Serializable)]
        {
            assert!(matches!(verdict, Verdict::Holds(_)), "{workload}: {verdict:?}");
        }
        let history = run("sim:si", workload, seed as u64);
        for verdict in [
            ask(&Certify, &history, Level::SnapshotIsolation),
            ask(&Replay, &history, Level::SnapshotIsolation),
        ] {
            assert!(matches!(verdict, Verdict::Holds(_)), "{workload}: {verdict:?}");
        }
    }
}

/// Runs get longer until it happens: how clients meet is not in our hand.
#[test]
fn what_they_tell_proves_what_they_break() {
    let lost = |seed: u64| {
        let history = run_longer("sim:si+lost-update=0.3", "increment", seed, 200 << seed);
        matches!(ask(&Certify, &history, Level::SnapshotIsolation), Verdict::Violated(_))
    };
    assert!((0..8).any(lost), "a fault that fires is found");
}
