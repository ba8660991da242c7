//! How reading is ended from outside, when it takes too long or too much memory.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

/// Asked for every block that is read; if it says so, reading ends with an error.
#[derive(Clone, Default)]
pub(crate) struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    pub fn when(over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(over)))
    }

    pub fn check(&self) -> io::Result<()> {
        match &self.0 {
            Some(over) if over() => Err(io::Error::new(io::ErrorKind::TimedOut, "reading was stopped")),
            _ => Ok(()),
        }
    }

    /// The same stream, until it is stopped.
    pub fn on<'a>(&self, inner: Box<dyn BufRead + 'a>) -> Box<dyn BufRead + 'a> {
        match self.0 {
            Some(_) => Box::new(Stoppable { inner, stop: self.clone() }),
            None => inner,
        }
    }
}

struct Stoppable<'a> {
    inner: Box<dyn BufRead + 'a>,
    stop: Stop,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check()?;
        self.inner.read(buffer)
    }
}

impl BufRead for Stoppable<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.stop.check()?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
    }
}
