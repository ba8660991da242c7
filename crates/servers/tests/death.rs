//! Servers whose owner is killed.
//!
//! A regression: a killed run left its server running, with a superuser that everybody on the
//! machine could use without a password.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use margay_servers::{Server, started};

/// Says to a test, started once more, which server to start before it waits to be killed.
const OWNS: &str = "MARGAY_OWNS";

/// What a process that owns a server tells of it.
struct Owner {
    process: Child,
    port: u16,
    parent: PathBuf,
}

fn start(kind: &str) -> Result<Server, String> {
    match kind {
        "postgres" => Server::postgres(),
        _ => Server::mariadb(),
    }
}

/// Starts a server in another process, with a temporary folder of its own.
fn owner(test: &str, kind: &str, parent: &Path) -> Owner {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", test, "--nocapture"]).env(OWNS, kind).env("TMPDIR", parent);
    command.stdout(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
    let port = lines.map_while(Result::ok).find_map(|line| line.split_once("port ")?.1.trim().parse().ok());
    Owner { process, port: port.expect("a server"), parent: parent.to_owned() }
}

impl Owner {
    fn kill(&mut self) {
        self.process.kill().expect("it is killed");
        self.process.wait().expect("it is dead");
    }

    fn listens(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    /// The server's folder, if there is one.
    fn folders(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.parent).expect("the folder").flatten().map(|entry| entry.path()).collect()
    }

    /// The shell that watches.
    fn watchdog(&self) -> u32 {
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let processes = fs::read_dir("/proc").expect("processes").flatten().filter_map(number);
        let parent = format!(" {} ", self.process.id());
        let is_watchdog = |process: &u32| {
            let read = |name| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
            read("comm").trim_end() == "sh" && read("stat").contains(&parent)
        };
        processes.into_iter().find(is_watchdog).expect("a watchdog")
    }
}

/// If this process is to own a server, it does until it is killed.
fn own_if_told() {
    if let Ok(kind) = std::env::var(OWNS) {
        let server = start(&kind).expect("a server");
        println!("port {}", server.port);
        thread::sleep(Duration::from_secs(600));
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} does not happen");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A temporary folder that servers, which run as another user, can look into.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner");
    folder
}

#[test]
fn a_server_dies_with_its_owner() {
    own_if_told();
    for kind in ["postgres", "mariadb"] {
        let Some(installed) = started(start(kind)) else { continue };
        drop(installed);
        let folder = folder();
        let mut owner = owner("a_server_dies_with_its_owner", kind, folder.path());
        assert!(owner.listens(), "{kind}");
        let mode = fs::metadata(&owner.folders()[0]).expect("its folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{kind}");
        owner.kill();
        wait_until("the end of the server and its folder", || !owner.listens() && owner.folders().is_empty());
    }
}

/// Who kills everything kills the watchdog too. The next server that is started finds what is left.
#[test]
fn what_is_left_is_swept() {
    own_if_told();
    let Some(installed) = started(Server::postgres()) else { return };
    drop(installed);
    let (folder, test) = (folder(), "what_is_left_is_swept");
    let mut first = owner(test, "postgres", folder.path());
    let killed = Command::new("kill").args(["-s", "KILL", &first.watchdog().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    first.kill();
    let mut second = owner(test, "postgres", folder.path());
    assert!(!first.listens() && second.listens());
    assert_eq!(second.folders().len(), 1, "{:?}", second.folders());
    // A folder whose owner is alive stays.
    let mut third = owner(test, "postgres", folder.path());
    assert!(second.listens() && third.listens() && third.folders().len() == 2);
    second.kill();
    third.kill();
    wait_until("the end of both", || third.folders().is_empty());
}
