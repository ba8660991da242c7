//! Who writes what: the writers of each object, and the objects of each writer.

use hashbrown::HashMap;
use margay_history::{ObjectId, TxnId};

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
    /// `written` is by transaction; a transaction may stand there more than once for one object.
    pub(crate) fn new(txns: usize, written: &[(ObjectId, TxnId)], committed: &[bool]) -> Self {
        let mut all =
            Self { starts: Vec::with_capacity(txns + 1), objects: Vec::with_capacity(written.len()) };
        let mut own: Vec<ObjectId> = Vec::new();
        let mut rest = written;
        for (txn, &committed) in committed.iter().enumerate().take(txns) {
            all.starts.push(all.objects.len() as u32);
            let count = rest.iter().take_while(|pair| pair.1.index() == txn).count();
            let (of_txn, others) = rest.split_at(count);
            rest = others;
            if committed {
                own.clear();
                own.extend(of_txn.iter().map(|pair| pair.0));
                own.sort_unstable();
                own.dedup();
                all.objects.extend_from_slice(&own);
            }
        }
        all.starts.push(all.objects.len() as u32);
        all
    }

    /// The objects that a transaction writes, sorted.
    pub(crate) fn of(&self, txn: TxnId) -> &[ObjectId] {
        &self.objects[self.starts[txn.index()] as usize..self.starts[txn.index() + 1] as usize]
    }

    pub(crate) fn has(&self, txn: TxnId, object: ObjectId) -> bool {
        self.of(txn).binary_search(&object).is_ok()
    }
}
