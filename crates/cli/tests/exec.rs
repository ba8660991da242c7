//! Drivers in other languages: those of `examples/drivers` on real databases, and such that
//! misbehave.

mod common;

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::{Run, margay};
use tempfile::TempDir;

/// Says that a test is skipped, unless the command runs.
fn runs(program: &str, args: &[&str], what: &str) -> bool {
    let runs = Command::new(program).args(args).output().is_ok_and(|output| output.status.success());
    if !runs {
        println!("SKIPPED: {what}");
    }
    runs
}

fn has_python() -> bool {
    runs("python3", &["--version"], "python3 is not installed")
}

/// Runs `margay run exec:COMMAND` with more arguments.
fn run(command: &str, args: &str) -> Run {
    let target = format!("exec:{command}");
    margay(["run", &target, "--no-report"].into_iter().chain(args.split_whitespace()))
}

fn verdict(command: &str, args: &str, status: i32) -> serde_json::Value {
    run(command, &format!("{args} --json")).expect(status).json()
}

fn loses_updates(told: &serde_json::Value) {
    let found = told["anomalies"].as_array().into_iter().flatten();
    let names: Vec<&str> = found.filter_map(|anomaly| anomaly["name"].as_str()).collect();
    assert!(names.contains(&"lost-update"), "{names:?}");
}

fn toy(folder: &Path, how: &str) -> String {
    format!("python3 examples/drivers/toy.py {}/toy.json {how}", folder.display())
}

/// The example of docs/EXEC.md: a driver of thirty lines, which loses updates, and its repair.
#[test]
fn a_toy_in_python_loses_updates_unless_it_is_careful() {
    if !has_python() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let lost = verdict(&toy(folder.path(), ""), "--workload increment --transactions 300", 1);
    assert_eq!((&lost["verdict"], &lost["level"]), (&"violated".into(), &"snapshot-isolation".into()));
    loses_updates(&lost);
    for workload in ["increment", "mixed"] {
        let args = format!("--workload {workload} --transactions 200");
        let kept = verdict(&toy(folder.path(), "careful"), &args, 0);
        assert_eq!(kept["verdict"], "holds", "{workload}: {kept}");
        assert!(kept["run"]["committed"].as_u64() > Some(100), "{kept}");
    }
}

#[test]
fn drivers_of_the_examples_do_what_the_specification_says() {
    if !has_python() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let sqlite = format!("python3 examples/drivers/sqlite.py {}/x.db", folder.path().display());
    for command in [toy(folder.path(), ""), sqlite.clone()] {
        let told = run(&command, "--check-driver").expect(0).stdout;
        assert_eq!(told.lines().filter(|line| line.starts_with("  ok: ")).count(), 13, "{told}");
    }
    for workload in ["mixed", "smallbank"] {
        let held = verdict(&sqlite, &format!("--workload {workload} --transactions 60 --clients 3"), 0);
        assert_eq!(held["verdict"], "holds", "{held}");
    }
}

#[test]
fn a_driver_in_javascript() {
    if !runs("node", &["--version"], "node is not installed") {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let command = format!("node examples/drivers/toy.js {}", folder.path().display());
    run(&command, "--check-driver").expect(0);
    assert_eq!(verdict(&command, "--transactions 60 --clients 3", 0)["verdict"], "holds");
}

/// A folder with the driver for JDBC, if Java and these files of the database are installed.
fn jdbc(jars: &[&str]) -> Option<TempDir> {
    let what = format!("Java or {} {CLIENTS}", jars.join(", "));
    if !runs("javac", &["-version"], &what) || !jars.iter().all(|jar| runs("test", &["-e", jar], &what)) {
        return None;
    }
    let folder = TempDir::new().expect("a folder");
    let class = ["-d", &folder.path().display().to_string(), "../../examples/drivers/Jdbc.java"];
    assert!(runs("javac", &class, "the driver does not compile"));
    Some(folder)
}

/// H2 calls it SERIALIZABLE, and documents that it is not.
#[test]
fn a_driver_for_jdbc_finds_the_write_skew_of_h2() {
    let jar = "/usr/share/java/h2.jar";
    let Some(folder) = jdbc(&[jar]) else { return };
    let place = folder.path().display();
    let url = format!("jdbc:h2:{place}/x;AUTO_SERVER=TRUE;MODE=MySQL");
    let command = format!("java -cp {jar}:{place} Jdbc h2 \"{url}\"");
    let args = "--workload write-skew --transactions 400 --clients 4";
    let skewed = verdict(&command, &format!("{args} --promises serializable"), 1);
    assert_eq!(skewed["verdict"], "violated", "{skewed}");
    let held = verdict(&command, &format!("{args} --promises snapshot-isolation"), 0);
    assert_eq!(held["verdict"], "holds", "{held}");
}

/// PostgreSQL by psycopg, at each of its levels.
#[test]
fn a_driver_for_psycopg() {
    let what = "psycopg is not installed: `./test clients` installs it";
    if !runs("python3", &["-c", "import psycopg"], what) {
        return;
    }
    let server = match margay_servers::Server::postgres() {
        Ok(server) => server,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let command = format!("python3 examples/drivers/postgres.py \"{}\"", server.url());
    run(&command, "--check-driver").expect(0);
    for level in ["SERIALIZABLE", "READ-COMMITTED"] {
        for workload in ["mixed", "smallbank"] {
            let args = format!("--level {level} --workload {workload} --transactions 150 --clients 4");
            let held = verdict(&command, &args, 0);
            assert_eq!(held["verdict"], "holds", "{level} {workload}: {held}");
        }
    }
}

/// A server that ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server, and waits until it listens on a port, which stands in its arguments as `PORT`.
fn start(program: &str, args: &[&str]) -> (Started, u16) {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free.expect("a port").port();
    let args = args.iter().map(|arg| arg.replace("PORT", &port.to_string()));
    let quiet = || std::process::Stdio::null();
    let child = Command::new(program).args(args).stdout(quiet()).stderr(quiet()).spawn();
    let server = Started(child.unwrap_or_else(|error| panic!("{program}: {error}")));
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "{program} does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    (server, port)
}

const CLIENTS: &str = "is not installed: `./test clients` installs it";

/// A driver does what the specification says, and its database keeps its promise.
fn keeps_its_promise(command: &str, more: &str) {
    run(command, "--check-driver").expect(0);
    for workload in ["mixed", "increment", "write-skew"] {
        let args = format!("--workload {workload} --transactions 90 --clients 4 {more}");
        let held = verdict(command, &args, 0);
        assert_eq!(held["verdict"], "holds", "{workload}: {held}");
    }
}

#[test]
fn redis_is_serializable_if_reads_are_watched() {
    let python = ["-c", "import redis"];
    if !runs("redis-server", &["--version"], &format!("redis-server {CLIENTS}"))
        || !runs("python3", &python, &format!("redis-py {CLIENTS}"))
    {
        return;
    }
    let (_server, port) =
        start("redis-server", &["--port", "PORT", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let command = format!("python3 examples/drivers/redis_watch.py {port}");
    keeps_its_promise(&command, "");
    let lost = verdict(&format!("{command} careless"), "--workload increment --transactions 300", 1);
    loses_updates(&lost);
}

#[test]
fn etcd_is_serializable_if_commits_compare() {
    if !has_python() || !runs("etcd", &["--version"], &format!("etcd {CLIENTS}")) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().display().to_string();
    let (url, peer) = ("http://127.0.0.1:PORT", "http://127.0.0.1:0");
    let args = [
        ["--data-dir", &data],
        ["--listen-client-urls", url],
        ["--advertise-client-urls", url],
        ["--listen-peer-urls", peer],
        ["--log-level", "error"],
    ];
    let (_server, port) = start("etcd", &args.concat());
    keeps_its_promise(&format!("python3 examples/drivers/etcd.py {port}"), "");
}

#[test]
fn lmdb_has_one_writer() {
    if !runs("python3", &["-c", "import lmdb"], &format!("Python's lmdb {CLIENTS}")) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let place = folder.path().display();
    keeps_its_promise(&format!("python3 examples/drivers/lmdb_one_writer.py {place}/x.lmdb"), "");
}

#[test]
fn hsqldb_has_snapshots() {
    let jar = "/usr/share/java/hsqldb.jar";
    let Some(folder) = jdbc(&[jar]) else { return };
    let place = folder.path().display();
    let database = "mem:x;hsqldb.tx=mvcc;sql.syntax_mys=true;user=sa";
    let args = format!(
        "-cp {jar} org.hsqldb.server.Server --database.0 {database} --dbname.0 x --port PORT \
         --address 127.0.0.1 --silent true"
    );
    let (_server, port) = start("java", &args.split_whitespace().collect::<Vec<_>>());
    let url = format!("jdbc:hsqldb:hsql://127.0.0.1:{port}/x");
    keeps_its_promise(
        &format!("java -cp {jar}:{place} Jdbc hsqldb \"{url}\""),
        "--promises snapshot-isolation",
    );
}

/// Derby knows no upsert that a workload in SQL could use, so it keeps keys and values.
#[test]
fn derby_locks_what_it_reads() {
    let [server, net, client] =
        ["derby", "derbynet", "derbyclient"].map(|name| format!("/usr/share/java/{name}.jar"));
    let Some(folder) = jdbc(&[&server, &net, &client]) else { return };
    let place = folder.path().display();
    let args = format!(
        "-Dderby.system.home={place} -Dderby.locks.deadlockTimeout=1 -Dderby.locks.waitTimeout=2 \
         -cp {server}:{net} org.apache.derby.drda.NetworkServerControl start -h 127.0.0.1 -p PORT \
         -noSecurityManager"
    );
    let (_server, port) = start("java", &args.split_whitespace().collect::<Vec<_>>());
    let url = format!("jdbc:derby://127.0.0.1:{port}/x;create=true");
    keeps_its_promise(
        &format!("java -cp {client}:{place} Jdbc derby \"{url}\" keys"),
        "--promises serializable",
    );
}

/// A root of Firebird's own, with a configuration that lets several processes share a file without
/// a server.
fn firebird_root(folder: &Path) -> bool {
    let installed = Path::new("/usr/lib/x86_64-linux-gnu/firebird/3.0");
    let Ok(parts) = std::fs::read_dir(installed) else { return false };
    for part in parts.flatten().filter(|part| part.file_name() != "firebird.conf") {
        std::os::unix::fs::symlink(part.path(), folder.join(part.file_name())).expect("a link");
    }
    std::fs::write(folder.join("firebird.conf"), "ServerMode = Classic\nProviders = Engine12\n").is_ok()
}

/// Firebird 3 keeps what its three levels promise, and its snapshots allow write skew.
#[test]
fn firebird_keeps_its_promises() {
    let what = format!("firebird-driver {CLIENTS}");
    let folder = TempDir::new().expect("a folder");
    if !runs("python3", &["-c", "import firebird.driver"], &what) || !firebird_root(folder.path()) {
        return println!("SKIPPED: Firebird 3.0 {CLIENTS}");
    }
    let place = folder.path().display();
    let settings = format!("env FIREBIRD={place} FIREBIRD_LOCK={place} FIREBIRD_TMP={place}");
    let command = format!("{settings} python3 examples/drivers/firebird_pairs.py {place}/x.fdb");
    keeps_its_promise(&command, "--level SNAPSHOT");
    for (level, workload) in [("table-stability", "mixed"), ("read-committed", "rw-register")] {
        let args = format!("--level {level} --workload {workload} --transactions 60 --clients 3");
        assert_eq!(verdict(&command, &args, 0)["verdict"], "holds", "{level}");
    }
    let args = "--level SNAPSHOT --workload write-skew --transactions 400 --clients 4 --claim serializable";
    assert_eq!(verdict(&command, args, 1)["verdict"], "violated");
}

/// OceanBase's seekdb comes as a Python package and speaks MySQL's protocol. Its counts of updates
/// are of rows that changed, as MySQL's: taken as rows that were found, they made Margay accuse it
/// of losing rows.
#[test]
fn seekdb_keeps_its_promises() {
    if !runs("python3", &["-c", "import pylibseekdb"], &format!("pylibseekdb {CLIENTS}")) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let place = folder.path().display();
    let program = format!(
        "import pylibseekdb as s; db = s.open('{place}/db'); \
         print(s.connection_options()['unix_socket'], flush=True); input()"
    );
    let (piped, quiet) = (std::process::Stdio::piped, std::process::Stdio::null);
    let child = Command::new("python3")
        .args(["-c", &program])
        .current_dir(folder.path())
        .stdin(piped())
        .stdout(piped())
        .stderr(quiet())
        .spawn();
    let mut server = Started(child.expect("python3"));
    let mut socket = String::new();
    let mut told = std::io::BufReader::new(server.0.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut told, &mut socket).expect("the name of a socket");
    let target = format!("mysql://root@localhost/test?socket={}", socket.trim());
    for level in ["read-committed", "repeatable-read"] {
        for workload in ["mixed", "smallbank"] {
            let args = ["run", &target, "--level", level, "--workload", workload, "--transactions", "200"];
            let held =
                margay(args.into_iter().chain(["--clients", "4", "--no-report", "--json"])).expect(0).json();
            assert_eq!(held["verdict"], "holds", "{level} {workload}: {held}");
            assert!(
                held["run"]["dbms"].as_str().is_some_and(|name| name.starts_with("oceanbase seekdb")),
                "{held}"
            );
        }
    }
}

#[test]
fn a_toy_in_go_keeps_its_promise() {
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("toy").display().to_string();
    if runs("go", &["version"], &format!("go {CLIENTS}")) {
        let built = ["build", "-o", &program, "../../examples/drivers/toy.go"];
        assert!(runs("go", &built, "the driver does not compile"));
        keeps_its_promise(&format!("{program} {program}-data"), "");
    }
}

/// A careful toy, until each of its processes has answered so many requests: then it does something
/// else.
fn broken(folder: &Path, then: &str) -> String {
    let toy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/drivers/toy.py");
    let text = format!(
        "import time\nexec(open({toy:?}).read().split('for line in')[0])\ncareful = True\n\
         for number, line in enumerate(sys.stdin):\n    if number > 150:\n        {then}\n    \
         print(json.dumps(answer(json.loads(line))), flush=True)\n"
    );
    let path = folder.join("broken.py");
    std::fs::write(&path, text).expect("a file");
    format!("python3 {} {}/toy.json", path.display(), folder.display())
}

#[test]
fn what_breaks_the_protocol_is_an_error_and_no_verdict() {
    if !has_python() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let cases = [
        ("print('what?', flush=True); continue", "no JSON object"),
        ("print('[1]', flush=True); continue", "no JSON object"),
        // To a write it would be out of step, as below.
        (
            "if '\"read\"' in line: print('{\"value\": 7}', flush=True); continue",
            "where the `value` that was written",
        ),
        ("print('{\"failed\": \"no such table\"}', flush=True); continue", "no such table"),
        // One answer too many: from then on, each goes to the request after its own.
        ("if '\"write\"' in line: print('{\"value\": \"7\"}', flush=True)", "out of step"),
    ];
    for (then, why) in cases {
        let refused =
            run(&broken(folder.path(), then), "--workload rw-register --transactions 400").expect(2);
        assert!(refused.stderr.contains(why), "{then}: {}", refused.stderr);
    }
}

/// Firebird at READ COMMITTED was accused of a dirty write: a store of keys appends by a read and a
/// write, between which others write, as that level allows.
#[test]
fn a_store_that_may_lose_updates_runs_no_appends() {
    if !has_python() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let weak = format!("{} | sed -u s/snapshot-isolation/read-committed/", toy(folder.path(), ""));
    for workload in ["list-append", "mixed", "emme-predicate"] {
        let refused = run(&weak, &format!("--workload {workload} --transactions 60")).expect(2);
        assert!(refused.stderr.contains("updates may get lost at SNAPSHOT"), "{}", refused.stderr);
    }
    assert_eq!(verdict(&weak, "--workload increment --transactions 60", 0)["verdict"], "holds");
}

/// Lists that grow long make room for others, and an earlier run's were in the way of the next:
/// etcd was accused of values that nobody wrote.
#[test]
fn what_an_earlier_run_has_left_is_not_seen() {
    if !has_python() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let careful = toy(folder.path(), "careful");
    for seed in [1, 2] {
        let args = format!("--workload list-append --transactions 400 --clients 3 --seed {seed}");
        assert_eq!(verdict(&careful, &args, 0)["verdict"], "holds");
    }
    let left = std::fs::read_to_string(folder.path().join("toy.json")).expect("the store");
    let left: serde_json::Value = serde_json::from_str(&left).expect("a JSON object");
    let mut kept = left.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    assert!(kept.all(|(key, _)| key.starts_with("margay/n/")), "all that a run writes is removed: {left}");
}

/// A process that ends is started again, and one that does not answer is given up: connections were
/// lost, no more.
#[test]
fn a_driver_that_ends_or_says_nothing_is_a_lost_connection() {
    if !has_python() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    for (then, more) in [("sys.exit(7)", ""), ("time.sleep(60)", "--statement-timeout 300ms")] {
        let args = format!("--workload increment --transactions 300 --clients 3 --json {more}");
        let told = run(&broken(folder.path(), then), &args);
        assert_ne!(told.status, 2, "{then}: {}", told.stderr);
        let json = told.json();
        assert_ne!(json["verdict"], "violated", "{then}: {json}");
        assert!(json["run"]["lost_connections"].as_u64() > Some(0), "{then}: {json}");
    }
}

#[test]
fn who_promises_nothing_is_asked_to() {
    let hello = "echo '{\"name\": \"silent\", \"levels\": [\"FINE\"]}'";
    for (command, args, why) in [
        (hello, "", "--promises LEVEL"),
        ("true", "", "has ended"),
        ("no-such-program-at-all", "--check-driver", "has ended"),
        ("echo hello", "--promises serializable", "no JSON object"),
        ("echo '{}'", "", "no `name`"),
        ("echo '{\"name\": \"x\", \"speaks\": \"latin\"}'", "", "`keys` or `sql`"),
        ("echo '{\"name\": \"x\", \"promises\": [\"much\"]}'", "", "much"),
    ] {
        let refused = run(command, args).expect(2);
        assert!(refused.stderr.contains(why), "{command}: {}", refused.stderr);
    }
    let refused = margay(["run", "sqlite", "--promises", "serializable"]).expect(2);
    assert!(refused.stderr.contains("exec:"), "{}", refused.stderr);
}
