//! The state after everything that is settled, and histories that begin with it.
//!
//! # Design
//! Values stand as JSON, as in the header of a history: ids belong to one history, and each part is
//! a history of its own. A part gets the values of the objects that it names, and all rows if it
//! has conditions on rows.

use hashbrown::HashMap;
use margay_formats::{Beyond, NativeReader, NativeWriter};
use margay_history::{Access, Header, History, HistoryBuilder, NameId, ObjectId, Unit, ValueId};
use margay_sql::Value as SqlValue;
use margay_verdict::Cell;
use margay_verdict::cell::Field;

use crate::perhaps::Open;
use crate::{Transaction, Trouble};

/// What one object is to hold.
#[derive(Clone, Debug)]
pub struct Change {
    is_row: bool,
    key: Box<[u8]>,
    /// The pair of it and its value; none if it is absent.
    pair: Option<Box<[u8]>>,
}

impl Change {
    /// Whether the object is a row.
    #[must_use]
    pub fn is_row(&self) -> bool {
        self.is_row
    }

    /// The object, as text.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The object and its value, as in a header; none if it is absent.
    #[must_use]
    pub fn pair(&self) -> Option<&[u8]> {
        self.pair.as_deref()
    }
}

/// What objects hold.
pub struct Settled {
    /// A header without initial values.
    header: Vec<u8>,
    /// The same with the skew that the history has, where the other has a horizon.
    narrow: Vec<u8>,
    /// How far clocks are apart at most.
    skew: i64,
    unit: Unit,
    /// By object: the pair of it and its value.
    keys: HashMap<Box<[u8]>, Box<[u8]>>,
    /// The same, of rows.
    rows: HashMap<Box<[u8]>, Box<[u8]>>,
    /// What they may hold instead.
    pub(crate) open: Open,
    bytes: usize,
    writer: NativeWriter<Vec<u8>>,
}

impl Settled {
    /// The initial state, from the header of a history.
    ///
    /// # Errors
    /// When it is no header, or has what cannot be written again.
    pub fn new(header: &[u8]) -> Result<Self, Trouble> {
        let mut reader = NativeReader::new(header).map_err(|error| error.at_line(1))?;
        let mut writer = NativeWriter::new(Vec::new());
        let head = reader.builder().header().clone();
        let header = bare(&mut writer, &mut reader, &head)?;
        let mut settled = Self {
            narrow: header.clone(),
            header,
            skew: head.skew,
            unit: head.unit,
            keys: HashMap::new(),
            rows: HashMap::new(),
            open: Open::default(),
            bytes: 0,
            writer,
        };
        let initial: Vec<Access> = reader.builder().initial_values().collect();
        let history = reader.finish()?;
        if let Some(what) = history.unseen_content() {
            return Err(Trouble::Outside(what));
        }
        for Access { object, value } in initial {
            if value == ValueId::UNKNOWN {
                return Err(Trouble::Outside("initial values that are not known".to_owned()));
            }
            let change = settled.change(&history, object, &Cell::Value(value))?;
            settled.apply(change);
        }
        Ok(settled)
    }

    /// The same as if clocks were apart by the horizon.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn within(self, horizon: i64) -> Result<Self, Trouble> {
        let mut reader = NativeReader::new(&self.narrow)?;
        let mut head = reader.builder().header().clone();
        head.skew = head.skew.max(horizon);
        let header = bare(&mut NativeWriter::new(Vec::new()), &mut reader, &head)?;
        Ok(Self { header, skew: head.skew, ..self })
    }

    /// How far clocks are apart at most.
    #[must_use]
    pub fn skew(&self) -> i64 {
        self.skew
    }

    /// What time is measured in.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The memory that it takes, without that of its tables.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes + self.open.bytes()
    }

    /// A history of some transactions that begins with this state. Those that need not take effect
    /// are of unknown outcome in it.
    ///
    /// # Errors
    /// When lines are ill-formed.
    pub fn part<'t>(&self, txns: impl Iterator<Item = (&'t Transaction, bool)>) -> Result<History, Trouble> {
        let reader = NativeReader::new(&self.header)?;
        self.read(reader, txns, &HashMap::new(), None)
    }

    /// The same, with stand-ins for those that may have taken effect before and concern it; and
    /// whom they stand for. The horizon counts if that is wanted.
    ///
    /// # Errors
    /// When lines are ill-formed.
    pub(crate) fn open_part<'t>(
        &self,
        txns: impl Iterator<Item = (&'t Transaction, bool)>,
        wide: bool,
    ) -> Result<(History, Vec<u64>), Trouble> {
        let reader = NativeReader::new(if wide { &self.header } else { &self.narrow })?;
        let mut stand_ins = Vec::new();
        let history = self.read(reader, txns, &HashMap::new(), Some(&mut stand_ins))?;
        Ok((history, stand_ins))
    }

    /// A history of some transactions with their timestamps, that begins with this state, but for
    /// some objects.
    ///
    /// # Errors
    /// When lines are ill-formed.
    pub fn window(
        &self,
        txns: &[Transaction],
        before: &HashMap<&[u8], Option<&[u8]>>,
    ) -> Result<History, Trouble> {
        let mut reader = NativeReader::new(&self.header)?;
        for txn in txns {
            let stamps = txn.stamps;
            let all = [
                ("snapshot", stamps.snapshot),
                ("commit", stamps.commit),
                ("serialization", stamps.serialization),
            ];
            for (kind, ts) in all {
                let Some(ts) = ts else { continue };
                let label = txn.label;
                let line = format!("{{\"evidence\":\"{kind}\",\"txn\":{label},\"ts\":{ts}}}");
                reader.line(line.as_bytes())?;
            }
        }
        self.read(reader, txns.iter().map(|txn| (txn, true)), before, None)
    }

    fn read<'t>(
        &self,
        mut reader: NativeReader,
        txns: impl Iterator<Item = (&'t Transaction, bool)>,
        before: &HashMap<&[u8], Option<&[u8]>>,
        mut stand_ins: Option<&mut Vec<u64>>,
    ) -> Result<History, Trouble> {
        let mut searches = false;
        for (txn, must) in txns {
            searches |= txn.searches;
            let at_its_line = |error: margay_formats::FormatError| error.at_line(txn.place());
            match must {
                true => txn.lines().try_for_each(|line| reader.line(line)).map_err(at_its_line)?,
                false => txn.without_end().try_for_each(|line| reader.line(line)).map_err(at_its_line)?,
            }
        }
        let mut writer = NativeWriter::new(Vec::new());
        if let Some(stand_ins) = stand_ins.as_deref_mut().filter(|_| searches) {
            self.open
                .about_rows()
                .into_iter()
                .try_for_each(|label| self.stand_in(&mut reader, label, stand_ins))?;
        }
        let mut next = 0;
        while next < reader.builder().names().object_count() {
            let object = ObjectId::at(next);
            next += 1;
            let is_row = reader.builder().object_of(object).table.is_some();
            if is_row && searches {
                continue;
            }
            let key = object_text(&mut writer, reader.builder(), object)?;
            if let Some(stand_ins) = stand_ins.as_deref_mut() {
                let open = self.open.about(&key).iter();
                open.copied().try_for_each(|label| self.stand_in(&mut reader, label, stand_ins))?;
            }
            let now = if is_row { self.rows.get(&*key) } else { self.keys.get(&*key) };
            let pair = before.get(&*key).copied().unwrap_or_else(|| now.map(AsRef::as_ref));
            pair.map_or(Ok(()), |pair| reader.initial(pair))?;
        }
        if searches {
            let mut rows: Vec<_> = self.rows.values().collect();
            rows.sort_unstable();
            rows.into_iter().try_for_each(|pair| reader.initial(pair))?;
        }
        Ok(reader.finish()?)
    }

    fn stand_in(&self, reader: &mut NativeReader, label: u64, all: &mut Vec<u64>) -> Result<(), Trouble> {
        if !all.contains(&label) {
            reader.line(&self.open.line(label, all.len()))?;
            all.push(label);
        }
        Ok(())
    }

    /// Takes over what a part has left.
    ///
    /// # Errors
    /// When it has left a value that cannot be written.
    pub fn take_over(&mut self, part: &History, cells: &[Cell]) -> Result<(), Trouble> {
        let changed = |&(object, cell): &(ObjectId, &Cell)| *cell != Cell::Value(part.initial(object));
        part.objects().zip(cells).filter(changed).try_for_each(|(object, cell)| {
            let change = self.change(part, object, cell)?;
            self.apply(change);
            Ok(())
        })
    }

    /// What it is for an object to hold this.
    ///
    /// # Errors
    /// When the value cannot be written.
    pub fn change(&mut self, history: &History, object: ObjectId, cell: &Cell) -> Result<Change, Trouble> {
        let key = self.key(history, object)?;
        let is_row = history.object(object).table.is_some();
        if cell.is_absent() {
            return Ok(Change { is_row, key, pair: None });
        }
        let writer = &mut self.writer;
        writer.raw("[");
        writer.object(history.names(), object).map_err(beyond)?;
        writer.raw(",");
        write_cell(writer, history, cell).map_err(beyond)?;
        writer.raw("]");
        Ok(Change { is_row, key, pair: Some(writer.take().into()) })
    }

    /// An object, as text.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn key(&mut self, history: &History, object: ObjectId) -> Result<Box<[u8]>, Trouble> {
        self.writer.object(history.names(), object).map_err(beyond)?;
        Ok(self.writer.take().into())
    }

    /// Changes one object; answers the change back.
    pub fn apply(&mut self, change: Change) -> Change {
        let Change { is_row, key, pair } = change;
        let values = if is_row { &mut self.rows } else { &mut self.keys };
        let old = match pair {
            Some(pair) => {
                self.bytes += key.len() + pair.len();
                values.insert(key.clone(), pair)
            }
            None => values.remove(&key),
        };
        self.bytes -= old.as_ref().map_or(0, |old| key.len() + old.len());
        Change { is_row, key, pair: old }
    }
}

/// A header without initial values.
fn bare(
    writer: &mut NativeWriter<Vec<u8>>,
    reader: &mut NativeReader,
    head: &Header,
) -> Result<Vec<u8>, Trouble> {
    let written = writer.header(reader.builder().names(), head, &[]);
    written.map_err(|(_, beyond)| Trouble::Outside(beyond.to_string()))?;
    writer.raw("}");
    Ok(writer.take())
}

fn object_text(
    writer: &mut NativeWriter<Vec<u8>>,
    builder: &HistoryBuilder,
    object: ObjectId,
) -> Result<Vec<u8>, Trouble> {
    writer.object(builder.names(), object).map_err(beyond)?;
    Ok(writer.take())
}

fn beyond(beyond: Beyond) -> Trouble {
    Trouble::Outside(beyond.to_string())
}

fn write_cell(writer: &mut NativeWriter<Vec<u8>>, history: &History, cell: &Cell) -> Result<(), Beyond> {
    match cell {
        Cell::Value(id) => writer.value(history.names(), *id),
        Cell::Made(value) => write_made(writer, value),
        Cell::List(items) => {
            for (number, item) in items.iter().enumerate() {
                writer.raw(if number == 0 { "[" } else { "," });
                writer.value(history.names(), *item)?;
            }
            writer.raw(if items.is_empty() { "[]" } else { "]" });
            Ok(())
        }
        Cell::Row(columns) => write_row(writer, history, columns),
    }
}

fn write_row(
    writer: &mut NativeWriter<Vec<u8>>,
    history: &History,
    columns: &[(NameId, Field)],
) -> Result<(), Beyond> {
    for (number, (name, field)) in columns.iter().enumerate() {
        if name.index() >= history.values().name_count() {
            return Err(Beyond("a column that the history does not name"));
        }
        writer.raw(if number == 0 { "{" } else { "," });
        writer.text(history.name(*name));
        writer.raw(":");
        match field {
            Field::Value(id) => writer.value(history.names(), *id)?,
            Field::Made(value) => write_made(writer, value)?,
        }
    }
    writer.raw(if columns.is_empty() { "{}" } else { "}" });
    Ok(())
}

fn write_made(writer: &mut NativeWriter<Vec<u8>>, value: &SqlValue) -> Result<(), Beyond> {
    match value {
        SqlValue::Null => writer.raw("null"),
        SqlValue::Bool(value) => writer.raw(if *value { "true" } else { "false" }),
        SqlValue::Int(number) => writer.raw(&number.to_string()),
        SqlValue::Text(text) => writer.text(text),
        _ => return Err(Beyond("a computed value of this kind")),
    }
    Ok(())
}
