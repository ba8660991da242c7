//! Writes of which it was not seen what they wrote: predicate updates without their rows.
//!
//! # Invariants
//! Such a write may have changed every object of its table that the key does not exclude, or none.
//! What it made of them hides nothing, and whoever reads one of them may have seen it.

use margay_history::{History, Interval, NameId, ObjectId, Op, OpKind, PredicateId, TableId, Values};
use margay_sql::{Assignments, Dialect};
use margay_verdict::dialect;

use super::{Pattern, Searches};

/// What a transaction may have written, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct Unseen {
    /// When.
    pub at: Interval,
    /// Which rows.
    pub predicate: PredicateId,
    /// What it made of them.
    pub pattern: Pattern,
}

impl Unseen {
    /// What an operation may have written without that anybody saw it, with its interval on the
    /// common clock.
    #[must_use]
    pub fn of(history: &History, op: &Op<'_>, at: Interval) -> Option<Unseen> {
        let update = history.update(op.id).filter(|update| op.kind == OpKind::Update && !update.observed)?;
        let name = |name: &str| history.values().find_name(name);
        let pattern = changes(update.set.as_deref(), dialect(history), name);
        Some(Unseen { at, predicate: update.predicate, pattern })
    }

    /// The table that was written to.
    #[must_use]
    pub fn table(&self, searches: &Searches) -> Option<TableId> {
        searches.searched(self.predicate)
    }

    /// Whether it may have changed an object.
    #[must_use]
    pub fn touches(&self, object: ObjectId, searches: &Searches, values: &Values) -> bool {
        searches.table_of(object) == self.table(searches)
            && searches.holds(self.predicate, object, &Pattern::Row(Vec::new()), values) != Some(false)
    }
}

/// What assignments make of a row; what deletes it if there are none. `name` knows the columns that
/// rows are told with.
#[must_use]
pub fn changes(set: Option<&str>, dialect: Dialect, name: impl FnMut(&str) -> Option<NameId>) -> Pattern {
    let Some(set) = set else { return Pattern::Value(margay_history::ValueId::NULL) };
    let Ok(assignments) = Assignments::parse(set, dialect) else { return Pattern::Any };
    match assignments.targets().map(name).collect::<Option<Vec<_>>>() {
        Some(names) => Pattern::unknown(names),
        None => Pattern::Any,
    }
}
