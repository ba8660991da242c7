//! Golden tests of the terminal's text. `MARGAY_BLESS=1` rewrites them; then read the difference
//! before committing it.

mod common;

use std::fs;

use common::{corpus, report, root};
use margay_levels::Level;
use margay_report::{Paint, text};

fn golden(name: &str, text: &str) {
    let path = root().join("crates/report/tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("MARGAY_BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("a folder"))
            .and_then(|()| fs::write(&path, text))
            .expect("it can be written");
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "{name} is not what it was; MARGAY_BLESS=1 accepts it");
}

#[test]
fn anomalies_of_the_corpus() {
    let wanted = [
        "hermitage-G-single",
        "hermitage-G2",
        "hermitage-G1a",
        "taxonomy-lost-update",
        "taxonomy-G-nonadjacent",
    ];
    for entry in corpus().iter().filter(|entry| wanted.contains(&entry.name.as_str())) {
        let report = report(&entry.history, entry.level, &entry.name);
        golden(&entry.name, &text::text(&report, Paint::OFF, 80));
    }
}

#[test]
fn holds_with_statistics() {
    let mut history = String::from("init: x=0");
    for i in 1..=96 {
        history += &format!(
            " | T{i}@s{}: w(x,{i})@[{},{}] commit@[{},{}]",
            i % 3,
            i * 1_000_000_000u64,
            i * 1_000_000_000 + 300_000_000,
            i * 1_000_000_000 + 400_000_000,
            i * 1_000_000_000 + 500_000_000
        );
    }
    let report = report(&margay_testkit::history(&history), Level::Serializable, "a run");
    golden("holds", &text::text(&report, Paint::OFF, 80));
}

#[test]
fn colours() {
    let entry = corpus().into_iter().find(|entry| entry.name == "taxonomy-G2-item").expect("it is there");
    let report = report(&entry.history, entry.level, &entry.name);
    golden("colours", &text::text(&report, Paint { on: true }, 100));
}
