//! `margay proxy` between real clients and a real MariaDB.

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use common::{Run, finish, margay};
use margay_servers::{Server, started};
use mysql::Conn;
use mysql::prelude::Queryable;
use proxying::{Stale, Waiting, in_database, numbers};
use serde_json::{Value, json};

const SHOP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, left_over int NOT NULL) ENGINE=InnoDB;
    INSERT INTO stock VALUES (1, 10), (2, 20), (3, 30);";

/// A server with the database `shop`, and its address.
fn server(schema: &str) -> Option<(Server, String)> {
    let server = started(Server::mariadb())?;
    let url = in_database(server.url(), "shop");
    let mut conn = connect(server.url());
    conn.query_drop("CREATE DATABASE shop").expect("a database");
    drop(conn);
    run_all(&url, schema);
    Some((server, url))
}

/// Not over the socket file that the server names: that would go past the proxy.
fn connect(url: &str) -> Conn {
    let options = mysql::Opts::from_url(url).expect("an address");
    let options = mysql::OptsBuilder::from_opts(options).prefer_socket(false);
    Conn::new(options).expect("a connection")
}

fn run_all(url: &str, statements: &str) {
    let mut conn = connect(url);
    for statement in statements.split(';').filter(|text| !text.trim().is_empty()) {
        conn.query_drop(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Runs a command behind the proxy.
fn behind(url: &str, options: &[&str], command: &[&str]) -> Run {
    margay([&["proxy", url], options, &["--"], command].concat())
}

/// The object of `--json`, behind what the command printed.
#[track_caller]
fn told(run: &Run) -> Value {
    let line = run.stdout.lines().rfind(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no object: {} {}", run.stdout, run.stderr)))
        .expect("JSON")
}

fn printed(run: &Run) -> String {
    run.stdout.lines().filter(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_mariadb_client_gets_the_same_bytes_and_a_verdict() {
    let Some((server, url)) = server(SHOP) else { return };
    let text =
        "SELECT * FROM stock ORDER BY id; UPDATE stock SET left_over = 9 WHERE id = 1; SELECT @@time_zone;
                SELECT left_over FROM stock WHERE id = 1; SELECT 1/0; SHOW TABLES; SELECT * FROM nothing";
    let password = url.split("root:").nth(1).and_then(|rest| rest.split('@').next()).expect("a password");
    let mut plain = Command::new("mariadb");
    plain.env("MYSQL_PWD", password).args([
        "-h127.0.0.1",
        &format!("-P{}", server.port),
        "-uroot",
        "-e",
        text,
        "shop",
    ]);
    let Ok(_) = plain.output() else { return println!("SKIPPED: the mariadb client is not installed") };
    run_all(&url, "UPDATE stock SET left_over = 10 WHERE id = 1");
    let plain = finish(plain, b"");
    run_all(&url, "UPDATE stock SET left_over = 10 WHERE id = 1");
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("run.jsonl");
    let path = record.to_str().expect("text");
    // MYSQL_HOST, MYSQL_TCP_PORT and MYSQL_PWD tell it where to go.
    let run =
        behind(&url, &["--json", "--record", path], &["mariadb", "-uroot", "-e", text, "shop"]).expect(0);
    assert_eq!(printed(&run), plain.stdout.trim_end());
    assert!(plain.stdout.contains("left_over") && run.stderr.contains("doesn't exist"), "{}", run.stderr);
    let told = told(&run);
    assert!(matches!(told["verdict"].as_str(), Some("holds" | "clean")), "{told}");
    assert_eq!(told["run"]["committed"], 3, "{told}");
    let recorded = fs::read_to_string(&record).expect("a recording");
    assert!(!recorded.contains(password) && recorded.contains("mariadb-"), "{recorded}");
    margay(["check", path, "--level", "read-committed"]).expect(0);
}

/// Two customers read the stock, and both write what is left.
fn sell_twice(url: &str, level: &str, lock: &str) {
    let sell = move |mut conn: Conn, sold: i64, sleep: u64| {
        conn.query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")).expect("a level");
        conn.query_drop("BEGIN").expect("a transaction");
        let left: Option<i64> = conn
            .exec_first(format!("SELECT left_over FROM stock WHERE id = ?{lock}"), (1,))
            .expect("the stock");
        thread::sleep(Duration::from_millis(sleep));
        conn.exec_drop("UPDATE stock SET left_over = ? WHERE id = ?", (left.expect("a row") - sold, 1))
            .expect("a sale");
        conn.query_drop("COMMIT").expect("a commit");
    };
    let (one, other) = (connect(url), connect(url));
    thread::scope(|scope| {
        scope.spawn(|| sell(one, 1, 400));
        thread::sleep(Duration::from_millis(100));
        scope.spawn(|| sell(other, 3, 400));
    });
}

#[test]
fn a_lost_update_is_the_applications_fault_and_its_repair_holds() {
    let Some((_server, url)) = server(SHOP) else { return };
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        for (lock, status) in [("", 1), (" FOR UPDATE", 0)] {
            let proxy = Waiting::start(&url, &["--claim", "serializable"]);
            sell_twice(&proxy.url, level, lock);
            let (got, told) = proxy.end();
            assert_eq!(got, status, "{level}{lock}: {told}");
            assert_eq!(told["run"]["judged"], "application");
        }
        // The database is not to blame.
        let proxy = Waiting::start(&url, &[]);
        sell_twice(&proxy.url, level, "");
        let (got, told) = proxy.end();
        assert_eq!((got, &told["run"]["concerns"]), (0, &json!([])), "{level}: {told}");
    }
}

/// Where MariaDB shows a stock of 99, it is 10 again: a row of one value of two bytes, in text,
/// whatever its packet's number is.
fn ten_again(bytes: &mut [u8]) {
    let shows = |row: &[u8]| matches!(row, [3, 0, 0, _, 2, b'9', b'9']);
    if let Some(at) = bytes.windows(7).position(shows) {
        bytes[at + 5..at + 7].copy_from_slice(b"10");
    }
}

#[test]
fn a_database_that_answers_with_old_values_is_accused() {
    let Some((_server, url)) = server(SHOP) else { return };
    for lies in [false, true] {
        run_all(&url, "UPDATE stock SET left_over = 10 WHERE id = 1");
        let relay = Stale::before(&url, |bytes| ten_again(bytes));
        let proxy = Waiting::start(&relay.url, &[]);
        let read = "SELECT left_over FROM stock WHERE id = 1";
        let mut client = connect(&proxy.url);
        client.query_drop(read).expect("the stock");
        client.query_drop("UPDATE stock SET left_over = 99 WHERE id = 1").expect("a delivery");
        relay.stale.store(lies, Ordering::Relaxed);
        let mut other = connect(&proxy.url);
        let seen: Option<i64> = other.query_first(read).expect("the stock");
        relay.stale.store(false, Ordering::Relaxed);
        assert_eq!(seen, Some(if lies { 10 } else { 99 }), "the relay does what the test wants");
        drop((client, other));
        let (status, told) = proxy.end();
        assert_eq!(status, i32::from(lies), "{told}");
    }
}

/// Runs of clients that meet, at all levels: MariaDB keeps its promises.
#[test]
fn a_healthy_database_is_never_accused() {
    let Some((_server, url)) = server(SHOP) else { return };
    let levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "READ UNCOMMITTED"];
    let rounds = std::env::var("MARGAY_PROXY_ROUNDS").map_or(12, |it| it.parse().expect("a number"));
    let mut answered = [0; 4];
    for round in 0..rounds {
        let proxy = Waiting::start(&url, &["--timeout", "20s"]);
        let level = levels[round as usize % levels.len()];
        thread::scope(|scope| {
            for number in 0..5 {
                let proxy = &proxy;
                scope.spawn(move || random_client(connect(&proxy.url), level, round * 5 + number));
            }
        });
        let (status, told) = proxy.end();
        assert!(status == 0 || status == 3, "round {round} at {level}: {told}");
        assert_eq!(told["run"]["concerns"], json!([]), "{told}");
        assert!(told["run"]["live"].is_null() || told["run"]["live"]["violations"] == 0, "{told}");
        answered[round as usize % levels.len()] += u64::from(status == 0);
    }
    println!("{answered:?} of {rounds} rounds have an answer, by level");
    assert!(answered[..3].iter().all(|&answers| answers > 0), "no answer at some level: {answered:?}");
}

/// A client that does something different for every seed.
fn random_client(mut conn: Conn, level: &str, seed: u64) {
    let mut below = numbers(seed);
    conn.query_drop("SET SESSION innodb_lock_wait_timeout = 1").expect("a variable");
    conn.query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")).expect("a level");
    // Some sessions never say BEGIN.
    let autocommits = below(4) > 0;
    if !autocommits {
        conn.query_drop("SET autocommit = 0").expect("a variable");
    }
    for n in 0..12 {
        let explicit = below(4) > 0;
        if explicit && autocommits {
            let begin = ["BEGIN", "START TRANSACTION", "START TRANSACTION WITH CONSISTENT SNAPSHOT"];
            conn.query_drop(begin[below(3) as usize]).expect("a transaction");
        }
        let mut fine = true;
        for _ in 0..=below(3) {
            let (id, value) = (below(4) as i32 + 1, (seed * 1000 + n * 10 + below(10)) as i32);
            let done = match below(10) {
                0 | 1 => conn.exec_drop("SELECT left_over FROM stock WHERE id = ?", (id,)),
                2 => conn.query_drop(format!("SELECT id, left_over FROM stock WHERE left_over > {value}")),
                3 => conn.exec_drop("SELECT left_over FROM stock WHERE id = ? FOR UPDATE", (id,)),
                4 => conn.exec_drop("DELETE FROM stock WHERE id = ?", (id,)),
                5 => conn.query_drop(format!(
                    "INSERT INTO stock VALUES ({id}, {value}) ON DUPLICATE KEY UPDATE left_over = VALUES(left_over)"
                )),
                6 => conn.exec_drop("UPDATE stock SET left_over = left_over + 1 WHERE id = ?", (id,)),
                7 => conn.exec_drop("INSERT INTO stock VALUES (?, ?)", (id, value)),
                8 => conn.query_drop(format!("SELECT * FROM stock WHERE id = {id} LOCK IN SHARE MODE")),
                _ => conn.exec_drop("UPDATE stock SET left_over = ? WHERE id = ?", (value, id)),
            };
            fine = done.is_ok();
            if !fine && below(2) == 0 {
                break;
            }
        }
        if explicit || !autocommits {
            let end = if fine && below(6) > 0 { "COMMIT" } else { "ROLLBACK" };
            let _ = conn.query_drop(end);
        }
    }
}

/// What a correct database does that a careless recorder would take for a fault: a name, a schema,
/// and what two clients do in turns. Nothing of it may be called a violation.
const SUSPICIOUS: [(&str, &str, &[&str]); 15] = [
    (
        "rows that were there before",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 5), (2, 6)",
        &["SELECT v FROM t WHERE id = 1", "SELECT id, v FROM t WHERE v > 5", "UPDATE t SET v = 9 WHERE id = 2"],
    ),
    (
        "a trigger that writes another table",
        "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v int);
         INSERT INTO u VALUES (1, 0); CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW UPDATE u SET v = v + 1",
        &["SELECT v FROM u WHERE id = 1", "INSERT INTO t VALUES (1, 1)", "SELECT v FROM u WHERE id = 1"],
    ),
    (
        "a trigger that changes the row",
        "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 7",
        &["INSERT INTO t VALUES (1, 1)", "SELECT v FROM t WHERE id = 1"],
    ),
    (
        "a cascade",
        "CREATE TABLE p (id int PRIMARY KEY);
         CREATE TABLE c (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
         INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1)",
        &["SELECT p FROM c WHERE id = 1", "DELETE FROM p WHERE id = 1", "SELECT p FROM c WHERE id = 1"],
    ),
    (
        "generated columns, defaults and counters",
        "CREATE TABLE t (id bigint AUTO_INCREMENT PRIMARY KEY, v int DEFAULT 5, w int AS (v * 2) STORED)",
        &[
            "INSERT INTO t (v) VALUES (3)",
            "INSERT INTO t () VALUES ()",
            "SELECT v, w FROM t WHERE id = 1",
            "SELECT id, v, w FROM t WHERE v > 0",
            "UPDATE t SET v = 4 WHERE id = 1",
            "SELECT v, w FROM t WHERE id = 1",
        ],
    ),
    (
        "a table without transactions",
        "CREATE TABLE t (id int PRIMARY KEY, v int) ENGINE=MyISAM; INSERT INTO t VALUES (1, 5)",
        &["BEGIN", "UPDATE t SET v = 6 WHERE id = 1", "ROLLBACK", "SELECT v FROM t WHERE id = 1"],
    ),
    (
        "keys and values that are equal without being the same",
        "CREATE TABLE t (id varchar(20) PRIMARY KEY, v int, w varchar(9) COLLATE utf8mb4_bin);
         INSERT INTO t VALUES ('a', 1, 'x')",
        &[
            "UPDATE t SET v = 2 WHERE id = 'A'",
            "SELECT v FROM t WHERE id = 'a'",
            "SELECT id FROM t WHERE w = 'X'",
            "SELECT v FROM t WHERE id = 'a '",
        ],
    ),
    (
        // Trailing spaces are cut off; some engines would miss them.
        "texts of fixed length",
        "CREATE TABLE t (id int PRIMARY KEY, c char(5), d char(5) COLLATE utf8mb4_bin); INSERT INTO t VALUES (1, 'a ', 'b')",
        &[
            "SELECT c, d FROM t WHERE id = 1",
            "UPDATE t SET c = 'x  ' WHERE id = 1",
            "SELECT c FROM t WHERE id = 1",
            "SELECT id, c FROM t WHERE c = 'x    '",
            "SELECT id FROM t WHERE c LIKE 'x  '",
            "SELECT id, CONCAT(c, '|'), LENGTH(c) FROM t WHERE id = 1",
            "INSERT INTO t VALUES (2, 'abcde     ', ' y')",
            "SELECT id, c, d FROM t WHERE id > 0",
        ],
    ),
    (
        "moments and numbers in several forms",
        "CREATE TABLE t (id int PRIMARY KEY, a timestamp(3) NULL, b datetime(6), c decimal(9,2), d float, e double,
                         f datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)",
        &[
            "INSERT INTO t (id, a, b, c, d, e) VALUES (1, '2026-11-19 10:00:00.1234', '2026-11-19 10:00:00', 1.239, 0.1, 0.1)",
            "SET time_zone = '+05:30'",
            "SELECT a, b, c, d, e, f FROM t WHERE id = 1",
            "UPDATE t SET c = '7', d = 1.23456789 WHERE id = 1",
            "SELECT id, a, b, c, d, e, f FROM t WHERE c > 1",
        ],
    ),
    (
        "backslashes, quotes and character sets",
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(40)); INSERT INTO t VALUES (1, 'a')",
        &[
            r"UPDATE t SET v = 'a\nb' WHERE id = 1",
            "SELECT v FROM t WHERE id = 1",
            r#"UPDATE t SET v = "it's\\" WHERE id = 1"#,
            "SELECT v FROM t WHERE id = 1",
            "SET NAMES latin1",
            "UPDATE t SET v = 'é' WHERE id = 1",
            "SELECT v FROM t WHERE id = 1",
            "SET sql_mode = 'ANSI_QUOTES'",
            "SELECT \"v\" FROM t WHERE id = 1",
        ],
    ),
    (
        "a table of the same name elsewhere",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 5); CREATE DATABASE IF NOT EXISTS elsewhere;
         DROP TABLE IF EXISTS elsewhere.t; CREATE TABLE elsewhere.t (id int PRIMARY KEY, v int);
         INSERT INTO elsewhere.t VALUES (1, 7)",
        &[
            "SELECT v FROM elsewhere.t WHERE id = 1",
            "UPDATE elsewhere.t SET v = 8 WHERE id = 1",
            "SELECT v FROM t WHERE id = 1",
            "USE elsewhere",
            "SELECT v FROM t WHERE id = 1",
            "UPDATE t SET v = 9 WHERE id = 1",
            "UPDATE shop.t SET v = 6 WHERE id = 1",
            "USE shop",
            "SELECT v FROM t WHERE id = 1",
        ],
    ),
    (
        "changes of the schema, which commit",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 5)",
        &[
            "BEGIN",
            "UPDATE t SET v = 6 WHERE id = 1",
            "ALTER TABLE t ADD w int DEFAULT 3",
            "ROLLBACK",
            "SELECT v, w FROM t WHERE id = 1",
            "TRUNCATE t",
            "SELECT v, w FROM t WHERE id = 1",
            "CREATE TEMPORARY TABLE t (id int PRIMARY KEY, v int)",
            "INSERT INTO t VALUES (1, 9)",
            "SELECT v FROM t WHERE id = 1",
        ],
    ),
    (
        "procedures and variables",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 5), (2, 5);
         CREATE PROCEDURE p() UPDATE t SET v = 6 WHERE id = 1",
        &[
            "CALL p()",
            "SELECT v FROM t WHERE id = 1",
            "SET sql_select_limit = 1",
            "SELECT id, v FROM t WHERE v > 0",
            "PREPARE s FROM 'UPDATE t SET v = 7'",
            "EXECUTE s",
            "SELECT id, v FROM t",
        ],
    ),
    (
        "savepoints and errors",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 5)",
        &[
            "BEGIN",
            "SAVEPOINT a",
            "UPDATE t SET v = 6 WHERE id = 1",
            "SELECT v FROM t WHERE id = 1",
            "ROLLBACK TO a",
            "INSERT INTO t VALUES (2, 2), (1, 1)",
            "SELECT id, v FROM t",
            "COMMIT",
            "INSERT IGNORE INTO t VALUES (1, 9), (3, 3)",
            "REPLACE INTO t VALUES (1, 4)",
            "SELECT id, v FROM t",
        ],
    ),
    (
        "updates that change nothing",
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 5)",
        &[
            "UPDATE t SET v = 5 WHERE id = 1",
            "UPDATE t SET v = 6 WHERE v = 5",
            "INSERT INTO t VALUES (1, 7) ON DUPLICATE KEY UPDATE v = 6",
            "SELECT v FROM t WHERE id = 1",
        ],
    ),
];

#[test]
fn nothing_that_a_correct_database_does_is_a_violation() {
    let Some((_server, url)) = server("") else { return };
    for (name, schema, statements) in SUSPICIOUS {
        for claim in [&[][..], &["--claim", "serializable"], &["--claim", "serializable", "--hash-values"]] {
            run_all(&url, "DROP DATABASE shop; CREATE DATABASE shop");
            run_all(&url, schema);
            let proxy = Waiting::start(&url, claim);
            let (mut one, mut other) = (connect(&proxy.url), connect(&proxy.url));
            for statement in statements {
                // Some are refused, which is part of it.
                let _ = one.query_drop(statement);
            }
            for statement in statements.iter().filter(|text| text.starts_with("SELECT")) {
                let _ = other.query_drop(statement);
            }
            drop((one, other));
            let (status, told) = proxy.end();
            assert!(status == 0 || status == 3, "{name}: {told}");
            println!("{name}: {}", told["verdict"]);
        }
    }
}

/// A test suite that makes a database of its own, changes its schema, and drops it, twice.
#[test]
fn other_databases_and_changes_of_the_schema_are_followed() {
    let Some((_server, url)) = server(SHOP) else { return };
    let proxy = Waiting::start(&url, &["--require-coverage", "0"]);
    let test_url = in_database(&proxy.url, "test_shop");
    for _ in 0..2 {
        run_all(&proxy.url, "CREATE DATABASE test_shop");
        run_all(
            &test_url,
            "CREATE TABLE item (id bigint AUTO_INCREMENT PRIMARY KEY, name varchar(40) NOT NULL, n int NOT NULL);
             INSERT INTO item (name, n) VALUES ('a', 1); SELECT name, n FROM item WHERE id = 1;
             UPDATE item SET n = 2 WHERE id = 1; ALTER TABLE item ADD c int;
             UPDATE item SET c = 3 WHERE id = 1; SELECT name, n, c FROM item WHERE id = 1",
        );
        run_all(&proxy.url, "DROP DATABASE test_shop; SELECT left_over FROM stock WHERE id = 1");
    }
    let (status, told) = proxy.end();
    assert_eq!((status, &told["run"]["concerns"]), (0, &json!([])), "{told}");
    let parts = told["run"]["parts"].as_array().expect("parts");
    assert!(parts.iter().filter(|part| part["database"] == "test_shop").count() >= 4, "{told}");
}

#[test]
fn whoever_else_writes_is_noticed() {
    let Some((_server, url)) = server(SHOP) else { return };
    for vouched in [false, true] {
        let options: &[&str] = if vouched { &["--sole-writer"] } else { &[] };
        let proxy = Waiting::start(&url, options);
        let mut client = connect(&proxy.url);
        let read = "SELECT left_over FROM stock WHERE id = 1";
        client.query_drop(read).expect("the stock");
        run_all(&url, "UPDATE stock SET left_over = left_over + 1 WHERE id = 1");
        client.query_drop(read).expect("the stock");
        drop(client);
        let (status, told) = proxy.end();
        // Who vouches for what is not so gets what follows from it.
        assert_eq!(status, if vouched { 1 } else { 3 }, "{told}");
        assert!(
            vouched || told["reason"].as_str().is_some_and(|why| why.contains("somebody else")),
            "{told}"
        );
    }
}

/// Half a packet, a client that is gone in a transaction, a commit whose answer nobody waits for.
#[test]
fn what_breaks_off_accuses_nobody() {
    let Some((server, url)) = server(SHOP) else { return };
    let proxy = Waiting::start(&url, &[]);
    let at =
        proxy.url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    for bytes in [&b""[..], b"\x10", b"\x10\0\0\x01half", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(&at).expect("a connection");
        stream.write_all(bytes).expect("some bytes");
        thread::sleep(Duration::from_millis(50));
    }
    let mut gone = connect(&proxy.url);
    gone.query_drop("BEGIN").expect("a transaction");
    gone.query_drop("UPDATE stock SET left_over = 5 WHERE id = 1").expect("a sale");
    drop(gone);
    let mut client = connect(&proxy.url);
    let left: Option<i64> =
        client.query_first("SELECT left_over FROM stock WHERE id = 1").expect("the stock");
    assert_eq!(left, Some(10));
    drop(client);
    let (status, told) = proxy.end();
    assert!(status == 0 || status == 3, "{told}");
    // The server dies in the middle.
    let proxy = Waiting::start(&url, &["--sole-writer"]);
    let mut client = connect(&proxy.url);
    client.query_drop("UPDATE stock SET left_over = 6 WHERE id = 1").expect("a sale");
    drop(server);
    let _ = client.query_drop("UPDATE stock SET left_over = 7 WHERE id = 1");
    drop(client);
    let (status, told) = proxy.end();
    assert!(status == 0 || status == 3, "{told}");
}

/// The proxy is killed at some moment: what it has written is a history, and accuses nobody.
#[test]
fn whatever_was_written_before_the_proxy_was_killed_is_true() {
    let Some((_server, url)) = server(SHOP) else { return };
    for wait in [50, 150, 300] {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("run.jsonl");
        let path = record.to_str().expect("text");
        let mut proxy = Waiting::start(&url, &["--sole-writer", "--record", path]);
        let clients: Vec<_> = (0..3)
            .map(|seed| {
                let conn = connect(&proxy.url);
                thread::spawn(move || {
                    // It loses its connection.
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        random_client(conn, "READ COMMITTED", seed);
                    }));
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(wait));
        proxy.child.kill().expect("it is killed");
        proxy.child.wait().expect("it ends");
        clients.into_iter().for_each(|client| drop(client.join()));
        if fs::metadata(&record).is_ok_and(|about| about.len() > 0) {
            let run = margay(["check", path, "--level", "read-committed", "--timeout", "20s"]);
            assert!(matches!(run.status, 0 | 3), "{}: {}", run.status, run.stderr);
        }
    }
}

fn clients() -> PathBuf {
    common::root().join("target/proxy-clients")
}

fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("a script");
    path.to_str().expect("text").to_owned()
}

/// The same output and verdict with and without the proxy.
#[track_caller]
fn passes(url: &str, program: &str, arguments: &[&str], environment: (&str, &str), coverage: f64) -> Value {
    let reset = "UPDATE stock SET left_over = 10 * id";
    run_all(url, reset);
    let mut plain = Command::new(program);
    plain.args(arguments).env("DATABASE_URL", url).env(environment.0, environment.1);
    let plain = finish(plain, b"");
    assert_eq!(plain.status, 0, "{program} without the proxy: {}{}", plain.stdout, plain.stderr);
    run_all(url, reset);
    let setting = format!("{}={}", environment.0, environment.1);
    let command = [&["env", &setting, program][..], arguments].concat();
    let run = behind(url, &["--json", "--claim", "serializable"], &command).expect(0);
    assert_eq!(printed(&run), plain.stdout.trim_end(), "{}", run.stderr);
    let told = told(&run);
    assert_eq!((told["run"]["command"].as_i64(), &told["run"]["concerns"]), (Some(0), &json!([])), "{told}");
    let of = &told["run"]["coverage"];
    let share = of["transactions"].as_f64().unwrap_or(0.0) / of["all_transactions"].as_f64().unwrap_or(1.0);
    assert!(share >= coverage, "{program}: {told}");
    println!("{program} {arguments:?}: {} with {of}", told["verdict"]);
    told
}

#[test]
fn python_libraries_pass_and_are_covered() {
    let python = clients().join("bin/python3");
    let has = Command::new(&python).args(["-c", "import pymysql, sqlalchemy, django"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: PyMySQL, SQLAlchemy and Django are not installed");
    }
    let Some((_server, url)) = server(SHOP) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let python = python.to_str().expect("text");
    for (name, text) in [("pymysql", PYMYSQL), ("sqlalchemy", SQLALCHEMY), ("django", DJANGO)] {
        let path = script(folder.path(), &format!("{name}_shop.py"), text);
        passes(&url, python, &[&path], ("LC_ALL", "C.UTF-8"), 0.5);
    }
}

#[test]
fn mysql2_passes_and_is_covered() {
    let modules = clients().join("node/node_modules");
    let found = Command::new("node").arg("--version").output().is_ok();
    if !modules.join("mysql2").is_dir() || !found {
        return println!("SKIPPED: node and mysql2 are not installed");
    }
    let Some((_server, url)) = server(SHOP) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = script(folder.path(), "shop.js", NODE);
    passes(&url, "node", &[&path], ("NODE_PATH", modules.to_str().expect("text")), 0.5);
}

#[test]
fn sysbench_is_followed() {
    let Ok(_) = Command::new("sysbench").arg("--version").output() else {
        return println!("SKIPPED: sysbench is not installed");
    };
    let Some((_server, url)) = server("") else { return };
    let bench = |step: &str| {
        format!(
            "sysbench oltp_read_write --db-driver=mysql --mysql-host=$MYSQL_HOST --mysql-port=$MYSQL_TCP_PORT \
             --mysql-user=$MYSQL_USER --mysql-password=$MYSQL_PWD --mysql-db=$MYSQL_DATABASE --tables=1 \
             --table-size=100 --threads=4 --events=60 --time=20 --mysql-ignore-errors=1213,1205 {step}"
        )
    };
    behind(&url, &["--quiet"], &["sh", "-c", &bench("prepare")]);
    let run = behind(&url, &["--json", "--timeout", "60s"], &["sh", "-c", &bench("run")]);
    let told = told(&run);
    assert!(matches!(run.status, 0 | 3), "{told}");
    assert_eq!((told["run"]["command"].as_i64(), &told["run"]["concerns"]), (Some(0), &json!([])), "{told}");
    assert!(told["run"]["committed"].as_u64() >= Some(60), "{told}");
    // What is written and read by key is understood, `char(n)` included. A range of keys shows no keys.
    let left_out = told["run"]["coverage"]["left_out"].to_string();
    assert!(!left_out.contains("column c ") && !left_out.contains("column pad "), "{told}");
    assert_eq!(told["run"]["live"]["violations"], 0, "{told}");
    println!("sysbench: {} {}", told["verdict"], told["run"]["coverage"]);
}

const PYMYSQL: &str = r#"
import os, urllib.parse, pymysql
at = urllib.parse.urlparse(os.environ["DATABASE_URL"])
def connect(**more):
    return pymysql.connect(host=at.hostname, port=at.port, user=at.username, password=urllib.parse.unquote(at.password),
                           database=at.path[1:], **more)
db = connect()
with db.cursor() as c:
    for id in (1, 2, 3):
        c.execute("SELECT left_over FROM stock WHERE id = %s FOR UPDATE", (id,))
        left = c.fetchone()[0]
        c.execute("UPDATE stock SET left_over = %s WHERE id = %s", (left - 1, id))
        print(id, left, c.rowcount)
        db.commit()
    c.execute("SELECT id, left_over FROM stock ORDER BY id")
    print(c.fetchall())
    try:
        c.execute("INSERT INTO stock VALUES (1, 1)")
    except pymysql.err.IntegrityError as error:
        print(error.args[0])
    db.rollback()
other = connect(autocommit=True, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS)
with other.cursor() as c:
    c.execute("UPDATE stock SET left_over = 5 WHERE id = 2; SELECT left_over FROM stock WHERE id = 2")
    print(c.rowcount, c.nextset(), c.fetchall())
db.close(); other.close()
"#;

const SQLALCHEMY: &str = r#"
import os
from sqlalchemy import create_engine, select, Integer
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column
class Base(DeclarativeBase): pass
class Stock(Base):
    __tablename__ = "stock"
    id = mapped_column(Integer, primary_key=True)
    left_over = mapped_column(Integer)
engine = create_engine(os.environ["DATABASE_URL"].replace("mysql://", "mysql+pymysql://"), isolation_level="READ COMMITTED")
for id in (1, 2, 3):
    with Session(engine) as session, session.begin():
        stock = session.execute(select(Stock).where(Stock.id == id).with_for_update()).scalar_one()
        stock.left_over -= 2
with Session(engine) as session:
    print([(stock.id, stock.left_over) for stock in session.scalars(select(Stock).order_by(Stock.id))])
"#;

const DJANGO: &str = r#"
import os, urllib.parse, pymysql
pymysql.version_info = (2, 2, 7, "final", 0)
pymysql.install_as_MySQLdb()
import django
from django.conf import settings
at = urllib.parse.urlparse(os.environ["DATABASE_URL"])
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.mysql", "NAME": at.path[1:], "HOST": at.hostname,
    "PORT": at.port, "USER": at.username, "PASSWORD": urllib.parse.unquote(at.password)}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()
from django.db import connection, models, transaction
class Stock(models.Model):
    left_over = models.IntegerField()
    id = models.IntegerField(primary_key=True)
    class Meta:
        app_label, db_table, managed = "shop", "stock", False
for id in (1, 2, 3):
    with transaction.atomic():
        stock = Stock.objects.select_for_update().get(pk=id)
        stock.left_over -= 1
        stock.save()
        with transaction.atomic():
            Stock.objects.filter(pk=id).update(left_over=models.F("left_over") - 1)
print(list(Stock.objects.order_by("id").values_list("id", "left_over")))
connection.close()
"#;

const NODE: &str = r#"
const mysql = require("mysql2/promise");
(async () => {
  const db = await mysql.createConnection(process.env.DATABASE_URL);
  for (const id of [1, 2, 3]) {
    await db.beginTransaction();
    const [[row]] = await db.execute("SELECT left_over FROM stock WHERE id = ? FOR UPDATE", [id]);
    const [done] = await db.execute("UPDATE stock SET left_over = ? WHERE id = ?", [row.left_over - 1, id]);
    console.log(id, row.left_over, done.affectedRows);
    await db.commit();
  }
  console.log(JSON.stringify((await db.query("SELECT id, left_over FROM stock ORDER BY id"))[0]));
  await db.end();
})();
"#;
