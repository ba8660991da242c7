//! Histories as Jepsen's operations, in EDN or JSON.
//!
//! A transaction becomes an invocation and a completion; `schedule` says in which order.

use std::io::Write;

use hashbrown::HashSet;
use margay_history::{Access, History, ObjectId, Op, OpKind, Outcome, TxnId, Value, ValueId};

use super::forms::Syntax;
use super::schedule::{Event, schedule};
use super::workload::CLOSED;
use crate::{Format, FormatError};

/// Writes the history.
pub(crate) fn write(history: &History, syntax: Syntax, out: &mut dyn Write) -> Result<(), FormatError> {
    let writer = Writer::new(history, syntax)?;
    let events = schedule(history)?;
    let json = syntax == Syntax::Json;
    if json {
        out.write_all(b"[")?;
    }
    writer.check_silent(&events)?;
    let mut text = writer.initial(&events)?;
    for (position, event) in events.iter().enumerate() {
        if json && position > 0 {
            text.push_str(",\n");
        }
        writer.event(event, &mut text)?;
        if !json {
            text.push('\n');
        }
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    if json {
        out.write_all(b"]\n")?;
    }
    Ok(())
}

/// What an operation tells of its reads; where `nil` says nothing, `[]` is what is absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tell {
    Nothing,
    Values,
    All,
}

struct Writer<'h> {
    history: &'h History,
    format: Format,
    json: bool,
    /// Whether the history is one of the closed-predicate workload.
    closed: bool,
}

impl<'h> Writer<'h> {
    fn new(history: &'h History, syntax: Syntax) -> Result<Self, FormatError> {
        let json = syntax == Syntax::Json;
        let format = if json { Format::ElleJson } else { Format::Edn };
        let closed = !json && history.tables().iter().any(|table| table.name == CLOSED);
        Ok(Self { history, format, json, closed })
    }

    /// What a transaction without a completion read cannot be told.
    fn check_silent(&self, events: &[Event]) -> Result<(), FormatError> {
        let told: HashSet<TxnId> = events.iter().filter(|e| e.completes).map(|e| e.txn).collect();
        let silent = self.history.txns().filter(|txn| !told.contains(txn));
        let known = |op: &Op<'_>| match op.kind {
            OpKind::Read => op.accesses.iter().any(|access| access.value != ValueId::UNKNOWN),
            OpKind::Scan => self.history.scan(op.id).is_some_and(|scan| scan.observed),
            _ => false,
        };
        match silent.flat_map(|txn| self.history.ops(txn)).find(known) {
            Some(op) => Err(self.refuse(op, "a result of a transaction that never ended")),
            None => Ok(()),
        }
    }

    /// The operation that tells the initial rows, before all others.
    fn initial(&self, events: &[Event]) -> Result<String, FormatError> {
        let mut rows = Vec::new();
        for &(object, value) in self.history.initial_values() {
            if value == ValueId::NULL {
                continue;
            }
            let carried = self.key(object).filter(|_| self.closed).zip(self.cell(object, value));
            let Some((key, value)) = carried else {
                return Err(FormatError::new(format!(
                    "the format {} cannot carry the initial value of {}",
                    self.format,
                    self.history.show_object(object)
                )));
            };
            rows.push(format!("{key} {value}"));
        }
        if rows.is_empty() {
            return Ok(String::new());
        }
        let index = events.first().map_or(0, |event| event.index);
        Ok(match index.checked_sub(1) {
            Some(index) if index >= 0 => {
                format!(
                    "{{:index {index}, :type :ok, :process 0, :f :init, :value {{{}}}}}\n",
                    rows.join(", ")
                )
            }
            _ => {
                return Err(FormatError::new(
                    "there is no index left for the initial rows before the first operation",
                ));
            }
        })
    }

    fn event(&self, event: &Event, out: &mut String) -> Result<(), FormatError> {
        let kind = match self.history.outcome(event.txn) {
            _ if !event.completes => "invoke",
            Outcome::Committed => "ok",
            Outcome::Aborted => "fail",
            Outcome::Unknown => "info",
        };
        let process = self.history.session_label(self.history.session_of(event.txn));
        let tell = match kind {
            "invoke" => Tell::Nothing,
            "ok" => Tell::All,
            _ => Tell::Values,
        };
        let value = self.value(event.txn, tell)?;
        let index = event.index;
        *out += &match (self.json, event.time) {
            (true, None) => format!(
                r#"{{"index":{index},"type":"{kind}","process":{process},"f":"txn","value":{value}}}"#
            ),
            (true, Some(time)) => format!(
                r#"{{"index":{index},"time":{time},"type":"{kind}","process":{process},"f":"txn","value":{value}}}"#
            ),
            (false, None) => {
                format!("{{:index {index}, :type :{kind}, :process {process}, :f :txn, :value {value}}}")
            }
            (false, Some(time)) => {
                format!(
                    "{{:index {index}, :time {time}, :type :{kind}, :process {process}, :f :txn, :value {value}}}"
                )
            }
        };
        Ok(())
    }

    fn value(&self, txn: TxnId, tell: Tell) -> Result<String, FormatError> {
        let mut mops = Vec::new();
        for op in self.history.ops(txn) {
            match op.kind {
                OpKind::Begin | OpKind::Commit | OpKind::Abort | OpKind::Unknown => {}
                OpKind::Scan => mops.push(self.scan(op, tell)?),
                OpKind::Read | OpKind::Write | OpKind::Append => {
                    for access in op.accesses {
                        mops.push(self.mop(op, access, tell)?);
                    }
                }
                OpKind::Update | OpKind::Sql => return Err(self.refuse(op, "statements")),
            }
        }
        Ok(self.list(&mops))
    }

    fn refuse(&self, op: Op<'_>, what: &str) -> FormatError {
        FormatError::cannot_carry(self.format, self.history, op.id, what)
    }

    fn mop(&self, op: Op<'_>, access: &Access, tell: Tell) -> Result<String, FormatError> {
        let reads = op.kind == OpKind::Read;
        let Some(key) = self.key(access.object) else {
            return Err(self.refuse(op, "this object"));
        };
        if reads && (tell == Tell::Nothing || access.value == ValueId::UNKNOWN) {
            return match tell {
                Tell::All => Err(self.refuse(op, "an unknown result of a committed transaction")),
                _ => Ok(self.list(&[self.word("r"), key, self.nil()])),
            };
        }
        if reads && tell == Tell::Values && access.value == ValueId::NULL {
            return Ok(self.list(&[self.word("r"), key, "[]".to_string()]));
        }
        if op.kind == OpKind::Write && access.value == ValueId::NULL {
            return match self.closed {
                true => Ok(self.list(&[self.word("delete"), key])),
                false => Err(self.refuse(op, "a deletion")),
            };
        }
        let Some(value) = self.cell(access.object, access.value) else {
            return Err(self.refuse(op, &format!("the value {}", self.history.show_value(access.value))));
        };
        let name = match op.kind {
            OpKind::Read => "r",
            OpKind::Append => "append",
            _ => "w",
        };
        Ok(self.list(&[self.word(name), key, value]))
    }

    fn scan(&self, op: Op<'_>, tell: Tell) -> Result<String, FormatError> {
        let scan = self.history.scan(op.id).filter(|_| self.closed);
        let predicate = scan.map(|scan| self.history.predicate(scan.predicate));
        let Some((scan, predicate)) = scan.zip(predicate) else { return Err(self.refuse(op, "a scan")) };
        let text = match self.history.table(predicate.table).name == CLOSED {
            true => closed_predicate(&predicate.text),
            false => None,
        };
        let Some(text) = text else {
            return Err(self.refuse(op, &format!("the condition {:?}", predicate.text)));
        };
        if tell == Tell::Nothing || !scan.observed {
            return match tell {
                Tell::All => Err(self.refuse(op, "an unknown result of a committed transaction")),
                _ => Ok(format!("[:rp {text} nil]")),
            };
        }
        let mut rows = Vec::new();
        for access in op.accesses {
            let Some((key, value)) = self.key(access.object).zip(self.cell(access.object, access.value))
            else {
                return Err(self.refuse(op, "a row of the result"));
            };
            rows.push(format!("{key} {value}"));
        }
        Ok(format!("[:rp {text} {{{}}}]", rows.join(", ")))
    }

    /// The key of an object; `None` when the format cannot say it.
    fn key(&self, object: ObjectId) -> Option<String> {
        let object = self.history.object(object);
        let table = object.table.map(|table| self.history.table(table).name.as_str());
        match table {
            None if !self.closed => self.scalar(object.key),
            Some(CLOSED) if self.closed => self.scalar(object.key),
            _ => None,
        }
    }

    /// The value of an object: in the closed-predicate workload, the only column of its row.
    fn cell(&self, object: ObjectId, value: ValueId) -> Option<String> {
        if !self.closed || self.history.object(object).table.is_none() || value == ValueId::NULL {
            return self.scalar(value);
        }
        match self.history.value(value) {
            Value::Row(&[(name, value)]) if self.history.name(name) == "value" => self.scalar(value),
            _ => None,
        }
    }

    fn scalar(&self, value: ValueId) -> Option<String> {
        Some(match self.history.value(value) {
            Value::Null => self.nil(),
            Value::Unknown | Value::Row(_) => return None,
            Value::Bool(b) => b.to_string(),
            Value::Int(int) => int.to_string(),
            Value::UInt(int) => int.to_string(),
            Value::Float(float) => Some(format!("{float:?}")).filter(|_| float.is_finite())?,
            Value::Text(text) if !self.json && text.starts_with(':') => {
                let plain = |c: char| c.is_alphanumeric() || "._-/*+!?=<>&$%".contains(c);
                Some(text.to_string()).filter(|t| t.len() > 1 && t[1..].chars().all(plain))?
            }
            Value::Text(text) => quoted(text),
            Value::List(items) => {
                let items: Option<Vec<_>> = items.iter().map(|&item| self.scalar(item)).collect();
                self.list(&items?)
            }
        })
    }

    fn nil(&self) -> String {
        if self.json { "null" } else { "nil" }.to_string()
    }

    fn word(&self, word: &str) -> String {
        if self.json { format!("\"{word}\"") } else { format!(":{word}") }
    }

    fn list(&self, items: &[String]) -> String {
        format!("[{}]", items.join(if self.json { "," } else { " " }))
    }
}

/// A string in the escapes that EDN and JSON share.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The closed predicate that a condition came from.
fn closed_predicate(condition: &str) -> Option<String> {
    if condition == "TRUE" {
        return Some(":true".to_string());
    }
    if condition == "value IS NULL" {
        return Some("[:= nil]".to_string());
    }
    if let Some(rest) = condition.strip_prefix("value % ") {
        let (modulus, rest) = rest.split_once(" = ")?;
        let (modulus, rest): (i64, i64) = (modulus.parse().ok()?, rest.parse().ok()?);
        return Some(format!("[:mod {modulus} {rest}]"));
    }
    let value = condition.strip_prefix("value = ")?;
    if let Ok(int) = value.parse::<i64>() {
        return Some(format!("[:= {int}]"));
    }
    let text = value.strip_prefix('\'')?.strip_suffix('\'')?.replace("''", "'");
    match text.starts_with(':') {
        true => Some(format!("[:= {text}]")),
        false => Some(format!("[:= {}]", quoted(&text))),
    }
}
