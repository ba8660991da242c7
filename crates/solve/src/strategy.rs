//! Search strategies that can be switched off.
//!
//! # Problem
//! None of these is needed to be right: each saves time, or decides what would otherwise stay open.
//! Only a measurement can tell which of them earn their lines, so each has a switch, and
//! `cargo bench -p margay-solve --bench ablation` tells what is lost without it.
//!
//! # Invariants
//! Switching a strategy off never changes an answer, except to `unknown`.

/// A search strategy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// `read-committed` in the order in which commits began (`commits`).
    CommitOrder,
    /// A schedule on the base graph, before saturation.
    FirstSchedule,
    /// Repairs of that schedule where it is stuck (`schedule::repair`).
    Repair,
    /// Levels without session order are tried with it first.
    AssumedSessions,
    /// Violations that rest on few objects (`footprints`).
    Footprints,
    /// Fewer candidates for open reads (`prune`).
    Prune,
    /// What follows from the known graph (`known::saturate`).
    Saturation,
    /// Reachability of chosen pairs where a matrix is too large (`known::pairs`).
    Pairs,
    /// Local search around the order that the theory arrived at (`mend`).
    Mend,
    /// Weak levels by the order of a snapshot level, if reads are open (`trust::by_guess`).
    SnapshotGuess,
    /// Weak levels by the order of a stronger level (`weak::guess`).
    StrongerGuess,
    /// What reads probably saw, at weak levels (`weak::hint`).
    Hints,
    /// Orders found by running transactions (`replay`).
    Replay,
    /// What is outside the fragment by a stronger level (`trust::by_stronger`).
    ByStronger,
    /// Violations by the proof of a weaker level (`trust::by_weaker`).
    ByWeaker,
    /// Refutations of columns told of whole rows (`trust::proved`).
    WholeRows,
    /// Fewer lemmas for a refutation (`refutation`).
    FewerLemmas,
    /// Fewer transactions for a refutation (`slice`).
    Slice,
}

impl Strategy {
    /// All of them, with their names.
    pub const ALL: [(Strategy, &'static str); 18] = [
        (Strategy::CommitOrder, "commit-order"),
        (Strategy::FirstSchedule, "first-schedule"),
        (Strategy::Repair, "repair"),
        (Strategy::AssumedSessions, "assumed-sessions"),
        (Strategy::Footprints, "footprints"),
        (Strategy::Prune, "prune"),
        (Strategy::Saturation, "saturation"),
        (Strategy::Pairs, "pairs"),
        (Strategy::Mend, "mend"),
        (Strategy::SnapshotGuess, "snapshot-guess"),
        (Strategy::StrongerGuess, "stronger-guess"),
        (Strategy::Hints, "hints"),
        (Strategy::Replay, "replay"),
        (Strategy::ByStronger, "by-stronger"),
        (Strategy::ByWeaker, "by-weaker"),
        (Strategy::WholeRows, "whole-rows"),
        (Strategy::FewerLemmas, "fewer-lemmas"),
        (Strategy::Slice, "slice"),
    ];
}

/// Which strategies are switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strategies(u32);

impl Strategies {
    /// All of them.
    pub const ALL: Self = Self(u32::MAX);

    /// The same without one.
    #[must_use]
    pub const fn without(self, strategy: Strategy) -> Self {
        Self(self.0 & !(1 << strategy as u32))
    }

    /// Whether a strategy is on.
    #[must_use]
    pub const fn has(self, strategy: Strategy) -> bool {
        self.0 & (1 << strategy as u32) != 0
    }
}
