//! Searches: rows that were not returned, predicate updates, locks on what was searched.

use margay_audit::audit;
use margay_history::History;
use margay_levels::profile::Found;
use margay_levels::{Anomaly, Level};
use margay_mirror::{Engine, Mechanisms, simulated};
use margay_testkit::history;
use margay_verdict::{Budget, Checker, Question, Verdict};

const ANY: Question = Question { real_time: false, ..Question::new(Level::ReadUncommitted) };
const TABLE: &str = "table t(id; id int, v int) | ";

fn mechanisms(profile: &str) -> Mechanisms {
    simulated(profile).unwrap_or_else(|| {
        let Found(profile) = profile.parse().expect("a profile");
        Mechanisms::of(profile)
    })
}

fn check(profile: &str, history: &History) -> Verdict {
    Engine { mechanisms: Some(mechanisms(profile)), ..Engine::default() }.check(
        history,
        ANY,
        &Budget::unlimited(),
    )
}

#[track_caller]
fn breaks(profile: &str, anomaly: Anomaly, text: &str) {
    let h = history(&format!("{TABLE}{text}"));
    let Verdict::Violated(findings) = check(profile, &h) else {
        panic!("nothing found for {profile} in {text}")
    };
    assert!(findings.iter().any(|finding| finding.anomaly == anomaly), "{findings:?}");
    findings.iter().for_each(|finding| assert_eq!(audit(&h, ANY, &finding.certificate), Ok(()), "{text}"));
}

#[track_caller]
fn is_clean(profile: &str, text: &str) {
    assert_eq!(check(profile, &history(&format!("{TABLE}{text}"))), Verdict::Clean, "{text}");
}

const RC: &str = "postgresql/read-committed";
const RR: &str = "postgresql/repeatable-read";
const SER: &str = "postgresql/serializable";

#[test]
fn a_row_that_was_there_must_be_returned() {
    let text = "init: t/1={v:7} t/2={v:1} | T1: scan(t, v > 5){}@[10,20] commit@[21,22]";
    breaks(RC, Anomaly::ConsistentRead, text);
    is_clean(RC, &text.replace("v > 5", "v > 7"));
    // Somebody may have changed it just before, or may have deleted it.
    is_clean(RC, &format!("{text} | T2: w(t/1,{{v:1}})@[1,2] commit@[3,11]"));
    is_clean(RC, &format!("{text} | T2: d(t/1)@[1,2] commit@[3,11]"));
    // Rows that are locked one by one may move past a scan.
    is_clean("derby/read-committed", text);
}

#[test]
fn an_inserted_row_is_no_phantom_before_its_commit() {
    let late = "T1: w(t/1,{v:7})@[1,2] commit@[30,40] | T2: scan(t, v > 5){}@[10,20] commit@[21,22]";
    is_clean(RC, late);
    breaks(RC, Anomaly::ConsistentRead, &late.replace("commit@[30,40]", "commit@[3,4]"));
    // A shared snapshot: the second scan must not see what the first did not.
    let phantom = "T1: w(t/1,{v:7})@[24,26] commit@[28,30] \
        | T2: scan(t, v > 5){}@[10,20] scan(t, v > 5){1:{v:7}}@[40,50] commit@[51,52]";
    breaks(RR, Anomaly::ConsistentRead, phantom);
    is_clean(RC, phantom);
}

#[test]
fn own_rows_are_found() {
    let text = "T1: w(t/1,{v:7})@[1,2] scan(t, v > 5){}@[10,20] commit@[21,22]";
    breaks(RR, Anomaly::ConsistentRead, text);
    is_clean(RR, &text.replace("{}", "{1:{v:7}}"));
}

#[test]
fn phantoms_are_dependencies() {
    let skew = "T1: scan(t, v > 5){}@[10,20] w(t/1,{v:1})@[30,31] commit@[41,45] \
        | T2: scan(t, v < 5){}@[11,21] w(t/2,{v:7})@[30,32] commit@[50,55]";
    breaks(SER, Anomaly::SerializationCertifier, skew);
    is_clean(RR, skew);
    // What does not match is no conflict.
    is_clean(SER, &skew.replace("{v:7}", "{v:5}"));
}

#[test]
fn predicate_updates_search_the_snapshot_where_the_database_does() {
    let text = "init: t/1={v:7} | T1: upd(t, v > 5, v = 0){}@[10,20] commit@[21,22]";
    breaks(RR, Anomaly::ConsistentRead, text);
    is_clean(RC, text);
    is_clean("mysql/repeatable-read", text);
}

#[test]
fn what_was_searched_is_locked() {
    let text = "init: t/9={v:1} | T1: scan(t, v > 5){}@[10,20] r(t/9,{v:1})@[50,60] commit@[61,62] \
        | T2: w(t/1,{v:7})@[30,40] r(t/9,?)@[42,43] commit@[44,45]";
    breaks("derby/serializable", Anomaly::MutualExclusion, text);
    breaks("mysql/serializable", Anomaly::MutualExclusion, text);
    breaks("simdb-ss2pl", Anomaly::MutualExclusion, text);
    is_clean("derby/repeatable-read", text);
    is_clean("derby/serializable", &text.replace("{v:7}", "{v:2}"));
    // What a writer changed again before the search is not there to be found.
    let again = "T1: w(t/1,{v:7})@[1,2] w(t/1,{v:0})@[3,4] r(t/9,?)@[50,60] commit@[61,62] \
        | T2: scan(t, v > 5){}@[10,20] r(t/9,?)@[42,43] commit@[44,45]";
    is_clean("derby/serializable", again);
    breaks(
        "derby/serializable",
        Anomaly::MutualExclusion,
        &again.replace("w(t/1,{v:0})@[3,4]", "r(t/8,?)@[3,4]"),
    );
    // InnoDB's gap locks at REPEATABLE READ are taken by what locks, not by what reads.
    is_clean("mysql/repeatable-read", text);
    let update = text.replace("scan(t, v > 5){}", "upd(t, v > 5, v = 0){}");
    breaks("mysql/repeatable-read", Anomaly::MutualExclusion, &update);
    is_clean("mysql/read-committed", &update);
}

/// Leopard's appendix B: two updates of identical or subsuming ranges. The row that the first one
/// changed left both ranges, so that no key and no new row tells that the second one must have
/// found it; nobody saw its rows.
#[test]
fn updates_of_identical_and_subsuming_ranges_meet() {
    let text = "init: t/1={v:3 w:0} t/9={v:50 w:0} \
        | T1: upd(t, v >= 2 AND v <= 5, v = 100){1:{v:100 w:0}}@[10,20] r(t/9,?)@[50,60] commit@[61,62] \
        | T2: upd(t, RANGE, w = 7)@[30,40] r(t/9,?)@[42,43] commit@[44,45]";
    let ranges = |range: &str| text.replace("RANGE", range);
    for range in ["v >= 2 AND v <= 5", "v BETWEEN 2 AND 5", "v < 10", "v >= 1 AND v <= 9", "TRUE"] {
        for profile in ["mysql/repeatable-read", "mysql/serializable", "derby/serializable"] {
            breaks(profile, Anomaly::MutualExclusion, &ranges(range));
        }
        is_clean("mysql/read-committed", &ranges(range));
        is_clean("postgresql/serializable", &ranges(range));
    }
    // Disjoint, or overlapping only: they need not meet.
    for range in ["v >= 6 AND v <= 9", "v >= 3 AND v <= 9", "v = 3"] {
        is_clean("mysql/serializable", &ranges(range));
    }
    // In the other order of their ends, too; and not if the first had ended before.
    let later = ranges("v < 10").replace("commit@[44,45]", "commit@[70,71]");
    breaks("mysql/serializable", Anomaly::MutualExclusion, &later);
    let after = ranges("v < 10").replace("r(t/9,?)@[50,60] commit@[61,62]", "commit@[22,25]");
    is_clean("mysql/serializable", &after);
    // A range in which nothing was changed locks gaps only, and those do not exclude each other.
    is_clean("mysql/serializable", &ranges("v < 10").replace("{1:{v:100 w:0}}", "{}"));
}

#[test]
fn nobody_reads_what_another_inserts() {
    let text = "init: t/9={v:1} | T1: w(t/1,{v:7})@[10,20] commit@[60,62] \
        | T2: r(t/1,_)@[30,40] r(t/9,{v:1})@[42,43] commit@[44,45]";
    breaks("mysql/serializable", Anomaly::MutualExclusion, text);
    is_clean("derby/repeatable-read", text);
}

/// Validation at commit: what was read is overwritten before the commit.
#[test]
fn optimistic_validation() {
    let text = "init: t/1={v:0} t/2={v:0} | T1: r(t/1,{v:0})@[10,20] w(t/2,{v:1})@[50,60] commit@[61,65] \
        | T2: w(t/1,{v:2})@[30,32] commit@[41,45]";
    breaks("foundationdb", Anomaly::SerializationCertifier, text);
    breaks("simdb-occ", Anomaly::SerializationCertifier, text);
    is_clean("generic", text);
    // A transaction that only reads takes place at its snapshot.
    is_clean("foundationdb", &text.replace("w(t/2,{v:1})", "r(t/2,{v:0})"));
}

/// A transaction of unknown outcome whose lock another one got has ended by then.
#[test]
fn a_lock_ends_what_nobody_heard_of() {
    let text = "init: t/1={v:0} | T1: w(t/1,{v:1})@[10,20] r(t/2,?)@[22,24] unknown@[25,26] \
        | T2: w(t/1,{v:2})@[40,50] commit@[60,65] | T3: r(t/1,{v:1})@[80,90]";
    breaks(RC, Anomaly::ConsistentRead, text);
    is_clean(RC, &text.replace("r(t/1,{v:1})@[80,90]", "r(t/1,{v:2})@[80,90]"));
    is_clean("foundationdb", text);
}
