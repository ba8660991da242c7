//! The examples of docs/FORMAT.md: the good ones are read and written without loss, the bad ones
//! are refused.

use margay_formats::{Format, Source, Target};

/// The blocks of one kind in the document.
fn blocks(kind: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
    let document = std::fs::read_to_string(path).unwrap();
    let fence = format!("```{kind}\n");
    let after = document.split(&fence).skip(1);
    after.map(|rest| rest.split_once("```").expect("the block ends").0.to_string()).collect()
}

#[test]
fn good_examples_are_read() {
    let examples = blocks("jsonl");
    assert!(examples.len() >= 5, "the document has examples");
    for text in examples {
        let loaded = margay_formats::read(Source::bytes(text.as_bytes()), None)
            .unwrap_or_else(|e| panic!("{}", e.render()));
        assert_eq!(loaded.format, Format::Margay);
        let mut out = Vec::new();
        margay_formats::write(&loaded.history, Format::Margay, Target::Stream(Box::new(&mut out))).unwrap();
        let again = margay_formats::read(Source::bytes(&out), None).unwrap();
        assert_eq!(loaded.history.difference(&again.history), None);
    }
}

#[test]
fn bad_examples_are_refused() {
    let examples = blocks("bad-jsonl");
    assert!(examples.len() >= 3, "the document has bad examples");
    for text in examples {
        assert!(margay_formats::read(Source::bytes(text.as_bytes()), None).is_err(), "{text}");
    }
}

#[test]
fn every_format_is_listed() {
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md")).unwrap();
    for format in Format::ALL {
        let write = if format.can_write() { "●" } else { "–" };
        let native = matches!(format, Format::Margay | Format::MargayBin);
        let name = format!("| `{format}` |");
        let mut rows = document.lines().filter(|line| line.starts_with(&name));
        assert!(native || rows.any(|row| row.contains(&format!("| ● | {write} |"))), "{format}");
    }
}
