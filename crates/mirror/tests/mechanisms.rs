//! Each mechanism on small histories: what is certain is found and audited, what is only possible
//! is not.

use margay_audit::audit;
use margay_history::History;
use margay_levels::profile::{self, Found};
use margay_levels::{Anomaly, Level};
use margay_mirror::{Engine, Mechanisms};
use margay_testkit::history;
use margay_verdict::{Budget, Certificate, Checker, Claim, Question, Verdict, wire};

fn mechanisms(profile: &str) -> Mechanisms {
    let Found(profile) = profile.parse().expect("a profile");
    Mechanisms::of(profile)
}

const ANY: Question = Question { real_time: false, ..Question::new(Level::ReadUncommitted) };

fn check(profile: &str, history: &History) -> Verdict {
    Engine { mechanisms: Some(mechanisms(profile)), ..Engine::default() }.check(
        history,
        ANY,
        &Budget::unlimited(),
    )
}

/// Finds this anomaly, with a certificate that the audit accepts, also after a way through a file.
#[track_caller]
fn breaks(profile: &str, anomaly: Anomaly, text: &str) {
    let h = history(text);
    let Verdict::Violated(findings) = check(profile, &h) else { panic!("nothing found in {text}") };
    let Some(found) = findings.iter().find(|finding| finding.anomaly == anomaly) else {
        panic!("{:?} in place of {anomaly}", findings[0].anomaly)
    };
    assert_eq!(audit(&h, ANY, &found.certificate), Ok(()));
    let claim = Claim::of(&h, ANY, None, &found.certificate);
    let file = wire::to_json(&h, &claim, &found.certificate);
    assert_eq!(wire::from_json(&h, None, &file), Ok((claim, found.certificate.clone())));
}

#[track_caller]
fn is_clean(profile: &str, text: &str) {
    let h = history(text);
    assert_eq!(check(profile, &h), Verdict::Clean, "{text}");
}

const RC: &str = "postgresql/read-committed";
const RR: &str = "postgresql/repeatable-read";
const SER: &str = "postgresql/serializable";

#[test]
fn a_stale_read_is_found_and_an_overlapping_one_is_not() {
    let stale = "init: x=0 | T1: w(x,1)@[10,20] commit@[21,25] | T2: r(x,0)@[30,40]";
    breaks(RC, Anomaly::ConsistentRead, stale);
    is_clean(RC, "init: x=0 | T1: w(x,1)@[10,20] commit@[21,31] | T2: r(x,0)@[30,40]");
    is_clean(RC, "skew 10 | init: x=0 | T1: w(x,1)@[10,20] commit@[21,25] | T2: r(x,0)@[30,40]");
}

#[test]
fn a_version_is_there_from_its_commit_on_and_not_from_its_write() {
    is_clean(RC, "init: x=0 | T1: w(x,1)@[10,20] commit@[50,60] | T2: r(x,0)@[30,40]");
    let dirty = "init: x=0 | T1: w(x,1)@[10,20] commit@[50,60] | T2: r(x,1)@[30,40]";
    breaks(RC, Anomaly::ConsistentRead, dirty);
    breaks(RC, Anomaly::ConsistentRead, "init: x=0 | T1: w(x,1)@[10,20] abort@[21,22] | T2: r(x,1)@[30,40]");
    is_clean(RC, "init: x=0 | T1: w(x,1)@[10,20] unknown@[21,22] | T2: r(x,0)@[30,40] | T3: r(x,1)@[30,40]");
}

#[test]
fn the_snapshot_is_the_first_statements() {
    let text = "init: x=0 y=0 | T1: begin@[1,2] r(y,0)@[30,35] r(x,1)@[60,70] commit@[71,72] \
        | T2: w(x,1)@[10,20] commit@[21,25]";
    is_clean(RR, text);
    let moved = "init: x=0 y=0 | T1: begin@[1,2] r(y,0)@[3,5] r(x,1)@[60,70] commit@[71,72] \
        | T2: w(x,1)@[10,20] commit@[21,25]";
    breaks(RR, Anomaly::ConsistentRead, moved);
    is_clean(RC, moved);
    breaks("oracle/serializable", Anomaly::ConsistentRead, text);
}

#[test]
fn reads_of_one_snapshot_narrow_it() {
    // x was replaced before y was: no snapshot has the old x and the new y, though each alone may
    // be.
    let skew = "init: x=0 y=0 | T1: r(x,0)@[5,100] r(y,1)@[101,110] commit@[111,112] \
        | T2: w(x,1)@[6,7] commit@[10,20] | T3: w(y,1)@[25,26] commit@[30,40]";
    breaks(RR, Anomaly::ConsistentRead, skew);
    is_clean(RR, &skew.replace("r(x,0)", "r(x,1)"));
}

/// Rows that are locked one by one, and servers with clocks of their own, show no common point in
/// time.
#[test]
fn where_nothing_promises_one_point_each_object_stands_alone() {
    let skew = "init: x=0 y=0 | T1: r(x,0; y,1)@[5,100] commit@[111,112] \
        | T2: w(x,1)@[6,7] commit@[10,20] | T3: w(y,1)@[25,26] commit@[30,40]";
    breaks(RC, Anomaly::ConsistentRead, skew);
    is_clean("derby/read-committed", skew);
    is_clean("cockroachdb/serializable", skew);
    is_clean("yugabytedb/repeatable-read", skew);
}

#[test]
fn own_writes_and_single_columns() {
    breaks(RR, Anomaly::ConsistentRead, "init: x=0 | T1: w(x,1)@[1,2] r(x,0)@[3,4] commit@[5,6]");
    is_clean(RR, "init: x=0 | T1: w(x,1)@[1,2] r(x,1)@[3,4] commit@[5,6]");
    let rows = "table t(id; id int, v int, w int) | init: t/1={v:1 w:1} | T1: w(t/1,{v:2})@[1,2] commit@[3,4] \
        | T2: r(t/1,{v:2 w:1})@[5,6]";
    is_clean(RC, rows);
    breaks(RC, Anomaly::ConsistentRead, &rows.replace("r(t/1,{v:2 w:1})", "r(t/1,{v:1 w:1})"));
}

/// A column that the last write left alone is what an earlier version made of it.
#[test]
fn columns_that_partial_writes_left_alone() {
    let rows = "table t(id; id int, v int, w int) | init: t/1={v:1 w:1} | T1: w(t/1,{w:2})@[1,2] commit@[3,4] \
        | T2: w(t/1,{v:5})@[5,6] commit@[7,8] | T3: r(t/1,{v:5 w:2})@[20,30]";
    is_clean(RC, rows);
    breaks(RC, Anomaly::ConsistentRead, &rows.replace("{v:5 w:2}", "{v:5 w:1}"));
    is_clean(RC, &rows.replace("commit@[3,4]", "commit@[3,25]").replace("{v:5 w:2}", "{v:5 w:1}"));
    // A new row's other columns have their defaults.
    let new = "table t(id; id int, v int, w int) | T1: w(t/1,{v:1})@[1,2] commit@[3,4] | T2: r(t/1,{v:1 w:9})@[20,30]";
    is_clean(RC, new);
    let anew = rows.replace("w(t/1,{v:5})@[5,6]", "d(t/1)@[5,5] w(t/1,{v:5})@[6,6]");
    is_clean(RC, &anew.replace("{v:5 w:2}", "{v:5 w:9}"));
}

#[test]
fn two_locks_at_once() {
    let both = "T1: w(x,1)@[10,20] r(y,_)@[50,60] commit@[61,62] | T2: w(x,2)@[30,40] commit@[41,45]";
    breaks(RC, Anomaly::MutualExclusion, &both.replace("commit@[41,45]", "r(z,_)@[42,43] commit@[44,45]"));
    is_clean(RC, "T1: w(x,1)@[10,20] commit@[25,45] | T2: w(x,2)@[30,40] commit@[46,50]");
    // An abort may have come at once: the locks may have been free.
    is_clean(RC, "T1: w(x,1)@[10,20] abort@[60,62] | T2: w(x,2)@[30,40] commit@[41,45]");
    // A deletion that may have found nothing locks nothing.
    is_clean(RC, "T1: w(x,1)@[10,20] r(y,_)@[50,60] commit@[61,62] | T2: d(x)@[30,40] commit@[41,45]");
}

#[test]
fn share_locks_where_reads_lock() {
    let text =
        "init: x=0 | T1: r(x,0)@[10,20] r(y,_)@[50,60] commit@[61,62] | T2: w(x,2)@[30,40] commit@[41,45]";
    breaks("derby/serializable", Anomaly::MutualExclusion, text);
    is_clean("derby/read-committed", text);
}

#[test]
fn locks_tell_the_order_of_versions() {
    // The commits overlap, but T2 can have had the lock only after T1: the later read must see T2's
    // version.
    let text = "init: x=0 | T1: w(x,1)@[1,10] commit@[20,40] | T2: w(x,2)@[15,36] commit@[38,50] \
        | T3: r(x,2)@[60,70]";
    is_clean(RC, text);
    breaks(RC, Anomaly::ConsistentRead, &text.replace("r(x,2)", "r(x,1)"));
}

#[test]
fn the_first_updater_wins() {
    let lost = "init: x=0 y=0 | T1: r(y,0)@[10,20] w(x,1)@[50,60] commit@[61,65] \
        | T2: r(y,0)@[11,21] w(x,2)@[30,40] commit@[41,45]";
    breaks(RR, Anomaly::FirstUpdaterWins, lost);
    is_clean(RC, lost);
    is_clean("mysql/repeatable-read", lost);
    breaks("tidb/optimistic", Anomaly::FirstUpdaterWins, lost);
}

/// Runs of SmallBank on SQLite were accused, one of 1,400: T2 wrote what was there already. SQLite
/// writes no page then, so T1's snapshot was still the newest one when T1 wrote. MariaDB makes no
/// version of such a row either.
#[test]
fn who_changes_nothing_keeps_nobody_from_writing() {
    let text = "table t(id; id int, v int) | init: t/1={v:0} \
        | T1: r(t/1,{v:0})@[10,20] w(t/1,{v:5})@[50,60] commit@[61,65] \
        | T2: r(t/1,{v:0})@[11,21] w(t/1,{v:0})@[30,40] commit@[41,45]";
    let changed = text.replace("w(t/1,{v:0})", "w(t/1,{v:7})");
    for profile in ["sqlite/wal", "mariadb/repeatable-read", "tidb/optimistic"] {
        is_clean(profile, text);
        breaks(profile, Anomaly::FirstUpdaterWins, &changed);
    }
    breaks(RR, Anomaly::FirstUpdaterWins, text);
}

/// Runs on PostgreSQL were accused: a row that is inserted after somebody's deletion, which the
/// snapshot does not show, is another row there. Who had changed the old one is of no matter
/// either.
#[test]
fn an_insertion_over_a_deletion_is_no_second_update() {
    let text = "table t(id; id int, v int) | init: t/1={v:1} t/2={v:1} \
        | T1: r(t/2,{v:1})@[10,20] w(t/1,{v:9})@[50,60] commit@[61,65] \
        | T2: r(t/2,{v:1})@[11,21] w(t/1,{v:2})@[22,23] d(t/1)@[30,40] commit@[41,45]";
    is_clean(RR, text);
    is_clean(SER, text);
    let changed_before = text.replace("d(t/1)@[30,40] ", "") + " | T3: d(t/1)@[46,47] commit@[48,49]";
    is_clean(RR, &changed_before);
    let unseen = text.replace("d(t/1)@[30,40] ", "") + " | T3: del(t, v > 0)@[46,47] commit@[48,49]";
    is_clean(RR, &unseen);
    // Nobody has deleted the row when it is written, or by the time of the snapshot.
    breaks(
        RR,
        Anomaly::FirstUpdaterWins,
        &changed_before.replace("[46,47] commit@[48,49]", "[70,71] commit@[72,73]"),
    );
    breaks(RR, Anomaly::FirstUpdaterWins, &text.replace("d(t/1)@[30,40] ", ""));
}

/// The transaction that inserted it sees both rows; a scan that only the old one matches sees that
/// one alone.
#[test]
fn a_row_that_was_replaced_may_be_seen_beside_its_successor() {
    let text = "table t(id; id int, v int) | init: t/1={v:1} \
        | T1: r(t/1,{v:1})@[10,20] w(t/1,{v:9})@[50,60] scan(t, v < 5){1:{v:1}}@[61,62] commit@[63,65] \
        | T2: d(t/1)@[30,40] commit@[41,45]";
    is_clean(RR, text);
    breaks(RC, Anomaly::ConsistentRead, text);
    breaks(RR, Anomaly::ConsistentRead, &text.replace("d(t/1)", "w(t/1,{v:3})"));
    breaks("mysql/repeatable-read", Anomaly::ConsistentRead, text);
}

#[test]
fn write_skew_is_for_the_certifier() {
    let skew = "init: x=0 y=0 | T1: r(y,0)@[10,20] w(x,1)@[30,31] commit@[41,45] \
        | T2: r(x,0)@[11,21] w(y,1)@[30,32] commit@[50,55]";
    breaks(SER, Anomaly::SerializationCertifier, skew);
    is_clean(RR, skew);
}

/// Two consecutive anti-dependencies are dangerous only if the last of the three committed first.
#[test]
fn the_conditions_of_ssi() {
    let pair = |third: &str, first: &str| {
        format!(
            "init: x=0 y=0 | T1: r(z,_)@[1,2] r(x,0)@[10,20] {first} | T2: r(y,0)@[3,4] w(x,1)@[30,31] \
             commit@[60,65] | T3: w(y,1)@[5,6] {third}"
        )
    };
    breaks(SER, Anomaly::SerializationCertifier, &pair("commit@[33,34]", "w(q,1)@[66,67] commit@[70,75]"));
    // T3 committed last; T1 wrote nothing and T3 committed after its snapshot.
    is_clean(SER, &pair("commit@[80,84]", "w(q,1)@[66,67] commit@[70,75]"));
    is_clean(SER, &pair("commit@[33,34]", "commit@[70,75]"));
}

#[test]
fn the_audit_accepts_no_breach_that_is_none() {
    let stale = history("init: x=0 | T1: w(x,1)@[10,20] commit@[21,25] | T2: r(x,0)@[30,40]");
    let fine = history("init: x=0 | T1: w(x,1)@[10,20] commit@[21,25] | T2: r(x,1)@[30,40]");
    let Verdict::Violated(findings) = check(RC, &stale) else { panic!("nothing found") };
    let certificate = &findings[0].certificate;
    assert_eq!(audit(&stale, ANY, certificate), Ok(()));
    assert!(audit(&fine, ANY, certificate).is_err());
    let Certificate::Intervals(breach) = certificate else { panic!("another certificate") };
    let dirty = history("init: x=0 | T1: w(x,1)@[10,20] commit@[50,55] | T2: r(x,1)@[30,40] commit@[41,42]");
    assert!(audit(&dirty, ANY, certificate).is_ok(), "not committed yet");
    let mut allowed = breach.clone();
    allowed.mechanisms = mechanisms("mysql/read-uncommitted");
    assert!(audit(&dirty, ANY, &Certificate::Intervals(allowed)).is_err(), "dirty reads are allowed there");
}

/// READ UNCOMMITTED shows the newest version, committed or not, and nothing that was undone or
/// overwritten.
#[test]
fn reads_of_what_is_not_committed() {
    const RU: &str = "mysql/read-uncommitted";
    let read = |seen: &str| {
        format!(
            "init: x=0 | T1: w(x,1)@[10,20] w(x,2)@[30,40] abort@[60,70] | T2: {seen} commit@[90,91] \
             | T3: w(x,3)@[100,105] commit@[110,112]"
        )
    };
    for fine in [
        "r(x,1)@[22,25]",
        "r(x,0)@[12,15]",
        "r(x,1)@[12,15]",
        "r(x,2)@[50,55]",
        "r(x,2)@[65,75]",
        "r(x,0)@[75,80]",
    ] {
        is_clean(RU, &read(fine));
    }
    for wrong in ["r(x,2)@[22,25]", "r(x,7)@[22,25]", "r(x,1)@[50,55]", "r(x,2)@[75,80]", "r(x,3)@[75,80]"] {
        breaks(RU, Anomaly::ConsistentRead, &read(wrong));
    }
}

/// As PostgreSQL 15 did: T1 reads x as it was before T4, T2 as T4 made it. T2's write of x meets no
/// lock of T1, who is in conflict with T4.
#[test]
fn an_anti_dependency_of_ssi_is_on_the_next_version() {
    let text = "init: x=0 y=0 z=0 | T4: r(x,0)@[1,2] w(x,4)@[3,4] commit@[30,35] \
        | T1: w(z,1)@[5,8] r(x,0)@[60,62] commit@[63,65] \
        | T3: r(y,0)@[10,12] w(y,3)@[13,14] commit@[41,50] \
        | T2: r(y,0)@[40,45] r(x,4)@[51,52] w(x,2)@[70,71] commit@[72,74]";
    is_clean(SER, text);
    let direct = "init: x=0 y=0 z=0 \
        | T1: w(z,1)@[5,8] r(x,0)@[60,62] commit@[63,65] \
        | T3: r(y,0)@[10,12] w(y,3)@[13,14] commit@[41,50] \
        | T2: r(y,0)@[40,45] r(x,0)@[51,52] w(x,2)@[70,71] commit@[72,74]";
    breaks(SER, Anomaly::SerializationCertifier, direct);
}

#[test]
fn every_profile_has_mechanisms_and_what_is_missing_is_unknown() {
    let text = "init: x=0 | T1: w(x,1)@[10,20] commit@[21,25] | T2: r(x,1)@[30,40]";
    for profile in profile::all() {
        is_clean(&profile.name(), text);
    }
    let untimed = history("T1: w(x,1)");
    assert!(matches!(check(RC, &untimed), Verdict::Unknown(_)));
    let sql = history("T1: sql('SELECT 1')@[1,2]");
    assert!(matches!(check(RC, &sql), Verdict::Unknown(_)));
    let nameless = Engine::default().check(&history(text), ANY, &Budget::unlimited());
    assert!(matches!(nameless, Verdict::Unknown(_)));
}

/// Runs on MariaDB that lost connections were accused: what a client had asked for last, without an
/// answer, stands in no recording, and others saw it.
#[test]
fn what_nobody_heard_of_may_be_seen_where_others_see_what_is_not_committed() {
    let text =
        "init: x=0 | T1: r(x,0)@[1,2] unknown@[5,6] | T2: w(x,1)@[10,11] commit@[12,13] | T3: r(x,7)@[30,40]";
    is_clean("mariadb/read-uncommitted", text);
    breaks("mariadb/read-uncommitted", Anomaly::ConsistentRead, &text.replace("unknown", "abort"));
    breaks("mariadb/read-committed", Anomaly::ConsistentRead, text);
}
