//! Why a history could not be read or written, with its place.

use std::fmt::{self, Write};
use std::io;

use margay_history::{History, Invalid, OpId};

use crate::Format;

/// What is wrong, and where. Its `Display` is `file:line:column: what`; [`FormatError::render`]
/// adds the offending line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormatError {
    /// The file, as the user named it.
    pub file: Option<String>,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// The column in bytes, counted from 1.
    pub column: Option<u64>,
    /// The byte, counted from 0, in formats without lines.
    pub offset: Option<u64>,
    /// What is wrong, as a sentence without a full stop.
    pub what: String,
    /// The offending line, or a window of it.
    pub snippet: Option<Box<Snippet>>,
}

/// A piece of a line, to show with a caret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snippet {
    /// The text, without control characters.
    pub text: String,
    /// How many characters stand before the caret.
    pub caret: usize,
}

/// Bytes of a line that are shown at each side of the error.
const WINDOW: usize = 50;

impl FormatError {
    /// Something wrong at no place in particular.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { file: None, line: None, column: None, offset: None, what: what.into(), snippet: None }
    }

    /// The same in a file.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        self.file.get_or_insert_with(|| file.to_string());
        self
    }

    /// The same on a line, counted from 1.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    /// The same at a column, in bytes counted from 1.
    #[must_use]
    pub fn at_column(mut self, column: u64) -> Self {
        self.column = Some(column);
        self
    }

    /// The same at a byte, counted from 0.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// The same with the offending line to show.
    #[must_use]
    pub fn with_snippet(mut self, line: &[u8]) -> Self {
        self.snippet = Some(Box::new(Snippet::of(line, self.column.unwrap_or(1))));
        self
    }

    /// What serde_json says of a whole document. Its columns are already counted from 1, its lines
    /// too.
    #[must_use]
    pub fn json(error: &serde_json::Error) -> Self {
        let whole = error.to_string();
        let what = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(what, _)| what);
        let new = Self::new(what);
        match error.line() {
            0 => new,
            line => new.at_line(line as u64).at_column(error.column().max(1) as u64),
        }
    }

    /// What the format cannot carry, and which operation it is.
    #[must_use]
    pub fn cannot_carry(format: Format, history: &History, op: OpId, what: &str) -> Self {
        let txn = history.txn_of(op);
        Self::new(format!(
            "transaction {}, operation {} ({}): the format {format} cannot carry {what}",
            history.txn_label(txn),
            history.op_index(op),
            history.op(op).kind.name(),
        ))
    }

    /// The error with the offending line below it and a caret under the column.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = self.to_string();
        if let Some(snippet) = &self.snippet {
            let number = self.line.map_or(String::new(), |line| line.to_string());
            let margin = " ".repeat(number.len());
            let _ = write!(
                out,
                "\n {margin} |\n {number} | {}\n {margin} | {:caret$}^",
                snippet.text,
                "",
                caret = snippet.caret
            );
        }
        out
    }
}

impl Snippet {
    fn of(line: &[u8], column: u64) -> Self {
        let at = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX).min(line.len());
        let (start, end) = (at.saturating_sub(WINDOW), (at + WINDOW).min(line.len()));
        let mut text = printable(&line[start..at]);
        if start > 0 {
            text.insert(0, '…');
        }
        let caret = text.chars().count();
        text.push_str(&printable(&line[at..end]));
        if end < line.len() {
            text.push('…');
        }
        Self { text, caret }
    }
}

/// The bytes as text in which every character takes one place.
fn printable(bytes: &[u8]) -> String {
    let shown = |c: char| match c {
        '\t' => ' ',
        c if c.is_control() => '·',
        c => c,
    };
    String::from_utf8_lossy(bytes).chars().map(shown).collect()
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
        }
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
            if let Some(column) = self.column {
                write!(f, "{column}:")?;
            }
        }
        if let Some(offset) = self.offset {
            write!(f, "byte {offset}:")?;
        }
        let placed = self.file.is_some() || self.line.is_some() || self.offset.is_some();
        write!(f, "{}{}", if placed { " " } else { "" }, self.what)
    }
}

impl std::error::Error for FormatError {}

impl From<io::Error> for FormatError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::new("no such file or directory"),
            io::ErrorKind::PermissionDenied => Self::new("permission denied"),
            _ if error.get_ref().is_some() => Self::new(error.to_string()),
            io::ErrorKind::UnexpectedEof => Self::new("the file ends too early"),
            _ => Self::new(error.to_string()),
        }
    }
}

/// A rule of the model that was broken, at no line yet: for writers and formats whose places are
/// not lines.
impl From<Invalid> for FormatError {
    fn from(invalid: Invalid) -> Self {
        Self::new(invalid.what)
    }
}

/// The error with its line, fetched again from its file when the reader no longer had it.
pub(crate) fn with_line_of_file(error: FormatError) -> FormatError {
    let (Some(file), Some(line), None) = (&error.file, error.line, &error.snippet) else { return error };
    let Some(text) = line_of_file(file, line) else { return error };
    error.with_snippet(&text)
}

fn line_of_file(file: &str, number: u64) -> Option<Vec<u8>> {
    let mut lines =
        crate::input::Input::open(file.as_ref(), crate::stop::Stop::default()).ok()?.lines().ok()?;
    while lines.advance().ok()? {
        if lines.number() == number {
            return Some(lines.line().to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_place_and_a_caret() {
        let error = FormatError::new("unknown field").in_file("h.jsonl").at_line(12).at_column(3);
        assert_eq!(error.to_string(), "h.jsonl:12:3: unknown field");
        assert_eq!(
            error.with_snippet(b"{\t\x07x}").render(),
            "h.jsonl:12:3: unknown field\n    |\n 12 | { ·x}\n    |   ^"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
        let mut line = vec![b'a'; 10_000_000];
        line[5_000_000] = b'!';
        let error = FormatError::new("bad").at_line(1).at_column(5_000_001).with_snippet(&line);
        let shown = error.snippet.unwrap();
        assert_eq!(shown.text.chars().count(), 2 * WINDOW + 2);
        assert_eq!(shown.text.chars().nth(shown.caret), Some('!'));
    }
}
