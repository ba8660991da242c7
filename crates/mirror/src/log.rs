//! Writes of which nobody saw which rows they changed, table by table.
//!
//! # Problem
//! A predicate update whose rows were not seen may have changed any row of its table. To note that in every row would cost as much as the table has rows.
//!
//! # Algorithm
//! Such writes are appended to the table's log. A row that is looked at catches up with the log from where it was: what may have touched it becomes a version
//! that may have been there. The log forgets its oldest entries; a row that comes too late for them finds one version in their place that may be anything.
//!
//! # Cost
//! O(new entries) for a row that is looked at; nothing where all writes were seen.

use std::collections::VecDeque;

use margay_history::{Interval, ObjectId, TxnId, Values, Version};
use margay_verdict::mechanism::{Fact, Pattern, Searches, Unseen};

use crate::record::FORGOTTEN;

/// So many entries are kept.
const KEPT: usize = 256;

/// What one transaction may have made of rows.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub txn: TxnId,
    /// Which rows; all if nothing is known.
    pub unseen: Option<Unseen>,
    pub fact: Fact,
}

#[derive(Default, Debug)]
pub(crate) struct Log {
    /// How many entries have been forgotten.
    forgotten: u64,
    entries: VecDeque<Entry>,
    /// When the forgotten ones were there.
    old: Option<Interval>,
}

impl Log {
    pub fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
        if self.entries.len() > KEPT
            && let Some(oldest) = self.entries.pop_front()
        {
            let (new, old) = (oldest.fact.installed, self.old.unwrap_or(oldest.fact.installed));
            self.old = Some(Interval::new(old.before.min(new.before), old.after.max(new.after)));
            self.forgotten += 1;
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
        let old = self.old.filter(|_| seen < self.forgotten);
        let any = |installed| {
            let pattern = Pattern::Any;
            (
                FORGOTTEN,
                Fact { installed, certain: false, pattern, ..Fact::initial(margay_history::ValueId::NULL) },
            )
        };
        let touches = |entry: &&Entry| {
            entry.unseen.as_ref().is_none_or(|unseen| unseen.touches(object, searches, values))
        };
        let known = seen.saturating_sub(self.forgotten) as usize;
        let new = self.entries.iter().skip(known).filter(touches);
        old.map(any).into_iter().chain(new.map(|e| (Version::Of(e.txn), e.fact.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use margay_history::ValueId;

    use super::*;

    #[test]
    fn a_late_row_finds_one_version_in_place_of_the_oldest() {
        let mut log = Log::default();
        let fact = |at| Fact { installed: Interval::new(at, at + 1), ..Fact::initial(ValueId::NULL) };
        let all = KEPT as u32 + 10;
        for txn in 0..all {
            log.push(Entry { txn: TxnId(txn), unseen: None, fact: fact(i64::from(txn)) });
        }
        let (searches, values) = (Searches::default(), Values::default());
        let since = |seen| log.since(seen, ObjectId(0), &searches, &values);
        assert_eq!(log.len(), u64::from(all));
        assert_eq!(since(0).len(), KEPT + 1);
        assert_eq!((since(0)[0].0, since(0)[0].1.installed), (FORGOTTEN, Interval::new(0, 10)));
        assert_eq!(since(u64::from(all) - 2).len(), 2);
        assert!(since(u64::from(all)).is_empty());
    }
}
