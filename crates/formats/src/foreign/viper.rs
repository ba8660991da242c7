//! `viper`: a directory of Viper's JSON logs, one per session, with range queries.
//!
//! # Mapping
//! A key is a row of the table `viper` with the key column `k` and the columns `val` and `dead`:
//! Viper deletes by writing a tombstone, which has a value of its own and is returned by reads, so
//! a dead row is a row here too. `["range",k1,k2,rows,dead rows]` is a scan with the condition
//! `k >= K1 AND k <= K2`, whose result is both lists. An insertion or deletion is a read and a
//! write. What was not successful is left out. Operations may also be objects
//! (`{"opType":"r","key":…}`), as newer versions write them.
//!
//! # The initial state
//! The transaction that `isInitial` marks is the initial state. Without one, a value that is read
//! and that no transaction wrote is the one that was loaded before (see `unwritten`). A read of 0
//! is what a read of an absent row gives, unless 0 is written to the key or returned by a range.
//!
//! # Files
//! Viper's clients write the same history in several forms into neighbouring folders. Files that
//! are no JSON are left out, with a warning.

use hashbrown::HashSet;
use margay_history::{
    Access, History, HistoryBuilder, Invalid, ObjectId, OpDetail, OpKind, Outcome, Table, TableId, ValueId,
};

use super::forms::{Form, FormStream, Node, Syntax};
use super::places::session_number;
use super::steps::{Fault, fault, value};
use super::unwritten::Unwritten;
use crate::input::{Entry, Input};
use crate::{FormatError, Warnings};

pub(crate) fn read(input: Input<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    let name = input.name.clone();
    let is_log = |file: &Entry<'_>| {
        [".log", ".json"].iter().any(|end| file.name.ends_with(end)) || !file.name.contains('.')
    };
    let mut reader = Reader::new()?;
    let mut taken = HashSet::new();
    let (mut read, mut others) = (0, 0);
    for file in input.logs(is_log)? {
        let number = session_number(file.file_name(), &mut HashSet::new());
        let mut input = file.open()?;
        if !is_json(&input.head()?) {
            others += 1;
            continue;
        }
        read += 1;
        let session = free_number(number, &mut taken);
        let name = input.name.clone();
        let mut stream = FormStream::new(name, input.reader()?, Syntax::Json);
        while stream.advance()? {
            let done = reader.transaction(session, stream.form());
            done.map_err(|Fault { at, what }| stream.error(at, what))?;
        }
    }
    if read == 0 {
        return Err(FormatError::new("no log of Viper's JSON is in this directory").in_file(&name));
    }
    if others > 0 {
        warnings.add(format!("{others} files that are not Viper's JSON are left out"));
    }
    Ok(reader.finish(warnings)?)
}

/// Whether a log is JSON; an empty one is what a session without transactions leaves.
fn is_json(head: &[u8]) -> bool {
    match head.trim_ascii_start() {
        [] => true,
        [b'{', rest @ ..] => matches!(rest.trim_ascii_start().first(), Some(b'"' | b'}')),
        _ => false,
    }
}

fn free_number(mut number: u64, taken: &mut HashSet<u64>) -> u64 {
    while !taken.insert(number) {
        number = number.wrapping_add(1);
    }
    number
}

/// An operation, before it is known what was loaded.
enum Operation {
    Read(ObjectId, Seen),
    Write(ObjectId, ValueId),
    Range(String, Vec<Access>),
}

/// What a read saw: a row, and whether its value is 0.
#[derive(Clone, Copy)]
struct Seen {
    row: ValueId,
    zero: bool,
}

struct Txn {
    session: u64,
    end: OpKind,
    ops: Vec<Operation>,
}

struct Reader {
    builder: HistoryBuilder,
    table: TableId,
    txns: Vec<Txn>,
    unwritten: Unwritten,
    /// Objects that have been 0, which is not how they are absent then.
    zeros: HashSet<ObjectId>,
    has_initial: bool,
}

impl Reader {
    fn new() -> Result<Self, Invalid> {
        let mut builder = HistoryBuilder::new();
        let table = Table { name: "viper".to_string(), key: vec!["k".to_string()], ..Table::default() };
        let table = builder.declare_table(table)?;
        let (txns, unwritten, zeros) = (Vec::new(), Unwritten::default(), HashSet::new());
        Ok(Self { builder, table, txns, unwritten, zeros, has_initial: false })
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
            self.has_initial = true;
            return items.into_iter().try_for_each(|op| self.initial(op));
        }
        let mut txn = Txn { session, end, ops: Vec::new() };
        for op in items {
            self.operation(op, &mut txn.ops)?;
        }
        self.txns.push(txn);
        Ok(())
    }

    fn initial(&mut self, form: Form<'_>) -> Result<(), Fault> {
        let parts = Parts::of(form);
        match (parts.name, parts.key, parts.value) {
            ("w" | "i", Some(key), Some(value)) => {
                let (object, seen) = (self.object(key)?, self.row(Some(value), false)?);
                self.builder.initial(object, seen.row).or_else(|invalid| fault(form, invalid.what))?;
                self.note_zero(object, seen);
                Ok(())
            }
            _ => fault(form, "the initial state is made of writes"),
        }
    }

    fn note_zero(&mut self, object: ObjectId, seen: Seen) {
        if seen.zero {
            self.zeros.insert(object);
        }
    }

    fn operation(&mut self, form: Form<'_>, ops: &mut Vec<Operation>) -> Result<(), Fault> {
        let parts = Parts::of(form);
        match (parts.name, parts.key) {
            ("r", Some(key)) => self.read(key, parts.value, parts.dead, ops),
            ("w", Some(key)) => self.write(form, key, &parts, false, ops),
            ("i" | "d", Some(key)) if parts.seen.is_some() => {
                self.read(key, parts.seen, parts.dead, ops)?;
                self.write(form, key, &parts, parts.name == "d", ops)
            }
            ("range", Some(from)) => match (parts.value, parts.live) {
                (Some(to), Some(live)) => self.range((from, to), (live, parts.tombs), ops),
                _ => fault(form, "a range has two bounds and its rows"),
            },
            _ => fault(form, "an operation is r, w, i, d or range with its arguments"),
        }
    }

    fn object(&mut self, key: Form<'_>) -> Result<ObjectId, Fault> {
        let key = value(&mut self.builder, key)?;
        Ok(self.builder.object(Some(self.table), key))
    }

    /// A row; nothing, and the text `nil`, is what is absent.
    fn row(&mut self, seen: Option<Form<'_>>, dead: bool) -> Result<Seen, Fault> {
        let Some(seen) = seen.filter(|form| !is_nothing(*form)) else {
            return Ok(Seen { row: ValueId::NULL, zero: false });
        };
        let zero = seen.int() == Some(0);
        let seen = value(&mut self.builder, seen)?;
        let values = self.builder.values();
        let (val, flag) = (values.intern_name("val"), values.intern_name("dead"));
        Ok(Seen { row: values.row(&[(val, seen), (flag, values.bool(dead))]), zero })
    }

    fn read(
        &mut self,
        key: Form<'_>,
        seen: Option<Form<'_>>,
        dead: bool,
        ops: &mut Vec<Operation>,
    ) -> Result<(), Fault> {
        ops.push(Operation::Read(self.object(key)?, self.row(seen, dead)?));
        Ok(())
    }

    fn write(
        &mut self,
        form: Form<'_>,
        key: Form<'_>,
        parts: &Parts<'_>,
        dead: bool,
        ops: &mut Vec<Operation>,
    ) -> Result<(), Fault> {
        if !parts.succeeded {
            return Ok(());
        }
        let (object, written) = (self.object(key)?, self.row(parts.value, dead)?);
        if written.row == ValueId::NULL {
            return fault(form, "a write without its value");
        }
        self.note_zero(object, written);
        self.unwritten.write(object, written.row);
        ops.push(Operation::Write(object, written.row));
        Ok(())
    }

    fn range(
        &mut self,
        (from, to): (Form<'_>, Form<'_>),
        (live, tombs): (Form<'_>, Option<Form<'_>>),
        ops: &mut Vec<Operation>,
    ) -> Result<(), Fault> {
        let mut accesses = Vec::new();
        for (rows, dead) in [(Some(live), false), (tombs, true)] {
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
        ops.push(Operation::Range(condition, accesses));
        Ok(())
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
        let Some(key) = key else { return fault(form, "a row has an \"id\" and a \"val\"") };
        let (object, seen) = (self.object(key)?, self.row(seen, dead)?);
        self.note_zero(object, seen);
        Ok(Access { object, value: seen.row })
    }

    fn finish(mut self, warnings: &mut Warnings) -> Result<History, Invalid> {
        let txns = std::mem::take(&mut self.txns);
        if !self.has_initial {
            self.find_initial(&txns)?;
            self.unwritten.warning().into_iter().for_each(|warning| warnings.add(warning));
        }
        for (label, txn) in txns.iter().enumerate() {
            self.emit(label as u64 + 1, txn)?;
        }
        self.builder.finish()
    }

    /// A row as a read of its object saw it.
    fn seen(&self, object: ObjectId, seen: Seen) -> ValueId {
        if seen.zero && !self.zeros.contains(&object) { ValueId::NULL } else { seen.row }
    }

    fn find_initial(&mut self, txns: &[Txn]) -> Result<(), Invalid> {
        for txn in txns {
            let outcome = match txn.end {
                OpKind::Commit => Outcome::Committed,
                OpKind::Abort => Outcome::Aborted,
                _ => Outcome::Unknown,
            };
            for op in &txn.ops {
                match op {
                    Operation::Read(object, seen) => {
                        let row = self.seen(*object, *seen);
                        self.unwritten.read(*object, row, outcome);
                    }
                    Operation::Range(_, rows) => {
                        rows.iter().for_each(|row| self.unwritten.read(row.object, row.value, outcome));
                    }
                    Operation::Write(..) => {}
                }
            }
        }
        self.unwritten.initialise(&mut self.builder)
    }

    fn emit(&mut self, label: u64, txn: &Txn) -> Result<(), Invalid> {
        for op in &txn.ops {
            let session = txn.session;
            match op {
                Operation::Read(object, seen) => {
                    let access = Access { object: *object, value: self.seen(*object, *seen) };
                    self.builder.push(session, label, None, OpKind::Read, &[access], OpDetail::None)?;
                }
                Operation::Write(object, row) => {
                    let access = Access { object: *object, value: *row };
                    self.builder.push(session, label, None, OpKind::Write, &[access], OpDetail::None)?;
                }
                Operation::Range(condition, rows) => {
                    let detail = OpDetail::Scan { table: self.table, condition, observed: true };
                    self.builder.push(session, label, None, OpKind::Scan, rows, detail)?;
                }
            }
        }
        self.builder.push(txn.session, label, None, txn.end, &[], OpDetail::None)
    }
}

/// The parts of an operation, in either spelling.
struct Parts<'t> {
    name: &'t str,
    /// The key, or the lower bound of a range.
    key: Option<Form<'t>>,
    /// The value, or the upper bound of a range.
    value: Option<Form<'t>>,
    /// What an insertion or deletion read.
    seen: Option<Form<'t>>,
    /// The rows of a range, and the dead ones.
    live: Option<Form<'t>>,
    tombs: Option<Form<'t>>,
    dead: bool,
    /// A write that says nothing of its success was successful.
    succeeded: bool,
}

impl<'t> Parts<'t> {
    fn of(form: Form<'t>) -> Self {
        if form.is_map() { Self::of_object(form) } else { Self::of_list(form) }
    }

    fn of_list(form: Form<'t>) -> Self {
        let parts: Vec<_> = form.sequence().into_iter().flatten().collect();
        let at = |at: usize| parts.get(at).copied();
        let name = at(0).and_then(Form::word).unwrap_or_default();
        let change = matches!(name, "i" | "d");
        let (dead, succeeded) = if change { (at(4), at(5)) } else { (at(3), at(3)) };
        Self {
            name,
            key: at(1),
            value: at(2),
            seen: at(3).filter(|_| change),
            live: at(3),
            tombs: at(4),
            dead: dead.is_some_and(|flag| flag.node() == Node::Bool(true)),
            succeeded: succeeded.is_none_or(|flag| flag.node() != Node::Bool(false)),
        }
    }

    fn of_object(form: Form<'t>) -> Self {
        let field =
            |name: &str| form.pairs()?.find(|(key, _)| key.word() == Some(name)).map(|(_, value)| value);
        Self {
            name: field("opType").and_then(Form::word).unwrap_or_default(),
            key: field("key").or_else(|| field("key1")),
            value: field("value").or_else(|| field("key2")),
            seen: field("readValue"),
            live: field("liveKVs"),
            tombs: field("deadKVs"),
            dead: field("isDead").is_some_and(|flag| flag.node() == Node::Bool(true)),
            succeeded: field("succ").is_none_or(|flag| flag.node() != Node::Bool(false)),
        }
    }
}

fn is_nothing(form: Form<'_>) -> bool {
    form.is_nil() || form.word() == Some("nil")
}

fn bound(form: Form<'_>) -> Result<Option<i64>, Fault> {
    match form.node() {
        _ if is_nothing(form) => Ok(None),
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
    use margay_history::{History, OpKind, TxnId};

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
    fn operations_may_be_objects() {
        let lists = br#"{"value":[["r",1,0,false],["w",1,7,true],["i",2,8,0,false,true],
            ["range","nil",9,[{"id":1,"sk":1,"val":7}],[]]]}"#;
        let objects = br#"{"value":[{"opType":"r","key":1,"value":0,"isDead":false},
            {"opType":"w","key":1,"value":7,"succ":true},
            {"opType":"i","key":2,"value":8,"readValue":0,"isDead":false,"succ":true},
            {"opType":"range","key1":null,"key2":9,"liveKVs":[{"id":1,"sk":1,"val":7}],"deadKVs":[]}]}"#;
        let read = |log: &[u8]| read_folder(Format::Viper, &[("J1.log", log)]).unwrap().history;
        assert_eq!(read(lists).difference(&read(objects)), None);
    }

    fn initial(history: &History) -> Vec<String> {
        let show = |(object, value): &(_, _)| {
            format!("{} {}", history.show_object(*object), history.show_value(*value))
        };
        history.initial_values().iter().map(show).collect()
    }

    /// Published histories have no file that is marked as initial: what they read of it was taken
    /// for values that nobody wrote, and every one of them was accused.
    #[test]
    fn without_an_initial_file_unwritten_values_were_loaded() {
        let log = br#"{"value":[["r",1,10,false],["r",2,0,false],["w",1,11,true]]}
            {"value":[["r",1,11,false],["range",1,9,[{"id":1,"val":11},{"id":3,"val":30}],[]]]}
            {"value":[["r",3,31,false]]}"#;
        let loaded = read_folder(Format::Viper, &[("J1.log", log)]).unwrap();
        let history = loaded.history;
        // Of two values that nobody wrote to one key, one was loaded, and the other stays such a
        // value.
        assert_eq!(initial(&history), ["viper/1 {val: 10, dead: false}", "viper/3 {val: 30, dead: false}"]);
        let absent = history.ops(TxnId(0)).nth(1).unwrap().accesses[0].value;
        assert_eq!(history.show_value(absent), "absent");
        assert_eq!(loaded.warnings.len(), 1);
    }

    /// The folder above holds the same history in EDN and SQL as well.
    #[test]
    fn from_the_parent_folder() {
        let log = br#"{"value":[["w",1,11,true]]}"#;
        let files: [(&str, &[u8]); 3] = [
            ("jepsen/J1.log", b"{:type :ok, :f :txn, :value [[:w 1 11 true]]}"),
            ("json/J1.log", log),
            ("sql/S1.log", b"UPDATE t SET v = 11"),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let loaded = crate::read(crate::Source::from(folder.path()), None).unwrap();
        assert_eq!((loaded.format, loaded.history.txn_count()), (Format::Viper, 1));
        assert_eq!(loaded.warnings, ["2 files that are not Viper's JSON are left out"]);
    }

    #[test]
    fn errors_have_their_place() {
        let error = |log: &str| read_folder(Format::Viper, &[("J1.log", log.as_bytes())]).unwrap_err();
        let found = error("{\"value\":[]}\n{\"value\":[[\"q\",1]]}");
        assert_eq!((found.line, found.column), (Some(2), Some(11)));
        assert!(error("{}").what.contains("has a list \"value\""));
        assert!(error("{\"value\":[[\"range\",\"a\",2,[]]]}").what.contains("bounds"));
        assert!(error("UPDATE").what.contains("no log of Viper's JSON"));
    }
}
