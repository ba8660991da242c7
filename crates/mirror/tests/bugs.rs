//! Leopard's published bugs: each trace of `corpus/leopard-bugs` breaks the mechanism that its
//! README says, under the profile that it says.

use std::fs;
use std::path::PathBuf;

use margay_audit::audit;
use margay_formats::{Source, read};
use margay_levels::Level;
use margay_levels::profile::Dbms;
use margay_mirror::Engine;
use margay_rows::{SeenState, translate_partly};
use margay_verdict::{Budget, Checker, Question, Verdict};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/leopard-bugs")
}

/// The rows of the README's tables: file, profile, mechanism.
fn rows() -> Vec<[String; 3]> {
    let text = fs::read_to_string(folder().join("README.md")).expect("the README");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    let row = |cells: Vec<String>| match cells.as_slice() {
        [_, file, _, profile, mechanism, _] => [file.clone(), profile.clone(), mechanism.clone()],
        other => panic!("{other:?}"),
    };
    text.lines().filter(|line| line.starts_with("| `")).map(|line| row(cells(line))).collect()
}

fn dbms(profile: &str) -> Dbms {
    match profile.ends_with(".toml") {
        true => Dbms::from_toml(&fs::read_to_string(folder().join(profile)).expect("a file")).expect(profile),
        false => Dbms::named(profile).expect(profile),
    }
}

/// The level that the profile promises, so that nothing else is asked.
fn promised(dbms: &Dbms) -> Level {
    let promises = |level: &Level| dbms.profile(None, *level).is_ok_and(|p| p.promises.contains(level));
    Level::ALL.into_iter().find(promises).expect("a promise")
}

#[test]
fn every_bug_is_found_by_the_mechanism_that_was_broken() {
    let rows = rows();
    for [file, profile, mechanism] in &rows {
        let path = folder().join(format!("{file}.jsonl"));
        let history =
            read(Source::Path(path), None).unwrap_or_else(|error| panic!("{file}: {error}")).history;
        let dbms = dbms(profile);
        let question = Question::new(promised(&dbms));
        let engine = Engine::of(&dbms, &history, question.level).expect("a profile that promises it");
        let stable = engine.mechanisms.is_some_and(|mechanisms| mechanisms.sees_one_state());
        let sight = if stable { SeenState::Stable } else { SeenState::Changing };
        let history = translate_partly(&history, sight).map_or(history, |rows| rows.history);
        let Verdict::Violated(findings) = engine.check(&history, question, &Budget::unlimited()) else {
            panic!("{file}: nothing found under {profile}");
        };
        let names: Vec<&str> = findings.iter().map(|finding| finding.anomaly.name()).collect();
        assert!(names.contains(&mechanism.as_str()), "{file}: {names:?} in place of {mechanism}");
        for finding in &findings {
            assert_eq!(audit(&history, question, &finding.certificate), Ok(()), "{file}");
        }
    }
    let files = fs::read_dir(folder()).expect("the folder").map(|entry| entry.expect("an entry").path());
    let traces = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).count();
    assert_eq!(rows.len(), traces, "every trace has its row");
}
