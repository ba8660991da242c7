//! `margay run --certificate-recovery`, on servers of our own.

mod common;

use common::{margay, margay_with, root};

/// A folder for one test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn certified(server: &str, program: &str, options: &[&str]) {
    if !installed(program) {
        return println!("SKIPPED: {program} is not installed");
    }
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, proof) = (path("h.jsonl"), path("c.json"));
    let arguments = ["run", "--start", server, "--certificate-recovery", "--workload", "rw-register"];
    let more = ["--transactions", "120", "--json", "--record", &record, "--certificate", &proof];
    let told = margay([&arguments[..], options, &more].concat()).expect(0).json();
    assert_eq!((&told["verdict"], &told["engine"]), (&"holds".into(), &"certify".into()), "{told}");
    let recorded = std::fs::read_to_string(&record).expect("a recording");
    assert!(recorded.contains("\"evidence\":\"version-order\""), "evidence is recorded");
    margay(["audit", &record, &proof]).expect(0);
    let again = margay(["check", &record, "--level", "serializable", "--json"]).expect(0).json();
    assert_eq!(again["engine"], "certify", "a recording with evidence is certified without being asked to");
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin".into(), "/usr/lib/postgresql/15/bin".into()];
    std::env::split_paths(&path).chain(usual).any(|folder: std::path::PathBuf| folder.join(program).is_file())
}

#[test]
fn postgresql_is_certified() {
    certified("postgres", "initdb", &[]);
}

#[test]
fn postgresql_is_certified_through_the_plugin_of_our_choice() {
    certified("postgres", "initdb", &["--decoding-plugin", "pgoutput"]);
    let told = margay(["run", "sqlite", "--certificate-recovery", "--decoding-plugin", "wal2json"]).expect(2);
    assert!(told.stderr.contains("auto, test_decoding or pgoutput"), "{}", told.stderr);
}

#[test]
fn mariadb_is_certified() {
    certified("mariadb", "mariadbd", &[]);
}

/// The servers of this kind that `scripts/servers` has fetched; says so if there are none.
fn fetched(kind: &str) -> Vec<String> {
    let Ok(folders) = std::fs::read_dir(root().join("target/servers")) else {
        println!("SKIPPED: no servers are fetched: scripts/servers does so");
        return Vec::new();
    };
    let complete = folders.flatten().map(|entry| entry.path()).filter(|path| path.join(".complete").exists());
    let named = complete.map(|path| path.display().to_string());
    named.filter(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with(kind))).collect()
}

/// `--certificate-recovery` on every fetched server of a kind: no evidence is missing, and it
/// decides.
fn all_fetched_are_certified(kind: &str, workloads: &[&str], levels: &[&str]) {
    for binaries in fetched(kind) {
        for (level, workload) in
            levels.iter().flat_map(|level| workloads.iter().map(move |name| (level, name)))
        {
            let run = ["run", "--start", kind, "--binaries", &binaries, "--certificate-recovery"];
            let what = ["--level", level, "--workload", workload, "--transactions", "200"];
            let told =
                margay(run.iter().chain(&what).chain(&["--engine", "certify", "--no-report", "--json"]))
                    .expect(0);
            assert!(!told.stderr.contains("the certificate is incomplete"), "{}", told.stderr);
            assert_eq!(told.json()["engine"], "certify", "{binaries} {level} {workload}");
        }
    }
}

#[test]
fn every_fetched_postgresql_is_certified() {
    let levels = ["read-committed", "repeatable-read", "serializable"];
    all_fetched_are_certified("postgres", &["rw-register", "mixed"], &levels);
}

#[test]
fn every_fetched_mariadb_is_certified() {
    let levels = ["read-committed", "repeatable-read", "serializable"];
    all_fetched_are_certified("mariadb", &["rw-register", "mixed"], &levels);
}

/// MySQL tells the GTID of a commit with its answer. SmallBank's balances repeat, so that without
/// names hundreds of transactions of the log fitted several clients' or none.
#[test]
fn mysql_is_certified_by_gtids() {
    let levels = ["repeatable-read", "serializable"];
    all_fetched_are_certified("mysql", &["rw-register", "mixed"], &levels);
    for binaries in fetched("mysql") {
        let run =
            ["run", "--start", "mysql", "--binaries", &binaries, "--certificate-recovery", "--keys", "3"];
        let more =
            ["--transactions", "300", "--level", "read-committed", "--no-report", "--workload", "smallbank"];
        let told = margay(run.iter().chain(&more)).expect(0);
        assert!(!told.stderr.contains("the certificate is incomplete"), "{}", told.stderr);
    }
}

/// From 11.6.2 on, REPEATABLE READ of MariaDB is snapshot isolation, which the driver switches on:
/// no update gets lost, as one does in older versions.
#[test]
fn newer_mariadb_keeps_its_snapshots() {
    for binaries in fetched("mariadb") {
        let run = ["run", "--start", "mariadb", "--binaries", &binaries, "--level", "repeatable-read"];
        let what = ["--claim", "snapshot-isolation", "--workload", "increment", "--transactions", "400"];
        let told = margay(run.iter().chain(&what).chain(&["--no-report", "--json"]));
        let newer = told.json()["run"]["dbms"].as_str().is_some_and(|dbms| dbms.starts_with("mariadb 11"));
        let told = told.expect(i32::from(!newer)).json();
        assert_eq!(told["verdict"], if newer { "holds" } else { "violated" }, "{told}");
    }
}

#[test]
fn what_tells_nothing_is_refused() {
    let told = margay(["run", "sqlite", "--certificate-recovery"]).expect(2);
    assert!(told.stderr.contains("no certificate can be recovered from sqlite"), "{}", told.stderr);
}

#[test]
fn simulated_databases_tell_their_evidence() {
    let run = [
        "run",
        "sim:ss2pl",
        "--certificate-recovery",
        "--workload",
        "predicate",
        "--json",
        "--transactions",
        "120",
    ];
    let told = margay(run).expect(0).json();
    assert_eq!((&told["verdict"], &told["engine"]), (&"holds".into(), &"replay".into()), "{told}");
}

#[test]
fn shadows_confirm_what_snapshots_saw() {
    if !installed("initdb") {
        return println!("SKIPPED: initdb is not installed");
    }
    let run = [
        "run",
        "--start",
        "postgres",
        "--level",
        "REPEATABLE READ",
        "--certificate-recovery",
        "--shadow-reads",
        "3",
    ];
    let more = ["--workload", "rw-register", "--transactions", "100", "--json"];
    let told = margay([&run[..], &more].concat()).expect(0);
    assert!(!told.stderr.contains("shadow"), "{}", told.stderr);
    assert_eq!(told.json()["verdict"], "holds");
}

/// Each of two transactions counts the rows and inserts one that the other did not count.
const PHANTOMS: &str = r#"{"margay":1,"tables":{"t":{"key":["k"],"columns":{"k":"int","v":"int"}}},"initial":[[["t",1],{"v":5}],[["t",2],{"v":7}]]}
{"session":0,"txn":1,"sql":"SELECT COUNT(*), SUM(v) FROM t WHERE v >= 5","rows":[[2,12]]}
{"session":0,"txn":1,"sql":"INSERT INTO t (k, v) VALUES (3, 9)","count":1}
{"session":0,"txn":1,"commit":true}
{"session":1,"txn":2,"sql":"SELECT COUNT(*), SUM(v) FROM t WHERE v >= 5","rows":[[2,12]]}
{"session":1,"txn":2,"sql":"INSERT INTO t (k, v) VALUES (4, 9)","count":1}
{"session":1,"txn":2,"commit":true}
{"evidence":"version-set","txn":1,"op":0,"rows":[[["t",4],null]]}
{"evidence":"version-set","txn":2,"op":0,"rows":[[["t",3],null]]}
"#;

#[test]
fn aggregates_are_certified() {
    let check = |level: &str, engine: &str, status: i32| {
        let arguments = ["check", "-", "--level", level, "--engine", engine, "--json"];
        margay_with(arguments, PHANTOMS.as_bytes()).expect(status).json()
    };
    for engine in ["certify", "auto"] {
        let told = check("serializable", engine, 1);
        assert_eq!(
            (&told["engine"], &told["anomalies"][0]["name"]),
            (&"certify".into(), &"G2".into()),
            "{told}"
        );
        assert_eq!(check("repeatable-read", engine, 0)["verdict"], "holds");
    }
    let wrong = PHANTOMS.replace("[[2,12]]", "[[2,13]]");
    let told = margay_with(
        ["check", "-", "--level", "read-committed", "--engine", "certify", "--json"],
        wrong.as_bytes(),
    );
    assert_eq!(told.expect(1).json()["anomalies"][0]["name"], "result-mismatch");
}
