//! Standard output, and its colours.

use std::io::{self, IsTerminal, Write};

use crate::failure::{Failure, Status};

/// Prints a result. A reader that went away (`margay levels | head`) is no error.
pub fn print(text: &str) -> Result<Status, Failure> {
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("<standard output>: {error}")))
        }
        _ => Ok(Status::Fine),
    }
}

/// How wide the terminal is; a usual width where there is none.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// Colours, where they are wanted.
#[derive(Clone, Copy)]
pub struct Paint {
    inner: margay_report::Paint,
}

impl Paint {
    /// Colours for standard output: on a terminal and without `NO_COLOR`.
    pub fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { inner: margay_report::Paint { on: !refused && io::stdout().is_terminal() } }
    }

    /// The same for the library.
    pub fn inner(self) -> margay_report::Paint {
        self.inner
    }

    /// A verdict's word in its colour.
    pub fn verdict(self, word: &str) -> String {
        self.inner.verdict(word)
    }

    /// A name that should be found by the eye.
    pub fn bold(self, text: &str) -> String {
        self.inner.bold(text)
    }

    /// What matters less.
    pub fn dim(self, text: &str) -> String {
        self.inner.dim(text)
    }
}
