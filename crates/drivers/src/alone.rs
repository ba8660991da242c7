//! One run at a time in a file or folder of this machine.
//!
//! # Algorithm
//! Beside the database lies a file that the run has locked. The operating system forgets the lock
//! with the process, however that ends, so a file that was left behind keeps nobody out. The
//! database's own files are left alone: who closes one that SQLite has open takes SQLite's locks
//! away.
//!
//! # Invariants
//! The file is removed while it is locked, and who has locked one that is not there any more begins
//! again: two never hold locks on two files of one name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::Database;
use crate::around::{Around, Wrapped};

/// Why a database is not opened.
pub(crate) const OTHER_RUN: &str =
    "another run of margay is at work in this database; wait for its end, or take another database";

/// How long a run that is about to end is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// A lock beside a database, which goes after it.
struct Alone {
    path: PathBuf,
    _locked: File,
}

impl Around for Alone {}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens the database at a path, unless another run is at work there: two would make and drop the
/// same tables, and take each other's writes for the database's faults.
pub(crate) fn alone(
    path: &Path,
    open: impl FnOnce() -> Result<Box<dyn Database>, String>,
) -> Result<Box<dyn Database>, String> {
    let beside = beside(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let around = lock(beside)?;
    Ok(Box::new(Wrapped { database: open()?, around }))
}

/// Where the lock lies, however the path of the database is written.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let whole = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or(error)?;
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            fs::canonicalize(folder.unwrap_or(Path::new(".")))?.join(name)
        }
        whole => whole?,
    };
    let mut name = whole.into_os_string();
    name.push(".margay-lock");
    Ok(name.into())
}

fn lock(path: PathBuf) -> Result<Alone, String> {
    let shown = |error: io::Error| format!("{}: {error}", path.display());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(shown)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok(Alone { path, _locked: file }),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Err(OTHER_RUN.to_owned()),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(50)),
            Err(TryLockError::Error(error)) => return Err(shown(error)),
        }
    }
}

/// Whether the file is still the one of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().ok().map(place) == fs::metadata(path).ok().map(place)
}
