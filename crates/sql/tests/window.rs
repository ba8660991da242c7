//! Indexes, pins, and a window of versions that moves forward and is taken back.

use margay_sql::{Database, Dialect, Value};

fn database() -> Database {
    let mut database = Database::new(Dialect::Generic);
    database.run("CREATE TABLE t (k INT PRIMARY KEY, v INT, w TEXT)", &[]).unwrap();
    for k in 0..100 {
        let text = format!("INSERT INTO t VALUES ({k}, {}, 'w{}')", k % 10, k % 7);
        database.run(&text, &[]).unwrap();
    }
    database.keep_window(true);
    database
}

fn select(database: &mut Database, text: &str, at: u64) -> Vec<Vec<Value>> {
    let statement = database.prepare(text).unwrap();
    let mut transaction = database.begin();
    transaction.snapshot = at;
    let rows = database.execute(&mut transaction, &statement, &[]).unwrap().rows;
    database.rollback(transaction);
    rows
}

const QUERIES: [&str; 5] = [
    "SELECT k FROM t WHERE v = 3 ORDER BY k",
    "SELECT k FROM t WHERE v >= 3 AND v < 5 ORDER BY k",
    "SELECT k FROM t WHERE k > 10 AND k <= 20 ORDER BY k",
    "SELECT COUNT(*) FROM t WHERE w = 'w3'",
    "SELECT SUM(v) FROM t",
];

#[test]
fn indexes_and_the_window_change_no_answer() {
    let mut plain = database();
    plain.keep_window(false);
    let mut indexed = plain.clone();
    indexed.keep_window(true);
    let start = plain.clock();
    let mut state: u64 = 7;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    for step in 0..400 {
        let (k, v) = (draw(120), draw(10));
        let text = match draw(3) {
            0 => format!("UPDATE t SET v = {v} WHERE k = {k}"),
            1 => format!("DELETE FROM t WHERE k = {k}"),
            _ => format!("INSERT INTO t VALUES ({k}, {v}, 'w{v}') ON CONFLICT DO NOTHING"),
        };
        plain.run(&text, &[]).unwrap();
        indexed.run(&text, &[]).unwrap();
        let clock = plain.clock();
        if step % 50 == 49 {
            indexed.forget(clock - 20);
        }
        if step % 70 == 69 {
            let back = clock - draw(10);
            plain.take_back(back);
            indexed.take_back(back);
        }
        let at = plain.clock() - draw(10).min(plain.clock() - start);
        for query in QUERIES {
            assert_eq!(select(&mut plain, query, at), select(&mut indexed, query, at), "{query} at {at}");
        }
    }
}

#[test]
fn pins_show_a_row_as_of_another_stamp() {
    let mut database = database();
    let before = database.clock();
    database.run("UPDATE t SET v = 1000 WHERE k = 5", &[]).unwrap();
    database.run("DELETE FROM t WHERE k = 6", &[]).unwrap();
    let table = database.table("t").unwrap();
    let now = database.clock();
    database.pin(table, &[Value::Int(5)], before);
    let both = "SELECT k, v FROM t WHERE k IN (5, 6)";
    assert_eq!(select(&mut database, both, now), [[Value::Int(5), Value::Int(5)]]);
    database.unpin();
    assert_eq!(select(&mut database, both, now), [[Value::Int(5), Value::Int(1000)]]);
    let read = {
        let statement = database.prepare("SELECT k FROM t WHERE v = 6").unwrap();
        let mut transaction = database.begin();
        database.execute(&mut transaction, &statement, &[]).unwrap().reads.predicates.remove(0)
    };
    assert_eq!(database.last_change(&read, 0, now).unwrap(), Some(now), "row 6 had v = 6");
    assert_eq!(database.last_change(&read, now, now).unwrap(), None);
    assert_eq!(database.last_version(table, &[Value::Int(5)], now), Some((now - 1, true)));
}

#[test]
fn numbers_that_the_database_gives_are_refused() {
    let mut database = Database::new(Dialect::Postgres);
    database.run("CREATE TABLE n (id SERIAL PRIMARY KEY, v INT)", &[]).unwrap();
    database.keep_window(true);
    assert!(database.run("INSERT INTO n (v) VALUES (1)", &[]).unwrap_err().is_unsupported());
    database.run("INSERT INTO n (id, v) VALUES (1, 1)", &[]).unwrap();
}
