//! Version orders out of a real MariaDB.

mod common;

use common::{ask, job, mariadb, run};
use margay_certify::Certify;
use margay_levels::Level;
use margay_verdict::Verdict;

/// The binary log orders the versions; at SERIALIZABLE every run is certified.
#[test]
fn serializable_is_certified() {
    let Some(server) = mariadb() else { return };
    for (seed, workload) in ["rw-register", "list-append", "increment", "mixed"].into_iter().enumerate() {
        let (history, gaps) = run(&server, &job(workload, "SERIALIZABLE", seed as u64, 120));
        assert_eq!(gaps, [], "{workload}");
        assert!(!history.evidence().version_orders.is_empty());
        let verdict = ask(&Certify, &history, Level::Serializable);
        assert!(matches!(verdict, Verdict::Holds(_)), "{workload}: {verdict:?}");
    }
}

/// At READ COMMITTED increments are lost, and the order of versions proves it. Runs get longer
/// until it happens: how clients meet is not in our hand.
#[test]
fn lost_updates_are_proved() {
    let Some(server) = mariadb() else { return };
    let lost = |seed: u64| {
        let (history, gaps) = run(&server, &job("increment", "READ COMMITTED", seed, 200 << (seed / 2)));
        assert_eq!(gaps, []);
        assert!(matches!(ask(&Certify, &history, Level::ReadCommitted), Verdict::Holds(_)));
        matches!(ask(&Certify, &history, Level::SnapshotIsolation), Verdict::Violated(_))
    };
    assert!((0..12).any(lost), "twelve runs without a lost update");
}
