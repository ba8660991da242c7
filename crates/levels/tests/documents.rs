//! The documents are in step with the data, and every citation resolves.
//!
//! `MARGAY_REWRITE_DOCS=1 cargo test -p margay-levels --test documents` writes the generated parts
//! anew.

use std::path::PathBuf;

use margay_levels::render::markdown;
use margay_levels::{Anomaly, Level, cite, profile};

/// Compares a document with what it should be, or writes it.
fn in_step(name: &str, expected: impl Fn(&str) -> String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let actual = std::fs::read_to_string(&path).unwrap_or_default();
    let expected = expected(&actual);
    if std::env::var_os("MARGAY_REWRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        let line = actual.lines().zip(expected.lines()).position(|(a, e)| a != e).map(|l| l + 1);
        assert!(actual == expected, "docs/{name} is stale from line {line:?}; set MARGAY_REWRITE_DOCS=1");
    }
}

#[test]
fn levels_document_is_in_step() {
    in_step("LEVELS.md", markdown::fill);
    let text = include_str!("../../../docs/LEVELS.md");
    for section in ["lattice", "levels", "definitions", "anomalies", "examples", "models", "profiles"] {
        assert!(text.contains(&format!("<!-- {section} -->")), "no section {section}");
    }
}

#[test]
fn references_document_is_in_step() {
    in_step("REFERENCES.md", |_| markdown::references());
}

#[test]
fn every_citation_resolves() {
    let levels = Level::ALL.iter().flat_map(|l| l.definition().cites).copied();
    let anomalies = Anomaly::ALL.iter().map(|a| a.entry());
    let anomalies = anomalies.flat_map(|e| e.cites.iter().copied().chain(e.implies.iter().map(|i| i.1)));
    let profiles = profile::all().flat_map(|p| p.cites).copied();
    for key in levels.chain(anomalies).chain(profiles) {
        assert!(cite::find(key).is_some(), "[{key}] has no reference");
    }
}

#[test]
fn everything_has_a_source() {
    assert!(Level::ALL.iter().all(|l| !l.definition().cites.is_empty()));
    assert!(Anomaly::ALL.iter().all(|a| !a.entry().cites.is_empty()));
    assert!(profile::all().all(|p| !p.cites.is_empty()));
}

#[test]
fn references_are_sorted_and_unique() {
    let keys: Vec<String> = cite::REFERENCES.iter().map(|r| r.key.to_lowercase()).collect();
    let mut sorted = keys.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(keys, sorted);
}

#[test]
fn filling_twice_changes_nothing_and_unknown_markers_stay() {
    let once =
        markdown::fill("a\n<!-- levels -->\nold\n<!-- end -->\nb\n<!-- nosuch -->\nkept\n<!-- end -->\n");
    assert!(once.contains("strict-serializable") && !once.contains("old"));
    assert!(once.contains("<!-- nosuch -->\nkept\n<!-- end -->\n"));
    assert_eq!(markdown::fill(&once), once);
}
