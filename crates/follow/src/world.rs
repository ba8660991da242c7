//! The state of the database, a number that stands for it, and a log of what changed.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use margay_history::{History, ObjectId, Value, ValueId};
use margay_sql::Value as SqlValue;
use margay_verdict::cell::Field;
use margay_verdict::{Cell, Predicates};

/// What transactions made of objects.
pub(crate) type Made = Vec<(ObjectId, Cell)>;

/// What was there before a step. Of a million steps most replace plain values, which take a
/// quarter of the room.
pub(crate) enum Replaced {
    Values(Box<[(ObjectId, ValueId)]>),
    Cells(Made),
}

impl Replaced {
    /// Nothing.
    pub const NONE: Replaced = Replaced::Cells(Vec::new());

    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let (values, cells) = match self {
            Replaced::Values(values) => (&values[..], &[][..]),
            Replaced::Cells(cells) => (&[][..], &cells[..]),
        };
        values.iter().map(|value| value.0).chain(cells.iter().map(|cell| cell.0))
    }

    /// What an object held.
    pub fn get(&self, object: ObjectId) -> Option<Cow<'_, Cell>> {
        match self {
            Replaced::Values(values) => {
                values.iter().find(|value| value.0 == object).map(|value| Cow::Owned(Cell::Value(value.1)))
            }
            Replaced::Cells(cells) => {
                cells.iter().find(|cell| cell.0 == object).map(|cell| Cow::Borrowed(&cell.1))
            }
        }
    }

    /// To be put in place again.
    pub fn into_made(self) -> Made {
        match self {
            Replaced::Values(values) => {
                values.iter().map(|&(object, value)| (object, Cell::Value(value))).collect()
            }
            Replaced::Cells(cells) => cells,
        }
    }
}

impl From<Made> for Replaced {
    fn from(cells: Made) -> Self {
        let plain = |(object, cell): &(ObjectId, Cell)| match cell {
            Cell::Value(value) => Some((*object, *value)),
            _ => None,
        };
        match cells.iter().map(plain).collect() {
            Some(values) => Replaced::Values(values),
            None => Replaced::Cells(cells),
        }
    }
}

/// The state at the current point of the search.
pub(crate) struct World<'p> {
    pub predicates: &'p Predicates<'p>,
    cells: Vec<Cell>,
    /// The same for equal states.
    pub mark: u64,
    /// Every object that changed, in order; what is undone changes again.
    pub log: Vec<ObjectId>,
}

impl<'p> World<'p> {
    /// The initial state.
    pub fn initial(predicates: &'p Predicates<'p>) -> Self {
        let history = predicates.history();
        let mut cells = vec![Cell::ABSENT; history.object_count()];
        history.initial_values().iter().for_each(|&(o, value)| cells[o.index()] = Cell::Value(value));
        Self { predicates, cells, mark: 0, log: Vec::new() }
    }

    pub fn history(&self) -> &'p History {
        self.predicates.history()
    }

    /// What an object holds.
    pub fn cell(&self, object: ObjectId) -> &Cell {
        &self.cells[object.index()]
    }

    /// Puts new values in place; answers the old ones.
    pub fn install(&mut self, made: Made) -> Made {
        made.into_iter().map(|(object, cell)| (object, self.put(object, cell))).collect()
    }

    fn put(&mut self, object: ObjectId, cell: Cell) -> Cell {
        let old = &mut self.cells[object.index()];
        if *old == cell {
            return cell;
        }
        let history = self.predicates.history();
        self.mark ^= cell_mark(history, object, &cell) ^ cell_mark(history, object, old);
        self.log.push(object);
        std::mem::replace(old, cell)
    }
}

/// A number for one thing.
pub(crate) fn mark(what: &impl Hash) -> u64 {
    // Its keys are fixed, so a search goes the same way every time.
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// A number for an object that holds this. Two ways to build one row or one list have the same.
pub(crate) fn cell_mark(history: &History, object: ObjectId, cell: &Cell) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.hash(&mut hasher);
    match cell {
        Cell::Value(id) => hash_value(history, *id, &mut hasher),
        Cell::List(items) => items.hash(&mut hasher),
        Cell::Row(columns) => {
            for (name, field) in columns.iter().filter(|(_, field)| !is_null(field)) {
                name.hash(&mut hasher);
                match field {
                    Field::Value(id) => hash_value(history, *id, &mut hasher),
                    Field::Made(value) => hash_made(value, &mut hasher),
                }
            }
        }
        Cell::Made(value) => hash_made(value, &mut hasher),
    }
    hasher.finish()
}

fn is_null(field: &Field) -> bool {
    match field {
        Field::Value(id) => *id == ValueId::NULL,
        Field::Made(value) => value.is_null(),
    }
}

fn hash_value(history: &History, id: ValueId, hasher: &mut DefaultHasher) {
    match history.value(id) {
        Value::Int(number) => number.hash(hasher),
        Value::List(items) => items.hash(hasher),
        Value::Row(columns) => {
            for &(name, value) in columns.iter().filter(|column| column.1 != ValueId::NULL) {
                name.hash(hasher);
                hash_value(history, value, hasher);
            }
        }
        _ => id.hash(hasher),
    }
}

fn hash_made(value: &SqlValue, hasher: &mut DefaultHasher) {
    match value {
        SqlValue::Int(number) => number.hash(hasher),
        other => format!("{other:?}").hash(hasher),
    }
}
