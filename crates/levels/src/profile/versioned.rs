//! Databases whose plain reads see a snapshot.

use super::{
    Certifier, Granularity, INSERT_OVER_UNSEEN_DELETION, Lock, Mode, PredicateLock, Profile, Read, Snapshot,
    mode, mode_over,
};
use crate::Level;

/// Statements that find rows in the snapshot and re-check those changed since: read committed,
/// PostgreSQL's way.
const RECHECK: [Mode; 6] = [
    mode(Lock::None, Read::Snapshot),
    mode(Lock::Share, Read::SnapshotThenNewest),
    mode(Lock::Exclusive, Read::SnapshotThenNewest),
    mode(Lock::Exclusive, Read::Newest),
    mode(Lock::Exclusive, Read::SnapshotThenNewest),
    mode(Lock::Exclusive, Read::SnapshotThenNewest),
];

/// Everything reads the snapshot; a row changed since makes the statement fail. An insert meets the
/// newest version of its key, whatever the snapshot says.
const ONE_SNAPSHOT: [Mode; 6] = [
    mode(Lock::None, Read::Snapshot),
    mode(Lock::Share, Read::Snapshot),
    mode(Lock::Exclusive, Read::Snapshot),
    mode(Lock::Exclusive, Read::Newest),
    mode(Lock::Exclusive, Read::Snapshot),
    mode(Lock::Exclusive, Read::Snapshot),
];

/// As above, and the certifier remembers what was read.
const ONE_SNAPSHOT_REMEMBERED: [Mode; 6] = [
    mode_over(Lock::None, Read::Snapshot, PredicateLock::Remembered),
    mode_over(Lock::Share, Read::Snapshot, PredicateLock::Remembered),
    mode_over(Lock::Exclusive, Read::Snapshot, PredicateLock::Remembered),
    mode(Lock::Exclusive, Read::Newest),
    mode_over(Lock::Exclusive, Read::Snapshot, PredicateLock::Remembered),
    mode_over(Lock::Exclusive, Read::Snapshot, PredicateLock::Remembered),
];

/// Plain reads see the snapshot, everything else the newest committed version: InnoDB's and TiDB's
/// way.
const SNAPSHOT_AND_NEWEST: [Mode; 6] = [
    mode(Lock::None, Read::Snapshot),
    mode(Lock::Share, Read::Newest),
    mode(Lock::Exclusive, Read::Newest),
    mode(Lock::Exclusive, Read::Newest),
    mode(Lock::Exclusive, Read::Newest),
    mode(Lock::Exclusive, Read::Newest),
];

/// As above, with next-key locks on what locking statements searched.
const SNAPSHOT_AND_GAPS: [Mode; 6] = [
    mode(Lock::None, Read::Snapshot),
    mode_over(Lock::Share, Read::Newest, PredicateLock::Blocking),
    mode_over(Lock::Exclusive, Read::Newest, PredicateLock::Blocking),
    mode(Lock::Exclusive, Read::Newest),
    mode_over(Lock::Exclusive, Read::Newest, PredicateLock::Blocking),
    mode_over(Lock::Exclusive, Read::Newest, PredicateLock::Blocking),
];

/// Snapshot reads, and writes that are checked at commit instead of locked.
const UNLOCKED: [Mode; 6] = [mode(Lock::None, Read::Snapshot); 6];

const POSTGRESQL: Profile = Profile {
    dbms: "postgresql",
    since: &[],
    own_name: "READ COMMITTED",
    default: true,
    protocol: "2PL+MVCC+SSI",
    consistent_read: Some(Snapshot::Statement),
    mutual_exclusion: Some(Granularity::Row),
    first_updater_wins: false,
    skips_unchanged: false,
    certifier: None,
    one_clock: true,
    modes: RECHECK,
    promises: &[Level::ReadCommitted],
    deviations: &[],
    note: "Each statement has its own snapshot. UPDATE, DELETE and locking reads wait for a row's writer and then \
        re-check the newest version, so one statement may see rows of two states: not even be-read-committed. \
        READ UNCOMMITTED behaves the same. Leopard's Table I marks first updater wins here; its own IL-Description \
        and the documentation do not.",
    cites: &["PostgreSQL", "Hermitage", "Leopard"],
};

const POSTGRESQL_RR: Profile = Profile {
    own_name: "REPEATABLE READ",
    default: false,
    consistent_read: Some(Snapshot::FirstStatement),
    first_updater_wins: true,
    modes: ONE_SNAPSHOT,
    promises: &[Level::StrictSnapshotIsolation],
    deviations: &[INSERT_OVER_UNSEEN_DELETION],
    note: "Snapshot isolation. The snapshot is taken by the first statement after BEGIN, and contains whatever was \
        acknowledged before. Known and intended: after another transaction's committed DELETE of a key, an INSERT \
        of it makes both versions visible to the inserting transaction. It is another row, so that first updater wins \
        says nothing of it: whatever may have been inserted over a deletion since its snapshot is not held against others.",
    ..POSTGRESQL
};

const POSTGRESQL_SER: Profile = Profile {
    own_name: "SERIALIZABLE",
    certifier: Some(Certifier::Ssi),
    modes: ONE_SNAPSHOT_REMEMBERED,
    // Not strict: the documentation promises the effect of *some* serial order and the order that
    // SSI leads to is not the order of commits [PortsGrittner2012, ONeil2016]: a transaction that
    // commits later may come first. That is so for overlapping transactions; for others the
    // argument that the last of the dangerous structure commits first extends to real-time edges on
    // one server, but nobody promises it, so neither do we.
    promises: &[Level::Serializable],
    note: "Serializable snapshot isolation: two consecutive rw edges are refused only if the last of the three \
        transactions commits first, and with a read-only first transaction only if that commit came before its \
        snapshot. The serial order is some order, not the order of commits, and real time is not promised.",
    cites: &["PostgreSQL", "PortsGrittner2012", "ONeil2016", "Hermitage", "Leopard"],
    deviations: &[],
    ..POSTGRESQL_RR
};

const OPENGAUSS: Profile =
    Profile { dbms: "opengauss", protocol: "2PL+MVCC", cites: &["OpenGauss", "Leopard"], ..POSTGRESQL };

const OPENGAUSS_RR: Profile = Profile {
    dbms: "opengauss",
    protocol: "2PL+MVCC",
    promises: &[Level::SnapshotIsolation],
    note: "As PostgreSQL's. Some drivers take the snapshot at BEGIN. SERIALIZABLE is accepted and means this.",
    cites: &["OpenGauss", "Leopard"],
    deviations: &[],
    ..POSTGRESQL_RR
};

const OPENGAUSS_SER: Profile = Profile { own_name: "SERIALIZABLE", ..OPENGAUSS_RR };

const YUGABYTE: Profile = Profile {
    dbms: "yugabytedb",
    one_clock: false,
    note: "Each statement has its own snapshot and is retried on conflict.",
    cites: &["YugabyteDB", "Hermitage", "Leopard"],
    ..POSTGRESQL
};

const YUGABYTE_RR: Profile = Profile {
    dbms: "yugabytedb",
    one_clock: false,
    promises: &[Level::SnapshotIsolation],
    note: "Snapshot isolation over hybrid logical clocks; real time holds only within the clock skew.",
    cites: &["YugabyteDB", "Hermitage", "Leopard"],
    deviations: &[],
    ..POSTGRESQL_RR
};

const YUGABYTE_SER: Profile = Profile {
    own_name: "SERIALIZABLE",
    promises: &[Level::Serializable],
    note: "Serializable by read intents that conflict with writers. Leopard counts it to SSI; the documentation \
        describes locks, so no certifier is assumed here.",
    ..YUGABYTE_RR
};

const MYSQL_RC: Profile = Profile {
    dbms: "mysql",
    since: &[],
    own_name: "READ COMMITTED",
    default: false,
    protocol: "2PL+MVCC",
    consistent_read: Some(Snapshot::Statement),
    mutual_exclusion: Some(Granularity::Row),
    first_updater_wins: false,
    skips_unchanged: false,
    certifier: None,
    one_clock: true,
    modes: SNAPSHOT_AND_NEWEST,
    promises: &[Level::ReadCommitted],
    deviations: &[],
    note: "InnoDB. A plain SELECT has a snapshot of its own; everything else reads the newest committed version.",
    cites: &["MySQL", "Hermitage", "Leopard"],
};

const MYSQL_RR: Profile = Profile {
    own_name: "REPEATABLE READ",
    default: true,
    consistent_read: Some(Snapshot::FirstRead),
    modes: SNAPSHOT_AND_GAPS,
    note: "InnoDB. Plain SELECTs share one snapshot; locking reads, UPDATE and DELETE read the newest committed \
        version and overwrite it without complaint, after which the transaction's own SELECTs mix both. So lost \
        updates and read skew occur in transactions that write, and what is left to promise is read committed: \
        Hermitage finds monotonic atomic view. An UPDATE that changes nothing leaves the old version visible.",
    ..MYSQL_RC
};

const MARIADB_RR: Profile =
    Profile { dbms: "mariadb", cites: &["MariaDB", "Hermitage", "Leopard"], ..MYSQL_RR };

const MARIADB_RR_SI: Profile = Profile {
    since: &[11, 6, 2],
    first_updater_wins: true,
    skips_unchanged: true,
    promises: &[Level::SnapshotIsolation],
    note: "With innodb_snapshot_isolation=ON, the default from 11.6.2 and available before: a locking statement that \
        meets a version newer than the snapshot fails, which makes it snapshot isolation. `margay run` asks for it; \
        who has switched it off has mysql/repeatable-read.",
    cites: &["MariaDB"],
    ..MARIADB_RR
};

const TIDB_RR: Profile = Profile {
    dbms: "tidb",
    own_name: "REPEATABLE READ",
    default: true,
    consistent_read: Some(Snapshot::Begin),
    note: "Pessimistic transactions. Plain reads use the snapshot of BEGIN's timestamp, locking statements the newest \
        committed version, as in InnoDB and with the same consequences, but without gap locks.",
    cites: &["TiDB", "Hermitage", "Leopard"],
    ..MYSQL_RC
};

const TIDB_OPTIMISTIC: Profile = Profile {
    own_name: "OPTIMISTIC",
    default: false,
    protocol: "Percolator",
    mutual_exclusion: None,
    skips_unchanged: true,
    certifier: Some(Certifier::Percolator),
    modes: UNLOCKED,
    promises: &[Level::SnapshotIsolation],
    note: "Optimistic transactions: writes are checked against other commits since the start timestamp. Automatic \
        retry (tidb_disable_txn_auto_retry=off, the default of old versions) loses updates.",
    cites: &["TiDB", "Percolator", "Leopard"],
    ..TIDB_RR
};

const COCKROACH: Profile = Profile {
    dbms: "cockroachdb",
    since: &[],
    own_name: "SERIALIZABLE",
    default: true,
    protocol: "TO+MVCC",
    consistent_read: Some(Snapshot::Within),
    mutual_exclusion: None,
    first_updater_wins: false,
    skips_unchanged: false,
    certifier: Some(Certifier::TimestampOrder),
    one_clock: false,
    modes: UNLOCKED,
    promises: &[Level::Serializable],
    deviations: &[],
    note: "A transaction may move to a later timestamp if what it read is still current there, so its snapshot is \
        that of its final timestamp. Real time holds for transactions that touch common keys, not in general \
        (causal reverse), hence not strict. Locks of FOR UPDATE are best effort and prove nothing.",
    cites: &["CockroachDB", "Hermitage", "Leopard"],
};

const COCKROACH_RC: Profile = Profile {
    since: &[23, 2],
    own_name: "READ COMMITTED",
    default: false,
    consistent_read: Some(Snapshot::Statement),
    mutual_exclusion: Some(Granularity::Row),
    certifier: None,
    modes: RECHECK,
    promises: &[Level::ReadCommitted],
    note: "Each statement has its own snapshot and is retried at a later one on conflict.",
    cites: &["CockroachDB", "Hermitage"],
    ..COCKROACH
};

const COCKROACH_RR: Profile = Profile {
    own_name: "REPEATABLE READ",
    consistent_read: Some(Snapshot::FirstStatement),
    first_updater_wins: true,
    modes: ONE_SNAPSHOT,
    promises: &[Level::SnapshotIsolation],
    note: "Snapshot isolation.",
    ..COCKROACH_RC
};

const ORACLE_RC: Profile = Profile {
    dbms: "oracle",
    protocol: "2PL+MVCC",
    note: "Each statement has its own snapshot; DML restarts when it meets a newer version.",
    cites: &["Oracle", "Hermitage", "Leopard"],
    ..POSTGRESQL
};

const ORACLE_SER: Profile = Profile {
    own_name: "SERIALIZABLE",
    default: false,
    consistent_read: Some(Snapshot::Begin),
    first_updater_wins: true,
    modes: ONE_SNAPSHOT,
    promises: &[Level::SnapshotIsolation],
    note: "In spite of its name, snapshot isolation: write skew occurs.",
    ..ORACLE_RC
};

const OCEANBASE_RC: Profile = Profile { dbms: "oceanbase", cites: &["OceanBase", "Leopard"], ..ORACLE_RC };

const OCEANBASE_RR: Profile = Profile {
    dbms: "oceanbase",
    own_name: "REPEATABLE READ",
    consistent_read: Some(Snapshot::FirstStatement),
    skips_unchanged: true,
    note: "Snapshot isolation. SERIALIZABLE is the same.",
    cites: &["OceanBase", "Leopard"],
    ..ORACLE_SER
};

const HANA_RC: Profile = Profile { dbms: "sap-hana", cites: &["SapHana", "Leopard"], ..ORACLE_RC };

const HANA_SI: Profile = Profile {
    dbms: "sap-hana",
    own_name: "REPEATABLE READ",
    note: "Snapshot isolation at transaction level. SERIALIZABLE is the same.",
    cites: &["SapHana", "Leopard"],
    ..ORACLE_SER
};

const NUODB_RC: Profile =
    Profile { dbms: "nuodb", default: false, one_clock: false, cites: &["NuoDB", "Leopard"], ..ORACLE_RC };

const NUODB_SI: Profile = Profile {
    dbms: "nuodb",
    own_name: "CONSISTENT READ",
    default: true,
    one_clock: false,
    note: "Snapshot isolation by multi-versioning.",
    cites: &["NuoDB", "Leopard"],
    ..ORACLE_SER
};

const SINGLESTORE: Profile = Profile {
    dbms: "singlestore",
    default: true,
    one_clock: false,
    note: "Its only level.",
    cites: &["SingleStore", "Leopard"],
    ..MYSQL_RC
};

const FOUNDATIONDB: Profile = Profile {
    dbms: "foundationdb",
    protocol: "OCC+MVCC",
    consistent_read: Some(Snapshot::FirstStatement),
    certifier: Some(Certifier::Occ),
    one_clock: true,
    promises: &[Level::StrictSerializable],
    note: "The read version is obtained by the first read and contains every acknowledged commit; at commit the read \
        set is validated. Snapshot reads, if an application asks for them, are outside the promise.",
    cites: &["FoundationDB", "Hermitage", "Leopard"],
    ..COCKROACH
};

pub(super) const ROWS: &[Profile] = &[
    POSTGRESQL,
    POSTGRESQL_RR,
    POSTGRESQL_SER,
    OPENGAUSS,
    OPENGAUSS_RR,
    OPENGAUSS_SER,
    YUGABYTE,
    YUGABYTE_RR,
    YUGABYTE_SER,
    MYSQL_RC,
    MYSQL_RR,
    Profile { dbms: "mariadb", cites: &["MariaDB", "Leopard"], ..MYSQL_RC },
    MARIADB_RR,
    MARIADB_RR_SI,
    Profile { dbms: "aurora-mysql", cites: &["Leopard", "MySQL"], ..MYSQL_RC },
    Profile { dbms: "aurora-mysql", cites: &["Leopard", "MySQL"], ..MYSQL_RR },
    Profile { dbms: "polardb", cites: &["Leopard", "MySQL"], ..MYSQL_RC },
    Profile { dbms: "polardb", cites: &["Leopard", "MySQL"], ..MYSQL_RR },
    Profile {
        dbms: "tidb",
        cites: &["TiDB", "Hermitage", "Leopard"],
        note: "Pessimistic transactions.",
        ..MYSQL_RC
    },
    TIDB_RR,
    TIDB_OPTIMISTIC,
    COCKROACH_RC,
    COCKROACH_RR,
    COCKROACH,
    ORACLE_RC,
    ORACLE_SER,
    OCEANBASE_RC,
    OCEANBASE_RR,
    Profile { own_name: "SERIALIZABLE", ..OCEANBASE_RR },
    HANA_RC,
    HANA_SI,
    Profile { own_name: "SERIALIZABLE", ..HANA_SI },
    NUODB_RC,
    NUODB_SI,
    SINGLESTORE,
    FOUNDATIONDB,
];
