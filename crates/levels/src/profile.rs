//! Profiles: which mechanisms one DBMS uses at one of its own levels, and what that promises.
//!
//! The rows start from Leopard's Table I and its published verifier \[Leopard\]; where a DBMS's
//! documentation says otherwise the documentation wins, and the row's note says so. A profile errs
//! on the side of promising less: a promise that the database does not make would turn its correct
//! behaviour into a false alarm.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use crate::names::{UnknownName, fold};
use crate::{Anomaly, Level};

mod choose;
mod clients;
mod deviation;
mod embedded;
#[cfg(feature = "toml")]
mod file;
mod generic;
mod lockers;
mod stores;
mod versioned;

pub use choose::{Dbms, NoProfile};
pub use deviation::{Deviation, INSERT_OVER_UNSEEN_DELETION};
#[cfg(feature = "toml")]
pub use file::BadProfile;

/// One DBMS at one of its own levels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Profile {
    /// The DBMS, in the spelling of profile names: `postgresql`.
    pub dbms: &'static str,
    /// The first version that the row describes, for example `[11, 6]`; empty for all.
    pub since: &'static [u32],
    /// The level in the DBMS's own words: `REPEATABLE READ`.
    pub own_name: &'static str,
    /// Whether sessions get this level when they ask for none.
    pub default: bool,
    /// The concurrency control protocol, in Leopard's words.
    pub protocol: &'static str,
    /// Mechanism consistent read: whose snapshot reads see, if any.
    pub consistent_read: Option<Snapshot>,
    /// Mechanism mutual exclusion: what a lock covers, if writers lock.
    pub mutual_exclusion: Option<Granularity>,
    /// Mechanism first updater wins.
    pub first_updater_wins: bool,
    /// Whether a write that leaves a row as it was makes no version: nobody is refused because of
    /// it.
    pub skips_unchanged: bool,
    /// Mechanism serialization certifier.
    pub certifier: Option<Certifier>,
    /// Whether snapshots and commits are points of one clock. Where timestamps come from the clocks
    /// of several servers, or reads of several partitions need not belong together, a snapshot is
    /// no point in real time.
    pub one_clock: bool,
    /// How each kind of statement reads and locks, in the order of [`Statement::ALL`].
    pub modes: [Mode; 6],
    /// The strongest of our levels that the DBMS promises; several where they are incomparable.
    pub promises: &'static [Level],
    /// What the DBMS documents to do all the same.
    pub deviations: &'static [Deviation],
    /// Why the row is as it is; one paragraph.
    pub note: &'static str,
    /// Keys of the sources.
    pub cites: &'static [&'static str],
}

/// Where the snapshot of a consistent read is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Snapshot {
    /// Anew by every statement.
    Statement,
    /// Once, by BEGIN.
    Begin,
    /// Once, by the first statement after BEGIN.
    FirstStatement,
    /// Once, by the first non-locking read (or by START TRANSACTION WITH CONSISTENT SNAPSHOT).
    FirstRead,
    /// Once, at some point between the first statement and the commit: the DBMS may move it forward
    /// as long as what was read stays the same.
    Within,
}

impl Snapshot {
    /// Every place.
    pub const ALL: [Snapshot; 5] = [
        Snapshot::Statement,
        Snapshot::Begin,
        Snapshot::FirstStatement,
        Snapshot::FirstRead,
        Snapshot::Within,
    ];

    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Snapshot::Statement => "statement",
            Snapshot::Begin => "begin",
            Snapshot::FirstStatement => "first statement",
            Snapshot::FirstRead => "first read",
            Snapshot::Within => "within",
        }
    }
}

/// What a lock covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// One object.
    Row,
    /// The whole database: one writer at a time.
    Database,
}

impl Granularity {
    /// Every extent.
    pub const ALL: [Granularity; 2] = [Granularity::Row, Granularity::Database];

    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Granularity::Row => "row",
            Granularity::Database => "database",
        }
    }
}

/// What a certifier refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certifier {
    /// Serializable snapshot isolation: dangerous structures of two consecutive rw edges.
    Ssi,
    /// Timestamp order: a dependency against the order of timestamps.
    TimestampOrder,
    /// Optimistic validation: something read was overwritten before the commit.
    Occ,
    /// Percolator: something written was committed by another since the start timestamp.
    Percolator,
}

impl Certifier {
    /// Every certifier.
    pub const ALL: [Certifier; 4] =
        [Certifier::Ssi, Certifier::TimestampOrder, Certifier::Occ, Certifier::Percolator];

    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Certifier::Ssi => "SSI",
            Certifier::TimestampOrder => "timestamp order",
            Certifier::Occ => "OCC",
            Certifier::Percolator => "Percolator",
        }
    }
}

/// The kinds of statement that modes distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Statement {
    /// A plain SELECT.
    Select,
    /// SELECT … FOR SHARE, LOCK IN SHARE MODE.
    SelectForShare,
    /// SELECT … FOR UPDATE.
    SelectForUpdate,
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

impl Statement {
    /// Every kind, in the order of [`Profile::modes`].
    pub const ALL: [Statement; 6] = [
        Statement::Select,
        Statement::SelectForShare,
        Statement::SelectForUpdate,
        Statement::Insert,
        Statement::Update,
        Statement::Delete,
    ];

    /// The statement in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Statement::Select => "SELECT",
            Statement::SelectForShare => "SELECT FOR SHARE",
            Statement::SelectForUpdate => "SELECT FOR UPDATE",
            Statement::Insert => "INSERT",
            Statement::Update => "UPDATE",
            Statement::Delete => "DELETE",
        }
    }
}

/// How one kind of statement locks and reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    /// The lock on each row it touches.
    pub lock: Lock,
    /// Which versions it reads.
    pub read: Read,
    /// Whether it also locks the predicate.
    pub predicate: PredicateLock,
}

/// The lock that a statement takes on each row it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// None.
    None,
    /// A share lock that ends with the statement.
    ShareStatement,
    /// A share lock to the end of the transaction.
    Share,
    /// An exclusive lock to the end of the transaction.
    Exclusive,
}

impl Lock {
    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Lock::None => "no lock",
            Lock::ShareStatement => "share lock for the statement",
            Lock::Share => "share lock",
            Lock::Exclusive => "exclusive lock",
        }
    }
}

/// Which versions a statement reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// The newest, committed or not.
    Uncommitted,
    /// Those of the snapshot.
    Snapshot,
    /// The newest committed one.
    Newest,
    /// It finds rows in the snapshot, and re-reads the newest committed version of a row changed
    /// since.
    SnapshotThenNewest,
}

impl Read {
    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Read::Uncommitted => "reads uncommitted",
            Read::Snapshot => "reads its snapshot",
            Read::Newest => "reads the newest committed",
            Read::SnapshotThenNewest => "reads its snapshot, then the newest of rows changed since",
        }
    }
}

/// Whether a statement locks its predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PredicateLock {
    /// No.
    None,
    /// Inserts into the predicate wait: gap locks, key-range locks, table locks.
    Blocking,
    /// The certifier remembers it; nobody waits.
    Remembered,
}

impl PredicateLock {
    /// A word for tables, empty where there is nothing to say.
    pub const fn name(self) -> &'static str {
        match self {
            PredicateLock::None => "",
            PredicateLock::Blocking => "locks the predicate",
            PredicateLock::Remembered => "remembers the predicate",
        }
    }
}

const fn mode(lock: Lock, read: Read) -> Mode {
    Mode { lock, read, predicate: PredicateLock::None }
}

const fn mode_over(lock: Lock, read: Read, predicate: PredicateLock) -> Mode {
    Mode { lock, read, predicate }
}

/// The rows by DBMS, weakest promise first.
static SORTED: LazyLock<Vec<&'static Profile>> = LazyLock::new(|| {
    let mut rows: Vec<_> =
        [versioned::ROWS, lockers::ROWS, embedded::ROWS, stores::ROWS, clients::ROWS, generic::ROWS]
            .into_iter()
            .flatten()
            .collect();
    rows.sort_by_key(|p| (p.dbms, p.promises.first(), p.since));
    rows
});

/// Every profile.
pub fn all() -> impl Iterator<Item = &'static Profile> {
    SORTED.iter().copied()
}

/// Other spellings of DBMS names.
const SPELLINGS: &[(&str, &str)] = &[
    ("postgres", "postgresql"),
    ("pg", "postgresql"),
    ("innodb", "mysql"),
    ("aurora", "aurora-mysql"),
    ("crdb", "cockroachdb"),
    ("cockroach", "cockroachdb"),
    ("yugabyte", "yugabytedb"),
    ("mssql", "sql-server"),
    ("sqlserver", "sql-server"),
    ("hana", "sap-hana"),
    ("fdb", "foundationdb"),
    ("memsql", "singlestore"),
];

/// How the DBMS write their own names, where that is not the spelling of profile names.
const TITLES: &[&str] = &[
    "Aurora MySQL",
    "CockroachDB",
    "Derby",
    "DuckDB",
    "Fjall",
    "FoundationDB",
    "MariaDB",
    "MySQL",
    "NuoDB",
    "OceanBase",
    "openGauss",
    "Oracle",
    "PolarDB",
    "PostgreSQL",
    "RocksDB",
    "SAP HANA",
    "SingleStore",
    "SlateDB",
    "Spanner",
    "SQL Server",
    "SQLite",
    "SurrealKV",
    "TiDB",
    "Turso",
    "YugabyteDB",
];

impl Profile {
    /// The profile's name without a version: `postgresql/repeatable-read`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.dbms, fold(self.own_name))
    }

    /// The profile in words: `PostgreSQL's REPEATABLE READ`.
    pub fn title(&self) -> String {
        let dbms = TITLES.iter().find(|title| fold(title) == self.dbms).copied().unwrap_or(self.dbms);
        format!("{dbms}'s {}", self.own_name)
    }

    /// How a kind of statement locks and reads.
    pub const fn mode(&self, statement: Statement) -> Mode {
        self.modes[statement as usize]
    }

    /// Whether the DBMS uses the mechanism that an anomaly of this name says is broken; `false` for
    /// other anomalies.
    pub const fn uses(&self, mechanism: Anomaly) -> bool {
        match mechanism {
            Anomaly::ConsistentRead => self.consistent_read.is_some(),
            Anomaly::MutualExclusion => self.mutual_exclusion.is_some(),
            Anomaly::FirstUpdaterWins => self.first_updater_wins,
            Anomaly::SerializationCertifier => self.certifier.is_some(),
            _ => false,
        }
    }

    /// Why the row contradicts itself, if it does.
    pub fn contradiction(&self) -> Option<&'static str> {
        let locks = self.modes.iter().any(|m| m.lock == Lock::Exclusive);
        let snapshot = self.modes.iter().any(|m| matches!(m.read, Read::Snapshot | Read::SnapshotThenNewest));
        let comparable = |a: &Level| self.promises.iter().any(|b| a != b && a.implies(*b));
        if self.promises.is_empty() {
            Some("it promises nothing")
        } else if self.promises.iter().any(comparable) {
            Some("one of its promises implies another")
        } else if self.mutual_exclusion.is_some() != locks {
            Some("mutual exclusion and statements that lock exclusively go together")
        } else if self.consistent_read.is_some() != snapshot {
            Some("consistent read and statements that read a snapshot go together")
        } else {
            None
        }
    }

    /// Whether the DBMS promises `level` here.
    pub fn promises(&self, level: Level) -> bool {
        self.promises.iter().any(|p| p.implies(level))
    }

    /// The profile of a DBMS (in any spelling) at a version and a level of its own.
    ///
    /// Without a version the newest row counts, without a level the default one. The version is a
    /// prefix such as `15` or `8.0`; among rows that start at different versions the last that is
    /// not newer is taken.
    pub fn find(dbms: &str, version: Option<&str>, level: Option<&str>) -> Option<&'static Profile> {
        let dbms = spelled(dbms);
        let version = version.map(numbers);
        all()
            .filter(|p| p.dbms == dbms && level.map_or(p.default, |l| p.is_level(l)))
            .filter(|p| version.as_ref().is_none_or(|v| p.since <= v.as_slice()))
            .max_by_key(|p| p.since)
    }

    fn is_level(&self, name: &str) -> bool {
        let (own, wanted) = (fold(self.own_name), fold(name));
        // `SI`, `SER` and the like are understood where the DBMS uses the long name.
        own == wanted || wanted.parse::<Level>().is_ok_and(|l| l.name() == own)
    }
}

fn spelled(dbms: &str) -> String {
    let folded = fold(dbms);
    SPELLINGS.iter().find(|s| s.0 == folded).map_or(folded, |s| s.1.to_owned())
}

/// Whether two names, each perhaps with a version and a level, are of one DBMS.
pub fn same_dbms(one: &str, other: &str) -> bool {
    let dbms = |name: &str| spelled(split_version(name.split('/').next().unwrap_or(name).trim()).0);
    dbms(one) == dbms(other)
}

/// `8.0.46` as numbers; what is no number ends it.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|n| n.parse().ok()).collect()
}

/// `postgresql-15` as DBMS and version; the version starts at the last dash that a digit follows.
fn split_version(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('-') {
        Some((dbms, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => (dbms, Some(version)),
        _ => (text, None),
    }
}

/// A profile that was looked up by name.
#[derive(Clone, Copy, Debug)]
pub struct Found(pub &'static Profile);

impl FromStr for Found {
    type Err = UnknownName;

    /// `postgresql-15/serializable`, `postgresql/serializable`, or `postgresql-15` for the default
    /// level.
    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let (left, level) = match s.trim().split_once('/') {
            Some((left, level)) => (left, Some(level)),
            None => (s.trim(), None),
        };
        let (dbms, version) = split_version(left);
        Profile::find(dbms, version, level).map(Found).ok_or_else(|| unknown(s, &spelled(dbms)))
    }
}

/// The levels of a known DBMS are nearer than anything else.
fn unknown(name: &str, dbms: &str) -> UnknownName {
    let of_dbms: Vec<String> = all().filter(|p| p.dbms == dbms).map(Profile::name).collect();
    let nearest = match of_dbms.is_empty() {
        true => crate::names::nearest(dbms, all().map(|p| p.dbms)),
        false => of_dbms,
    };
    UnknownName { kind: "profile", name: name.to_owned(), nearest }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn profile(name: &str) -> &'static Profile {
        name.parse::<Found>().unwrap_or_else(|e| panic!("{e}")).0
    }

    #[test]
    fn looked_up_by_name() {
        assert_eq!(profile("postgresql-15/serializable").name(), "postgresql/serializable");
        assert_eq!(profile("pg/SER").name(), "postgresql/serializable");
        assert_eq!(profile("postgres-9.3.5").name(), "postgresql/read-committed");
        assert_eq!(profile("sql-server-2019/snapshot").name(), "sql-server/snapshot");
        assert!("nosuch/serializable".parse::<Found>().is_err());
        let error = "postgresql/causal".parse::<Found>().unwrap_err();
        assert!(error.nearest.contains(&"postgresql/repeatable-read".to_owned()), "{error}");
    }

    #[test]
    fn titles_are_for_people() {
        assert_eq!(profile("pg/repeatable-read").title(), "PostgreSQL's REPEATABLE READ");
        assert_eq!(profile("sql-server/snapshot").title(), "SQL Server's SNAPSHOT");
        assert!(TITLES.iter().all(|title| all().any(|p| p.dbms == fold(title))));
    }

    #[test]
    fn versions_choose_the_row() {
        assert!(!profile("mariadb-10.11.19/repeatable-read").first_updater_wins);
        assert!(profile("mariadb-11.8/repeatable-read").first_updater_wins);
        assert!(profile("mariadb/repeatable-read").first_updater_wins);
        assert!("cockroachdb-22.1/read-committed".parse::<Found>().is_err());
    }

    #[test]
    fn every_name_finds_its_row_and_every_dbms_has_one_default() {
        let mut seen = HashSet::new();
        for p in all() {
            assert!(seen.insert((p.dbms, p.since, p.own_name)), "{p} twice");
            assert_eq!(profile(&p.name()).own_name, p.own_name);
            let defaults = all().filter(|q| q.dbms == p.dbms && q.default).map(|q| q.own_name);
            assert_eq!(defaults.collect::<HashSet<_>>().len(), 1, "{}", p.dbms);
        }
    }

    #[test]
    fn promises_are_incomparable_and_mechanisms_fit() {
        for p in all() {
            assert_eq!(p.contradiction(), None, "{p}");
        }
    }

    /// Every DBMS and level of Leopard's Table I has a row.
    #[test]
    fn the_published_table_is_covered() {
        let table = [
            ("postgresql opengauss yugabytedb", "serializable repeatable-read read-committed"),
            ("mysql sql-server aurora-mysql polardb", "serializable repeatable-read read-committed"),
            ("tidb", "repeatable-read read-committed optimistic"),
            ("rocksdb", "pessimistic optimistic"),
            ("sqlite foundationdb cockroachdb spanner", "serializable"),
            ("singlestore", "read-committed"),
            ("oracle", "serializable read-committed"),
            ("sap-hana oceanbase", "repeatable-read read-committed"),
            ("nuodb", "consistent-read read-committed"),
        ];
        for (databases, levels) in table {
            for dbms in databases.split(' ') {
                for level in levels.split(' ') {
                    let row = profile(&format!("{dbms}/{level}"));
                    assert!(row.cites.contains(&"Leopard") || row.cites.len() > 1, "{row}: {:?}", row.cites);
                }
            }
        }
    }

    #[test]
    fn the_pinned_promises() {
        use Level::*;
        let cases = [
            ("postgresql/read-committed", ReadCommitted),
            ("postgresql/repeatable-read", StrictSnapshotIsolation),
            ("postgresql/serializable", Serializable),
            ("mysql/repeatable-read", ReadCommitted),
            ("sqlite/serializable", StrictSerializable),
        ];
        for (name, level) in cases {
            assert_eq!(profile(name).promises, [level], "{name}");
        }
    }
}
