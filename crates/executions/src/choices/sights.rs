//! The sights that a statement can have: which committed states it saw.
//!
//! # Algorithm
//! Whole states are tried from the latest back to the oldest that makes a difference.
//! At `repeatable-read` and, by its definition, at `read-committed` a statement may see rows of different states. Rows
//! that matter are pinned one after the other to each of their versions: those that were read, those that a condition
//! would find in one of their versions, and all of them where the statement fails.
//!
//! # Invariants
//! - A sight is left out only if it does not fit, the level does not allow it, or another one has the same
//!   writes. Where there are too many, [`Choices::cut`] says so.

use margay_sql::{TableId, Write};
use margay_verdict::Outside;
use margay_verdict::execution::{Pin, Reading, Sight};

use super::{Choices, same_writes};
use crate::machine::{Machine, Ran, Step};
use crate::rules::Family;

/// The most combinations of versions that are tried for one statement.
const MOST: usize = 20_000;

/// Stamps of a transaction's own writes are above this.
const OWN: u64 = 1 << 63;

impl Choices {
    /// Whether the level allows this sight of the statement, given what the statement did with it.
    pub(super) fn allowed(&self, machine: &Machine<'_>, step: &Step, sight: &Sight) -> bool {
        let Ok(outcome) = &step.result else { return false };
        match self.rules.family {
            Family::Committed(Reading::Statement) => outcome.writes.iter().all(|write| {
                let latest = machine.last_writer(write.table, &write.key, self.here);
                let newest = |pin: &Pin| pin.at == self.here && !pin.missed && *pin.key == *write.key;
                let pinned = sight.pins.iter().any(newest);
                pinned || latest.is_none_or(|(state, _)| state <= sight.at)
            }),
            Family::Repeatable => outcome.reads.rows.iter().filter(|read| read.present).all(|read| {
                let latest =
                    machine.last_writer(read.table, &read.key, self.here).map_or(0, |(state, _)| state);
                read.stamp.is_none_or(|stamp| stamp >= OWN || machine.position_of(stamp) >= latest)
            }),
            _ => true,
        }
    }

    /// All sights of the next statement that fit and are allowed, each with other writes; one is enough where nothing
    /// is written.
    pub(super) fn options(&mut self, machine: &mut Machine<'_>) -> Result<Vec<Sight>, Outside> {
        let mut found = Found { sights: Vec::new(), writes: Vec::new(), only: false };
        match self.rules.family {
            Family::Committed(Reading::Statement) => self.statement_sights(machine, &mut found)?,
            Family::Committed(Reading::Item) => {
                self.statement_sights(machine, &mut found)?;
                self.row_sights(machine, &mut found)?;
            }
            _ => self.row_sights(machine, &mut found)?,
        }
        Ok(found.sights)
    }

    /// Tries one sight of the next statement: what it looked at, and whether it looks again at rows that it waited for.
    fn attempt(
        &mut self,
        machine: &mut Machine<'_>,
        sight: &Sight,
        found: &mut Found,
    ) -> Result<(Ran, bool), Outside> {
        if self.is_over() {
            return Ok((Ran::default(), false));
        }
        let op = self.ops[self.levels.len()];
        let (mut transaction, _) = self.prefix(machine)?;
        let step = self.step(machine, &mut transaction, op, sight);
        let (mut seen, mut looks_again) = (Ran::default(), true);
        match step {
            Ok(step) => {
                looks_again = step.looks_again;
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
        Ok((seen, looks_again))
    }

    /// Whole states, latest first.
    fn statement_sights(&mut self, machine: &mut Machine<'_>, found: &mut Found) -> Result<(), Outside> {
        let mut next = Some(self.here);
        let oldest = if self.recent { self.low } else { machine.oldest() };
        while let Some(at) = next {
            let (seen, looks_again) = self.attempt(machine, &Sight::state(at), found)?;
            if found.only {
                return Ok(());
            }
            let statement = self.rules.family == Family::Committed(Reading::Statement);
            if statement && looks_again && at < self.here {
                self.rechecked(machine, at, &seen, found)?;
            }
            next = machine.earlier(&seen, at)?.filter(|&earlier| earlier >= oldest);
        }
        Ok(())
    }

    /// A locking statement looks again at the rows that it found: they are as of the state before its transaction's
    /// commit, or gone if they ended meanwhile. What it only reads on the way need not be looked at again.
    fn rechecked(
        &mut self,
        machine: &mut Machine<'_>,
        at: u32,
        seen: &Ran,
        found: &mut Found,
    ) -> Result<(), Outside> {
        // A row that goes on under another key is followed there, which is not known here.
        self.cut |= machine.moves_rows();
        let mut sights = vec![Sight::state(at)];
        let mut known: Vec<(TableId, &margay_sql::Key)> = Vec::new();
        for read in seen.rows.iter().filter(|read| read.present) {
            let newest = machine.last_writer(read.table, &read.key, self.here);
            if newest.is_none_or(|(state, _)| state <= at) || known.contains(&(read.table, &read.key)) {
                continue;
            }
            known.push((read.table, &read.key));
            let only_read =
                !seen.writes.is_empty() && seen.writes.iter().all(|write| write.table != read.table);
            let then = only_read.then_some(None);
            let now = Some(machine.pin(read.table, &read.key, self.here));
            let gone = machine.end_of(read.table, &read.key, at, self.here).map(Some);
            let pins: Vec<Option<Pin>> = [now].into_iter().chain(gone).chain(then).collect();
            let with = |sight: &Sight, pin: &Option<Pin>| Sight {
                at,
                pins: sight.pins.iter().chain(pin).cloned().collect(),
            };
            sights = pins.iter().flat_map(|pin| sights.iter().map(move |sight| with(sight, pin))).collect();
            if sights.len() > MOST {
                self.cut = true;
                return Ok(());
            }
        }
        for sight in sights.into_iter().filter(|sight| !sight.pins.is_empty()) {
            self.attempt(machine, &sight, found)?;
        }
        Ok(())
    }

    /// Every combination of the versions of the rows that matter.
    fn row_sights(&mut self, machine: &mut Machine<'_>, found: &mut Found) -> Result<(), Outside> {
        let mut open = vec![Sight::state(self.here)];
        let mut tried = 0;
        while let Some(sight) = open.pop() {
            tried += 1;
            if found.only {
                return Ok(());
            }
            if tried > MOST {
                self.cut = true;
                return Ok(());
            }
            let mut leaf = Found { sights: Vec::new(), writes: Vec::new(), only: false };
            let (seen, _) = self.attempt(machine, &sight, &mut leaf)?;
            match self.undecided(machine, &sight, &seen)? {
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

    /// The ways in which a row can be seen: as of its versions, latest first, or not at all where it was replaced.
    fn pins(&self, machine: &Machine<'_>, table: TableId, key: &margay_sql::Key) -> Vec<Pin> {
        let states = machine.states_of(table, key, self.here).into_iter();
        let missed = matches!(self.rules.family, Family::Committed(_));
        let gap = missed.then(|| machine.gap(table, key, self.here)).flatten();
        states.map(|state| machine.pin(table, key, state)).chain(gap).collect()
    }

    /// A row with several versions that matters and has not been pinned.
    fn undecided(
        &self,
        machine: &Machine<'_>,
        sight: &Sight,
        seen: &Ran,
    ) -> Result<Option<(TableId, margay_sql::Key)>, Outside> {
        let open = |table: TableId, key: &margay_sql::Key| {
            let name = &machine.database().schema(table).name;
            let pinned = sight.pins.iter().any(|pin| pin.table == *name && *pin.key == **key);
            !pinned && self.pins(machine, table, key).len() > 1
        };
        if let Some(read) = seen.rows.iter().find(|read| open(read.table, &read.key)) {
            return Ok(Some((read.table, read.key.clone())));
        }
        for predicate in &seen.predicates {
            let keys = machine.ever_found(predicate, self.here)?;
            if let Some(key) = keys.into_iter().find(|key| open(predicate.table, key)) {
                return Ok(Some((predicate.table, key)));
            }
        }
        // A statement that fails does not tell what it looked at.
        let rows = seen
            .taken
            .iter()
            .flat_map(|&table| machine.database().keys(table).into_iter().map(move |key| (table, key)));
        Ok(rows.into_iter().find(|(table, key)| open(*table, key)))
    }
}

/// The sights of a statement that fit.
struct Found {
    sights: Vec<Sight>,
    writes: Vec<Vec<Write>>,
    /// One is found, and no other can make a difference.
    only: bool,
}

impl Found {
    fn add(&mut self, sight: &Sight, writes: Vec<Write>, locks: bool) {
        if self.writes.iter().any(|known| same_writes(known, &writes)) {
            return;
        }
        self.only = !locks;
        self.sights.push(sight.clone());
        self.writes.push(writes);
    }

    fn merge(&mut self, other: Found) {
        for (sight, writes) in other.sights.iter().zip(other.writes) {
            self.add(sight, writes, !other.only);
        }
    }
}
