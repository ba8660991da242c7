//! The workloads through the real binary: each runs on SQLite and holds; programs in SQL run on
//! servers; interleavings give the published tables.

mod common;

use std::fs;
use std::process::Command;

use common::{Run, finish, margay};
use serde_json::Value;
use tempfile::TempDir;

fn run(args: &str) -> Run {
    margay(["run", "--no-report"].into_iter().chain(args.split_whitespace()))
}

/// The names of all workloads that clients can run.
fn names() -> Vec<String> {
    let listed = run("--workload list").expect(0).stdout;
    let names = listed.lines().step_by(2).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !["hermitage", "coo", "list"].contains(name)).map(str::to_owned).collect()
}

/// The mirror has followed the run to its end, and found nothing.
fn was_verified_live(told: &Value) {
    let live = &told["run"]["live"];
    assert!(live["ended"].is_null() && live["violations"] == 0, "{told}");
    assert!(live["verified"].as_u64() > Some(0), "{told}");
}

#[test]
fn every_workload_holds_on_sqlite() {
    let names = names();
    assert!(names.len() >= 24, "{names:?}");
    for name in names {
        let told = run(&format!("--workload {name} --transactions 40 --clients 3 --json")).expect(0).json();
        assert_eq!(told["verdict"], "holds", "{name}: {told}");
        assert!(told["run"]["committed"].as_u64() > Some(0), "{name}: {told}");
        was_verified_live(&told);
    }
}

#[test]
fn keys_and_distributions_are_chosen() {
    for distribution in ["uniform", "zipf", "hotspot"] {
        let told = run(&format!(
            "--workload smallbank --keys 5 --distribution {distribution} --transactions 60 --clients 3 --json"
        ));
        assert_eq!(told.expect(0).json()["verdict"], "holds", "{distribution}");
    }
    let refused = run("--distribution normal").expect(2);
    assert!(refused.stderr.contains("distribution"), "{}", refused.stderr);
}

/// The certificate is of the rows, and the audit reads the statements the same way.
#[test]
fn the_verdict_of_a_program_is_audited_against_its_statements() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, proof) = (path("run.jsonl"), path("proof.json"));
    run(&format!("--workload tpcc --transactions 40 --clients 3 --record {record} --certificate {proof}"))
        .expect(0);
    let recorded = fs::read_to_string(&record).expect("a recording");
    assert!(
        recorded.contains("\"sql\":\"INSERT INTO margay_order_line"),
        "statements are recorded as they are"
    );
    margay(["audit", &record, &proof]).expect(0);
    margay(["check", &record, "--level", "serializable"]).expect(0);
}

fn is_installed(server: &str) -> bool {
    let programs = match server {
        "postgres" => vec!["/usr/lib/postgresql", "/usr/bin/pg_ctl"],
        _ => vec!["/usr/sbin/mariadbd", "/usr/sbin/mysqld"],
    };
    let there = programs.iter().any(|program| std::path::Path::new(program).exists());
    if !there {
        eprintln!("SKIPPED: {server} is not installed");
    }
    there
}

#[test]
fn programs_hold_on_serializable_servers() {
    for server in ["postgres", "mariadb"].into_iter().filter(|server| is_installed(server)) {
        for workload in ["smallbank", "tpcc"] {
            let run = run(&format!(
                "--start {server} --level serializable --workload {workload} --transactions 60 --clients 4 --json"
            ));
            let told = run.expect(0).json();
            assert_eq!(told["verdict"], "holds", "{server} {workload}: {told}");
            was_verified_live(&told);
        }
    }
}

/// What each level of a server prevents, in the marks of the published table.
fn hermitage(server: &str, status: i32) -> Vec<(String, String)> {
    let told = run(&format!("--start {server} --workload hermitage --json")).expect(status).json();
    let levels = told["levels"].as_array().expect("levels");
    levels.iter().map(|level| (text(&level["level"]), marks(level))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn marks(level: &Value) -> String {
    assert_eq!(level["broken"].as_array().map(Vec::len), Some(0), "{level}");
    let cells = level["prevents"].as_array().expect("cells").iter();
    let mark = |cell: &Value| match cell["result"].as_str() {
        Some("prevented") => "+",
        Some("prevented for reads") => "r",
        Some("possible") => "-",
        other => panic!("{other:?}"),
    };
    cells.map(mark).collect()
}

/// G0, G1a, G1b, G1c, OTV, PMP, P4, G-single, G2-item, G2.
fn published(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|&(level, marks)| (level.to_owned(), marks.to_owned())).collect()
}

#[test]
fn hermitage_is_as_published_for_postgresql() {
    if is_installed("postgres") {
        let rows = [
            ("read-committed", "+++++-----"),
            ("repeatable-read", "++++++++--"),
            ("serializable", "++++++++++"),
        ];
        assert_eq!(hermitage("postgres", 0), published(&rows));
    }
}

#[test]
fn hermitage_is_as_published_for_mysql() {
    if is_installed("mariadb") {
        let rows = [
            ("read-uncommitted", "+---------"),
            ("read-committed", "+++++-----"),
            ("repeatable-read", "+++++r-r--"),
            ("serializable", "++++++++++"),
        ];
        // No engine decides four of the interleavings at read-uncommitted.
        assert_eq!(hermitage("mariadb", 3), published(&rows));
    }
}

/// They once ignored all of these, and said how many interleavings were undecided, but not why.
#[test]
fn hermitage_writes_what_is_asked_for_and_says_why_something_is_undecided() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (page, junit, histories, proofs) = (path("r.html"), path("r.xml"), path("histories"), path("proofs"));
    let asked =
        ["--workload", "hermitage", "--level", "read-uncommitted", "--report", &page, "--junit", &junit];
    let kept = ["--record", &histories, "--certificate", &proofs];
    let told = margay(["run"].into_iter().chain(asked).chain(kept)).expect(3).stdout;
    assert!(told.contains("14 interleavings") && told.contains("4 undecided"), "{told}");
    assert_eq!(told.matches("    undecided: ").count(), 4, "{told}");
    assert!(fs::read_to_string(&page).expect("a page").contains("4 undecided"));
    let junit = fs::read_to_string(&junit).expect("JUnit's XML");
    assert_eq!(junit.matches("<testcase ").count(), 1 + 14, "{junit}");
    assert_eq!(junit.matches("<error ").count(), 1 + 4, "{junit}");
    // The name of the suite was that of the interleaving that counted most, which changes between
    // runs.
    assert!(junit.contains("<testsuite name=\"hermitage\""), "{junit}");
    let kept = |folder: &str| fs::read_dir(folder).expect("a folder").count();
    assert_eq!((kept(&histories), kept(&proofs)), (14, 10));
    for proof in fs::read_dir(&proofs).expect("a folder").map(|entry| entry.expect("a proof").path()) {
        let name = proof.file_stem().expect("a name").to_string_lossy().into_owned();
        let proof = proof.display().to_string();
        margay(["audit", &format!("{histories}/{name}.jsonl"), &proof]).expect(0);
    }
}

#[test]
fn coo_is_prevented_by_sqlite_and_a_weak_level_lets_it_through() {
    let level = |args: &str| {
        let told = run(&format!("{args} --workload coo --json")).expect(0).json();
        let cells = told["levels"][0]["prevents"].as_array().expect("cells").clone();
        assert_eq!(cells.len(), 29);
        let of = |class: &str, result: &str| {
            let is = |cell: &&Value| cell["result"] == result && text(&cell["anomaly"]).starts_with(class);
            cells.iter().filter(is).count()
        };
        ["RAT", "WAT", "IAT"].map(|class| of(class, "possible"))
    };
    assert_eq!(level("--level wal"), [0, 0, 0]);
    if is_installed("mariadb") {
        let [reads, _, both] = level("--start mariadb --level read-uncommitted");
        assert!(reads > 0 && both == 7, "{reads} of 13 RAT, {both} of 7 IAT");
    }
}

#[test]
fn a_target_without_sql_says_so() {
    let refused = finish(
        {
            let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
            command.args(["run", "sim:ssi", "--workload", "tpcc"]);
            command
        },
        b"",
    )
    .expect(2);
    assert!(refused.stderr.contains("does not understand SQL"), "{}", refused.stderr);
}

#[test]
fn statements_are_converted_to_operations_on_rows() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (statements, rows) = (path("statements.jsonl"), path("rows.jsonl"));
    run(&format!("--workload smallbank --transactions 60 --record {statements}")).expect(0);
    margay(["convert", "--rows", &statements, &rows]).expect(0);
    let written = fs::read_to_string(&rows).expect("a history");
    assert!(written.contains("\"write\"") && !written.contains("\"sql\""), "no statement is left");
    margay(["check", &rows, "--level", "serializable", "--engine", "solve"]).expect(0);
}
