//! The protocols, as data: names, promises, and why they are kept. The code of each is in its own
//! file under `rules`.

use std::fmt;
use std::str::FromStr;

use margay_levels::Level;
use margay_levels::UnknownName;

use crate::config::Mix;

/// A concurrency control protocol that a simulated database can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Protocol {
    /// One transaction at a time.
    Serial,
    /// Strong strict two-phase locking with predicate locks.
    Ss2pl,
    /// Read committed by short read locks.
    RcLocking,
    /// Read committed by statement snapshots.
    RcMvcc,
    /// Snapshot isolation, first updater wins.
    SiFuw,
    /// Snapshot isolation, first committer wins.
    SiFcw,
    /// Serializable snapshot isolation with PostgreSQL's rules.
    Ssi,
    /// Optimistic concurrency control with backward validation.
    Occ,
    /// Multi-version timestamp ordering.
    Mvto,
    /// Percolator's two-phase commit over snapshots.
    Percolator,
    /// InnoDB's REPEATABLE READ.
    InnodbRr,
    /// Reads take no locks and see uncommitted data.
    ReadUncommitted,
}

use Protocol::*;

impl Protocol {
    /// Every protocol.
    pub const ALL: [Protocol; 12] = [
        Serial,
        Ss2pl,
        RcLocking,
        RcMvcc,
        SiFuw,
        SiFcw,
        Ssi,
        Occ,
        Mvto,
        Percolator,
        InnodbRr,
        ReadUncommitted,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Serial => "serial",
            Ss2pl => "ss2pl",
            RcLocking => "rc-locking",
            RcMvcc => "rc-mvcc",
            SiFuw => "si-fuw",
            SiFcw => "si-fcw",
            Ssi => "ssi",
            Occ => "occ",
            Mvto => "mvto",
            Percolator => "percolator",
            InnodbRr => "innodb-rr",
            ReadUncommitted => "read-uncommitted",
        }
    }

    /// One line.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Serial => "one transaction at a time",
            Ss2pl => "shared, exclusive and predicate locks, all held to the end; deadlock victims abort",
            RcLocking => "exclusive locks held to the end, shared locks for the statement only",
            RcMvcc => "a snapshot per statement; a waiting update re-checks the newest row, as in PostgreSQL",
            SiFuw => {
                "a snapshot per transaction; a transaction that finds a newer version when it updates aborts"
            }
            SiFcw => {
                "a snapshot per transaction; a transaction that finds a newer version when it commits aborts"
            }
            Ssi => "si-fuw and PostgreSQL's certifier of read-write conflicts",
            Occ => "reads the newest committed data and validates it against later commits when it commits",
            Mvto => "every transaction reads and writes at its own timestamp",
            Percolator => "snapshot reads, prewrite locks on every written object, then a commit timestamp",
            InnodbRr => "snapshot reads, but updates read and change the newest committed rows",
            ReadUncommitted => "exclusive locks for writes, no locks for reads, which see uncommitted data",
        }
    }

    /// The strongest levels that it implements, whatever the workload. What they imply holds too.
    ///
    /// A transaction's points lie inside its recorded interval: snapshots and timestamps are taken
    /// by its first statement, and a commit takes effect before it is answered. That is what makes
    /// the serializable protocols strict. The proofs stand in the modules under `rules`; in short:
    #[must_use]
    pub const fn promises(self) -> &'static [Level] {
        match self {
            // The serial order is the order of execution [Papadimitriou1979].
            Serial => &[Level::StrictSerializable],
            // All locks are held at the commit point, so commit order is a serial order (Bernstein,
            // Hadzilacos and Goodman 1987).
            Ss2pl => &[Level::StrictSerializable],
            // At the commit point everything read is still the newest: validation is the
            // serialization point [KungRobinson1981].
            Occ => &[Level::StrictSerializable],
            // Timestamps come from one counter inside the transactions' intervals and are the
            // serial order (Reed 1978).
            Mvto => &[Level::StrictSerializable],
            // Every cycle over wr, ww, rw and real time has two adjacent rw edges into its first
            // committer; the certifier allows none [Fekete2005, PortsGrittner2012].
            Ssi => &[Level::StrictSerializable],
            // Snapshots are prefixes of the commit order, taken after the transaction began
            // [Berenson1995].
            SiFuw | SiFcw | Percolator => &[Level::StrictSnapshotIsolation],
            // Every statement sees a prefix of the commit order, and later statements see longer
            // ones.
            RcLocking | RcMvcc => &[Level::BeReadCommitted],
            // A predicate update reads rows newer than the snapshot, and a snapshot read after it
            // goes back behind them: Hermitage's results for MySQL, which leave no more than Adya's
            // PL-2 once such updates are in play.
            InnodbRr => &[Level::ReadCommitted],
            // Writers exclude each other to the end, so the order of commits orders all versions.
            ReadUncommitted => &[Level::ReadUncommitted],
        }
    }

    /// The strongest levels that it implements on workloads of this mix.
    ///
    /// On registers alone, InnoDB's current reads are blind writes, and its snapshot reads see
    /// prefixes of the commit order.
    #[must_use]
    pub fn promises_on(self, mix: &Mix) -> &'static [Level] {
        match self {
            InnodbRr if mix.only_registers() => &[Level::Prefix],
            _ => self.promises(),
        }
    }

    /// Whether what a predicate read saw of rows that it did not return belongs to one state with
    /// the rest.
    ///
    /// Protocols that protect conditions rather than rows let a row change under a predicate read
    /// as long as it does not match before or after. Nothing is wrong with that, for such a change
    /// is no conflict, but the version that was there is not the one of the serial order; so their
    /// evidence names the versions of the returned rows only.
    pub(crate) fn sees_whole_tables(self) -> bool {
        !matches!(self, Ss2pl | Ssi | Occ | Mvto)
    }

    /// Whether every history of this protocol satisfies `level`.
    #[must_use]
    pub fn implements(self, level: Level) -> bool {
        self.promises().iter().any(|promised| promised.implies(level))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Protocol {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| UnknownName::among("protocol", name, Self::ALL.map(Self::name)))
    }
}
