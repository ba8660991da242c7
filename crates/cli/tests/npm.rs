//! The npm package: packed, installed into an empty project, and run from there.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Run, finish, root};

fn run(program: impl AsRef<Path>, args: &[&str], folder: &Path) -> Run {
    let mut command = Command::new(program.as_ref());
    command.args(args).current_dir(folder);
    finish(command, b"")
}

#[test]
fn an_empty_project_runs_margay_from_the_package() {
    if Command::new("npm").arg("--version").output().is_err() {
        return println!("SKIPPED: npm is not installed");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    run(root().join("scripts/npm"), &[env!("CARGO_BIN_EXE_margay"), "."], here).expect(0);
    let package = concat!("./margay-", env!("CARGO_PKG_VERSION"), ".tgz");
    run("npm", &["install", "--offline", "--silent", "--no-audit", "--no-fund", package], here).expect(0);

    let margay = here.join("node_modules/.bin/margay");
    let version = run(&margay, &["--version"], here).expect(0).stdout;
    assert_eq!(version.trim(), concat!("margay ", env!("CARGO_PKG_VERSION")));
    let history = root().join("examples/write-skew.jsonl");
    let history = history.to_str().expect("a path");
    let told = run(&margay, &["check", history, "--level", "serializable"], here).expect(1).stdout;
    assert!(told.starts_with("violated: "), "{told}");
}
