//! `chronos`: the JSON of Chronos and Aion, with start and commit timestamps.
//!
//! Start and commit timestamps become `snapshot` and `commit` evidence: their pairs (physical,
//! logical) are ranked, so that integers of the same order stand for them. Transactions of a
//! session are in the order of the file. Ids that are texts get numbers of their own.
//!
//! Chronos is told the initial value, `null` or 0, and files do not say it: it is absent if any
//! read saw nothing, else 0 where nobody writes 0 (see `registers`).

use hashbrown::HashMap;
use margay_history::{Access, History, HistoryBuilder, Invalid, ObjectId, OpDetail, OpKind, ValueId};

use super::forms::{Form, FormStream, Node, Syntax};
use super::steps::{Fault, Problem, fault, value};
use crate::input::Input;
use crate::{FormatError, Warnings};

/// Numbers for ids that are texts begin here.
const FRESH: u64 = 1 << 32;

pub(crate) fn read(input: Input<'_>, _: &mut Warnings) -> Result<History, FormatError> {
    let name = input.name.clone();
    let mut stream = FormStream::new(name, input.reader()?, Syntax::Json);
    let mut reader = Reader::default();
    while stream.advance()? {
        let line = stream.line();
        reader.builder.at_place(line);
        reader.transaction(stream.form()).map_err(|problem| match problem {
            Problem::Fault(Fault { at, what }) => stream.error(at, what),
            Problem::Invalid(invalid) => stream.error(stream.form().offset(), invalid.what),
        })?;
    }
    reader.finish().map_err(|invalid| {
        let error = FormatError::new(invalid.what);
        if invalid.place == 0 { error } else { error.at_line(invalid.place) }
    })
}

/// A hybrid logical clock: physical, logical.
type Stamp = (i64, i64);

#[derive(Default)]
struct Reader {
    builder: HistoryBuilder,
    names: HashMap<String, u64>,
    stamps: Vec<(u64, Stamp, Stamp)>,
    /// Whether somebody writes 0 to an object that occurs.
    zero_written: HashMap<ObjectId, bool>,
    /// Whether a read saw nothing.
    nothing: bool,
}

#[derive(Default)]
struct Fields<'t> {
    tid: Option<Form<'t>>,
    sid: Option<Form<'t>>,
    sts: Option<Form<'t>>,
    cts: Option<Form<'t>>,
    ops: Option<Form<'t>>,
}

impl<'t> Fields<'t> {
    fn of(form: Form<'t>) -> Result<Self, Fault> {
        let Some(pairs) = form.pairs() else { return fault(form, "a transaction is an object") };
        let mut fields = Self::default();
        for (key, value) in pairs {
            match key.word() {
                Some("tid") => fields.tid = Some(value),
                Some("sid") => fields.sid = Some(value),
                Some("sts") => fields.sts = Some(value),
                Some("cts") => fields.cts = Some(value),
                Some("ops") => fields.ops = Some(value),
                _ => {}
            }
        }
        Ok(fields)
    }
}

impl Reader {
    fn transaction(&mut self, form: Form<'_>) -> Result<(), Problem> {
        let fields = Fields::of(form)?;
        let (Some(tid), Some(sid), Some(sts), Some(cts), Some(ops)) =
            (fields.tid, fields.sid, fields.sts, fields.cts, fields.ops)
        else {
            return Ok(fault(form, "a transaction has tid, sid, sts, cts and ops")?);
        };
        let (txn, session) = (self.label("t", tid)?, self.label("s", sid)?);
        let (start, commit) = (stamp(sts)?, stamp(cts)?);
        if start > commit {
            return Ok(fault(cts, "the commit timestamp lies before the start timestamp")?);
        }
        let Some(ops) = ops.sequence() else { return Ok(fault(ops, "the operations are a list")?) };
        for op in ops {
            self.operation(session, txn, op)?;
        }
        self.builder.push(session, txn, None, OpKind::Commit, &[], OpDetail::None)?;
        self.stamps.push((txn, start, commit));
        Ok(())
    }

    fn label(&mut self, kind: &str, form: Form<'_>) -> Result<u64, Fault> {
        match (form.node(), form.word()) {
            (Node::Int(id), _) if id >= 0 => Ok(id as u64),
            (Node::UInt(id), _) => Ok(id),
            (_, Some(text)) => {
                if let Ok(id) = text.parse() {
                    return Ok(id);
                }
                let fresh = FRESH + self.names.len() as u64;
                Ok(*self.names.entry(format!("{kind} {text}")).or_insert(fresh))
            }
            _ => fault(form, "an id is a natural number or a text"),
        }
    }

    fn operation(&mut self, session: u64, txn: u64, form: Form<'_>) -> Result<(), Problem> {
        let (mut kind, mut key, mut seen) = (None, None, None);
        for (name, value) in form.pairs().into_iter().flatten() {
            match name.word() {
                Some("t") => kind = Some(value),
                Some("k") => key = Some(value),
                Some("v") => seen = Some(value),
                _ => {}
            }
        }
        let (Some(kind), Some(key)) = (kind, key) else {
            return Ok(fault(form, "an operation has a type \"t\" and a key \"k\"")?);
        };
        let kind = match kind.word().map(str::to_ascii_lowercase).as_deref() {
            Some("r" | "read") => OpKind::Read,
            Some("w" | "write") => OpKind::Write,
            Some("a" | "append") => OpKind::Append,
            _ => return Ok(fault(kind, "a type is r, w, a, read, write or append")?),
        };
        let key = value(&mut self.builder, key)?;
        let object = self.builder.object(None, key);
        let value = self.value(kind, seen, form)?;
        let zero = self.builder.values().int(0);
        *self.zero_written.entry(object).or_default() |= kind == OpKind::Write && value == zero;
        Ok(self.builder.push(session, txn, None, kind, &[Access { object, value }], OpDetail::None)?)
    }

    /// A value; nothing and an empty list are what is absent.
    fn value(&mut self, kind: OpKind, form: Option<Form<'_>>, op: Form<'_>) -> Result<ValueId, Fault> {
        let present = form
            .filter(|form| !form.is_nil() && form.sequence().is_none_or(|mut items| items.next().is_some()));
        match (present, kind) {
            (Some(form), _) => value(&mut self.builder, form),
            (None, OpKind::Append) => fault(op, "an append without its value"),
            (None, kind) => {
                self.nothing |= kind == OpKind::Read;
                Ok(ValueId::NULL)
            }
        }
    }

    fn finish(mut self) -> Result<History, Invalid> {
        let mut all: Vec<Stamp> =
            self.stamps.iter().flat_map(|&(_, start, commit)| [start, commit]).collect();
        all.sort_unstable();
        all.dedup();
        let rank = |stamp: &Stamp| all.partition_point(|other| other < stamp) as i64;
        for (txn, start, commit) in &self.stamps {
            self.builder.snapshot(*txn, rank(start));
            self.builder.commit(*txn, rank(commit));
        }
        let zero = self.builder.values().int(0);
        for (object, written) in self.zero_written {
            if !written && !self.nothing {
                self.builder.initial(object, zero)?;
            }
        }
        self.builder.finish()
    }
}

fn stamp(form: Form<'_>) -> Result<Stamp, Fault> {
    let (mut physical, mut logical) = (None, Some(0));
    for (name, value) in form.pairs().into_iter().flatten() {
        let number = value.int().or_else(|| value.word().and_then(|text| text.parse().ok()));
        match name.word() {
            Some("p") => physical = number,
            Some("l") => logical = number,
            _ => {}
        }
    }
    match (physical, logical) {
        (Some(physical), Some(logical)) => Ok((physical, logical)),
        _ => fault(form, "a timestamp has integers \"p\" and \"l\""),
    }
}

#[cfg(test)]
mod tests {
    use margay_history::TxnId;

    use crate::Format;
    use crate::foreign::testing::{fails, reads};

    const SAMPLE: &str = r#"[
        {"tid":67,"sid":19,"sts":{"p":"100","l":1},"cts":{"p":200,"l":0},"ops":[{"t":"w","k":7,"v":2},{"t":"R","k":8,"v":0}]},
        {"tid":"a","sid":"b","sts":{"p":100,"l":2},"cts":{"p":100,"l":2},"ops":[{"t":"read","k":7,"v":0}]}]"#;

    #[test]
    fn timestamps_become_evidence() {
        let history = reads(Format::Chronos, SAMPLE.as_bytes()).history;
        let evidence = history.evidence();
        assert_eq!(evidence.snapshots, [(TxnId(0), 0), (TxnId(1), 1)]);
        assert_eq!(evidence.commits, [(TxnId(0), 2), (TxnId(1), 1)]);
        assert_eq!(history.initial_values().len(), 2);
    }

    #[test]
    fn lists_and_nothing() {
        let text = r#"[{"tid":1,"sid":1,"sts":{"p":1,"l":0},"cts":{"p":2,"l":0},
            "ops":[{"t":"a","k":1,"v":5},{"t":"r","k":1,"v":[5,6]},{"t":"r","k":2},{"t":"r","k":3,"v":[]},{"t":"r","k":4,"v":0}]}]"#;
        let history = reads(Format::Chronos, text.as_bytes()).history;
        let seen: Vec<_> = history
            .ops(TxnId(0))
            .skip(1)
            .take(4)
            .map(|op| history.show_value(op.accesses[0].value))
            .collect();
        assert_eq!(seen, ["[5 6]", "absent", "absent", "0"]);
        assert!(history.initial_values().is_empty());
    }

    #[test]
    fn errors_have_their_place() {
        let back = SAMPLE.replace("\"p\":200", "\"p\":20");
        let back = fails(Format::Chronos, back.as_bytes());
        assert!(
            back.starts_with("<bytes>:2:") && back.contains("the commit timestamp lies before"),
            "{back}"
        );
        assert!(fails(Format::Chronos, b"[{\"tid\":1}]").contains("1:2: a transaction has tid"));
        assert!(
            fails(Format::Chronos, SAMPLE.replace("\"R\"", "\"x\"").as_bytes()).contains("a type is r, w")
        );
        assert!(fails(Format::Chronos, &SAMPLE.as_bytes()[..60]).contains("the file ends"));
    }
}
