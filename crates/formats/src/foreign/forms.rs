//! Forms of EDN and JSON, one top-level form at a time, on a flat tape.
//!
//! # Problem
//! Jepsen histories are long lists of small maps. A tree of allocated nodes per map costs more than
//! everything else, and a document read whole costs memory that a history does not need.
//!
//! # Algorithm
//! A [`Tape`] holds one form in pre-order: a container knows where it ends, so its children are
//! found by stepping over it. Texts lie in one arena. Both are reused from form to form.
//! [`FormStream`] keeps a window of the input; when a form runs over its end, the window grows and
//! the form is scanned again, so every byte is scanned at most about twice.
//!
//! # Invariants
//! Nesting is limited to [`DEPTH`], so no input exhausts the stack. Memory is bounded by the
//! longest form.

use std::io::{BufRead, Read};

use super::scan::{Scanner, Stop};
use crate::FormatError;

/// How deep forms may be nested.
pub(crate) const DEPTH: usize = 200;
const BLOCK: usize = 256 << 10;
/// The longest form: more is an error instead of a full memory.
const FORM_LIMIT: usize = 256 << 20;

/// One element of a tape. Containers hold the index behind their last child.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Node {
    Nil,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    /// A number that no value of a history can be: a ratio, an infinity, an integer of more than 64
    /// bits.
    OddNumber,
    Text(Span),
    /// With its colon.
    Keyword(Span),
    Symbol,
    /// The form behind it has a tag.
    Tag,
    List(u32),
    Vector(u32),
    Map(u32),
    Set(u32),
}

/// A piece of a tape's text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Span {
    pub start: u32,
    pub end: u32,
}

/// One form. See the module's documentation.
#[derive(Default)]
pub(crate) struct Tape {
    pub nodes: Vec<Node>,
    /// Where each node begins in the scanned bytes.
    pub offsets: Vec<u32>,
    pub text: String,
}

impl Tape {
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.offsets.clear();
        self.text.clear();
    }

    pub fn push(&mut self, node: Node, offset: usize) {
        self.nodes.push(node);
        self.offsets.push(offset as u32);
    }

    /// The form at the front.
    pub fn root(&self) -> Form<'_> {
        Form { tape: self, index: 0 }
    }

    /// The index behind the form at `index`.
    fn behind(&self, index: usize) -> usize {
        match self.nodes[index] {
            Node::List(end) | Node::Vector(end) | Node::Map(end) | Node::Set(end) => end as usize,
            Node::Tag => self.behind(index + 1),
            _ => index + 1,
        }
    }
}

/// A form on a tape.
#[derive(Clone, Copy)]
pub(crate) struct Form<'t> {
    tape: &'t Tape,
    index: usize,
}

impl<'t> Form<'t> {
    pub fn node(self) -> Node {
        self.tape.nodes[self.index]
    }

    /// Where the form begins, counted from the start of the top-level form's window.
    pub fn offset(self) -> usize {
        self.tape.offsets[self.index] as usize
    }

    /// The form without its tags.
    pub fn untagged(mut self) -> Self {
        while self.node() == Node::Tag {
            self.index += 1;
        }
        self
    }

    pub fn is_nil(self) -> bool {
        self.node() == Node::Nil
    }

    pub fn is_map(self) -> bool {
        matches!(self.node(), Node::Map(_))
    }

    pub fn int(self) -> Option<i64> {
        match self.node() {
            Node::Int(int) => Some(int),
            _ => None,
        }
    }

    /// The text of a keyword (without its colon) or of a string: the two ways to spell a name in
    /// EDN and JSON.
    pub fn word(self) -> Option<&'t str> {
        match self.node() {
            Node::Text(span) => Some(self.slice(span)),
            Node::Keyword(span) => Some(&self.slice(span)[1..]),
            _ => None,
        }
    }

    pub fn slice(self, span: Span) -> &'t str {
        &self.tape.text[span.start as usize..span.end as usize]
    }

    /// The elements of a list or vector.
    pub fn sequence(self) -> Option<Items<'t>> {
        match self.node() {
            Node::List(end) | Node::Vector(end) => Some(self.items_to(end)),
            _ => None,
        }
    }

    /// The elements of a list, vector or set.
    pub fn collection(self) -> Option<Items<'t>> {
        match self.node() {
            Node::Set(end) => Some(self.items_to(end)),
            _ => self.sequence(),
        }
    }

    /// The keys and values of a map.
    pub fn pairs(self) -> Option<impl Iterator<Item = (Form<'t>, Form<'t>)>> {
        let Node::Map(end) = self.node() else { return None };
        let mut items = self.items_to(end);
        Some(std::iter::from_fn(move || Some((items.next()?, items.next()?))))
    }

    fn items_to(self, end: u32) -> Items<'t> {
        Items { tape: self.tape, next: self.index + 1, end: end as usize }
    }
}

/// The children of a container.
#[derive(Clone)]
pub(crate) struct Items<'t> {
    tape: &'t Tape,
    next: usize,
    end: usize,
}

impl<'t> Iterator for Items<'t> {
    type Item = Form<'t>;

    fn next(&mut self) -> Option<Form<'t>> {
        if self.next >= self.end {
            return None;
        }
        let form = Form { tape: self.tape, index: self.next };
        self.next = self.tape.behind(self.next);
        Some(form)
    }
}

/// How forms are spelt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Syntax {
    Edn,
    Json,
}

/// The top-level forms of a stream. One list or vector (EDN) or array (JSON) around all of them is
/// looked through.
pub(crate) struct FormStream<'a> {
    name: String,
    reader: Box<dyn BufRead + 'a>,
    syntax: Syntax,
    buffer: Vec<u8>,
    /// Where the current form's window begins, and where the next one does.
    start: usize,
    next: usize,
    filled: usize,
    ended: bool,
    /// The place of `start`, from 1.
    line: u64,
    column: u64,
    wrapper: Wrapper,
    tape: Tape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrapper {
    /// Nothing was read yet.
    Unknown,
    None,
    /// Inside, before the first form or behind one.
    Open {
        close: u8,
        first: bool,
    },
    Closed,
}

enum FormStep {
    Form,
    End,
}

impl<'a> FormStream<'a> {
    pub fn new(name: String, reader: Box<dyn BufRead + 'a>, syntax: Syntax) -> Self {
        Self {
            name,
            reader,
            syntax,
            buffer: vec![0; BLOCK],
            start: 0,
            next: 0,
            filled: 0,
            ended: false,
            line: 1,
            column: 1,
            wrapper: Wrapper::Unknown,
            tape: Tape::default(),
        }
    }

    /// Goes to the next form; `false` at the end.
    pub fn advance(&mut self) -> Result<bool, FormatError> {
        self.consume();
        loop {
            match self.scan() {
                Ok((FormStep::Form, end)) => {
                    self.next = self.start + end;
                    return Ok(true);
                }
                Ok((FormStep::End, _)) => return Ok(false),
                Err(Stop::Bad(at, what)) => return Err(self.error(at, what)),
                Err(Stop::More) => self.grow()?,
            }
        }
    }

    /// The current form.
    pub fn form(&self) -> Form<'_> {
        self.tape.root()
    }

    /// The line on which the current form begins.
    pub fn line(&self) -> u64 {
        let at = self.form().offset();
        self.line + memchr::memchr_iter(b'\n', &self.buffer[self.start..self.start + at]).count() as u64
    }

    /// An error at an offset as [`Form::offset`] gives it.
    pub fn error(&self, at: usize, what: impl Into<String>) -> FormatError {
        let window = &self.buffer[self.start..self.filled];
        let at = at.min(window.len());
        let newlines = memchr::memchr_iter(b'\n', &window[..at]).count() as u64;
        let line_start = memchr::memrchr(b'\n', &window[..at]).map(|found| found + 1);
        let column = match line_start {
            Some(start) => (at - start) as u64 + 1,
            None => self.column + at as u64,
        };
        let error =
            FormatError::new(what).in_file(&self.name).at_line(self.line + newlines).at_column(column);
        // A line whose beginning is gone is fetched from the file by the caller.
        if line_start.is_none() && self.column > 1 {
            return error;
        }
        let from = line_start.unwrap_or(0);
        let end = memchr::memchr(b'\n', &window[at..]).map_or(window.len(), |found| at + found);
        error.with_snippet(&window[from..end])
    }

    fn consume(&mut self) {
        let passed = &self.buffer[self.start..self.next];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
        match memchr::memrchr(b'\n', passed) {
            Some(last) => self.column = (passed.len() - last) as u64,
            None => self.column += passed.len() as u64,
        }
        self.start = self.next;
    }

    /// Scans the window for the wrapper, the next form, or the end.
    fn scan(&mut self) -> Result<(FormStep, usize), Stop> {
        self.tape.clear();
        let window = &self.buffer[self.start..self.filled];
        let mut scanner = Scanner::new(window, self.ended, self.syntax, &mut self.tape);
        scanner.skip_blanks()?;
        let mut wrapper = self.wrapper;
        if wrapper == Wrapper::Unknown {
            wrapper = opening(&mut scanner)?;
        }
        if let Wrapper::Open { close, first } = wrapper {
            if scanner.separator(close, first)? {
                self.next = self.start + scanner.position();
                self.wrapper = Wrapper::Closed;
                self.consume();
                return self.scan();
            }
            wrapper = Wrapper::Open { close, first: false };
        }
        if scanner.at_end()? {
            return match wrapper {
                Wrapper::Open { close, .. } => {
                    Err(scanner.bad(format!("the file ends before the closing '{}'", char::from(close))))
                }
                _ => Ok((FormStep::End, scanner.position())),
            };
        }
        if wrapper == Wrapper::Closed {
            return Err(scanner.bad("something follows the end of the history".to_string()));
        }
        scanner.form()?;
        let end = scanner.position();
        self.wrapper = wrapper;
        Ok((FormStep::Form, end))
    }

    /// Room for more of a form that is not whole yet.
    fn grow(&mut self) -> Result<(), FormatError> {
        if self.filled == self.buffer.len() {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.filled, 0);
                (self.filled, self.next, self.start) = (self.filled - self.start, 0, 0);
            } else if self.buffer.len() >= FORM_LIMIT {
                let what = format!("this form is longer than {} MiB", FORM_LIMIT >> 20);
                return Err(self.error(0, what));
            } else {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        loop {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(count) => {
                    self.filled += count;
                    self.ended = count == 0;
                    return Ok(());
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(FormatError::from(e).in_file(&self.name).at_line(self.line)),
            }
        }
    }
}

/// Looks for what may stand around all forms.
fn opening(scanner: &mut Scanner<'_>) -> Result<Wrapper, Stop> {
    let close = match scanner.peek()? {
        Some(b'[') => b']',
        Some(b'(') => b')',
        _ => return Ok(Wrapper::None),
    };
    scanner.skip(1);
    scanner.skip_blanks()?;
    Ok(Wrapper::Open { close, first: true })
}
