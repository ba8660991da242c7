//! The scanner of EDN and JSON: bytes onto a [`Tape`].
//!
//! EDN as Jepsen writes it and more: tagged elements (`#jepsen.history.Op{…}`, `#inst "…"`), sets,
//! discarded forms (`#_`), comments, metadata, characters, regular expressions, `1N`, `2.5M`,
//! ratios, `##Inf`, and `\u00e9` in strings.

use super::forms::{DEPTH, Node, Span, Syntax, Tape};

/// Why scanning stopped.
pub(crate) enum Stop {
    /// The form goes on behind the window.
    More,
    /// What is wrong, and where in the window.
    Bad(usize, String),
}

/// Scans one window.
pub(crate) struct Scanner<'b> {
    bytes: &'b [u8],
    position: usize,
    /// Whether the input ends with the window.
    ended: bool,
    json: bool,
    depth: usize,
    tape: &'b mut Tape,
}

impl<'b> Scanner<'b> {
    pub fn new(bytes: &'b [u8], ended: bool, syntax: Syntax, tape: &'b mut Tape) -> Self {
        Self { bytes, position: 0, ended, json: syntax == Syntax::Json, depth: 0, tape }
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn skip(&mut self, count: usize) {
        self.position += count;
    }

    pub fn bad(&self, what: impl Into<String>) -> Stop {
        Stop::Bad(self.position, what.into())
    }

    /// The next byte; `None` at the end of the input.
    pub fn peek(&self) -> Result<Option<u8>, Stop> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Result<Option<u8>, Stop> {
        match self.bytes.get(self.position + ahead) {
            Some(&byte) => Ok(Some(byte)),
            None if self.ended => Ok(None),
            None => Err(Stop::More),
        }
    }

    fn need(&self) -> Result<u8, Stop> {
        self.peek()?.ok_or_else(|| self.bad("the file ends in the middle of a form"))
    }

    pub fn at_end(&self) -> Result<bool, Stop> {
        Ok(self.peek()?.is_none())
    }

    /// Passes over blanks, comments and discarded forms.
    pub fn skip_blanks(&mut self) -> Result<(), Stop> {
        loop {
            match self.bytes.get(self.position) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.position += 1,
                Some(b',' | 0x0c) if !self.json => self.position += 1,
                Some(b';') if !self.json => self.skip_line(),
                Some(b'#') if !self.json && self.peek_at(1)? == Some(b'_') => self.discard()?,
                Some(0xef) if self.bytes[self.position..].starts_with(b"\xef\xbb\xbf") => self.position += 3,
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.position..];
        self.position += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    /// `#_ form`: scanned, then forgotten.
    fn discard(&mut self) -> Result<(), Stop> {
        self.position += 2;
        let (nodes, text) = (self.tape.nodes.len(), self.tape.text.len());
        self.skip_blanks_deeper()?;
        self.form()?;
        self.tape.nodes.truncate(nodes);
        self.tape.offsets.truncate(nodes);
        self.tape.text.truncate(text);
        Ok(())
    }

    /// Blanks in which another discarded form may lie, counted as a level of nesting.
    fn skip_blanks_deeper(&mut self) -> Result<(), Stop> {
        self.deeper()?;
        self.skip_blanks()?;
        self.depth -= 1;
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), Stop> {
        self.depth += 1;
        match self.depth > DEPTH {
            true => Err(self.bad(format!("forms are nested deeper than {DEPTH}"))),
            false => Ok(()),
        }
    }

    /// Between the forms of a wrapper: whether it closes here. JSON wants its commas.
    pub fn separator(&mut self, close: u8, first: bool) -> Result<bool, Stop> {
        match self.peek()? {
            Some(byte) if byte == close => {
                self.position += 1;
                return Ok(true);
            }
            Some(b',') if self.json && !first => {
                self.position += 1;
                self.skip_blanks()?;
            }
            Some(_) if self.json && !first => {
                return Err(self.bad(format!("expected ',' or '{}'", char::from(close))));
            }
            _ => {}
        }
        Ok(false)
    }

    /// One form, at a byte that is no blank.
    pub fn form(&mut self) -> Result<(), Stop> {
        self.deeper()?;
        let start = self.position;
        match self.need()? {
            b'"' => self.string(start)?,
            b'[' => self.container(start, b']', Node::Vector)?,
            b'{' => self.container(start, b'}', Node::Map)?,
            b'(' if !self.json => self.container(start, b')', Node::List)?,
            b'#' if !self.json => self.dispatch(start)?,
            b'^' if !self.json => self.metadata()?,
            b'\\' if !self.json => self.character(start)?,
            b']' | b'}' | b')' => return Err(self.bad("a closing bracket without an opening one")),
            _ => self.token(start)?,
        }
        self.depth -= 1;
        Ok(())
    }

    fn container(&mut self, start: usize, close: u8, node: fn(u32) -> Node) -> Result<(), Stop> {
        self.position += 1;
        let index = self.tape.nodes.len();
        self.tape.push(Node::Nil, start);
        let mut count = 0;
        loop {
            self.skip_blanks()?;
            if self.need()? == close {
                break;
            }
            if self.json {
                self.json_separator(close, count)?;
            }
            self.form()?;
            count += 1;
        }
        if close == b'}' && matches!(node(0), Node::Map(_)) && count % 2 == 1 {
            return Err(self.bad("a map with a key that has no value"));
        }
        self.position += 1;
        self.tape.nodes[index] = node(self.tape.nodes.len() as u32);
        Ok(())
    }

    /// The comma or colon before element number `count` of a JSON container.
    fn json_separator(&mut self, close: u8, count: usize) -> Result<(), Stop> {
        let wanted = match (close, count) {
            (_, 0) => None,
            (b'}', odd) if odd % 2 == 1 => Some(b':'),
            _ => Some(b','),
        };
        if let Some(wanted) = wanted {
            if self.need()? != wanted {
                return Err(self.bad(format!("expected '{}'", char::from(wanted))));
            }
            self.position += 1;
            self.skip_blanks()?;
        }
        if close == b'}' && count.is_multiple_of(2) && self.need()? != b'"' {
            return Err(self.bad("expected a name in double quotes"));
        }
        Ok(())
    }

    /// What `#` begins.
    fn dispatch(&mut self, start: usize) -> Result<(), Stop> {
        match self.peek_at(1)? {
            Some(b'{') => {
                self.position += 1;
                self.container(start, b'}', Node::Set)
            }
            Some(b'"') => {
                self.position += 1;
                self.string(start)
            }
            Some(b'#') => {
                self.position += 2;
                let token = self.take_token()?;
                match token {
                    b"Inf" | b"-Inf" | b"NaN" => self.tape.push(Node::OddNumber, start),
                    _ => return Err(Stop::Bad(start, "an unknown symbolic value".into())),
                }
                Ok(())
            }
            Some(byte) if byte.is_ascii_alphabetic() => {
                self.position += 1;
                self.take_token()?;
                self.tape.push(Node::Tag, start);
                self.skip_blanks()?;
                self.form()
            }
            _ => Err(self.bad("an unknown form after '#'")),
        }
    }

    /// `^meta form`: the metadata is forgotten.
    fn metadata(&mut self) -> Result<(), Stop> {
        self.position += 1;
        let (nodes, text) = (self.tape.nodes.len(), self.tape.text.len());
        self.skip_blanks()?;
        self.form()?;
        self.tape.nodes.truncate(nodes);
        self.tape.offsets.truncate(nodes);
        self.tape.text.truncate(text);
        self.skip_blanks()?;
        self.form()
    }

    fn take_token(&mut self) -> Result<&'b [u8], Stop> {
        let bytes = self.bytes;
        let start = self.position;
        let rest = &bytes[start..];
        match rest.iter().position(|&byte| is_delimiter(byte)) {
            Some(length) => self.position += length,
            None if self.ended => self.position = bytes.len(),
            None => return Err(Stop::More),
        }
        Ok(&bytes[start..self.position])
    }

    /// A number, keyword or symbol.
    fn token(&mut self, start: usize) -> Result<(), Stop> {
        let token = self.take_token()?;
        let node = match token {
            [] => return Err(self.bad("expected a form")),
            [b'0'..=b'9', ..] | [b'-' | b'+', b'0'..=b'9', ..] => self.number(start, token)?,
            b"null" if self.json => Node::Nil,
            b"nil" if !self.json => Node::Nil,
            b"true" => Node::Bool(true),
            b"false" => Node::Bool(false),
            _ if self.json => return Err(Stop::Bad(start, "expected a JSON value".into())),
            [b':', _, ..] => Node::Keyword(self.keep(start, token)?),
            [b':'] => return Err(Stop::Bad(start, "a keyword without a name".into())),
            _ => Node::Symbol,
        };
        self.tape.push(node, start);
        Ok(())
    }

    fn keep(&mut self, start: usize, bytes: &[u8]) -> Result<Span, Stop> {
        let text = std::str::from_utf8(bytes)
            .map_err(|e| Stop::Bad(start + e.valid_up_to(), "this is not UTF-8 text".into()))?;
        let from = self.tape.text.len() as u32;
        self.tape.text.push_str(text);
        Ok(Span { start: from, end: self.tape.text.len() as u32 })
    }

    fn number(&self, start: usize, token: &[u8]) -> Result<Node, Stop> {
        let bad = || Stop::Bad(start, "a malformed number".to_string());
        let (negative, digits) = match token {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        let digits = digits.strip_suffix(b"N").filter(|_| !self.json).unwrap_or(digits);
        if digits.iter().all(u8::is_ascii_digit) {
            return Ok(integer(negative, digits));
        }
        if let Some(slash) = digits.iter().position(|&byte| byte == b'/')
            && !self.json
        {
            let whole = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
            return match whole(&digits[..slash]) && whole(&digits[slash + 1..]) {
                true => Ok(Node::OddNumber),
                false => Err(bad()),
            };
        }
        let token = token.strip_suffix(b"M").filter(|_| !self.json).unwrap_or(token);
        let plain = token.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
        let text = std::str::from_utf8(token).ok().filter(|_| plain).ok_or_else(bad)?;
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Node::Float(float)),
            Ok(_) => Ok(Node::OddNumber),
            Err(_) => Err(bad()),
        }
    }

    /// A string, from its opening quote.
    fn string(&mut self, start: usize) -> Result<(), Stop> {
        self.position += 1;
        let from = self.tape.text.len() as u32;
        loop {
            let rest = &self.bytes[self.position..];
            let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                return Err(match self.ended {
                    true => Stop::Bad(start, "a string without an end".into()),
                    false => Stop::More,
                });
            };
            self.keep(self.position, &rest[..found])?;
            self.position += found + 1;
            if rest[found] == b'"' {
                break;
            }
            let c = self.escape()?;
            self.tape.text.push(c);
        }
        let end = self.tape.text.len() as u32;
        self.tape.push(Node::Text(Span { start: from, end }), start);
        Ok(())
    }

    /// What follows a backslash in a string.
    fn escape(&mut self) -> Result<char, Stop> {
        let c = match self.need()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => return self.unicode(),
            _ => return Err(self.bad("an unknown escape in a string")),
        };
        self.position += 1;
        Ok(c)
    }

    /// `uXXXX`, two of them for a character outside the basic plane.
    fn unicode(&mut self) -> Result<char, Stop> {
        let start = self.position;
        let mut unit = self.hex4()?;
        if (0xd800..0xdc00).contains(&unit) && self.peek()? == Some(b'\\') && self.peek_at(1)? == Some(b'u') {
            self.position += 1;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        char::from_u32(unit).ok_or_else(|| Stop::Bad(start, "half of a surrogate pair".into()))
    }

    fn hex4(&mut self) -> Result<u32, Stop> {
        self.position += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = char::from(self.need()?).to_digit(16);
            unit = unit * 16 + digit.ok_or_else(|| self.bad("expected four hexadecimal digits"))?;
            self.position += 1;
        }
        Ok(unit)
    }

    /// A character: `\a`, `\newline`, `\u00e9`, `\(`.
    fn character(&mut self, start: usize) -> Result<(), Stop> {
        self.position += 1;
        let first = self.need()?;
        if is_delimiter(first) {
            self.position += 1;
            let span = self.keep(start, &[first])?;
            self.tape.push(Node::Text(span), start);
            return Ok(());
        }
        let token = self.take_token()?;
        let named = match token {
            b"newline" => Some('\n'),
            b"space" => Some(' '),
            b"tab" => Some('\t'),
            b"return" => Some('\r'),
            b"backspace" => Some('\u{8}'),
            b"formfeed" => Some('\u{c}'),
            [b'u', hex @ ..] if hex.len() == 4 => std::str::from_utf8(hex)
                .ok()
                .and_then(|hex| u32::from_str_radix(hex, 16).ok())
                .and_then(char::from_u32),
            _ => None,
        };
        let span = match named {
            Some(c) => self.keep(start, c.encode_utf8(&mut [0; 4]).as_bytes())?,
            None => self.keep(start + 1, token)?,
        };
        self.tape.push(Node::Text(span), start);
        Ok(())
    }
}

fn integer(negative: bool, digits: &[u8]) -> Node {
    let mut value: u64 = 0;
    for &digit in digits {
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) => value = next,
            None => return Node::OddNumber,
        }
    }
    match (negative, i64::try_from(value)) {
        (false, Ok(int)) => Node::Int(int),
        (false, Err(_)) => Node::UInt(value),
        (true, Ok(int)) => Node::Int(-int),
        (true, Err(_)) if value == 1 << 63 => Node::Int(i64::MIN),
        (true, Err(_)) => Node::OddNumber,
    }
}

fn is_delimiter(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\n' | b'\t' | b'\r' | 0x0c | b',' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'"' | b';'
    )
}
