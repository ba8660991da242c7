//! Engine solve against the definitions: all tiny histories, random ones, every certificate
//! audited, the laws. With `MARGAY_RANDOM=100000` it takes two CPU minutes; what that gave stands
//! in `docs/BENCHMARKS.md`.

mod common;

use common::LEVELS;
use margay_solve::Solve;
use margay_testkit::{Options, conformance};

#[test]
fn solve_keeps_the_laws() {
    let tally = conformance(&Solve, &LEVELS, Options::default());
    assert!(tally.holds > 1000 && tally.violated > 1000, "{tally:?}");
    println!("{tally:?}");
}
