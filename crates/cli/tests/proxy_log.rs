//! `margay proxy` with writes from the server's log: what no statement tells is known, and held against the database.

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;

use common::{finish, margay};
use proxying::{SHOP, Stale, Waiting, direct, python, server, ten_again};
use serde_json::{Value, json};

/// Everything that writes without being asked to in so many words.
const SCHEMA: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, left_over int NOT NULL);
    INSERT INTO stock VALUES (1, 10), (2, 20), (3, 30);
    CREATE TABLE changes (id int PRIMARY KEY, count int NOT NULL);
    INSERT INTO changes VALUES (1, 0), (2, 0), (3, 0);
    CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN UPDATE changes SET count = count + 1 WHERE id = NEW.id; RETURN NEW; END $$;
    CREATE TRIGGER counting AFTER UPDATE ON stock FOR EACH ROW EXECUTE FUNCTION count_change();
    CREATE TABLE shelves (id int PRIMARY KEY, stock int REFERENCES stock ON DELETE CASCADE);
    INSERT INTO shelves VALUES (11, 1), (12, 2), (13, 3);
    CREATE TABLE events (at int, what text);
    CREATE FUNCTION deliver(which int) RETURNS int LANGUAGE sql AS
        'UPDATE stock SET left_over = left_over + 100 WHERE id = which RETURNING left_over';";

fn reads(client: &mut postgres::Client) {
    for text in [
        "SELECT left_over FROM stock WHERE id = 1",
        "SELECT count FROM changes WHERE id = 1",
        "SELECT id, stock FROM shelves WHERE stock > 0",
        "SELECT left_over FROM stock WHERE id = 7",
    ] {
        client.simple_query(text).expect(text);
    }
}

/// The verdict about the history with writes from the log.
fn with_log(told: &Value) -> Option<&str> {
    told["run"]["parts"][0]["with_log"].as_str()
}

#[test]
fn triggers_cascades_copies_functions_and_others_are_known() {
    let Some(server) = server(SCHEMA) else { return };
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let mut admin = direct(server.url());
        admin
            .batch_execute("DELETE FROM stock WHERE id > 3; DELETE FROM shelves WHERE id > 13")
            .expect("as before");
        let proxy = Waiting::start(server.url(), &[]);
        let mut client = proxy.client();
        client.batch_execute(&format!("SET default_transaction_isolation = '{level}'")).expect("a level");
        reads(&mut client);
        client.batch_execute("UPDATE stock SET left_over = left_over - 1 WHERE id = 1").expect("a sale");
        reads(&mut client);
        client.batch_execute("SELECT deliver(1)").expect("a delivery");
        reads(&mut client);
        let mut copy = client.copy_in("COPY stock FROM STDIN").expect("a copy");
        std::io::Write::write_all(&mut copy, b"7\t70\n8\t80\n").expect("rows");
        copy.finish().expect("a copy");
        reads(&mut client);
        client.batch_execute("INSERT INTO shelves VALUES (17, 7)").expect("a shelf");
        client
            .batch_execute(
                "BEGIN; INSERT INTO events VALUES (1, 'gone'); DELETE FROM stock WHERE id = 7; COMMIT",
            )
            .expect("a cascade");
        reads(&mut client);
        admin.batch_execute("UPDATE stock SET left_over = 55 WHERE id = 1").expect("somebody else");
        reads(&mut client);
        drop((client, admin));
        let (status, told) = proxy.end();
        assert_eq!(status, 0, "{level}: {told}");
        // Who is not alone cannot tell the delivery by a function from what somebody else does. On a busy machine the
        // times of one more transaction may fit two commits.
        assert!(told["run"]["logged"]["others"].as_u64() >= Some(2), "{level}: {told}");
        assert!(told["run"]["logged"]["lossy"].as_u64() <= Some(1), "{level}: {told}");
        assert_eq!(with_log(&told), Some("clean"), "{level}: {told}");
        let coverage = &told["run"]["coverage"];
        let share = |name: &str| coverage[name].as_f64().expect("a number");
        assert!(share("transactions") >= 0.9 * share("all_transactions"), "{level}: {told}");
    }
}

/// Somebody writes beside the proxy, which alone makes it impossible to accuse anybody by statements. With the log, a
/// database that shows an old value is found out all the same.
#[test]
fn a_broken_database_is_accused_although_others_write() {
    let Some(server) = server(SHOP) else { return };
    for lies in [false, true] {
        direct(server.url())
            .batch_execute("UPDATE stock SET left_over = 10 WHERE id = 1")
            .expect("the stock");
        let relay = Stale::before(server.url(), ten_again);
        let proxy = Waiting::start(&relay.url, &[]);
        let read = "SELECT left_over FROM stock WHERE id = 1";
        let (mut client, mut other) = (proxy.client(), proxy.client());
        for session in [&mut client, &mut other] {
            // READ COMMITTED promises no real time, only the mechanisms of PostgreSQL keep it there.
            session.simple_query("SET default_transaction_isolation = 'repeatable read'").expect("a level");
        }
        client.simple_query(read).expect("the stock");
        direct(server.url())
            .batch_execute("UPDATE stock SET left_over = 99 WHERE id = 1")
            .expect("a delivery");
        client.simple_query("UPDATE stock SET left_over = 98 WHERE id = 1").expect("a sale");
        client.simple_query("UPDATE stock SET left_over = 99 WHERE id = 1").expect("a return");
        relay.stale.store(lies, Ordering::Relaxed);
        other.simple_query(read).expect("the stock");
        drop((client, other));
        let (status, told) = proxy.end();
        assert_eq!(status, i32::from(lies), "{told}");
        assert_eq!(with_log(&told), Some(if lies { "violated" } else { "clean" }), "{told}");
    }
}

/// Several parts: a migration between them, and each has its own log.
#[test]
fn every_part_has_its_writes_from_the_log() {
    let Some(server) = server(SHOP) else { return };
    let proxy = Waiting::start(server.url(), &[]);
    let mut client = proxy.client();
    for text in [
        "UPDATE stock SET left_over = left_over + 1 WHERE id = 1",
        "SELECT left_over FROM stock WHERE id = 1",
        "ALTER TABLE stock ADD COLUMN note text",
        "UPDATE stock SET left_over = left_over + 1, note = 'more' WHERE id = 1",
        "SELECT left_over, note FROM stock WHERE id = 1",
    ] {
        client.batch_execute(text).expect(text);
    }
    drop(client);
    let (status, told) = proxy.end();
    assert_eq!((status, &told["run"]["logged"]["parts"]), (0, &json!(2)), "{told}");
    assert_eq!(told["run"]["logged"]["others"], 0, "{told}");
}

/// Customers of the same second who do the same: whoever cannot be told apart is not.
#[test]
fn equal_transactions_at_the_same_time_accuse_nobody() {
    let Some(server) = server(SHOP) else { return };
    let proxy = Waiting::start(server.url(), &["--claim", "read-committed"]);
    thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = proxy.client();
            scope.spawn(move || {
                for _ in 0..20 {
                    client
                        .batch_execute("BEGIN; SELECT left_over FROM stock WHERE id = 2; UPDATE stock SET left_over = 5 WHERE id = 2; COMMIT")
                        .expect("a sale");
                }
            });
        }
    });
    let (status, told) = proxy.end();
    assert_eq!(status, 0, "{told}");
}

/// The example, with all of its transactions understood.
#[test]
fn the_shop_in_django_is_covered() {
    let Some(python) = python() else {
        return println!("SKIPPED: psycopg, SQLAlchemy and Django are not installed");
    };
    let Some(server) = server("") else { return };
    let path = common::root().join("examples/django-shop/shop.py");
    let mut create = Command::new(&python);
    create.arg(&path).arg("create").env("DATABASE_URL", server.url());
    finish(create, b"").expect(0);
    let (python, path) = (python.to_str().expect("text"), path.to_str().expect("text"));
    for (claim, act, status) in [
        (&[][..], "sell", 0),
        (&["--claim", "serializable"][..], "sell", 1),
        (&["--claim", "serializable"][..], "repaired", 0),
    ] {
        let options = [&["proxy", server.url(), "--json", "--require-coverage", "95%"], claim].concat();
        let run = margay([&options[..], &["--", python, path, act]].concat()).expect(status);
        let line = run.stdout.lines().rfind(|line| line.starts_with('{')).expect("an object");
        let told: Value = serde_json::from_str(line).expect("JSON");
        let coverage = &told["run"]["coverage"];
        let share = |name: &str| coverage[name].as_f64().expect("a number");
        assert!(share("transactions") >= 0.95 * share("all_transactions"), "{act}: {told}");
        assert_eq!(with_log(&told), Some(if status == 1 { "violated" } else { "clean" }), "{act}: {told}");
    }
}
