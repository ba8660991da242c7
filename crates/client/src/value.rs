//! Objects, their values, and what statements do to them.

use std::fmt;
use std::sync::Arc;

/// Which of the three kinds of objects an object is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Space {
    /// A key of the key-value store that holds one integer.
    Register,
    /// A key of the key-value store that holds a list of integers.
    List,
    /// A row of table `t`.
    Row,
}

/// An object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Obj {
    /// Its kind.
    pub space: Space,
    /// Its number within its kind.
    pub key: u32,
}

impl Obj {
    /// The object of this kind and number.
    #[must_use]
    pub fn new(space: Space, key: u32) -> Self {
        Self { space, key }
    }

    /// The object's value before a run: registers hold 0, lists do not exist, and every other row
    /// exists. The values of column `v` are below `domain`.
    #[must_use]
    pub fn initial(self, domain: i64) -> Value {
        match self.space {
            Space::Register => Value::Int(0),
            Space::List => Value::Absent,
            Space::Row if self.key % 2 == 1 => Value::Absent,
            Space::Row => Value::Row(Row { v: Some(i64::from(self.key) % domain.max(1)), w: Some(0) }),
        }
    }
}

/// A row's columns other than its key. `None` is SQL's NULL, or, in a partial write, a column that
/// is not written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Row {
    /// The column that conditions look at.
    pub v: Option<i64>,
    /// The column that makes versions distinguishable.
    pub w: Option<i64>,
}

/// The value of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// The object does not exist.
    Absent,
    /// A register's.
    Int(i64),
    /// A list's.
    List(Arc<[i64]>),
    /// A row's.
    Row(Row),
}

/// What a write does to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Sets a register.
    Put(i64),
    /// Appends to a list.
    Append(i64),
    /// Sets the given columns of a row, which it creates if need be.
    Merge(Row),
    /// Removes the object.
    Delete,
}

impl Change {
    /// What the change makes of `base`.
    #[must_use]
    pub fn apply(self, base: &Value) -> Value {
        match (self, base) {
            (Change::Put(int), _) => Value::Int(int),
            (Change::Append(item), Value::List(items)) => {
                Value::List(items.iter().copied().chain([item]).collect())
            }
            (Change::Append(item), _) => Value::List(Arc::from([item])),
            (Change::Merge(new), Value::Row(old)) => {
                Value::Row(Row { v: new.v.or(old.v), w: new.w.or(old.w) })
            }
            (Change::Merge(new), _) => Value::Row(new),
            (Change::Delete, _) => Value::Absent,
        }
    }

    /// Whether what it makes depends on what was there: such a write reads, too.
    #[must_use]
    pub fn depends_on_base(self) -> bool {
        match self {
            Change::Append(_) => true,
            Change::Merge(row) => row.v.is_none() || row.w.is_none(),
            Change::Put(_) | Change::Delete => false,
        }
    }
}

/// A condition on column `v` of table `t`: a range, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cond {
    /// The least value that matches.
    pub low: i64,
    /// The greatest value that matches.
    pub high: i64,
}

impl Cond {
    /// Whether a value is a row that matches.
    #[must_use]
    pub fn matches(self, value: &Value) -> bool {
        matches!(value, Value::Row(Row { v: Some(v), .. }) if (self.low..=self.high).contains(v))
    }
}

impl fmt::Display for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v >= {} AND v <= {}", self.low, self.high)
    }
}

/// What a client asks of the database, apart from beginning and ending transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// The value of an object.
    Read(Obj),
    /// A change of an object.
    Write(Obj, Change),
    /// The rows that match.
    Scan(Cond),
    /// Number and sum of `v` of the rows that match.
    Aggregate(Cond),
    /// A change of the rows that match: `v` set to a value, or the rows deleted.
    Update(Cond, Option<i64>),
}

impl Ask {
    /// Whether it was a delete that found nothing, given its answer.
    #[must_use]
    pub fn deleted_nothing(self, rows: &[(Obj, Value)]) -> bool {
        matches!((self, rows), (Ask::Write(_, Change::Delete), [(_, Value::Absent)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_fold_over_values() {
        let list = Change::Append(2).apply(&Change::Append(1).apply(&Value::Absent));
        assert_eq!(list, Value::List(Arc::from([1, 2])));
        let row = Value::Row(Row { v: Some(1), w: Some(9) });
        let part = Change::Merge(Row { v: Some(5), w: None });
        assert_eq!(part.apply(&row), Value::Row(Row { v: Some(5), w: Some(9) }));
        assert_eq!(part.apply(&Value::Absent), Value::Row(Row { v: Some(5), w: None }));
        assert!(part.depends_on_base() && !Change::Put(1).depends_on_base());
        assert_eq!(Change::Delete.apply(&row), Value::Absent);
    }

    #[test]
    fn conditions_are_ranges() {
        let cond = Cond { low: 3, high: 7 };
        assert_eq!(cond.to_string(), "v >= 3 AND v <= 7");
        let row = |v| Value::Row(Row { v, w: None });
        assert!(cond.matches(&row(Some(3))) && cond.matches(&row(Some(7))));
        assert!(!cond.matches(&row(Some(8))) && !cond.matches(&row(None)) && !cond.matches(&Value::Absent));
    }
}
