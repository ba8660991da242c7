//! Searches that rows may still come to match.
//!
//! # Problem
//! A search depends on nobody for the rows that it left out, but whoever makes one of them match
//! depends on it (rw). To remember the search with every row that it left out would cost as much as
//! the table has rows.
//!
//! # Algorithm
//! Searches are remembered with their table, by the column that they compare, until the certifier
//! forgets their transactions. Of a version that is put in order only those are looked at that it
//! may match by what it makes of that column.
//!
//! # Invariants
//! Rows with a version that matches a search are explained one by one (`judge`) and remember it
//! themselves: of them a search here says nothing.
//!
//! # Cost
//! For each version a comparison of two numbers for each search that is remembered; memory for as
//! many searches as the certifier has transactions, twice at most.

use margay_history::{ObjectId, OpId, PredicateId, TxnId, Value};
use margay_mechanisms::{Pattern, Saw, Unseen, World};

/// A search of a committed transaction.
#[derive(Clone, Debug)]
pub(crate) struct Searched {
    pub txn: TxnId,
    pub op: OpId,
    pub predicate: PredicateId,
    /// By when its snapshot was taken.
    pub by: i64,
    /// The how-many-th transaction to be judged made it.
    pub number: u64,
    /// The objects of which it says nothing, sorted.
    pub skip: Vec<ObjectId>,
    /// What its transaction may have changed before, without that anybody saw it.
    pub unseen: Vec<Unseen>,
}

impl Searched {
    /// Whether it left an object out, and would not have if this version had been there.
    fn is_changed_by(&self, object: ObjectId, version: &Pattern, world: World<'_>) -> bool {
        let clouded = |unseen: &Unseen| unseen.touches(object, world.searches, world.values);
        Saw::Without(self.predicate).is_changed_by(object, version, world)
            && self.skip.binary_search(&object).is_err()
            && !self.unseen.iter().any(clouded)
    }
}

/// Searches that compare the same column, with the ranges that it must be in for a row to match.
#[derive(Debug)]
struct Group {
    column: Option<String>,
    all: Vec<((i64, i64), Searched)>,
    /// How many were left when they were last looked through.
    left: usize,
}

/// The searches of a table.
#[derive(Default, Debug)]
pub(crate) struct Searchers(Vec<Group>);

impl Searchers {
    /// Remembers a search; those of transactions that are forgotten elsewhere go when there are
    /// twice as many as the last time.
    pub fn push(&mut self, searched: Searched, world: World<'_>, forgotten: u64) {
        let (column, range) = match world.searches.compared(searched.predicate) {
            Some((column, range)) => (Some(column), range),
            None => (None, (i64::MIN, i64::MAX)),
        };
        let place = self.0.iter().position(|group| group.column.as_deref() == column);
        let place = place.unwrap_or_else(|| {
            self.0.push(Group { column: column.map(str::to_owned), all: Vec::new(), left: 0 });
            self.0.len() - 1
        });
        let group = &mut self.0[place];
        if group.all.len() > 2 * group.left + 16 {
            group.all.retain(|(_, old)| old.number >= forgotten);
            group.left = group.all.len();
        }
        group.all.push((range, searched));
    }

    /// The searches that left an object out and would not have if this version had been there.
    pub fn changed_by<'a>(
        &'a self,
        object: ObjectId,
        version: &'a Pattern,
        world: World<'a>,
    ) -> impl Iterator<Item = &'a Searched> {
        let may = move |group: &'a Group| {
            let range = group.reached(version, world);
            let all = range.map_or(&[][..], |_| &group.all);
            let inside = move |((low, high), _): &&((i64, i64), Searched)| {
                range.is_some_and(|(from, to)| *low <= to && from <= *high)
            };
            all.iter().filter(inside).map(|(_, searched)| searched)
        };
        let changed = move |searched: &&Searched| searched.is_changed_by(object, version, world);
        self.0.iter().flat_map(may).filter(changed)
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|group| group.all.len()).sum()
    }
}

impl Group {
    /// The numbers that the column may be in a version, as far as it decides anything.
    fn reached(&self, version: &Pattern, world: World<'_>) -> Option<(i64, i64)> {
        let Some(column) = &self.column else { return Some((i64::MIN, i64::MAX)) };
        match world.values.get(world.searches.column(column, version, world.values)?) {
            Value::Int(int) => Some((int, int)),
            Value::Null | Value::Unknown => None,
            _ => Some((i64::MIN, i64::MAX)),
        }
    }
}
