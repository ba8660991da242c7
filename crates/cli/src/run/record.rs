//! The file of `--record`, which grows while clients run.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use margay_runner::Output;

use crate::failure::Failure;
use crate::files;

/// Opens it; compressed if its name ends in `.gz` or `.zst`.
pub fn open(path: &Path) -> Result<Output<'static>, Failure> {
    if files::is_stream(path) {
        return Ok(Box::new(io::stdout()));
    }
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
    let file = File::create(path).map_err(failed)?;
    Ok(match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Box::new(Whole(GzEncoder::new(file, Compression::default()))),
        Some("zst") => Box::new(Whole(zstd::Encoder::new(file, 3).map_err(failed)?.auto_finish())),
        _ => Box::new(file),
    })
}

/// A compressed file is passed on when the compressor likes to, and complete in the end: flushing it a hundred times a second would make it larger than what it
/// compresses.
struct Whole<W>(W);

impl<W: Write> Write for Whole<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
