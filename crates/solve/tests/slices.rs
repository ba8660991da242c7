//! What is shown of a violation is minimal: the slice alone is violated, and without any one of its
//! transactions it is not.

use std::time::Duration;

use margay_audit::audit;
use margay_history::{History, OpKind, Outcome, TxnId};
use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_solve::Solve;
use margay_testkit::{random, show, tiny};
use margay_verdict::{Budget, Certificate, Checker, Finding, Question, Verdict};

/// What the definitions say of some transactions and of what aborted; nothing where that cannot be
/// told apart.
fn alone(history: &History, question: Question, txns: &[TxnId]) -> Option<bool> {
    let keep = |txn: TxnId| txns.contains(&txn) || history.outcome(txn) == Outcome::Aborted;
    holds(&history.restrict(keep)?, question, &Budget::unlimited()).ok()
}

fn refutation(history: &History, question: Question) -> Option<Finding> {
    let budget = Budget::unlimited().with_time(Duration::from_secs(2));
    let Verdict::Violated(mut findings) = Solve.check(history, question, &budget) else {
        return None;
    };
    let finding = findings.swap_remove(0);
    let Certificate::Refutation(lemmas) = &finding.certificate else { return None };
    let mut edges = lemmas.iter().flat_map(|lemma| &lemma.edges);
    assert!(edges.all(|edge| finding.txns.contains(&edge.from)), "{}", show(history));
    Some(finding)
}

/// Whether cutting a transaction out of the history cuts out what others saw of its versions, and
/// no more.
fn is_plain(history: &History) -> bool {
    let odd = [OpKind::Append, OpKind::Scan, OpKind::Update, OpKind::Sql];
    let once = |txn: TxnId| {
        let writes = history.ops(txn).filter(|op| op.kind.writes()).flat_map(|op| op.accesses);
        let mut objects: Vec<_> = writes.map(|access| access.object).collect();
        objects.sort_unstable();
        objects.windows(2).all(|pair| pair[0] != pair[1])
    };
    history.tables().is_empty() && !odd.iter().any(|&kind| history.has_kind(kind)) && history.txns().all(once)
}

#[derive(Default, Debug)]
struct Tally {
    violated: usize,
    alone: usize,
    minimal: usize,
}

fn look(history: &History, tally: &mut Tally) {
    for level in Level::ALL {
        let question = Question::new(level);
        let Some(finding) = refutation(history, question) else { continue };
        tally.violated += 1;
        let without = |out: TxnId| {
            let rest: Vec<TxnId> = finding.txns.iter().copied().filter(|&txn| txn != out).collect();
            alone(history, question, &rest)
        };
        match alone(history, question, &finding.txns) {
            Some(true) if is_plain(history) => panic!("{level}: the slice holds: {}", show(history)),
            Some(false) => tally.alone += 1,
            _ => continue,
        }
        let fewer = finding.txns.iter().find(|&&txn| without(txn) == Some(false));
        match fewer {
            Some(txn) if is_plain(history) => {
                panic!("{level}: violated without {}: {}", history.show_txn(*txn), show(history))
            }
            Some(_) => {}
            None => tally.minimal += 1,
        }
    }
}

/// In histories of eighty transactions with a fault a few of them are shown, and they are a
/// violation by themselves.
#[test]
fn slices_of_larger_histories_are_small() {
    let mut sizes = Vec::new();
    for (number, &fault) in Fault::ALL.iter().enumerate() {
        for protocol in Protocol::ALL {
            let Some(level) = fault.breaks(protocol).filter(|level| level.implies(Level::SnapshotIsolation))
            else {
                continue;
            };
            let small = SimConfig::small(protocol, Mix::NAMED[number % Mix::NAMED.len()].1, number as u64);
            let config = SimConfig { clients: 6, transactions: 80, ops: (1, 6), keys: 12, ..small };
            let config = config.with_fault(fault, Ppm::percent(5));
            let (history, _) = simulate_history(&config).expect("a history");
            let question = Question::new(level);
            let Some(finding) = refutation(&history, question) else { continue };
            assert_eq!(audit(&history, question, &finding.certificate), Ok(()), "{}", config.command("OUT"));
            sizes.push(finding.txns.len());
        }
    }
    sizes.sort_unstable();
    println!("{sizes:?}");
    assert!(sizes.len() > 5 && sizes[sizes.len() / 2] <= 5 && sizes[sizes.len() - 1] <= 20, "{sizes:?}");
}

#[test]
fn slices_are_minimal() {
    let mut tally = Tally::default();
    let mut number = 0;
    tiny(|history| {
        number += 1;
        if number % 3 == 0 {
            look(&history, &mut tally);
        }
    });
    (1..3000).map(random).for_each(|history| look(&history, &mut tally));
    println!("{tally:?}");
    assert!(tally.violated > 300, "{tally:?}");
    assert!(10 * tally.minimal > 8 * tally.violated, "{tally:?}");
}
