//! Protocols keep their promises: the naive engine finds no violation of a promised level, on any
//! seed.

use std::collections::BTreeMap;
use std::time::Duration;

use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{EvidenceOptions, Mix, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Question};

/// Seeds per protocol, level and mix.
fn seeds() -> u64 {
    std::env::var("MARGAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(250)
}

/// Checks one history; answers whether the judge came to an end.
fn keeps(config: &SimConfig, level: Level) -> bool {
    let (history, _) = simulate_history(config).expect("a history");
    let budget = Budget::unlimited().with_time(Duration::from_secs(2));
    match holds(&history, Question::new(level), &budget) {
        Ok(true) => true,
        Ok(false) => panic!("{level} is violated: {}", config.command("OUT")),
        Err(_) => false,
    }
}

fn check(protocol: Protocol) {
    let mut judged: BTreeMap<Level, u64> = BTreeMap::new();
    for (_, mix) in Mix::NAMED {
        for &level in protocol.promises_on(&mix) {
            for seed in 0..seeds() {
                let mut config = SimConfig::small(protocol, mix, seed);
                if seed % 2 == 1 {
                    config.evidence = EvidenceOptions::ALL;
                }
                if seed % 3 == 1 {
                    (config.clients, config.transactions, config.ops, config.keys) = (4, 8, (2, 4), 2);
                }
                if seed % 5 == 1 {
                    config.skew = 200_000;
                }
                *judged.entry(level).or_default() += u64::from(keeps(&config, level));
            }
        }
    }
    let enough = seeds() * 4 / 5;
    assert!(
        judged.values().all(|&n| n >= enough),
        "{protocol}: only so many histories were judged: {judged:?}"
    );
}

macro_rules! keeps_its_promises {
    ($($name:ident $protocol:ident)*) => {$(
        #[test]
        fn $name() {
            check(Protocol::$protocol);
        }
    )*};
}

keeps_its_promises! {
    serial Serial
    ss2pl Ss2pl
    rc_locking RcLocking
    rc_mvcc RcMvcc
    si_fuw SiFuw
    si_fcw SiFcw
    ssi Ssi
    occ Occ
    mvto Mvto
    percolator Percolator
    innodb_rr InnodbRr
    read_uncommitted ReadUncommitted
}
