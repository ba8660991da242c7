//! Mutual exclusion: the locks of transactions that have ended are held against each other.
//!
//! # Algorithm
//! A lock was held for certain from when its operation was answered until its transaction's end was called for. Two that exclude each other and were held at the same time are a
//! violation. A search locks what it searched where the database says so: it meets the writes that made a row match meanwhile.

use margay_history::{ObjectId, TxnId, Values};
use margay_levels::profile::Granularity;
use margay_verdict::Broken;
use margay_verdict::mechanism::need_not_meet;

use super::Mirror;
use crate::store::{Held, Region};
use crate::txn::{Search, Taken, Txn};

/// The object that stands for the whole database in the lock table.
const DATABASE: ObjectId = ObjectId(u32::MAX);

impl Mirror {
    /// Holds the locks of a transaction that has ended against those of others.
    pub(super) fn hold(&mut self, txn: TxnId, ended: &Txn, values: &Values) {
        let Some(granularity) = self.mechanisms.write_locks else { return };
        let (reads, until) = (ended.course.locks_reads(&self.mechanisms), ended.course.held_until());
        let regions = self.mechanisms.read_regions;
        let counts = |taken: &&Taken| taken.counts(reads, regions) && ended.course.was_done(taken.at);
        for (place, taken) in ended.taken.iter().enumerate().filter(|(_, taken)| counts(taken)) {
            let Taken { op, at, object, kind, value, .. } = *taken;
            let stayed = ended.changed_again(place).unwrap_or(until).min(until);
            let exclusive = taken.exclusive();
            let lock = Held { txn, op, by: at.after, until, stayed, exclusive, kind, value };
            if granularity == Granularity::Database {
                if kind.writes() {
                    self.lock(DATABASE, object, lock, values);
                    break;
                }
                continue;
            }
            self.lock(object, object, lock, values);
            if kind.writes() {
                self.enter(object, lock, values);
            }
        }
        self.lock_regions(txn, ended, reads, values);
    }

    /// Locks an object, or what stands for the whole database.
    fn lock(&mut self, key: ObjectId, object: ObjectId, lock: Held, values: &Values) {
        let horizon = self.horizon();
        let record = self.store.record(key, &self.searches);
        if !record.held.is_empty() {
            record.held.retain(|old| old.until >= horizon);
        }
        let other = record.held.iter().find(|other| excludes(other, &lock, values)).copied();
        record.held.push(lock);
        if let Some(other) = other {
            self.report(vec![other.txn, lock.txn], Broken::Locks { object, ops: [other.op, lock.op] });
        }
    }

    /// Holds a write against the searches that lock what they searched.
    fn enter(&mut self, object: ObjectId, lock: Held, values: &Values) {
        let Some(table) = self.searches.table_of(object) else { return };
        let regions = &self.store.table(table).regions;
        if regions.is_empty() {
            return;
        }
        let made = lock.made(values);
        let other = regions.iter().find(|region| {
            overlaps(region, &lock)
                && self.searches.holds(region.predicate, object, &made, values) == Some(true)
        });
        if let Some(&Region { txn, op, .. }) = other {
            self.report(vec![txn, lock.txn], Broken::Locks { object, ops: [op, lock.op] });
        }
    }

    /// Locks what a transaction searched, and holds that against the writes of others.
    fn lock_regions(&mut self, txn: TxnId, ended: &Txn, reads: bool, values: &Values) {
        let (scans, updates) = (reads && self.mechanisms.read_regions, self.mechanisms.write_regions);
        let (until, horizon) = (ended.course.held_until(), self.horizon());
        let locks = |search: &&Search| if search.update { updates } else { scans || search.locks };
        for search in ended.searches.iter().filter(locks) {
            let Some(table) = self.searches.searched(search.predicate) else { continue };
            if !ended.course.was_done(search.at) {
                continue;
            }
            let (op, by, predicate) = (search.op, search.at.after, search.predicate);
            let region = Region { txn, op, by, until, predicate };
            self.store.sort_rows(predicate, &self.searches, values);
            for (object, lock) in self.entering(&region, values) {
                self.report(vec![lock.txn, txn], Broken::Locks { object, ops: [lock.op, op] });
            }
            let regions = &mut self.store.table(table).regions;
            regions.retain(|old| old.until >= horizon);
            regions.push(region);
        }
    }

    /// The writes that made a row match what was searched while both were locked; one for each object.
    fn entering(&self, region: &Region, values: &Values) -> Vec<(ObjectId, Held)> {
        let enters = |object: ObjectId, lock: &Held| {
            lock.kind.writes()
                && overlaps(region, lock)
                && self.searches.holds(region.predicate, object, &lock.made(values), values) == Some(true)
        };
        let of = |object: ObjectId| {
            self.store.get(object).held.iter().find(|lock| enters(object, lock)).map(|lock| (object, *lock))
        };
        self.store.rows(region.predicate, &self.searches).filter_map(of).collect()
    }
}

/// Whether two locks were held at the same time and must not have been.
fn excludes(one: &Held, other: &Held, values: &Values) -> bool {
    one.txn != other.txn
        && (one.exclusive || other.exclusive)
        && one.until > other.by
        && other.until > one.by
        && !need_not_meet((one.kind, one.value), (other.kind, other.value), values)
}

/// Whether a search's lock and that of a write were held at the same time, and what was written was still there to be found.
fn overlaps(region: &Region, lock: &Held) -> bool {
    region.txn != lock.txn && region.until > lock.by && lock.stayed > region.by
}
