//! A cursor over the text of the mini language.

use std::fmt;

/// What is wrong with a text in the mini language, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MiniError {
    /// What is wrong.
    pub what: String,
    /// The byte at which it was noticed.
    pub at: usize,
    /// The line that it stands in, with a caret below.
    pub shown: String,
}

impl MiniError {
    pub(super) fn new(text: &str, at: usize, what: impl Into<String>) -> Self {
        let at = (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
        let end = text[at..].find('\n').map_or(text.len(), |i| at + i);
        let column = text[start..at].chars().count();
        let shown = format!("{}\n{}^", &text[start..end], " ".repeat(column));
        Self { what: what.into(), at, shown }
    }
}

impl fmt::Display for MiniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})\n{}", self.what, self.at, self.shown)
    }
}

impl std::error::Error for MiniError {}

pub(super) type Result<T> = std::result::Result<T, MiniError>;

/// Where the parser stands.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn fail<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(MiniError::new(self.text, self.at, what))
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn is_done(&self) -> bool {
        self.rest().is_empty()
    }

    pub fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Goes past `token` if it is next.
    pub fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    pub fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { self.fail(format!("expected `{token}`")) }
    }

    /// The longest run of characters that satisfy `is`.
    pub fn run(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !is(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A word: letters, digits, `_`, `-` and `.`.
    pub fn word(&mut self) -> Result<&'a str> {
        match self.run(|c| c.is_alphanumeric() || "_-.".contains(c)) {
            "" => self.fail("expected a name"),
            word => Ok(word),
        }
    }

    pub fn number<N: std::str::FromStr>(&mut self) -> Result<N> {
        let at = self.at;
        let digits = self.run(|c| c.is_ascii_digit() || c == '-');
        digits.parse().map_err(|_| MiniError::new(self.text, at, "expected a number"))
    }

    /// Text between single quotes, a quote doubled.
    pub fn quoted(&mut self) -> Result<String> {
        self.expect("'")?;
        let mut out = String::new();
        loop {
            match self.bump() {
                Some('\'') if self.eat("'") => out.push('\''),
                Some('\'') => return Ok(out),
                Some(c) => out.push(c),
                None => return self.fail("a text that does not end"),
            }
        }
    }

    /// Text up to one of `ends` outside brackets and quotes, trimmed.
    pub fn until(&mut self, ends: &[char]) -> Result<&'a str> {
        let (start, mut depth, mut quoted) = (self.at, 0, false);
        while let Some(c) = self.peek() {
            match c {
                '\'' => quoted = !quoted,
                _ if quoted => {}
                _ if depth == 0 && ends.contains(&c) => return Ok(self.text[start..self.at].trim()),
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            self.bump();
        }
        self.fail(format!("expected one of {ends:?}"))
    }
}
