//! `jepsen-log`: what old versions of Jepsen printed while they ran, one operation per line.
//! Porcupine's etcd logs are such logs.
//!
//! `INFO  jepsen.util - PROCESS :TYPE :FUNCTION VALUE`, with blanks or tabs between, perhaps with more behind the
//! value. Each line becomes the operation that it stands for, as `edn` reads it; other lines are left out. The number
//! of a line is the one of the log.

use std::io::{self, BufRead, BufReader, Read};

use margay_history::History;

use super::forms::{FormStream, Syntax};
use super::jepsen;
use crate::input::{Input, Lines};
use crate::{FormatError, Warnings};

const LOGGER: &str = "jepsen.util";

pub(crate) fn read(input: Input<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    let name = input.name.clone();
    let lines = Operations { lines: input.lines()?, text: Vec::new(), passed: 0 };
    let reader: Box<dyn BufRead + '_> = Box::new(BufReader::new(lines));
    jepsen::read(FormStream::new(name, reader, Syntax::Edn), true, warnings)
}

/// Whether a line is an operation.
pub(crate) fn is_operation(line: &str) -> bool {
    operation(line).is_some()
}

/// The operation of a line, in EDN.
fn operation(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(LOGGER)?;
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    let (process, rest) = word(rest)?;
    let (kind, rest) = word(rest)?;
    let (function, rest) = word(rest)?;
    let known = matches!(kind, ":invoke" | ":ok" | ":fail" | ":info") && function.starts_with(':');
    let value = first_form(rest.trim());
    let value = if value.is_empty() { "nil" } else { value };
    known.then(|| format!("{{:process {process} :type {kind} :f {function} :value {value}}}"))
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The first form of a text: all that it says after the value (`:hint 7`, an error) is for people.
fn first_form(text: &str) -> &str {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b' ' | b'\t' if depth == 0 => return &text[..at],
            _ => {}
        }
    }
    text
}

/// The log as EDN, line by line.
struct Operations<'a> {
    lines: Lines<'a>,
    text: Vec<u8>,
    passed: usize,
}

impl Read for Operations<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.passed == self.text.len() {
            self.text.clear();
            self.passed = 0;
            if self.lines.advance().map_err(io::Error::other)? {
                let line = self.lines.text().map_err(io::Error::other)?;
                self.text.extend(operation(line).unwrap_or_default().bytes());
                self.text.push(b'\n');
            }
        }
        let count = buffer.len().min(self.text.len() - self.passed);
        buffer[..count].copy_from_slice(&self.text[self.passed..self.passed + count]);
        self.passed += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use margay_history::{Outcome, TxnId, ValueId};

    use crate::foreign::testing::{fails, reads};
    use crate::{Format, Source, detect};

    #[test]
    fn operations_among_other_lines() {
        let text = b"INFO  jepsen.core - Worker 0 starting
INFO  jepsen.util - 0\t:invoke\t:write\t3
INFO  jepsen.util - :nemesis\t:info\t:start\tnil
INFO  jepsen.util - 1 \t:invoke :cas \t[3 4] \t:hint 0
INFO  jepsen.util - 0\t:ok\t:write\t3
INFO  jepsen.util - 1\t:info\t:cas\t:timed-out
INFO  jepsen.util - 2\t:invoke\t:read\tnil
INFO  jepsen.util - 2\t:fail\t:read\t:timed-out
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\t4 \t:hint 2\n";
        assert_eq!(detect(Source::bytes(text)), Ok(Format::JepsenLog));
        let loaded = reads(Format::JepsenLog, text);
        let history = loaded.history;
        let outcomes: Vec<_> = history.txns().map(|txn| history.outcome(txn)).collect();
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Unknown).count(), 1);
        assert_eq!((history.txn_count(), history.session_count()), (4, 3));
        assert_eq!(loaded.warnings.len(), 1);
        let seen = |txn: u32| history.ops(TxnId(txn)).next().expect("an operation").accesses[0].value;
        let all: Vec<_> = (0..4).map(seen).collect();
        assert!(all.contains(&ValueId::UNKNOWN), "a reason for a failure is no value");
    }

    #[test]
    fn errors_have_the_line_of_the_log() {
        let text = b"chatter\nINFO  jepsen.util - 0 :invoke :cas 3\n";
        let found = fails(Format::JepsenLog, text);
        assert!(found.starts_with("<bytes>:2:"), "{found}");
    }
}
