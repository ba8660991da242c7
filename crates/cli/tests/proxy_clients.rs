//! `margay proxy` with the clients that people use: what they print is the same with and without it, byte for byte.

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Run, finish, root};
use proxying::{Waiting, direct, server};

/// Values of many types, and a stock that clients change.
const SCHEMA: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, left_over int NOT NULL);
    CREATE TABLE kinds (id int PRIMARY KEY, n numeric(9,2), t text, b boolean, u uuid, at timestamptz, x bytea, f float8, a int[]);
    INSERT INTO kinds VALUES
      (1, 12.50, 'it''s', true, '0b3ad0b0-7d0c-4b9e-8f57-0f1d8f2f3a4b', '2026-11-19 10:00:00.123+00', '\\x00ff', 1.5, '{1,2}'),
      (2, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL);";

const RESET: &str = "DELETE FROM stock; INSERT INTO stock VALUES (1, 10), (2, 20), (3, 30);";

/// Runs a program with and without the proxy: it prints the same, and the proxy has an answer about all of it.
fn is_the_same(program: impl Fn(&str) -> Command) {
    let Some(server) = server(SCHEMA) else { return };
    let run = |url: &str| -> Run {
        direct(server.url()).batch_execute(RESET).expect("as before");
        let mut command = program(url);
        command.env("DATABASE_URL", url);
        finish(command, b"").expect(0)
    };
    let plain = run(server.url());
    assert!(plain.stdout.lines().count() > 3, "too little happens: {}", plain.stdout);
    direct(server.url()).batch_execute(RESET).expect("as before");
    let proxy = Waiting::start(server.url(), &[]);
    let relayed = finish(
        {
            let mut command = program(&proxy.url);
            command.env("DATABASE_URL", &proxy.url);
            command
        },
        b"",
    );
    let relayed = relayed.expect(0);
    assert_eq!(relayed.stdout, plain.stdout);
    let (status, told) = proxy.end();
    assert_eq!((status, &told["run"]["concerns"]), (0, &serde_json::json!([])), "{told}");
    assert!(told["run"]["committed"].as_u64() > Some(3), "{told}");
}

fn in_folder(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a script");
    let path = path.to_str().expect("text").to_owned();
    (folder, path)
}

#[test]
fn asyncpg() {
    let python = root().join("target/proxy-clients/bin/python3");
    let asked = Command::new(&python).args(["-c", "import asyncpg"]).output();
    if !asked.is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: asyncpg is not installed");
    }
    let (_folder, script) = in_folder("shop.py", ASYNCPG);
    is_the_same(|_| {
        let mut command = Command::new(&python);
        command.arg(&script);
        command
    });
}

const ASYNCPG: &str = r#"
import asyncio, os, asyncpg
async def main():
    db = await asyncpg.connect(os.environ["DATABASE_URL"])
    for row in await db.fetch("SELECT * FROM kinds ORDER BY id"):
        print(tuple(row))
    async with db.transaction(isolation="repeatable_read"):
        left = await db.fetchval("SELECT left_over FROM stock WHERE id = $1", 1)
        print(await db.execute("UPDATE stock SET left_over = $1 WHERE id = $2", left - 1, 1))
    try:
        async with db.transaction():
            await db.execute("UPDATE stock SET left_over = 0 WHERE id = 2")
            await db.execute("INSERT INTO stock VALUES (2, 2)")
    except asyncpg.UniqueViolationError as error:
        print(error.sqlstate)
    await db.executemany("INSERT INTO stock VALUES ($1, $2)", [(n, n * n) for n in range(10, 40)])
    print(await db.copy_records_to_table("stock", records=[(50, 1), (51, 2)]))
    async with db.transaction():
        print([row["id"] async for row in db.cursor("SELECT id FROM stock ORDER BY id", prefetch=7)])
    print(await db.fetch("SELECT id, left_over FROM stock ORDER BY id"))
    await db.close()
asyncio.run(main())
"#;

#[test]
fn node_postgres() {
    let modules = root().join("target/proxy-clients/node_modules");
    if !modules.join("pg").is_dir() || Command::new("node").arg("--version").output().is_err() {
        return println!("SKIPPED: node-postgres is not installed");
    }
    let (_folder, script) = in_folder("shop.js", NODE);
    is_the_same(|_| {
        let mut command = Command::new("node");
        command.arg(&script).env("NODE_PATH", &modules);
        command
    });
}

const NODE: &str = r#"
const { Client } = require('pg');
(async () => {
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  await db.connect();
  console.log(JSON.stringify((await db.query('SELECT * FROM kinds ORDER BY id')).rows));
  await db.query('BEGIN');
  const left = (await db.query('SELECT left_over FROM stock WHERE id = $1', [1])).rows[0].left_over;
  console.log((await db.query('UPDATE stock SET left_over = $1 WHERE id = $2', [left - 1, 1])).rowCount);
  await db.query('COMMIT');
  try { await db.query('INSERT INTO stock VALUES (1, 1)'); } catch (error) { console.log(error.code); }
  for (let n = 0; n < 5; n++) {
    const found = await db.query({ name: 'by-key', text: 'SELECT left_over FROM stock WHERE id = $1', values: [n] });
    console.log(JSON.stringify(found.rows));
  }
  const all = [4, 5, 6].map(n => db.query('INSERT INTO stock VALUES ($1, $2) RETURNING id', [n, n]));
  console.log(JSON.stringify((await Promise.all(all)).map(done => done.rows)));
  console.log(JSON.stringify((await db.query('SELECT id, left_over FROM stock ORDER BY id; SELECT 1 AS one')).map(it => it.rows)));
  await db.end();
})();
"#;

#[test]
fn pgjdbc() {
    let driver = Path::new("/usr/share/java/postgresql.jar");
    if !driver.exists() || Command::new("javac").arg("-version").output().is_err() {
        return println!("SKIPPED: pgjdbc is not installed (libpostgresql-jdbc-java and a JDK)");
    }
    let (_folder, script) = in_folder("Shop.java", JAVA);
    is_the_same(|url| {
        let rest = url.split_once("://").expect("an address").1;
        let (who, place) = rest.split_once('@').expect("a user");
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let mut command = Command::new("java");
        command
            .arg("-cp")
            .arg(driver)
            .arg(&script)
            .arg(format!("jdbc:postgresql://{place}"))
            .args([user, password]);
        command
    });
}

const JAVA: &str = r#"
import java.sql.*;
public class Shop {
  static void show(ResultSet rows) throws SQLException {
    while (rows.next()) {
      StringBuilder line = new StringBuilder();
      for (int at = 1; at <= rows.getMetaData().getColumnCount(); at++) line.append(rows.getString(at)).append('|');
      System.out.println(line);
    }
  }
  public static void main(String[] args) throws Exception {
    try (Connection db = DriverManager.getConnection(args[0] + "?autosave=always", args[1], args[2])) {
      show(db.createStatement().executeQuery("SELECT * FROM kinds ORDER BY id"));
      db.setAutoCommit(false);
      db.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      // From the fifth execution on, the driver keeps a statement on the server.
      PreparedStatement read = db.prepareStatement("SELECT left_over FROM stock WHERE id = ?");
      for (int n = 0; n < 8; n++) { read.setInt(1, n % 4); show(read.executeQuery()); db.commit(); }
      PreparedStatement write = db.prepareStatement("INSERT INTO stock VALUES (?, ?)");
      for (int n = 10; n < 30; n++) { write.setInt(1, n); write.setInt(2, n * n); write.addBatch(); }
      System.out.println(write.executeBatch().length);
      db.commit();
      try { db.createStatement().executeUpdate("INSERT INTO stock VALUES (10, 1)"); }
      catch (SQLException error) { System.out.println(error.getSQLState()); }
      System.out.println(db.createStatement().executeUpdate("UPDATE stock SET left_over = 9 WHERE id = 1"));
      db.commit();
      Statement few = db.createStatement();
      few.setFetchSize(5);
      show(few.executeQuery("SELECT id, left_over FROM stock ORDER BY id"));
      db.commit();
    }
  }
}
"#;

/// A pooler of connections, between clients and a server.
struct Bouncer {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Bouncer {
    fn before(url: &str, mode: &str) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let rest = url.split_once("://").expect("an address").1;
        let (who, place) = rest.split_once('@').expect("a user");
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let (host, database) = place.split_once('/').expect("a database");
        let (host, port) = host.split_once(':').expect("a port");
        let own = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let folder = tempfile::tempdir().expect("a folder");
        let settings = format!(
            "[databases]\n{database} = host={host} port={port} dbname={database} user={user} password={password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nauth_type = any\nunix_socket_dir =\n\
             pool_mode = {mode}\nserver_tls_sslmode = disable\nignore_startup_parameters = extra_float_digits\n"
        );
        let path = folder.path().join("pgbouncer.ini");
        fs::write(&path, settings).expect("settings");
        let mut command = Command::new(program);
        // It does not run as root.
        let who = Command::new("id").arg("-u").output().expect("a user");
        if who.stdout.trim_ascii() == b"0" {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
            command.args(["-u", "nobody"]);
        }
        let child =
            command.arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let url = format!("postgresql://{user}@127.0.0.1:{own}/{database}");
        let bouncer = Self { child, url, _folder: folder };
        let answers = || std::net::TcpStream::connect(("127.0.0.1", own)).is_ok();
        let found = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            answers()
        });
        assert!(found, "the pooler does not listen");
        Some(bouncer)
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pooler gives the transactions of many clients to few sessions. The proxy stands before it and behind it.
#[test]
fn pgbouncer() {
    if !["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].iter().any(|path| Path::new(path).exists()) {
        return println!("SKIPPED: pgbouncer is not installed");
    }
    let Some(server) = server(SCHEMA) else { return };
    direct(server.url()).batch_execute(RESET).expect("as before");
    let asks = ["-XAt", "-c", "SELECT * FROM kinds ORDER BY id", "-c", "SELECT * FROM stock ORDER BY id"];
    let ask = |url: &str| {
        let mut command = Command::new("psql");
        command.arg(url).args(asks);
        finish(command, b"").expect(0).stdout
    };
    let plain = ask(server.url());
    assert_eq!(plain.lines().count(), 5);
    for mode in ["transaction", "session"] {
        // Clients, pooler, proxy, server.
        direct(server.url()).batch_execute(RESET).expect("as before");
        let proxy = Waiting::start(server.url(), &[]);
        let bouncer = Bouncer::before(&proxy.url, mode).expect("it is installed");
        assert_eq!(ask(&bouncer.url), plain, "{mode}");
        sell(&bouncer.url);
        drop(bouncer);
        let (status, told) = proxy.end();
        assert_eq!((status, &told["run"]["concerns"]), (0, &serde_json::json!([])), "{mode}: {told}");
        assert!(told["run"]["committed"].as_u64() >= Some(40), "{mode}: {told}");
    }
    // Clients, proxy, pooler, server: Margay's own connections would go through the pooler, too, which gives them to
    // whoever comes next. That cannot be verified, and the application works all the same.
    direct(server.url()).batch_execute(RESET).expect("as before");
    let bouncer = Bouncer::before(server.url(), "session").expect("it is installed");
    let proxy = Waiting::start(&bouncer.url, &[]);
    assert_eq!(ask(&proxy.url), plain);
    sell(&proxy.url);
    let (status, told) = proxy.end();
    assert!(status == 0 || status == 3, "{told}");
}

/// Four customers at a time.
fn sell(url: &str) {
    std::thread::scope(|scope| {
        for customer in 0..4 {
            scope.spawn(move || {
                let mut client = direct(url);
                for n in 0..10 {
                    let id = (customer + n) % 3 + 1;
                    let text = format!(
                        "BEGIN; SELECT left_over FROM stock WHERE id = {id} FOR UPDATE;
                         UPDATE stock SET left_over = {} WHERE id = {id}; COMMIT",
                        customer * 100 + n
                    );
                    client.batch_execute(&text).expect("a sale");
                }
            });
        }
    });
}
