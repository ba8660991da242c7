//! `margay convert`.

use std::path::Path;

use margay_formats::Format;

use crate::args::ConvertArgs;
use crate::failure::{Failure, Status};
use crate::progress::Progress;
use crate::{files, terminal};

/// Reads one format and writes another, whole or not at all.
pub fn run(args: ConvertArgs) -> Result<Status, Failure> {
    let to = args.to.unwrap_or_else(|| format_of(&args.output));
    must_be_writable(to)?;
    let (loaded, _) = files::read_input(&args.input, &args.from, args.quiet)?;
    {
        let _progress = Progress::show(&format!("writing {}", args.output.display()), !args.quiet);
        margay_formats::write(&loaded.history, to, files::target(&args.output))?;
    }
    if !args.quiet {
        let left_out = margay_formats::omissions(&loaded.history, to);
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
        loaded.history.txn_count(),
        loaded.history.op_count(),
    ))
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
