//! `margay convert`.

use std::path::Path;

use margay_formats::Format;
use margay_history::History;
use margay_rows::SeenState;
use margay_verdict::Budget;

use crate::args::ConvertArgs;
use crate::failure::{Failure, Status};
use crate::progress::Progress;
use crate::{files, terminal};

/// Reads one format and writes another, whole or not at all.
pub fn run(args: ConvertArgs) -> Result<Status, Failure> {
    let to = args.to.map_or_else(|| format_of(&args.output), Ok)?;
    must_be_writable(to)?;
    let (loaded, _) = files::read_input(&args.input, &args.from, args.quiet, &Budget::unlimited())?;
    let rows = if args.rows { as_rows(&args.input, &loaded.history)? } else { None };
    let history = rows.as_ref().unwrap_or(&loaded.history);
    {
        let _progress = Progress::show(&format!("writing {}", args.output.display()), !args.quiet);
        margay_formats::write(history, to, files::target(&args.output))?;
    }
    if !args.quiet {
        let left_out = margay_formats::omissions(history, to);
        left_out
            .iter()
            .for_each(|what| terminal::warn(&format!("{}: {to} leaves out {what}", args.output.display())));
    }
    if args.quiet || files::is_stream(&args.output) {
        return Ok(Status::Fine);
    }
    terminal::print(&format!(
        "{} ({}) -> {} ({to}): {} transactions, {} operations",
        args.input.display(),
        loaded.format,
        args.output.display(),
        history.txn_count(),
        history.op_count(),
    ))
}

/// The history with operations on rows instead of its statements, whatever the level; none if it
/// has no statements.
fn as_rows(path: &Path, history: &History) -> Result<Option<History>, Failure> {
    let Some(rows) = margay_rows::translate(history, SeenState::Changing) else { return Ok(None) };
    match rows.left {
        Some(left) => Err(Failure::new(format!("{}: {left}", path.display()))),
        None => Ok(Some(rows.history)),
    }
}

/// The format that the file's extension stands for, compression aside; without one, the native
/// format.
pub fn format_of(path: &Path) -> Result<Format, Failure> {
    let plain = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz" | "zst") => path.with_extension(""),
        _ => path.to_path_buf(),
    };
    match (plain.extension(), Format::from_extension(&plain)) {
        (None, _) => Ok(Format::Margay),
        (_, Some(format)) => Ok(format),
        (Some(extension), None) => Err(Failure::new(format!(
            "{}: no format has the extension .{}; choose another name, or a format with --to: {}",
            path.display(),
            extension.to_string_lossy(),
            writable().join(", ")
        ))),
    }
}

/// The formats that can be written, with the extensions that choose them.
fn writable() -> Vec<String> {
    let shown = |format: Format| match format.extensions() {
        [] => format!("{format} (.{format})"),
        all => format!("{format} (.{})", all.join(", .")),
    };
    Format::ALL.into_iter().filter(|format| format.can_write()).map(shown).collect()
}

/// Says so before any work is done.
pub fn must_be_writable(format: Format) -> Result<(), Failure> {
    if format.can_write() {
        Ok(())
    } else {
        Err(Failure::new(format!("the format {format} can be read, but not written")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_name_formats() {
        for (name, format) in [
            ("h.jsonl", Format::Margay),
            ("h.jsonl.gz", Format::Margay),
            ("h.edn.zst", Format::Edn),
            ("dir.x/h", Format::Margay),
            ("h.gz", Format::Margay),
            ("h.margay-bin", Format::MargayBin),
            ("h.mgb", Format::MargayBin),
            ("h.mgb.zst", Format::MargayBin),
            ("h.txt", Format::Text),
            ("h.json", Format::ElleJson),
            ("h.bincode", Format::Dbcop),
            ("logs.cobra", Format::Cobra),
            ("-", Format::Margay),
        ] {
            assert_eq!(format_of(Path::new(name)), Ok(format), "{name}");
        }
    }

    /// `.mgb` was documented as the binary form and wrote JSON lines; so did every unknown
    /// extension.
    #[test]
    fn an_unknown_extension_is_an_error_that_lists_the_formats() {
        for name in ["h.parquet", "h.parquet.gz"] {
            let error = format_of(Path::new(name)).expect_err(name);
            let error = error.text();
            assert!(error.contains("extension .parquet") && error.contains("margay-bin (.mgb)"), "{error}");
            assert!(!error.contains("viper"), "{error}");
        }
    }
}
