//! The library in somebody else's project: a crate in a temporary folder that depends on it by
//! path.
//!
//! The goal is a build from nothing within 60 CPU seconds, without drivers, SQL and C code. The
//! time is printed, not asserted; the absence of these is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn cargo(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.args(args).arg("--offline").current_dir(folder);
    command.env("CARGO_TARGET_DIR", folder.join("target")).env("CARGO_INCREMENTAL", "0");
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// CPU seconds of all processes that this one has waited for.
fn children_cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / 100.0)
}

#[test]
fn an_outside_crate_tests_its_own_store() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let here = folder.path();
    let library = root().join("crates/margay");
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dev-dependencies]\nmargay = {{ path = {:?}, default-features = false }}\n\n[workspace]\n",
        library.display().to_string()
    );
    fs::write(here.join("Cargo.toml"), manifest).expect("written");
    // The same versions as here, so that nothing has to be looked up.
    fs::copy(root().join("Cargo.lock"), here.join("Cargo.lock")).expect("copied");
    fs::create_dir(here.join("src")).expect("made");
    fs::write(here.join("src/lib.rs"), include_str!("outside/lib.rs")).expect("written");

    let tree = cargo(here, &["tree", "--edges", "normal,build,dev", "--prefix", "none"]);
    let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
    for forbidden in
        ["cc ", "cmake ", "bindgen ", "rusqlite ", "ring ", "margay-drivers ", "sqlparser ", "toml "]
    {
        assert!(!tree.lines().any(|line| line.starts_with(forbidden)), "{forbidden} in\n{tree}");
    }
    let before = children_cpu_seconds();
    let tested = cargo(here, &["test"]);
    let tested = String::from_utf8_lossy(&tested.stdout).into_owned();
    assert!(tested.contains("4 passed; 0 failed"), "{tested}");
    if let (Some(before), Some(after)) = (before, children_cpu_seconds()) {
        println!("built and tested from nothing in {:.0} CPU s; the goal is 60", after - before);
    }
}

/// What is needed to publish the library: it and every crate that it needs can be packaged.
#[test]
fn the_library_can_be_packaged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cargo = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(args).arg("--offline").current_dir(root());
        command.env("CARGO_TARGET_DIR", folder.path());
        let output = command.output().expect("cargo starts");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let tree = cargo(&["tree", "-p", "margay", "--edges", "normal", "--prefix", "none"]);
    let names: std::collections::BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| name.starts_with("margay"))
        .collect();
    assert!(names.len() > 10, "{names:?}");
    let mut args = vec!["package", "--no-verify", "--allow-dirty", "--quiet"];
    names.iter().for_each(|name| args.extend(["-p", name]));
    cargo(&args);
    for name in names {
        let file = format!("package/{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        assert!(folder.path().join(&file).exists(), "{file}");
    }
}
