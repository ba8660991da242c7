//! The recorders of `examples/recorders`: what their examples record is read, and says what
//! happened.

mod common;

use std::path::Path;
use std::process::Command;

use common::margay;
use tempfile::TempDir;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/recorders");

/// Runs a program in the folder of the examples. False, and said to be skipped, where there is
/// none.
fn ran(program: &str, args: &[&str]) -> bool {
    match Command::new(program).args(args).current_dir(EXAMPLES).output() {
        Err(error) => {
            println!("SKIPPED: {program}: {error}");
            false
        }
        Ok(output) => {
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
    }
}

fn says(path: &Path, level: &str, status: i32) {
    let path = path.display().to_string();
    let told = margay(["check", &path, "--level", level]).expect(status);
    assert!(told.stdout.contains(if status == 0 { "holds" } else { "lost-update" }), "{}", told.stdout);
}

#[test]
fn a_shop_in_python_sells_an_item_twice_unless_it_is_careful() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("shop.jsonl");
    let name = path.display().to_string();
    if ran("python3", &["shop.py", &name]) {
        says(&path, "snapshot-isolation", 1);
        says(&path, "read-committed", 0);
        ran("python3", &["shop.py", &name, "careful"]);
        says(&path, "strict-serializable", 0);
    }
}

#[test]
fn counters_in_javascript_lose_updates() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("counter.jsonl");
    if ran("node", &["counter.js", &path.display().to_string()]) {
        says(&path, "snapshot-isolation", 1);
    }
}

#[test]
fn so_they_do_in_java() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("counter.jsonl");
    let classes = folder.path().display().to_string();
    if ran("javac", &["-d", &classes, "Recorder.java"])
        && ran("java", &["-cp", &classes, "Recorder", &path.display().to_string()])
    {
        says(&path, "snapshot-isolation", 1);
    }
}

#[test]
fn and_in_go() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("counter.jsonl");
    if ran("go", &["run", "recorder.go", "counter.go", &path.display().to_string()]) {
        says(&path, "snapshot-isolation", 1);
    }
}
