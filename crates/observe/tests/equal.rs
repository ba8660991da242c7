//! On tiny logs the engine says what trying all orders and all sights says, and the audit accepts
//! it.

mod support;

use margay_audit::audit;
use margay_history::{History, OpKind, Outcome, TxnId};
use margay_levels::Level;
use margay_observe::{Observe, Options};
use margay_verdict::execution::{Execution, Reading, StatementSight};
use margay_verdict::{Budget, Certificate, Checker, Question};
use support::rich::rich;
use support::tiny::{overlapping, replacing, tiny};
use support::{LEVELS, Random, check, naive};

fn cases(usual: u64) -> u64 {
    std::env::var("MARGAY_OBSERVE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn the_engine_equals_the_definitions() {
    agree(cases(100), tiny);
}

/// The same with statements of all kinds.
#[test]
fn the_engine_equals_the_definitions_on_rich_statements() {
    agree(cases(40), rich);
}

/// The same with rows that are deleted and inserted again.
#[test]
fn the_engine_equals_the_definitions_where_rows_are_replaced() {
    agree(cases(60), replacing);
}

fn agree(cases: u64, log: fn(u64) -> History) {
    let mut words = [0; 2];
    let first = std::env::var("MARGAY_OBSERVE_FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    for seed in first..first + cases {
        let history = log(seed);
        for level in LEVELS {
            let question = Question::new(level);
            for reading in [Reading::Item, Reading::Statement] {
                let options = Options { reading, ..Options::DEFAULT };
                let expected = naive::holds(&history, question, reading);
                let verdict = check(&history, level, options);
                words[usize::from(expected)] += 1;
                let word = if expected { "holds" } else { "violated" };
                assert_eq!(
                    verdict.word(),
                    word,
                    "seed {seed} at {level} with {reading:?}: {verdict:?}\n{history:?}"
                );
            }
        }
    }
    assert!(words.iter().all(|&count| count > cases as usize / 2), "{words:?}");
}

/// One adds to a row, another one sets it back to what it was initially, and a third one tells what
/// nobody left. The lemma named the last two, because the second one wrote the row. Without the
/// first it finds the row as it would leave it, so the audit asked what the second one saw, and
/// rejected the proof.
#[test]
fn who_sets_a_row_back_need_not_have_written_it() {
    for seed in [896, 1113] {
        let verdict = check(&overlapping(seed), Level::StrictSnapshotIsolation, Options::DEFAULT);
        let lemmas = verdict.certificate().is_some_and(
            |certificate| matches!(certificate, Certificate::Unexplained(proof) if !proof.lemmas.is_empty()),
        );
        assert!(verdict.word() == "violated" && lemmas, "seed {seed}: {verdict:?}");
    }
}

/// The same with transactions that overlap on the clock. With instants no answer contradicts the
/// definitions; the search may leave one open.
#[test]
fn the_engine_agrees_with_the_definitions_at_instants() {
    let question = Question { instants: true, ..Question::new(Level::StrictSnapshotIsolation) };
    let (mut decided, mut narrowed) = (0, 0);
    for seed in 0..cases(1500) {
        let history = overlapping(seed);
        let holds = naive::holds(&history, question, Reading::Item);
        let plainly = naive::holds(&history, Question::new(question.level), Reading::Item);
        let plain = check(&history, question.level, Options::DEFAULT);
        assert_eq!(plain.word(), if plainly { "holds" } else { "violated" }, "seed {seed}: {history:?}");
        let verdict = Observe::DEFAULT.check(&history, question, &Budget::unlimited());
        if let Some(certificate) = verdict.certificate() {
            assert_eq!(verdict.word(), if holds { "holds" } else { "violated" }, "seed {seed}: {history:?}");
            audit(&history, question, certificate).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            decided += 1;
            narrowed += usize::from(!holds && plainly);
        }
    }
    assert!(
        decided > cases(1500) * 9 / 10 && narrowed > 10,
        "{decided} decided, {narrowed} by instants only"
    );
}

/// Executions made up at random, of logs that no execution explains: the audit must see through all
/// of them.
#[test]
fn the_audit_accepts_no_execution_of_what_is_impossible() {
    let mut tried = 0;
    for seed in 2000..2030 {
        let (history, mut random) = (tiny(seed), Random(seed));
        for level in LEVELS {
            let question = Question::new(level);
            if naive::holds(&history, question, Reading::Item) {
                continue;
            }
            for _ in 0..10 {
                let certificate = Certificate::Execution(made_up(&history, &mut random));
                assert!(
                    audit(&history, question, &certificate).is_err(),
                    "seed {seed} at {level}: {certificate:?}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "{tried}");
}

fn made_up(history: &History, random: &mut Random) -> Execution {
    let mut left: Vec<TxnId> =
        history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted).collect();
    let (mut order, mut sights) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        let txn = left.swap_remove(random.below(left.len() as u64) as usize);
        let here = order.len() as u64;
        let at = random.below(here + 1) as u32;
        for op in history.ops(txn).filter(|op| op.kind == OpKind::Sql) {
            let at = if random.chance(30) { random.below(here + 1) as u32 } else { at };
            sights.push((op.id, StatementSight::state(at)));
        }
        order.push(txn);
    }
    Execution { reading: Reading::Item, order, sights, initial: Vec::new() }
}

#[test]
fn switches_change_no_answer() {
    let full = Options::DEFAULT;
    let all = [
        Options { indexes: false, ..full },
        Options { window: None, ..full },
        Options { window: Some(1), ..full },
        Options { concrete: false, ..full },
        Options { strongest_first: false, ..full },
        Options { learn: false, ..full },
    ];
    for seed in 1000..1025 {
        let history = tiny(seed);
        for level in LEVELS {
            let expected = check(&history, level, full).word();
            for options in all {
                assert_eq!(
                    check(&history, level, options).word(),
                    expected,
                    "seed {seed} at {level}: {options:?}"
                );
            }
        }
    }
}
