//! What docs/COMPATIBILITY.md promises: files that 0.1.0 wrote are read, and mean what they meant.
//!
//! The files of `cases/0.1.0` are frozen. A test that fails here is a promise that would be broken:
//! mend the program.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{margay, root};
use serde_json::Value;

fn old(name: &str) -> PathBuf {
    root().join("crates/cli/tests/cases/0.1.0").join(name)
}

fn path(name: &str) -> String {
    old(name).display().to_string()
}

/// The answers about the examples of 0.1.0 and about a history of statements: how many of the
/// levels hold, from the weakest up.
#[test]
fn histories_mean_what_they_meant() {
    let levels = ["read-committed", "snapshot-isolation", "serializable", "strict-serializable"];
    for (name, holding) in [
        ("dirty-read", 0),
        ("long-fork", 1),
        ("lost-update", 1),
        ("reading-item-or-statement", 1),
        ("write-skew", 2),
        ("stale-read", 3),
        ("transfer", 4),
    ] {
        for (place, level) in levels.into_iter().enumerate() {
            let expected = i32::from(place >= holding);
            margay(["check", &path(&format!("{name}.jsonl")), "--level", level, "--quiet"]).expect(expected);
        }
    }
}

/// A history with every kind of operation there was, in both native forms.
#[test]
fn every_operation_is_read() {
    let native = ["all.jsonl", "all.mgb"].map(|name| margay(["convert", &path(name), "-"]).expect(0).stdout);
    assert_eq!(native[0], native[1]);
    let lines = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    };
    let written = fs::read_to_string(old("all.jsonl")).expect("a file");
    assert_eq!(lines(&native[0]), lines(&written));
}

/// Both are right, each by its reading, which their files do not say.
#[test]
fn certificates_are_accepted() {
    for (name, proved) in [("reading-item", "holds"), ("reading-statement", "violated")] {
        let certificate = path(&format!("{name}.json"));
        let told = margay(["audit", &path("reading-item-or-statement.jsonl"), &certificate]).expect(0).stdout;
        assert!(told.starts_with(&format!("accepted: {proved} under read-committed")), "{told}");
    }
}

/// Whoever reads the JSON by the old schema still finds everything: fields are added, never
/// changed.
#[test]
fn results_have_lost_no_field() {
    let read = |path: PathBuf| -> Value {
        serde_json::from_str(&fs::read_to_string(path).expect("a schema")).expect("JSON")
    };
    let (old, new) = (read(old("REPORT.schema.json")), read(root().join("docs/REPORT.schema.json")));
    let mut lost = Vec::new();
    compare(&old, &new, "", &mut lost);
    assert!(lost.is_empty(), "{lost:#?}");
}

/// Collects where the new value lacks what the old one has. Descriptions may be reworded.
fn compare(old: &Value, new: &Value, at: &str, lost: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, old) in old.iter().filter(|(key, _)| !matches!(key.as_str(), "description" | "title")) {
                let at = format!("{at}/{key}");
                match new.get(key) {
                    Some(new) => compare(old, new, &at, lost),
                    None => lost.push(at),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            lost.extend(old.iter().filter(|item| !new.contains(item)).map(|item| format!("{at}: {item}")));
        }
        _ if old == new => {}
        _ => lost.push(format!("{at}: {old} became {new}")),
    }
}

#[test]
fn the_comparison_of_schemas_finds_what_is_lost() {
    let schema = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let old = schema(r#"{"properties":{"a":{"type":"string"},"b":{}},"required":["a"],"description":"x"}"#);
    let new = schema(r#"{"properties":{"a":{"type":"number"}},"required":[]}"#);
    let mut lost = Vec::new();
    compare(&old, &new, "", &mut lost);
    assert_eq!(
        lost,
        ["/properties/a/type: \"string\" became \"number\"", "/properties/b", "/required: \"a\""]
    );
}
