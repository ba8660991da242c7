//! The formats of other tools, one file each.
//!
//! Each has `read(Input, &mut Warnings) -> Result<History, FormatError>`; the ones that can be written have `write(&History, &mut dyn Write)`,
//! or `write(&History, &mut Folder)` where the format is a directory.

use margay_history::History;

use crate::input::Input;
use crate::output::{Target, write_directory, write_file};
use crate::{Format, FormatError, Warnings};

pub(crate) fn read(
    _input: Input<'_>,
    format: Format,
    _warnings: &mut Warnings,
) -> Result<History, FormatError> {
    Err(FormatError::new(format!("the format {format} is not supported yet")))
}

pub(crate) fn write(history: &History, format: Format, target: Target<'_>) -> Result<(), FormatError> {
    match format {
        format if format.is_directory() => write_directory(target, |_folder| not_yet(history, format)),
        format => write_file(target, |_out| not_yet(history, format)),
    }
}

fn not_yet(_: &History, format: Format) -> Result<(), FormatError> {
    Err(FormatError::new(format!("the format {format} cannot be written")))
}
