//! Every dependency has its reason in docs/DEPENDENCIES.md, and none wants a newer Rust than we
//! promise.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use common::root;
use serde_json::Value;

/// The names in the manifest's table of dependencies that are not ours.
fn direct(manifest: &str) -> BTreeSet<String> {
    let table = manifest.split("[workspace.dependencies]\n").nth(1).expect("the table");
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned());
    names.filter(|name| !name.starts_with("margay") && !name.starts_with('#')).collect()
}

/// The names in the first column of the document's tables.
fn documented(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`')).map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_dependency_has_a_reason() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("a file");
    let (direct, documented) = (direct(&read("Cargo.toml")), documented(&read("docs/DEPENDENCIES.md")));
    assert!(direct.len() > 20, "{direct:?}");
    assert_eq!(direct, documented);
}

/// A version as numbers: 1.90 and 1.90.0 are the same.
fn version(text: &str) -> [u32; 3] {
    let mut parts = text.split('.').map(|part| part.parse().expect("a number"));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// The toolchain of our `rust-version` may not be there to build with; what packages say of
/// themselves is.
#[test]
fn no_dependency_wants_a_newer_rust() {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version=1", "--locked", "--offline", "--features=stores"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    command.current_dir(root().join("crates/cli"));
    let told = command.output().expect("cargo runs");
    if !told.status.success() {
        return println!("SKIPPED: packages are missing: {}", String::from_utf8_lossy(&told.stderr).trim());
    }
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let packages = told["packages"].as_array().expect("packages");
    let ours = version(env!("CARGO_PKG_RUST_VERSION"));
    let newer = packages
        .iter()
        .filter(|package| package["rust_version"].as_str().is_some_and(|theirs| version(theirs) > ours));
    let newer: Vec<_> = newer.map(|package| &package["name"]).collect();
    assert!(newer.is_empty(), "{newer:?}");
}
