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

/// Colours, where they are wanted.
#[derive(Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Colours for standard output: on a terminal and without `NO_COLOR`.
    pub fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { on: !refused && io::stdout().is_terminal() }
    }

    /// A verdict's word in its colour.
    pub fn verdict(self, word: &str) -> String {
        match word {
            "holds" | "clean" | "accepted" => self.paint("1;32", word),
            "violated" | "rejected" => self.paint("1;31", word),
            _ => self.paint("1;33", word),
        }
    }

    /// A name that should be found by the eye.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What matters less.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
