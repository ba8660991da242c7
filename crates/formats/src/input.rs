//! Where histories come from: files, directories and streams, decompressed on the way.
//!
//! # Invariants
//! Nothing here holds a whole file: streams are read in blocks, and a [`Lines`] reader holds one
//! line of at most `LINE_LIMIT` bytes.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::FormatError;
use crate::stop::Stop;

pub(crate) use crate::binary_input::Bytes;
pub(crate) use crate::lines::Lines;

/// How much of a stream is looked at to find out its format.
pub(crate) const HEAD: usize = 64 << 10;
const BLOCK: usize = 256 << 10;

/// A history to read.
pub enum Source<'a> {
    /// A file or a directory.
    Path(PathBuf),
    /// The same; the number counts the bytes of the file that have been read.
    Counted(PathBuf, Arc<AtomicU64>),
    /// A stream, and what to call it in errors.
    Stream(String, Box<dyn Read + 'a>),
}

impl<'a> Source<'a> {
    /// What a command line names: a path, or `-` for standard input.
    #[must_use]
    pub fn named(argument: &str) -> Source<'static> {
        match argument {
            "-" => Source::Stream("<standard input>".to_string(), Box::new(io::stdin())),
            path => Source::Path(path.into()),
        }
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(bytes: &'a [u8]) -> Source<'a> {
        Source::Stream("<bytes>".to_string(), Box::new(bytes))
    }

    pub(crate) fn open(self, stop: Stop) -> Result<Input<'a>, FormatError> {
        match self {
            Source::Path(path) => Input::open(&path, stop),
            Source::Counted(path, _) if path.is_dir() => Input::open(&path, stop),
            Source::Counted(path, read) => Input::open_counting(&path, stop, read),
            Source::Stream(name, reader) => Input::stream(name, reader, stop),
        }
    }
}

impl From<&Path> for Source<'_> {
    fn from(path: &Path) -> Self {
        Source::Path(path.to_path_buf())
    }
}

/// A file that counts what is read of it.
struct Counting {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// An opened source, as a format's reader gets it.
pub(crate) struct Input<'a> {
    /// What to call it in errors.
    pub name: String,
    kind: Kind<'a>,
    stop: Stop,
    cut: Cut,
}

/// Whether compressed data turned out to end too early, and which compression it is.
///
/// A recorder that was killed leaves such a file. What was decompressed until there is what it
/// recorded, so it reads like a file that ends there, and whoever reads it asks here afterwards.
#[derive(Clone, Default)]
pub(crate) struct Cut(Rc<Cell<Option<&'static str>>>);

impl Cut {
    /// What to say of it, if the data ended too early.
    pub fn problem(&self) -> Option<String> {
        self.0.get().map(|what| format!("the {what} data ends too early"))
    }
}

enum Kind<'a> {
    Directory(PathBuf),
    Stream(Box<dyn BufRead + 'a>),
}

impl<'a> Input<'a> {
    pub fn open(path: &Path, stop: Stop) -> Result<Input<'static>, FormatError> {
        Input::open_noting(path, stop, Cut::default())
    }

    fn open_counting(path: &Path, stop: Stop, read: Arc<AtomicU64>) -> Result<Input<'static>, FormatError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| FormatError::from(error).in_file(&name))?;
        Input::stream(name, Box::new(Counting { file, read }), stop)
    }

    fn open_noting(path: &Path, stop: Stop, cut: Cut) -> Result<Input<'static>, FormatError> {
        let name = path.display().to_string();
        let failed = |e: io::Error| FormatError::from(e).in_file(&name);
        if path.metadata().map_err(failed)?.is_dir() {
            return Ok(Input { name, kind: Kind::Directory(path.to_path_buf()), stop, cut });
        }
        let file = File::open(path).map_err(failed)?;
        Input::stream_noting(name, Box::new(file), stop, cut)
    }

    pub fn stream(name: String, reader: Box<dyn Read + 'a>, stop: Stop) -> Result<Self, FormatError> {
        Input::stream_noting(name, reader, stop, Cut::default())
    }

    fn stream_noting(
        name: String,
        reader: Box<dyn Read + 'a>,
        stop: Stop,
        cut: Cut,
    ) -> Result<Self, FormatError> {
        let reader = decompressed(reader, &cut).map_err(|e| FormatError::from(e).in_file(&name))?;
        let reader = stop.on(reader);
        Ok(Input { name, kind: Kind::Stream(reader), stop, cut })
    }

    /// Whether the stream's data, or that of a file of the directory, ended too early. To be asked
    /// when it was read.
    pub fn cut(&self) -> Cut {
        self.cut.clone()
    }

    pub fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }

    /// The first bytes of a stream, which stay to be read. Fewer than [`HEAD`] only when there are
    /// no more.
    pub fn head(&mut self) -> Result<Vec<u8>, FormatError> {
        let Kind::Stream(reader) = &mut self.kind else { return Ok(Vec::new()) };
        let mut head = Vec::new();
        // What was decompressed before an error is still worth a look; the reader meets the error
        // again.
        let result = reader.by_ref().take(HEAD as u64).read_to_end(&mut head);
        if head.is_empty() {
            result.map_err(|e| FormatError::from(e).in_file(&self.name))?;
            if let Some(problem) = self.cut.problem() {
                return Err(FormatError::new(problem).in_file(&self.name));
            }
        }
        let rest = std::mem::replace(reader, Box::new(io::empty()));
        *reader = Box::new(Cursor::new(head.clone()).chain(rest));
        Ok(head)
    }

    /// The stream, for whole documents.
    pub fn reader(self) -> Result<Box<dyn BufRead + 'a>, FormatError> {
        match self.kind {
            Kind::Stream(reader) => Ok(reader),
            Kind::Directory(_) => {
                Err(FormatError::new("is a directory; a file is expected").in_file(&self.name))
            }
        }
    }

    /// The stream, line by line.
    pub fn lines(self) -> Result<Lines<'a>, FormatError> {
        let name = self.name.clone();
        Ok(Lines::new(name, self.reader()?))
    }

    /// The stream, for binary formats.
    pub fn bytes(self) -> Result<Bytes<'a>, FormatError> {
        let name = self.name.clone();
        Ok(Bytes::new(name, self.reader()?))
    }

    /// The logs among the files of a directory, by their names; of a file, itself. None at all is
    /// an error: a history without transactions would hold.
    pub fn logs(self, is_log: impl Fn(&Entry<'_>) -> bool) -> Result<Vec<Entry<'a>>, FormatError> {
        let (name, whole) = (self.name.clone(), self.is_directory());
        let mut files = self.files()?;
        if whole {
            files.retain(is_log);
        }
        match files.is_empty() {
            true => Err(FormatError::new("no log file is in this directory").in_file(&name)),
            false => Ok(files),
        }
    }

    /// The files of a directory and of its directories, in natural order of their names (`T2`
    /// before `T10`); of a file, itself.
    pub fn files(self) -> Result<Vec<Entry<'a>>, FormatError> {
        let (stop, cut) = (self.stop.clone(), self.cut());
        let root = match self.kind {
            Kind::Stream(_) => {
                let name = Path::new(&self.name).file_name().map(|n| n.to_string_lossy().into_owned());
                let source = EntrySource::Opened(self);
                return Ok(vec![Entry { name: name.unwrap_or_default(), source, cut }]);
            }
            Kind::Directory(root) => root,
        };
        let mut paths = Vec::new();
        walk(&root, 0, &mut paths).map_err(|e| FormatError::from(e).in_file(&self.name))?;
        let mut entries: Vec<_> = paths.into_iter().map(|path| Entry::of(&root, path, &stop, &cut)).collect();
        entries.sort_by_cached_key(|entry| natural_key(&entry.name));
        Ok(entries)
    }
}

/// A file of a directory, not yet opened.
pub(crate) struct Entry<'a> {
    /// Its path inside the directory, with `/`.
    pub name: String,
    source: EntrySource<'a>,
    /// The directory's.
    cut: Cut,
}

enum EntrySource<'a> {
    Path(PathBuf, Stop),
    Opened(Input<'a>),
}

impl<'a> Entry<'a> {
    fn of(root: &Path, path: PathBuf, stop: &Stop, cut: &Cut) -> Self {
        let inside = path.strip_prefix(root).unwrap_or(&path);
        let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
        let name = parts.join("/");
        Self { name, source: EntrySource::Path(path, stop.clone()), cut: cut.clone() }
    }

    pub fn open(self) -> Result<Input<'a>, FormatError> {
        match self.source {
            EntrySource::Path(path, stop) => Input::open_noting(&path, stop, self.cut),
            EntrySource::Opened(input) => Ok(input),
        }
    }

    /// The last part of its name.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// Directories of histories are shallow; a deep one is somebody's home by mistake.
const DEPTH: usize = 3;

fn walk(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        match path.metadata() {
            _ if hidden => {}
            Ok(meta) if meta.is_dir() && depth < DEPTH => walk(&path, depth + 1, found)?,
            Ok(meta) if meta.is_file() => found.push(path),
            _ => {}
        }
    }
    Ok(())
}

/// Sorts like the name, with runs of digits by their number.
fn natural_key(name: &str) -> Vec<(String, u128)> {
    let mut key = vec![(String::new(), 0_u128)];
    let mut digits = false;
    for c in name.chars() {
        if digits && !c.is_ascii_digit() {
            key.push((String::new(), 0));
        }
        digits = c.is_ascii_digit();
        let last = key.last_mut().expect("a key is never empty");
        match c.to_digit(10) {
            Some(digit) => last.1 = last.1.saturating_mul(10).saturating_add(u128::from(digit)),
            None => last.0.push(c),
        }
    }
    key.push((name.to_string(), 0));
    key
}

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The content of a stream that may be compressed, by its magic bytes.
fn decompressed<'a>(mut raw: Box<dyn Read + 'a>, cut: &Cut) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut magic = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut magic)?;
    let (gzip, zstd) = (magic.starts_with(&GZIP), magic.starts_with(&ZSTD));
    let whole = BufReader::with_capacity(BLOCK, Cursor::new(magic).chain(raw));
    if gzip {
        let inner = Checked { what: "gzip", inner: MultiGzDecoder::new(whole), cut: cut.clone() };
        return Ok(Box::new(BufReader::with_capacity(BLOCK, inner)));
    }
    #[cfg(not(feature = "zstd"))]
    if zstd {
        return Err(io::Error::other("this build has no zstd"));
    }
    #[cfg(feature = "zstd")]
    if zstd {
        let inner = zstd::stream::read::Decoder::with_buffer(whole)?;
        let inner = Checked { what: "zstd", inner, cut: cut.clone() };
        return Ok(Box::new(BufReader::with_capacity(BLOCK, inner)));
    }
    Ok(Box::new(whole))
}

/// A decompressor whose errors say that it is one, and which notes where its data ends too early.
struct Checked<R> {
    what: &'static str,
    inner: R,
    cut: Cut,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cut.0.get().is_some() {
            return Ok(0);
        }
        match self.inner.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                self.cut.0.set(Some(self.what));
                Ok(0)
            }
            Err(e) if e.kind() != io::ErrorKind::Interrupted => {
                Err(io::Error::other(format!("the {} data is damaged: {e}", self.what)))
            }
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_naturally() {
        let mut names = ["T10.log", "T2.log", "a/1", "T1.log", "T02.log"];
        names.sort_by_cached_key(|name| natural_key(name));
        assert_eq!(names, ["T1.log", "T02.log", "T2.log", "T10.log", "a/1"]);
    }
}
