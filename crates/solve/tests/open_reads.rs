//! Scans among inserts, updates and deletes of a few rows: every row that a scan left out, and
//! every one that was not there, leaves open which version was seen.

use std::time::Duration;

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

/// Deciding one read after the other, a search had no answer within a minute where a client had
/// waited as long for a real database.
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

/// SmallBank at PostgreSQL's REPEATABLE READ: a check is cashed while savings grow, and a third
/// client sees the savings but not the check. Both balances were seen a second time, and savings
/// were emptied a hundred times, so that each read had too many candidates for the search; it
/// stayed `unknown` for minutes.
#[test]
fn write_skew_between_balances_that_repeat() {
    let empty = |from: usize| -> String {
        let one = |i: usize| format!("T{}: w(s,0; c,0)@[{},{}]", 100 + i, 1000 * i, 1000 * i + 9);
        (from..from + 60).map(one).collect::<Vec<_>>().join(" | ")
    };
    let text = format!(
        "init: s=1000 c=1000 | {} | {}
        | T1: w(c,-47)@[60000,60009] | T2: w(s,65)@[60200,60210] | T3: r(s,65; c,-47)@[60220,60230]
        | T4: r(s,0; c,-47)@[60100,60110] w(c,-130)@[60120,60300]
        | T5: r(s,0)@[59900,59910] w(s,31)@[60310,60400] | T6: w(c,-47)@[60500,60510]
        | T7: r(s,31; c,-47)@[60600,60610] w(s,0; c,0)@[60620,60630] | T8: w(s,65)@[200000,200009]",
        empty(0),
        empty(61)
    );
    let history = margay_testkit::history(&text);
    let question = Question::new(Level::Serializable);
    let budget = Budget::unlimited().at_most(Duration::from_secs(60));
    let verdict = Solve.check(&history, question, &budget);
    assert_eq!(verdict.word(), "violated", "{verdict:?}");
    let certificate = verdict.certificate().expect("a proof");
    assert_eq!(audit(&history, question, certificate), Ok(()));
}
