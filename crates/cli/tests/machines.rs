//! `margay run --verify-at` on several machines, and `margay verify`: four recorders and a verifier
//! over loopback, on one real PostgreSQL.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use common::{Run, margay, root};
use margay_servers::{Server, started};
use tempfile::TempDir;

/// Where everything is.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().expect("a folder") };
        fs::write(place.path("token"), "not a secret, but long enough\n").expect("written");
        fs::write(place.path("wrong"), "another token, long enough too\n").expect("written");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn spawn(args: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
    command.args(args.split_whitespace()).current_dir(root());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

fn finish(child: Child) -> Run {
    let output = child.wait_with_output().expect("it ends");
    Run {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A verifier that has begun to listen, and its address.
struct Verifier {
    child: Child,
    errors: BufReader<ChildStderr>,
    address: String,
}

impl Verifier {
    fn start(place: &Place, recorders: usize, more: &str) -> Self {
        let token = place.text("token");
        let args =
            format!("verify --listen 127.0.0.1:0 --recorders {recorders} --token-file {token} --json {more}");
        let mut child = spawn(&args);
        let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a line");
        let address = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
        let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
        Self { child, errors, address }
    }

    fn finish(mut self) -> Run {
        let mut stderr = String::new();
        self.errors.read_to_string(&mut stderr).expect("text");
        Run { stderr, ..finish(self.child) }
    }
}

fn recorder(place: &Place, verifier: &str, machine: &str, url: &str, more: &str) -> Child {
    let (token, number) = (place.text("token"), machine.split('/').next().expect("a number"));
    let record = place.text(&format!("part-{number}.jsonl"));
    spawn(&format!(
        "run {url} --verify-at {verifier} --machine {machine} --record {record} --token-file {token} --clients 2 {more} \
         --json"
    ))
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).expect("a recording").lines().count() - 1
}

#[test]
fn four_machines_agree_with_a_database_that_is_right() {
    let Some(server) = started(Server::postgres()) else { return };
    let place = Place::new();
    let (all, proof) = (place.text("all.jsonl"), place.text("proof"));
    let more = format!("--level snapshot-isolation --record {all} --certificate {proof}");
    let verifier = Verifier::start(&place, 4, &more);
    let job = "--level repeatable-read --workload rw-register --transactions 1200";
    let recorders: Vec<Child> = (1..=4)
        .map(|number| recorder(&place, &verifier.address, &format!("{number}/4"), server.url(), job))
        .collect();
    let verified = verifier.finish().expect(0);
    let told = verified.json();
    assert_eq!(told["verdict"], "holds", "{told}");
    let mut committed = 0;
    for recorder in recorders {
        let told = finish(recorder).expect(0).json();
        assert_eq!(told["verdict"], "holds", "{told}");
        committed += told["committed"].as_u64().expect("a number");
    }
    assert!(committed > 600, "{committed} committed");
    // What the parts have is what the whole has; and the whole is proved again.
    let parts: usize = (1..=4).map(|number| lines(&place.path(&format!("part-{number}.jsonl")))).sum();
    assert_eq!(lines(Path::new(&all)), parts);
    margay(["audit", &all, &proof]).expect(0);
    margay(["check", &all, "--level", "snapshot-isolation", "--quiet"]).expect(0);
}

#[test]
fn four_machines_find_what_one_database_does_wrong() {
    let Some(server) = started(Server::postgres()) else { return };
    let place = Place::new();
    let verifier = Verifier::start(&place, 4, "--level strict-snapshot-isolation");
    // Updates get lost at this level, which is less than the verifier asks for.
    let job = "--level read-committed --workload increment --keys 2 --transactions 1200";
    let recorders: Vec<Child> = (1..=4)
        .map(|number| recorder(&place, &verifier.address, &format!("{number}/4"), server.url(), job))
        .collect();
    let told = verifier.finish().expect(1).json();
    assert_eq!(told["verdict"], "violated", "{told}");
    for recorder in recorders {
        assert_eq!(finish(recorder).expect(1).json()["verdict"], "violated");
    }
}

#[test]
fn a_machine_that_is_killed_is_named_and_nothing_holds() {
    let Some(server) = started(Server::postgres()) else { return };
    let place = Place::new();
    let all = place.text("all.jsonl");
    let more = format!("--level snapshot-isolation --patience 3s --record {all}");
    let verifier = Verifier::start(&place, 4, &more);
    let job = "--level repeatable-read --workload rw-register --duration 60s";
    let mut recorders: Vec<Child> = (1..=4)
        .map(|number| recorder(&place, &verifier.address, &format!("{number}/4"), server.url(), job))
        .collect();
    let part = place.path("part-3.jsonl");
    while fs::metadata(&part).map_or(0, |file| file.len()) < 50_000 {
        thread::sleep(Duration::from_millis(20));
    }
    let mut killed = recorders.remove(2);
    killed.kill().expect("it was there");
    killed.wait().expect("it is gone");
    let told = verifier.finish().expect(3).json();
    assert_eq!(told["verdict"], "unknown", "{told}");
    assert!(told.to_string().contains("machine 3 of 4"), "{told}");
    for recorder in recorders {
        let told = finish(recorder).expect(3).json();
        assert!(told["reason"].as_str().is_some_and(|why| why.contains("machine 3 of 4")), "{told}");
    }
    assert!(!Path::new(&all).exists(), "a history with a gap has no name");
}

#[test]
fn who_does_not_belong_there_and_who_does_not_come_are_named() {
    let Some(server) = started(Server::postgres()) else { return };
    let place = Place::new();
    let verifier = Verifier::start(&place, 2, "--level snapshot-isolation --patience 6s");
    let first = recorder(&place, &verifier.address, "2/2", server.url(), "");
    thread::sleep(Duration::from_millis(1500));
    let twice = finish(recorder(&place, &verifier.address, "2/2", server.url(), "")).expect(2);
    assert!(twice.stderr.contains("another recorder is machine 2"), "{}", twice.stderr);
    let token = place.text("wrong");
    let other = spawn(&format!(
        "run {} --verify-at {} --machine 1/2 --record {} --token-file {token}",
        server.url(),
        verifier.address,
        place.text("part-x.jsonl")
    ));
    let other = finish(other).expect(2);
    assert!(other.stderr.contains("it has another token"), "{}", other.stderr);
    let failed = verifier.finish().expect(2);
    assert!(failed.stderr.contains("has another token"), "{}", failed.stderr);
    assert!(failed.stderr.contains("machine 1 of 2 has not come within 6 s"), "{}", failed.stderr);
    let first = finish(first).expect(2);
    assert!(first.stderr.contains("machine 1 of 2 has not come"), "{}", first.stderr);
    let absent = finish(recorder(&place, "127.0.0.1:1", "1/1", server.url(), "--patience 1s")).expect(2);
    assert!(absent.stderr.contains("127.0.0.1:1: the verifier does not answer"), "{}", absent.stderr);
}

#[test]
fn what_cannot_be_streamed_says_so() {
    let place = Place::new();
    let (token, record) = (place.text("token"), place.text("part.jsonl"));
    let run = |machine: &str, more: &str| {
        let args = format!(
            "run sim:si --verify-at 127.0.0.1:1 --machine {machine} --record {record} --token-file {token} {more}"
        );
        margay(args.split_whitespace()).expect(2).stderr
    };
    assert!(run("1/2", "").contains("needs a server that all machines can reach"));
    assert!(run("1/2", "--workload smallbank").contains("SQL programs"));
    assert!(run("3/2", "").contains("is not I/N"));
    // They were ignored without a word.
    for more in ["--engine follow", "--timeout 5s", "--stats", "--strict"] {
        assert!(run("1/2", more).contains("cannot be used with"), "{more}");
    }
}
