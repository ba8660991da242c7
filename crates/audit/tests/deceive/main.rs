//! Attempts to deceive the audit, with all that can be claimed of tiny histories, at every level.
//!
//! Of a history that holds by the definitions: every lemma that audit takes for true is put into
//! one refutation, the strongest there is, which must still leave a possibility; and no operation
//! can be blamed for anything. Of a history that does not: no order of transactions or of points,
//! and no version orders, pass. (`tests/mutation` spoils what is right; here nothing is right.)

mod edges;
mod forge;
mod wild;

use edges::{Edges, LEAVES};
use margay_audit::audit;
use margay_history::{History, OpId};
use margay_levels::{Anomaly, Level};
use margay_testkit::{Rng, random, show};
use margay_verdict::{Budget, Certificate, Question};
use wild::wild;

#[derive(Default, Debug)]
struct Tally {
    held: usize,
    lemmas: usize,
    violated: usize,
    forged: usize,
}

#[test]
fn what_holds_is_not_refuted_and_what_does_not_is_not_proved() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let first = number("MARGAY_FIRST").unwrap_or(1);
    let mut tally = Tally::default();
    for seed in first..first + number("MARGAY_RANDOM").unwrap_or(40) {
        let history = if seed % 3 == 0 { random(seed) } else { wild(seed) };
        if history.txn_count() <= 4 {
            deceive(&history, &mut Rng::new(seed), &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(
        tally.held > 20 && tally.lemmas > 1000 && tally.violated > 20 && tally.forged > 1000,
        "{tally:?}"
    );
}

fn deceive(history: &History, rng: &mut Rng, tally: &mut Tally) {
    for level in Level::ALL {
        let question = Question { real_time: rng.chance(20), ..Question::new(level) };
        match margay_naive::holds(history, question, &Budget::unlimited()) {
            Ok(true) => {
                tally.held += 1;
                blame(history, question, rng);
                let edges = Edges::new(history, question);
                let lemmas = edges.lemmas(rng);
                tally.lemmas += lemmas.len();
                if !lemmas.is_empty() {
                    assert_eq!(edges.refute(&lemmas), LEAVES, "{}", show(history));
                }
            }
            Ok(false) => {
                tally.violated += 1;
                tally.forged += forge::forge(history, question, rng);
            }
            Err(_) => {}
        }
    }
}

/// No operation is an anomaly by itself, nor with another one.
fn blame(history: &History, question: Question, rng: &mut Rng) {
    for op in (0..history.op_count()).map(OpId::at) {
        for &anomaly in Anomaly::ALL {
            for ops in [vec![op], vec![op, OpId::at(rng.below(history.op_count()))]] {
                let blamed = Certificate::Operations { anomaly, ops };
                let answer = audit(history, question, &blamed);
                assert!(answer.is_err(), "{question:?} holds, and is blamed: {blamed:?}\n{}", show(history));
            }
        }
    }
}
