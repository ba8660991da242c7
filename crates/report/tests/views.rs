//! What reports of the corpus say: by the schema, in words, in every form.

mod common;

use std::fs;

use common::{corpus, report, root, schema};
use margay_history::History;
use margay_levels::Level;
use margay_report::html::{Place, page};
use margay_report::{Paint, Report, dot, junit, svg, text};
use serde_json::{Value, json};

fn the_schema() -> Value {
    let text = fs::read_to_string(root().join("docs/REPORT.schema.json")).expect("the schema");
    serde_json::from_str(&text).expect("JSON")
}

fn reports() -> Vec<(String, Report)> {
    corpus()
        .into_iter()
        .map(|entry| (entry.name.clone(), report(&entry.history, entry.level, &entry.name)))
        .collect()
}

fn history(text: &str) -> History {
    margay_testkit::history(text)
}

const SKEW: &str = "init: x=0 y=0 | T1: r(x,0)@[10,20] r(y,0)@[30,40] w(x,1)@[50,60] commit@[70,80] \
     | T2: r(x,0)@[15,25] r(y,0)@[35,45] w(y,1)@[55,65] commit@[75,85]";

#[test]
fn every_report_is_what_the_schema_says_and_reads_back() {
    let schema = the_schema();
    let mut all = reports();
    all.push(("holds".to_owned(), report(&history("T1: w(x,1)"), Level::Serializable, "fine")));
    for (name, report) in all {
        let value = serde_json::to_value(&report).expect("it serialises");
        assert_eq!(schema::errors(&schema, &schema, &value, ""), Vec::<String>::new(), "{name}");
        let back: Report = serde_json::from_value(value).expect("it reads back");
        assert_eq!(back, report, "{name}");
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let schema = the_schema();
    let good =
        serde_json::to_value(report(&history(SKEW), Level::Serializable, "skew")).expect("it serialises");
    let spoil = |pointer: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
        schema::errors(&schema, &schema, &bad, "").len()
    };
    assert_eq!(spoil("/level", good["level"].clone()), 0);
    assert!(spoil("/verdict", json!("maybe")) > 0);
    assert!(spoil("/stats/transactions", json!(-1)) > 0);
    assert!(spoil("/report/cases/0/picture/cycles/0/edges/0/from", json!("T1")) > 0);
    assert!(spoil("/report/cases/0/picture/transactions/0", json!({})) > 0);
    assert!(spoil("/report/again", json!({"audit": "", "command": null, "seed": null, "other": 1})) > 0);
}

#[test]
fn what_an_older_version_printed_can_be_shown() {
    let old = json!({"verdict": "violated", "level": "serializable", "engine": "naive", "reason": null,
        "anomalies": [{"name": "G2-item", "transactions": [1, 2], "explanation": "one\ntwo"}],
        "stats": {"transactions": 2, "operations": 8, "sessions": 2, "read_seconds": 0.1, "check_seconds": 0.2, "peak_rss_bytes": null}});
    let report: Report = serde_json::from_value(old).expect("it reads");
    let text = text::text(&report, Paint::OFF, 80);
    assert!(text.contains("G2-item between T1 and T2") && text.contains("  two"), "{text}");
    assert!(page(&report, Place::File).contains("G2-item"));
    assert!(junit::junit(&report).contains("<failure type=\"G2-item\""));
    assert_eq!((svg::svg(&report, 0), dot::dot(&report, 0)), (None, None));
}

#[test]
fn every_case_tells_what_where_and_why() {
    for (name, report) in reports() {
        let case = &report.report.as_ref().expect("details").cases[0];
        assert!(!case.title.is_empty() && case.meaning.len() > 40, "{name}");
        assert!(case.impossible.len() > 60, "{name}: {}", case.impossible);
        assert!(case.breaks.contains(&report.level), "{name}: {:?}", case.breaks);
        assert_eq!(case.breaks.len() + case.allowed.len(), Level::ALL.len(), "{name}");
        let picture = case.picture.as_ref().expect("a picture");
        assert!(picture.transactions.iter().any(|txn| txn.slice), "{name}");
        assert!(!picture.cycles.is_empty() || !picture.blamed.is_empty(), "{name}");
        for edge in picture.cycles.iter().flat_map(|cycle| &cycle.edges) {
            for (txn, op) in [(edge.from, edge.from_op), (edge.to, edge.to_op)] {
                let shown = picture
                    .transactions
                    .iter()
                    .find(|shown| shown.txn == txn)
                    .expect("the edge's transaction is shown");
                assert!(op.is_none_or(|op| shown.ops.iter().any(|shown| shown.op == op)), "{name}: {edge:?}");
            }
            assert!(edge.reason.contains(&format!("T{}", edge.from)), "{name}: {}", edge.reason);
        }
    }
}

#[test]
fn every_cycle_can_be_drawn() {
    for (name, report) in reports() {
        let has_cycle = !report.report.as_ref().expect("details").cases[0]
            .picture
            .as_ref()
            .expect("a picture")
            .cycles
            .is_empty();
        let (svg, dot) = (svg::svg(&report, 0), dot::dot(&report, 0));
        assert_eq!((svg.is_some(), dot.is_some()), (has_cycle, has_cycle), "{name}");
        if let (Some(svg), Some(dot)) = (svg, dot) {
            assert!(svg.starts_with("<svg") && svg.contains("marker-end"), "{name}");
            assert!(dot.starts_with("digraph") && dot.contains(" -> "), "{name}");
        }
    }
}

#[test]
fn lines_of_text_are_short_enough() {
    for (name, report) in reports() {
        for width in [80, 100, 120] {
            let text = text::text(&report, Paint::OFF, width);
            // The second and third line are one sentence each, which people copy.
            let longest = text.lines().skip(3).map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(longest <= width, "{name}: {longest} > {width}\n{text}");
            assert!(!text.contains('\x1b'), "{name}");
        }
        let painted = text::text(&report, Paint { on: true }, 80);
        assert!(painted.contains("\x1b[1;31mviolated\x1b[0m"), "{name}");
    }
}

#[test]
fn junit_says_failure_error_or_nothing() {
    let violated = junit::junit(&report(&history(SKEW), Level::Serializable, "a<b"));
    assert!(
        violated.contains("failures=\"2\" errors=\"0\"") && violated.contains("name=\"a&lt;b\""),
        "{violated}"
    );
    // One case for the question, one for the anomaly.
    assert!(violated.contains("classname=\"margay.serializable.") && violated.contains("name=\"G2-item\""));
    let holds = junit::junit(&report(&history(SKEW), Level::SnapshotIsolation, "fine"));
    assert!(holds.contains("failures=\"0\" errors=\"0\"") && !holds.contains("<failure"), "{holds}");
}
