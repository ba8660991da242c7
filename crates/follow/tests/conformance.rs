//! Engine follow against the definitions: all tiny histories, random ones, every certificate
//! audited, the laws.

use margay_follow::Follow;
use margay_levels::Level;
use margay_testkit::{Options, conformance};

#[test]
fn follow_keeps_the_laws() {
    let tally = conformance(&Follow, &Level::ALL, Options::default());
    println!("{tally:?}");
    assert!(tally.holds > 1000, "{tally:?}");
}
