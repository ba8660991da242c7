//! The private folder of a server. It goes with its owner, and the server with it, however the
//! owner ends.
//!
//! # Algorithm
//! The owner locks a file in the folder and holds one end of a pipe. A shell, the watchdog, reads
//! the other end. When the owner dies, the system closes the pipe: the watchdog kills what runs in
//! the folder and removes it. If the watchdog dies too, the next owner sweeps: a folder whose lock
//! is free has lost its owner.
//!
//! # Invariants
//! - Nobody else on the machine can look into the folder.
//! - Only servers are killed, and only those whose working directory is in the folder.
//! - Locks tell who is alive, not process numbers: those may belong to another container.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{User, processes};

/// What begins the name of every folder.
const PREFIX: &str = "margay-";

/// The kinds of folders that servers have.
const KINDS: [&str; 3] = ["postgres", "mariadb", "mysql"];

/// The file that the owner has locked.
const OWNER: &str = "owner";

/// Waits for the end of the pipe. Servers get five seconds to end in order.
const WATCHDOG: &str = r#"
trap '' HUP INT QUIT TERM
cat >/dev/null
servers() {
  for process in /proc/[0-9]*; do
    case $(readlink "$process/cwd") in "$1" | "$1"/*) ;; *) continue ;; esac
    case $(cat "$process/comm") in postgres | initdb | mariadbd) echo "${process#/proc/}" ;; esac
  done 2>/dev/null
}
signal=QUIT
for second in 1 2 3 4 5 6; do
  [ -d "$1" ] || exit 0
  running=$(servers "$1")
  [ "$running" ] || break
  kill -CONT $running
  kill -$signal $running
  sleep 1
  [ $second -lt 5 ] || signal=KILL
done 2>/dev/null
rm -rf -- "$1"
"#;

/// The folder of one server.
#[derive(Debug)]
pub(crate) struct Home {
    pub folder: PathBuf,
    user: User,
    /// Locked for as long as the owner lives.
    _owner: File,
    watchdog: Child,
}

impl Home {
    /// Makes a folder, after removing what owners that died have left.
    pub fn new(kind: &str, user: User) -> Result<Self, String> {
        sweep(&std::env::temp_dir(), user);
        let folder = private(kind, user)?;
        Self::own(folder.clone(), user).map_err(|error| {
            let _ = fs::remove_dir_all(&folder);
            format!("{}: {error}", folder.display())
        })
    }

    fn own(folder: PathBuf, user: User) -> io::Result<Self> {
        // Only a file that is locked already gets the name that sweepers look for.
        let unlocked = folder.join("owner.new");
        let owner = File::create_new(&unlocked)?;
        owner.lock()?;
        fs::rename(unlocked, folder.join(OWNER))?;
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", WATCHDOG, "watchdog"]).arg(&folder).current_dir("/").process_group(0);
        watchdog.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let watchdog = watchdog.spawn()?;
        Ok(Self { folder, user, _owner: owner, watchdog })
    }

    /// Writes a file that only the server can read.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let file = self.folder.join(name);
        let write = || {
            let mut options = OpenOptions::new();
            let mut written = options.write(true).create_new(true).mode(0o600).open(&file)?;
            written.write_all(text.as_bytes())?;
            give(&file, self.user)
        };
        write().map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }
}

impl Drop for Home {
    /// The server has ended before.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// A new folder that only the user can look into.
pub(crate) fn private(kind: &str, user: User) -> Result<PathBuf, String> {
    let folder = std::env::temp_dir().join(format!("{PREFIX}{kind}-{}", random()?));
    let made = DirBuilder::new().mode(0o700).create(&folder).and_then(|()| give(&folder, user));
    made.map(|()| folder.clone()).map_err(|error| format!("{}: {error}", folder.display()))
}

/// 128 random bits in hexadecimal digits: a name, or a password.
pub(crate) fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| format!("no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn give(path: &Path, user: User) -> io::Result<()> {
    user.map_or(Ok(()), |(uid, gid)| chown(path, Some(uid), Some(gid)))
}

/// Removes the folders whose owners have died, with the servers that run in them.
fn sweep(parent: &Path, user: User) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for folder in entries.map(|entry| entry.path()).filter(|folder| is_ours(folder, user)) {
        let Ok(owner) = File::open(folder.join(OWNER)) else { continue };
        if owner.try_lock().is_ok() {
            processes::kill(&processes::servers_in(&folder));
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// Whether it is a server's folder that somebody like us has made.
fn is_ours(folder: &Path, user: User) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_server = KINDS.iter().any(|kind| name.starts_with(&format!("{PREFIX}{kind}-")));
    let ours = || fs::metadata("/proc/self").map(|process| process.uid()).ok();
    let owner = user.map(|(uid, _)| uid).or_else(ours);
    // A link is nobody's folder.
    is_server && fs::symlink_metadata(folder).is_ok_and(|told| told.is_dir() && owner == Some(told.uid()))
}
