//! Which writes of a row a read can have seen, where rows are written whole.
//!
//! # Problem
//! A read may show fewer columns of a row than its writers set, or the key as well. So the two are
//! different values, and the writer cannot be looked up by the value. Comparing the read with every
//! version of its row is quadratic.
//!
//! # Algorithm
//! The reads of one table that show the same columns share a [`Projection`]: every write of the
//! table cut down to these columns, as a hash. A read looks for its own hash among the writes of
//! its row.
//!
//! # Invariants
//! A write that a read can have seen has the hash of the read. The opposite need not be so: the
//! caller compares what it finds.
//!
//! # Cost
//! Sorting the writes of each row, once per projection. More than [`MAX_PROJECTIONS`] get no index.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;
use margay_history::{History, NameId, ObjectId, TableId, TxnId, Value, ValueId};
use margay_verdict::cell::key_column;

/// How many projections have an index.
const MAX_PROJECTIONS: usize = 32;

/// The projections that the reads of a history ask for.
#[derive(Default)]
pub(crate) struct Projections {
    all: Vec<Projection>,
    hasher: DefaultHashBuilder,
}

/// The writes of one table, cut down to some columns.
struct Projection {
    table: TableId,
    columns: Box<[NameId]>,
    /// Where the writes of each object begin, and how many there are.
    starts: Vec<u32>,
    /// Hashes, with places among the final writes; sorted within each object.
    writes: Vec<(u32, u32)>,
}

impl Projections {
    /// Remembers what a read of a row asks for.
    pub fn ask(&mut self, history: &History, object: ObjectId, shown: ValueId) {
        let (Some(table), Value::Row(row)) = (history.object(object).table, history.value(shown)) else {
            return;
        };
        if self.all.len() < MAX_PROJECTIONS && self.place(table, row).is_none() {
            let columns = seen(row).map(|column| column.0).collect();
            self.all.push(Projection { table, columns, starts: Vec::new(), writes: Vec::new() });
        }
    }

    /// Indexes the final writes, which are sorted by object.
    pub fn index(&mut self, history: &History, finals: &[(ObjectId, ValueId, TxnId)]) {
        let hasher = &self.hasher;
        self.all.iter_mut().for_each(|projection| projection.index(history, finals, hasher));
    }

    /// The places of the final writes of `object` that a read of `shown` may have seen, in order;
    /// `None` without an index for such reads.
    pub fn find(
        &self,
        history: &History,
        object: ObjectId,
        shown: ValueId,
    ) -> Option<impl Iterator<Item = usize>> {
        let Value::Row(row) = history.value(shown) else { return None };
        let projection = &self.all[self.place(history.object(object).table?, row)?];
        let hash = hash(&self.hasher, seen(row).map(|column| column.1));
        let writes = projection.writes(object);
        let start = writes.partition_point(|write| write.0 < hash);
        let same = writes[start..].iter().take_while(move |write| write.0 == hash);
        Some(same.map(|write| write.1 as usize))
    }

    /// The projection of such a read.
    fn place(&self, table: TableId, row: &[(NameId, ValueId)]) -> Option<usize> {
        let same = |p: &Projection| p.table == table && seen(row).map(|c| c.0).eq(p.columns.iter().copied());
        self.all.iter().position(same)
    }
}

impl Projection {
    fn index(
        &mut self,
        history: &History,
        finals: &[(ObjectId, ValueId, TxnId)],
        hasher: &DefaultHashBuilder,
    ) {
        self.starts = vec![0; history.object_count() + 1];
        for (place, &(object, value, _)) in finals.iter().enumerate() {
            if history.object(object).table == Some(self.table)
                && let Value::Row(row) = history.value(value)
            {
                let columns = self.columns.iter().map(|&name| column(history, object, row, name));
                self.writes.push((hash(hasher, columns), place as u32));
                self.starts[object.index() + 1] += 1;
            }
        }
        for object in 0..history.object_count() {
            self.starts[object + 1] += self.starts[object];
        }
        for object in history.objects() {
            let (start, end) = (self.starts[object.index()], self.starts[object.index() + 1]);
            self.writes[start as usize..end as usize].sort_unstable();
        }
    }

    fn writes(&self, object: ObjectId) -> &[(u32, u32)] {
        &self.writes[self.starts[object.index()] as usize..self.starts[object.index() + 1] as usize]
    }
}

/// The columns whose values the client saw.
fn seen(row: &[(NameId, ValueId)]) -> impl Iterator<Item = &(NameId, ValueId)> {
    row.iter().filter(|column| column.1 != ValueId::UNKNOWN)
}

/// What a client sees in a column of a written row.
fn column(history: &History, object: ObjectId, row: &[(NameId, ValueId)], name: NameId) -> ValueId {
    match row.binary_search_by_key(&name, |column| column.0) {
        Ok(found) => row[found].1,
        Err(_) => key_column(history, object, history.name(name)).unwrap_or(ValueId::NULL),
    }
}

fn hash(hasher: &DefaultHashBuilder, values: impl Iterator<Item = ValueId>) -> u32 {
    let mut state = hasher.build_hasher();
    values.for_each(|value| state.write_u32(value.0));
    state.finish() as u32
}

#[cfg(test)]
mod tests {
    use hashbrown::HashSet;
    use margay_history::{TxnId, Version};

    use crate::index::Writers;

    /// Reads that show all columns, some of them, the key too, or what nobody wrote.
    #[test]
    fn what_is_found_is_what_comparing_all_versions_finds() {
        let history = margay_testkit::history(
            "table t(id; id int, v int, w int) | init: t/1={v:1 w:1} | T1: w(t/1,{v:2 w:1}) | T2: w(t/1,{v:2 w:3})
            | T3: d(t/1) | T4: w(t/1,{v:1 w:1}) w(t/2,{v:2 w:3})
            | T5: r(t/1,{v:2 w:3}) r(t/1,{v:2}) r(t/1,{id:1 w:1}) r(t/1,{v:? w:1}) r(t/1,{v:9}) r(t/1,{id:2 v:2})
            r(t/1,_) r(t/2,{v:2})",
        );
        let (dead, reader) = (HashSet::new(), TxnId(4));
        let writers = Writers::of(&history, &dead);
        assert!(writers.partial().is_empty());
        let mut counts = Vec::new();
        for access in history.ops(reader).flat_map(|op| op.accesses) {
            let (object, seen) = (access.object, access.value);
            let mut found = Vec::new();
            writers.candidates(object, seen, reader, &mut found);
            let initial = writers.matches(object, seen, history.initial(object)).then_some(Version::Initial);
            let written = writers.finals(object).iter().filter(|w| writers.matches(object, seen, w.1));
            let expected: Vec<_> = initial.into_iter().chain(written.map(|w| Version::Of(w.2))).collect();
            assert_eq!(found, expected, "{}", history.show_value(seen));
            counts.push(found.len());
        }
        assert_eq!(counts, [1, 2, 3, 3, 0, 0, 1, 1]);
    }
}
