//! A versioned row store in memory.
//!
//! # Invariants
//! - The versions of a row are in the order in which they were committed; pending versions stand behind
//!   them and carry their transactions' marks.
//! - A row's key is its primary key in the form that equality compares ([`Value::group_key`]), or a running
//!   number where the table has none.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::dialect::Dialect;
use crate::schema::Schema;
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
pub(crate) struct View {
    pub at: u64,
    pub own: u64,
}

impl View {
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
    rows: Vec<Vec<Version>>,
    /// The rows in the order of their keys, for scans.
    order: BTreeMap<Key, u32>,
    /// The rows by key, for lookups.
    points: HashMap<Key, u32>,
    /// For each UNIQUE constraint, the rows that ever had the values.
    uniques: Vec<HashMap<Vec<Value>, Vec<Key>>>,
    /// The last number given to a row without one.
    pub last_number: i64,
    dialect: Dialect,
}

impl Table {
    pub fn new(schema: Schema, dialect: Dialect) -> Self {
        let uniques = vec![HashMap::new(); schema.uniques.len()];
        let (rows, order, points) = (Vec::new(), BTreeMap::new(), HashMap::new());
        Table { schema: Arc::new(schema), rows, order, points, uniques, last_number: 0, dialect }
    }

    /// The key of a row, if the table has a primary key.
    pub fn key_of(&self, row: &[Value]) -> Key {
        self.schema.key.iter().map(|&column| row[column].group_key(self.dialect)).collect()
    }

    /// The version of a key that is seen.
    #[inline]
    pub fn get(&self, key: &[Value], view: View) -> Option<(&Key, &Version)> {
        let (key, row) = self.points.get_key_value(key)?;
        view.pick(&self.rows[*row as usize]).map(|version| (key, version))
    }

    /// The rows that are seen whose keys begin with `prefix`, in the order of their keys.
    pub fn scan<'a>(
        &'a self,
        prefix: &'a [Value],
        view: View,
    ) -> impl Iterator<Item = (&'a Key, u64, &'a Record)> + 'a {
        self.order
            .range::<[Value], _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .filter_map(move |(key, row)| {
                let version = view.pick(&self.rows[*row as usize])?;
                version.row.as_ref().map(|row| (key, version.stamp, row))
            })
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
        view: View,
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
            Entry::Vacant(free) => {
                let row = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
                self.rows.push(vec![version]);
                self.order.insert(key.clone(), row);
                return *free.insert(row);
            }
        };
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
