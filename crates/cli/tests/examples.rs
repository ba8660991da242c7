//! The table of examples/README.md is true: every level it names, and every level that follows.

mod common;

use std::str::FromStr;

use common::{margay, root};
use margay_levels::Level;

/// A row: the file, and the levels that it is possible and impossible under.
fn rows() -> Vec<(String, Vec<Level>, Vec<Level>)> {
    let text = std::fs::read_to_string(root().join("examples/README.md")).expect("the table");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (names(cells[1]).remove(0).to_owned(), levels(cells[3]), levels(cells[4]))
    })
    .collect()
}

fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn levels(cell: &str) -> Vec<Level> {
    names(cell).into_iter().map(|name| Level::from_str(name).expect("a level")).collect()
}

fn check(file: &str, level: Level) -> i32 {
    margay(["check", &format!("examples/{file}"), "--level", level.name(), "--quiet"]).status
}

#[test]
fn every_example_is_in_the_table() {
    let folder = std::fs::read_dir(root().join("examples")).expect("the examples");
    let files = folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut files: Vec<String> = files.filter(|name| name.ends_with(".jsonl")).collect();
    files.sort();
    let mut listed: Vec<String> = rows().into_iter().map(|(file, ..)| file).collect();
    listed.sort();
    assert_eq!(files, listed);
}

/// The pictures of docs/CONCEPTS.md are what `--svg` draws.
#[test]
fn the_pictures_of_the_concepts_are_drawn_by_the_program() {
    let level = |name: &str| match name {
        "lost-update" | "long-fork" => "snapshot-isolation",
        "stale-read" => "strict-serializable",
        _ => "serializable",
    };
    let page = std::fs::read_to_string(root().join("docs/CONCEPTS.md")).expect("the page");
    let names = page.split("(pictures/").skip(1).filter_map(|rest| rest.split_once(".svg)"));
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    assert_eq!(names, ["lost-update", "write-skew", "long-fork", "stale-read"]);
    for name in names {
        let file = format!("examples/{name}.jsonl");
        let drawn = margay(["check", &file, "--level", level(name), "--svg", "-"]).expect(1).stdout;
        let kept = std::fs::read_to_string(root().join(format!("docs/pictures/{name}.svg"))).expect(name);
        assert_eq!(drawn, kept, "docs/pictures/{name}.svg");
    }
}

#[test]
fn the_named_levels_and_all_that_follow_have_these_verdicts() {
    for (file, possible, impossible) in rows() {
        for level in Level::ALL {
            if possible.iter().any(|known| known.implies(level)) {
                assert_eq!(check(&file, level), 0, "{file} is possible under {level}");
            }
            if impossible.iter().any(|known| level.implies(*known)) {
                assert_eq!(check(&file, level), 1, "{file} is impossible under {level}");
            }
        }
    }
}
