//! Stores from crates.io that `margay run` drives, by their own documentation.

use super::{Profile, embedded};

const SURREALKV: Profile = Profile {
    dbms: "surrealkv",
    own_name: "SNAPSHOT",
    default: true,
    note: "A transaction reads the snapshot of its begin; written keys are validated at commit. Locked reads \
        (get_for_update) are validated too, which does not make it serializable.",
    cites: &["SurrealKV"],
    ..embedded::OPTIMISTIC
};

const TURSO: Profile = Profile {
    dbms: "turso",
    own_name: "CONCURRENT",
    skips_unchanged: true,
    note: "PRAGMA journal_mode = 'mvcc' and BEGIN CONCURRENT: snapshots, and a second writer of a row is refused at \
        once.",
    cites: &["Turso"],
    ..SURREALKV
};

pub(super) const ROWS: &[Profile] = &[SURREALKV, TURSO];
