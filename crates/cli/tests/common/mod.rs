//! What the tests of the binary share.
#![allow(dead_code, reason = "every test file uses some of it")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

/// What a run of the binary gave.
pub struct Run {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Fails the test, with everything that was printed, unless the exit status is this one.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Standard output as the one JSON object that it must be.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// Runs `margay` at the root of the workspace.
pub fn margay<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    margay_with(args, b"")
}

/// Runs `margay` with something on its standard input.
pub fn margay_with<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>, input: &[u8]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
    command.args(args).current_dir(root());
    finish(command, input)
}

/// Runs until a violation is found that is wanted, with more and more transactions: how clients
/// meet is not in our hand.
#[track_caller]
pub fn found(
    run: impl Fn(&str) -> Run,
    args: &str,
    transactions: u64,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    for seed in 0..12 {
        let transactions = transactions << (seed / 2);
        let run = run(&format!("{args} --transactions {transactions} --seed {seed} --json"));
        assert_ne!(run.status, 2, "{args}: {}", run.stderr);
        if run.status == 1 && wanted(&run.json()) {
            return run.json();
        }
    }
    panic!("{args}: twelve runs without what is wanted");
}

/// Runs a command to its end.
pub fn finish(mut command: Command, input: &[u8]) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_owned();
    // The program may end without reading everything: then writing fails, which is its right.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let Output { status, stdout, stderr } = child.wait_with_output().expect("the command ends");
    feeder.join().expect("the feeder does not panic");
    Run {
        status: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

/// The files of the project below `folder`, without what is built or generated.
pub fn project_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.is_dir() {
            true if matches!(name, "target" | ".git" | "artifacts") => {}
            true => found.extend(project_files(&path)),
            false => found.push(path),
        }
    }
    found
}
