//! Statements by shape: each shape is parsed once, and the literals of the next text become
//! parameters.
//!
//! # Algorithm
//! One pass over the text copies it with every literal replaced by a mark of its type, and collects
//! the literals. The copy is the shape, the key of the cache. A text that holds parameters of its
//! own, comments, or literals whose meaning is not a value (positions after BY, prefixed strings)
//! is its own shape.
//!
//! # Invariants
//! - A shape's statement with the literals as parameters means what the text means: parameters that
//!   stand for literals have the literals' types. Where lowering needs the literal itself (a
//!   length, an ESCAPE), it fails on the parameter, and the text is prepared as it stands.
//!
//! # Cost
//! A hit costs one pass and one hash of the text, some hundreds of nanoseconds.

use std::collections::HashMap;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::database::Database;
use crate::reading::expr::Class;
use crate::reading::literal::number_value;
use crate::reading::statement::Statement;
use crate::value::Value;

/// The most statements that are kept.
const MAX_STATEMENTS: usize = 65_536;

/// The statements of one database, by shape.
#[derive(Debug, Default)]
pub struct StatementCache {
    statements: HashMap<Vec<u8>, Entry>,
    generation: u64,
    shape: Vec<u8>,
    values: Vec<Value>,
    misses: u64,
}

#[derive(Debug)]
enum Entry {
    /// The shape's statement; the literals are its parameters.
    Shape(Statement),
    /// The literals of this shape must stay: the text is the key.
    Verbatim,
}

impl StatementCache {
    /// An empty cache.
    pub fn new() -> Self {
        StatementCache::default()
    }

    /// How many texts were parsed so far.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// The statement of a text, and the values to execute it with: the text's literals, or `params`
    /// if it has parameters of its own.
    pub fn bind<'a>(
        &'a mut self,
        database: &Database,
        text: &str,
        params: &'a [Value],
    ) -> Result<(Statement, &'a [Value]), SqlError> {
        if self.generation != database.generation() || self.statements.len() > MAX_STATEMENTS {
            self.statements.clear();
            self.generation = database.generation();
        }
        if !scan(text, database.dialect(), &mut self.shape, &mut self.values) {
            return Ok((self.verbatim(database, text)?, params));
        }
        match self.statements.get(self.shape.as_slice()) {
            Some(Entry::Shape(statement)) => return Ok((statement.clone(), &self.values)),
            Some(Entry::Verbatim) => {
                return Ok((self.verbatim(database, text)?, params));
            }
            None => {}
        }
        self.misses += 1;
        match prepare_shape(database, &self.shape, &self.values) {
            Ok(statement) => {
                self.statements.insert(self.shape.clone(), Entry::Shape(statement.clone()));
                Ok((statement, &self.values))
            }
            Err(_) => {
                let statement = self.verbatim(database, text)?;
                self.statements.insert(self.shape.clone(), Entry::Verbatim);
                Ok((statement, params))
            }
        }
    }

    fn verbatim(&mut self, database: &Database, text: &str) -> Result<Statement, SqlError> {
        // A shape never holds a zero byte, so that texts and shapes do not meet.
        let mut key = vec![0];
        key.extend_from_slice(text.as_bytes());
        if let Some(Entry::Shape(statement)) = self.statements.get(&key) {
            return Ok(statement.clone());
        }
        self.misses += 1;
        let statement = database.prepare(text)?;
        self.statements.insert(key, Entry::Shape(statement.clone()));
        Ok(statement)
    }
}

/// Prepares a shape: its marks become parameters with the classes of the literals.
fn prepare_shape(database: &Database, shape: &[u8], values: &[Value]) -> Result<Statement, SqlError> {
    let strict = database.dialect().is_strict();
    let mut text = Vec::with_capacity(shape.len() + 8);
    let mut count = 0;
    for &byte in shape {
        if !(INT..=TEXT).contains(&byte) {
            text.push(byte);
            continue;
        }
        count += 1;
        text.extend_from_slice(if strict { format!("${count}") } else { "?".into() }.as_bytes());
    }
    let class = |value: &Value| match Class::of(value) {
        Class::Text if strict => Class::Literal,
        other => other,
    };
    let classes: Vec<Class> = values.iter().map(class).collect();
    let text = String::from_utf8(text).map_err(|_| SqlError::unsupported("a text that is not UTF-8"))?;
    Statement::prepare(&text, &database.catalog(&classes), database.generation())
}

/// The marks of literals in a shape, by their type.
pub(crate) const INT: u8 = 1;
const DECIMAL: u8 = 2;
const FLOAT: u8 = 3;
const TEXT: u8 = 4;

/// Splits a text into shape and literals; false if the text must be taken as it stands.
pub(crate) fn scan(text: &str, dialect: Dialect, shape: &mut Vec<u8>, values: &mut Vec<Value>) -> bool {
    shape.clear();
    values.clear();
    let bytes = text.as_bytes();
    let mut at = 0;
    // True after BY, where a number is a position.
    let mut by = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
                let end = word_end(bytes, at);
                by |= bytes[at..end].eq_ignore_ascii_case(b"by");
                shape.extend_from_slice(&bytes[at..end]);
                // A string right behind a word is a prefixed one.
                if bytes.get(end) == Some(&b'\'') {
                    return false;
                }
                at = end;
            }
            b'0'..=b'9' => match number(text, at, by, dialect, shape, values) {
                Some(end) => at = end,
                None => return false,
            },
            b'\'' => match string(text, at, dialect, values) {
                Some(end) => {
                    shape.push(TEXT);
                    at = end;
                }
                None => return false,
            },
            b' ' | b'\t' | b'\n' | b'\r' => {
                if shape.last() != Some(&b' ') {
                    shape.push(b' ');
                }
                at += 1;
            }
            b'"' | b'`' if !dialect.is_mysql() || byte == b'`' => {
                let Some(end) = bytes[at + 1..].iter().position(|&other| other == byte) else { return false };
                shape.extend_from_slice(&bytes[at..at + end + 2]);
                at += end + 2;
            }
            b'$' | b'?' | b':' | b'#' | b'"' | b'`' | b'\\' | b'@' | 0..=8 => return false,
            b'-' if bytes.get(at + 1) == Some(&b'-') => return false,
            b'/' if bytes.get(at + 1) == Some(&b'*') => return false,
            _ => {
                shape.push(byte);
                at += 1;
            }
        }
    }
    true
}

fn word_end(bytes: &[u8], from: usize) -> usize {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    bytes[from..].iter().position(|byte| !word(byte)).map_or(bytes.len(), |length| from + length)
}

/// Reads a number; gives its end, or `None` if it is no value of this crate or perhaps a position.
fn number(
    text: &str,
    from: usize,
    by: bool,
    dialect: Dialect,
    shape: &mut Vec<u8>,
    values: &mut Vec<Value>,
) -> Option<usize> {
    let bytes = text.as_bytes();
    if by || shape.last() == Some(&b'.') {
        return None;
    }
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = from + digits(from);
    if let Some(b'.' | b'e' | b'E' | b'x' | b'X') = bytes.get(end) {
        if bytes[end] == b'.' {
            end += 1 + digits(end + 1);
        }
        if bytes.get(end).is_some_and(u8::is_ascii_alphabetic) {
            return None;
        }
    }
    let value = number_value(&text[from..end], dialect)?;
    shape.push(match value {
        Value::Int(_) => INT,
        Value::Decimal(_) => DECIMAL,
        _ => FLOAT,
    });
    values.push(value);
    Some(end)
}

/// Reads a string; gives its end, or `None` if it has escapes or no end.
fn string(text: &str, from: usize, dialect: Dialect, values: &mut Vec<Value>) -> Option<usize> {
    let bytes = text.as_bytes();
    let length = bytes[from + 1..].iter().position(|&byte| byte == b'\'')?;
    let end = from + 1 + length;
    let content = &text[from + 1..end];
    let escaped = content.contains('\\') && dialect.is_mysql();
    if escaped || bytes.get(end + 1) == Some(&b'\'') {
        return None;
    }
    values.push(Value::text(content));
    Some(end + 1)
}
