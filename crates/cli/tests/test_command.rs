//! The script `./test`: its closing line.

mod common;

use std::process::Command;

use common::{finish, project_files, root};

/// The output of `cargo test -- --show-output` with three tests that pass, one of which found no
/// server, one that fails after it said so, and one that is ignored.
const LOG: &str = "\
running 5 tests
test a ... ok
test b ... ok
test c ... ok
test d ... FAILED
test e ... ignored

successes:

---- a stdout ----
SKIPPED: postgres is not installed
SKIPPED: mariadbd is not installed

---- b stdout ----
measured: 7 ms

successes:
    a
    b
    c

failures:

---- d stdout ----
SKIPPED: postgres is not installed
thread 'd' panicked

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

/// A regression: cargo counts a test that returns early as passed, so a machine without any server
/// passed all tests of servers.
#[test]
fn a_test_that_found_no_server_counts_as_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    std::fs::write(&log, LOG).expect("written");
    let mut command = Command::new(root().join("test"));
    command.arg("summary").arg(&log);
    let told = finish(command, b"").expect(0).stdout;
    assert_eq!(told.trim(), "2 passed, 1 failed, 2 skipped");
}

/// The closing line counts the word that every test prints alike.
#[test]
fn every_test_says_alike_that_it_was_skipped() {
    // Taken apart, so that this file does not find itself.
    let others = [concat!("\"ski", "pped: "), concat!("\"Ski", "pped: "), concat!("\"ski", "pping ")];
    let sources =
        project_files(&root()).into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    for path in sources {
        let text = std::fs::read_to_string(&path).expect("a source");
        let found = others.iter().find(|other| text.contains(**other));
        assert_eq!(found, None, "{}", path.display());
    }
}
