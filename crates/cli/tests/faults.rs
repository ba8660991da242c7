//! `margay run` when things go wrong: servers that die, connections that are cut, a recorder that
//! is killed, an interrupt.

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

/// A regression: a compressed recording was one frame, which was complete only in the end; what was
/// left of it after a kill could not be read.
#[test]
fn a_compressed_recording_that_was_killed_is_readable() {
    for extension in ["gz", "zst"] {
        let folder = folder();
        let path = folder.path().join(format!("killed.jsonl.{extension}"));
        // Clients wait for the collector, so that what they did a while ago has been written.
        let args = format!("--duration 60s --max-lag 100ms --record {}", path.display());
        let mut child = start(&args, folder.path());
        wait_for("recording", || fs::metadata(&path).is_ok_and(|told| told.len() > 1000));
        thread::sleep(Duration::from_millis(2500));
        signal(&child, "KILL");
        child.wait().expect("it is dead");
        let path = path.to_str().expect("text");
        let converted = folder.path().join("whole.jsonl");
        margay(["convert", path, converted.to_str().expect("text")]).expect(0);
        let last = ends(&converted).last().copied().unwrap_or(0);
        assert!(last > 1_000_000_000, "{extension}: only the first {last} ns");
        margay(["check", path, "--level", "strict-serializable"]).expect(0);
    }
}

/// A regression: the server was dead for good after 4 of 15 seconds, and the verdict was `holds`,
/// with exit status 0 and not a word.
#[test]
fn a_dead_server_does_not_pass() {
    for server in [Server::postgres(), Server::mariadb()] {
        let Some(mut server) = started(server) else { continue };
        let folder = folder();
        let record = folder.path().join("run.jsonl");
        let args = format!("{} --workload increment --duration 120s --give-up-after 3s --json", server.url());
        let child = start(&format!("{args} --record {}", record.display()), folder.path());
        wait_for("recording", || lines(&record) > 500);
        server.kill();
        let killed = Instant::now();
        let output = child.wait_with_output().expect("it ends");
        assert!(killed.elapsed() < Duration::from_secs(60), "{:?}", killed.elapsed());
        let told: Value = serde_json::from_slice(&output.stdout).expect("an account");
        assert_eq!((output.status.code(), told["verdict"].as_str()), (Some(3), Some("unknown")), "{told}");
        let reason = told["reason"].as_str().unwrap_or_default();
        for part in ["clients got answers for", "no client got an answer for 3 s", "what was recorded holds"]
        {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        assert!(told["run"]["lost_connections"].as_u64() >= Some(1), "{told}");
        assert!(told["run"]["first_loss"].is_string(), "{told}");
    }
}

#[test]
fn a_run_that_did_too_little_is_no_proof() {
    let told = run("--transactions 100 --require-transactions 1000 --json").expect(3).json();
    let reason = told["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("--require-transactions asks for 1000"), "{told}");
    run("--transactions 100 --require-transactions 50").expect(0);
    let told = run("--transactions 0 --json").expect(3).json();
    assert!(
        told["reason"].as_str().is_some_and(|why| why.contains("no transaction was committed")),
        "{told}"
    );
}

/// Runs on SQLite until a signal comes; answers the exit status and what was printed.
fn signalled(name: &str, args: &str) -> (Option<i32>, String) {
    let folder = folder();
    let record = folder.path().join("run.jsonl");
    let child = start(&format!("--duration 60s {args} --record {}", record.display()), folder.path());
    wait_for("recording", || lines(&record) > 200);
    signal(&child, name);
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A regression: nothing said that a run had been interrupted, and one that a CI server terminated
/// passed.
#[test]
fn who_ends_a_run_is_told_what_the_verdict_is_about() {
    let (status, told) = signalled("INT", "");
    assert_eq!(status, Some(0), "{told}");
    assert!(
        told.contains("interrupted after ") && told.contains(" of 60.0 s: the verdict is about the"),
        "{told}"
    );
    for (name, status, verdict, word) in
        [("INT", 0, "holds", "interrupted"), ("TERM", 3, "unknown", "terminated")]
    {
        let (ended, told) = signalled(name, "--json");
        let told: Value = serde_json::from_str(&told).expect("an account");
        assert_eq!((ended, told["verdict"].as_str()), (Some(status), Some(verdict)), "{told}");
        assert_eq!((&told["run"]["ended"], &told["run"]["asked"]["seconds"]), (&word.into(), &60.0.into()));
    }
    assert_eq!(run("--transactions 50 --json").expect(0).json()["run"]["ended"], "complete");
}

/// Clients wait for a server that does not answer; who has had enough of that does not have to.
#[test]
fn a_second_interrupt_ends_at_once() {
    let Some(mut server) = started(Server::postgres()) else { return };
    let folder = folder();
    let record = folder.path().join("run.jsonl");
    let args = format!("{} --duration 60s --record {}", server.url(), record.display());
    let mut child = start(&args, folder.path());
    wait_for("recording", || lines(&record) > 200);
    server.pause();
    signal(&child, "INT");
    thread::sleep(Duration::from_millis(500));
    assert!(matches!(child.try_wait(), Ok(None)), "clients wait for answers");
    signal(&child, "INT");
    wait_for("its end", || matches!(child.try_wait(), Ok(Some(_))));
    assert_eq!(child.wait().expect("its end").code(), Some(130));
    server.resume();
}

/// A small disk, for as long as it is kept.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = folder();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder.path()).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        println!("SKIPPED: a small disk cannot be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// A regression: the disk under SQLite was full, and the account had 2,717 transactions of unknown
/// outcome and no reason.
#[test]
fn a_full_disk_is_named() {
    let Some(disk) = SmallDisk::mount() else { return };
    let database = disk.0.path().join("file.db");
    let told = run(&format!("sqlite:{} --duration 60s --json", database.display())).expect(3).json();
    let reason = told["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("the disk of the database is full"), "{told}");
    assert!(told["run"]["unknown"].as_u64() < Some(10), "{told}");
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

/// Harms a server while clients use it, longer and longer until what is waited for has happened:
/// how long a server takes to come back is not in our hand. It must keep its promise all the time,
/// and every client must come back.
fn harmed(args: &str, happened: impl Fn(&Value, &[i64]) -> bool) {
    for seconds in [2, 4, 8, 16, 32] {
        let folder = folder();
        let record = folder.path().join("run.jsonl");
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        command.args(["run", "--no-report", "--json"]).args(args.split_whitespace());
        command.args(["--duration", &format!("{seconds}s"), "--record"]).arg(&record);
        command.env("TMPDIR", folder.path());
        let run = finish(command, b"");
        if run.json()["reason"].as_str().is_some_and(|why| why.starts_with("clients got answers for")) {
            continue; // On a busy machine a short time is spent on waiting for the server.
        }
        let told = run.expect(0).json();
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

/// Again and again nobody got an answer for nearly as long as a pause takes: in a third of the
/// pauses at least, because an answer that was given before may be read late. That one transaction
/// takes long would prove nothing on a busy machine.
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

/// A pause is longer than the patience of clients: they leave, and nobody knows what became of
/// their commits.
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

/// A run that asked for faults and was over before the first passed without a word.
#[test]
fn a_fault_that_never_came_is_named() {
    if !installed(Server::postgres()) {
        return;
    }
    let told = run("--start postgres --fault kill=600s --transactions 20").expect(0).stdout;
    assert!(told.contains("fault kill: never, the run was over before"), "{told}");
}
