//! `margay run` when things go wrong: servers that die, connections that are cut, a recorder that is killed, an interrupt.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Run, finish, margay};
use margay_servers::{Server, started};
use serde_json::Value;
use tempfile::TempDir;

fn run(args: &str) -> Run {
    margay(["run", "--no-report"].into_iter().chain(args.split_whitespace()))
}

fn installed(server: Result<Server, String>) -> bool {
    started(server).is_some()
}

/// A temporary folder of its own, for servers that run as another user.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner");
    folder
}

fn start(args: &str, folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
    command.args(["run", "--no-report"]).args(args.split_whitespace()).env("TMPDIR", folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} does not happen");
        thread::sleep(Duration::from_millis(20));
    }
}

fn lines(path: &Path) -> usize {
    fs::File::open(path).map_or(0, |file| BufReader::new(file).lines().count())
}

#[test]
fn a_recording_that_was_killed_is_readable() {
    let folder = folder();
    let path = folder.path().join("killed.jsonl");
    let args = format!("--duration 60s --record {}", path.display());
    let mut child = start(&args, folder.path());
    wait_for("recording", || lines(&path) > 500);
    signal(&child, "KILL");
    child.wait().expect("it is dead");
    let recorded = lines(&path);
    let path = path.to_str().expect("text");
    let told = margay(["check", path, "--level", "strict-serializable", "--json"]).expect(0).json();
    let operations = told["stats"]["operations"].as_u64().unwrap_or(0) as usize;
    // The header, and perhaps half a line, are no operations. Transactions without an end get one.
    assert!(operations + 2 >= recorded && recorded > 500, "{operations} of {recorded}");
}

#[test]
fn half_a_line_at_the_end_is_left_out() {
    let folder = folder();
    let path = folder.path().join("cut.jsonl");
    let text = path.to_str().expect("text");
    run(&format!("--transactions 50 --record {text}")).expect(0);
    let whole = fs::read_to_string(&path).expect("the recording");
    let cut = &whole[..whole.trim_end().len() - 7];
    fs::write(&path, cut).expect("written");
    let checked = margay(["check", text, "--level", "strict-serializable"]).expect(0);
    assert!(checked.stderr.contains("cut off"), "{}", checked.stderr);
    fs::write(&path, whole.replacen("\"at\"", "\"at", 1)).expect("written");
    margay(["check", text, "--level", "strict-serializable"]).expect(2);
}

#[test]
fn an_interrupt_ends_the_run_and_its_server() {
    if !installed(Server::postgres()) {
        return;
    }
    let folder = folder();
    let record = folder.path().join("run.jsonl");
    let args = format!("--start postgres --duration 60s --record {}", record.display());
    let child = start(&args, folder.path());
    wait_for("recording", || lines(&record) > 200);
    signal(&child, "INT");
    let output = child.wait_with_output().expect("it ends");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("holds"), "{stdout}");
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("the folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["run.jsonl"], "the server is gone with its folder");
}

/// Harms a server while clients use it, longer and longer until what is waited for has happened: how long a server takes to come back is not in our hand. It must keep its promise all the
/// time, and every client must come back.
fn harmed(args: &str, happened: impl Fn(&Value, &[i64]) -> bool) {
    for seconds in [2, 4, 8, 16, 32] {
        let folder = folder();
        let record = folder.path().join("run.jsonl");
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        command.args(["run", "--no-report", "--json"]).args(args.split_whitespace());
        command.args(["--duration", &format!("{seconds}s"), "--record"]).arg(&record);
        command.env("TMPDIR", folder.path());
        let told = finish(command, b"").expect(0).json();
        let found = (told["verdict"].as_str(), told["run"]["live"]["violations"].as_u64());
        assert_eq!(found, (Some("holds"), Some(0)), "{args}: {told}");
        assert_eq!(
            told["run"]["dropped"].as_array().map(Vec::len),
            Some(0),
            "every client came back: {told}"
        );
        let faults = told["run"]["faults"].as_object().expect("faults");
        if faults.values().all(|times| times.as_u64() >= Some(1)) && happened(&told, &ends(&record)) {
            return;
        }
    }
    panic!("{args}: what the fault is to do does not happen");
}

/// How often clients made a new connection and used it: each is a session of its own.
fn reconnections(told: &Value) -> u64 {
    told["stats"]["sessions"].as_u64().expect("sessions").saturating_sub(6)
}

/// When operations ended, in nanoseconds, in order.
fn ends(record: &Path) -> Vec<i64> {
    let text = fs::read_to_string(record).expect("a recording");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ends: Vec<i64> = lines.filter_map(|line| line["at"][1].as_i64()).collect();
    ends.sort_unstable();
    ends
}

/// Again and again nobody got an answer for nearly as long as a pause takes: in a third of the pauses at least, because an answer that was given before may be read late. That one transaction takes
/// long would prove nothing on a busy machine.
fn stood_still(told: &Value, ends: &[i64]) -> bool {
    let pauses = told["run"]["faults"]["pause"].as_u64().expect("pauses") as usize;
    3 * ends.windows(2).filter(|two| two[1] - two[0] > 250_000_000).count() >= pauses
}

#[test]
fn servers_that_are_harmed_are_not_accused() {
    if installed(Server::postgres()) {
        let reconnected = |told: &Value, _: &[i64]| reconnections(told) > 0;
        harmed("--start postgres --workload increment --fault kill=700ms", reconnected);
        harmed("--start postgres --workload mixed --fault disconnect=60ms", reconnected);
        harmed("--start postgres --workload mixed --fault pause=400ms", |told, ends| {
            assert_eq!(reconnections(told), 0, "who waits loses nothing");
            stood_still(told, ends)
        });
    }
    let error = run("--fault kill").expect(2);
    assert!(error.stderr.contains("--start"), "{}", error.stderr);
}

#[test]
fn mariadb_that_is_harmed_is_not_accused() {
    if !installed(Server::mariadb()) {
        return;
    }
    let reconnected = |told: &Value, _: &[i64]| reconnections(told) > 0;
    harmed("--start mariadb --workload increment --fault kill=700ms", reconnected);
    harmed("--start mariadb --workload increment --fault disconnect=60ms", reconnected);
    harmed("--start mariadb --workload increment --fault pause=400ms", |told, ends| {
        assert_eq!(reconnections(told), 0, "who waits loses nothing");
        stood_still(told, ends)
    });
}

/// A pause is longer than the patience of clients: they leave, and nobody knows what became of their commits.
#[test]
fn who_does_not_wait_for_an_answer_connects_again() {
    for (server, name) in [(Server::postgres(), "postgres"), (Server::mariadb(), "mariadb")] {
        if !installed(server) {
            continue;
        }
        let impatient = "--workload increment --fault pause=300ms --statement-timeout 150ms";
        harmed(&format!("--start {name} {impatient}"), |told, _| reconnections(told) > 0);
    }
    let error = run("--statement-timeout 1s").expect(2);
    assert!(error.stderr.contains("only for servers"), "{}", error.stderr);
}
