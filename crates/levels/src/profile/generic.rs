//! What a level says by itself of a database of which nothing else is known.

use super::{Lock, Mode, Profile, Read, Snapshot, mode};
use crate::Level;

/// Snapshot reads, and no locks that anybody could rely on.
const UNLOCKED: [Mode; 6] = [mode(Lock::None, Read::Snapshot); 6];

const STRICT_SERIALIZABLE: Profile = Profile {
    dbms: "generic",
    since: &[],
    own_name: "STRICT SERIALIZABLE",
    default: true,
    protocol: "any",
    consistent_read: Some(Snapshot::Within),
    mutual_exclusion: None,
    first_updater_wins: false,
    skips_unchanged: false,
    certifier: None,
    one_clock: true,
    modes: UNLOCKED,
    promises: &[Level::StrictSerializable],
    deviations: &[],
    note: "Any database: each transaction takes place at one point between its first statement and its end. Whatever \
        contradicts that contradicts the level itself.",
    cites: &["Adya1999", "Leopard"],
};

const STRICT_SNAPSHOT: Profile = Profile {
    own_name: "STRICT SNAPSHOT ISOLATION",
    default: false,
    promises: &[Level::StrictSnapshotIsolation],
    note: "Any database: a transaction reads at one point and writes at a later one, both between its first statement \
        and its end. Whatever contradicts that contradicts the level itself.",
    cites: &["Berenson1995", "Adya1999"],
    ..STRICT_SERIALIZABLE
};

pub(super) const ROWS: &[Profile] = &[STRICT_SERIALIZABLE, STRICT_SNAPSHOT];
