//! Profiles of the databases that run inside the program say of snapshots and of concurrent updates
//! what these do.

mod play;

use margay_drivers::{Ask, Change, Database, Kind, Obj, Space, Target, Trouble};
use margay_levels::profile::{Certifier, Granularity, Profile, Snapshot};
use play::{OTHER, REGISTER, ROW, alone, opened, prepare, put, read, try_ask, two};

const LIST: Obj = Obj { space: Space::List, key: 0 };

/// Every database that is part of this program, at each of its levels where a writer does not keep
/// others from beginning.
fn each(test: impl Fn(&dyn Database, &str, &Profile)) {
    let stores = Kind::ALL.into_iter().map(|kind| Target::Store(kind, None));
    for target in stores.chain([Target::default()]) {
        let Some(database) = opened(&target) else { continue };
        let (dbms, version) = database.identity();
        for level in database.levels() {
            let profile = Profile::find(&dbms, Some(&version), Some(level)).expect("a profile");
            let waits = profile.mutual_exclusion == Some(Granularity::Database) && dbms != "sqlite";
            let snapshots = profile.consistent_read.is_some();
            // The kind of a fjall database follows from the level that is asked for first.
            let Some(database) = opened(&target).filter(|_| !waits && snapshots) else { continue };
            println!("{target} {level}");
            prepare(database.as_ref(), level);
            test(database.as_ref(), level, profile);
        }
    }
}

fn put_register(obj: Obj, value: i64) -> Ask {
    Ask::Write(obj, Change::Put(value))
}

/// Where a profile says that BEGIN takes the snapshot, it does; where a profile says that the first
/// statement does, BEGIN does not have to, and the first statement has.
#[test]
fn snapshots_are_taken_where_profiles_say() {
    each(|database, level, profile| {
        let [mut reader, mut writer] = two(database, level);
        reader.begin().expect("begun");
        if profile.consistent_read == Some(Snapshot::Begin) {
            alone(writer.as_mut(), &[put_register(REGISTER, 1)]);
            assert_eq!(read(reader.as_mut(), REGISTER), margay_drivers::Value::Int(0), "{level}");
        } else {
            read(reader.as_mut(), REGISTER);
        }
        alone(writer.as_mut(), &[put_register(OTHER, 1), Ask::Write(ROW, Change::Delete)]);
        assert_eq!(read(reader.as_mut(), OTHER), margay_drivers::Value::Int(0), "{level}");
        assert_eq!(read(reader.as_mut(), ROW), play::row(1, 10), "{level}");
        // SlateDB refuses readers too.
        assert!(matches!(reader.commit(), Ok(()) | Err(Trouble::Refused(_))), "{level}");
        // What was acknowledged is seen by whoever begins later.
        reader.begin().expect("begun");
        assert_eq!(read(reader.as_mut(), OTHER), margay_drivers::Value::Int(1), "{level}");
    });
}

/// Whether a transaction that has a snapshot and makes this change commits although another one has
/// changed the same since.
fn both_commit(database: &dyn Database, level: &str, first: Ask, second: Ask) -> bool {
    let [mut late, mut early] = two(database, level);
    late.begin().expect("begun");
    read(late.as_mut(), OTHER);
    alone(early.as_mut(), &[first]);
    try_ask(late.as_mut(), second).is_ok() && late.commit().is_ok()
}

/// Of two transactions that change the same, the second is refused where a profile says so,
/// whatever the changes are. DuckDB lets an update and a deletion pass, which its documentation
/// does not say.
#[test]
fn the_second_updater_loses_where_profiles_say() {
    each(|database, level, profile| {
        let checked = matches!(profile.certifier, Some(Certifier::Occ | Certifier::Percolator))
            && !profile.promises(margay_levels::Level::Serializable);
        if !(profile.first_updater_wins || checked) || profile.dbms == "duckdb" {
            return;
        }
        let delete = Ask::Write(ROW, Change::Delete);
        let append = |item| Ask::Write(LIST, Change::Append(item));
        let pairs = [
            (put_register(REGISTER, 1), put_register(REGISTER, 2)),
            (append(1), append(2)),
            (put(2, 20), put(3, 30)),
            (put(2, 20), delete),
            (delete, put(3, 30)),
        ];
        for (first, second) in pairs {
            prepare(database, level);
            assert!(!both_commit(database, level, first, second), "{level}: {first:?}, {second:?}");
        }
    });
}

/// Who writes what is there already is in nobody's way where a profile says so, and nowhere else.
/// SQLite was accused of it.
#[test]
fn who_changes_nothing_makes_a_version_where_profiles_say() {
    each(|database, level, profile| {
        if profile.first_updater_wins {
            prepare(database, level);
            let both = both_commit(database, level, put_register(REGISTER, 0), put_register(REGISTER, 2));
            assert_eq!(both, profile.skips_unchanged, "{} at {level}", profile.dbms);
        }
    });
}
