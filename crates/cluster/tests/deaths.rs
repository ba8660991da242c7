//! Processes that die, stop and lose their parents: the answer is that of the quiet run, or
//! `unknown` with a reason. Never `clean` after a loss.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How many times a process is killed, unless the environment variable `MARGAY_KILLS` says
/// otherwise.
const KILLS: u64 = 20;

/// A history that takes a few tenths of a second.
const TRANSACTIONS: &str = "5000";

/// The program of this crate's examples, which cargo has built beside this test.
fn node() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let target = test.parent().and_then(|deps| deps.parent()).expect("the target's folder");
    target.join("examples/node")
}

fn hosts(count: usize) -> String {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
    listeners.iter().map(address).collect::<Vec<_>>().join(",")
}

/// Starts a process of a cluster: a parent, which starts a child.
fn start(hosts: &str, process: usize, seed: u64, patience: u64) -> Child {
    let (process, seed, patience) = (process.to_string(), seed.to_string(), patience.to_string());
    Command::new(node())
        .args([hosts, &process, "1", "ssi", &seed, TRANSACTIONS, &patience])
        .env("MARGAY_CLUSTER_TOKEN", "the token of these tests")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example `node`; cargo builds it with the tests")
}

/// The child that a parent has now.
fn child_of(parent: u32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}

fn signal(name: &str, process: &str) {
    let _ = Command::new("kill").args([name, process]).stderr(Stdio::null()).status();
}

fn end(all: Vec<Child>) -> Vec<Output> {
    all.into_iter().map(|one| one.wait_with_output().expect("its output")).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a quiet run says, and how long it takes.
fn quiet(seed: u64) -> (String, i32, Duration) {
    let (hosts, start_time) = (hosts(2), Instant::now());
    let all = end((0..2).map(|process| start(&hosts, process, seed, 30_000)).collect());
    let (one, other) = (said(&all[0]), said(&all[1]));
    assert_eq!(one, other);
    (one, all[0].status.code().expect("a status"), start_time.elapsed())
}

#[test]
fn whoever_is_killed_the_answer_is_that_of_the_quiet_run() {
    let kills = std::env::var("MARGAY_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let (clean, violated) = (quiet(0), quiet(1));
    assert_eq!((clean.0.as_str(), clean.1, violated.1), ("clean\n", 0, 1), "{violated:?}");
    assert!(violated.0.starts_with("violated: ["), "{violated:?}");
    let (mut random, mut again, mut late, mut lost) = (1_u64, 0, 0, 0);
    for number in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let expected = if number % 2 == 0 { &clean } else { &violated };
        let (hosts, victim) = (hosts(2), (random >> 40) as usize % 2);
        let all: Vec<Child> = (0..2).map(|process| start(&hosts, process, number % 2, 10_000)).collect();
        thread::sleep(expected.2.mul_f64((random >> 44) as f64 / f64::from(1 << 20)));
        if let Some(child) = child_of(all[victim].id()) {
            signal("-KILL", &child);
        }
        let mut right = 0;
        for output in end(all) {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let answer = (said(&output), output.status.code());
            let unknown = answer.0.starts_with("unknown: ") && answer.1 == Some(3);
            assert!(
                unknown || answer == (expected.0.clone(), Some(expected.1)),
                "{number}: {answer:?}: {errors}"
            );
            again += u64::from(errors.contains("the process died"));
            right += u64::from(!unknown);
        }
        // Whoever dies when the other one is done finds nobody to begin again with.
        late += u64::from(right == 1);
        lost += u64::from(right == 0);
    }
    println!(
        "{again} processes began again after {kills} kills; {late} died too late for that, {lost} answers were lost"
    );
    assert!(again > kills / 4, "{again} of {kills}: the kills came too late to matter");
    assert!(lost < kills / 4, "{lost} of {kills} were given up");
}

#[test]
fn who_is_stopped_is_noticed_and_nothing_is_called_clean() {
    let hosts = hosts(2);
    let all: Vec<Child> = (0..2).map(|process| start(&hosts, process, 0, 1_500)).collect();
    let deadline = Instant::now() + Duration::from_secs(10);
    let child = loop {
        match child_of(all[1].id()) {
            Some(child) => break child,
            None => assert!(Instant::now() < deadline, "no child"),
        }
    };
    thread::sleep(Duration::from_millis(5));
    signal("-STOP", &child);
    let mut all = all;
    let stopped = all.pop().expect("two");
    let first = end(all).remove(0);
    signal("-CONT", &child);
    let second = end(vec![stopped]).remove(0);
    for output in [first, second] {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        // On the first try, that somebody does not come is an error; later there is no verdict.
        assert!(matches!(output.status.code(), Some(2 | 3)), "{}: {errors}", said(&output));
        assert!(said(&output).is_empty() || said(&output).starts_with("unknown: "), "{}", said(&output));
    }
}

#[test]
fn a_child_ends_with_its_parent() {
    let hosts = hosts(2);
    let mut all: Vec<Child> = (0..2).map(|process| start(&hosts, process, 0, 1_500)).collect();
    thread::sleep(Duration::from_millis(30));
    let mut parent = all.pop().expect("two");
    let child = child_of(parent.id());
    parent.kill().expect("a parent to kill");
    let _ = parent.wait();
    let output = end(all).remove(0);
    assert!(matches!(output.status.code(), Some(2 | 3)), "{}", said(&output));
    assert!(!said(&output).contains("clean"), "{}", said(&output));
    if let Some(child) = child {
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::exists(format!("/proc/{child}/exe")).unwrap_or(false)
            && fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|exe| exe == node())
        {
            assert!(Instant::now() < deadline, "{child} is still there");
            thread::sleep(Duration::from_millis(20));
        }
    }
}
