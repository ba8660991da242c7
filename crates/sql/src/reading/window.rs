//! What a verifier asks of a table beyond statements: indexes, rows seen as of other stamps, and a
//! window of recent versions that moves forward and can be taken back.
//!
//! # Invariants
//! - Forgetting up to a stamp changes nothing that a snapshot at or after that stamp sees.
//! - Taking back to a stamp leaves exactly the versions that were committed up to it.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashSet;

use crate::error::SqlError;
use crate::reading::database::{Database, Transaction};
use crate::reading::outcome::PredicateRead;
use crate::reading::plan::TableId;
use crate::reading::store::{Key, PENDING, Table, Version};
use crate::value::Value;

/// A committed version: its stamp, what it is, and what was there before.
type Change<'a> = (u64, Option<&'a Version>, Option<&'a Version>);

impl Database {
    /// From now on keeps a journal of commits, which [`Database::forget`] and
    /// [`Database::take_back`] need, and makes an index for every column that a statement looks
    /// rows up by. Numbers that another database gave to rows are not known here: statements that
    /// would give some are refused. Called before the first transaction.
    pub fn keep_window(&mut self, indexed: bool) {
        (self.indexed, self.unnumbered) = (indexed, true);
        for table in &mut self.tables {
            table.keep_journal();
        }
    }

    /// Forgets versions that no snapshot at or after `stamp` sees.
    pub fn forget(&mut self, stamp: u64) {
        self.tables.iter_mut().for_each(|table| table.forget(stamp));
    }

    /// Undoes every commit after `stamp`. No transaction may be open.
    pub fn take_back(&mut self, stamp: u64) {
        self.tables.iter_mut().for_each(|table| table.take_back(stamp));
        self.set_clock(stamp);
    }

    /// Makes a row be seen as of `stamp`, whatever the snapshot, until [`Database::unpin`].
    pub fn pin(&mut self, table: TableId, key: &[Value], stamp: u64) {
        self.tables[table.0 as usize].pin(key, stamp);
    }

    /// Makes a row not be seen, whatever the snapshot, until [`Database::unpin`].
    pub fn hide(&mut self, table: TableId, key: &[Value]) {
        // The first commit has a higher stamp.
        self.pin(table, key, 0);
    }

    /// Takes all pins back.
    pub fn unpin(&mut self) {
        self.tables.iter_mut().for_each(Table::unpin);
    }

    /// Makes a transaction not have written a row.
    pub fn withdraw(&mut self, transaction: &mut Transaction, table: TableId, key: &[Value]) {
        if let Some(row) = self.tables[table.0 as usize].points.get(key).copied() {
            self.tables[table.0 as usize].settle(row, transaction.number(), None);
        }
    }

    /// The stamp of the last commit at or before `at` that changed a row of the table, as far as it
    /// is remembered.
    pub fn last_write(&self, table: TableId, at: u64) -> Option<u64> {
        self.tables[table.0 as usize].changes(at).next().map(|(stamp, _, _)| stamp)
    }

    /// The rows that the commit with this stamp wrote, as far as it is remembered.
    pub fn written_at(&self, stamp: u64) -> Vec<(TableId, Key)> {
        let written = |(id, table): (u32, &Table)| {
            let journal = table.journal.iter().flatten().rev();
            let here = journal.skip_while(|(at, _)| *at > stamp).take_while(|(at, _)| *at == stamp);
            let keys = here.filter_map(|(_, row)| table.keys[*row as usize].clone());
            keys.map(|key| (TableId(id), key)).collect::<Vec<_>>()
        };
        (0..).zip(&self.tables).flat_map(written).collect()
    }

    /// The stamp of the last commit at or before `at`, and later than `after`, that changed what a
    /// predicate finds, as far as it is remembered.
    ///
    /// # Errors
    /// When the condition has no value on a row.
    pub fn last_change(&self, read: &PredicateRead, after: u64, at: u64) -> Result<Option<u64>, SqlError> {
        let changes = self.tables[read.table.0 as usize].changes(at);
        for (stamp, new, old) in changes.take_while(|(stamp, _, _)| *stamp > after) {
            for row in [new, old].into_iter().flatten().filter_map(|version| version.row.as_ref()) {
                if read.matches(row)? {
                    return Ok(Some(stamp));
                }
            }
        }
        Ok(None)
    }

    /// The stamp of the last commit at or before `at` that wrote the row, and whether the row was
    /// there then.
    pub fn last_version(&self, table: TableId, key: &[Value], at: u64) -> Option<(u64, bool)> {
        let versions = self.tables[table.0 as usize].versions_of(key);
        let seen = versions.iter().rev().find(|version| version.stamp <= at)?;
        Some((seen.stamp, seen.row.is_some()))
    }

    /// The keys of all rows of a table that have a remembered version.
    pub fn keys(&self, table: TableId) -> Vec<Key> {
        self.tables[table.0 as usize].versions().map(|(key, _)| key.clone()).collect()
    }

    /// All tables, with their names.
    pub fn tables(&self) -> impl Iterator<Item = (&str, TableId)> {
        self.names.iter().map(|(name, id)| (name.as_str(), *id))
    }
}

impl Table {
    fn keep_journal(&mut self) {
        if self.journal.is_some() {
            return;
        }
        let mut journal: Vec<(u64, u32)> = Vec::new();
        for (row, versions) in self.rows.iter().enumerate() {
            let committed = versions.iter().filter(|version| version.stamp & PENDING == 0);
            journal.extend(committed.map(|version| (version.stamp, row as u32)));
        }
        journal.sort_unstable();
        self.journal = Some(VecDeque::from(journal));
    }

    fn pin(&mut self, key: &[Value], stamp: u64) {
        if let Some(&row) = self.points.get(key) {
            self.pins.insert(row, stamp);
        }
    }

    fn unpin(&mut self) {
        self.pins.clear();
    }

    /// The committed changes at or before `at`, latest first.
    fn changes(&self, at: u64) -> impl Iterator<Item = Change<'_>> {
        let journal = self.journal.iter().flatten().rev();
        journal.skip_while(move |(stamp, _)| *stamp > at).map(|&(stamp, row)| {
            let versions = &self.rows[row as usize];
            let place = versions.iter().position(|version| version.stamp == stamp);
            let new = place.map(|place| &versions[place]);
            (stamp, new, place.and_then(|place| place.checked_sub(1)).map(|before| &versions[before]))
        })
    }

    /// Makes an index on a column, if there is none.
    pub(crate) fn index(&mut self, column: usize) {
        if self.indexes.iter().any(|(known, _)| *known == column) {
            return;
        }
        let mut sets: BTreeMap<Value, HashSet<u32>> = BTreeMap::new();
        for (row, versions) in self.rows.iter().enumerate() {
            for record in versions.iter().filter_map(|version| version.row.as_ref()) {
                sets.entry(record[column].group_key(self.dialect)).or_default().insert(row as u32);
            }
        }
        let index = sets.into_iter().map(|(value, rows)| (value, rows.into_iter().collect())).collect();
        self.indexes.push((column, index));
    }

    fn forget(&mut self, stamp: u64) {
        let Some(mut journal) = self.journal.take() else { return };
        while journal.front().is_some_and(|(at, _)| *at <= stamp) {
            let Some((at, row)) = journal.pop_front() else { break };
            let versions = &mut self.rows[row as usize];
            let Some(place) = versions.iter().position(|version| version.stamp == at) else { continue };
            let gone: Vec<Version> = versions.drain(..place).collect();
            self.leave(row, gone);
            let versions = &self.rows[row as usize];
            if versions.len() == 1 && versions[0].row.is_none() {
                self.remove(row);
            }
        }
        self.journal = Some(journal);
    }

    fn take_back(&mut self, stamp: u64) {
        let Some(mut journal) = self.journal.take() else { return };
        while journal.back().is_some_and(|(at, _)| *at > stamp) {
            let Some((at, row)) = journal.pop_back() else { break };
            let versions = &mut self.rows[row as usize];
            let Some(place) = versions.iter().position(|version| version.stamp == at) else { continue };
            let gone = vec![versions.remove(place)];
            self.leave(row, gone);
            if self.rows[row as usize].is_empty() {
                self.remove(row);
            }
        }
        self.journal = Some(journal);
    }

    /// Takes a row out of the indexes under the values that none of its versions has any more.
    pub(crate) fn leave(&mut self, row: u32, gone: Vec<Version>) {
        for record in gone.iter().filter_map(|version| version.row.as_ref()) {
            for (column, index) in &mut self.indexes {
                let value = record[*column].group_key(self.dialect);
                let mut left = self.rows[row as usize].iter().filter_map(|version| version.row.as_ref());
                if left.any(|other| other[*column].group_key(self.dialect) == value) {
                    continue;
                }
                if let Some(rows) = index.get_mut(&value) {
                    rows.retain(|other| *other != row);
                    if rows.is_empty() {
                        index.remove(&value);
                    }
                }
            }
        }
        if !self.uniques.is_empty() {
            self.leave_uniques(row, &gone);
        }
    }

    fn leave_uniques(&mut self, row: u32, gone: &[Version]) {
        for constraint in 0..self.uniques.len() {
            for record in gone.iter().filter_map(|version| version.row.as_ref()) {
                let Some(values) = self.unique_values(constraint, record) else { continue };
                let mut left = self.rows[row as usize].iter().filter_map(|version| version.row.as_ref());
                if left.any(|other| self.unique_values(constraint, other).as_ref() == Some(&values)) {
                    continue;
                }
                let points = &self.points;
                if let Some(keys) = self.uniques[constraint].get_mut(&values) {
                    keys.retain(|key| points.get(key) != Some(&row));
                    if keys.is_empty() {
                        self.uniques[constraint].remove(&values);
                    }
                }
            }
        }
    }

    /// Removes a row that no snapshot sees.
    pub(crate) fn remove(&mut self, row: u32) {
        let Some(key) = self.keys[row as usize].take() else { return };
        self.order.remove(&key);
        self.points.remove(&key);
        self.rows[row as usize].clear();
        self.free.push(row);
    }
}
