//! Any bytes lead to a history or an error, never to a panic, in any format, and in bounded memory;
//! and what was read can be written and read again without loss.

mod common;

use margay_formats::{Format, Loaded, Source, Target};
use margay_history::History;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseResult};

/// The whole run, all cases of all formats, stays below this.
const MEMORY_LIMIT_KB: u64 = 600_000;

/// Reads the bytes in every way they can be read.
fn survives(format: Format, bytes: &[u8]) -> TestCaseResult {
    for format in [Some(format), None] {
        if let Ok(loaded) = margay_formats::read(Source::bytes(bytes), format) {
            keeps(&loaded)?;
        }
    }
    if format == Format::MargayBin {
        survives_checked(bytes)?;
    }
    memory_stays_bounded();
    Ok(())
}

/// The checksum of the binary form would hide everything behind it from changed files; so it is put
/// right.
fn survives_checked(bytes: &[u8]) -> TestCaseResult {
    let Some((content, _)) = bytes.split_last_chunk::<4>() else { return Ok(()) };
    let mut crc = flate2::Crc::new();
    crc.update(content);
    let whole = [content, &crc.sum().to_le_bytes()].concat();
    match margay_formats::read(Source::bytes(&whole), Some(Format::MargayBin)) {
        Ok(loaded) => keeps(&loaded),
        Err(_) => Ok(()),
    }
}

fn size(history: &History) -> [usize; 4] {
    [history.session_count(), history.txn_count(), history.op_count(), history.object_count()]
}

/// The binary form carries everything, JSON lines everything that they do not refuse. The format
/// that the history came from keeps all operations, though it may number anew what has no number in
/// it. Other formats may know less (the unit of a clock that nobody used, for example), but what
/// they write can be read.
fn keeps(loaded: &Loaded) -> TestCaseResult {
    let history = &loaded.history;
    for format in Format::ALL.into_iter().filter(|format| format.can_write() && !format.is_directory()) {
        let mut out = Vec::new();
        match margay_formats::write(history, format, Target::Stream(Box::new(&mut out))) {
            Ok(()) => {
                let again = margay_formats::read(Source::bytes(&out), Some(format));
                let again =
                    again.map_err(|error| TestCaseError::fail(format!("{format}: {}", error.render())))?;
                if matches!(format, Format::Margay | Format::MargayBin) {
                    prop_assert_eq!(history.difference(&again.history), None, "{}", format);
                } else if format == loaded.format {
                    prop_assert_eq!(size(history), size(&again.history), "{}", format);
                }
            }
            Err(error) => prop_assert_ne!(format, Format::MargayBin, "{}", error),
        }
    }
    Ok(())
}

fn memory_stays_bounded() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let Some(peak) = peak.and_then(|kb| kb.trim().trim_end_matches(" kB").parse::<u64>().ok()) else {
        eprintln!("SKIPPED: this system does not tell a process's peak of memory");
        return;
    };
    assert!(peak < MEMORY_LIMIT_KB, "the peak was {peak} kB");
}

/// A change to a file, at places given as parts of its length in 65,536ths.
#[derive(Clone, Debug)]
enum Change {
    Set(u16, u8),
    Flip(u16, u8),
    Cut(u16),
    Remove(u16, u8),
    Repeat(u16, u8, u8),
    Insert(u16, Vec<u8>),
}

/// Pieces that readers stumble over.
const PIECES: &[&[u8]] = &[
    b"[",
    b"]",
    b"{",
    b"}",
    b"\"",
    b"\\",
    b",",
    b":",
    b"\n",
    b"\r\n",
    b"\0",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e400",
    b"-",
    b"18446744073709551616",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"\\ud800",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f\0\0\0\0",
    b"\xf0\x9f",
    b"nil",
    b"#inst",
    b";",
    b"(",
    b"[[[[[[[[[[[[[[[[",
    b"w(0,0,0,0)\n",
    b"---\n",
    b"=\n",
];

fn change() -> impl Strategy<Value = Change> {
    let piece = prop_oneof![
        3 => proptest::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 1..20),
    ];
    prop_oneof![
        any::<(u16, u8)>().prop_map(|(at, byte)| Change::Set(at, byte)),
        any::<(u16, u8)>().prop_map(|(at, bit)| Change::Flip(at, bit)),
        any::<u16>().prop_map(Change::Cut),
        any::<(u16, u8)>().prop_map(|(at, len)| Change::Remove(at, len)),
        any::<(u16, u8, u8)>().prop_map(|(at, len, times)| Change::Repeat(at, len, times)),
        (any::<u16>(), piece).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let place = |at: u16| usize::from(at) * bytes.len() / 65_536;
    match change {
        _ if bytes.is_empty() => {}
        Change::Set(at, byte) => {
            let at = place(*at);
            bytes[at] = *byte;
        }
        Change::Flip(at, bit) => {
            let at = place(*at);
            bytes[at] ^= 1 << (bit % 8);
        }
        Change::Cut(at) => bytes.truncate(place(*at)),
        Change::Remove(at, len) => {
            let at = place(*at);
            bytes.drain(at..(at + usize::from(*len)).min(bytes.len()));
        }
        Change::Repeat(at, len, times) => {
            let at = place(*at);
            let piece = bytes[at..(at + usize::from(*len)).min(bytes.len())].repeat(usize::from(*times));
            bytes.splice(at..at, piece);
        }
        Change::Insert(at, piece) => {
            let at = place(*at);
            bytes.splice(at..at, piece.iter().copied());
        }
    }
}

/// Bytes that people can read when a case fails.
#[derive(Clone)]
struct Shown(Vec<u8>);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// A valid file of any format, changed in a few places.
fn changed_file() -> impl Strategy<Value = (Format, Shown)> {
    let seed = proptest::sample::select(Format::ALL.to_vec())
        .prop_flat_map(|format| (Just(format), proptest::sample::select(common::seeds(format))));
    (seed, proptest::collection::vec(change(), 1..5)).prop_map(|((format, mut bytes), changes)| {
        changes.iter().for_each(|change| apply(&mut bytes, change));
        (format, Shown(bytes))
    })
}

/// The same cases every time. `PROPTEST_CASES` overrules their number, `MARGAY_FUZZ_SEED` chooses
/// others.
fn config(cases: u32) -> ProptestConfig {
    let seed = std::env::var("MARGAY_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn any_bytes_are_survived(format in proptest::sample::select(Format::ALL.to_vec()), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        survives(format, &bytes)?;
    }

    #[test]
    fn any_text_is_survived(format in proptest::sample::select(Format::ALL.to_vec()), text in "([\\[\\](){}\",:;rwk0-9 \n=-]|null|true|:type|:value|\\PC){0,60}") {
        survives(format, text.as_bytes())?;
    }
}

proptest! {
    #![proptest_config(config(10_000))]

    #[test]
    fn changed_files_are_survived((format, bytes) in changed_file()) {
        survives(format, &bytes.0)?;
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn changed_archives_are_survived(
        format in proptest::sample::select(Format::ALL.to_vec()),
        zstd in any::<bool>(),
        changes in proptest::collection::vec(change(), 1..5),
    ) {
        let seed = &common::seeds(format)[0];
        let mut bytes = if zstd { common::zstd(seed) } else { common::gzip(seed) };
        changes.iter().for_each(|change| apply(&mut bytes, change));
        survives(format, &bytes)?;
    }
}

#[test]
fn every_seed_is_valid() {
    for format in Format::ALL {
        for seed in common::seeds(format) {
            let loaded = margay_formats::read(Source::bytes(&seed), Some(format));
            let loaded = loaded.unwrap_or_else(|error| panic!("{format}: {}", error.render()));
            keeps(&loaded).unwrap();
        }
    }
}
