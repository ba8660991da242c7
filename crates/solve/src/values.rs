//! Which objects have ever had a value in a range of a column.
//!
//! # Algorithm
//! For each column that a condition bounds, the integers of all versions are sorted once; a
//! condition then looks only at the objects inside its range. Values that are no integers may match
//! anything, NULL matches no bound.
//!
//! # Invariants
//! Every object of which some version matches is among the answer.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use margay_history::{NameId, ObjectId, PredicateId, TableId, Value, ValueId};
use margay_verdict::Predicates;
use margay_verdict::cell::key_column;

use crate::index::Writers;
use crate::parts::Parts;

/// The values of the columns that were asked for.
pub(crate) struct Values<'a> {
    writers: &'a Writers<'a>,
    parts: &'a Parts<'a>,
    columns: HashMap<(TableId, NameId), Column>,
}

#[derive(Default)]
struct Column {
    integers: BTreeMap<i64, Vec<ObjectId>>,
    others: Vec<ObjectId>,
}

impl<'a> Values<'a> {
    pub fn new(writers: &'a Writers<'a>, parts: &'a Parts<'a>) -> Self {
        Self { writers, parts, columns: HashMap::new() }
    }

    /// The objects that a predicate may match in some version.
    pub fn objects(&mut self, predicates: &Predicates<'_>, predicate: PredicateId) -> Vec<ObjectId> {
        let domain = predicates.domain(predicate);
        let Some((name, low, high)) = bounds(predicates, predicate) else { return domain.to_vec() };
        let is_key = domain.first().is_some_and(|&object| {
            key_column(predicates.history(), object, predicates.history().name(name)).is_some()
        });
        if is_key {
            return domain.to_vec();
        }
        let table = predicates.history().predicate(predicate).table;
        let (writers, parts) = (self.writers, self.parts);
        let column = self
            .columns
            .entry((table, name))
            .or_insert_with(|| Column::of(predicates, domain, name, writers, parts));
        column.between(low, high)
    }
}

impl Column {
    fn of(
        predicates: &Predicates<'_>,
        domain: &[ObjectId],
        name: NameId,
        writers: &Writers<'_>,
        parts: &Parts<'_>,
    ) -> Self {
        let history = predicates.history();
        let mut column = Self::default();
        for &object in domain {
            match parts.column(history, object, name) {
                Some((_, versions)) => {
                    versions.iter().for_each(|(_, content)| column.add(predicates, object, content.value()));
                }
                None => {
                    let written = writers.finals(object).iter().map(|w| w.1);
                    for value in std::iter::once(history.initial(object)).chain(written) {
                        match history.value(value) {
                            Value::Row(_) => {
                                let inside = history.values().column(value, name).unwrap_or(ValueId::NULL);
                                column.add(predicates, object, inside);
                            }
                            Value::Null => {}
                            _ => column.others.push(object),
                        }
                    }
                }
            }
        }
        column
    }

    fn add(&mut self, predicates: &Predicates<'_>, object: ObjectId, value: ValueId) {
        match predicates.history().value(value) {
            Value::Int(number) => self.integers.entry(number).or_default().push(object),
            Value::Null => {}
            _ => self.others.push(object),
        }
    }

    fn between(&self, low: i64, high: i64) -> Vec<ObjectId> {
        let inside = (low <= high).then(|| self.integers.range(low..=high));
        let inside = inside.into_iter().flatten().flat_map(|(_, objects)| objects);
        let mut objects: Vec<ObjectId> = inside.chain(&self.others).copied().collect();
        objects.sort_unstable();
        objects.dedup();
        objects
    }
}

/// The one column that a condition is about, and the range in which it must be.
fn bounds(predicates: &Predicates<'_>, predicate: PredicateId) -> Option<(NameId, i64, i64)> {
    if let Some(range) = predicates.range(predicate) {
        return Some(range);
    }
    let condition = predicates.condition(predicate)?;
    let mut names = condition.columns();
    let (name, None) = (names.next()?, names.next()) else { return None };
    let (low, high) = condition.bind(&[name]).ok()?.bounds(0)?;
    Some((predicates.column(name)?, low, high))
}
