//! `margay run` on the databases that it has to be built with:
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
