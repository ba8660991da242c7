//! The state after everything that is settled, and histories that begin with it.
//!
//! # Design
//! Values stand as JSON, as in the header of a history: ids belong to one history, and each part is a history of its
//! own. A part gets the values of the objects that it names, and all rows if it has conditions on rows.

use hashbrown::HashMap;
use margay_formats::{Beyond, NativeReader, NativeWriter};
use margay_history::{Access, History, HistoryBuilder, NameId, ObjectId, Unit, ValueId};
use margay_sql::Value as SqlValue;
use margay_verdict::Cell;
use margay_verdict::cell::Field;

use crate::{Transaction, Trouble};

/// What objects hold.
pub struct Settled {
    /// A header without initial values.
    header: Vec<u8>,
    /// How far clocks are apart at most.
    skew: i64,
    unit: Unit,
    /// By object: the pair of it and its value.
    keys: HashMap<Box<[u8]>, Box<[u8]>>,
    /// The same, of rows.
    rows: HashMap<Box<[u8]>, Box<[u8]>>,
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
        let bare = writer.header(reader.builder().names(), &head, &[]);
        bare.map_err(|(_, beyond)| Trouble::Outside(beyond.to_string()))?;
        writer.raw("}");
        let mut settled = Self {
            header: writer.take(),
            skew: head.skew,
            unit: head.unit,
            keys: HashMap::new(),
            rows: HashMap::new(),
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
            settled.put(&history, object, &Cell::Value(value))?;
        }
        Ok(settled)
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
        self.bytes
    }

    /// A history of some transactions that begins with this state. Those that need not take effect are of unknown
    /// outcome in it.
    ///
    /// # Errors
    /// When lines are ill-formed.
    pub fn part<'t>(&self, txns: impl Iterator<Item = (&'t Transaction, bool)>) -> Result<History, Trouble> {
        let mut reader = NativeReader::new(&self.header)?;
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
        for object in (0..reader.builder().names().object_count()).map(ObjectId::at) {
            let is_row = reader.builder().object_of(object).table.is_some();
            if is_row && searches {
                continue;
            }
            let key = object_text(&mut writer, reader.builder(), object)?;
            let pair = if is_row { self.rows.get(&*key) } else { self.keys.get(&*key) };
            pair.map_or(Ok(()), |pair| reader.initial(pair))?;
        }
        if searches {
            let mut rows: Vec<_> = self.rows.values().collect();
            rows.sort_unstable();
            rows.into_iter().try_for_each(|pair| reader.initial(pair))?;
        }
        Ok(reader.finish()?)
    }

    /// Takes over what a part has left.
    ///
    /// # Errors
    /// When it has left a value that cannot be written.
    pub fn take_over(&mut self, part: &History, cells: &[Cell]) -> Result<(), Trouble> {
        let changed = |&(object, cell): &(ObjectId, &Cell)| *cell != Cell::Value(part.initial(object));
        part.objects().zip(cells).filter(changed).try_for_each(|(object, cell)| self.put(part, object, cell))
    }

    fn put(&mut self, history: &History, object: ObjectId, cell: &Cell) -> Result<(), Trouble> {
        let writer = &mut self.writer;
        writer.object(history.names(), object).map_err(beyond)?;
        let key = writer.take();
        let is_row = history.object(object).table.is_some();
        let values = if is_row { &mut self.rows } else { &mut self.keys };
        if let Some(old) = values.remove(&*key) {
            self.bytes -= key.len() + old.len();
        }
        if cell.is_absent() {
            return Ok(());
        }
        writer.raw("[");
        writer.object(history.names(), object).map_err(beyond)?;
        writer.raw(",");
        write_cell(writer, history, cell).map_err(beyond)?;
        writer.raw("]");
        let pair = writer.take();
        self.bytes += key.len() + pair.len();
        values.insert(key.into(), pair.into());
        Ok(())
    }
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
