//! What conditions are asked of, and what is computed from the rows that satisfy one.

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use crate::value::Value;

/// A row whose columns have names.
pub trait Row {
    /// The value of the column, or `None` if the row has no such column.
    fn column(&self, name: &str) -> Option<Cow<'_, Value>>;
}

impl<K: Borrow<str> + Eq + Hash, S: BuildHasher> Row for HashMap<K, Value, S> {
    fn column(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.get(name).map(Cow::Borrowed)
    }
}

/// What one output is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SummaryKind {
    /// `COUNT(*)`.
    Rows,
    /// `COUNT` of a column.
    Count,
    /// `SUM`.
    Sum,
    /// `MIN`.
    Min,
    /// `MAX`.
    Max,
}
