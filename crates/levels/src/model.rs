//! Elle's lattice of consistency models, as Elle 0.2.7 has it \[Elle\].
//!
//! Models are a superset of [`Level`]: names that users of Elle know and that engine infer can rule
//! out. They are kept exactly as Elle has them, oddities included; [`Level`] holds our own
//! semantics. The two meet in [`Model::level`] and [`Level::model`].

use std::fmt;
use std::str::FromStr;

use crate::names::{UnknownName, fold};
use crate::{Anomaly, Level};

/// What is known of one model.
pub(crate) struct Row {
    /// Elle's canonical name, which is the friendly one where Adya gave none.
    canonical: &'static str,
    /// The name Elle prints.
    name: &'static str,
    /// One line; also the variant's documentation.
    summary: &'static str,
    aliases: &'static [&'static str],
    implies: &'static [Model],
    prohibits: &'static [Anomaly],
}

macro_rules! models {
    ($(#[doc = $doc:literal] $variant:ident $canonical:literal $name:literal [$($alias:literal)*]
       implies [$($implied:ident)*] prohibits [$($anomaly:ident)*];)*) => {
        /// One of Elle's consistency models.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Model { $(#[doc = $doc] $variant,)* }

        impl Model {
            /// Every model, in Elle's alphabetical order of canonical names.
            pub const ALL: &[Model] = &[$(Model::$variant,)*];
        }

        static ROWS: &[Row] = &[$(Row {
            canonical: $canonical,
            name: $name,
            summary: $doc,
            aliases: &[$($alias,)*],
            implies: &[$(Model::$implied,)*],
            prohibits: &[$(Anomaly::$anomaly,)*],
        },)*];
    };
}

models! {
    /// One-copy serializability.
    OneCopySerializable "1SR" "1SR" ["one-copy-serializable"] implies [] prohibits [];
    /// Adya's PL-1.
    ReadUncommitted "PL-1" "read-uncommitted" []
        implies [] prohibits [G0 Pl1CycleExists CyclicVersions DuplicateElements];
    /// Adya's PL-2.
    ReadCommitted "PL-2" "read-committed" [] implies [ReadUncommitted] prohibits [G1 Pl2CycleExists];
    /// Adya's PL-2+, basic consistency.
    ConsistentView "PL-2+" "consistent-view" []
        implies [MonotonicView CursorStability] prohibits [GSingle G1];
    /// Adya's PL-2.99.
    RepeatableRead "PL-2.99" "repeatable-read" []
        implies [CursorStability MonotonicAtomicView] prohibits [G1 G2Item Pl299CycleExists LostUpdate];
    /// Adya's PL-2L.
    MonotonicView "PL-2L" "monotonic-view" [] implies [ReadCommitted] prohibits [GMonotonic G1];
    /// Adya's PL-3.
    Serializable "PL-3" "serializable" ["conflict-serializable"]
        implies [RepeatableRead UpdateSerializable SnapshotIsolation ViewSerializable]
        prohibits [G1 G2 Pl3CycleExists Internal PredicateReadMiss];
    /// Adya's PL-3U.
    UpdateSerializable "PL-3U" "update-serializable" [] implies [ForwardConsistentView] prohibits [GUpdate G1];
    /// Adya's PL-CS.
    CursorStability "PL-CS" "cursor-stability" [] implies [ReadCommitted] prohibits [GCursor G1 LostUpdate];
    /// Adya's PL-FCV.
    ForwardConsistentView "PL-FCV" "forward-consistent-view" [] implies [ConsistentView] prohibits [GDashSIb G1];
    /// Adya's PL-MSR.
    MonotonicSnapshotRead "PL-MSR" "monotonic-snapshot-read" [] implies [ReadCommitted] prohibits [GMsr G1];
    /// Adya's PL-SI.
    SnapshotIsolation "PL-SI" "snapshot-isolation" []
        implies [ForwardConsistentView MonotonicSnapshotRead MonotonicAtomicView ParallelSnapshotIsolation Prefix]
        prohibits [GDashSI GNonadjacent G1 PlSiCycleExists Internal];
    /// Adya's PL-SS; Elle prints strict-serializable back as strong-serializable.
    StrongSerializable "PL-SS" "strong-serializable" ["strict-serializable"]
        implies [Serializable SnapshotIsolation Linearizable SessionSerializable StrongSessionSerializable
                 StrongSnapshotIsolation]
        prohibits [G1 G1cRealtime G2Realtime PlSsCycleExists];
    /// Pipelined random access memory.
    Pram "PRAM" "PRAM" [] implies [MonotonicReads MonotonicWrites ReadYourWrites] prohibits [];
    /// Causal consistency of single-object stores. Not our level `causal`.
    Causal "causal" "causal" [] implies [Pram WritesFollowReads] prohibits [];
    /// Transactional causal consistency by Cerone and others; the nearest to our level `causal`.
    CausalCerone "causal-cerone" "causal-cerone" [] implies [ReadAtomic] prohibits [G1a Internal];
    /// Linearizability.
    Linearizable "linearizable" "linearizable" [] implies [Sequential] prohibits [];
    /// Monotonic atomic view, Bailis and others.
    MonotonicAtomicView "monotonic-atomic-view" "monotonic-atomic-view" ["MAV"] implies [ReadCommitted] prohibits [];
    /// Session guarantee: monotonic reads.
    MonotonicReads "monotonic-reads" "monotonic-reads" [] implies [] prohibits [];
    /// Session guarantee: monotonic writes.
    MonotonicWrites "monotonic-writes" "monotonic-writes" [] implies [] prohibits [];
    /// Parallel snapshot isolation, without session order.
    ParallelSnapshotIsolation "parallel-snapshot-isolation" "parallel-snapshot-isolation" []
        implies [CausalCerone UpdateAtomic] prohibits [G1a Internal];
    /// Prefix consistency, without session order.
    Prefix "prefix" "prefix" [] implies [CausalCerone] prohibits [G1a Internal];
    /// Read atomic, without session order.
    ReadAtomic "read-atomic" "read-atomic" [] implies [MonotonicAtomicView] prohibits [G1a FutureRead Internal];
    /// Session guarantee: read your writes.
    ReadYourWrites "read-your-writes" "read-your-writes" [] implies [] prohibits [];
    /// Sequential consistency.
    Sequential "sequential" "sequential" [] implies [Causal] prohibits [];
    /// One-copy serializability per session, Daudjee and Salem.
    SessionSerializable "session-serializable" "session-serializable" [] implies [OneCopySerializable] prohibits [];
    /// PL-1 with real time.
    StrongReadUncommitted "strong-PL-1" "strong-read-uncommitted" []
        implies [StrongSessionReadUncommitted] prohibits [G0Realtime StrongPl1CycleExists];
    /// PL-2 with real time.
    StrongReadCommitted "strong-PL-2" "strong-read-committed" []
        implies [StrongReadUncommitted StrongSessionReadCommitted] prohibits [G1cRealtime StrongPl2CycleExists];
    /// PL-1 with session order.
    StrongSessionReadUncommitted "strong-session-PL-1" "strong-session-read-uncommitted" []
        implies [ReadUncommitted] prohibits [G0Process StrongSessionPl1CycleExists];
    /// PL-2 with session order.
    StrongSessionReadCommitted "strong-session-PL-2" "strong-session-read-committed" []
        implies [ReadCommitted StrongSessionReadUncommitted] prohibits [G1cProcess StrongSessionPl2CycleExists];
    /// Serializability with session order.
    StrongSessionSerializable "strong-session-serializable" "strong-session-serializable" ["strong-session-PL-3"]
        implies [Serializable StrongSessionSnapshotIsolation]
        prohibits [G1Process G2Process StrongSessionSerializableCycleExists];
    /// Snapshot isolation with session order.
    StrongSessionSnapshotIsolation "strong-session-snapshot-isolation" "strong-session-snapshot-isolation"
        ["strong-session-PL-SI"]
        implies [SnapshotIsolation StrongSessionReadCommitted]
        prohibits [GNonadjacentProcess G1Process Internal StrongSessionSiCycleExists];
    /// Snapshot isolation with real time.
    StrongSnapshotIsolation "strong-snapshot-isolation" "strong-snapshot-isolation" ["strict-snapshot-isolation"]
        implies [StrongReadCommitted StrongSessionSnapshotIsolation]
        prohibits [GNonadjacentRealtime G1Realtime Internal StrongSiCycleExists];
    /// Read atomic without lost updates.
    UpdateAtomic "update-atomic" "update-atomic" [] implies [ReadAtomic] prohibits [LostUpdate];
    /// View serializability.
    ViewSerializable "view-serializable" "view-serializable" [] implies [] prohibits [];
    /// Session guarantee: writes follow reads.
    WritesFollowReads "writes-follow-reads" "writes-follow-reads" [] implies [] prohibits [];
}

impl Model {
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name Elle prints, for example `strong-serializable`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Elle's canonical name, for example `PL-SS`.
    pub fn canonical(self) -> &'static str {
        self.row().canonical
    }

    /// What it is, in one line.
    pub fn summary(self) -> &'static str {
        self.row().summary.trim()
    }

    /// Every name that is understood: the printed one, the canonical one, the others.
    pub fn names(self) -> Vec<&'static str> {
        let mut names = vec![self.name(), self.canonical()];
        names.dedup();
        names.extend(self.row().aliases);
        names
    }

    /// The models this one implies in one step, as Elle lists them.
    pub fn directly_implies(self) -> &'static [Model] {
        self.row().implies
    }

    /// The anomalies Elle lists as forbidden by this model itself.
    pub fn directly_prohibits(self) -> &'static [Anomaly] {
        self.row().prohibits
    }

    /// Whether `self` is at least as strong as `other`. Reflexive and transitive.
    pub fn implies(self, other: Model) -> bool {
        self == other || self.directly_implies().iter().any(|m| m.implies(other))
    }

    /// The models strictly weaker than this one.
    pub fn all_implied(self) -> Vec<Model> {
        Self::ALL.iter().copied().filter(|&m| m != self && self.implies(m)).collect()
    }

    /// Whether a history with this anomaly cannot satisfy this model: the model or a weaker one
    /// forbids it, or an anomaly it implies.
    pub fn prohibits(self, anomaly: Anomaly) -> bool {
        self.directly_prohibits().iter().any(|&p| anomaly.implies(p))
            || self.directly_implies().iter().any(|m| m.prohibits(anomaly))
    }

    /// Every anomaly that rules this model out.
    pub fn prohibited_anomalies(self) -> Vec<Anomaly> {
        Anomaly::ALL.iter().copied().filter(|&a| self.prohibits(a)).collect()
    }

    /// The level of the same meaning that engines decide, where there is one.
    pub fn level(self) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.model() == Some(self))
    }

    /// The level that decides this model: the one of the same meaning, or, of names that Elle knows
    /// and gives no meaning, the one that the literature means by it.
    ///
    /// A history does not show the last state, so view serializability and one-copy serializability
    /// both ask for a serial order that explains every read: that is `serializable`.
    pub fn meaning(self) -> Option<Level> {
        match self {
            Model::ViewSerializable | Model::OneCopySerializable => Some(Level::Serializable),
            Model::SessionSerializable => Some(Level::StrongSessionSerializable),
            _ => self.level(),
        }
    }

    /// The level that is this model with session order.
    pub fn without_sessions(self) -> Option<Level> {
        match self {
            Model::ReadAtomic => Some(Level::ReadAtomic),
            Model::CausalCerone => Some(Level::Causal),
            Model::Prefix => Some(Level::Prefix),
            Model::ParallelSnapshotIsolation => Some(Level::ParallelSnapshot),
            _ => None,
        }
    }

    /// The weakest levels that imply this model: where one of them holds, the model does.
    pub fn implied_by(self) -> Vec<Level> {
        let implies = |model: Option<Model>| model.is_some_and(|model| model.implies(self));
        let stronger = |level: &Level| {
            let sessions = Model::ALL.iter().find(|model| model.without_sessions() == Some(*level));
            self.meaning() == Some(*level) || implies(level.model()) || implies(sessions.copied())
        };
        weakest(Level::ALL.into_iter().filter(stronger).collect())
    }

    /// The strongest levels that this model implies: where one of them is violated, the model is.
    pub fn implied_levels(self) -> Vec<Level> {
        let all = Level::ALL.into_iter();
        let all: Vec<Level> = all.filter(|level| level.model().is_some_and(|m| self.implies(m))).collect();
        let strongest = |level: &Level| !all.iter().any(|other| other != level && other.implies(*level));
        all.iter().copied().filter(strongest).collect()
    }
}

fn weakest(levels: Vec<Level>) -> Vec<Level> {
    let weakest = |level: &Level| !levels.iter().any(|other| other != level && level.implies(*other));
    levels.iter().copied().filter(weakest).collect()
}

/// What a set of anomalies says about models: Elle's `:not` and `:also-not`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boundary {
    /// The weakest models that are ruled out.
    pub not: Vec<Model>,
    /// The others that are ruled out, because they are stronger.
    pub also_not: Vec<Model>,
}

impl Boundary {
    /// The boundary of the models that are ruled out.
    pub fn of(models: impl IntoIterator<Item = Model>) -> Self {
        let mut out: Vec<Model> = models.into_iter().collect();
        out.sort_unstable();
        out.dedup();
        let weakest = |m: &Model| !out.iter().any(|o| o != m && m.implies(*o));
        let (not, also_not) = out.iter().copied().partition(weakest);
        Self { not, also_not }
    }

    /// The names of the weakest models, and of the others, in alphabetical order.
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let names = |models: &[Model]| {
            let mut names: Vec<String> = models.iter().map(|model| model.name().to_owned()).collect();
            names.sort_unstable();
            names
        };
        (names(&self.not), names(&self.also_not))
    }
}

/// The models that Elle rules out where these anomalies occur. Whether a proof refutes them is
/// another question: see `margay_audit::reach`.
pub fn boundary(anomalies: impl IntoIterator<Item = Anomaly>) -> Boundary {
    let anomalies: Vec<Anomaly> = anomalies.into_iter().collect();
    let prohibits = |model: &Model| anomalies.iter().any(|&anomaly| model.prohibits(anomaly));
    Boundary::of(Model::ALL.iter().copied().filter(prohibits))
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let wanted = fold(s);
        let all = || Self::ALL.iter().copied();
        all()
            .find(|m| m.names().iter().any(|n| fold(n) == wanted))
            .ok_or_else(|| UnknownName::among("model", s, all().flat_map(Self::names)))
    }
}

impl TryFrom<Level> for Model {
    type Error = Level;

    /// The model of the same meaning, or the level back where Elle has none (see [`Level::model`]).
    fn try_from(level: Level) -> Result<Self, Level> {
        level.model().ok_or(level)
    }
}
