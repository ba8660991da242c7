//! Rows that a transaction deleted and inserted again.
//!
//! # Problem
//! To us a row is its key; to a database the row that was deleted and the one that was inserted are
//! two. PostgreSQL at READ COMMITTED lets an UPDATE or a DELETE wait for who deletes a row that it
//! has found, and go on without the row; the one in its place it does not see. By Adya's
//! definition, too, a row that is deleted never comes back: who sees the old one dead and the new
//! one not yet born reads committed versions only. Where the two are of one transaction, no
//! committed state lacks the row, but a statement may.
//!
//! # Invariants
//! - Taking back to a state leaves the gaps that were made up to it; forgetting keeps those of the
//!   state itself and later.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::prints::RowId;

/// Which states replaced which rows.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Oldest first.
    journal: VecDeque<(u32, RowId)>,
    rows: HashMap<RowId, Vec<u32>>,
}

impl Gaps {
    /// Notes that the transaction that makes a state replaces a row.
    pub fn note(&mut self, state: u32, row: RowId) {
        self.rows.entry(row.clone()).or_default().push(state);
        self.journal.push_back((state, row));
    }

    /// Drops what was noted after a state.
    pub fn take_back(&mut self, state: u32) {
        while self.journal.back().is_some_and(|(noted, _)| *noted > state) {
            let Some((_, row)) = self.journal.pop_back() else { break };
            let states = self.rows.get_mut(&row).map(|states| _ = states.pop());
            self.tidy(&row, states);
        }
    }

    /// Drops what was noted before a state.
    pub fn forget(&mut self, state: u32) {
        while self.journal.front().is_some_and(|(noted, _)| *noted < state) {
            let Some((_, row)) = self.journal.pop_front() else { break };
            let states = self.rows.get_mut(&row).map(|states| _ = states.remove(0));
            self.tidy(&row, states);
        }
    }

    fn tidy(&mut self, row: &RowId, changed: Option<()>) {
        if changed.is_some() && self.rows[row].is_empty() {
            self.rows.remove(row);
        }
    }

    /// The latest state up to `at` that replaced a row.
    pub fn last(&self, row: &RowId, at: u32) -> Option<u32> {
        self.rows.get(row)?.iter().rev().copied().find(|&state| state <= at)
    }

    /// Whether this state replaced the row.
    pub fn has(&self, row: &RowId, state: u32) -> bool {
        self.rows.get(row).is_some_and(|states| states.contains(&state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_sql::{Database, Dialect, Value};

    #[test]
    fn gaps_follow_the_states() {
        let mut database = Database::new(Dialect::Generic);
        database.run("CREATE TABLE t (k int PRIMARY KEY)", &[]).expect("a table");
        let table = database.table("t").expect("the table");
        let row = |k: i64| -> RowId { (table, vec![Value::Int(k)].into()) };
        let mut gaps = Gaps::default();
        [(1, 1), (2, 2), (3, 1), (5, 1)].into_iter().for_each(|(state, k)| gaps.note(state, row(k)));
        assert_eq!((gaps.last(&row(1), 4), gaps.last(&row(2), 1)), (Some(3), None));
        gaps.take_back(3);
        assert_eq!((gaps.last(&row(1), 9), gaps.has(&row(2), 2)), (Some(3), true));
        gaps.forget(3);
        assert_eq!((gaps.has(&row(1), 1), gaps.has(&row(1), 3), gaps.has(&row(2), 2)), (false, true, false));
    }
}
