//! The same seed gives the same bytes, on any machine and in any version: the bytes of one history
//! per protocol are pinned.
//!
//! If a change to the simulator changes them on purpose, the new numbers are printed by the failing
//! test.

use margay_formats::{Format, Source, read};
use margay_simdb::{
    EvidenceOptions, Fault, JsonSink, Mix, Ppm, Protocol, SimConfig, simulate, simulate_history,
};

fn config(protocol: Protocol) -> SimConfig {
    let mut config = SimConfig {
        transactions: 200,
        keys: 8,
        domain: 20,
        mix: Mix { weights: [10; 12] },
        sql: true,
        skew: 5_000,
        evidence: EvidenceOptions { version_set: 50, ..EvidenceOptions::ALL },
        ..SimConfig::new(protocol, 42)
    };
    let faults = Fault::ALL.into_iter().filter(|fault| fault.applies_to(protocol));
    config.faults = faults.map(|fault| (fault, Ppm::percent(2))).collect();
    config
}

fn bytes(config: &SimConfig) -> Vec<u8> {
    let mut sink = JsonSink::new(Vec::new());
    simulate(config, &mut sink).expect("memory takes everything");
    sink.finish().expect("memory takes everything")
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

const PINNED: [u64; 12] = [
    0x2224_be7f_f2c0_738b,
    0xace0_afa2_8886_2be0,
    0xd5dc_db99_7c12_2e4c,
    0x8f9e_be15_8308_846c,
    0x7892_458d_e0ff_0065,
    0x46bc_be5c_d11d_90ad,
    0x0e4e_592a_8d0b_9760,
    0xe03c_8ea2_36e1_710a,
    0x3ea0_09eb_94b5_4d5f,
    0xeb05_c653_e319_f79b,
    0xa153_9301_5d84_92d5,
    0xae9b_203f_c90a_3d6b,
];

#[test]
fn bytes_are_pinned() {
    let hashes = Protocol::ALL.map(|protocol| hash(&bytes(&config(protocol))));
    assert_eq!(hashes, PINNED, "{hashes:#018x?}");
}

#[test]
fn both_sinks_tell_the_same_story() {
    for protocol in Protocol::ALL {
        let config = config(protocol);
        let written =
            read(Source::bytes(&bytes(&config)), Some(Format::Margay)).expect("well-formed").history;
        let (built, _) = simulate_history(&config).expect("a history");
        assert_eq!(written.difference(&built), None, "{}", config.command("OUT"));
    }
}
