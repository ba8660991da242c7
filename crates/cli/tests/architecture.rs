//! `docs/ARCHITECTURE.md` is true to the manifests, and its invariants about who may use whom hold.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Which crates of ours each crate names in one section of its manifest.
fn manifests(section: &str) -> Arrows {
    let crates = fs::read_dir(common::root().join("crates")).expect("the crates");
    crates
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| {
            let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("a manifest");
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            (name, dependencies(&manifest, section))
        })
        .collect()
}

fn dependencies(manifest: &str, section: &str) -> BTreeSet<String> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != section)
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter_map(|name| if name == "margay" { Some(name) } else { name.strip_prefix("margay-") })
        .map(str::to_owned)
        .collect()
}

/// The arrows of the document: lines `crate -> crate crate` in the block marked `arrows`.
fn documented() -> Arrows {
    let text = fs::read_to_string(common::root().join("docs/ARCHITECTURE.md")).expect("the document");
    let block = text
        .split("```arrows\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a block of arrows");
    block
        .lines()
        .map(|line| {
            let (from, to) = line.split_once("->").unwrap_or_else(|| panic!("no arrow: {line}"));
            (from.trim().to_owned(), to.split_whitespace().map(str::to_owned).collect())
        })
        .collect()
}

/// The engines: those whose names are pinned, as far as they exist.
fn engines(arrows: &Arrows) -> Vec<&str> {
    arrows.keys().map(String::as_str).filter(|name| margay::NAMES.contains(name)).collect()
}

#[test]
fn the_document_shows_the_arrows_of_the_manifests() {
    let (documented, real) = (documented(), manifests("[dependencies]"));
    for (name, uses) in &real {
        assert_eq!(documented.get(name), Some(uses), "docs/ARCHITECTURE.md does not show what {name} uses");
    }
    assert_eq!(documented.len(), real.len(), "the document names a crate that does not exist");
}

#[test]
fn the_history_stands_on_nothing() {
    assert!(manifests("[dependencies]")["history"].is_empty());
}

#[test]
fn engines_see_neither_each_other_nor_files_nor_the_command_line() {
    let arrows = manifests("[dependencies]");
    let engines = engines(&arrows);
    assert!(!engines.is_empty());
    for engine in &engines {
        for forbidden in engines.iter().copied().chain(["engines", "formats", "cli", "testkit"]) {
            assert!(!arrows[*engine].contains(forbidden), "{engine} uses {forbidden}");
        }
    }
}

#[test]
fn only_the_registry_knows_the_engines() {
    let arrows = manifests("[dependencies]");
    let engines = engines(&arrows);
    for (name, uses) in &arrows {
        // The testkit compares every engine with the definitions; the runner verifies with the
        // mirror while clients run; streams are followed part by part, and replayed where
        // timestamps order them.
        let known = [("testkit", "naive"), ("runner", "mirror"), ("stream", "follow"), ("stream", "certify")];
        let exempt = |engine: &str| name == "engines" || known.contains(&(name, engine));
        for engine in &engines {
            assert!(!uses.contains(*engine) || exempt(engine), "{name} uses {engine}");
        }
    }
}

/// One place decides: nobody else has the registry to ask an engine from.
#[test]
fn only_the_library_asks_engines() {
    for (name, uses) in manifests("[dependencies]") {
        assert!(!uses.contains("engines") || name == "margay", "{name} uses the registry of engines");
    }
}

#[test]
fn the_audit_depends_on_no_engine_and_no_file() {
    let arrows = manifests("[dependencies]");
    let below = ["history", "levels", "order", "sql"];
    let layers: [(&str, &[&str]); 4] = [
        ("verdict", &[]),
        ("executions", &["verdict"]),
        ("mechanisms", &["verdict"]),
        ("audit", &["verdict", "executions", "mechanisms"]),
    ];
    for (name, allowed) in layers {
        let stray = arrows[name].iter().find(|used| !below.iter().chain(allowed).any(|ok| ok == used));
        assert_eq!(stray, None, "{name} uses a crate that it must not use");
    }
}

/// Whoever drives a database of their own builds no other database, and no simulator.
#[test]
fn driving_needs_no_driver() {
    let arrows = manifests("[dependencies]");
    let mut needed = BTreeSet::from(["runner"]);
    while let Some(more) =
        needed.iter().flat_map(|name| &arrows[*name]).find(|name| !needed.contains(name.as_str()))
    {
        needed.insert(more);
    }
    for forbidden in ["drivers", "servers", "simdb", "recover", "cli"] {
        assert!(!needed.contains(forbidden), "the runner needs {forbidden}: {needed:?}");
    }
}

#[test]
fn the_simulator_is_a_leaf() {
    for (name, uses) in manifests("[dependencies]") {
        assert!(!uses.contains("simdb") || ["drivers", "cli"].contains(&name.as_str()), "{name} uses simdb");
    }
}

#[test]
fn tests_help_tests_only() {
    for (name, uses) in manifests("[dependencies]") {
        assert!(!uses.contains("testkit") && !uses.contains("cli"), "{name}");
    }
}

#[test]
fn there_is_no_circle() {
    let arrows = manifests("[dependencies]");
    let mut done: BTreeSet<&str> = BTreeSet::new();
    while done.len() < arrows.len() {
        let ready = arrows.iter().find(|(name, uses)| {
            !done.contains(name.as_str()) && uses.iter().all(|used| done.contains(used.as_str()))
        });
        done.insert(ready.expect("a crate that uses only finished ones").0);
    }
}
