//! What can be checked by machine is checked here: lengths, documentation, leftovers, links.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

/// Text files of the project with their contents.
fn texts() -> Vec<(PathBuf, String)> {
    let root = common::root();
    let text = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        matches!(extension, "rs" | "md" | "toml" | "sh" | "jsonl")
            || matches!(name, "test" | "run" | ".gitignore")
    };
    let files = common::project_files(&root).into_iter().filter(text);
    files
        .filter_map(|path| Some((path.strip_prefix(&root).ok()?.to_owned(), fs::read_to_string(&path).ok()?)))
        .collect()
}

fn sources() -> Vec<(PathBuf, String)> {
    texts()
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn no_file_is_longer_than_a_thousand_lines() {
    for (path, text) in sources() {
        assert!(text.lines().count() <= 1000, "{} is {} lines long", path.display(), text.lines().count());
    }
}

#[test]
fn no_function_is_longer_than_seventy_lines() {
    for (path, text) in sources() {
        for (name, length) in functions(&text) {
            assert!(length <= 70, "{}: {name} is {length} lines long", path.display());
        }
    }
}

/// The functions of a formatted source with their lengths: each ends at the brace that is indented
/// as its first line.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "const fn ", "pub const fn "];
        if !words.iter().any(|word| code.starts_with(word)) || code.ends_with([';', '}']) {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        if let Some(length) = lines[start..].iter().position(|line| *line == end) {
            found.push((code, length + 1));
        }
    }
    found
}

#[test]
fn every_crate_says_what_it_is() {
    for entry in fs::read_dir(common::root().join("crates")).expect("the crates") {
        let crate_root = entry.expect("an entry").path();
        if !crate_root.join("Cargo.toml").exists() {
            continue;
        }
        let file = ["src/lib.rs", "src/main.rs"]
            .map(|file| crate_root.join(file))
            .into_iter()
            .find(|file| file.exists());
        let file = file.unwrap_or_else(|| panic!("{} has no root file", crate_root.display()));
        let text = fs::read_to_string(&file).expect("a source");
        assert!(text.starts_with("//! "), "{} does not begin with its documentation", file.display());
    }
}

#[test]
fn nothing_is_left_undone_in_silence() {
    // Taken apart, so that this file does not find itself.
    let leftovers =
        [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("db", "g!("), concat!("FIX", "ME")];
    for (path, text) in sources() {
        for leftover in leftovers {
            assert!(!text.contains(leftover), "{} contains {leftover}", path.display());
        }
    }
}

#[test]
fn no_path_of_a_machine() {
    let places = [
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/ro", "ot/"),
        concat!("/tm", "p/"),
        concat!("/wo", "rk/"),
    ];
    for (path, text) in texts() {
        for place in places {
            assert!(!text.contains(place), "{} contains {place}", path.display());
        }
    }
}

#[test]
fn links_of_documents_lead_somewhere() {
    let root = common::root();
    for (path, text) in texts().into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "md")) {
        for target in links(&text) {
            let linked = root.join(path.parent().unwrap_or(Path::new(""))).join(target);
            assert!(linked.exists(), "{} links to {target}, which does not exist", path.display());
        }
    }
}

#[test]
fn the_book_has_every_document_once() {
    let summary = fs::read_to_string(common::root().join("docs/SUMMARY.md")).expect("a summary");
    let mut listed = links(&summary);
    listed.sort_unstable();
    let mut there: Vec<String> = fs::read_dir(common::root().join("docs"))
        .expect("documents")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    there.sort_unstable();
    assert_eq!(listed, there, "docs/SUMMARY.md, which the book is made from");
}

/// The relative targets of `[text](target)`, without their anchors.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let relative =
        targets.filter(|target| !target.contains("://") && !target.starts_with('#') && !target.contains(' '));
    relative.filter_map(|target| target.split('#').next()).collect()
}

#[test]
fn the_helpers_of_this_test_work() {
    let text = "impl X {\n    fn a() {\n        if x {\n        }\n    }\n    fn b() {}\n}\n";
    assert_eq!(functions(text), [("fn a() {", 4)]);
    assert_eq!(links("see [a](b.md#c) and [d](https://e.f) and [g](#h)"), ["b.md"]);
}
