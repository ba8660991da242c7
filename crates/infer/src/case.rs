//! From a history to what its reads show: who committed, what each read saw, and which versions
//! certainly precede which.
//!
//! # Algorithm
//! Transactions are visited from the committed ones on ([`crate::visit`]); an unknown one joins
//! when a visited one can only have read from it. A read of a register looks its writer up by
//! value; a scan reads every row of its table ([`crate::scans`]). Reads of lists are collected and
//! handed to [`crate::lists`], which takes the order of versions from the longest. What is certain
//! of the versions of registers is in [`crate::registers`].
//!
//! # Invariants
//! What stands here is certain: another explanation of the history may add to it, never take away.
//! What is not certain (a value that several wrote) is left out and noted in [`Case::open`], so
//! that nobody says `holds` without it.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpId, OpKind, Outcome, TxnId, ValueId, Version};
use margay_levels::{Anomaly, Level};
use margay_verdict::{Budget, Exhausted, Question};

use crate::index::{Index, Use};
use crate::visit::Visit;
use crate::writers::{Writers, Written};
use crate::{Infer, counts_rw, fragment, lists, uncommitted};

/// Why there is no case.
pub(crate) enum Stop {
    /// Something outside the engine's fragment.
    Outside(String),
    /// A limit.
    Limit(Exhausted),
}

impl From<String> for Stop {
    fn from(what: String) -> Self {
        Stop::Outside(what)
    }
}

impl From<Exhausted> for Stop {
    fn from(limit: Exhausted) -> Self {
        Stop::Limit(limit)
    }
}

/// What follows the version that a read saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing that is known.
    Nothing,
    /// This transaction's version.
    Txn(TxnId),
    /// Every version of the object whose place is not known.
    Rest,
}

/// What an operation saw of an object before its transaction wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) txn: TxnId,
    pub(crate) op: OpId,
    pub(crate) object: ObjectId,
    pub(crate) from: Version,
    pub(crate) next: Next,
}

/// A read of a list, as recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRead {
    pub(crate) object: ObjectId,
    pub(crate) txn: TxnId,
    pub(crate) op: OpId,
    pub(crate) value: ValueId,
    /// How much its transaction had appended before.
    pub(crate) own: u32,
}

/// Operations that nothing explains, and what they may be called, the likeliest first.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) names: Vec<Anomaly>,
    pub(crate) ops: Vec<OpId>,
}

/// What the reads of a history show.
pub(crate) struct Case<'h> {
    pub(crate) history: &'h History,
    pub(crate) question: Question,
    pub(crate) uses: Vec<Use>,
    /// Who certainly committed.
    pub(crate) committed: Vec<bool>,
    /// By operation.
    pub(crate) reads: Vec<Read>,
    pub(crate) writers: Writers,
    pub(crate) written: Written,
    /// Pairs of versions of an object: the first is before the second.
    pub(crate) pairs: Vec<(ObjectId, TxnId, TxnId)>,
    /// Which transactions' order says so, for the pairs that [`crate::keys`] gave.
    pub(crate) ordered: HashMap<(ObjectId, TxnId, TxnId), (TxnId, TxnId)>,
    /// Reads, and who also wrote after what they saw, beside what [`Read::next`] tells.
    pub(crate) antis: Vec<(u32, TxnId)>,
    pub(crate) local: Vec<Local>,
    /// Why what stands here is not everything, if it is not.
    pub(crate) open: Option<String>,
    pub(crate) budget: Budget,
}

/// How many findings of one sort are kept.
pub(crate) const FINDINGS_KEPT: usize = 4;

impl<'h> Case<'h> {
    /// # Errors
    /// What of the history is outside the engine's fragment, or the limit that was reached.
    pub(crate) fn new(
        history: &'h History,
        question: Question,
        options: &Infer,
        budget: &Budget,
    ) -> Result<Self, Stop> {
        fragment::check(history)?;
        let mut index = Index::new(history, budget)?;
        let mut visit = Visit::new(history, &index)?;
        visit.run(budget)?;
        let Visit { committed, reads, lists, mut local, open, .. } = visit;
        let writers = Writers::new(history.object_count(), &index.writers, &committed);
        let written = Written::new(history.txn_count(), &index.writers, &committed);
        index.forget_writers();
        let mut case = Self {
            history,
            question,
            uses: index.uses.clone(),
            committed,
            reads,
            writers,
            written,
            pairs: Vec::new(),
            ordered: HashMap::new(),
            antis: Vec::new(),
            local: Vec::new(),
            open,
            budget: budget.clone(),
        };
        lists::infer(&mut case, &index, lists, &mut local, budget)?;
        case.reads.sort_unstable_by_key(|read| (read.op, read.object));
        budget.poll()?;
        case.local = local;
        case.local.sort_by_key(|local| local.ops[0]);
        if question.level == Level::ReadUncommitted {
            uncommitted::restrict(&mut case, &index);
        }
        case.evidence();
        if counts_rw(question.level) {
            case.registers(options);
        }
        Ok(case)
    }

    /// Whether a read is of a row that its scan did not return.
    pub(crate) fn is_predicate(&self, read: &Read) -> bool {
        let op = self.history.op(read.op);
        op.kind == OpKind::Scan && op.accesses.iter().all(|access| access.object != read.object)
    }

    /// Takes only those to have committed of whom the client knows it.
    pub(crate) fn forget_unknown(&mut self) {
        let history = self.history;
        self.committed = history.txns().map(|txn| history.outcome(txn) == Outcome::Committed).collect();
        let mut all: Vec<(ObjectId, TxnId)> = Vec::new();
        for object in history.objects() {
            all.extend(self.writers.of(object).iter().map(|&txn| (object, txn)));
        }
        all.sort_unstable_by_key(|&(object, txn)| (txn, object));
        self.writers = Writers::new(history.object_count(), &all, &self.committed);
        self.written = Written::new(history.txn_count(), &all, &self.committed);
    }

    /// Whether a transaction certainly committed.
    pub(crate) fn has(&self, txn: TxnId) -> bool {
        self.committed[txn.index()]
    }

    /// All that certainly committed.
    pub(crate) fn txns(&self) -> impl Iterator<Item = TxnId> + '_ {
        self.history.txns().filter(|&txn| self.has(txn))
    }

    /// Whether the place of every version is known, but for those that nobody saw.
    pub(crate) fn is_traceable(&self) -> bool {
        let settled = |object: ObjectId| {
            self.uses[object.index()] != Use::Register || self.writers.rest(object).is_empty()
        };
        self.history.objects().all(settled)
    }
}

/// Notes an operation that nothing explains. Of an unknown transaction it shows that it cannot have
/// committed though somebody saw it: no single operation proves that.
pub(crate) fn unexplained(
    history: &History,
    local: &mut Vec<Local>,
    open: &mut Option<String>,
    txn: TxnId,
    op: OpId,
    names: &[Anomaly],
) {
    if history.outcome(txn) == Outcome::Committed {
        local.push(Local { names: names.to_vec(), ops: vec![op] });
    } else {
        open.get_or_insert_with(|| format!("{} was seen and cannot have committed", history.show_txn(txn)));
    }
}
