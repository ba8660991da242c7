//! Writes of which nobody saw which rows they changed, table by table.
//!
//! # Problem
//! A predicate update whose rows were not seen may have changed any row of its table. To note that
//! in every row would cost as much as the table has rows.
//!
//! # Algorithm
//! Such writes are appended to the table's log. A row that is looked at catches up with the log
//! from where it was: what may have touched it becomes a version that may have been there. The log
//! forgets its oldest entries; a row that comes too late for them finds one version in their place
//! for each thing that they made of rows, as if they had touched all.
//!
//! # Cost
//! O(new entries) for a row that is looked at; nothing where all writes were seen.

use std::collections::VecDeque;
use std::sync::Arc;

use margay_history::{Interval, ObjectId, TxnId, ValueId, Values, Version};
use margay_mechanisms::{Fact, Pattern, Searches, Unseen};

use crate::record::FORGOTTEN;

/// So many entries are kept.
const KEPT: usize = 256;

/// So many entries are kept at most, of those whose transactions may still be looked at.
const MAX_ENTRIES: usize = 4_096;

/// So many things that the forgotten ones made of rows are told apart.
const APART: usize = 8;

/// What one transaction may have made of rows.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub txn: TxnId,
    /// Which rows; all if nothing is known.
    pub unseen: Option<Unseen>,
    /// The objects that the same transaction wrote visibly, sorted: what it made of them says
    /// already what this may have made of them.
    pub written: Arc<[ObjectId]>,
    pub fact: Fact,
}

#[derive(Default, Debug)]
pub(crate) struct Log {
    /// How many entries have been forgotten.
    forgotten: u64,
    entries: VecDeque<Entry>,
    /// What the forgotten ones may have made of rows, and when.
    old: Vec<Fact>,
}

impl Log {
    pub fn push(&mut self, entry: Entry, horizon: i64) {
        self.entries.push_back(entry);
        let passed = |oldest: &Entry| oldest.fact.installed.after < horizon;
        while self.entries.len() > KEPT
            && (self.entries.len() > MAX_ENTRIES || self.entries.front().is_some_and(passed))
            && let Some(oldest) = self.entries.pop_front()
        {
            self.forgotten += 1;
            self.forget(oldest.fact);
        }
    }

    /// Remembers of an entry only what it made of rows.
    fn forget(&mut self, fact: Fact) {
        if let Some(same) = self.old.iter_mut().find(|old| old.pattern == fact.pattern) {
            same.installed = hull(same.installed, fact.installed);
            return;
        }
        let installed = self.old.iter().fold(fact.installed, |all, old| hull(all, old.installed));
        if self.old.len() == APART {
            self.old.clear();
            self.old.push(unseen(installed, Pattern::Any));
        } else {
            self.old.push(unseen(fact.installed, fact.pattern));
        }
    }

    /// How many entries there have been.
    pub fn len(&self) -> u64 {
        self.forgotten + self.entries.len() as u64
    }

    /// The versions that a row has to add that has seen the first `seen` entries.
    pub fn since(
        &self,
        seen: u64,
        object: ObjectId,
        searches: &Searches,
        values: &Values,
    ) -> Vec<(Version, Fact)> {
        let old = self.old.iter().filter(|_| seen < self.forgotten).map(|old| (FORGOTTEN, old.clone()));
        let touches = |entry: &&Entry| {
            let told = entry.fact.pattern != Pattern::Any && entry.written.binary_search(&object).is_ok();
            !told && entry.unseen.as_ref().is_none_or(|unseen| unseen.touches(object, searches, values))
        };
        let known = seen.saturating_sub(self.forgotten) as usize;
        let new = self.entries.iter().skip(known).filter(touches);
        old.chain(new.map(|e| (Version::Of(e.txn), e.fact.clone()))).collect()
    }
}

impl Log {
    /// What others than `me` may have deleted of a row, as far as it is kept.
    pub fn deletions<'a>(
        &'a self,
        (object, me): (ObjectId, TxnId),
        searches: &'a Searches,
        values: &'a Values,
    ) -> impl Iterator<Item = &'a Fact> {
        let touches = move |entry: &&Entry| {
            entry.fact.pattern.may_be_absent()
                && entry.txn != me
                && entry.unseen.as_ref().is_none_or(|unseen| unseen.touches(object, searches, values))
        };
        self.old.iter().chain(self.entries.iter().filter(touches).map(|entry| &entry.fact))
    }
}

/// A version that may have been there.
fn unseen(installed: Interval, pattern: Pattern) -> Fact {
    Fact { installed, certain: false, pattern, ..Fact::initial(ValueId::NULL) }
}

fn hull(one: Interval, other: Interval) -> Interval {
    Interval::new(one.before.min(other.before), one.after.max(other.after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_row_finds_one_version_in_place_of_the_oldest() {
        let mut log = Log::default();
        let fact = |at| Fact { installed: Interval::new(at, at + 1), ..Fact::initial(ValueId::NULL) };
        let all = KEPT as u32 + 10;
        for txn in 0..all {
            log.push(
                Entry { txn: TxnId(txn), unseen: None, written: [].into(), fact: fact(i64::from(txn)) },
                i64::MAX,
            );
        }
        let (searches, values) = (Searches::default(), Values::default());
        let since = |seen| log.since(seen, ObjectId(0), &searches, &values);
        assert_eq!(log.len(), u64::from(all));
        assert_eq!(since(0).len(), KEPT + 1);
        assert_eq!((since(0)[0].0, since(0)[0].1.installed), (FORGOTTEN, Interval::new(0, 10)));
        assert_eq!(since(u64::from(all) - 2).len(), 2);
        assert!(since(u64::from(all)).is_empty());
        // What a transaction made visibly says it already.
        let pattern = Pattern::unknown(Vec::new());
        let told = Entry {
            written: [ObjectId(0)].into(),
            fact: Fact { pattern, ..fact(0) },
            ..log.entries[0].clone()
        };
        let mut other = Log::default();
        other.push(told, i64::MAX);
        assert!(other.since(0, ObjectId(0), &searches, &values).is_empty());
        assert_eq!(other.since(0, ObjectId(1), &searches, &values).len(), 1);
        // What the forgotten ones made of rows is told apart, and of many kinds becomes one.
        for number in 0..APART as u32 {
            let fact = Fact { pattern: Pattern::Value(ValueId(100 + number)), ..fact(0) };
            log.forget(fact.clone());
            log.forget(fact);
        }
        assert!(log.old.len() <= APART && log.old[0].pattern == Pattern::Any);
    }
}
