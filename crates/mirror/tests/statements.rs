//! Statements: what is known of them counts, what is not known accuses nobody.

mod blur;
mod timed;

use blur::blurred;
use margay_audit::audit;
use margay_history::{History, OpKind};
use margay_levels::Anomaly;
use margay_levels::Level;
use margay_levels::profile::{self, Dbms};
use margay_mirror::{Engine, Mechanisms, Mirror, Violation};
use margay_report::explain;
use margay_rows::{SeenState, translate_partly};
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Certificate, Checker, Question, Verdict};
use timed::timed;

const RC: &str = "postgresql/read-committed";
const RR: &str = "postgresql/repeatable-read";
const MYSQL: &str = "mysql/repeatable-read";

/// A table of accounts, and operations as `session at-before at-after rest`; the transaction is the
/// session.
fn history(dbms: &str, lines: &[&str]) -> History {
    let columns = r#"{"id":"int","v":"int","w":"int"}"#;
    let tables = format!(r#"{{"t":{{"key":["id"],"columns":{columns}}},"n":{{"columns":{columns}}}}}"#);
    let rows = r#"[[["t",1],{"v":10,"w":0}],[["t",2],{"v":20,"w":0}]]"#;
    timed(&format!("{{\"margay\":1,\"dbms\":\"{dbms}\",\"tables\":{tables},\"initial\":{rows}}}"), lines)
}

fn verdict(profile: &str, history: &History) -> (History, Verdict) {
    let dbms = Dbms::named(profile).expect(profile);
    let promises = |level: &Level| dbms.profile(None, *level).is_ok_and(|p| p.promises.contains(level));
    let question = Question::new(Level::ALL.into_iter().find(promises).expect("a promise"));
    let engine = Engine::of(&dbms, history, question.level).expect("a profile");
    let stable = engine.mechanisms.is_some_and(|mechanisms| mechanisms.sees_one_state());
    let sight = if stable { SeenState::Stable } else { SeenState::Changing };
    let rows = translate_partly(history, sight).map_or_else(|| history.clone(), |rows| rows.history);
    let verdict = engine.check(&rows, question, &Budget::unlimited());
    if let Verdict::Violated(findings) = &verdict {
        for finding in findings {
            assert_eq!(audit(&rows, question, &finding.certificate), Ok(()));
        }
    }
    (rows, verdict)
}

#[track_caller]
fn is_clean(profile: &str, lines: &[&str]) {
    let (rows, verdict) = verdict(profile, &history(profile.split('/').next().expect("a name"), lines));
    if let Verdict::Violated(findings) = &verdict {
        panic!("{}", explain::finding(&rows, &findings[0]));
    }
    assert_eq!(verdict, Verdict::Clean);
}

#[track_caller]
fn breaks(profile: &str, anomaly: Anomaly, lines: &[&str]) {
    let (_, verdict) = verdict(profile, &history(profile.split('/').next().expect("a name"), lines));
    let Verdict::Violated(findings) = &verdict else { panic!("{verdict:?}") };
    assert!(findings.iter().any(|finding| finding.anomaly == anomaly), "{findings:?}");
}

const ADD: &str = r#"1 10 20 "sql":"UPDATE t SET v = v + 1 WHERE id = 1","count":1"#;
const COMMITTED: &str = r#"1 22 28 "commit":true"#;

#[test]
fn a_value_that_nobody_saw_is_neither_matched_nor_refuted() {
    for seen in [11, 77, 10_000] {
        let read = format!(r#"2 40 50 "sql":"SELECT v, w FROM t WHERE id = 1","rows":[[{seen},0]]"#);
        is_clean(RC, &[ADD, COMMITTED, &read, r#"2 60 61 "commit":true"#]);
    }
    // The other column was left alone, and the row was there.
    let other = r#"2 40 50 "sql":"SELECT v, w FROM t WHERE id = 1","rows":[[11,5]]"#;
    breaks(RC, Anomaly::ConsistentRead, &[ADD, COMMITTED, other, r#"2 60 61 "commit":true"#]);
    let gone = r#"2 40 50 "sql":"SELECT v, w FROM t WHERE id = 1","rows":[]"#;
    breaks(RC, Anomaly::ConsistentRead, &[ADD, COMMITTED, gone, r#"2 60 61 "commit":true"#]);
}

#[test]
fn what_is_computed_from_one_state_is_known() {
    let lines = |seen: i64| {
        let read = format!(r#"2 40 50 "sql":"SELECT v FROM t WHERE id = 1","rows":[[{seen}]]"#);
        vec![
            r#"1 5 8 "sql":"SELECT v FROM t WHERE id = 1","rows":[[10]]"#.to_owned(),
            ADD.to_owned(),
            COMMITTED.to_owned(),
            read,
            r#"2 60 61 "commit":true"#.to_owned(),
        ]
    };
    let refs = |lines: &[String]| lines.iter().map(String::clone).collect::<Vec<_>>();
    let (good, bad) = (refs(&lines(11)), refs(&lines(12)));
    is_clean(RR, &good.iter().map(String::as_str).collect::<Vec<_>>());
    let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
    breaks(RR, Anomaly::ConsistentRead, &bad);
    is_clean(RC, &bad);
}

#[test]
fn locks_and_updates_count_whatever_was_written() {
    let theirs = r#"2 12 18 "sql":"UPDATE t SET v = v + 2 WHERE id = 1","count":1"#;
    let late = r#"1 80 85 "commit":true"#;
    breaks(RC, Anomaly::MutualExclusion, &[ADD, theirs, r#"2 70 75 "commit":true"#, late]);
    let after = r#"2 40 48 "sql":"UPDATE t SET v = v + 2 WHERE id = 1","count":1"#;
    let early = r#"2 2 4 "sql":"SELECT v FROM t WHERE id = 2","rows":[[20]]"#;
    let lines = [early, ADD, COMMITTED, after, r#"2 70 75 "commit":true"#];
    breaks(RR, Anomaly::FirstUpdaterWins, &lines);
    is_clean(RC, &lines);
}

#[test]
fn rows_that_nobody_saw_may_have_been_changed_or_not() {
    let all = r#"1 10 20 "sql":"UPDATE t SET v = 5 WHERE w = 0""#;
    let end = r#"2 60 61 "commit":true"#;
    for seen in ["[[10,0]]", "[[5,0]]"] {
        let read = format!(r#"2 40 50 "sql":"SELECT v, w FROM t WHERE id = 1","rows":{seen}"#);
        is_clean(RC, &[all, COMMITTED, &read, end]);
    }
    let read = r#"2 40 50 "sql":"SELECT v, w FROM t WHERE id = 1","rows":[[10,9]]"#;
    breaks(RC, Anomaly::ConsistentRead, &[all, COMMITTED, read, end]);
    // A condition on the key leaves the other rows alone.
    let one = r#"1 10 20 "sql":"UPDATE t SET v = 5 WHERE id = 2 AND w = 0""#;
    let read = |id: u8| format!(r#"2 40 50 "sql":"SELECT v, w FROM t WHERE id = {id}","rows":[[5,0]]"#);
    is_clean(RC, &[one, COMMITTED, &read(2), end]);
    breaks(RC, Anomaly::ConsistentRead, &[one, COMMITTED, &read(1), end]);
    // Nothing was found: nothing was changed.
    let none = r#"1 10 20 "sql":"UPDATE t SET v = 5 WHERE w = 3","count":0"#;
    breaks(RC, Anomaly::ConsistentRead, &[none, COMMITTED, &read(1), end]);
}

/// Many updates that nobody saw became one version that might be anything: a column that none of
/// them sets was then not held against what had been written. It was found only where all came in
/// one window.
#[test]
fn what_many_unseen_updates_leave_alone_is_still_known() {
    let updates = (10..40).flat_map(|session: u32| {
        let at = session * 10;
        let update = format!(r#"{session} {at} {} "sql":"UPDATE t SET v = 5 WHERE w = 0""#, at + 2);
        [update, format!(r#"{session} {} {} "commit":true"#, at + 3, at + 4)]
    });
    let mut lines: Vec<String> = updates.collect();
    let read = |seen: &str| format!(r#"2 500 510 "sql":"SELECT v, w FROM t WHERE id = 1","rows":{seen}"#);
    lines.extend([read("[[5,0]]"), r#"2 520 521 "commit":true"#.to_owned()]);
    is_clean(RC, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let last = lines.len() - 2;
    lines[last] = read("[[5,9]]");
    breaks(RC, Anomaly::ConsistentRead, &lines.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_transaction_may_have_changed_what_it_reads_later() {
    let lines = |condition: &str| {
        [
            format!(r#"1 10 20 "sql":"DELETE FROM t WHERE {condition}""#),
            r#"1 21 22 "sql":"SELECT id, v FROM t WHERE v > 0","rows":[]"#.to_owned(),
            COMMITTED.to_owned(),
        ]
    };
    is_clean(RR, &lines("w = 0").each_ref().map(String::as_str));
    breaks(RR, Anomaly::ConsistentRead, &lines("w = 0 AND id = 2").each_ref().map(String::as_str));
}

#[test]
fn of_a_statement_that_nobody_understands_nothing_follows() {
    let call = r#"1 5 8 "sql":"SELECT transfer_all(3)","rows":[[1]]"#;
    let write = r#"1 10 20 "sql":"UPDATE t SET v = 7 WHERE id = 1","count":1"#;
    let read = |seen: u8| format!(r#"2 40 50 "sql":"SELECT v FROM t WHERE id = 2","rows":[[{seen}]]"#);
    let end = r#"2 60 61 "commit":true"#;
    is_clean(RC, &[call, write, COMMITTED, &read(99), end]);
    // Aborted, it did nothing; and its locks prove nothing.
    breaks(RC, Anomaly::ConsistentRead, &[call, write, r#"1 22 28 "abort":true"#, &read(99), end]);
    let theirs = r#"2 12 18 "sql":"UPDATE t SET v = v + 2 WHERE id = 1","count":1"#;
    is_clean(RC, &[call, write, theirs, r#"2 30 31 "commit":true"#, r#"1 80 85 "commit":true"#]);
}

#[test]
fn a_read_that_locks() {
    let locked = r#"1 10 20 "sql":"SELECT v FROM t WHERE id = 1 FOR UPDATE","rows":[[10]]"#;
    let shared = r#"1 10 20 "sql":"SELECT v FROM t WHERE id = 1 LOCK IN SHARE MODE","rows":[[10]]"#;
    let late = r#"1 80 85 "commit":true"#;
    let end = r#"2 60 61 "commit":true"#;
    let write = r#"2 30 40 "sql":"UPDATE t SET v = 3 WHERE id = 1","count":1"#;
    let read = r#"2 30 40 "sql":"SELECT v FROM t WHERE id = 1 FOR SHARE","rows":[[10]]"#;
    for profile in [RC, RR, MYSQL] {
        breaks(profile, Anomaly::MutualExclusion, &[locked, write, end, late]);
        breaks(profile, Anomaly::MutualExclusion, &[locked, read, end, late]);
    }
    breaks(MYSQL, Anomaly::MutualExclusion, &[shared, write, end, late]);
    is_clean(MYSQL, &[shared, read, end, late]);
    is_clean(MYSQL, &[r#"1 10 20 "sql":"SELECT v FROM t WHERE id = 1","rows":[[10]]"#, write, end, late]);
    is_clean(
        RC,
        &[
            r#"1 10 20 "sql":"SELECT v FROM t WHERE id = 1 FOR UPDATE SKIP LOCKED","rows":[[10]]"#,
            write,
            end,
            late,
        ],
    );
}

/// A statement of which nothing is known but its table may change any row, and locks none for
/// certain: MariaDB at REPEATABLE READ moved one row to another key while another transaction
/// inserted a third one.
#[test]
fn what_is_not_understood_locks_nothing() {
    for text in ["UPDATE t SET id = 20 WHERE id = 1", "INSERT INTO t (id, v) SELECT 20, MAX(v) FROM n"] {
        let moves = format!(r#"1 10 20 "sql":"{text}","count":1"#);
        is_clean(
            MYSQL,
            &[
                &moves,
                r#"2 30 40 "sql":"INSERT INTO t (id, v, w) VALUES (7, 1, 1)","count":1"#,
                r#"1 50 60 "commit":true"#,
                r#"2 70 80 "commit":true"#,
            ],
        );
    }
    // What is understood locks what it searches.
    breaks(
        MYSQL,
        Anomaly::MutualExclusion,
        &[
            r#"1 10 20 "sql":"UPDATE t SET v = 3 WHERE w >= 0","count":1"#,
            r#"2 30 40 "sql":"INSERT INTO t (id, v, w) VALUES (7, 1, 1)","count":1"#,
            r#"1 50 60 "commit":true"#,
            r#"2 70 80 "commit":true"#,
        ],
    );
}

/// InnoDB's locking reads see the newest version, PostgreSQL's what the snapshot has, or fail.
#[test]
fn what_a_read_that_locks_sees() {
    let lines = |locked: &str| {
        vec![
            r#"2 2 4 "sql":"SELECT v FROM t WHERE id = 2","rows":[[20]]"#.to_owned(),
            r#"1 10 20 "sql":"UPDATE t SET v = 11 WHERE id = 1","count":1"#.to_owned(),
            COMMITTED.to_owned(),
            format!(r#"2 40 50 "sql":"SELECT v FROM t WHERE id = 1{locked}"#),
            r#"2 60 61 "commit":true"#.to_owned(),
        ]
    };
    let of = |profile: &str, locked: &str| {
        let lines = lines(locked);
        let refs: Vec<&str> = lines.iter().map(String::as_str).collect();
        verdict(profile, &history(profile.split('/').next().expect("a name"), &refs)).1 == Verdict::Clean
    };
    assert!(of(MYSQL, r#" FOR UPDATE","rows":[[11]]"#), "the newest");
    assert!(!of(MYSQL, r#" FOR UPDATE","rows":[[10]]"#), "the snapshot's");
    assert!(of(MYSQL, r#"","rows":[[10]]"#), "a plain read sees the snapshot");
    assert!(!of(RR, r#" FOR UPDATE","rows":[[11]]"#), "not in the snapshot");
    assert!(!of(RR, r#" FOR UPDATE","rows":[[10]]"#), "changed since: refused");
    assert!(of(RC, r#" FOR UPDATE","rows":[[11]]"#));
}

/// A run through the proxy at READ COMMITTED was accused of a read that no moment explains: a
/// locking read had waited for a transaction that deleted the row and inserted it again. It found
/// nothing, although the row is there before and after.
#[test]
fn a_locking_read_that_waited_may_miss_a_row_that_was_there_all_the_time() {
    let lines = |read: &str| {
        [
            r#"1 10 20 "sql":"DELETE FROM t WHERE id = 1","count":1"#.to_owned(),
            format!(r#"2 25 75 "sql":"SELECT v FROM t WHERE id = 1{read}","rows":[]"#),
            r#"1 30 40 "sql":"INSERT INTO t (id, v, w) VALUES (1, 7, 1)","count":1"#.to_owned(),
            r#"1 60 70 "commit":true"#.to_owned(),
            r#"2 80 81 "commit":true"#.to_owned(),
        ]
    };
    is_clean(RC, &lines(" FOR UPDATE").each_ref().map(String::as_str));
    is_clean(RC, &lines(" AND v > 5 FOR UPDATE").each_ref().map(String::as_str));
    breaks(RC, Anomaly::ConsistentRead, &lines("").each_ref().map(String::as_str));
}

/// InnoDB takes no snapshot for a SELECT of no table, for an UPDATE that changes nothing, nor for a
/// locking read.
#[test]
fn what_takes_no_snapshot() {
    for first in [
        r#"2 2 4 "sql":"SELECT 1","rows":[[1]]"#,
        r#"2 2 4 "sql":"UPDATE t SET v = 20 WHERE id = 2","count":0"#,
        r#"2 2 4 "sql":"SELECT v FROM t WHERE id = 2 FOR UPDATE","rows":[[20]]"#,
    ] {
        let write = r#"1 10 20 "sql":"UPDATE t SET v = 11 WHERE id = 1","count":1"#;
        let read = r#"2 40 50 "sql":"SELECT v FROM t WHERE id = 1","rows":[[11]]"#;
        is_clean(MYSQL, &[first, write, COMMITTED, read, r#"2 60 61 "commit":true"#]);
    }
}

/// InnoDB's scan of an index that has all that is asked for locks no row, but the entries of the
/// index.
#[test]
fn a_scan_locks_what_it_returns() {
    let ser = "mysql/serializable";
    let (late, end) = (r#"1 80 85 "commit":true"#, r#"2 60 61 "commit":true"#);
    let scan = r#"1 10 20 "sql":"SELECT id, v FROM t WHERE v = 10","rows":[[1,10]]"#;
    let other = r#"1 21 22 "sql":"SELECT v FROM t WHERE id = 2","rows":[[20]]"#;
    let write = |column: &str| format!(r#"2 30 40 "sql":"UPDATE t SET {column} = 3 WHERE id = 1","count":1"#);
    breaks(ser, Anomaly::MutualExclusion, &[scan, other, &write("v"), end, late]);
    is_clean(ser, &[scan, other, &write("w"), end, late]);
}

/// Such a scan reads past a writer of other columns that has not committed, and the transaction may
/// then wait for it and read what it wrote. The certifier took the scan for a read of the whole
/// row, as it was before.
#[test]
fn a_scan_reads_past_writers_of_what_it_does_not_return() {
    let write = r#"2 10 12 "sql":"UPDATE t SET w = 3 WHERE id = 1","count":1"#;
    let scan = r#"1 20 25 "sql":"SELECT id, v FROM t WHERE v = 10","rows":[[1,10]]"#;
    let read = r#"1 27 40 "sql":"SELECT v, w FROM t WHERE id = 1","rows":[[10,3]]"#;
    let ends = [r#"2 30 31 "commit":true"#, r#"1 50 51 "commit":true"#];
    is_clean("mysql/serializable", &[write, scan, ends[0], read, ends[1]]);
}

/// MariaDB 11.8 at SERIALIZABLE was reported for a transaction that read the MIN of a range beside
/// a row in it that was not committed: it reads the end of an index, and waits for no other row.
#[test]
fn a_query_that_needs_few_rows_locks_no_range() {
    let ser = "mysql/serializable";
    let insert = r#"2 10 20 "sql":"INSERT INTO t (id, v, w) VALUES (7, 200, 0)","count":1"#;
    // A SELECT that is alone in its transaction locks nothing.
    let other = r#"1 22 24 "sql":"SELECT v FROM t WHERE id = 2","rows":[[20]]"#;
    let ends = [r#"1 50 60 "commit":true"#, r#"2 70 80 "commit":true"#];
    let query = |what: &str, group: &str, row: u32| {
        format!(r#"1 30 40 "sql":"SELECT {what} FROM t WHERE v <= 300{group}","rows":[[{row}]]"#)
    };
    for few in [
        query("MIN(v)", "", 10),
        query("DISTINCT w", "", 0),
        query("COUNT(DISTINCT w)", "", 1),
        query("w", " GROUP BY w", 0),
    ] {
        is_clean(ser, &[insert, other, &few, ends[0], ends[1]]);
    }
    let all = query("COUNT(*)", "", 2);
    breaks(ser, Anomaly::MutualExclusion, &[insert, other, &all, ends[0], ends[1]]);
}

#[test]
fn a_gap_that_was_locked_stays_empty() {
    let locked = r#"1 10 20 "sql":"SELECT id, v FROM t WHERE v > 100 FOR UPDATE","rows":[]"#;
    let insert = r#"2 30 40 "sql":"INSERT INTO t (id, v, w) VALUES (7, 200, 0)","count":1"#;
    let lines = [locked, insert, r#"2 60 61 "commit":true"#, r#"1 80 85 "commit":true"#];
    breaks(MYSQL, Anomaly::MutualExclusion, &lines);
    is_clean("mysql/read-committed", &lines);
    is_clean(RR, &lines);
}

#[test]
fn rows_without_a_key_are_those_that_statements_ask_for() {
    let write = r#"1 10 20 "sql":"UPDATE n SET v = 5 WHERE w = 3","count":2"#;
    let end = r#"2 60 61 "commit":true"#;
    let read = |rows: &str| format!(r#"2 40 50 "sql":"SELECT v FROM n WHERE w = 3","rows":{rows}"#);
    is_clean(RC, &[write, COMMITTED, &read("[[5],[5]]"), end]);
    breaks(RC, Anomaly::ConsistentRead, &[write, COMMITTED, &read("[[4],[4]]"), end]);
    breaks(RC, Anomaly::ConsistentRead, &[write, COMMITTED, &read("[]"), end]);
    // Nobody knows what was there at first.
    is_clean(RC, &[&read("[[4],[6]]"), end]);
    is_clean(RC, &[&read("[[4]]"), end]);
    // Two may insert the same.
    let mine = r#"1 10 20 "sql":"INSERT INTO n (id, v, w) VALUES (8, 1, 3)","count":1"#;
    let more = r#"2 12 18 "sql":"INSERT INTO n (id, v, w) VALUES (9, 2, 3)","count":1"#;
    let own = [
        r#"1 21 22 "sql":"UPDATE n SET v = 5 WHERE w = 3","count":1"#,
        r#"2 21 22 "sql":"UPDATE n SET v = 6 WHERE w = 3","count":1"#,
    ];
    for profile in [RC, RR] {
        is_clean(profile, &[mine, more, own[0], own[1], end, r#"1 80 85 "commit":true"#]);
    }
    // Another row with the same value may have come, and a change by another condition may have
    // moved rows.
    let insert = r#"3 30 32 "sql":"INSERT INTO n (id, v, w) VALUES (9, 1, 3)","count":1"#;
    is_clean(RC, &[write, COMMITTED, insert, r#"3 34 36 "commit":true"#, &read("[[5],[5],[1]]"), end]);
    let moved = r#"3 30 32 "sql":"UPDATE n SET w = 4 WHERE v = 5","count":1"#;
    is_clean(RC, &[write, COMMITTED, moved, r#"3 34 36 "commit":true"#, &read("[[5]]"), end]);
    is_clean(RC, &[write, COMMITTED, moved, r#"3 34 36 "commit":true"#, &read("[]"), end]);
    let some = r#"3 30 32 "sql":"UPDATE n SET v = 9 WHERE w = 3 AND id = 1","count":1"#;
    is_clean(RC, &[write, COMMITTED, some, r#"3 34 36 "commit":true"#, &read("[[5],[9]]"), end]);
    is_clean(RC, &[write, COMMITTED, some, r#"3 34 36 "commit":true"#, &read("[[5]]"), end]);
    let theirs = r#"2 12 18 "sql":"UPDATE n SET v = 6 WHERE w = 3","count":1"#;
    breaks(RC, Anomaly::MutualExclusion, &[write, theirs, end, r#"1 80 85 "commit":true"#]);
}

#[test]
fn nobody_is_accused_for_what_was_not_seen() {
    let (mut found, mut unseen) = (0, 0);
    for protocol in Protocol::ALL {
        for seed in 0..40 {
            let mut config = SimConfig::new(protocol, seed);
            (config.transactions, config.clients, config.domain) = (120, 8, 6);
            config.keys = [3, 10, 30][seed as usize % 3];
            config.mix = Mix::NAMED[seed as usize % 4].1;
            (config.aborts, config.unknown) = (Ppm::percent(8), Ppm::percent(4));
            config.skew = [0, 20_000][seed as usize % 2];
            let question = Question::new(protocol.promises()[0]);
            let check = |config: &SimConfig| {
                let history = blurred(&simulate_history(config).expect("a history").0, seed);
                let verdict = Engine::default().check(&history, question, &Budget::unlimited());
                (history, verdict)
            };
            let (history, verdict) = check(&config);
            unseen +=
                history.txns().flat_map(|t| history.ops(t)).filter(|op| op.kind == OpKind::Update).count();
            if let Verdict::Violated(findings) = &verdict {
                panic!("{protocol} {seed}: {}", explain::finding(&history, &findings[0]));
            }
            for fault in [Fault::WriteLost, Fault::LockNotTaken] {
                if seed % 10 == 0 && fault.breaks(protocol).is_some() {
                    let (history, verdict) = check(&config.clone().with_fault(fault, Ppm::percent(20)));
                    let Verdict::Violated(findings) = &verdict else { continue };
                    found += 1;
                    for finding in findings {
                        assert_eq!(
                            audit(&history, question, &finding.certificate),
                            Ok(()),
                            "{protocol} {seed}"
                        );
                    }
                }
            }
        }
    }
    assert!(found > 15 && unseen > 1_000, "{found} of {unseen}");
}

/// Histories of one database by the mechanisms of another: much is found, and all of it is certain.
#[test]
fn whatever_the_mechanisms_are_findings_pass_the_audit() {
    let all: Vec<Mechanisms> = profile::all().map(Mechanisms::of).collect();
    let (mut found, mut next) = (0, 0);
    for protocol in Protocol::ALL {
        for seed in 0..24 {
            let mut config = SimConfig::new(protocol, seed);
            (config.transactions, config.clients, config.domain) = (90, [3, 6, 10][seed as usize % 3], 6);
            config.keys = [2, 4, 10, 30][seed as usize / 4 % 4];
            config.mix = Mix::NAMED[seed as usize / 2 % 4].1;
            (config.aborts, config.unknown) = (Ppm::percent(8), Ppm::percent(6));
            let clear = simulate_history(&config).expect("a history").0;
            let history = if seed % 3 == 0 { clear } else { blurred(&clear, seed) };
            next += 7;
            let mechanisms = all[next % all.len()];
            for threads in [None, Some(1)] {
                let violations = violations(&history, mechanisms, threads);
                found += violations.len();
                for Violation { breach, .. } in violations.into_iter().take(6) {
                    let answer = audit(&history, QUESTION, &Certificate::Intervals(breach.clone()));
                    assert_eq!(answer, Ok(()), "{protocol} {seed} {threads:?}: {breach:?}");
                }
            }
        }
    }
    assert!(found > 1_000, "{found}");
}

const QUESTION: Question = Question { real_time: false, ..Question::new(Level::ReadUncommitted) };

fn violations(history: &History, mechanisms: Mechanisms, threads: Option<usize>) -> Vec<Violation> {
    let mut mirror = Mirror::new(mechanisms, history.header().skew);
    if let Some(threads) = threads {
        mirror = mirror.with_threads(threads);
    }
    Engine::play(&mut mirror, history, &Budget::unlimited()).expect("a timed history");
    std::iter::from_fn(|| mirror.next_violation()).collect()
}
