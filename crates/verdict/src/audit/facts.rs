//! What is certain about the order of two versions, if both are: what evidence says, and what lists show.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, Version};
use margay_levels::Level;

use super::candidates::Candidates;
use super::lists::{appenders, longest_reads, may_commit, orders_of};
use crate::checker::Question;

/// The certain things about one object.
struct Known {
    /// Lists of writers, each in order; a writer may occur more than once.
    sequences: Vec<HashMap<TxnId, (usize, usize)>>,
    /// Writers whose elements the longest read shows: all others come later. Empty when there is no such read.
    shown: HashSet<TxnId>,
}

/// The certain things about some objects.
pub(super) struct Facts<'h> {
    history: &'h History,
    objects: HashMap<ObjectId, Known>,
    committed: HashSet<TxnId>,
}

impl<'h> Facts<'h> {
    pub(super) fn new(
        history: &'h History,
        question: Question,
        candidates: &Candidates<'_>,
        objects: &HashSet<ObjectId>,
    ) -> Self {
        let mut facts = Self { history, objects: HashMap::new(), committed: HashSet::new() };
        for &object in objects {
            let mut known = Known { sequences: Vec::new(), shown: HashSet::new() };
            match question.level {
                Level::ReadUncommitted => facts.uncommitted(object, candidates, &mut known),
                _ => facts.committed(object, candidates, &mut known),
            }
            facts.objects.insert(object, known);
        }
        for order in &history.evidence().version_orders {
            if let Some(known) = facts.objects.get_mut(&order.object) {
                let writers = order.versions.iter().filter_map(|version| match version {
                    Version::Of(txn) => Some(*txn),
                    Version::Initial => None,
                });
                known.sequences.push(places(writers));
            }
        }
        facts
    }

    fn uncommitted(&self, object: ObjectId, candidates: &Candidates<'_>, known: &mut Known) {
        let committed = |txn| self.history.outcome(txn) == Outcome::Committed;
        let orders = orders_of(self.history, object, candidates.accesses(object), committed);
        known.sequences.extend(orders.into_iter().map(|order| places(order.writers.into_iter())));
    }

    /// From `read-committed` up every read of a list shows the beginning of one and the same list.
    fn committed(&mut self, object: ObjectId, candidates: &Candidates<'_>, known: &mut Known) {
        let history = self.history;
        let accesses = candidates.accesses(object);
        let committed = |txn| history.outcome(txn) == Outcome::Committed;
        let appenders = appenders(history, object, accesses, |txn| may_commit(history, txn));
        let reads = longest_reads(history, accesses, committed);
        let Some(longest) =
            reads.first().filter(|_| !appenders.is_empty() && candidates.known(object).is_ok())
        else {
            return;
        };
        let writers: Vec<TxnId> =
            longest.iter().filter_map(|element| appenders.get(element).copied()).collect();
        self.committed.extend(writers.iter().copied());
        let mut sequence = places(writers.into_iter());
        let elements: HashSet<_> = longest.iter().copied().collect();
        // What a writer appended and nobody saw yet comes after all that was seen.
        for &(op, element) in accesses {
            if history.op(op).kind == OpKind::Append
                && !elements.contains(&element)
                && let Some(place) = sequence.get_mut(&history.txn_of(op))
            {
                place.1 = usize::MAX;
            }
        }
        known.sequences.push(sequence);
        let shown =
            accesses.iter().filter(|a| history.op(a.0).kind == OpKind::Append && elements.contains(&a.1));
        known.shown.extend(shown.map(|a| history.txn_of(a.0)));
    }

    /// Whether `a`'s version certainly comes before `b`'s, if both committed: something says so, or several things together do.
    pub(super) fn before(&self, object: ObjectId, a: TxnId, b: TxnId) -> bool {
        self.before_through(object, a, b).is_some_and(|through| through.is_empty())
    }

    /// The transactions that must have committed too, for `a`'s version to come before `b`'s; nothing where that is not known at all.
    pub(super) fn before_through(&self, object: ObjectId, a: TxnId, b: TxnId) -> Option<Vec<TxnId>> {
        let known = self.objects.get(&object)?;
        if self.told(known, a, b) {
            return Some(Vec::new());
        }
        let certain = |txn| self.is_committed(txn);
        let path = self.path(known, a, b, certain).or_else(|| self.path(known, a, b, |_| true));
        path.map(|path| path.into_iter().filter(|&txn| !certain(txn)).collect())
    }

    /// Whether one thing says that `a`'s version comes before `b`'s.
    fn told(&self, known: &Known, a: TxnId, b: TxnId) -> bool {
        let in_sequence = |places: &HashMap<TxnId, (usize, usize)>| match (places.get(&a), places.get(&b)) {
            (Some(a), Some(b)) => a.0 < b.1,
            _ => false,
        };
        let unshown = || {
            let certain = known.sequences.first().is_some_and(|places| places.contains_key(&a));
            !known.shown.is_empty() && certain && known.shown.contains(&a) && !known.shown.contains(&b)
        };
        let evidence = self.history.evidence();
        let stamped = || matches!((evidence.commit(a), evidence.commit(b)), (Some(a), Some(b)) if a < b);
        known.sequences.iter().any(in_sequence) || unshown() || stamped()
    }

    /// What lies between where sequences say it together, one from where the other ends: `a` before `c`, and `c` before `b`.
    ///
    /// A sequence is walked again only from an earlier place than before, so a search looks at each about once.
    fn path(&self, known: &Known, a: TxnId, b: TxnId, may_be: impl Fn(TxnId) -> bool) -> Option<Vec<TxnId>> {
        let mut walked = vec![usize::MAX; known.sequences.len()];
        let (mut from, mut open): (HashMap<TxnId, TxnId>, Vec<TxnId>) = (HashMap::from([(a, a)]), vec![a]);
        while let Some(c) = open.pop() {
            if c != a && self.told(known, c, b) {
                let back = std::iter::successors(Some(c), |txn| from.get(txn).copied());
                return Some(back.take_while(|&txn| txn != a).collect());
            }
            for (places, walked) in known.sequences.iter().zip(&mut walked) {
                let Some(&(place, _)) = places.get(&c).filter(|at| at.0 < *walked) else { continue };
                *walked = place;
                for (&txn, _) in places.iter().filter(|(_, at)| place < at.1) {
                    if may_be(txn) && !from.contains_key(&txn) {
                        from.insert(txn, c);
                        open.push(txn);
                    }
                }
            }
        }
        None
    }

    /// Whether the transaction certainly committed.
    pub(super) fn is_committed(&self, txn: TxnId) -> bool {
        self.history.outcome(txn) == Outcome::Committed || self.committed.contains(&txn)
    }
}

/// The first and the last place of each writer.
fn places(writers: impl Iterator<Item = TxnId>) -> HashMap<TxnId, (usize, usize)> {
    let mut places: HashMap<TxnId, (usize, usize)> = HashMap::new();
    for (place, txn) in writers.enumerate() {
        places.entry(txn).or_insert((place, place)).1 = place;
    }
    places
}
