//! Where histories go: whole, or not at all.
//!
//! # Invariants
//! A file or directory takes its name only when all of it is written; a stream gets its first byte
//! only then.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;

use crate::FormatError;

const BLOCK: usize = 256 << 10;

/// Where to write a history.
pub enum Target<'a> {
    /// A file, compressed if its name ends in `.gz` or `.zst`; or a directory, for the formats that
    /// are one.
    Path(PathBuf),
    /// A stream, such as standard output.
    Stream(Box<dyn Write + 'a>),
}

impl Target<'_> {
    /// What a command line names: a path, or `-` for standard output.
    #[must_use]
    pub fn named(argument: &str) -> Target<'static> {
        match argument {
            "-" => Target::Stream(Box::new(io::stdout())),
            path => Target::Path(path.into()),
        }
    }

    /// What to call it in errors.
    pub(crate) fn name(&self) -> String {
        match self {
            Target::Path(path) => path.display().to_string(),
            Target::Stream(_) => "<output>".to_string(),
        }
    }
}

impl From<&Path> for Target<'_> {
    fn from(path: &Path) -> Self {
        Target::Path(path.to_path_buf())
    }
}

/// A file or directory that is being written under another name. Unless it was renamed, it goes
/// with this value.
struct Draft(PathBuf);

impl Draft {
    /// A name in this folder that nothing else has.
    fn in_folder(folder: &Path) -> Self {
        Self(folder.join(format!(".margay-{:016x}", RandomState::new().hash_one(()))))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0).or_else(|_| fs::remove_dir_all(&self.0));
    }
}

/// A directory that is being written.
pub(crate) struct Folder {
    draft: Draft,
}

impl Folder {
    /// A new file in it.
    pub fn file(&mut self, name: &str) -> Result<BufWriter<File>, FormatError> {
        let path = self.draft.0.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(BufWriter::with_capacity(BLOCK, File::create_new(path)?))
    }
}

/// Writes a file or stream by `fill`.
pub(crate) fn write_file(
    target: Target<'_>,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    match target {
        Target::Path(path) => write_path(&path, fill),
        Target::Stream(mut stream) => {
            let draft = Draft::in_folder(&std::env::temp_dir());
            let file = private_file(&draft.0)?;
            // An open file needs no name; so nothing stays behind even if the process is killed.
            drop(draft);
            let mut file = BufWriter::with_capacity(BLOCK, file);
            fill(&mut file)?;
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            io::copy(&mut file, &mut stream)?;
            Ok(stream.flush()?)
        }
    }
}

fn write_path(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    if path.is_dir() {
        return Err(FormatError::new("is a directory; a file is expected"));
    }
    // What is no regular file (a pipe, /dev/null) cannot be replaced by renaming; it is written
    // like a stream.
    if path.exists() && !path.is_file() {
        return write_file(Target::Stream(Box::new(File::options().write(true).open(path)?)), fill);
    }
    let draft = Draft::in_folder(parent(path));
    let written = File::create_new(&draft.0)?;
    let file = BufWriter::with_capacity(BLOCK, &written);
    match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => {
            let mut out = BufWriter::new(GzEncoder::new(file, flate2::Compression::default()));
            fill(&mut out)?;
            out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()?;
        }
        #[cfg(not(feature = "zstd"))]
        Some("zst") => return Err(FormatError::new("this build has no zstd; write .gz instead")),
        #[cfg(feature = "zstd")]
        Some("zst") => {
            let mut out = zstd::stream::write::Encoder::new(file, 3)?;
            fill(&mut out)?;
            out.finish()?.flush()?;
        }
        _ => {
            let mut file = file;
            fill(&mut file)?;
            file.flush()?;
        }
    }
    written.sync_data()?;
    Ok(fs::rename(&draft.0, path)?)
}

/// A new file that nobody else may read: folders of temporary files are everybody's.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes a directory by `fill`.
pub(crate) fn write_directory(
    target: Target<'_>,
    fill: impl FnOnce(&mut Folder) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let Target::Path(path) = target else {
        return Err(FormatError::new("this format is a directory and cannot go to a stream"));
    };
    let occupied = path.exists() && fs::read_dir(&path).map_or(true, |mut entries| entries.next().is_some());
    if occupied {
        return Err(FormatError::new("exists already and is not an empty directory"));
    }
    let mut folder = Folder { draft: Draft::in_folder(parent(&path)) };
    fs::create_dir(&folder.draft.0)?;
    fill(&mut folder)?;
    Ok(fs::rename(&folder.draft.0, &path)?)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
