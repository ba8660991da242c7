//! The recorders of `examples/recorders`: what their examples record is read, and says what
//! happened.

mod common;

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{Run, margay, root};
use margay::{Level, Recorder};
use margay_servers::{Server, started};
use tempfile::TempDir;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/recorders");

/// Runs a program in the folder of the examples. False, and said to be skipped, where there is
/// none.
fn ran(program: &str, args: &[&str]) -> bool {
    ran_with(program, args, &[])
}

/// The same, with variables of the environment.
fn ran_with(program: &str, args: &[&str], environment: &[(&str, &str)]) -> bool {
    let environment = environment.iter().copied();
    match Command::new(program).args(args).envs(environment).current_dir(EXAMPLES).output() {
        Err(error) => {
            println!("SKIPPED: {program}: {error}");
            false
        }
        Ok(output) => {
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
    }
}

fn check(path: &Path, level: &str) -> Run {
    margay(["check", &path.display().to_string(), "--level", level])
}

fn says(path: &Path, level: &str, status: i32) {
    let told = check(path, level).expect(status);
    assert!(told.stdout.contains(if status == 0 { "holds" } else { "lost-update" }), "{}", told.stdout);
}

#[test]
fn a_shop_in_python_sells_an_item_twice_unless_it_is_careful() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("shop.jsonl");
    let name = path.display().to_string();
    if ran("python3", &["shop.py", &name]) {
        says(&path, "snapshot-isolation", 1);
        says(&path, "read-committed", 0);
        ran("python3", &["shop.py", &name, "careful"]);
        says(&path, "strict-serializable", 0);
    }
}

#[test]
fn counters_in_javascript_lose_updates() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("counter.jsonl");
    if ran("node", &["counter.js", &path.display().to_string()]) {
        says(&path, "snapshot-isolation", 1);
    }
}

#[test]
fn so_they_do_in_java() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("counter.jsonl");
    let classes = folder.path().display().to_string();
    if ran("javac", &["-d", &classes, "Recorder.java"])
        && ran("java", &["-cp", &classes, "Recorder", &path.display().to_string()])
    {
        says(&path, "snapshot-isolation", 1);
    }
}

#[test]
fn and_in_go() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("counter.jsonl");
    if ran("go", &["run", "recorder.go", "counter.go", &path.display().to_string()]) {
        says(&path, "snapshot-isolation", 1);
    }
}

/// Says that a test is skipped if a file is missing.
fn is_there(file: &Path) -> bool {
    if !file.exists() {
        println!("SKIPPED: {} is not installed: `./test clients` installs it", file.display());
    }
    file.exists()
}

/// Two clients count in a row of a database: updates get lost at a weak level only. At the strong
/// one the database refuses some, which must not count as if they had committed. Whether the
/// clients meet is not in our hand, so they count until they do.
fn counts(weak: &str, strong: &str, mut count: impl FnMut(&Path, &str) -> bool) {
    let folder = TempDir::new().expect("a folder");
    for (level, status) in [(weak, 1), (strong, 0)] {
        let path = folder.path().join("counter.jsonl");
        let refused = || std::fs::read_to_string(&path).expect("a recording").contains("\"abort\"");
        let lost = || check(&path, "snapshot-isolation").status == 1;
        for _ in 0..20 {
            if !count(&path, level) {
                return;
            }
            let met = if status == 1 { lost() } else { refused() };
            if met {
                break;
            }
        }
        says(&path, "snapshot-isolation", status);
        assert_eq!(refused(), status == 0, "at {level} the database refuses");
    }
}

#[test]
fn clients_of_postgresql_in_javascript() {
    let modules = root().join("target/clients/node_modules");
    if !is_there(&modules.join("pg")) {
        return;
    }
    let Some(server) = started(Server::postgres()) else { return };
    let environment = [("NODE_PATH", modules.to_str().expect("a name"))];
    counts("READ COMMITTED", "SERIALIZABLE", |path, level| {
        let args = ["count_in_postgres.js", path.to_str().expect("a name"), server.url(), level];
        ran_with("node", &args, &environment)
    });
}

#[test]
fn clients_of_postgresql_in_go() {
    let sources = Path::new("/usr/share/gocode");
    if !is_there(&sources.join("src/github.com/lib/pq")) {
        return;
    }
    let Some(server) = started(Server::postgres()) else { return };
    let environment = [("GO111MODULE", "off"), ("GOPATH", sources.to_str().expect("a name"))];
    let url = format!("{}?sslmode=disable", server.url());
    counts("READ COMMITTED", "SERIALIZABLE", |path, level| {
        let path = path.to_str().expect("a name");
        let args = ["run", "recorder.go", "count_in_postgres.go", path, &url, level];
        ran_with("go", &args, &environment)
    });
}

#[test]
fn clients_of_h2_in_java() {
    let (folder, jar) = (TempDir::new().expect("a folder"), "/usr/share/java/h2.jar");
    let classes = folder.path().display().to_string();
    let compile = ["-d", &classes, "Recorder.java", "CountByJdbc.java"];
    if !is_there(Path::new(jar)) || !ran("javac", &compile) {
        return;
    }
    // The numbers that JDBC has for READ COMMITTED and SERIALIZABLE.
    counts("2", "8", |path, level| {
        let path = path.to_str().expect("a name");
        let class_path = format!("{jar}:{classes}");
        ran("java", &["-cp", &class_path, "CountByJdbc", path, "jdbc:h2:mem:x;DB_CLOSE_DELAY=-1", level])
    });
}

/// One transaction of a client that counts: reads, waits, writes. Answers whether it was refused.
fn counted(database: &mut postgres::Client, session: &margay::Session, level: &str) {
    let mut t = session.begin();
    let mut run = || -> Result<(), postgres::Error> {
        database.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
        let n: i32 = database.query_one("SELECT n FROM counter", &[])?.get(0);
        t.read("x", i64::from(n));
        thread::sleep(Duration::from_millis(2));
        database.execute("UPDATE counter SET n = $1", &[&(n + 1)])?;
        t.write("x", i64::from(n + 1));
        database.batch_execute("COMMIT")
    };
    match run() {
        Ok(()) => t.commit(),
        Err(error) if error.code() == Some(&postgres::error::SqlState::T_R_SERIALIZATION_FAILURE) => {
            database.batch_execute("ROLLBACK").expect("it rolls back");
            t.abort();
        }
        Err(error) => panic!("{error}"),
    }
}

/// The recorder of the library, in Rust.
#[test]
fn clients_of_postgresql_in_rust() {
    let Some(server) = started(Server::postgres()) else { return };
    let connect = || postgres::Client::connect(server.url(), postgres::NoTls).expect("a connection");
    connect().batch_execute("CREATE TABLE counter (n INT); INSERT INTO counter VALUES (0)").expect("a table");
    for (level, lost) in [("READ COMMITTED", true), ("SERIALIZABLE", false)] {
        connect().batch_execute("UPDATE counter SET n = 0").expect("it begins anew");
        let recorder = Recorder::with_clock();
        recorder.initial("x", 0);
        thread::scope(|scope| {
            for number in 0..2 {
                let (session, mut database) = (recorder.session(number), connect());
                scope.spawn(move || (0..20).for_each(|_| counted(&mut database, &session, level)));
            }
        });
        let history = recorder.history().expect("a history");
        let report = margay::check(&history, Level::SnapshotIsolation);
        assert_eq!((report.is_violated(), report.holds()), (lost, !lost), "{level}: {report}");
    }
}
