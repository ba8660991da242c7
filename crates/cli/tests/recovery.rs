//! `margay run --certificate-recovery`, on servers of our own.

mod common;

use common::margay;

/// A folder for one test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn certified(server: &str, program: &str) {
    if !installed(program) {
        return println!("skipped: {program} is not installed");
    }
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, proof) = (path("h.jsonl"), path("c.json"));
    let arguments = ["run", "--start", server, "--certificate-recovery", "--workload", "rw-register"];
    let more = ["--transactions", "120", "--json", "--record", &record, "--certificate", &proof];
    let told = margay([&arguments[..], &more].concat()).expect(0).json();
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
    certified("postgres", "initdb");
}

#[test]
fn mariadb_is_certified() {
    certified("mariadb", "mariadbd");
}

#[test]
fn what_tells_nothing_is_refused() {
    let told = margay(["run", "sqlite", "--certificate-recovery"]).expect(2);
    assert!(told.stderr.contains("no certificate can be recovered from sqlite"), "{}", told.stderr);
}
