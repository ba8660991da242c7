//! The documented answers of the corpora, as far as this engine comes in a second each.

use std::time::Duration;

use margay_audit::audit;
use margay_formats::{Source, read};
use margay_naive::Naive;
use margay_testkit::{Case, cases, corpora};
use margay_verdict::{Budget, Checker, Question, Verdict};

/// Documented answers that are not ours, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "elle-cli/elle/rw-register.edn",
        "it reads x = 3, which nobody wrote: Elle does not look for garbage reads",
    ),
    ("elle-cli/elle/rw-register.json", "the same history as JSON"),
];

enum Outcome {
    Same,
    Different(String),
    TooLarge,
}

fn outcome(case: &Case) -> Outcome {
    let loaded = match read(Source::Path(case.path.clone()), None) {
        Ok(loaded) => loaded,
        Err(error) => return Outcome::Different(format!("unreadable: {error}")),
    };
    if loaded.history.txn_count() > 40 {
        return Outcome::TooLarge;
    }
    let question = Question { real_time: case.real_time, ..Question::new(case.level) };
    let budget = Budget::unlimited().with_time(Duration::from_secs(1));
    let verdict = Naive.check(&loaded.history, question, &budget);
    if let Some(certificate) = verdict.certificate() {
        audit(&loaded.history, question, certificate).expect("certificates pass the audit");
    }
    match (&verdict, case.holds) {
        (Verdict::Holds(_), true) | (Verdict::Violated(_), false) => Outcome::Same,
        (Verdict::Unknown(why), _) => {
            eprintln!("{} at {}: {why}", case.name, case.level);
            Outcome::TooLarge
        }
        _ => Outcome::Different(format!("{verdict:?}\n{}", margay_testkit::show(&loaded.history))),
    }
}

#[test]
fn documented_answers() {
    let Some(root) = corpora() else {
        eprintln!("SKIPPED: the corpora are not there");
        return;
    };
    let (mut same, mut large, mut wrong) = (0, 0, Vec::new());
    for case in cases(&root) {
        let known = DIFFERENCES.iter().any(|(name, _)| case.name == *name);
        match outcome(&case) {
            Outcome::Same if known => {
                wrong.push(format!("{} at {} is no difference any more", case.name, case.level))
            }
            Outcome::Same => same += 1,
            Outcome::TooLarge => large += 1,
            Outcome::Different(_) if known => {}
            Outcome::Different(how) => {
                wrong.push(format!("{} at {}: documented holds={}, {how}", case.name, case.level, case.holds))
            }
        }
    }
    eprintln!("{same} answers as documented, {large} not tried or undecided");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(same > 60, "the corpora are not what they were");
}
