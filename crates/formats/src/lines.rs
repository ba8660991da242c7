//! Lines of a stream, without copying them.

use std::io::{BufRead, Read};

use margay_history::Invalid;

use crate::FormatError;

/// The longest line: more is an error instead of a full memory.
pub(crate) const LINE_LIMIT: usize = 64 << 20;
/// More than the reader below holds, so that it hands through without copying.
const BLOCK: usize = 1 << 20;

/// A stream read line by line. It knows where it stands and makes errors that say so.
pub(crate) struct Lines<'a> {
    name: String,
    reader: Box<dyn BufRead + 'a>,
    buffer: Vec<u8>,
    /// The current line is `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Where the next line begins.
    next: usize,
    /// How much of the buffer is filled.
    filled: usize,
    /// The current line's number, from 1.
    number: u64,
    /// Whether the current line ended with the stream instead of a line break.
    unterminated: bool,
    limit: usize,
}

impl<'a> Lines<'a> {
    pub fn new(name: String, reader: Box<dyn BufRead + 'a>) -> Self {
        Self {
            name,
            reader,
            buffer: vec![0; BLOCK],
            start: 0,
            end: 0,
            next: 0,
            filled: 0,
            number: 0,
            unterminated: false,
            limit: LINE_LIMIT,
        }
    }

    #[cfg(test)]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Goes to the next line; `false` at the end. A line has no `\n`, nor a `\r` before it.
    pub fn advance(&mut self) -> Result<bool, FormatError> {
        self.start = self.next;
        self.end = self.next;
        self.number += 1;
        let mut searched = self.next;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[searched..self.filled]) {
                self.end = searched + found;
                self.next = self.end + 1;
                break;
            }
            searched = self.filled;
            if searched - self.start > self.limit {
                let what = format!("this line is longer than {} MiB", self.limit >> 20);
                self.end = self.filled;
                return Err(self.error(1, what));
            }
            let moved = self.make_room();
            searched -= moved;
            if self.fill()? == 0 {
                self.end = self.filled;
                self.next = self.filled;
                self.unterminated = true;
                if self.start == self.end {
                    return Ok(false);
                }
                break;
            }
        }
        if self.buffer[self.start..self.end].ends_with(b"\r") {
            self.end -= 1;
        }
        Ok(true)
    }

    /// Room behind what is filled: the current line moves to the front, or the buffer doubles.
    /// Answers how far things moved.
    fn make_room(&mut self) -> usize {
        if self.filled < self.buffer.len() {
            return 0;
        }
        let moved = self.start;
        if moved > 0 {
            self.buffer.copy_within(moved..self.filled, 0);
            self.filled -= moved;
            (self.start, self.end, self.next) = (0, self.end - moved, self.next - moved);
        } else {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        moved
    }

    fn fill(&mut self) -> Result<usize, FormatError> {
        loop {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(count) => {
                    self.filled += count;
                    return Ok(count);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(FormatError::from(e).in_file(&self.name).at_line(self.number)),
            }
        }
    }

    /// The current line.
    pub fn line(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether the stream ended within the current line.
    pub fn is_unterminated(&self) -> bool {
        self.unterminated
    }

    /// The current line as text.
    pub fn text(&self) -> Result<&str, FormatError> {
        std::str::from_utf8(self.line())
            .map_err(|e| self.error(e.valid_up_to() as u64 + 1, "this is not UTF-8 text"))
    }

    /// The current line's number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// An error on the current line, at a column counted in bytes from 1.
    pub fn error(&self, column: u64, what: impl Into<String>) -> FormatError {
        FormatError::new(what)
            .in_file(&self.name)
            .at_line(self.number)
            .at_column(column)
            .with_snippet(self.line())
    }

    /// A broken rule of the model, whose place is a line number, as told to
    /// `HistoryBuilder::at_place`.
    pub fn invalid(&self, invalid: Invalid) -> FormatError {
        if invalid.place == self.number {
            return self.error(1, invalid.what);
        }
        let error = FormatError::new(invalid.what).in_file(&self.name);
        match invalid.place {
            0 => error,
            place => error.at_line(place).at_column(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<String> {
        let mut lines = Lines::new("t".into(), Box::new(text));
        let mut found = Vec::new();
        while lines.advance().unwrap() {
            found.push(lines.text().unwrap().to_string());
        }
        found
    }

    #[test]
    fn finds_all_lines() {
        assert_eq!(all(b""), [""; 0]);
        assert_eq!(all(b"a\r\n\nb"), ["a", "", "b"]);
        assert_eq!(all(b"a\n"), ["a"]);
    }

    #[test]
    fn lines_may_be_longer_than_the_buffer() {
        let long = "x".repeat(3 * BLOCK + 17);
        let text = format!("a\n{long}\nb\n{long}");
        assert_eq!(all(text.as_bytes()), ["a", &long, "b", &long]);
    }

    #[test]
    fn a_line_over_the_limit_is_an_error() {
        let text = format!("a\n{}\n", "x".repeat(5 << 20));
        let mut lines = Lines::new("t".into(), Box::new(text.as_bytes())).with_limit(1 << 20);
        assert!(lines.advance().unwrap());
        assert_eq!(lines.advance().unwrap_err().to_string(), "t:2:1: this line is longer than 1 MiB");
        assert!(lines.buffer.len() <= 4 << 20, "the rest of the line is not read");
    }

    #[test]
    fn broken_text_has_its_column() {
        let mut lines = Lines::new("t".into(), Box::new(&b"ab\xff"[..]));
        lines.advance().unwrap();
        assert_eq!(lines.text().unwrap_err().to_string(), "t:1:3: this is not UTF-8 text");
    }
}
