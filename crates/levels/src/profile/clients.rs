//! Databases that the drivers of `examples/drivers` run, by their own documentation, as these
//! drivers use them.

use super::{Granularity, Lock, Mode, Profile, Read, Snapshot, embedded, mode};
use crate::Level;

/// Writes lock; reads see the newest committed version.
const NEWEST: [Mode; 6] = {
    let exclusive = mode(Lock::Exclusive, Read::Newest);
    let read = mode(Lock::None, Read::Newest);
    [read, read, exclusive, exclusive, exclusive, exclusive]
};

const FIREBIRD: Profile = Profile {
    dbms: "firebird",
    own_name: "SNAPSHOT",
    default: true,
    protocol: "MVCC",
    mutual_exclusion: Some(Granularity::Row),
    first_updater_wins: true,
    certifier: None,
    modes: embedded::LOCKED,
    promises: &[Level::StrictSnapshotIsolation],
    note: "SNAPSHOT (concurrency): the state at the start of the transaction; a write of a row that another \
        transaction has changed since is a conflict.",
    cites: &["Firebird"],
    ..embedded::OPTIMISTIC
};

const READ_COMMITTED: Profile = Profile {
    own_name: "READ COMMITTED",
    default: false,
    consistent_read: None,
    first_updater_wins: false,
    modes: NEWEST,
    promises: &[Level::ReadCommitted],
    note: "READ COMMITTED RECORD_VERSION: each row in its newest committed version. Before Firebird 4 a statement has \
        no snapshot of its own.",
    ..FIREBIRD
};

const TABLE_STABILITY: Profile = Profile {
    own_name: "TABLE STABILITY",
    default: false,
    note: "SNAPSHOT TABLE STABILITY locks each table when it is first used. The snapshot is older than the locks, so \
        write skew is possible (docs/FINDINGS.md).",
    ..FIREBIRD
};

/// Optimistic: who has read what changed since is refused.
const WATCHED: Profile = Profile {
    dbms: "redis",
    own_name: "WATCH",
    default: true,
    protocol: "OCC",
    consistent_read: None,
    modes: [mode(Lock::None, Read::Newest); 6],
    promises: &[Level::StrictSerializable],
    note: "WATCH before every read; MULTI and EXEC apply all writes at once, unless a watched key has changed. For one \
        server without replicas.",
    cites: &["Redis"],
    ..embedded::OPTIMISTIC
};

const H2: Profile = Profile {
    dbms: "h2",
    own_name: "SERIALIZABLE",
    default: true,
    protocol: "MVCC",
    consistent_read: Some(Snapshot::Within),
    mutual_exclusion: Some(Granularity::Row),
    certifier: None,
    modes: embedded::LOCKED,
    promises: &[Level::SnapshotIsolation],
    note: "SERIALIZABLE is a snapshot: H2's documentation says itself that write skew is possible.",
    cites: &["H2"],
    ..embedded::OPTIMISTIC
};

pub(super) const ROWS: &[Profile] = &[
    FIREBIRD,
    READ_COMMITTED,
    TABLE_STABILITY,
    WATCHED,
    Profile {
        dbms: "etcd",
        own_name: "TXN",
        consistent_read: Some(Snapshot::Begin),
        modes: embedded::UNLOCKED,
        note: "Reads of one revision; the transaction compares the revisions of all keys that were read, and writes if \
            none has changed.",
        cites: &["Etcd"],
        ..WATCHED
    },
    Profile {
        dbms: "lmdb",
        own_name: "WRITER",
        note: "One write transaction at a time.",
        cites: &["Lmdb"],
        ..embedded::SINGLE_WRITER
    },
    H2,
    Profile {
        dbms: "hsqldb",
        note: "hsqldb.tx=mvcc: SERIALIZABLE is a snapshot, and a write of a row that was changed since is refused.",
        cites: &["Hsqldb"],
        ..H2
    },
];
