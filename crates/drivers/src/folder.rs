//! Where a store that is part of the program keeps its files.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Where a store keeps its files: a given folder, or a temporary one that goes with it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _temporary: Option<TempDir>,
}

impl Folder {
    pub fn new(path: Option<&Path>) -> Result<Self, String> {
        if let Some(path) = path {
            std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
            return Ok(Self { path: path.to_owned(), _temporary: None });
        }
        let temporary =
            TempDir::with_prefix("margay-").map_err(|error| format!("no temporary folder: {error}"))?;
        Ok(Self { path: temporary.path().to_owned(), _temporary: Some(temporary) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The given file, or one of this name in a temporary folder.
    #[cfg(any(feature = "turso", feature = "duckdb"))]
    pub fn or_file(path: Option<&Path>, name: &str) -> Result<(Option<Self>, PathBuf), String> {
        if let Some(path) = path {
            return Ok((None, path.to_owned()));
        }
        let folder = Self::new(None)?;
        let file = folder.path().join(name);
        Ok((Some(folder), file))
    }
}
