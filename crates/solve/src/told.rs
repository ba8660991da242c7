//! Version orders and what reads saw, told from an order.
//!
//! The levels of dependencies have certificates of version orders. Where an order of the
//! transactions was found, the versions of an object stand in it as their writers do; what stands
//! firm in it saw the last version before it, and of the rest it was chosen.

use hashbrown::HashMap;
use margay_history::{ObjectId, OpId, Outcome, TxnId, Version};
use margay_verdict::{ReadFrom, Versions};

use crate::problem::{INITIAL, Problem, Stand};

/// An order of some nodes, the transactions first.
pub(crate) struct NodeOrder<'a> {
    pub problem: &'a Problem<'a>,
    /// The place of each node.
    pub places: &'a [u32],
    /// The transactions that committed.
    pub active: &'a [bool],
}

impl NodeOrder<'_> {
    /// The certificate; `node` is where a read stands, `seen` what a free one saw.
    pub fn versions(&self, node: impl Fn(u32) -> u32, seen: impl Fn(u32) -> u32) -> Versions {
        let orders = self.orders();
        let reads = self.reads(&orders, node, seen);
        let id = |txn: u32| self.problem.txns[txn as usize];
        let unknown = |&txn: &u32| {
            self.active[txn as usize] && self.problem.history.outcome(id(txn)) == Outcome::Unknown
        };
        let committed = (0..self.active.len() as u32).filter(unknown).map(id).collect();
        let mut orders: Vec<(ObjectId, Vec<TxnId>)> =
            orders.into_iter().map(|(object, txns)| (object, txns.into_iter().map(id).collect())).collect();
        orders.sort_unstable();
        Versions { committed, orders, reads }
    }

    /// The writers of the objects that have some, oldest version first.
    fn orders(&self) -> HashMap<ObjectId, Vec<u32>> {
        let mut orders = HashMap::new();
        for item in self.problem.items() {
            let (object, None) = self.problem.place(item) else { continue };
            let written = self.problem.item_versions(item).skip(1);
            let txns = written.map(|version| self.problem.versions[version as usize].txn);
            let mut txns: Vec<u32> = txns.filter(|&txn| self.active[txn as usize]).collect();
            txns.sort_by_key(|&txn| self.places[txn as usize]);
            if !txns.is_empty() {
                orders.insert(object, txns);
            }
        }
        orders
    }

    /// What operations saw of objects, but of what their own transactions had made.
    fn reads(
        &self,
        orders: &HashMap<ObjectId, Vec<u32>>,
        node: impl Fn(u32) -> u32,
        seen: impl Fn(u32) -> u32,
    ) -> Vec<ReadFrom> {
        let mut told: Vec<(OpId, ObjectId, Version)> = Vec::new();
        for (number, read) in (0..).zip(&self.problem.reads) {
            let object = self.problem.place(read.item).0;
            let version = match read.stand {
                _ if !self.active[read.txn as usize] => continue,
                Stand::Own => continue,
                Stand::Free => self.problem.origin(seen(number)),
                Stand::Firm | Stand::Point(_) => {
                    let writers = orders.get(&object).map_or(&[][..], Vec::as_slice);
                    let place = self.places[node(number) as usize];
                    let before = writers.partition_point(|&txn| self.places[txn as usize] < place);
                    let last = before.checked_sub(1).map(|last| writers[last]);
                    last.map_or(Version::Initial, |txn| Version::Of(self.problem.txns[txn as usize]))
                }
            };
            told.push((read.op, object, version));
        }
        told.sort_unstable();
        told.dedup_by_key(|(op, object, _)| (*op, *object));
        told.into_iter().map(|(op, object, version)| ReadFrom { op, object, version }).collect()
    }

    /// A version that a read may have seen and that comes before it in the order.
    pub fn earlier(&self, read: u32) -> u32 {
        let reader = self.problem.reads[read as usize].txn;
        let before = |&&version: &&u32| match self.problem.versions[version as usize].txn {
            INITIAL => true,
            txn => self.active[txn as usize] && self.places[txn as usize] < self.places[reader as usize],
        };
        let candidates = self.problem.candidates(read);
        candidates.iter().find(before).copied().unwrap_or(candidates[0])
    }
}
