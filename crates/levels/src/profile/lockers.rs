//! Databases, and levels of databases, whose plain reads lock or see uncommitted data.

use super::{Granularity, Lock, Mode, PredicateLock, Profile, Read, Snapshot, mode, mode_over};
use crate::Level;

/// Plain reads take no lock and see anything; the rest locks.
const DIRTY: [Mode; 6] = reading(mode(Lock::None, Read::Uncommitted));

/// Plain reads lock for the statement only.
const SHORT: [Mode; 6] = reading(mode(Lock::ShareStatement, Read::Newest));

/// Plain reads lock to the end.
const LONG: [Mode; 6] = reading(mode(Lock::Share, Read::Newest));

/// Every search locks its predicate too, to the end.
const PREDICATES: [Mode; 6] = [
    mode_over(Lock::Share, Read::Newest, PredicateLock::Blocking),
    mode_over(Lock::Share, Read::Newest, PredicateLock::Blocking),
    mode_over(Lock::Exclusive, Read::Newest, PredicateLock::Blocking),
    mode(Lock::Exclusive, Read::Newest),
    mode_over(Lock::Exclusive, Read::Newest, PredicateLock::Blocking),
    mode_over(Lock::Exclusive, Read::Newest, PredicateLock::Blocking),
];

/// The modes of a locking database, given those of a plain SELECT.
const fn reading(select: Mode) -> [Mode; 6] {
    let exclusive = mode(Lock::Exclusive, Read::Newest);
    [select, mode(Lock::Share, Read::Newest), exclusive, exclusive, exclusive, exclusive]
}

/// Two-phase locking to the end, predicates included.
const TWO_PHASE: Profile = Profile {
    dbms: "derby",
    since: &[],
    own_name: "SERIALIZABLE",
    default: false,
    protocol: "2PL",
    consistent_read: None,
    mutual_exclusion: Some(Granularity::Row),
    first_updater_wins: false,
    skips_unchanged: false,
    certifier: None,
    one_clock: true,
    modes: PREDICATES,
    promises: &[Level::Serializable],
    deviations: &[],
    note: "Two-phase locking with range locks. The order of commits is a serial order, so real time holds in \
        practice; the documentation promises serializable only.",
    cites: &["Derby", "Leopard"],
};

const DERBY_RU: Profile = Profile {
    own_name: "READ UNCOMMITTED",
    modes: DIRTY,
    promises: &[Level::ReadUncommitted],
    note: "Plain reads take no locks.",
    ..TWO_PHASE
};

const DERBY_RC: Profile = Profile {
    own_name: "READ COMMITTED",
    default: true,
    modes: SHORT,
    promises: &[Level::ReadCommitted],
    note: "Share locks end with the read.",
    ..TWO_PHASE
};

const DERBY_RR: Profile = Profile {
    own_name: "REPEATABLE READ",
    modes: LONG,
    promises: &[Level::RepeatableRead],
    note: "Row locks to the end, no predicate locks.",
    ..TWO_PHASE
};

const SQL_SERVER: &[&str] = &["SqlServer", "Hermitage", "Leopard"];

const SQL_SERVER_RC: Profile = Profile { dbms: "sql-server", cites: SQL_SERVER, ..DERBY_RC };

/// Row versions in place of short share locks; writers read the newest committed version.
const SQL_SERVER_RCSI: Profile = Profile {
    own_name: "READ COMMITTED SNAPSHOT",
    default: false,
    protocol: "2PL+MVCC",
    consistent_read: Some(Snapshot::Statement),
    modes: reading(mode(Lock::None, Read::Snapshot)),
    note: "READ_COMMITTED_SNAPSHOT on: each statement reads a snapshot of its own; writers lock and read the newest.",
    ..SQL_SERVER_RC
};

const SQL_SERVER_SI: Profile = Profile {
    own_name: "SNAPSHOT",
    consistent_read: Some(Snapshot::FirstStatement),
    first_updater_wins: true,
    modes: [
        mode(Lock::None, Read::Snapshot),
        mode(Lock::Share, Read::Newest),
        mode(Lock::Exclusive, Read::Snapshot),
        mode(Lock::Exclusive, Read::Newest),
        mode(Lock::Exclusive, Read::Snapshot),
        mode(Lock::Exclusive, Read::Snapshot),
    ],
    promises: &[Level::SnapshotIsolation],
    note: "Snapshot isolation. The snapshot is taken by the first access to data after BEGIN.",
    ..SQL_SERVER_RCSI
};

const INNODB: &str = "InnoDB. Every plain SELECT inside a transaction becomes a SELECT FOR SHARE with next-key locks; a \
    SELECT that is a transaction of its own (autocommit) reads a snapshot without locking. Serializable is promised, \
    real time is not.";

const SQLITE: Profile = Profile {
    dbms: "sqlite",
    default: true,
    mutual_exclusion: Some(Granularity::Database),
    skips_unchanged: true,
    modes: LONG,
    promises: &[Level::StrictSerializable],
    note: "Rollback journal: readers share, one writer excludes all when it commits. Locks cover the whole database, so \
        predicates are covered too, and an acknowledged commit is seen by whoever starts later. An UPDATE that leaves \
        all as it was writes no page.",
    cites: &["SQLite", "Leopard"],
    ..TWO_PHASE
};

const SQLITE_WAL: Profile = Profile {
    own_name: "WAL",
    default: false,
    protocol: "single writer+MVCC",
    consistent_read: Some(Snapshot::FirstRead),
    first_updater_wins: true,
    modes: [
        mode(Lock::None, Read::Snapshot),
        mode(Lock::None, Read::Snapshot),
        mode(Lock::None, Read::Snapshot),
        mode(Lock::Exclusive, Read::Snapshot),
        mode(Lock::Exclusive, Read::Snapshot),
        mode(Lock::Exclusive, Read::Snapshot),
    ],
    note: "Write-ahead log: readers see the snapshot of their first read; one writer at a time, and a reader that \
        becomes a writer fails if its snapshot is not the newest. An UPDATE that leaves all as it was writes no page, \
        so that the snapshots of others stay the newest.",
    ..SQLITE
};

/// Connections that share one cache lock tables, whatever the journal: it is about what other
/// caches see.
const SQLITE_SHARED: Profile = Profile {
    dbms: "sqlite-shared",
    note: "Connections of one process with one cache: one writer at a time, and locks on tables to the end of the \
        transaction. A read sees the newest committed state, also in WAL mode, where only other caches get snapshots.",
    cites: &["SQLite"],
    ..SQLITE
};

/// Reads lock; writes are buffered, and blind ones of one cell may share its lock, so that only FOR
/// UPDATE locks by itself before the commit.
const BUFFERED: [Mode; 6] = {
    let search = mode_over(Lock::Share, Read::Newest, PredicateLock::Blocking);
    let write = mode(Lock::None, Read::Newest);
    [search, search, mode(Lock::Exclusive, Read::Newest), write, write, write]
};

const SPANNER: Profile = Profile {
    dbms: "spanner",
    default: true,
    protocol: "2PL+MVCC",
    modes: BUFFERED,
    promises: &[Level::StrictSerializable],
    note: "Read-write transactions lock (external consistency by TrueTime commit timestamps); read-only ones read at a \
        timestamp. Writes are buffered to the commit. Stale reads, if asked for, are outside the promise.",
    cites: &["Spanner", "Leopard"],
    ..TWO_PHASE
};

pub(super) const ROWS: &[Profile] = &[
    DERBY_RU,
    DERBY_RC,
    DERBY_RR,
    TWO_PHASE,
    Profile { dbms: "sql-server", cites: SQL_SERVER, ..DERBY_RU },
    SQL_SERVER_RC,
    SQL_SERVER_RCSI,
    Profile { dbms: "sql-server", cites: SQL_SERVER, ..DERBY_RR },
    SQL_SERVER_SI,
    Profile { dbms: "sql-server", cites: SQL_SERVER, ..TWO_PHASE },
    Profile {
        dbms: "mysql",
        note: "InnoDB. Writers still lock.",
        cites: &["MySQL", "Hermitage", "Leopard"],
        ..DERBY_RU
    },
    Profile { dbms: "mysql", note: INNODB, cites: &["MySQL", "Hermitage", "Leopard"], ..TWO_PHASE },
    Profile {
        dbms: "mariadb",
        note: "InnoDB. Writers still lock.",
        cites: &["MariaDB", "Leopard"],
        ..DERBY_RU
    },
    Profile { dbms: "mariadb", note: INNODB, cites: &["MariaDB", "Leopard"], ..TWO_PHASE },
    Profile { dbms: "aurora-mysql", note: INNODB, cites: &["Leopard", "MySQL"], ..TWO_PHASE },
    Profile { dbms: "polardb", note: INNODB, cites: &["Leopard", "MySQL"], ..TWO_PHASE },
    Profile {
        dbms: "sqlite",
        note: "Only within one shared cache and after PRAGMA read_uncommitted.",
        cites: &["SQLite", "Leopard"],
        mutual_exclusion: Some(Granularity::Database),
        ..DERBY_RU
    },
    SQLITE,
    SQLITE_WAL,
    Profile {
        dbms: "sqlite-shared",
        note: "After PRAGMA read_uncommitted.",
        cites: &["SQLite"],
        mutual_exclusion: Some(Granularity::Database),
        ..DERBY_RU
    },
    SQLITE_SHARED,
    Profile { own_name: "WAL", default: false, ..SQLITE_SHARED },
    SPANNER,
];
