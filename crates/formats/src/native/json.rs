//! A strict JSON cursor over one line: every value is read in place, and every error knows its
//! byte.
//!
//! Lines are short and there are millions of them, so there is no tree and no token list; the
//! caller asks for what it expects.

use std::borrow::Cow;

/// What is wrong, and at which byte of the line.
#[derive(Debug)]
pub(crate) struct Fault(Box<(usize, String)>);

impl Fault {
    pub fn new(at: usize, what: impl Into<String>) -> Self {
        Self(Box::new((at, what.into())))
    }

    pub fn at(&self) -> usize {
        self.0.0
    }

    pub fn what(self) -> String {
        self.0.1
    }
}

/// A JSON number. What has a fraction or an exponent, or needs more than 64 bits, is a float.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Int(i64),
    UInt(u64),
    Float(f64),
}

/// How deep values may nest.
pub(crate) const DEPTH: usize = 128;

/// A place in a line.
#[derive(Clone)]
pub(crate) struct Json<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Json<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The same text, read from byte `at`.
    pub fn from(&self, at: usize) -> Self {
        Self { text: self.text, at }
    }

    pub fn fault<T>(&self, what: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::new(self.at, what))
    }

    /// The byte that comes next, after white space.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Where it stands, after white space.
    pub fn place(&mut self) -> usize {
        self.peek();
        self.at
    }

    pub fn end(&mut self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fault("something follows the end of the object"),
        }
    }

    /// What was met instead of `expected`.
    pub fn unexpected<T>(&mut self, expected: &str) -> Result<T, Fault> {
        let found = match self.peek() {
            None => "the line ends",
            Some(b'{') => "there is an object",
            Some(b'[') => "there is a list",
            Some(b'"') => "there is a text",
            Some(b'-' | b'0'..=b'9') => "there is a number",
            Some(b't' | b'f') => "there is a truth value",
            Some(b'n') => "there is null",
            Some(_) => "there is something else",
        };
        self.fault(format!("expected {expected}, but {found}"))
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads a list; `item` reads each item.
    #[inline]
    pub fn list(
        &mut self,
        expected: &str,
        mut item: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if !self.take(b'[') {
            return self.unexpected(expected);
        }
        if self.take(b']') {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.take(b']') {
                return Ok(());
            }
            if !self.take(b',') {
                return self.unexpected("`,` or `]`");
            }
        }
    }

    /// Reads an object; `field` gets each key with its place, and reads its value.
    #[inline]
    pub fn object(
        &mut self,
        expected: &str,
        mut field: impl FnMut(&mut Self, &str, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if !self.take(b'{') {
            return self.unexpected(expected);
        }
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let at = self.place();
            let key = self.text("a field's name")?;
            if !self.take(b':') {
                return self.unexpected("`:`");
            }
            field(self, &key, at)?;
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return self.unexpected("`,` or `}`");
            }
        }
    }

    /// Reads a text.
    #[inline]
    pub fn text(&mut self, expected: &str) -> Result<Cow<'a, str>, Fault> {
        if !self.take(b'"') {
            return self.unexpected(expected);
        }
        let start = self.at;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b'"' => {
                    let plain = self.utf8(start)?;
                    self.at += 1;
                    return Ok(Cow::Borrowed(plain));
                }
                b'\\' => return self.escaped(start).map(Cow::Owned),
                0..0x20 => return self.fault("a control character in a text; write it as \\u00.."),
                _ => self.at += 1,
            }
        }
        Err(Fault::new(start - 1, "this text does not end"))
    }

    fn utf8(&self, start: usize) -> Result<&'a str, Fault> {
        std::str::from_utf8(&self.text[start..self.at])
            .map_err(|e| Fault::new(start + e.valid_up_to(), "this is not UTF-8 text"))
    }

    /// The rest of a text that began at `start` and has an escape at the current place.
    fn escaped(&mut self, start: usize) -> Result<String, Fault> {
        let mut out = String::new();
        let mut plain = start;
        loop {
            match self.text.get(self.at) {
                None => return Err(Fault::new(start - 1, "this text does not end")),
                Some(b'"') => {
                    out.push_str(self.utf8(plain)?);
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(self.utf8(plain)?);
                    out.push(self.escape()?);
                    plain = self.at;
                }
                Some(0..0x20) => return self.fault("a control character in a text; write it as \\u00.."),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let plain = match self.text.get(self.at + 1) {
            Some(b'u') => return self.unicode(),
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            _ => return self.fault("an escape that JSON does not know"),
        };
        self.at += 2;
        Ok(plain)
    }

    fn unicode(&mut self) -> Result<char, Fault> {
        let at = self.at;
        let first = self.hex()?;
        let code = match first {
            0xd800..0xdc00 if self.text[self.at..].starts_with(b"\\u") => {
                let second = self.hex()?;
                let low = second.checked_sub(0xdc00).filter(|&low| low < 0x400);
                low.map(|low| 0x10000 + ((first - 0xd800) << 10) + low)
            }
            code => Some(code),
        };
        let found = code.and_then(char::from_u32);
        found.ok_or_else(|| Fault::new(at, "half of a surrogate pair is no character"))
    }

    /// The number in `\uXXXX`.
    fn hex(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at + 2..self.at + 6).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return self.fault("\\u needs four hexadecimal digits") };
        self.at += 6;
        Ok(digits.iter().fold(0, |code, &d| code * 16 + (d as char).to_digit(16).unwrap_or(0)))
    }

    /// Reads a number.
    #[inline]
    pub fn number(&mut self, expected: &str) -> Result<Number, Fault> {
        let Some(b'-' | b'0'..=b'9') = self.peek() else { return self.unexpected(expected) };
        let start = self.at;
        let negative = self.text[start] == b'-';
        self.at += usize::from(negative);
        let (digits, magnitude) = self.digits();
        if digits == 0 || (digits > 1 && self.text[self.at - digits] == b'0') {
            return Err(Fault::new(start, "this is no number as JSON writes them"));
        }
        let integer = !matches!(self.text.get(self.at), Some(b'.' | b'e' | b'E'));
        match magnitude {
            Some(size) if integer && !negative => {
                Ok(i64::try_from(size).map_or(Number::UInt(size), Number::Int))
            }
            Some(size) if integer && size <= 1 << 63 => Ok(Number::Int((size as i64).wrapping_neg())),
            _ => self.float(start),
        }
    }

    /// How many digits come, and their number if it fits.
    #[inline]
    fn digits(&mut self) -> (usize, Option<u64>) {
        let start = self.at;
        let mut number = 0_u64;
        while let Some(&byte @ b'0'..=b'9') = self.text.get(self.at) {
            number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            self.at += 1;
        }
        // Nineteen digits always fit; more have to be looked at again.
        let count = self.at - start;
        let exact =
            if count <= 19 { Some(number) } else { self.utf8(start).ok().and_then(|d| d.parse().ok()) };
        (count, exact)
    }

    /// The number that began at `start`, of which sign and digits are read.
    fn float(&mut self, start: usize) -> Result<Number, Fault> {
        let mut whole = true;
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            whole &= self.digits().0 > 0;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.text.get(self.at), Some(b'+' | b'-')));
            whole &= self.digits().0 > 0;
        }
        let text = self.utf8(start)?;
        match text.parse::<f64>() {
            Ok(float) if whole && float.is_finite() => Ok(Number::Float(float)),
            Ok(_) if whole => Err(Fault::new(start, "this number is too large")),
            _ => Err(Fault::new(start, "this is no number as JSON writes them")),
        }
    }

    /// Reads a whole number of 64 bits with a sign.
    pub fn int(&mut self, expected: &str) -> Result<i64, Fault> {
        let at = self.place();
        match self.number(expected)? {
            Number::Int(int) => Ok(int),
            _ => Err(Fault::new(at, format!("expected {expected}, a whole number of at most 64 bits"))),
        }
    }

    /// Reads a whole number of 64 bits without a sign.
    #[inline]
    pub fn uint(&mut self, expected: &str) -> Result<u64, Fault> {
        let at = self.place();
        match self.number(expected)? {
            Number::Int(int) if int >= 0 => Ok(int as u64),
            Number::UInt(uint) => Ok(uint),
            _ => Err(Fault::new(at, format!("expected {expected}, a whole number from 0 to {}", u64::MAX))),
        }
    }

    /// Reads `word` if it comes.
    #[inline]
    pub fn word(&mut self, word: &str) -> bool {
        let at = self.place();
        let found = self.text[at..].starts_with(word.as_bytes());
        let ends = !self.text.get(at + word.len()).is_some_and(u8::is_ascii_alphanumeric);
        if found && ends {
            self.at += word.len();
        }
        found && ends
    }

    /// Reads a value of any kind and forgets it.
    pub fn skip(&mut self) -> Result<(), Fault> {
        self.skip_nested(0)
    }

    fn skip_nested(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH {
            return self.fault("this nests too deeply");
        }
        match self.peek() {
            Some(b'"') => self.text("a text").map(drop),
            Some(b'[') => self.list("a list", |json| json.skip_nested(depth + 1)),
            Some(b'{') => self.object("an object", |json, _, _| json.skip_nested(depth + 1)),
            Some(b'-' | b'0'..=b'9') => self.number("a number").map(drop),
            _ if self.word("null") || self.word("true") || self.word("false") => Ok(()),
            _ => self.unexpected("a value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<Number> {
        let mut json = Json::new(text.as_bytes());
        let number = json.number("a number").ok()?;
        json.end().ok().map(|()| number)
    }

    #[test]
    fn numbers_keep_their_kind() {
        assert_eq!(number("0"), Some(Number::Int(0)));
        assert_eq!(number("-9223372036854775808"), Some(Number::Int(i64::MIN)));
        assert_eq!(number("9223372036854775808"), Some(Number::UInt(1 << 63)));
        assert_eq!(number("18446744073709551615"), Some(Number::UInt(u64::MAX)));
        assert_eq!(number("18446744073709551616"), Some(Number::Float(18_446_744_073_709_551_616.0)));
        assert_eq!(number("-9223372036854775809"), Some(Number::Float(-9_223_372_036_854_775_809.0)));
        assert_eq!(number("1e2"), Some(Number::Float(100.0)));
        assert_eq!(number("-0.5E-1"), Some(Number::Float(-0.05)));
        for bad in ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "1e999", "0x1", "--1", "1.e1"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn texts_know_all_escapes() {
        let text = |text: &str| Json::new(text.as_bytes()).text("a text").map(Cow::into_owned).ok();
        assert_eq!(text(r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#).unwrap(), "a\"\\/\u{8}\u{c}\n\r\té😀é");
        for bad in [
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\n\"",
        ] {
            assert_eq!(text(bad), None, "{bad}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(Json::new(deep.as_bytes()).skip().unwrap_err().what(), "this nests too deeply");
        assert!(Json::new(b"[[],{\"a\":[null,true,-1.5,\"x\"]}]").skip().is_ok());
    }
}
