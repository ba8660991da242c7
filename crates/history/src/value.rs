//! Values and their interner.

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::ids::{NameId, ValueId};

/// A value, as seen through a [`Values`] table.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Absent: SQL's missing row, a key that does not exist, a NULL column.
    Null,
    /// Not observed: a read whose result the client never learned.
    Unknown,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A floating-point number; equal when the bits are.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// A list.
    List(&'a [ValueId]),
    /// A row: columns with their values, sorted by column id, each column once.
    Row(&'a [(NameId, ValueId)]),
}

/// The table of interned values.
///
/// # Design
/// A [`ValueId`] with its highest bit set *is* the integer in the other 31 bits; every other id is
/// an index into 16-byte slots, whose texts, lists and rows lie in three arenas.
///
/// # Invariants
/// Equal values have equal ids: integers of 31 bits are always inline, all others are looked up
/// before they are added.
#[derive(Clone, Debug)]
pub struct Values {
    slots: Vec<Slot>,
    text: Vec<u8>,
    lists: Vec<ValueId>,
    rows: Vec<(NameId, ValueId)>,
    names: Vec<Box<str>>,
    /// Only while building; empty in a finished history.
    index: HashTable<u32>,
    name_index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Whether a value found no room: the builder refuses the history.
    full: bool,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Null,
    Unknown,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(u64),
    Text(u32, u32),
    List(u32, u32),
    Row(u32, u32),
}

const INLINE: u32 = 1 << 31;

impl ValueId {
    /// Absent.
    pub const NULL: ValueId = ValueId(0);
    /// Not observed.
    pub const UNKNOWN: ValueId = ValueId(1);
    /// False.
    pub const FALSE: ValueId = ValueId(2);
    /// True.
    pub const TRUE: ValueId = ValueId(3);

    /// The integer, if it is one of the small ones that live in their id.
    #[inline]
    #[must_use]
    pub fn small_int(self) -> Option<u32> {
        (self.0 & INLINE != 0).then_some(self.0 & !INLINE)
    }
}

impl Default for Values {
    fn default() -> Self {
        Self {
            slots: vec![Slot::Null, Slot::Unknown, Slot::Bool(false), Slot::Bool(true)],
            text: Vec::new(),
            lists: Vec::new(),
            rows: Vec::new(),
            names: Vec::new(),
            index: HashTable::new(),
            name_index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            full: false,
        }
    }
}

impl Values {
    /// What `id` stands for.
    #[inline]
    #[must_use]
    pub fn get(&self, id: ValueId) -> Value<'_> {
        match id.small_int() {
            Some(int) => Value::Int(i64::from(int)),
            None => self.view(self.slots[id.index()]),
        }
    }

    #[inline]
    fn view(&self, slot: Slot) -> Value<'_> {
        match slot {
            Slot::Null => Value::Null,
            Slot::Unknown => Value::Unknown,
            Slot::Bool(b) => Value::Bool(b),
            Slot::Int(i) => Value::Int(i),
            Slot::UInt(u) => Value::UInt(u),
            Slot::Float(bits) => Value::Float(f64::from_bits(bits)),
            Slot::Text(start, len) => Value::Text(self.text_at(start, len)),
            Slot::List(start, len) => Value::List(&self.lists[span(start, len)]),
            Slot::Row(start, len) => Value::Row(&self.rows[span(start, len)]),
        }
    }

    fn text_at(&self, start: u32, len: u32) -> &str {
        std::str::from_utf8(&self.text[span(start, len)]).expect("texts are interned whole")
    }

    /// The name of a column.
    #[must_use]
    pub fn name(&self, id: NameId) -> &str {
        &self.names[id.index()]
    }

    /// How many column names there are.
    #[must_use]
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// Whether `id` stands for something here.
    #[must_use]
    pub fn contains(&self, id: ValueId) -> bool {
        id.small_int().is_some() || id.index() < self.slots.len()
    }

    /// How many values are kept in slots (small integers are not).
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Never: the four fixed values are always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A boolean.
    #[must_use]
    pub fn bool(&self, value: bool) -> ValueId {
        if value { ValueId::TRUE } else { ValueId::FALSE }
    }

    /// An integer.
    pub fn int(&mut self, value: i64) -> ValueId {
        match u32::try_from(value) {
            Ok(small) if small < INLINE => ValueId(small | INLINE),
            _ => self.intern(Value::Int(value)),
        }
    }

    /// An unsigned integer.
    pub fn uint(&mut self, value: u64) -> ValueId {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            Err(_) => self.intern(Value::UInt(value)),
        }
    }

    /// A floating-point number.
    pub fn float(&mut self, value: f64) -> ValueId {
        self.intern(Value::Float(value))
    }

    /// A text.
    pub fn text(&mut self, value: &str) -> ValueId {
        self.intern(Value::Text(value))
    }

    /// A list of interned values.
    pub fn list(&mut self, items: &[ValueId]) -> ValueId {
        self.intern(Value::List(items))
    }

    /// A row of interned values. Columns may come in any order; of a column named twice the last
    /// counts.
    pub fn row(&mut self, columns: &[(NameId, ValueId)]) -> ValueId {
        if columns.is_sorted_by(|a, b| a.0 < b.0) {
            return self.intern(Value::Row(columns));
        }
        let mut sorted = columns.to_vec();
        sorted.reverse();
        sorted.sort_by_key(|&(name, _)| name);
        sorted.dedup_by_key(|&mut (name, _)| name);
        self.intern(Value::Row(&sorted))
    }

    /// The id of a column's name.
    pub fn intern_name(&mut self, name: &str) -> NameId {
        let hash = self.hasher.hash_one(name);
        if let Some(&found) = self.name_index.find(hash, |&i| &*self.names[i as usize] == name) {
            return NameId(found);
        }
        let id = NameId::at(self.names.len());
        self.names.push(name.into());
        let (names, hasher) = (&self.names, &self.hasher);
        self.name_index.insert_unique(hash, id.0, |&i| hasher.hash_one(&*names[i as usize]));
        id
    }

    /// The id of a column's name, if it occurs anywhere.
    #[must_use]
    pub fn find_name(&self, name: &str) -> Option<NameId> {
        self.names.iter().position(|n| &**n == name).map(NameId::at)
    }

    fn intern(&mut self, value: Value<'_>) -> ValueId {
        let hash = hash_value(&self.hasher, value);
        if let Some(&found) = self.index.find(hash, |&i| same(self.view(self.slots[i as usize]), value)) {
            return ValueId(found);
        }
        let Some(slot) = self.store(value).filter(|_| self.slots.len() < INLINE as usize) else {
            self.full = true;
            return ValueId::NULL;
        };
        let id = ValueId::at(self.slots.len());
        self.slots.push(slot);
        let mut index = std::mem::take(&mut self.index);
        index.insert_unique(hash, id.0, |&i| hash_value(&self.hasher, self.view(self.slots[i as usize])));
        self.index = index;
        id
    }

    /// A slot for the value; `None` when its arena is full.
    fn store(&mut self, value: Value<'_>) -> Option<Slot> {
        Some(match value {
            Value::Null => Slot::Null,
            Value::Unknown => Slot::Unknown,
            Value::Bool(b) => Slot::Bool(b),
            Value::Int(i) => Slot::Int(i),
            Value::UInt(u) => Slot::UInt(u),
            Value::Float(f) => Slot::Float(f.to_bits()),
            Value::Text(text) => {
                let (start, len) = extent(self.text.len(), text.len())?;
                self.text.extend_from_slice(text.as_bytes());
                Slot::Text(start, len)
            }
            Value::List(items) => {
                let (start, len) = extent(self.lists.len(), items.len())?;
                self.lists.extend_from_slice(items);
                Slot::List(start, len)
            }
            Value::Row(columns) => {
                let (start, len) = extent(self.rows.len(), columns.len())?;
                self.rows.extend_from_slice(columns);
                Slot::Row(start, len)
            }
        })
    }

    /// Whether something found no room: texts, lists and rows hold at most 2^32 bytes or elements
    /// each.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// The column `name` of the row `id`, if `id` is a row that has it.
    #[inline]
    #[must_use]
    pub fn column(&self, id: ValueId, name: NameId) -> Option<ValueId> {
        match self.get(id) {
            Value::Row(columns) => {
                columns.binary_search_by_key(&name, |&(n, _)| n).ok().map(|found| columns[found].1)
            }
            _ => None,
        }
    }

    pub(crate) fn finish(&mut self) {
        self.index = HashTable::new();
        self.name_index = HashTable::new();
        self.slots.shrink_to_fit();
        self.text.shrink_to_fit();
        self.lists.shrink_to_fit();
        self.rows.shrink_to_fit();
    }

    /// The same values with the same ids, ready to intern more.
    pub(crate) fn reopened(&self) -> Self {
        let mut values = self.clone();
        for name in 0..self.names.len() as u32 {
            let hash = self.hasher.hash_one(&*self.names[name as usize]);
            values.name_index.insert_unique(hash, name, |&i| self.hasher.hash_one(&*self.names[i as usize]));
        }
        let hash = |slot: u32| hash_value(&self.hasher, self.view(self.slots[slot as usize]));
        for slot in 4..self.slots.len() as u32 {
            values.index.insert_unique(hash(slot), slot, |&i| hash(i));
        }
        values
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.text.capacity()
            + self.lists.capacity() * 4
            + self.rows.capacity() * 8
            + self.names.iter().map(|name| name.len() + 16).sum::<usize>()
    }
}

#[inline]
fn span(start: u32, len: u32) -> std::ops::Range<usize> {
    start as usize..start as usize + len as usize
}

/// Where the next `len` elements of an arena of `start` go, if there is room.
fn extent(start: usize, len: usize) -> Option<(u32, u32)> {
    let end = start.checked_add(len)?;
    u32::try_from(end).ok()?;
    Some((start as u32, len as u32))
}

fn same(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) | (Value::Unknown, Value::Unknown) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::UInt(a), Value::UInt(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::List(a), Value::List(b)) => a == b,
        (Value::Row(a), Value::Row(b)) => a == b,
        _ => false,
    }
}

fn hash_value(hasher: &DefaultHashBuilder, value: Value<'_>) -> u64 {
    let mut state = hasher.build_hasher();
    std::mem::discriminant(&value).hash(&mut state);
    match value {
        Value::Null | Value::Unknown => {}
        Value::Bool(b) => b.hash(&mut state),
        Value::Int(i) => i.hash(&mut state),
        Value::UInt(u) => u.hash(&mut state),
        Value::Float(f) => f.to_bits().hash(&mut state),
        Value::Text(text) => text.hash(&mut state),
        Value::List(items) => items.hash(&mut state),
        Value::Row(columns) => columns.hash(&mut state),
    }
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_ids() {
        let mut values = Values::default();
        for int in [0, 1, -1, 1 << 30, (1 << 31) - 1, 1 << 31, i64::MAX, i64::MIN] {
            let id = values.int(int);
            assert_eq!(values.int(int), id);
            assert!(matches!(values.get(id), Value::Int(i) if i == int), "{int}");
        }
        assert_eq!(values.uint(7), values.int(7));
        assert_ne!(values.float(7.0), values.int(7));
        let (a, b) = (values.text("a"), values.text("b"));
        assert_eq!((values.text("a"), a == b), (a, false));
        assert_eq!(values.list(&[a, b]), values.list(&[a, b]));
        assert_ne!(values.list(&[a, b]), values.list(&[b, a]));
        let (x, y) = (values.intern_name("x"), values.intern_name("y"));
        assert_eq!(values.row(&[(y, b), (x, a)]), values.row(&[(x, a), (y, b)]));
        assert_eq!(
            values.row(&[(x, b), (x, a)]),
            values.row(&[(x, a)]),
            "the last of two equal columns counts"
        );
    }

    #[test]
    fn arenas_end_at_32_bits() {
        assert_eq!(extent(0, u32::MAX as usize), Some((0, u32::MAX)));
        assert_eq!(extent(1, u32::MAX as usize), None);
        assert_eq!(extent(usize::MAX, 1), None);
    }

    #[test]
    fn slots_stay_small() {
        assert_eq!(size_of::<Slot>(), 16);
    }
}
