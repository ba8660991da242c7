//! A mixture of versions that explains a result, found by coming nearer to it row by row.
//!
//! # Problem
//! By the definition of `read-committed` each row that a statement saw may be as of a state of its
//! own. There are far too many mixtures to try, and most results are those of one state, but for
//! few rows.
//!
//! # Algorithm
//! Begin with one whole state. Of the rows that matter, those come first whose versions have the
//! most values in common with what is wrong: rows of the result that were not observed, and the
//! other way round. Each is pinned to its other versions; the first one that leaves less wrong is
//! kept, and so on until nothing is wrong, or nothing helps.
//!
//! # Invariants
//! - Sights that are found fit and are allowed. None is left out: whoever needs all of them goes on
//!   looking.
//!
//! # Cost
//! [`MAX_EXECUTIONS`] executions of the statement.

use margay_sql::{Key, TableId, Value};
use margay_verdict::Outside;
use margay_verdict::compare::same;
use margay_verdict::execution::StatementSight;

use super::Choices;
use super::sights::Found;
use crate::fits::Difference;
use crate::machine::Machine;

/// The most executions of one statement.
const MAX_EXECUTIONS: u32 = 400;

impl Choices {
    /// Comes nearer to what was observed, from the latest state that the statement probably saw.
    pub(super) fn nearest(&mut self, machine: &mut Machine<'_>, found: &mut Found) -> Result<(), Outside> {
        let mut sight = StatementSight::state(self.likely(machine));
        let first = self.attempt(machine, &sight, found)?;
        let (mut seen, mut left) = (first.seen, MAX_EXECUTIONS);
        let Some(mut wrong) = first.difference else { return Ok(()) };
        while found.sights.is_empty() && wrong.amount() > 0 {
            let rows = self.undecided(machine, &sight, &seen, usize::MAX)?;
            let mut nearer = None;
            'rows: for (table, key) in by_likeness(machine, rows, &wrong) {
                for pin in self.pins(machine, table, &key) {
                    let mut pinned = sight.clone();
                    pinned.pins.push(pin);
                    let tried = self.attempt(machine, &pinned, found)?;
                    left = left.saturating_sub(1);
                    if left == 0 || !found.sights.is_empty() || self.is_over() {
                        return Ok(());
                    }
                    if let Some(less) = tried.difference.filter(|less| less.amount() < wrong.amount()) {
                        nearer = Some((pinned, tried.seen, less));
                        break 'rows;
                    }
                }
            }
            let Some(next) = nearer else { return Ok(()) };
            (sight, seen, wrong) = next;
        }
        Ok(())
    }
}

/// The rows by how many values they have in common with what is wrong, most first.
fn by_likeness(machine: &Machine<'_>, rows: Vec<(TableId, Key)>, wrong: &Difference) -> Vec<(TableId, Key)> {
    let history = machine.history();
    let has = |value: &Value, row: &[Value]| row.iter().any(|other| value == other);
    let count = |row: &[Value]| {
        let given = wrong.given.iter().map(|cells| cells.iter().filter(|cell| has(cell, row)).count());
        let observed = wrong.observed.iter().map(|cells| {
            let known = |&&cell: &&_| row.iter().any(|value| same(history.value(cell), value));
            cells.iter().filter(known).count()
        });
        given.chain(observed).max().unwrap_or(0)
    };
    let mut rows: Vec<(usize, (TableId, Key))> = rows
        .into_iter()
        .map(|(table, key)| {
            let versions = machine.database().versions(table, &key);
            let likeness = versions.iter().filter_map(|(_, row)| row.as_ref()).map(|row| count(row)).max();
            (likeness.unwrap_or(0), (table, key))
        })
        .collect();
    rows.sort_by_key(|(likeness, _)| std::cmp::Reverse(*likeness));
    rows.into_iter().map(|(_, row)| row).collect()
}
