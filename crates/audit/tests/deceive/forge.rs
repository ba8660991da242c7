//! Certificates of `holds`, for histories that do not.

use margay_audit::audit;
use margay_history::{History, ObjectId, Outcome, TxnId, Version};
use margay_testkit::{Rng, show};
use margay_verdict::{Certificate, Order, Point, Question, ReadFrom, Versions};

/// How many of each kind.
const FORGERIES: usize = 60;

/// Tries certificates of every kind; how many.
pub fn forge(history: &History, question: Question, rng: &mut Rng) -> usize {
    let mut forger = Forger { history, rng };
    for _ in 0..FORGERIES {
        for forged in [forger.order(), forger.points(), forger.versions()] {
            let answer = audit(history, question, &forged);
            assert!(answer.is_err(), "{question:?} is violated, and proved: {forged:?}\n{}", show(history));
        }
    }
    3 * FORGERIES
}

struct Forger<'a> {
    history: &'a History,
    rng: &'a mut Rng,
}

impl Forger<'_> {
    /// All committed transactions and some of the unknown ones, in any order.
    fn committed(&mut self) -> Vec<TxnId> {
        let history = self.history;
        let mut txns: Vec<TxnId> = history
            .txns()
            .filter(|&txn| match history.outcome(txn) {
                Outcome::Committed => true,
                Outcome::Unknown => self.rng.chance(50),
                Outcome::Aborted => false,
            })
            .collect();
        self.shuffle(&mut txns);
        txns
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        (1..items.len()).for_each(|i| items.swap(i, self.rng.below(i + 1)));
    }

    fn order(&mut self) -> Certificate {
        let txns = self.committed();
        let reads = self.reads(&txns);
        Certificate::Order(Order { txns, reads })
    }

    fn points(&mut self) -> Certificate {
        let mut points: Vec<TxnId> = self.committed().into_iter().flat_map(|txn| [txn, txn]).collect();
        self.shuffle(&mut points);
        let point = |(i, &txn): (usize, &TxnId)| match points[..i].contains(&txn) {
            true => Point::Commit(txn),
            false => Point::Begin(txn),
        };
        Certificate::Points(points.iter().enumerate().map(point).collect())
    }

    fn versions(&mut self) -> Certificate {
        let txns = self.committed();
        let unknown = |&txn: &TxnId| self.history.outcome(txn) == Outcome::Unknown;
        let committed = txns.iter().copied().filter(unknown).collect();
        let mut orders = Vec::new();
        for object in self.history.objects() {
            let mut writers: Vec<TxnId> = txns.iter().copied().filter(|&t| self.writes(t, object)).collect();
            if self.rng.chance(50) {
                self.shuffle(&mut writers);
            }
            orders.push((object, writers));
        }
        let reads = self.reads(&txns);
        Certificate::Versions(Versions { committed, orders, reads })
    }

    fn writes(&self, txn: TxnId, object: ObjectId) -> bool {
        let mut writes = self.history.ops(txn).filter(|op| op.kind.writes());
        writes.any(|op| op.accesses.iter().any(|access| access.object == object))
    }

    /// Some claims of what was seen.
    fn reads(&mut self, txns: &[TxnId]) -> Vec<ReadFrom> {
        let mut reads = Vec::new();
        let claimed = *self.rng.pick(&[0, 50, 100]);
        for op in txns.iter().flat_map(|&txn| self.history.ops(txn)) {
            for object in self.history.objects() {
                if self.rng.chance(claimed) {
                    let version = match self.rng.below(txns.len() + 1) {
                        0 => Version::Initial,
                        place => Version::Of(txns[place - 1]),
                    };
                    reads.push(ReadFrom { op: op.id, object, version });
                }
            }
        }
        reads
    }
}
