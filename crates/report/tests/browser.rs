//! Reports in a real browser: the picture's parts, pointing, clicking, searching, the keyboard; no errors, no requests.
//!
//! Without Chromium these tests say so and pass. Screenshots stay under `target/report`.

mod common;

use std::fs;
use std::path::PathBuf;

use common::browser::Browser;
use common::{Entry, artefacts, corpus, report};
use margay_report::Report;
use margay_report::html::{Place, page};

fn write(name: &str, report: &Report) -> PathBuf {
    let path = artefacts().join(format!("{name}.html"));
    fs::write(&path, page(report, Place::File)).expect("a file can be written");
    path
}

fn open(browser: &mut Browser, name: &str, report: &Report) -> String {
    let path = write(name, report);
    browser.open_file(&path);
    format!("file://{}", path.display())
}

#[test]
fn every_anomaly_of_the_corpus() {
    let Some(mut browser) = Browser::start() else { return };
    let entries = corpus();
    assert!(entries.len() > 60, "the corpus has {} anomalies", entries.len());
    for entry in &entries {
        look_at(&mut browser, entry);
    }
}

fn look_at(browser: &mut Browser, entry: &Entry) {
    let report = report(&entry.history, entry.level, &entry.name);
    let name = &entry.name;
    let address = open(browser, name, &report);
    assert_eq!(browser.text(".word"), "violated", "{name}");
    let case = &report.report.as_ref().expect("details").cases[0];
    let picture = case.picture.as_ref().expect("a picture");
    assert!(browser.text(".case h2").starts_with(&case.title), "{name}");
    assert!(browser.text(".meaning").len() > 20 && browser.text(".why p").len() > 40, "{name}");
    let slice = picture.transactions.iter().filter(|txn| txn.slice).count();
    assert_eq!(browser.count("svg.timeline .txn"), slice, "{name}");
    assert!(browser.count("svg.timeline .bar") >= slice, "{name}");
    assert_eq!(browser.count(".object"), picture.objects.len(), "{name}");
    assert_eq!(browser.count(".levels.breaks li"), case.breaks.len(), "{name}");
    if let Some(cycle) = picture.cycles.first() {
        assert_eq!(browser.count("svg.cycle .arrow"), cycle.edges.len(), "{name}");
        assert_eq!(browser.count(".edges li"), cycle.edges.len(), "{name}");
        browser.hover("svg.cycle .pill[data-edge='0']");
        assert_eq!(browser.text("#reason"), cycle.edges[0].reason, "{name}");
    } else {
        assert!(browser.count(".steps li") > 0, "{name}");
    }
    browser.click("svg.timeline .txn .name");
    assert!(browser.count("#ops li") > 0, "{name}: a click shows operations");
    browser.screenshot(&artefacts().join(format!("{name}.png")));
    assert_eq!(browser.complaints(&address), Vec::<String>::new(), "{name}");
}
