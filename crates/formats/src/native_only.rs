//! The formats of other tools in a build without the feature `foreign`: none of them is read or
//! written.

use margay_history::History;

use crate::input::Input;
use crate::output::Target;
use crate::{Format, FormatError, Warnings};

fn absent<T>(format: Format) -> Result<T, FormatError> {
    Err(FormatError::new(format!("this build has no {format}: switch on the feature `foreign`")))
}

pub(crate) fn read(_: Input<'_>, format: Format, _: &mut Warnings) -> Result<History, FormatError> {
    absent(format)
}

pub(crate) fn write(_: &History, format: Format, _: Target<'_>) -> Result<(), FormatError> {
    absent(format)
}

pub(crate) fn is_jepsen_log(_: &str) -> bool {
    false
}

/// What a format has no place for: the native ones have one for everything.
#[must_use]
pub fn omissions(_: &History, _: Format) -> Vec<String> {
    Vec::new()
}
