//! Private database servers of the installed binaries: started in a temporary folder on a free
//! loopback port, and stopped and removed with their handle, also when the owner panics or is
//! killed.
//!
//! # Invariants
//! - Only who knows the random password in [`Server::url`] can use a server; only its user can look
//!   into its folder.
//! - Nothing that belongs to the machine's own servers is read or touched: own folder, own port, no
//!   configuration files.
//! - Servers refuse to run as root; as root they run as their own user, or as `nobody`.
//! - What a server acknowledged is with the operating system, so it outlives the server's death,
//!   but not the machine's: nothing is synced to a disk.
//! - A server is a process group of its own: an interrupt of the terminal does not reach it.
//! - A signal reaches the server and all its descendants. PostgreSQL's are sessions of their own,
//!   so its process group is not enough. Who pauses a server finds it paused, and who kills it
//!   finds all of them gone.
//! - A server is ready when its own process says so. That somebody answers on its port says little:
//!   it may be another's, or not ready yet.

mod certificates;
mod home;
mod processes;
mod version;

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use certificates::{Authority, Certificate};
use home::{Home, random};
pub use version::folder_of_version;

/// Ports that no system gives to outgoing connections by itself: one of those might be open by the
/// time that a server wants it.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How often a server that ends at once is started on another port.
const TRIES: u32 = 5;

/// How long a server may take to be ready, and how long one that was killed may take to come back.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
#[derive(Debug)]
pub struct Server {
    dbms: Dbms,
    user: User,
    command: Command,
    child: Child,
    home: Home,
    password: String,
    url: String,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

/// The user and group that servers run as, if not our own.
type User = Option<(u32, u32)>;

/// Which server, and where its programs are.
#[derive(Clone, Debug)]
enum Dbms {
    Postgres { bin: PathBuf, settings: Vec<String> },
    Mariadb { bin: PathBuf, settings: Vec<String> },
    Mysql { bin: PathBuf },
}

/// Names the folder in which programs are looked for when nobody names another.
const BINARIES: &str = "MARGAY_BINARIES";

/// The folder that somebody gave, or the usual one. Programs run in folders of their own, so it is
/// absolute.
fn place(folder: Option<&Path>) -> Option<PathBuf> {
    folder.map(|given| std::path::absolute(given).unwrap_or_else(|_| given.to_owned())).or_else(binaries)
}

fn binaries() -> Option<PathBuf> {
    std::env::var_os(BINARIES).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

impl Server {
    /// PostgreSQL with the C collation and the superuser `margay`, ready for logical decoding.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn postgres() -> Result<Server, String> {
        Self::postgres_with(&[])
    }

    /// The same, of the programs in this folder, or in the one that `MARGAY_BINARIES` names, or of
    /// the installed ones.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn postgres_in(folder: Option<&Path>) -> Result<Server, String> {
        let folder = place(folder);
        New::postgres(folder.as_deref())?.start(|bin| Dbms::Postgres { bin, settings: Vec::new() })
    }

    /// The same with settings of one's own: `name=value`.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn postgres_with(settings: &[&str]) -> Result<Server, String> {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        New::postgres(binaries().as_deref())?.start(|bin| Dbms::Postgres { bin, settings })
    }

    /// The same with a certificate. It takes no connection that is not encrypted.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn postgres_encrypted(certificate: &Certificate) -> Result<Server, String> {
        let new = New::postgres(binaries().as_deref())?;
        let [file, key] = certificate.write(&new.home)?;
        let only = fs::write(new.home.folder.join("data/pg_hba.conf"), "hostssl all all all scram-sha-256\n");
        only.map_err(|error| error.to_string())?;
        let settings =
            vec!["ssl=on".to_owned(), format!("ssl_cert_file={file}"), format!("ssl_key_file={key}")];
        new.start(|bin| Dbms::Postgres { bin, settings })
    }

    /// MariaDB with the collation utf8mb4_general_ci, the superuser `root`, and a binary log of
    /// rows.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn mariadb() -> Result<Server, String> {
        Self::mariadb_in(None)
    }

    /// The same, of the programs in this folder, as [`Server::postgres_in`].
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn mariadb_in(folder: Option<&Path>) -> Result<Server, String> {
        let folder = place(folder);
        New::mariadb(folder.as_deref())?.start(|bin| Dbms::Mariadb { bin, settings: Vec::new() })
    }

    /// MySQL with the collation utf8mb4_general_ci, the superuser `root`, and its binary log, of
    /// the programs in this folder, as [`Server::postgres_in`].
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn mysql_in(folder: Option<&Path>) -> Result<Server, String> {
        let folder = place(folder);
        New::mysql(folder.as_deref())?.start(|bin| Dbms::Mysql { bin })
    }

    /// The same with a certificate. It takes connections with and without encryption.
    ///
    /// # Errors
    /// When there is none, and why.
    pub fn mariadb_encrypted(certificate: &Certificate) -> Result<Server, String> {
        let new = New::mariadb(binaries().as_deref())?;
        let [file, key] = certificate.write(&new.home)?;
        let settings = vec![format!("--ssl-cert={file}"), format!("--ssl-key={key}")];
        new.start(|bin| Dbms::Mariadb { bin, settings })
    }

    /// Waits until it is ready; if it ends, it is started on other ports.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 1..TRIES {
            match self.listens() {
                Err(_) if !matches!(self.child.try_wait(), Ok(None)) => {}
                result => return result,
            }
            self.port = free_port()?;
            self.url = self.dbms.url(&self.password, self.port);
            self.command = self.dbms.command(self.user, &self.home.folder, self.port)?;
            self.child = self.command.spawn().map_err(|error| error.to_string())?;
        }
        self.listens()
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
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.child = self.command.spawn().map_err(|error| error.to_string())?;
            match self.listens() {
                // What it held may take a moment to be free.
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

    /// Sends a signal to the server and all its descendants. The server stops first: what it does
    /// not start any more needs no signal.
    fn signal(&mut self, name: &str) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            // It has ended, and its number may be another's.
            return;
        }
        let root = self.child.id();
        processes::stop(&[root]);
        let family = processes::family(root);
        match name {
            "STOP" => processes::stop(&family),
            "KILL" => processes::kill(&family),
            _ => processes::signal(name, &family),
        }
    }

    /// Waits until it takes connections.
    fn listens(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.dbms.is_ready(&self.home.folder, self.child.id()) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = fs::read_to_string(self.home.folder.join("log")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(8)..].join("\n");
                return Err(format!("the server ended at once: {status} {last}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the server does not listen".into())
    }
}

/// What is set up in a folder, but not started yet.
struct New {
    bin: PathBuf,
    user: User,
    home: Home,
    password: String,
}

impl New {
    fn postgres(root: Option<&Path>) -> Result<Self, String> {
        let bin = folder_of("initdb", "postgres", &debian_folders("/usr/lib/postgresql"), root)?;
        let user = user("postgres")?;
        let (home, password) = (Home::new("postgres", user)?, random()?);
        let secret = home.write("password", &password)?;
        let mut init = Command::new(bin.join("initdb"));
        init.arg("-D").arg(home.folder.join("data")).args(["-U", "margay", "-E", "UTF8", "--locale=C", "-N"]);
        init.args(["-A", "scram-sha-256"]).arg(format!("--pwfile={}", secret.display()));
        finish(init, user, &home.folder)?;
        Ok(Self { bin, user, home, password })
    }

    fn mariadb(root: Option<&Path>) -> Result<Self, String> {
        let bin = folder_of("mariadbd", "mariadbd", &[PathBuf::from("/usr/sbin")], root)?;
        let script = "mariadb-install-db";
        let install = folder_of(script, script, &[PathBuf::from("/usr/bin")], root)?;
        let user = user("mysql")?;
        let (home, password) = (Home::new("mariadb", user)?, random()?);
        let data = format!("--datadir={}", home.folder.join("data").display());
        let mut init = Command::new(install.join("mariadb-install-db"));
        init.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
        init.arg(base(&bin));
        finish(init, user, &home.folder)?;
        home.write(ACCOUNTS, &accounts(&password))?;
        Ok(Self { bin, user, home, password })
    }

    fn mysql(root: Option<&Path>) -> Result<Self, String> {
        let bin = folder_of("mysqld", "mysqld", &[PathBuf::from("/usr/sbin")], root)?;
        let version = Command::new(bin.join("mysqld")).arg("--version").output();
        let version = version.map_err(|error| format!("mysqld: {error}"))?;
        if String::from_utf8_lossy(&version.stdout).contains("MariaDB") {
            return Err("MySQL is not installed: the mysqld that is there is MariaDB's".to_owned());
        }
        let user = user("mysql")?;
        let (home, password) = (Home::new("mysql", user)?, random()?);
        let data = format!("--datadir={}", home.folder.join("data").display());
        let mut init = Command::new(bin.join("mysqld"));
        init.args(["--no-defaults", "--initialize-insecure", &data, &base(&bin)]);
        finish(init, user, &home.folder)?;
        home.write(ACCOUNTS, &mysql_accounts(&password))?;
        Ok(Self { bin, user, home, password })
    }

    /// Starts a server on what is set up. Between when a port was found to be free and when the
    /// server takes it somebody else may have.
    fn start(self, dbms: impl FnOnce(PathBuf) -> Dbms) -> Result<Server, String> {
        let Self { bin, user, home, password } = self;
        let (dbms, port) = (dbms(bin), free_port()?);
        let mut command = dbms.command(user, &home.folder, port)?;
        let child = command.spawn().map_err(|error| error.to_string())?;
        let url = dbms.url(&password, port);
        let mut server = Server { dbms, user, command, child, home, password, url, port };
        server.settle().map(|()| server)
    }
}

/// The file that MariaDB executes before it takes connections.
const ACCOUNTS: &str = "accounts.sql";

/// Leaves one account. The server is started more than once, so all of it can be done again.
fn accounts(password: &str) -> String {
    format!(
        "SET sql_log_bin = 0;\n\
         DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys';\n\
         FLUSH PRIVILEGES;\n\
         CREATE USER root@'%' IDENTIFIED BY '{password}';\n\
         GRANT ALL PRIVILEGES ON *.* TO root@'%' WITH GRANT OPTION;\n"
    )
}

/// The same for MySQL, whose table of accounts is another.
fn mysql_accounts(password: &str) -> String {
    format!(
        "SET sql_log_bin = 0;\n\
         CREATE USER IF NOT EXISTS root@'%' IDENTIFIED BY '{password}';\n\
         GRANT ALL PRIVILEGES ON *.* TO root@'%' WITH GRANT OPTION;\n\
         DROP USER IF EXISTS root@localhost;\n"
    )
}

/// Where a server's other files are, given the folder of its program: `usr` for `usr/sbin`.
fn base(bin: &Path) -> String {
    format!("--basedir={}", bin.parent().unwrap_or(bin).display())
}

impl Certificate {
    /// Writes both into a server's folder, where nobody else reads the key; answers where.
    fn write(&self, home: &Home) -> Result<[String; 2], String> {
        let write = |name, text| home.write(name, text).map(|file| file.display().to_string());
        Ok([write("server.pem", &self.certificate)?, write("server.key", &self.key)?])
    }
}

impl Dbms {
    fn url(&self, password: &str, port: u16) -> String {
        match self {
            Dbms::Postgres { .. } => format!("postgres://margay:{password}@127.0.0.1:{port}/postgres"),
            Dbms::Mariadb { .. } | Dbms::Mysql { .. } => {
                format!("mysql://root:{password}@127.0.0.1:{port}/mysql")
            }
        }
    }

    /// What starts the server on a port.
    fn command(&self, user: User, folder: &Path, port: u16) -> Result<Command, String> {
        let mut command = match self {
            Dbms::Postgres { bin, settings } => postgres(bin, settings, folder, port),
            Dbms::Mariadb { bin, settings } => mariadb(bin, settings, folder, port),
            Dbms::Mysql { bin } => mysql(bin, folder, port),
        };
        prepare(&mut command, user, folder)?;
        command.process_group(0);
        Ok(command)
    }

    /// Whether the server with this number takes connections. PostgreSQL writes that into its file;
    /// the others open their sockets.
    fn is_ready(&self, folder: &Path, process: u32) -> bool {
        match self {
            Dbms::Postgres { .. } => {
                let told = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
                let lines: Vec<&str> = told.lines().map(str::trim).collect();
                lines.first() == Some(&process.to_string().as_str()) && lines.get(7) == Some(&"ready")
            }
            Dbms::Mariadb { .. } | Dbms::Mysql { .. } => UnixStream::connect(folder.join("socket")).is_ok(),
        }
    }
}

fn postgres(bin: &Path, settings: &[String], folder: &Path, port: u16) -> Command {
    let mut server = Command::new(bin.join("postgres"));
    server.arg("-D").arg(folder.join("data"));
    server.args(["-h", "127.0.0.1", "-k", "", "-F", "-p", &port.to_string()]);
    server.args(["-c", "wal_level=logical", "-c", "track_commit_timestamp=on"]);
    // Deadlocks are what workloads run into all the time; a second is long.
    server.args(["-c", "deadlock_timeout=100ms"]);
    settings.iter().for_each(|setting| _ = server.args(["-c", setting]));
    server
}

fn mariadb(bin: &Path, settings: &[String], folder: &Path, port: u16) -> Command {
    let mut server = like_mysql(&bin.join("mariadbd"), folder, port);
    server.args(["--log-bin=log", "--binlog-format=ROW", "--binlog-row-image=FULL"]);
    server.args(settings);
    server
}

fn mysql(bin: &Path, folder: &Path, port: u16) -> Command {
    let mut server = like_mysql(&bin.join("mysqld"), folder, port);
    server.args(["--log-bin=log", "--mysqlx=OFF", "--secure-file-priv="]);
    server.args(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]);
    server
}

fn like_mysql(program: &Path, folder: &Path, port: u16) -> Command {
    let mut server = Command::new(program);
    let data = format!("--datadir={}", folder.join("data").display());
    let socket = format!("--socket={}", folder.join("socket").display());
    server.args(["--no-defaults", &data, &socket, "--bind-address=127.0.0.1", &format!("--port={port}")]);
    server.arg(base(program.parent().unwrap_or(program)));
    server.arg(format!("--init-file={}", folder.join(ACCOUNTS).display()));
    server.args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2", "--server-id=1"]);
    server.args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"]);
    server
}

impl Drop for Server {
    fn drop(&mut self) {
        // An immediate shutdown lets PostgreSQL's processes end together; a kill is for what does
        // not listen.
        self.resume();
        let _ = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }
}

/// The folder that holds both programs: one of `root`, if that is given; else one of the usual
/// ones, or of PATH.
fn folder_of(first: &str, second: &str, usual: &[PathBuf], root: Option<&Path>) -> Result<PathBuf, String> {
    let has = |folder: &PathBuf| folder.join(first).is_file() && folder.join(second).is_file();
    if let Some(root) = root {
        return places(root)
            .find(has)
            .ok_or_else(|| format!("{first} is not installed in {}", root.display()));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = usual.iter().cloned().chain(std::env::split_paths(&path));
    folders.into_iter().find(has).ok_or_else(|| format!("{first} is not installed"))
}

/// The folders in which a root may have programs.
fn places(root: &Path) -> impl Iterator<Item = PathBuf> {
    let usual = ["", "bin", "sbin", "usr/bin", "usr/sbin"].map(|place| root.join(place));
    usual.into_iter().chain(debian_folders(&root.join("usr/lib/postgresql").display().to_string()))
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

/// A port that nobody listens on. Two who ask at the same time hardly get the same one.
fn free_port() -> Result<u16, String> {
    let random = RandomState::new().hash_one(std::process::id());
    let count = u64::from(PORTS.end - PORTS.start);
    let ports = (0..count).map(|at| PORTS.start + (random.wrapping_add(at) % count) as u16);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.into_iter().find(free).ok_or_else(|| "no port is free".to_owned())
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

/// Runs a program to its end.
fn finish(mut command: Command, user: User, folder: &Path) -> Result<(), String> {
    let ran = prepare(&mut command, user, folder)
        .and_then(|()| command.status().map_err(|error| error.to_string()));
    match ran {
        Ok(status) if status.success() => Ok(()),
        other => {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            Err(format!("setting up the server failed: {other:?} {log}"))
        }
    }
}

/// What a test goes on with: what is not installed is skipped, and said to be; what does not start
/// is a failure.
///
/// # Panics
/// When something is installed and does not start.
#[track_caller]
pub fn started<T>(got: Result<T, String>) -> Option<T> {
    match got {
        Ok(got) => Some(got),
        Err(why) if why.contains("not installed") => {
            println!("SKIPPED: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The letters of those that are there: `T` is stopped.
    fn states(processes: &[u32]) -> String {
        processes.iter().filter_map(|process| processes::state(*process)).map(|(state, _)| state).collect()
    }

    /// A regression: signals went to the process group, in which PostgreSQL's children are not, so
    /// a paused PostgreSQL went on to answer.
    #[test]
    fn signals_reach_children_that_are_sessions_of_their_own() {
        let Some(mut server) = started(Server::postgres()) else { return };
        server.pause();
        let processes = processes::family(server.child.id());
        assert!(processes.len() > 3, "{processes:?}");
        let paused = states(&processes);
        server.resume();
        assert!(paused.chars().all(|state| state == 'T'), "{paused}");
        assert!(!states(&processes).contains('T'), "they go on");
        server.kill();
        let left = states(&processes);
        assert!(left.chars().all(|state| state == 'Z'), "{left}");
        server.restart().expect("it starts again");
    }

    /// Somebody listens on the port by the time that the server is started: it goes to another one,
    /// and is not taken for the one that listens.
    #[test]
    fn a_port_that_is_taken_is_not_ours() {
        for server in [Server::postgres(), Server::mariadb()] {
            let Some(mut server) = started(server) else { continue };
            server.kill();
            let other = TcpListener::bind(("127.0.0.1", server.port)).expect("its port is free");
            server.child = server.command.spawn().expect("it is started");
            let why = server.listens().expect_err("the port is taken");
            assert!(why.contains("ended at once"), "{why}");
            let taken = server.port;
            server.settle().expect("another port");
            assert!(server.port != taken && server.url.contains(&server.port.to_string()));
            drop(other);
        }
    }
}
