//! Mutual exclusion: the locks of transactions that have ended are held against each other.
//!
//! # Algorithm
//! A lock was held for certain from when its operation was answered until its transaction's end was
//! called for. Two that exclude each other and were held at the same time are a violation. A search
//! locks what it searched where the database says so: it meets the writes that made a row match
//! meanwhile, and the search of an update meets the other updates whose conditions are part of its
//! own, in the rows that they changed.
//!
//! Locks on what was searched are in every shard, each held there against the writes of the shard's
//! own rows. They are looked at when the locks of a window are done with, against the writes that
//! came before.

use std::collections::BTreeMap;

use margay_history::{ObjectId, OpId, PredicateId, TableId, TxnId, Values};
use margay_levels::profile::Granularity;
use margay_mechanisms::{World, need_not_meet};
use margay_verdict::Broken;
use margay_verdict::mechanism::Mechanisms;

use crate::record::Held;
use crate::shard::{Alarm, Fixed, Of, Shard};
use crate::table::Region;
use crate::txn::{Ended, Search, Txn};

/// The object that stands for the whole database in the lock table.
const DATABASE: ObjectId = ObjectId(u32::MAX);

impl Txn {
    /// The locks that it certainly took on some objects, with the places of their operations.
    fn locks(
        &self,
        mechanisms: &Mechanisms,
        on: impl Fn(ObjectId) -> bool,
    ) -> impl Iterator<Item = (usize, ObjectId, Held)> {
        let (reads, until) = (self.course.locks_reads(mechanisms), self.course.held_until());
        let (regions, locks_regions) = (mechanisms.read_regions, mechanisms.locks_regions());
        let all = self.taken.iter().enumerate();
        let taken = all.filter(move |(_, taken)| {
            on(taken.object) && taken.counts(reads, regions) && self.course.was_done(taken.at)
        });
        taken.map(move |(place, taken)| {
            let stayed = taken.again.min(until);
            let (txn, by, exclusive) = (self.id, taken.at.after, taken.exclusive());
            let (op, kind, value) = (taken.op, taken.kind, taken.value);
            let found_by = if locks_regions { self.found_by(op) } else { None };
            (place, taken.object, Held { txn, op, by, until, stayed, exclusive, kind, value, found_by })
        })
    }
}

impl Txn {
    /// The condition of an update.
    fn found_by(&self, op: OpId) -> Option<PredicateId> {
        self.searches.iter().find(|search| search.op == op && search.update).map(|search| search.predicate)
    }
}

impl Shard {
    /// Holds the locks of a transaction that has ended against those of others.
    pub(crate) fn hold(&mut self, number: usize, ended: &Txn, fixed: Fixed<'_>, alarms: &mut Vec<Alarm>) {
        let share = self.share;
        match fixed.mechanisms.write_locks {
            None => {}
            Some(Granularity::Database) => {
                let locks = ended.locks(fixed.mechanisms, |_| share.owns(DATABASE));
                let first = { locks }.find(|(_, _, lock)| lock.kind.writes());
                if let Some((place, object, lock)) = first {
                    alarms.extend(self.lock((number, place), (DATABASE, object), lock, fixed));
                }
            }
            Some(Granularity::Row) => {
                for (place, object, lock) in ended.locks(fixed.mechanisms, |object| share.owns(object)) {
                    alarms.extend(self.lock((number, place), (object, object), lock, fixed));
                }
            }
        }
    }

    /// Locks an object, or what stands for the whole database.
    fn lock(
        &mut self,
        (number, place): (usize, usize),
        (key, object): (ObjectId, ObjectId),
        lock: Held,
        fixed: Fixed<'_>,
    ) -> Option<Alarm> {
        let record = self.record(key, fixed.world.searches);
        if !record.held.is_empty() {
            record.held.retain(|old| old.until >= fixed.horizon);
        }
        let other = record.held.iter().find(|other| excludes(other, &lock, fixed.world.values)).copied();
        record.held.push(lock);
        other.map(|other| against(other.txn, other.op, object, &lock, (number, Of::Lock, place)))
    }
}

impl Shard {
    /// Holds what transactions searched against what others wrote, in the order in which they
    /// ended.
    pub(crate) fn hold_regions(&mut self, window: &[Ended], fixed: Fixed<'_>, alarms: &mut Vec<Alarm>) {
        let Some(granularity) = fixed.mechanisms.write_locks else { return };
        let rows = granularity == Granularity::Row;
        for (number, ended) in window.iter().enumerate() {
            if rows && self.tables.values().any(|t| !t.regions.is_empty()) {
                self.enter(number, ended, fixed, alarms);
            }
            if rows && fixed.mechanisms.locks_regions() {
                self.remember_entries(ended, fixed);
            }
            if !ended.searches.is_empty() {
                self.lock_regions(number, ended, fixed, alarms);
            }
        }
    }

    /// Searches that come later may lock what was written.
    fn remember_entries(&mut self, ended: &Txn, fixed: Fixed<'_>) {
        let share = self.share;
        for (_, object, lock) in ended.locks(fixed.mechanisms, |object| share.owns(object)) {
            if let (Some(table), true) = (fixed.world.searches.table_of(object), lock.kind.writes()) {
                self.table(table).entries.push(object, lock, fixed.horizon);
            }
        }
    }

    /// Holds writes against the searches that lock what they searched.
    fn enter(&self, number: usize, ended: &Txn, fixed: Fixed<'_>, alarms: &mut Vec<Alarm>) {
        let World { values, searches } = fixed.world;
        for (place, object, lock) in ended.locks(fixed.mechanisms, |object| self.share.owns(object)) {
            let table = searches.table_of(object).and_then(|table| self.tables.get(&table));
            let Some(table) = table.filter(|table| lock.kind.writes() && !table.regions.is_empty()) else {
                continue;
            };
            let made = lock.made(values);
            let other = table.regions.iter().find(|region| {
                overlaps(region, &lock)
                    && (searches.holds(region.predicate, object, &made, values) == Some(true)
                        || finds(region, &lock, fixed))
            });
            let place = (number, Of::Lock, place);
            alarms.extend(other.map(|other| against(other.txn, other.op, object, &lock, place)));
        }
    }

    /// Locks what a transaction searched, and holds that against the writes of others.
    fn lock_regions(&mut self, number: usize, ended: &Txn, fixed: Fixed<'_>, alarms: &mut Vec<Alarm>) {
        let mechanisms = fixed.mechanisms;
        let scans = ended.course.locks_reads(mechanisms) && mechanisms.read_regions;
        let (until, updates) = (ended.course.held_until(), mechanisms.write_regions);
        let locks = |search: &Search| if search.update { updates } else { scans || search.locks };
        for (place, search) in ended.searches.iter().enumerate().filter(|(_, search)| locks(search)) {
            let Some(table) = fixed.world.searches.searched(search.predicate) else { continue };
            if !ended.course.was_done(search.at) {
                continue;
            }
            let (op, by, predicate) = (search.op, search.at.after, search.predicate);
            let region = Region { txn: ended.id, op, by, until, predicate, update: search.update };
            for (object, lock) in self.entering(&region, table, fixed) {
                let (txns, ops) = ([lock.txn, ended.id], [lock.op, op]);
                let broken = Broken::Locks { object, ops };
                alarms.push(Alarm { place: (number, Of::Search, place, object), txns, broken });
            }
            let regions = &mut self.table(table).regions;
            regions.retain(|old| old.until >= fixed.horizon);
            regions.push(region);
        }
    }

    /// The writes that made a row match what was searched while both were locked, of transactions
    /// that ended before; one for each object.
    fn entering(&self, region: &Region, table: TableId, fixed: Fixed<'_>) -> BTreeMap<ObjectId, Held> {
        let World { values, searches } = fixed.world;
        let enters = |(object, lock): &&(ObjectId, Held)| {
            overlaps(region, lock)
                && (searches.holds(region.predicate, *object, &lock.made(values), values) == Some(true)
                    || finds(region, lock, fixed))
        };
        let entries = self.tables.get(&table).into_iter().flat_map(|table| table.entries.iter());
        let mut first = BTreeMap::new();
        entries.filter(enters).for_each(|(object, lock)| _ = first.entry(*object).or_insert(*lock));
        first
    }
}

/// Whether the search of an update finds the row that another update changed, because the other
/// found it by a condition that is part of its own (Leopard, appendix B). Both update it, so both
/// lock the row itself.
fn finds(region: &Region, lock: &Held, fixed: Fixed<'_>) -> bool {
    region.update
        && !fixed.mechanisms.update_search
        && lock.found_by.is_some_and(|inner| fixed.world.searches.contains(region.predicate, inner))
}

/// A lock met that of another operation.
fn against(
    txn: TxnId,
    op: OpId,
    object: ObjectId,
    lock: &Held,
    (number, of, place): (usize, Of, usize),
) -> Alarm {
    let place = (number, of, place, object);
    Alarm { place, txns: [txn, lock.txn], broken: Broken::Locks { object, ops: [op, lock.op] } }
}

/// Whether two locks were held at the same time and must not have been.
fn excludes(one: &Held, other: &Held, values: &Values) -> bool {
    one.txn != other.txn
        && (one.exclusive || other.exclusive)
        && one.until > other.by
        && other.until > one.by
        && !need_not_meet((one.kind, one.value), (other.kind, other.value), values)
}

/// Whether a search's lock and that of a write were held at the same time, and what was written was
/// still there to be found.
fn overlaps(region: &Region, lock: &Held) -> bool {
    region.txn != lock.txn && region.until > lock.by && lock.stayed > region.by
}
