//! What a history contains is data. Values that try to be markup, script, terminal commands or just
//! enormous stay what they are: text, and not too much of it.

mod common;

use std::fs;

use common::browser::Browser;
use common::{artefacts, report};
use margay_formats::{Format, Source};
use margay_history::History;
use margay_levels::Level;
use margay_report::html::{Place, page};
use margay_report::{Paint, Report, dot, junit, svg, text};
use serde_json::json;

const ATTACKS: [&str; 14] = [
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=\"window.pwned=1\">",
    "\"><svg onload=window.pwned=1>",
    "' onmouseover='window.pwned=1",
    "javascript:window.pwned=1",
    "<!--<script>",
    "]]>&lt;&#x3c;&amp;",
    "\u{2028}window.pwned=1\u{2029}",
    "\u{0}\u{1}\u{1b}[2J\u{1b}]0;owned\u{7}\r\n\t\u{7f}\u{9b}31m",
    "\u{202e}gnp.exe\u{202c}\u{200f}\u{feff}",
    "${window.pwned=1}{{window.pwned=1}}`",
    "\\\"; window.pwned=1; //",
    "</style><style>body{display:none}</style>",
    "\u{10ffff}\u{fffe}é🦝",
];

/// A write skew whose objects and values are all `evil`.
fn skew(evil: &str) -> History {
    let (x, y) = (format!("{evil}x"), format!("{evil}y"));
    let lines = [
        json!({"margay": 1, "unit": "ns", "skew": 0, "dbms": evil, "level": evil, "initial": [[x, evil], [y, evil]]}),
        json!({"session": 0, "txn": 1, "at": [1, 2], "read": [[y, evil]]}),
        json!({"session": 0, "txn": 1, "at": [3, 4], "write": [[x, format!("{evil}1")]]}),
        json!({"session": 0, "txn": 1, "at": [5, 6], "commit": true}),
        json!({"session": 1, "txn": 2, "at": [1, 2], "read": [[x, evil]]}),
        json!({"session": 1, "txn": 2, "at": [3, 4], "write": [[y, format!("{evil}2")]]}),
        json!({"session": 1, "txn": 2, "at": [5, 6], "commit": true}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    margay_formats::read(Source::bytes(text.as_bytes()), Some(Format::Margay)).expect("a history").history
}

fn hostile(evil: &str) -> Report {
    let report = report(&skew(evil), Level::Serializable, evil);
    assert_eq!(report.anomalies.len(), 1, "{evil:?}");
    report
}

/// The parts of a page that are markup, without the data.
fn outside_of_data(page: &str) -> String {
    let (head, rest) = page.split_once("id=\"data\">").expect("data");
    let (_, tail) = rest.split_once("</script>").expect("its end");
    format!("{head}{tail}")
}

#[test]
fn pages_hold_no_markup_of_the_history() {
    let harmless = page(&hostile("harmless"), Place::File);
    let elements = |page: &str| page.matches('<').count();
    for evil in ATTACKS {
        let page = page(&hostile(evil), Place::File);
        assert_eq!(elements(&outside_of_data(&page)), elements(&outside_of_data(&harmless)), "{evil:?}");
        assert_eq!(page.matches("</script").count(), 2, "{evil:?}");
        assert!(!page.contains(['\u{0}', '\u{1b}', '\u{2028}', '\u{202e}']), "{evil:?}");
    }
}

#[test]
fn terminals_get_no_commands() {
    for evil in ATTACKS {
        let text = text::text(&hostile(evil), Paint::OFF, 80);
        let harmful = text.chars().find(|&c| c.is_control() && c != '\n');
        assert_eq!(harmful, None, "{evil:?}");
        assert!(!text.contains(['\u{202e}', '\u{2028}']), "{evil:?}");
    }
}

#[test]
fn xml_and_dot_stay_well_formed() {
    for evil in ATTACKS {
        let report = hostile(evil);
        for xml in [junit::junit(&report), svg::svg(&report, 0).expect("a cycle")] {
            well_formed(&xml).unwrap_or_else(|why| panic!("{evil:?}: {why}\n{xml}"));
        }
        let dot = dot::dot(&report, 0).expect("a cycle");
        assert!(dot.lines().all(|line| quotes(line).is_multiple_of(2)), "{evil:?}\n{dot}");
    }
}

/// Quotes of a line of DOT that are not escaped.
fn quotes(line: &str) -> usize {
    let mut escaped = false;
    let mut count = 0;
    for character in line.chars() {
        count += usize::from(character == '"' && !escaped);
        escaped = character == '\\' && !escaped;
    }
    count
}

/// Whether elements close in the order in which they open, and nothing else looks like one.
fn well_formed(xml: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for part in xml.split('<').skip(1) {
        let (tag, text) = part.split_once('>').ok_or("an element without end")?;
        if text.contains('>') || text.chars().any(|c| c.is_control() && c != '\n') {
            return Err(format!("text {text:?}"));
        }
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        match tag {
            _ if tag.starts_with('?') || tag.ends_with('/') => {}
            _ if tag.starts_with('/') => {
                let opened = open.pop();
                if opened != Some(name) {
                    return Err(format!("{opened:?} is closed by {name}"));
                }
            }
            _ => open.push(name),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("open: {open:?}")) }
}

#[test]
fn ten_megabytes_are_cut_with_a_note() {
    let report = hostile(&"<x>".repeat((10 << 20) / 3));
    let page = page(&report, Place::File);
    assert!(page.len() < 400_000, "{}", page.len());
    assert!(page.contains("more characters"), "what is cut is counted");
    assert!(text::text(&report, Paint::OFF, 80).len() < 100_000);
    assert!(serde_json::to_string(&report).expect("JSON").len() < 400_000);
}

/// `<` is six bytes in a page: the worst that a character can be.
#[test]
fn a_page_is_bounded_whatever_is_found() {
    let evil = "<".repeat(5000);
    let long = "q".repeat(5000);
    let writes = |own: &str| -> String { (0..200).map(|i| format!(" w({own}{long}{i},{i})")).collect() };
    let text = format!("init: x=0 y=0 | T1: r(x,0) w(y,1){} | T2: r(y,0) w(x,1){}", writes("a"), writes("b"));
    let mut report = report(&margay_testkit::history(&text), Level::Serializable, &evil);
    let case = report.report.as_ref().expect("details").cases[0].clone();
    assert!(serde_json::to_string(&case).expect("JSON").len() < 700_000);
    let mut anomaly = report.anomalies[0].clone();
    (anomaly.explanation, anomaly.transactions) = (evil.clone(), (0..5000).collect());
    report.anomalies.resize(3000, anomaly);
    let page = page(&report, Place::File);
    assert!(page.len() < 5_000_000, "{}", page.len());
    assert!(page.contains("\"unlisted\":2500"));
}

#[test]
fn a_browser_runs_nothing_of_it() {
    let Some(mut browser) = Browser::start() else { return };
    for (i, evil) in ATTACKS.iter().enumerate() {
        let path = artefacts().join(format!("hostile-{i}.html"));
        fs::write(&path, page(&hostile(evil), Place::File)).expect("a file can be written");
        browser.open_file(&path);
        browser.hover("svg.cycle .pill[data-edge='0']");
        browser.click("svg.timeline .txn .name");
        browser.click("#search");
        browser.type_text(evil);
        assert_eq!(browser.eval("window.pwned ?? null"), json!(null), "{evil:?}");
        assert_eq!(
            (browser.text(".word"), browser.count("svg.cycle .arrow")),
            ("violated".to_owned(), 2),
            "{evil:?}"
        );
        assert_eq!(browser.count("#page img, #page script, #page style, #page iframe"), 0, "{evil:?}");
        let address = format!("file://{}", path.display());
        assert_eq!(browser.complaints(&address), Vec::<String>::new(), "{evil:?}");
    }
    browser.screenshot(&artefacts().join("hostile.png"));
}

#[test]
fn a_browser_refuses_scripts_that_are_not_ours() {
    let Some(mut browser) = Browser::start() else { return };
    // Should a text ever get through as markup, the page's policy still stops it.
    let spoiled = page(&hostile("x"), Place::File).replace(
        "<div id=\"page\">",
        "<script>window.pwned=1</script><img src=\"data:,\" onerror=\"window.pwned=1\"><div id=\"page\">",
    );
    let path = artefacts().join("spoiled.html");
    fs::write(&path, spoiled).expect("a file can be written");
    browser.open_file(&path);
    assert_eq!(browser.eval("window.pwned ?? null"), json!(null));
    assert_eq!(browser.text(".word"), "violated");
    assert!(!browser.complaints("file://").is_empty(), "the browser says that it refused something");
}
