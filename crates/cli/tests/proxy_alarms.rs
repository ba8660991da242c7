//! `margay proxy` accuses nobody for what a correct database does, nor for what was not recorded.

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use common::margay;
use margay_servers::{Server, started};
use proxying::{SHOP, Waiting, direct, server};

/// What a correct database does that a careless recorder would take for a fault: a name, a schema,
/// and what two clients do in turns. Nothing of it may be called a violation.
const SUSPICIOUS: [(&str, &str, &[&str]); 11] = [
    (
        "rows that were there before",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 5), (2, 6);",
        &["SELECT v FROM t WHERE id = 1", "SELECT id, v FROM t WHERE v > 5", "UPDATE t SET v = 9 WHERE id = 2"],
    ),
    (
        "a trigger that writes another table",
        "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v int);
         INSERT INTO u VALUES (1, 0);
         CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE u SET v = v + 1; RETURN NEW; END $$;
         CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();",
        &["SELECT v FROM u WHERE id = 1", "INSERT INTO t VALUES (1, 1)", "SELECT v FROM u WHERE id = 1"],
    ),
    (
        "a trigger that changes the row",
        "CREATE TABLE t (id int PRIMARY KEY, v int);
         CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v = 7; RETURN NEW; END $$;
         CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();",
        &["INSERT INTO t VALUES (1, 1)", "SELECT v FROM t WHERE id = 1"],
    ),
    (
        "a cascade",
        "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE);
         INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1);",
        &["SELECT p FROM c WHERE id = 1", "DELETE FROM p WHERE id = 1", "SELECT p FROM c WHERE id = 1"],
    ),
    (
        "a rule",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1);
         CREATE RULE r AS ON DELETE TO t DO INSTEAD UPDATE t SET v = 0 WHERE id = OLD.id;",
        &["DELETE FROM t WHERE id = 1", "SELECT v FROM t WHERE id = 1"],
    ),
    (
        "generated columns, defaults and identities",
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int DEFAULT 5,
                         w int GENERATED ALWAYS AS (v * 2) STORED);",
        &[
            "INSERT INTO t (v) VALUES (3) RETURNING id",
            "INSERT INTO t DEFAULT VALUES",
            "SELECT v, w FROM t WHERE id = 1",
            "SELECT id, v, w FROM t WHERE v > 0",
            "UPDATE t SET v = 4 WHERE id = 1",
            "SELECT v, w FROM t WHERE id = 1",
            "UPDATE t SET v = DEFAULT WHERE id = 1",
            "SELECT v, w FROM t WHERE id = 1",
        ],
    ),
    (
        "values that the server makes",
        "CREATE TABLE t (id int PRIMARY KEY, v float8, w timestamptz, x numeric(6,2)); CREATE SEQUENCE s;",
        &[
            "INSERT INTO t VALUES (1, random(), now(), 1.005)",
            "SELECT v, w, x FROM t WHERE id = 1",
            "UPDATE t SET w = clock_timestamp(), x = nextval('s') WHERE id = 1",
            "SET TimeZone = 'Asia/Kolkata'",
            "SELECT w, x FROM t WHERE id = 1",
            "UPDATE t SET w = '2026-01-01 00:00:00+00' WHERE id = 1",
            "SELECT w FROM t WHERE id = 1",
        ],
    ),
    (
        // PostgreSQL shows both rows then, the old and the new one; engine observe used to accuse
        // it.
        "an insertion over a deletion that is not seen",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2);",
        &[
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM t WHERE id = 2",
            "BEGIN ISOLATION LEVEL REPEATABLE READ; DELETE FROM t WHERE id = 1; COMMIT",
            "INSERT INTO t VALUES (1, 9)",
            "SELECT 1",
            "SELECT id, v FROM t WHERE v < 9",
            "SELECT 1",
            "COMMIT",
        ],
    ),
    (
        "keys that are equal and look different",
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (id text COLLATE ci PRIMARY KEY, v int); CREATE TABLE u (id char(5) PRIMARY KEY, v int);
         CREATE TABLE w (id float8 PRIMARY KEY, v int); CREATE TABLE x (id numeric PRIMARY KEY, v int);",
        &[
            "INSERT INTO t VALUES ('a', 1)",
            "SELECT v FROM t WHERE id = 'A'",
            "INSERT INTO u VALUES ('a', 1)",
            "SELECT v FROM u WHERE id = 'a  '",
            "INSERT INTO w VALUES (1.0, 1)",
            "SELECT v FROM w WHERE id = 1e0",
            "INSERT INTO x VALUES (1.50, 1)",
            "SELECT v FROM x WHERE id = 1.5",
        ],
    ),
    (
        "names that mean something else",
        "CREATE SCHEMA a; CREATE TABLE a.t (id int PRIMARY KEY, v int); CREATE TABLE t (id int PRIMARY KEY, v int);
         INSERT INTO a.t VALUES (1, 1); INSERT INTO t VALUES (1, 2); CREATE TABLE u (id int PRIMARY KEY, v int);
         INSERT INTO u VALUES (1, 3);",
        &[
            "SELECT v FROM t WHERE id = 1",
            "SET search_path = a, public",
            "SELECT v FROM t WHERE id = 1",
            "CREATE TEMP TABLE u (id int PRIMARY KEY, v int)",
            "SELECT v FROM u WHERE id = 1",
        ],
    ),
    (
        "what is written in other ways",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2);
         CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'UPDATE t SET v = 8 WHERE id = 1 RETURNING v';
         CREATE VIEW seen AS SELECT * FROM t;",
        &[
            "SELECT f()",
            "SELECT v FROM t WHERE id = 1",
            "WITH x AS (UPDATE t SET v = 9 WHERE id = 2 RETURNING v) SELECT * FROM x",
            "SELECT v FROM t WHERE id = 2",
            "UPDATE seen SET v = 10 WHERE id = 1",
            "SELECT v FROM t WHERE id = 1",
            "DO $$ BEGIN DELETE FROM t WHERE id = 2; END $$",
            "SELECT v FROM t WHERE id = 2",
            "TRUNCATE t",
            "SELECT v FROM t WHERE id = 1",
            "PREPARE p (int) AS INSERT INTO t VALUES ($1, 1)",
            "EXECUTE p (7)",
            "SELECT v FROM t WHERE id = 7",
        ],
    ),
];

#[test]
fn nothing_that_a_correct_database_does_is_an_accusation() {
    let Some(server) = started(Server::postgres()) else { return };
    for initial in ["full", "lazy", "unknown"] {
        for (number, (what, schema, texts)) in SUSPICIOUS.iter().enumerate() {
            let name = format!("case_{initial}_{number}");
            let mut admin = direct(server.url());
            admin.batch_execute(&format!("CREATE DATABASE {name}")).expect("a database");
            drop(admin);
            let url = format!("{}/{name}", server.url().rsplit_once('/').expect("a database").0);
            let made = direct(&url).batch_execute(schema);
            if let Err(error) = made {
                // A server without ICU has no such collations.
                assert!(schema.contains("icu"), "{what}: {error}");
                continue;
            }
            let proxy = Waiting::start(&url, &["--initial", initial]);
            let mut clients = [proxy.client(), proxy.client()];
            for (place, text) in texts.iter().enumerate() {
                // What is prepared is executed by the client that prepared it.
                clients[usize::from(place % 2 == 1 && !text.contains(" p ("))].batch_execute(text).ok();
            }
            drop(clients);
            let (status, told) = proxy.end();
            assert!(status == 0 || status == 3, "{what}, {initial}: {told}");
            assert_eq!(told["run"]["live"]["violations"], 0, "{what}, {initial}: {told}");
            let proxy = Waiting::start(&url, &["--initial", initial, "--claim", "strict-serializable"]);
            let mut client = proxy.client();
            texts.iter().for_each(|text| drop(client.batch_execute(text)));
            drop(client);
            let (status, told) = proxy.end();
            assert!(status == 0 || status == 3, "{what}, one client, {initial}: {told}");
        }
    }
}

/// A writer beside the proxy would make a lost update of nobody's.
#[test]
fn with_another_writer_nobody_is_accused() {
    let Some(server) = server(SHOP) else { return };
    for vouched in [false, true] {
        let options: &[&str] = if vouched { &["--sole-writer"] } else { &[] };
        let proxy = Waiting::start(server.url(), options);
        let mut client = proxy.client();
        client.query("SELECT left_over FROM stock WHERE id = $1", &[&1]).expect("the stock");
        let other = if vouched { 77 } else { 78 };
        direct(server.url())
            .batch_execute(&format!("UPDATE stock SET left_over = {other} WHERE id = 1"))
            .expect("a write beside the proxy");
        client.query("SELECT left_over FROM stock WHERE id = $1", &[&1]).expect("the stock");
        drop(client);
        let (status, told) = proxy.end();
        // Whoever vouches for being alone, and is not, is told of values that nobody wrote.
        assert_eq!(status, if vouched { 1 } else { 3 }, "{told}");
    }
}

/// Killed at any moment, the proxy leaves a file that is readable and accuses nobody.
#[test]
fn a_killed_proxy_leaves_a_true_file() {
    let Some(server) = server(SHOP) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for moment in 0..8 {
        let record = folder.path().join(format!("{moment}.jsonl"));
        let path = record.to_str().expect("text");
        let mut proxy = Waiting::start(server.url(), &["--record", path]);
        let clients: Vec<_> = (0..3).map(|_| proxy.client()).collect();
        let workers: Vec<_> = clients
            .into_iter()
            .zip(1..)
            .map(|(mut client, seed)| {
                thread::spawn(move || {
                    for n in 0.. {
                        let (id, value) = ((n + seed) % 3 + 1, n * 10 + seed);
                        let wrote =
                            client.execute("UPDATE stock SET left_over = $1 WHERE id = $2", &[&value, &id]);
                        let read = client.query("SELECT left_over FROM stock WHERE id = $1", &[&(n % 3 + 1)]);
                        if wrote.is_err() || read.is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        thread::sleep(std::time::Duration::from_millis(100 + 37 * moment));
        proxy.child.kill().expect("it is killed");
        proxy.child.wait().expect("it ends");
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        let run = margay(["check", path, "--level", "read-committed", "--engine", "mirror"]);
        assert!(run.status == 0 || run.status == 3, "{moment}: {} {}", run.stdout, run.stderr);
        assert!(
            fs::read_to_string(&record).expect("a file").lines().count() > 10,
            "{moment}: too little happened"
        );
    }
}

#[test]
fn a_disk_that_is_full_stops_the_recording_and_not_the_application() {
    if !Path::new("/dev/full").exists() {
        return println!("SKIPPED: there is no /dev/full");
    }
    let Some(server) = server(SHOP) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
    command.args([
        "proxy",
        server.url(),
        "--record",
        "-",
        "--",
        "psql",
        "-qc",
        "UPDATE stock SET left_over = 1",
    ]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").expect("it opens"));
    let output = command.spawn().expect("it starts").wait_with_output().expect("it ends");
    assert_ne!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_ne!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
