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

/// A killed recorder leaves a compressed file without its end: eight of eight were unreadable.
#[test]
fn a_recording_whose_archive_is_cut_off_is_read_up_to_there() {
    let text = include_bytes!("all.jsonl").to_vec();
    let whole = sample();
    for (what, archive) in [("gzip", common::gzip(&text)), ("zstd", common::zstd(&text))] {
        let (mut read, mut most) = (0, 0);
        for end in 4..archive.len() {
            let Ok(loaded) = margay_formats::read(Source::bytes(&archive[..end]), Some(Format::Margay))
            else {
                continue;
            };
            read += 1;
            most = most.max(loaded.history.op_count());
            assert!(loaded.history.op_count() <= whole.op_count());
            let told = loaded.warnings.iter().any(|warning| {
                warning.as_str() == format!("the {what} data ends too early: read up to there")
            });
            assert!(told, "{what} cut at {end}: {:?}", loaded.warnings);
        }
        // One small frame of zstd is all or nothing.
        let all = read > 0 && most == whole.op_count();
        assert!(all || what == "zstd", "{what}: {read} cuts could be read, {most} operations");
    }
    let lines = |count: u32| (0..count).map(|n| format!("{{\"session\":0,\"txn\":{n},\"commit\":true}}\n"));
    let parts = [format!("{{\"margay\":1}}\n{}", lines(5).collect::<String>()), "x".repeat(99)];
    // Whole frames, as a recorder writes them, and a part of one.
    for pack in [common::gzip, common::zstd] {
        let frames: Vec<u8> = parts.iter().flat_map(|part| pack(part.as_bytes())).collect();
        let first = pack(parts[0].as_bytes()).len();
        for end in first + 1..first + 8 {
            let loaded = margay_formats::read(Source::bytes(&frames[..end]), None).unwrap();
            assert_eq!(loaded.history.txn_count(), 5);
            assert_eq!(loaded.warnings.len(), 1, "{end}: {:?}", loaded.warnings);
        }
    }
}

#[test]
fn archives_of_other_formats_that_are_cut_off_are_refused() {
    let edn = b"{:type :ok :process 0 :value [[:w 1 1]]}\n".repeat(20);
    let bin = {
        let mut bytes = Vec::new();
        let target = Target::Stream(Box::new(&mut bytes));
        margay_formats::write(&sample(), Format::MargayBin, target).unwrap();
        bytes
    };
    for (format, content) in [(Format::Edn, edn), (Format::MargayBin, bin)] {
        for archive in [common::gzip(&content), common::zstd(&content)] {
            for end in 4..archive.len() {
                let error = margay_formats::read(Source::bytes(&archive[..end]), Some(format)).unwrap_err();
                assert!(error.what.ends_with("data ends too early"), "{format} cut at {end}: {error}");
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let archive = common::gzip(b"{\"value\":[[\"w\",1,1,true]]}\n");
    fs::write(folder.path().join("J0.log"), &archive[..archive.len() - 3]).unwrap();
    let error = margay_formats::read(Source::from(folder.path()), Some(Format::Viper)).unwrap_err();
    assert_eq!(error.what, "the gzip data ends too early");
}

#[test]
fn damaged_archives_are_refused() {
    let text = include_bytes!("all.jsonl").to_vec();
    let refused =
        |bytes: &[u8]| margay_formats::read(Source::bytes(bytes), Some(Format::Margay)).unwrap_err().what;
    let (gzip, zstd) = (common::gzip(&text), common::zstd(&text));
    let mut damaged = gzip.clone();
    damaged[gzip.len() - 6] ^= 1;
    assert!(refused(&damaged).starts_with("the gzip data is damaged"));
    let mut damaged = zstd.clone();
    damaged[8] ^= 0xff;
    assert!(refused(&damaged).starts_with("the zstd data is damaged"));
}

/// A folder without logs was a history without transactions, of which every level holds.
#[test]
fn a_directory_without_logs_is_an_error() {
    for format in [Format::Cobra, Format::Vbox, Format::Viper, Format::Leopard, Format::Dbcop] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("README.md"), "nothing here").unwrap();
        fs::create_dir(folder.path().join("init_data")).unwrap();
        fs::write(folder.path().join("init_data/t.csv"), "id,v\n1,2\n").unwrap();
        let error = margay_formats::read(Source::from(folder.path()), Some(format)).unwrap_err();
        assert!(error.what.starts_with("no "), "{format}: {error}");
        assert!(margay_formats::read(Source::from(folder.path()), None).is_err());
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
