//! An index over versions: a range predicate finds those that can match without visiting all.
//!
//! # Algorithm
//! For each indexed column the versions are sorted by its integer. A predicate's necessary ranges
//! select the column with the fewest versions inside; values that are not integers are always
//! looked at, NULL never.
//!
//! # Invariants
//! - Every version that matches is among the candidates of every predicate.
//!
//! # Cost
//! Insertion O(log n) per column; a query O(columns · log n) and the candidates.

use std::collections::BTreeMap;

use crate::reading::BoundPredicate;
use crate::value::Value;

/// An index over versions of the rows of one table.
#[derive(Clone, Debug)]
pub struct VersionIndex {
    columns: Vec<ColumnIndex>,
    all: Vec<u32>,
}

#[derive(Clone, Debug)]
struct ColumnIndex {
    column: usize,
    integers: BTreeMap<i64, Vec<u32>>,
    /// Versions whose value is neither an integer nor NULL.
    others: Vec<u32>,
}

impl VersionIndex {
    /// An empty index over these columns.
    pub fn new(columns: &[usize]) -> Self {
        let column = |&column: &usize| ColumnIndex { column, integers: BTreeMap::new(), others: Vec::new() };
        VersionIndex { columns: columns.iter().map(column).collect(), all: Vec::new() }
    }

    /// Adds a version under a number of the caller's.
    pub fn insert(&mut self, id: u32, row: &[Value]) {
        self.all.push(id);
        for index in &mut self.columns {
            match row.get(index.column) {
                Some(Value::Int(number)) => index.integers.entry(*number).or_default().push(id),
                Some(Value::Null) => {}
                _ => index.others.push(id),
            }
        }
    }

    /// The versions that can match: a superset of those that do, in no particular order.
    pub fn candidates(&self, predicate: &BoundPredicate) -> Vec<u32> {
        let ranges = self.columns.iter().filter_map(|index| Some((index, predicate.bounds(index.column)?)));
        let best = ranges.min_by_key(|(index, (low, high))| index.estimate(*low, *high));
        match best {
            Some((index, (low, high))) if low <= high => {
                let inside = index.integers.range(low..=high).flat_map(|(_, ids)| ids);
                inside.chain(&index.others).copied().collect()
            }
            Some((index, _)) => index.others.clone(),
            None => self.all.clone(),
        }
    }
}

impl ColumnIndex {
    /// How many values are inside, counted no further than needed to choose a column.
    fn estimate(&self, low: i64, high: i64) -> usize {
        if low > high { 0 } else { self.integers.range(low..=high).take(64).count() }
    }
}
