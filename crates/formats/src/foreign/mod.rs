//! The formats of other tools, one file each.
//!
//! Each has `read(Input, &mut Warnings) -> Result<History, FormatError>`; the ones that can be
//! written have `write(&History, &mut dyn Write)`, or `write(&History, &mut Folder)` where the
//! format is a directory.

mod awdit;
mod chronos;
mod cobra;
mod cobra_write;
mod dbcop;
mod dbcop_draft;
mod dbcop_hist;
mod dbcop_json;
mod edn;
mod elle_json;
mod forms;
mod jepsen;
mod jepsen_log;
mod jepsen_write;
mod leopard;
mod omissions;
mod places;
mod registers;
mod scan;
mod schedule;
mod steps;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod texts;
mod unwritten;
mod vbox;
mod vbox_write;
mod viper;
mod workload;

use margay_history::History;

pub(crate) use jepsen_log::is_operation as is_jepsen_log;
pub use omissions::omissions;

use crate::input::Input;
use crate::output::{Target, write_directory, write_file};
use crate::{Format, FormatError, Warnings};

pub(crate) fn read(
    input: Input<'_>,
    format: Format,
    warnings: &mut Warnings,
) -> Result<History, FormatError> {
    match format {
        Format::Edn => edn::read(input, warnings),
        Format::ElleJson => elle_json::read(input, warnings),
        Format::Text => text::read(input, warnings),
        Format::Awdit => awdit::read(input, warnings),
        Format::Cobra => cobra::read(input, warnings),
        Format::Dbcop => dbcop::read(input, warnings),
        Format::DbcopJson => dbcop_json::read(input, warnings),
        Format::DbcopHist => dbcop_hist::read(input, warnings),
        Format::Vbox => vbox::read(input, warnings),
        Format::Viper => viper::read(input, warnings),
        Format::Chronos => chronos::read(input, warnings),
        Format::Leopard => leopard::read(input, warnings),
        Format::JepsenLog => jepsen_log::read(input, warnings),
        Format::Margay | Format::MargayBin => {
            Err(FormatError::new(format!("the format {format} is not a foreign one")))
        }
    }
}

pub(crate) fn write(history: &History, format: Format, target: Target<'_>) -> Result<(), FormatError> {
    match format {
        Format::Edn => write_file(target, |out| edn::write(history, out)),
        Format::ElleJson => write_file(target, |out| elle_json::write(history, out)),
        Format::Text => write_file(target, |out| text::write(history, out)),
        Format::Awdit => write_file(target, |out| awdit::write(history, out)),
        Format::Cobra => write_directory(target, |folder| cobra_write::write(history, folder)),
        Format::Dbcop => write_file(target, |out| dbcop::write(history, out)),
        Format::Vbox => write_directory(target, |folder| vbox_write::write(history, folder)),
        _ => Err(FormatError::new(format!("the format {format} cannot be written"))),
    }
}
