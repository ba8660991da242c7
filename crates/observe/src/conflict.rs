//! Which earlier transactions can have caused that a result does not fit.
//!
//! # Algorithm
//! A result depends on the rows and conditions that its statements looked at. Those depend on the
//! transactions that wrote them, in any of their versions; and the writes of these on what their
//! own writing statements looked at. The closure is the set of places in the order that matter:
//! changing what happened at any other place gives the same rows, and the same misfit.
//!
//! # Invariants
//! - Conditions count for their whole table, and so do keys that were found to be taken: the set
//!   may be too large, never too small.

use hashbrown::HashSet;
use margay_executions::Ran;
use margay_sql::{Key, TableId};

/// What one transaction looked at and wrote, as far as conflicts are concerned.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// The rows that it wrote.
    pub writes: Vec<(TableId, Key)>,
    /// The rows that its statements looked at.
    pub rows: Vec<(TableId, Key)>,
    /// The tables that conditions were asked of.
    pub tables: Vec<TableId>,
}

impl Footprint {
    /// Of what was executed.
    #[must_use]
    pub fn of(ran: &Ran) -> Self {
        let mut tables: Vec<TableId> =
            ran.predicates.iter().map(|read| read.table).chain(ran.taken.iter().copied()).collect();
        tables.sort_unstable();
        tables.dedup();
        Self {
            writes: ran.writes.iter().map(|write| (write.table, write.key.clone())).collect(),
            rows: ran.rows.iter().map(|read| (read.table, read.key.clone())).collect(),
            tables,
        }
    }
}

/// Rows and tables that matter, and more as transactions that wrote them are found.
#[derive(Debug, Default)]
pub struct Cone {
    rows: HashSet<(TableId, Key)>,
    tables: HashSet<TableId>,
}

impl Cone {
    /// What a misfit looked at.
    #[must_use]
    pub fn of(touched: &Footprint) -> Self {
        let mut cone = Cone::default();
        cone.add(touched);
        cone
    }

    /// What a transaction looked at.
    #[must_use]
    pub fn looks_at(print: &Footprint) -> Self {
        Cone { rows: print.rows.iter().cloned().collect(), tables: print.tables.iter().copied().collect() }
    }

    /// Whether a transaction wrote something that matters.
    #[must_use]
    pub fn meets(&self, print: &Footprint) -> bool {
        print.writes.iter().any(|write| self.tables.contains(&write.0) || self.rows.contains(write))
    }

    /// What such a transaction looked at matters too.
    pub fn add(&mut self, print: &Footprint) {
        self.rows.extend(print.rows.iter().cloned());
        self.rows.extend(print.writes.iter().cloned());
        self.tables.extend(print.tables.iter().copied());
    }
}

/// The places, among `prints` (earliest first), that a misfit depends on.
#[must_use]
pub fn places(touched: &Footprint, prints: &[(u32, &Footprint)]) -> Vec<u32> {
    let mut cone = Cone::of(touched);
    let mut found = Vec::new();
    for &(place, print) in prints.iter().rev() {
        if cone.meets(print) {
            cone.add(print);
            found.push(place);
        }
    }
    found
}
