//! Simulations of every shape that the simulator can make, one for each seed.

use margay_simdb::{Distribution, EvidenceOptions, Fault, Mix, Ppm, Protocol, SimConfig};
use margay_testkit::Rng;

/// The simulation of a seed.
pub fn config(seed: u64) -> SimConfig {
    let mut rng = Rng::new(seed ^ 0x9e37_79b9);
    let protocol = *rng.pick(&Protocol::ALL);
    let mut config = SimConfig::small(protocol, mix(&mut rng), seed);
    if rng.chance(50) {
        config.transactions = 8 + rng.below(24) as u64;
        config.clients = 2 + rng.below(5) as u32;
    }
    config.ops = (1, 2 + rng.below(4) as u32);
    config.keys = 1 + rng.below(5) as u32;
    config.domain = 2 + rng.below(6) as i64;
    config.list_length = 2 + rng.below(12) as u32;
    config.sql = rng.chance(50);
    config.aborts = Ppm::percent(rng.below(30) as u32);
    config.unknown = Ppm::percent(rng.below(30) as u32);
    config.skew = if rng.chance(25) { 1 << rng.below(20) } else { 0 };
    config.distribution = if rng.chance(30) { Distribution::Zipf } else { Distribution::Uniform };
    config.evidence = evidence(&mut rng);
    if rng.chance(50) {
        let fault = *rng.pick(&Fault::ALL);
        config = config.with_fault(fault, Ppm::percent(10 + rng.below(40) as u32));
    }
    config
}

/// A mix with a name, or any weights.
fn mix(rng: &mut Rng) -> Mix {
    if rng.chance(60) {
        return rng.pick(&Mix::NAMED).1;
    }
    let mut weights = [0; 12];
    for weight in &mut weights {
        *weight = if rng.chance(40) { 1 + rng.below(9) as u32 } else { 0 };
    }
    weights[rng.below(12)] += 1;
    Mix { weights }
}

/// None, all, or any part of the evidence.
fn evidence(rng: &mut Rng) -> EvidenceOptions {
    let mut some = || if rng.chance(50) { [100, 100, 60, 20][rng.below(4)] } else { 0 };
    let parts = [some(), some(), some(), some(), some()];
    match rng.below(3) {
        0 => EvidenceOptions::default(),
        1 => EvidenceOptions::ALL,
        _ => {
            let [version_order, version_set, snapshot, commit, serialization] = parts;
            EvidenceOptions { version_order, version_set, snapshot, commit, serialization }
        }
    }
}
