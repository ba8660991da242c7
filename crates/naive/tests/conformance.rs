//! The judge judged: its certificates pass the audit, it keeps the laws, and its findings are
//! minimal.

use margay_history::{History, HistoryBuilder, OpDetail, OpKind, Outcome, TxnId};
use margay_levels::Level;
use margay_naive::{Naive, holds};
use margay_testkit::{Options, conformance, random, show};
use margay_verdict::{Budget, Checker, Question, Verdict};

#[test]
fn keeps_the_laws_on_random_histories() {
    let tally = conformance(&Naive, &Level::ALL, Options { tiny: 0, ..Options::default() });
    let answers = tally.holds + tally.violated + tally.unknown;
    assert!(tally.unknown * 20 < answers, "too many answers are unknown: {tally:?}");
}

/// On registers and lists with values of their own nothing is unknown: every violation has a
/// certificate.
#[test]
fn keeps_the_laws_on_all_tiny_histories() {
    let options = Options { random: 0, may_be_unknown: false, ..Options::default() };
    let tally = conformance(&Naive, &Level::ALL, options);
    assert!(tally.histories > 10_000 && tally.unknown == 0, "{tally:?}");
}

/// A database with 100,000 rows and one transaction: the search once went one level deeper for
/// each, until the stack was full.
#[test]
fn many_initial_rows_do_not_fill_the_stack() {
    let mut builder = HistoryBuilder::new();
    for key in 0..100_000 {
        let key = builder.values().int(key);
        let object = builder.object(None, key);
        builder.initial(object, key).expect("an initial value");
    }
    builder.push(0, 1, None, OpKind::Commit, &[], OpDetail::None).expect("a transaction");
    let history = builder.finish().expect("a history");
    let verdict = Naive.check(&history, Question::new(Level::ReadCommitted), &Budget::unlimited());
    assert!(!matches!(verdict, Verdict::Violated(_)));
}

/// Whether the history of these transactions (and of those that aborted) violates the level, if
/// that can be asked.
fn is_violated(history: &History, question: Question, keep: impl Fn(TxnId) -> bool) -> Option<bool> {
    let part = history.restrict(|t| keep(t) || history.outcome(t) == Outcome::Aborted)?;
    holds(&part, question, &Budget::unlimited()).ok().map(|holds| !holds)
}

/// Dropping any transaction of the shown slice loses the violation.
#[test]
fn findings_are_minimal() {
    let mut slices = 0;
    for seed in 0..1000 {
        let history = random(seed);
        for level in Level::ALL {
            let question = Question::new(level);
            let Verdict::Violated(findings) = Naive.check(&history, question, &Budget::unlimited()) else {
                continue;
            };
            let txns = &findings[0].txns;
            slices += 1;
            for &out in txns {
                let violated = is_violated(&history, question, |t| t != out && txns.contains(&t));
                assert_ne!(violated, Some(true), "{level}: {:?} in {}", findings[0], show(&history));
            }
        }
    }
    assert!(slices > 1000, "only {slices} slices");
}
