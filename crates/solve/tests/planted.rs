//! One fault in an otherwise serial execution: the transactions that made it are found, with at
//! most those whose versions they saw, and what is said of them is short.

#[path = "../benches/solve/serial.rs"]
#[allow(dead_code, reason = "the benchmark makes other executions too")]
mod serial;

use margay_audit::audit;
use margay_history::TxnId;
use margay_levels::Level;
use margay_report::explain::finding as explain;
use margay_solve::Solve;
use margay_verdict::{Budget, Checker, Question, Verdict};
use serial::{Fault, Serial, serial};

/// `MARGAY_PLANTED`, or 2,000.
fn size() -> u64 {
    std::env::var("MARGAY_PLANTED").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// What each level says of a fault; the fault's transactions are the last of the labels.
fn check(fault: Fault, sessions: u64, levels: &[(Level, bool)]) {
    let txns = size();
    let history =
        serial(txns, &Serial { keys: txns, tenants: 1, sessions, reads: 50, updates: 0, versions: 0, fault });
    for &(level, holds) in levels {
        let question = Question::new(level);
        let verdict = Solve.check(&history, question, &Budget::unlimited());
        let certificate = verdict.certificate().unwrap_or_else(|| panic!("{level}: {}", verdict.word()));
        assert_eq!(audit(&history, question, certificate), Ok(()), "{level}");
        let Verdict::Violated(findings) = &verdict else {
            assert!(holds, "{level}: the fault is not found");
            continue;
        };
        assert!(!holds, "{level}: {findings:?}");
        let is_planted = |txn: &TxnId| history.txn_label(*txn) >= txns;
        let (slice, said) = (&findings[0].txns, explain(&history, &findings[0]));
        let planted = slice.iter().copied().filter(is_planted).count();
        assert_eq!(planted, history.txn_count() - txns as usize, "{level}: {said}");
        assert!(slice.len() <= planted + 2, "{level}: {said}");
        assert!(said.lines().count() <= 24 && said.len() < 4_000, "{level}: {said}");
    }
}

#[test]
fn a_lost_update_is_none_for_causality() {
    for sessions in [0, 20] {
        let levels = [Level::Causal, Level::ParallelSnapshot, Level::SnapshotIsolation, Level::Serializable];
        check(Fault::LostUpdate, sessions, &levels.map(|level| (level, level == Level::Causal)));
    }
}

#[test]
fn a_long_fork_is_none_below_snapshots() {
    for sessions in [0, 20] {
        let below = [Level::Causal, Level::ParallelSnapshot].map(|level| (level, true));
        let above =
            [Level::Prefix, Level::SnapshotIsolation, Level::Serializable].map(|level| (level, false));
        check(Fault::LongFork, sessions, &below);
        check(Fault::LongFork, sessions, &above);
    }
}

#[test]
fn a_write_skew_is_none_with_snapshots() {
    for sessions in [0, 20] {
        let levels =
            [(Level::SnapshotIsolation, true), (Level::RepeatableRead, false), (Level::Serializable, false)];
        check(Fault::WriteSkew, sessions, &levels);
    }
}
