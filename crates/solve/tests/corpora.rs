//! The documented answers of the corpora at the levels of this engine, large histories included;
//! every certificate is audited.

use std::time::Duration;

use margay_audit::audit;
use margay_formats::{Source, read};
use margay_solve::Solve;
use margay_testkit::{Case, cases, corpora};
use margay_verdict::{Budget, Checker, Question, Verdict, Why};

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
    Other,
    Different(String),
}

fn outcome(case: &Case) -> Outcome {
    let loaded = match read(Source::Path(case.path.clone()), None) {
        Ok(loaded) => loaded,
        Err(error) => return Outcome::Different(format!("unreadable: {error}")),
    };
    let question = Question { real_time: case.real_time, ..Question::new(case.level) };
    let budget = Budget::unlimited().with_time(Duration::from_secs(120));
    let verdict = Solve.check(&loaded.history, question, &budget);
    if let Some(certificate) = verdict.certificate()
        && let Err(rejected) = audit(&loaded.history, question, certificate)
    {
        return Outcome::Different(format!("{}, but the audit says: {rejected}", verdict.word()));
    }
    match (&verdict, case.holds) {
        (Verdict::Holds(_), true) | (Verdict::Violated(_), false) => Outcome::Same,
        (Verdict::Unknown(Why::Level(_)), _) => Outcome::Other,
        (Verdict::Unknown(Why::Outside(what)), _) => {
            eprintln!("{} at {}: outside: {what}", case.name, case.level);
            Outcome::Other
        }
        _ => Outcome::Different(format!("{verdict:?}")),
    }
}

#[test]
fn documented_answers() {
    let Some(root) = corpora() else {
        eprintln!("SKIPPED: the corpora are not there");
        return;
    };
    let (mut same, mut other, mut wrong) = (0, 0, Vec::new());
    for case in cases(&root) {
        let known = DIFFERENCES.iter().any(|(name, _)| case.name == *name);
        match outcome(&case) {
            Outcome::Same if known => wrong.push(format!("{} is no difference any more", case.name)),
            Outcome::Same => same += 1,
            Outcome::Other => other += 1,
            Outcome::Different(_) if known => {}
            Outcome::Different(how) => {
                wrong
                    .push(format!("{} at {}: documented holds={}, {how}", case.name, case.level, case.holds));
            }
        }
    }
    eprintln!("{same} answers as documented, {other} at other levels or outside the fragment");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(same > 480, "the corpora are not what they were");
}
