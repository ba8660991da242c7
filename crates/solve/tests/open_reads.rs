//! Scans among inserts, updates and deletes of a few rows: every row that a scan left out, and every one that was not there, leaves open which version was seen.

use margay_audit::audit;
use margay_history::History;
use margay_levels::Level;
use margay_simdb::{Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_solve::Solve;
use margay_verdict::{Budget, Checker, Question, Verdict};

/// 300 transactions of six clients on 24 rows of a database with snapshots.
fn scans(seed: u64) -> History {
    let mut weights = [0; 12];
    // Reads, writes and deletes of rows, and scans.
    (weights[4], weights[5], weights[7], weights[8]) = (2, 4, 2, 5);
    let small = SimConfig::small(Protocol::SiFuw, Mix { weights }, seed);
    let config = SimConfig {
        clients: 6,
        transactions: 300,
        ops: (1, 5),
        keys: 24,
        domain: 20,
        unknown: Ppm::percent(0),
        ..small
    };
    simulate_history(&config).expect("a history").0
}

/// Deciding one read after the other, a search had no answer within a minute where a client had waited as long for a real database.
#[test]
fn rows_left_out_are_explained_all_at_once() {
    for seed in 0..6 {
        let history = scans(seed);
        for level in [
            Level::StrictSnapshotIsolation,
            Level::SnapshotIsolation,
            Level::Prefix,
            Level::ParallelSnapshot,
            Level::Causal,
            Level::ReadCommitted,
        ] {
            let question = Question::new(level);
            let verdict = Solve.check(&history, question, &Budget::unlimited());
            let Verdict::Holds(order) = &verdict else { panic!("{level}, seed {seed}: {verdict:?}") };
            assert_eq!(audit(&history, question, order), Ok(()), "{level}, seed {seed}");
        }
    }
}
