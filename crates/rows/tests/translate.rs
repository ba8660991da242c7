//! Statements and what they become, in the words of the native format.

use margay_formats::{Format, Source, Target, read, write};
use margay_history::{Access, History, Op, ReadLock, Update};
use margay_rows::{SeenState, translate, translate_partly};

const TABLES: &str = r#""tables":{"t":{"key":["id"],"columns":{"id":"int","v":"int","s":"text"}},"p":{"key":["a","b"],"columns":{"a":"int","b":"int","c":"int"}},"d":{"key":["id"],"columns":{"id":"int","m":"decimal(12,2)"}},"n":{"key":["s"],"columns":{"s":"text","v":"int"}}}"#;

fn recorded(dbms: &str, statements: &[&str]) -> History {
    let mut text = format!("{{\"margay\":1,\"dbms\":\"{dbms}\",{TABLES}}}\n");
    for statement in statements {
        text += &format!("{{\"session\":0,\"txn\":1,{statement}}}\n");
    }
    text += "{\"session\":0,\"txn\":1,\"commit\":true}\n";
    read(Source::bytes(text.as_bytes()), Some(Format::Margay)).expect("a history").history
}

/// What the statements of one transaction become, and why one stays.
fn rows(dbms: &str, sight: SeenState, statements: &[&str]) -> (Vec<String>, Option<String>) {
    let history = recorded(dbms, statements);
    let rows = translate(&history, sight).expect("it has statements");
    assert_eq!(rows.history.op_count(), history.op_count());
    assert_eq!(rows.history.txn_count(), history.txn_count());
    let mut out = Vec::new();
    write(&rows.history, Format::Margay, Target::Stream(Box::new(&mut out))).expect("it can be written");
    let lines = String::from_utf8(out).expect("text");
    let strip = |line: &str| {
        let op = line.strip_prefix("{\"session\":0,\"txn\":1,").and_then(|line| line.strip_suffix('}'));
        op.expect("an operation").to_owned()
    };
    let ops = lines.lines().skip(1).map(strip).filter(|line| !line.contains("\"commit\""));
    (ops.collect(), rows.left.map(|left| left.why))
}

fn becomes(statements: &[&str], expected: &[&str]) {
    let (ops, left) = rows("postgresql-15", SeenState::Stable, statements);
    assert_eq!((ops.iter().map(String::as_str).collect::<Vec<_>>(), left), (expected.to_vec(), None));
}

/// Stays a statement, for a reason that has this word.
fn stays(dbms: &str, statement: &str, why: &str) {
    let (ops, left) = rows(dbms, SeenState::Stable, &[statement]);
    assert!(ops[0].starts_with("\"sql\""), "{ops:?}");
    let left = left.expect("it stays");
    assert!(left.contains(why), "{statement}: {left}");
}

#[test]
fn reads_by_key() {
    becomes(
        &[
            r#""sql":"SELECT v, s FROM t WHERE id = $1","params":[7],"rows":[[3,"x"]]"#,
            r#""sql":"SELECT v FROM t WHERE id = 8","rows":[]"#,
            r#""sql":"SELECT * FROM p WHERE b = ? AND a = ?","params":[2,1],"rows":[[1,2,3]]"#,
            r#""sql":"SELECT v FROM t WHERE id = 9 FOR UPDATE""#,
        ],
        &[
            r#""read":[[["t",7],{"s":"x","v":3}]]"#,
            r#""read":[[["t",8],null]]"#,
            r#""read":[[["p",[1,2]],{"c":3}]]"#,
            r#""read":[[["t",9]]]"#,
        ],
    );
}

#[test]
fn reads_by_condition_are_scans() {
    becomes(
        &[
            r#""sql":"SELECT id, v FROM t WHERE v > $1 ORDER BY id","params":[3],"rows":[[1,4],[2,5]]"#,
            r#""sql":"SELECT id FROM t","rows":[]"#,
            r#""sql":"SELECT id FROM t WHERE id = 1 AND v = 2","rows":[]"#,
        ],
        &[
            r#""scan":{"table":"t","where":"v > 3"},"rows":[[["t",1],{"v":4}],[["t",2],{"v":5}]]"#,
            r#""scan":{"table":"t","where":"1 = 1"},"rows":[]"#,
            r#""scan":{"table":"t","where":"id = 1 AND v = 2"},"rows":[]"#,
        ],
    );
}

#[test]
fn a_limit_is_a_bound() {
    becomes(
        &[
            r#""sql":"SELECT b FROM p WHERE a = 1 ORDER BY b LIMIT 1","rows":[]"#,
            r#""sql":"SELECT a, b FROM p WHERE a = 1 ORDER BY b DESC LIMIT 1","rows":[[1,9]]"#,
        ],
        &[
            r#""scan":{"table":"p","where":"a = 1"},"rows":[]"#,
            r#""scan":{"table":"p","where":"(a = 1) AND b >= 9"},"rows":[[["p",[1,9]],{}]]"#,
        ],
    );
    stays("postgresql-15", r#""sql":"SELECT id FROM t ORDER BY v LIMIT 1","rows":[[1]]"#, "LIMIT");
}

#[test]
fn writes_by_key() {
    becomes(
        &[
            r#""sql":"INSERT INTO t (id, v) VALUES ($1, 5)","params":[7],"count":1"#,
            r#""sql":"UPDATE t SET v = $2, s = 'y' WHERE id = $1","params":[7,6],"count":1"#,
            r#""sql":"UPDATE t SET v = 1 WHERE id = 8","count":0"#,
            r#""sql":"DELETE FROM t WHERE id = 7","count":1"#,
            r#""sql":"INSERT INTO n VALUES ('k', 1) ON CONFLICT (s) DO UPDATE SET v = excluded.v","count":1"#,
        ],
        &[
            r#""write":[[["t",7],{"s":null,"v":5}]]"#,
            r#""write":[[["t",7],{"s":"y","v":6}]]"#,
            r#""read":[[["t",8],null]]"#,
            r#""write":[[["t",7],null]]"#,
            r#""write":[[["n","k"],{"v":1}]]"#,
        ],
    );
}

#[test]
fn what_is_computed_from_a_known_row_is_known() {
    let statements = [
        r#""sql":"SELECT v FROM t WHERE id = 7","rows":[[10]]"#,
        r#""sql":"UPDATE t SET v = v + $1 WHERE id = 7","params":[5],"count":1"#,
        r#""sql":"UPDATE t SET v = v * 2 WHERE id = 7","count":1"#,
    ];
    becomes(
        &statements,
        &[
            r#""read":[[["t",7],{"v":10}]]"#,
            r#""write":[[["t",7],{"v":15}]]"#,
            r#""write":[[["t",7],{"v":30}]]"#,
        ],
    );
}

/// A regression: the count got lost, so that rows held where the statement had changed more rows
/// than there were.
#[test]
fn an_update_of_which_only_the_count_is_known_stays_a_statement() {
    let statement = r#""sql":"UPDATE t SET v = v + 5 WHERE id = 7","count":1"#;
    let (ops, left) = rows("postgresql-15", SeenState::Changing, &[statement]);
    assert_eq!((ops[0].as_str(), left.is_some()), (statement, true));
}

#[test]
fn a_part_of_a_known_row_is_the_whole() {
    let statements = [
        r#""sql":"SELECT v, s FROM t WHERE id = 7","rows":[[10,"x"]]"#,
        r#""sql":"UPDATE t SET v = 11 WHERE id = 7","count":1"#,
        r#""sql":"SELECT s FROM t WHERE id = 8","rows":[["z"]]"#,
        r#""sql":"UPDATE t SET s = 'y' WHERE id = 8","count":1"#,
    ];
    becomes(
        &statements,
        &[
            r#""read":[[["t",7],{"s":"x","v":10}]]"#,
            r#""write":[[["t",7],{"s":"x","v":11}]]"#,
            r#""read":[[["t",8],{"s":"z"}]]"#,
            r#""write":[[["t",8],{"s":"y"}]]"#,
        ],
    );
    let (ops, _) = rows("postgresql-15", SeenState::Changing, &statements);
    assert_eq!(ops[1], r#""write":[[["t",7],{"v":11}]]"#);
}

#[test]
fn a_predicate_update_whose_rows_nobody_saw() {
    becomes(
        &[r#""sql":"SELECT v FROM t WHERE id = 7","rows":[[10]]"#, r#""sql":"DELETE FROM t WHERE v > 100""#],
        &[r#""read":[[["t",7],{"v":10}]]"#, r#""update":{"table":"t","where":"v > 100","set":null}"#],
    );
}

/// A regression: an INSERT of one row that had counted two became a write like any other, and such
/// a log held.
#[test]
fn an_insert_that_counted_other_rows_stays_a_statement() {
    let insert = r#""sql":"INSERT INTO t (id, v) VALUES (7, 5), (8, 5)","count":"#;
    stays("postgresql-15", &format!("{insert}3"), "so many");
    stays("postgresql-15", &format!("{insert}1"), "so many");
    stays("mariadb-10.11", &format!("{insert}5"), "so many");
    assert_eq!(rows("postgresql-15", SeenState::Stable, &[&format!("{insert}2")]).1, None);
}

#[test]
fn mysql_counts_changes_and_locks_newer_rows() {
    let (ops, left) =
        rows("mariadb-10.11", SeenState::Stable, &[r#""sql":"UPDATE t SET v = 1 WHERE id = 8","count":0"#]);
    assert_eq!((ops[0].as_str(), left), (r#""read":[[["t",8]]]"#, None));
    let statements = [
        r#""sql":"SELECT v FROM t WHERE `id` = $1","params":[8],"rows":[[1]]"#,
        r#""sql":"INSERT INTO p VALUES (?, 2, 3) ON DUPLICATE KEY UPDATE c = VALUES(c)","params":[1],"count":1"#,
    ];
    let (ops, left) = rows("mariadb-10.11", SeenState::Stable, &statements);
    let expected = [r#""read":[[["t",8],{"v":1}]]"#, r#""write":[[["p",[1,2]],{"c":3}]]"#];
    assert_eq!((ops.iter().map(String::as_str).collect::<Vec<_>>(), left), (expected.to_vec(), None));
    stays("mariadb-10.11", r#""sql":"SELECT v FROM t WHERE id = 1 FOR UPDATE","rows":[[1]]"#, "locking");
    stays("mariadb-10.11", r#""sql":"SELECT v FROM n WHERE s = 'K'","rows":[[1]]"#, "several ways");
}

#[test]
fn what_cannot_be_told_stays_and_says_why() {
    for (statement, why) in [
        (r#""sql":"SELECT COUNT(*) FROM t","rows":[[1]]"#, "COUNT"),
        (r#""sql":"SELECT DISTINCT v FROM t","rows":[]"#, "a clause"),
        (r#""sql":"SELECT v FROM t, p","rows":[]"#, "several"),
        (r#""sql":"SELECT v FROM t WHERE v > 3","rows":[[4]]"#, "keys"),
        (r#""sql":"SELECT t.v FROM t JOIN p ON t.id = p.a","rows":[]"#, "join"),
        (r#""sql":"SELECT v FROM t GROUP BY v","rows":[]"#, "GROUP BY"),
        (r#""sql":"SELECT x FROM unknown","rows":[]"#, "not declared"),
        (r#""sql":"UPDATE t SET id = 2 WHERE id = 1","count":1"#, "key"),
        (r#""sql":"UPDATE t SET v = 2 WHERE id = 1""#, "not known whether"),
        (r#""sql":"UPDATE d SET m = 2 WHERE id = 1","count":1"#, "another form"),
        (r#""sql":"INSERT INTO t SELECT * FROM t","count":1"#, "SELECT"),
        (r#""sql":"INSERT INTO n VALUES ('k', 1) ON CONFLICT DO NOTHING","count":0"#, "nothing"),
        (r#""sql":"CREATE TABLE x (a int)","count":0"#, "another kind"),
        (r#""sql":"SELECT v FROM t WHERE id = '1'","rows":[]"#, "several ways"),
        (r#""sql":"SELECT","rows":[]"#, ""),
    ] {
        stays("postgresql-15", statement, why);
    }
}

#[test]
fn a_history_of_rows_is_left_alone() {
    let text = "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"read\":[[\"x\",1]]}\n";
    let history = read(Source::bytes(text.as_bytes()), Some(Format::Margay)).expect("a history").history;
    assert!(translate(&history, SeenState::Stable).is_none());
}

/// What is told of statements to who can do with a part of it.
fn partly(dbms: &str, statements: &[&str]) -> Vec<String> {
    let rows = translate_partly(&recorded(dbms, statements), SeenState::Changing).expect("it has statements");
    assert_eq!(rows.left, None);
    let history = rows.history;
    let accesses = |op: Op<'_>| {
        let show = |a: &Access| format!(" {}={}", history.show_object(a.object), history.show_value(a.value));
        op.accesses.iter().map(show).collect::<String>()
    };
    let ops = history.txns().flat_map(|txn| history.ops(txn));
    let told = ops.map(|op| {
        let scan = history.scan(op.id).map(|scan| (scan.predicate, scan.observed, String::new()));
        let set = |update: &Update| format!(" set {:?}", update.set.as_deref().unwrap_or("nothing"));
        let update = history.update(op.id).map(|update| (update.predicate, update.observed, set(update)));
        let lock = history.read_lock(op.id).map_or("", |lock| match lock {
            ReadLock::Share => " share",
            ReadLock::Exclusive => " alone",
        });
        match scan.or(update) {
            Some((predicate, observed, set)) => {
                let text = &history.predicate(predicate).text;
                let seen = if observed { " seen" } else { "" };
                format!("{} {text:?}{set}{seen}{}{lock}", op.kind.name(), accesses(op))
            }
            None => format!("{}{}{lock}", op.kind.name(), accesses(op)),
        }
    });
    told.filter(|line| line != "commit").collect()
}

#[test]
fn a_part_of_what_was_written() {
    let ops = partly(
        "postgresql-15",
        &[
            r#""sql":"UPDATE t SET v = v + 1, s = 'x' WHERE id = 1","count":1"#,
            r#""sql":"UPDATE t SET v = 2 WHERE id = 1 AND s = 'x'","count":1"#,
            r#""sql":"UPDATE t SET v = 2 WHERE id = 1 AND s = 'x'","count":0"#,
            r#""sql":"INSERT INTO t (id, v, s) VALUES (3, length('abc'), 'y')","count":1"#,
            r#""sql":"UPDATE t SET v = 2 WHERE id = 1""#,
            r#""sql":"UPDATE t SET id = 2 WHERE id = 1","count":1"#,
            r#""sql":"INSERT INTO t SELECT a, b, 'z' FROM p","count":7"#,
            r#""sql":"DELETE FROM t WHERE v > (SELECT MAX(c) FROM p)","count":2"#,
        ],
    );
    let expected = [
        r#"write t/1={v: ?, s: "x"}"#,
        "write t/1={v: 2}",
        r#"scan "id = 1 AND s = 'x'""#,
        r#"write t/3={v: ?, s: "y"}"#,
        r#"update "id = 1" set "v = 2""#,
        r#"update "?" set "?""#,
        r#"update "?" set "?""#,
        r#"update "v > (SELECT MAX(c) FROM p)" set "nothing""#,
    ];
    assert_eq!(ops, expected);
}

/// PostgreSQL at READ COMMITTED: a statement that has waited for somebody who deleted the row and
/// inserted it again finds neither.
#[test]
fn who_changed_nothing_has_seen_nothing_for_certain_where_states_change() {
    let missed = [r#""sql":"DELETE FROM t WHERE id = 8","count":0"#];
    assert_eq!(partly("postgresql-15", &missed), ["read t/8=?"]);
    becomes(&missed, &[r#""read":[[["t",8],null]]"#]);
}

/// The same is true of a read that locks; a search that locks tells of the rows that it returned.
#[test]
fn a_locking_read_has_seen_nothing_for_certain_where_states_change() {
    let missed = [r#""sql":"SELECT v FROM t WHERE id = 8 FOR UPDATE","rows":[]"#];
    assert_eq!(partly("postgresql-15", &missed), ["read t/8=? alone"]);
    becomes(&missed, &[r#""read":[[["t",8],null]]"#]);
    let search = [r#""sql":"SELECT id, v FROM t WHERE v > 3 FOR UPDATE","rows":[[1,5]]"#];
    assert_eq!(partly("postgresql-15", &search), ["read t/1={v: 5} alone"]);
    let history = recorded("postgresql-15", &search);
    assert!(translate(&history, SeenState::Changing).is_none_or(|rows| rows.left.is_some()));
    assert!(translate(&history, SeenState::Stable).is_some_and(|rows| rows.left.is_none()));
}

#[test]
fn a_part_of_what_was_read() {
    let ops = partly(
        "mysql-8.0",
        &[
            r#""sql":"SELECT v FROM t WHERE id = 1 LOCK IN SHARE MODE","rows":[[3]]"#,
            r#""sql":"SELECT COUNT(*) FROM t WHERE v > 3 FOR UPDATE","rows":[[3]]"#,
            r#""sql":"SELECT t.v FROM t JOIN p ON t.id = p.a","rows":[[3]]"#,
            r#""sql":"SELECT v FROM t WHERE v > 3 LIMIT 1 FOR UPDATE SKIP LOCKED","rows":[[5]]"#,
        ],
    );
    let unread = "scan \"0 = 1\" share";
    assert_eq!(ops, ["read t/1={v: 3} share", "scan \"v > 3\" alone", unread, unread]);
    for statement in [
        r#""sql":"SELECT move_money(1)","rows":[[3]]"#,
        r#""sql":"WITH d AS (DELETE FROM t RETURNING v) SELECT v FROM d","rows":[[3]]"#,
        r#""sql":"SELECT v INTO x FROM t WHERE id = 1""#,
        r#""sql":"ROLLBACK TO SAVEPOINT a""#,
        r#""sql":"UPDATE t SET v = f(v)","count":1"#,
    ] {
        let history = recorded("postgresql-15", &[statement]);
        let rows = translate_partly(&history, SeenState::Changing).expect("it has statements");
        assert!(rows.left.is_some(), "{statement}");
    }
}

/// A chain of 30,000 additions ended the process by an overflow of the stack: its tree is as deep
/// as it is long.
#[test]
fn a_long_chain_of_operators_stays() {
    let sum = vec!["1"; 30_000].join("+");
    stays("postgresql-15", &format!("\"sql\":\"SELECT {sum}\",\"rows\":[[30000]]"), "this many operators");
    let calls = vec!["abs(1, 2)"; 30_000].join("+");
    stays("mysql-8.0", &format!("\"sql\":\"SELECT v FROM t WHERE id = {calls}\""), "this many operators");
}
