//! Engine infer against the definitions: all tiny histories, random ones, every certificate
//! audited, the laws.

use margay_infer::Infer;
use margay_levels::Level;
use margay_testkit::{Options, conformance};

#[test]
fn infer_keeps_the_laws() {
    let tally = conformance(&Infer::DEFAULT, &Level::ALL, Options::default());
    assert!(tally.holds > 1000 && tally.violated > 1000, "{tally:?}");
    println!("{tally:?}");
}
