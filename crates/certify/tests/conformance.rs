//! Engines certify and replay against the definitions: all tiny histories, random ones with evidence, every certificate audited, the laws.

use margay_certify::Certify;
use margay_levels::Level;
use margay_testkit::{Options, conformance};

const LEVELS: [Level; 11] = [
    Level::ReadUncommitted,
    Level::ReadCommitted,
    Level::RepeatableRead,
    Level::Prefix,
    Level::ParallelSnapshot,
    Level::SnapshotIsolation,
    Level::Serializable,
    Level::StrongSessionSnapshotIsolation,
    Level::StrictSnapshotIsolation,
    Level::StrongSessionSerializable,
    Level::StrictSerializable,
];

#[test]
fn certify_keeps_the_laws() {
    let tally = conformance(&Certify, &LEVELS, Options::default());
    println!("{tally:?}");
    assert!(tally.holds > 1000 && tally.violated > 100, "{tally:?}");
}
