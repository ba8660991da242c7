//! `margay run`, end to end: real clients on real databases, through the real binary.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{Run, finish, found, margay};
use margay_servers::{Server, started};
use serde_json::Value;
use tempfile::TempDir;

fn run(args: &str) -> Run {
    margay(["run", "--no-report"].into_iter().chain(args.split_whitespace()))
}

#[test]
fn alone_it_drives_sqlite_and_proves_that_it_holds() {
    let run = run("--transactions 400").expect(0);
    for part in [
        "sqlite 3.",
        "at wal",
        "400 transactions",
        "holds: what the clients saw is possible under strict-serializable",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    assert!(
        run.stdout.contains("audited: accepted") && run.stdout.contains("again: margay run sqlite"),
        "{}",
        run.stdout
    );
    assert_eq!(run.stderr, "");
}

/// The first command of a newcomer, as it is.
#[test]
fn a_person_gets_a_report_without_asking() {
    let folder = TempDir::new().expect("a folder");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        command.arg("run").args(args).current_dir(folder.path());
        finish(command, b"").expect(0)
    };
    let seconds = run(&["--json"]).json()["run"]["seconds"].as_f64().expect("seconds");
    assert!(seconds < 10.0, "clients ran for {seconds} seconds");
    for args in [&["--no-report"][..], &["--quiet"]] {
        run(args);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0, "{args:?}");
    }
    let told = run(&[]).stdout;
    assert!(told.contains("\n  report: margay-report.html\n"), "{told}");
    let page = fs::read_to_string(folder.path().join("margay-report.html")).expect("a report");
    assert!(page.to_ascii_lowercase().starts_with("<!doctype html>") && page.contains("strict-serializable"));
    let told = run(&["--transactions", "50", "--report", "mine.html"]).stdout;
    assert!(told.contains("report: mine.html") && folder.path().join("mine.html").exists(), "{told}");
}

/// The collector looks every ten milliseconds: who may be one millisecond ahead of it has to wait.
#[test]
fn clients_wait_for_the_verification_if_they_are_told_to() {
    let told = |args: &str| run(&format!("--transactions 1500 {args} --json")).expect(0).json();
    let waited = |told: &Value| told["run"]["live"]["waited_seconds"].as_f64().expect("seconds");
    let patient = told("--max-lag 1ms");
    assert!(waited(&patient) > 0.0 && patient["run"]["live"]["ended"].is_null(), "{patient}");
    assert_eq!(patient["run"]["live"]["verified"], patient["run"]["committed"], "{patient}");
    assert!(patient["run"]["again"].as_str().is_some_and(|again| again.contains("--max-lag 1ms")));
    assert_eq!(waited(&told("")), 0.0);
    let spoken = run("--transactions 1500 --max-lag 1ms").expect(0).stdout;
    assert!(spoken.contains("clients waited for the live verification"), "{spoken}");
}

/// The last commit can be judged only when all clients have gone, and then there is no time left;
/// unless the last that clients do is an abort, so that nothing is left to judge either.
#[test]
fn what_is_left_of_the_verification_is_under_the_timeout() {
    let is_cut = |seed: u32| {
        let told = run(&format!("--transactions 200 --timeout 0s --seed {seed} --json")).expect(3).json();
        assert_eq!(told["verdict"], "unknown", "{told}");
        let (live, committed) = (&told["run"]["live"], told["run"]["committed"].as_u64());
        let Some(ended) = live["ended"].as_str() else {
            assert_eq!(live["verified"].as_u64(), committed, "{told}");
            return false;
        };
        assert!(ended.starts_with("the time was over when "), "{ended}");
        assert!(live["verified"].as_u64() < committed, "{told}");
        true
    };
    assert!((0..20).any(is_cut), "twenty runs that ended with an abort");
    let is_told = |_| {
        let spoken = run("--transactions 200 --timeout 0s").expect(3).stdout;
        spoken.contains("the time was over when ")
    };
    assert!((0..20).any(is_told), "twenty runs that ended with an abort");
}

#[test]
fn every_workload_holds_on_both_journals() {
    for workload in ["rw-register", "increment", "list-append", "write-skew", "predicate"] {
        for level in ["wal", "serializable"] {
            let run =
                run(&format!("--workload {workload} --level {level} --transactions 60 --json")).expect(0);
            assert_eq!(run.json()["verdict"], "holds", "{workload} {level}");
        }
    }
}

#[test]
fn what_was_recorded_is_a_history_and_its_certificate_is_audited() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, proof, database) = (path("run.jsonl.gz"), path("proof.json"), path("file.db"));
    let args = format!(
        "sqlite:{database} --transactions 200 --clients 3 --record {record} --certificate {proof} --json"
    );
    let told = run(&args).expect(0).json();
    let ended: u64 =
        ["committed", "aborted", "unknown"].iter().filter_map(|key| told["run"][key].as_u64()).sum();
    assert_eq!((ended, told["stats"]["transactions"].as_u64()), (200, Some(200)), "{told}");
    assert_eq!(told["stats"]["sessions"], 3);
    margay(["audit", &record, &proof]).expect(0);
    margay(["check", &record, "--level", "strict-serializable"]).expect(0);
}

/// Runs until the verdict is `violated`.
fn violated(args: &str) -> Value {
    found(run, args, 300, |_| true)
}

#[test]
fn snapshot_isolation_is_caught_claiming_serializability() {
    let told = violated("sim:si --claim serializable --workload write-skew");
    let anomaly = &told["anomalies"][0];
    assert!(anomaly["name"].as_str().is_some_and(|name| name.starts_with("G2")), "{told}");
    assert!(anomaly["explanation"].as_str().is_some_and(|text| text.contains("write skew")), "{told}");
    run("sim:si --workload write-skew --transactions 300").expect(0);
}

/// A claim that the database does not make is the user's: whoever reads the verdict shall not hold
/// it against the database.
#[test]
fn a_claim_beyond_the_promise_is_said_to_be_one() {
    let told =
        |args: &str| run(&format!("{args} --workload rw-register --transactions 40 --clients 1")).stdout;
    let warned = told("sim:si --claim serializable");
    let line =
        warned.lines().find(|line| line.contains("does not promise")).unwrap_or_else(|| panic!("{warned}"));
    assert!(
        line.contains("does not promise serializable at strict-snapshot-isolation; it promises strict-snap"),
        "{line}"
    );
    for args in ["sim:si", "sim:si --claim read-committed", "sqlite --claim serializable"] {
        let told = told(args);
        assert!(told.contains("holds") && !told.contains("does not promise"), "{args}: {told}");
    }
}

#[test]
fn a_fault_is_caught_and_a_sound_protocol_is_not() {
    violated("sim:si+lost-update=0.5 --workload increment");
    for protocol in ["ss2pl", "ssi", "occ"] {
        run(&format!("sim:{protocol} --workload rw-register --transactions 200")).expect(0);
    }
}

#[test]
fn what_cannot_be_run_says_why() {
    for (args, part) in [
        ("oracle://x", "not a target"),
        ("sim:nothing", "protocol"),
        ("--level snapshot", "it offers wal, serializable"),
        ("--workload nothing", "workload"),
        ("postgres://margay@127.0.0.1:1/none", "error"),
        ("--clients 0", "clients"),
        ("--start oracle", "postgres"),
        ("--json --record -", "standard output"),
        ("--serve --token=", "token"),
    ] {
        let run = run(args).expect(2);
        assert!(run.stderr.contains(part), "{args}: {}", run.stderr);
    }
}

/// A regression: a target in libpq's words was repeated with its password by the error that refused
/// it.
#[test]
fn no_error_repeats_a_password() {
    for target in [
        "host=127.0.0.1 port=1 user=u password=secret",
        "hots=127.0.0.1 password=secret",
        "postgres://u:secret@127.0.0.1:1/d",
        "postgres://127.0.0.1:1/d?user=u&password=secret",
        "oracle://u:secret@h/d",
    ] {
        let run = margay(["run", "--no-report", target]).expect(2);
        assert!(!run.stderr.contains("secret") && !run.stderr.is_empty(), "{target}: {}", run.stderr);
    }
}

/// A regression: none of what other clients of these servers know was looked at.
#[test]
fn what_an_address_leaves_out_is_found_where_other_clients_find_it() {
    for (server, kind) in [(Server::postgres(), "postgres"), (Server::mariadb(), "mysql")] {
        let Some(server) = started(server) else { continue };
        let (_, rest) = server.url().split_once("://").expect("an address");
        let (login, _) = rest.split_once('@').expect("a login");
        let (user, password) = login.split_once(':').expect("a password");
        let home = TempDir::new().expect("a folder");
        let private = |name: &str, text: String| {
            let file = home.path().join(name);
            fs::write(&file, text).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its owner");
        };
        let run = |target: &str, variables: &[(&str, &str)]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
            command.args(["run", "--no-report", "--transactions", "20", "--clients", "1", target]);
            command.env("HOME", home.path()).envs(variables.iter().copied());
            finish(command, b"")
        };
        let port = server.port.to_string();
        if kind == "postgres" {
            let place =
                [("PGHOST", "127.0.0.1"), ("PGPORT", &port), ("PGUSER", user), ("PGDATABASE", "postgres")];
            let refused = run("postgres://", &place).expect(2);
            assert!(refused.stderr.contains("password"), "{}", refused.stderr);
            run("postgres://", &[&place[..], &[("PGPASSWORD", password)]].concat()).expect(0);
            private(".pgpass", format!("127.0.0.1:{port}:*:{user}:{password}\n"));
            run("postgres://", &place).expect(0);
            run(&format!("host=127.0.0.1 port={port} user={user} dbname=postgres"), &[]).expect(0);
        } else {
            let refused = run(&format!("mysql://{user}@127.0.0.1:{port}/mysql"), &[]).expect(2);
            assert!(refused.stderr.contains("denied"), "{}", refused.stderr);
            private(
                ".my.cnf",
                format!("[client]\nuser={user}\npassword={password}\nhost=127.0.0.1\nport={port}\n"),
            );
            run("mysql:///mysql", &[]).expect(0);
            run(&format!("mysql://127.0.0.1:{port}/mysql"), &[]).expect(0);
        }
    }
}

#[test]
fn postgresql() {
    if started(Server::postgres()).is_none() {
        return;
    }
    let clean = Clean::new();
    let run = |args: &str| clean.run(args);
    let told = run("--start postgres --workload write-skew --transactions 300 --json").expect(0).json();
    assert_eq!(
        (told["verdict"].as_str(), told["level"].as_str()),
        (Some("holds"), Some("serializable")),
        "{told}"
    );
    run("--start postgres --transactions 300").expect(0);
    let weaker = "--start postgres --level repeatable-read --claim serializable --workload write-skew";
    let told = found(run, weaker, 600, |_| true);
    assert!(told["run"]["dbms"].as_str().is_some_and(|dbms| dbms.starts_with("postgresql ")), "{told}");
    run("--start postgres --level repeatable-read --workload write-skew --transactions 300").expect(0);
}

#[test]
fn mariadb() {
    if started(Server::mariadb()).is_none() {
        return;
    }
    let clean = Clean::new();
    let run = |args: &str| clean.run(args);
    run("--start mariadb --workload increment --transactions 200").expect(0);
    let weaker = "--start mariadb --level repeatable-read --claim snapshot-isolation --workload increment";
    found(run, weaker, 400, |_| true);
}

/// A temporary folder of its own, for servers that run as another user, which must be empty in the
/// end.
struct Clean(TempDir);

impl Clean {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner");
        Self(folder)
    }

    fn run(&self, args: &str) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        command.args(["run", "--no-report"]).args(args.split_whitespace()).env("TMPDIR", self.0.path());
        let run = finish(command, b"");
        let left = fs::read_dir(self.0.path()).expect("the folder").count();
        assert_eq!(left, 0, "{args} leaves something behind");
        run
    }
}

#[test]
fn a_script_is_played_and_checked() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let text = include_str!("../../../examples/scripts/lost-update.jsonl");
    let script = file("script.jsonl", text);
    let told = margay(["run", "sqlite", "--script", &script, "--no-report", "--json"]).expect(0).json();
    assert_eq!((&told["verdict"], &told["run"]["workload"]), (&"holds".into(), &"script".into()), "{told}");
    // SQLite lets only one of them write.
    assert_eq!((&told["run"]["committed"], &told["run"]["aborted"]), (&1.into(), &1.into()), "{told}");
    let untimed = text.lines().map(|line| match line.find("\"at\"") {
        Some(at) => format!("{}{}\n", &line[..at], &line[line.find("],").map_or(at, |end| end + 2)..]),
        None => format!("{line}\n"),
    });
    let untimed = file("untimed.jsonl", &untimed.collect::<String>());
    let refused = margay(["run", "sqlite", "--script", &untimed]).expect(2);
    assert!(refused.stderr.contains("needs the times"), "{}", refused.stderr);
    let refused = margay(["run", "sim:ss2pl", "--script", &script]).expect(2);
    assert!(refused.stderr.contains("understand SQL"), "{}", refused.stderr);
}
