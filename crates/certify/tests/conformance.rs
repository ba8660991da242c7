//! Engines certify and replay against the definitions: all tiny histories, random ones with evidence, every certificate audited, the laws.

use margay_certify::{Certify, Replay};
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

#[test]
fn replay_keeps_the_laws() {
    let random = Options::default().random.max(4000);
    let tally = conformance(&Replay, &LEVELS, Options { random, tiny: 0, ..Options::default() });
    println!("{tally:?}");
    assert!(tally.holds > 100 && tally.violated > 50, "{tally:?}");
}
