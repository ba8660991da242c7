//! Version orders and what reads saw, held against what clients saw.
//!
//! # Algorithm
//! Object by object: fold the writers' effects in version order, which gives every version its
//! value; then go through each transaction's operations on the object. Before its own first write
//! an operation sees the version that the certificate picks (or the only one that fits); after it,
//! the version before its own with its own writes so far on top. An operation that shows something
//! of that version saw it, too.
//!
//! # Cost
//! Linear in the history, but for the objects that scans looked at, each of which counts as read.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpId, OpKind, TxnId, ValueId, Version};
use margay_verdict::cell::fold;
use margay_verdict::{Cell, Effect, Fault, Predicates, ReadFrom, Versions};

use super::chain::{Chain, Finder};
use super::order::follows_version_order;
use super::strand::{self, Touch};
use super::summary::Tally;
use super::{Rejected, reject};

/// What tells which version an operation saw before its transaction's own writes.
pub(super) enum Picks<'a> {
    /// The certificate; and values, where it says nothing.
    Listed(HashMap<(OpId, ObjectId), Version>),
    /// The last version before the transaction's begin.
    Before {
        /// By transaction.
        begins: &'a [usize],
        /// Where a transaction's versions appear.
        places: &'a [usize],
    },
}

impl Picks<'_> {
    pub(super) fn listed(reads: &[ReadFrom]) -> Result<Self, Rejected> {
        let mut picks = HashMap::with_capacity(reads.len());
        for read in reads {
            if picks.insert((read.op, read.object), read.version).is_some_and(|old| old != read.version) {
                return reject("the certificate says twice what one operation saw of one object");
            }
        }
        Ok(Picks::Listed(picks))
    }
}

/// Which version an operation saw: rank 0 is the initial one, rank `k` the `k`-th writer's.
pub(super) struct Seen {
    pub(super) op: OpId,
    pub(super) txn: TxnId,
    pub(super) object: ObjectId,
    pub(super) rank: usize,
    /// Not so for an object that a predicate left out.
    pub(super) item: bool,
}

/// One way in which it may have happened.
pub(super) struct Execution<'p> {
    pub(super) predicates: &'p Predicates<'p>,
    pub(super) committed: Vec<bool>,
    /// By object.
    touches: Vec<Touch>,
    /// The writers of every written object, oldest first.
    pub(super) orders: HashMap<ObjectId, Vec<TxnId>>,
    picks: Picks<'p>,
}

impl<'p> Execution<'p> {
    /// Versions in the order in which transactions stand in `order`, which has been checked to be
    /// the committed ones.
    pub(super) fn by_commit_order(
        predicates: &'p Predicates<'p>,
        order: &[TxnId],
        picks: Picks<'p>,
    ) -> Result<Self, Rejected> {
        let history = predicates.history();
        let mut place = vec![usize::MAX; history.txn_count()];
        order.iter().enumerate().for_each(|(i, txn)| place[txn.index()] = i);
        let committed = place.iter().map(|&p| p != usize::MAX).collect();
        let mut execution = Self::unordered(predicates, committed, picks)?;
        execution.orders.values_mut().for_each(|writers| writers.sort_by_key(|t| place[t.index()]));
        execution.evidence()?;
        Ok(execution)
    }

    /// The version orders of a certificate, which must be of exactly the committed writers.
    pub(super) fn by_versions(
        predicates: &'p Predicates<'p>,
        committed: Vec<bool>,
        versions: &Versions,
    ) -> Result<Self, Rejected> {
        let history = predicates.history();
        let picks = Picks::listed(&versions.reads)?;
        let mut execution = Self::unordered(predicates, committed, picks)?;
        let mut missing: HashMap<ObjectId, Vec<TxnId>> = std::mem::take(&mut execution.orders);
        for (object, order) in &versions.orders {
            if object.index() >= history.object_count() {
                return reject("the certificate names an object that the history does not have");
            }
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let writers = missing.remove(object).unwrap_or_default();
            if sorted != writers {
                return reject(format!(
                    "the version order of {} is not of its committed writers",
                    history.show_object(*object)
                ));
            }
            if execution.orders.insert(*object, order.clone()).is_some() {
                return reject(format!("two version orders of {}", history.show_object(*object)));
            }
        }
        // Where one transaction writes an object there is nothing to say.
        for (object, writers) in missing {
            if writers.len() > 1 {
                return reject(format!("there is no version order of {}", history.show_object(object)));
            }
            execution.orders.insert(object, writers);
        }
        execution.evidence()?;
        Ok(execution)
    }

    fn unordered(
        predicates: &'p Predicates<'p>,
        committed: Vec<bool>,
        picks: Picks<'p>,
    ) -> Result<Self, Rejected> {
        let history = predicates.history();
        let mut touches = Vec::new();
        for txn in history.txns().filter(|t| committed[t.index()]) {
            strand::touches(predicates, txn, &mut touches)?;
        }
        touches.sort_unstable_by_key(Touch::place);
        let mut orders: HashMap<ObjectId, Vec<TxnId>> = HashMap::new();
        for touch in touches.iter().filter(|t| t.writes()) {
            let txn = touch.txn;
            let writers = orders.entry(touch.object).or_default();
            if writers.last() != Some(&txn) {
                writers.push(txn);
            }
        }
        Ok(Self { predicates, committed, touches, orders, picks })
    }

    pub(super) fn history(&self) -> &'p History {
        self.predicates.history()
    }

    /// The version orders respect the recorded ones, and commit timestamps.
    fn evidence(&self) -> Result<(), Rejected> {
        let (history, evidence) = (self.history(), self.history().evidence());
        let mut ranks: HashMap<(ObjectId, TxnId), usize> = HashMap::new();
        for order in &evidence.version_orders {
            let writers = self.orders.get(&order.object).into_iter().flatten().enumerate();
            writers.for_each(|(rank, &txn)| _ = ranks.insert((order.object, txn), rank));
        }
        for order in &evidence.version_orders {
            follows_version_order(history, order, |txn| ranks.get(&(order.object, txn)).copied())?;
        }
        if evidence.commits.is_empty() {
            return Ok(());
        }
        for (&object, writers) in &self.orders {
            let stamps: Vec<i64> = writers.iter().filter_map(|&t| evidence.commit(t)).collect();
            if !stamps.is_sorted() {
                return reject(format!(
                    "the version order of {} is against the commit timestamps",
                    history.show_object(object)
                ));
            }
        }
        Ok(())
    }

    /// What every operation saw, if that explains what every client saw.
    pub(super) fn explain(&self) -> Result<Vec<Seen>, Rejected> {
        let (mut seen, mut tally) = (Vec::new(), Tally::new(self.predicates));
        for touches in self.touches.chunk_by(|a, b| a.object == b.object) {
            self.predicates.budget().poll()?;
            Thread::new(self, touches)?.explain(&mut seen, &mut tally)?;
        }
        tally.finish(|txn| self.committed[txn.index()])?;
        Ok(seen)
    }
}

/// One object through the whole execution.
struct Thread<'e, 'p> {
    execution: &'e Execution<'p>,
    history: &'p History,
    object: ObjectId,
    touches: &'e [Touch],
    writers: &'e [TxnId],
    ranks: HashMap<TxnId, usize>,
    chain: Chain,
    finder: Option<Finder>,
}

impl<'e, 'p> Thread<'e, 'p> {
    fn new(execution: &'e Execution<'p>, touches: &'e [Touch]) -> Result<Self, Rejected> {
        let history = execution.history();
        let object = touches[0].object;
        let writers: &[TxnId] = execution.orders.get(&object).map_or(&[], |writers| writers);
        let ranks = writers.iter().enumerate().map(|(i, &txn)| (txn, i + 1)).collect();
        let grows = touches.iter().all(|t| !t.kind.writes() || t.kind == OpKind::Append);
        let chain = Chain::new(history, object, grows);
        let mut thread = Self { execution, history, object, touches, writers, ranks, chain, finder: None };
        thread.build()?;
        Ok(thread)
    }

    /// The touches of one transaction, in program order.
    fn strand(&self, txn: TxnId) -> &'e [Touch] {
        let ops = self.history.op_range(txn);
        let start = self.touches.partition_point(|t| t.op.0 < ops.start);
        let end = self.touches.partition_point(|t| t.op.0 < ops.end);
        &self.touches[start..end]
    }

    fn build(&mut self) -> Result<(), Rejected> {
        for &txn in self.writers {
            self.execution.predicates.budget().poll()?;
            let mut own = Vec::new();
            for touch in self.strand(txn) {
                if touch.writes() {
                    self.add_effect(txn, touch, &mut own)?;
                }
            }
            self.chain.push(self.history, &own);
        }
        Ok(())
    }

    fn add_effect(&self, txn: TxnId, touch: &Touch, own: &mut Vec<Effect>) -> Result<(), Rejected> {
        let op = self.history.op(touch.op);
        let cell = match op.kind {
            OpKind::Update if !touch.left_out() => self.update_sees(txn, touch, own)?,
            _ => Cell::ABSENT,
        };
        own.extend(strand::effect(self.execution.predicates, &op, touch, &cell)?);
        Ok(())
    }

    /// An update computes from what it saw: its own earlier writes on the version before its own,
    /// or the version picked for it.
    fn update_sees(&self, txn: TxnId, touch: &Touch, own: &[Effect]) -> Result<Cell, Rejected> {
        if !own.is_empty() {
            return Ok(self.own_view(txn, own));
        }
        let rank = self.picked(txn, touch)?.unwrap_or(self.ranks[&txn] - 1);
        match rank < self.ranks[&txn] {
            true => Ok(self.chain.cell(rank).into_owned()),
            false => {
                reject(format!("{} updates a version that comes after its own", self.history.show_txn(txn)))
            }
        }
    }

    fn own_view(&self, txn: TxnId, own: &[Effect]) -> Cell {
        let before = self.chain.cell(self.ranks[&txn] - 1).into_owned();
        own.iter().fold(before, |cell, effect| fold(self.history, cell, effect))
    }

    fn explain(mut self, seen: &mut Vec<Seen>, tally: &mut Tally<'_>) -> Result<(), Rejected> {
        let strands = self.touches.chunk_by(|a, b| a.txn == b.txn);
        for strand in strands.collect::<Vec<_>>() {
            self.execution.predicates.budget().poll()?;
            let txn = strand[0].txn;
            let mut own = Vec::new();
            for touch in strand {
                self.observe(txn, touch, &own, seen, tally)?;
                if touch.writes() {
                    self.add_effect(txn, touch, &mut own)?;
                }
            }
        }
        Ok(())
    }

    fn observe(
        &mut self,
        txn: TxnId,
        touch: &Touch,
        own: &[Effect],
        seen: &mut Vec<Seen>,
        tally: &mut Tally<'_>,
    ) -> Result<(), Rejected> {
        if matches!(touch.kind, OpKind::Write | OpKind::Append) {
            return Ok(());
        }
        let rejected = |fault: Fault| Rejected(fault.show(self.history));
        if !own.is_empty() {
            if self.recorded(touch).is_some_and(|version| version != Version::Of(txn)) {
                return reject(format!(
                    "{} saw its own version, not the recorded one",
                    self.history.show_txn(txn)
                ));
            }
            let cell = self.own_view(txn, own);
            tally.add(touch.op, self.object, &cell)?;
            strand::explain(self.execution.predicates, touch, &cell).map_err(rejected)?;
            if strand::shows_version_before(self.history, touch, own) {
                seen.push(self.version_before(txn, touch)?);
            }
            return Ok(());
        }
        let rank = self.resolve(txn, touch)?;
        tally.add(touch.op, self.object, &self.chain.cell(rank))?;
        strand::explain(self.execution.predicates, touch, &self.chain.cell(rank)).map_err(rejected)?;
        seen.push(Seen { op: touch.op, txn, object: self.object, rank, item: !touch.left_out() });
        Ok(())
    }

    /// What stands beside the own writes was seen: the version before the own one, which must then
    /// be the one at the begin point, where there is one.
    fn version_before(&self, txn: TxnId, touch: &Touch) -> Result<Seen, Rejected> {
        let rank = self.ranks[&txn] - 1;
        if let Picks::Before { begins, places } = &self.execution.picks
            && let Some(&last) = rank.checked_sub(1).and_then(|place| self.writers.get(place))
            && places[last.index()] >= begins[txn.index()]
        {
            return reject(format!(
                "{} saw what {} made of {}, which committed after its begin point",
                self.history.show_txn(txn),
                self.history.show_txn(last),
                self.history.show_object(self.object)
            ));
        }
        Ok(Seen { op: touch.op, txn, object: self.object, rank, item: true })
    }

    fn recorded(&self, touch: &Touch) -> Option<Version> {
        let set = self.history.evidence().version_set(touch.op)?;
        set.versions.iter().find(|(object, _)| *object == self.object).map(|v| v.1)
    }

    /// The version that evidence or the certificate says it saw.
    fn picked(&self, txn: TxnId, touch: &Touch) -> Result<Option<usize>, Rejected> {
        let listed = match &self.execution.picks {
            Picks::Before { begins, places } => {
                let begin = begins[txn.index()];
                Some(self.writers.partition_point(|w| places[w.index()] < begin))
            }
            Picks::Listed(picks) => match picks.get(&(touch.op, self.object)) {
                Some(&version) => Some(self.rank(version)?),
                None => None,
            },
        };
        let recorded = self.recorded(touch).map(|version| self.rank(version)).transpose()?;
        match (listed, recorded) {
            (Some(listed), Some(recorded)) if listed != recorded => reject(format!(
                "{} saw another version of {} than the recorded one",
                self.history.show_txn(txn),
                self.history.show_object(self.object)
            )),
            (listed, recorded) => Ok(listed.or(recorded)),
        }
    }

    fn rank(&self, version: Version) -> Result<usize, Rejected> {
        let found = match version {
            Version::Initial => Some(0),
            Version::Of(txn) => self.ranks.get(&txn).copied(),
        };
        found.ok_or_else(|| {
            Rejected(format!("there is no such version of {}", self.history.show_object(self.object)))
        })
    }

    /// The version that an operation saw before its transaction's own writes.
    fn resolve(&mut self, txn: TxnId, touch: &Touch) -> Result<usize, Rejected> {
        let rank = match self.picked(txn, touch)? {
            Some(rank) => rank,
            None => self.by_value(txn, touch)?,
        };
        match self.ranks.get(&txn) == Some(&rank) {
            true => reject(format!("{} saw its own version before making it", self.history.show_txn(txn))),
            false => Ok(rank),
        }
    }

    fn by_value(&mut self, txn: TxnId, touch: &Touch) -> Result<usize, Rejected> {
        let op = self.history.op(touch.op);
        let fits = |chain: &Chain, rank: usize| {
            strand::explain(self.execution.predicates, touch, &chain.cell(rank)).is_ok()
        };
        if op.kind == OpKind::Update && !touch.left_out() {
            return Ok(self.ranks[&txn] - 1);
        }
        if touch.left_out() && fits(&self.chain, 0) {
            return Ok(0);
        }
        let observed = touch.access(&op).map_or(ValueId::UNKNOWN, |access| access.value);
        let found: Vec<usize> = match touch.left_out() {
            true => (0..self.chain.len()).collect(),
            false => {
                let new = || Finder::new(self.history, self.object, &self.chain);
                self.finder.get_or_insert_with(new).find(self.history, &self.chain, observed)
            }
        };
        let own = self.ranks.get(&txn).copied();
        let mut fitting = found.into_iter().filter(|&rank| Some(rank) != own && fits(&self.chain, rank));
        match (fitting.next(), fitting.next()) {
            (Some(rank), None) => Ok(rank),
            (first, _) => self.unresolved(txn, observed, first.is_some()),
        }
    }

    fn unresolved(&self, txn: TxnId, observed: ValueId, several: bool) -> Result<usize, Rejected> {
        let (who, what) = (self.history.show_txn(txn), self.history.show_object(self.object));
        match several {
            true => reject(format!(
                "several versions of {what} may be what {who} saw, and the certificate does not say which"
            )),
            false => reject(format!(
                "no version of {what} is what {who} saw ({})",
                self.history.show_value(observed)
            )),
        }
    }
}
