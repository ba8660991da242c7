//! Certificates out of a real PostgreSQL through the plugin that every server has.

mod common;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{ask, job, open, run_with};
use margay_certify::{Certify, Replay};
use margay_drivers::Setting;
use margay_levels::Level;
use margay_recover::{Gap, Plugin};
use margay_verdict::Verdict;
use postgres::{Client, NoTls};

/// What is certified with one plugin is with the other.
#[test]
fn runs_are_certified_from_its_messages() {
    let Some(server) = common::postgres() else { return };
    let cases = [
        ("mixed", "SERIALIZABLE", Level::Serializable),
        ("predicate", "SERIALIZABLE", Level::Serializable),
        ("list-append", "SERIALIZABLE", Level::Serializable),
        ("mixed", "REPEATABLE READ", Level::SnapshotIsolation),
        ("increment", "READ COMMITTED", Level::ReadCommitted),
    ];
    for (seed, (workload, own_name, level)) in cases.into_iter().enumerate() {
        let (history, gaps) = run_with(&server, &job(workload, own_name, seed as u64, 150), Plugin::Pgoutput);
        assert!(gaps.iter().all(|gap| matches!(gap, Gap::Reborn(..))), "{workload}: {gaps:?}");
        let verdict = ask(&Certify, &history, level);
        assert!(matches!(verdict, Verdict::Holds(_)), "{workload}, {level}: {verdict:?}");
        if level == Level::SnapshotIsolation {
            let verdict = ask(&Replay, &history, level);
            assert!(matches!(verdict, Verdict::Holds(_)), "{workload}, {level}: {verdict:?}");
        }
    }
}

/// Where the server has no `test_decoding`, the other one is taken; if it was asked for, that is an
/// error.
#[test]
fn a_server_without_test_decoding_is_read_all_the_same() {
    let Some(server) = common::postgres() else { return };
    let setting = Setting { clients: 1, keys: 1, domain: 1, seed: 0 };
    drop(open(&server, &setting));
    let mut client = Client::connect(server.url(), NoTls).expect("a connection");
    let folder = only_pgoutput(&mut client);
    let path = format!("ALTER ROLE CURRENT_USER SET dynamic_library_path = '{}'", folder.display());
    client.batch_execute(&path).expect("a setting");
    let start = setting.start("postgresql".to_owned(), "serializable".to_owned());
    let plugin = |client: &mut Client| -> String {
        client.query_one("SELECT plugin::text FROM pg_replication_slots", &[]).expect("one slot").get(0)
    };
    let watched = open(&server, &setting);
    watched.database().prepare("SERIALIZABLE", &start).expect("a log");
    assert_eq!(plugin(&mut client), "pgoutput");
    watched.database().clean_up();
    drop(watched);
    let watched = open(&server, &setting).with_plugin(Plugin::TestDecoding);
    let why = watched.database().prepare("SERIALIZABLE", &start).expect_err("it is not there");
    assert!(why.contains("test_decoding"), "{why}");
    client.batch_execute("ALTER ROLE CURRENT_USER RESET dynamic_library_path").expect("a setting");
    drop(watched);
    let watched = open(&server, &setting);
    watched.database().prepare("SERIALIZABLE", &start).expect("a log");
    assert_eq!(plugin(&mut client), "test_decoding");
    watched.database().clean_up();
    std::fs::remove_dir_all(folder).expect("a folder of our own");
}

/// A folder where the server finds one of its plugins only.
fn only_pgoutput(client: &mut Client) -> PathBuf {
    let libraries = client.query_one("SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'", &[]);
    let libraries: String = libraries.expect("a folder").get(0);
    let folder = std::env::temp_dir().join(format!("margay-pgoutput-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    symlink(Path::new(&libraries).join("pgoutput.so"), folder.join("pgoutput.so")).expect("a link");
    folder
}
