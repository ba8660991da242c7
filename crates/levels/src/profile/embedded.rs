//! Embedded engines, by their own documentation. Their calls stand for statements: get for SELECT,
//! put for the rest.

use super::{Certifier, Granularity, Lock, Mode, Profile, Read, Snapshot, mode};
use crate::Level;

/// Snapshot reads, writes checked at commit.
pub(super) const UNLOCKED: [Mode; 6] = [mode(Lock::None, Read::Snapshot); 6];

/// Snapshot reads, writes that lock.
pub(super) const LOCKED: [Mode; 6] = {
    let exclusive = mode(Lock::Exclusive, Read::Snapshot);
    let read = mode(Lock::None, Read::Snapshot);
    [read, read, exclusive, exclusive, exclusive, exclusive]
};

/// Optimistic: one snapshot, validation at commit.
pub(super) const OPTIMISTIC: Profile = Profile {
    dbms: "rocksdb",
    since: &[],
    own_name: "OPTIMISTIC",
    default: false,
    protocol: "OCC+MVCC",
    consistent_read: Some(Snapshot::Begin),
    mutual_exclusion: None,
    first_updater_wins: false,
    skips_unchanged: false,
    certifier: Some(Certifier::Occ),
    one_clock: true,
    modes: UNLOCKED,
    promises: &[Level::SnapshotIsolation],
    deviations: &[],
    note: "OptimisticTransactionDB with a snapshot set at the begin: written keys are validated at commit. Reads \
        without the snapshot see the newest committed version.",
    cites: &["RocksDB", "Leopard"],
};

const ROCKSDB: Profile = Profile {
    own_name: "PESSIMISTIC",
    default: true,
    protocol: "2PL+MVCC",
    mutual_exclusion: Some(Granularity::Row),
    first_updater_wins: true,
    certifier: None,
    modes: LOCKED,
    note: "TransactionDB with a snapshot set at the begin: a write locks its key and fails if the key changed since the \
        snapshot. Reads without the snapshot see the newest committed version.",
    ..OPTIMISTIC
};

const FJALL: Profile = Profile {
    dbms: "fjall",
    own_name: "OPTIMISTIC",
    default: true,
    promises: &[Level::Serializable],
    note: "OptimisticTxDatabase: reads and ranges are remembered and validated at commit.",
    cites: &["Fjall"],
    ..OPTIMISTIC
};

pub(super) const SINGLE_WRITER: Profile = Profile {
    dbms: "redb",
    own_name: "SERIALIZABLE",
    default: true,
    protocol: "single writer+MVCC",
    mutual_exclusion: Some(Granularity::Database),
    first_updater_wins: false,
    certifier: None,
    modes: LOCKED,
    promises: &[Level::StrictSerializable],
    note: "One write transaction at a time; a read transaction sees the newest commit at its begin.",
    cites: &["Redb"],
    ..OPTIMISTIC
};

const SLATEDB: Profile = Profile {
    dbms: "slatedb",
    own_name: "SNAPSHOT",
    default: true,
    note: "IsolationLevel::Snapshot: written keys are validated at commit.",
    cites: &["SlateDB"],
    ..OPTIMISTIC
};

const DUCKDB: Profile = Profile {
    dbms: "duckdb",
    own_name: "SNAPSHOT",
    default: true,
    consistent_read: Some(Snapshot::FirstStatement),
    note: "Optimistic multi-versioning: a write of a row changed since the snapshot fails. BEGIN takes no snapshot \
        yet, the first statement on a table does.",
    cites: &["DuckDB"],
    ..OPTIMISTIC
};

pub(super) const ROWS: &[Profile] = &[
    ROCKSDB,
    OPTIMISTIC,
    FJALL,
    Profile { dbms: "fjall", own_name: "SINGLE WRITER", default: false, cites: &["Fjall"], ..SINGLE_WRITER },
    SINGLE_WRITER,
    SLATEDB,
    Profile {
        own_name: "SERIALIZABLE SNAPSHOT",
        default: false,
        promises: &[Level::Serializable],
        note: "IsolationLevel::SerializableSnapshot: what was read is validated at commit too.",
        ..SLATEDB
    },
    DUCKDB,
];
