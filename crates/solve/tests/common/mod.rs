//! What several tests ask about.

use margay_levels::Level;

/// The levels that the engine decides.
pub const LEVELS: [Level; 14] = [
    Level::ReadUncommitted,
    Level::ReadCommitted,
    Level::BeReadCommitted,
    Level::ReadAtomic,
    Level::Causal,
    Level::RepeatableRead,
    Level::ParallelSnapshot,
    Level::Prefix,
    Level::Serializable,
    Level::StrongSessionSerializable,
    Level::StrictSerializable,
    Level::SnapshotIsolation,
    Level::StrongSessionSnapshotIsolation,
    Level::StrictSnapshotIsolation,
];
