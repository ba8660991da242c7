//! A versioned row store in memory.
//!
//! # Invariants
//! - The versions of a row are in the order in which they were committed; pending versions stand
//!   behind them and carry their transactions' marks.
//! - A row's key is its primary key in the form that equality compares ([`Value::group_key`]), or a
//!   running number where the table has none.
//! - An index holds, for each value, at least the rows that have it in one of their versions.
//! - The journal names the committed versions in the order of their stamps, back to what was
//!   forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::dialect::Dialect;
use crate::reading::schema::Schema;
use crate::value::Value;

/// The key of a row.
pub type Key = Arc<[Value]>;

/// The values of a row, in the order of the table's columns.
pub type Record = Arc<[Value]>;

/// Pending versions carry this bit and their transaction's number.
pub(crate) const PENDING: u64 = 1 << 63;

/// One version of a row.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// When it was committed, or whose it is.
    pub stamp: u64,
    /// Its values, or `None` if the version is the row's absence.
    pub row: Option<Record>,
}

/// What a statement sees: what was committed up to a point, and its own transaction's writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatementView {
    pub at: u64,
    pub own: u64,
}

impl StatementView {
    /// The version that is seen.
    #[inline]
    pub fn pick(self, versions: &[Version]) -> Option<&Version> {
        versions.iter().rev().find(|version| version.stamp == self.own || version.stamp <= self.at)
    }
}

/// A table with its rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub schema: Arc<Schema>,
    /// The versions of each row, by the row's number.
    pub(crate) rows: Vec<Vec<Version>>,
    /// The key of each row, unless it was forgotten.
    pub(crate) keys: Vec<Option<Key>>,
    /// The rows in the order of their keys, for scans.
    pub(crate) order: BTreeMap<Key, u32>,
    /// The rows by key, for lookups.
    pub(crate) points: HashMap<Key, u32>,
    /// For each UNIQUE constraint, the rows that ever had the values.
    pub(crate) uniques: Vec<HashMap<Vec<Value>, Vec<Key>>>,
    /// Indexes on single columns, by column.
    pub(crate) indexes: Vec<(usize, Index)>,
    /// Rows that are seen as of another stamp than the rest, by their numbers.
    pub(crate) pins: HashMap<u32, u64>,
    /// The rows of committed versions with their stamps, oldest first, if it is kept.
    pub(crate) journal: Option<VecDeque<(u64, u32)>>,
    /// Numbers of rows that were forgotten.
    pub(crate) free: Vec<u32>,
    /// The last number given to a row without one.
    pub last_number: i64,
    pub(crate) dialect: Dialect,
}

/// Rows that are seen: their keys, stamps and values.
pub(crate) type Found<'a> = Box<dyn Iterator<Item = (&'a Key, u64, &'a Record)> + 'a>;

/// The rows that have each value in one of their versions.
type Index = BTreeMap<Value, Vec<u32>>;

impl Table {
    pub fn new(schema: Schema, dialect: Dialect) -> Self {
        let uniques = vec![HashMap::new(); schema.uniques.len()];
        Table {
            schema: Arc::new(schema),
            rows: Vec::new(),
            keys: Vec::new(),
            order: BTreeMap::new(),
            points: HashMap::new(),
            uniques,
            indexes: Vec::new(),
            pins: HashMap::new(),
            journal: None,
            free: Vec::new(),
            last_number: 0,
            dialect,
        }
    }

    /// The key of a row, if the table has a primary key.
    pub fn key_of(&self, row: &[Value]) -> Key {
        self.schema.key.iter().map(|&column| row[column].group_key(self.dialect)).collect()
    }

    /// The version of a key that is seen.
    #[inline]
    pub fn get(&self, key: &[Value], view: StatementView) -> Option<(&Key, &Version)> {
        let (key, row) = self.points.get_key_value(key)?;
        self.seen(*row, view).map(|version| (key, version))
    }

    /// The version of a row that is seen.
    #[inline]
    fn seen(&self, row: u32, view: StatementView) -> Option<&Version> {
        let at = if self.pins.is_empty() { None } else { self.pins.get(&row).copied() };
        StatementView { at: at.unwrap_or(view.at), ..view }.pick(&self.rows[row as usize])
    }

    /// The rows that are seen whose keys begin with `prefix`, in the order of their keys.
    pub fn scan<'a>(
        &'a self,
        prefix: &'a [Value],
        view: StatementView,
    ) -> impl Iterator<Item = (&'a Key, u64, &'a Record)> + 'a {
        self.order
            .range::<[Value], _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .filter_map(move |(key, row)| {
                let version = self.seen(*row, view)?;
                version.row.as_ref().map(|row| (key, version.stamp, row))
            })
    }

    /// The rows that are seen whose keys begin with `prefix` and go on with an integer from `low`
    /// to `high`.
    pub fn scan_range<'a>(
        &'a self,
        prefix: &'a [Value],
        (low, high): (i64, i64),
        view: StatementView,
    ) -> impl Iterator<Item = (&'a Key, u64, &'a Record)> + 'a {
        let first: Vec<Value> = prefix.iter().cloned().chain([Value::Int(low)]).collect();
        let inside = move |key: &Key| {
            key.starts_with(prefix) && matches!(key.get(prefix.len()), Some(Value::Int(i)) if *i <= high)
        };
        self.order
            .range::<[Value], _>((Bound::Included(first.as_slice()), Bound::Unbounded))
            .take_while(move |(key, _)| inside(key))
            .filter_map(move |(key, row)| {
                let version = self.seen(*row, view)?;
                version.row.as_ref().map(|row| (key, version.stamp, row))
            })
    }

    /// The rows that are seen among those that have had this value in this column; `None` if it is
    /// not indexed.
    pub fn indexed<'a>(&'a self, column: usize, value: &Value, view: StatementView) -> Option<Found<'a>> {
        let (_, index) = self.indexes.iter().find(|(known, _)| *known == column)?;
        let rows = index.get(value).map_or(&[][..], Vec::as_slice);
        Some(self.present(rows.iter().copied(), view))
    }

    /// Whether a column is indexed.
    pub fn has_index(&self, column: usize) -> bool {
        self.indexes.iter().any(|(known, _)| *known == column)
    }

    /// How many rows have had this value in this column, if it is indexed.
    pub fn index_size(&self, column: usize, value: &Value) -> Option<usize> {
        let (_, index) = self.indexes.iter().find(|(known, _)| *known == column)?;
        Some(index.get(value).map_or(0, Vec::len))
    }

    /// The rows that are seen among those that have had an integer from `low` to `high` in this
    /// column.
    pub fn indexed_range(
        &self,
        column: usize,
        low: i64,
        high: i64,
        view: StatementView,
    ) -> Option<Found<'_>> {
        let (_, index) = self.indexes.iter().find(|(known, _)| *known == column)?;
        if low > high {
            return Some(Box::new(std::iter::empty()));
        }
        let mut rows: Vec<u32> =
            index.range(Value::Int(low)..=Value::Int(high)).flat_map(|(_, rows)| rows).copied().collect();
        rows.sort_unstable();
        rows.dedup();
        Some(self.present(rows.into_iter(), view))
    }

    fn present<'a>(&'a self, rows: impl Iterator<Item = u32> + 'a, view: StatementView) -> Found<'a> {
        Box::new(rows.filter_map(move |row| {
            let version = self.seen(row, view)?;
            let key = self.keys[row as usize].as_ref()?;
            version.row.as_ref().map(|row| (key, version.stamp, row))
        }))
    }

    /// All versions of one row.
    pub fn versions_of(&self, key: &[Value]) -> &[Version] {
        self.points.get(key).map_or(&[], |row| self.rows[*row as usize].as_slice())
    }

    /// All versions of all rows.
    pub fn versions(&self) -> impl Iterator<Item = (&Key, &[Version])> {
        self.order.iter().map(|(key, row)| (key, self.rows[*row as usize].as_slice()))
    }

    /// The rows that are seen and have these values under a UNIQUE constraint.
    pub fn unique_rows<'a>(
        &'a self,
        constraint: usize,
        values: &[Value],
        view: StatementView,
    ) -> impl Iterator<Item = (&'a Key, &'a Record)> + 'a {
        let wanted = values.to_vec();
        let candidates = self.uniques[constraint].get(values).map_or(&[][..], Vec::as_slice);
        candidates.iter().filter_map(move |key| {
            let row = self.get(key, view)?.1.row.as_ref()?;
            (self.unique_values(constraint, row)? == wanted).then_some((key, row))
        })
    }

    /// The values of a UNIQUE constraint's columns, or `None` if one is NULL.
    pub fn unique_values(&self, constraint: usize, row: &[Value]) -> Option<Vec<Value>> {
        let columns = &self.schema.uniques[constraint];
        let values: Vec<Value> = columns.iter().map(|&column| row[column].group_key(self.dialect)).collect();
        (!values.iter().any(Value::is_null)).then_some(values)
    }

    /// Writes a pending version; gives the row's number.
    pub fn write(&mut self, key: &Key, row: Option<Record>, own: u64) -> u32 {
        if let Some(row) = &row {
            for constraint in 0..self.uniques.len() {
                let Some(values) = self.unique_values(constraint, row) else { continue };
                let keys = self.uniques[constraint].entry(values).or_default();
                if !keys.contains(key) {
                    keys.push(key.clone());
                }
            }
        }
        let version = Version { stamp: own, row };
        let row = match self.points.entry(key.clone()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                let row = self.free.pop().unwrap_or_else(|| {
                    self.rows.push(Vec::new());
                    self.keys.push(None);
                    u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX)
                });
                self.keys[row as usize] = Some(key.clone());
                self.order.insert(key.clone(), row);
                *place.insert(row)
            }
        };
        if let Some(record) = &version.row {
            for (column, index) in &mut self.indexes {
                enter(index, record[*column].group_key(self.dialect), row);
            }
        }
        let versions = &mut self.rows[row as usize];
        match own_version(versions, own) {
            Some(at) => versions[at] = version,
            None => versions.push(version),
        }
        row
    }

    /// Makes a pending version a committed one, or drops it.
    pub fn settle(&mut self, row: u32, own: u64, stamp: Option<u64>) {
        // The table may have been dropped meanwhile.
        let Some(versions) = self.rows.get_mut(row as usize) else { return };
        let Some(at) = own_version(versions, own) else { return };
        let mut version = versions.remove(at);
        if let Some(stamp) = stamp {
            version.stamp = stamp;
            versions.insert(committed(versions), version);
            if let Some(journal) = &mut self.journal {
                journal.push_back((stamp, row));
            }
        } else if self.journal.is_some() {
            self.leave(row, vec![version]);
            if self.rows[row as usize].is_empty() {
                self.remove(row);
            }
        }
    }

    /// Adds a UNIQUE constraint.
    pub fn add_unique(&mut self, columns: Vec<usize>) {
        let schema = Arc::make_mut(&mut self.schema);
        schema.uniques.push(columns);
        self.uniques.push(HashMap::new());
        let constraint = self.uniques.len() - 1;
        let mut index: HashMap<Vec<Value>, Vec<Key>> = HashMap::new();
        for (key, versions) in self.versions() {
            for row in versions.iter().filter_map(|version| version.row.as_ref()) {
                let Some(values) = self.unique_values(constraint, row) else { continue };
                let keys = index.entry(values).or_default();
                if !keys.contains(key) {
                    keys.push(key.clone());
                }
            }
        }
        self.uniques[constraint] = index;
    }
}

/// Adds a row under a value, once.
fn enter(index: &mut Index, value: Value, row: u32) {
    let rows = index.entry(value).or_default();
    if !rows.contains(&row) {
        rows.push(row);
    }
}

/// The number of committed versions; the pending ones stand behind them.
fn committed(versions: &[Version]) -> usize {
    let pending = versions.iter().rev().take_while(|version| version.stamp & PENDING != 0).count();
    versions.len() - pending
}

/// Where a transaction's pending version stands. A row may have many versions, but few are pending.
fn own_version(versions: &[Version], own: u64) -> Option<usize> {
    let from = committed(versions);
    versions[from..].iter().position(|version| version.stamp == own).map(|at| from + at)
}
