//! Profiles of SQLite say of snapshots what SQLite does.

mod play;

use margay_drivers::{Ask, Change, Database, Obj, Space, SqliteMode, Target, Value};
use margay_levels::profile::Profile;
use play::{ask, start};

/// A run with a shared cache in WAL mode was once called violated: the profile promised the
/// snapshots of WAL, but connections with one cache lock tables, and whoever has read one table
/// sees what others commit to a second one afterwards.
#[test]
fn a_profile_promises_snapshots_where_reads_come_from_one() {
    for (target, snapshots) in [("sqlite", true), ("sqlite:?cache=shared", false)] {
        let target: Target = target.parse().expect("a target");
        assert_eq!(reads_a_snapshot(&target), snapshots, "{target}");
        let (dbms, version) = opened(&target).identity();
        let profile = Profile::find(&dbms, Some(&version), Some("WAL")).expect("a profile");
        assert_eq!(profile.consistent_read.is_some(), snapshots, "{target}");
        assert_eq!(profile.first_updater_wins, snapshots, "{target}");
    }
}

/// SQLite keeps the journal of a file that somebody else uses, and says nothing.
#[test]
fn a_file_that_keeps_another_journal_is_not_taken() {
    let folder = tempfile::TempDir::with_prefix("margay-").expect("a folder");
    let target = Target::Sqlite(Some(folder.path().join("x.sqlite")), SqliteMode::default());
    let database = opened(&target);
    database.prepare("WAL", &start(false, Vec::new())).expect("tables");
    let used = database.connect(0, "WAL").expect("a connection");
    let why = database.prepare("SERIALIZABLE", &start(false, Vec::new())).expect_err("the file is in use");
    assert!(why.contains("wal") || why.contains("locked"), "{why}");
    drop(used);
    database.prepare("SERIALIZABLE", &start(false, Vec::new())).expect("nobody uses it");
}

fn opened(target: &Target) -> Box<dyn Database> {
    play::opened(target).expect("part of the program")
}

/// Whether a transaction that has read a list sees a register as it was then, when somebody else
/// has changed it since.
fn reads_a_snapshot(target: &Target) -> bool {
    let (list, register) = (Obj::new(Space::List, 0), Obj::new(Space::Register, 0));
    let database = opened(target);
    database.prepare("WAL", &start(false, vec![(register, Value::Int(0))])).expect("tables");
    let [mut reader, mut writer] = play::two(database.as_ref(), "WAL");
    reader.begin().expect("a transaction");
    ask(reader.as_mut(), Ask::Read(list));
    play::alone(writer.as_mut(), &[Ask::Write(register, Change::Put(1))]);
    let seen = ask(reader.as_mut(), Ask::Read(register));
    reader.commit().expect("nobody is in the way");
    seen == [(register, Value::Int(0))]
}
