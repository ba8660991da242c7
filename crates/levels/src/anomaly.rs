//! Anomalies: named patterns that a level forbids.
//!
//! The names are Adya's and Elle's, and a few of ours where theirs have none. What is known of each
//! stands in tables, one file a kind: `cycles`, `groups`, `local`, `ours`. An anomaly `a` *implies*
//! `b` when every history that shows `a` shows `b`; hence whoever forbids `b` forbids `a`.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use crate::names::{UnknownName, fold};

mod cycles;
mod groups;
mod local;
mod ours;

macro_rules! anomalies {
    ($($variant:ident $name:literal)*) => {
        /// A named pattern. [`Anomaly::entry`] explains each one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Anomaly { $(#[doc = concat!("`", $name, "`; see [`Anomaly::entry`].")] $variant,)* }

        impl Anomaly {
            /// Every anomaly, in the order of the tables.
            pub const ALL: &[Anomaly] = &[$(Anomaly::$variant,)*];

            /// The name, in the spelling of Adya and Elle.
            pub const fn name(self) -> &'static str {
                match self { $(Anomaly::$variant => $name,)* }
            }
        }
    };
}

anomalies! {
    // Cycles of dependencies, each also with session order and with real time.
    G0 "G0" G0Process "G0-process" G0Realtime "G0-realtime"
    G1c "G1c" G1cProcess "G1c-process" G1cRealtime "G1c-realtime"
    GSingleItem "G-single-item" GSingleItemProcess "G-single-item-process"
    GSingleItemRealtime "G-single-item-realtime"
    GSingle "G-single" GSingleProcess "G-single-process" GSingleRealtime "G-single-realtime"
    GNonadjacentItem "G-nonadjacent-item" GNonadjacentItemProcess "G-nonadjacent-item-process"
    GNonadjacentItemRealtime "G-nonadjacent-item-realtime"
    GNonadjacent "G-nonadjacent" GNonadjacentProcess "G-nonadjacent-process"
    GNonadjacentRealtime "G-nonadjacent-realtime"
    G2Item "G2-item" G2ItemProcess "G2-item-process" G2ItemRealtime "G2-item-realtime"
    G2 "G2" G2Process "G2-process" G2Realtime "G2-realtime"

    // Seen without a cycle, in Elle's words.
    G1a "G1a" G1b "G1b" Internal "internal" FutureRead "future-read" DuplicateElements "duplicate-elements"
    IncompatibleOrder "incompatible-order" DirtyUpdate "dirty-update" LostUpdate "lost-update"
    WriteSkew "write-skew" CyclicVersions "cyclic-versions" PredicateReadMiss "predicate-read-miss"

    // Elle's unions, and Adya's phenomena that Elle names and never looks for.
    G1 "G1" G1Process "G1-process" G1Realtime "G1-realtime"
    GMonotonic "G-monotonic" GCursor "G-cursor" GMsr "G-MSR" GUpdate "G-update"
    GDashSI "G-SI" GDashSIb "G-SIb" GSI "GSI" GSIa "GSIa" GSIb "GSIb"

    // Some cycle exists that rules a model out, and no smaller name fits.
    Pl1CycleExists "PL-1-cycle-exists" Pl2CycleExists "PL-2-cycle-exists"
    Pl299CycleExists "PL-2.99-cycle-exists" PlSiCycleExists "PL-SI-cycle-exists"
    Pl3CycleExists "PL-3-cycle-exists" PlSsCycleExists "PL-SS-cycle-exists"
    StrongSessionPl1CycleExists "strong-session-PL-1-cycle-exists"
    StrongSessionPl2CycleExists "strong-session-PL-2-cycle-exists"
    StrongPl1CycleExists "strong-PL-1-cycle-exists"
    StrongPl2CycleExists "strong-PL-2-cycle-exists"
    StrongSessionSiCycleExists "strong-session-snapshot-isolation-cycle-exists"
    StrongSessionSerializableCycleExists "strong-session-serializable-cycle-exists"
    StrongSiCycleExists "strong-snapshot-isolation-cycle-exists"
    BeReadCommittedCycleExists "be-read-committed-cycle-exists"
    ReadAtomicCycleExists "read-atomic-cycle-exists"
    CausalCycleExists "causal-cycle-exists"
    PrefixCycleExists "prefix-cycle-exists"
    ParallelSnapshotCycleExists "parallel-snapshot-cycle-exists"

    // Ours.
    GarbageRead "garbage-read" NonMonotonicRead "non-monotonic-read" FracturedRead "fractured-read"
    NonRepeatableRead "non-repeatable-read" Phantom "phantom" CausalityViolation "causality-violation"
    LongFork "long-fork" ResultMismatch "result-mismatch"
    DuplicateWrite "duplicate-write" UnobservableWrite "unobservable-write"
    ConsistentRead "consistent-read" MutualExclusion "mutual-exclusion"
    FirstUpdaterWins "first-updater-wins" SerializationCertifier "serialization-certifier"
}

/// What is known of one anomaly.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which anomaly this is.
    pub anomaly: Anomaly,
    /// What sort of thing it is.
    pub kind: Kind,
    /// One line.
    pub summary: String,
    /// One paragraph.
    pub definition: String,
    /// The anomalies that it implies in one step, each with the key of the source that says so.
    pub implies: Vec<(Anomaly, &'static str)>,
    /// A minimal history that shows it, in the mini language; `None` where no history alone can
    /// show it.
    pub example: Option<&'static str>,
    /// Keys of the sources.
    pub cites: &'static [&'static str],
}

/// What sort of thing an anomaly is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A cycle of dependencies of this shape.
    Cycle(Cycle),
    /// Seen in the operations themselves, without a cycle.
    Local,
    /// A union of other anomalies, or a phenomenon of Adya's that histories alone do not show.
    Group,
    /// Some cycle that rules a level out, where none of the smaller shapes was found.
    Search,
    /// A database's own mechanism did not do its work: this contradicts a profile, not a level.
    Mechanism,
    /// Not a violation: the history cannot tell two explanations apart.
    Ambiguity,
}

/// The shape of a cycle: which edges it may have, and how its rw edges lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cycle {
    /// Whether wr edges may occur (ww edges always may; G0 is the only shape without wr).
    pub wr: bool,
    /// How many rw edges there are and how they lie.
    pub rw: Rw,
    /// Whether rw edges over predicates may occur; with item edges only, the name ends in `-item`.
    pub predicate_rw: bool,
    /// Which order is added to the dependencies.
    pub order: Order,
}

/// How many rw edges a cycle has, and how they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rw {
    /// None.
    None,
    /// Exactly one.
    One,
    /// At least two, no two of them adjacent.
    NonAdjacent,
    /// At least two, some two adjacent (cyclically).
    Adjacent,
}

/// The order that is added to the dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Order {
    /// None: dependencies only.
    Dependencies,
    /// Session order; the name ends in `-process`.
    Session,
    /// Real time (and with it session order); the name ends in `-realtime`.
    RealTime,
}

static TABLE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let mut all: Vec<Entry> = cycles::entries();
    all.extend(local::entries());
    all.extend(groups::entries());
    all.extend(ours::entries());
    all.sort_by_key(|e| e.anomaly);
    all
});

impl Anomaly {
    /// What is known of it.
    pub fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    /// The anomalies it implies in one step.
    pub fn directly_implies(self) -> impl Iterator<Item = Anomaly> {
        self.entry().implies.iter().map(|i| i.0)
    }

    /// Whether every history that shows `self` shows `other`. Reflexive and transitive.
    pub fn implies(self, other: Anomaly) -> bool {
        self == other || self.directly_implies().any(|a| a.implies(other))
    }

    /// The other anomalies that it implies.
    pub fn all_implied(self) -> Vec<Anomaly> {
        Self::ALL.iter().copied().filter(|&a| a != self && self.implies(a)).collect()
    }

    /// The name of the cycle of this shape.
    ///
    /// `Rw::None` ignores `predicate_rw`, and with rw edges `wr` is ignored: those names do not
    /// depend on it.
    pub fn of_cycle(cycle: Cycle) -> Anomaly {
        let item = |item: Anomaly, predicate: Anomaly| if cycle.predicate_rw { predicate } else { item };
        let base = match cycle.rw {
            Rw::None if cycle.wr => Anomaly::G1c,
            Rw::None => Anomaly::G0,
            Rw::One => item(Anomaly::GSingleItem, Anomaly::GSingle),
            Rw::NonAdjacent => item(Anomaly::GNonadjacentItem, Anomaly::GNonadjacent),
            Rw::Adjacent => item(Anomaly::G2Item, Anomaly::G2),
        };
        // The table keeps the three variants of a shape next to each other, in the order of
        // `Order`.
        Self::ALL[base as usize + cycle.order as usize]
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Anomaly {
    type Err = UnknownName;

    /// Names are compared as written first, and then without regard to case.
    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let all = || Self::ALL.iter().copied();
        let wanted = fold(s);
        all()
            .find(|a| a.name() == s.trim())
            .or_else(|| all().find(|a| fold(a.name()) == wanted))
            .ok_or_else(|| UnknownName::among("anomaly", s, all().map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_each() {
        let entries: Vec<Anomaly> = TABLE.iter().map(|e| e.anomaly).collect();
        assert_eq!(entries, Anomaly::ALL);
    }

    #[test]
    fn names_read_back() {
        for &a in Anomaly::ALL {
            assert_eq!(a.name().parse(), Ok(a));
        }
        assert_eq!("g2-ITEM".parse(), Ok(Anomaly::G2Item));
        assert!("lost-updat".parse::<Anomaly>().unwrap_err().nearest.contains(&"lost-update".to_owned()));
    }

    #[test]
    fn implication_is_a_partial_order() {
        for &a in Anomaly::ALL {
            for b in a.all_implied() {
                assert!(!b.implies(a), "{a} and {b} imply each other");
            }
        }
    }

    #[test]
    fn a_cycle_has_the_name_of_its_shape() {
        for &a in Anomaly::ALL {
            if let Kind::Cycle(cycle) = a.entry().kind {
                assert_eq!(Anomaly::of_cycle(cycle), a);
            }
        }
    }

    /// The mini language has a parser elsewhere; here only its outer form is held.
    #[test]
    fn examples_have_the_form_of_the_mini_language() {
        for &a in Anomaly::ALL {
            let entry = a.entry();
            let shown = matches!(entry.kind, Kind::Cycle(_) | Kind::Local | Kind::Ambiguity);
            assert!(entry.example.is_some() || !shown, "{a} has no example");
            for segment in entry.example.iter().flat_map(|e| e.split(" | ")) {
                let (head, body) = segment.split_once(": ").expect("a segment has a head");
                assert!(head == "init" || head.starts_with('T'), "{a}: {segment}");
                for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
                    assert_eq!(body.matches(open).count(), body.matches(close).count(), "{a}: {segment}");
                }
            }
        }
    }
}
