//! Standard output and its colours, and standard error.
//!
//! # Invariants
//! What histories, certificates, results and databases say reaches a terminal through [`visible`]
//! only: no control character of theirs does.

use std::io::{self, IsTerminal, Write};

use margay_report::limit::visible;

use crate::failure::{Failure, Status};

/// Prints a result for people.
pub fn print(text: &str) -> Result<Status, Failure> {
    write(&shown(text, Paint::for_stdout()))
}

/// Prints JSON. What a terminal would obey is escaped as JSON does it.
pub fn print_json(json: &str) -> Result<Status, Failure> {
    write(&json_escaped(json))
}

/// Prints a document (a page, a picture, a certificate): as it is, unless a terminal shows it.
pub fn print_document(text: &str) -> Result<Status, Failure> {
    if io::stdout().is_terminal() { write(&shown(text, Paint::for_stdout())) } else { write(text) }
}

/// A reader that went away (`margay levels | head`) is no error.
fn write(text: &str) -> Result<Status, Failure> {
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("<standard output>: {error}")))
        }
        _ => Ok(Status::Fine),
    }
}

/// The text as a terminal may have it: our own colours, where there are any, and nothing else to
/// obey.
fn shown(text: &str, paint: Paint) -> String {
    if !paint.inner.on {
        return visible(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        out += &visible(&rest[..at]);
        rest = &rest[at..];
        let own = margay_report::Paint::CODES.iter().find(|code| rest.starts_with(**code));
        let length = own.map_or(1, |code| code.len());
        match own {
            Some(code) => out += code,
            None => out += &visible(&rest[..length]),
        }
        rest = &rest[length..];
    }
    out + &visible(rest)
}

/// Control characters occur in texts of JSON only; those below the space are escaped already.
fn json_escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\n' => out.push('\n'),
            c if c.is_control() => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

/// Prints a warning.
pub fn warn(what: &str) {
    tell("warning", what);
}

/// Prints a line of standard error that begins with its `kind`.
pub fn tell(kind: &str, what: &str) {
    // Standard error may be gone; the exit status still tells.
    let _ = writeln!(io::stderr(), "{kind}: {}", visible(what));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_colours_pass() {
        let on = Paint { inner: margay_report::Paint { on: true } };
        let text = format!("{} \x1b[2J\x1b]0;title\x07 {}", on.bold("a"), on.dim("b"));
        let expected = format!("{} \\u{{1b}}[2J\\u{{1b}}]0;title\\u{{7}} {}", on.bold("a"), on.dim("b"));
        assert_eq!(shown(&text, on), expected);
        let off = Paint { inner: margay_report::Paint { on: false } };
        assert!(!shown(&text, off).contains('\x1b'));
    }

    #[test]
    fn json_stays_json() {
        let json = serde_json::to_string("a\u{9b}2J\x1b\n").expect("JSON");
        let escaped = json_escaped(&json);
        assert_eq!(escaped, r#""a\u009b2J\u001b\n""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), "a\u{9b}2J\x1b\n");
    }
}
