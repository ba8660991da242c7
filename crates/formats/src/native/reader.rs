//! Reads the lines after the header: operations and evidence.

use margay_history::{History, HistoryBuilder, Interval, Invalid, ObjectId, OpDetail, OpKind, TableId};

use super::fields::{Field, Fields, Shape, unknown};
use super::header;
use super::json::{Fault, Json};
use super::values::ValueReader;
use crate::input::{Input, Lines};
use crate::{FormatError, Warnings};

/// A recorder that was killed may have left half a line at the end: what it stood for is as if it
/// had not been recorded.
pub(crate) fn read(input: Input<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    let mut lines = input.lines()?;
    let mut reader = Reader::default();
    let mut headed = false;
    while lines.advance()? {
        if lines.line().trim_ascii().is_empty() {
            continue;
        }
        if headed && lines.is_unterminated() && is_cut(lines.line()) {
            warnings.add(format!("line {} is cut off, and left out", lines.number()));
            continue;
        }
        reader.values.builder.at_place(lines.number());
        let result = match headed {
            true => reader.line(lines.line()),
            false => header::read(&mut reader.values, lines.line()),
        };
        result.map_err(|fault| placed(&lines, fault))?;
        headed = true;
    }
    if !headed {
        return Err(lines.error(1, "there is no header: the first line must be one, such as {\"margay\":1}"));
    }
    reader.values.builder.finish().map_err(|invalid| lines.invalid(invalid))
}

/// Whether an object begins here that does not end: a recorder that was killed may leave such a
/// last line.
#[must_use]
pub fn is_cut(text: &[u8]) -> bool {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for byte in text.trim_ascii() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    text.trim_ascii_start().starts_with(b"{") && (quoted || depth > 0)
}

fn placed(lines: &Lines<'_>, fault: Fault) -> FormatError {
    lines.error(fault.at() as u64 + 1, fault.what())
}

#[derive(Default)]
struct Reader {
    values: ValueReader,
}

/// Reads a history from lines that somebody else holds: the header, then operations and evidence,
/// and initial values at any time.
pub struct NativeReader {
    reader: Reader,
}

impl NativeReader {
    /// Reads the header.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(line: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::default();
        header::read(&mut reader.values, line).map_err(unplaced)?;
        Ok(Self { reader })
    }

    /// Reads an operation or evidence.
    ///
    /// # Errors
    /// When it is neither.
    pub fn line(&mut self, line: &[u8]) -> Result<(), FormatError> {
        self.reader.line(line).map_err(unplaced)
    }

    /// Reads an initial value: a pair of object and value.
    ///
    /// # Errors
    /// When it is none, or the object has one.
    pub fn initial(&mut self, pair: &[u8]) -> Result<(), FormatError> {
        header::initial(&mut self.reader.values, &mut Json::new(pair)).map_err(unplaced)
    }

    /// What was read so far.
    pub fn builder(&mut self) -> &mut HistoryBuilder {
        &mut self.reader.values.builder
    }

    /// The history.
    ///
    /// # Errors
    /// When the lines are none.
    pub fn finish(self) -> Result<History, FormatError> {
        self.reader.values.builder.finish().map_err(|invalid| FormatError::new(invalid.what))
    }
}

/// Whose operation a line is, and when and what it was.
#[derive(Clone, Copy, Debug)]
pub struct Glance {
    /// The session.
    pub session: u64,
    /// The transaction.
    pub txn: u64,
    /// When it was, if that is known.
    pub at: Option<Interval>,
    /// Its kind.
    pub kind: OpKind,
}

/// Looks at a line without reading its values; nothing if it is evidence.
///
/// # Errors
/// When it is no line of a history.
pub fn glance(line: &[u8]) -> Result<Option<Glance>, FormatError> {
    let mut json = Json::new(line);
    let (mut session, mut txn, mut at, mut found, mut evidence) = (0, 0, None, None, false);
    let fields = json.object("an operation or evidence, which is an object", |json, name, _| {
        let field = Field::named(name);
        match field {
            Some(Field::Session) => session = json.uint("a session's number")?,
            Some(Field::Txn) => txn = json.uint("a transaction's number")?,
            Some(Field::At) => at = Some(interval(json)?),
            _ => json.skip()?,
        }
        evidence |= field == Some(Field::Evidence);
        found = found.or(field.and_then(Field::op_kind));
        Ok(())
    });
    fields.and_then(|()| json.end()).map_err(unplaced)?;
    match found {
        _ if evidence => Ok(None),
        Some(kind) => Ok(Some(Glance { session, txn, at, kind })),
        None => Err(FormatError::new("no operation on this line").at_column(1)),
    }
}

/// A timestamp that evidence gives to a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The transaction.
    pub txn: u64,
    /// Of what.
    pub kind: StampKind,
    /// The timestamp.
    pub ts: i64,
}

/// What a timestamp is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StampKind {
    /// The snapshot.
    Snapshot,
    /// The commit.
    Commit,
    /// The place in the serialization order.
    Serialization,
}

/// The timestamp on a line of evidence; nothing if it is evidence of another kind.
///
/// # Errors
/// When it is no line of evidence.
pub fn stamp(line: &[u8]) -> Result<Option<Stamp>, FormatError> {
    let mut json = Json::new(line);
    let (mut txn, mut ts, mut kind, mut known) = (None, None, None, false);
    let fields = json.object("evidence, which is an object", |json, name, _| {
        match Field::named(name) {
            Some(Field::Txn) => txn = Some(json.uint("a transaction's number")?),
            Some(Field::Ts) => ts = Some(json.int("a timestamp")?),
            Some(Field::Evidence) => {
                let name = json.text("the kind of evidence, as text")?;
                known = EVIDENCE.iter().any(|(known, _)| *known == name);
                kind = match &*name {
                    "snapshot" => Some(StampKind::Snapshot),
                    "commit" => Some(StampKind::Commit),
                    "serialization" => Some(StampKind::Serialization),
                    _ => None,
                };
            }
            _ => json.skip()?,
        }
        Ok(())
    });
    fields.and_then(|()| json.end()).map_err(unplaced)?;
    match (kind, txn, ts) {
        (Some(kind), Some(txn), Some(ts)) => Ok(Some(Stamp { txn, kind, ts })),
        (None, ..) if known => Ok(None),
        _ => Err(FormatError::new("no evidence that is known, of a transaction").at_column(1)),
    }
}

fn unplaced(fault: Fault) -> FormatError {
    let column = fault.at() as u64 + 1;
    FormatError::new(fault.what()).at_column(column)
}

/// What a line says in its plain fields.
#[derive(Default)]
struct Line {
    fields: Fields,
    session: u64,
    txn: u64,
    at: Option<Interval>,
}

impl Reader {
    fn line(&mut self, text: &[u8]) -> Result<(), Fault> {
        let mut json = Json::new(text);
        let mut line = Line::default();
        self.values.accesses.clear();
        self.values.items.clear();
        json.object("an operation or evidence, which is an object", |json, name, key| {
            let field = line.fields.add(name, key)?;
            self.field(json, &mut line, field)
        })?;
        json.end()?;
        match line.fields.has(Field::Evidence) {
            true => self.evidence(&json, &line),
            false => self.operation(&json, &line),
        }
    }

    fn field(&mut self, json: &mut Json<'_>, line: &mut Line, field: Field) -> Result<(), Fault> {
        match field {
            Field::Session => line.session = json.uint("a session's number")?,
            Field::Txn => line.txn = json.uint("a transaction's number")?,
            Field::At => line.at = Some(interval(json)?),
            _ => return self.content(json, line, field),
        }
        Ok(())
    }

    /// Reads at once what means the same on every line; notes the place of the rest.
    fn content(&mut self, json: &mut Json<'_>, line: &mut Line, field: Field) -> Result<(), Fault> {
        if let Some(kind) = field.op_kind() {
            line.fields.set_kind(kind, field)?;
        }
        match field {
            Field::Begin | Field::ReadOnly | Field::Commit | Field::Abort | Field::Unknown => {
                match json.word("true") {
                    true => Ok(()),
                    false => json.unexpected("`true`"),
                }
            }
            Field::Read | Field::Write | Field::Append => self.values.pairs(json),
            _ => {
                line.fields.set_value(field, json.place());
                json.skip()
            }
        }
    }

    fn operation(&mut self, json: &Json<'_>, line: &Line) -> Result<(), Fault> {
        let Some((kind, field)) = line.fields.kind else {
            let all: Vec<_> = OpKind::ALL.iter().map(|kind| kind.name()).collect();
            return Err(Fault::new(0, format!("no operation on this line; one of {}", all.join(", "))));
        };
        line.fields.check(shape(kind))?;
        let broken = |invalid: Invalid| Fault::new(line.fields.key(field), invalid.what);
        match kind {
            OpKind::Scan => self.scan(json, line).and_then(|asked| {
                let condition = &asked.condition;
                let detail = OpDetail::Scan { table: asked.table, condition, observed: asked.observed };
                self.push(line, kind, detail).map_err(broken)
            }),
            OpKind::Update => self.update(json, line).and_then(|(asked, set)| {
                let (table, condition, observed) = (asked.table, &*asked.condition, asked.observed);
                let detail = OpDetail::Update { table, condition, set: set.as_deref(), observed };
                self.push(line, kind, detail).map_err(broken)
            }),
            OpKind::Sql => self.sql(json, line, broken),
            OpKind::Begin => {
                let text =
                    |field, what| line.fields.value(field).map(|at| json.from(at).text(what)).transpose();
                let level = text(Field::Level, "the level's name")?;
                let unit = text(Field::Unit, "the name of a unit")?;
                let (level, unit) = (level.as_deref(), unit.as_deref());
                let detail = OpDetail::Begin { level, read_only: line.fields.has(Field::ReadOnly), unit };
                self.push(line, kind, detail).map_err(broken)
            }
            _ => self.push(line, kind, OpDetail::None).map_err(broken),
        }
    }

    fn push(&mut self, line: &Line, kind: OpKind, detail: OpDetail<'_>) -> Result<(), Invalid> {
        let values = &mut self.values;
        values.builder.push(line.session, line.txn, line.at, kind, &values.accesses, detail)
    }

    fn scan(&mut self, json: &Json<'_>, line: &Line) -> Result<Asked, Fault> {
        let asked = self.asked(json, line, Field::Scan, None)?;
        self.rows(json, line)?;
        Ok(asked)
    }

    fn update(&mut self, json: &Json<'_>, line: &Line) -> Result<(Asked, Option<String>), Fault> {
        let mut set = None;
        let asked = self.asked(json, line, Field::Update, Some(&mut set))?;
        self.rows(json, line)?;
        Ok((asked, set))
    }

    /// Reads what a scan or update asks; `set` is there for an update.
    fn asked(
        &mut self,
        json: &Json<'_>,
        line: &Line,
        field: Field,
        mut set: Option<&mut Option<String>>,
    ) -> Result<Asked, Fault> {
        let start = line.fields.value(field).unwrap_or_default();
        let names: &[&str] = if set.is_some() { &["table", "where", "set"] } else { &["table", "where"] };
        let (mut table, mut condition, mut seen) = (None, None, 0_u8);
        json.from(start).object("an object with \"table\" and \"where\"", |json, name, at| {
            let Some(which) = names.iter().position(|&known| known == name) else {
                let what = if field == Field::Scan { "field of a scan" } else { "field of an update" };
                return Err(Fault::new(at, unknown(what, name, names.iter().copied())));
            };
            if seen & (1 << which) != 0 {
                return Err(Fault::new(at, format!("field {name:?} occurs twice")));
            }
            seen |= 1 << which;
            match (which, &mut set) {
                (0, _) => table = Some(self.values.builder.table(&json.text("a table's name")?)),
                (1, _) => condition = Some(json.text("a condition, as text")?.into_owned()),
                (_, Some(set)) => **set = assignments(json)?,
                (_, None) => {}
            }
            Ok(())
        })?;
        let observed = line.fields.has(Field::Rows);
        match (table, condition, names.iter().enumerate().find(|(which, _)| seen & (1 << which) == 0)) {
            (Some(table), Some(condition), None) => Ok(Asked { table, condition, observed }),
            (.., missing) => {
                let name = missing.map_or("where", |(_, name)| name);
                let what = if field == Field::Scan { "a scan" } else { "an update" };
                Err(Fault::new(start, format!("{what} needs the field {name:?}")))
            }
        }
    }

    fn rows(&mut self, json: &Json<'_>, line: &Line) -> Result<(), Fault> {
        line.fields.value(Field::Rows).map_or(Ok(()), |at| self.values.pairs(&mut json.from(at)))
    }

    fn sql(&mut self, json: &Json<'_>, line: &Line, broken: impl Fn(Invalid) -> Fault) -> Result<(), Fault> {
        let value = |field| line.fields.value(field).map(|at| json.from(at));
        let text = json.from(line.fields.value(Field::Sql).unwrap_or_default()).text("a SQL statement")?;
        if let Some(mut json) = value(Field::Params) {
            self.items(&mut json, "a list of parameters", false)?;
        }
        let params = self.values.items.len();
        if let Some(mut json) = value(Field::Rows) {
            self.items(&mut json, "a list of result tuples, such as [[1,\"a\"]]", true)?;
        }
        let count =
            value(Field::Count).map(|mut json| json.uint("the number of affected rows")).transpose()?;
        let values = &mut self.values;
        let (params, rows) = values.items.split_at(params);
        let rows = line.fields.has(Field::Rows).then_some(rows);
        let detail = OpDetail::Sql { text: &text, params, rows, count };
        values.builder.push(line.session, line.txn, line.at, OpKind::Sql, &[], detail).map_err(broken)
    }

    /// Reads a list of values, or of tuples, onto the items.
    fn items(&mut self, json: &mut Json<'_>, expected: &str, tuples: bool) -> Result<(), Fault> {
        json.list(expected, |json| {
            if tuples && json.peek() != Some(b'[') {
                return json.unexpected("a tuple, such as [1,\"a\"]");
            }
            let item = self.values.value(json)?;
            self.values.items.push(item);
            Ok(())
        })
    }

    fn evidence(&mut self, json: &Json<'_>, line: &Line) -> Result<(), Fault> {
        let at = line.fields.value(Field::Evidence).unwrap_or_default();
        let name = json.from(at).text("the kind of evidence, as text")?;
        let Some(shape) = EVIDENCE.iter().find(|(known, _)| *known == name).map(|(_, shape)| shape) else {
            let known = EVIDENCE.iter().map(|&(known, _)| known);
            return Err(Fault::new(at, unknown("evidence", &name, known)));
        };
        line.fields.check(shape)?;
        let value = |field| json.from(line.fields.value(field).unwrap_or_default());
        let ts = || value(Field::Ts).int("a timestamp");
        match &*name {
            "version-order" => self.version_order(value(Field::Object), value(Field::Txns))?,
            "version-set" => self.version_set(line.txn, value(Field::Op), value(Field::Rows))?,
            "snapshot" => self.values.builder.snapshot(line.txn, ts()?),
            "commit" => self.values.builder.commit(line.txn, ts()?),
            _ => self.values.builder.serialization(line.txn, ts()?),
        }
        Ok(())
    }

    fn version_order(&mut self, mut object: Json<'_>, mut txns: Json<'_>) -> Result<(), Fault> {
        let object = self.values.object(&mut object)?;
        let mut versions = Vec::new();
        txns.list("a list of transactions' numbers", |json| {
            versions.push(version(json)?);
            Ok(())
        })?;
        self.values.builder.version_order(object, versions);
        Ok(())
    }

    fn version_set(&mut self, txn: u64, mut op: Json<'_>, mut rows: Json<'_>) -> Result<(), Fault> {
        let at = op.place();
        let op = u32::try_from(op.uint("an operation's number")?)
            .map_err(|_| Fault::new(at, "no transaction has so many operations"))?;
        let mut versions = Vec::new();
        rows.list("a list of pairs of object and transaction", |json| {
            versions.push(self.versioned(json)?);
            Ok(())
        })?;
        self.values.builder.version_set(txn, op, versions);
        Ok(())
    }

    /// Reads `[object, txn]`, with `null` for the initial version.
    fn versioned(&mut self, json: &mut Json<'_>) -> Result<(ObjectId, Option<u64>), Fault> {
        let (start, mut object, mut txn, mut count) = (json.place(), None, None, 0);
        json.list("a pair of object and transaction, such as [\"x\",1]", |json| {
            count += 1;
            match count {
                1 => object = Some(self.values.object(json)?),
                2 => txn = version(json)?,
                _ => return json.fault("a pair is [object, transaction]: too many items"),
            }
            Ok(())
        })?;
        match object {
            Some(object) if count == 2 => Ok((object, txn)),
            _ => Err(Fault::new(start, "a pair is [object, transaction]: too few items")),
        }
    }
}

/// What a scan or update asked.
struct Asked {
    table: TableId,
    condition: String,
    observed: bool,
}

/// Reads `[before, after]`.
fn interval(json: &mut Json<'_>) -> Result<Interval, Fault> {
    let (start, mut times, mut count) = (json.place(), [0; 2], 0);
    json.list("an interval, such as [100,180]", |json| {
        match times.get_mut(count) {
            Some(time) => *time = json.int("a time")?,
            None => return json.fault("an interval is [before, after]: too many items"),
        }
        count += 1;
        Ok(())
    })?;
    let [before, after] = times;
    match count {
        2 if before <= after => Ok(Interval { before, after }),
        2 => Err(Fault::new(
            start,
            format!("time runs backwards: the operation begins at {before} and ends at {after}"),
        )),
        _ => Err(Fault::new(start, "an interval is [before, after]: too few items")),
    }
}

fn assignments(json: &mut Json<'_>) -> Result<Option<String>, Fault> {
    match json.word("null") {
        true => Ok(None),
        false => Ok(Some(json.text("assignments as text, or null to delete")?.into_owned())),
    }
}

/// Reads a transaction's number, or `null` for the initial version.
fn version(json: &mut Json<'_>) -> Result<Option<u64>, Fault> {
    match json.word("null") {
        true => Ok(None),
        false => json.uint("a transaction's number, or null for the initial version").map(Some),
    }
}

macro_rules! shape {
    ($what:literal: $($required:ident)* $(; $($optional:ident)*)?) => {
        Shape { what: $what, required: &[$(Field::$required),*], optional: &[$($(Field::$optional),*)?] }
    };
}

/// The fields of an operation of each kind.
fn shape(kind: OpKind) -> &'static Shape {
    match kind {
        OpKind::Begin => &shape!("a begin": Session Txn Begin; At Level ReadOnly Unit),
        OpKind::Read => &shape!("a read": Session Txn Read; At),
        OpKind::Write => &shape!("a write": Session Txn Write; At),
        OpKind::Append => &shape!("an append": Session Txn Append; At),
        OpKind::Scan => &shape!("a scan": Session Txn Scan; At Rows),
        OpKind::Update => &shape!("an update": Session Txn Update; At Rows),
        OpKind::Sql => &shape!("a sql operation": Session Txn Sql; At Params Rows Count),
        OpKind::Commit => &shape!("a commit": Session Txn Commit; At),
        OpKind::Abort => &shape!("an abort": Session Txn Abort; At),
        OpKind::Unknown => &shape!("an unknown end": Session Txn Unknown; At),
    }
}

/// The fields of each kind of evidence.
const EVIDENCE: [(&str, Shape); 5] = [
    ("version-order", shape!("a version order": Evidence Object Txns)),
    ("version-set", shape!("a version set": Evidence Txn Op Rows)),
    ("snapshot", shape!("a snapshot": Evidence Txn Ts)),
    ("commit", shape!("a commit timestamp": Evidence Txn Ts)),
    ("serialization", shape!("a serialization timestamp": Evidence Txn Ts)),
];
