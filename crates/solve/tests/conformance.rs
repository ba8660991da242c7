//! Engine solve against the definitions: all tiny histories, random ones, every certificate audited, the laws. With `MARGAY_RANDOM=100000` it takes two CPU minutes; what that gave stands in
//! `docs/BENCHMARKS.md`.

use margay_levels::Level;
use margay_solve::Solve;
use margay_testkit::{Options, conformance};

const LEVELS: [Level; 12] = [
    Level::ReadCommitted,
    Level::BeReadCommitted,
    Level::ReadAtomic,
    Level::Causal,
    Level::ParallelSnapshot,
    Level::Prefix,
    Level::Serializable,
    Level::StrongSessionSerializable,
    Level::StrictSerializable,
    Level::SnapshotIsolation,
    Level::StrongSessionSnapshotIsolation,
    Level::StrictSnapshotIsolation,
];

#[test]
fn solve_keeps_the_laws() {
    let tally = conformance(&Solve, &LEVELS, Options::default());
    assert!(tally.holds > 1000 && tally.violated > 1000, "{tally:?}");
    println!("{tally:?}");
}
