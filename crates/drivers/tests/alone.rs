//! Two runs in one database would make and drop the same tables.

use std::fs;
use std::path::Path;
use std::process::Command;

use margay_drivers::{Setting, Target, open};
use margay_servers::{Server, started};

const SETTING: Setting = Setting { clients: 1, keys: 1, domain: 1, seed: 0 };

#[test]
fn a_second_run_in_the_same_database_is_refused_until_the_first_has_ended() {
    for server in [Server::postgres(), Server::mariadb()] {
        let Some(server) = started(server) else { continue };
        let target: Target = server.url().parse().expect("a target");
        is_refused_beside_another(&target, &target);
    }
}

fn is_refused_beside_another(target: &Target, same: &Target) {
    let first = open(target, &SETTING).expect("nobody else is there");
    let refused = open(same, &SETTING).err().expect("somebody is there");
    assert!(refused.contains("another run of margay"), "{target}: {refused}");
    drop(first);
    open(same, &SETTING).expect("nobody is there any more");
}

/// However the path is written. Nothing is left beside the database.
#[test]
fn so_is_one_in_the_same_file_or_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |kind: &str, name: &str| -> Target {
        format!("{kind}:{}", folder.path().join(name).display()).parse().expect("a target")
    };
    let stores: &[&str] = if cfg!(feature = "stores") { &["fjall", "redb", "surrealkv"] } else { &[] };
    for kind in ["sqlite"].iter().chain(stores) {
        is_refused_beside_another(&at(kind, kind), &at(kind, kind));
    }
    let parent = folder.path().file_name().expect("a name").display().to_string();
    is_refused_beside_another(&at("sqlite", "sqlite"), &at("sqlite", &format!("../{parent}/./sqlite")));
    let locks = fs::read_dir(folder.path()).expect("a folder").flatten();
    let left: Vec<_> =
        locks.filter(|entry| entry.path().extension().is_some_and(|e| e == "margay-lock")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Says to this test, started once more, what to lock before it ends itself.
const KILLED: &str = "MARGAY_KILLED";

/// The program that has locked the file is killed, and leaves it behind.
#[test]
fn what_a_killed_run_leaves_behind_keeps_nobody_out() {
    if let Ok(target) = std::env::var(KILLED) {
        let _open = open(&target.parse().expect("a target"), &SETTING).expect("nobody else is there");
        std::process::abort();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("file");
    let lock = folder.path().join("file.margay-lock");
    let target: Target = format!("sqlite:{}", database.display()).parse().expect("a target");
    let mut killed = Command::new(std::env::current_exe().expect("this test"));
    let name = "what_a_killed_run_leaves_behind_keeps_nobody_out";
    killed.args(["--exact", name]).env(KILLED, target.to_string());
    assert!(!killed.output().expect("it runs").status.success(), "it was killed");
    assert!(Path::new(&lock).exists(), "it has left its lock behind");
    open(&target, &SETTING).expect("nobody is there any more");
}
