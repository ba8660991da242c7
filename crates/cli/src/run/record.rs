//! The file of `--record`, which grows while clients run.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use margay_runner::Output;

use crate::failure::Failure;
use crate::files;

/// How long lines wait for others to be compressed with.
const FRAME_TIME: Duration = Duration::from_millis(500);
/// Lines of this size in all wait for no others.
const FRAME_BYTES: usize = 4 << 20;

/// Opens it; compressed if its name ends in `.gz` or `.zst`.
pub fn open(path: &Path) -> Result<Output<'static>, Failure> {
    if files::is_stream(path) {
        return Ok(Box::new(io::stdout()));
    }
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
    let file = File::create(path).map_err(failed)?;
    Ok(match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Box::new(Frames::new(file, gzip)),
        Some("zst") => Box::new(Frames::new(file, |lines| zstd::bulk::compress(lines, 3))),
        _ => Box::new(file),
    })
}

fn gzip(lines: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(lines)?;
    encoder.finish()
}

/// A compressed file that grows by whole frames (zstd) or members (gzip), each of whole lines.
/// Whoever kills the recorder can cut off only the last one.
struct Frames {
    frame: Arc<Mutex<Frame>>,
    /// Ends the clock, which closes a frame in time also while nothing is written.
    clock: Option<(Sender<()>, JoinHandle<()>)>,
}

/// The lines that wait, and where they go.
struct Frame {
    file: File,
    compress: fn(&[u8]) -> io::Result<Vec<u8>>,
    lines: Vec<u8>,
    /// What the clock could not write, for who writes next.
    failed: Option<io::Error>,
}

impl Frames {
    fn new(file: File, compress: fn(&[u8]) -> io::Result<Vec<u8>>) -> Self {
        let frame = Arc::new(Mutex::new(Frame { file, compress, lines: Vec::new(), failed: None }));
        let (stop, stopped) = mpsc::channel();
        let ticking = Arc::clone(&frame);
        let clock = thread::spawn(move || {
            while stopped.recv_timeout(FRAME_TIME) == Err(RecvTimeoutError::Timeout) {
                let mut frame = lock(&ticking);
                frame.failed = frame.close().err().or(frame.failed.take());
            }
        });
        Self { frame, clock: Some((stop, clock)) }
    }
}

impl Frame {
    fn close(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let frame = (self.compress)(&self.lines)?;
        self.lines.clear();
        self.file.write_all(&frame)
    }
}

impl Write for Frames {
    /// What is written at once are whole lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut frame = lock(&self.frame);
        if let Some(failed) = frame.failed.take() {
            return Err(failed);
        }
        frame.lines.extend_from_slice(lines);
        if frame.lines.len() >= FRAME_BYTES {
            frame.close()?;
        }
        Ok(lines.len())
    }

    /// A flush a hundred times a second would make the file larger than what it compresses.
    fn flush(&mut self) -> io::Result<()> {
        lock(&self.frame).failed.take().map_or(Ok(()), Err)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        if let Some((stop, clock)) = self.clock.take() {
            drop(stop);
            let _ = clock.join();
        }
        if let Err(error) = lock(&self.frame).close() {
            Failure::new(format!("the end of the recording cannot be written: {error}")).print_as_warning();
        }
    }
}

fn lock(frame: &Mutex<Frame>) -> MutexGuard<'_, Frame> {
    frame.lock().unwrap_or_else(PoisonError::into_inner)
}
