//! `margay proxy` accuses nobody for what a correct database does, nor for what was not recorded.
//!
//! Each cause of a false accusation has its test:
//!
//! | cause | test |
//! |---|---|
//! | rows that were there before; triggers, cascades, rules, generated columns; identities; `now()`, `random()`, sequences, functions; keys that fold values; an insertion over an unseen deletion | [`SUSPICIOUS`], for MariaDB in `proxy_mysql.rs` |
//! | somebody else writes | [`with_another_writer_nobody_is_accused`] |
//! | a snapshot at Parse | [`a_snapshot_may_be_older_than_its_query`] |
//! | a commit at Sync | [`what_fails_at_sync_was_never_there`] |
//! | a level assumed too high | [`a_level_that_a_role_has_is_not_assumed`] |
//! | a replica | [`a_replica_promises_less`] |
//! | a pooler behind the proxy | `pgbouncer` in `proxy_clients.rs` |
//! | lost records | [`a_disk_that_is_full_stops_the_recording_and_not_the_application`], [`a_killed_proxy_leaves_a_true_file`] |

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use common::margay;
use margay_servers::{Server, started};
use proxying::{SHOP, Stale, Waiting, direct, replace, server, ten_again};

/// What a correct database does that a careless recorder would take for a fault: a name, a schema,
/// and what two clients do in turns. Nothing of it may be called a violation.
const SUSPICIOUS: [(&str, &str, &[&str]); 13] = [
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
        // What is shorter is filled up in what is returned, and in LIKE, and not in comparisons.
        "texts of fixed length",
        "CREATE TABLE t (id int PRIMARY KEY, c char(5)); INSERT INTO t VALUES (1, 'a');",
        &[
            "SELECT c FROM t WHERE id = 1",
            "UPDATE t SET c = 'abcde' WHERE id = 1",
            "SELECT id, c FROM t WHERE c = 'abcde  '",
            "UPDATE t SET c = 'b ' WHERE id = 1",
            "SELECT id, c, c || '|', length(c) FROM t WHERE c = 'b'",
            "SELECT id FROM t WHERE c LIKE 'b'",
        ],
    ),
    (
        // Conditions used to be read off the recorded texts.
        "values that compare in a way of their own",
        "CREATE TYPE size AS ENUM ('small', 'large', 'huge');
         CREATE TABLE t (id int PRIMARY KEY, s size, n numeric(6,2), a inet, d date, u uuid, w timestamptz, i interval);
         INSERT INTO t VALUES (1, 'large', 1.50, '::1', '2026-01-02', '0b3ad0b0-7d0c-4b9e-8f57-0f1d8f2f3a4b',
                               '2026-01-02 00:00:00+00', '1 day');",
        &[
            "SELECT id FROM t WHERE s > 'small'",
            "SELECT id FROM t WHERE n = 1.5",
            "SELECT id FROM t WHERE a = '0:0::1'",
            "SELECT id FROM t WHERE d = '2026-1-2'",
            "SELECT id FROM t WHERE u = '0B3AD0B0-7D0C-4B9E-8F57-0F1D8F2F3A4B'",
            "SELECT id FROM t WHERE w = '2026-01-02 01:00:00+01'",
            "SELECT id FROM t WHERE i = '24 hours'",
            "UPDATE t SET n = 2.00 WHERE d = 'January 2, 2026'",
            "SELECT id, n FROM t WHERE n > 1.99",
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
            for secrecy in [&[][..], &["--hash-values"]] {
                let claim = ["--initial", initial, "--claim", "strict-serializable"];
                let proxy = Waiting::start(&url, &[&claim, secrecy].concat());
                let mut client = proxy.client();
                texts.iter().for_each(|text| drop(client.batch_execute(text)));
                drop(client);
                let (status, told) = proxy.end();
                assert!(status == 0 || status == 3, "{what}, one client, {initial}, {secrecy:?}: {told}");
            }
        }
    }
}

/// REPEATABLE READ takes its snapshot when the first statement is prepared. Whoever took it to begin
/// with the execution would see old values.
#[test]
fn a_snapshot_may_be_older_than_its_query() {
    let Some(server) = server(SHOP) else { return };
    for claim in [&[][..], &["--claim", "snapshot-isolation"]] {
        let proxy = Waiting::start(server.url(), claim);
        let (mut reader, mut writer) = (proxy.client(), proxy.client());
        reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").expect("a transaction");
        let read = reader.prepare("SELECT left_over FROM stock WHERE id = $1").expect("a statement");
        writer.batch_execute("UPDATE stock SET left_over = left_over + 1 WHERE id = 1").expect("a delivery");
        writer.simple_query("SELECT left_over FROM stock WHERE id = 1").expect("the new stock");
        let old: i32 = reader.query_one(&read, &[&1]).expect("the old stock").get(0);
        let new: i32 = writer
            .query_one("SELECT left_over FROM stock WHERE id = $1", &[&1])
            .expect("the new stock")
            .get(0);
        assert_eq!(old + 1, new, "the snapshot is not from before the delivery");
        reader.batch_execute("COMMIT").expect("a commit");
        drop((reader, writer));
        let (status, told) = proxy.end();
        assert_eq!(status, 0, "{told}");
    }
}

/// A deferred constraint is checked at Sync, behind the answer that the row is there.
#[test]
fn what_fails_at_sync_was_never_there() {
    let schema = "CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1);
                  CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED);";
    let Some(server) = server(schema) else { return };
    for claim in [&[][..], &["--claim", "strict-serializable"]] {
        direct(server.url()).batch_execute("DELETE FROM c").expect("as before");
        let proxy = Waiting::start(server.url(), claim);
        let mut client = proxy.client();
        assert!(client.execute("INSERT INTO c VALUES (1, 2)", &[]).is_err());
        client.execute("INSERT INTO c VALUES (2, 1)", &[]).expect("a child");
        for id in [1, 2] {
            client.query("SELECT p FROM c WHERE id = $1", &[&id]).expect("a child, or none");
        }
        drop(client);
        let (status, told) = proxy.end();
        assert_eq!(status, 0, "{told}");
    }
}

/// The database's level is SERIALIZABLE, that of a role is READ COMMITTED, and no message tells.
#[test]
fn a_level_that_a_role_has_is_not_assumed() {
    let schema =
        "CREATE ROLE hasty LOGIN PASSWORD 'x'; ALTER ROLE hasty SET default_transaction_isolation = 'read committed';
                  ALTER DATABASE postgres SET default_transaction_isolation = 'serializable';
                  GRANT ALL ON stock TO hasty;";
    let Some(server) = server(&format!("{SHOP}{schema}")) else { return };
    let proxy = Waiting::start(server.url(), &[]);
    let rest = proxy.url.split_once('@').expect("a user").1;
    let hasty = || direct(&format!("postgres://hasty:x@{rest}"));
    let (mut one, mut other) = (hasty(), hasty());
    for client in [&mut one, &mut other] {
        client.batch_execute("BEGIN; SELECT left_over FROM stock WHERE id = 1").expect("the stock");
    }
    for (client, left) in [(&mut one, 9), (&mut other, 7)] {
        let sell = format!("UPDATE stock SET left_over = {left} WHERE id = 1; COMMIT");
        client.batch_execute(&sell).expect("a sale, which READ COMMITTED loses");
    }
    drop((one, other));
    let (status, told) = proxy.end();
    assert!(status == 0 || status == 3, "{told}");
}

/// A server that says that it is a standby may show old rows. Without that word it is accused.
#[test]
fn a_replica_promises_less() {
    let Some(server) = server(SHOP) else { return };
    fn says_so(bytes: &mut Vec<u8>) {
        replace(bytes, b"S\0\0\0\x17in_hot_standby\0off\0", b"S\0\0\0\x16in_hot_standby\0on\0");
        ten_again(bytes);
    }
    for (relay, expected) in [(ten_again as fn(&mut Vec<u8>), 1), (says_so, 3)] {
        direct(server.url())
            .batch_execute("UPDATE stock SET left_over = 10 WHERE id = 1")
            .expect("the stock");
        let relay = Stale::before(server.url(), relay);
        let proxy = Waiting::start(&relay.url, &[]);
        let mut writer = proxy.client();
        writer.simple_query("UPDATE stock SET left_over = 99 WHERE id = 1").expect("a delivery");
        relay.stale.store(true, Ordering::Relaxed);
        proxy.client().simple_query("SELECT left_over FROM stock WHERE id = 1").expect("the old stock");
        relay.stale.store(false, Ordering::Relaxed);
        drop(writer);
        let (status, told) = proxy.end();
        // In the second run the reader is not recorded, and the delivery holds.
        assert!(if expected == 1 { status == 1 } else { status != 1 }, "{told}");
    }
}

/// A writer beside the proxy would make a lost update of nobody's.
#[test]
fn with_another_writer_nobody_is_accused() {
    let Some(server) = server(SHOP) else { return };
    for (options, expected) in [(&["--evidence", "none"][..], 3), (&["--sole-writer"][..], 1), (&[][..], 0)] {
        let vouched = expected == 1;
        let proxy = Waiting::start(server.url(), options);
        let mut client = proxy.client();
        client.query("SELECT left_over FROM stock WHERE id = $1", &[&1]).expect("the stock");
        let other = 70 + expected;
        direct(server.url())
            .batch_execute(&format!("UPDATE stock SET left_over = {other} WHERE id = 1"))
            .expect("a write beside the proxy");
        client.query("SELECT left_over FROM stock WHERE id = $1", &[&1]).expect("the stock");
        drop(client);
        let (status, told) = proxy.end();
        // Whoever vouches for being alone, and is not, is told of values that nobody wrote. The log knows them.
        assert_eq!(status, expected, "{told}");
        assert_eq!(told["run"]["logged"]["others"], u64::from(expected != 3), "{vouched}: {told}");
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
        // On a busy machine little happens in a fixed time.
        let lines = || fs::read_to_string(&record).map_or(0, |text| text.lines().count());
        let patience = Instant::now() + Duration::from_secs(30);
        while lines() <= 10 && Instant::now() < patience {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(37 * moment));
        proxy.child.kill().expect("it is killed");
        proxy.child.wait().expect("it ends");
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        let run = margay(["check", path, "--level", "read-committed", "--engine", "mirror"]);
        assert!(run.status == 0 || run.status == 3, "{moment}: {} {}", run.stdout, run.stderr);
        assert!(lines() > 10, "{moment}: too little happened");
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

/// The most memory that a process has had, in MiB.
fn memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib / 1024)
}

/// Results that are not kept are passed on, however large: a row of 100 MB, and many rows.
#[test]
fn a_large_result_grows_nothing() {
    let Some(server) = server(SHOP) else { return };
    let proxy = Waiting::start(server.url(), &[]);
    let mut client = proxy.client();
    client.simple_query("SELECT left_over FROM stock").expect("a small result");
    let Some(before) = memory(proxy.child.id()) else { return println!("SKIPPED: there is no /proc") };
    let run = |query: &str| {
        let mut psql = Command::new("psql");
        psql.arg(&proxy.url).args(["-XqAt", "-c", &format!("COPY ({query}) TO STDOUT"), "-o", "/dev/null"]);
        psql.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    for query in
        ["SELECT repeat('x', 100000000)", "SELECT i, repeat('x', 1000) FROM generate_series(1, 200000) i"]
    {
        assert!(run(query), "{query}");
        // The client of this test keeps what it gets, the proxy does not.
        assert!(client.query(query, &[]).is_ok(), "{query}");
    }
    let after = memory(proxy.child.id()).expect("it is there");
    assert!(after < before + 40, "{before} MiB, then {after} MiB");
    drop(client);
    let (status, told) = proxy.end();
    assert!(status == 0 || status == 3, "{told}");
}

/// A join of a table that engines do not understand was counted as covered, and the answer was `holds` whatever it
/// returned.
#[test]
fn a_query_that_nobody_understands_is_not_covered() {
    let Some(server) =
        server("CREATE TABLE t (id int PRIMARY KEY, v int, a inet); INSERT INTO t VALUES (1, 10);")
    else {
        return;
    };
    for evidence in ["none", "log"] {
        let proxy = Waiting::start(server.url(), &["--evidence", evidence, "--require-coverage", "1"]);
        let mut client = proxy.client();
        client.simple_query("UPDATE t SET v = 11 WHERE id = 1").expect("an update");
        client.simple_query("SELECT x.v FROM t x JOIN t y ON x.id = y.id").expect("a join");
        drop(client);
        let (status, told) = proxy.end();
        let coverage = &told["run"]["coverage"];
        assert_eq!((status, &told["verdict"]), (0, &"clean".into()), "{evidence}: {told}");
        assert_eq!(
            (&coverage["transactions"], &coverage["all_transactions"]),
            (&1.into(), &2.into()),
            "{told}"
        );
    }
}
