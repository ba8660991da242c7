//! `margay run` and findings that do not count: documented deviations, and what a file accepts.

mod common;

use std::fs;

use common::{Run, found, margay};
use margay_servers::{Server, started};
use serde_json::Value;
use tempfile::TempDir;

fn run(args: &str) -> Run {
    margay(["run", "--no-report"].into_iter().chain(args.split_whitespace()))
}

fn expected(told: &Value) -> Vec<Value> {
    told["report"]["expected"].as_array().cloned().unwrap_or_default()
}

/// A regression: a run on PostgreSQL at REPEATABLE READ ended with exit status 1 for what its
/// documentation describes.
#[test]
fn a_deviation_that_postgresql_documents_does_not_count() {
    let Some(server) = started(Server::postgres()) else { return };
    let args = format!("{} --level repeatable-read --workload predicate", server.url());
    // Longer runs show more of it, and more that clients' clocks leave in doubt.
    let set_aside = (0..24).find_map(|seed| {
        let transactions = 300 * (1 + seed / 3);
        let run = run(&format!("{args} --transactions {transactions} --seed {seed} --json"));
        (run.status == 0 && !expected(&run.json()).is_empty()).then(|| run.json())
    });
    let told = set_aside.expect("a run with an insertion over a deletion, and nothing else");
    assert_eq!(told["verdict"], "clean", "{told}");
    let first = &expected(&told)[0];
    assert_eq!(first["deviation"], "insert-over-unseen-deletion", "{told}");
    assert!(first["reason"].as_str().is_some_and(|why| why.contains("13.2.2")), "{told}");
    let headline = told["report"]["headline"].as_str().unwrap_or_default();
    assert!(
        headline.contains("nothing but known deviations contradicts strict-snapshot-isolation"),
        "{told}"
    );
    for check in told["report"]["checks"].as_array().expect("checks") {
        assert_ne!(check["verdict"], "violated", "{told}");
    }
    let strict = found(run, &format!("{args} --strict"), 1500, |_| true);
    assert!(expected(&strict).is_empty(), "{strict}");
    assert_eq!(strict["verdict"], "violated");
}

/// The definition knows no products.
#[test]
fn a_check_goes_by_the_definition() {
    let text = margay(["explain", "postgresql/repeatable-read"]).expect(0).stdout;
    assert!(text.contains("insert-over-unseen-deletion"), "{text}");
    let text = margay(["explain", "postgresql/serializable"]).expect(0).stdout;
    assert!(!text.contains("insert-over-unseen-deletion"), "{text}");
}

fn accept(folder: &TempDir, text: &str) -> String {
    let file = folder.path().join("accept.toml");
    fs::write(&file, text).expect("written");
    file.display().to_string()
}

fn rule(anomaly: &str, until: &str) -> String {
    format!("[[accept]]\nanomaly = \"{anomaly}\"\nreason = \"ticket 7\"\nuntil = {until}\n")
}

#[test]
fn what_a_file_accepts_is_reported_and_does_not_count() {
    let folder = TempDir::new().expect("a folder");
    let skewed = "sim:si --claim serializable --workload write-skew --engine solve";
    let told = found(run, skewed, 300, |_| true);
    let anomaly = told["anomalies"][0]["name"].as_str().expect("a name").to_owned();
    let accepted = |until: &str, wanted: i32| {
        let file = accept(&folder, &rule(&anomaly, until));
        let told = (0..24).find_map(|seed| {
            let run = run(&format!("{skewed} --transactions 600 --seed {seed} --accept {file} --json"));
            (run.status == wanted).then(|| run.json())
        });
        told.unwrap_or_else(|| panic!("twenty-four runs without exit status {wanted}"))
    };
    let told = accepted("2999-12-31", 0);
    let first = expected(&told).first().cloned().expect("what is accepted");
    assert_eq!((&first["deviation"], &first["anomaly"]), (&Value::Null, &anomaly.as_str().into()));
    assert_eq!(first["reason"], "ticket 7 (until 2999-12-31)");
    assert!(told["run"]["again"].as_str().is_some_and(|again| again.contains("--accept")), "{told}");
    // A rule ends on its day.
    let file = accept(&folder, &rule(&anomaly, "2020-01-01"));
    let late = (0..24).find_map(|seed| {
        let run = run(&format!("{skewed} --transactions 600 --seed {seed} --accept {file} --json"));
        (run.status == 1).then(|| run.json())
    });
    let late = late.expect("a run that shows it");
    assert!(expected(&late).is_empty(), "{late}");
}

#[test]
fn a_rule_that_accepts_nothing_any_more_is_an_error() {
    let folder = TempDir::new().expect("a folder");
    let file = accept(&folder, &rule("G1a", "2999-12-31"));
    let told = run(&format!("--transactions 100 --accept {file}")).expect(2);
    assert!(
        told.stdout.contains("holds") && told.stderr.contains("G1a until 2999-12-31: ticket 7"),
        "{}",
        told.stderr
    );
    let file = accept(&folder, "[[accept]]\nanomaly = \"G1a\"\n");
    let told = run(&format!("--transactions 100 --accept {file}")).expect(2);
    assert!(told.stdout.is_empty() && told.stderr.contains("`reason` is missing"), "{}", told.stderr);
}

/// `--accept` was for runs alone: a recording that a run accepts did not pass a check.
#[test]
fn a_check_takes_the_same_file() {
    let folder = TempDir::new().expect("a folder");
    let skew = "examples/write-skew.jsonl";
    let check =
        |more: &[&str]| margay(["check", skew, "--level", "serializable", "--json"].iter().chain(more));
    let told = check(&[]).expect(1).json();
    let anomaly = told["anomalies"][0]["name"].as_str().expect("a name").to_owned();
    let file = accept(&folder, &rule(&anomaly, "2999-12-31"));
    let told = check(&["--accept", &file]).expect(0).json();
    assert_eq!(told["verdict"], "clean", "{told}");
    assert_eq!(expected(&told)[0]["reason"], "ticket 7 (until 2999-12-31)", "{told}");
    let file = accept(&folder, &format!("{}{}", rule(&anomaly, "2999-12-31"), rule("G1a", "2999-12-31")));
    let told = check(&["--accept", &file]).expect(2);
    assert!(told.stderr.contains("accepted by G1a"), "{}", told.stderr);
}
