//! `margay convert`.

use std::path::Path;

use margay_formats::Format;
use margay_history::History;
use margay_rows::Sight;
use margay_verdict::Budget;

use crate::args::ConvertArgs;
use crate::failure::{Failure, Status};
use crate::progress::Progress;
use crate::{files, terminal};

/// Reads one format and writes another, whole or not at all.
pub fn run(args: ConvertArgs) -> Result<Status, Failure> {
    let to = args.to.unwrap_or_else(|| format_of(&args.output));
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
            .for_each(|what| eprintln!("warning: {}: {to} leaves out {what}", args.output.display()));
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

/// The history with operations on rows instead of its statements, whatever the level; none if it has no statements.
fn as_rows(path: &Path, history: &History) -> Result<Option<History>, Failure> {
    let Some(rows) = margay_rows::translate(history, Sight::Changing) else { return Ok(None) };
    match rows.left {
        Some(left) => Err(Failure::new(format!("{}: {left}", path.display()))),
        None => Ok(Some(rows.history)),
    }
}

/// The format that the file's extension names, compression aside; else the native one.
pub fn format_of(path: &Path) -> Format {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    extension.parse().unwrap_or(Format::Margay)
}

/// Says so before any work is done.
pub fn must_be_writable(format: Format) -> Result<(), Failure> {
    match format.can_write() {
        true => Ok(()),
        false => Err(Failure::new(format!("the format {format} can be read, but not written"))),
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
            ("h.margay-bin", Format::MargayBin),
            ("-", Format::Margay),
        ] {
            assert_eq!(format_of(Path::new(name)), format, "{name}");
        }
    }
}
