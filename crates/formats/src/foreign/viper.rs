//! `viper`: a directory of Viper's JSON logs, one per session, with range queries.
//!
//! # Mapping
//! A key is a row of the table `viper` with the key column `k` and the columns `val` and `dead`: Viper deletes by writing a tombstone, which has
//! a value of its own and is returned by reads, so a dead row is a row here too. `["range",k1,k2,rows,dead rows]` is a scan with the
//! condition `k >= K1 AND k <= K2`, whose result is both lists. An insertion or deletion is a read and a write. What was not
//! successful is left out. The transaction that `isInitial` marks is the initial state.

use hashbrown::HashSet;
use margay_history::{
    Access, History, HistoryBuilder, Invalid, ObjectId, OpDetail, OpKind, Table, TableId, ValueId,
};

use super::forms::{Form, FormStream, Node, Syntax};
use super::places::session_number;
use super::steps::{Fault, fault, value};
use crate::input::Input;
use crate::{FormatError, Warnings};

pub(crate) fn read(input: Input<'_>, _: &mut Warnings) -> Result<History, FormatError> {
    let mut reader = Reader::new()?;
    let mut taken = HashSet::new();
    for file in input.files()? {
        let log = [".log", ".json"].iter().any(|end| file.name.ends_with(end)) || !file.name.contains('.');
        if !log {
            continue;
        }
        let session = session_number(file.file_name(), &mut taken);
        let input = file.open()?;
        let name = input.name.clone();
        let mut stream = FormStream::new(name, input.reader()?, Syntax::Json);
        while stream.advance()? {
            let done = reader.transaction(session, stream.form());
            done.map_err(|Fault { at, what }| stream.error(at, what))?;
        }
    }
    Ok(reader.builder.finish()?)
}

struct Reader {
    builder: HistoryBuilder,
    table: TableId,
    txns: u64,
    session: u64,
}

impl Reader {
    fn new() -> Result<Self, Invalid> {
        let mut builder = HistoryBuilder::new();
        let table = Table { name: "viper".to_string(), key: vec!["k".to_string()], columns: Vec::new() };
        let table = builder.declare_table(table)?;
        Ok(Self { builder, table, txns: 0, session: 0 })
    }

    fn transaction(&mut self, session: u64, form: Form<'_>) -> Result<(), Fault> {
        let Some(pairs) = form.pairs() else { return fault(form, "a transaction is an object") };
        let (mut ops, mut initial, mut end) = (None, false, OpKind::Commit);
        for (key, value) in pairs {
            match key.word() {
                Some("value") => ops = Some(value),
                Some("isInitial") => initial = value.node() == Node::Bool(true),
                Some("type") => end = outcome(value)?,
                _ => {}
            }
        }
        let Some(items) = ops.and_then(Form::sequence) else {
            return fault(form, "a transaction has a list \"value\" of operations");
        };
        if initial {
            return items.into_iter().try_for_each(|op| self.initial(op));
        }
        self.session = session;
        self.txns += 1;
        for op in items {
            self.operation(op)?;
        }
        self.push(form, end, &[], OpDetail::None)
    }

    fn push(
        &mut self,
        form: Form<'_>,
        kind: OpKind,
        accesses: &[Access],
        detail: OpDetail<'_>,
    ) -> Result<(), Fault> {
        let pushed = self.builder.push(self.session, self.txns, None, kind, accesses, detail);
        pushed.or_else(|invalid| fault(form, invalid.what))
    }

    fn initial(&mut self, form: Form<'_>) -> Result<(), Fault> {
        let parts: Vec<_> = form.sequence().into_iter().flatten().collect();
        match (parts.first().and_then(|part| part.word()), &parts[..]) {
            (Some("w" | "i"), [_, key, value, ..]) => {
                let (object, row) = (self.object(*key)?, self.row(Some(*value), false)?);
                self.builder.initial(object, row).or_else(|invalid| fault(form, invalid.what))
            }
            _ => fault(form, "the initial state is made of writes"),
        }
    }

    fn operation(&mut self, form: Form<'_>) -> Result<(), Fault> {
        let parts: Vec<_> = form.sequence().into_iter().flatten().collect();
        let flag = |at: usize| parts.get(at).is_some_and(|part| part.node() == Node::Bool(true));
        // A write that says nothing of its success was successful.
        let succeeded = |at: usize| parts.get(at).is_none_or(|part| part.node() != Node::Bool(false));
        match (parts.first().and_then(|part| part.word()), &parts[..]) {
            (Some("r"), [_, key, rest @ ..]) => self.read(form, *key, rest.first().copied(), flag(3)),
            (Some("w"), [_, key, value, ..]) => match succeeded(3) {
                true => self.write(form, *key, *value, false),
                false => Ok(()),
            },
            (Some(name @ ("i" | "d")), [_, key, value, seen, ..]) => {
                self.read(form, *key, Some(*seen), flag(4))?;
                match succeeded(5) {
                    true => self.write(form, *key, *value, name == "d"),
                    false => Ok(()),
                }
            }
            (Some("range"), [_, from, to, live, rest @ ..]) => {
                self.range(form, (*from, *to), *live, rest.first().copied())
            }
            _ => fault(form, "an operation is r, w, i, d or range with its arguments"),
        }
    }

    fn object(&mut self, key: Form<'_>) -> Result<ObjectId, Fault> {
        let key = value(&mut self.builder, key)?;
        Ok(self.builder.object(Some(self.table), key))
    }

    /// A row; nothing, and the text `nil`, is what is absent.
    fn row(&mut self, seen: Option<Form<'_>>, dead: bool) -> Result<ValueId, Fault> {
        let Some(seen) = seen.filter(|form| !form.is_nil() && form.word() != Some("nil")) else {
            return Ok(ValueId::NULL);
        };
        let seen = value(&mut self.builder, seen)?;
        let values = self.builder.values();
        let (val, flag) = (values.intern_name("val"), values.intern_name("dead"));
        Ok(values.row(&[(val, seen), (flag, values.bool(dead))]))
    }

    fn read(
        &mut self,
        form: Form<'_>,
        key: Form<'_>,
        seen: Option<Form<'_>>,
        dead: bool,
    ) -> Result<(), Fault> {
        let access = Access { object: self.object(key)?, value: self.row(seen, dead)? };
        self.push(form, OpKind::Read, &[access], OpDetail::None)
    }

    fn write(&mut self, form: Form<'_>, key: Form<'_>, written: Form<'_>, dead: bool) -> Result<(), Fault> {
        let access = Access { object: self.object(key)?, value: self.row(Some(written), dead)? };
        match access.value {
            ValueId::NULL => fault(written, "a write without its value"),
            _ => self.push(form, OpKind::Write, &[access], OpDetail::None),
        }
    }

    fn range(
        &mut self,
        form: Form<'_>,
        (from, to): (Form<'_>, Form<'_>),
        live: Form<'_>,
        dead: Option<Form<'_>>,
    ) -> Result<(), Fault> {
        let mut accesses = Vec::new();
        for (rows, dead) in [(Some(live), false), (dead, true)] {
            for row in rows.into_iter().flat_map(Form::sequence).flatten() {
                accesses.push(self.found(row, dead)?);
            }
        }
        let condition = match (bound(from)?, bound(to)?) {
            (None, None) => "TRUE".to_string(),
            (Some(from), None) => format!("k >= {from}"),
            (None, Some(to)) => format!("k <= {to}"),
            (Some(from), Some(to)) => format!("k >= {from} AND k <= {to}"),
        };
        let detail = OpDetail::Scan { table: self.table, condition: &condition, observed: true };
        self.push(form, OpKind::Scan, &accesses, detail)
    }

    fn found(&mut self, form: Form<'_>, dead: bool) -> Result<Access, Fault> {
        let (mut key, mut seen) = (None, None);
        for (name, value) in form.pairs().into_iter().flatten() {
            match name.word() {
                Some("id") => key = Some(value),
                Some("val") => seen = Some(value),
                _ => {}
            }
        }
        match key {
            Some(key) => Ok(Access { object: self.object(key)?, value: self.row(seen, dead)? }),
            None => fault(form, "a row has an \"id\" and a \"val\""),
        }
    }
}

fn bound(form: Form<'_>) -> Result<Option<i64>, Fault> {
    match form.node() {
        Node::Nil => Ok(None),
        Node::Int(int) => Ok(Some(int)),
        _ => fault(form, "the bounds of a range are integers"),
    }
}

fn outcome(form: Form<'_>) -> Result<OpKind, Fault> {
    match form.word() {
        Some("ok") => Ok(OpKind::Commit),
        Some("fail") => Ok(OpKind::Abort),
        Some("info") => Ok(OpKind::Unknown),
        _ => fault(form, "a type is ok, fail or info"),
    }
}

#[cfg(test)]
mod tests {
    use margay_history::{OpKind, TxnId};

    use crate::Format;
    use crate::foreign::testing::read_folder;

    #[test]
    fn ranges_and_tombstones() {
        let start = br#"{"value":[["w",1,10,true],["w",2,20,true]],"isInitial":true}"#;
        let log = br#"{"value":[["r",1,10,false],["d",1,11,10,false,true,true],["w",3,30,false]]}
            {"value":[["range",1,9,[{"id":2,"val":20}],[{"id":1,"val":11}]],["i",5,50,null,false,true]]}"#;
        let files: [(&str, &[u8]); 2] = [("J0.log", start), ("J1.log", log)];
        let history = read_folder(Format::Viper, &files).unwrap().history;
        assert_eq!((history.session_count(), history.txn_count(), history.initial_values().len()), (1, 2, 2));
        let kinds: Vec<_> = history.ops(TxnId(0)).map(|op| op.kind).collect();
        assert_eq!(kinds, [OpKind::Read, OpKind::Read, OpKind::Write, OpKind::Commit]);
        let scan = history.ops(TxnId(1)).next().unwrap();
        assert_eq!(history.show_value(scan.accesses[1].value), "{val: 11, dead: true}");
        assert_eq!(history.predicates()[0].text.as_ref(), "k >= 1 AND k <= 9");
    }

    #[test]
    fn errors_have_their_place() {
        let error = |log: &str| read_folder(Format::Viper, &[("J1.log", log.as_bytes())]).unwrap_err();
        let found = error("{\"value\":[]}\n{\"value\":[[\"q\",1]]}");
        assert_eq!((found.line, found.column), (Some(2), Some(11)));
        assert!(error("{}").what.contains("has a list \"value\""));
        assert!(error("{\"value\":[[\"range\",\"a\",2,[]]]}").what.contains("bounds"));
    }
}
