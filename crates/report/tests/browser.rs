//! Reports in a real browser: the picture's parts, pointing, clicking, searching, the keyboard; no
//! errors, no requests.
//!
//! Without Chromium these tests say so and pass. Screenshots stay under `target/report`.

mod common;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use common::browser::Browser;
use common::{Entry, artefacts, corpus, report};
use margay_levels::Level;
use margay_report::html::{Place, page};
use margay_report::view::{Check, Run};
use margay_report::{Report, Word};

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
    let mut pictured = HashSet::new();
    for entry in &entries {
        look_at(&mut browser, entry, &mut pictured);
    }
    assert!(pictured.len() > 15, "{pictured:?}");
}

/// One screenshot for each kind of anomaly is enough.
fn look_at(browser: &mut Browser, entry: &Entry, pictured: &mut HashSet<String>) {
    let report = report(&entry.history, entry.level, &entry.name);
    let name = &entry.name;
    let address = open(browser, name, &report);
    assert_eq!(browser.text(".word"), "violated", "{name}");
    let case = &report.report.as_ref().expect("details").cases[0];
    let picture = case.picture.as_ref().expect("a picture");
    assert!(browser.text(".case h2").starts_with(&case.title), "{name}");
    assert!(browser.text(".meaning").len() > 20 && browser.text(".why p").len() > 40, "{name}");
    let slice = picture.transactions.iter().filter(|txn| txn.slice).count();
    let central = match picture.cycles.as_slice() {
        [first, _, ..] => first.edges.iter().map(|edge| edge.from).collect::<HashSet<_>>().len(),
        _ => slice,
    };
    assert_eq!(browser.count("svg.timeline .txn"), central, "{name}");
    assert!(browser.count("svg.timeline .bar") >= central, "{name}");
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
    if pictured.insert(report.anomalies[0].name.clone()) {
        browser.screenshot(&artefacts().join(format!("{name}.png")));
    }
    assert_eq!(browser.complaints(&address), Vec::<String>::new(), "{name}");
}

fn skew() -> Report {
    let text = "init: x=0 y=0 | T1@s1: r(x,0)@[10,20] r(y,0)@[30,40] w(x,1)@[50,60] commit@[70,80] \
         | T2@s2: r(x,0)@[15,25] r(y,0)@[35,45] w(y,1)@[55,65] commit@[75,85] | T3@s1: r(x,1)@[90,95] r(y,1)@[96,97] commit@[98,99]";
    report(&margay_testkit::history(text), Level::Serializable, "skew")
}

#[test]
fn pointing_clicking_and_searching() {
    let Some(mut browser) = Browser::start() else { return };
    let report = skew();
    let address = open(&mut browser, "pointing", &report);
    let picture = report.report.as_ref().expect("details").cases[0].picture.clone().expect("a picture");
    for (i, edge) in picture.cycles[0].edges.iter().enumerate() {
        browser.hover(&format!("svg.cycle .pill[data-edge='{i}']"));
        assert_eq!(browser.text("#reason"), edge.reason);
        assert_eq!(browser.count(&format!("svg.timeline .link.lit[data-edge='{i}']")), 1);
        assert_eq!(browser.count("svg.cycle .card.lit"), 2);
    }
    browser.hover("h1");
    assert!(browser.text("#reason").starts_with("Each arrow"));
    browser.click("svg.cycle .card[data-txn='2']");
    assert_eq!(browser.count("[data-opened='2'] li"), 4);
    assert!(browser.text("[data-opened='2']").contains("wrote y = 1"));
    assert_eq!(browser.count("[data-opened='2'] .important"), 2);
    browser.click("svg.cycle .card[data-txn='2']");
    assert_eq!(browser.count("[data-opened]"), 0, "a second click closes");
    browser.click("#near");
    assert_eq!(browser.count("svg.timeline .txn"), 3, "the neighbour is there");
    browser.click("#search");
    browser.type_text("x = 1");
    assert_eq!(browser.text("#hits"), "2 of 3 transactions match");
    assert_eq!(browser.count("svg.timeline .txn.dim"), 1);
    assert_eq!(browser.count("[data-opened]"), 2);
    browser.key("Escape");
    assert_eq!(browser.count("svg.timeline .txn.dim"), 0);
    browser.click("#scale");
    assert_eq!(browser.text("#scale[aria-pressed='true']"), "To scale");
    browser.screenshot(&artefacts().join("pointing.png"));
    assert_eq!(browser.complaints(&address), Vec::<String>::new());
}

#[test]
fn the_keyboard_is_enough() {
    let Some(mut browser) = Browser::start() else { return };
    let address = open(&mut browser, "keyboard", &skew());
    let focused = "document.activeElement.getAttribute('class') + ' ' + (document.activeElement.dataset.edge ?? document.activeElement.dataset.txn ?? '')";
    let mut seen = Vec::new();
    for _ in 0..20 {
        browser.key("Tab");
        seen.push(browser.eval(focused).as_str().unwrap_or_default().to_owned());
        if seen.last().is_some_and(|class| class.starts_with("pill")) {
            assert_ne!(browser.text("#reason.on"), "", "an arrow that has the focus says why");
        }
    }
    for part in ["theme", "card 1", "card 2", "pill", "txn"] {
        assert!(seen.iter().any(|class| class.contains(part)), "{part} cannot be reached: {seen:?}");
    }
    browser.eval("document.querySelector('svg.cycle .card').focus()");
    browser.key("Enter");
    assert_eq!(browser.count("[data-opened]"), 1);
    browser.key("Escape");
    assert_eq!(browser.count("[data-opened]"), 0);
    browser.key("/");
    assert_eq!(browser.eval("document.activeElement.id"), "search");
    assert_eq!(browser.complaints(&address), Vec::<String>::new());
}

#[test]
fn several_anomalies_are_a_list() {
    let Some(mut browser) = Browser::start() else { return };
    let mut report = skew();
    for i in 0..30 {
        let mut anomaly = report.anomalies[0].clone();
        (anomaly.name, anomaly.transactions) = ("G1a".to_owned(), vec![100 + i]);
        report.anomalies.push(anomaly);
    }
    let address = open(&mut browser, "several", &report);
    assert_eq!(browser.count(".found li"), 31);
    browser.click("#find-anomaly");
    browser.type_text("t117");
    assert_eq!(browser.count(".found li:not([hidden])"), 1);
    browser.click(".found li:not([hidden]) button");
    assert!(browser.text(".case h2").contains("G1a"));
    assert!(browser.text(".case pre").contains("comes before"), "without a picture the explanation is shown");
    browser.eval("document.activeElement.blur()");
    browser.key("n");
    assert_eq!(browser.text(".found [aria-pressed='true'] span"), "T118");
    assert_eq!(browser.complaints(&address), Vec::<String>::new());
}

#[test]
fn dark_light_print_and_narrow() {
    let Some(mut browser) = Browser::start() else { return };
    let background = "getComputedStyle(document.body).backgroundColor";
    browser.scheme("dark");
    let address = open(&mut browser, "dark", &skew());
    let dark = browser.eval(background);
    browser.screenshot(&artefacts().join("dark.png"));
    browser.click(".theme");
    let light = browser.eval(background);
    assert_ne!(dark, light, "the button switches");
    browser.scheme("light");
    open(&mut browser, "dark", &skew());
    assert_eq!(browser.eval(background), light, "and the system's wish is followed");
    browser.call("Emulation.setEmulatedMedia", serde_json::json!({"media": "print"}));
    assert_eq!(browser.eval("getComputedStyle(document.querySelector('.tools')).display"), "none");
    browser.screenshot(&artefacts().join("print.png"));
    browser.call("Emulation.setEmulatedMedia", serde_json::json!({"media": ""}));
    browser.size(390, 800);
    open(&mut browser, "dark", &skew());
    assert_eq!(
        browser.eval("document.documentElement.scrollWidth <= 390"),
        true,
        "only pictures scroll sideways"
    );
    assert_eq!(browser.complaints(&address), Vec::<String>::new());
}

/// Everything that can be reached says what it is, and headings do not jump.
#[test]
fn what_can_be_reached_has_a_name() {
    let Some(mut browser) = Browser::start() else { return };
    open(&mut browser, "names", &skew());
    let nameless = "[...document.querySelectorAll('button, input, [tabindex]')].filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim())).length";
    assert_eq!(browser.eval(nameless), 0);
    let levels =
        browser.eval("[...document.querySelectorAll('h1, h2, h3, h4')].map((e) => Number(e.tagName[1]))");
    let levels: Vec<i64> =
        levels.as_array().expect("a list").iter().map(|level| level.as_i64().expect("a number")).collect();
    assert_eq!(levels[0], 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    assert_eq!(browser.eval("document.documentElement.lang"), "en");
}

/// A run of a database at a level that it does not promise.
fn run() -> Report {
    let mut text = String::from(
        "init: x=0 y=0 z=0 | T1@s1: r(z,0)@[90,91] r(z,0)@[92,93] r(z,0)@[94,95] r(z,0)@[96,97] r(x,0)@[110,120] r(y,0)@[130,140] w(x,1)@[150,160] commit@[170,180] \
         | T2@s2: r(z,0)@[98,99] r(x,0)@[115,125] r(y,0)@[135,145] w(y,1)@[155,165] commit@[175,185]",
    );
    for i in 3..9 {
        let at = i * 100;
        text += &format!(" | T{i}@s3: w(x,{i})@[{at},{}] commit@[{},{}]", at + 1, at + 2, at + 3);
    }
    let mut report = report(&margay_testkit::history(&text), Level::Serializable, "what the clients saw");
    report.run = Some(Run {
        dbms: "postgresql 15.18".to_owned(),
        level: "repeatable-read".to_owned(),
        again: "margay run --start postgres --claim serializable".to_owned(),
        ..Run::default()
    });
    let details = report.report.as_mut().expect("details");
    details.date = Some("2026-11-18 21:30 UTC".to_owned());
    details.beyond = Some("postgresql 15.18 does not promise serializable at repeatable-read.".to_owned());
    details.sql = Some("/* 1 */ BEGIN; SELECT x FROM t;\n/* 2 */ BEGIN; SELECT x FROM t;".to_owned());
    let check = |engine: &str, verdict| Check {
        engine: engine.to_owned(),
        level: "strict-snapshot-isolation".to_owned(),
        verdict,
        reason: Some("while it ran, at most 75.2 ms behind the clients of this rather long run".to_owned()),
        seconds: 0.01,
    };
    details.checks = vec![check("mirror", Word::Clean), check("follow, live", Word::Unknown)];
    report
}

/// The headline once was "what the clients saw is impossible under serializable": of which
/// database, and did it promise that?
#[test]
fn the_page_of_a_run_names_the_database_the_level_and_the_date() {
    let Some(mut browser) = Browser::start() else { return };
    let address = open(&mut browser, "run", &run());
    let headline = browser.text(".headline");
    assert_eq!(
        headline,
        "postgresql 15.18 at repeatable-read: impossible under the claimed level serializable"
    );
    assert!(browser.text(".beyond").contains("does not promise serializable"));
    assert!(browser.text(".facts").starts_with("2026-11-18 21:30 UTC"));
    assert_eq!(browser.text(".counts"), "1 × Write skew");
    assert_eq!(browser.count(".again pre"), 1, "one command does it again");
    assert!(browser.text(".again pre").contains("--start postgres"));
    assert!(browser.text(".sql pre").contains("/* 2 */ BEGIN"));
    // The six later versions of x are one item, until they are asked for.
    assert_eq!(browser.text(".folded"), "… 6 other versions");
    let chain = browser.count(".chain li");
    browser.click("#all-versions");
    assert_eq!((browser.count(".folded"), browser.count(".chain li")), (0, chain + 5));
    assert_eq!(browser.complaints(&address), Vec::<String>::new());
}

/// Regressions: on a phone, words of tables broke in the middle, the cycle was too small to read,
/// and nothing said that the timeline went on.
#[test]
fn a_phone_shows_all_of_it() {
    let Some(mut browser) = Browser::start() else { return };
    browser.size(400, 800);
    let address = open(&mut browser, "phone", &run());
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= 400"), true);
    let broken = "[...document.querySelectorAll('td:not(.says), tbody th')].filter((cell) => cell.offsetHeight > 30).length";
    assert_eq!(browser.eval(broken), 0, "no word breaks");
    let share = "document.querySelector('svg.cycle').getBoundingClientRect().width / document.querySelector('svg.cycle').viewBox.baseVal.width";
    assert_eq!(browser.eval(&format!("{share} > 0.95")), true, "the cycle has its size");
    let cue = "getComputedStyle(document.querySelector('.time .cue')).display";
    assert_eq!(browser.eval(cue), "block");
    browser.screenshot(&artefacts().join("phone.png"));
    browser.click("#fit");
    assert_eq!(browser.eval(cue), "none", "all of the timeline is there");
    assert_eq!(browser.complaints(&address), Vec::<String>::new());
}

#[test]
fn curves_with_violations() {
    let Some(mut browser) = Browser::start() else { return };
    let mut text = String::from(
        "init: x=0 y=0 | T1@s1: r(y,0)@[1,2] w(x,1)@[3,4] commit@[5,6] | T2@s2: r(x,0)@[1,2] w(y,1)@[3,4] commit@[5,6]",
    );
    for i in 3..60 {
        text += &format!(
            " | T{i}@s{}: r(x,1)@[{},{}] commit@[{},{}]",
            i % 3,
            i * 10,
            i * 10 + 3,
            i * 10 + 4,
            i * 10 + 5
        );
    }
    let report = report(&margay_testkit::history(&text), Level::Serializable, "curves");
    let address = open(&mut browser, "curves", &report);
    assert_eq!(browser.count(".plots figure"), 4);
    assert_eq!(browser.count(".plots figure:first-child .mark"), report.anomalies.len());
    browser.hover(".plots figure:first-child svg");
    assert!(browser.text(".plots figure:first-child .readout").contains("committed"));
    browser.screenshot(&artefacts().join("curves.png"));
    assert_eq!(browser.complaints(&address), Vec::<String>::new());
}
