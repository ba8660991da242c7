//! What is certain about the order of two versions, if both are: what evidence says, and what lists
//! show.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, ValueId, Version};
use margay_levels::Level;
use margay_verdict::Question;

use super::candidates::Candidates;
use super::lists::{Accesses, appenders, longest_reads, may_commit, orders_of};

/// One thing that says in which order versions of an object come.
struct Sequence {
    /// Its writers, each with its first and its last place.
    places: Places,
    /// Writers whose elements a read of a list shows: all others come later. Empty if this is no
    /// such read.
    shown: HashSet<TxnId>,
    /// The transaction of unknown outcome whose read says so, and that must have committed for it
    /// to count.
    source: Option<TxnId>,
}

type Places = HashMap<TxnId, (usize, usize)>;

impl Sequence {
    /// What always counts, and is no read.
    fn certain(writers: impl Iterator<Item = TxnId>) -> Self {
        Self { places: places(writers), shown: HashSet::new(), source: None }
    }

    /// Whether it says that `a`'s version comes before `b`'s.
    fn tells(&self, a: TxnId, b: TxnId) -> bool {
        match (self.places.get(&a), self.places.get(&b)) {
            (Some(a), Some(b)) => a.0 < b.1,
            (Some(_), None) => self.shown.contains(&a) && !self.shown.contains(&b),
            _ => false,
        }
    }
}

/// The certain things about some objects.
pub(super) struct Facts<'h> {
    history: &'h History,
    objects: HashMap<ObjectId, Vec<Sequence>>,
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
            let known = match question.level {
                Level::ReadUncommitted => facts.uncommitted(object, candidates),
                _ => facts.lists(object, candidates),
            };
            facts.objects.insert(object, known.into_iter().chain(facts.stamps(object, candidates)).collect());
        }
        for order in &history.evidence().version_orders {
            if let Some(known) = facts.objects.get_mut(&order.object) {
                let writers = order.versions.iter().filter_map(|version| match version {
                    Version::Of(txn) => Some(*txn),
                    Version::Initial => None,
                });
                known.push(Sequence::certain(writers));
            }
        }
        if question.level != Level::ReadUncommitted {
            while facts.commit_seen() {}
        }
        facts
    }

    fn uncommitted(&self, object: ObjectId, candidates: &Candidates<'_>) -> Vec<Sequence> {
        let committed = |txn| self.history.outcome(txn) == Outcome::Committed;
        let orders = orders_of(self.history, object, candidates.accesses(object), committed);
        orders.into_iter().map(|order| Sequence::certain(order.writers.into_iter())).collect()
    }

    /// The writers of an object by their commit timestamps. Those that have the same have one place.
    fn stamps(&self, object: ObjectId, candidates: &Candidates<'_>) -> Option<Sequence> {
        let accesses = candidates.accesses(object).iter();
        let writes = accesses.filter(|access| self.history.op(access.0).kind.writes());
        let stamp = |txn| Some((self.history.evidence().commit(txn)?, txn));
        let mut stamped: Vec<_> = writes.filter_map(|write| stamp(self.history.txn_of(write.0))).collect();
        stamped.sort_unstable();
        let first = |&(stamp, txn): &(i64, TxnId)| {
            let place = stamped.partition_point(|earlier| earlier.0 < stamp);
            (txn, (place, place))
        };
        let places: Places = stamped.iter().map(first).collect();
        (!places.is_empty()).then(|| Sequence { places, shown: HashSet::new(), source: None })
    }

    /// From `read-committed` up every read of a list by a committed transaction shows the beginning
    /// of one and the same list.
    fn lists(&self, object: ObjectId, candidates: &Candidates<'_>) -> Vec<Sequence> {
        let history = self.history;
        let accesses = candidates.accesses(object);
        let appenders = appenders(history, object, accesses, |txn| may_commit(history, txn));
        if appenders.is_empty() || candidates.known(object).is_err() {
            return Vec::new();
        }
        let committed = |txn| history.outcome(txn) == Outcome::Committed;
        let certain = longest_reads(history, accesses, committed).first().copied();
        let mut known: Vec<Sequence> = certain
            .into_iter()
            .map(|read| list_sequence(history, accesses, &appenders, read, None))
            .collect();
        let mut readers: Vec<TxnId> = accesses.iter().map(|access| history.txn_of(access.0)).collect();
        readers.dedup();
        for reader in readers.into_iter().filter(|&txn| history.outcome(txn) == Outcome::Unknown) {
            let reads = longest_reads(history, accesses, |txn| txn == reader);
            let new = reads.into_iter().filter(|read| !certain.is_some_and(|all| all.starts_with(read)));
            known.extend(new.map(|read| list_sequence(history, accesses, &appenders, read, Some(reader))));
        }
        known
    }

    /// Whoever a committed transaction's read of a list shows committed; what it shows then counts.
    /// Answers whether anything is new.
    fn commit_seen(&mut self) -> bool {
        let mut new = false;
        for sequence in self.objects.values_mut().flatten() {
            let committed = |txn: &TxnId| self.committed.contains(txn);
            if sequence.source.is_some_and(|source| committed(&source)) {
                sequence.source = None;
                new = true;
            }
            if sequence.source.is_none() && !sequence.shown.is_empty() {
                for &txn in sequence.places.keys() {
                    new |= self.committed.insert(txn);
                }
            }
        }
        new
    }

    /// Transactions of unknown outcome whose reads of lists show something of `txn`: if one of them
    /// committed, so did `txn`.
    pub(super) fn shown_by(&self, txn: TxnId) -> Vec<TxnId> {
        let shows = |sequence: &&Sequence| !sequence.shown.is_empty() && sequence.places.contains_key(&txn);
        let sources = self.objects.values().flatten().filter(shows).filter_map(|sequence| sequence.source);
        sources.filter(|&source| source != txn).collect()
    }

    /// Whether `a`'s version certainly comes before `b`'s, if both committed: something says so, or
    /// several things together do.
    pub(super) fn before(&self, object: ObjectId, a: TxnId, b: TxnId) -> bool {
        self.before_through(object, a, b).iter().any(Vec::is_empty)
    }

    /// Sets of transactions: if all of one committed, `a`'s version comes before `b`'s.
    pub(super) fn before_through(&self, object: ObjectId, a: TxnId, b: TxnId) -> Vec<Vec<TxnId>> {
        let Some(known) = self.objects.get(&object) else { return Vec::new() };
        let mut all: Vec<Vec<TxnId>> = Vec::new();
        for sequence in known.iter().filter(|sequence| sequence.tells(a, b)) {
            match sequence.source {
                None => return vec![Vec::new()],
                Some(source) => all.push(vec![source]),
            }
        }
        let certain = |txn| self.is_committed(txn);
        let sure = |txn: TxnId, source: Option<TxnId>| certain(txn) && source.is_none();
        let path = self.path(known, a, b, sure).or_else(|| self.path(known, a, b, |_, _| true));
        all.extend(path.map(|path| path.into_iter().filter(|&txn| !certain(txn)).collect::<Vec<_>>()));
        all
    }

    /// What lies between where sequences say it together, one from where the other ends (`a` before
    /// `c`, and `c` before `b`), and whose reads they are.
    ///
    /// A sequence is walked again only from an earlier place than before, so a search looks at each
    /// about once.
    fn path(
        &self,
        known: &[Sequence],
        a: TxnId,
        b: TxnId,
        may_be: impl Fn(TxnId, Option<TxnId>) -> bool,
    ) -> Option<Vec<TxnId>> {
        let mut walked = vec![usize::MAX; known.len()];
        let mut from: HashMap<TxnId, (TxnId, Option<TxnId>)> = HashMap::from([(a, (a, None))]);
        let mut open = vec![a];
        while let Some(c) = open.pop() {
            if c != a
                && let Some(last) = known.iter().find(|last| may_be(c, last.source) && last.tells(c, b))
            {
                let mut path: Vec<TxnId> = last.source.into_iter().collect();
                let mut place = c;
                while place != a {
                    let (before, source) = from[&place];
                    path.extend(source);
                    path.push(place);
                    place = before;
                }
                return Some(path);
            }
            for (sequence, walked) in known.iter().zip(&mut walked) {
                let Some(&(place, _)) = sequence.places.get(&c).filter(|at| at.0 < *walked) else { continue };
                *walked = place;
                for (&txn, _) in sequence.places.iter().filter(|(_, at)| place < at.1) {
                    if may_be(txn, sequence.source) && !from.contains_key(&txn) {
                        from.insert(txn, (c, sequence.source));
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

/// What one read of a list says. What a writer appended and the read does not show comes after all
/// that it shows.
fn list_sequence(
    history: &History,
    accesses: &Accesses,
    appenders: &HashMap<ValueId, TxnId>,
    read: &[ValueId],
    source: Option<TxnId>,
) -> Sequence {
    let mut places = places(read.iter().filter_map(|element| appenders.get(element).copied()));
    let elements: HashSet<ValueId> = read.iter().copied().collect();
    let mut shown = HashSet::new();
    for &(op, element) in accesses.iter().filter(|access| history.op(access.0).kind == OpKind::Append) {
        let txn = history.txn_of(op);
        if elements.contains(&element) {
            shown.insert(txn);
        } else if let Some(place) = places.get_mut(&txn) {
            place.1 = usize::MAX;
        }
    }
    Sequence { places, shown, source }
}

/// The first and the last place of each writer.
fn places(writers: impl Iterator<Item = TxnId>) -> Places {
    let mut places = Places::new();
    for (place, txn) in writers.enumerate() {
        places.entry(txn).or_insert((place, place)).1 = place;
    }
    places
}
