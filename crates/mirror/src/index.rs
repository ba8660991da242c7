//! The rows of a table by what versions make of one column.
//!
//! # Problem
//! A search tells of every row that it left out, but only a row with a version that matches is
//! worth a look. A look at each row would make every search as slow as the table is large.
//!
//! # Algorithm
//! The values that versions have in the column that the condition compares stand in their order,
//! each with its row. A search looks at those in its range. A version that is not a whole number
//! there may match whatever the range is; one that does not say what the column is matches no
//! condition that compares it for certain.
//!
//! # Invariants
//! Every version that is remembered is there. Versions that were forgotten may be there too: they
//! cost a look. When there are twice as many entries as the last time, the index is made again of
//! what is remembered.

use std::collections::BTreeSet;

use margay_history::{ObjectId, Value, ValueId, Values};

#[derive(Default, Debug)]
pub(crate) struct Index {
    ints: BTreeSet<(i64, ObjectId)>,
    others: BTreeSet<ObjectId>,
    /// How many entries there were when it was made.
    made: usize,
}

impl Index {
    /// An index of these rows with what versions make of the column.
    pub fn of(all: impl Iterator<Item = (ObjectId, ValueId)>, values: &Values) -> Self {
        let mut index = Self::default();
        all.for_each(|(object, value)| index.insert(object, value, values));
        index.made = index.len();
        index
    }

    /// A version of a row has this value in the column.
    pub fn insert(&mut self, object: ObjectId, value: ValueId, values: &Values) {
        match values.get(value) {
            Value::Int(int) => _ = self.ints.insert((int, object)),
            Value::Null | Value::Unknown => {}
            _ => _ = self.others.insert(object),
        }
    }

    /// Whether it is to be made again.
    pub fn is_stale(&self) -> bool {
        self.len() > 2 * self.made + 64
    }

    /// The rows of which a version may match a condition with this range; some of them twice.
    pub fn within(&self, (low, high): (i64, i64)) -> impl Iterator<Item = ObjectId> {
        let range = (low <= high).then(|| self.ints.range((low, ObjectId(0))..=(high, ObjectId(u32::MAX))));
        range.into_iter().flatten().map(|(_, object)| *object).chain(self.others.iter().copied())
    }

    /// The rows that are there.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + use<> {
        let all: BTreeSet<ObjectId> =
            self.ints.iter().map(|(_, object)| *object).chain(self.others.iter().copied()).collect();
        all.into_iter()
    }

    pub fn len(&self) -> usize {
        self.ints.len() + self.others.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_match_is_looked_at() {
        let mut values = Values::default();
        let mut all: Vec<(ObjectId, ValueId)> =
            (0..100).map(|n| (ObjectId(n), values.int(i64::from(n) * 10))).collect();
        all.extend([
            (ObjectId(3), values.int(205)),
            (ObjectId(7), values.text("200")),
            (ObjectId(8), ValueId::NULL),
        ]);
        let mut index = Index::of(all.into_iter(), &values);
        let within = |index: &Index, range| index.within(range).map(|object| object.0).collect::<Vec<_>>();
        assert_eq!(within(&index, (195, 210)), [20, 3, 21, 7]);
        assert_eq!(within(&index, (-5, -1)), [7]);
        assert_eq!(within(&index, (5, 1)), [7], "a range of nothing");
        assert_eq!(within(&index, (i64::MIN, i64::MAX)).len(), 102);
        assert!(!index.is_stale());
        (0..200).for_each(|n| index.insert(ObjectId(1), values.int(10_000 + n), &values));
        assert!(index.is_stale());
    }
}
