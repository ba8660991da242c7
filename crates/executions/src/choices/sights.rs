//! The sights that a statement can have: which committed states it saw.
//!
//! # Algorithm
//! Whole states are tried from the latest back to the oldest that makes a difference. At
//! `repeatable-read` and, by its definition, at `read-committed` a statement may see rows of
//! different states. Rows that matter are pinned one after the other to each of their versions:
//! those that were read, those that a condition would find in one of their versions, and all of
//! them where the statement fails.
//!
//! # Invariants
//! - A sight is left out only if it does not fit, the level does not allow it, or another one has
//!   the same writes. Where there are too many, [`Choices::cut`] says so.

use hashbrown::HashSet;
use margay_sql::{Key, TableId, Write};
use margay_verdict::Outside;
use margay_verdict::execution::{Pin, Reading, StatementSight};

use super::{Choices, same_writes};
use crate::fits::Difference;
use crate::machine::{Machine, Ran, StatementStep};
use crate::rules::Family;

/// The most combinations of versions that are tried for one statement.
const MAX_COMBINATIONS: usize = 20_000;

/// The same, where only sights in time are tried.
const MAX_RECENT: usize = 64;

/// Stamps of a transaction's own writes are above this.
const OWN: u64 = 1 << 63;

impl Choices {
    /// Whether the level allows this sight of the statement, given what the statement did with it.
    pub(super) fn allowed(
        &self,
        machine: &Machine<'_>,
        step: &StatementStep,
        sight: &StatementSight,
    ) -> bool {
        let Ok(outcome) = &step.result else { return false };
        match self.rules.family {
            Family::Committed(_) if self.sees_one_state() => outcome.writes.iter().all(|write| {
                let latest = machine.last_writer(write.table, &write.key, self.here);
                let name = &machine.database().schema(write.table).name;
                let pin = sight.pins.iter().find(|pin| *pin.key == *write.key && pin.table == *name);
                let (at, missed) = pin.map_or((sight.at, false), |pin| (pin.at, pin.missed));
                !missed && latest.is_none_or(|(state, _)| state <= at)
            }),
            Family::Repeatable => outcome.reads.rows.iter().filter(|read| read.present).all(|read| {
                let latest =
                    machine.last_writer(read.table, &read.key, self.here).map_or(0, |(state, _)| state);
                read.stamp.is_none_or(|stamp| stamp >= OWN || machine.position_of(stamp) >= latest)
            }),
            _ => true,
        }
    }

    /// Whether a statement sees one state, and what it writes is the newest version.
    fn sees_one_state(&self) -> bool {
        self.rules.family == Family::Committed(Reading::Statement) || self.recent && !self.mixes
    }

    /// All sights of the next statement that fit and are allowed, each with other writes; one is
    /// enough where nothing is written.
    pub(super) fn options(&mut self, machine: &mut Machine<'_>) -> Result<Vec<StatementSight>, Outside> {
        let mut found = Found { one_each: self.one_each, ..Found::default() };
        match self.rules.family {
            Family::Committed(Reading::Statement) => self.statement_sights(machine, &mut found)?,
            Family::Committed(Reading::Item) => {
                self.statement_sights(machine, &mut found)?;
                if found.sights.is_empty() && !self.whole {
                    self.mixes = true;
                    self.nearest(machine, &mut found)?;
                    self.mixes = false;
                }
                if !self.recent {
                    self.row_sights(machine, &mut found)?;
                }
            }
            _ => self.row_sights(machine, &mut found)?,
        }
        Ok(found.sights)
    }

    /// Tries one sight of the next statement.
    pub(super) fn attempt(
        &mut self,
        machine: &mut Machine<'_>,
        sight: &StatementSight,
        found: &mut Found,
    ) -> Result<Attempt, Outside> {
        if self.is_over() {
            return Ok(Attempt::default());
        }
        let op = self.ops[self.levels.len()];
        let (mut transaction, _) = self.prefix(machine)?;
        let step = self.step(machine, &mut transaction, op, sight);
        let mut tried = Attempt { looks_again: true, ..Attempt::default() };
        let seen = &mut tried.seen;
        match step {
            Ok(step) => {
                tried.looks_again = step.looks_again;
                tried.difference = machine.difference(op, &step);
                self.look(machine, &step);
                let mut tables = if step.result.is_err() { machine.all_tables() } else { Vec::new() };
                seen.add(&step, &mut tables);
                if step.fits && self.allowed(machine, &step, sight) {
                    found.add(sight, seen.writes.clone(), step.locks);
                }
            }
            Err(outside) => {
                self.outside = Some(outside);
                seen.taken = machine.all_tables();
            }
        }
        machine.drop(transaction);
        Ok(tried)
    }

    /// Whole states: those that the statement can have seen by its interval, and if none of them
    /// fits, all.
    fn statement_sights(&mut self, machine: &mut Machine<'_>, found: &mut Found) -> Result<(), Outside> {
        let oldest = if self.recent { self.low } else { machine.oldest() };
        if let Some(&(first, last)) = self.spans.get(self.levels.len()) {
            self.states(machine, (first.max(oldest), last.max(oldest)), found)?;
            if !found.only {
                self.beside(machine, found)?;
            }
            if !found.sights.is_empty() {
                return Ok(());
            }
        }
        self.states(machine, (oldest, self.here), found)
    }

    /// Whole states, latest first.
    fn states(
        &mut self,
        machine: &mut Machine<'_>,
        (oldest, latest): (u32, u32),
        found: &mut Found,
    ) -> Result<(), Outside> {
        let mut next = Some(latest);
        while let Some(at) = next {
            let Attempt { seen, looks_again, .. } =
                self.attempt(machine, &StatementSight::state(at), found)?;
            if found.only {
                return Ok(());
            }
            if self.sees_one_state() && looks_again && at < self.here {
                self.rechecked(machine, &StatementSight::state(at), &seen, found)?;
            }
            next = machine.earlier(&seen, at)?.filter(|&earlier| earlier >= oldest);
        }
        Ok(())
    }

    /// A locking statement looks again at the rows that it found: they are as of the state before
    /// its transaction's commit, or gone if they ended meanwhile. What it only reads on the way
    /// need not be looked at again, and in time it is not.
    pub(super) fn rechecked(
        &mut self,
        machine: &mut Machine<'_>,
        first: &StatementSight,
        seen: &Ran,
        found: &mut Found,
    ) -> Result<(), Outside> {
        // A row that goes on under another key is followed there, which is not known here.
        self.cut |= machine.moves_rows();
        let again = self.looked_again(machine, first, seen);
        if self.recent {
            let locked = again.iter().filter(|row| !row.only_read).map(|row| row.now.clone());
            let sight = with_pins(first, locked);
            if sight != *first {
                self.attempt(machine, &sight, found)?;
            }
            if !found.sights.is_empty() {
                return Ok(());
            }
        }
        let mut sights = vec![first.clone()];
        let most = if self.recent { MAX_RECENT } else { MAX_COMBINATIONS };
        for row in again {
            let then = row.only_read.then_some(None);
            let pins: Vec<Option<Pin>> =
                [Some(row.now)].into_iter().chain(row.gone.map(Some)).chain(then).collect();
            sights = pins
                .iter()
                .flat_map(|pin| sights.iter().map(move |sight| with_pins(sight, pin.clone())))
                .collect();
            if sights.len() > most {
                self.cut = true;
                return Ok(());
            }
        }
        for sight in sights.into_iter().filter(|sight| sight != first) {
            self.attempt(machine, &sight, found)?;
        }
        Ok(())
    }

    /// The rows that a statement found with a sight, and that are others now.
    fn looked_again(&self, machine: &Machine<'_>, first: &StatementSight, seen: &Ran) -> Vec<LockedRow> {
        let (mut rows, mut known): (Vec<LockedRow>, HashSet<(TableId, &Key)>) = Default::default();
        for read in seen.rows.iter().filter(|read| read.present) {
            let newest = machine.last_writer(read.table, &read.key, self.here);
            let at = read.stamp.map_or(first.at, |stamp| machine.position_of(stamp));
            if newest.is_none_or(|(state, _)| state <= at) || !known.insert((read.table, &read.key)) {
                continue;
            }
            let only_read =
                !seen.writes.is_empty() && seen.writes.iter().all(|write| write.table != read.table);
            rows.push(LockedRow {
                now: machine.pin(read.table, &read.key, self.here),
                gone: machine.end_of(read.table, &read.key, at, self.here),
                only_read,
            });
        }
        rows
    }

    /// Every combination of the versions of the rows that matter.
    fn row_sights(&mut self, machine: &mut Machine<'_>, found: &mut Found) -> Result<(), Outside> {
        let mut open = vec![StatementSight::state(self.here)];
        let mut tried = 0;
        while let Some(sight) = open.pop() {
            tried += 1;
            if found.only {
                return Ok(());
            }
            if tried > MAX_COMBINATIONS {
                self.cut = true;
                return Ok(());
            }
            let mut leaf = Found { one_each: self.one_each, ..Found::default() };
            let seen = self.attempt(machine, &sight, &mut leaf)?.seen;
            match self.undecided(machine, &sight, &seen, 1)?.pop() {
                Some((table, key)) => {
                    // The latest version is tried first, so it is pushed last.
                    for pin in self.pins(machine, table, &key).into_iter().rev() {
                        let mut pinned = sight.clone();
                        pinned.pins.push(pin);
                        open.push(pinned);
                    }
                }
                None => found.merge(leaf),
            }
        }
        Ok(())
    }

    /// The ways in which a row can be seen: as of its versions, latest first, or not at all where
    /// it was replaced.
    pub(super) fn pins(&self, machine: &Machine<'_>, table: TableId, key: &Key) -> Vec<Pin> {
        let states = machine.states_of(table, key, self.here).into_iter();
        let missed = matches!(self.rules.family, Family::Committed(_));
        let gap = missed.then(|| machine.gap(table, key, self.here)).flatten();
        states.map(|state| machine.pin(table, key, state)).chain(gap).collect()
    }

    /// Up to so many rows with several versions that matter and have not been pinned.
    pub(super) fn undecided(
        &self,
        machine: &Machine<'_>,
        sight: &StatementSight,
        seen: &Ran,
        most: usize,
    ) -> Result<Vec<(TableId, Key)>, Outside> {
        let (mut rows, mut known) = (Vec::new(), HashSet::new());
        let mut add = |table: TableId, key: &Key| {
            let name = &machine.database().schema(table).name;
            let pinned = || sight.pins.iter().any(|pin| pin.table == *name && *pin.key == **key);
            let fresh = known.insert((table, key.clone()));
            if fresh && !pinned() && self.pins(machine, table, key).len() > 1 {
                rows.push((table, key.clone()));
            }
            rows.len() >= most
        };
        if seen.rows.iter().any(|read| add(read.table, &read.key)) {
            return Ok(rows);
        }
        for predicate in &seen.predicates {
            let keys = machine.ever_found(predicate, self.here)?;
            if keys.iter().any(|key| add(predicate.table, key)) {
                return Ok(rows);
            }
        }
        // A statement that fails does not tell what it looked at.
        for &table in &seen.taken {
            if machine.database().keys(table).iter().any(|key| add(table, key)) {
                return Ok(rows);
            }
        }
        Ok(rows)
    }
}

/// A row that a locking statement found, and that is another one now.
struct LockedRow {
    now: Pin,
    /// Where it ended, if it did.
    gone: Option<Pin>,
    /// Whether the statement does not write its table.
    only_read: bool,
}

/// A sight with more pins; they count more than those that it has.
fn with_pins(sight: &StatementSight, pins: impl IntoIterator<Item = Pin>) -> StatementSight {
    let mut sight = sight.clone();
    for pin in pins {
        sight.pins.retain(|old| old.table != pin.table || old.key != pin.key);
        sight.pins.push(pin);
    }
    sight
}

/// What came of a sight.
#[derive(Default)]
pub(super) struct Attempt {
    /// What the statement looked at.
    pub seen: Ran,
    /// Whether it looks again at rows that it waited for.
    pub looks_again: bool,
    /// What is wrong, if it did not fail.
    pub difference: Option<Difference>,
}

/// The sights of a statement that fit.
#[derive(Default)]
pub(super) struct Found {
    /// The sights.
    pub sights: Vec<StatementSight>,
    writes: Vec<Vec<Write>>,
    /// One is found, and no other can make a difference.
    pub only: bool,
    /// Whether one is enough.
    one_each: bool,
}

impl Found {
    fn add(&mut self, sight: &StatementSight, writes: Vec<Write>, locks: bool) {
        if self.writes.iter().any(|known| same_writes(known, &writes)) {
            return;
        }
        self.only = !locks || self.one_each;
        self.sights.push(sight.clone());
        self.writes.push(writes);
    }

    fn merge(&mut self, other: Found) {
        for (sight, writes) in other.sights.iter().zip(other.writes) {
            self.add(sight, writes, !other.only);
        }
    }
}
