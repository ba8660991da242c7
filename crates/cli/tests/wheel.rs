//! The Python wheel: built, installed into a fresh environment, and run from there.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Run, finish, root};

fn run<S: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = S>, folder: &Path) -> Run {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder);
    finish(command, b"")
}

/// A fresh environment of Python. Says why there is none.
fn environment(folder: &Path) -> Result<PathBuf, String> {
    let made = Command::new("python3").args(["-m", "venv"]).arg(folder).output();
    match made {
        Ok(made) if made.status.success() => Ok(folder.join("bin")),
        Ok(made) => Err(String::from_utf8_lossy(&made.stdout).into_owned()),
        Err(error) => Err(format!("python3: {error}")),
    }
}

/// Maturin in an environment of its own. Says why it cannot be had.
fn maturin(folder: &Path) -> Result<PathBuf, String> {
    let programs = environment(folder)?;
    let arguments = ["install", "--quiet", "--retries", "1", "--timeout", "20", "maturin>=1.9,<2"];
    let installed = run(&programs.join("pip"), arguments, folder);
    match installed.status {
        0 => Ok(programs.join("maturin")),
        _ => Err(format!("maturin cannot be installed: {}", installed.stderr.trim())),
    }
}

/// Builds the wheel into the folder, in the development profile and where cargo built this test, so
/// that hardly anything is compiled again: the workspace's tests ask for the feature `tokio`, too.
fn wheel(maturin: &Path, folder: &Path) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    let mut command = Command::new(maturin);
    command.args(["build", "--profile", "dev", "--compression-method", "stored"]);
    command.args(["--features", "stores,margay/tokio", "--out"]).arg(folder);
    command.current_dir(root()).env("CARGO_TARGET_DIR", target);
    finish(command, b"").expect(0);
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut wheels = files.filter(|path| path.extension() == Some(OsStr::new("whl")));
    wheels.next().expect("a wheel")
}

#[test]
fn a_fresh_environment_runs_margay_from_the_wheel() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let maturin = match maturin(&at("tools")) {
        Ok(maturin) => maturin,
        Err(why) => return println!("SKIPPED: {}", why.lines().next().unwrap_or_default()),
    };
    fs::create_dir(at("wheels")).expect("a folder");
    let wheel = wheel(&maturin, &at("wheels"));
    let programs = environment(&at("fresh")).expect("an environment");
    let install = [OsStr::new("install"), "--quiet".as_ref(), "--no-index".as_ref(), wheel.as_os_str()];
    run(&programs.join("pip"), install, folder.path()).expect(0);

    let margay = programs.join("margay");
    let version = run(&margay, ["--version"], folder.path()).expect(0).stdout;
    assert_eq!(version.trim(), concat!("margay ", env!("CARGO_PKG_VERSION")));
    let told = run(&margay, ["run", "--transactions", "60"], folder.path()).expect(0).stdout;
    assert!(told.contains("\nholds: "), "{told}");
    assert!(at("margay-report.html").exists());
    let history = root().join("examples/write-skew.jsonl");
    let history = history.to_str().expect("a path");
    let told = run(&margay, ["check", history, "--level", "serializable"], folder.path()).expect(1).stdout;
    assert!(told.starts_with("violated: "), "{told}");
    run(&margay, ["run", "redb", "--no-report", "--transactions", "60"], folder.path()).expect(0);
}
