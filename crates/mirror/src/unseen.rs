//! Writes that nobody saw: noted when their transaction ends, and told to an object when somebody looks at it.

use std::sync::Arc;

use margay_history::{ObjectId, Values};
use margay_mechanisms::{Fact, Pattern, Written};

use crate::log::Entry;
use crate::mirror::Mirror;
use crate::shard::made;
use crate::txn::{Ended, Txn};

impl Mirror {
    /// What a transaction may have written without that anybody saw it.
    pub(crate) fn note_unseen(&mut self, ended: &Txn, values: &Values) {
        let (opaque, horizon) = (ended.course.is_opaque().then_some(None), self.horizon());
        if let Some(fact) = Fact::unheard(&ended.course, self.mechanisms.view) {
            let entry = Entry { txn: ended.id, unseen: None, written: [].into(), fact };
            self.store.note(None, entry, horizon);
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
            made(&alone, ended, &self.mechanisms, values, |fact| _ = first.get_or_insert(fact));
            let Some(fact) = first else { continue };
            let table = unseen.and_then(|unseen| unseen.table(&self.searches));
            let (txn, unseen, written) = (ended.id, unseen.cloned(), Arc::clone(&written));
            self.store.note(table, Entry { txn, unseen, written, fact }, horizon);
        }
    }

    /// The objects that transactions have looked at get what unseen writes may have made of them.
    pub(crate) fn catch_up(&mut self, ready: &[Ended], values: &Values) {
        let searches = ready.iter().flat_map(|ended| &ended.searches);
        for search in searches.filter(|search| search.whole) {
            self.store.prepare(search.predicate, &self.searches, values);
        }
        if self.store.saw_all() {
            return;
        }
        let horizon = self.horizon();
        for ended in ready {
            let searched = ended.searches.iter().filter(|search| search.whole);
            let rows = searched.flat_map(|search| self.store.may_match(search.predicate, &self.searches));
            let mut objects: Vec<ObjectId> = rows.collect();
            objects.extend(ended.reads.iter().map(|seen| seen.object));
            if self.mechanisms.skips_unchanged {
                objects.extend(ended.writes.iter().map(|(object, _)| *object));
            }
            for object in objects {
                self.store.catch_up(object, horizon, &self.searches, values);
            }
        }
    }
}
