//! The rows of a table, by their keys.
//!
//! # Problem
//! A search tells of every row that it left out. Most conditions fix the first columns of the key,
//! so most rows are out of the question; a look at each of them would make every search as slow as
//! the table is large.
//!
//! # Algorithm
//! Rows whose key is of whole numbers stand in the order of their keys; a search looks at the part
//! that its condition's bounds on the first key columns leave. The other rows are looked at always.

use std::collections::BTreeMap;

use margay_history::{ObjectId, Values};
use margay_mechanisms::Searches;

#[derive(Default, Debug)]
pub(crate) struct Rows {
    /// Rows that are not in order yet.
    new: Vec<ObjectId>,
    ordered: BTreeMap<Vec<i64>, ObjectId>,
    others: Vec<ObjectId>,
}

impl Rows {
    pub fn push(&mut self, object: ObjectId) {
        self.new.push(object);
    }

    /// Puts new rows in order.
    pub fn sort(&mut self, searches: &Searches, values: &Values) {
        for object in self.new.drain(..) {
            match searches.int_key(object, values) {
                Some(key) => _ = self.ordered.insert(key, object),
                None => self.others.push(object),
            }
        }
    }

    /// The rows that may be in these ranges of the first key columns.
    pub fn within<'a>(&'a self, span: &'a [(i64, i64)]) -> impl Iterator<Item = ObjectId> + 'a {
        let fixed = span.iter().take_while(|(low, high)| low == high).count();
        let prefix: Vec<i64> = span[..fixed].iter().map(|(low, _)| *low).collect();
        let next = span.get(fixed).copied();
        let start: Vec<i64> = prefix.iter().copied().chain(next.map(|(low, _)| low)).collect();
        let inside = move |key: &Vec<i64>| {
            key.starts_with(&prefix)
                && next.is_none_or(|(_, high)| key.get(fixed).is_none_or(|column| *column <= high))
        };
        let part = self.ordered.range(start..).take_while(move |(key, _)| inside(key));
        part.map(|(_, object)| *object).chain(self.others.iter().copied()).chain(self.new.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use margay_history::TableId;

    use super::*;

    #[test]
    fn only_what_the_bounds_leave_is_looked_at() {
        let (mut values, mut searches, mut rows) = (Values::default(), Searches::default(), Rows::default());
        let table: TableId = searches.table(vec!["a".to_owned(), "b".to_owned()]);
        for number in 0..100_u32 {
            let key = [values.int(i64::from(number / 10)), values.int(i64::from(number % 10))];
            searches.object(ObjectId(number), table, values.list(&key));
            rows.push(ObjectId(number));
        }
        searches.object(ObjectId(100), table, values.text("odd"));
        rows.push(ObjectId(100));
        rows.sort(&searches, &values);
        let within = |span: &[(i64, i64)]| {
            let mut all: Vec<u32> = rows.within(span).map(|object| object.0).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(within(&[]).len(), 101);
        assert_eq!(within(&[(3, 3)]), [30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 100]);
        assert_eq!(within(&[(3, 3), (4, 5)]), [34, 35, 100]);
        assert_eq!(within(&[(3, 3), (7, 7)]), [37, 100]);
        assert_eq!(
            within(&[(8, 9), (7, 7)]).len(),
            21,
            "the second column counts only if the first is fixed"
        );
        assert_eq!(within(&[(9, 3)]), [100]);
    }
}
