//! Who writes what: the writers of each object, and the objects of each writer.

use hashbrown::HashMap;
use margay_history::{ObjectId, TxnId};

use crate::case::Case;

/// The writers of the objects: first those whose order is known.
#[derive(Default)]
pub(crate) struct Writers {
    starts: Vec<u32>,
    all: Vec<TxnId>,
    known: Vec<u32>,
}

impl Writers {
    /// `written` is by transaction; a transaction may stand there more than once for one object.
    pub(crate) fn new(objects: usize, written: &[(ObjectId, TxnId)], committed: &[bool]) -> Self {
        let mut writers = Self { starts: vec![0; objects + 1], all: Vec::new(), known: vec![0; objects] };
        let mut last = vec![None; objects];
        let mut is_new = |&&(object, txn): &&(ObjectId, TxnId)| {
            committed[txn.index()] && last[object.index()].replace(txn) != Some(txn)
        };
        for &(object, _) in written.iter().filter(&mut is_new) {
            writers.starts[object.index() + 1] += 1;
        }
        for object in 0..objects {
            writers.starts[object + 1] += writers.starts[object];
        }
        let mut next = writers.starts.clone();
        writers.all = vec![TxnId(0); writers.starts[objects] as usize];
        for &(object, txn) in written.iter().filter(|w| committed[w.1.index()]) {
            let place = &mut next[object.index()];
            let again = *place > writers.starts[object.index()] && writers.all[*place as usize - 1] == txn;
            if !again {
                writers.all[*place as usize] = txn;
                *place += 1;
            }
        }
        writers
    }

    fn range(&self, object: ObjectId) -> std::ops::Range<usize> {
        self.starts[object.index()] as usize..self.starts[object.index() + 1] as usize
    }

    /// All committed writers of an object: those whose order is known, in order, then the others.
    pub(crate) fn of(&self, object: ObjectId) -> &[TxnId] {
        &self.all[self.range(object)]
    }

    /// Those whose order is known.
    pub(crate) fn known(&self, object: ObjectId) -> &[TxnId] {
        &self.of(object)[..self.known[object.index()] as usize]
    }

    /// Those that come after all known ones, in no known order.
    pub(crate) fn rest(&self, object: ObjectId) -> &[TxnId] {
        &self.of(object)[self.known[object.index()] as usize..]
    }

    /// Puts the writers whose order is known first.
    pub(crate) fn settle(&mut self, object: ObjectId, order: &[TxnId]) {
        let places: HashMap<TxnId, usize> = order.iter().enumerate().map(|(i, &t)| (t, i)).collect();
        let range = self.range(object);
        self.all[range].sort_by_key(|txn| places.get(txn).copied().unwrap_or(usize::MAX));
        self.known[object.index()] = order.len() as u32;
    }
}

/// What each transaction writes, by object.
pub(crate) struct Written {
    starts: Vec<u32>,
    objects: Vec<ObjectId>,
}

impl Written {
    pub(crate) fn new(case: &Case<'_>) -> Self {
        let txns = case.history.txn_count();
        let mut starts = vec![0u32; txns + 1];
        let all = || case.history.objects().flat_map(|o| case.writers.of(o).iter().map(move |&t| (t, o)));
        all().for_each(|(txn, _)| starts[txn.index() + 1] += 1);
        for txn in 0..txns {
            starts[txn + 1] += starts[txn];
        }
        let mut next = starts.clone();
        let mut objects = vec![ObjectId(0); starts[txns] as usize];
        for (txn, object) in all() {
            objects[next[txn.index()] as usize] = object;
            next[txn.index()] += 1;
        }
        Self { starts, objects }
    }

    /// The objects that a transaction writes, sorted.
    pub(crate) fn of(&self, txn: TxnId) -> &[ObjectId] {
        &self.objects[self.starts[txn.index()] as usize..self.starts[txn.index() + 1] as usize]
    }

    pub(crate) fn has(&self, txn: TxnId, object: ObjectId) -> bool {
        self.of(txn).binary_search(&object).is_ok()
    }
}
