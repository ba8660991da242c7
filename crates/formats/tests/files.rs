//! Files and directories: compression, detection, and writing whole or not at all.

mod common;

use std::fs;
use std::path::Path;

use margay_formats::{Format, Source, Target};
use margay_history::{History, HistoryBuilder};

fn sample() -> History {
    margay_formats::read(Source::bytes(include_bytes!("all.jsonl")), None).unwrap().history
}

/// A history that JSON cannot carry.
fn infinite() -> History {
    let mut builder = HistoryBuilder::new();
    let (key, value) = (builder.values().text("x"), builder.values().float(f64::INFINITY));
    let object = builder.object(None, key);
    builder.initial(object, value).unwrap();
    builder.finish().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn compression_follows_the_name_when_writing_and_the_content_when_reading() {
    let dir = tempfile::tempdir().unwrap();
    let history = sample();
    for (format, name, magic) in [
        (Format::Margay, "h.jsonl", &b"{\"margay"[..]),
        (Format::Margay, "h.jsonl.gz", &[0x1f, 0x8b]),
        (Format::Margay, "h.jsonl.zst", &[0x28, 0xb5, 0x2f, 0xfd]),
        (Format::MargayBin, "h.mgb", b"\x89MARGAY\n"),
        (Format::MargayBin, "h.mgb.gz", &[0x1f, 0x8b]),
        (Format::MargayBin, "h.mgb.zst", &[0x28, 0xb5, 0x2f, 0xfd]),
    ] {
        let path = dir.path().join(name);
        margay_formats::write(&history, format, Target::from(&*path)).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(magic), "{name}");
        // The name says nothing when reading.
        let other = dir.path().join("renamed");
        fs::rename(&path, &other).unwrap();
        let loaded = margay_formats::read(Source::from(&*other), None).unwrap();
        assert_eq!((loaded.format, history.difference(&loaded.history)), (format, None), "{name}");
    }
}

#[test]
fn archives_cut_off_or_damaged_are_refused() {
    let text = include_bytes!("all.jsonl").to_vec();
    let refused = |bytes: &[u8]| {
        let error = margay_formats::read(Source::bytes(bytes), Some(Format::Margay)).unwrap_err();
        assert!(error.line.is_some() || bytes.len() < 20, "{error}");
        error.what
    };
    let (gzip, zstd) = (common::gzip(&text), common::zstd(&text));
    assert_eq!(refused(&gzip[..gzip.len() / 2]), "the gzip data ends too early");
    assert_eq!(refused(&gzip[..gzip.len() - 1]), "the gzip data ends too early");
    assert_eq!(refused(&zstd[..zstd.len() / 2]), "the zstd data ends too early");
    assert_eq!(refused(&zstd[..zstd.len() - 1]), "the zstd data ends too early");
    let mut damaged = gzip.clone();
    damaged[gzip.len() - 6] ^= 1;
    assert!(refused(&damaged).starts_with("the gzip data is damaged"));
    let mut damaged = zstd.clone();
    damaged[8] ^= 0xff;
    assert!(refused(&damaged).starts_with("the zstd data is damaged"));
    for end in 4..zstd.len() {
        assert!(
            margay_formats::read(Source::bytes(&zstd[..end]), Some(Format::Margay)).is_err(),
            "cut at {end}"
        );
    }
    for end in 4..gzip.len() {
        assert!(
            margay_formats::read(Source::bytes(&gzip[..end]), Some(Format::Margay)).is_err(),
            "cut at {end}"
        );
    }
}

#[test]
fn a_zip_bomb_is_an_error() {
    let bomb = common::zstd(&[b"{\"margay\":1}\n".to_vec(), vec![b' '; 80 << 20]].concat());
    let error = margay_formats::read(Source::bytes(&bomb), None).unwrap_err();
    assert_eq!(error.to_string(), "<bytes>:2:1: this line is longer than 64 MiB");
}

#[test]
fn nothing_half_written_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.jsonl.gz");
    let error = margay_formats::write(&infinite(), Format::Margay, Target::from(&*path)).unwrap_err();
    assert!(
        error.to_string().ends_with(
            "initial value of x: the format margay cannot carry a number that is infinite or none"
        )
    );
    assert_eq!(names(dir.path()), [""; 0]);
    fs::write(&path, "precious").unwrap();
    margay_formats::write(&infinite(), Format::Margay, Target::from(&*path)).unwrap_err();
    assert_eq!(
        (names(dir.path()), fs::read(&path).unwrap()),
        (vec!["h.jsonl.gz".to_string()], b"precious".to_vec())
    );
    margay_formats::write(&sample(), Format::Margay, Target::from(&*path)).unwrap();
    assert_eq!(names(dir.path()), ["h.jsonl.gz"]);
    assert!(margay_formats::read(Source::from(&*path), None).is_ok());
}

#[test]
fn what_is_in_the_way_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let write =
        |format, path: &Path| margay_formats::write(&sample(), format, Target::from(path)).unwrap_err().what;
    assert_eq!(write(Format::Margay, dir.path()), "is a directory; a file is expected");
    assert_eq!(write(Format::Margay, &dir.path().join("no/such/h.jsonl")), "no such file or directory");
    fs::write(dir.path().join("h.log"), "precious").unwrap();
    assert_eq!(write(Format::Cobra, dir.path()), "exists already and is not an empty directory");
    assert_eq!(names(dir.path()), ["h.log"]);
    let mut out = Vec::new();
    let stream = Target::Stream(Box::new(&mut out));
    let error = margay_formats::write(&sample(), Format::Vbox, stream).unwrap_err();
    assert!(error.what.contains("cannot"), "{error}");
    assert!(out.is_empty());
}

#[test]
fn errors_name_the_file_and_show_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.jsonl");
    let missing = margay_formats::read(Source::from(&*path), None).unwrap_err();
    assert_eq!(missing.to_string(), format!("{}: no such file or directory", path.display()));
    let text = "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"begin\":true}\n{\"evidence\":\"commit\",\"txn\":7,\"ts\":1}\n";
    fs::write(&path, common::gzip(text.as_bytes())).unwrap();
    let error = margay_formats::read(Source::from(&*path), None).unwrap_err();
    assert_eq!(
        error.render(),
        format!(
            "{}:3:1: evidence about transaction 7, which is not in the history\n   |\n 3 | {{\"evidence\":\"commit\",\"txn\":7,\"ts\":1}}\n   | ^",
            path.display()
        ),
        "the line is fetched again"
    );
    fs::write(&path, "").unwrap();
    let empty = margay_formats::read(Source::from(&*path), None).unwrap_err();
    assert_eq!(empty.what, "the file is empty");
}

#[test]
fn every_format_is_recognised_by_its_content() {
    for format in Format::ALL {
        for seed in common::seeds(format) {
            let text = String::from_utf8_lossy(&seed);
            assert_eq!(margay_formats::detect(Source::bytes(&seed)), Ok(format), "{text}");
            assert_eq!(margay_formats::detect(Source::bytes(&common::gzip(&seed))), Ok(format), "{text}");
        }
    }
}

#[test]
fn every_directory_is_recognised_by_what_lies_in_it() {
    for (format, name) in [
        (Format::Cobra, "T7.log"),
        (Format::Vbox, "0.log"),
        (Format::Viper, "J0.log"),
        (Format::Leopard, "trace/loader-0.0.json"),
        (Format::Dbcop, "history.bincode"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &common::seeds(format)[0]).unwrap();
        fs::write(dir.path().join("EMPTY.log"), "").unwrap();
        fs::write(dir.path().join("VERDICTS.tsv"), "a\tb\n").unwrap();
        assert_eq!(margay_formats::detect(Source::from(dir.path())), Ok(format), "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    let error = margay_formats::detect(Source::from(dir.path())).unwrap_err();
    assert!(error.what.starts_with("no history is recognised in this directory"), "{error}");
}

#[test]
fn the_extension_decides_where_the_content_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.edn");
    fs::write(&path, "  \n").unwrap();
    assert_eq!(margay_formats::detect(Source::from(&*path)), Ok(Format::Edn));
    assert_eq!(Format::from_extension(Path::new("a/h.jsonl.gz")), Some(Format::Margay));
    assert_eq!(Format::from_extension(Path::new("h.mgb.zst")), Some(Format::MargayBin));
    assert_eq!(Format::from_extension(Path::new("h.gz")), None);
}
