//! Rows of a database as objects of a history.
//!
//! The drivers keep registers, lists and rows in three tables of their own; any other table of the
//! history goes by its own name.

use margay_history::{History, Object, ObjectId, Value, ValueId};

use crate::log::{Change, Datum, Row};

/// The objects of a history by what a log calls them.
pub(crate) struct Names<'h> {
    history: &'h History,
    objects: std::collections::HashMap<(Option<&'h str>, Vec<Datum>), ObjectId>,
}

impl<'h> Names<'h> {
    pub fn new(history: &'h History) -> Self {
        let name = |object: ObjectId| {
            let Object { table, key } = history.object(object);
            let table = table.map(|table| history.table(table).name.as_str());
            Some(((table, key_parts(history, key)?), object))
        };
        Self { history, objects: history.objects().filter_map(name).collect() }
    }

    /// The object that a change is about; none if the history does not have it.
    pub fn object(&self, change: &Change) -> Option<ObjectId> {
        let key = change.key.clone();
        let name = match (change.table.as_str(), key.as_slice()) {
            ("margay_registers", _) => (None, key),
            ("margay_lists", [k]) => (None, vec![Datum::Text(format!("l{k}"))]),
            ("margay_rows", _) => (Some("t"), key),
            (table, _) => (Some(table), key),
        };
        self.objects.get(&name).copied()
    }

    /// Whether a row of the log may be what a transaction made of an object: the last of its writes
    /// is in it.
    pub fn shows(&self, written: ValueId, appended: bool, row: Option<&Row>) -> bool {
        let Some(row) = row else { return written == ValueId::NULL };
        let column = |name: &str| row.iter().find(|c| c.0 == name).map(|c| &c.1);
        match self.history.value(written) {
            Value::Null => false,
            Value::Row(columns) => columns.iter().all(|&(name, value)| {
                column(self.history.name(name)).is_some_and(|datum| self.is(value, datum))
            }),
            _ if appended => match column("v") {
                Some(Datum::Text(text)) => {
                    text.rsplit(',').next() == Some(self.history.show_value(written).as_str())
                }
                _ => false,
            },
            _ => row.iter().any(|(_, datum)| self.is(written, datum)),
        }
    }

    fn is(&self, value: ValueId, datum: &Datum) -> bool {
        *datum == Datum::Unchanged || scalar(self.history, value).is_some_and(|known| known == *datum)
    }
}

fn key_parts(history: &History, key: ValueId) -> Option<Vec<Datum>> {
    match history.value(key) {
        Value::List(parts) => parts.iter().map(|&part| scalar(history, part)).collect(),
        _ => Some(vec![scalar(history, key)?]),
    }
}

/// A value that a log can hold in one column.
pub(crate) fn scalar(history: &History, value: ValueId) -> Option<Datum> {
    Some(match history.value(value) {
        Value::Null => Datum::Null,
        Value::Int(int) => Datum::Int(int),
        Value::Text(text) => Datum::Text(text.to_owned()),
        Value::Unknown | Value::List(_) | Value::Row(_) => return None,
        _ => Datum::Text(history.show_value(value)),
    })
}
