//! `margay run` on the databases that it has to be built with, and `margay check` on several workers:
//! `cargo test -p margay-cli --features slatedb --test features`.

mod common;

#[cfg(any(feature = "slatedb", feature = "turso", feature = "rocksdb", feature = "duckdb"))]
mod built {
    use super::common::{Run, margay};

    fn run(args: &str) -> Run {
        margay(["run", "--no-report"].into_iter().chain(args.split_whitespace()))
    }

    /// Runs, which must hold at what is promised.
    fn holds(args: &str, promised: &str) {
        let told = run(&format!("{args} --json")).expect(0).json();
        assert_eq!(
            (told["verdict"].as_str(), told["level"].as_str()),
            (Some("holds"), Some(promised)),
            "{told}"
        );
        assert_eq!(told["run"]["live"]["violations"], 0, "{told}");
        assert!(told["run"]["committed"].as_u64() > Some(0), "{told}");
    }

    /// What is promised holds, and more than that does not: write skew.
    fn snapshots(target: &str, workloads: &[&str]) {
        for workload in workloads {
            holds(&format!("{target} --workload {workload} --transactions 300"), "snapshot-isolation");
        }
        let skew = format!("{target} --workload write-skew --claim serializable --transactions 600 --json");
        let found = (0..30).any(|seed| run(&format!("{skew} --seed {seed}")).status == 1);
        assert!(found, "{target}: thirty runs without write skew");
    }

    #[cfg(feature = "slatedb")]
    #[test]
    fn slatedb() {
        for workload in ["mixed", "write-skew", "list-append", "increment", "predicate"] {
            holds(&format!("slatedb --workload {workload} --transactions 300"), "serializable");
        }
        snapshots("slatedb --level snapshot", &["mixed", "write-skew", "increment"]);
    }

    #[cfg(feature = "turso")]
    #[test]
    fn turso() {
        snapshots("turso", &["mixed", "write-skew", "increment", "smallbank"]);
    }

    #[cfg(feature = "rocksdb")]
    #[test]
    fn rocksdb() {
        snapshots("rocksdb", &["mixed", "write-skew", "increment"]);
        snapshots("rocksdb --level optimistic", &["mixed", "write-skew", "increment"]);
    }

    #[cfg(feature = "duckdb")]
    #[test]
    fn duckdb() {
        snapshots("duckdb", &["mixed", "write-skew", "increment", "smallbank"]);
        // An update and a delete of one row by two transactions at the same time both commit, and
        // the update is lost.
        let deletes = "duckdb --workload predicate --transactions 300 --clients 8 --json";
        let found = (0..20).any(|seed| run(&format!("{deletes} --seed {seed}")).status == 1);
        assert!(found, "DuckDB 1.5.6 lost updates; if this one does not, docs/DRIVERS.md is to be changed");
    }
}

#[cfg(not(any(feature = "slatedb", feature = "turso", feature = "rocksdb", feature = "duckdb")))]
#[test]
fn what_was_not_built_says_how() {
    let told = common::margay(["run", "duckdb"]).expect(2);
    assert!(told.stderr.contains("--features duckdb"), "{}", told.stderr);
}

#[cfg(feature = "cluster")]
mod cluster {
    use std::net::TcpListener;
    use std::thread;

    use super::common::{Run, margay};

    fn check(history: &str, more: &[&str]) -> Run {
        let args = ["check", history, "--level", "serializable", "--json"];
        margay(args.into_iter().chain(more.iter().copied()))
    }

    fn findings(run: Run) -> String {
        let told = run.expect(1).json();
        assert_eq!(told["verdict"].as_str(), Some("violated"), "{told}");
        told["anomalies"].to_string()
    }

    /// Addresses on which nobody listens.
    fn hosts(count: usize) -> String {
        let listeners: Vec<TcpListener> =
            (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let address = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
        listeners.iter().map(address).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn workers_and_processes_find_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (history, list, token) = (path("h.jsonl"), path("hosts"), path("token"));
        let config = ["--protocol", "ssi", "--fault", "write-skew", "--transactions", "600", "--keys", "8"];
        margay(["simulate"].into_iter().chain(config).chain([history.as_str()])).expect(0);
        let one = findings(check(&history, &["--engine", "mirror", "--workers", "1"]));
        assert_eq!(one, findings(check(&history, &["--engine", "mirror", "--workers", "3"])));
        std::fs::write(&list, hosts(2)).expect("a file");
        std::fs::write(&token, "the token of this test").expect("a file");
        let common = ["--engine", "mirror", "--workers", "2", "--hosts", &list, "--token-file", &token];
        let several: Vec<String> = thread::scope(|scope| {
            let process = |number: &'static str| {
                let args = [&common[..], &["--process", number]].concat();
                let history = &history;
                scope.spawn(move || findings(check(history, &args)))
            };
            let all = [process("0"), process("1")];
            all.into_iter().map(|one| one.join().expect("no panic")).collect()
        });
        assert_eq!(several, [one.clone(), one]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (list, token, history) = (path("hosts"), path("token"), "examples/write-skew.jsonl");
        std::fs::write(&list, hosts(2)).expect("a file");
        std::fs::write(&token, "short").expect("a file");
        let wrong = |more: &[&str], why: &str| {
            let told = check(history, more).expect(2);
            assert!(told.stderr.contains(why), "{}", told.stderr);
        };
        wrong(&["--workers", "2"], "add --engine mirror");
        let hosts = ["--engine", "mirror", "--hosts", list.as_str()];
        let with = |more: &[&'static str]| [&hosts[..], more].concat();
        wrong(&with(&["--process", "0"]), "hosts need a token");
        wrong(&with(&["--process", "2"]), "there is no process 2: the hosts are numbered 0 to 1");
        let both = [&hosts[..], &["--process", "0", "--token-file", token.as_str()]].concat();
        wrong(&both, "shorter than 16 characters");
        std::fs::write(&token, "the token of this test").expect("a file");
        let dbms = ["--dbms", "postgresql/serializable", "--patience", "300ms"];
        wrong(&[&both[..], &dbms].concat(), "(process 1) does not answer");
    }
}
