//! The binary form: it carries everything, and any damage is found.

use margay_formats::{Format, FormatError, Source, Target};
use margay_history::{Access, History, HistoryBuilder, Interval, OpDetail, OpKind, ValueId};

fn sample() -> History {
    read(include_bytes!("all.jsonl"), Format::Margay).unwrap()
}

fn read(bytes: &[u8], format: Format) -> Result<History, FormatError> {
    margay_formats::read(Source::bytes(bytes), Some(format)).map(|loaded| loaded.history)
}

fn written(history: &History) -> Vec<u8> {
    let mut out = Vec::new();
    margay_formats::write(history, Format::MargayBin, Target::Stream(Box::new(&mut out))).unwrap();
    out
}

#[test]
fn everything_comes_back() {
    let history = sample();
    let bytes = written(&history);
    let again = read(&bytes, Format::MargayBin).unwrap();
    assert_eq!(history.difference(&again), None);
    assert_eq!(written(&again), bytes, "the form is canonical");
    assert_eq!(margay_formats::detect(Source::bytes(&bytes)), Ok(Format::MargayBin));
}

#[test]
fn what_json_cannot_say_comes_back_too() {
    let mut builder = HistoryBuilder::new();
    let nan = builder.values().float(f64::NAN);
    let list = builder.values().list(&[ValueId::UNKNOWN, nan]);
    let object = builder.object(None, ValueId::NULL);
    let many: Vec<Access> = (0..20).map(|_| Access { object, value: list }).collect();
    let at = Some(Interval::new(i64::MIN, i64::MAX));
    builder.push(u64::MAX, u64::MAX, at, OpKind::Read, &many, OpDetail::None).unwrap();
    builder.push(u64::MAX, u64::MAX, None, OpKind::Commit, &[], OpDetail::None).unwrap();
    builder.push(3, 0, None, OpKind::Abort, &[], OpDetail::None).unwrap();
    let history = builder.finish().unwrap();
    assert_eq!(history.difference(&read(&written(&history), Format::MargayBin).unwrap()), None);
}

#[test]
fn an_empty_history_comes_back() {
    let history = HistoryBuilder::new().finish().unwrap();
    assert_eq!(history.difference(&read(&written(&history), Format::MargayBin).unwrap()), None);
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let bytes = written(&sample());
    for end in 0..bytes.len() {
        let error = read(&bytes[..end], Format::MargayBin).expect_err("a cut file");
        assert!(error.offset.is_some(), "cut at {end}: {error}");
    }
    let cut = read(&bytes[..bytes.len() - 1], Format::MargayBin).unwrap_err();
    assert_eq!(cut.to_string(), format!("<bytes>:byte {}: the file ends too early", bytes.len() - 4));
}

#[test]
fn a_file_changed_anywhere_is_refused() {
    let bytes = written(&sample());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert!(read(&changed, Format::MargayBin).is_err(), "bit {bit} of byte {at}");
        }
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let error = read(&longer, Format::MargayBin).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("<bytes>:byte {}: something follows the end of the history", bytes.len())
    );
}

#[test]
fn other_files_and_versions_are_refused() {
    let error = |bytes: &[u8]| read(bytes, Format::MargayBin).unwrap_err().to_string();
    assert_eq!(error(b"not a history"), "<bytes>:byte 0: this is not a history in the format margay-bin");
    assert_eq!(error(b"\x89MARGAY"), "<bytes>:byte 0: the file ends too early");
    assert_eq!(
        error(b"\x89MARGAY\n\x07"),
        "<bytes>:byte 8: this is version 7 of the format; this Margay reads 1 and 2"
    );
}

#[test]
fn claims_are_checked_before_memory_is_reserved() {
    let mut bytes = b"\x89MARGAY\n\x01".to_vec();
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0x7f, 0x05]);
    assert_eq!(
        read(&bytes, Format::MargayBin).unwrap_err().to_string(),
        "<bytes>:byte 9: the section of header claims 34359738367 elements in 5 bytes"
    );
    let mut bytes = b"\x89MARGAY\n\x01".to_vec();
    bytes.extend([0x01, 0xfe, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(read(&bytes, Format::MargayBin).unwrap_err().what, "the file ends too early");
}

/// A file of version 1 stays readable, and is still what is written. `MARGAY_BLESS=1` writes it
/// anew, for a new version.
#[test]
fn the_written_form_does_not_drift() {
    let bytes = written(&sample());
    if std::env::var_os("MARGAY_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all.mgb"), &bytes).unwrap();
    }
    let kept = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all.mgb")).unwrap();
    assert_eq!(kept, bytes);
}

/// Values name earlier ones: a small file could name one whose text fills the stack or the memory.
#[test]
fn values_that_are_too_deep_or_too_large_are_refused() {
    for (width, depth) in [(1, 100_000), (2, 60)] {
        let mut builder = HistoryBuilder::new();
        let mut value = builder.values().text("x");
        for _ in 0..depth {
            value = builder.values().list(&vec![value; width]);
        }
        let object = builder.object(None, ValueId::NULL);
        builder.push(0, 0, None, OpKind::Write, &[Access { object, value }], OpDetail::None).unwrap();
        let bytes = written(&builder.finish().unwrap());
        let error = read(&bytes, Format::MargayBin).unwrap_err();
        assert!(error.what.starts_with("a value that is nested too deeply or too large"), "{error}");
    }
}
