//! The isolation levels that engines decide, and which implies which.

use std::fmt;
use std::str::FromStr;

use crate::Model;
use crate::names::{UnknownName, fold};

/// An isolation level. [`crate::definition`] says what each one means.
///
/// The order of the variants (and so `Ord`) is the order in which levels are listed: a linear
/// extension of [`Level::implies`], weakest first. `a < b` therefore does *not* mean that `b`
/// implies `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Adya's PL-1.
    ReadUncommitted,
    /// Adya's PL-2.
    ReadCommitted,
    /// Biswas and Enea's Read Committed, session order included.
    BeReadCommitted,
    /// Biswas and Enea's Read Atomic.
    ReadAtomic,
    /// Biswas and Enea's Causal.
    Causal,
    /// Adya's PL-2.99.
    RepeatableRead,
    /// Biswas and Enea's Prefix.
    Prefix,
    /// Parallel snapshot isolation by Cerone and Gotsman's graph condition.
    ParallelSnapshot,
    /// Snapshot isolation, without session or real-time order.
    SnapshotIsolation,
    /// Adya's PL-3: some serial order explains every observation.
    Serializable,
    /// Snapshot isolation where a session's snapshots include its own earlier commits.
    StrongSessionSnapshotIsolation,
    /// Snapshot isolation where snapshots include everything committed before the transaction
    /// started.
    StrictSnapshotIsolation,
    /// Serializable in an order that contains session order.
    StrongSessionSerializable,
    /// Serializable in an order that contains session order and real time.
    StrictSerializable,
}

use Level::*;

impl Level {
    /// Every level, weakest first.
    pub const ALL: [Level; 14] = [
        ReadUncommitted,
        ReadCommitted,
        BeReadCommitted,
        ReadAtomic,
        Causal,
        RepeatableRead,
        Prefix,
        ParallelSnapshot,
        SnapshotIsolation,
        Serializable,
        StrongSessionSnapshotIsolation,
        StrictSnapshotIsolation,
        StrongSessionSerializable,
        StrictSerializable,
    ];

    /// The one name used in output.
    pub const fn name(self) -> &'static str {
        self.names()[0]
    }

    /// The other names that are understood.
    pub fn aliases(self) -> &'static [&'static str] {
        &self.names()[1..]
    }

    /// The name, then the aliases. Comparison ignores case, blanks and underscores.
    const fn names(self) -> &'static [&'static str] {
        match self {
            ReadUncommitted => &["read-uncommitted", "PL-1", "RU"],
            ReadCommitted => &["read-committed", "PL-2", "RC"],
            BeReadCommitted => &["be-read-committed", "be-RC"],
            ReadAtomic => &["read-atomic", "RA"],
            Causal => &["causal", "CC", "causal-consistency", "TCC"],
            RepeatableRead => &["repeatable-read", "PL-2.99", "RR"],
            Prefix => &["prefix", "prefix-consistency", "PC"],
            ParallelSnapshot => &["parallel-snapshot", "parallel-snapshot-isolation", "PSI"],
            SnapshotIsolation => &["snapshot-isolation", "PL-SI", "SI", "snapshot"],
            Serializable => &["serializable", "PL-3", "SER", "SR", "conflict-serializable"],
            StrongSessionSnapshotIsolation => {
                &["strong-session-snapshot-isolation", "strong-session-SI", "session-SI", "SSSI"]
            }
            StrictSnapshotIsolation => &[
                "strict-snapshot-isolation",
                "strict-SI",
                "strong-snapshot-isolation",
                "strong-SI",
                "real-time-snapshot-isolation",
            ],
            StrongSessionSerializable => {
                &["strong-session-serializable", "strong-session-SER", "session-SER", "SSER"]
            }
            StrictSerializable => &[
                "strict-serializable",
                "PL-SS",
                "strong-serializable",
                "strict-SER",
                "strict",
                "strong-one-copy-serializable",
            ],
        }
    }

    /// The levels this one implies in one step, each with its proof.
    ///
    /// Notation: `co` is the order of commits, `so` session order, `wr`, `ww`, `rw` the
    /// dependencies that the chosen reads-from and version order give; `b(T)` and `c(T)` are begin
    /// and commit points.
    pub const fn directly_implies(self) -> &'static [Level] {
        match self {
            ReadUncommitted => &[],
            // The version order that makes ww ∪ wr acyclic makes ww acyclic; both exclude garbage
            // reads.
            ReadCommitted => &[ReadUncommitted],
            // Take co as version order. ww ⊆ co by that choice, wr ⊆ co by the axiom, co is a total
            // order, so ww ∪ wr is acyclic. The conditions on single reads are the same from
            // read-committed up.
            BeReadCommitted => &[ReadCommitted],
            // If t3 read from t2 before the read in question then t2 wr t3: the premise of
            // be-read-committed's axiom implies the premise of read-atomic's, the conclusions are
            // equal, and co serves for both.
            ReadAtomic => &[BeReadCommitted],
            // so ∪ wr ⊆ (so ∪ wr)+, so again the weaker axiom's premise implies the stronger one's.
            Causal => &[ReadAtomic],
            // Fewer edges: a graph that is acyclic with item rw edges is acyclic without them.
            RepeatableRead => &[ReadCommitted],
            // (so ∪ wr)+ = (so ∪ wr)* ; (so ∪ wr) ⊆ co* ; (so ∪ wr), because so ∪ wr ⊆ co.
            Prefix => &[Causal],
            // Let co be a linear extension of (so ∪ wr ∪ ww)+, which is irreflexive. Suppose t3
            // reads x from t1, t2 ≠ t1 writes x, t2 (so ∪ wr)+ t3, and yet t1 precedes t2 in x's
            // version order. The writer t' of the version next to t1's has t' ww* t2. If t' = t3
            // then t3 ww* t2 (so ∪ wr)+ t3 is a cycle; else t3 rw t' and t' (so ∪ wr ∪ ww)+ t3 ; rw
            // t' is one. Both are excluded, so t2 ww t1 and t2 co t1.
            ParallelSnapshot => &[Causal],
            // Version order = order of commits. A read sees only what was committed before its
            // begin point, so wr and ww both go forward in the order of commits: their union is
            // acyclic. What a snapshot holds is final and committed, hence no G1a, no G1b.
            SnapshotIsolation => &[ReadCommitted],
            // Repeatable read: every dependency goes forward in the serial order, so no subset has
            // a cycle. Snapshot isolation: put b(T) directly before c(T) and keep the serial order.
            // The state before b(T) is the one the serial replay gives T, and no two transactions
            // overlap.
            Serializable => &[RepeatableRead, SnapshotIsolation],
            // Snapshot isolation: drop a condition. Prefix: let co be the order of commits; so ∪ wr
            // ⊆ co. If t2 co* t4 (so ∪ wr) t3 then c(t2) ≤ c(t4) < b(t3), so t3's snapshot has t2's
            // write or a later one: t1 = t2 or t2 co t1. Parallel snapshot: so, wr and ww from T to
            // U all give c(T) < b(U) (ww because writers of one object do not overlap), and T rw U
            // gives b(T) < c(U). So T (so ∪ wr ∪ ww)+ U gives c(T) < b(U), excludes T = U, and
            // excludes U rw T, which would give b(U) < c(T).
            StrongSessionSnapshotIsolation => &[Prefix, ParallelSnapshot, SnapshotIsolation],
            // Real time here contains session order, so a condition is dropped.
            StrictSnapshotIsolation => &[StrongSessionSnapshotIsolation],
            // As for the plain levels: with b(T) directly before c(T), session order in the serial
            // order gives c(T) < b(U), which is what the snapshot level asks for.
            StrongSessionSerializable => &[StrongSessionSnapshotIsolation, Serializable],
            // As above, for real time in place of session order; and a condition dropped.
            StrictSerializable => &[StrictSnapshotIsolation, StrongSessionSerializable],
        }
    }

    /// Whether every history that satisfies `self` satisfies `other`. Reflexive and transitive.
    pub fn implies(self, other: Level) -> bool {
        self == other || self.directly_implies().iter().any(|l| l.implies(other))
    }

    /// The levels strictly weaker than this one, weakest first.
    pub fn weaker(self) -> Vec<Level> {
        Self::ALL.into_iter().filter(|&l| l != self && self.implies(l)).collect()
    }

    /// The levels strictly stronger than this one, weakest first.
    pub fn stronger(self) -> Vec<Level> {
        Self::ALL.into_iter().filter(|&l| l != self && l.implies(self)).collect()
    }

    /// Elle's model of the same meaning.
    ///
    /// `None` for the levels of Biswas and Enea and for parallel snapshot: ours contain session
    /// order, Elle's models of nearly the same names (read-atomic, causal-cerone, prefix,
    /// parallel-snapshot-isolation) do not.
    pub const fn model(self) -> Option<Model> {
        match self {
            ReadUncommitted => Some(Model::ReadUncommitted),
            ReadCommitted => Some(Model::ReadCommitted),
            RepeatableRead => Some(Model::RepeatableRead),
            SnapshotIsolation => Some(Model::SnapshotIsolation),
            Serializable => Some(Model::Serializable),
            StrongSessionSnapshotIsolation => Some(Model::StrongSessionSnapshotIsolation),
            StrictSnapshotIsolation => Some(Model::StrongSnapshotIsolation),
            StrongSessionSerializable => Some(Model::StrongSessionSerializable),
            StrictSerializable => Some(Model::StrongSerializable),
            BeReadCommitted | ReadAtomic | Causal | Prefix | ParallelSnapshot => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let wanted = fold(s);
        Self::ALL.into_iter().find(|l| l.names().iter().any(|n| fold(n) == wanted)).ok_or_else(|| {
            UnknownName::among("level", s, Self::ALL.into_iter().flat_map(Self::names).copied())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn implication_is_a_partial_order_and_all_extends_it() {
        for a in Level::ALL {
            assert!(a.implies(a));
            for b in Level::ALL {
                assert!(!(a != b && a.implies(b) && b.implies(a)), "{a} and {b} imply each other");
                assert!(!a.implies(b) || b <= a, "{a} implies {b} but is listed before it");
                for c in Level::ALL {
                    assert!(!(a.implies(b) && b.implies(c)) || a.implies(c), "{a} {b} {c}");
                }
            }
        }
    }

    #[test]
    fn direct_implications_are_a_transitive_reduction() {
        for a in Level::ALL {
            let direct = a.directly_implies();
            for &b in direct {
                assert!(!direct.iter().any(|&m| m != b && m.implies(b)), "{a} to {b} is redundant");
            }
        }
    }

    #[test]
    fn what_is_deliberately_absent() {
        for l in [BeReadCommitted, ReadAtomic, Causal, Prefix, ParallelSnapshot] {
            assert!(!SnapshotIsolation.implies(l) && !Serializable.implies(l), "{l} has session order");
            assert!(StrongSessionSnapshotIsolation.implies(l));
        }
        assert!(!SnapshotIsolation.implies(RepeatableRead) && !RepeatableRead.implies(SnapshotIsolation));
        assert!(!StrictSnapshotIsolation.implies(RepeatableRead));
        assert!(!Prefix.implies(ParallelSnapshot) && !ParallelSnapshot.implies(Prefix));
        assert!(StrictSerializable.weaker().len() == Level::ALL.len() - 1);
        assert!(ReadUncommitted.stronger().len() == Level::ALL.len() - 1);
    }

    #[test]
    fn names_are_unique_and_read_back() {
        let mut seen = HashMap::new();
        for l in Level::ALL {
            for n in l.names() {
                assert_eq!(seen.insert(fold(n), l), None, "{n} names two levels");
                assert_eq!(n.parse(), Ok(l));
            }
            assert_eq!(l.to_string().parse(), Ok(l));
        }
        assert_eq!("Strict Serializable".parse(), Ok(StrictSerializable));
        let error = "serialisable".parse::<Level>().unwrap_err();
        assert!(error.to_string().contains("serializable"), "{error}");
    }

    #[test]
    fn our_implications_agree_with_elle_where_both_speak() {
        for a in Level::ALL {
            for b in Level::ALL {
                if let (Some(ma), Some(mb)) = (a.model(), b.model()) {
                    assert_eq!(a.implies(b), ma.implies(mb), "{a} and {b}");
                }
            }
        }
    }
}
