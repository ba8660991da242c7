//! Histories that engines or the audit once answered wrongly, each with its story.
//!
//! Every engine is asked. It may say `unknown`; what it says beyond that must be right, and pass
//! the audit without the help of the command line.

use std::path::PathBuf;

use margay::{Choice, Options, all};
use margay_formats::{Source, read};
use margay_history::History;
use margay_levels::Level;
use margay_simdb::{SimConfig, simulate_history};
use margay_verdict::{Budget, Question, Verdict};

fn case(name: &str) -> Result<History, String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    read(Source::Path(path), None).map(|loaded| loaded.history).map_err(|error| error.to_string())
}

/// What an engine says: whether the level holds, if it decides. Its certificate must pass the
/// audit.
fn answer(history: &History, choice: Choice, level: Level) -> Option<bool> {
    let (question, options) = (Question::new(level), Options::with_engine(choice));
    let budget = Budget::unlimited().with_time(std::time::Duration::from_secs(20));
    let decision = margay::decide(history, question, &options, &budget);
    assert!(decision.faults.is_empty(), "{level}: {:?}", decision.faults);
    match decision.verdict {
        Verdict::Holds(_) => Some(true),
        Verdict::Violated(_) => Some(false),
        Verdict::Clean | Verdict::Unknown(_) => None,
    }
}

/// Every engine that decides says so, and these do.
fn decided(name: &str, levels: &[Level], holds: bool, engines: &[&str]) {
    let history = case(name).expect("the case is a history");
    for &level in levels {
        let tiny = history.txn_count() <= 8;
        let asked = |engine: &str| engine != "mirror" && engine != "observe" && (tiny || engine != "naive");
        for &engine in all().iter().filter(|engine| asked(engine.name())) {
            let said = answer(&history, Choice::Engine(engine), level);
            let must = engines.contains(&engine.name());
            let fine = said == Some(holds) || said.is_none() && !must;
            assert!(fine, "{} says {said:?} of {name} at {level}", engine.name());
        }
        assert_eq!(answer(&history, Choice::Auto, level), Some(holds), "auto on {name} at {level}");
    }
}

const ALL_THREE: [&str; 3] = ["infer", "solve", "naive"];

/// `infer` looked returned rows up by their values and never asked whether they match: it said
/// `holds`.
#[test]
fn a_scan_that_returned_a_row_that_does_not_match() {
    let levels = [Level::ReadCommitted, Level::Causal, Level::Serializable];
    decided("scan-row-does-not-match.jsonl", &levels, false, &ALL_THREE);
    decided("scan-of-one-row-does-not-match.jsonl", &levels, false, &ALL_THREE);
}

/// The same for a row that is absent, which matches nothing.
#[test]
fn a_scan_that_returned_an_absent_row() {
    let levels = [Level::ReadCommitted, Level::Causal, Level::Serializable];
    decided("scan-returned-null-row.jsonl", &levels, false, &ALL_THREE);
}

/// `solve` and the audit took the order of a list's versions from committed readers only. T3 saw
/// T2's element, so T2 committed, and what T2 saw of another list counts: `solve` said `holds`, and
/// `naive` had no certificate.
#[test]
fn a_list_that_a_transaction_of_unknown_outcome_read() {
    let levels =
        [Level::Serializable, Level::StrictSerializable, Level::SnapshotIsolation, Level::ReadCommitted];
    decided("list-unknown-outcome-reader.jsonl", &levels, false, &ALL_THREE);
}

/// T3 read an empty list, appended to it, and then read what T1 had appended before its own
/// element: it saw T1, and had not seen it before. At `be-read-committed` only what was read
/// earlier counts, so there it is legal.
#[test]
fn a_list_that_was_read_after_an_own_append() {
    let levels = [Level::ReadAtomic, Level::Causal, Level::Prefix];
    decided("list-after-own-append.jsonl", &levels, false, &ALL_THREE);
    decided("list-after-own-append.jsonl", &[Level::BeReadCommitted], true, &ALL_THREE);
}

/// The lemmas of `solve` rested on more than the audit could see: `unknown`, although snapshot
/// isolation itself is violated.
#[test]
fn a_refutation_that_the_audit_rejected() {
    let levels = [
        Level::SnapshotIsolation,
        Level::StrongSessionSnapshotIsolation,
        Level::StrongSessionSerializable,
        Level::Serializable,
    ];
    decided("certificate-rejected.jsonl", &levels, false, &["solve"]);
}

/// The audit accepted `holds` and `violated` for one and the same history: it looked at one of the
/// two values.
#[test]
fn one_read_that_names_an_object_twice_is_no_history() {
    let error = case("one-read-names-object-twice.jsonl").unwrap_err();
    assert!(error.contains(":4:") && error.contains("one object twice"), "{error}");
}

/// A scan may, because databases have done it. But it sees one version of an object: `naive` and
/// `solve` took the first of the two rows, and said `holds`. Who may have committed did not, if
/// that explains it.
#[test]
fn a_scan_that_shows_two_rows_of_one_object() {
    let levels = [Level::ReadCommitted, Level::Causal, Level::SnapshotIsolation, Level::StrictSerializable];
    decided("scan-shows-row-twice.jsonl", &levels, false, &ALL_THREE);
    decided("scan-shows-row-in-two-parts.jsonl", &levels, false, &["solve", "naive"]);
    decided("unknown-scan-shows-row-twice.jsonl", &levels, true, &["solve", "naive"]);
    decided("scan-shows-row-twice.jsonl", &[Level::ReadUncommitted], true, &ALL_THREE);
}

/// Engines disagreed about a row that the condition cannot be about.
#[test]
fn a_scan_with_a_row_of_another_table_is_no_history() {
    let text = r#"{"margay":1}
{"session":0,"txn":1,"scan":{"table":"t","where":"TRUE"},"rows":[[["u",1],{"v":1}]]}
"#;
    let read = read(Source::Stream("text".into(), Box::new(text.as_bytes())), None);
    let error = read.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(":2:") && error.contains("a row of another table"), "{error}");
}

/// `solve` took the first version of a set that names two, and said `holds`.
#[test]
fn a_version_set_that_names_an_object_twice_is_no_history() {
    let error = case("version-set-names-object-twice.jsonl").unwrap_err();
    assert!(error.contains(":7:") && error.contains("two versions of t/0"), "{error}");
}

/// T921 may have committed, and so may T692, but not both in the order that `solve` found: what
/// T921 read of a list lacks T692's elements. The order was the engine's own certificate, and the
/// audit rejected it.
#[test]
fn an_unknown_reader_of_a_list_that_lacks_elements_of_unknown_transactions() {
    let config = SimConfig { seed: 2, protocol: margay_simdb::Protocol::Ssi, ..SimConfig::default() };
    let (history, _) = simulate_history(&config).expect("a simulation is a history");
    assert_eq!(answer(&history, Choice::Auto, Level::Serializable), Some(true));
}

/// After its own write a transaction sees its own version. `solve` ignored what evidence said about
/// such reads, and claimed that the level holds; the audit had no way to show the violation.
#[test]
fn a_version_set_that_names_an_older_version_after_an_own_write() {
    let levels = [Level::ReadCommitted, Level::Causal, Level::ParallelSnapshot, Level::SnapshotIsolation];
    decided("version-set-after-own-append.jsonl", &levels, false, &["solve", "naive"]);
    decided("version-set-after-own-append.jsonl", &[Level::StrictSerializable], false, &["solve", "naive"]);
}

/// `infer` skipped returned rows whose values the client never learned, so its proof did not name
/// their versions.
#[test]
fn a_scan_that_returned_a_row_without_its_values() {
    let levels = [Level::ReadCommitted, Level::Causal, Level::Serializable];
    decided("scan-returned-unseen-row.jsonl", &levels, true, &["solve", "naive"]);
}

/// T1 deleted a row, inserted it and updated it, and T2 of the same session did not see it. The
/// audit knew the row whole, so it computed the update, and did not see that the client had seen
/// the same value: it rejected the proof of `solve`. Brute force found it, after some ten thousand
/// histories.
#[test]
fn an_update_of_a_row_that_the_same_transaction_inserted() {
    let levels = [Level::StrongSessionSnapshotIsolation, Level::StrongSessionSerializable];
    decided("update-after-own-insert.jsonl", &levels, false, &["solve", "naive"]);
}

/// T3's scan returned nothing, so T1, whose outcome is unknown, committed its deletion; T2, later
/// in T1's session, still read the row. No certificate can show that. `infer` dropped the violation
/// and claimed `holds`, which the audit rejected. Brute force found it.
#[test]
fn a_deletion_of_unknown_outcome_that_a_scan_shows() {
    let history = case("scan-shows-unknown-deletion.jsonl").expect("the case is a history");
    let infer = all().iter().find(|engine| engine.name() == "infer").expect("an engine");
    for level in [Level::ReadAtomic, Level::Causal] {
        assert_eq!(answer(&history, Choice::Engine(*infer), level), None, "{level}");
        assert_ne!(answer(&history, Choice::Auto, level), Some(true), "{level}");
    }
}

/// T1 sets every column that anybody sets, and the audit took that for replacing the row whole:
/// then T1 might have made the column `w`, which nobody sets, and the proof of `solve` did not rule
/// that out. Brute force found it, after 240,000 histories without a difference.
#[test]
fn a_row_with_a_column_that_nobody_sets() {
    let levels = [Level::SnapshotIsolation, Level::Serializable];
    decided("column-that-nobody-sets.jsonl", &levels, false, &["solve"]);
}

/// T2's commit timestamp is below T3's, and the version order has T3 before T1. So T2 wrote before T1, which comes
/// before it in their session. The audit followed version orders one after the other, but timestamps only as the last
/// step, and rejected the proof of `solve`. Brute force found it, after 220,000 histories without a difference.
#[test]
fn a_timestamp_and_then_a_version_order() {
    let levels = [Level::StrongSessionSnapshotIsolation, Level::StrongSessionSerializable];
    decided("timestamp-then-version-order.jsonl", &levels, false, &["solve", "naive", "certify"]);
}
