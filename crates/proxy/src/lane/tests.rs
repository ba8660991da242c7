use margay_wire::{Prepared, Rows};

use crate::transaction::MAX_OPS;

use super::*;

fn executed(text: &str, outcome: Outcome, before: i64, after: i64) -> Executed {
    let prepared = Arc::new(Prepared { text: Some(Arc::from(text)), types: Vec::new() });
    let (rows, times) = (Rows::default(), Times { before, after });
    Executed { prepared, bound: None, columns: None, rows, complete: true, outcome, times }
}

fn done(tag: &str) -> Outcome {
    Outcome::Done(tag.to_owned())
}

fn refusal(code: &str, severity: Severity) -> Refusal {
    Refusal { code: code.to_owned(), severity }
}

/// A lane with what a client said, one statement after the other; the times are 10, 11, 20, 21, …
fn lane(said: &[(&str, &str, u8)]) -> Lane {
    let mut lane = Lane::new(1, Some(OwnLevel::ReadCommitted), None);
    for (place, (text, tag, status)) in (1..).zip(said) {
        let now = 10 * place;
        lane.outstanding.sends(now);
        lane.event(Event::Queried(vec![executed(text, done(tag), now, now + 1)]));
        lane.event(Event::Ready(*status, now + 1));
    }
    lane
}

fn told(lane: &mut Lane) -> Vec<(Vec<String>, Ended)> {
    lane.outstanding
        .done()
        .map(|it| (it.ops.iter().map(|op| op.text.to_string()).collect(), it.ended))
        .collect()
}

#[test]
fn a_commit_without_an_answer_is_unknown_and_a_rollback_is_none() {
    for (text, ended) in [("COMMIT", Ended::Unknown), ("ROLLBACK", Ended::Aborted)] {
        let mut lane = lane(&[("BEGIN", "BEGIN", b'T'), ("UPDATE", "UPDATE 1", b'T')]);
        lane.event(Event::Queried(vec![executed(text, Outcome::Lost, 30, 31)]));
        lane.closed(31);
        assert_eq!(told(&mut lane), [(vec!["UPDATE".to_owned()], ended)]);
    }
    let mut lane = lane(&[("BEGIN", "BEGIN", b'T'), ("UPDATE", "UPDATE 1", b'T')]);
    lane.closed(31);
    assert_eq!(told(&mut lane), [(vec!["UPDATE".to_owned()], Ended::Aborted)]);
}

#[test]
fn an_error_at_commit_is_an_abort_unless_nobody_knows() {
    for (code, severity, ended) in [
        ("40001", Severity::Error, Ended::Aborted),
        ("23503", Severity::Error, Ended::Aborted),
        ("40003", Severity::Error, Ended::Unknown),
        ("57P01", Severity::Fatal, Ended::Unknown),
    ] {
        let mut lane = lane(&[("BEGIN", "BEGIN", b'T'), ("UPDATE", "UPDATE 1", b'T')]);
        let failed = Outcome::Failed(refusal(code, severity));
        lane.event(Event::Queried(vec![executed("COMMIT", failed, 30, 31)]));
        assert_eq!(told(&mut lane), [(vec!["UPDATE".to_owned()], ended)], "{code}");
    }
}

/// The rows of a cursor come late, but it reads what was there when it was bound: before the
/// transaction's own write.
#[test]
fn a_cursor_stands_where_it_was_bound() {
    let mut lane = lane(&[("BEGIN", "BEGIN", b'T'), ("SELECT 1 FROM t", "SELECT 1", b'T')]);
    lane.event(Event::Executed(Box::new(executed("UPDATE t", done("UPDATE 1"), 40, 41))));
    lane.event(Event::Executed(Box::new(executed("SELECT 2 FROM t", done("SELECT 1"), 30, 51))));
    lane.event(Event::Queried(vec![executed("COMMIT", done("COMMIT"), 60, 61)]));
    let ops = ["SELECT 1 FROM t", "SELECT 2 FROM t", "UPDATE t"].map(str::to_owned).to_vec();
    assert_eq!(told(&mut lane), [(ops, Ended::Committed)]);
}

/// Texts may hide anything, also BEGIN and COMMIT; the status does not.
#[test]
fn what_cannot_be_told_apart_is_opaque_and_its_outcome_unknown() {
    let mut lane = Lane::new(1, None, None);
    let text = "SELECT 1; SELECT 2";
    lane.event(Event::Queried(vec![executed(text, done("SELECT 1"), 10, 11)]));
    lane.event(Event::Ready(b'T', 12));
    lane.event(Event::Queried(vec![executed("COMMIT", done("COMMIT"), 20, 21)]));
    lane.event(Event::Ready(b'I', 22));
    assert_eq!(told(&mut lane), [(vec![OPAQUE.to_owned()], Ended::Unknown)]);
    for text in ["CALL p()", "DO $$ BEGIN COMMIT; END $$", "PREPARE TRANSACTION 'x'"] {
        let mut lane = self::lane(&[(text, "CALL", b'I')]);
        assert_eq!(told(&mut lane), [(vec![text.to_owned()], Ended::Unknown)]);
    }
}

#[test]
fn a_very_long_transaction_may_have_done_anything() {
    let mut said = vec![("BEGIN", "BEGIN", b'T')];
    said.extend(std::iter::repeat_n(("UPDATE", "UPDATE 1", b'T'), MAX_OPS + 1));
    said.push(("COMMIT", "COMMIT", b'I'));
    assert_eq!(told(&mut lane(&said)), [(vec![OPAQUE.to_owned()], Ended::Unknown)]);
}

/// Whoever verifies while the application runs must not go past a transaction that is still to
/// come.
#[test]
fn what_is_outstanding_holds_the_time_back() {
    let mut lane = lane(&[("BEGIN", "BEGIN", b'T'), ("UPDATE", "UPDATE 1", b'T')]);
    lane.rests();
    assert_eq!(
        (lane.outstanding.since, lane.outstanding.asked),
        (Some(10), None),
        "nothing is asked, but a transaction is open"
    );
    lane.outstanding.sends(30);
    assert_eq!((lane.outstanding.since, lane.outstanding.asked), (Some(10), Some(30)));
    lane.event(Event::Queried(vec![executed("COMMIT", done("COMMIT"), 30, 31)]));
    lane.rests();
    assert_eq!((lane.outstanding.since, lane.outstanding.asked), (None, None));
}
