//! A guess at which version a transaction saw where neither its value nor evidence tells.
//!
//! Nothing depends on it but how often the answer is `unknown`: by snapshot timestamps, the
//! serialization order, commit timestamps, or the clock, the first that is there.

use std::cell::OnceCell;

use margay_history::{History, ObjectId, TxnId};

use crate::orders::{Orders, commit_stamps};

/// Places transactions in time, when first asked.
pub(crate) struct Guesser<'a> {
    history: &'a History,
    orders: &'a Orders,
    places: OnceCell<Places>,
}

/// By transaction.
struct Places {
    /// When a transaction's versions appear.
    writes: Vec<i64>,
    /// Up to when a transaction sees what appeared.
    reads: Vec<i64>,
}

impl Places {
    fn new(history: &History) -> Self {
        let evidence = history.evidence();
        let commits = commit_stamps(history);
        let serial = |t: TxnId| evidence.serialization(t);
        let clock = |t: TxnId| history.end(t).or(history.start(t)).unwrap_or(0);
        let by_commit = !evidence.commits.is_empty();
        let by_serial = !evidence.serializations.is_empty() && evidence.snapshots.is_empty();
        let place = |t: TxnId| {
            if by_serial {
                serial(t).unwrap_or(i64::MAX)
            } else if by_commit {
                commits[t.index()].unwrap_or(i64::MAX)
            } else {
                clock(t)
            }
        };
        let sees = |t: TxnId| match evidence.snapshot(t) {
            Some(snapshot) if by_commit && !by_serial => snapshot,
            _ if place(t) == 0 => 0,
            _ => place(t).saturating_sub(1),
        };
        let (writes, reads) = (history.txns().map(place).collect(), history.txns().map(sees).collect());
        Self { writes, reads }
    }
}

impl<'a> Guesser<'a> {
    pub fn new(history: &'a History, orders: &'a Orders) -> Self {
        Self { history, orders, places: OnceCell::new() }
    }

    /// When the transaction took effect, on whatever scale there is.
    pub fn place(&self, txn: TxnId) -> i64 {
        self.places.get_or_init(|| Places::new(self.history)).writes[txn.index()]
    }

    /// The rank of the last version that the transaction is likely to see.
    pub fn rank(&self, txn: TxnId, object: ObjectId) -> u32 {
        let places = self.places.get_or_init(|| Places::new(self.history));
        let until = places.reads[txn.index()];
        self.orders.of(object).partition_point(|w| places.writes[w.index()] <= until) as u32
    }
}
