//! What PostgreSQL does that a driver has to know, played on a real server.

mod play;

use std::thread;
use std::time::{Duration, Instant};

use margay_drivers::{Ask, Cell, Change, Connection, Obj, Row, Space, Target, Value};
use play::try_ask;

const ROW: Obj = Obj { space: Space::Row, key: 8 };

fn put(v: i64) -> Change {
    Change::Merge(Row { v: Some(v), w: Some(0) })
}

/// Waits until somebody waits for a lock.
fn wait_for_a_lock(connection: &mut dyn Connection) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        connection.begin().expect("begun");
        let told = connection.sql(waiting, &[]).expect("a count").cells;
        connection.rollback().expect("an end");
        if told != [Cell::Int(0)] {
            return;
        }
        assert!(Instant::now() < deadline, "nobody waits");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A run at READ COMMITTED was accused of reads that no moment explains: they were deletes that had
/// waited for a transaction which deleted the row and inserted it again. They found nothing,
/// although the row is there before and after.
#[test]
fn a_delete_that_waited_may_miss_a_row_that_was_there_all_the_time() {
    let Some(database) = play::opened(&Target::StartPostgres) else { return };
    let initial = vec![(ROW, Value::Row(Row { v: Some(1), w: Some(0) }))];
    database.prepare("READ COMMITTED", &play::start(true, initial)).expect("tables");
    let connect = |client, level| database.connect(client, level).expect("a connection");
    let mut first = connect(0, "READ COMMITTED");
    first.begin().expect("begun");
    try_ask(first.as_mut(), Ask::Write(ROW, Change::Delete)).expect("deleted");
    try_ask(first.as_mut(), Ask::Write(ROW, put(2))).expect("inserted");
    let (missed, seen) = thread::scope(|scope| {
        let second = scope.spawn(|| {
            let mut second = connect(1, "READ COMMITTED");
            second.begin().expect("begun");
            let missed = try_ask(second.as_mut(), Ask::Write(ROW, Change::Delete)).expect("an answer");
            assert!(!second.deletes_read());
            (missed, try_ask(second.as_mut(), Ask::Read(ROW)).expect("a row"))
        });
        wait_for_a_lock(connect(2, "READ COMMITTED").as_mut());
        first.commit().expect("committed");
        second.join().expect("no panic")
    });
    assert_eq!(missed, [(ROW, Value::Absent)], "if the delete finds the row now, it may count as a read");
    assert_eq!(seen, [(ROW, Value::Row(Row { v: Some(2), w: Some(0) }))]);
    assert!(connect(3, "REPEATABLE READ").deletes_read());
}

/// At REPEATABLE READ a key may be there twice: as the row that somebody has deleted since the
/// snapshot, and as the one that the transaction has put in its place. A recording that takes the
/// first for what there is would accuse PostgreSQL of hiding a transaction's own writes.
#[test]
fn of_two_rows_with_one_key_the_own_one_is_read() {
    let Some(database) = play::opened(&Target::StartPostgres) else { return };
    play::prepare(database.as_ref(), "REPEATABLE READ");
    let [mut first, mut second] = play::two(database.as_ref(), "REPEATABLE READ");
    first.begin().expect("begun");
    assert_eq!(play::read(first.as_mut(), play::ROW), play::row(1, 10));
    play::alone(second.as_mut(), &[Ask::Write(play::ROW, Change::Delete)]);
    play::ask(first.as_mut(), play::put(5, 20));
    let twice = play::ask(first.as_mut(), Ask::Scan(margay_drivers::Cond { low: 0, high: 9 }));
    assert_eq!(
        twice.len(),
        2,
        "if PostgreSQL shows one row now, first updater wins holds here too: {twice:?}"
    );
    assert_eq!(play::read(first.as_mut(), play::ROW), play::row(5, 20));
    first.commit().expect("PostgreSQL refuses no insert after a delete");
}

/// A run with recovery was accused of reading what its writer overwrote: a delete that finds
/// nothing is not recorded at READ COMMITTED, so the snapshots of all later operations stood under
/// the numbers of the next ones.
#[test]
fn snapshots_have_the_numbers_of_recorded_operations() {
    let Some(database) = play::opened(&Target::StartPostgres) else { return };
    let level = "READ COMMITTED";
    play::prepare(database.as_ref(), level);
    let witness = database.witness().expect("PostgreSQL testifies");
    let mut client = database.connect(0, level).expect("a connection");
    client.enter(7);
    client.begin().expect("begun");
    play::ask(client.as_mut(), Ask::Write(Obj { key: 8, ..ROW }, Change::Delete));
    play::read(client.as_mut(), play::REGISTER);
    play::read(client.as_mut(), play::ROW);
    client.commit().expect("committed");
    let told = witness.take();
    let told = told.iter().find(|told| told.txn == 7).expect("a testimony");
    let seen: Vec<u32> = told.views.iter().map(|(op, _)| *op).collect();
    assert_eq!(seen, [1, 2], "the delete has no number: {told:?}");
}
