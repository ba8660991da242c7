//! Private database servers of the installed binaries: started in a temporary folder on a free loopback port, and stopped and removed with
//! their handle, also when the owner panics.
//!
//! # Invariants
//! - Nothing that belongs to the machine's own servers is read or touched: own folder, own port, no configuration files.
//! - Servers refuse to run as root; as root they run as their own user, or as `nobody`.
//! - What a server acknowledged is with the operating system, so it outlives the server's death, but not the machine's: nothing is synced to a disk.
//! - A server is a process group of its own: an interrupt of the terminal does not reach it.
//! - A signal reaches the server and all its descendants. PostgreSQL's are sessions of their own, so its process group is not enough.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server.
#[derive(Debug)]
pub struct Server {
    command: Command,
    child: Child,
    folder: PathBuf,
    url: String,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

/// The user and group that servers run as, if not our own.
type User = Option<(u32, u32)>;

impl Server {
    /// PostgreSQL with the C collation and the superuser `margay`, ready for logical decoding.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn postgres() -> Result<Server, String> {
        Self::postgres_with(&[])
    }

    /// The same with settings of one's own: `name=value`.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn postgres_with(settings: &[&str]) -> Result<Server, String> {
        let bin = folder_of("initdb", "postgres", &debian_folders("/usr/lib/postgresql"))?;
        let user = user("postgres")?;
        let folder = temporary("postgres", user)?;
        let data = folder.join("data");
        let mut init = Command::new(bin.join("initdb"));
        init.arg("-D").arg(&data).args(["-U", "margay", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]);
        finish(init, user, &folder)?;
        let port = free_port()?;
        let mut server = Command::new(bin.join("postgres"));
        server.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-k", "", "-F", "-p", &port.to_string()]);
        server.args(["-c", "wal_level=logical", "-c", "track_commit_timestamp=on"]);
        // Deadlocks are what workloads run into all the time; a second is long.
        server.args(["-c", "deadlock_timeout=100ms"]);
        settings.iter().for_each(|setting| _ = server.args(["-c", setting]));
        start(server, user, folder, port, format!("postgres://margay@127.0.0.1:{port}/postgres"))
    }

    /// MariaDB with the collation utf8mb4_general_ci, the user `root` without password, and a binary log of rows.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn mariadb() -> Result<Server, String> {
        let bin = folder_of("mariadbd", "mariadbd", &[PathBuf::from("/usr/sbin")])?;
        let install = folder_of("mariadb-install-db", "mariadb-install-db", &[PathBuf::from("/usr/bin")])?;
        let user = user("mysql")?;
        let folder = temporary("mariadb", user)?;
        let data = format!("--datadir={}", folder.join("data").display());
        let mut init = Command::new(install.join("mariadb-install-db"));
        init.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
        finish(init, user, &folder)?;
        let port = free_port()?;
        let mut server = Command::new(bin.join("mariadbd"));
        let socket = format!("--socket={}", folder.join("socket").display());
        server.args(["--no-defaults", &data, &socket, "--bind-address=127.0.0.1", &format!("--port={port}")]);
        server.args(["--skip-grant-tables", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2"]);
        server.args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"]);
        server.args(["--log-bin=log", "--server-id=1", "--binlog-format=ROW", "--binlog-row-image=FULL"]);
        start(server, user, folder, port, format!("mysql://root@127.0.0.1:{port}/mysql"))
    }

    /// Where clients connect.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills the server and all its children, without a warning.
    pub fn kill(&mut self) {
        self.signal("KILL");
        let _ = self.child.wait();
    }

    /// Starts the server again after [`Server::kill`], on what it left behind.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            self.child = self.command.spawn().map_err(|error| error.to_string())?;
            match self.listens() {
                // The children of a server that was killed outlive it for a moment, and hold what it shared with them.
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(250)),
                result => return result,
            }
        }
    }

    /// Stops the server and all its children where they are.
    pub fn pause(&mut self) {
        self.signal("STOP");
    }

    /// Lets them go on.
    pub fn resume(&mut self) {
        self.signal("CONT");
    }

    /// Sends a signal to the server and all its descendants. The server stops first: what it does not start any more needs no signal.
    fn signal(&mut self, name: &str) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            // It has ended, and its number may be another's.
            return;
        }
        let root = self.child.id();
        signal("STOP", &[root]);
        signal(name, &family(root));
    }

    /// Waits until it listens.
    fn listens(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(8)..].join("\n");
                return Err(format!("the server ended at once: {status} {last}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the server does not listen".into())
    }
}

fn signal(name: &str, processes: &[u32]) {
    let processes = processes.iter().map(u32::to_string);
    let _ = Command::new("kill").args(["-s", name]).args(processes).stderr(Stdio::null()).status();
}

/// A process and its descendants, each after its parent.
fn family(root: u32) -> Vec<u32> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let parents: Vec<(u32, u32)> = listed
        .lines()
        .filter_map(|line| line.trim().split_once(char::is_whitespace))
        .filter_map(|(process, parent)| Some((process.parse().ok()?, parent.trim().parse().ok()?)))
        .collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| process));
        next += 1;
    }
    family
}

impl Drop for Server {
    fn drop(&mut self) {
        // An immediate shutdown lets PostgreSQL's processes end together; a kill is for what does not listen.
        self.resume();
        let _ = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The folder that holds both programs: one of PATH, or one of the usual ones.
fn folder_of(first: &str, second: &str, usual: &[PathBuf]) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = usual.iter().cloned().chain(std::env::split_paths(&path));
    let has = |folder: &PathBuf| folder.join(first).is_file() && folder.join(second).is_file();
    folders.into_iter().find(has).ok_or_else(|| format!("{first} is not installed"))
}

fn debian_folders(root: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().join("bin")).collect()
}

/// The named user, or `nobody`, if we are root.
fn user(name: &str) -> Result<User, String> {
    let root = fs::metadata("/proc/self").map_err(|error| error.to_string())?.uid() == 0;
    if !root {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    let find = |name: &str| {
        let fields: Vec<&str> =
            passwd.lines().find(|line| line.starts_with(&format!("{name}:")))?.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    let found = find(name).or_else(|| find("nobody"));
    found.map(Some).ok_or_else(|| format!("no user {name} to run the server as"))
}

fn temporary(name: &str, user: User) -> Result<PathBuf, String> {
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let folder = std::env::temp_dir().join(format!("margay-{name}-{}-{nanos}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    if let Some((uid, gid)) = user {
        chown(&folder, Some(uid), Some(gid)).map_err(|error| error.to_string())?;
    }
    Ok(folder)
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

fn prepare(command: &mut Command, user: User, folder: &Path) -> Result<(), String> {
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log"));
    let log = log.map_err(|error| error.to_string())?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .current_dir(folder)
        .env("HOME", folder)
        .env("TMPDIR", folder);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    Ok(())
}

/// Runs a program to its end; removes the folder if it fails.
fn finish(mut command: Command, user: User, folder: &Path) -> Result<(), String> {
    let ran = prepare(&mut command, user, folder)
        .and_then(|()| command.status().map_err(|error| error.to_string()));
    match ran {
        Ok(status) if status.success() => Ok(()),
        other => {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            let _ = fs::remove_dir_all(folder);
            Err(format!("setting up the server failed: {other:?} {log}"))
        }
    }
}

fn start(
    mut command: Command,
    user: User,
    folder: PathBuf,
    port: u16,
    url: String,
) -> Result<Server, String> {
    prepare(&mut command, user, &folder)?;
    command.process_group(0);
    let child = command.spawn().map_err(|error| error.to_string())?;
    let mut server = Server { command, child, folder, url, port };
    server.listens().map(|()| server)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How `ps` describes the state of each process: `T` is stopped.
    fn states(processes: &[u32]) -> Vec<String> {
        let list = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let output = Command::new("ps").args(["-o", "stat=", "-p", &list]).output().expect("ps runs");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// A regression: signals went to the process group, in which PostgreSQL's children are not, so a paused PostgreSQL went on to answer.
    #[test]
    fn signals_reach_children_that_are_sessions_of_their_own() {
        let mut server = match Server::postgres() {
            Ok(server) => server,
            Err(why) => return println!("SKIPPED: {why}"),
        };
        let processes = family(server.child.id());
        assert!(processes.len() > 3, "{processes:?}");
        server.pause();
        let paused = states(&processes);
        server.resume();
        assert!(paused.iter().all(|state| state.starts_with('T')), "{paused:?}");
        assert!(!states(&processes).iter().any(|state| state.starts_with('T')));
        server.kill();
        let gone = |state: &String| state.starts_with('Z');
        let deadline = Instant::now() + Duration::from_secs(10);
        while !states(&processes).iter().all(gone) {
            assert!(Instant::now() < deadline, "{:?}", states(&processes));
            std::thread::sleep(Duration::from_millis(10));
        }
        server.restart().expect("it starts again");
    }
}
