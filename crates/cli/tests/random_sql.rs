//! Random SQL on databases that are right: whatever is asked, no engine accuses them.

mod common;

use common::margay;
use margay_servers::{Server, started};

/// Runs random statements, and asks the engines that understand them. `unknown` is an answer,
/// `violated` is none.
fn accuses_nobody(target: &str, level: &str, workloads: &[&str]) {
    for workload in workloads {
        let args = format!(
            "{target} --level {level} --workload {workload} --transactions 30 --clients 4 --engine auto,observe,mirror --timeout 5s --json"
        );
        let run = margay(["run", "--no-report"].into_iter().chain(args.split_whitespace()));
        let told = run.json();
        let checks = told["report"]["checks"].as_array().expect("checks");
        assert!(checks.len() > 3, "the mirror has looked on, and all engines have answered: {told}");
        for check in checks {
            assert_ne!(check["verdict"], "violated", "{args}: {told}");
        }
        assert!(told["run"]["committed"].as_u64() > Some(0), "{args}: {told}");
    }
}

const BOTH: [&str; 2] = ["random-sql", "random-sql-reuse"];

#[test]
fn sqlite_in_all_modes() {
    for options in ["", ":?begin=immediate", ":?begin=exclusive", ":?cache=shared"] {
        for level in ["wal", "serializable", "read-uncommitted"] {
            accuses_nobody(&format!("sqlite{options}"), level, &BOTH);
        }
    }
}

/// At REPEATABLE READ a key comes back although a snapshot has the row that was there before:
/// snapshot isolation, by its definition, does not allow that.
#[test]
fn postgresql_at_its_levels() {
    let Some(server) = started(Server::postgres()) else { return };
    accuses_nobody(server.url(), "serializable", &BOTH);
    accuses_nobody(server.url(), "repeatable-read", &BOTH[..1]);
    accuses_nobody(server.url(), "read-committed", &BOTH);
}

#[test]
fn mariadb_at_its_levels() {
    let Some(server) = started(Server::mariadb()) else { return };
    for level in ["serializable", "repeatable-read", "read-committed", "read-uncommitted"] {
        accuses_nobody(server.url(), level, &BOTH);
    }
}
