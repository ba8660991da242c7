//! Mirror and solve agree wherever both can decide.

#[path = "../examples/detection/compare.rs"]
mod compare;

use compare::{compare, protocols};
use margay_simdb::Fault;

/// Whatever mirror calls a violation of the level as such, solve calls one too, or gives up; and
/// mirror finds a good part of what solve finds.
#[test]
fn what_mirror_says_of_the_level_solve_says_too() {
    let seeds = std::env::var("MARGAY_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let (mut visible, mut both, mut of_solve, mut by_level) = (0, 0, 0, 0);
    for fault in Fault::ALL {
        for protocol in protocols().filter(|protocol| fault.breaks(*protocol).is_some()) {
            for seed in 0..seeds {
                let (history, shown) = compare(protocol, Some(fault), seed);
                assert!(
                    !shown.level || shown.solve != Some(false),
                    "{fault} {protocol} {seed}: solve says that the level holds\n{}",
                    margay_testkit::show(&history)
                );
                visible += usize::from(shown.visible);
                of_solve += usize::from(shown.solve == Some(true));
                both += usize::from(shown.mirror && shown.solve == Some(true));
                by_level += usize::from(shown.level);
            }
        }
    }
    println!(
        "{visible} with a visible fault: solve finds {of_solve}, mirror {both} of them; {by_level} by the level alone"
    );
    assert!(of_solve > 50 && by_level > 10, "{of_solve} {by_level}");
    assert!(both * 2 > of_solve, "{both} of {of_solve}");
}

/// On correct databases neither finds anything.
#[test]
fn neither_accuses_a_correct_database() {
    for protocol in protocols() {
        for seed in 0..6 {
            let (_, shown) = compare(protocol, None, seed);
            assert!(!shown.mirror && !shown.level && shown.solve != Some(true), "{protocol} {seed}");
        }
    }
}
