//! `margay proxy` between real clients and a real PostgreSQL.

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;

use common::{Run, finish, margay};
use margay_servers::Server;
use postgres::Client;
use proxying::{SHOP, Stale, Waiting, direct, numbers, python, server, ten_again};
use serde_json::Value;

/// Runs a command behind the proxy.
fn behind(server: &Server, options: &[&str], command: &[&str]) -> Run {
    margay([&["proxy", server.url()], options, &["--"], command].concat())
}

/// The object of `--json`, behind what the command printed.
#[track_caller]
fn told(run: &Run) -> Value {
    let line = run.stdout.lines().rfind(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no object: {} {}", run.stdout, run.stderr)))
        .expect("JSON")
}

#[test]
fn psql_gets_the_same_bytes_and_a_verdict() {
    let Some(server) = server(SHOP) else { return };
    let queries =
        ["-X", "-A", "-c", "SELECT * FROM stock ORDER BY id", "-c", "SELECT 1/0", "-c", "SHOW TimeZone"];
    let mut plain = Command::new("psql");
    plain.arg(server.url()).args(queries);
    let Ok(_) = plain.output() else { return println!("SKIPPED: psql is not installed") };
    let plain = finish(plain, b"");
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("run.jsonl");
    let path = record.to_str().expect("text");
    let command: Vec<&str> = ["psql"].into_iter().chain(queries).collect();
    let run = behind(&server, &["--json", "--record", path], &command).expect(0);
    assert_eq!(
        run.stdout.lines().filter(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n"),
        plain.stdout.trim_end()
    );
    assert!(run.stderr.contains("division by zero"), "{}", run.stderr);
    let told = told(&run);
    assert!(matches!(told["verdict"].as_str(), Some("holds" | "clean")), "{told}");
    let mode = fs::metadata(&record).expect("a file").permissions().mode();
    assert_eq!(mode & 0o077, 0, "others can read what was recorded");
    margay(["check", path, "--level", "read-committed"]).expect(0);
}

#[test]
fn pgbench_is_followed_as_a_whole() {
    let Some(server) = server("") else { return };
    let mut fill = Command::new("pgbench");
    fill.args(["-i", "-q", server.url()]);
    let Ok(filled) = fill.output() else { return println!("SKIPPED: pgbench is not installed") };
    assert!(filled.status.success());
    for mode in ["simple", "extended", "prepared"] {
        let command = ["pgbench", "-n", "-M", mode, "-c", "4", "-t", "25"];
        let run = behind(&server, &["--json", "--require-coverage", "100%"], &command).expect(0);
        let told = told(&run);
        // Engines that know no mechanisms understand all of it, with writes from the log.
        assert_eq!(
            told["run"]["logged"],
            serde_json::json!({ "parts": 1, "others": 0, "lossy": 0 }),
            "{told}"
        );
        assert_eq!(
            told["run"]["coverage"]["transactions"], told["run"]["coverage"]["all_transactions"],
            "{told}"
        );
        // The mirror does not follow its first query, the number of branches: the answer says nothing of rows.
        let coverage = &told["run"]["coverage"];
        let (followed, all) = (&coverage["followed"], &coverage["all_transactions"]);
        assert!(followed.as_u64() >= all.as_u64().map(|all| all - 1), "{mode}: {told}");
        assert!(told["run"]["committed"].as_u64() >= Some(100), "{mode}: {told}");
    }
}

/// Statements of a shape are one text with parameters, however the client sends them.
#[test]
fn literals_are_recorded_as_parameters() {
    let Some(server) = server(SHOP) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.jsonl");
    let record = path.to_str().expect("text");
    let sales = "BEGIN; UPDATE stock SET left_over = left_over - 1 WHERE id = 1; \
                 UPDATE stock SET left_over = left_over + -2 WHERE id = 2; \
                 UPDATE stock SET left_over = 7 WHERE id IN (1, 2) AND left_over < 3; COMMIT";
    behind(&server, &["--record", record], &["psql", "-qX", "-c", sales]).expect(0);
    let kept = fs::read_to_string(&path).expect("a recording");
    for line in [
        r#""sql":"UPDATE stock SET left_over = left_over - $1 WHERE id = $2","params":[1,1]"#,
        r#""sql":"UPDATE stock SET left_over = left_over + $1 WHERE id = $2","params":[-2,2]"#,
        r#""sql":"UPDATE stock SET left_over = $1 WHERE id IN ($2, $3) AND left_over < $4","params":[7,1,2,3]"#,
    ] {
        assert!(kept.contains(line), "{line} is not in {kept}");
    }
}

#[test]
fn recording_ends_at_its_share_of_memory_and_the_application_goes_on() {
    let Some(server) = server(SHOP) else { return };
    let sale = format!("psql -qX -c 'UPDATE stock SET left_over = left_over - 1' {}", "$DATABASE_URL");
    let run =
        behind(&server, &["--memory", "2M"], &["sh", "-c", &format!("{sale}; sleep 1; {sale}; echo sold")]);
    let run = run.expect(3);
    assert!(run.stdout.contains("sold"), "{} {}", run.stdout, run.stderr);
    assert!(run.stdout.contains("the recording ended when it took 1 MiB"), "{}", run.stdout);
}

/// Two customers read the stock, and both write what is left.
fn sell_twice(url: &str, lock: &str) {
    let (mut one, mut other) = (direct(url), direct(url));
    let read = format!("SELECT left_over FROM stock WHERE id = $1{lock}");
    let sell = "UPDATE stock SET left_over = $1 WHERE id = $2";
    one.batch_execute("BEGIN").expect("a transaction");
    let left: i32 = one.query_one(&read, &[&1]).expect("the stock").get(0);
    let slow = thread::spawn(move || {
        other.batch_execute("BEGIN").expect("a transaction");
        let left: i32 = other.query_one(&read, &[&1]).expect("the stock").get(0);
        // Nobody waits for whoever holds a lock.
        other.execute(sell, &[&(left - 3), &1]).expect("a sale");
        other.batch_execute("COMMIT").expect("a commit");
    });
    thread::sleep(std::time::Duration::from_millis(300));
    one.execute(sell, &[&(left - 1), &1]).expect("a sale");
    one.batch_execute("COMMIT").expect("a commit");
    slow.join().expect("no panic");
}

#[test]
fn a_lost_update_is_the_applications_fault() {
    let Some(server) = server(SHOP) else { return };
    let proxy = Waiting::start(server.url(), &["--claim", "serializable"]);
    // The second sale waits for the first one's lock and overwrites it.
    let (mut one, mut other) = (proxy.client(), proxy.client());
    for client in [&mut one, &mut other] {
        client.batch_execute("BEGIN").expect("a transaction");
        client.query("SELECT left_over FROM stock WHERE id = $1", &[&1]).expect("the stock");
    }
    one.execute("UPDATE stock SET left_over = $1 WHERE id = $2", &[&9, &1]).expect("a sale");
    one.batch_execute("COMMIT").expect("a commit");
    other.execute("UPDATE stock SET left_over = $1 WHERE id = $2", &[&7, &1]).expect("a sale");
    other.batch_execute("COMMIT").expect("a commit");
    drop((one, other));
    let (status, told) = proxy.end();
    assert_eq!((status, told["verdict"].as_str()), (1, Some("violated")), "{told}");
    assert_eq!(told["run"]["judged"], "application");
}

#[test]
fn its_repair_holds_and_so_does_the_database() {
    let Some(server) = server(SHOP) else { return };
    let proxy = Waiting::start(server.url(), &["--claim", "serializable"]);
    sell_twice(&proxy.url, " FOR UPDATE");
    let (status, told) = proxy.end();
    assert_eq!(status, 0, "{told}");
    let proxy = Waiting::start(server.url(), &[]);
    let (mut one, mut other) = (proxy.client(), proxy.client());
    for (client, left) in [(&mut one, 9), (&mut other, 7)] {
        client.query("SELECT left_over FROM stock WHERE id = $1", &[&1]).expect("the stock");
        client.execute("UPDATE stock SET left_over = $1 WHERE id = $2", &[&left, &1]).expect("a sale");
    }
    drop((one, other));
    let (status, told) = proxy.end();
    assert_eq!((status, told["run"]["judged"].as_str()), (0, Some("database")), "{told}");
}

#[test]
fn a_database_that_answers_with_old_values_is_accused() {
    let Some(server) = server(SHOP) else { return };
    for lies in [false, true] {
        direct(server.url())
            .batch_execute("UPDATE stock SET left_over = 10 WHERE id = 1")
            .expect("the stock");
        let relay = Stale::before(server.url(), ten_again);
        let proxy = Waiting::start(&relay.url, &[]);
        let read = "SELECT left_over FROM stock WHERE id = 1";
        let mut client = proxy.client();
        client.simple_query(read).expect("the stock");
        client.simple_query("UPDATE stock SET left_over = 99 WHERE id = 1").expect("a delivery");
        relay.stale.store(lies, Ordering::Relaxed);
        let mut other = proxy.client();
        other.simple_query(read).expect("the stock");
        relay.stale.store(false, Ordering::Relaxed);
        drop((client, other));
        let (status, told) = proxy.end();
        assert_eq!(status, i32::from(lies), "{told}");
    }
}

/// Each statement is a transaction, so that no level is violated; each request reads what is old when it writes.
#[test]
fn a_request_of_several_transactions_is_a_unit() {
    let Some(server) = server(SHOP) else { return };
    for (options, status) in [(&[][..], 0), (&["--unit", "comment:request_id"][..], 1)] {
        direct(server.url())
            .batch_execute("UPDATE stock SET left_over = 10 WHERE id = 1")
            .expect("the stock");
        let proxy = Waiting::start(server.url(), &[&["--claim", "serializable"], options].concat());
        let mut clients = [("a7", proxy.client(), 9), ("b8", proxy.client(), 7)];
        for (request, client, _) in &mut clients {
            let text = format!("SELECT left_over FROM stock WHERE id = 1 /*request_id='{request}'*/");
            client.simple_query(&text).expect("the stock");
        }
        for (request, client, left) in &mut clients {
            let text = format!("UPDATE stock SET left_over = {left} WHERE id = 1 /*request_id='{request}'*/");
            client.simple_query(&text).expect("a sale");
        }
        drop(clients);
        let (found, told) = proxy.end();
        assert_eq!(found, status, "{options:?}: {told}");
    }
    margay(["proxy", "postgres://me@127.0.0.1:1/x", "--unit", "comment:x"]).expect(2);
}

/// Twenty runs of clients that meet, at three levels: PostgreSQL keeps its promises.
#[test]
fn a_healthy_database_is_never_accused() {
    let Some(server) = server(SHOP) else { return };
    let levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
    let rounds = std::env::var("MARGAY_PROXY_ROUNDS").map_or(20, |it| it.parse().expect("a number"));
    let mut answered = [0; 3];
    for round in 0..rounds {
        let proxy = Waiting::start(server.url(), &["--timeout", "20s"]);
        let level = levels[round as usize % levels.len()];
        thread::scope(|scope| {
            for number in 0..5 {
                let proxy = &proxy;
                scope.spawn(move || random_client(proxy.client(), level, round * 5 + number));
            }
        });
        let (status, told) = proxy.end();
        assert!(status == 0 || status == 3, "round {round} at {level}: {told}");
        assert_eq!(told["run"]["concerns"], serde_json::json!([]), "{told}");
        assert_eq!(told["run"]["live"]["violations"], 0, "{told}");
        answered[round as usize % levels.len()] += u64::from(status == 0);
    }
    println!("{answered:?} of {rounds} rounds have an answer, by level");
    assert!(
        answered.iter().all(|&answers| answers > 0),
        "no answer at some level: the test shows nothing: {answered:?}"
    );
}

/// A client that does something different for every seed.
fn random_client(mut client: Client, level: &str, seed: u64) {
    let mut below = numbers(seed);
    for n in 0..15 {
        let explicit = below(4) > 0;
        if explicit {
            client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).expect("a transaction");
        } else {
            client.batch_execute(&format!("SET default_transaction_isolation = '{level}'")).expect("a level");
        }
        let mut fine = true;
        for _ in 0..=below(3) {
            let (id, value) = (below(4) as i32 + 1, (seed * 1000 + n * 10 + below(10)) as i32);
            let done = match below(8) {
                0 | 1 => client.query("SELECT left_over FROM stock WHERE id = $1", &[&id]).map(drop),
                2 => {
                    client.query("SELECT id, left_over FROM stock WHERE left_over > $1", &[&value]).map(drop)
                }
                3 => client.query("SELECT left_over FROM stock WHERE id = $1 FOR UPDATE", &[&id]).map(drop),
                4 => client.execute("DELETE FROM stock WHERE id = $1", &[&id]).map(drop),
                5 => client.batch_execute(&format!(
                    "INSERT INTO stock VALUES ({id}, {value})
                     ON CONFLICT (id) DO UPDATE SET left_over = excluded.left_over"
                )),
                6 => client
                    .execute("UPDATE stock SET left_over = left_over + 1 WHERE id = $1", &[&id])
                    .map(drop),
                _ => {
                    client.execute("UPDATE stock SET left_over = $1 WHERE id = $2", &[&value, &id]).map(drop)
                }
            };
            fine = done.is_ok();
            if !fine {
                break;
            }
        }
        if explicit {
            // A refused transaction is rolled back, as applications do.
            let end = if fine && below(6) > 0 { "COMMIT" } else { "ROLLBACK" };
            let _ = client.batch_execute(end);
        }
    }
}

#[test]
fn bad_usage_is_said() {
    let cases: [(&[&str], &str); 5] = [
        (&["proxy", "postgres://me@127.0.0.1:1/x", "--tls-cert", "no/such", "--tls-key", "file"], "no/such"),
        (&["proxy", "sqlite"], "PostgreSQL"),
        (&["proxy", "postgres://me@127.0.0.1:1/x", "--listen", "0.0.0.0:0"], "--listen-anywhere"),
        (&["proxy", "postgres://me:secret@127.0.0.1:1/x", "--", "true"], "127.0.0.1"),
        (&["proxy", "postgres://me@127.0.0.1:1/x", "--level", "chaos"], "repeatable-read"),
    ];
    for (arguments, part) in cases {
        let run = margay(arguments.iter().copied()).expect(2);
        assert!(run.stderr.contains(part) && !run.stderr.contains("secret"), "{}", run.stderr);
    }
}

fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("a script");
    path.to_str().expect("text").to_owned()
}

#[test]
fn python_libraries_pass_and_are_covered() {
    let Some(python) = python() else {
        return println!("SKIPPED: psycopg, SQLAlchemy and Django are not installed");
    };
    let Some(server) = server(SHOP) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let python = python.to_str().expect("text");
    for (name, text) in [("psycopg", PSYCOPG), ("sqlalchemy", SQLALCHEMY), ("django", DJANGO)] {
        let path = script(folder.path(), &format!("{name}_shop.py"), text);
        let run = behind(
            &server,
            &["--json", "--claim", "serializable", "--require-coverage", "90"],
            &[python, &path],
        );
        let run = run.expect(0);
        let told = told(&run);
        assert_eq!(
            (told["run"]["command"].as_i64(), &told["run"]["concerns"]),
            (Some(0), &serde_json::json!([])),
            "{name}: {told}"
        );
    }
}

/// The example: a lost update is the application's fault, its repair holds, and PostgreSQL is never
/// accused.
#[test]
fn the_shop_in_django_loses_a_sale_until_it_is_repaired() {
    let Some(python) = python() else {
        return println!("SKIPPED: psycopg, SQLAlchemy and Django are not installed");
    };
    let Some(server) = server("") else { return };
    let path = common::root().join("examples/django-shop/shop.py");
    let mut create = Command::new(&python);
    create.arg(&path).arg("create").env("DATABASE_URL", server.url());
    finish(create, b"").expect(0);
    let (python, path) = (python.to_str().expect("text"), path.to_str().expect("text"));
    let serializable = ["--json", "--claim", "serializable"];
    let sold = behind(&server, &serializable, &[python, path, "sell"]);
    assert_eq!((sold.status, told(&sold)["verdict"].as_str()), (1, Some("violated")), "{}", sold.stdout);
    behind(&server, &serializable, &[python, path, "repaired"]).expect(0);
    let judged = behind(&server, &["--json"], &[python, path, "sell"]);
    assert_eq!(
        (judged.status, &told(&judged)["run"]["judged"]),
        (0, &"database".into()),
        "{}",
        judged.stdout
    );
}

/// Each of two doctors sees the other on call and leaves: REPEATABLE READ allows it, SERIALIZABLE
/// refuses one of them.
#[test]
fn two_doctors_in_sqlalchemy_leave_together() {
    let Some(python) = python() else {
        return println!("SKIPPED: psycopg, SQLAlchemy and Django are not installed");
    };
    let schema = "CREATE TABLE doctors (id int PRIMARY KEY, on_call boolean NOT NULL);
                  INSERT INTO doctors VALUES (1, true), (2, true);";
    let Some(server) = server(schema) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = script(folder.path(), "doctors.py", DOCTORS);
    let python = python.to_str().expect("text");
    for (level, status) in [("REPEATABLE READ", 1), ("SERIALIZABLE", 0)] {
        direct(server.url()).batch_execute("UPDATE doctors SET on_call = true").expect("both are on call");
        let run = behind(&server, &["--json", "--claim", "serializable"], &[python, &path, level]);
        assert_eq!(run.status, status, "{level}: {} {}", run.stdout, run.stderr);
    }
}

const DOCTORS: &str = r#"
import os, sys
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
class Base(DeclarativeBase): pass
class Doctor(Base):
    __tablename__ = "doctors"
    id: Mapped[int] = mapped_column(primary_key=True)
    on_call: Mapped[bool]
url = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
engine = create_engine(url, isolation_level=sys.argv[1])
one, other = Session(engine), Session(engine)
seen = [[session.get(Doctor, number) for number in (1, 2)] for session in (one, other)]
for session, doctors, place in ((one, seen[0], 0), (other, seen[1], 1)):
    if all(doctor.on_call for doctor in doctors):
        doctors[place].on_call = False
        try:
            session.commit()
        except OperationalError:
            session.rollback()
one.close()
other.close()
engine.dispose()
"#;

const PSYCOPG: &str = r#"
import psycopg
with psycopg.connect() as db:
    with db.transaction():
        left = db.execute("SELECT left_over FROM stock WHERE id = %s", (1,)).fetchone()[0]
        db.execute("UPDATE stock SET left_over = %s WHERE id = %s", (left - 1, 1))
    with db.pipeline():
        for n in range(5):
            db.execute("UPDATE stock SET left_over = %s WHERE id = %s", (n, 2))
    with db.cursor(binary=True) as cursor:
        assert cursor.execute("SELECT left_over FROM stock WHERE id = %s", (2,)).fetchone() == (4,)
"#;

const SQLALCHEMY: &str = r#"
import os
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
class Base(DeclarativeBase): pass
class Stock(Base):
    __tablename__ = "stock"
    id: Mapped[int] = mapped_column(primary_key=True)
    left_over: Mapped[int]
engine = create_engine(os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://"))
with Session(engine) as session:
    item = session.get(Stock, 1, with_for_update=True)
    item.left_over -= 1
    session.commit()
    with session.begin_nested():
        session.add(Stock(id=77, left_over=5))
    session.commit()
    assert len(session.scalars(select(Stock).where(Stock.id == 77)).all()) == 1
"#;

const DJANGO: &str = r#"
import os
import django
from django.conf import settings
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"],
    "PASSWORD": os.environ.get("PGPASSWORD", ""), "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}})
django.setup()
from django.db import connection, models, transaction
class Stock(models.Model):
    id = models.IntegerField(primary_key=True)
    left_over = models.IntegerField()
    class Meta:
        app_label, db_table, managed = "shop", "stock", False
for _ in range(5):
    with transaction.atomic():
        item = Stock.objects.select_for_update().get(id=1)
        with transaction.atomic():
            item.left_over -= 1
            item.save()
Stock.objects.filter(id=3).update(left_over=4)
assert Stock.objects.get(id=3).left_over == 4
connection.close()
"#;
