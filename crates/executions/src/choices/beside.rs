//! What a statement can have seen of the commits that it ran beside.
//!
//! # Problem
//! Commits are placed in the order of their calls, but two that overlap may have taken effect the
//! other way round. A statement that ran beside them may have seen the second without the first,
//! and no state of the order has that.
//!
//! # Algorithm
//! Of the commits that were in flight while the statement ran, only those count that wrote a table
//! which the statement looks at. Where they are few, every set of them is tried; else what a
//! snapshot at the statement's beginning lacks comes first: the latest ones, and one more. A set is
//! seen as the state up to its first gap; rows that later commits of it wrote are pinned.
//!
//! # Cost
//! [`MAX_SETS`] executions of the statement, and those that look again at rows.

use hashbrown::HashSet;
use margay_sql::TableId;
use margay_verdict::Outside;
use margay_verdict::execution::StatementSight;

use super::Choices;
use super::sights::{Attempt, Found};
use crate::machine::Machine;
use crate::prints::RowId;

/// Up to so many commits all sets are tried.
const MAX_WHOLE: usize = 5;

/// The most sets.
const MAX_SETS: usize = 64;

impl Choices {
    /// Sets of commits that are no state of the order.
    pub(super) fn beside(&mut self, machine: &mut Machine<'_>, found: &mut Found) -> Result<(), Outside> {
        let at = self.levels.len();
        let (Some(&(_, last)), Some(flying)) = (self.spans.get(at), self.flying.get(at).cloned()) else {
            return Ok(());
        };
        if flying.is_empty() {
            return Ok(());
        }
        let Attempt { seen, .. } = self.attempt(machine, &StatementSight::state(last), found)?;
        let rows = seen.rows.iter().map(|read| read.table);
        let predicates = seen.predicates.iter().map(|read| read.table);
        let tables: HashSet<TableId> = rows.chain(predicates).chain(seen.taken.iter().copied()).collect();
        let counts = |state: &u32| machine.written_by(*state).iter().any(|(table, _)| tables.contains(table));
        let flying: Vec<u32> = flying.into_iter().filter(counts).collect();
        for unseen in sets(flying.len()).into_iter().take(MAX_SETS) {
            if self.is_over() || found.only {
                break;
            }
            let unseen: Vec<u32> = unseen.into_iter().map(|at| flying[at]).collect();
            let sight = sight(machine, last, &unseen);
            let Attempt { seen, looks_again, .. } = self.attempt(machine, &sight, found)?;
            if looks_again && !found.only {
                self.rechecked(machine, &sight, &seen, found)?;
            }
        }
        Ok(())
    }
}

/// Sets of so many commits that may not be seen, each by its members; the latest ones alone are
/// tried elsewhere.
fn sets(count: usize) -> Vec<Vec<usize>> {
    if count <= MAX_WHOLE {
        let member = |mask: usize| (0..count).filter(|at| mask >> at & 1 == 1).collect::<Vec<_>>();
        return (1..1_usize << count).map(member).collect();
    }
    let with = |from: usize, one: usize| [one].into_iter().chain(from..count).collect::<Vec<_>>();
    (1..=count).flat_map(|from| (0..from).rev().map(move |one| with(from, one))).collect()
}

/// How a state is seen without some of its commits, earliest first.
fn sight(machine: &Machine<'_>, last: u32, unseen: &[u32]) -> StatementSight {
    let at = unseen.first().map_or(last, |first| first - 1);
    let mut sight = StatementSight::state(at);
    let mut known: HashSet<RowId> = HashSet::new();
    for state in (at + 1..=last).rev().filter(|state| !unseen.contains(state)) {
        for row in machine.written_by(state) {
            if known.insert(row.clone()) {
                sight.pins.push(machine.pin(row.0, &row.1, state));
            }
        }
    }
    sight
}

#[cfg(test)]
mod tests {
    use super::sets;

    #[test]
    fn sets_of_commits() {
        assert_eq!(sets(0), Vec::<Vec<usize>>::new());
        assert_eq!(sets(2), [vec![0], vec![1], vec![0, 1]]);
        assert_eq!(sets(6)[..2], [vec![0, 1, 2, 3, 4, 5], vec![1, 2, 3, 4, 5]]);
    }
}
