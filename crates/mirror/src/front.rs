//! The front half: operations become transactions. It knows nothing of other transactions, so it
//! can run on a thread of its own before the rest.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use margay_history::{TxnId, Values};
use margay_mechanisms::{Searches, World, common};
use margay_verdict::mechanism::Mechanisms;

use crate::mirror::{Asked, Trace, Unfit};
use crate::txn::{Ended, Txn};

/// The transactions that are running.
#[derive(Debug)]
pub(crate) struct Front {
    mechanisms: Mechanisms,
    skew: i64,
    pub open: HashMap<TxnId, Box<Txn>>,
    last: i64,
}

/// What an operation means for the rest.
#[derive(Debug)]
pub(crate) struct FrontStep {
    /// When it was called at the earliest.
    pub now: i64,
    /// Whether it is the first of its transaction.
    pub started: bool,
    /// The transaction that it ends.
    pub ended: Option<Ended>,
}

impl Front {
    pub fn new(mechanisms: Mechanisms, skew: i64) -> Self {
        Self { mechanisms, skew, open: HashMap::new(), last: i64::MIN }
    }

    /// Takes the next operation.
    pub fn take(
        &mut self,
        trace: Trace<'_>,
        asked: &Asked,
        searches: &Searches,
        values: &Values,
    ) -> Result<FrontStep, Unfit> {
        if trace.at.before < self.last {
            return Err(Unfit::OutOfOrder { before: trace.at.before, last: self.last });
        }
        let at = common(trace.at, self.skew);
        self.last = trace.at.before;
        let (txn, started) = match self.open.entry(trace.txn) {
            Entry::Occupied(entry) => (entry.into_mut(), false),
            Entry::Vacant(entry) => (entry.insert(Box::new(Txn::new(trace.txn))), true),
        };
        let world = World { values, searches };
        txn.push(&trace, at, asked, &self.mechanisms, world);
        let ends = trace.kind.outcome().is_some();
        let ended = if ends { self.open.remove(&trace.txn) } else { None };
        Ok(FrontStep { now: at.before, started, ended: ended.map(|ended| self.end(ended, world)) })
    }

    /// No more operations come: what is still running ends here.
    pub fn finish(&mut self, world: World<'_>) -> Vec<Ended> {
        let open = std::mem::take(&mut self.open);
        let mut open: Vec<Ended> = open.into_values().map(|open| self.end(open, world)).collect();
        open.sort_unstable_by_key(|open| open.id);
        open
    }

    fn end(&self, mut ended: Box<Txn>, world: World<'_>) -> Ended {
        if !ended.unseen.is_empty() {
            ended.cloud(world);
        }
        if self.mechanisms.locks_regions() {
            ended.find_changed_again();
        }
        Ended::new(ended)
    }
}
