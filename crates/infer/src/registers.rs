//! What is certain of the version orders of registers.
//!
//! # Algorithm
//! Three sources, each a number of pairs "this version is before that one":
//! - who reads a register and then writes it made the later version: otherwise write and read
//!   dependencies would form a cycle;
//! - session order and real time, where the question has them ([`crate::keys`]);
//! - version orders of the evidence.
//!
//! Where the pairs of the first source make a chain of all versions, or evidence names all of them,
//! the whole order is known. A cycle of pairs is a violation, and shows as one of write
//! dependencies.

use hashbrown::{HashMap, HashSet};
use margay_history::{ObjectId, TxnId, Version};

use crate::case::{Case, Next, Read};
use crate::index::Use;
use crate::{Infer, keys};

/// Versions that certainly come after a version of a register; of one source the neighbour.
type After = HashMap<(ObjectId, Version), Vec<TxnId>>;

impl Case<'_> {
    /// The versions that evidence puts in order, of committed transactions.
    pub(crate) fn evidence(&mut self) {
        let history = self.history;
        for order in &history.evidence().version_orders {
            let known: Vec<TxnId> = self.told(&order.versions);
            let pairs = known.windows(2).map(|pair| (order.object, pair[0], pair[1]));
            self.pairs.extend(pairs);
            let register = self.uses[order.object.index()] == Use::Register;
            if register && known.len() == self.writers.of(order.object).len() {
                self.writers.settle(order.object, &known);
            }
        }
    }

    fn told(&self, versions: &[Version]) -> Vec<TxnId> {
        let txn = |version: &Version| match version {
            Version::Of(txn) => Some(*txn).filter(|&txn| self.has(txn)),
            Version::Initial => None,
        };
        versions.iter().filter_map(txn).collect()
    }

    /// What follows each version of a register that was read.
    pub(crate) fn registers(&mut self, options: &Infer) {
        let mut after = After::new();
        if options.write_follows_read {
            self.updates(&mut after);
        }
        self.settle(&after);
        for order in &self.history.evidence().version_orders {
            for pair in self.told(&order.versions).windows(2) {
                after.entry((order.object, Version::Of(pair[0]))).or_default().push(pair[1]);
            }
        }
        self.orders(options, &mut after);
        let register = |read: &Read| self.uses[read.object.index()] == Use::Register;
        let mut followed = Vec::new();
        for (i, read) in self.reads.iter().enumerate().filter(|(_, read)| register(read)) {
            followed.push((i, self.next(read, &after)));
            let more = after.get(&(read.object, read.from)).into_iter().flatten().skip(1);
            self.antis.extend(more.map(|&txn| (i as u32, txn)));
        }
        followed.into_iter().for_each(|(i, next)| self.reads[i].next = next);
    }

    fn next(&self, read: &Read, after: &After) -> Next {
        let known = self.writers.known(read.object);
        match read.from {
            Version::Initial => known.first().map_or(Next::Rest, |&first| Next::Txn(first)),
            from => match after.get(&(read.object, from)).map(Vec::as_slice) {
                Some(&[txn, ..]) => Next::Txn(txn),
                _ => Next::Nothing,
            },
        }
    }

    /// Who read before it wrote.
    fn updates(&mut self, after: &mut After) {
        let mut met = HashSet::new();
        for read in self.reads.iter().filter(|r| self.uses[r.object.index()] == Use::Register) {
            if self.written.has(read.txn, read.object) && met.insert((read.object, read.from, read.txn)) {
                after.entry((read.object, read.from)).or_default().push(read.txn);
                if let Version::Of(from) = read.from {
                    self.pairs.push((read.object, from, read.txn));
                }
            }
        }
    }

    /// The whole orders that are known without evidence.
    fn settle(&mut self, after: &After) {
        for object in self.history.objects().filter(|o| self.uses[o.index()] == Use::Register) {
            if self.writers.rest(object).is_empty() {
                continue;
            }
            if let Some(order) = chain(after, object, self.writers.of(object)) {
                self.writers.settle(object, &order);
            }
        }
    }

    fn orders(&mut self, options: &Infer, after: &mut After) {
        let orders = keys::Orders {
            session: options.sequential_keys && self.question.uses_session_order(),
            time: options.linearizable_keys && self.question.uses_real_time(),
        };
        for keys::Pair { object, first, then, by } in keys::pairs(self, orders) {
            let known = after.entry((object, Version::Of(first))).or_default();
            if !known.contains(&then) {
                known.push(then);
                self.pairs.push((object, first, then));
                self.ordered.insert((object, first, then), by);
            }
        }
    }
}

/// The whole order of a register's versions, where each was made by a transaction that had read the
/// one before.
fn chain(after: &After, object: ObjectId, writers: &[TxnId]) -> Option<Vec<TxnId>> {
    if writers.len() <= 1 {
        return Some(writers.to_vec());
    }
    let mut order = Vec::new();
    let mut last = Version::Initial;
    while let Some([txn]) = after.get(&(object, last)).map(Vec::as_slice) {
        order.push(*txn);
        last = Version::Of(*txn);
        if order.len() > writers.len() {
            return None;
        }
    }
    (order.len() == writers.len()).then_some(order)
}
