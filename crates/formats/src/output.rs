//! Where histories go: whole, or not at all.
//!
//! # Invariants
//! A file or directory takes its name only when all of it is written; a stream gets its first byte only then.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use tempfile::{NamedTempFile, TempDir};

use crate::FormatError;

const BLOCK: usize = 256 << 10;

/// Where to write a history.
pub enum Target<'a> {
    /// A file, compressed if its name ends in `.gz` or `.zst`; or a directory, for the formats that are one.
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

/// A directory that is being written.
pub(crate) struct Folder {
    draft: TempDir,
}

impl Folder {
    /// A new file in it.
    pub fn file(&mut self, name: &str) -> Result<BufWriter<File>, FormatError> {
        let path = self.draft.path().join(name);
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
            let mut draft = BufWriter::with_capacity(BLOCK, tempfile::tempfile()?);
            fill(&mut draft)?;
            let mut draft = draft.into_inner().map_err(io::IntoInnerError::into_error)?;
            draft.rewind()?;
            io::copy(&mut draft, &mut stream)?;
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
    // What is no regular file (a pipe, /dev/null) cannot be replaced by renaming; it is written like a stream.
    if path.exists() && !path.is_file() {
        return write_file(Target::Stream(Box::new(File::options().write(true).open(path)?)), fill);
    }
    let draft = NamedTempFile::new_in(parent(path))?;
    let file = BufWriter::with_capacity(BLOCK, draft.as_file());
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
    publish(draft, path)
}

fn publish(draft: NamedTempFile, path: &Path) -> Result<(), FormatError> {
    draft.as_file().sync_data()?;
    set_mode(draft.path(), 0o666)?;
    draft.persist(path).map_err(|e| FormatError::from(e.error))?;
    Ok(())
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
    let mut folder = Folder { draft: TempDir::new_in(parent(&path))? };
    fill(&mut folder)?;
    set_mode(folder.draft.path(), 0o777)?;
    fs::rename(folder.draft.path(), &path)?;
    let _ = folder.draft.keep();
    Ok(())
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Temporary files are private; the finished one gets the rights that a file of its user normally has.
#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // The process's mask can only be read through what it does to a new file.
    let probe = tempfile::Builder::new().permissions(fs::Permissions::from_mode(mode)).tempfile()?;
    let masked = probe.as_file().metadata()?.permissions().mode() & mode;
    fs::set_permissions(path, fs::Permissions::from_mode(masked))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}
