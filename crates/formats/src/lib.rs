//! Histories as bytes: the native forms and the formats of other tools.
//!
//! [`read`] takes a [`Source`] (a path, standard input, bytes), undoes gzip or zstd, finds out the
//! [`Format`] unless told, and answers a [`Loaded`]; [`write()`] does the reverse. What is
//! ill-formed is a [`FormatError`] with file, line and column; what a format cannot carry is one
//! that names the operation.
//!
//! # Invariants
//! - Any bytes lead to a history or an error, never to a panic, and memory is bounded by the
//!   content, not by what it claims.
//! - Nothing half-written is left behind: see `output`.
//! - Reading and writing lose nothing of what clients did and saw, or fail; what else a format has
//!   no place for, [`omissions`] tells.

// Folders and warnings are for the formats of other tools.
#![cfg_attr(not(feature = "foreign"), allow(dead_code))]

mod binary;
mod binary_input;
mod detect;
mod error;
#[cfg_attr(not(feature = "foreign"), path = "native_only.rs")]
mod foreign;
mod format;
mod input;
mod lines;
mod native;
mod output;
mod stop;
mod suggest;

use margay_history::History;

pub use error::{FormatError, Snippet};
pub use foreign::omissions;
pub use format::Format;
use input::Input;
pub use input::Source;
pub use native::{Beyond, Glance, NativeReader, NativeWriter, Stamp, StampKind, glance, is_cut, stamp};
pub use output::Target;
use stop::Stop;

/// A history that was read, with what is worth saying of it.
#[derive(Debug)]
pub struct Loaded {
    /// The history.
    pub history: History,
    /// The format it was in.
    pub format: Format,
    /// What the reader wondered at, for people.
    pub warnings: Vec<String>,
}

/// What a reader wonders at: not wrong, but worth saying.
#[derive(Default)]
pub(crate) struct Warnings {
    all: Vec<String>,
    dropped: usize,
}

/// Ten of a kind are enough for people.
const WARNINGS: usize = 10;

impl Warnings {
    pub fn add(&mut self, what: impl Into<String>) {
        match self.all.len() < WARNINGS {
            true => self.all.push(what.into()),
            false => self.dropped += 1,
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.dropped > 0 {
            self.all.push(format!("and {} more warnings", self.dropped));
        }
        self.all
    }
}

/// Reads a history; in `format`, or in the one it turns out to be in.
///
/// # Errors
/// When there is nothing to read, the format is not recognised, or the content is ill-formed.
pub fn read(source: Source<'_>, format: Option<Format>) -> Result<Loaded, FormatError> {
    read_stoppable(source, format, Stop::default())
}

/// The same, until `over` says that there is no more time for it.
///
/// # Errors
/// As [`read`]; and when it was stopped.
pub fn read_unless(
    source: Source<'_>,
    format: Option<Format>,
    over: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Loaded, FormatError> {
    read_stoppable(source, format, Stop::when(over))
}

fn read_stoppable(source: Source<'_>, format: Option<Format>, stop: Stop) -> Result<Loaded, FormatError> {
    let path = match &source {
        Source::Path(path) | Source::Counted(path, _) => Some(path.clone()),
        Source::Stream(..) => None,
    };
    read_input(source, format, stop.clone()).map_err(|error| match path {
        // That reads the file again, for which there is no time either.
        Some(_) if stop.check().is_ok() => error::with_line_of_file(error),
        _ => error,
    })
}

fn read_input(source: Source<'_>, format: Option<Format>, stop: Stop) -> Result<Loaded, FormatError> {
    let mut input = source.open(stop)?;
    let format = match format {
        Some(format) => format,
        None => detect::detect(&mut input)?,
    };
    let (name, cut) = (input.name.clone(), input.cut());
    let mut warnings = Warnings::default();
    let read = dispatch_read(input, format, &mut warnings).map_err(|error| error.in_file(&name));
    let history = match cut.problem() {
        None => read?,
        // A recording that grows while clients run is worth reading as far as it got; other files
        // are whole or wrong.
        Some(problem) if format == Format::Margay => {
            warnings.add(format!("{problem}: read up to there"));
            read.map_err(|error| FormatError { what: format!("{problem}: {}", error.what), ..error })?
        }
        Some(problem) => return Err(FormatError::new(problem).in_file(&name)),
    };
    Ok(Loaded { history, format, warnings: warnings.finish() })
}

fn dispatch_read(input: Input<'_>, format: Format, warnings: &mut Warnings) -> Result<History, FormatError> {
    match format {
        Format::Margay => native::read(input, warnings),
        Format::MargayBin => binary::read(input),
        format => foreign::read(input, format, warnings),
    }
}

/// The format of a source, without reading all of it.
///
/// # Errors
/// When there is nothing to read or the format is not recognised.
pub fn detect(source: Source<'_>) -> Result<Format, FormatError> {
    detect::detect(&mut source.open(Stop::default())?)
}

/// Writes a history, whole or not at all.
///
/// # Errors
/// When the format cannot carry something, or the target cannot be written.
pub fn write(history: &History, format: Format, target: Target<'_>) -> Result<(), FormatError> {
    let name = target.name();
    dispatch_write(history, format, target).map_err(|error| error.in_file(&name))
}

fn dispatch_write(history: &History, format: Format, target: Target<'_>) -> Result<(), FormatError> {
    match format {
        Format::Margay => output::write_file(target, |out| native::write(history, out)),
        Format::MargayBin => output::write_file(target, |out| binary::write(history, out)),
        // Without it, other tools would take rows for absent, and values for the clients' work.
        format => match history.unseen_content() {
            Some(what) => Err(FormatError::new(format!("the format {format} cannot carry {what}"))),
            None => foreign::write(history, format, target),
        },
    }
}
