//! The judge judged: certificates of naive pass the audit, and it keeps the laws.

use margay_levels::Level;
use margay_naive::Naive;
use margay_testkit::{Options, conformance};

#[test]
fn keeps_the_laws_on_random_histories() {
    let tally = conformance(&Naive, &Level::ALL, Options { tiny: 0, ..Options::default() });
    eprintln!("{tally:?}");
}

#[test]
fn keeps_the_laws_on_tiny_histories() {
    let tally = conformance(&Naive, &Level::ALL, Options { random: 0, ..Options::default() });
    eprintln!("{tally:?}");
}
