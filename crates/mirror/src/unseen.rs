//! Writes that nobody saw: noted when their transaction ends, and told to an object when somebody
//! looks at it.

use std::sync::Arc;

use margay_history::ObjectId;
use margay_mechanisms::{Fact, Pattern, Unseen, Written};

use crate::log::{Entry, Log};
use crate::shard::{Fixed, Shard, made};
use crate::txn::{Ended, Txn};

impl Shard {
    /// What a transaction may have written without that anybody saw it.
    pub(crate) fn note_unseen(&mut self, ended: &Txn, fixed: Fixed<'_>) {
        let (opaque, mechanisms) = (ended.course.is_opaque().then_some(None), fixed.mechanisms);
        if let Some(fact) = Fact::unheard(&ended.course, mechanisms.view) {
            let entry = Entry { txn: ended.id, unseen: None, written: [].into(), fact };
            self.everywhere.push(entry, fixed.horizon);
        }
        if ended.unseen.is_empty() && opaque.is_none() {
            return;
        }
        let mut written: Vec<ObjectId> = ended.writes.iter().map(|(object, _)| *object).collect();
        written.sort_unstable();
        let written: Arc<[ObjectId]> = written.into();
        for unseen in ended.unseen.iter().map(Some).chain(opaque) {
            let mut alone = Written::default();
            alone.push_unseen(unseen.map_or(&Pattern::Any, |unseen| &unseen.pattern));
            let mut first = None;
            made(&alone, ended, mechanisms, fixed.world.values, |fact| _ = first.get_or_insert(fact));
            let Some(fact) = first else { continue };
            let entry = Entry { txn: ended.id, unseen: unseen.cloned(), written: Arc::clone(&written), fact };
            self.log_of(unseen, fixed).push(entry, fixed.horizon);
        }
    }

    /// The log that a write of which nobody saw what it changed belongs to.
    fn log_of(&mut self, unseen: Option<&Unseen>, fixed: Fixed<'_>) -> &mut Log {
        match unseen.and_then(|unseen| unseen.table(fixed.world.searches)) {
            Some(table) => &mut self.table(table).unseen,
            None => &mut self.everywhere,
        }
    }

    /// The objects that transactions have looked at get what unseen writes may have made of them.
    pub(crate) fn catch_up_with(&mut self, ready: &[Ended], fixed: Fixed<'_>) {
        let searches = ready.iter().flat_map(|ended| &ended.searches);
        for search in searches.filter(|search| search.whole) {
            self.prepare(search.predicate, fixed.world);
        }
        // Whether everything that was written was seen.
        if self.everywhere.len() == 0 && self.tables.values().all(|table| table.unseen.len() == 0) {
            return;
        }
        for ended in ready {
            let searched = ended.searches.iter().filter(|search| search.whole);
            let rows = searched.flat_map(|search| self.may_match(search.predicate, fixed.world));
            let mut objects: Vec<ObjectId> = rows.collect();
            objects.extend(ended.reads.iter().map(|seen| seen.object));
            if fixed.mechanisms.skips_unchanged {
                objects.extend(ended.writes.iter().map(|(object, _)| *object));
            }
            let share = self.share;
            for object in objects.into_iter().filter(|object| share.owns(*object)) {
                self.catch_up(object, fixed);
                self.enroll(fixed.world.searches);
            }
        }
    }
}
