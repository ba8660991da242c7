use margay_wire::mysql::{Connected, Ran};
use margay_wire::{Refusal, Rows};

use super::*;

const IDLE: u16 = status::AUTOCOMMIT;
const OPEN: u16 = status::AUTOCOMMIT | status::IN_TRANSACTION;

fn answer(text: &str, outcome: Outcome, before: i64, status: Option<u16>) -> Answer {
    let prepared = Arc::new(Prepared { text: Some(Arc::from(text)), types: Vec::new() });
    let (rows, times) = (Rows::default(), Times { before, after: before + 1 });
    let executed = Executed { prepared, bound: None, columns: None, rows, complete: true, outcome, times };
    Answer { executed, returns: false, affected: 1, changed: None, inserted: 0, status }
}

fn failure(code: &str) -> Outcome {
    Outcome::Failed(Refusal { code: code.to_owned(), severity: Severity::Error })
}

/// A lane of a session in the database `shop`, with autocommit on or off.
fn session(status: u16) -> Lane {
    let ground =
        Ground { database: "shop".to_owned(), level: Some(OwnLevel::RepeatableRead), timeouts_end: false };
    let mut lane = Lane::new(1, ground);
    let database = Some("shop".to_owned());
    lane.event(Event::Connected(Connected { database, unicode: true, status, ..Connected::default() }));
    lane
}

/// What a client said: a text, and the status or the error that answered it; the times are 10, 20,
/// …
fn says(lane: &mut Lane, said: &[(&str, Result<u16, &str>)]) {
    for ((text, answered), now) in said.iter().zip((10..).step_by(10)) {
        lane.outstanding.sends(now);
        let answer = match answered {
            Ok(status) => answer(text, Outcome::Done(String::new()), now, Some(*status)),
            Err("lost") => answer(text, Outcome::Lost, now, None),
            Err(code) => answer(text, failure(code), now, None),
        };
        lane.event(Event::Ran(Ran { answers: vec![answer] }));
        lane.rests();
    }
}

fn told(lane: &mut Lane) -> Vec<(Vec<String>, Ended)> {
    let text = |op: &Op| if op.executed.is_none() { "?".to_owned() } else { op.text.to_string() };
    lane.outstanding.done().map(|it| (it.ops.iter().map(text).collect(), it.ended)).collect()
}

#[track_caller]
fn check(status: u16, said: &[(&str, Result<u16, &str>)], expected: &[(&[&str], Ended)]) {
    let mut lane = session(status);
    says(&mut lane, said);
    lane.closed(1000);
    let told = told(&mut lane);
    let told: Vec<(Vec<&str>, Ended)> =
        told.iter().map(|(ops, ended)| (ops.iter().map(String::as_str).collect(), *ended)).collect();
    let expected: Vec<(Vec<&str>, Ended)> =
        expected.iter().map(|(ops, ended)| (ops.to_vec(), *ended)).collect();
    assert_eq!(told, expected, "{said:?}");
}

#[test]
fn transactions_begin_and_end() {
    use Ended::{Aborted, Committed, Unknown};
    check(IDLE, &[("UPDATE t", Ok(IDLE))], &[(&["UPDATE t"], Committed)]);
    check(
        IDLE,
        &[("BEGIN", Ok(OPEN)), ("SELECT 1", Ok(OPEN)), ("UPDATE t", Ok(OPEN)), ("COMMIT", Ok(IDLE))],
        &[(&["SELECT 1", "UPDATE t"], Committed)],
    );
    check(
        IDLE,
        &[("BEGIN", Ok(OPEN)), ("UPDATE t", Ok(OPEN)), ("ROLLBACK", Ok(IDLE))],
        &[(&["UPDATE t"], Aborted)],
    );
    check(
        IDLE,
        &[("BEGIN", Ok(OPEN)), ("UPDATE t", Ok(OPEN)), ("COMMIT", Err("lost"))],
        &[(&["UPDATE t"], Unknown)],
    );
    check(IDLE, &[("UPDATE t", Err("lost"))], &[(&["UPDATE t"], Unknown)]);
    // Whoever leaves aborts.
    check(IDLE, &[("BEGIN", Ok(OPEN)), ("UPDATE t", Ok(OPEN))], &[(&["UPDATE t"], Aborted)]);
    check(IDLE, &[("BEGIN", Ok(OPEN)), ("UPDATE t", Err("lost"))], &[(&["UPDATE t"], Aborted)]);
}

/// BEGIN, changes of the schema and `SET autocommit = 1` commit what came before.
#[test]
fn some_statements_commit_first() {
    use Ended::{Aborted, Committed, Unknown};
    check(
        IDLE,
        &[
            ("BEGIN", Ok(OPEN)),
            ("UPDATE a", Ok(OPEN)),
            ("BEGIN", Ok(OPEN)),
            ("UPDATE b", Ok(OPEN)),
            ("ROLLBACK", Ok(IDLE)),
        ],
        &[(&["UPDATE a"], Committed), (&["UPDATE b"], Aborted)],
    );
    check(
        IDLE,
        &[
            ("BEGIN", Ok(OPEN)),
            ("UPDATE a", Ok(OPEN)),
            ("CREATE TABLE x (y int)", Ok(IDLE)),
            ("ROLLBACK", Ok(IDLE)),
        ],
        &[(&["UPDATE a"], Committed), (&["CREATE TABLE x (y int)"], Committed)],
    );
    check(0, &[("UPDATE a", Ok(1)), ("SET autocommit = 1", Ok(IDLE))], &[(&["UPDATE a"], Committed)]);
    // Nobody knows whether a change that failed had committed before.
    check(
        IDLE,
        &[("BEGIN", Ok(OPEN)), ("UPDATE a", Ok(OPEN)), ("CREATE TABLE x (y int)", Err("1050"))],
        &[(&["UPDATE a"], Unknown)],
    );
    check(
        IDLE,
        &[("BEGIN", Ok(OPEN)), ("UPDATE a", Ok(OPEN)), ("CREATE TABEL x (y int)", Err("1064"))],
        &[(&["UPDATE a"], Aborted)],
    );
}

#[test]
fn without_autocommit_the_first_statement_begins() {
    use Ended::{Aborted, Committed};
    check(
        0,
        &[
            ("UPDATE a", Ok(1)),
            ("UPDATE b", Ok(1)),
            ("COMMIT", Ok(0)),
            ("UPDATE c", Ok(1)),
            ("ROLLBACK", Ok(0)),
        ],
        &[(&["UPDATE a", "UPDATE b"], Committed), (&["UPDATE c"], Aborted)],
    );
    // The read that failed may have taken the snapshot.
    let mut lane = session(0);
    says(&mut lane, &[("SELECT x FROM a", Err("1365")), ("SELECT y FROM a", Ok(1)), ("COMMIT", Ok(0))]);
    let transactions: Vec<Transaction> = lane.outstanding.done().collect();
    assert_eq!((transactions.len(), transactions[0].begin.before), (1, 10));
    assert_eq!((lane.outstanding.since, lane.outstanding.asked), (None, None));
}

#[test]
fn errors_end_their_statement_or_their_transaction() {
    use Ended::{Aborted, Committed, Unknown};
    let after = |code: &'static str| {
        [
            ("BEGIN", Ok(OPEN)),
            ("UPDATE a", Ok(OPEN)),
            ("UPDATE b", Err(code)),
            ("UPDATE c", Ok(OPEN)),
            ("COMMIT", Ok(IDLE)),
        ]
    };
    for code in ["1062", "1205", "1452"] {
        check(IDLE, &after(code), &[(&["UPDATE a", "UPDATE c"], Committed)]);
    }
    // Of an error that is not known, nobody knows what it left.
    check(IDLE, &after("1999"), &[(&["?"], Unknown)]);
    check(
        IDLE,
        &[("BEGIN", Ok(OPEN)), ("UPDATE a", Ok(OPEN)), ("UPDATE b", Err("1999")), ("ROLLBACK", Ok(IDLE))],
        &[(&["UPDATE a"], Aborted)],
    );
    // After a deadlock there is no transaction, and statements commit by themselves.
    check(
        IDLE,
        &[
            ("BEGIN", Ok(OPEN)),
            ("UPDATE a", Ok(OPEN)),
            ("UPDATE b", Err("1213")),
            ("UPDATE c", Ok(IDLE)),
            ("COMMIT", Ok(IDLE)),
        ],
        &[(&["UPDATE a"], Aborted), (&["UPDATE c"], Committed)],
    );
    let mut lane = session(IDLE);
    lane.ground.timeouts_end = true;
    says(&mut lane, &[("BEGIN", Ok(OPEN)), ("UPDATE a", Ok(OPEN)), ("UPDATE b", Err("1205"))]);
    assert_eq!(told(&mut lane), [(vec!["UPDATE a".to_owned()], Aborted)]);
    check(
        IDLE,
        &[("BEGIN", Ok(OPEN)), ("UPDATE a", Ok(OPEN)), ("COMMIT", Err("1213"))],
        &[(&["UPDATE a"], Aborted)],
    );
    check(
        IDLE,
        &[("BEGIN", Ok(OPEN)), ("UPDATE a", Ok(OPEN)), ("COMMIT", Err("1180"))],
        &[(&["UPDATE a"], Unknown)],
    );
}

#[test]
fn savepoints_drop_what_came_behind_them() {
    use Ended::{Committed, Unknown};
    let said = |name: &'static str| {
        [
            ("BEGIN", Ok(OPEN)),
            ("UPDATE a", Ok(OPEN)),
            ("SAVEPOINT s", Ok(OPEN)),
            ("UPDATE b", Ok(OPEN)),
            (name, Ok(OPEN)),
            ("UPDATE c", Ok(OPEN)),
            ("COMMIT", Ok(IDLE)),
        ]
    };
    check(IDLE, &said("ROLLBACK TO SAVEPOINT s"), &[(&["UPDATE a", "UPDATE c"], Committed)]);
    check(IDLE, &said("RELEASE SAVEPOINT s"), &[(&["UPDATE a", "UPDATE b", "UPDATE c"], Committed)]);
    check(IDLE, &said("ROLLBACK TO other"), &[(&["?"], Unknown)]);
}

/// Texts may hide anything, also BEGIN and COMMIT; the status does not.
#[test]
fn what_contradicts_the_status_is_opaque() {
    use Ended::{Committed, Unknown};
    check(IDLE, &[("CALL p()", Ok(IDLE))], &[(&["?"], Unknown)]);
    check(IDLE, &[("CALL p()", Err("1064")), ("SELECT 1", Ok(IDLE))], &[(&["?"], Unknown)]);
    check(IDLE, &[("SELEC 1", Err("1064")), ("UPDATE a", Ok(IDLE))], &[(&["UPDATE a"], Committed)]);
    check(
        IDLE,
        &[("CALL p()", Ok(OPEN)), ("UPDATE a", Ok(OPEN)), ("COMMIT", Ok(IDLE))],
        &[(&["?"], Unknown)],
    );
    check(IDLE, &[("BEGIN", Ok(OPEN)), ("UPDATE a", Ok(OPEN)), ("UPDATE b", Ok(IDLE))], &[(&["?"], Unknown)]);
    check(IDLE, &[("UPDATE a; UPDATE b", Ok(IDLE))], &[(&["?"], Unknown)]);
    check(IDLE, &[("UPDATE a SET b = 'x\\\\y'", Ok(IDLE))], &[(&["?"], Committed)]);
    // A variable of which nobody knows what it changes.
    check(
        IDLE,
        &[("SET sql_select_limit = 1", Ok(IDLE)), ("SELECT a FROM b", Ok(IDLE)), ("UPDATE a", Ok(IDLE))],
        &[(&["?"], Committed)],
    );
    let mut lane = session(IDLE);
    let all = ["UPDATE a", "UPDATE b"]
        .map(|_| answer("UPDATE a; UPDATE b", Outcome::Done(String::new()), 10, Some(IDLE)));
    lane.event(Event::Ran(Ran { answers: all.into() }));
    let each = ["UPDATE a", "UPDATE b"].map(|text| (vec![text.to_owned()], Committed));
    assert_eq!(told(&mut lane), each);
}

#[test]
fn what_happens_in_another_database_is_left_out() {
    use Ended::Committed;
    check(
        IDLE,
        &[
            ("USE other", Ok(IDLE)),
            ("UPDATE t", Ok(IDLE)),
            ("SELECT a FROM t", Ok(IDLE)),
            ("use `Shop`", Ok(IDLE)),
            ("UPDATE t", Ok(IDLE)),
        ],
        &[(&["UPDATE t"], Committed)],
    );
    check(IDLE, &[("USE other", Ok(IDLE)), ("UPDATE shop.t", Ok(IDLE))], &[(&["?"], Committed)]);
}

#[test]
fn levels_are_followed() {
    use OwnLevel::{ReadCommitted, RepeatableRead, Serializable};
    let mut lane = session(IDLE);
    says(
        &mut lane,
        &[
            ("UPDATE a", Ok(IDLE)),
            ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", Ok(IDLE)),
            ("START TRANSACTION", Ok(OPEN)),
            ("UPDATE b", Ok(OPEN)),
            ("COMMIT AND CHAIN", Ok(OPEN)),
            ("UPDATE c", Ok(OPEN)),
            ("COMMIT", Ok(IDLE)),
            ("UPDATE d", Ok(IDLE)),
            ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", Ok(IDLE)),
            ("UPDATE e", Ok(IDLE)),
            ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", Ok(IDLE)),
            // It may have used the level up.
            ("SHOW WARNINGS", Ok(IDLE)),
            ("UPDATE f", Ok(IDLE)),
            ("UPDATE g", Ok(IDLE)),
        ],
    );
    let levels: Vec<Option<OwnLevel>> =
        lane.outstanding.done().map(|transaction| transaction.level).collect();
    let of = [RepeatableRead, Serializable, Serializable, RepeatableRead, ReadCommitted];
    let expected: Vec<_> = of.map(Some).into_iter().chain([None, Some(ReadCommitted)]).collect();
    assert_eq!(levels, expected);
    lane.event(Event::Reset(None, Times { before: 500, after: 501 }));
    says(&mut lane, &[("UPDATE h", Ok(IDLE))]);
    assert_eq!(
        lane.outstanding.done().map(|transaction| transaction.level).collect::<Vec<_>>(),
        [Some(RepeatableRead)]
    );
}

/// InnoDB may have taken the snapshot with `START TRANSACTION WITH CONSISTENT SNAPSHOT`: engines
/// see that it began then.
#[test]
fn the_interval_begins_at_begin() {
    let mut lane = session(IDLE);
    says(
        &mut lane,
        &[
            ("START TRANSACTION WITH CONSISTENT SNAPSHOT", Ok(OPEN)),
            ("SELECT a FROM b", Ok(OPEN)),
            ("COMMIT", Ok(IDLE)),
        ],
    );
    let transactions: Vec<Transaction> = lane.outstanding.done().collect();
    assert_eq!((transactions[0].begin.before, transactions[0].ops[0].times.before), (10, 20));
}

/// Whoever verifies while the application runs must not go past a transaction that is still to
/// come.
#[test]
fn what_is_outstanding_holds_the_time_back() {
    let mut lane = session(IDLE);
    says(&mut lane, &[("BEGIN", Ok(OPEN)), ("UPDATE a", Ok(OPEN))]);
    assert_eq!((lane.outstanding.since, lane.outstanding.asked), (Some(10), None));
    says(&mut lane, &[("COMMIT", Ok(IDLE))]);
    assert_eq!((lane.outstanding.since, lane.outstanding.asked), (None, None));
}

/// Numbers that mysql2 sends as doubles are whole; texts in unknown character sets are not known.
#[test]
fn parameters_are_what_the_client_meant() {
    let with = |kind_of: u8, value: &str, unicode: bool| {
        let types = vec![kind::KNOWN | u32::from(kind_of)];
        let mut executed = answer("UPDATE a", Outcome::Lost, 1, None).executed;
        executed.prepared = Arc::new(Prepared { text: None, types });
        let values = Some(vec![Some(value.as_bytes().to_vec())]);
        executed.bound = Some(Arc::new(margay_wire::Bound { values, ..margay_wire::Bound::default() }));
        read_parameters(&mut executed, unicode);
        (kind::of(executed.prepared.types[0]), executed.bound.expect("bound").values.is_some())
    };
    assert_eq!(with(kind::DOUBLE, "7", true), (kind::LONGLONG, true));
    assert_eq!(with(kind::DOUBLE, "7.5", true), (kind::DOUBLE, true));
    assert_eq!(with(kind::DOUBLE, "1e300", true), (kind::DOUBLE, true));
    assert_eq!(with(253, "é", true), (253, true));
    assert_eq!(with(253, "é", false), (253, false));
}
