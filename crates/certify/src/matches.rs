//! Which versions each predicate matches.
//!
//! # Problem
//! A predicate reads every row of its table. Only the versions that match tell runs of versions
//! that do not apart; looking at every version for every predicate would cost predicates ×
//! versions.
//!
//! # Algorithm
//! Emme, section 5.2, through an index: the versions of a table are sorted by the columns that its
//! predicates speak of ([`VersionIndex`]), and a predicate is evaluated only where its ranges allow
//! a match. Rows of which no version matches never constrain a predicate and do not occur in its
//! list.
//!
//! # Invariants
//! The index gives a superset; what it gives is evaluated by the interpreter.
//!
//! # Cost
//! Versions × columns × log for the index; each distinct predicate the versions inside its
//! narrowest range.

use hashbrown::HashMap;
use margay_history::{History, NameId, ObjectId, PredicateId, TableId};
use margay_sql::{BoundPredicate, Value as SqlValue, VersionIndex};
use margay_verdict::cell::key_column;
use margay_verdict::{Cell, Outside, Predicates};

use crate::chain::Chain;

/// The versions of one row that a predicate matches.
#[derive(Debug)]
pub(crate) struct Matched {
    pub object: ObjectId,
    /// Their ranks, in order; never empty.
    pub ranks: Vec<u32>,
}

impl Matched {
    pub fn contains(&self, rank: u32) -> bool {
        self.ranks.binary_search(&rank).is_ok()
    }

    /// The nearest rank at or below that does not match, or else the first above.
    pub fn unmatched_near(&self, rank: u32) -> u32 {
        let below = (0..=rank).rev().find(|&r| !self.contains(r));
        below.unwrap_or_else(|| self.unmatched_from(rank))
    }

    /// The first rank from here on that does not match.
    pub fn unmatched_from(&self, rank: u32) -> u32 {
        (rank..).find(|&r| !self.contains(r)).unwrap_or(rank)
    }

    /// The ranks around `rank`, which does not match, until the nearest ones that do.
    pub fn run(&self, rank: u32, versions: u32) -> (u32, u32) {
        let place = self.ranks.partition_point(|&r| r < rank);
        let lo = place.checked_sub(1).map_or(0, |before| self.ranks[before] + 1);
        let hi = self.ranks.get(place).map_or(versions - 1, |&after| after - 1);
        (lo, hi)
    }
}

/// The matches of every predicate, found when first asked for.
pub(crate) struct Matches<'a> {
    predicates: &'a Predicates<'a>,
    tables: HashMap<TableId, Indexed>,
    found: HashMap<PredicateId, Vec<Matched>>,
}

struct Indexed {
    columns: Vec<String>,
    index: VersionIndex,
    versions: Vec<(ObjectId, u32)>,
}

impl<'a> Matches<'a> {
    pub fn new(predicates: &'a Predicates<'a>, chains: &HashMap<ObjectId, Chain>) -> Self {
        let history = predicates.history();
        let columns = condition_columns(predicates);
        let names: HashMap<&str, NameId> =
            (0..history.values().name_count()).map(NameId::at).map(|id| (history.name(id), id)).collect();
        let index = |(table, columns): (TableId, Vec<String>)| {
            (table, Indexed::new(predicates, chains, &names, table, columns))
        };
        Self { predicates, tables: columns.into_iter().map(index).collect(), found: HashMap::new() }
    }

    /// The rows that a predicate matches at some time, by object.
    pub fn of(
        &mut self,
        predicate: PredicateId,
        chains: &HashMap<ObjectId, Chain>,
    ) -> Result<&[Matched], Outside> {
        if !self.found.contains_key(&predicate) {
            let found = self.search(predicate, chains)?;
            self.found.insert(predicate, found);
        }
        Ok(&self.found[&predicate])
    }

    fn search(
        &self,
        predicate: PredicateId,
        chains: &HashMap<ObjectId, Chain>,
    ) -> Result<Vec<Matched>, Outside> {
        let table = &self.tables[&self.predicates.table_of(predicate)];
        let bound = self.predicates.condition(predicate).and_then(|c| c.bind(&table.columns).ok());
        let mut matched: Vec<(ObjectId, u32)> = Vec::new();
        for version in table.candidates(bound.as_ref()) {
            let (object, rank) = table.versions[version as usize];
            if self.predicates.matches(predicate, object, &chains[&object].cell(rank))? {
                matched.push((object, rank));
            }
        }
        matched.sort_unstable();
        let by_object = matched.chunk_by(|a, b| a.0 == b.0);
        Ok(by_object.map(|m| Matched { object: m[0].0, ranks: m.iter().map(|v| v.1).collect() }).collect())
    }
}

impl Indexed {
    fn new(
        predicates: &Predicates<'_>,
        chains: &HashMap<ObjectId, Chain>,
        names: &HashMap<&str, NameId>,
        table: TableId,
        columns: Vec<String>,
    ) -> Self {
        let history = predicates.history();
        let mut index = VersionIndex::new(&(0..columns.len()).collect::<Vec<_>>());
        let mut versions = Vec::new();
        for &object in predicates.table(table) {
            let Some(chain) = chains.get(&object) else { continue };
            for rank in 0..chain.len() {
                let cell = chain.cell(rank);
                if cell.is_absent() {
                    continue;
                }
                let row: Vec<SqlValue> =
                    columns.iter().map(|name| column(history, object, &cell, name, names)).collect();
                index.insert(versions.len() as u32, &row);
                versions.push((object, rank));
            }
        }
        Self { columns, index, versions }
    }

    fn candidates(&self, bound: Option<&BoundPredicate>) -> Vec<u32> {
        match bound {
            Some(bound) => self.index.candidates(bound),
            None => (0..self.versions.len() as u32).collect(),
        }
    }
}

/// The columns that the conditions about each table name.
pub(crate) fn condition_columns(predicates: &Predicates<'_>) -> HashMap<TableId, Vec<String>> {
    let mut columns: HashMap<TableId, Vec<String>> = HashMap::new();
    for predicate in (0..predicates.count()).map(PredicateId::at) {
        let all = columns.entry(predicates.table_of(predicate)).or_default();
        for name in predicates.condition(predicate).into_iter().flat_map(|c| c.columns()) {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_string());
            }
        }
    }
    columns
}

/// A value that an index always looks at.
pub(crate) const LOOK: SqlValue = SqlValue::Bool(true);

/// A column for an index. What is not known for certain becomes a value that is always looked at.
pub(crate) fn column(
    history: &History,
    object: ObjectId,
    cell: &Cell,
    name: &str,
    names: &HashMap<&str, NameId>,
) -> SqlValue {
    if let Some(key) = key_column(history, object, name) {
        return margay_verdict::cell::to_sql(history, key).unwrap_or(LOOK);
    }
    match names.get(name) {
        Some(&id) if cell.is_row(history) => match cell.column(history, id) {
            Some(field) => field.to_sql(history).map_or(LOOK, std::borrow::Cow::into_owned),
            None => SqlValue::Null,
        },
        _ => LOOK,
    }
}
