//! The faults, as data: names, what each does, where it applies, and which level it breaks.

use std::fmt;
use std::str::FromStr;

use margay_levels::Level;
use margay_levels::UnknownName;

use crate::protocol::Protocol;

/// Makes the faults out of one table: variant, name on the command line, what it does.
macro_rules! faults {
    ($($fault:ident $name:literal $description:literal)*) => {
        /// A way in which a simulated database can be made to misbehave.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Fault {
            $(#[doc = concat!("It is `", $name, "`: ", $description, ".")] $fault,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: [Fault; [$($name),*].len()] = [$(Fault::$fault),*];

            const fn row(self) -> (&'static str, &'static str) {
                match self {
                    $(Fault::$fault => ($name, $description),)*
                }
            }
        }
    };
}

faults! {
    DirtyRead "dirty-read" "a read returns what another transaction has written but not committed"
    AbortedRead "aborted-read" "a read returns what an aborted transaction had written"
    IntermediateRead "intermediate-read" "a read returns a value that its writer has already overwritten itself"
    OwnWriteNotRead "own-write-not-read" "a read does not see what its own transaction wrote before"
    LostUpdate "lost-update" "an update of a version newer than the snapshot is let through"
    StaleSnapshot "stale-snapshot" "a snapshot is older than the transaction"
    StatementSnapshot "statement-snapshot" "a statement reads a new snapshot instead of its transaction's"
    FracturedCommit "fractured-commit" "some writes of a commit become visible later than the rest"
    Phantom "phantom" "a predicate read protects only the rows that it returned"
    WriteSkew "write-skew" "the certifier lets a transaction pass unchecked"
    SsiWriterPivot "ssi-writer-pivot" "a new conflict into a pivot is ignored if the transaction that the pivot conflicts with has committed"
    SsiReaderPivot "ssi-reader-pivot" "a new conflict out of a pivot to a committed writer is ignored"
    SsiPrecommit "ssi-precommit" "a commit does not look for pivots that it makes dangerous"
    SsiForgottenReads "ssi-forgotten-reads" "what a transaction has read is forgotten at its commit"
    LockReleasedEarly "lock-released-early" "locks taken by a statement are released when it ends"
    LockNotTaken "lock-not-taken" "a statement goes on without the lock that it needs"
    ValidationSkipped "validation-skipped" "a transaction that does not pass validation commits"
    TimestampInversion "timestamp-inversion" "a transaction writes at an older timestamp than it reads at"
    PrewriteConflictMissed "prewrite-conflict-missed" "a prewrite ignores a version newer than its snapshot"
    WriteLost "write-lost" "a write of an acknowledged commit is lost"
    WriteTwice "write-twice" "a write is applied twice: an append at once, any other write again some time later"
    AbortedWriteKept "aborted-write-kept" "the writes of an aborted transaction stay"
    VersionOrderInverted "version-order-inverted" "a version is installed below the one that it should follow"
    IndexEntryMissing "index-entry-missing" "a predicate read misses a row that matches"
    WrongAggregate "wrong-aggregate" "an aggregate, or a predicate read, takes in a wrong value of a row"
    WrongRowCount "wrong-row-count" "a predicate update reports one row less than it changed"
    UnknownCommitted "unknown-committed" "a commit whose answer is lost is recorded as aborted, though it took effect"
    ClockSkew "clock-skew" "a client's clock is further off than the history says"
}

use Fault::*;

impl Fault {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// One line.
    #[must_use]
    pub const fn description(self) -> &'static str {
        self.row().1
    }

    /// The level that the fault breaks under a protocol: one that the protocol implements without
    /// it. `None` when the fault does not apply to the protocol, or breaks nothing that it
    /// promises.
    #[must_use]
    pub fn breaks(self, protocol: Protocol) -> Option<Level> {
        use Protocol as P;
        let strongest = Class::of(protocol);
        match self {
            // G1a, G1b, G1c, internal reads: nothing from read committed up allows them.
            DirtyRead | IntermediateRead if protocol == P::Serial => None,
            DirtyRead | AbortedRead | IntermediateRead | OwnWriteNotRead | AbortedWriteKept
            | UnknownCommitted => (strongest > Class::Uncommitted).then_some(Level::ReadCommitted),
            LostUpdate => {
                matches!(protocol, P::SiFuw | P::SiFcw | P::Ssi).then_some(Level::SnapshotIsolation)
            }
            // Old but consistent: only real time and sessions tell. Under timestamp ordering the
            // reads no longer fit the writes.
            StaleSnapshot => match protocol {
                P::SiFuw | P::SiFcw | P::Ssi | P::Percolator => Some(Level::StrictSnapshotIsolation),
                P::Mvto => Some(Level::Serializable),
                P::RcMvcc => Some(Level::BeReadCommitted),
                _ => None,
            },
            StatementSnapshot => matches!(protocol, P::SiFuw | P::SiFcw | P::Ssi | P::Percolator)
                .then_some(Level::SnapshotIsolation),
            Phantom => {
                matches!(protocol, P::Ss2pl | P::Ssi | P::Occ | P::Mvto).then_some(Level::Serializable)
            }
            WriteSkew | SsiWriterPivot | SsiReaderPivot | SsiPrecommit | SsiForgottenReads => {
                (protocol == P::Ssi).then_some(Level::Serializable)
            }
            // Two writers of one list at a time lose an append, which no version order explains.
            LockReleasedEarly | LockNotTaken => match protocol {
                P::Ss2pl => Some(Level::Serializable),
                P::SiFuw | P::Ssi => Some(Level::SnapshotIsolation),
                P::RcLocking | P::RcMvcc | P::InnodbRr => Some(Level::ReadCommitted),
                _ => None,
            },
            ValidationSkipped => (protocol == P::Occ).then_some(Level::Serializable),
            TimestampInversion => (protocol == P::Mvto).then_some(Level::Serializable),
            PrewriteConflictMissed => (protocol == P::Percolator).then_some(Level::SnapshotIsolation),
            FracturedCommit | WriteLost | VersionOrderInverted | WrongRowCount => match strongest {
                Class::Serializable => Some(Level::Serializable),
                Class::Snapshot => Some(Level::SnapshotIsolation),
                Class::Committed if protocol != P::InnodbRr && self != WrongRowCount => {
                    Some(Level::BeReadCommitted)
                }
                _ => None,
            },
            IndexEntryMissing => match strongest {
                Class::Serializable => Some(Level::Serializable),
                Class::Snapshot => Some(Level::SnapshotIsolation),
                Class::Committed => Some(Level::ReadCommitted),
                Class::Uncommitted => None,
            },
            // An element twice in one list, a value that nobody wrote: illegal everywhere.
            WriteTwice | WrongAggregate => Some(Level::ReadUncommitted),
            ClockSkew => match strongest {
                Class::Serializable => Some(Level::StrictSerializable),
                Class::Snapshot => Some(Level::StrictSnapshotIsolation),
                _ => None,
            },
        }
    }

    /// Whether the fault can be switched on under a protocol to any effect.
    #[must_use]
    pub fn applies_to(self, protocol: Protocol) -> bool {
        self.breaks(protocol).is_some()
    }
}

/// What a protocol promises, roughly.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Uncommitted,
    Committed,
    Snapshot,
    Serializable,
}

impl Class {
    fn of(protocol: Protocol) -> Class {
        if protocol.implements(Level::Serializable) {
            Class::Serializable
        } else if protocol.implements(Level::SnapshotIsolation) {
            Class::Snapshot
        } else if protocol.implements(Level::ReadCommitted) {
            Class::Committed
        } else {
            Class::Uncommitted
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Fault {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|f| f.name() == name);
        found.ok_or_else(|| UnknownName::among("fault", name, Self::ALL.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_applies_somewhere_and_breaks_only_what_is_promised() {
        for fault in Fault::ALL {
            assert!(Protocol::ALL.into_iter().any(|p| fault.applies_to(p)), "{fault}");
            for protocol in Protocol::ALL {
                if let Some(level) = fault.breaks(protocol) {
                    assert!(
                        protocol.implements(level),
                        "{fault} breaks {level}, which {protocol} does not promise"
                    );
                }
            }
        }
    }
}
