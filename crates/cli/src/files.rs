//! Paths of the command line: reading a history, and writing a small file whole or not at all.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use margay_formats::{Format, Loaded, Source, Target};
use margay_verdict::{Budget, Exhausted};

use crate::args::InputArgs;
use crate::elle;
use crate::failure::Failure;
use crate::progress::{Counter, Progress};
use crate::terminal;

/// Why a history was not read.
pub enum Unread {
    /// It cannot be.
    Failed(Failure),
    /// The budget ended before.
    Exhausted(Exhausted),
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Failed(failure) => failure,
            Unread::Exhausted(limit) => Failure::new(format!("{limit} ({WHILE_READING})")),
        }
    }
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Unread::Failed(failure)
    }
}

/// How far a command came whose budget ended before there was a history.
pub const WHILE_READING: &str = "while reading the history";

/// Reads a history, with a line of progress and its warnings unless `quiet`; and says how long it
/// took.
pub fn read_history(
    path: &Path,
    from: Option<Format>,
    quiet: bool,
    budget: &Budget,
) -> Result<(Loaded, Duration), Unread> {
    let start = Instant::now();
    let loaded = {
        let size = fs::metadata(path).ok().filter(fs::Metadata::is_file).map_or(0, |file| file.len());
        let bytes = Counter::of(size);
        let _progress = Progress::count(&format!("reading {}", path.display()), &bytes, "B", !quiet);
        let asked = budget.clone();
        let source = if is_stream(path) {
            Source::named("-")
        } else {
            Source::Counted(path.to_path_buf(), Arc::clone(&bytes.done))
        };
        margay_formats::read_unless(source, from, move || asked.poll().is_err())
    };
    budget.poll().map_err(Unread::Exhausted)?;
    let loaded = loaded.map_err(Failure::from)?;
    if !quiet {
        loaded.warnings.iter().for_each(|warning| terminal::warn(&format!("{}: {warning}", path.display())));
    }
    Ok((loaded, start.elapsed()))
}

/// Reads a history, with what the options say of it and take for granted.
pub fn read_input(
    path: &Path,
    input: &InputArgs,
    quiet: bool,
    budget: &Budget,
) -> Result<(Loaded, Duration), Unread> {
    let (mut loaded, read) = read_history(path, input.from, quiet, budget)?;
    loaded.history = elle::assume(loaded.history, input.sequential_keys, input.linearizable_keys)?;
    Ok((loaded, read))
}

/// Whether the path means standard input or output.
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Where a path is written.
pub fn target(path: &Path) -> Target<'static> {
    if is_stream(path) { Target::named("-") } else { Target::Path(path.to_path_buf()) }
}

/// The largest certificate or result that is read: more is an error instead of a full memory.
const TEXT_LIMIT: u64 = 256 << 20;

/// The text of a certificate, a result or another file that is held in memory, or of standard
/// input.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if is_stream(path) {
        io::stdin().lock().take(TEXT_LIMIT + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(TEXT_LIMIT + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| failed(path, &error))?;
    if bytes.len() as u64 > TEXT_LIMIT {
        let limit = TEXT_LIMIT >> 20;
        return Err(Failure::new(format!("{}: this file is larger than {limit} MiB", path.display())));
    }
    String::from_utf8(bytes).map_err(|_| Failure::new(format!("{}: this is not text", path.display())))
}

/// Writes a text: to standard output, or to a file that takes its name only when all of it is
/// there.
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    if is_stream(path) {
        return terminal::print_document(text).map(drop);
    }
    // What is no regular file (a pipe, a device) cannot be replaced by renaming.
    let written = if path.exists() && !path.is_file() { fs::write(path, text) } else { replace(path, text) };
    written.map_err(|error| failed(path, &error))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".margay-tmp");
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let what = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    Failure::new(format!("{}: {what}", path.display()))
}
