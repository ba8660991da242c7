//! A history as versions and reads: what the rest of the engine works on.
//!
//! # Problem
//! Find out which transactions count, which versions they install, and for each external read which
//! versions it may have seen; meet on the way what no order can explain.
//!
//! # Invariants
//! - Versions of one object lie together, the initial one first; a transaction has at most one
//!   version of an object: its last write.
//! - Every [`Read`] is external: what its transaction wrote itself has been taken off it. It has at
//!   least one candidate; with several, which one it saw is a choice. Candidates are in order.
//! - A transaction of unknown outcome is in the problem only if a read may have seen it. It is
//!   *forced* when some read of a forced transaction has no other candidate; otherwise it is in
//!   only as long as somebody is taken to have seen it. Leaving out what nobody sees never hurts.
//!
//! # Cost
//! Linear but for sorting the versions of each object.

mod part;

use std::ops::Range;

use hashbrown::HashMap;
use margay_history::{History, NameId, ObjectId, OpId, Outcome, TxnId, ValueId, Version as Origin};
use margay_verdict::{Budget, Exhausted, Question};

use crate::strategy::Strategies;

/// The transaction of an initial version.
pub(crate) const INITIAL: u32 = u32::MAX;

/// What has versions: an object, or one column of an object whose rows are written in part. The
/// objects come first, with the history's numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Item(pub u32);

impl Item {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<ObjectId> for Item {
    fn from(object: ObjectId) -> Self {
        Self(object.0)
    }
}

/// One version of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    /// Its transaction, or [`INITIAL`].
    pub txn: u32,
    pub item: Item,
}

/// Where a read stands among the points, and what that means for later versions of what it saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stand {
    /// At its transaction: later versions come after it.
    Firm,
    /// At its transaction, but later versions may come before it.
    Free,
    /// At its transaction, which wrote the object before: firm, but it shows only what its own
    /// version was made of, so nothing depends on it.
    Own,
    /// At a point of its own before its transaction, which it shares with what the same operation
    /// saw of the same object: firm there.
    Point(u32),
}

/// An external read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub txn: u32,
    pub op: OpId,
    pub item: Item,
    pub stand: Stand,
    /// In [`Problem::candidates`].
    first: u32,
    count: u32,
}

/// Versions, reads, and what is known of their order.
#[derive(Clone)]
pub(crate) struct Problem<'h> {
    pub history: &'h History,
    pub question: Question,
    /// What is tried.
    pub strategies: Strategies,
    /// The transactions, in the history's order.
    pub txns: Vec<TxnId>,
    /// Whether a transaction must have committed.
    pub forced: Vec<bool>,
    pub versions: Vec<Version>,
    /// The items that are columns.
    columns: Vec<(ObjectId, NameId)>,
    /// In a part of a problem, what its items are; elsewhere nothing.
    places: Option<Vec<(ObjectId, Option<NameId>)>>,
    item_starts: Vec<u32>,
    txn_versions: Vec<u32>,
    txn_version_starts: Vec<u32>,
    pub reads: Vec<Read>,
    read_starts: Vec<u32>,
    candidates: Vec<u32>,
    /// Pairs of versions of one object whose order is known from the start, by evidence or because
    /// a list shows it.
    pub facts: Vec<(u32, u32)>,
    /// For each of them the transaction whose read of a list shows it, or [`INITIAL`]. If that did
    /// not commit, it is no fact.
    sources: Vec<u32>,
    /// `(a, b)`: if `a` committed, so did `b`.
    pub needs: Vec<(u32, u32)>,
    /// The transactions of the points that reads have for themselves.
    pub own_points: Vec<u32>,
}

/// What [`crate::prepare()`] collects, in the history's ids.
#[derive(Default)]
pub(crate) struct Draft {
    /// The items that are columns, numbered after the objects.
    pub columns: Vec<(ObjectId, NameId)>,
    /// Last writes, by transaction: `(txn, item)`.
    pub writes: Vec<(TxnId, Item)>,
    pub reads: Vec<DraftRead>,
    pub candidates: Vec<Origin>,
    pub facts: Vec<Fact>,
    /// `(a, b)`: if `a` committed, so did `b`, of unknown outcome, because a list that `a` read has
    /// an element of `b`.
    pub needs: Vec<(TxnId, TxnId)>,
    /// Transactions of unknown outcome that saw what nothing explains, so they cannot have
    /// committed.
    pub impossible: Vec<TxnId>,
    /// Such transactions, which were left out: a violation that rests on that is beyond
    /// certificates.
    pub dead: Vec<TxnId>,
    /// What the reads do not say of the history, named: an order must be replayed before it is
    /// believed.
    pub loose: Option<String>,
    /// Whether reads may say more than the history: lemmas must be audited before they are
    /// believed.
    pub bold: bool,
}

impl Draft {
    /// Gives back the memory of what is in the [`Problem`].
    pub fn release(&mut self) {
        let Self { columns, dead, loose, bold, .. } = std::mem::take(self);
        *self = Self { columns, dead, loose, bold, ..Self::default() };
    }
}

/// One version of an item comes before another.
pub(crate) struct Fact {
    pub item: Item,
    pub first: Origin,
    pub second: Origin,
    /// Whose read of a list shows it; nobody's if evidence says so.
    pub source: Option<TxnId>,
}

/// A read in a [`Draft`]; its candidates are a range of the draft's.
pub(crate) struct DraftRead {
    pub txn: TxnId,
    pub op: OpId,
    pub item: Item,
    pub stand: Stand,
    pub candidates: Range<u32>,
}

impl<'h> Problem<'h> {
    pub fn new(
        history: &'h History,
        question: Question,
        draft: &Draft,
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        let status = Status::of(history, draft);
        let txns: Vec<TxnId> = history.txns().filter(|t| status.included[t.index()]).collect();
        let mut dense = vec![INITIAL; history.txn_count()];
        txns.iter().enumerate().for_each(|(i, t)| dense[t.index()] = i as u32);
        let forced = txns.iter().map(|t| status.forced[t.index()]).collect();
        let (versions, item_starts, written) = versions(history, draft, &dense);
        let (txn_version_starts, txn_versions) = by_txn(written, txns.len());
        let mut problem = Self {
            history,
            question,
            strategies: Strategies::ALL,
            txns,
            forced,
            versions,
            columns: draft.columns.clone(),
            places: None,
            item_starts,
            txn_versions,
            txn_version_starts,
            reads: Vec::new(),
            read_starts: Vec::new(),
            candidates: Vec::new(),
            facts: Vec::new(),
            sources: Vec::new(),
            needs: Vec::new(),
            own_points: Vec::new(),
        };
        problem.add_reads(draft, &dense, budget)?;
        problem.add_facts(draft, &dense);
        let needs = draft.needs.iter().map(|(a, b)| (dense[a.index()], dense[b.index()]));
        problem.needs = needs.filter(|&(a, _)| a != INITIAL).collect();
        Ok(problem)
    }

    /// The same, to be solved by these.
    pub fn with_strategies(self, strategies: Strategies) -> Self {
        Self { strategies, ..self }
    }

    fn add_reads(&mut self, draft: &Draft, dense: &[u32], budget: &Budget) -> Result<(), Exhausted> {
        self.read_starts.push(0);
        let mut points = HashMap::new();
        for read in &draft.reads {
            budget.poll()?;
            let txn = dense[read.txn.index()];
            if txn == INITIAL {
                continue;
            }
            while self.read_starts.len() <= txn as usize {
                self.read_starts.push(self.reads.len() as u32);
            }
            let first = self.candidates.len() as u32;
            let range = read.candidates.start as usize..read.candidates.end as usize;
            for &origin in &draft.candidates[range] {
                if let Some(version) = self.find(dense, read.item, origin) {
                    self.candidates.push(version);
                }
            }
            self.candidates[first as usize..].sort_unstable();
            let count = self.candidates.len() as u32 - first;
            let stand = self.stand(txn, read.stand, &mut points);
            self.reads.push(Read { txn, op: read.op, item: read.item, stand, first, count });
        }
        while self.read_starts.len() <= self.txns.len() {
            self.read_starts.push(self.reads.len() as u32);
        }
        Ok(())
    }

    /// The same with a number of this problem for a point, which is new when it is first met.
    fn stand(&mut self, txn: u32, stand: Stand, points: &mut HashMap<u32, u32>) -> Stand {
        let Stand::Point(old) = stand else { return stand };
        let number = *points.entry(old).or_insert_with(|| {
            self.own_points.push(txn);
            self.own_points.len() as u32 - 1
        });
        Stand::Point(number)
    }

    fn add_facts(&mut self, draft: &Draft, dense: &[u32]) {
        for &Fact { item, first, second, source } in &draft.facts {
            let counts = source.is_none_or(|txn| dense[txn.index()] != INITIAL);
            if let (Some(a), Some(b)) = (self.find(dense, item, first), self.find(dense, item, second))
                && a != b
                && counts
            {
                self.facts.push((a, b));
                self.sources.push(source.map_or(INITIAL, |txn| dense[txn.index()]));
            }
        }
    }

    fn find(&self, dense: &[u32], item: Item, origin: Origin) -> Option<u32> {
        let range = self.item_versions(item);
        match origin {
            Origin::Initial => Some(range.start),
            Origin::Of(txn) => {
                let txn = Some(dense[txn.index()]).filter(|&txn| txn != INITIAL)?;
                let written = self.txn_versions(txn);
                let place = written.partition_point(|&version| version <= range.start);
                written.get(place).copied().filter(|&version| version < range.end)
            }
        }
    }

    /// The same problem with fewer candidates for some reads. A transaction that has become
    /// somebody's only candidate must have committed.
    pub fn with_candidates(&self, fewer: &[(u32, Vec<u32>)]) -> Self {
        let mut new = self.clone();
        new.candidates.clear();
        let mut fewer = fewer.iter().peekable();
        for read in 0..self.reads.len() as u32 {
            let first = new.candidates.len() as u32;
            match fewer.next_if(|(changed, _)| *changed == read) {
                Some((_, kept)) => new.candidates.extend_from_slice(kept),
                None => new.candidates.extend_from_slice(self.candidates(read)),
            }
            let count = new.candidates.len() as u32 - first;
            (new.reads[read as usize].first, new.reads[read as usize].count) = (first, count);
        }
        new.force_only_candidates();
        new
    }

    fn force_only_candidates(&mut self) {
        loop {
            let reads = 0..self.reads.len() as u32;
            let only = reads
                .filter(|&r| self.forced[self.reads[r as usize].txn as usize])
                .filter_map(|r| self.seen(r));
            let writers =
                only.map(|version| self.versions[version as usize].txn).filter(|&txn| txn != INITIAL);
            let needed = self.needs.iter().filter(|&&(a, _)| self.forced[a as usize]).map(|&(_, b)| b);
            let new: Vec<u32> = writers.chain(needed).filter(|&txn| !self.forced[txn as usize]).collect();
            if new.is_empty() {
                return;
            }
            new.into_iter().for_each(|txn| self.forced[txn as usize] = true);
        }
    }

    /// All items.
    pub fn items(&self) -> impl Iterator<Item = Item> + use<> {
        (0..self.item_starts.len() as u32 - 1).map(Item)
    }

    /// The object that an item is or belongs to, and the column, if it is one.
    pub fn place(&self, item: Item) -> (ObjectId, Option<NameId>) {
        if let Some(places) = &self.places {
            return places[item.index()];
        }
        match item.index().checked_sub(self.history.object_count()) {
            None => (ObjectId(item.0), None),
            Some(column) => (self.columns[column].0, Some(self.columns[column].1)),
        }
    }

    /// Whether this is part of a problem.
    pub fn is_part(&self) -> bool {
        self.places.is_some()
    }

    /// The versions of an item, the initial one first, then by transaction.
    pub fn item_versions(&self, item: Item) -> Range<u32> {
        self.item_starts[item.index()]..self.item_starts[item.index() + 1]
    }

    /// The versions that a transaction installs.
    pub fn txn_versions(&self, txn: u32) -> &[u32] {
        let (start, end) = (self.txn_version_starts[txn as usize], self.txn_version_starts[txn as usize + 1]);
        &self.txn_versions[start as usize..end as usize]
    }

    /// The reads of a transaction.
    pub fn txn_reads(&self, txn: u32) -> Range<u32> {
        self.read_starts[txn as usize]..self.read_starts[txn as usize + 1]
    }

    /// The versions that a read may have seen.
    pub fn candidates(&self, read: u32) -> &[u32] {
        let Read { first, count, .. } = self.reads[read as usize];
        &self.candidates[first as usize..(first + count) as usize]
    }

    /// The only version that a read may have seen.
    pub fn seen(&self, read: u32) -> Option<u32> {
        match self.candidates(read) {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Whether later versions must come after a read.
    pub fn is_firm(&self, read: u32) -> bool {
        self.reads[read as usize].stand != Stand::Free
    }

    /// Whether a read makes its transaction depend on the one whose version it saw: not if that is
    /// only part of a version, or of the transaction's own.
    pub fn is_dependency(&self, read: u32) -> bool {
        let Read { stand, item, .. } = self.reads[read as usize];
        match stand {
            Stand::Firm | Stand::Free => true,
            Stand::Own => false,
            Stand::Point(_) => self.place(item).1.is_none(),
        }
    }

    /// Whether some read may have seen several versions.
    pub fn has_open_reads(&self) -> bool {
        self.candidates.len() > self.reads.len()
    }

    /// How many versions the reads that may have seen several may have seen.
    pub fn open_candidates(&self) -> usize {
        self.reads.iter().filter(|read| read.count > 1).map(|read| read.count as usize).sum()
    }

    /// The facts, each with the transaction that must have committed for it to count, if that is
    /// not certain.
    pub fn sourced_facts(&self) -> impl Iterator<Item = ((u32, u32), Option<u32>)> {
        let open = |&source: &u32| source != INITIAL && !self.forced[source as usize];
        self.facts.iter().zip(&self.sources).map(move |(&fact, source)| (fact, Some(*source).filter(open)))
    }

    /// The transactions whose reads of lists show what is known of the order of some objects.
    pub fn shown_by(&self, objects: &[ObjectId]) -> impl Iterator<Item = u32> {
        let facts = self.facts.iter().zip(&self.sources).filter(|(_, source)| **source != INITIAL);
        let of_these = facts.filter(|((a, _), _)| {
            objects.binary_search(&self.place(self.versions[*a as usize].item).0).is_ok()
        });
        of_these.map(|(_, &source)| source)
    }

    /// Whether some session has two transactions.
    pub fn has_sessions(&self) -> bool {
        let same = |pair: &[TxnId]| self.history.session_of(pair[0]) == self.history.session_of(pair[1]);
        self.txns.windows(2).any(same)
    }

    /// A version in the history's terms.
    pub fn origin(&self, version: u32) -> Origin {
        match self.versions[version as usize].txn {
            INITIAL => Origin::Initial,
            txn => Origin::Of(self.txns[txn as usize]),
        }
    }
}

/// Which transactions count.
struct Status {
    included: Vec<bool>,
    forced: Vec<bool>,
}

impl Status {
    fn of(history: &History, draft: &Draft) -> Self {
        let committed: Vec<bool> = history.txns().map(|t| history.outcome(t) == Outcome::Committed).collect();
        let mut status = Self { included: committed.clone(), forced: committed };
        if draft.loose.is_some() {
            // Who may have been seen is not known.
            let alive = history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted);
            let alive = alive.filter(|txn| !draft.dead.contains(txn));
            alive.for_each(|txn| status.included[txn.index()] = true);
        }
        if history.txns().all(|t| history.outcome(t) != Outcome::Unknown) {
            return status;
        }
        while status.spread(draft) {}
        status
    }

    /// Takes in what the reads of those inside may have seen; answers whether anything changed.
    fn spread(&mut self, draft: &Draft) -> bool {
        let mut changed = false;
        for (a, b) in &draft.needs {
            changed |= self.included[a.index()] && !std::mem::replace(&mut self.included[b.index()], true);
            changed |= self.forced[a.index()] && !std::mem::replace(&mut self.forced[b.index()], true);
        }
        for read in &draft.reads {
            if !self.included[read.txn.index()] {
                continue;
            }
            let range = read.candidates.start as usize..read.candidates.end as usize;
            let only = range.len() == 1 && self.forced[read.txn.index()];
            for origin in &draft.candidates[range] {
                if let Origin::Of(txn) = origin {
                    changed |= !std::mem::replace(&mut self.included[txn.index()], true);
                    changed |= only && !std::mem::replace(&mut self.forced[txn.index()], true);
                }
            }
        }
        changed
    }
}

/// Versions by item, where each item's begin, and the versions by transaction, as `(txn, version)`.
fn versions(history: &History, draft: &Draft, dense: &[u32]) -> (Vec<Version>, Vec<u32>, Vec<(u32, u32)>) {
    let items = history.object_count() + draft.columns.len();
    let all = draft.writes.iter().map(|&(txn, item)| (dense[txn.index()], item));
    let kept = || all.clone().filter(|&(txn, _)| txn != INITIAL);
    let mut starts = vec![0u32; items + 1];
    kept().for_each(|(_, item)| starts[item.index() + 1] += 1);
    for item in 0..items {
        starts[item + 1] += starts[item] + 1;
    }
    let mut versions: Vec<Version> = Vec::with_capacity(starts[items] as usize);
    for item in (0..items as u32).map(Item) {
        let len = (starts[item.index() + 1] - starts[item.index()]) as usize;
        versions.extend(std::iter::repeat_n(Version { txn: INITIAL, item }, len));
    }
    let mut next: Vec<u32> = starts.iter().map(|start| start + 1).collect();
    let mut written = Vec::with_capacity(draft.writes.len());
    for (txn, item) in kept() {
        let place = &mut next[item.index()];
        versions[*place as usize].txn = txn;
        written.push((txn, *place));
        *place += 1;
    }
    (versions, starts, written)
}

/// Where each transaction's versions begin, and the versions, in order.
fn by_txn(mut written: Vec<(u32, u32)>, txns: usize) -> (Vec<u32>, Vec<u32>) {
    debug_assert!(written.is_sorted_by_key(|w| w.0), "drafts are made transaction by transaction");
    written.chunk_by_mut(|one, next| one.0 == next.0).for_each(<[_]>::sort_unstable);
    let mut starts = vec![0u32; txns + 1];
    written.iter().for_each(|&(txn, _)| starts[txn as usize + 1] += 1);
    for txn in 0..txns {
        starts[txn + 1] += starts[txn];
    }
    (starts, written.into_iter().map(|(_, version)| version).collect())
}

/// A value that means that nothing is there: absent, or an empty list.
pub(crate) fn is_nothing(history: &History, value: ValueId) -> bool {
    value == ValueId::NULL || matches!(history.value(value), margay_history::Value::List([]))
}
